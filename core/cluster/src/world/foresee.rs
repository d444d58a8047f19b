//! What would become of a wish, without anything becoming of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_model::assignment::{Assignment, Reason, ReasonCode};
use persys_model::history::History;
use persys_model::id::{NodeId, RevisionId, WorkloadId};
use persys_model::phase::Phase;
use persys_model::spec::Spec;
use persys_model::token::Generation;
use persys_model::workload::{Desired, Workload};

use super::World;
use super::ask::meant;
use super::attempt::Attempt;
use super::demands::{demands, request};
use super::judge::Judged;
use super::slots::WorkloadSlot;

/// What a wish would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Make a workload that nobody knows yet.
    Create,
    /// Give one another version.
    Update,
    /// Start one that is at rest.
    Start,
    /// Bring one to rest.
    Stop,
    /// Take one away.
    Delete,
    /// Leave everything as it is.
    Nothing,
}

impl Action {
    const ALL: [Self; 6] =
        [Self::Create, Self::Update, Self::Start, Self::Stop, Self::Delete, Self::Nothing];

    /// The word on the wire.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Delete => "delete",
            Self::Nothing => "nothing",
        }
    }

    /// The action of a word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.word() == word)
    }
}

/// What somebody would wish.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    /// For which workload.
    pub workload: &'a WorkloadId,
    /// What to run, if that is said.
    pub spec: Option<&'a Arc<Spec>>,
    /// The name of that version.
    pub revision: Option<&'a RevisionId>,
    /// Whether it should run.
    pub desired: Desired,
}

/// What would become of a wish as things are now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreseen {
    /// What it would do, were it taken.
    pub action: Action,
    /// Why it would not be taken, if so.
    pub refusal: Option<String>,
    /// The node it would go to, if it is to run and one has room.
    pub node: Option<NodeId>,
    /// How the nodes judge it, if it is to run.
    pub judged: Option<Judged>,
}

impl World {
    /// What would become of a wish, with at most `most` nodes by name.
    pub fn foresee(&self, wish: Wish<'_>, most: usize) -> Foreseen {
        let Wish { workload: id, spec, revision, desired } = wish;
        let known = self.workload_by_id.get(id).copied();
        let slot = known.and_then(|at| self.workloads.get(at.0));
        let refusal = match (known, desired) {
            (None, Desired::Deleted) => Some(format!("there is no workload {id}")),
            (Some(_), Desired::Deleted) => None,
            (None, _) => self.unwelcome(id, spec, revision).map(|(_, why)| why),
            (Some(at), _) => self.unchangeable(at, spec, revision).map(|(_, why)| why),
        };
        let action = action(slot, spec, revision, desired);
        let runs = desired.is_up() && action != Action::Nothing;
        let spec = spec.or_else(|| slot.map(|slot| &slot.workload.spec)).filter(|_| runs);
        let Some(spec) = spec.filter(|_| refusal.is_none()) else {
            return Foreseen { action, refusal, node: None, judged: None };
        };
        let mut wanted = imagined(id, spec, slot);
        if let Some(home) = self.home_of_stack(id, spec).filter(|_| slot.is_none()) {
            Arc::make_mut(&mut wanted.assignment).data_on = Some(home);
        }
        let judged = self.judge_slot(&wanted, most);
        Foreseen { action, refusal, node: self.would_go_to(&wanted), judged: Some(judged) }
    }

    /// The node that would be picked, were everything else to stay as it is.
    fn would_go_to(&self, slot: &WorkloadSlot) -> Option<NodeId> {
        let spec = &slot.workload.spec;
        let demands = demands(spec, slot.workload.desired);
        let (ports, drivers) = (self.ports_of(spec), spec.drivers());
        let request = request(spec, &demands, &ports, &drivers, &[]);
        let verdicts = self.index.verdicts(&request, self.own(slot));
        let fits = |node: &NodeId| {
            let at = self.node_at(node);
            verdicts.iter().any(|one| Some(one.node) == at && one.faults.is_empty())
        };
        let homes = self.homes(slot);
        if let Some(home) = homes.keys().next() {
            return (homes.len() == 1 && fits(home)).then(|| home.clone());
        }
        // What runs stays where it is, if it can.
        let here = slot.assignment.place.as_ref().map(|place| place.node.clone());
        if let Some(here) = here.filter(|node| fits(node)) {
            return Some(here);
        }
        self.index.foresee(&request).map(|at| self.node_id(at))
    }
}

fn action(
    slot: Option<&WorkloadSlot>,
    spec: Option<&Arc<Spec>>,
    revision: Option<&RevisionId>,
    desired: Desired,
) -> Action {
    let Some(slot) = slot else {
        return if desired == Desired::Deleted { Action::Nothing } else { Action::Create };
    };
    let current = &slot.workload;
    let same = spec.is_none_or(|spec| meant(current, spec, revision) == current.revision);
    match (current.desired == desired, desired) {
        (_, Desired::Running | Desired::Paused | Desired::Stopped) if !same => Action::Update,
        (true, _) => Action::Nothing,
        (false, Desired::Running) => Action::Start,
        // Nobody can ask for a pause and have it only foreseen.
        (false, Desired::Paused) => Action::Update,
        (false, Desired::Stopped) => Action::Stop,
        (false, Desired::Deleted) => Action::Delete,
    }
}

/// The workload as it would be, with what it has now.
fn imagined(id: &WorkloadId, spec: &Arc<Spec>, slot: Option<&WorkloadSlot>) -> WorkloadSlot {
    let since = persys_model::time::WallMillis(0);
    let fresh = || Assignment {
        workload: id.clone(),
        phase: Phase::Pending,
        reason: Reason {
            code: ReasonCode::Submitted,
            message: Arc::from(""),
            failure: None,
            since,
        },
        place: None,
        former: BTreeMap::new(),
        data_on: spec.adopt_on(),
        update: None,
        health: None,
    };
    let revision = slot.map(|slot| slot.workload.revision.clone());
    WorkloadSlot {
        workload: Arc::new(Workload {
            id: id.clone(),
            spec: Arc::clone(spec),
            revision: revision
                .unwrap_or_else(|| persys_model::spec::canonical::content_revision(spec)),
            generation: Generation(1),
            desired: Desired::Running,
            created_at: since,
            history: History::default(),
        }),
        assignment: slot.map_or_else(|| Arc::new(fresh()), |slot| Arc::clone(&slot.assignment)),
        retry: None,
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
        attempt: Attempt::default(),
    }
}
