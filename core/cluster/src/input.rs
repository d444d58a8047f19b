//! Everything that can happen to a scheduler, as data.

use std::collections::BTreeSet;
use std::sync::Arc;

use persys_model::command::Answer;
use persys_model::entry::{Entry, EntryKey};
use persys_model::event::Author;
use persys_model::id::{NodeId, RevisionId, WorkloadId};
use persys_model::join::Claim;
use persys_model::labels::{Taint, TaintEffect};
use persys_model::link::{Beat, Registration};
use persys_model::spec::Spec;
use persys_model::spec::volume::ManagedVolume;
use persys_model::task::Task;
use persys_model::time::Millis;
use persys_model::token::{CommitSeq, Epoch, Session};
use persys_model::volume::VolumeKey;
use persys_model::workload::Desired;

use crate::plan::Plan;
use crate::record::Snapshot;

/// The shell's name for a caller who waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// One thing that happens to the leading scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// An agent begins a life.
    Register(RequestId, Registration),
    /// An agent is alive and perhaps says more.
    Beat(RequestId, Beat),
    /// An agent answered a command.
    Answered {
        /// Which agent.
        node: NodeId,
        /// The life the command was meant for.
        session: Session,
        /// About which workload.
        workload: WorkloadId,
        /// The decision the command carried.
        epoch: Epoch,
        /// What it said.
        answer: Answer,
        /// The action it began or finished for the command, where it names one.
        task: Option<Arc<Task>>,
    },
    /// An order was not delivered to an agent, or its outcome is unknown.
    Undelivered(Undelivered),
    /// An agent told its last actions about a workload, or could not be asked.
    Actions {
        /// The workload.
        workload: WorkloadId,
        /// The decision it was asked about.
        epoch: Epoch,
        /// The actions, or the reason there are none, as people read them.
        text: Arc<str>,
    },
    /// A probe of a silent node came back.
    Probed {
        /// Which node.
        node: NodeId,
        /// The life it had when it was probed.
        session: Session,
        /// When that was: a later probe knows better.
        asked: Millis,
        /// What was found.
        found: Probe,
    },
    /// Somebody wants something.
    Ask(RequestId, Arc<Author>, Ask),
    /// Units up to this one are durable.
    Committed(CommitSeq),
    /// The store cannot be written, or the outcome of a write is unknown: freeze.
    StoreLost {
        /// What is wrong, for `/health`.
        why: Arc<str>,
    },
    /// The store was read anew after it was lost.
    Loaded(Snapshot),
    /// Time passed.
    Tick,
}

/// An order that was not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undelivered {
    /// The agent's node.
    pub node: NodeId,
    /// The life the order was meant for.
    pub session: Session,
    /// The workload it is about.
    pub workload: WorkloadId,
    /// The decision it carried.
    pub epoch: Epoch,
    /// False only if the order surely never left: nobody answered the call.
    pub may_have_arrived: bool,
    /// The cause, as people read it.
    pub why: Arc<str>,
}

/// What a probe of a silent node found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Probe {
    /// The agent answered: the node lives, only its beats do not arrive.
    Answered,
    /// The machine answered that nobody listens: the agent died, its workloads live.
    Refused,
    /// Nothing came back.
    Silent,
}

/// What users and operators can ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Have this workload, or this new version of it.
    Apply {
        /// Which.
        workload: WorkloadId,
        /// What to run; `None` changes only the desired state.
        spec: Option<Arc<Spec>>,
        /// The client's name for this version, or the hash of the spec.
        revision: Option<RevisionId>,
        /// Whether it should run.
        desired: Desired,
    },
    /// Have an earlier revision of it again.
    Rollback(Rollback),
    /// Carry out a wish as a plan foresaw it, or not at all.
    Planned(Arc<Plan>, Box<Self>),
    /// Have it no more. Volumes that the file of a stack names are kept.
    Delete(WorkloadId),
    /// Have it no more, nor the volumes that the file of a stack names.
    DeleteWithVolumes(WorkloadId),
    /// Try again now, with all attempts.
    Retry(WorkloadId),
    /// End what runs and start it again: one wish, whoever leads in between.
    Restart(WorkloadId),
    /// Let what is paused run again.
    Resume(WorkloadId),
    /// Empty a node.
    Drain(NodeId, Arc<str>),
    /// Let it take work again.
    Undrain(NodeId),
    /// Mark a node.
    Taint(NodeId, Taint),
    /// Remove a mark.
    Untaint(NodeId, Arc<str>, Option<TaintEffect>),
    /// Set a label.
    SetLabel(NodeId, Arc<str>, Arc<str>),
    /// Remove a label.
    DeleteLabel(NodeId, Arc<str>),
    /// Somebody vouches that this silent node is switched off: its exclusive work may move.
    ConfirmGone(NodeId),
    /// Forget a node that is gone.
    RemoveNode(NodeId),
    /// Move work although so many nodes are silent.
    ReleaseBrake,
    /// What to do with a workload found on a node that nobody knows.
    Orphan(NodeId, WorkloadId, OrphanVerdict),
    /// Compare all that this node, or every node, holds with what is recorded, now.
    CheckDrift(Option<NodeId>),
    /// Keep this record, in place of the one that has its key.
    Keep(Arc<Entry>),
    /// Keep it no more.
    Forget(EntryKey),
    /// Use an invitation.
    Redeem(Claim),
    /// Have a volume without a workload, on this node where it is one of a node.
    CreateVolume(Arc<ManagedVolume>, Option<NodeId>),
    /// Have a volume no more, with its data.
    DeleteVolume(VolumeKey),
    /// Write down that somebody was refused; nothing else comes of it.
    Refused {
        /// The method they called.
        verb: Arc<str>,
        /// The rule that refused them.
        rule: Arc<str>,
        /// Refusals that were left out before this one.
        left_out: u64,
    },
    /// How to go on after the store lost what it knew.
    Recover(Recovery),
}

impl Ask {
    /// About what it is, `kind/name`, for the audit log.
    pub fn object(&self) -> Arc<str> {
        let of = |key: &EntryKey| format!("{}/{}", key.kind.word(), key.name);
        match (self, self.summary()) {
            (Self::Keep(entry), _) => Arc::from(of(&entry.key())),
            (Self::Forget(key), _) => Arc::from(of(key)),
            (_, (_, Some(workload), _)) => Arc::from(format!("workload/{workload}")),
            (_, (_, None, Some(node))) => Arc::from(format!("node/{node}")),
            (_, (_, None, None)) => Arc::from("cluster"),
        }
    }

    /// What is asked for, in a word, and of which workload and node.
    pub fn summary(&self) -> (&'static str, Option<&WorkloadId>, Option<&NodeId>) {
        match self {
            Self::Apply { workload, desired: Desired::Paused, .. } => {
                ("pause", Some(workload), None)
            }
            Self::Apply { workload, .. } => ("apply", Some(workload), None),
            Self::Planned(_, wish) => wish.summary(),
            Self::Rollback(asked) => ("rollback", Some(&asked.workload), None),
            Self::Resume(workload) => ("resume", Some(workload), None),
            Self::Delete(workload) => ("delete", Some(workload), None),
            Self::DeleteWithVolumes(workload) => ("delete with volumes", Some(workload), None),
            Self::Retry(workload) => ("retry", Some(workload), None),
            Self::Restart(workload) => ("restart", Some(workload), None),
            Self::Drain(node, _) => ("drain", None, Some(node)),
            Self::Undrain(node) => ("undrain", None, Some(node)),
            Self::Taint(node, _) => ("taint", None, Some(node)),
            Self::Untaint(node, ..) => ("untaint", None, Some(node)),
            Self::SetLabel(node, ..) => ("set a label", None, Some(node)),
            Self::DeleteLabel(node, _) => ("delete a label", None, Some(node)),
            Self::ConfirmGone(node) => ("confirm that it is gone", None, Some(node)),
            Self::RemoveNode(node) => ("remove", None, Some(node)),
            Self::ReleaseBrake => ("release the brake", None, None),
            Self::Keep(_) => ("keep a record", None, None),
            Self::Forget(_) => ("forget a record", None, None),
            Self::Redeem(_) => ("join", None, None),
            Self::Refused { .. } => ("refused", None, None),
            Self::CheckDrift(node) => ("look for differences", None, node.as_ref()),
            Self::CreateVolume(_, node) => ("create a disk", None, node.as_ref()),
            Self::DeleteVolume(_) => ("delete a disk", None, None),
            Self::Orphan(node, workload, verdict) => {
                let what = match verdict {
                    OrphanVerdict::Adopt => "adopt",
                    OrphanVerdict::Delete => "delete an orphan",
                    OrphanVerdict::Ignore => "ignore an orphan",
                };
                (what, Some(workload), Some(node))
            }
            Self::Recover(recovery) => {
                let what = match recovery {
                    Recovery::FromAgents => "recover from the agents",
                    Recovery::AcceptEmpty => "accept the empty store",
                    Recovery::FromSnapshot(_) => "recover from a snapshot",
                };
                (what, None, None)
            }
        }
    }
}

/// A wish to have an earlier revision of a workload again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollback {
    /// The workload.
    pub workload: WorkloadId,
    /// The number of the revision.
    pub number: u32,
    /// The name it had.
    pub revision: RevisionId,
    /// Its content, as the store has it.
    pub spec: Arc<Spec>,
}

/// What is to become of an orphan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OrphanVerdict {
    /// It is ours: keep it running and manage it.
    Adopt,
    /// Remove it.
    Delete,
    /// Leave it alone and stop reporting it.
    Ignore,
}

/// Ways out of recovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovery {
    /// Rebuild from what agents hold. Waits for nobody: agents that have not reported yet keep
    /// their work, which then shows as orphans to adopt.
    FromAgents,
    /// Begin anew; what agents hold becomes orphans.
    AcceptEmpty,
    /// Take this snapshot as the truth, and what agents hold beyond it as orphans.
    FromSnapshot(Box<Snapshot>),
}

/// The set of nodes whose inventory a recovery would use.
pub type Heard = BTreeSet<NodeId>;
