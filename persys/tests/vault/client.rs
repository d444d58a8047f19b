//! Our client and the server: who gets a certificate, and what becomes of the files when nobody does.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use persys_identity::renew::Pace;
use persys_identity::vault::{Auth, Secret, Settings, VaultIssuer};
use persys_identity::{Identity, Renewer, Role, Source};

use crate::server::Server;

/// Somebody who asks the server for certificates as `identity`, into a file.
pub(crate) fn renewer(
    server: &Server,
    auth: Auth,
    (pki_role, identity): (&str, &str),
    file: &Path,
) -> (Source, Renewer) {
    let settings = Settings {
        address: server.url(),
        auth,
        mount: "pki".to_owned(),
        role: pki_role.to_owned(),
        ttl: Duration::from_hours(1),
        service: pki_role.to_owned(),
        domain: None,
        external_ip: None,
        identity: Identity::parse(identity).unwrap(),
    };
    let source = Source::Bundle(file.to_owned());
    let issuer = Arc::new(VaultIssuer::new(settings).unwrap());
    (source.clone(), Renewer::new(source, issuer, Pace::default()))
}

pub(crate) fn by_application((role_id, secret_id): &(String, String)) -> Auth {
    Auth::AppRole { role_id: role_id.clone(), secret_id: Secret::new(secret_id) }
}

const WHO: (&str, &str) = ("compute-agent", "spiffe://persys.local/east/agent/n1");

#[tokio::test(flavor = "multi_thread")]
async fn a_token_and_an_application_get_certificates_and_others_do_not() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let token = Auth::Token(Secret::new(&server.token()));
    let application = server.application();
    for (auth, file) in [(token, "token.pem"), (by_application(&application), "role.pem")] {
        let (source, renewer) = renewer(&server, auth, WHO, &folder.path().join(file));
        let first = renewer.renew(None, SystemTime::now()).await.unwrap();
        assert_eq!(
            (first.identity.role, first.identity.to_string().as_str()),
            (Role::Agent, WHO.1)
        );
        let held = source.load(SystemTime::now()).unwrap();
        assert_eq!(held.certificate(), &first);
        let left = first.not_after.duration_since(SystemTime::now()).unwrap();
        assert!((3_500..=3_600).contains(&left.as_secs()), "an hour was asked for: {left:?}");
        let second = renewer.renew(Some(&held), SystemTime::now()).await.unwrap();
        assert_ne!(second.serial, first.serial);
        assert_eq!(second.identity, first.identity);
    }
    let nowhere = folder.path().join("nobody.pem");
    let guessed = (application.0.clone(), "guessed-secret".to_owned());
    let strangers = [
        (by_application(&guessed), WHO.0, "guessed-secret"),
        (Auth::Token(Secret::new("guessed-token")), WHO.0, "guessed-token"),
        (by_application(&application), "no-such-role", "no secret"),
    ];
    for (auth, role, secret) in strangers {
        let (_, renewer) = renewer(&server, auth, (role, WHO.1), &nowhere);
        let refused = renewer.renew(None, SystemTime::now()).await.unwrap_err().to_string();
        assert!(!refused.contains(secret), "{refused}");
        assert!(!nowhere.exists(), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_the_files_stays_while_the_server_is_gone_or_sealed() {
    let mut server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let auth = by_application(&server.application());
    let (source, renewer) = renewer(&server, auth, WHO, &folder.path().join("n1.pem"));
    renewer.renew(None, SystemTime::now()).await.unwrap();
    let held = source.load(SystemTime::now()).unwrap();
    server.kill();
    let away = renewer.renew(Some(&held), SystemTime::now()).await.unwrap_err().to_string();
    assert!(away.contains("is not reached"), "{away}");
    server.run();
    // It is sealed now, and says so in its own words.
    renewer.renew(Some(&held), SystemTime::now()).await.unwrap_err();
    assert!(source.load(SystemTime::now()).unwrap().same_as(&held));
    // A start needs no server while what is kept is good.
    assert!(renewer.ensure(SystemTime::now()).await.unwrap().is_none());
    server.unseal();
    let next = renewer.renew(Some(&held), SystemTime::now()).await.unwrap();
    assert_ne!(next.serial, held.certificate().serial);
}
