//! A double of Vault, written from the public reference of its HTTP API: logins with `AppRole` and
//! tokens, and the key/value engine in versions 1 (mounted at `kv`) and 2 (mounted at `secret`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub(crate) const ROLE_ID: &str = "role-7";
pub(crate) const SECRET_ID: &str = "secret-id-7";

#[derive(Default)]
pub(crate) struct Held {
    /// Fields by path below `/v1`, as the engine answers it: `kv/a`, `secret/data/a`.
    pub(crate) values: BTreeMap<String, Value>,
    /// Paths that the policy of our login does not cover.
    pub(crate) forbidden: BTreeSet<String>,
    pub(crate) sealed: bool,
    /// Tokens that are good.
    pub(crate) tokens: BTreeSet<String>,
    pub(crate) logins: usize,
    pub(crate) renewals: usize,
    pub(crate) reads: usize,
    /// How long a login lasts, in seconds.
    pub(crate) lease: u64,
}

pub(crate) struct Double {
    pub(crate) address: SocketAddr,
    pub(crate) held: Arc<Mutex<Held>>,
    _serving: JoinSet<()>,
}

impl Double {
    pub(crate) async fn start() -> Self {
        let held = Arc::new(Mutex::new(Held { lease: 3_600, ..Held::default() }));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&held));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, held, _serving: serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Writes fields, as `vault kv put` does.
    pub(crate) fn put(&self, path: &str, fields: Value) {
        self.held.lock().unwrap().values.insert(path.to_owned(), fields);
    }

    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Held) -> T) -> T {
        act(&mut self.held.lock().unwrap())
    }
}

fn errors(status: StatusCode, texts: &[&str]) -> Response {
    (status, json!({ "errors": texts }).to_string()).into_response()
}

fn granted(held: &Held, token: &str) -> Response {
    let auth = json!({"client_token": token, "lease_duration": held.lease, "renewable": true});
    json!({ "auth": auth }).to_string().into_response()
}

async fn answer(
    State(held): State<Arc<Mutex<Held>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut held = held.lock().unwrap();
    let path = uri.path().strip_prefix("/v1/").unwrap_or_default().to_owned();
    if held.sealed {
        return errors(StatusCode::SERVICE_UNAVAILABLE, &["Vault is sealed"]);
    }
    if path == "auth/approle/login" && method == Method::POST {
        let said: Value = serde_json::from_slice(&body).unwrap_or_default();
        if said != json!({"role_id": ROLE_ID, "secret_id": SECRET_ID}) {
            return errors(StatusCode::BAD_REQUEST, &["invalid role or secret ID"]);
        }
        held.logins += 1;
        let token = format!("hvs.{}", held.logins);
        held.tokens.insert(token.clone());
        return granted(&held, &token);
    }
    let token =
        headers.get("x-vault-token").and_then(|text| text.to_str().ok()).unwrap_or_default();
    if !held.tokens.contains(token) {
        return errors(StatusCode::FORBIDDEN, &["permission denied"]);
    }
    match (path.as_str(), method) {
        ("auth/token/lookup-self", Method::GET) => {
            json!({"data": {"ttl": held.lease, "renewable": true}}).to_string().into_response()
        }
        ("auth/token/renew-self", Method::POST) => {
            held.renewals += 1;
            granted(&held, token)
        }
        (_, Method::GET) => {
            held.reads += 1;
            read(&held, &path)
        }
        _ => errors(StatusCode::METHOD_NOT_ALLOWED, &["unsupported operation"]),
    }
}

fn read(held: &Held, path: &str) -> Response {
    if held.forbidden.contains(path) {
        let told = "1 error occurred:\n\t* permission denied\n\n";
        return errors(StatusCode::FORBIDDEN, &[told]);
    }
    let metadata =
        |deleted: &str| json!({"version": 1, "destroyed": false, "deletion_time": deleted});
    match (path.split('/').next(), held.values.get(path)) {
        (Some("kv"), Some(fields)) => {
            json!({"lease_duration": 2_764_800, "data": fields}).to_string().into_response()
        }
        // A version that was deleted is answered with what is known of it, as not found.
        (Some("secret"), Some(Value::Null)) => {
            let data = json!({"data": null, "metadata": metadata("2026-01-01T00:00:00Z")});
            (StatusCode::NOT_FOUND, json!({ "data": data }).to_string()).into_response()
        }
        (Some("secret"), Some(fields)) => {
            let data = json!({"data": fields, "metadata": metadata("")});
            json!({ "data": data }).to_string().into_response()
        }
        _ => errors(StatusCode::NOT_FOUND, &[]),
    }
}
