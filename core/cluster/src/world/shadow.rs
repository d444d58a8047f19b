//! Shadow mode: workloads that are placed, ordered and reported, but have no ports and no names.
//!
//! A namespace is in shadow by its record, all of them by a setting of the scheduler. Each decision
//! says whether it was made in shadow, because the agent may have to be told the same decision again
//! after that changed. A decision made the other way is replaced by a new one, on the usual path.
//!
//! Invariant: what is ordered in shadow publishes no port, holds none in placement, and takes over
//! nothing that another system may use.

use std::collections::BTreeSet;
use std::sync::Arc;

use persys_access::policy;
use persys_model::assignment::{Place, Version};
use persys_model::entry::{Entries, Entry, EntryKind};
use persys_model::event::Happening;
use persys_model::id::{NamespaceName, RevisionId, WorkloadId};
use persys_model::phase::Phase;
use persys_model::spec::shadow::{held_back, in_shadow};
use persys_model::spec::{HostPort, Spec, WorkloadType};
use persys_model::volume::{Volume, VolumeKey};
use persys_model::zoo::Bug;

use super::World;
use super::slots::{WorkloadIndex, WorkloadSlot};

/// Workloads that are named when a namespace cannot enter shadow because of them.
const MOST_NAMED: usize = 3;

/// A remark about a new decision, after one that was or was not made in shadow.
pub(super) fn remark(before: bool, after: bool) -> &'static str {
    match (before, after) {
        (_, true) => ", in shadow",
        (true, false) => ", no longer in shadow",
        (false, false) => "",
    }
}

/// The parts of the cluster that are in shadow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shadow {
    /// All of it, by a setting.
    whole: bool,
    /// Namespaces, by their records.
    namespaces: BTreeSet<NamespaceName>,
}

impl Shadow {
    pub(super) fn new(whole: bool) -> Self {
        Self { whole, namespaces: BTreeSet::new() }
    }

    /// Takes in the records as they are now; tells which namespaces entered or left shadow.
    pub(super) fn refresh(&mut self, entries: &Entries) -> BTreeSet<NamespaceName> {
        let now: BTreeSet<NamespaceName> = entries
            .namespaces()
            .filter(|namespace| namespace.shadow)
            .map(|namespace| namespace.name.clone())
            .collect();
        let before = std::mem::replace(&mut self.namespaces, now);
        before.symmetric_difference(&self.namespaces).cloned().collect()
    }

    fn holds(&self, spec: &Spec) -> bool {
        // Nearly always nobody is: their namespaces need not be looked at.
        self.whole || (!self.namespaces.is_empty() && self.namespaces.contains(&spec.namespace()))
    }
}

impl WorkloadSlot {
    /// The revision and the spec its node is told by the present decision.
    pub(super) fn ordered(&self, place: &Place) -> (RevisionId, Arc<Spec>) {
        let (revision, spec) = match &place.version {
            Some(version) => (&version.revision, &version.spec),
            None => (&self.workload.revision, &self.workload.spec),
        };
        ordered((revision, spec), place.shadow)
    }
}

/// A version as its node is told of it, in shadow or not.
pub(super) fn version_ordered(version: &Version, shadow: bool) -> (RevisionId, Arc<Spec>) {
    ordered((&version.revision, &version.spec), shadow)
}

fn ordered((revision, spec): (&RevisionId, &Arc<Spec>), shadow: bool) -> (RevisionId, Arc<Spec>) {
    let quiet = shadow.then(|| in_shadow(spec, revision)).flatten();
    match quiet {
        Some((spec, revision)) => (revision, spec),
        None => (revision.clone(), Arc::clone(spec)),
    }
}

impl World {
    /// True if a workload with this spec is in shadow now.
    pub(super) fn in_shadow(&self, spec: &Spec) -> bool {
        self.shadow.holds(spec)
    }

    /// True if the whole cluster is in shadow, by a setting of its scheduler.
    pub fn is_shadow(&self) -> bool {
        self.shadow.whole
    }

    /// The number of workloads in shadow.
    pub fn shadow_count(&self) -> usize {
        if !self.shadow.whole && self.shadow.namespaces.is_empty() {
            return 0;
        }
        self.workloads.iter().filter(|slot| self.shadow.holds(&slot.workload.spec)).count()
    }

    /// Ports that a workload takes on its node as things are now.
    pub(super) fn ports_of(&self, spec: &Spec) -> Vec<HostPort> {
        if self.in_shadow(spec) { Vec::new() } else { spec.host_ports() }
    }

    /// True if a decision about it is made in shadow now; and the ports it takes then.
    pub(super) fn shadow_and_ports(&self, slot: &WorkloadSlot) -> (bool, Vec<HostPort>) {
        let spec = &slot.workload.spec;
        (self.in_shadow(spec), self.ports_of(spec))
    }

    /// True if a decision was made in shadow and the workload is not there now, or the other way
    /// round, and its node may run something by it.
    pub(super) fn shadow_differs(&self, slot: &WorkloadSlot) -> bool {
        let Some(place) = &slot.assignment.place else { return false };
        let spec = &slot.workload.spec;
        let hidden = self.in_shadow(spec);
        let may_run = match slot.assignment.phase {
            Phase::Starting
            | Phase::Running
            | Phase::Restarting
            | Phase::Paused
            | Phase::Unresponsive => true,
            // The earlier version of a stack runs on after a failed update, with its ports.
            Phase::Failed => hidden && spec.workload_type() == WorkloadType::Compose,
            Phase::Pending
            | Phase::Stopping
            | Phase::Stopped
            | Phase::Completed
            | Phase::Backoff
            | Phase::Deleting => false,
        };
        may_run && place.shadow != hidden
    }

    /// True if it is in shadow now and the present decision was not made there.
    pub(super) fn enters_shadow(&self, slot: &WorkloadSlot) -> bool {
        self.shadow_differs(slot) && self.in_shadow(&slot.workload.spec)
    }

    /// A new decision for what goes on while its new revision waits: the same, without its ports.
    pub(super) fn hide_place(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let Some(before) = slot.assignment.place.clone() else { return };
        let epoch = self.draw_epoch(Some(before.epoch));
        let now = self.now.mono;
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let Some(place) = Arc::make_mut(&mut slot.assignment).place.as_mut() else { return };
        place.epoch = epoch;
        place.shadow = true;
        place.ports = Vec::new();
        slot.told = None;
        slot.seen = None;
        slot.amiss_since = None;
        slot.runs_older = false;
        slot.attempt.begin_anew(slot.workload.spec.stop_grace_ms(), now);
        self.touch_decision(at);
        if let Some(node) = self.node_at(&before.node) {
            self.index.give(node, &before.reserved, &before.ports);
            self.index.take(node, &before.reserved, &[]);
            self.room_changed = true;
        }
    }

    /// The records of namespaces changed: workloads that entered or left shadow are looked at again.
    pub(super) fn namespaces_changed(&mut self) {
        for name in self.shadow.refresh(&self.entries) {
            let on = self.shadow.namespaces.contains(&name);
            let inside = self.inside(&name);
            for at in &inside {
                self.mark_dirty(*at);
            }
            let workloads = inside.len();
            self.happen(Happening::Shadow { namespace: Some(name), on, workloads });
        }
    }

    /// Says that the whole cluster is in shadow, if something in it was decided otherwise before.
    pub(super) fn tell_shadow(&mut self) {
        let differs = |slot: &&WorkloadSlot| self.shadow_differs(slot);
        let workloads = self.workloads.iter().filter(differs).count();
        if self.shadow.whole && workloads > 0 {
            self.happen(Happening::Shadow { namespace: None, on: true, workloads });
            self.close_unit();
        }
    }

    fn inside(&self, name: &NamespaceName) -> Vec<WorkloadIndex> {
        let is_inside = |at: &WorkloadIndex| {
            self.workloads.get(at.0).is_some_and(|slot| slot.workload.spec.namespace() == *name)
        };
        self.workload_by_id.values().copied().filter(is_inside).collect()
    }

    /// The reason a namespace cannot enter shadow: workloads in it that use what others may use.
    pub(super) fn cannot_enter_shadow(&self, entry: &Entry) -> Option<String> {
        let Entry::Namespace(namespace) = entry else { return None };
        let name = &namespace.name;
        if !namespace.shadow || self.shadow.namespaces.contains(name) {
            return None;
        }
        let mut told = Vec::new();
        for at in self.inside(name) {
            let Some(slot) = self.workloads.get(at.0) else { continue };
            if let Some(first) = policy::shadow_refusals(&slot.workload.spec).first() {
                told.push(format!("{}: {first}", slot.workload.id));
            }
            if told.len() == MOST_NAMED {
                break;
            }
        }
        let told = (!told.is_empty()).then(|| told.join("; "))?;
        Some(format!("the namespace {name} cannot enter shadow: {told}"))
    }

    /// The reason a spec may not be run in shadow, if it is there and may not.
    pub(super) fn shadow_refusal(&self, id: &WorkloadId, spec: &Spec) -> Option<String> {
        if !self.in_shadow(spec) {
            return None;
        }
        let refused = policy::shadow_refusals(spec);
        let mut told: Vec<_> = refused.iter().map(ToString::to_string).collect();
        for key in self.others_disks(id, spec) {
            told.push(format!(
                "shadow: disk {key} was not made for this workload and would be written; make it \
                 read_only, choose another name, or leave shadow"
            ));
        }
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// Disks of others that it would write: data that was made without it, or that others use.
    fn others_disks<'a>(&'a self, id: &'a WorkloadId, spec: &'a Spec) -> Vec<&'a VolumeKey> {
        let written = spec.managed_volumes().iter().filter(|asked| !asked.read_only);
        let kept = written.filter_map(|asked| self.volumes.get(&VolumeKey::of(asked)));
        let of_others = |volume: &&Arc<Volume>| {
            volume.users.iter().any(|user| user != id)
                || (volume.used && !volume.users.contains(id))
        };
        kept.filter(of_others).map(|volume| &volume.key).collect()
    }

    /// The reason an orphan is left alone in shadow: another system may have started it.
    pub(super) fn orphan_in_shadow(&self, id: &WorkloadId, spec: Option<&Spec>) -> Option<String> {
        let by_name = NamespaceName::default_one();
        let hidden = match spec {
            Some(spec) => self.in_shadow(spec),
            None => self.shadow.whole || self.shadow.namespaces.contains(&by_name),
        };
        hidden.then(|| {
            format!(
                "shadow: {id} was not started from here, and another system may use it; leave shadow \
                 to adopt or delete it"
            )
        })
    }

    /// Everything of a workload that is held back because it is in shadow; empty if it is not.
    pub fn held_back(&self, id: &WorkloadId) -> Vec<String> {
        let slot = self.workload_by_id.get(id).and_then(|at| self.workloads.get(at.0));
        let Some(slot) = slot.filter(|slot| self.is_hidden(slot)) else { return Vec::new() };
        let ports = held_back(&slot.workload.spec).into_iter();
        ports.map(|port| format!("port {port} is not published")).collect()
    }

    /// True if a workload has no name: it is in shadow, or the present decision was made there.
    pub(super) fn is_hidden(&self, slot: &WorkloadSlot) -> bool {
        let place = slot.assignment.place.as_ref();
        place.is_some_and(|place| place.shadow) || self.in_shadow(&slot.workload.spec)
    }

    /// True only in the proofs, with a known bug put back.
    pub(crate) fn announces_shadow(&self) -> bool {
        self.settings.zoo.has(Bug::ShadowAnnounced)
    }

    /// Takes in that a record was put or dropped.
    pub(super) fn entry_changed(&mut self, kind: EntryKind) {
        if kind == EntryKind::Namespace {
            self.namespaces_changed();
        }
    }
}
