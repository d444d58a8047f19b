//! The words of a contract agent about one workload, and their meaning.

use std::sync::Arc;

use persys_model::failure::{Failure, FailureReason};
use persys_model::id::{RevisionId, WorkloadId};
use persys_model::inventory::State;
use persys_model::spec::container::RestartPolicy;
use persys_model::spec::{Kind, Spec};

/// The state of one workload in the words of the contract: in an answer, a list or a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The workload.
    pub workload: WorkloadId,
    /// The version the agent has; heartbeats do not name it.
    pub revision: Option<RevisionId>,
    /// The state the agent is told to keep; heartbeats do not name it.
    pub run: Option<bool>,
    /// One of the five states.
    pub word: Word,
    /// The class of the failure, where the agent names one of the contract.
    pub reason: Option<FailureReason>,
    /// Anything else the agent says, for people.
    pub message: Arc<str>,
    /// Exit code of the program, where the agent tells it.
    pub exit_code: Option<i64>,
}

/// The five states of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Word {
    /// Accepted and not yet as it should be.
    Pending,
    /// It runs.
    Running,
    /// It does not run.
    Stopped,
    /// The last attempt failed.
    Failed,
    /// The agent cannot tell, or finds nothing.
    Unknown,
}

/// Words by which such agents say that a workload is not there.
const NOT_THERE: [&str; 3] = ["workload not found", "status not found", "workload does not exist"];

/// True if an agent's message says that it does not have the workload.
#[must_use]
pub fn says_gone(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    NOT_THERE.iter().any(|words| message.contains(words))
}

/// The meaning of a status for a workload that is to run or to rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// As the World knows states.
    State(State),
    /// Not as it should be. It may pass: the agent repairs by itself and is between two steps.
    Amiss {
        /// The state for the moment.
        now: State,
        /// The failure once it stays.
        then: Failure,
    },
    /// The agent does not have it.
    Missing,
}

impl Told {
    /// The failure it tells of.
    fn failure(&self, otherwise: &str) -> Failure {
        let said = if self.message.is_empty() { otherwise } else { &*self.message };
        Failure::new(self.reason.unwrap_or(FailureReason::RuntimeError), said)
    }

    /// True if it says that the workload is not there.
    pub(super) fn is_gone(&self) -> bool {
        match self.word {
            Word::Failed | Word::Unknown => says_gone(&self.message),
            Word::Pending | Word::Running | Word::Stopped => false,
        }
    }

    /// True if its program no longer runs, however it ended.
    pub(super) fn has_ended(&self) -> bool {
        match self.word {
            Word::Stopped => true,
            Word::Failed => self.exit_code.is_some() || self.message.contains("exited"),
            Word::Pending | Word::Running | Word::Unknown => false,
        }
    }

    /// Its meaning for a workload with this spec.
    pub(super) fn meaning(&self, spec: &Spec, run: bool) -> Meaning {
        if self.is_gone() {
            return Meaning::Missing;
        }
        match (self.word, run) {
            (Word::Pending, _) => Meaning::State(State::Pending),
            (Word::Running, _) => Meaning::State(State::Running),
            (Word::Stopped, false) => Meaning::State(State::Stopped),
            (Word::Failed, _) => {
                Meaning::State(State::Failed(self.failure("its agent says Failed")))
            }
            (Word::Stopped, true) if self.is_completed(spec) => Meaning::State(State::Completed),
            (Word::Stopped, true) => Meaning::Amiss {
                now: State::Stopped,
                then: self.failure("its agent says that it is stopped, but it is to run"),
            },
            (Word::Unknown, _) if self.reason.is_none() && self.message.is_empty() => {
                Meaning::State(State::Unknown)
            }
            (Word::Unknown, _) => Meaning::Amiss {
                now: State::Unknown,
                then: self.failure("its agent cannot tell its state"),
            },
        }
    }

    /// True if it ended well and its restart policy does not start it again.
    fn is_completed(&self, spec: &Spec) -> bool {
        let Kind::Container(container) = &spec.kind else { return false };
        let ends = match container.restart {
            RestartPolicy::No | RestartPolicy::OnFailure { .. } => true,
            RestartPolicy::Always
            | RestartPolicy::AlwaysUpTo { .. }
            | RestartPolicy::UnlessStopped => false,
        };
        ends && self.exit_code == Some(0)
    }
}

/// True if the delete of such an agent would take data along that is to stay: it removes managed
/// volumes, the volumes of a stack and the disks it made for a machine.
#[must_use]
pub fn has_data(spec: &Spec) -> bool {
    match &spec.kind {
        Kind::Container(container) => !container.managed_volumes.is_empty(),
        Kind::Compose(compose) => compose.has_named_volumes,
        Kind::Vm(vm) => !vm.disks.is_empty() || !vm.managed_volumes.is_empty(),
    }
}
