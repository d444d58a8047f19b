//! Vault's HTTP protocol, as far as it is needed here.

use std::time::Duration;

use reqwest::{Client, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Secret;

/// Longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Largest answer that is read.
const LARGEST: usize = 1 << 20;
/// How servers say that they do not know a path, some of them as if they were broken.
const NO_SUCH_PATH: [&str; 3] = ["unsupported path", "router not found", "path not supported"];

/// What kind of failure it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Not there, sealed, on standby, or broken: later, perhaps.
    Away,
    /// Not with this login.
    Forbidden,
    /// It does not know the path.
    NoSuchPath,
    /// It will not do what was asked, now or later.
    Refused,
}

/// Why there is no answer.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) fault: Fault,
    pub(super) text: String,
}

/// What we are logged in with.
#[derive(Debug, Clone)]
pub(super) struct Login {
    token: Secret,
    /// How long it is good for; zero: for ever.
    pub(super) lease: Duration,
    renewable: bool,
}

/// What a certificate is to say.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Wanted {
    pub(super) common_name: String,
    pub(super) alt_names: String,
    pub(super) uri_sans: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) ip_sans: String,
    pub(super) ttl: String,
}

/// What came back.
#[derive(Clone, Deserialize)]
pub(super) struct Issued {
    pub(super) certificate: String,
    #[serde(default)]
    pub(super) issuing_ca: String,
    #[serde(default)]
    pub(super) ca_chain: Chain,
    #[serde(default)]
    pub(super) private_key: Option<String>,
}

/// A list of certificates; one server gives them as a single text.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Chain {
    Many(Vec<String>),
    One(String),
}

impl Default for Chain {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Chain {
    pub(super) fn all(self) -> Vec<String> {
        let texts = match self {
            Self::Many(texts) => texts,
            Self::One(text) => vec![text],
        };
        let parts = texts.iter().filter_map(|text| pem::parse_many(text).ok());
        parts.flatten().map(|part| crate::certificate::to_pem(part.contents())).collect()
    }
}

#[derive(Deserialize)]
struct Body<T> {
    data: T,
}

#[derive(Deserialize)]
struct Authorised {
    auth: Granted,
}

#[derive(Deserialize)]
struct Granted {
    client_token: String,
    #[serde(default)]
    lease_duration: u64,
    #[serde(default)]
    renewable: bool,
}

#[derive(Deserialize)]
struct LookedUp {
    #[serde(default)]
    ttl: u64,
    #[serde(default)]
    renewable: bool,
}

#[derive(Default, Deserialize)]
struct Errors {
    #[serde(default)]
    errors: Vec<String>,
    #[serde(default)]
    error: String,
}

/// One Vault.
#[derive(Debug)]
pub(super) struct Vault {
    client: Client,
    address: String,
}

impl Vault {
    pub(super) fn at(address: &str) -> Result<Self, String> {
        let client = Client::builder()
            .timeout(PATIENCE)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|fault| fault.to_string())?;
        Ok(Self { client, address: address.trim_end_matches('/').to_owned() })
    }

    pub(super) async fn log_in(&self, role_id: &str, secret_id: &Secret) -> Result<Login, Failure> {
        let body = serde_json::json!({ "role_id": role_id, "secret_id": secret_id.as_str() });
        let answer: Authorised = self.post("auth/approle/login", None, &body).await?;
        Ok(login(answer))
    }

    pub(super) async fn look_up(&self, token: &Secret) -> Result<Login, Failure> {
        let path = "auth/token/lookup-self";
        let request = self.client.get(self.url(path)).header("X-Vault-Token", token.as_str());
        let answer: Body<LookedUp> = self.answer(path, request).await?;
        let LookedUp { ttl, renewable } = answer.data;
        Ok(Login { token: token.clone(), lease: Duration::from_secs(ttl), renewable })
    }

    pub(super) async fn renew(&self, present: &Login) -> Result<Login, Failure> {
        if !present.renewable {
            let text = "the login cannot be renewed".to_owned();
            return Err(Failure { fault: Fault::Refused, text });
        }
        let path = "auth/token/renew-self";
        let answer: Authorised = self.post(path, Some(present), &serde_json::json!({})).await?;
        Ok(login(answer))
    }

    pub(super) async fn sign(
        &self,
        login: &Login,
        (mount, role): (&str, &str),
        wanted: &Wanted,
        request_pem: &str,
    ) -> Result<Issued, Failure> {
        let mut body = serde_json::to_value(wanted).unwrap_or_default();
        if let Some(body) = body.as_object_mut() {
            body.insert("csr".to_owned(), request_pem.into());
        }
        let path = format!("{mount}/sign/{role}");
        self.post(&path, Some(login), &body).await.map(|answer: Body<Issued>| answer.data)
    }

    pub(super) async fn issue(
        &self,
        login: &Login,
        (mount, role): (&str, &str),
        wanted: &Wanted,
    ) -> Result<Issued, Failure> {
        let mut body = serde_json::to_value(wanted).unwrap_or_default();
        if let Some(body) = body.as_object_mut() {
            body.insert("private_key_format".to_owned(), "pkcs8".into());
        }
        let path = format!("{mount}/issue/{role}");
        self.post(&path, Some(login), &body).await.map(|answer: Body<Issued>| answer.data)
    }

    /// What is at a path, as it is answered.
    pub(super) async fn read(
        &self,
        login: &Login,
        path: &str,
    ) -> Result<serde_json::Value, Failure> {
        let request = self.client.get(self.url(path)).header("X-Vault-Token", login.token.as_str());
        self.answer(path, request).await
    }

    fn url(&self, path: &str) -> String {
        format!("{}/v1/{path}", self.address)
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        login: Option<&Login>,
        body: &serde_json::Value,
    ) -> Result<T, Failure> {
        let mut request = self.client.post(self.url(path)).json(body);
        if let Some(login) = login {
            request = request.header("X-Vault-Token", login.token.as_str());
        }
        self.answer(path, request).await
    }

    async fn answer<T: DeserializeOwned>(
        &self,
        path: &str,
        request: reqwest::RequestBuilder,
    ) -> Result<T, Failure> {
        let away = |text: String| Failure { fault: Fault::Away, text };
        let whom = format!("Vault at {}", self.address);
        // The error of the library names the address only; what was sent it does not hold.
        let mut response = request
            .send()
            .await
            .map_err(|fault| away(format!("{whom} is not reached: {}", fault.without_url())))?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(piece) = response
            .chunk()
            .await
            .map_err(|fault| away(format!("{whom} broke off: {}", fault.without_url())))?
        {
            if body.len().saturating_add(piece.len()) > LARGEST {
                return Err(away(format!("{whom} answers without end")));
            }
            body.extend_from_slice(&piece);
        }
        if status.is_success() {
            let odd = |fault| away(format!("{whom} answers {path} with something else: {fault}"));
            return serde_json::from_slice(&body).map_err(odd);
        }
        let said: Errors = serde_json::from_slice(&body).unwrap_or_default();
        let said = if said.errors.is_empty() { said.error } else { said.errors.join("; ") };
        let text = format!("{whom} answers {path} with {status}: {}", said.trim());
        Err(Failure { fault: fault_of(status, &said), text })
    }
}

fn fault_of(status: StatusCode, said: &str) -> Fault {
    match status {
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => Fault::Forbidden,
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Fault::NoSuchPath,
        StatusCode::BAD_REQUEST if said.contains("invalid role or secret ID") => Fault::Forbidden,
        _ if NO_SUCH_PATH.iter().any(|words| said.contains(words)) => Fault::NoSuchPath,
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            Fault::Away
        }
        _ => Fault::Refused,
    }
}

fn login(answer: Authorised) -> Login {
    let Granted { client_token, lease_duration, renewable } = answer.auth;
    let lease = Duration::from_secs(lease_duration);
    Login { token: Secret::new(&client_token), lease, renewable }
}
