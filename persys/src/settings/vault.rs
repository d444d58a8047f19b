//! What is said about Vault.

use std::time::Duration;

use persys_identity::vault::{Auth, Secret};

use persys_scheduler::app::VaultSettings;

use super::Values;
use super::read::Reader;

/// Vault as it is told; who we are to it comes with the component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Vault {
    pub(crate) address: String,
    pub(crate) auth: Auth,
    pub(crate) mount: String,
    pub(crate) role: String,
    pub(crate) ttl: Duration,
    pub(crate) retry: Duration,
    pub(crate) service: String,
    pub(crate) domain: Option<String>,
    pub(crate) external_ip: Option<std::net::IpAddr>,
}

const LEAST_RETRY_MS: u64 = 100;
const LEAST_TTL_MS: u64 = 10_000;

/// Vault, when it is to be used: by word, or because there is something to log in with.
pub(super) fn read(read: &mut Reader<'_>, values: &Values) -> Option<Vault> {
    let anything = ["vault-token", "vault-approle-role-id", "vault-approle-secret-id"];
    let anything = anything.iter().any(|key| read.text(key).is_some());
    let wanted = match values.text("vault-enabled") {
        "auto" => anything,
        _ => read.switch("vault-enabled"),
    };
    if !wanted {
        return None;
    }
    let auth = auth(read, values, "vault-enabled");
    let address = address(read, values);
    let ttl = Duration::from_millis(read.interval_ms("vault-cert-ttl", LEAST_TTL_MS));
    let retry = Duration::from_millis(read.interval_ms("vault-retry-interval", LEAST_RETRY_MS));
    let external_ip = read.perhaps("external-ip", "an address such as 10.0.0.1");
    Some(Vault {
        address,
        auth: auth?,
        mount: values.text("vault-pki-mount").trim_matches('/').to_owned(),
        role: values.text("vault-pki-role").to_owned(),
        ttl,
        retry,
        service: values.text("vault-service-name").to_owned(),
        domain: read.text("vault-service-domain"),
        external_ip,
    })
}

/// The Vault that secrets are read from, when that is wanted.
pub(super) fn secrets(read: &mut Reader<'_>, values: &Values) -> Option<VaultSettings> {
    if !read.switch("vault-secrets-enabled") {
        return None;
    }
    let auth = auth(read, values, "vault-secrets-enabled");
    let address = address(read, values);
    let refresh = Duration::from_millis(read.interval_ms("vault-secrets-refresh", LEAST_RETRY_MS));
    let retry = Duration::from_millis(read.interval_ms("vault-retry-interval", LEAST_RETRY_MS));
    Some(VaultSettings { address, auth: auth?, refresh, retry: retry.min(refresh) })
}

fn address(read: &mut Reader<'_>, values: &Values) -> String {
    let address = values.text("vault-addr").trim().trim_end_matches('/').to_owned();
    if !address.starts_with("http://") && !address.starts_with("https://") {
        read.fault("vault-addr", "a URL such as http://127.0.0.1:8200");
    }
    address
}

/// The login that was given; `needed_by` is the setting that asks for one.
fn auth(read: &mut Reader<'_>, values: &Values, needed_by: &str) -> Option<Auth> {
    let secret = |read: &Reader<'_>, key: &str| read.text(key).map(|text| Secret::new(&text));
    let (token, role_id, secret_id) = (
        secret(read, "vault-token"),
        read.text("vault-approle-role-id"),
        secret(read, "vault-approle-secret-id"),
    );
    match (values.text("vault-auth-method"), token, role_id, secret_id) {
        ("token", Some(token), ..) => Some(Auth::Token(token)),
        ("token", None, None, None) => {
            read.fault("vault-token", format!("goes with {needed_by}"));
            None
        }
        // What there is to log in with says it better than a default does.
        ("approle" | "token", _, Some(role_id), Some(secret_id)) => {
            Some(Auth::AppRole { role_id, secret_id })
        }
        ("approle", Some(token), None, None) if !values.is_given("vault-auth-method") => {
            Some(Auth::Token(token))
        }
        ("approle" | "token", ..) => {
            let why = format!("goes with vault-approle-secret-id, and both with {needed_by}");
            read.fault("vault-approle-role-id", why);
            None
        }
        _ => {
            read.fault("vault-auth-method", "token or approle");
            None
        }
    }
}
