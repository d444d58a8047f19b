//! What went wrong, and whether etcd may have done what was asked all the same.

use tonic::{Code, Status};

use crate::connect::ConnectError;

/// A call that did not end well.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Error {
    kind: Kind,
    unknown: bool,
    why: String,
}

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// No member could be reached.
    Unreachable,
    /// Too much has failed of late: nothing is tried for a moment.
    CircuitOpen,
    /// Nothing was heard in time, or the connection broke.
    NoAnswer,
    /// The member has no leader: most of etcd is away.
    NoLeader,
    /// etcd is full, and takes no more until an operator has seen to it.
    NoSpace,
    /// etcd does not know us, or does not let us.
    Denied,
    /// The token of our login is not good any more.
    StaleToken,
    /// The revision that was to be read is no longer kept.
    Compacted,
    /// There is no such lease.
    NoLease,
    /// The answer is larger than we take.
    TooMuch,
    /// etcd refused for another reason.
    Refused,
    /// This client was closed.
    Closed,
}

impl Kind {
    /// Whether it says something about the member or the way to it, rather than about the request.
    pub(crate) fn is_trouble(self) -> bool {
        match self {
            Self::Unreachable | Self::NoAnswer | Self::NoLeader => true,
            Self::CircuitOpen
            | Self::NoSpace
            | Self::Denied
            | Self::StaleToken
            | Self::Compacted
            | Self::NoLease
            | Self::TooMuch
            | Self::Refused
            | Self::Closed => false,
        }
    }
}

/// What an operator does about a full etcd.
pub const NO_SPACE: &str = "etcd is out of space (alarm NOSPACE): compact and defragment it and disarm \
     the alarm, or give it a larger --quota-backend-bytes";

/// What etcd says, and what that means. All of these are said before anything is done.
const SAID: &[(&str, Kind)] = &[
    ("database space exceeded", Kind::NoSpace),
    ("required revision has been compacted", Kind::Compacted),
    ("requested lease not found", Kind::NoLease),
    ("invalid auth token", Kind::StaleToken),
    ("revision of auth store is old", Kind::StaleToken),
    ("user name is empty", Kind::StaleToken),
    ("user name not found", Kind::StaleToken),
    ("permission denied", Kind::Denied),
    ("authentication failed", Kind::Denied),
    ("authentication is not enabled", Kind::Denied),
    ("no leader", Kind::NoLeader),
    ("request is too large", Kind::Refused),
    ("too many requests", Kind::Refused),
    ("too many operations", Kind::Refused),
    ("duplicate key", Kind::Refused),
    ("future revision", Kind::Refused),
];

impl Error {
    pub(crate) fn not_done(kind: Kind, why: impl Into<String>) -> Self {
        Self { kind, unknown: false, why: why.into() }
    }

    pub(crate) fn unknown(why: impl Into<String>) -> Self {
        Self { kind: Kind::NoAnswer, unknown: true, why: why.into() }
    }

    /// What an answer of `address` means.
    pub(crate) fn of(status: &Status, address: &str) -> Self {
        if let Some(connect) = ConnectError::within(status) {
            return Self::not_done(Kind::Unreachable, connect.told());
        }
        let message = status.message();
        let said = SAID.iter().find(|(text, _)| message.contains(text)).map(|(_, kind)| *kind);
        let kind = match status.code() {
            _ if said.is_some() => said,
            Code::OutOfRange if message.contains("too large") => Some(Kind::TooMuch),
            Code::InvalidArgument | Code::FailedPrecondition | Code::Unimplemented => {
                Some(Kind::Refused)
            }
            Code::PermissionDenied | Code::Unauthenticated => Some(Kind::Denied),
            Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::NotFound
            | Code::AlreadyExists
            | Code::ResourceExhausted
            | Code::Aborted
            | Code::OutOfRange
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss => None,
        };
        match kind {
            Some(Kind::NoSpace) => Self::not_done(Kind::NoSpace, NO_SPACE),
            Some(kind) => Self::not_done(kind, format!("{address}: {message}")),
            None => Self::unknown(format!("{address}: {message}")),
        }
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether etcd may have done what was asked. Otherwise it surely did not.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_etcd_refused_counts_as_not_done() {
        for (code, message, kind, unknown) in [
            (
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                Kind::NoSpace,
                false,
            ),
            (
                Code::OutOfRange,
                "etcdserver: mvcc: required revision has been compacted",
                Kind::Compacted,
                false,
            ),
            (Code::Unavailable, "etcdserver: no leader", Kind::NoLeader, false),
            (Code::Unavailable, "etcdserver: request timed out", Kind::NoAnswer, true),
            (Code::Unavailable, "etcdserver: leader changed", Kind::NoAnswer, true),
            (Code::Unknown, "raft proposal dropped", Kind::NoAnswer, true),
            (Code::Cancelled, "operation was canceled", Kind::NoAnswer, true),
            (Code::Unauthenticated, "etcdserver: invalid auth token", Kind::StaleToken, false),
            (Code::PermissionDenied, "etcdserver: permission denied", Kind::Denied, false),
            (Code::OutOfRange, "decoded message length too large: found 9", Kind::TooMuch, false),
        ] {
            let error = Error::of(&Status::new(code, message), "a:1");
            assert_eq!((error.kind(), error.is_unknown()), (kind, unknown), "{message}");
        }
    }
}
