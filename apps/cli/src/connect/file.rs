//! Settings files: the flat keys people have, and contexts.
//!
//! Every key is known by name. A key that older versions used and that has no meaning here is
//! accepted and listed as such; one that nobody knows is an error.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::problem::Problem;

/// More than any settings file has.
const MOST_BYTES: u64 = 64 * 1024;

/// Keys of older versions that mean nothing here.
const UNUSED: &[&str] = &[
    "api_endpoint",
    "cfssl_api_url",
    "common_name",
    "organization",
    "private_key",
    "vault_enabled",
    "vault_addr",
    "vault_auth_method",
    "vault_token",
    "vault_approle_role_id",
    "vault_approle_secret_id",
    "vault_pki_mount",
    "vault_pki_role",
    "vault_cert_ttl",
    "vault_service_name",
    "vault_service_domain",
    "vault_retry_interval",
];

/// What a file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) endpoint: Option<String>,
    pub(crate) identity: Option<PathBuf>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) tls_names: Option<PathBuf>,
    pub(crate) insecure: Option<bool>,
    pub(crate) note: Option<String>,
    pub(crate) transport: Option<String>,
    pub(crate) target: Option<String>,
    pub(crate) rpc_timeout: Option<Duration>,
    /// Keys that are there and mean nothing.
    pub(crate) unused: Vec<String>,
}

/// What the file says; `None` when there is none.
pub(crate) fn load(path: &Path) -> Result<Option<Keys>, Problem> {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(unreadable(path, &why.to_string())),
    };
    let mut text = String::new();
    file.take(MOST_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(|why| unreadable(path, &why.to_string()))?;
    if text.len() > usize::try_from(MOST_BYTES).unwrap_or(usize::MAX) {
        return Err(unreadable(path, "it is too large for a settings file"));
    }
    parse(path, &text).map(Some)
}

fn unreadable(path: &Path, why: &str) -> Problem {
    Problem::new(format!("the settings in {} cannot be read", path.display())).why(why)
}

fn parse(path: &Path, text: &str) -> Result<Keys, Problem> {
    let value = crate::manifest::yaml(text).map_err(|why| unreadable(path, &why))?;
    let object = match value.as_slice() {
        [] | [Value::Null] => return Ok(Keys::default()),
        [Value::Object(object)] => object.clone(),
        _ => return Err(unreadable(path, "it is not one list of keys and values")),
    };
    let base = path.parent().unwrap_or(Path::new("."));
    let mut keys = Keys::default();
    let mut faults = Vec::new();
    for (key, value) in object {
        if value.is_null() {
            continue;
        }
        if let Err(fault) = set(&mut keys, base, &key, &value) {
            faults.push(format!("{key}: {fault}"));
        }
    }
    if faults.is_empty() {
        return Ok(keys);
    }
    let mut problem = Problem::new(format!("the settings in {} are wrong", path.display()));
    problem.why = faults;
    Err(problem.next("persys config --help"))
}

fn set(keys: &mut Keys, base: &Path, key: &str, value: &Value) -> Result<(), String> {
    let text = || value.as_str().map(str::to_owned).ok_or("must be a text");
    let file = || text().map(|text| expand(base, &text));
    let flag = || value.as_bool().ok_or("must be true or false");
    match key {
        "endpoint" | "grpc_endpoint" => keys.endpoint = Some(text()?),
        "identity" => keys.identity = Some(file()?),
        "ca" | "ca_cert_path" => keys.ca = Some(file()?),
        "cert" | "cert_path" => keys.cert = Some(file()?),
        "key" | "key_path" => keys.key = Some(file()?),
        "tls_names" => keys.tls_names = Some(file()?),
        "insecure" | "grpc_insecure" => keys.insecure = Some(flag()?),
        "note" => keys.note = Some(text()?),
        "transport" => keys.transport = Some(text()?),
        "grpc_target" => keys.target = Some(text()?),
        "rpc_timeout_seconds" | "timeout" => {
            let written = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            keys.rpc_timeout = Some(crate::sizes::duration(&written)?);
        }
        "verbose" => drop(flag()?),
        other if UNUSED.contains(&other) => keys.unused.push(other.to_owned()),
        _ => return Err("is not a known key".to_owned()),
    }
    Ok(())
}

/// `~` is the home of who types; what is relative is so to the file.
fn expand(base: &Path, text: &str) -> PathBuf {
    match text.strip_prefix("~/") {
        Some(rest) => match std::env::var_os("HOME") {
            Some(home) => Path::new(&home).join(rest),
            None => PathBuf::from(text),
        },
        None => base.join(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_keys_are_read_and_strange_ones_named() {
        let path = Path::new("/h/config.yaml");
        let text = "grpc_endpoint: h:1\ngrpc_insecure: true\nca_cert_path: ca.pem\nvault_enabled: true\nrpc_timeout_seconds: 5\n";
        let keys = parse(path, text).unwrap();
        assert_eq!(keys.endpoint.as_deref(), Some("h:1"));
        assert_eq!(keys.insecure, Some(true));
        assert_eq!(keys.ca, Some(PathBuf::from("/h/ca.pem")));
        assert_eq!(keys.rpc_timeout, Some(Duration::from_secs(5)));
        assert_eq!(keys.unused, ["vault_enabled"]);
        let problem = parse(path, "endpiont: x\ninsecure: 1\n").unwrap_err();
        assert_eq!(
            problem.why,
            ["endpiont: is not a known key", "insecure: must be true or false"]
        );
        let problem = parse(path, "a: [\n").unwrap_err();
        assert!(problem.why.concat().contains("line"), "{problem:?}");
        assert_eq!(parse(path, "").unwrap(), Keys::default());
    }
}
