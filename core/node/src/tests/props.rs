//! Whatever happens, in whatever order, these hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_model::command::{Answer, Apply, Command, Order};
use persys_model::failure::{Failure, FailureReason};
use persys_model::health::HealthState;
use persys_model::id::{RevisionId, WorkloadId};
use persys_model::link::{BeatAnswer, RegistrationAnswer};
use persys_model::resources::Compute;
use persys_model::spec::container::RestartPolicy;
use persys_model::spec::{Class, Spec, WorkloadType};
use persys_model::time::Now;
use persys_model::token::{Epoch, Session, Term};
use proptest::prelude::*;

use super::rig::{facts, id, in_place, spec};
use crate::agent::Agent;
use crate::effects::{Effects, Upward, Verb};
use crate::input::{
    Existing, ImageHealth, Input, LedgerSeq, LookId, Observation, Outcome, RequestId, Seen,
    ServiceEnds, Used, VerbId,
};
use crate::ledger::{Goal, Ledger, LedgerChange};
use crate::settings::AgentSettings;

/// One thing that happens; indexes point into what is possible at that moment.
#[derive(Debug, Clone)]
enum Happens {
    Command { workload: usize, epoch: u64, kind: u8, current: bool, session: u64, term: u64 },
    Registered { term: u64, session: u64, refused: bool },
    Heard { seq: u64, renewed: bool, hold: bool, want: bool, term: u64 },
    RegisterAgain { term: u64 },
    Unreachable,
    Observed(Vec<(usize, u64, usize, u8)>),
    Partly(Vec<(usize, u64, usize, u8)>, u8),
    Blind,
    Done { which: usize, kind: u8 },
    Disk { all: bool },
    DiskFails,
    Usage(u64),
    Wait(u64),
    Dies,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        6 => (0..3_usize, 1..12_u64, 0..7_u8, prop::bool::weighted(0.9), 1..4_u64, 1..4_u64)
            .prop_map(|(workload, epoch, kind, current, session, term)| Happens::Command {
                workload, epoch, kind, current, session, term
            }),
        3 => (1..4_u64, 1..4_u64, prop::bool::weighted(0.1))
            .prop_map(|(term, session, refused)| Happens::Registered { term, session, refused }),
        3 => (0..6_u64, any::<bool>(), prop::bool::weighted(0.1), any::<bool>(), 1..4_u64)
            .prop_map(|(seq, renewed, hold, want, term)| Happens::Heard {
                seq, renewed, hold, want, term
            }),
        1 => (1..4_u64).prop_map(|term| Happens::RegisterAgain { term }),
        1 => Just(Happens::Unreachable),
        4 => prop::collection::vec((0..3_usize, 1..12_u64, 0..2_usize, 0..6_u8), 0..4)
            .prop_map(Happens::Observed),
        2 => (prop::collection::vec((0..3_usize, 1..12_u64, 0..2_usize, 0..6_u8), 0..4), 1..7_u8)
            .prop_map(|(list, blind)| Happens::Partly(list, blind)),
        1 => Just(Happens::Blind),
        6 => (0..3_usize, 0..6_u8).prop_map(|(which, kind)| Happens::Done { which, kind }),
        6 => any::<bool>().prop_map(|all| Happens::Disk { all }),
        1 => Just(Happens::DiskFails),
        1 => (0..1_200_u64).prop_map(Happens::Usage),
        4 => prop_oneof![0..100_u64, 500..5_000_u64, 10_000..90_000_u64].prop_map(Happens::Wait),
        1 => Just(Happens::Dies),
    ]
}

fn workload(index: usize) -> WorkloadId {
    [id("a"), id("b"), id("c")][index % 3].clone()
}

fn revision(index: usize) -> RevisionId {
    [RevisionId::fixed("r1"), RevisionId::fixed("r2")][index % 2].clone()
}

fn content(kind: u8) -> Arc<Spec> {
    match kind % 5 {
        4 => in_place(),
        0 => spec(RestartPolicy::Always, Class::Default),
        1 => spec(RestartPolicy::No, Class::Default),
        2 => spec(RestartPolicy::OnFailure { max_retries: 1 }, Class::Exclusive),
        _ => spec(RestartPolicy::UnlessStopped, Class::Exclusive),
    }
}

fn verdict(number: u64) -> HealthState {
    match number % 3 {
        0 => HealthState::Starting,
        1 => HealthState::Healthy,
        _ => HealthState::Unhealthy,
    }
}

fn things(list: Vec<(usize, u64, usize, u8)>) -> Vec<Seen> {
    let seen = list.into_iter().map(|(at, epoch, rev, state)| Seen {
        workload: workload(at),
        epoch: Epoch(epoch),
        revision: revision(rev),
        state: match state {
            3 => Existing::PAUSED,
            4 => Existing::Stuck { why: Arc::from("it does not answer") },
            0 => Existing::Created,
            1 | 2 => Existing::Running,
            _ => Existing::Exited { code: i32::from(rev == 0) },
        },
        services: ServiceEnds::default(),
        health: (rev == 1).then(|| ImageHealth::of_one(verdict(epoch), "no")),
    });
    seen.collect()
}

/// A machine around the agent that checks every effect.
struct World {
    agent: Agent,
    now: u64,
    disk: Ledger,
    unwritten: Vec<(LedgerSeq, LedgerChange)>,
    flights: BTreeMap<WorkloadId, VerbId>,
    /// The highest decision obeyed on disk, over all lives.
    obeyed: BTreeMap<WorkloadId, Epoch>,
    /// Workloads that were stuck at some time.
    stuck: BTreeSet<WorkloadId>,
    asked: BTreeMap<RequestId, Command>,
    answered: BTreeSet<RequestId>,
    requests: u64,
    /// The last question to the runtimes.
    looked: LookId,
}

impl World {
    fn new() -> Self {
        let now = 1_000;
        let (agent, effects) =
            Agent::start(facts(), Ledger::default(), AgentSettings::default(), Now::at(now));
        let mut world = Self {
            agent,
            now,
            disk: Ledger::default(),
            unwritten: Vec::new(),
            flights: BTreeMap::new(),
            obeyed: BTreeMap::new(),
            stuck: BTreeSet::new(),
            asked: BTreeMap::new(),
            answered: BTreeSet::new(),
            requests: 0,
            looked: LookId(0),
        };
        world.check(effects);
        world
    }

    fn step(&mut self, input: Input) {
        let term = self.agent.term();
        let effects = self.agent.step(input, Now::at(self.now));
        assert!(self.agent.term() >= term, "terms only grow");
        self.check(effects);
        // Looking at everything finds nothing that looking at what was touched did not.
        let again = self.agent.clone().step(Input::Tick, Now::at(self.now));
        assert_eq!((again.verbs, again.ledger), (Vec::new(), Vec::new()), "left undone");
    }

    fn check(&mut self, effects: Effects) {
        assert!(effects.wake_at.is_none_or(|at| at.0 > self.now), "no step is due in the past");
        self.looked = effects.observe.map_or(self.looked, |look| look.id);
        self.unwritten.extend(effects.ledger);
        for run in effects.verbs {
            let before = self.flights.insert(run.workload.clone(), run.id);
            assert_eq!(before, None, "one verb at a time for {}", run.workload);
            self.check_verb(&run.workload, &run.verb);
        }
        for (request, answer) in effects.answers {
            assert!(self.answered.insert(request), "answered twice");
            self.check_answer(request, &answer);
        }
        match effects.send {
            Some(Upward::Beat(beat)) => assert_eq!(Some(beat.session), self.agent.session()),
            Some(Upward::Register(_)) => assert_eq!(self.agent.session(), None),
            None => {}
        }
    }

    fn shown(&mut self, list: Vec<(usize, u64, usize, u8)>) -> Vec<Seen> {
        let things = things(list);
        let stuck = things.iter().filter(|seen| matches!(seen.state, Existing::Stuck { .. }));
        self.stuck.extend(stuck.map(|seen| seen.workload.clone()));
        things
    }

    fn check_verb(&mut self, workload: &WorkloadId, verb: &Verb) {
        let intent = self.disk.intents.get(workload);
        assert_eq!(intent, self.agent.intents().get(workload), "the intent is on disk");
        match verb {
            Verb::Start { epoch, revision, spec, not_after, .. } => {
                let intent = intent.expect("a start has an intent");
                assert!(self.agent.confirmed(workload), "started without a word");
                assert!(matches!(intent.goal, Goal::Run | Goal::Pause));
                assert_eq!(&intent.epoch, epoch);
                assert_eq!((&intent.revision, intent.spec.as_ref()), (revision, Some(spec)));
                assert!(intent.gave_up.is_none() && !intent.completed);
                let highest = self.obeyed.entry(workload.clone()).or_default();
                assert!(*epoch >= *highest, "an older decision after a newer one");
                *highest = *epoch;
                let exclusive = spec.placement.class == Class::Exclusive;
                assert_eq!(not_after.is_some(), exclusive);
                assert!(not_after.is_none_or(|limit| self.now < limit.0));
            }
            Verb::Stop { .. } => {
                let intent = intent.expect("a stop has an intent");
                let over = self.agent.fence_at().is_some_and(|at| at.0 <= self.now);
                let ordered = intent.goal == Goal::Rest && self.agent.confirmed(workload);
                let stuck = self.stuck.contains(workload) && self.agent.confirmed(workload);
                assert!(over || ordered || stuck, "stopped without an order");
            }
            Verb::Prepare { spec } => {
                let intent = intent.expect("what is prepared has an intent");
                assert_eq!(intent.spec.as_ref(), Some(spec));
                assert!(self.agent.confirmed(workload) && intent.gave_up.is_none());
            }
            Verb::Refresh { changed, .. } => {
                let intent = intent.expect("new values have an intent");
                assert!(self.agent.confirmed(workload) && intent.untold == *changed);
            }
            Verb::Pause => {
                let intent = intent.expect("a pause has an intent");
                assert!(self.agent.confirmed(workload) && intent.goal == Goal::Pause);
            }
            Verb::Remove { purge, .. } => match intent.map(|intent| intent.goal) {
                Some(Goal::Gone { purge: ordered }) => assert_eq!(*purge, ordered),
                Some(Goal::Run | Goal::Pause) => assert!(!purge && self.agent.confirmed(workload)),
                Some(Goal::Rest) => panic!("removed what is to rest"),
                None => assert!(!purge && self.disk.tombstones.contains_key(workload)),
            },
        }
    }

    fn check_answer(&self, request: RequestId, answer: &Answer) {
        let command = &self.asked[&request];
        let held = self.disk.intents.get(&command.workload).map(|intent| intent.epoch);
        let buried = self.disk.tombstones.get(&command.workload).map(|buried| buried.epoch);
        match answer {
            Answer::Accepted => {
                assert!(held.max(buried) >= Some(command.epoch), "accepted, not on disk");
            }
            Answer::Removed { epoch } => {
                assert!(*epoch >= command.epoch && buried >= Some(*epoch), "removed, not on disk");
            }
            Answer::Refused(_) => {}
        }
    }

    fn command(&mut self, command: Command) {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.asked.insert(request, command.clone());
        self.step(Input::Command(request, command));
    }

    fn write(&mut self, all: bool) {
        let count = if all { self.unwritten.len() } else { self.unwritten.len().min(1) };
        let mut last = None;
        for (seq, change) in self.unwritten.drain(..count) {
            self.disk.apply(&change);
            last = Some(seq);
        }
        if let Some(seq) = last {
            self.step(Input::Persisted(seq));
        }
    }

    fn done(&mut self, which: usize, kind: u8) {
        let workload = workload(which);
        let Some(verb) = self.flights.remove(&workload) else { return };
        let outcome = match kind {
            0 => Outcome::Unknown,
            1 => Outcome::Failed(Failure::new(FailureReason::RuntimeError, "no")),
            _ => Outcome::Done,
        };
        self.step(Input::Done { verb, workload, outcome });
    }

    fn dies(&mut self) {
        self.unwritten.clear();
        self.flights.clear();
        let disk = self.disk.clone();
        let (agent, effects) =
            Agent::start(facts(), disk, AgentSettings::default(), Now::at(self.now));
        self.agent = agent;
        self.check(effects);
    }

    fn happens(&mut self, happening: Happens) {
        match happening {
            Happens::Command { workload: at, epoch, kind, current, session, term } => {
                let order = match kind {
                    0 | 1 => Order::Remove { purge: kind == 0 },
                    2.. => Order::Apply(Apply {
                        revision: revision(usize::from(kind)),
                        run: kind != 6,
                        pause: epoch % 3 == 0,
                        spec: content(kind),
                        secrets: Arc::default(),
                    }),
                };
                let present = self.agent.session().filter(|_| current);
                self.command(Command {
                    term: if current { self.agent.term() } else { Term(term) },
                    session: present.unwrap_or(Session(session)),
                    epoch: Epoch(epoch),
                    workload: workload(at),
                    order,
                });
            }
            Happens::Registered { refused: true, .. } => {
                let refused =
                    RegistrationAnswer::Refused { why: Arc::from("no"), retry_after_ms: 100 };
                self.step(Input::Registered(refused));
            }
            Happens::Registered { term, session, refused: false } => {
                self.step(super::rig::accepted(Term(term), Session(session)));
            }
            Happens::Heard { seq, renewed, hold, want, term } => {
                let session = self.agent.session().unwrap_or_default();
                let term = Term(term).max(self.agent.term());
                self.step(heard((term, session), seq, (renewed, hold, want)));
            }
            Happens::RegisterAgain { term } => {
                self.step(Input::Heard(BeatAnswer::RegisterAgain { term: Term(term) }));
            }
            Happens::Unreachable => self.step(Input::Unreachable),
            Happens::Observed(list) => {
                let list = self.shown(list);
                self.step(Input::Observed(self.looked, Observation::Complete(list)));
            }
            Happens::Partly(list, bits) => {
                let kinds = WorkloadType::ALL.into_iter().zip([1, 2, 4]);
                let blind =
                    kinds.filter(|(_, bit)| bits & bit != 0).map(|(kind, _)| kind).collect();
                let said = Observation::Partial { seen: self.shown(list), blind };
                self.step(Input::Observed(self.looked, said));
            }
            Happens::Blind => self.step(Input::Observed(self.looked, Observation::Unknown)),
            Happens::Done { which, kind } => self.done(which, kind),
            Happens::Disk { all } => self.write(all),
            Happens::DiskFails => {
                self.unwritten.clear();
                self.step(Input::LedgerFailed);
            }
            Happens::Usage(used) => self.step(Input::Usage(Used {
                compute: Compute::new(used, used),
                disk_permille: 0,
                ..Used::default()
            })),
            Happens::Wait(ms) => {
                self.now += ms;
                self.step(Input::Tick);
            }
            Happens::Dies => self.dies(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Never panics; one verb per workload at a time, each with its intent on disk; nothing started
    /// unconfirmed or out of its lease; nothing stopped or removed without an order; no older
    /// decision after a newer one; no answer before the disk has it.
    #[test]
    fn whatever_happens(story in prop::collection::vec(happens(), 1..80)) {
        let mut world = World::new();
        for happening in story {
            world.happens(happening);
        }
    }

    /// Once nothing happens any more, an agent comes to rest: a bounded number of verbs, then none.
    #[test]
    fn it_comes_to_rest(story in prop::collection::vec(happens(), 1..40)) {
        let mut world = World::new();
        for happening in story {
            world.happens(happening);
        }
        for round in 0..200 {
            let open = !world.unwritten.is_empty() || !world.flights.is_empty();
            if !open && round > 20 {
                return Ok(());
            }
            world.write(true);
            for which in 0..3 {
                world.done(which, 5);
            }
            world.now += 1_000;
            world.step(Input::Tick);
        }
        prop_assert!(false, "still busy after 200 rounds");
    }

    /// The same inputs give the same effects.
    #[test]
    fn it_is_deterministic(story in prop::collection::vec(happens(), 1..40)) {
        let run = || {
            let mut world = World::new();
            for happening in story.clone() {
                world.happens(happening);
            }
            (world.disk, world.agent.inventory(), world.flights, world.answered)
        };
        prop_assert_eq!(run(), run());
    }
}

fn heard((term, session): (Term, Session), seq: u64, said: (bool, bool, bool)) -> Input {
    let (renewed, hold, want_inventory) = said;
    // Sometimes the fleet has grown, and the beats become rarer.
    let beat_ms = seq % 3 * 1_500;
    let drain = false;
    Input::Heard(BeatAnswer::Heard {
        term,
        session,
        seq,
        renewed,
        hold,
        drain,
        want_inventory,
        beat_ms,
        removals: Vec::new(),
        mark: None,
    })
}
