//! Certificates from a server that speaks Vault's protocol and fails the way Vault does.

#![allow(clippy::unwrap_used, reason = "a test may stop")]
#![allow(clippy::indexing_slicing, reason = "a test may stop")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use persys_identity::renew::Pace;
use persys_identity::vault::{Auth, Secret, Settings, VaultIssuer};
use persys_identity::{
    Authority, ClusterName, Grant, Identity, Renewer, Role, Source, TrustDomain, Validity,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// How the server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Well,
    Sealed,
    /// Knows `issue`, but not `sign`.
    Old,
    /// The same, and says so as if it were broken.
    Gruff,
    /// The role does not allow our identity.
    Strict,
    /// Answers with something that is not JSON.
    Odd,
}

struct Double {
    authority: Authority,
    mood: Mutex<Mood>,
    /// Tokens that are good.
    tokens: Mutex<Vec<String>>,
    asked: Mutex<Vec<(String, Value)>>,
    logins: Mutex<usize>,
}

struct Bench {
    folder: tempfile::TempDir,
    double: Arc<Double>,
    address: SocketAddr,
    _serving: JoinSet<()>,
}

const SECRET: &str = "6c0f1a2b-secret";

fn open(folder: &Path) -> Authority {
    let (domain, cluster) = (TrustDomain::new("persys.local"), ClusterName::new("east"));
    Authority::open_or_create(folder, &domain.unwrap(), &cluster.unwrap(), SystemTime::now())
        .unwrap()
}

async fn bench() -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let double = Arc::new(Double {
        authority: open(&folder.path().join("vault")),
        mood: Mutex::new(Mood::Well),
        tokens: Mutex::new(vec!["given".to_owned()]),
        asked: Mutex::default(),
        logins: Mutex::default(),
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(answer).with_state(Arc::clone(&double));
    let mut serving = JoinSet::new();
    serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
    Bench { folder, double, address, _serving: serving }
}

fn said(status: u16, body: &Value) -> Response {
    (StatusCode::from_u16(status).unwrap(), body.to_string()).into_response()
}

fn errors(status: u16, text: &str) -> Response {
    said(status, &json!({ "errors": [text] }))
}

async fn answer(
    State(double): State<Arc<Double>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = uri.path().trim_start_matches("/v1/").to_owned();
    double.asked.lock().unwrap().push((path.clone(), body.clone()));
    let mood = *double.mood.lock().unwrap();
    if mood == Mood::Sealed {
        return errors(503, "Vault is sealed");
    }
    if mood == Mood::Odd {
        return (StatusCode::OK, "<html>").into_response();
    }
    if path == "auth/approle/login" {
        if body["secret_id"] != SECRET {
            return errors(400, "invalid role or secret ID");
        }
        let mut logins = double.logins.lock().unwrap();
        *logins += 1;
        let token = format!("by-login-{logins}");
        double.tokens.lock().unwrap().push(token.clone());
        let auth = json!({ "client_token": token, "lease_duration": 3600, "renewable": true });
        return said(200, &json!({ "auth": auth }));
    }
    let shown = headers.get("x-vault-token").and_then(|token| token.to_str().ok());
    let known = double.tokens.lock().unwrap();
    if !shown.is_some_and(|shown| known.iter().any(|token| token == shown)) {
        return errors(403, "permission denied");
    }
    match (path.as_str(), mood) {
        ("auth/token/lookup-self", _) => {
            said(200, &json!({ "data": { "ttl": 3600, "renewable": true } }))
        }
        ("pki/sign/compute-agent", Mood::Strict) => {
            errors(400, "URI spiffe://persys.local/east/agent/n1 not allowed by this role")
        }
        ("pki/sign/compute-agent", Mood::Well) => signed(&double, &body, true),
        ("pki/issue/compute-agent", Mood::Old | Mood::Gruff) => signed(&double, &body, false),
        (_, Mood::Gruff) => said(500, &json!({ "error": "Logical backend path not supported." })),
        _ => errors(404, "unsupported path"),
    }
}

/// What Vault would give: the names that were asked for, as its role allows.
fn signed(double: &Double, body: &Value, with_request: bool) -> Response {
    let identity = Identity::parse(body["uri_sans"].as_str().unwrap()).unwrap();
    let grant = Grant::new(identity.role, identity.name);
    let lifetime = body["ttl"].as_str().unwrap().trim_end_matches('s').parse().unwrap();
    let lifetime = Duration::from_secs(lifetime);
    let validity = Validity { now: SystemTime::now(), lifetime };
    let (authority, root) = (&double.authority, double.authority.root_pem());
    let answer = if with_request {
        let request = body["csr"].as_str().unwrap();
        let signed = authority.sign(request.as_bytes(), &grant, validity).unwrap();
        json!({ "certificate": signed.certificate_pem, "issuing_ca": root, "ca_chain": [root] })
    } else {
        let issued = authority.issue(&grant, validity).unwrap();
        let key = issued.key_pem.as_str();
        let certificate = issued.certificate_pem;
        json!({ "certificate": certificate, "issuing_ca": root, "ca_chain": root, "private_key": key })
    };
    said(200, &json!({ "data": answer }))
}

impl Bench {
    fn settings(&self, auth: Auth) -> Settings {
        Settings {
            address: format!("http://{}", self.address),
            auth,
            mount: "pki".to_owned(),
            role: "compute-agent".to_owned(),
            ttl: Duration::from_hours(24),
            service: "compute-agent".to_owned(),
            domain: None,
            external_ip: Some("10.9.8.7".parse().unwrap()),
            identity: Identity::parse("spiffe://persys.local/east/agent/n1").unwrap(),
        }
    }

    fn renewer(&self, auth: Auth) -> (Source, Renewer) {
        let source = Source::Bundle(self.folder.path().join("n1.pem"));
        let issuer = VaultIssuer::new(self.settings(auth)).unwrap();
        (source.clone(), Renewer::new(source, Arc::new(issuer), Pace::default()))
    }

    fn is(&self, mood: Mood) {
        *self.double.mood.lock().unwrap() = mood;
    }

    fn asked(&self, path: &str) -> Vec<Value> {
        let asked = self.double.asked.lock().unwrap();
        asked.iter().filter(|(at, _)| at == path).map(|(_, body)| body.clone()).collect()
    }
}

fn by_role() -> Auth {
    Auth::AppRole { role_id: "r1".to_owned(), secret_id: Secret::new(SECRET) }
}

#[tokio::test]
async fn a_request_is_signed_and_the_key_stays_here() {
    let bench = bench().await;
    for auth in [Auth::Token(Secret::new("given")), by_role()] {
        let (source, renewer) = bench.renewer(auth);
        let first = renewer.renew(None, SystemTime::now()).await.unwrap();
        assert_eq!(first.identity.role, Role::Agent);
        assert_eq!(source.load(SystemTime::now()).unwrap().certificate(), &first);
        assert!(renewer.ensure(SystemTime::now()).await.unwrap().is_none());
    }
    let asked = bench.asked("pki/sign/compute-agent");
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0]["common_name"], "compute-agent");
    assert_eq!(asked[0]["alt_names"], "n1.agents.east,compute-agent");
    assert_eq!(asked[0]["uri_sans"], "spiffe://persys.local/east/agent/n1");
    assert_eq!((&asked[0]["ip_sans"], &asked[0]["ttl"]), (&json!("10.9.8.7"), &json!("86400s")));
    assert!(asked.iter().all(|body| body["csr"].as_str().unwrap().contains("REQUEST")));
}

#[tokio::test]
async fn a_service_domain_is_part_of_the_common_name() {
    let bench = bench().await;
    let settings = Settings { domain: Some("d.test".to_owned()), ..bench.settings(by_role()) };
    let source = Source::Bundle(bench.folder.path().join("n1.pem"));
    let issuer = Arc::new(VaultIssuer::new(settings).unwrap());
    let renewer = Renewer::new(source, issuer, Pace::default());
    renewer.renew(None, SystemTime::now()).await.unwrap();
    let asked = bench.asked("pki/sign/compute-agent");
    assert_eq!(asked[0]["common_name"], "compute-agent.d.test");
    assert_eq!(asked[0]["alt_names"], "n1.agents.east,compute-agent.d.test");
}

#[tokio::test]
async fn a_server_that_only_issues_will_do() {
    let bench = bench().await;
    for (nth, mood) in [Mood::Old, Mood::Gruff].into_iter().enumerate() {
        bench.is(mood);
        let (source, renewer) = bench.renewer(by_role());
        renewer.renew(None, SystemTime::now()).await.unwrap();
        source.load(SystemTime::now()).unwrap();
        assert_eq!(bench.asked("pki/issue/compute-agent").len(), nth + 1, "{mood:?}");
    }
}

#[tokio::test]
async fn trouble_with_vault_leaves_what_is_in_the_files() {
    let bench = bench().await;
    let (source, renewer) = bench.renewer(by_role());
    renewer.renew(None, SystemTime::now()).await.unwrap();
    let held = source.load(SystemTime::now()).unwrap();
    for (mood, wanted) in [
        (Mood::Sealed, "Vault is sealed"),
        (Mood::Strict, "not allowed by this role"),
        (Mood::Odd, "something else"),
    ] {
        bench.is(mood);
        let refused = renewer.renew(Some(&held), SystemTime::now()).await.unwrap_err();
        assert!(refused.to_string().contains(wanted), "{mood:?}: {refused}");
        let kept = source.load(SystemTime::now()).unwrap();
        assert!(kept.same_as(&held), "{mood:?}");
        // A start needs no Vault while what is kept is good.
        assert!(renewer.ensure(SystemTime::now()).await.unwrap().is_none());
    }
    bench.is(Mood::Well);
    renewer.renew(Some(&held), SystemTime::now()).await.unwrap();
    let (_, wrong) = bench
        .renewer(Auth::AppRole { role_id: "r1".to_owned(), secret_id: Secret::new("guessed") });
    let refused = wrong.renew(Some(&held), SystemTime::now()).await.unwrap_err().to_string();
    assert!(refused.contains("invalid role or secret ID") && !refused.contains("guessed"));
    let down = Settings { address: "http://127.0.0.1:1".into(), ..bench.settings(by_role()) };
    let down = Arc::new(VaultIssuer::new(down).unwrap());
    let down = Renewer::new(source, down, Pace::default());
    let refused = down.renew(Some(&held), SystemTime::now()).await.unwrap_err().to_string();
    assert!(refused.contains("is not reached"), "{refused}");
}

#[tokio::test]
async fn a_login_that_was_taken_back_is_made_anew() {
    let bench = bench().await;
    let (source, renewer) = bench.renewer(by_role());
    renewer.renew(None, SystemTime::now()).await.unwrap();
    let held = source.load(SystemTime::now()).unwrap();
    bench.double.tokens.lock().unwrap().clear();
    renewer.renew(Some(&held), SystemTime::now()).await.unwrap();
    assert_eq!(*bench.double.logins.lock().unwrap(), 2);
    // With a token somebody gave us there is nothing else to log in with.
    let (_, given) = bench.renewer(Auth::Token(Secret::new("withdrawn")));
    let refused = given.renew(Some(&held), SystemTime::now()).await.unwrap_err().to_string();
    assert!(refused.contains("permission denied") && !refused.contains("withdrawn"), "{refused}");
}
