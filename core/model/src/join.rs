//! Invitations: who may become a member of the cluster, how often, and until when.
//!
//! A token is counted down where it is decided about, and the result is stored before anybody gets a
//! certificate: a token for one cannot be used by two. Whoever asks again with the same key, because
//! the answer was lost, is the same one.

use std::sync::Arc;

use crate::id::{EntryName, NameError};
use crate::time::WallMillis;

/// Most members one token may invite.
pub const MOST_USES: u32 = 1000;
/// Longest a token is good for.
pub const MOST_TTL_MS: u64 = 24 * 60 * 60 * 1000;

/// An invitation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinToken {
    /// Which one.
    pub id: EntryName,
    /// The SHA-256 of its secret, in hexadecimal.
    pub hash: Arc<str>,
    /// As what its holder joins: the word of a role.
    pub role: Arc<str>,
    /// The only name it is good for; none: any that is free.
    pub name: Option<Arc<str>>,
    /// Until when.
    pub expires: WallMillis,
    /// How many more may join.
    pub uses_left: u32,
    /// Who did.
    pub uses: Vec<Use>,
}

/// One who joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// The SHA-256 of the key that was certified, in hexadecimal.
    pub key: Arc<str>,
    /// Under which name.
    pub name: Arc<str>,
}

/// Somebody shows a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Which one.
    pub id: Arc<str>,
    /// The hash of the secret that was shown.
    pub hash: Arc<str>,
    /// The hash of the key to certify.
    pub key: Arc<str>,
    /// The name that is asked for.
    pub name: Arc<str>,
    /// As what somebody holds that name already: words of roles.
    pub taken_as: Vec<Arc<str>>,
    /// As what that name is no longer believed.
    pub revoked_as: Vec<Arc<str>>,
}

/// Who somebody may become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// As what.
    pub role: Arc<str>,
    /// Under which name.
    pub name: Arc<str>,
}

/// Somebody, or one certificate, that is no longer believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revocation {
    /// `serial.<hex>` or `<role>.<name>`.
    pub name: EntryName,
    /// Since when.
    pub since: WallMillis,
    /// Why, as whoever did it says.
    pub reason: Arc<str>,
}

impl Revocation {
    /// Who it is about: `serial/<hex>` or `<role>/<name>`.
    #[must_use]
    pub fn subject(&self) -> String {
        self.name.as_str().replacen('.', "/", 1)
    }

    /// The name of the record about a subject.
    pub fn name_of(subject: &str) -> Result<EntryName, NameError> {
        EntryName::new(&subject.replacen('/', ".", 1))
    }
}

/// Why somebody may not join.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinRefused {
    /// No such token, or another secret; which of the two is nobody's business.
    #[error("there is no such token; it may have been deleted")]
    Unknown,
    /// Too late.
    #[error("the token has expired; make another with `persys token create`")]
    Expired,
    /// Somebody was quicker.
    #[error("the token was used already; make another with `persys token create`")]
    Spent,
    /// For somebody else.
    #[error("the token is for {0} alone")]
    OtherName(Arc<str>),
    /// The name is somebody's.
    #[error(
        "{0} is a member already; to replace it: `persys token create --name {0}`, or join under another name"
    )]
    Taken(Arc<str>),
    /// The name is no longer believed.
    #[error("{0}/{1} was revoked; `persys ca reinstate {0}/{1}` lets it in again")]
    Revoked(Arc<str>, Arc<str>),
}

impl JoinToken {
    /// The token after this use, and who its holder becomes.
    pub fn redeem(&self, claim: &Claim, now: WallMillis) -> Result<(Self, Admission), JoinRefused> {
        if *claim.id != *self.id.as_str() || claim.hash != self.hash {
            return Err(JoinRefused::Unknown);
        }
        if now >= self.expires {
            return Err(JoinRefused::Expired);
        }
        if let Some(bound) = self.name.as_ref().filter(|bound| **bound != claim.name) {
            return Err(JoinRefused::OtherName(Arc::clone(bound)));
        }
        let admission = Admission { role: Arc::clone(&self.role), name: Arc::clone(&claim.name) };
        if self.uses.iter().any(|one| one.key == claim.key && one.name == claim.name) {
            return Ok((self.clone(), admission));
        }
        let Some(uses_left) = self.uses_left.checked_sub(1) else {
            return Err(JoinRefused::Spent);
        };
        if claim.revoked_as.contains(&self.role) {
            return Err(JoinRefused::Revoked(Arc::clone(&self.role), Arc::clone(&claim.name)));
        }
        if claim.taken_as.contains(&self.role) && self.name.is_none() {
            return Err(JoinRefused::Taken(Arc::clone(&claim.name)));
        }
        let mut after = Self { uses_left, ..self.clone() };
        after.uses.push(Use { key: Arc::clone(&claim.key), name: Arc::clone(&claim.name) });
        Ok((after, admission))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(uses_left: u32) -> JoinToken {
        JoinToken {
            id: EntryName::fixed("a1"),
            hash: "h".into(),
            role: "agent".into(),
            name: None,
            expires: WallMillis(100),
            uses_left,
            uses: Vec::new(),
        }
    }

    fn claim(key: &str, name: &str) -> Claim {
        let (id, hash) = ("a1".into(), "h".into());
        let (taken_as, revoked_as) = (Vec::new(), Vec::new());
        Claim { id, hash, key: key.into(), name: name.into(), taken_as, revoked_as }
    }

    #[test]
    fn a_token_for_one_is_used_by_one_who_may_ask_again() {
        let (after, admission) = token(1).redeem(&claim("k1", "n1"), WallMillis(1)).unwrap();
        assert_eq!((&*admission.role, &*admission.name), ("agent", "n1"));
        assert_eq!(after.redeem(&claim("k2", "n2"), WallMillis(2)), Err(JoinRefused::Spent));
        assert_eq!(after.redeem(&claim("k1", "n2"), WallMillis(2)), Err(JoinRefused::Spent));
        let again = Claim { taken_as: vec!["agent".into()], ..claim("k1", "n1") };
        assert_eq!(after.redeem(&again, WallMillis(2)).unwrap().0, after);
    }

    #[test]
    fn what_does_not_fit_is_refused_and_costs_nothing() {
        let of = |token: &JoinToken, claim: &Claim, now| token.redeem(claim, WallMillis(now));
        let wrong = Claim { hash: "x".into(), ..claim("k", "n1") };
        assert_eq!(of(&token(1), &wrong, 1), Err(JoinRefused::Unknown));
        assert_eq!(of(&token(1), &claim("k", "n1"), 100), Err(JoinRefused::Expired));
        let taken = Claim { taken_as: vec!["agent".into()], ..claim("k", "n1") };
        assert_eq!(of(&token(1), &taken, 1), Err(JoinRefused::Taken("n1".into())));
        let bound = JoinToken { name: Some("n1".into()), ..token(1) };
        assert_eq!(of(&bound, &claim("k", "n2"), 1), Err(JoinRefused::OtherName("n1".into())));
        assert_eq!(of(&bound, &taken, 1).unwrap().0.uses_left, 0);
        // A gateway may have the name of an agent; what counts is who the token makes.
        let gateway = JoinToken { role: "gateway".into(), ..token(1) };
        assert!(of(&gateway, &taken, 1).is_ok());
        let revoked = Claim { revoked_as: vec!["agent".into()], ..claim("k", "n1") };
        let refused = JoinRefused::Revoked("agent".into(), "n1".into());
        assert_eq!(of(&token(1), &revoked, 1), Err(refused.clone()));
        assert_eq!(of(&bound, &revoked, 1), Err(refused), "an invitation does not reinstate");
        assert!(of(&gateway, &revoked, 1).is_ok());
    }
}
