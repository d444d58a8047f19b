//! Why a call to a store did not do what was asked.

use persys_cluster::store::StoreReply;

/// Why a call did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Somebody else leads, or nobody does. Nothing was done.
    #[error("the term is over")]
    Deposed,
    /// The head is not where it was believed to be. Nothing was done.
    #[error("the head of the store moved")]
    HeadMoved,
    /// A record without which nothing can be decided cannot be read. Nothing was done.
    #[error("the record {key} {why}; mend it or restore a backup")]
    Unreadable {
        /// Its key.
        key: String,
        /// What is wrong with it.
        why: String,
    },
    /// An earlier system of this contract has its records where ours would be. Nothing was done.
    #[error(
        "this etcd holds the records of an earlier installation ({key}), which would be mixed with ours \
         and overwritten: set another root (--etcd-root /persys), then bring them over with \
         persys import; nothing was changed"
    )]
    Earlier {
        /// The first of its keys that was found.
        key: String,
    },
    /// What is to be filled holds something already. Nothing was done.
    #[error("the store is not empty: it holds {key}")]
    NotEmpty {
        /// The first key that was found.
        key: String,
    },
    /// Surely nothing was done.
    #[error("the store is unavailable: {why}")]
    Unavailable {
        /// What stands in the way.
        why: String,
    },
    /// It may have been done or not.
    #[error("it is not known whether the store did it: {why}")]
    Unknown {
        /// What happened.
        why: String,
    },
}

impl Error {
    pub(crate) fn unavailable(why: impl std::fmt::Display) -> Self {
        Self::Unavailable { why: why.to_string() }
    }

    pub(crate) fn unknown(why: impl std::fmt::Display) -> Self {
        Self::Unknown { why: why.to_string() }
    }

    /// A call to etcd that failed.
    pub(crate) fn etcd(error: &persys_etcd::Error) -> Self {
        if error.is_unknown() { Self::unknown(error) } else { Self::unavailable(error) }
    }

    /// What a scheduler hears of it.
    #[must_use]
    pub fn reply(&self) -> StoreReply {
        match self {
            Self::Deposed => StoreReply::Deposed,
            Self::HeadMoved => StoreReply::HeadMoved,
            Self::Unreadable { .. }
            | Self::Earlier { .. }
            | Self::NotEmpty { .. }
            | Self::Unavailable { .. } => StoreReply::Unavailable,
            Self::Unknown { .. } => StoreReply::Unknown,
        }
    }
}
