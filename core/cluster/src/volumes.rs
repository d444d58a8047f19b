//! The managed volumes of the cluster, as they follow from what is recorded of workloads.
//!
//! A volume is there because a workload asked for it: its spec says what it is, its assignment where.
//! So nothing about it is stored twice, and what is said of it is as true as what is said of them.

use std::collections::{BTreeMap, BTreeSet};

use persys_model::assignment::Assignment;
use persys_model::failure::FailureReason;
use persys_model::id::{NodeId, VolumeName, WorkloadId};
use persys_model::phase::Phase;
use persys_model::spec::volume::{ManagedVolume, VolumeDriver};
use persys_model::time::WallMillis;

use crate::world::World;

/// A volume of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// What was asked for, by the first workload that did.
    pub asked: ManagedVolume,
    /// How it is.
    pub phase: VolumePhase,
    /// What last went wrong with it.
    pub last_error: String,
    /// The node that has the data, where one node alone does.
    pub home: Option<NodeId>,
    /// Who uses it, and how.
    pub attachments: BTreeMap<WorkloadId, Attachment>,
    /// When the first workload asked for it.
    pub created_at: WallMillis,
    /// When something last changed with who uses it.
    pub updated_at: WallMillis,
}

/// A volume in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Where; `None` as long as the workload has no node.
    pub node: Option<NodeId>,
    /// How far it is.
    pub phase: VolumePhase,
}

/// How a volume is, in the words of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VolumePhase {
    /// Nobody has made it yet: its workload waits for a node.
    Pending,
    /// A node was told to have it.
    Provisioning,
    /// Its workload is at rest; the data is where it was.
    Released,
    /// It is in use.
    Attached,
    /// It could not be had.
    Error,
    /// It goes with its workload, as its policy says.
    Deleting,
}

impl VolumePhase {
    /// The word of the contract.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Provisioning => "Provisioning",
            Self::Released => "Released",
            Self::Attached => "Attached",
            Self::Error => "Error",
            Self::Deleting => "Deleting",
        }
    }
}

impl Volume {
    /// `<driver>:<name>`, which no other volume of the cluster has.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}:{}", self.asked.driver.word(), self.asked.name)
    }

    /// The nodes that have it at present.
    #[must_use]
    pub fn nodes(&self) -> BTreeSet<NodeId> {
        self.attachments.values().filter_map(|one| one.node.clone()).collect()
    }
}

fn phase_of(assignment: &Assignment) -> VolumePhase {
    let failure = assignment.reason.failure.as_ref();
    let broken = failure.is_some_and(|failure| failure.reason == FailureReason::StorageError);
    match assignment.phase {
        Phase::Pending => VolumePhase::Pending,
        _ if broken => VolumePhase::Error,
        Phase::Starting => VolumePhase::Provisioning,
        Phase::Running | Phase::Restarting | Phase::Stopping => VolumePhase::Attached,
        Phase::Stopped | Phase::Completed | Phase::Backoff | Phase::Failed => VolumePhase::Released,
        Phase::Deleting => VolumePhase::Deleting,
    }
}

/// All volumes that workloads of the cluster have, by driver and name.
#[must_use]
pub fn volumes(world: &World) -> BTreeMap<(VolumeDriver, VolumeName), Volume> {
    let mut all = BTreeMap::new();
    for view in world.workloads() {
        let (workload, assignment) = (view.workload, view.assignment);
        for asked in workload.spec.managed_volumes() {
            let phase = phase_of(assignment);
            let node = assignment.place.as_ref().map(|place| place.node.clone());
            let key = (asked.driver, asked.name.clone());
            let since = assignment.reason.since;
            let volume = all.entry(key).or_insert_with(|| Volume {
                asked: asked.clone(),
                phase,
                last_error: String::new(),
                home: None,
                attachments: BTreeMap::new(),
                created_at: workload.created_at,
                updated_at: since,
            });
            volume.phase = volume.phase.max(phase);
            volume.created_at = volume.created_at.min(workload.created_at);
            volume.updated_at = volume.updated_at.max(since);
            if phase == VolumePhase::Error
                && let Some(failure) = &assignment.reason.failure
            {
                volume.last_error = failure.message.to_string();
            }
            if asked.driver.is_local() {
                volume.home = assignment.data_on.clone().or_else(|| node.clone());
            }
            volume.attachments.insert(workload.id.clone(), Attachment { node, phase });
        }
    }
    all
}
