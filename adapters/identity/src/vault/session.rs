//! A login that lasts: renewed at half of its life, and made anew when it cannot be renewed.

use std::fmt;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::wire::{Failure, Login, Vault};
use super::{Auth, BadSettings};

/// One Vault, and our login there.
pub(super) struct Session {
    auth: Auth,
    vault: Vault,
    /// The login in use, and when it is due for renewal.
    login: Mutex<Option<(Login, Instant)>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("vault", &self.vault).finish_non_exhaustive()
    }
}

impl Session {
    /// Asks nothing yet.
    pub(super) fn new(address: &str, auth: Auth) -> Result<Self, BadSettings> {
        let vault = Vault::at(address).map_err(BadSettings)?;
        Ok(Self { auth, vault, login: Mutex::default() })
    }

    pub(super) fn vault(&self) -> &Vault {
        &self.vault
    }

    /// Drops the login: it may have been revoked, and the next one tells.
    pub(super) async fn forget(&self) {
        *self.login.lock().await = None;
    }

    /// What we are logged in with; logs in, or renews that, when it is about to end.
    pub(super) async fn login(&self) -> Result<Login, Failure> {
        let mut kept = self.login.lock().await;
        if let Some((login, renew_at)) = &*kept {
            if Instant::now() < *renew_at {
                return Ok(login.clone());
            }
            if let Ok(renewed) = self.vault.renew(login).await {
                *kept = Some((renewed.clone(), half_of(&renewed)));
                return Ok(renewed);
            }
        }
        let login = match &self.auth {
            Auth::Token(token) => self.vault.look_up(token).await?,
            Auth::AppRole { role_id, secret_id } => self.vault.log_in(role_id, secret_id).await?,
        };
        *kept = Some((login.clone(), half_of(&login)));
        Ok(login)
    }
}

/// When half of what a login is good for is over; one without end is looked at every hour.
fn half_of(login: &Login) -> Instant {
    let half = if login.lease.is_zero() { Duration::from_hours(1) } else { login.lease / 2 };
    let now = Instant::now();
    now.checked_add(half).unwrap_or(now)
}
