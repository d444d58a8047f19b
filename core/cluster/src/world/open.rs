//! Reading the store: at the start of a leadership, and after the store was lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use persys_model::audit::AuditHead;
use persys_model::drift::DriftKind;
use persys_model::event::Happening;
use persys_model::mode::Mode;
use persys_model::node::{Condition, Node};
use persys_model::phase::Phase;
use persys_model::time::{Millis, Now};
use persys_model::token::{CommitSeq, Epoch, EventSeq, Term};
use persys_model::zoo::Bug;

use super::attempt::Attempt;
use super::letter_case::CapitalIds;
use super::slots::{NodeSlot, Slab, WorkloadIndex, WorkloadSlot};
use super::timers::{Timer, Timers};
use super::waiting::WaitingRoom;
use super::{World, journal};
use crate::contract::capability;
use crate::effects::{Effects, Mark};
use crate::placement::{Index, NodeIndex, Traits};
use crate::record::{Head, Snapshot};
use crate::settings::Settings;
use crate::store::HighWater;

/// Told to placement of nodes whose watchdog works: exclusive work goes nowhere else. The space
/// keeps it apart from every label a user can set.
pub(super) const FENCE_LABEL: &str = "working fence";

/// The label of nodes whose agents can pause, among those placement sees. No user can set it.
pub(super) const PAUSE_LABEL: &str = "agent that can pause";

/// What a process remembers of the store.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// The last head it knows of.
    pub known: Option<HighWater>,
    /// True if all it remembers comes from its disk, which may have been set back with the store.
    pub fresh: bool,
}

impl World {
    /// The cluster as a new leader reads it. Every node first gets a full lease.
    ///
    /// `fresh_cluster` is the identity to use should the store turn out to be new: it is new when
    /// it holds nothing and `known`, what this host remembers, is nothing either.
    pub fn open(
        settings: Settings,
        lease_term: Term,
        snapshot: Snapshot,
        known: Option<HighWater>,
        fresh_cluster: Arc<str>,
        now: Now,
    ) -> (Self, Effects) {
        Self::open_as(
            settings,
            lease_term,
            snapshot,
            Memory { known, fresh: false },
            fresh_cluster,
            now,
        )
    }

    /// The same, for a process that may have just started: then agents are heard before anything is
    /// decided.
    pub fn open_as(
        settings: Settings,
        lease_term: Term,
        snapshot: Snapshot,
        Memory { known, fresh }: Memory,
        fresh_cluster: Arc<str>,
        now: Now,
    ) -> (Self, Effects) {
        let loss = loss(&snapshot, known.as_ref()).filter(|_| !settings.zoo.has(Bug::EmptyIsTruth));
        let head = snapshot.head.clone();
        let mut world = Self::empty(settings, lease_term, head, known, fresh_cluster, now);
        world.fill(snapshot);
        world.tell_entries();
        if let Some(why) = loss {
            world.mark(Mark::RecoveryEntered);
            world.mode = Mode::Recovery;
            world.mode_why = why;
        } else {
            if fresh {
                world.listen();
            }
            if !world.witness.listens() {
                world.begin_work();
            }
        }
        let effects = world.finish();
        (world, effects)
    }

    /// Decides about everything that was read.
    pub(super) fn begin_work(&mut self) {
        self.look_at_all_volumes();
        self.tell_shadow();
        self.settle_dirty();
        self.place_waiting();
    }

    /// A cluster without anything in it.
    pub(super) fn empty(
        settings: Settings,
        lease_term: Term,
        head: Option<Head>,
        known: Option<HighWater>,
        fresh_cluster: Arc<str>,
        now: Now,
    ) -> Self {
        let mut head = head.unwrap_or(Head {
            cluster: known.as_ref().map_or(fresh_cluster, |known| Arc::clone(&known.cluster)),
            incarnation: 0,
            seq: CommitSeq(0),
            epoch: Epoch(0),
            event: EventSeq(0),
            audit: AuditHead::default(),
            rebuilding: false,
            mark_key: Arc::from(""),
        });
        let witness = super::witness::Witness::new(&mut head, &settings);
        Self {
            term: lease_term.in_incarnation(head.incarnation),
            lease_term,
            leads_until: now.mono,
            mode: Mode::Normal,
            mode_why: Arc::from("store healthy"),
            mode_since: now,
            now,
            durable: head.seq,
            opened_epoch: head.epoch,
            incarnation_since: CommitSeq(0),
            head,
            known,
            nodes: Slab::new(),
            node_by_id: BTreeMap::new(),
            workloads: Slab::new(),
            workload_by_id: BTreeMap::new(),
            capital_ids: CapitalIds::default(),
            entries: Arc::default(),
            shadow: super::shadow::Shadow::new(settings.shadow),
            index: Index::new(),
            waiting: WaitingRoom::default(),
            room_changed: true,
            dirty: VecDeque::new(),
            timers: Timers::default(),
            silent: BTreeSet::new(),
            orphans: BTreeMap::new(),
            second_steps: BTreeSet::new(),
            buried: BTreeMap::new(),
            brake: false,
            brake_released: false,
            volumes: super::volumes::Kept::default(),
            heard: BTreeMap::new(),
            witness,
            draft: journal::Draft::default(),
            audit: None,
            outbox: Vec::new(),
            held: journal::Held::new(),
            effects: Effects::default(),
            settings,
        }
    }

    /// The store cannot be trusted: freeze, and believe nothing that was not yet durable.
    pub(super) fn store_lost(&mut self, why: Arc<str>) {
        if self.mode != Mode::Degraded {
            self.mark(Mark::Degraded);
            self.mode = Mode::Degraded;
            self.mode_since = self.now;
        }
        self.mode_why = why;
        self.drop_held();
        self.effects.reload = true;
    }

    /// The store was read again: begin from what it says, with a full lease for every node.
    pub(super) fn loaded(&mut self, snapshot: Snapshot) {
        let from = self.mode;
        let since = self.mode_since;
        self.drop_held();
        let effects = std::mem::take(&mut self.effects);
        let memory = Memory { known: Some(self.high_water()), fresh: self.witness.listens() };
        let (fresh, opened) = Self::open_as(
            self.settings.clone(),
            self.lease_term,
            snapshot,
            memory,
            Arc::clone(&self.head.cluster),
            self.now,
        );
        let leads_until = self.leads_until;
        let witness = std::mem::take(&mut self.witness);
        *self = fresh;
        self.witness.carry_on(witness);
        self.leads_until = leads_until;
        self.effects = effects;
        self.effects.units.extend(opened.units);
        self.effects.out.extend(opened.out);
        self.effects.marks.merge(opened.marks);
        self.mode_since = if from == self.mode { since } else { self.now };
        if self.mode == Mode::Normal && from != Mode::Normal {
            let why = Arc::from("the store can be read and written again");
            self.happen(Happening::ModeChanged { from, to: Mode::Normal, why });
            self.close_unit();
        }
    }

    /// How far the store has surely come.
    pub fn high_water(&self) -> HighWater {
        let mine = HighWater {
            cluster: Arc::clone(&self.head.cluster),
            incarnation: self.head.incarnation,
            seq: self.durable,
        };
        match &self.known {
            Some(known) if self.durable < self.incarnation_since => known.clone(),
            Some(known) if known.incarnation > mine.incarnation => known.clone(),
            Some(known) if known.incarnation == mine.incarnation && known.seq > mine.seq => {
                known.clone()
            }
            Some(_) | None => mine,
        }
    }

    pub(super) fn fill(&mut self, snapshot: Snapshot) {
        // How long a lease is follows from how many nodes there are.
        let lease_ms = self.settings.lease_ms_of(self.settings.beat_ms_of(snapshot.nodes.len()));
        for node in snapshot.nodes {
            self.fill_node(node, lease_ms);
        }
        for lease in snapshot.leases {
            if let Some(at) = self.node_by_id.get(&lease.node).copied()
                && let Some(slot) = self.nodes.get_mut(at.0)
            {
                slot.lease = Some(lease);
            }
        }
        let mut assignments: BTreeMap<_, _> = snapshot
            .assignments
            .into_iter()
            .map(|assignment| (assignment.workload.clone(), assignment))
            .collect();
        let mut retries: BTreeMap<_, _> =
            snapshot.retries.into_iter().map(|retry| (retry.workload.clone(), retry)).collect();
        for workload in snapshot.workloads {
            // An intent without its decision cannot be written; were it found, it is left alone
            // for an operator rather than guessed about.
            if let Some(assignment) = assignments.remove(&workload.id) {
                let retry = retries.remove(&workload.id);
                let attempt = Attempt::resumed(&workload.spec, assignment.phase, self.now.mono);
                self.fill_workload(WorkloadSlot {
                    workload,
                    assignment,
                    retry,
                    seen: None,
                    told: None,
                    admitted: None,
                    task: None,
                    dirty: false,
                    waits: None,
                    retry_due: None,
                    healthy_since: None,
                    amiss_since: None,
                    runs_older: false,
                    attempt,
                });
            }
        }
        for grave in snapshot.graves {
            if let Some(at) = self.node_by_id.get(&grave.node).copied() {
                self.index.take(at, &grave.reserved, &[]);
                self.buried.entry(grave.workload.clone()).or_default().insert(at);
                if let Some(slot) = self.nodes.get_mut(at.0) {
                    slot.graves.insert(grave.workload.clone(), grave);
                }
            }
        }
        for drift in snapshot.drifts {
            if let Some(at) = self.node_by_id.get(&drift.node).copied()
                && let Some(slot) = self.nodes.get_mut(at.0)
            {
                if drift.kind == DriftKind::OrphanOnAgent {
                    // What it is its node says again; that it is there counts until then.
                    self.orphans.entry(drift.workload.clone()).or_default().insert(at);
                }
                slot.drifts.insert((drift.workload.clone(), drift.kind), drift);
            }
        }
        self.entries = Arc::new(snapshot.entries.into_iter().collect());
        self.shadow.refresh(&self.entries);
        self.fill_volumes(snapshot.volumes, snapshot.attachments);
        self.timers.set(self.now.mono.plus(self.settings.drift_interval_ms), Timer::DriftSweep);
    }

    /// Puts a node into memory with a full lease, whatever was heard of it before.
    pub(super) fn fill_node(&mut self, node: Arc<Node>, lease_ms: u64) -> NodeIndex {
        let id = node.facts.id.clone();
        let mut slot = NodeSlot::new(node, self.now.mono);
        let graceless = self.settings.zoo.has(Bug::NoGraceAfterStart);
        slot.expires_at = if graceless { Millis(0) } else { self.now.mono.plus(lease_ms) };
        if graceless {
            let (asked, silent) = (self.now.mono, crate::input::Probe::Silent);
            slot.probe = Some(super::slots::Probing { asked, found: Some((asked, silent)) });
        }
        let expires_at = slot.expires_at;
        let ready = slot.node.condition == Condition::Ready;
        let at = NodeIndex(self.nodes.insert(slot));
        self.node_by_id.insert(id, at);
        if !ready {
            self.silent.insert(at);
        }
        self.index_node(at);
        self.timers.set(expires_at, Timer::Liveness(at));
        at
    }

    /// Tells the placement index what a node is now.
    pub(super) fn index_node(&mut self, at: NodeIndex) {
        let Some(slot) = self.nodes.get(at.0) else { return };
        let node = &slot.node;
        let mut labels = node.effective_labels();
        if node.facts.fence {
            labels.insert(Arc::from(FENCE_LABEL), Arc::from("yes"));
        } else {
            labels.remove(FENCE_LABEL);
        }
        if node.facts.pauses {
            labels.insert(Arc::from(PAUSE_LABEL), Arc::from("yes"));
        } else {
            labels.remove(PAUSE_LABEL);
        }
        capability::label(&node.facts, &mut labels);
        let traits = Traits {
            labels,
            taints: node.taints.clone(),
            types: node
                .facts
                .types
                .iter()
                .filter(|kind| !slot.down.contains_key(kind))
                .copied()
                .collect(),
            drivers: node.facts.drivers.clone(),
        };
        self.index.set_node(at, node.facts.capacity, &slot.pools(), traits);
        self.index.set_open(at, self.is_open(at));
        self.room_changed = true;
    }

    fn fill_workload(&mut self, mut slot: WorkloadSlot) {
        let now = self.now;
        slot.retry_due = slot.retry.as_ref().and_then(|retry| {
            // The stored date is for people; whatever a clock did meanwhile, nobody waits longer
            // than the longest wait.
            let wait = retry.next_at?.0.saturating_sub(now.wall.0).min(self.settings.retry_cap_ms);
            Some(now.mono.plus(wait))
        });
        slot.healthy_since =
            (slot.assignment.phase == Phase::Running && slot.retry.is_some()).then_some(now.mono);
        let id = slot.workload.id.clone();
        let forgotten = slot.healthy_since.map(|at| at.plus(self.settings.retry_refill_ms));
        let due = slot.retry_due.into_iter().chain(forgotten);
        let at = WorkloadIndex(self.workloads.insert(slot));
        for time in due {
            self.timers.set(time, Timer::Workload(at));
        }
        self.capital_ids.insert(&id);
        self.workload_by_id.insert(id, at);
        self.account(at);
        self.mark_dirty(at);
    }

    /// Counts what a workload read from the store holds on its nodes.
    pub(super) fn account(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let assignment = Arc::clone(&slot.assignment);
        if let Some(place) = &assignment.place
            && let Some(node) = self.node_by_id.get(&place.node).copied()
        {
            self.index.take(node, &place.reserved, &place.ports);
            if let Some(slot) = self.nodes.get_mut(node.0) {
                slot.assigned.insert(at);
            }
        }
        for (node, former) in &assignment.former {
            if let Some(node) = self.node_by_id.get(node).copied() {
                self.index.take(node, &former.reserved, &[]);
                if let Some(slot) = self.nodes.get_mut(node.0) {
                    slot.formers.insert(at);
                }
            }
        }
    }
}

/// What the store has lost compared with what this host remembers, if anything.
fn loss(snapshot: &Snapshot, known: Option<&HighWater>) -> Option<Arc<str>> {
    if snapshot.head.as_ref().is_some_and(|head| head.rebuilding) {
        let why = "the store was restored from a snapshot, or its rebuilding was interrupted";
        return Some(Arc::from(why));
    }
    // A host that remembers no written unit remembers nothing.
    let known = known.filter(|known| known.seq > CommitSeq(0))?;
    let Some(head) = &snapshot.head else {
        return Some(Arc::from("the store is empty, but this host remembers a cluster in it"));
    };
    if head.cluster != known.cluster {
        return Some(Arc::from("the store holds another cluster than this host remembers"));
    }
    if (head.incarnation, head.seq) < (known.incarnation, known.seq) {
        return Some(Arc::from("the store holds an older state than this host remembers"));
    }
    None
}
