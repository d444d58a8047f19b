//! What may be set about the way to etcd.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use zeroize::Zeroizing;

use crate::endpoint::Endpoint;

/// The way to etcd.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its members; any of them will do.
    pub endpoints: Vec<Endpoint>,
    /// How connections are made safe. An endpoint written `https://` needs it.
    pub tls: Option<Tls>,
    /// Who we are to etcd.
    pub login: Option<Login>,
    /// Longest wait for one call, whatever has to be done for it.
    pub deadline: Duration,
}

impl Settings {
    /// How long a call may take when nobody says otherwise.
    pub const DEADLINE: Duration = Duration::from_secs(2);

    /// Plain connections to these members.
    #[must_use]
    pub fn new(endpoints: Vec<Endpoint>) -> Self {
        Self { endpoints, tls: None, login: None, deadline: Self::DEADLINE }
    }
}

/// Files that make a connection safe. They are read again for each new connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Whom we believe.
    pub roots: PathBuf,
    /// Our own certificate and its key, if etcd asks for one.
    pub own: Option<(PathBuf, PathBuf)>,
    /// The name that etcd's certificate must carry, if it is not the host that is dialled.
    pub server_name: Option<String>,
}

/// A name and its password.
#[derive(Clone)]
pub struct Login {
    /// The name.
    pub user: String,
    /// The password.
    pub password: Zeroizing<String>,
}

impl Login {
    /// A name and its password.
    #[must_use]
    pub fn new(user: String, password: String) -> Self {
        Self { user, password: Zeroizing::new(password) }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}
