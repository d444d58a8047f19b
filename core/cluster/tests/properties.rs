//! What holds whatever happens: the scheduler is given arbitrary inputs, sensible or not.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    reason = "a test may stop, and is told by the environment how long to go on"
)]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_cluster::effects::{Effects, Outbound};
use persys_cluster::input::{Ask, Input, OrphanVerdict, Probe, Recovery, RequestId};
use persys_cluster::record::{Snapshot, Write};
use persys_cluster::settings::Settings;
use persys_cluster::world::World;
use persys_model::command::{Answer, Refusal};
use persys_model::entry::{Entry, Namespace};
use persys_model::event::Author;
use persys_model::failure::{Failure, FailureReason};
use persys_model::health::Health;
use persys_model::id::{NamespaceName, NodeId, RevisionId, WorkloadId};
use persys_model::inventory::{Held, Inventory, Report, State, Tombstone};
use persys_model::labels::{Taint, TaintEffect};
use persys_model::link::{Beat, Registration, Usage};
use persys_model::mode::Mode;
use persys_model::phase::{Phase, owner_of};
use persys_model::resources::Compute;
use persys_model::spec::container::Port;
use persys_model::spec::volume::{ManagedVolume, VolumeDriver};
use persys_model::spec::{Class, Kind, OnNodeLoss, Protocol, Spec};
use persys_model::time::{Millis, Now};
use persys_model::token::{Epoch, Session, Term};
use persys_model::volume::VolumeKey;
use persys_model::workload::Desired;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use support::{Store, container, facts, node_id, workload_id};

/// One thing to do to a world. Numbers are small so that they often mean something.
#[derive(Debug, Clone)]
enum Move {
    Register { node: usize, life: u8, held: Vec<(u8, u64, u8)>, term: u64 },
    Beat { node: usize, late: bool, stale: bool, reports: Vec<(u8, u64, u8)>, full: bool },
    Answer { node: usize, workload: u8, epoch: u64, kind: u8 },
    Probe { node: usize, kind: u8 },
    Apply { workload: u8, size: u8, revision: u8, desired: u8, class: u8 },
    Delete { workload: u8 },
    Retry { workload: u8 },
    Operate { node: usize, kind: u8, workload: u8 },
    StoreLost,
    Reload { empty: bool },
    Recover { kind: u8 },
    Pass { ms: u64 },
}

fn moves() -> impl Strategy<Value = Move> {
    let report = || (0..6_u8, 0..30_u64, 0..9_u8);
    let reports = move || prop::collection::vec(report(), 0..4);
    prop_oneof![
        2 => (0..4_usize, 0..3_u8, reports(), 0..2_u64)
            .prop_map(|(node, life, held, term)| Move::Register { node, life, held, term }),
        6 => (0..4_usize, prop::bool::weighted(0.1), prop::bool::weighted(0.1), reports(),
              prop::bool::weighted(0.2))
            .prop_map(|(node, late, stale, reports, full)| Move::Beat { node, late, stale, reports, full }),
        4 => (0..4_usize, 0..6_u8, 0..30_u64, 0..7_u8)
            .prop_map(|(node, workload, epoch, kind)| Move::Answer { node, workload, epoch, kind }),
        1 => (0..4_usize, 0..3_u8).prop_map(|(node, kind)| Move::Probe { node, kind }),
        6 => (0..6_u8, 0..5_u8, 0..3_u8, 0..4_u8, 0..7_u8).prop_map(
            |(workload, size, revision, desired, class)| Move::Apply { workload, size, revision, desired, class }),
        2 => (0..6_u8).prop_map(|workload| Move::Delete { workload }),
        1 => (0..6_u8).prop_map(|workload| Move::Retry { workload }),
        2 => (0..4_usize, 0..14_u8, 0..6_u8)
            .prop_map(|(node, kind, workload)| Move::Operate { node, kind, workload }),
        1 => Just(Move::StoreLost),
        1 => prop::bool::weighted(0.2).prop_map(|empty| Move::Reload { empty }),
        1 => (0..3_u8).prop_map(|kind| Move::Recover { kind }),
        5 => (1..9_000_u64).prop_map(|ms| Move::Pass { ms }),
    ]
}

/// A world, the store its units make, and what agents would believe.
struct Trial {
    world: World,
    store: Store,
    now: Now,
    requests: u64,
    sessions: BTreeMap<NodeId, (Session, u64)>,
    phases: BTreeMap<WorkloadId, Phase>,
    highest_epoch: Epoch,
    wake_at: Option<Millis>,
}

impl Trial {
    fn new() -> Self {
        let now = Now::at(1_000_000);
        let (mut world, _) =
            World::open(settings(), Term(1), Snapshot::default(), None, Arc::from("trial"), now);
        world.set_leads_until(Millis(u64::MAX));
        Self {
            world,
            store: Store::default(),
            now,
            requests: 0,
            sessions: BTreeMap::new(),
            phases: BTreeMap::new(),
            highest_epoch: Epoch(0),
            wake_at: None,
        }
    }

    fn request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }

    fn step(&mut self, input: Input) {
        let before = self.world.mode().0;
        let unfreezes = matches!(input, Input::Loaded(_) | Input::Ask(_, _, Ask::Recover(_)));
        if matches!(input, Input::Ask(..)) {
            // What the clock brings comes first, so that the rest comes from the wish.
            let due = self.world.step(Input::Tick, self.now);
            self.absorb(due);
        }
        let asked = matches!(input, Input::Ask(..));
        let effects = self.world.step(input, self.now);
        if asked {
            check_audit(&effects);
        }
        if before != Mode::Normal && !unfreezes {
            assert!(effects.units.is_empty(), "a frozen scheduler wrote");
            let commands =
                effects.out.iter().any(|message| matches!(message, Outbound::Command(..)));
            assert!(!commands, "a frozen scheduler gave orders");
        }
        self.absorb(effects);
    }

    fn absorb(&mut self, effects: Effects) {
        for unit in &effects.units {
            self.check_unit(unit);
            self.store.apply(unit);
            self.check_capacity();
        }
        for message in &effects.out {
            if let Outbound::Command(_, command) = message {
                assert!(command.epoch <= self.stored_epoch(), "sent before it was durable");
            }
        }
        self.wake_at = effects.wake_at;
        let last = effects.units.last().map(|unit| unit.head.seq);
        if let Some(last) = last {
            let effects = self.world.step(Input::Committed(last), self.now);
            self.absorb(effects);
        }
        assert_eq!(self.world.check(), Vec::<String>::new());
    }

    fn stored_epoch(&self) -> Epoch {
        self.store.snapshot.head.as_ref().map(|head| head.epoch).unwrap_or_default()
    }

    /// One legal transition and one event per change of phase, in one unit.
    fn check_unit(&mut self, unit: &persys_cluster::record::Unit) {
        use persys_cluster::record::Write;
        use persys_model::event::Happening;
        assert!(unit.head.epoch >= self.highest_epoch, "epochs never go back");
        self.highest_epoch = unit.head.epoch;
        for write in &unit.writes {
            let Write::PutEvent(event) = write else { continue };
            let Happening::Workload { id, from, to, .. } = &event.what else { continue };
            assert_eq!(self.phases.get(id), from.as_ref(), "an event skipped a phase of {id}");
            if let (Some(from), Some(to)) = (from, to) {
                assert!(owner_of(*from, *to).is_some(), "{from:?} -> {to:?} is no edge");
            }
            match to {
                Some(to) => self.phases.insert(id.clone(), *to),
                None => self.phases.remove(id),
            };
        }
        for write in &unit.writes {
            match write {
                Write::PutAssignment(assignment) => assert_eq!(
                    self.phases.get(&assignment.workload),
                    Some(&assignment.phase),
                    "a phase of {} changed without an event",
                    assignment.workload
                ),
                Write::DeleteAssignment(id) => assert_eq!(self.phases.get(id), None),
                _ => {}
            }
        }
    }

    /// In every state of the store: what is held on a node fits on it.
    fn check_capacity(&self) {
        let mut held: BTreeMap<&NodeId, Compute> = BTreeMap::new();
        for assignment in &self.store.snapshot.assignments {
            if let Some(place) = &assignment.place {
                let sum = held.entry(&place.node).or_default();
                *sum = sum.plus(place.reserved.compute);
            }
        }
        for node in &self.store.snapshot.nodes {
            let sum = held.get(&node.facts.id).copied().unwrap_or_default();
            assert!(node.facts.capacity.covers(sum), "{} holds {sum:?}", node.facts.id);
        }
    }

    /// Once what is due is done, a full sweep finds nothing more to do.
    fn check_settled(&mut self) {
        while self.wake_at.is_some_and(|at| at <= self.now.mono) {
            self.step(Input::Tick);
        }
        let effects = self.world.sweep_all(self.now);
        assert!(effects.units.is_empty(), "a full sweep wrote {:?}", effects.units);
        let orders = effects.out.iter().filter(|o| matches!(o, Outbound::Command(..))).count();
        assert_eq!(orders, 0, "a full sweep gave orders");
        for view in self.world.workloads() {
            if view.assignment.phase == Phase::Pending {
                let reason = &view.assignment.reason;
                assert!(reason.since.0 > 0 && !reason.message.is_empty(), "{reason:?}");
            }
        }
    }

    fn make(&mut self, step: &Move) {
        match step {
            Move::Register { node, life, held, term } => self.register(*node, *life, held, *term),
            Move::Beat { node, late, stale, reports, full } => {
                self.beat(*node, (*late, *stale, *full), reports);
            }
            Move::Answer { node, workload, epoch, kind } => {
                self.answer(*node, *workload, *epoch, *kind);
            }
            Move::Probe { node, kind } => {
                let node = node_id(*node);
                let session = self.sessions.get(&node).map(|s| s.0).unwrap_or_default();
                let found = [Probe::Answered, Probe::Refused, Probe::Silent][usize::from(*kind)];
                let asked = self.now.mono;
                self.step(Input::Probed { node, session, asked, found });
            }
            Move::Apply { workload, size, revision, desired, class } => {
                let request = self.request();
                let ask = Ask::Apply {
                    workload: name(*workload),
                    spec: (*size > 0).then(|| Arc::new(spec(*size, *class))),
                    revision: (*size > 0)
                        .then(|| RevisionId::new(&format!("r{revision}-{size}-{class}")).unwrap()),
                    desired: [
                        Desired::Running,
                        Desired::Stopped,
                        Desired::Running,
                        Desired::Paused,
                    ][usize::from(*desired)],
                };
                self.step(Input::Ask(request, ann(), ask));
            }
            Move::Delete { workload } => {
                let request = self.request();
                self.step(Input::Ask(request, ann(), Ask::Delete(name(*workload))));
            }
            Move::Retry { workload } => {
                let request = self.request();
                self.step(Input::Ask(request, ann(), Ask::Retry(name(*workload))));
            }
            Move::Operate { node, kind, workload } => self.operate(*node, *kind, *workload),
            Move::StoreLost => self.step(Input::StoreLost { why: Arc::from("lost") }),
            Move::Reload { empty } => self.reload(*empty),
            Move::Recover { kind } => {
                let request = self.request();
                let how = match kind {
                    0 => Recovery::FromAgents,
                    // Records that are erased and written again have no events: only a store that lost
                    // everything is replaced by a copy here.
                    2.. if !self.store.snapshot.workloads.is_empty() => Recovery::FromAgents,
                    1 => Recovery::AcceptEmpty,
                    _ => Recovery::FromSnapshot(Box::new(self.store.snapshot.clone())),
                };
                self.forget_if_recovering(&how);
                self.step(Input::Ask(request, ann(), Ask::Recover(how)));
            }
            Move::Pass { ms } => {
                self.now.mono = self.now.mono.plus(*ms);
                self.now.wall.0 += ms;
                self.step(Input::Tick);
            }
        }
    }

    /// A recovery that begins anew ends the stories of what it gives up.
    fn forget_if_recovering(&mut self, how: &Recovery) {
        if self.world.mode().0 == Mode::Recovery && *how == Recovery::AcceptEmpty {
            self.phases.clear();
            self.store.snapshot = Snapshot::default();
        }
    }

    fn reload(&mut self, empty: bool) {
        if self.world.mode().0 == Mode::Normal {
            self.step(Input::StoreLost { why: Arc::from("lost") });
        }
        if empty {
            self.store.snapshot = Snapshot::default();
            self.phases.clear();
            self.highest_epoch = Epoch(0);
        }
        self.step(Input::Loaded(self.store.snapshot.clone()));
    }

    fn register(&mut self, node: usize, life: u8, held: &[(u8, u64, u8)], term: u64) {
        let id = node_id(node);
        let mut facts = facts(&id, 1000, 1000);
        facts.incarnation = Arc::from(format!("life-{life}"));
        let request = self.request();
        let registration = Registration { facts, inventory: inventory(held), term: Term(term) };
        self.step(Input::Register(request, registration));
        let session = self.world.node(&id).map(|view| view.node.session).unwrap_or_default();
        self.sessions.insert(id, (session, 0));
    }

    fn beat(&mut self, node: usize, how: (bool, bool, bool), reports: &[(u8, u64, u8)]) {
        let (late, stale, full) = how;
        let id = node_id(node);
        let entry = self.sessions.entry(id.clone()).or_default();
        entry.1 += u64::from(!late);
        let session = if stale { Session(0) } else { entry.0 };
        let seq = entry.1;
        let request = self.request();
        let beat = Beat {
            node: id,
            session,
            seq,
            reports: reports.iter().map(|r| self.report(node, *r)).collect(),
            removed: Vec::new(),
            inventory: full.then(|| inventory(reports)),
            tasks: Vec::new(),
            usage: Usage::default(),
            limits: BTreeMap::new(),
            busy: None,
            down: BTreeMap::new(),
            takes_removals: false,
        };
        self.step(Input::Beat(request, beat));
    }

    /// Half of the reports are about the present decision, the rest about any.
    fn report(&self, node: usize, (workload, epoch, state): (u8, u64, u8)) -> Report {
        let id = name(workload);
        let present = self.world.workload(&id).and_then(|view| view.assignment.place.clone());
        let epoch = match present {
            Some(place) if place.node == node_id(node) && epoch % 2 == 0 => place.epoch,
            _ => Epoch(epoch),
        };
        Report {
            workload: id,
            epoch,
            state: state_of(state),
            restarts: 0,
            confirmed: true,
            progress: 0,
            fetched: None,
            trouble: None,
            runs: None,
            health: health_of(epoch, state),
        }
    }

    fn answer(&mut self, node: usize, workload: u8, epoch: u64, kind: u8) {
        let id = node_id(node);
        let session = self.sessions.get(&id).map(|s| s.0).unwrap_or_default();
        let report = self.report(node, (workload, epoch, 1));
        let answer = match kind {
            0 | 1 => Answer::Accepted,
            2 => Answer::Removed { epoch: report.epoch },
            3 => Answer::Refused(Refusal::OldEpoch { held: Epoch(epoch) }),
            4 => Answer::Refused(Refusal::Buried { tombstone: Epoch(epoch) }),
            5 => Answer::Refused(Refusal::OtherSession { present: None }),
            _ => Answer::Refused(Refusal::Holding),
        };
        let (workload, epoch) = (report.workload, report.epoch);
        self.step(Input::Answered { node: id, session, workload, epoch, answer, task: None });
    }

    fn operate(&mut self, node: usize, kind: u8, workload: u8) {
        let id = node_id(node);
        let request = self.request();
        let taint =
            Taint { key: Arc::from("k"), value: Arc::from("v"), effect: TaintEffect::NoSchedule };
        let ask = match kind {
            0 => Ask::Drain(id, Arc::from("why")),
            1 | 2 => Ask::Undrain(id),
            3 => Ask::Taint(id, taint),
            4 => Ask::Untaint(id, Arc::from("k"), None),
            5 => Ask::ConfirmGone(id),
            6 => Ask::RemoveNode(id),
            7 => Ask::ReleaseBrake,
            8 => Ask::Orphan(id, name(workload), OrphanVerdict::Adopt),
            10 => Ask::CreateVolume(Arc::new(volume(workload)), None),
            11 => Ask::DeleteVolume(VolumeKey::of(&volume(workload))),
            12 | 13 => {
                let namespace = Namespace::new(NamespaceName::default_one());
                let namespace = Namespace { shadow: kind == 12, ..namespace };
                Ask::Keep(Arc::new(Entry::Namespace(namespace)))
            }
            _ => Ask::Orphan(id, name(workload), OrphanVerdict::Delete),
        };
        self.step(Input::Ask(request, ann(), ask));
    }
}

/// The same histories every time, so that a landing is judged by its own change; asking for more
/// with `PERSYS_CASES` also asks for others.
fn luck() -> RngSeed {
    if std::env::var("PERSYS_CASES").is_ok() { RngSeed::Random } else { RngSeed::Fixed(20_261_115) }
}

/// How many histories to try; `PERSYS_CASES` asks for more.
fn cases() -> u32 {
    std::env::var("PERSYS_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000)
}

fn settings() -> Settings {
    Settings { retry_base_ms: 1_000, retry_cap_ms: 8_000, ..Settings::default() }
}

fn name(n: u8) -> WorkloadId {
    workload_id(&format!("w{n}"))
}

fn spec(size: u8, class: u8) -> Spec {
    let mut spec = container(u64::from(size) * 200, 100);
    spec.placement.class = if class == 1 { Class::Exclusive } else { Class::Default };
    spec.placement.on_node_loss = match class {
        2 => OnNodeLoss::Stay,
        5 => OnNodeLoss::Move,
        _ => OnNodeLoss::Auto,
    };
    let names = match class {
        4 | 5 => vec![size % 2],
        6 => vec![2],
        _ => Vec::new(),
    };
    if let Kind::Container(container) = &mut spec.kind {
        container.managed_volumes = names.into_iter().map(volume).collect();
        if class == 3 {
            let port =
                Port { address: None, host: Some(8080), container: 80, protocol: Protocol::Tcp };
            container.ports.push(port);
        }
    }
    spec
}

/// Two on a node, one kept and one not; the others where one node at a time may have them.
fn volume(n: u8) -> ManagedVolume {
    let driver = if n < 2 { VolumeDriver::Local } else { VolumeDriver::CephRbd };
    support::volume(driver, &format!("v{n}"), n == 1)
}

/// Health of what runs, another one from one report to the next.
fn health_of(epoch: Epoch, state: u8) -> Option<Health> {
    match (state_of(state), epoch.0 % 4) {
        (State::Running, 1) => Some(Health::starting()),
        (State::Running, 2) => Some(Health::healthy()),
        (State::Running, 3) => Some(Health::unhealthy("status 503")),
        _ => None,
    }
}

fn state_of(n: u8) -> State {
    let failure = |reason| Failure::new(reason, "it broke");
    match n {
        0 => State::Pending,
        1 => State::Running,
        2 => State::Restarting(failure(FailureReason::RuntimeError)),
        3 => State::Stopped,
        4 => State::Completed,
        5 => State::Failed(failure(FailureReason::InsufficientResources)),
        7 => State::Paused,
        8 => State::Unresponsive,
        _ => State::Unknown,
    }
}

fn inventory(held: &[(u8, u64, u8)]) -> Inventory {
    let mut inventory = Inventory::default();
    for (workload, epoch, state) in held {
        let (workload, epoch) = (name(*workload), Epoch(*epoch));
        if *state == 6 {
            inventory.tombstones.push(Tombstone { workload, epoch, purged: epoch.0 % 3 != 0 });
        } else if inventory.held.iter().all(|held| held.report.workload != workload) {
            let report = Report {
                workload,
                epoch,
                state: state_of(*state),
                restarts: 0,
                confirmed: true,
                progress: 0,
                fetched: None,
                trouble: None,
                runs: None,
                health: health_of(epoch, *state),
            };
            let revision = RevisionId::new("r").unwrap();
            // Small enough that whatever agents bring along fits beside everything else.
            let spec = (*state != 2).then(|| Arc::new(container(1, 1)));
            inventory.held.push(Held {
                report,
                revision,
                run: *state != 3,
                pause: *state == 7,
                spec,
            });
        }
    }
    inventory
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), rng_seed: luck(), failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens: no panic, no unit that breaks a rule, nothing sent before it is durable,
    /// no node over its capacity, nothing left for a full sweep to find, a reason for all who wait.
    #[test]
    fn arbitrary_inputs_break_nothing(steps in prop::collection::vec(moves(), 1..80)) {
        let mut trial = Trial::new();
        for step in &steps {
            trial.make(step);
        }
        if trial.world.mode().0 == Mode::Normal {
            trial.check_settled();
        }
    }

    /// The same inputs give the same effects, to the letter.
    #[test]
    fn steps_are_deterministic(steps in prop::collection::vec(moves(), 1..40)) {
        let run = || {
            let mut trial = Trial::new();
            for step in &steps {
                trial.make(step);
            }
            format!("{:?} {:?}", trial.store.snapshot, trial.store.events)
        };
        prop_assert_eq!(run(), run());
    }
}

fn ann() -> Arc<Author> {
    Arc::new(Author::new("operator ann"))
}

/// Whatever a wish changed, an event names who wished it.
fn check_audit(effects: &Effects) {
    let writes = || effects.units.iter().flat_map(|unit| &unit.writes);
    let named = writes().any(|write| matches!(write, Write::PutEvent(event) if event.by.is_some()));
    assert!(named || writes().next().is_none(), "a change without its author: {effects:?}");
}
