//! An agent with a disk that is as quick or slow as a test wants.

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_model::command::{Answer, Apply, Command, Order};
use persys_model::failure::{Failure, FailureReason};
use persys_model::id::{NodeId, RevisionId, WorkloadId};
use persys_model::inventory::State;
use persys_model::link::{Beat, BeatAnswer, RegistrationAnswer};
use persys_model::node::NodeFacts;
use persys_model::resources::{Compute, Resources};
use persys_model::spec::container::RestartPolicy;
use persys_model::spec::vm::CloudInit;
use persys_model::spec::{Class, ContainerSpec, Kind, Placement, Spec, VmSpec};
use persys_model::time::Now;
use persys_model::token::{Epoch, Session, Term};

use crate::agent::Agent;
use crate::effects::{Effects, Run, Upward, Verb};
use crate::input::{Existing, Input, LedgerSeq, LookId, Observation, Outcome, RequestId, Seen};
use crate::ledger::Ledger;
use crate::settings::AgentSettings;

pub(super) const TERM: Term = Term(3);
pub(super) const SESSION: Session = Session(7);

pub(super) fn facts() -> NodeFacts {
    NodeFacts {
        id: NodeId::fixed("n1"),
        host: Arc::from("host"),
        incarnation: Arc::from("life"),
        endpoint: Arc::from("n1:50051"),
        capacity: Compute::new(1_000, 1_000),
        pools: Vec::new(),
        types: std::collections::BTreeSet::new(),
        drivers: std::collections::BTreeSet::new(),
        labels: BTreeMap::new(),
        fence: true,
        pauses: true,
        checks_health: true,
        signals: true,
        addresses: true,
        missing: BTreeMap::new(),
    }
}

pub(super) fn id(name: &'static str) -> WorkloadId {
    WorkloadId::fixed(name)
}

pub(super) fn spec(restart: RestartPolicy, class: Class) -> Arc<Spec> {
    let container = ContainerSpec { image: Arc::from("app"), restart, ..ContainerSpec::default() };
    Arc::new(Spec {
        kind: Kind::Container(container),
        resources: Resources::default(),
        placement: Placement { class, ..Placement::default() },
        metadata: BTreeMap::new(),
        secrets: Vec::new(),
        stop_grace_ms: None,
        health: persys_model::spec::health::HealthChecks::default(),
    })
}

pub(super) fn plain() -> Arc<Spec> {
    spec(RestartPolicy::Always, Class::Default)
}

/// Something that a new revision is brought over.
pub(super) fn in_place() -> Arc<Spec> {
    let machine = VmSpec {
        name: None,
        vcpus: 1,
        memory_mib: 64,
        disks: Vec::new(),
        networks: Vec::new(),
        cloud_init: CloudInit::default(),
        os_image: None,
        managed_volumes: Vec::new(),
        metadata: BTreeMap::new(),
    };
    Arc::new(Spec { kind: Kind::Vm(machine), ..(*plain()).clone() })
}

pub(super) fn apply(epoch: u64, revision: &'static str) -> Command {
    apply_spec(epoch, revision, plain())
}

pub(super) fn apply_spec(epoch: u64, revision: &'static str, spec: Arc<Spec>) -> Command {
    let apply = Apply {
        revision: RevisionId::fixed(revision),
        run: true,
        pause: false,
        spec,
        secrets: Arc::default(),
    };
    command(epoch, Order::Apply(apply))
}

pub(super) fn rest(epoch: u64, revision: &'static str) -> Command {
    let apply = Apply {
        revision: RevisionId::fixed(revision),
        run: false,
        pause: false,
        spec: plain(),
        secrets: Arc::default(),
    };
    command(epoch, Order::Apply(apply))
}

pub(super) fn remove(epoch: u64) -> Command {
    command(epoch, Order::Remove { purge: true })
}

pub(super) fn command(epoch: u64, order: Order) -> Command {
    let (term, session) = (TERM, SESSION);
    Command { term, session, epoch: Epoch(epoch), workload: id("web"), order }
}

pub(super) fn seen(epoch: u64, revision: &'static str, state: Existing) -> Seen {
    Seen {
        workload: id("web"),
        epoch: Epoch(epoch),
        revision: RevisionId::fixed(revision),
        state,
        services: crate::input::ServiceEnds::default(),
        health: None,
    }
}

pub(super) fn heard(seq: u64) -> BeatAnswer {
    BeatAnswer::Heard {
        term: TERM,
        session: SESSION,
        seq,
        renewed: true,
        hold: false,
        drain: false,
        want_inventory: false,
        beat_ms: 0,
        removals: Vec::new(),
        mark: None,
    }
}

pub(super) fn accepted(term: Term, session: Session) -> Input {
    let (beat_ms, lease_ms) = (2_000, 6_000);
    Input::Registered(RegistrationAnswer::Accepted { term, session, beat_ms, lease_ms })
}

/// An agent, its disk, and what it has asked for so far.
pub(super) struct Rig {
    pub(super) agent: Agent,
    pub(super) now: u64,
    pub(super) disk: Ledger,
    pub(super) slow_disk: bool,
    unwritten: Vec<(LedgerSeq, crate::ledger::LedgerChange)>,
    pub(super) verbs: Vec<Run>,
    pub(super) answers: Vec<(RequestId, Answer)>,
    pub(super) beats: Vec<Beat>,
    pub(super) ends: Vec<FailureReason>,
    pub(super) registrations: usize,
    requests: u64,
    /// The last question to the runtimes.
    pub(super) asked: LookId,
    pub(super) last: Effects,
}

impl Rig {
    /// A life on `disk`, before anything has answered.
    pub(super) fn new(disk: Ledger, settings: AgentSettings) -> Self {
        Self::begin(disk, settings, 1_000)
    }

    pub(super) fn begin(disk: Ledger, settings: AgentSettings, now: u64) -> Self {
        let (agent, effects) = Agent::start(facts(), disk.clone(), settings, Now::at(now));
        let mut rig = Self {
            agent,
            now,
            disk,
            slow_disk: false,
            unwritten: Vec::new(),
            verbs: Vec::new(),
            answers: Vec::new(),
            beats: Vec::new(),
            ends: Vec::new(),
            registrations: 0,
            requests: 0,
            asked: LookId(0),
            last: Effects::default(),
        };
        rig.take(effects);
        rig
    }

    /// A life on `disk` that sees `things` and is registered.
    pub(super) fn alive(disk: Ledger, things: Vec<Seen>) -> Self {
        let mut rig = Self::new(disk, AgentSettings::default());
        rig.observe(things);
        rig.step(accepted(TERM, SESSION));
        rig
    }

    /// The process dies and another begins on the same disk.
    pub(super) fn reborn(self, things: Vec<Seen>) -> Self {
        let mut rig = Self::begin(self.disk, AgentSettings::default(), self.now + 1_000);
        rig.observe(things);
        rig.step(accepted(TERM, SESSION));
        rig
    }

    pub(super) fn step(&mut self, input: Input) {
        let effects = self.agent.step(input, Now::at(self.now));
        self.take(effects);
    }

    fn take(&mut self, effects: Effects) {
        self.last = effects.clone();
        self.asked = effects.observe.map_or(self.asked, |look| look.id);
        self.verbs.extend(effects.verbs);
        self.answers.extend(effects.answers);
        self.ends.extend(effects.ends);
        match effects.send {
            Some(Upward::Beat(beat)) => self.beats.push(beat),
            Some(Upward::Register(_)) => self.registrations += 1,
            None => {}
        }
        self.unwritten.extend(effects.ledger);
        if !self.slow_disk {
            self.flush();
        }
    }

    /// Writes everything that waits.
    pub(super) fn flush(&mut self) {
        let mut last = None;
        for (seq, change) in self.unwritten.drain(..) {
            self.disk.apply(&change);
            last = Some(seq);
        }
        if let Some(seq) = last {
            let kept = std::mem::take(&mut self.last);
            self.step(Input::Persisted(seq));
            // The step that caused the write is the one a test looks at.
            self.last.ledger.splice(0..0, kept.ledger);
        }
    }

    /// The disk drops what waits and says so.
    pub(super) fn disk_fails(&mut self) {
        self.unwritten.clear();
        self.step(Input::LedgerFailed);
    }

    pub(super) fn order(&mut self, command: Command) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.step(Input::Command(request, command));
        request
    }

    pub(super) fn answer(&self, request: RequestId) -> Option<&Answer> {
        self.answers.iter().find(|(asked, _)| *asked == request).map(|(_, answer)| answer)
    }

    pub(super) fn observe(&mut self, things: Vec<Seen>) {
        self.say(Observation::Complete(things));
    }

    /// The runtimes answer the last question.
    pub(super) fn say(&mut self, said: Observation) {
        self.step(Input::Observed(self.asked, said));
    }

    /// Time passes.
    pub(super) fn wait(&mut self, ms: u64) {
        self.now += ms;
        self.step(Input::Tick);
    }

    /// The one verb asked for since the last look.
    pub(super) fn verb(&mut self) -> Run {
        assert_eq!(self.verbs.len(), 1, "{:?}", self.verbs);
        self.verbs.remove(0)
    }

    /// Ends the verb that was asked for.
    pub(super) fn finish(&mut self, outcome: Outcome) -> Verb {
        let run = self.verb();
        self.step(Input::Done { verb: run.id, workload: run.workload, outcome });
        run.verb
    }

    /// A workload that runs as ordered.
    pub(super) fn running(epoch: u64, revision: &'static str, spec: &Arc<Spec>) -> Self {
        let mut rig = Self::alive(Ledger::default(), Vec::new());
        rig.order(apply_spec(epoch, revision, Arc::clone(spec)));
        assert!(matches!(rig.finish(Outcome::Done), Verb::Start { .. }));
        rig.observe(vec![seen(epoch, revision, Existing::Running)]);
        rig
    }

    pub(super) fn trouble(&self) -> Option<Failure> {
        let held = self.agent.inventory().held;
        held.into_iter().find_map(|held| held.report.trouble)
    }

    pub(super) fn state(&self) -> Option<State> {
        self.agent.inventory().held.into_iter().next().map(|held| held.report.state)
    }
}
