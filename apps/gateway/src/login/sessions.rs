//! Sessions of browsers: a cookie that stands for somebody who proved who they are, and links that
//! can be used once to get one.
//!
//! Both are kept under the fingerprint of their secret, in memory: a restart logs everybody out.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::caller::{Caller, fingerprint};

/// How long a session lasts that nobody uses.
pub const IDLE: Duration = Duration::from_hours(12);
/// How long a session lasts, used or not.
pub const LONGEST: Duration = Duration::from_hours(7 * 24);
/// How long a link can be used.
pub const LINK: Duration = Duration::from_mins(10);
/// Most sessions, and most links, at a time.
const MOST: usize = 10_000;

/// Who is logged in.
#[derive(Debug, Default)]
pub struct Sessions {
    open: Mutex<BTreeMap<String, Session>>,
    links: Mutex<BTreeMap<String, (Caller, Instant)>>,
}

#[derive(Debug)]
struct Session {
    caller: Caller,
    began: Instant,
    used: Instant,
}

/// The system gives no secrets, or there is no room.
#[derive(Debug, thiserror::Error)]
pub enum NoSession {
    /// No random numbers.
    #[error("the system gives no random numbers")]
    Random(#[from] getrandom::Error),
    /// Too many.
    #[error("{MOST} are open already")]
    Full,
}

impl Sessions {
    /// Opens a session and gives its secret, for the cookie.
    pub fn open(&self, caller: Caller, now: Instant) -> Result<String, NoSession> {
        let secret = secret()?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= MOST {
            open.retain(|_, session| session.is_open(now));
        }
        if open.len() >= MOST {
            return Err(NoSession::Full);
        }
        open.insert(fingerprint(&secret), Session { caller, began: now, used: now });
        Ok(secret)
    }

    /// Whose session it is; using it keeps it open.
    pub fn find(&self, secret: &str, now: Instant) -> Option<Caller> {
        let key = fingerprint(secret);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let session = open.get_mut(&key)?;
        if session.is_open(now) {
            session.used = now;
            return Some(session.caller.clone());
        }
        open.remove(&key);
        None
    }

    /// Ends a session.
    pub fn close(&self, secret: &str) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.remove(&fingerprint(secret));
    }

    /// The secret of a link with which `caller` can log in once.
    pub fn link(&self, caller: Caller, now: Instant) -> Result<String, NoSession> {
        let secret = secret()?;
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|_, (_, until)| now < *until);
        if links.len() >= MOST {
            return Err(NoSession::Full);
        }
        links.insert(fingerprint(&secret), (caller, now + LINK));
        Ok(secret)
    }

    /// Whose link it is. It cannot be used again.
    pub fn redeem(&self, secret: &str, now: Instant) -> Option<Caller> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let (caller, until) = links.remove(&fingerprint(secret))?;
        (now < until).then_some(caller)
    }
}

impl Session {
    fn is_open(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.used) < IDLE
            && now.saturating_duration_since(self.began) < LONGEST
    }
}

fn secret() -> Result<String, NoSession> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_when_it_is_not_used_and_after_a_week_at_the_latest() {
        let (sessions, start) = (Sessions::default(), Instant::now());
        let secret = sessions.open(Caller::anonymous(), start).unwrap();
        assert_eq!(sessions.find(&secret, start + IDLE / 2), Some(Caller::anonymous()));
        assert_eq!(sessions.find(&secret, start + IDLE), Some(Caller::anonymous()));
        assert_eq!(sessions.find(&secret, start + IDLE * 3), None);
        assert_eq!(sessions.find(&secret, start), None, "it is gone for good");

        let secret = sessions.open(Caller::anonymous(), start).unwrap();
        let mut now = start;
        while now + IDLE / 2 < start + LONGEST {
            now += IDLE / 2;
            assert!(sessions.find(&secret, now).is_some());
        }
        assert_eq!(sessions.find(&secret, start + LONGEST), None);
    }

    #[test]
    fn a_link_is_used_once_and_soon_or_not_at_all() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let link = sessions.link(Caller::anonymous(), now).unwrap();
        assert_eq!(sessions.redeem("guess", now), None);
        assert_eq!(sessions.redeem(&link, now), Some(Caller::anonymous()));
        assert_eq!(sessions.redeem(&link, now), None);
        let link = sessions.link(Caller::anonymous(), now).unwrap();
        assert_eq!(sessions.redeem(&link, now + LINK), None);
    }

    #[test]
    fn who_logs_out_is_out() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let secret = sessions.open(Caller::anonymous(), now).unwrap();
        sessions.close(&secret);
        assert_eq!(sessions.find(&secret, now), None);
        assert!(!format!("{sessions:?}").contains(&secret));
    }
}
