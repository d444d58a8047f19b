//! One life of an agent process.
//!
//! ```text
//!   Input ──► take in (session · admit · sweep · carry) ──► settle what was touched (decide)
//!                                                               │
//!             Effects ◄── beat or register · observe · wake ◄───┘
//! ```
//!
//! Invariants, checked by the property tests: a verb runs only when the intent behind it is on
//! disk, at most one per workload; nothing is started that the scheduler has not named in this
//! session; an older decision is never obeyed after a newer one; an answer never claims what is
//! not on disk.

use std::collections::{BTreeMap, BTreeSet};

use persys_model::command::Answer;
use persys_model::fetched::Fetched;
use persys_model::id::WorkloadId;
use persys_model::inventory::{Held, Inventory, Report, Tombstone};
use persys_model::link::{BeatAnswer, RegistrationAnswer};
use persys_model::node::NodeFacts;
use persys_model::store_mark::{Marked, StoreMark};
use persys_model::time::{Millis, Now};
use persys_model::token::{Epoch, Session, Term};
use persys_model::zoo::Bug;

use crate::admit::Load;
use crate::due::Due;
use crate::effects::Effects;
use crate::fence::Fence;
use crate::input::{Input, LedgerSeq, ProbeId, RequestId, VerbId};
use crate::journal::Journal;
use crate::ledger::{Goal, Intent, Ledger, LedgerChange};
use crate::session::{Line, Welcome};
use crate::settings::AgentSettings;
use crate::slot::{self, End, Heard, Slot, Told};
use crate::sweep::Watch;

pub use crate::sweep::Collected;

/// One life of an agent process.
#[derive(Debug, Clone)]
pub struct Agent {
    pub(crate) facts: NodeFacts,
    pub(crate) settings: AgentSettings,
    pub(crate) journal: Journal,
    pub(crate) line: Line,
    pub(crate) fence: Fence,
    pub(crate) load: Load,
    pub(crate) watch: Watch,
    pub(crate) slots: BTreeMap<WorkloadId, Slot>,
    /// What the slots have due.
    pub(crate) due: Due,
    /// Removals the scheduler has not yet acknowledged.
    pub(crate) graves: BTreeMap<WorkloadId, Grave>,
    /// Since when this life knows of each removal.
    pub(crate) known_since: BTreeMap<(WorkloadId, Epoch), Millis>,
    pub(crate) waiting: Vec<Waiting>,
    /// Workloads to settle before the step ends.
    pub(crate) touched: BTreeSet<WorkloadId>,
    pub(crate) last_verb: VerbId,
    pub(crate) last_probe: ProbeId,
    pub(crate) collected: Collected,
    /// The latest mark of the store; the ledger may hold an earlier one.
    mark: Option<StoreMark>,
}

/// A removal that is to be told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grave {
    pub(crate) epoch: Epoch,
    pub(crate) purged: bool,
    pub(crate) written: LedgerSeq,
    pub(crate) heard: Heard,
}

/// A caller who waits.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) request: RequestId,
    pub(crate) workload: WorkloadId,
    pub(crate) on: WaitsOn,
}

/// What a caller waits for.
#[derive(Debug, Clone)]
pub(crate) enum WaitsOn {
    /// The removal under this decision.
    Burial(Epoch),
    /// This change being on disk; then the answer is true.
    Disk(LedgerSeq, Answer),
}

impl Agent {
    /// Begins a life with what the ledger on disk says. `facts.incarnation` is unique to it.
    pub fn start(
        facts: NodeFacts,
        ledger: Ledger,
        settings: AgentSettings,
        now: Now,
    ) -> (Self, Effects) {
        let slots = ledger
            .intents
            .iter()
            .map(|(workload, intent)| (workload.clone(), Slot::remembered(intent)))
            .collect();
        let mut agent = Self {
            line: Line::new(&settings, now.mono),
            fence: Fence::new(&settings),
            load: Load::default(),
            watch: Watch::new(),
            mark: ledger.mark.clone(),
            journal: Journal::new(ledger, settings.zoo),
            facts,
            settings,
            slots,
            due: Due::default(),
            graves: BTreeMap::new(),
            known_since: BTreeMap::new(),
            waiting: Vec::new(),
            touched: BTreeSet::new(),
            last_verb: VerbId(0),
            last_probe: ProbeId(0),
            collected: Collected::default(),
        };
        let mut effects = Effects::default();
        agent.touch_all();
        agent.finish(now, &mut effects);
        (agent, effects)
    }

    /// Takes in one input and says what is to be done.
    pub fn step(&mut self, input: Input, now: Now) -> Effects {
        let mut effects = Effects::default();
        match input {
            Input::Command(request, command) => self.command(request, command, &mut effects),
            Input::Registered(answer) => self.registered(&answer, now, &mut effects),
            Input::Heard(answer) => self.heard(&answer, now, &mut effects),
            Input::Unreachable => self.line.unreachable(&self.settings, now.mono),
            Input::Observed(look, said) => self.observed(look, said, now, &mut effects),
            Input::Ended { workload, epoch, code, text } => {
                self.ended(&workload, End { epoch, code, text });
            }
            Input::Done { verb, workload, outcome } => {
                self.done(verb, &workload, outcome, now, &mut effects);
            }
            Input::Progress(workload, fetched) => self.progressed(workload, fetched),
            Input::Probed { probe, workload, outcome } => {
                self.probed(probe, workload, outcome, now);
            }
            Input::Persisted(seq) => self.persisted(seq, &mut effects),
            Input::LedgerFailed => {
                self.journal.failed(now.mono.plus(self.settings.ledger_retry_ms));
            }
            Input::Usage(used) => self.load.measure(used, self.facts.capacity, &self.settings),
            Input::Stirred(workload) => self.stirred(workload.as_ref()),
            Input::Wrote { workload, bytes, limit } => {
                self.wrote(&workload, bytes, limit, &mut effects);
            }
            Input::Tick => self.touch_all(),
        }
        self.finish(now, &mut effects);
        effects
    }

    /// Who it is.
    pub fn facts(&self) -> &NodeFacts {
        &self.facts
    }

    /// What it is to have, on disk or about to be.
    pub fn intents(&self) -> &BTreeMap<WorkloadId, Intent> {
        &self.journal.ledger().intents
    }

    /// Everything it must not forget, on disk or about to be.
    pub fn ledger(&self) -> &Ledger {
        self.journal.ledger()
    }

    /// The life the scheduler gave it, once registered.
    pub fn session(&self) -> Option<Session> {
        self.line.session()
    }

    /// The highest leadership it has heard of.
    pub fn term(&self) -> Term {
        self.journal.ledger().term
    }

    /// Whether it takes nothing new at present and stops nothing.
    pub fn holding(&self) -> bool {
        self.line.holds() || self.journal.is_broken()
    }

    /// Whether the scheduler named this workload in the present session.
    pub fn confirmed(&self, workload: &WorkloadId) -> bool {
        self.slots.get(workload).is_some_and(|slot| slot.confirmed)
    }

    /// The verb that runs for this workload.
    pub fn busy(&self, workload: &WorkloadId) -> Option<VerbId> {
        self.slots.get(workload).and_then(|slot| slot.flight.as_ref()).map(|flight| flight.id)
    }

    /// The process goes on with a new life: the lease of the last one still ends when it ends,
    /// whether or not a scheduler is heard of again.
    pub fn inherit_lease(&mut self, until: Option<Millis>) {
        self.fence.inherit(until);
    }

    /// Until when exclusive work may run here, if this life ever had a lease.
    pub fn fence_at(&self) -> Option<Millis> {
        self.fence.deadline()
    }

    /// What it would say it holds of one workload.
    pub fn held(&self, workload: &WorkloadId) -> Option<&Held> {
        let told = self.slots.get(workload)?.told.as_ref()?;
        Some(&told.held)
    }

    /// All that it would say it holds. An order that is not on disk is not in it.
    pub fn inventory(&self) -> Inventory {
        let held =
            self.slots.values().filter_map(|slot| slot.told.as_ref()).map(|told| told.held.clone());
        let on_disk = |workload: &WorkloadId| {
            self.graves.get(workload).is_none_or(|grave| self.journal.covers(grave.written))
        };
        let tombstones =
            self.journal.ledger().tombstones.iter().filter(|(workload, _)| on_disk(workload)).map(
                |(workload, buried)| Tombstone {
                    workload: workload.clone(),
                    epoch: buried.epoch,
                    purged: buried.purged,
                },
            );
        let mark = self.mark.clone();
        Inventory { held: held.collect(), tombstones: tombstones.collect(), mark }
    }

    pub(crate) fn touch_all(&mut self) {
        self.touched.extend(self.slots.keys().cloned());
    }

    /// Something under way goes on; the next report says so.
    fn progressed(&mut self, workload: WorkloadId, fetched: Fetched) {
        if let Some(slot) = self.slots.get_mut(&workload)
            && slot.flight.is_some()
        {
            slot.progress = slot.progress.saturating_add(1);
            slot.fetched = Some(fetched);
            self.touched.insert(workload);
        }
    }

    /// What rests on a change that is on disk now may go on.
    fn persisted(&mut self, seq: LedgerSeq, effects: &mut Effects) {
        let held = self.holding();
        let now_safe = self.journal.persisted(seq, &mut effects.ledger);
        if self.holding() != held {
            self.touch_all();
            return;
        }
        self.touched.extend(now_safe);
    }

    /// Exclusive work hangs on the lease, and a lease on what was just heard.
    fn touch_exclusive(&mut self) {
        self.touched.extend(self.journal.exclusive().iter().cloned());
    }

    /// Keeps the highest leadership heard of.
    pub(crate) fn hear_term(&mut self, term: Term, effects: &mut Effects) {
        if term > self.term() {
            self.journal.write(LedgerChange::Term(term), &mut effects.ledger);
        }
    }

    /// Keeps the latest mark of the store. It is written after every new decision and leadership; the
    /// commits in between are remembered as long as this life lasts.
    fn hear_mark(&mut self, mark: Option<&StoreMark>, effects: &mut Effects) {
        let Some(mark) = mark else { return };
        let Marked { incarnation, seq, term, epoch } = mark.claims();
        let kept = self.mark.as_ref().map(StoreMark::claims).unwrap_or_default();
        if (incarnation, seq) <= (kept.incarnation, kept.seq) {
            return;
        }
        self.mark = Some(mark.clone());
        let stored = self.journal.ledger().mark.as_ref().map(StoreMark::claims);
        let decided = |stored: Marked| (stored.incarnation, stored.term, stored.epoch);
        if stored.map(decided) != Some((incarnation, term, epoch)) {
            self.journal.write(LedgerChange::Mark(mark.clone()), &mut effects.ledger);
        }
    }

    fn registered(&mut self, answer: &RegistrationAnswer, now: Now, effects: &mut Effects) {
        match *answer {
            RegistrationAnswer::Accepted { term, .. } if self.is_past(term) => {
                self.line.refused(self.settings.register_base_ms, now.mono);
            }
            RegistrationAnswer::Accepted { term, session, beat_ms, lease_ms: _ } => {
                self.hear_term(term, effects);
                match self.line.accepted(term, session, beat_ms, now.mono) {
                    Welcome::Nothing => {}
                    Welcome::Begins { renewed_at } => {
                        self.doubt_all();
                        if let Some(sent) = renewed_at {
                            self.renew(sent, effects);
                        }
                    }
                }
            }
            RegistrationAnswer::Refused { retry_after_ms, .. } => {
                self.line.refused(retry_after_ms, now.mono);
            }
        }
    }

    fn heard(&mut self, answer: &BeatAnswer, now: Now, effects: &mut Effects) {
        match *answer {
            BeatAnswer::Heard { term, .. } if self.is_past(term) => {}
            BeatAnswer::Heard { session, .. } if self.session() != Some(session) => {}
            BeatAnswer::Heard {
                term,
                session,
                seq,
                renewed,
                hold,
                drain,
                want_inventory,
                beat_ms,
                ref removals,
                ref mark,
            } => {
                let held = self.holding();
                self.hear_term(term, effects);
                self.hear_mark(mark.as_ref(), effects);
                let sent = self.line.heard(seq, (hold, drain), want_inventory, beat_ms);
                if let Some(sent) = sent.filter(|_| renewed) {
                    self.renew(sent, effects);
                }
                for workload in self.due.unheard() {
                    let slot = self.slots.get_mut(&workload);
                    if let Some(told) = slot.and_then(|slot| slot.told.as_mut()) {
                        told.heard.acknowledge(seq);
                    }
                    self.note(&workload);
                }
                for grave in self.graves.values_mut() {
                    grave.heard.acknowledge(seq);
                }
                self.graves.retain(|_, grave| grave.heard != Heard::Known);
                self.obey_removals((term, session), removals, effects);
                if self.holding() == held {
                    self.touch_exclusive();
                } else {
                    self.touch_all();
                }
            }
            // Even from a term that seems past: a store that lost everything counts anew, and its
            // scheduler can only be told so by a registration. Registering again risks nothing,
            // since nothing is acted on before it is confirmed.
            BeatAnswer::RegisterAgain { term } => {
                self.hear_term(term, effects);
                if self.session().is_some() {
                    self.line.lost(now.mono);
                    self.doubt_all();
                }
            }
        }
    }

    /// Whether this leadership has ended, as far as we know.
    fn is_past(&self, term: Term) -> bool {
        term < self.term() && !self.settings.zoo.has(Bug::NoTermInApply)
    }

    fn renew(&mut self, sent: Millis, effects: &mut Effects) {
        if self.fence.renew(sent) {
            effects.fence_at = self.fence.deadline();
        }
    }

    /// In another session everything needs the scheduler's word again, and all is told again.
    fn doubt_all(&mut self) {
        for slot in self.slots.values_mut() {
            slot.doubt();
            if let Some(told) = &mut slot.told {
                told.heard = Heard::Unsent;
            }
        }
        for grave in self.graves.values_mut() {
            grave.heard = Heard::Unsent;
        }
        self.touch_all();
    }

    /// Settles what was touched, then says what is to be said and when to step again.
    fn finish(&mut self, now: Now, effects: &mut Effects) {
        self.journal.retry(now.mono, &mut effects.ledger);
        self.collect_unnamed(now, effects);
        for workload in std::mem::take(&mut self.touched) {
            self.settle(&workload, now, effects);
            self.check_health(&workload, now, effects);
            self.tell(&workload);
            self.note(&workload);
        }
        self.answer(effects);
        let beat_at = self.speak(now, effects);
        debug_assert_eq!(self.due, Due::of(&self.slots));
        effects.observe = self.watch.ask(&self.settings, !self.slots.is_empty(), now.mono);
        effects.wake_at = self.wake_at(beat_at, now.mono);
    }

    /// What a workload has due may be something else now.
    pub(crate) fn note(&mut self, workload: &WorkloadId) {
        self.due.note(workload, self.slots.get(workload));
    }

    /// Known bug: what the scheduler did not name after a while is collected.
    fn collect_unnamed(&mut self, now: Now, effects: &mut Effects) {
        let due = self.line.since().plus(self.settings.confirm_wait_ms);
        let bug = self.settings.zoo.has(Bug::OrphanCollected);
        if !bug || self.session().is_none() || now.mono < due {
            return;
        }
        let unnamed: Vec<_> = self
            .intents()
            .iter()
            .filter(|(workload, _)| !self.confirmed(workload))
            .map(|(workload, intent)| (workload.clone(), intent.clone()))
            .collect();
        for (workload, intent) in unnamed {
            if matches!(intent.goal, Goal::Run | Goal::Pause | Goal::Rest) {
                let intent = Intent { goal: Goal::Gone { purge: false }, ..intent };
                self.put(&workload, intent, effects);
            }
        }
    }

    /// Brings what the scheduler is to be told up to date, as far as it rests on disk.
    fn tell(&mut self, workload: &WorkloadId) {
        let act_early = self.settings.zoo.has(Bug::ActBeforeVerdict);
        let unseen = self.settings.zoo.has(Bug::UnhealthyUnseen);
        let Some(slot) = self.slots.get_mut(workload) else { return };
        let Some(intent) = self.journal.ledger().intents.get(workload) else {
            slot.told = None;
            return;
        };
        if !self.journal.covers(slot.written) && !slot::is_found(intent) {
            return;
        }
        let state = slot.state(intent, slot.confirmed || act_early);
        let report = Report {
            workload: workload.clone(),
            epoch: intent.epoch,
            health: slot.health(intent, &state).filter(|_| !unseen),
            state,
            restarts: intent.restarts,
            confirmed: slot.confirmed,
            progress: slot.progress,
            fetched: slot.fetched.filter(|_| slot.flight.is_some()),
            trouble: slot.trouble(&self.settings),
            runs: slot.runs_beside_failure(intent),
        };
        let held = slot::held(report, intent);
        match &mut slot.told {
            Some(told) if told.held == held => {}
            Some(told) if told.held.report == held.report => told.held = held,
            Some(_) | None => slot.told = Some(Told { held, heard: Heard::Unsent }),
        }
    }
}
