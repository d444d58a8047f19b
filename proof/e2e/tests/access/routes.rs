//! Every route of the gateway for every caller.
//!
//! The routes are those the gateway describes itself with; one that has no line in the list fails.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use futures::StreamExt as _;
use persys_e2e::gateway;
use persys_e2e::stack::{Stack, Wire};
use persys_gateway::app::Running;
use persys_identity::{Issued, Role};
use persys_model::entry::UserRole;
use reqwest::{Certificate, Client, Identity, Method};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};

use crate::call::{WEB, bind, deny, expire, namespace, revoke, token};

/// Requests at a time.
const AT_ONCE: usize = 8;
const PATIENCE: Duration = Duration::from_secs(20);

/// A way of asking, and where.
type Route = (String, String);

/// Who may ask what, as it was written by hand.
fn expected() -> BTreeMap<Route, String> {
    let lines = include_str!("routes.txt").lines().filter(|line| !line.starts_with('#'));
    let rows: Vec<_> = lines
        .map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            ((words[0].to_owned(), words[1].to_owned()), words[2].to_owned())
        })
        .collect();
    let count = rows.len();
    let map: BTreeMap<_, _> = rows.into_iter().collect();
    assert_eq!(map.len(), count, "a route stands twice");
    map
}

/// The line of a route: it holds with the cluster in the path too.
fn line_of(path: &str) -> String {
    let inside = |prefix: &str, rest: &str| format!("{prefix}{rest}");
    if let Some(rest) = path.strip_prefix("/v1/clusters/{cluster_id}/") {
        return inside("/v1/", rest);
    }
    match path.strip_prefix("/clusters/{cluster_id}/") {
        Some(rest) => inside("/", rest),
        None => path.to_owned(),
    }
}

/// Every route there is, as the gateway says.
async fn routes(client: &Client, at: SocketAddr) -> BTreeSet<Route> {
    let url = format!("http://{at}/openapi.json");
    let text = client.get(url).send().await.unwrap().text().await.unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let verbs = |(path, operations): (&String, &Value)| {
        let verbs: Vec<_> = operations.as_object().unwrap().keys().cloned().collect();
        let path = path.clone();
        verbs.into_iter().map(move |verb| (verb.to_uppercase(), path.clone()))
    };
    paths.iter().flat_map(verbs).collect()
}

/// Somebody who asks, and the letter they have in the list: without one they are somebody, `-` is
/// nobody, and `!` does not even get a connection.
struct Asker {
    what: &'static str,
    letter: &'static str,
    client: Client,
    at: SocketAddr,
    /// Shows a certificate, where that is asked for.
    is_private: bool,
    token: Option<String>,
}

impl Asker {
    fn may(&self, who: &str) -> bool {
        match self.letter {
            "!" => false,
            "-" => who == "*",
            letter => who == "*" || who == "k" || (!letter.is_empty() && who.contains(letter)),
        }
    }

    /// Whether a request got past those who judge it; whatever is made of it then is another matter.
    async fn asks(&self, (verb, path): &Route) -> (bool, String) {
        let path = filled(path);
        if path.ends_with("/exec?argv=ls") || path.ends_with("/console") {
            return self.opens(&path).await;
        }
        let scheme = if self.is_private { "https" } else { "http" };
        let host =
            if self.is_private { "gateway.stack".to_owned() } else { self.at.ip().to_string() };
        let url = format!("{scheme}://{host}:{}{path}", self.at.port());
        let verb: Method = verb.parse().unwrap();
        let has_body = verb == Method::POST || verb == Method::PUT;
        let mut request = self.client.request(verb, url).header("sec-fetch-site", "same-origin");
        if has_body && takes_body(&path) {
            request = request.json(&json!({}));
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        match request.timeout(PATIENCE).send().await {
            Err(fault) => (false, format!("{fault:?}")),
            Ok(answer) => {
                let status = answer.status().as_u16();
                (!matches!(status, 401 | 403 | 429), status.to_string())
            }
        }
    }

    /// The same for what is asked by a WebSocket.
    async fn opens(&self, path: &str) -> (bool, String) {
        let mut request = format!("ws://{}{path}", self.at).into_client_request().unwrap();
        if let Some(token) = &self.token {
            let value = format!("Bearer {token}").parse().unwrap();
            request.headers_mut().insert("authorization", value);
        }
        let mut socket = match tokio_tungstenite::connect_async(request).await {
            Ok((socket, _)) => socket,
            Err(SocketError::Http(answer)) => {
                let status = answer.status().as_u16();
                return (!matches!(status, 401 | 403 | 429), status.to_string());
            }
            Err(fault) => return (false, fault.to_string()),
        };
        while let Ok(Some(Ok(message))) = tokio::time::timeout(PATIENCE, socket.next()).await {
            if let Message::Text(text) = message {
                let told: Value = serde_json::from_str(&text).unwrap();
                let status = told["problem"]["status"].as_u64().unwrap_or(200);
                return (!matches!(status, 401 | 403 | 429), told.to_string());
            }
        }
        (true, "nothing was told".to_owned())
    }
}

/// Nothing of these names is there.
fn filled(path: &str) -> String {
    let mut filled = path.replace("{cluster_id}", "stack").replace("{verdict}", "ignore");
    for name in ["{id}", "{name}", "{node_id}", "{workload_id}"] {
        filled = filled.replace(name, "none");
    }
    if filled.ends_with("/exec") {
        return filled + "?argv=ls";
    }
    // Secrets are of a namespace: the one that some of them have a role in.
    let of_namespace = filled.contains("/secrets");
    if of_namespace { format!("{filled}?namespace={WEB}") } else { filled }
}

/// Where there is nothing to say, a body is refused before anybody looks at who sends it.
fn takes_body(path: &str) -> bool {
    let bare = [
        "/retry",
        "/restart",
        "/pause",
        "/resume",
        "/stop",
        "/start",
        "/confirm-gone",
        "/drifts/check",
        "/ignore",
        "/rotate-secrets-key",
    ];
    !bare.iter().any(|end| path.ends_with(end))
}

struct Site {
    stack: Stack,
    gateway: Running,
}

impl Site {
    async fn start() -> Self {
        let stack = Stack::start(Wire::Mtls).await;
        let gateway = gateway::start(&stack, |config| {
            config.limits.requests_per_second = 1_000_000;
        });
        let gateway = gateway.await;
        namespace(&stack, WEB).await;
        Self { stack, gateway }
    }

    /// Somebody who shows a certificate at the door that asks for one.
    fn shows(&self, what: &'static str, letter: &'static str, issued: &Issued) -> Asker {
        let roots = Certificate::from_pem_bundle(
            self.stack.issued(Role::Metrics, "roots").unwrap().roots_pem.as_bytes(),
        );
        let pem = format!("{}{}", issued.key_pem.as_str(), issued.certificate_pem);
        let at = self.gateway.inner.unwrap();
        let client = Client::builder()
            .no_proxy()
            .tls_certs_only(roots.unwrap())
            .identity(Identity::from_pem(pem.as_bytes()).unwrap())
            .resolve("gateway.stack", at);
        let client = client.build().unwrap();
        Asker { what, letter, client, at, is_private: true, token: None }
    }

    fn with(&self, what: &'static str, letter: &'static str, token: Option<String>) -> Asker {
        let client = Client::builder().no_proxy().build().unwrap();
        Asker { what, letter, client, at: self.gateway.public, is_private: false, token }
    }

    async fn known(&self) -> Vec<Asker> {
        let stack = &self.stack;
        let mut all = vec![self.with("nobody", "-", None)];
        for (what, role, name, letter) in [
            ("operator's certificate", Role::Operator, "alice", "A"),
            ("scheduler", Role::Scheduler, "s1", "-"),
            ("agent", Role::Agent, "n1", "-"),
            ("another gateway", Role::Gateway, "g2", "-"),
            ("metrics", Role::Metrics, "prometheus", "-"),
            ("user without a role", Role::User, "eve", ""),
            ("user, viewer", Role::User, "vera", "V"),
            ("user, operator in web", Role::User, "olga", "o"),
            ("user, admin", Role::User, "ada", "A"),
        ] {
            all.push(self.shows(what, letter, &stack.issued(role, name).unwrap()));
        }
        bind(stack, "vera", UserRole::Viewer, &[]).await;
        bind(stack, "olga", UserRole::Operator, &[WEB]).await;
        bind(stack, "ada", UserRole::Admin, &[]).await;
        for (what, role, at, letter) in [
            ("token, viewer", UserRole::Viewer, &[][..], "V"),
            ("token, viewer in web", UserRole::Viewer, &[WEB], "v"),
            ("token, operator", UserRole::Operator, &[], "O"),
            ("token, operator in web", UserRole::Operator, &[WEB], "o"),
            ("token, admin", UserRole::Admin, &[], "A"),
            ("token, admin in web", UserRole::Admin, &[WEB], "a"),
            ("token, auditor", UserRole::Auditor, &[], "U"),
        ] {
            let (_, text) = token(stack, role, at).await;
            all.push(self.with(what, letter, Some(text)));
        }
        all
    }

    /// Those who were believed once, and those who never were. The source of bad tokens is not
    /// listened to after a while, so they come last.
    async fn disbelieved(&self) -> Vec<Asker> {
        let stack = &self.stack;
        let mut all = Vec::new();
        for (what, name, by_serial) in
            [("revoked user", "rita", false), ("user with a revoked certificate", "sara", true)]
        {
            bind(stack, name, UserRole::Admin, &[]).await;
            let issued = stack.issued(Role::User, name).unwrap();
            let asker = self.shows(what, "-", &issued);
            let before = asker.asks(&("GET".to_owned(), "/v1/whoami".to_owned())).await;
            assert!(before.0, "{what}: {before:?}");
            let serial = format!("serial/{}", issued.certificate.serial);
            deny(stack, &if by_serial { serial } else { format!("user/{name}") }).await;
            all.push(asker);
        }
        let issued = stack.issued(Role::Operator, "otto").unwrap();
        let asker = self.shows("revoked operator", "-", &issued);
        let before = asker.asks(&("GET".to_owned(), "/v1/whoami".to_owned())).await;
        assert!(before.0, "revoked operator: {before:?}");
        deny(stack, "operator/otto").await;
        all.push(asker);
        bind(stack, "xenia", UserRole::Admin, &[]).await;
        let expired = stack.expired(Role::User, "xenia").unwrap();
        all.push(self.shows("expired certificate", "!", &expired));
        let strange = Stack::strange(Role::User, "xenia");
        all.push(self.shows("certificate of another authority", "!", &strange));
        let (revoked, text) = token(stack, UserRole::Admin, &[]).await;
        revoke(stack, &revoked).await;
        all.push(self.with("revoked token", "-", Some(text)));
        let (old, text) = token(stack, UserRole::Admin, &[]).await;
        expire(stack, &old).await;
        all.push(self.with("expired token", "-", Some(text)));
        all.push(self.with("token nobody made", "-", Some("pu1.abcdef.abcdef".to_owned())));
        all
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_lets_through_exactly_whom_the_list_says() {
    let expected = expected();
    let site = Site::start().await;
    let bare = Client::builder().no_proxy().build().unwrap();
    let routes = routes(&bare, site.gateway.public).await;
    let lines = routes.iter().map(|(verb, path)| (verb.clone(), line_of(path)));
    let lines: BTreeSet<_> = lines.collect();
    let without: Vec<_> = lines.iter().filter(|line| !expected.contains_key(line)).collect();
    assert!(without.is_empty(), "nobody said who may ask for {without:?}");
    assert!(routes.len() > 100, "{}", routes.len());

    let (mut wrong, mut asked, mut kinds) = (Vec::new(), 0, 0);
    let mut judge = async |askers: Vec<Asker>| {
        for asker in &askers {
            kinds += 1;
            // A WebSocket is asked for at the door without certificates alone.
            let fits = |(_, path): &&Route| {
                !asker.is_private || !(path.ends_with("/exec") || path.ends_with("/console"))
            };
            let answers = futures::stream::iter(routes.iter().filter(fits))
                .map(async |route| (route, asker.asks(route).await))
                .buffer_unordered(AT_ONCE);
            let answers: Vec<_> = answers.collect().await;
            for ((verb, path), (admitted, told)) in answers {
                asked += 1;
                let who = &expected[&(verb.clone(), line_of(path))];
                let may = asker.may(who);
                if admitted != may {
                    let what = asker.what;
                    wrong.push(format!("{what}: {verb} {path}: should be {may}: {told}"));
                }
            }
        }
    };
    judge(site.known().await).await;
    judge(site.disbelieved().await).await;
    println!("{} routes, {kinds} callers, {asked} requests, {} wrong", routes.len(), wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    site.gateway.stop().await;
    site.stack.stop().await;
}
