//! Contract agents with their habits, and a World that speaks with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_cluster::contract::{Ask as Asked, ContractAgents, Deed, Found, Outcome, Told, Word};
use persys_cluster::effects::Reply;
use persys_cluster::input::{Ask, Input};
use persys_cluster::settings::Settings;
use persys_model::assignment::Assignment;
use persys_model::command::{Apply, Command};
use persys_model::drift::DriftKind;
use persys_model::event::{Author, Happening};
use persys_model::failure::FailureReason;
use persys_model::id::{NodeId, RevisionId, WorkloadId};
use persys_model::inventory::Inventory;
use persys_model::link::{Beat, Registration, Usage};
use persys_model::node::{CONTRACT_HOST, CONTRACT_LIFE};
use persys_model::phase::Phase;
use persys_model::spec::Spec;
use persys_model::time::{Millis, Now};
use persys_model::token::Term;
use persys_model::workload::Desired;

use super::support::{Cluster, facts, node_id, workload_id};

pub(crate) const STEP_MS: u64 = 100;
pub(crate) const BEAT_MS: u64 = 2_000;

/// One workload of a contract agent, and the task under way for it.
#[derive(Debug, Clone)]
pub(crate) struct Has {
    pub(crate) revision: RevisionId,
    pub(crate) run: bool,
    pub(crate) word: Word,
    pub(crate) message: &'static str,
    pub(crate) exit_code: Option<i64>,
    pub(crate) task: Option<(Millis, Task)>,
}

#[derive(Debug, Clone)]
pub(crate) enum Task {
    Become(Apply),
    Delete,
}

/// A contract agent with its habits.
#[derive(Debug)]
pub(crate) struct Theirs {
    pub(crate) has: BTreeMap<WorkloadId, Has>,
    pub(crate) apply_ms: u64,
    pub(crate) delete_ms: u64,
    /// The state in which a start ends.
    pub(crate) ends_as: (Word, &'static str),
    /// The answer to every apply, in place of taking it.
    pub(crate) refuses: Option<&'static str>,
    /// It says `Failed` with "workload not found" in place of an error.
    pub(crate) says_failed_for_gone: bool,
    /// It neither beats nor answers.
    pub(crate) away: bool,
    pub(crate) applied: Vec<(Millis, RevisionId, bool)>,
    pub(crate) deleted: Vec<WorkloadId>,
    pub(crate) asked: usize,
    pub(crate) listed: usize,
}

impl Default for Theirs {
    fn default() -> Self {
        Self {
            has: BTreeMap::new(),
            apply_ms: 1_500,
            delete_ms: 1_500,
            ends_as: (Word::Running, ""),
            refuses: None,
            says_failed_for_gone: false,
            away: false,
            applied: Vec::new(),
            deleted: Vec::new(),
            asked: 0,
            listed: 0,
        }
    }
}

impl Theirs {
    pub(crate) fn work(&mut self, now: Millis) {
        let ends_as = self.ends_as;
        self.has.retain(|_, one| {
            let Some((at, task)) = one.task.clone() else { return true };
            if now < at {
                return true;
            }
            one.task = None;
            match task {
                Task::Delete => return false,
                Task::Become(apply) => {
                    one.revision = apply.revision;
                    one.run = apply.run;
                    (one.word, one.message) = if apply.run { ends_as } else { (Word::Stopped, "") };
                }
            }
            true
        });
    }

    pub(crate) fn apply(&mut self, id: &WorkloadId, apply: Apply, now: Millis) -> Outcome {
        if let Some(why) = self.refuses {
            return Outcome::Refused(Arc::from(why));
        }
        self.applied.push((now, apply.revision.clone(), apply.run));
        let fresh = Has {
            revision: apply.revision.clone(),
            run: apply.run,
            word: Word::Pending,
            message: "",
            exit_code: None,
            task: None,
        };
        let one = self.has.entry(id.clone()).or_insert(fresh);
        one.task = Some((now.plus(self.apply_ms), Task::Become(apply)));
        Outcome::Accepted
    }

    pub(crate) fn delete(&mut self, id: &WorkloadId, now: Millis) -> Outcome {
        self.deleted.push(id.clone());
        match self.has.get_mut(id) {
            Some(one) => one.task = Some((now.plus(self.delete_ms), Task::Delete)),
            None => return Outcome::Refused(Arc::from("workload not found")),
        }
        Outcome::Accepted
    }

    pub(crate) fn told(&self, id: &WorkloadId) -> Option<Told> {
        self.has.get(id).map(|one| Told {
            workload: id.clone(),
            revision: Some(one.revision.clone()),
            run: Some(one.run),
            word: one.word,
            reason: None,
            message: Arc::from(one.message),
            exit_code: one.exit_code,
        })
    }

    pub(crate) fn find(&self, id: &WorkloadId) -> Found {
        match self.told(id) {
            Some(told) => Found::Status(told),
            None if self.says_failed_for_gone => Found::Status(Told {
                workload: id.clone(),
                revision: None,
                run: None,
                word: Word::Failed,
                reason: Some(FailureReason::RuntimeError),
                message: Arc::from("workload not found"),
                exit_code: None,
            }),
            None => Found::Missing,
        }
    }
}

/// A World with contract agents.
pub(crate) struct Fleet {
    pub(crate) c: Cluster,
    pub(crate) contract: ContractAgents,
    pub(crate) theirs: BTreeMap<NodeId, Theirs>,
    pub(crate) beat_at: Millis,
}

impl Fleet {
    pub(crate) fn new(nodes: usize) -> Self {
        let c = Cluster::new(Settings::default());
        let contract = ContractAgents::new(1_000);
        let beat_at = c.now.mono;
        let mut fleet = Self { c, contract, theirs: BTreeMap::new(), beat_at };
        for n in 0..nodes {
            fleet.theirs.insert(node_id(n), Theirs::default());
            fleet.register(n);
        }
        fleet.run(3_000);
        fleet
    }

    pub(crate) fn register(&mut self, n: usize) {
        let id = node_id(n);
        let mut facts = facts(&id, 4_000, 4_096);
        facts.host = Arc::from(format!("{CONTRACT_HOST}127.0.0.1:{n}"));
        facts.incarnation = Arc::from(CONTRACT_LIFE);
        facts.fence = false;
        let request = self.c.request();
        let inventory = Inventory::default();
        self.c.step(Input::Register(request, Registration { facts, inventory, term: Term(0) }));
        self.contract.registered(&id, true, self.c.now.mono);
    }

    pub(crate) fn their(&mut self, n: usize) -> &mut Theirs {
        self.theirs.get_mut(&node_id(n)).unwrap()
    }

    pub(crate) fn take(&mut self, beat: Option<Beat>) {
        let Some(beat) = beat else { return };
        let (node, request) = (beat.node.clone(), self.c.request());
        self.c.step(Input::Beat(request, beat));
        if let Some(answer) = self.c.beats.get(&request) {
            self.contract.beat_answered(&node, answer);
        }
    }

    /// Carries out everything that is due until the time is over.
    pub(crate) fn run(&mut self, ms: u64) {
        let end = self.c.now.mono.plus(ms);
        while self.c.now.mono < end {
            self.c.now = Now::at(self.c.now.mono.0 + STEP_MS);
            let now = self.c.now.mono;
            for theirs in self.theirs.values_mut() {
                theirs.work(now);
            }
            if now >= self.beat_at {
                self.beat_at = now.plus(BEAT_MS);
                self.heartbeats();
            }
            self.c.step(Input::Tick);
            self.probes();
            self.orders();
            self.questions();
            self.orders();
        }
    }

    pub(crate) fn heartbeats(&mut self) {
        let now = self.c.now.mono;
        for (node, theirs) in &self.theirs {
            if theirs.away {
                continue;
            }
            let bare = |id: &WorkloadId| {
                let told = theirs.told(id).unwrap();
                Told { revision: None, run: None, exit_code: None, ..told }
            };
            let statuses: Vec<Told> = theirs.has.keys().map(bare).collect();
            let about = (statuses.as_slice(), Usage::default());
            let beat = self.contract.heartbeat(&self.c.world, node, about, now);
            let Some(beat) = beat else { continue };
            let (node, request) = (beat.node.clone(), self.c.request());
            self.c.step(Input::Beat(request, beat));
            if let Some(answer) = self.c.beats.get(&request) {
                self.contract.beat_answered(&node, answer);
            }
        }
    }

    pub(crate) fn probes(&mut self) {
        use persys_cluster::input::Probe;
        for (node, session, asked) in std::mem::take(&mut self.c.probes) {
            let found = if self.theirs[&node].away { Probe::Silent } else { Probe::Answered };
            self.c.step(Input::Probed { node, session, asked, found });
        }
    }

    pub(crate) fn orders(&mut self) {
        while !self.c.commands.is_empty() {
            for (node, command) in std::mem::take(&mut self.c.commands) {
                self.order(&node, &command);
            }
        }
    }

    pub(crate) fn order(&mut self, node: &NodeId, command: &Command) {
        let now = self.c.now.mono;
        let context = self.c.world.context_of(node, command);
        let deed = self.contract.order(node, command, &context, now);
        let theirs = self.theirs.get_mut(node).unwrap();
        if theirs.away {
            return;
        }
        let outcome = match &deed {
            Deed::Apply(apply) | Deed::StopInstead(apply) => {
                theirs.apply(&command.workload, apply.clone(), now)
            }
            Deed::Delete => theirs.delete(&command.workload, now),
            Deed::Nothing(_) => Outcome::Accepted,
        };
        let answer = self.contract.ordered(node, command, (&deed, &outcome), now);
        self.c.step(Input::Answered {
            node: node.clone(),
            session: command.session,
            workload: command.workload.clone(),
            epoch: command.epoch,
            answer,
            task: None,
        });
    }

    pub(crate) fn questions(&mut self) {
        let now = self.c.now.mono;
        let due = self.contract.due(now);
        for question in due.questions {
            let theirs = self.theirs.get_mut(&question.node).unwrap();
            let beat = match &question.what {
                Asked::Status(workload) => {
                    theirs.asked += 1;
                    let found = if theirs.away { Found::NoAnswer } else { theirs.find(workload) };
                    let about = (&question.node, workload, question.asked);
                    self.contract.status_came(&self.c.world, about, found, now)
                }
                Asked::List => {
                    theirs.listed += 1;
                    let list: Vec<_> = theirs.has.keys().filter_map(|id| theirs.told(id)).collect();
                    let list = (!theirs.away).then_some(list.as_slice());
                    let about = (&question.node, question.asked);
                    self.contract.list_came(&self.c.world, about, list, now)
                }
            };
            self.take(beat);
        }
        for node in due.news {
            let beat = self.contract.news(&self.c.world, &node, now);
            self.take(beat);
        }
    }

    pub(crate) fn apply(&mut self, id: &str, revision: &str, spec: Spec, desired: Desired) {
        let request = self.c.request();
        let ask = Ask::Apply {
            workload: workload_id(id),
            spec: Some(Arc::new(spec)),
            revision: Some(RevisionId::new(revision).unwrap()),
            desired,
        };
        self.c.step(Input::Ask(request, Arc::new(Author::new("operator ann")), ask));
        assert!(
            !matches!(self.c.replies[&request], Reply::Refused { .. }),
            "{:?}",
            self.c.replies[&request]
        );
        self.orders();
    }

    pub(crate) fn ask(&mut self, ask: Ask) -> Reply {
        let request = self.c.request();
        self.c.step(Input::Ask(request, Arc::new(Author::new("operator ann")), ask));
        self.orders();
        self.c.replies[&request].clone()
    }

    pub(crate) fn assignment(&self, id: &str) -> Option<Assignment> {
        Some(self.c.world.workload(&workload_id(id))?.assignment.clone())
    }

    pub(crate) fn phase(&self, id: &str) -> Option<Phase> {
        Some(self.assignment(id)?.phase)
    }

    pub(crate) fn place(&self, id: &str) -> Option<NodeId> {
        Some(self.assignment(id)?.place?.node)
    }

    pub(crate) fn drifts(&self) -> Vec<(WorkloadId, DriftKind)> {
        let drifts = &self.c.store.snapshot.drifts;
        drifts.iter().map(|drift| (drift.workload.clone(), drift.kind)).collect()
    }

    pub(crate) fn drift_events(&self, kind: DriftKind) -> usize {
        let found = |what: &Happening| matches!(what, Happening::Drift { kind: found, resolved: false, .. } if *found == kind);
        self.c.store.events.iter().filter(|event| found(&event.what)).count()
    }
}
