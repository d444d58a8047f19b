//! What the runtimes say, and what it means for what nobody ordered.
//!
//! ```text
//!   seen, with an intent ............ the table decides
//!   seen, removed by a decision ..... what that removal left behind: cleared
//!   seen, otherwise ................. adopted: written down, reported, left alone
//!   not seen, with an intent ........ absent
//!   its runtime does not answer ..... unknown: nothing is concluded, nothing is done
//! ```
//!
//! Invariant: what is found is never started, stopped or removed because of what it is, only
//! because somebody ordered it. What one runtime hides says nothing about what another shows, and
//! absence is concluded only when every runtime that may have something of it has answered. An observation taken before our last verb ended says nothing about
//! that verb's workload.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_model::id::WorkloadId;
use persys_model::spec::{Class, Spec, WorkloadType};
use persys_model::time::{Millis, Now};
use persys_model::token::Epoch;
use persys_model::zoo::Bug;

use crate::agent::Agent;
use crate::effects::{Effects, Look};
use crate::input::{Existing, LookId, Observation, Seen};
use crate::ledger::{Goal, Intent, LedgerChange};
use crate::settings::AgentSettings;
use crate::slot::{End, Slot, is_exclusive};
use crate::view::View;

/// Missing answers in a row after which a runtime counts as down.
const BLIND_LOOKS: u32 = 2;

fn no_answer(kind: WorkloadType) -> &'static str {
    match kind {
        WorkloadType::Container => "Docker does not answer",
        WorkloadType::Compose => "Docker or the Compose program does not answer",
        WorkloadType::Vm => "libvirt does not answer",
    }
}

/// When the runtimes were asked and when they answered. One question is open at a time, unless the
/// patience for its answer ended: then both may be answered, and in any order.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    /// The last question.
    asked: LookId,
    /// The last question that was answered.
    answered: LookId,
    asked_at: Millis,
    /// When every single thing was last asked about.
    probed_at: Option<Millis>,
    /// Somebody wants to know now.
    wanted: bool,
    /// What is known as a whole.
    sight: Sight,
    /// Types whose runtimes did not answer last time, while others did.
    blind: BTreeSet<WorkloadType>,
    /// Answers in a row in which some runtime was missing.
    blind_looks: u32,
    /// Types whose runtimes never answered in this life.
    unheard: BTreeSet<WorkloadType>,
}

/// What is known of the runtimes as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    /// They were never heard of in this life.
    New,
    /// All of them answered last time.
    Clear,
    /// Some answered last time.
    Partial,
    /// None answered last time.
    Blind,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self {
            asked: LookId(0),
            answered: LookId(0),
            asked_at: Millis(0),
            probed_at: None,
            wanted: true,
            sight: Sight::New,
            blind: BTreeSet::new(),
            blind_looks: 0,
            unheard: WorkloadType::ALL.into_iter().collect(),
        }
    }

    /// The next observation is wanted now; gives its number.
    pub(crate) fn want(&mut self) -> LookId {
        self.wanted = true;
        LookId(self.asked.0.saturating_add(1))
    }

    /// Whether a question waits for its answer.
    fn open(&self) -> bool {
        self.answered < self.asked
    }

    /// An answer came.
    fn answer(&mut self, look: LookId, sight: Sight, blind: BTreeSet<WorkloadType>) {
        self.answered = look;
        self.sight = sight;
        self.blind_looks = match sight {
            Sight::New | Sight::Clear => 0,
            Sight::Partial | Sight::Blind => self.blind_looks.saturating_add(1),
        };
        match sight {
            Sight::Clear | Sight::Partial => self.unheard.retain(|kind| blind.contains(kind)),
            Sight::New | Sight::Blind => {}
        }
        self.blind = blind;
    }

    /// Types whose runtimes did not answer last time, while others did.
    pub(crate) fn blind(&self) -> &BTreeSet<WorkloadType> {
        &self.blind
    }

    /// Offered types whose runtimes do not answer, with the cause. One missing answer may be chance.
    pub(crate) fn down(
        &self,
        offered: &BTreeSet<WorkloadType>,
    ) -> BTreeMap<WorkloadType, Arc<str>> {
        let down = |kind: &WorkloadType| match self.sight {
            Sight::New | Sight::Clear => false,
            Sight::Partial => self.blind.contains(kind),
            Sight::Blind => true,
        };
        let lasting = self.blind_looks >= BLIND_LOOKS;
        let kinds = offered.iter().filter(|kind| lasting && down(kind));
        kinds.map(|kind| (*kind, Arc::from(no_answer(*kind)))).collect()
    }

    /// What is known of a workload that nobody spoke of so far: if the runtime of what it is to be
    /// answered, that it does not exist. For exclusive work the others must have answered as well,
    /// now or before: what they had then is known.
    pub(crate) fn unlisted(&self, spec: Option<&Spec>) -> Slot {
        let exclusive = spec.is_some_and(|spec| spec.placement.class == Class::Exclusive);
        let elsewhere = if exclusive { self.unheard.clone() } else { BTreeSet::new() };
        let blind = spec.is_none_or(|spec| self.blind.contains(&spec.workload_type()));
        let view = match self.sight {
            Sight::New | Sight::Blind => View::Unknown,
            Sight::Partial if blind || !elsewhere.is_empty() => View::Unknown,
            Sight::Clear | Sight::Partial => View::Absent,
        };
        Slot { view, elsewhere, ..Slot::default() }
    }

    /// Whether the answer that was heard last is at least this one.
    pub(crate) fn has_answered(&self, look: LookId) -> bool {
        self.answered >= look
    }

    /// Whether to ask now; if so the question counts as asked. `occupied`: something is there or should be.
    pub(crate) fn ask(
        &mut self,
        settings: &AgentSettings,
        occupied: bool,
        now: Millis,
    ) -> Option<Look> {
        let now_wanted = self.wanted && !self.open();
        if !now_wanted && self.due(settings, occupied).is_none_or(|due| now < due) {
            return None;
        }
        // Half the time is over: this look may as well be the next one that asks about everything.
        let half = settings.probe_interval_ms() / 2;
        let probe = self.probed_at.is_none_or(|at| now.since(at) >= half);
        if probe {
            self.probed_at = Some(now);
        }
        self.asked = LookId(self.asked.0.saturating_add(1));
        self.asked_at = now;
        self.wanted = false;
        Some(Look { id: self.asked, probe })
    }

    /// When to ask if nothing happens before; never, where nobody wants periodic looks.
    pub(crate) fn due(&self, settings: &AgentSettings, occupied: bool) -> Option<Millis> {
        let wait = match self.sight {
            Sight::New | Sight::Clear | Sight::Partial | Sight::Blind if self.open() => {
                settings.answer_wait_ms
            }
            Sight::New | Sight::Partial | Sight::Blind => settings.observe_retry_ms,
            Sight::Clear if settings.observe_periodically => {
                let probe = self.probed_at.filter(|_| occupied);
                let probe = probe.map(|at| at.plus(settings.probe_interval_ms().max(1)));
                let list = self.asked_at.plus(settings.observe_ms.max(1));
                return Some(probe.map_or(list, |probe| probe.min(list)));
            }
            Sight::Clear => return None,
        };
        Some(self.asked_at.plus(wait.max(1)))
    }
}

/// What was done in this life about what nobody ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Collected {
    /// How often all that exists was gone through.
    pub looks: u64,
    /// Things that were found, written down and left alone until somebody decides.
    pub found: u64,
    /// Leftovers of ordered removals that were cleared away.
    pub cleared: u64,
}

impl Agent {
    /// What was done in this life about what nobody ordered.
    #[must_use]
    pub fn collected(&self) -> Collected {
        self.collected
    }

    /// Types whose runtimes did not answer when they were last asked, while others did.
    #[must_use]
    pub fn blind(&self) -> &BTreeSet<WorkloadType> {
        self.watch.blind()
    }

    /// A runtime hints that something changed. A verb under way is looked at when it has ended.
    pub(crate) fn stirred(&mut self, workload: Option<&WorkloadId>) {
        let slot = workload.and_then(|workload| self.slots.get(workload));
        if slot.is_none_or(|slot| slot.flight.is_none()) {
            self.watch.want();
        }
    }

    /// Takes in what the runtimes said. What comes after the answer to a later question is old.
    pub(crate) fn observed(
        &mut self,
        look: LookId,
        said: Observation,
        now: Now,
        effects: &mut Effects,
    ) {
        let late = self.settings.zoo.has(Bug::LateLookBelieved);
        let look = if late { self.watch.asked } else { look };
        if look < self.watch.answered {
            return;
        }
        let (list, blind) = match said {
            Observation::Complete(list) => (list, BTreeSet::new()),
            Observation::Partial { seen, .. } if self.settings.zoo.has(Bug::OutageIsGone) => {
                (seen, BTreeSet::new())
            }
            Observation::Partial { seen, blind } => (seen, blind),
            Observation::Unknown if self.settings.zoo.has(Bug::OutageIsGone) => {
                (Vec::new(), BTreeSet::new())
            }
            Observation::Unknown => {
                self.watch.answer(look, Sight::Blind, BTreeSet::new());
                for slot in self.slots.values_mut() {
                    slot.view = View::Unknown;
                }
                self.touch_all();
                return;
            }
        };
        let list = if self.settings.zoo.has(Bug::PausedIsRunning) { all_run(list) } else { list };
        let sight = if blind.is_empty() { Sight::Clear } else { Sight::Partial };
        self.watch.answer(look, sight, blind);
        for (workload, there) in self.compare(list, look) {
            self.slots.entry(workload.clone()).or_default();
            if self.look(&workload, there, look, now, effects) {
                self.touched.insert(workload);
            }
        }
        self.slots.retain(|workload, slot| {
            // Nearly all of it is there: the question that costs a search comes last.
            let kept = slot.view != View::Absent
                || slot.flight.is_some()
                || !self.journal.covers(slot.written)
                || !self.watch.has_answered(slot.trust_from)
                || self.journal.ledger().intents.contains_key(workload);
            if !kept {
                self.due.note(workload, None);
            }
            kept
        });
        self.forget_old(now, effects);
        self.collected.looks = self.collected.looks.saturating_add(1);
        self.line.looked(now.mono);
    }

    /// What has to be looked at of all that is there or should be, in order. Most of what runs on a
    /// node runs on as it did; that costs a comparison.
    fn compare(&mut self, mut list: Vec<Seen>, look: LookId) -> BTreeMap<WorkloadId, Option<Seen>> {
        // A runtime tells what it has in order, as a rule. Of two that are named alike the later counts.
        list.sort_by(|one, other| one.workload.cmp(&other.workload));
        let mut list = list.into_iter().peekable();
        let mut changed = BTreeMap::new();
        let exclusive = self.journal.exclusive();
        for (workload, slot) in &mut self.slots {
            let mut there = None;
            while let Some(seen) = list.next_if(|seen| seen.workload <= *workload) {
                if seen.workload == *workload {
                    there = Some(seen);
                } else {
                    changed.insert(seen.workload.clone(), Some(seen));
                }
            }
            let runs_on = there.as_ref().is_some_and(|seen| slot.runs_on(seen, look));
            if runs_on && !exclusive.contains(workload) {
                slot.looked = look;
            } else {
                changed.insert(workload.clone(), there);
            }
        }
        changed.extend(list.map(|new| (new.workload.clone(), Some(new))));
        changed
    }

    /// Those of `list` that ended badly since they were last looked at, and whose end is judged:
    /// what was left of it is worth a look before the list is taken in. Usually there are none.
    #[must_use]
    pub fn fresh_ends(&self, list: &[Seen]) -> Vec<(WorkloadId, Epoch, i32)> {
        let mut fresh = Vec::new();
        for seen in list {
            let Existing::Exited { code } = seen.state else { continue };
            let intent = self.journal.ledger().intents.get(&seen.workload);
            let judged = intent.is_some_and(|intent| {
                matches!(intent.goal, Goal::Run | Goal::Pause)
                    && !intent.completed
                    && intent.gave_up.is_none()
            });
            let known = self
                .slots
                .get(&seen.workload)
                .is_some_and(|slot| slot.flight.is_some() || slot.view == View::from(seen.clone()));
            if code != 0 && judged && !known {
                fresh.push((seen.workload.clone(), seen.epoch, code));
            }
        }
        fresh
    }

    /// Takes in what was left of an end.
    pub(crate) fn ended(&mut self, workload: &WorkloadId, end: End) {
        if let Some(slot) = self.slots.get_mut(workload) {
            slot.end = Some(end);
        }
    }

    /// One workload as observation `look` shows it. Says whether that is news: what is as it was
    /// when it was last looked at has been settled then.
    fn look(
        &mut self,
        workload: &WorkloadId,
        there: Option<Seen>,
        look: LookId,
        now: Now,
        effects: &mut Effects,
    ) -> bool {
        let Some(slot) = self.slots.get_mut(workload) else { return false };
        if slot.flight.is_some() || look < slot.trust_from {
            return false;
        }
        let first = slot.looked <= slot.trust_from;
        slot.looked = look;
        let intent = self.journal.ledger().intents.get(workload);
        let hidden = slot.may_hide(intent, self.watch.blind());
        slot.elsewhere.retain(|kind| self.watch.blind().contains(kind));
        let services = there.as_ref().map(|seen| seen.services.clone()).unwrap_or_default();
        let health = there.as_ref().and_then(|seen| seen.health.clone());
        let view = match there {
            Some(seen) => View::from(seen),
            None if hidden => View::Unknown,
            None => View::Absent,
        };
        let news = first
            || view != slot.view
            || services != slot.services
            || !slot.health.knows(health.as_ref());
        slot.services = services;
        if view == View::Unknown {
            slot.view = view;
            return news;
        }
        let ran = slot.ran;
        let spec = intent.and_then(|intent| intent.spec.as_deref());
        slot.see(view, now.mono, self.settings.row_reset_ms(spec));
        slot.health.see_image(health);
        let Some(intent) = intent else {
            self.adopt(workload, effects);
            return true;
        };
        let leave = self.fence.leave(is_exclusive(intent), now.mono);
        slot.conclude(intent, leave);
        news || slot.ran != ran || slot.standstill.is_due(now.mono)
    }

    /// Writes down what was found without an intent, unless a decision removed it.
    fn adopt(&mut self, workload: &WorkloadId, effects: &mut Effects) {
        let Some(slot) = self.slots.get_mut(workload) else { return };
        let View::There { epoch, revision, state } = &slot.view else { return };
        let tombstone = self.journal.ledger().tombstones.get(workload);
        if tombstone.is_some_and(|buried| buried.epoch >= *epoch) {
            return;
        }
        let goal = match state {
            Existing::Running | Existing::Paused { .. } | Existing::Stuck { .. } => Goal::Run,
            Existing::Created | Existing::Exited { .. } => Goal::Rest,
        };
        let intent = Intent {
            epoch: *epoch,
            revision: revision.clone(),
            goal,
            spec: None,
            secrets: Arc::default(),
            restarts: 0,
            gave_up: None,
            kept: false,
            completed: false,
            started: false,
            untold: BTreeSet::new(),
        };
        slot.ran = goal == Goal::Run;
        slot.met = true;
        self.collected.found = self.collected.found.saturating_add(1);
        self.put(workload, intent, effects);
        self.line.tell_all();
    }

    /// Forgets removals that are old enough, and the oldest when there are too many. What the
    /// scheduler has not acknowledged is kept whatever its age.
    fn forget_old(&mut self, now: Now, effects: &mut Effects) {
        let tombstones = &self.journal.ledger().tombstones;
        let surplus = tombstones.len().saturating_sub(self.settings.tombstone_limit);
        // The wall clock may jump; a removal is as old as this life has known it.
        let known = std::mem::take(&mut self.known_since);
        self.known_since = tombstones
            .iter()
            .map(|(workload, buried)| {
                let key = (workload.clone(), buried.epoch);
                let since = known.get(&key).copied().unwrap_or(now.mono);
                (key, since)
            })
            .collect();
        let mut by_age: Vec<_> = self
            .known_since
            .iter()
            .filter(|((workload, _), _)| !self.graves.contains_key(workload))
            .map(|((workload, epoch), since)| (*epoch, *since, workload.clone()))
            .collect();
        by_age.sort();
        let old = |since: Millis| now.mono.since(since) >= self.settings.tombstone_ms;
        let forgotten: Vec<_> = by_age
            .into_iter()
            .enumerate()
            .filter(|(position, (_, since, _))| *position < surplus || old(*since))
            .map(|(_, (_, _, workload))| workload)
            .collect();
        for workload in forgotten {
            self.journal.write(LedgerChange::Forget(workload), &mut effects.ledger);
        }
    }
}

/// Known bug: what is paused or stuck is taken for something that runs.
fn all_run(mut list: Vec<Seen>) -> Vec<Seen> {
    for seen in list.iter_mut().filter(|seen| seen.state.is_alive()) {
        seen.state = Existing::Running;
    }
    list
}
