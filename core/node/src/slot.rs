//! What an agent knows of one workload in this life, beside its intent in the ledger.
//!
//! All of it may be lost with the process: it is found again by looking at the runtimes and by
//! hearing from the scheduler.

use std::collections::BTreeSet;
use std::sync::Arc;

use persys_model::failure::Failure;
use persys_model::fetched::Fetched;
use persys_model::id::RevisionId;
use persys_model::inventory::{Held, Report, State};
use persys_model::spec::container::RestartPolicy;
use persys_model::spec::{Class, Spec, WorkloadType};
use persys_model::time::Millis;
use persys_model::token::Epoch;

use crate::decide::{Case, Leave, Next, Rule, Thing, Version};
use crate::health::HealthWatch;
use crate::input::{Existing, LedgerSeq, LookId, Seen, ServiceEnds, VerbId};
use crate::ledger::{Goal, Intent};
use crate::restart::{self, Restarts};
use crate::settings::AgentSettings;
use crate::standstill::Standstill;
use crate::view::View;

/// One workload in this life.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts, not a state: each is independent")]
pub(crate) struct Slot {
    /// What is there.
    pub(crate) view: View,
    /// Types beside its own under which something of it may exist still.
    pub(crate) elsewhere: BTreeSet<WorkloadType>,
    /// The first observation that is late enough to know what our last verb did.
    pub(crate) trust_from: LookId,
    /// The last observation that was taken in.
    pub(crate) looked: LookId,
    /// The verb that runs.
    pub(crate) flight: Option<Flight>,
    /// Whether the scheduler named it in this session.
    pub(crate) confirmed: bool,
    /// The last change of its intent or tombstone.
    pub(crate) written: LedgerSeq,
    /// Whether anything was seen or ordered in this life.
    pub(crate) met: bool,
    /// Whether it ran under this decision by our will, so that an end is its own doing.
    pub(crate) ran: bool,
    /// A start of something that had never run was given, and its outcome is unknown.
    pub(crate) unsure_start: bool,
    /// Since when it runs, as far as this life knows.
    pub(crate) running_since: Option<Millis>,
    /// Length of its last run, if this life saw it run.
    pub(crate) last_run_ms: Option<u64>,
    /// Restarts in a row, for the wait before the next one. A new life begins with all of them, so that
    /// a crash loop stays slow.
    pub(crate) streak: u32,
    /// Restarts in a row that this life saw, for limits: of a machine only failed boots.
    pub(crate) in_row: u32,
    /// What was left of its last bad end.
    pub(crate) end: Option<End>,
    /// A restart that is due or waits.
    pub(crate) again: Option<Again>,
    /// All that this decision needs was fetched.
    pub(crate) prepared: bool,
    /// Signs of progress of the verbs that ran for it in this life.
    pub(crate) progress: u64,
    /// The part of its image that is there, by the last sign of the present verb.
    pub(crate) fetched: Option<Fetched>,
    /// Verbs that failed in a row, and why the last one did, where it is tried again.
    pub(crate) failures: u32,
    pub(crate) trouble: Option<Failure>,
    /// What its containers wrote into layers of their own, against what it reserves.
    pub(crate) layer: Layer,
    /// Of a stack: what the policies of its services say of those that ended.
    pub(crate) services: ServiceEnds,
    /// Its health, while it runs.
    pub(crate) health: HealthWatch,
    /// True if the present run was there when this life looked for the first time.
    pub(crate) found: bool,
    /// Since when it is paused or stuck, and what was done about that.
    pub(crate) standstill: Standstill,
    /// No verb before this moment.
    pub(crate) retry_at: Option<Millis>,
    /// What the scheduler was or is to be told.
    pub(crate) told: Option<Told>,
}

/// Facts of the agent that the table looks at beside one workload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circumstances<'a> {
    pub(crate) confirmed: bool,
    pub(crate) hold: bool,
    pub(crate) leave: Leave,
    pub(crate) at: Millis,
    pub(crate) settings: &'a AgentSettings,
}

/// What containers wrote into layers of their own, against what their workload reserves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Layer {
    #[default]
    Fits,
    /// Little is left; the scheduler is told.
    Nearly(Failure),
    /// More than that: it is given up, and stopped.
    Over,
}

impl Layer {
    pub(crate) fn warning(&self) -> Option<&Failure> {
        match self {
            Self::Nearly(warning) => Some(warning),
            Self::Fits | Self::Over => None,
        }
    }
}

/// A verb under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flight {
    pub(crate) id: VerbId,
    /// The decision it carries out.
    pub(crate) epoch: Epoch,
    pub(crate) doing: Doing,
}

/// What a verb under way is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Doing {
    Start(RevisionId),
    /// A start of what is paused.
    Resume(RevisionId),
    /// Tells what runs of new values.
    Refresh,
    Pause,
    /// Ends what is stuck.
    Unstick,
    Stop,
    /// Fetches what another version needs.
    Prepare,
    /// Makes room for another version.
    Replace,
    /// Carries out an order to remove.
    Remove,
    /// Clears what an earlier removal left behind.
    Clear,
}

/// What was left of a bad end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    /// The decision the thing was made under.
    pub(crate) epoch: Epoch,
    pub(crate) code: i32,
    /// What happened, as people read it.
    pub(crate) text: Arc<str>,
}

/// A restart that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Again {
    pub(crate) at: Millis,
    pub(crate) why: Failure,
    /// Whether it is counted in the ledger.
    pub(crate) counted: bool,
}

/// What the scheduler is told of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) held: Held,
    pub(crate) heard: Heard,
}

/// How far a piece of news has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Heard {
    /// In no message yet.
    Unsent,
    /// First in this message.
    Sent(u64),
    /// The scheduler has it.
    Known,
}

impl Heard {
    /// It goes into message `seq`, again or for the first time.
    pub(crate) fn send(&mut self, seq: u64) {
        if *self == Self::Unsent {
            *self = Self::Sent(seq);
        }
    }

    /// The scheduler has taken in everything up to message `seq`.
    pub(crate) fn acknowledge(&mut self, seq: u64) {
        match *self {
            Self::Sent(first) if first <= seq => *self = Self::Known,
            Self::Unsent | Self::Sent(_) | Self::Known => {}
        }
    }
}

impl Slot {
    /// A slot for an intent of an earlier life.
    ///
    /// An earlier life may have ended while one type was replaced by another. Of exclusive work a
    /// second copy would be a breach, so every type must have been looked at once; of any other the
    /// copy would be found when its runtime answers, and nothing waits for that.
    pub(crate) fn remembered(intent: &Intent) -> Self {
        let everywhere = if is_exclusive(intent) { &WorkloadType::ALL[..] } else { &[] };
        let elsewhere = everywhere.iter().copied().collect();
        Self { streak: intent.restarts, elsewhere, ..Self::default() }
    }

    /// Whether something of it may exist where nobody answers.
    pub(crate) fn may_hide(&self, intent: Option<&Intent>, blind: &BTreeSet<WorkloadType>) -> bool {
        match intent.and_then(|intent| intent.spec.as_deref()) {
            Some(spec) => {
                blind.contains(&spec.workload_type()) || !self.elsewhere.is_disjoint(blind)
            }
            None => !blind.is_empty(),
        }
    }

    /// Begins anew for a new decision.
    pub(crate) fn begin(&mut self, intent: &Intent) {
        self.met = true;
        // A verb under way may be stopping what runs now: then an end is not its own doing.
        self.ran =
            self.flight.is_none() && self.view.is_alive() && self.view.is_of(&intent.revision);
        self.unsure_start = false;
        self.standstill.begin(self.view.is_alive() && !self.view.runs());
        self.streak = 0;
        self.in_row = 0;
        self.again = None;
        self.prepared = false;
        self.out_of_trouble();
        self.layer = Layer::Fits;
        self.retry_at = None;
    }

    /// Nothing is left to be tried again.
    pub(crate) fn out_of_trouble(&mut self) {
        self.failures = 0;
        self.trouble = None;
    }

    /// The trouble that the scheduler is told of.
    pub(crate) fn trouble(&self, settings: &AgentSettings) -> Option<Failure> {
        let known = self.trouble.as_ref().or(self.layer.warning()).cloned();
        known
            .or_else(|| self.services.trouble())
            .or_else(|| self.standstill.trouble(&self.view, settings))
    }

    /// The scheduler's word is gone with its session.
    pub(crate) fn doubt(&mut self) {
        self.confirmed = false;
        self.again = None;
    }

    /// Takes in what is there. `reset_ms` of running end a row of restarts.
    pub(crate) fn see(&mut self, view: View, now: Millis, reset_ms: u64) {
        if view.is_alive() {
            self.end = None;
            self.running_since.get_or_insert(now);
        } else if let Some(since) = self.running_since.take() {
            self.found = false;
            self.health = HealthWatch::default();
            let ran = now.since(since);
            self.last_run_ms = Some(ran);
            if ran >= reset_ms {
                self.streak = 0;
                self.in_row = 0;
            }
        }
        self.standstill.see(&view, now, reset_ms);
        self.view = view;
    }

    /// Whether a look shows what an earlier one did, of work that ran by our will then: there is
    /// nothing to conclude from it.
    pub(crate) fn runs_on(&self, seen: &Seen, look: LookId) -> bool {
        let same = match &self.view {
            View::There { epoch, revision, state: Existing::Running } => {
                seen.state == Existing::Running
                    && seen.epoch == *epoch
                    && seen.revision == *revision
                    && seen.services == self.services
                    && self.health.knows(seen.health.as_ref())
            }
            View::Unknown | View::Absent | View::There { .. } => false,
        };
        let looked_before = look >= self.trust_from && self.looked > self.trust_from;
        let concluded = self.met && self.ran && self.running_since.is_some() && self.end.is_none();
        // Without an intent nothing is told of it.
        let ordered = self.told.is_some() && self.flight.is_none() && self.elsewhere.is_empty();
        same && looked_before && concluded && ordered
    }

    /// Draws conclusions from what was observed (not from what a verb said of itself): whether it
    /// ran under this decision, and whether its end is its own doing or that of the fence.
    pub(crate) fn conclude(&mut self, intent: &Intent, leave: Leave) {
        let first = !std::mem::replace(&mut self.met, true);
        self.found |= first && self.view.is_alive();
        let View::There { epoch, state, .. } = &self.view else {
            self.ran |= first && (intent.restarts > 0 || intent.started);
            return;
        };
        match state {
            Existing::Created => {}
            Existing::Running | Existing::Paused { .. } | Existing::Stuck { .. } => self.ran = true,
            Existing::Exited { .. } if first => {
                self.ran = intent.restarts > 0 || intent.started || *epoch == intent.epoch;
            }
            // It exists by this decision and is over, so the start whose outcome was unknown ran it.
            // Exclusive work may have been ended by the fence instead.
            Existing::Exited { .. } if self.unsure_start && leave == Leave::Free => {
                self.ran |= *epoch == intent.epoch;
            }
            Existing::Exited { .. } => {}
        }
        self.unsure_start = false;
        match (leave, state) {
            (Leave::Over, _) => self.ran = false,
            (Leave::Ending, Existing::Exited { .. }) if first => self.ran = false,
            (
                Leave::Free | Leave::Granted | Leave::Ending,
                Existing::Created
                | Existing::Running
                | Existing::Paused { .. }
                | Existing::Stuck { .. }
                | Existing::Exited { .. },
            ) => {}
        }
    }

    /// What the table is to look at.
    pub(crate) fn case(&self, intent: &Intent, now: &Circumstances<'_>) -> Case {
        let thing = self.view.thing(&intent.revision);
        Case {
            goal: intent.goal,
            thing,
            confirmed: now.confirmed,
            hold: now.hold,
            over: intent.completed || intent.gave_up.is_some(),
            kept: intent.kept,
            prepared: self.prepared,
            evicted: self.layer == Layer::Over,
            runnable: intent.spec.is_some(),
            in_place: intent.spec.as_ref().is_some_and(|spec| spec.kind.updates_in_place()),
            ran: self.ran,
            restarts: self.restarts(intent),
            rule: self.rule(intent.spec.as_deref(), now.settings),
            leave: now.leave,
            repair: self.standstill.repair(&self.view, now.at, now.settings),
            untold: !intent.untold.is_empty(),
        }
    }

    /// Restarts before the one that is about to happen, which is on disk already.
    fn restarts(&self, intent: &Intent) -> Restarts {
        let ahead = self.again.as_ref().is_some_and(|again| again.counted);
        let total = intent.restarts.saturating_sub(u32::from(ahead));
        Restarts { total, in_row: self.in_row }
    }

    /// The rule for its last end. The policy of a stack is read from its file, so only an end asks for it.
    fn rule(&self, spec: Option<&Spec>, settings: &AgentSettings) -> Rule {
        match (&self.view, spec) {
            // Nothing of a stack is started again: how it ended is all that is left to say.
            (View::There { state: Existing::Exited { .. }, .. }, Some(_)) if self.services.over => {
                Rule::Policy(RestartPolicy::No)
            }
            (View::There { state: Existing::Exited { code }, .. }, Some(spec)) => {
                restart::rule(spec, *code, self.last_run_ms, settings)
            }
            (View::There { .. } | View::Unknown | View::Absent, _) => {
                Rule::Policy(RestartPolicy::default())
            }
        }
    }

    /// The same with what was left of its end, if it is about that end, and with the reason that ends
    /// of this kind have.
    pub(crate) fn explained(&self, rule: Rule, next: Next) -> Next {
        let View::There { epoch, state: Existing::Exited { code }, .. } = &self.view else {
            return next;
        };
        let end = self.end.as_ref().filter(|end| end.epoch == *epoch && end.code == *code);
        let tell = |failure: Failure| {
            let text = end.map_or(&*failure.message, |end| &*end.text);
            Failure::new(restart::reason(rule), text).in_stage(failure.stage)
        };
        match next {
            Next::Restart(failure) => Next::Restart(tell(failure)),
            Next::GiveUp(failure) => Next::GiveUp(tell(failure)),
            Next::Nothing
            | Next::Start
            | Next::Prepare
            | Next::Refresh
            | Next::Pause
            | Next::Unstick
            | Next::Stop
            | Next::Replace
            | Next::Remove { .. }
            | Next::Complete => next,
        }
    }

    /// The other revision that runs on although this one was given up.
    pub(crate) fn runs_beside_failure(&self, intent: &Intent) -> Option<RevisionId> {
        intent.gave_up.as_ref()?;
        match &self.view {
            View::There { revision, state, .. }
                if state.is_alive() && *revision != intent.revision =>
            {
                Some(revision.clone())
            }
            View::There { .. } | View::Unknown | View::Absent => None,
        }
    }

    /// How it is.
    pub(crate) fn state(&self, intent: &Intent, confirmed: bool) -> State {
        if let Some(failure) = &intent.gave_up {
            return State::Failed(failure.clone());
        }
        if intent.completed {
            return State::Completed;
        }
        let thing = self.view.thing(&intent.revision);
        match (intent.goal, thing) {
            (_, Thing::Unknown) => State::Unknown,
            (_, Thing::Paused(Version::Same)) => State::Paused,
            (_, Thing::Stuck(Version::Same)) => State::Unresponsive,
            (Goal::Run | Goal::Pause, Thing::Running(Version::Same)) => State::Running,
            (
                Goal::Run | Goal::Pause,
                Thing::Running(Version::Other)
                | Thing::Paused(Version::Other)
                | Thing::Stuck(Version::Other),
            ) => State::Pending,
            (Goal::Run | Goal::Pause, Thing::Absent | Thing::Created(_) | Thing::Exited(..)) => {
                match &self.again {
                    Some(again) => State::Restarting(again.why.clone()),
                    None if confirmed => State::Pending,
                    None => State::Stopped,
                }
            }
            (
                Goal::Rest | Goal::Gone { .. },
                Thing::Running(_) | Thing::Paused(_) | Thing::Stuck(_),
            ) => State::Running,
            (
                Goal::Rest | Goal::Gone { .. },
                Thing::Absent | Thing::Created(_) | Thing::Exited(..),
            ) => State::Stopped,
        }
    }
}

/// All that is to be said of a workload.
pub(crate) fn held(report: Report, intent: &Intent) -> Held {
    Held {
        report,
        revision: intent.revision.clone(),
        run: matches!(intent.goal, Goal::Run | Goal::Pause),
        pause: intent.goal == Goal::Pause,
        spec: intent.spec.clone(),
    }
}

/// Whether it is a thing that was found and not an order that was taken.
pub(crate) fn is_found(intent: &Intent) -> bool {
    intent.spec.is_none() && !is_gone(intent)
}

/// Whether it is to go.
pub(crate) fn is_gone(intent: &Intent) -> bool {
    match intent.goal {
        Goal::Gone { .. } => true,
        Goal::Run | Goal::Pause | Goal::Rest => false,
    }
}

/// True for a virtual machine.
pub(crate) fn is_machine(intent: &Intent) -> bool {
    intent.spec.as_ref().is_some_and(|spec| spec.workload_type() == WorkloadType::Vm)
}

/// Whether at most one copy of it may exist anywhere.
pub(crate) fn is_exclusive(intent: &Intent) -> bool {
    intent.spec.as_ref().is_some_and(|spec| spec.placement.class == Class::Exclusive)
}
