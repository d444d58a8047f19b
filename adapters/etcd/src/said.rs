//! The way to etcd as people say it, in the same words wherever it is asked for.

use std::fmt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::endpoint::Endpoint;
use crate::settings::{Login, Settings, Tls};

/// Largest file that holds a password.
const LARGEST_PASSWORD: u64 = 4096;
/// Most members that are named.
const MOST_ENDPOINTS: usize = 16;

/// What somebody said about the way to etcd.
#[derive(Clone, Default)]
pub struct Said {
    /// `etcd-endpoints`: its members, `host:port`.
    pub endpoints: Vec<String>,
    /// `etcd-ca`: whom we believe; with it connections are TLS.
    pub ca: Option<PathBuf>,
    /// `etcd-cert`: our own certificate.
    pub cert: Option<PathBuf>,
    /// `etcd-key`: its key.
    pub key: Option<PathBuf>,
    /// `etcd-server-name`: the name in etcd's certificate.
    pub server_name: Option<String>,
    /// `etcd-user`: who we are.
    pub user: Option<String>,
    /// `ETCD_PASSWORD`.
    pub password: Option<Zeroizing<String>>,
    /// `etcd-password-file`: where it is instead.
    pub password_file: Option<PathBuf>,
}

impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoints, ca, cert, key, server_name, user, password: _, password_file } = self;
        f.debug_struct("Said")
            .field("endpoints", endpoints)
            .field("ca", ca)
            .field("cert", cert)
            .field("key", key)
            .field("server_name", server_name)
            .field("user", user)
            .field("password_file", password_file)
            .finish_non_exhaustive()
    }
}

/// Something that is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The word it was said by, such as `etcd-ca`.
    pub word: &'static str,
    /// What is wrong.
    pub why: String,
}

impl Said {
    /// The way, or all that is wrong with it.
    pub fn settings(&self) -> Result<Settings, Vec<Fault>> {
        let mut faults = Faults::default();
        let endpoints = self.members(&mut faults);
        let (tls, login) = (self.tls(&mut faults), self.login(&mut faults));
        if faults.0.is_empty() {
            Ok(Settings { tls, login, ..Settings::new(endpoints) })
        } else {
            Err(faults.0)
        }
    }

    fn members(&self, faults: &mut Faults) -> Vec<Endpoint> {
        let mut endpoints: Vec<Endpoint> = Vec::new();
        for text in &self.endpoints {
            match text.parse() {
                Ok(endpoint) => endpoints.push(endpoint),
                Err(why) => faults.add("etcd-endpoints", why),
            }
        }
        if self.endpoints.is_empty() {
            faults.add("etcd-endpoints", "names no endpoint");
        }
        if self.endpoints.len() > MOST_ENDPOINTS {
            faults.add("etcd-endpoints", format!("names more than {MOST_ENDPOINTS}"));
        }
        if self.ca.is_none() && endpoints.iter().any(|endpoint| endpoint.tls == Some(true)) {
            faults.add("etcd-endpoints", "https needs `etcd-ca`");
        }
        endpoints
    }

    fn tls(&self, faults: &mut Faults) -> Option<Tls> {
        let own = match (&self.cert, &self.key) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            (Some(_), None) => {
                faults.add("etcd-cert", "goes with `etcd-key`");
                None
            }
            (None, Some(_)) => {
                faults.add("etcd-key", "goes with `etcd-cert`");
                None
            }
        };
        if self.ca.is_none() && (own.is_some() || self.server_name.is_some()) {
            faults.add("etcd-ca", "is needed for TLS");
        }
        let server_name = self.server_name.clone();
        self.ca.clone().map(|roots| Tls { roots, own, server_name })
    }

    fn login(&self, faults: &mut Faults) -> Option<Login> {
        let password = match &self.password_file {
            None => self.password.as_ref().map(|password| password.to_string()),
            Some(path) => match password(path) {
                Ok(password) => Some(password),
                Err(why) => {
                    faults.add("etcd-password-file", why);
                    return None;
                }
            },
        };
        match (self.user.clone(), password) {
            (Some(user), Some(password)) => Some(Login::new(user, password)),
            (None, None) => None,
            (Some(_), None) => {
                faults.add("etcd-user", "needs ETCD_PASSWORD or `etcd-password-file`");
                None
            }
            (None, Some(_)) => {
                faults.add("etcd-user", "a password needs a name");
                None
            }
        }
    }
}

#[derive(Debug, Default)]
struct Faults(Vec<Fault>);

impl Faults {
    fn add(&mut self, word: &'static str, why: impl fmt::Display) {
        self.0.push(Fault { word, why: why.to_string() });
    }
}

fn password(path: &Path) -> Result<String, String> {
    let size = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > LARGEST_PASSWORD {
        return Err(format!("{size} bytes are no password"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown() {
        let said = Said { password: Some("geheim".to_owned().into()), ..Said::default() };
        assert!(!format!("{said:?}").contains("geheim"));
    }

    #[test]
    fn all_that_is_wrong_is_told() {
        let said = Said {
            endpoints: vec!["https://a:1".to_owned(), "b".to_owned()],
            cert: Some("/c".into()),
            server_name: Some("etcd".to_owned()),
            password_file: Some("/nowhere/at/all".into()),
            ..Said::default()
        };
        let words: Vec<_> = said.settings().unwrap_err().iter().map(|fault| fault.word).collect();
        let wanted =
            ["etcd-endpoints", "etcd-endpoints", "etcd-cert", "etcd-ca", "etcd-password-file"];
        assert_eq!(words, wanted);
        assert_eq!(Said::default().settings().unwrap_err().len(), 1);
    }
}
