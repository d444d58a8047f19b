//! An agent that knows only the documents' contract, as a small model.
//!
//! It takes applies and deletes and works on them in the background, one after the other for each
//! workload; it tells states, lists what it has, beats, and registers again when its lease ran out or
//! nobody knows it. It has no decision, session, fence or tombstone. All it has is written to disk at
//! once; tasks that were not begun die with the process.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use persys_cluster::contract::{Found, Outcome, Told, Word};
use persys_model::command::Apply;
use persys_model::failure::{Failure, FailureReason};
use persys_model::id::{RevisionId, WorkloadId};
use persys_model::spec::container::RestartPolicy;
use persys_model::spec::{Kind, Spec};
use persys_node::input::Existing;

use crate::runtime::{Runtime, Thing};
use crate::wire::{CallNumber, Life};

/// The exit code of what lost its power.
const KILLED: i32 = 137;

/// The agent of one machine: what is on its disk, and its process while it has one.
#[derive(Debug, Default)]
pub(crate) struct ContractAgent {
    pub(crate) process: Option<Process>,
    pub(crate) has: BTreeMap<WorkloadId, Has>,
}

/// One life of it.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) life: Life,
    pub(crate) paused_until: u64,
    pub(crate) registered: bool,
    /// It registers again when no heartbeat was heard until then.
    pub(crate) lease_until: u64,
    /// The call to a scheduler that waits for an answer.
    pub(crate) call: Option<CallNumber>,
    pub(crate) next_call: u64,
    /// Tasks that were not carried out yet, by workload, in the order they were given.
    tasks: BTreeMap<WorkloadId, VecDeque<Task>>,
}

/// One workload on its disk.
#[derive(Debug, Clone)]
pub(crate) struct Has {
    pub(crate) revision: RevisionId,
    pub(crate) run: bool,
    pub(crate) spec: Arc<Spec>,
    word: Word,
    failure: Option<Failure>,
    exit_code: Option<i64>,
    restarts: u32,
}

/// Work in the background.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    /// What was applied comes true.
    Become(Box<Apply>),
    /// The workload goes, with its data.
    Delete,
    /// It should run, and does not.
    Repair,
    /// It exists, and is not on the disk.
    Collect,
}

impl Task {
    /// The task in words.
    pub(crate) fn word(&self) -> String {
        match self {
            Self::Become(apply) if apply.run => format!("run {}", apply.revision),
            Self::Become(apply) => format!("rest {}", apply.revision),
            Self::Delete => "delete".to_owned(),
            Self::Repair => "repair".to_owned(),
            Self::Collect => "collect".to_owned(),
        }
    }
}

/// A call of a scheduler.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    Apply(WorkloadId, Box<Apply>),
    Delete(WorkloadId),
    Status(WorkloadId),
    List,
}

/// The answer to it.
#[derive(Debug, Clone)]
pub(crate) enum CallAnswer {
    Order(Outcome),
    Status(Found),
    List(Vec<Told>),
}

/// The agent's words to a scheduler, apart from answers.
#[derive(Debug, Clone)]
pub(crate) enum Upcall {
    Register,
    Heartbeat(Vec<Told>),
}

/// A scheduler's answer to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    Registered,
    Refused,
    Acknowledged,
    /// It does not know the node.
    NotFound,
    /// It does not lead, or the call has to be made again.
    Unavailable,
}

impl Process {
    pub(crate) fn new(life: Life) -> Self {
        Self {
            life,
            paused_until: 0,
            registered: false,
            lease_until: 0,
            call: None,
            next_call: 0,
            tasks: BTreeMap::new(),
        }
    }

    pub(crate) fn is_at_work(&self, workload: &WorkloadId) -> bool {
        self.tasks.contains_key(workload)
    }

    pub(crate) fn give(&mut self, workload: &WorkloadId, task: Task) {
        self.tasks.entry(workload.clone()).or_default().push_back(task);
    }

    /// The task of a workload whose turn it is.
    pub(crate) fn take(&mut self, workload: &WorkloadId) -> Option<Task> {
        let tasks = self.tasks.get_mut(workload)?;
        let next = tasks.pop_front();
        if tasks.is_empty() {
            self.tasks.remove(workload);
        }
        next
    }
}

impl Has {
    fn new(apply: &Apply) -> Self {
        Self {
            revision: apply.revision.clone(),
            run: apply.run,
            spec: Arc::clone(&apply.spec),
            word: Word::Pending,
            failure: None,
            exit_code: None,
            restarts: 0,
        }
    }

    fn be(&mut self, word: Word, failure: Option<Failure>, exit_code: Option<i64>) {
        (self.word, self.failure, self.exit_code) = (word, failure, exit_code);
    }

    /// A start or a stop came to its end.
    pub(crate) fn came_to(&mut self, failure: Option<Failure>) {
        let word = match (&failure, self.run) {
            (Some(_), _) => Word::Failed,
            (None, true) => Word::Running,
            (None, false) => Word::Stopped,
        };
        self.be(word, failure, None);
    }

    /// True if the container's restart policy, or the agent after a power cut, starts it again.
    fn comes_again(&self, code: i32) -> bool {
        if code == KILLED {
            return true;
        }
        let Kind::Container(container) = &self.spec.kind else { return true };
        match container.restart {
            RestartPolicy::No => false,
            RestartPolicy::OnFailure { max_retries } => code != 0 && self.restarts < max_retries,
            RestartPolicy::Always
            | RestartPolicy::UnlessStopped
            | RestartPolicy::AlwaysUpTo { .. } => true,
        }
    }

    /// Takes in what the runtime has of it. True if it has to be repaired.
    fn look(&mut self, thing: Option<&Thing>) -> bool {
        match (thing.map(|thing| &thing.state), self.run) {
            // A start that failed left nothing; it is tried again when it is applied again.
            (None, true) if self.word == Word::Failed => false,
            (None, true) => {
                let gone = Failure::new(FailureReason::RuntimeError, "container not found");
                self.be(Word::Unknown, Some(gone), None);
                true
            }
            (None, false) => {
                self.be(Word::Stopped, None, None);
                false
            }
            (Some(Existing::Exited { .. }), false) => {
                self.be(Word::Stopped, None, Some(0));
                false
            }
            (Some(Existing::Exited { code }), true) if self.comes_again(*code) => {
                self.be(Word::Pending, None, None);
                true
            }
            (Some(Existing::Exited { code: 0 }), true) => {
                self.be(Word::Stopped, None, Some(0));
                false
            }
            (Some(Existing::Exited { code }), true) => {
                let text = format!("exited with code {code}");
                let failure = Failure::new(FailureReason::RuntimeError, &text);
                self.be(Word::Failed, Some(failure), Some(i64::from(*code)));
                false
            }
            (Some(_), true) => {
                self.be(Word::Running, None, None);
                false
            }
            (Some(_), false) => {
                self.be(Word::Running, None, None);
                true
            }
        }
    }

    pub(crate) fn is_repaired(&mut self) {
        self.restarts = self.restarts.saturating_add(1);
    }

    fn told(&self, workload: &WorkloadId) -> Told {
        Told {
            workload: workload.clone(),
            revision: Some(self.revision.clone()),
            run: Some(self.run),
            word: self.word,
            reason: self.failure.as_ref().map(|failure| failure.reason),
            message: self.failure.as_ref().map_or_else(|| Arc::from(""), |one| one.message.clone()),
            exit_code: self.exit_code,
        }
    }
}

impl ContractAgent {
    /// Compares the disk with the runtime: what has to be done about it.
    pub(crate) fn look(&mut self, runtime: &Runtime) -> Vec<(WorkloadId, Task)> {
        let Some(process) = &self.process else { return Vec::new() };
        let mut tasks = Vec::new();
        for (id, has) in &mut self.has {
            if !process.is_at_work(id) && has.look(runtime.things.get(id)) {
                tasks.push((id.clone(), Task::Repair));
            }
        }
        for id in runtime.things.keys() {
            if !process.is_at_work(id) && !self.has.contains_key(id) {
                tasks.push((id.clone(), Task::Collect));
            }
        }
        tasks
    }

    /// An apply: the same version is skipped unless it failed or another state is desired.
    pub(crate) fn apply(&mut self, workload: &WorkloadId, apply: &Apply) -> Option<Task> {
        let Some(has) = self.has.get(workload) else {
            self.has.insert(workload.clone(), Has::new(apply));
            return Some(Task::Become(Box::new(apply.clone())));
        };
        let at_work = self.process.as_ref().is_some_and(|process| process.is_at_work(workload));
        let same = has.revision == apply.revision && has.run == apply.run;
        let skipped = same && has.word != Word::Failed && !at_work;
        (!skipped).then(|| Task::Become(Box::new(apply.clone())))
    }

    /// The version that is about to be carried out is on the disk from now on.
    pub(crate) fn becomes(&mut self, workload: &WorkloadId, apply: &Apply) {
        let same = self.has.get(workload).is_some_and(|has| has.revision == apply.revision);
        if same && let Some(has) = self.has.get_mut(workload) {
            has.run = apply.run;
            has.restarts = 0;
        } else {
            self.has.insert(workload.clone(), Has::new(apply));
        }
    }

    pub(crate) fn find(&self, workload: &WorkloadId) -> Found {
        self.has.get(workload).map_or(Found::Missing, |has| Found::Status(has.told(workload)))
    }

    pub(crate) fn list(&self) -> Vec<Told> {
        self.has.iter().map(|(id, has)| has.told(id)).collect()
    }

    /// The states a heartbeat tells: no version, no desired state, no exit code.
    pub(crate) fn statuses(&self) -> Vec<Told> {
        let bare = |told: Told| Told { revision: None, run: None, exit_code: None, ..told };
        self.list().into_iter().map(bare).collect()
    }
}
