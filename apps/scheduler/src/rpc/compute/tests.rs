//! Answers about workloads and nodes in every state, from a cluster driven by hand.

use persys_model::event::{Author, Event};
use std::collections::BTreeMap;
use std::sync::Arc;

use persys_cluster::effects::{Effects, Outbound};
use persys_cluster::input::{Ask, Input, RequestId};
use persys_cluster::record::Snapshot;
use persys_cluster::world::World;
use persys_model::command::{Command, Order};
use persys_model::failure::{Failure, FailureReason, FailureStage};
use persys_model::health::Health;
use persys_model::id::{NodeId, RevisionId, SecretName, WorkloadId};
use persys_model::inventory::{Inventory, Report, State, Tombstone};
use persys_model::labels::{Constraint, Rule, Taint, TaintEffect};
use persys_model::link::{Beat, Registration, RegistrationAnswer, Usage};
use persys_model::node::NodeFacts;
use persys_model::resources::{Compute as Amounts, Disk, Resources};
use persys_model::secret::{SecretSeen, SecretUse, Signal};
use persys_model::spec::container::{Port, RestartPolicy};
use persys_model::spec::{ContainerSpec, Kind, Placement, Protocol, Spec, WorkloadType};
use persys_model::time::{Millis, Now, WallMillis};
use persys_model::token::{Epoch, Session, Term};
use persys_model::workload::Desired;

use super::*;

/// A cluster whose every unit is durable at once. Its agents do nothing by themselves.
pub(super) struct Rig {
    pub(super) world: World,
    now: Now,
    sessions: BTreeMap<NodeId, (Session, u64)>,
    commands: Vec<(NodeId, Command)>,
    joined: Option<RegistrationAnswer>,
    /// What was told to watchers.
    pub(super) events: Vec<Arc<Event>>,
    /// What nodes say of the health of what runs.
    health: Option<Health>,
}

fn node(id: &str) -> NodeId {
    NodeId::new(id).unwrap()
}

pub(super) fn web() -> WorkloadId {
    WorkloadId::new("web").unwrap()
}

pub(super) fn facts(id: &str) -> NodeFacts {
    NodeFacts {
        id: node(id),
        host: Arc::from(format!("machine-{id}")),
        incarnation: Arc::from("life-1"),
        endpoint: Arc::from("10.0.0.1:50051"),
        capacity: Amounts::new(2000, 1024),
        pools: Vec::new(),
        types: WorkloadType::ALL.into_iter().collect(),
        drivers: std::collections::BTreeSet::new(),
        labels: BTreeMap::new(),
        fence: false,
        pauses: true,
        checks_health: true,
        signals: true,
        addresses: true,
        missing: BTreeMap::new(),
    }
}

pub(super) fn container(memory: u64) -> Spec {
    Spec {
        kind: Kind::Container(ContainerSpec {
            image: Arc::from("busybox"),
            restart: RestartPolicy::Always,
            ..ContainerSpec::default()
        }),
        resources: Resources { compute: Amounts::new(100, memory), disk: Disk::none() },
        placement: Placement::default(),
        metadata: BTreeMap::new(),
        secrets: Vec::new(),
        stop_grace_ms: None,
        health: persys_model::spec::health::HealthChecks::default(),
    }
}

fn publishing(port: u16) -> Spec {
    let ports =
        vec![Port { address: None, host: Some(port), container: 80, protocol: Protocol::Tcp }];
    let body = ContainerSpec { image: Arc::from("busybox"), ports, ..ContainerSpec::default() };
    Spec { kind: Kind::Container(body), ..container(64) }
}

impl Rig {
    pub(super) fn new(nodes: Vec<NodeFacts>) -> Self {
        let now = Now::at(1_000_000_000);
        let settings = Settings::default();
        let (mut world, effects) =
            World::open(settings, Term(1), Snapshot::default(), None, Arc::from("t"), now);
        world.set_leads_until(Millis(u64::MAX));
        let (sessions, commands) = (BTreeMap::new(), Vec::new());
        let (joined, events, health) = (None, Vec::new(), None);
        let mut rig = Self { world, now, sessions, commands, joined, events, health };
        rig.absorb(effects);
        for facts in nodes {
            let id = facts.id.clone();
            let inventory = Inventory::default();
            let registration = Registration { facts, inventory, term: Term(0) };
            rig.step(Input::Register(RequestId(1), registration));
            let Some(RegistrationAnswer::Accepted { session, .. }) = rig.joined.take() else {
                panic!("{id} may not join");
            };
            rig.sessions.insert(id, (session, 0));
        }
        rig
    }

    fn step(&mut self, input: Input) {
        let effects = self.world.step(input, self.now);
        self.absorb(effects);
    }

    fn absorb(&mut self, effects: Effects) {
        for message in effects.out {
            match message {
                Outbound::Command(node, command) => self.commands.push((node, command)),
                Outbound::Registered(_, answer) => self.joined = Some(answer),
                Outbound::Publish(event) => self.events.push(event),
                Outbound::Actions { .. }
                | Outbound::Probe(..)
                | Outbound::Beat(..)
                | Outbound::Reply(..)
                | Outbound::Entries(_) => {}
            }
        }
        if let Some(unit) = effects.units.last() {
            let through = unit.head.seq;
            let effects = self.world.step(Input::Committed(through), self.now);
            self.absorb(effects);
        }
    }

    pub(super) fn ask(&mut self, ask: Ask) {
        self.step(Input::Ask(RequestId(2), Arc::new(Author::new("operator ann")), ask));
    }

    pub(super) fn apply(&mut self, id: &str, spec: Spec) {
        self.ask(Ask::Apply {
            workload: WorkloadId::new(id).unwrap(),
            spec: Some(Arc::new(spec)),
            revision: Some(RevisionId::new("r1").unwrap()),
            desired: Desired::Running,
        });
    }

    fn beat(&mut self, id: &NodeId, reports: Vec<Report>, removed: Vec<Tombstone>) {
        let (session, seq) = self.sessions.get_mut(id).unwrap();
        *seq += 1;
        let beat = Beat {
            node: id.clone(),
            session: *session,
            seq: *seq,
            reports,
            removed,
            inventory: None,
            tasks: Vec::new(),
            usage: Usage { used: Amounts::new(250, 100), used_disk_gib: 3, ..Usage::default() },
            limits: BTreeMap::new(),
            busy: None,
            down: BTreeMap::new(),
            takes_removals: false,
        };
        self.step(Input::Beat(RequestId(3), beat));
    }

    /// The node of `web` says that it is so.
    pub(super) fn say(&mut self, state: State) {
        self.say_with(state, None);
    }

    /// The same, and why the last thing it did for it failed.
    fn say_with(&mut self, state: State, trouble: Option<Failure>) {
        self.report(state, trouble, None);
    }

    /// The same of what failed and left another revision running.
    pub(super) fn say_kept(&mut self, state: State, runs: &'static str) {
        self.report(state, None, Some(RevisionId::fixed(runs)));
    }

    /// The node says that it runs, and what its checks say.
    pub(super) fn say_health(&mut self, health: Health) {
        self.health = Some(health);
        self.report(State::Running, None, None);
    }

    fn report(&mut self, state: State, trouble: Option<Failure>, runs: Option<RevisionId>) {
        let place = self.world.workload(&web()).unwrap().assignment.place.clone().unwrap();
        let (workload, epoch, restarts, confirmed, progress) = (web(), place.epoch, 3, true, 0);
        let health = self.health.clone();
        let report = Report {
            workload,
            epoch,
            state,
            restarts,
            confirmed,
            progress,
            fetched: None,
            trouble,
            runs,
            health,
        };
        self.beat(&place.node, vec![report], Vec::new());
    }

    fn pass(&mut self, ms: u64) {
        self.now = Now {
            mono: self.now.mono.plus(ms),
            wall: WallMillis(self.now.wall.0.saturating_add(ms)),
        };
        self.step(Input::Tick);
    }

    pub(super) fn why(&self) -> api::WhyResponse {
        why_workload::explain(&self.world, &web(), 5, self.now.wall, &Zones::default()).unwrap()
    }

    fn why_node(&self, id: &str) -> api::WhyResponse {
        why_node::explain(&self.world, &node(id), None, self.now.wall).unwrap()
    }
}

fn has(lines: &[String], part: &str) {
    assert!(lines.iter().any(|line| line.contains(part)), "{part:?} is not in {lines:#?}");
}

/// Waiting for room on `nodes`, once asked for `spec`.
fn waiting(nodes: Vec<NodeFacts>, spec: Spec) -> api::WhyResponse {
    let mut rig = Rig::new(nodes);
    rig.apply("web", spec);
    let why = rig.why();
    assert!(why.summary.starts_with("web waits: "), "{}", why.summary);
    has(&why.facts, "Pending since ");
    has(&why.facts, "wanted: Running");
    has(&why.facts, "has no node");
    has(&why.next, "persys nodes");
    let refused: u32 = why.refusals.iter().map(|refusal| refusal.nodes).sum();
    assert_eq!(usize::try_from(refused).unwrap(), rig.world.nodes().count());
    why
}

#[test]
fn without_nodes_that_is_said() {
    let why = waiting(Vec::new(), container(64));
    assert_eq!(why.summary, "web waits: there are no nodes");
    assert!(why.verdicts.is_empty() && why.refusals.is_empty());
}

#[test]
fn it_is_told_if_the_node_accepted_the_order() {
    let mut rig = Rig::new(vec![facts("n1")]);
    rig.apply("web", container(64));
    has(&rig.why().facts, "n1 has not accepted the order yet");
    rig.say(State::Pending);
    rig.pass(2_000);
    has(&rig.why().facts, "n1 accepted the order 2s ago");
    rig.say(State::Running);
    let facts = rig.why().facts;
    assert!(!facts.iter().any(|fact| fact.contains("accepted")), "{facts:?}");
}

#[test]
fn what_is_too_big_is_told_what_would_fit_and_where() {
    let small = NodeFacts { capacity: Amounts::new(2000, 512), ..facts("n2") };
    let why = waiting(vec![small, facts("n1")], container(4096));
    assert!(why.summary.contains("too little memory"), "{}", why.summary);
    has(&why.suggestions, "memory <= 1024 MiB would fit on n1");
    has(&why.suggestions, "bigger than any node");
    let faults = &why.verdicts[0].faults;
    assert_eq!(why.verdicts.len(), 2);
    assert_eq!(faults, &["too little memory: 4096 MiB asked for, 1024 MiB free"]);
    has(&why.next, "persys why node n1");
}

#[test]
fn a_missing_label_is_named() {
    let wanted = std::collections::BTreeSet::from([Arc::from("ssd")]);
    let constraint = Constraint { key: Arc::from("disk"), rule: Rule::In(wanted) };
    let mut spec = container(64);
    spec.placement.constraints = vec![constraint];
    let why = waiting(vec![facts("n1")], spec);
    assert_eq!(why.verdicts[0].faults, ["lacks disk=ssd"]);
    has(&why.suggestions, "without constraint disk=ssd 1 node fits");
}

#[test]
fn a_taken_port_is_told_with_its_holder() {
    let mut rig = Rig::new(vec![facts("n1")]);
    rig.apply("other", publishing(8080));
    rig.apply("web", publishing(8080));
    let why = rig.why();
    assert_eq!(why.verdicts[0].faults, ["port 8080/tcp is taken by other"]);
    has(&why.suggestions, "another port than 8080/tcp");
}

#[test]
fn a_taint_a_drain_and_a_missing_runtime_are_told() {
    let bare = NodeFacts { types: std::collections::BTreeSet::new(), ..facts("n3") };
    let mut rig = Rig::new(vec![facts("n1"), facts("n2"), bare]);
    let (key, value) = (Arc::from("gpu"), Arc::from("a100"));
    rig.ask(Ask::Taint(node("n1"), Taint { key, value, effect: TaintEffect::NoSchedule }));
    rig.ask(Ask::Drain(node("n2"), Arc::from("new disk")));
    rig.apply("web", container(64));
    let why = rig.why();
    let faults: BTreeMap<_, _> =
        why.verdicts.iter().map(|verdict| (verdict.node_id.as_str(), &verdict.faults)).collect();
    assert_eq!(*faults["n1"], ["has the taint gpu=a100"]);
    assert_eq!(*faults["n2"], ["is being drained: new disk"]);
    assert_eq!(*faults["n3"], ["cannot run container"]);
    has(&why.suggestions, "if taint gpu were tolerated");
    assert!(rig.why_node("n1").summary.contains("tolerates its taints"));
    let drained = rig.why_node("n2");
    assert!(drained.summary.contains("is being drained (new disk)"), "{}", drained.summary);
    has(&drained.next, "persys node undrain n2");
    let bare = rig.why_node("n3");
    has(&bare.facts, "can run nothing");
    has(&bare.facts, "cannot run container");
}

#[test]
fn starting_and_running_are_told_with_their_node() {
    let mut rig = Rig::new(vec![facts("n1")]);
    rig.apply("web", container(64));
    let why = rig.why();
    assert!(why.summary.starts_with("web is being started on n1"), "{}", why.summary);
    assert!(why.summary.contains("has not said anything"), "{}", why.summary);
    rig.say(State::Running);
    let why = rig.why();
    assert_eq!(why.summary, "web runs on n1, since 0s");
    has(&why.facts, "its node is n1 (ready), by decision ");
    has(&why.facts, "started again 3 times");
    has(&why.facts, "asks for 100m cpu and 64 MiB memory");
    has(&why.next, "persys logs web");
    assert!(why.evidence.is_empty() && why.verdicts.is_empty());
    let n1 = rig.why_node("n1");
    assert_eq!(n1.summary, "n1 is ready and takes work, up to 1900m cpu and 960 MiB memory");
    has(&n1.facts, "reserved 100m cpu and 64 MiB memory");
    has(&n1.facts, "really used 250m cpu");
    has(&n1.facts, "has 1 workloads, the largest: web");
}

#[test]
fn silence_makes_a_running_workload_uncertain() {
    let mut rig = Rig::new(vec![facts("n1"), facts("n2"), facts("n3"), facts("n4")]);
    rig.apply("web", container(64));
    rig.say(State::Running);
    let at = rig.world.workload(&web()).unwrap().assignment.place.clone().unwrap().node;
    for other in ["n1", "n2", "n3", "n4"].map(node) {
        rig.pass(2_000);
        if other != at {
            rig.beat(&other, Vec::new(), Vec::new());
        }
    }
    let why = rig.why();
    assert!(why.summary.contains("when last heard of"), "{}", why.summary);
    has(&why.facts, "not ready for ");
    let silent = rig.why_node(at.as_str());
    assert!(silent.summary.contains("is not ready"), "{}", silent.summary);
    has(&silent.suggestions, "10.0.0.1:50051 can be reached");
}

#[test]
fn failures_come_with_their_evidence() {
    let mut rig = Rig::new(vec![facts("n1")]);
    rig.apply("web", container(64));
    let text = "exited with code 1\nlast lines:\ncannot open /etc/web.conf";
    rig.say(State::Failed(Failure::new(FailureReason::RuntimeError, text)));
    let why = rig.why();
    assert!(why.summary.starts_with("web failed and is tried again: attempt 1 of 5"));
    assert!(why.summary.contains("exited with code 1"), "{}", why.summary);
    assert!(!why.summary.contains('\n') && why.facts.iter().all(|fact| !fact.contains('\n')));
    has(&why.facts, "1 of 5 attempts failed; the next is due ");
    assert_eq!(why.evidence, text.lines().skip(1).collect::<Vec<_>>(), "the rest of it");
    has(&why.next, "persys retry web");

    let mut rig = Rig::new(vec![facts("n1")]);
    rig.apply("web", container(64));
    let text = "there is no image nope";
    rig.say(State::Failed(Failure::new(FailureReason::ImageNotFound, text)));
    let why = rig.why();
    assert_eq!(why.summary, format!("web failed: trying again will not help: {text}"));
    has(&why.facts, "none is planned");
}

#[test]
fn a_program_that_ended_for_good_is_told_with_both_counts() {
    let mut rig = Rig::new(vec![facts("n1")]);
    rig.apply("web", container(64));
    rig.say(State::Running);
    let failure = Failure::new(FailureReason::RuntimeError, "exited with code 3");
    rig.say(State::Failed(failure.in_stage(FailureStage::Run)));
    let why = rig.why();
    let over = "web failed: exited with code 3; its restart policy allows no more than these 3 \
                restarts";
    assert_eq!(why.summary, over);
    has(&why.facts, "1 of 5 attempts failed; none is planned, because the program ran and ended");
    has(&why.facts, "was started again 3 times by its node");
    has(&why.next, "persys retry web");
}

#[test]
fn restarting_is_told_with_its_cause() {
    let mut rig = Rig::new(vec![facts("n1")]);
    rig.apply("web", container(64));
    rig.say(State::Running);
    let text = "exited with code 137 (SIGKILL), out of memory";
    rig.say(State::Restarting(Failure::new(FailureReason::RuntimeError, text)));
    let why = rig.why();
    assert_eq!(why.summary, format!("web ended and is started again on n1: {text}"));
    assert!(why.evidence.is_empty(), "it stands in the summary");
}

#[test]
fn rest_completion_and_deletion_are_told() {
    let mut rig = Rig::new(vec![facts("n1")]);
    rig.apply("web", container(64));
    rig.say(State::Running);
    let stop = |desired| Ask::Apply { workload: web(), spec: None, revision: None, desired };
    rig.ask(stop(Desired::Stopped));
    assert!(rig.why().summary.starts_with("web is being stopped on n1"));
    rig.say(State::Stopped);
    let why = rig.why();
    assert!(why.summary.contains("at rest because somebody wants it so"));
    has(&why.facts, "wanted: Stopped");
    has(&why.next, "persys start web");

    rig.ask(stop(Desired::Running));
    rig.say(State::Completed);
    assert!(rig.why().summary.contains("ran to its end on n1"));

    rig.ask(Ask::Delete(web()));
    let why = rig.why();
    assert_eq!(why.summary, "web is being deleted: n1 has not said yet that it is gone");
    let (_, last) = rig.commands.last().unwrap();
    assert!(matches!(last.order, Order::Remove { .. }));
    let epoch: Epoch = last.epoch;
    rig.beat(&node("n1"), Vec::new(), vec![Tombstone { workload: web(), epoch, purged: true }]);
    assert!(
        why_workload::explain(&rig.world, &web(), 5, rig.now.wall, &Zones::default()).is_none()
    );
}

#[test]
fn what_its_node_tries_again_is_told_with_why() {
    let text = "container is stuck: device or resource busy\nmount /data";
    let trouble = || Some(Failure::new(FailureReason::StorageError, text));
    let again = "container is stuck: device or resource busy; its node tries again";
    let mut rig = Rig::new(vec![facts("n1")]);
    rig.apply("web", container(64));
    rig.say_with(State::Pending, trouble());
    let why = rig.why();
    assert!(why.summary.starts_with("web is being started on n1, since "), "{}", why.summary);
    assert!(why.summary.ends_with(again), "{}", why.summary);
    assert_eq!(why.evidence, text.lines().skip(1).collect::<Vec<_>>(), "the rest of it");

    rig.say(State::Running);
    assert!(rig.why().evidence.is_empty());
    let desired = Desired::Stopped;
    rig.ask(Ask::Apply { workload: web(), spec: None, revision: None, desired });
    rig.say_with(State::Running, trouble());
    let why = rig.why();
    assert!(why.summary.starts_with("web is being stopped on n1"), "{}", why.summary);
    assert!(why.summary.ends_with(again), "{}", why.summary);

    rig.ask(Ask::Delete(web()));
    rig.say_with(State::Running, trouble());
    assert_eq!(rig.why().summary, format!("web is being deleted: {again}"));
}

#[test]
fn a_frozen_control_plane_says_so_first() {
    let mut rig = Rig::new(Vec::new());
    rig.apply("web", container(64));
    rig.step(Input::StoreLost { why: Arc::from("disk full") });
    let why = rig.why();
    assert!(why.summary.contains("degraded mode (disk full)"), "{}", why.summary);
    assert!(why.facts[0].contains("degraded"));
}

/// A store that was wiped knows no workload; that is no answer to who wants one restarted.
#[test]
fn a_frozen_control_plane_restarts_nothing_and_denies_nothing() {
    let mut rig = Rig::new(Vec::new());
    rig.step(Input::StoreLost { why: Arc::from("disk full") });
    let refused = restart::may_restart(&rig.world, &web()).unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unavailable, "{refused}");
    assert!(refused.metadata().contains_key("retry-after"));
}

#[test]
fn at_most_fifty_nodes_are_named_the_closest_first() {
    let far = |n: usize| NodeFacts {
        capacity: Amounts::new(10, 10),
        types: std::collections::BTreeSet::new(),
        ..facts(&format!("a{n}"))
    };
    let mut nodes: Vec<_> = (0..60).map(far).collect();
    nodes.push(NodeFacts { capacity: Amounts::new(10, 1024), ..facts("z") });
    let why = waiting(nodes, container(512));
    assert_eq!(why.verdicts.len(), 50);
    assert_eq!(why.verdicts[0].node_id, "z");
    assert_eq!(why.verdicts[0].faults.len(), 1);
    assert_eq!(why.verdicts[1].faults.len(), 3);
}

#[test]
fn a_workload_says_what_is_done_when_a_secret_changes() {
    let path = Arc::from("/run/secrets/db");
    let signal = Some(Signal::Hup);
    let seen = SecretSeen::File { path, mode: 0o400, uid: 0, gid: 0, signal };
    let secrets = vec![SecretUse { secret: SecretName::fixed("db"), seen }];
    for (signals, fact) in [
        (true, "is signalled when a secret changes: SIGHUP for db"),
        (false, "n1 runs an agent that cannot signal"),
    ] {
        let mut rig = Rig::new(vec![NodeFacts { signals, ..facts("n1") }]);
        rig.apply("web", Spec { secrets: secrets.clone(), ..container(64) });
        has(&rig.why().facts, fact);
    }
}
