//! Why a verb did not come to a good end, and what that means.
//!
//! The first three are *unknown outcomes*: the runtime did not answer, so the thing may be as asked
//! or not, and only looking again tells. All others are *failures*: it is certain that the verb did
//! not do what it was asked.

use persys_model::failure::{Failure, FailureReason};
use persys_model::id::{RevisionId, WorkloadId};
use persys_model::spec::WorkloadType;
use persys_node::input::Outcome;

/// Why a verb did not come to a good end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The deadline passed.
    #[error("{verb} got no answer from the runtime within {within_ms} ms")]
    NoAnswer {
        /// What was asked.
        verb: &'static str,
        /// How long was waited.
        within_ms: u64,
    },
    /// The runtime is not there, or went away while it was asked.
    #[error("the runtime cannot be reached: {detail}")]
    Unreachable {
        /// What the connection said.
        detail: String,
    },
    /// The runtime answered something we cannot read.
    #[error("{verb}: the runtime's answer cannot be read: {detail}")]
    Unreadable {
        /// What was asked.
        verb: &'static str,
        /// Where reading ended.
        detail: String,
    },
    /// The registry has no such image.
    #[error("image {image} was not found: {detail}")]
    ImageNotFound {
        /// Which.
        image: String,
        /// What the registry said.
        detail: String,
    },
    /// The image could not be fetched.
    #[error("image {image} could not be pulled: {detail}")]
    ImagePull {
        /// Which.
        image: String,
        /// What the registry or the network said.
        detail: String,
    },
    /// The registry does not let us have the image.
    #[error("image {image} is not given to us: {detail}")]
    ImageDenied {
        /// Which.
        image: String,
        /// What the registry said, and where credentials were looked for.
        detail: String,
    },
    /// A port of the node is in use.
    #[error("port {port} of the node is taken by {holder}")]
    PortTaken {
        /// Number and transport.
        port: String,
        /// Who holds it, as far as it could be found.
        holder: String,
    },
    /// The network of the workload could not be made.
    #[error("network: {detail}")]
    Network {
        /// What the runtime said.
        detail: String,
    },
    /// A path or volume cannot be used.
    #[error("storage: {detail}")]
    Storage {
        /// Which, and why.
        detail: String,
    },
    /// A secret cannot be used as the spec says.
    #[error("{detail}; `persys retry` has it sent again")]
    Secret {
        /// Which, and why.
        detail: String,
    },
    /// The node has not enough left.
    #[error("not enough resources: {detail}")]
    Resources {
        /// Of what.
        detail: String,
    },
    /// The spec cannot be run as it is, here or anywhere.
    #[error("cannot be run as it says: {detail}")]
    Invalid {
        /// What is wrong with it.
        detail: String,
    },
    /// The machine was started and did not come up.
    #[error("the machine did not come up: {detail}")]
    Boot {
        /// What the runtime said.
        detail: String,
    },
    /// Something that is not ours has the name.
    #[error(
        "{name} exists and belongs to {owner}; it was not touched: remove it there, or choose another name"
    )]
    Foreign {
        /// The name that is taken.
        name: String,
        /// Whose it is, as far as its labels say.
        owner: String,
    },
    /// Another version of the workload exists.
    #[error("{workload} exists in revision {found}; remove it first")]
    OtherRevision {
        /// Whose.
        workload: WorkloadId,
        /// What is there.
        found: RevisionId,
    },
    /// One service of a stack is to blame.
    #[error("service {service}: {cause}")]
    InService {
        /// Which.
        service: String,
        /// Why.
        cause: Box<Error>,
    },
    /// Exclusive work whose lease was over before it could start.
    #[error("{workload} was not started: its lease was over")]
    TooLate {
        /// Which.
        workload: WorkloadId,
    },
    /// There is nothing of this workload to look into.
    #[error("{workload} does not exist on this node")]
    Absent {
        /// Which.
        workload: WorkloadId,
    },
    /// This runtime does not run this kind of workload.
    #[error("this runtime does not run a {}", kind.word())]
    WrongKind {
        /// Which kind.
        kind: WorkloadType,
    },
    /// The runtime said no, for a reason that fits nowhere else.
    #[error("{verb} was refused: {detail}")]
    Refused {
        /// What was asked.
        verb: &'static str,
        /// What the runtime said.
        detail: String,
    },
}

impl Error {
    /// It was to be resumed, and is not paused any more: it ended.
    #[must_use]
    pub(crate) fn not_paused() -> Self {
        Self::Refused { verb: "resume", detail: "it ended while it was paused".to_owned() }
    }

    /// Whether it is not known how the verb went.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        match self {
            Self::NoAnswer { .. } | Self::Unreachable { .. } | Self::Unreadable { .. } => true,
            Self::InService { cause, .. } => cause.is_unknown(),
            Self::ImageNotFound { .. }
            | Self::ImagePull { .. }
            | Self::ImageDenied { .. }
            | Self::PortTaken { .. }
            | Self::Network { .. }
            | Self::Secret { .. }
            | Self::Storage { .. }
            | Self::Resources { .. }
            | Self::Invalid { .. }
            | Self::Boot { .. }
            | Self::Foreign { .. }
            | Self::OtherRevision { .. }
            | Self::TooLate { .. }
            | Self::Absent { .. }
            | Self::WrongKind { .. }
            | Self::Refused { .. } => false,
        }
    }

    /// Its class, in the words of the contract.
    #[must_use]
    pub fn reason(&self) -> FailureReason {
        match self {
            Self::ImageNotFound { .. } => FailureReason::ImageNotFound,
            Self::ImagePull { .. } | Self::ImageDenied { .. } => FailureReason::ImagePullFailed,
            Self::PortTaken { .. } | Self::Network { .. } => FailureReason::NetworkError,
            Self::Secret { .. } => FailureReason::RuntimeError,
            Self::Storage { .. } => FailureReason::StorageError,
            Self::InService { cause, .. } => cause.reason(),
            Self::Resources { .. } => FailureReason::InsufficientResources,
            Self::Invalid { .. } | Self::WrongKind { .. } => FailureReason::InvalidSpec,
            Self::Boot { .. } => FailureReason::VmBootFailed,
            Self::NoAnswer { .. }
            | Self::Unreachable { .. }
            | Self::Unreadable { .. }
            | Self::Foreign { .. }
            | Self::OtherRevision { .. }
            | Self::TooLate { .. }
            | Self::Absent { .. }
            | Self::Refused { .. } => FailureReason::RuntimeError,
        }
    }

    /// Whether trying again can help without anybody changing the spec.
    #[must_use]
    pub fn retryable(&self) -> bool {
        self.reason().retryable()
    }

    /// What the agent core is told.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        if self.is_unknown() {
            return Outcome::Unknown;
        }
        Outcome::Failed(Failure::new(self.reason(), &self.to_string()))
    }
}

/// What the agent core is told about the end of a verb.
#[must_use]
pub fn outcome(result: &Result<(), Error>) -> Outcome {
    match result {
        Ok(()) => Outcome::Done,
        Err(error) => error.outcome(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_answer_is_not_a_failure() {
        let silent = Error::NoAnswer { verb: "stop", within_ms: 10 };
        assert_eq!(outcome(&Err(silent.clone())), Outcome::Unknown);
        assert!(silent.retryable());
        assert_eq!(outcome(&Ok(())), Outcome::Done);
    }

    #[test]
    fn a_failure_keeps_its_class_and_a_bounded_message() {
        let error = Error::ImageNotFound { image: "web:1".to_owned(), detail: "x".repeat(5000) };
        let Outcome::Failed(failure) = error.outcome() else { panic!("must have failed") };
        assert_eq!(failure.reason, FailureReason::ImageNotFound);
        assert_eq!(failure.message.len(), Failure::MESSAGE_LIMIT);
        assert!(!error.retryable());
    }
}
