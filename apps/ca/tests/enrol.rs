//! Machines join, renew and are refused, over real connections.

#![allow(clippy::unwrap_used, reason = "a test may stop")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use persys_ca::{Config, Enrolment, FileRegister, Local, Office, Running, client, start};
use persys_identity::issued::Ledger;
use persys_identity::renew::Pace;
use persys_identity::{
    Authority, Bundle, ClusterName, Connector, Credentials, Grant, Issuer as _, Name, NewKey, Pin,
    Renewer, Role, Source, Subject, Token, TrustDomain, Validity,
};
use persys_model::id::EntryName;
use persys_model::join::JoinToken;
use persys_model::time::WallMillis;
use persys_proto::compute::v1 as wire;
use persys_proto::compute::v1::enrol_client::EnrolClient;
use tempfile::TempDir;
use tonic::Code;
use tonic::transport::Endpoint;

struct Bench {
    folder: TempDir,
    ca: PathBuf,
    register: FileRegister,
    running: Running,
}

async fn bench() -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca");
    let (domain, cluster) = (TrustDomain::new("example.org"), ClusterName::new("east"));
    let begun = SystemTime::now() - Duration::from_hours(200);
    Authority::open_or_create(&ca, &domain.unwrap(), &cluster.unwrap(), begun).unwrap();
    let grant = Grant::new(Role::Scheduler, Name::fixed("ca"));
    let local = Local { folder: ca.clone(), grant, lifetime: None };
    let key = NewKey::generate().unwrap();
    let answer = local.issue(None, key.request_pem()).await.unwrap();
    let issued = key.with(answer.certificate, answer.roots, SystemTime::now()).unwrap();
    let credentials = Credentials::new(Bundle::from_issued(&issued, SystemTime::now()).unwrap());
    let register = FileRegister::of(&ca);
    let office = Arc::new(Office::new(ca.clone(), Arc::new(register.clone()), None));
    let listen = "127.0.0.1:0".parse().unwrap();
    let schedulers = vec!["127.0.0.1:8085".to_owned()];
    let running =
        start(Config { listen, credentials, office, schedulers, metrics: Arc::default() })
            .await
            .unwrap();
    Bench { folder, ca, register, running }
}

impl Bench {
    fn authority(&self) -> Authority {
        Authority::open(&self.ca, SystemTime::now()).unwrap()
    }

    fn invite(&self, name: Option<&str>, uses: u32, ttl: Duration) -> Token {
        let token = Token::generate(self.authority().pin().unwrap()).unwrap();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let expires = u64::try_from((now + ttl).as_millis()).unwrap();
        let kept = JoinToken {
            id: EntryName::new(&token.id).unwrap(),
            hash: token.hash().into(),
            role: "agent".into(),
            name: name.map(Into::into),
            expires: WallMillis(expires),
            uses_left: uses,
            uses: Vec::new(),
        };
        self.register.invite(&kept).unwrap();
        token
    }

    fn token(&self) -> Token {
        self.invite(None, 1, Duration::from_hours(1))
    }

    fn address(&self) -> String {
        self.running.address.to_string()
    }

    async fn join(&self, token: &Token, name: &str) -> Result<persys_ca::Joined, String> {
        let joined = client::join(&self.address(), token, name).await;
        joined.map_err(|refused| refused.to_string())
    }

    /// How many members there are besides the authority itself.
    fn members(&self) -> usize {
        let all = Ledger::of(&self.ca).all().unwrap();
        all.iter().filter(|entry| entry.identity.starts_with("agent/")).count()
    }

    async fn refused(&self, token: &Token, name: &str, wanted: &str) {
        let before = self.members();
        let refused = self.join(token, name).await.unwrap_err();
        assert!(refused.contains(wanted), "{refused}");
        assert_eq!(self.members(), before, "nothing is half made");
    }
}

#[tokio::test]
async fn a_machine_joins_with_a_token_once() {
    let bench = bench().await;
    let token = bench.token();
    let joined = bench.join(&token, "n1").await.unwrap();
    let identity = joined.issued.certificate.identity.to_string();
    assert_eq!(identity, "spiffe://example.org/east/agent/n1");
    assert_eq!(joined.schedulers, ["127.0.0.1:8085"]);
    let life = joined.issued.certificate.not_after.duration_since(SystemTime::now()).unwrap();
    assert!(life > Duration::from_hours(23) && life < Duration::from_hours(25));
    bench.refused(&token, "n2", "used already").await;
    assert_eq!(bench.members(), 1);
    let kept = fs::read_to_string(bench.ca.join("register.json")).unwrap();
    assert!(!kept.contains(token.secret()) && kept.contains(&token.hash()));
}

#[tokio::test]
async fn bad_tokens_are_refused_and_guessing_is_slow() {
    let bench = bench().await;
    let good = bench.token();
    let late = bench.invite(None, 1, Duration::ZERO);
    bench.refused(&late, "n1", "expired").await;
    let other = bench.invite(Some("n7"), 1, Duration::from_hours(1));
    bench.refused(&other, "n1", "for n7 alone").await;
    bench.register.uninvite(&late.id).unwrap();
    bench.refused(&late, "n1", "no such token").await;
    let text = good.text();
    let (head, _) = text.rsplit_once('.').unwrap();
    let wrong = Token::parse(&format!("{head}.{}", "0".repeat(40))).unwrap();
    bench.refused(&wrong, "n1", "no such token").await;
    bench.refused(&good, "Not A Name", "is not a name").await;
    bench.refused(&good, "n1", "wait").await;
    assert_eq!(bench.register.tokens().unwrap().iter().map(|one| one.uses_left).sum::<u32>(), 2);
}

#[tokio::test]
async fn the_secret_is_not_said_to_another_authority() {
    let (ours, theirs) = (bench().await, bench().await);
    let token = ours.token();
    let pin = theirs.authority().pin().unwrap();
    let misled = token.clone().with_pin(pin);
    ours.refused(&misled, "n1", "Nothing was sent").await;
    let nobody = token.clone().with_pin(Pin::parse(&"ab".repeat(32)).unwrap());
    ours.refused(&nobody, "n1", "Nothing was sent").await;
    ours.join(&token, "n1").await.unwrap();
}

#[tokio::test]
async fn a_name_is_taken_by_one_and_replaced_only_by_invitation() {
    let bench = bench().await;
    bench.join(&bench.token(), "n1").await.unwrap();
    let token = bench.token();
    bench.refused(&token, "n1", "is a member already").await;
    bench.join(&token, "n2").await.unwrap();
    let named = bench.invite(Some("n1"), 1, Duration::from_hours(1));
    bench.join(&named, "n1").await.unwrap();
}

#[tokio::test]
async fn garbage_and_wide_keys_use_up_nothing() {
    let bench = bench().await;
    let token = bench.token();
    let endpoint = Endpoint::from_shared(format!("http://{}", bench.address())).unwrap();
    let connector = Connector::pinned(token.pin).unwrap();
    let channel = endpoint.connect_with_connector(connector).await.unwrap();
    let mut client = EnrolClient::new(channel);
    let request = |request_pem: &str| wire::JoinRequest {
        token_id: token.id.clone(),
        token_secret: token.secret().to_owned(),
        request_pem: request_pem.to_owned(),
        name: "n1".to_owned(),
    };
    let refused = client.join(request("garbage")).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    let refused = client.join(request(&"x".repeat(40_000))).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange, "{refused}");
    let renewal = wire::RenewRequest {
        certificate_pem: "garbage".to_owned(),
        request_pem: "garbage".to_owned(),
        proof: vec![1, 2, 3],
    };
    let refused = client.renew(renewal).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");

    let key = bench.ca.join("authority.pem");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    bench.refused(&token, "n1", "cannot sign at present").await;
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    bench.join(&token, "n1").await.unwrap();
}

#[tokio::test]
async fn a_member_renews_with_what_it_holds_until_it_is_revoked() {
    let bench = bench().await;
    let source = Source::Bundle(bench.folder.path().join("n1.pem"));
    source.save(&bench.join(&bench.token(), "n1").await.unwrap().issued).unwrap();
    let enrolment = Arc::new(Enrolment::at(vec!["127.0.0.1:1".into(), bench.address()]));
    let renewer = Renewer::new(source.clone(), enrolment, Pace::default());
    let now = SystemTime::now();
    let held = source.load(now).unwrap();
    let next = renewer.renew(Some(&held), now).await.unwrap();
    assert_eq!(&next.identity, held.identity());
    assert_eq!(bench.members(), 2);

    // One that has ended is renewed for a while; one that ended long ago is not.
    for (ended, renewed) in [(24, true), (100, false)] {
        let begun = now - Duration::from_hours(24 + ended);
        let validity = Validity { now: begun, lifetime: Duration::from_hours(24) };
        let old = bench.authority().issue(&Grant::new(Role::Agent, Name::fixed("n1")), validity);
        source.save(&old.unwrap()).unwrap();
        assert_eq!(renewer.ensure(now).await.is_ok(), renewed, "{ended} hours ago");
    }
    source.save(&bench.join(&bench.token(), "n3").await.unwrap().issued).unwrap();
    bench.register.revoke(&Subject::parse("agent/n3").unwrap(), "stolen").unwrap();
    let held = source.load(now).unwrap();
    let refused = renewer.renew(Some(&held), now).await.unwrap_err().to_string();
    assert!(refused.contains("was revoked"), "{refused}");
    bench.refused(&bench.token(), "n3", "was revoked").await;
}

#[tokio::test]
async fn a_new_root_reaches_members_before_it_issues() {
    let bench = bench().await;
    let source = Source::Bundle(bench.folder.path().join("n1.pem"));
    source.save(&bench.join(&bench.token(), "n1").await.unwrap().issued).unwrap();
    let now = SystemTime::now();
    let enrolment = Enrolment::at(vec![bench.address()]);
    let first = source.load(now).unwrap();
    bench.authority().prepare(now).unwrap();
    let (roots, denied) = enrolment.trust(first.clone()).await.unwrap();
    assert_eq!(roots.matches("BEGIN CERTIFICATE").count(), 2);
    assert_eq!(denied.lines().len(), 0);
    source.save_roots(&roots, now).unwrap();
    bench.authority().switch(now).unwrap();
    let renewer = Renewer::new(source.clone(), Arc::new(enrolment), Pace::default());
    renewer.renew(Some(&first), now).await.unwrap();
    let second = source.load(now).unwrap();
    assert_ne!(second.issuer_pin(), first.issuer_pin());
}
