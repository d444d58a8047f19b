//! What the scheduler decided about a workload, and what became of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::failure::Failure;
use crate::health::HealthRecord;
use crate::id::{NodeId, RevisionId, SecretName, WorkloadId};
use crate::phase::Phase;
use crate::resources::Resources;
use crate::spec::HostPort;
use crate::spec::Spec;
use crate::time::WallMillis;
use crate::token::{Epoch, Generation, Session};

/// The stored decision. Only the scheduler changes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Whose.
    pub workload: WorkloadId,
    /// Where it is in its life.
    pub phase: Phase,
    /// Why it is there.
    pub reason: Reason,
    /// Where it runs, if anywhere.
    pub place: Option<Place>,
    /// Nodes that may still hold an earlier copy. Each goes when its node says the copy is gone.
    pub former: BTreeMap<NodeId, FormerCopy>,
    /// The node that has its data, once it has any.
    pub data_on: Option<NodeId>,
    /// The update to the present revision, until that revision runs.
    pub update: Option<Update>,
    /// Its health while it runs; `None` where nothing checks it.
    pub health: Option<Box<HealthRecord>>,
}

impl Assignment {
    /// A decision about a workload that has neither an earlier copy, an update nor a health.
    #[must_use]
    pub fn found(workload: WorkloadId, phase: Phase, reason: Reason, place: Place) -> Self {
        let (former, place) = (BTreeMap::new(), Some(place));
        let (data_on, update, health) = (None, None, None);
        Self { workload, phase, reason, place, former, data_on, update, health }
    }
}

/// An update whose new revision does not run yet, or did not come to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The revision that ran before, which runs on where the update left it alone.
    pub from: Version,
    /// The number of that revision.
    pub number: u32,
    /// The node on which it may run on; `None` once it is known to go.
    pub on: Option<NodeId>,
    /// The failure of the last attempt; `None` while none failed.
    pub failed: Option<UpdateFailure>,
}

/// A failed attempt of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateFailure {
    /// The failure.
    pub failure: Failure,
    /// The time of it.
    pub at: WallMillis,
    /// True if nothing more is tried.
    pub is_final: bool,
}

/// The update of a workload, as every page shows it beside its status. There is one word for each on
/// the wire, in lists, explanations, metrics, the dashboard and the manuals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UpdateState {
    /// A new revision was asked for and does not run yet.
    Updating,
    /// A new revision did not come to run, and nothing more is tried.
    UpdateFailed,
    /// The present revision is an earlier one that was taken back.
    RolledBack,
}

impl UpdateState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Updating, Self::UpdateFailed, Self::RolledBack];

    /// The word on the wire and in metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Updating => "Updating",
            Self::UpdateFailed => "UpdateFailed",
            Self::RolledBack => "RolledBack",
        }
    }

    /// The same for people, as it stands beside a status.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Updating => "updating",
            Self::UpdateFailed => "update failed",
            Self::RolledBack => "rolled back",
        }
    }
}

impl Update {
    /// Its state.
    #[must_use]
    pub fn state(&self) -> UpdateState {
        match &self.failed {
            Some(failed) if failed.is_final => UpdateState::UpdateFailed,
            Some(_) | None => UpdateState::Updating,
        }
    }
}

/// Where a workload runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The node.
    pub node: NodeId,
    /// The number of this decision.
    pub epoch: Epoch,
    /// The version of the intent it carries out.
    pub generation: Generation,
    /// True if its node is told to pause it.
    pub paused: bool,
    /// What is held for it there.
    pub reserved: Resources,
    /// Ports that are held for it there.
    pub ports: Vec<HostPort>,
    /// What it carries out, once the user wants something newer for which there is no room yet.
    pub version: Option<Version>,
    /// Digests of the values its node was given of secrets that what runs is signalled for.
    pub values: BTreeMap<SecretName, Arc<str>>,
    /// True if this decision was made in shadow: what is ordered has no published ports.
    pub shadow: bool,
    /// Set while what runs here is ended for a restart, to the generation this place has from its new
    /// start on. Until then the node is told to have it at rest.
    pub restart: Option<Generation>,
}

impl Place {
    /// The first place of something that its agent already has. The values of its secrets are not known: an
    /// agent tells what runs only of values that differ from those it holds.
    #[must_use]
    pub fn found(node: NodeId, epoch: Epoch, reserved: Resources, ports: Vec<HostPort>) -> Self {
        Self {
            node,
            epoch,
            generation: Generation(1),
            paused: false,
            reserved,
            ports,
            version: None,
            values: BTreeMap::new(),
            shadow: false,
            restart: None,
        }
    }
}

/// One version of a workload: its name and what runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Its name.
    pub revision: RevisionId,
    /// What runs.
    pub spec: Arc<Spec>,
}

/// A copy that may still exist on a node it was moved from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormerCopy {
    /// The decision that it is to go.
    pub epoch: Epoch,
    /// What is held for it until it is known to be gone.
    pub reserved: Resources,
    /// True if a restart was asked for while it was here: it is ended before the workload starts on this
    /// node again.
    pub restart: bool,
}

/// A copy on an absent node whose workload is already deleted: the order that waits there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grave {
    /// Whose copy.
    pub workload: WorkloadId,
    /// Where.
    pub node: NodeId,
    /// Copies up to this decision are to go.
    pub epoch: Epoch,
    /// What is held for it until it is known to be gone.
    pub reserved: Resources,
    /// The version the node has, where its agent has to be told it once more to stop the copy and keep
    /// its data.
    pub version: Option<Version>,
}

/// Why a workload is in its phase, with a date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// A short word that programs match on.
    pub code: ReasonCode,
    /// A sentence that people read; may be empty where the code says all.
    pub message: Arc<str>,
    /// The failure behind it, if there is one.
    pub failure: Option<Failure>,
    /// Since when it holds.
    pub since: WallMillis,
}

/// Why a workload is in its phase, as a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReasonCode {
    /// Just accepted.
    Submitted,
    /// No node fits.
    NoNodeFits,
    /// A node was chosen.
    Placed,
    /// The node says it runs.
    Running,
    /// The order for its node cannot be delivered; it is sent again.
    DispatchFailed,
    /// The user changed the spec.
    Updated,
    /// The new revision fits nowhere; the old one goes on.
    UpdateWaits,
    /// The new revision did not come to run; the old one goes on.
    UpdateFailed,
    /// The user took an earlier revision back.
    RolledBack,
    /// The user wants it stopped.
    StopRequested,
    /// The node says it stopped.
    Stopped,
    /// The user wants it paused.
    PauseRequested,
    /// Its node says that it is paused, as the user wants.
    Paused,
    /// It was found paused, and its user does not want that; its agent resumes it.
    FoundPaused,
    /// It is stuck, or its runtime does not answer for it; its agent stops and starts it.
    NotResponding,
    /// The user wants it to run again.
    StartRequested,
    /// It ended as it should.
    Completed,
    /// It ended and is started again on its node.
    Restarting,
    /// An attempt failed; another will follow.
    AttemptFailed,
    /// Nothing more is tried.
    GaveUp,
    /// The user asked to try again.
    RetryRequested,
    /// The time for another attempt has come.
    RetryDue,
    /// Its node is lost.
    NodeLost,
    /// Its node is being emptied.
    NodeDrained,
    /// It waits for its node, which has its data.
    DataOnNode,
    /// It waits until its old copy is provably stopped.
    WaitsForFence,
    /// The user wants it gone.
    DeleteRequested,
    /// Rebuilt from what agents hold.
    Recovered,
    /// Taken over from a node that ran it without us.
    Adopted,
}

impl ReasonCode {
    /// All of them.
    pub const ALL: [Self; 29] = [
        Self::Submitted,
        Self::NoNodeFits,
        Self::Placed,
        Self::Running,
        Self::DispatchFailed,
        Self::Updated,
        Self::UpdateWaits,
        Self::UpdateFailed,
        Self::RolledBack,
        Self::StopRequested,
        Self::Stopped,
        Self::PauseRequested,
        Self::Paused,
        Self::FoundPaused,
        Self::NotResponding,
        Self::StartRequested,
        Self::Completed,
        Self::Restarting,
        Self::AttemptFailed,
        Self::GaveUp,
        Self::RetryRequested,
        Self::RetryDue,
        Self::NodeLost,
        Self::NodeDrained,
        Self::DataOnNode,
        Self::WaitsForFence,
        Self::DeleteRequested,
        Self::Recovered,
        Self::Adopted,
    ];

    /// The word on the wire.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Submitted => "Submitted",
            Self::NoNodeFits => "NoNodeFits",
            Self::Placed => "Placed",
            Self::Running => "Running",
            Self::DispatchFailed => "DispatchFailed",
            Self::Updated => "Updated",
            Self::UpdateWaits => "UpdateWaits",
            Self::UpdateFailed => "UpdateFailed",
            Self::RolledBack => "RolledBack",
            Self::StopRequested => "StopRequested",
            Self::Stopped => "Stopped",
            Self::PauseRequested => "PauseRequested",
            Self::Paused => "Paused",
            Self::FoundPaused => "FoundPaused",
            Self::NotResponding => "NotResponding",
            Self::StartRequested => "StartRequested",
            Self::Completed => "Completed",
            Self::Restarting => "Restarting",
            Self::AttemptFailed => "AttemptFailed",
            Self::GaveUp => "GaveUp",
            Self::RetryRequested => "RetryRequested",
            Self::RetryDue => "RetryDue",
            Self::NodeLost => "NodeLost",
            Self::NodeDrained => "NodeDrained",
            Self::DataOnNode => "DataOnNode",
            Self::WaitsForFence => "WaitsForFence",
            Self::DeleteRequested => "DeleteRequested",
            Self::Recovered => "Recovered",
            Self::Adopted => "Adopted",
        }
    }
}

/// The lease a node holds: its word that it is alive, and until when we take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The life it is for.
    pub session: Session,
    /// How long each heartbeat keeps it, in milliseconds.
    pub length_ms: u64,
}
