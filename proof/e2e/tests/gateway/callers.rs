//! Who is asking: tokens, certificates, sessions; and what each of them may.

use std::net::SocketAddr;
use std::sync::Arc;

use persys_cluster::input::Ask;
use persys_e2e::gateway;
use persys_e2e::stack::{Stack, Wire};
use persys_gateway::app::Running;
use persys_gateway::caller::Caller;
use persys_identity::{Name, Role};
use persys_model::entry::{Binding, Entry, Scope, Subject, UserRole};
use persys_model::id::{EntryName, SubjectName};
use reqwest::{Certificate, Client, ClientBuilder, Identity};
use serde_json::{Value, json};

use super::{container, told};

struct Secure {
    stack: Stack,
    gateway: Running,
}

impl Secure {
    async fn start() -> Self {
        let mut stack = Stack::start(Wire::Mtls).await;
        stack.add_agent("n1").await;
        let gateway = gateway::start(&stack, |config| config.public_is_plain = false).await;
        let secure = Self { stack, gateway };
        secure.bind("ada", UserRole::Admin).await;
        secure.bind("vera", UserRole::Viewer).await;
        secure
    }

    async fn bind(&self, user: &str, role: UserRole) {
        let entry = Entry::Binding(Binding {
            name: EntryName::new(&format!("of-{user}")).unwrap(),
            subject: Subject::User(SubjectName::new(user).unwrap()),
            role,
            scope: Scope::Cluster,
        });
        self.stack.scheduler.handle.ask(Ask::Keep(Arc::new(entry))).await.unwrap();
    }

    /// A client that trusts this cluster, and shows the certificate of this user, if any.
    fn client(&self, at: SocketAddr, user: Option<(Role, &str)>) -> Client {
        let roots = gateway::file(&self.stack.certificate(Role::Metrics, "roots").unwrap());
        let roots = Certificate::from_pem_bundle(&roots).unwrap();
        let mut client: ClientBuilder =
            Client::builder().no_proxy().tls_certs_only(roots).resolve("gateway.stack", at);
        if let Some((role, name)) = user {
            let pem = gateway::file(&self.stack.certificate(role, name).unwrap());
            client = client.identity(Identity::from_pem(&pem).unwrap());
        }
        client.build().unwrap()
    }

    fn url(at: SocketAddr, path: &str) -> String {
        format!("https://gateway.stack:{}{path}", at.port())
    }

    async fn stop(self) {
        self.gateway.stop().await;
        self.stack.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_and_tokens_carry_the_rights_of_their_users_and_nothing_more() {
    let secure = Secure::start().await;
    let (inner, public) = (secure.gateway.inner.unwrap(), secure.gateway.public);

    // Without a certificate nobody gets as far as a request, where certificates are asked for.
    let bare = secure.client(inner, None).get(Secure::url(inner, "/health")).send().await;
    assert!(bare.is_err());
    let open = secure.client(public, None);
    let (status, _) = told(open.get(Secure::url(public, "/nodes")).send().await.unwrap()).await;
    assert_eq!(status, 401);
    assert_eq!(
        open.get(Secure::url(public, "/health")).send().await.unwrap().status().as_u16(),
        200
    );

    // Both doors take certificates of users, and refuse who is no user.
    for at in [inner, public] {
        let ada = secure.client(at, Some((Role::User, "ada")));
        let (status, who) =
            told(ada.get(Secure::url(at, "/v1/session")).send().await.unwrap()).await;
        assert_eq!((status, &who["who"]), (200, &json!("user ada")), "{who}");
        let agent = secure.client(at, Some((Role::Agent, "n1")));
        let (status, _) = told(agent.get(Secure::url(at, "/nodes")).send().await.unwrap()).await;
        assert_eq!(status, 401);
    }
    first_administrator(&secure, inner).await;
    let vera = secure.client(inner, Some((Role::User, "vera")));
    let (status, _) = told(vera.get(Secure::url(inner, "/nodes")).send().await.unwrap()).await;
    assert_eq!(status, 200);
    let asked = vera.post(Secure::url(inner, "/v1/workloads")).json(&container("web"));
    let (status, problem) = told(asked.send().await.unwrap()).await;
    assert_eq!((status, &problem["code"]), (403, &json!("permission_denied")), "{problem}");
    // Somebody without a binding is somebody, and may nothing.
    let eve = secure.client(inner, Some((Role::User, "eve")));
    let (status, _) = told(eve.get(Secure::url(inner, "/nodes")).send().await.unwrap()).await;
    assert_eq!(status, 403);

    // A token is made by an admin, and works without a certificate until it is revoked.
    let ada = secure.client(inner, Some((Role::User, "ada")));
    let wanted = json!({"user": "robot", "role": "operator", "scope": {"cluster": true}, "ttl_seconds": "3600"});
    let made = ada.post(Secure::url(inner, "/v1/tokens")).json(&wanted).send().await.unwrap();
    let (status, made) = told(made).await;
    assert_eq!(status, 200, "{made}");
    let token = made["token"].as_str().unwrap();
    let with = |token: &str| open.get(Secure::url(public, "/nodes")).bearer_auth(token);
    assert_eq!(with(token).send().await.unwrap().status().as_u16(), 200);
    assert_eq!(with("pu1.wrong.wrong").send().await.unwrap().status().as_u16(), 401);
    // What the gateway answers by itself is for nobody either whom no cluster knows.
    for (verb, path) in [
        ("GET", "/clusters"),
        ("GET", "/clusters/stack"),
        ("GET", "/v1/clusters"),
        ("GET", "/v1/overview"),
        ("POST", "/v1/login-links"),
    ] {
        let ask = |token: &str| {
            let url = Secure::url(public, path);
            open.request(verb.parse().unwrap(), url).bearer_auth(token.to_owned()).send()
        };
        assert_eq!(ask("pu1.wrong.wrong").await.unwrap().status().as_u16(), 401, "{path}");
        assert!(ask(token).await.unwrap().status().is_success(), "{path}");
    }
    let revoked =
        ada.delete(Secure::url(inner, &format!("/v1/tokens/{}", made["id"].as_str().unwrap())));
    assert_eq!(revoked.send().await.unwrap().status().as_u16(), 200);
    assert_eq!(with(token).send().await.unwrap().status().as_u16(), 401);
    secure.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_lets_a_browser_in_once_and_other_sites_cannot_use_its_cookie() {
    let secure = Secure::start().await;
    let public = secure.gateway.public;
    let client = secure.client(public, None);
    let ada = Caller::certified(Role::User, Name::new("ada").unwrap(), None);
    let link = secure.gateway.login_link(ada).unwrap();
    let code = link.rsplit('/').next().unwrap();
    let enter = |code: &str| {
        let request = client.post(Secure::url(public, "/v1/session")).json(&json!({"link": code}));
        request.header("sec-fetch-site", "same-origin").send()
    };
    let entered = enter(code).await.unwrap();
    assert_eq!(entered.status().as_u16(), 201);
    let cookie = entered.headers()["set-cookie"].to_str().unwrap().to_owned();
    for part in ["HttpOnly", "SameSite=Strict", "Secure", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert_eq!(enter(code).await.unwrap().status().as_u16(), 410, "once");
    assert_eq!(enter("guess").await.unwrap().status().as_u16(), 410);

    let session = cookie.split(';').next().unwrap().to_owned();
    let shown = client.get(Secure::url(public, "/v1/session")).header("cookie", &session);
    assert_eq!(told(shown.send().await.unwrap()).await.1["who"], "user ada");
    let ask = |site: Option<&str>, origin: Option<&str>| {
        let mut request = client.post(Secure::url(public, "/v1/workloads")).json(&container("web"));
        request = request.header("cookie", &session);
        for (name, value) in [("sec-fetch-site", site), ("origin", origin)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        request.send()
    };
    for (site, origin) in [
        (Some("cross-site"), None),
        (Some("same-site"), None),
        (None, Some("https://evil.test")),
        (None, None),
    ] {
        let (status, problem) = told(ask(site, origin).await.unwrap()).await;
        assert_eq!((status, &problem["code"]), (403, &json!("cross_site")), "{site:?} {origin:?}");
    }
    assert_eq!(ask(Some("same-origin"), None).await.unwrap().status().as_u16(), 200);

    // Logged out is out.
    let out = client.delete(Secure::url(public, "/v1/session")).header("cookie", &session);
    out.header("sec-fetch-site", "same-origin").send().await.unwrap();
    let shown = client.get(Secure::url(public, "/v1/session")).header("cookie", &session);
    let (status, problem) = told(shown.send().await.unwrap()).await;
    assert_eq!((status, &problem["code"]), (401, &Value::from("unauthenticated")));
    secure.stop().await;
}

/// The first administrator has an operator's certificate and no binding.
async fn first_administrator(secure: &Secure, inner: SocketAddr) {
    let operator = secure.client(inner, Some((Role::Operator, "alice")));
    let (status, _) = told(operator.get(Secure::url(inner, "/nodes")).send().await.unwrap()).await;
    assert_eq!(status, 200);
    let asked = operator.post(Secure::url(inner, "/v1/workloads")).json(&container("op"));
    let (status, answer) = told(asked.send().await.unwrap()).await;
    assert!((200..300).contains(&status), "{status} {answer}");
}

/// The certificate of somebody as a gateway passes it on.
fn chain(pem: &[u8]) -> String {
    let text = String::from_utf8_lossy(pem);
    let (_, rest) = text.split_once("-----BEGIN CERTIFICATE-----").unwrap();
    let (body, _) = rest.split_once("-----END").unwrap();
    body.split_whitespace().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_speaks_for_an_operator_only_with_the_certificate_it_was_shown() {
    use persys_proto::control::v1::ListNodesRequest;
    use persys_proto::control::v1::agent_control_client::AgentControlClient;
    let stack = Stack::start(Wire::Mtls).await;
    let of = |role, name: &str| chain(&gateway::file(&stack.certificate(role, name).unwrap()));
    let (alice, bob) = (of(Role::Operator, "alice"), of(Role::Operator, "bob"));
    let user = of(Role::User, "alice");
    let strange = chain(Stack::strange(Role::Operator, "alice").certificate_pem.as_bytes());
    let rows = [
        (Role::Gateway, "operator/alice", Some(&alice), true),
        (Role::Gateway, "operator/alice", None, false),
        (Role::Gateway, "operator/alice", Some(&bob), false),
        (Role::Gateway, "operator/alice", Some(&user), false),
        (Role::Gateway, "operator/alice", Some(&strange), false),
        (Role::Gateway, "scheduler/alice", Some(&alice), false),
        // From anybody else it counts for nothing.
        (Role::User, "operator/alice", Some(&alice), false),
    ];
    for (role, named, shown, may) in rows {
        let mut client = AgentControlClient::new(stack.channel(role, "gw").await);
        let mut request = tonic::Request::new(ListNodesRequest::default());
        request.metadata_mut().insert("persys-on-behalf-of", named.parse().unwrap());
        if let Some(shown) = shown {
            request.metadata_mut().insert("persys-certificate-chain", shown.parse().unwrap());
        }
        let answer = client.list_nodes(request).await;
        match answer {
            Ok(_) => assert!(may, "{role} {named}"),
            Err(status) => {
                assert!(!may, "{role} {named}: {status}");
                assert_eq!(status.code(), tonic::Code::PermissionDenied, "{role} {named}");
            }
        }
    }
    stack.stop().await;
}
