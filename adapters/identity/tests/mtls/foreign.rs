//! Certificates made elsewhere: with the mapping they are who it says, without it nobody; and what
//! somebody tries who would like to be somebody else.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use persys_identity::{
    ConnectError, Connector, Credentials, Denied, Expected, Name, Role, Source, Watcher,
};
use tempfile::TempDir;

use crate::bench::{ask, authority, call, dial, issue, serve};
use crate::openssl::{Files, OpenSsl};

const NAMES: &str = "\
cluster east
trust-domain example.org
dns:persys-scheduler.persys.local  scheduler  s1
ip:10.9.8.7                        scheduler  s1
dns:*.nodes.example.org            agent      *
ip:10.0.0.5                        agent      node1
cn:ann                             operator   ann
email:bob@example.org              user       bob
uri:https://gw.example.org/        gateway    gw
";

const SCHEDULER: &str =
    "subjectAltName = DNS:persys-scheduler.persys.local,DNS:localhost,IP:10.9.8.7";
const BOTH: &str = "extendedKeyUsage = serverAuth,clientAuth";

struct Site {
    folder: TempDir,
    openssl: OpenSsl,
    names: PathBuf,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let openssl = OpenSsl::at(&folder.path().join("ca"));
        let names = folder.path().join("names");
        fs::write(&names, NAMES).unwrap();
        Self { folder, openssl, names }
    }

    fn source(&self, files: Files) -> Source {
        let Files { certificate, key, roots } = files;
        Source::Separate { certificate, key, roots }.mapped(Some(self.names.clone()))
    }

    fn issue(&self, name: &str, subject: &str, extensions: &[&str]) -> Source {
        self.source(self.openssl.issue(name, subject, extensions))
    }

    fn scheduler(&self) -> Source {
        self.issue("s1", "/CN=persys-scheduler", &[SCHEDULER, BOTH])
    }

    fn node(&self) -> Source {
        self.issue(
            "node1",
            "/CN=compute-agent",
            &["subjectAltName = DNS:node1.nodes.example.org,IP:10.0.0.5", BOTH],
        )
    }

    /// A certificate that its own process could not use, because the mapping has no row for it: what a
    /// stranger holds who has a mapping of their own.
    fn stranger(&self, name: &str, subject: &str, extensions: &[&str], row: &str) -> Credentials {
        let path = self.folder.path().join(format!("{name}.names"));
        fs::write(&path, format!("{NAMES}{row}\n")).unwrap();
        let Files { certificate, key, roots } = self.openssl.issue(name, subject, extensions);
        hold(&Source::Separate { certificate, key, roots }.mapped(Some(path)))
    }
}

fn hold(source: &Source) -> Credentials {
    Credentials::new(source.load(SystemTime::now()).unwrap_or_else(|why| panic!("{why}")))
}

fn agent(name: &'static str) -> Expected {
    Expected::Agent(Name::fixed(name))
}

#[tokio::test]
async fn both_directions_work_with_the_mapping() {
    let site = Site::new();
    let (scheduler, node) = (hold(&site.scheduler()), hold(&site.node()));
    let up = serve(&scheduler).await;
    let told = call(up.address, &node, Expected::Scheduler).await.unwrap();
    assert!(told.starts_with("agent/node1/"), "{told}");
    let down = serve(&node).await;
    let told = call(down.address, &scheduler, agent("node1")).await.unwrap();
    assert!(told.starts_with("scheduler/s1/"), "{told}");
    for (name, subject, extensions, wanted) in [
        ("ann", "/O=Example/CN=ann", &[][..], "operator/ann/"),
        ("bob", "/CN=Robert", &["subjectAltName = email:bob@example.org"][..], "user/bob/"),
        ("gw", "/CN=gw", &["subjectAltName = URI:https://gw.example.org/"][..], "gateway/gw/"),
    ] {
        let caller = hold(&site.issue(name, subject, extensions));
        let told = call(up.address, &caller, Expected::Scheduler).await.unwrap();
        assert!(told.starts_with(wanted), "{told}");
    }
}

/// One side has our certificates, the other has theirs; both trust both authorities.
#[tokio::test]
async fn our_own_certificates_and_theirs_meet() {
    let site = Site::new();
    let ours = issue(&authority(&site.folder.path().join("own"), "east"), Role::Scheduler, "s1");
    let roots = fs::read_to_string(site.folder.path().join("ca/ca.pem")).unwrap() + &ours.roots_pem;
    let both = site.folder.path().join("both.pem");
    fs::write(&both, roots).unwrap();
    let own = Source::Separate {
        certificate: site.folder.path().join("own.crt"),
        key: site.folder.path().join("own.key"),
        roots: both.clone(),
    };
    own.save(&persys_identity::Issued { roots_pem: fs::read_to_string(&both).unwrap(), ..ours })
        .unwrap();
    let own = hold(&own.mapped(Some(site.names.clone())));
    let Files { certificate, key, .. } =
        site.openssl.issue("n", "/CN=x", &["subjectAltName = DNS:node1.nodes.example.org"]);
    let node = Source::Separate { certificate, key, roots: both }.mapped(Some(site.names.clone()));
    let node = hold(&node);
    let (up, down) = (serve(&own).await, serve(&node).await);
    let told = call(up.address, &node, Expected::Scheduler).await.unwrap();
    assert!(told.starts_with("agent/node1/"), "{told}");
    let told = call(down.address, &own, agent("node1")).await.unwrap();
    assert!(told.starts_with("scheduler/s1/"), "{told}");
}

#[tokio::test]
async fn without_the_mapping_the_refusal_names_the_names_and_the_setting() {
    let site = Site::new();
    let Files { certificate, key, roots } =
        site.openssl.issue("n", "/CN=compute-agent", &["subjectAltName = DNS:n1.example.org"]);
    let plain = Source::Separate { certificate, key, roots };
    let why = plain.load(SystemTime::now()).unwrap_err().to_string();
    for part in ["PERSYS_TLS_NAMES", "cn:compute-agent", "dns:n1.example.org"] {
        assert!(why.contains(part), "{part}: {why}");
    }
    let why =
        plain.mapped(Some(site.names.clone())).load(SystemTime::now()).unwrap_err().to_string();
    for part in ["maps to a role", "PERSYS_TLS_NAMES", "dns:n1.example.org", "names"] {
        assert!(why.contains(part), "{part}: {why}");
    }
    // A caller that no row knows: the server says so in its log, the caller only that it was refused.
    let up = serve(&hold(&site.scheduler())).await;
    let stranger = site.stranger("eve", "/CN=eve", &[], "cn:eve operator eve");
    call(up.address, &stranger, Expected::Scheduler).await.unwrap_err();
    up.told.wait("maps to a role").await;
    up.told.wait("cn:eve").await;
}

#[tokio::test]
async fn the_wrong_one_is_refused_by_who_dials() {
    let site = Site::new();
    let (scheduler, node) = (hold(&site.scheduler()), hold(&site.node()));
    let down = serve(&node).await;
    for expected in [agent("node2"), Expected::Scheduler, Expected::Gateway] {
        let wanted = expected.to_string();
        let connector = Connector::tls(&scheduler, expected).unwrap();
        let error = dial(down.address, connector).await.unwrap_err();
        let found = ConnectError::within(&error);
        let Some(ConnectError::WrongPeer { source, .. }) = found else { panic!("{error:?}") };
        let text = source.to_string();
        assert!(text.contains("agent/node1") && text.contains(&wanted), "{text}");
    }
    // A server that no row knows.
    let eve = site.stranger(
        "eve",
        "/CN=eve",
        &["subjectAltName = DNS:scheduler.east"],
        "cn:eve scheduler eve",
    );
    let sly = serve(&eve).await;
    let refused = call(sly.address, &node, Expected::Scheduler).await.unwrap_err();
    assert!(refused.contains("WrongPeer") && refused.contains("Unmapped"), "{refused}");
}

/// The same names from another authority are worth nothing, whichever side shows them.
#[tokio::test]
async fn another_authority_cannot_make_a_mapped_name() {
    let (site, theirs) = (Site::new(), Site::new());
    let up = serve(&hold(&site.scheduler())).await;
    for (name, subject, extensions) in [
        ("ann", "/CN=ann", &[][..]),
        ("n1", "/CN=x", &["subjectAltName = DNS:node1.nodes.example.org"][..]),
    ] {
        let Files { certificate, key, .. } = theirs.openssl.issue(name, subject, extensions);
        // They trust our authority, so that they would be happy with us.
        let roots = site.folder.path().join("both.pem");
        let ours = fs::read_to_string(site.folder.path().join("ca/ca.pem")).unwrap();
        let other = fs::read_to_string(theirs.folder.path().join("ca/ca.pem")).unwrap();
        fs::write(&roots, ours + &other).unwrap();
        let sly = Source::Separate { certificate, key, roots }.mapped(Some(site.names.clone()));
        call(up.address, &hold(&sly), Expected::Scheduler).await.unwrap_err();
    }
    let sly = serve(&hold(&theirs.scheduler())).await;
    let node = hold(&site.node());
    let refused = call(sly.address, &node, Expected::Scheduler).await.unwrap_err();
    assert!(refused.contains("UnknownIssuer") || refused.contains("BadSignature"), "{refused}");
}

/// Names of an agent and of an operator in one certificate, wildcards in certificates, two labels.
#[tokio::test]
async fn a_certificate_cannot_be_more_than_it_is() {
    let site = Site::new();
    let up = serve(&hold(&site.scheduler())).await;
    let own = "cn:own user own";
    for (nth, subject, names, told) in [
        ("a", "/CN=ann", "subjectAltName = DNS:node1.nodes.example.org", "operator/ann by line"),
        ("b", "/CN=own", "subjectAltName = DNS:*.nodes.example.org", "maps to a role"),
        ("c", "/CN=own", "subjectAltName = DNS:a.b.nodes.example.org", "maps to a role"),
        ("d", "/CN=own", "subjectAltName = DNS:nodes.example.org", "maps to a role"),
        ("e", "/CN=own/CN=ann", "subjectAltName = DNS:node1.nodes.example.org", "by line"),
        (
            "f",
            "/CN=own",
            "subjectAltName = URI:spiffe://example.org/west/operator/ann",
            "of another cluster",
        ),
        ("g", "/CN=ann", "subjectAltName = URI:spiffe://example.org/east", "names nobody"),
    ] {
        // What each would be by a mapping of their own does not matter; some would not even load.
        let Files { certificate, key, roots } = site.openssl.issue(nth, subject, &[names]);
        let path = site.folder.path().join(format!("{nth}.names"));
        let rows = match nth {
            "a" | "e" => "cn:ann operator ann",
            "g" => "uri:spiffe://example.org/east operator ann",
            _ => own,
        };
        let cluster = if nth == "f" { "west" } else { "east" };
        let domain = if nth == "g" { "else.org" } else { "example.org" };
        // They know the scheduler, so that it is the scheduler who refuses.
        let known = "dns:persys-scheduler.persys.local scheduler s1";
        let text = format!("cluster {cluster}\ntrust-domain {domain}\n{known}\n{rows}\n");
        fs::write(&path, text).unwrap();
        let source = Source::Separate { certificate, key, roots }.mapped(Some(path));
        call(up.address, &hold(&source), Expected::Scheduler).await.unwrap_err();
        up.told.wait(told).await;
    }
}

#[tokio::test]
async fn the_revoked_are_refused_by_name_and_by_serial() {
    let site = Site::new();
    let scheduler = hold(&site.scheduler());
    let up = serve(&scheduler).await;
    let node = hold(&site.node());
    call(up.address, &node, Expected::Scheduler).await.unwrap();
    let serial = node.current().certificate().serial.to_string();
    for line in ["agent/node1".to_owned(), format!("serial/{serial}")] {
        scheduler.revoked().replace(Denied::of_lines([&line]).unwrap());
        call(up.address, &node, Expected::Scheduler).await.unwrap_err();
        scheduler.revoked().replace(Denied::default());
        call(up.address, &node, Expected::Scheduler).await.unwrap();
    }
    // And the other way: a client does not speak to a revoked server.
    let client = hold(&site.node());
    client.revoked().replace(Denied::of_lines(["scheduler/s1"]).unwrap());
    let refused = call(up.address, &client, Expected::Scheduler).await.unwrap_err();
    assert!(refused.contains("Revoked"), "{refused}");
}

/// An authority that signs any URI cannot make an admin where only mapped names count.
#[tokio::test]
async fn an_identity_uri_from_elsewhere_counts_unless_only_mapped_names_do() {
    let site = Site::new();
    let names = "subjectAltName = URI:spiffe://example.org/east/operator/eve";
    let eve = hold(&site.issue("eve", "/CN=eve", &[names]));
    let up = serve(&hold(&site.scheduler())).await;
    let told = call(up.address, &eve, Expected::Scheduler).await.unwrap();
    assert!(told.starts_with("operator/eve/"), "{told}");
    fs::write(&site.names, format!("only-mapped\n{NAMES}")).unwrap();
    let strict = serve(&hold(&site.scheduler())).await;
    call(strict.address, &eve, Expected::Scheduler).await.unwrap_err();
    strict.told.wait("only-mapped").await;
}

/// A row that goes ends the connections it let in; a faulty file changes nothing and says its lines.
#[tokio::test]
async fn a_changed_mapping_counts_at_once_also_for_open_connections() {
    let site = Site::new();
    let mut watcher = Watcher::open(site.scheduler(), SystemTime::now()).unwrap();
    let up = serve(&watcher.credentials()).await;
    let (ann, node) = (hold(&site.issue("ann", "/CN=ann", &[])), hold(&site.node()));
    let connector = || Connector::tls(&ann, Expected::Scheduler).unwrap();
    let mut open = dial(up.address, connector()).await.unwrap();
    let mut other =
        dial(up.address, Connector::tls(&node, Expected::Scheduler).unwrap()).await.unwrap();
    ask(&mut open).await.unwrap();
    ask(&mut other).await.unwrap();

    fs::write(&site.names, format!("{NAMES}dns:Bad agent x\n")).unwrap();
    let event = watcher.check(SystemTime::now()).unwrap();
    let text = event.to_string();
    assert!(event.name() == "tls_reload_failed" && text.contains("line 10"), "{text}");
    assert!(watcher.credentials().trouble(SystemTime::now()).unwrap().contains("line 10"));
    assert!(watcher.check(SystemTime::now()).is_none(), "told twice");
    ask(&mut open).await.unwrap();

    fs::write(&site.names, NAMES.replace("cn:ann ", "cn:eve ")).unwrap();
    let event = watcher.check(SystemTime::now()).unwrap();
    assert_eq!(event.name(), "tls_names_reloaded");
    until_refused(&mut open).await;
    ask(&mut other).await.unwrap();
    call(up.address, &ann, Expected::Scheduler).await.unwrap_err();

    // One that would make this process somebody else is not taken.
    fs::write(&site.names, NAMES.replace("scheduler  s1", "scheduler  s2")).unwrap();
    let event = watcher.check(SystemTime::now()).unwrap();
    assert!(event.to_string().contains("restart to become somebody else"), "{event}");
}

async fn until_refused(client: &mut crate::bench::Client) {
    for _ in 0..1_000 {
        if ask(client).await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("still let in");
}

#[test]
fn files_that_others_can_write_are_not_read_and_wrong_purposes_are_said() {
    use std::os::unix::fs::PermissionsExt as _;
    let site = Site::new();
    let source = site.scheduler();
    let mode =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(&site.names, 0o666);
    let why = source.load(SystemTime::now()).unwrap_err().to_string();
    assert!(why.contains("chmod go-w"), "{why}");
    mode(&site.names, 0o644);
    source.load(SystemTime::now()).unwrap();
    let only =
        site.issue("s2", "/CN=persys-scheduler", &[SCHEDULER, "extendedKeyUsage = serverAuth"]);
    let why = only.load(SystemTime::now()).unwrap_err().to_string();
    assert!(why.contains("clientAuth"), "{why}");
}
