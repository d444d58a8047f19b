//! What each way out of recovery would do, to be shown before it is done.
//!
//! A plan compares two things: the basis, which is what the store or a snapshot says, and the
//! inventories of the agents heard so far. It changes nothing. Carrying out "from agents" follows
//! the same plan, so what was shown is what is done.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use persys_model::id::{NodeId, WorkloadId};
use persys_model::inventory::{Held, Tombstone};
use persys_model::link::Registration;
use persys_model::token::Epoch;
use persys_model::volume::VolumeKey;

use super::World;
use crate::input::Recovery;
use crate::record::Snapshot;

/// What a way out of recovery would do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecoveryPlan {
    /// Workloads that stay as the store or the snapshot has them.
    pub kept: BTreeSet<WorkloadId>,
    /// Workloads that would be restored, and from which node.
    pub restored: BTreeMap<WorkloadId, NodeId>,
    /// Workloads of the basis that agents prove were deleted since, and which node proves it.
    pub deleted: BTreeMap<WorkloadId, NodeId>,
    /// Workloads of the store that would be known no more.
    pub dropped: BTreeSet<WorkloadId>,
    /// Copies that are not where their workload has its place; they go once that one runs.
    pub superseded: BTreeSet<(WorkloadId, NodeId)>,
    /// Running things known only by their labels: they cannot be restored without their spec.
    pub without_spec: BTreeSet<(WorkloadId, NodeId)>,
    /// What would run on as something nobody knows, until an operator decides about it.
    pub orphans: BTreeSet<(WorkloadId, NodeId)>,
    /// Where basis and agents, or agents among themselves, say different things.
    pub conflicts: BTreeSet<Conflict>,
    /// Nodes whose inventory was heard.
    pub heard: BTreeSet<NodeId>,
    /// Nodes the store or the snapshot knows that were not heard yet: what they hold is not in
    /// the plan.
    pub missing: BTreeSet<NodeId>,
}

/// Two words about one workload that do not go together, and which of them would be believed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// About what.
    pub workload: WorkloadId,
    /// What is said.
    pub what: Disagreement,
}

/// How two words differ.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disagreement {
    /// Two nodes hold the same decision; the first would be believed.
    HeldTwice(NodeId, NodeId),
    /// It was recorded on one node and a later decision put it on another, where it is.
    Moved {
        /// Where it was recorded.
        from: NodeId,
        /// Where it is.
        to: NodeId,
    },
    /// This node proves that it was deleted under a later decision than another node holds.
    HeldAndRemoved {
        /// Who holds it.
        held: NodeId,
        /// Who removed it.
        removed: NodeId,
    },
    /// This node removed its copy under a later decision and kept the data, and nobody heard so far
    /// has another: it may have moved or been deleted, and is kept.
    CopyRemoved(NodeId),
    /// This node holds a later version than the snapshot, which would go back to its own.
    SnapshotIsOlder(NodeId),
    /// This node proves that it was deleted after the snapshot; it would be started again.
    ComesBack(NodeId),
    /// The store knows a later decision than the snapshot, which would be forgotten.
    StoreIsNewer,
    /// It names a volume that one node at a time may have, and another workload has it elsewhere: it
    /// would leave its node, and be started where the volume is once it is gone there.
    VolumeElsewhere {
        /// The volume.
        volume: VolumeKey,
        /// The node it would leave.
        from: NodeId,
        /// Where the volume is.
        to: NodeId,
    },
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = &self.workload;
        match &self.what {
            Disagreement::HeldTwice(one, other) => {
                write!(f, "{id}: {one} and {other} hold the same decision; {one} is believed")
            }
            Disagreement::Moved { from, to } => {
                write!(f, "{id}: recorded on {from}, found on {to} under a later decision")
            }
            Disagreement::HeldAndRemoved { held, removed } => write!(
                f,
                "{id}: {held} holds it, but {removed} removed it under a later decision; it counts \
                 as deleted"
            ),
            Disagreement::CopyRemoved(node) => write!(
                f,
                "{id}: {node} removed its copy under a later decision and kept the data; the \
                 workload is kept"
            ),
            Disagreement::SnapshotIsOlder(node) => write!(
                f,
                "{id}: {node} holds a later decision than the snapshot; it goes back to the \
                 snapshot's"
            ),
            Disagreement::ComesBack(node) => write!(
                f,
                "{id}: {node} proves that it was deleted after the snapshot; it is started again"
            ),
            Disagreement::VolumeElsewhere { volume, from, to } => write!(
                f,
                "{id}: one node at a time may have {volume}, and {to} has it for another; it leaves \
                 {from}, and runs on {to} once it is gone there"
            ),
            Disagreement::StoreIsNewer => {
                write!(
                    f,
                    "{id}: the store knows a later decision than the snapshot; it is forgotten"
                )
            }
        }
    }
}

/// What is taken for recorded: for each workload its place, if it has one.
#[derive(Debug, Default)]
struct Basis {
    places: BTreeMap<WorkloadId, Option<(NodeId, Epoch)>>,
    nodes: BTreeSet<NodeId>,
}

impl Basis {
    fn of_snapshot(snapshot: &Snapshot) -> Self {
        let decided: BTreeMap<_, _> =
            snapshot.assignments.iter().map(|decided| (&decided.workload, decided)).collect();
        // An intent without its decision is left alone, as it is when a store is read.
        let places = snapshot.workloads.iter().filter_map(|workload| {
            let place = decided.get(&workload.id)?.place.as_ref();
            let place = place.map(|place| (place.node.clone(), place.epoch));
            Some((workload.id.clone(), place))
        });
        let nodes = snapshot.nodes.iter().map(|node| node.facts.id.clone()).collect();
        Self { places: places.collect(), nodes }
    }

    fn place(&self, id: &WorkloadId) -> Option<&(NodeId, Epoch)> {
        self.places.get(id)?.as_ref()
    }

    fn epoch(&self, id: &WorkloadId) -> Epoch {
        self.place(id).map(|(_, epoch)| *epoch).unwrap_or_default()
    }
}

impl World {
    /// What this way out of recovery would do, with the agents heard so far.
    pub fn recovery_plan(&self, way: &Recovery) -> RecoveryPlan {
        let stored = self.stored_basis();
        let heard = &self.heard;
        let (mut plan, known) = match way {
            Recovery::FromAgents => {
                let mut plan = from_agents(&stored, heard);
                self.part_volumes(&mut plan);
                (plan, stored.nodes)
            }
            Recovery::AcceptEmpty => (from_basis(&Basis::default(), &stored, heard), stored.nodes),
            Recovery::FromSnapshot(snapshot) => {
                let basis = Basis::of_snapshot(snapshot);
                let plan = from_basis(&basis, &stored, heard);
                (plan, stored.nodes.into_iter().chain(basis.nodes).collect())
            }
        };
        plan.heard = heard.keys().cloned().collect();
        plan.missing = known.difference(&plan.heard).cloned().collect();
        plan
    }

    /// What the store says.
    fn stored_basis(&self) -> Basis {
        let places = self.workload_by_id.iter().filter_map(|(id, at)| {
            let place = self.workloads.get(at.0)?.assignment.place.as_ref();
            Some((id.clone(), place.map(|place| (place.node.clone(), place.epoch))))
        });
        Basis { places: places.collect(), nodes: self.node_by_id.keys().cloned().collect() }
    }
}

/// The store stays, and whatever agents hold under later decisions is added.
fn from_agents(stored: &Basis, heard: &BTreeMap<NodeId, Registration>) -> RecoveryPlan {
    let mut plan = RecoveryPlan::default();
    let newest = newest_copies(heard);
    for (node, held) in all_held(heard) {
        let id = &held.report.workload;
        let winner = newest.get(id);
        if held.spec.is_none() {
            plan.without_spec.insert((id.clone(), node.clone()));
            if winner.is_none() && !stored.places.contains_key(id) {
                plan.orphans.insert((id.clone(), node.clone()));
            }
            continue;
        }
        let Some((winner, newest)) = winner else { continue };
        // Nobody may hold a decision as late as the recorded one: then its place stays, whoever of
        // those heard holds the latest.
        let later = newest.report.epoch > stored.epoch(id);
        let home = stored.place(id).map(|(place, _)| place).filter(|_| !later);
        if home.unwrap_or(*winner) != node {
            plan.superseded.insert((id.clone(), node.clone()));
        }
        if *winner != node {
            if newest.report.epoch == held.report.epoch {
                let what = Disagreement::HeldTwice((*winner).clone(), node.clone());
                plan.conflicts.insert(Conflict { workload: id.clone(), what });
            }
        } else if later {
            plan.restored.insert(id.clone(), node.clone());
            if let Some((from, _)) = stored.place(id).filter(|(from, _)| from != node) {
                let what = Disagreement::Moved { from: from.clone(), to: node.clone() };
                plan.conflicts.insert(Conflict { workload: id.clone(), what });
            }
        }
    }
    for (node, Tombstone { workload: id, epoch, purged }) in all_tombstones(heard) {
        let copy = newest.get(id);
        let known = stored.places.contains_key(id) && !plan.restored.contains_key(id);
        let later = copy.is_some_and(|(_, held)| held.report.epoch > *epoch);
        if !known || later || *epoch <= stored.epoch(id) {
            continue;
        }
        if !purged {
            // A copy went and its data stayed, as when work moves: that is no word to delete it.
            if copy.is_none() {
                let what = Disagreement::CopyRemoved(node.clone());
                plan.conflicts.insert(Conflict { workload: id.clone(), what });
            }
            continue;
        }
        plan.deleted.insert(id.clone(), node.clone());
        if let Some((held, _)) = copy {
            let what =
                Disagreement::HeldAndRemoved { held: (*held).clone(), removed: node.clone() };
            plan.conflicts.insert(Conflict { workload: id.clone(), what });
        }
    }
    plan.kept = stored.places.keys().cloned().collect();
    plan.kept.retain(|id| !plan.restored.contains_key(id) && !plan.deleted.contains_key(id));
    plan
}

/// The basis is the truth, and whatever agents hold beyond it is left alone.
fn from_basis(
    basis: &Basis,
    stored: &Basis,
    heard: &BTreeMap<NodeId, Registration>,
) -> RecoveryPlan {
    let mut plan = RecoveryPlan::default();
    let mut conflicts = BTreeSet::new();
    let mut differ = |workload: &WorkloadId, what| {
        conflicts.insert(Conflict { workload: workload.clone(), what });
    };
    for (node, held) in all_held(heard) {
        let id = &held.report.workload;
        let spot = (id.clone(), node.clone());
        if held.spec.is_none() {
            plan.without_spec.insert(spot.clone());
        }
        if !basis.places.contains_key(id) {
            plan.orphans.insert(spot);
            continue;
        }
        if basis.place(id).is_none_or(|(place, _)| place != node) {
            plan.superseded.insert(spot);
        }
        if held.report.epoch > basis.epoch(id) {
            differ(id, Disagreement::SnapshotIsOlder(node.clone()));
        }
    }
    let newest = newest_copies(heard);
    for (node, Tombstone { workload: id, epoch, purged }) in all_tombstones(heard) {
        let held = newest.contains_key(id);
        if *purged && basis.places.contains_key(id) && !held && *epoch > basis.epoch(id) {
            differ(id, Disagreement::ComesBack(node.clone()));
        }
    }
    for id in stored.places.keys() {
        if !basis.places.contains_key(id) {
            plan.dropped.insert(id.clone());
        } else if stored.epoch(id) > basis.epoch(id) {
            differ(id, Disagreement::StoreIsNewer);
        }
    }
    plan.kept = basis.places.keys().cloned().collect();
    plan.conflicts = conflicts;
    plan
}

fn all_held(heard: &BTreeMap<NodeId, Registration>) -> impl Iterator<Item = (&NodeId, &Held)> {
    heard.iter().flat_map(|(node, registration)| {
        registration.inventory.held.iter().map(move |held| (node, held))
    })
}

fn all_tombstones(
    heard: &BTreeMap<NodeId, Registration>,
) -> impl Iterator<Item = (&NodeId, &Tombstone)> {
    heard.iter().flat_map(|(node, registration)| {
        registration.inventory.tombstones.iter().map(move |tombstone| (node, tombstone))
    })
}

/// For each workload the node that holds its newest decision, among those that know its spec.
pub(super) fn newest_copies(
    heard: &BTreeMap<NodeId, Registration>,
) -> BTreeMap<&WorkloadId, (&NodeId, &Held)> {
    let mut newest: BTreeMap<&WorkloadId, (&NodeId, &Held)> = BTreeMap::new();
    for (node, held) in all_held(heard).filter(|(_, held)| held.spec.is_some()) {
        let best = newest.entry(&held.report.workload).or_insert((node, held));
        if held.report.epoch > best.1.report.epoch {
            *best = (node, held);
        }
    }
    newest
}
