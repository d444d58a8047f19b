//! The whole cluster in the memory of its leading scheduler.
//!
//! The stored part mirrors the store exactly (it is changed only together with a unit that writes
//! it); the rest is what the scheduler knows at present and can learn again from its agents.
//!
//! Invariants, checked by [`World::check`]: what the placement index counts as taken is the sum of
//! places, former copies, graves and orphans; every workload that wants room stands in the waiting
//! room with a dated reason; nothing is dirty between steps.

mod ask;
mod attempt;
mod audit;
mod beat;
mod check;
mod copy;
mod delivery;
mod demands;
mod derived;
mod drift;
mod drift_view;
mod entries;
mod foresee;
mod health;
mod history;
mod journal;
mod judge;
mod letter_case;
mod liveness;
mod never;
mod open;
mod operate;
mod orders;
mod orphan_volumes;
mod place;
mod planned;
mod proof;
mod recovery;
mod recovery_plan;
mod recovery_room;
mod recovery_volumes;
mod register;
mod restart;
mod retry;
mod secrets;
mod settle;
mod shadow;
mod slots;
mod stack_volumes;
mod standstill;
mod tally;
mod tasks;
mod timers;
mod update;
mod view;
mod volume_asks;
mod volume_records;
mod volumes;
mod waiting;
mod wanted;
mod why_anew;
mod witness;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use persys_model::entry::Entries;
use persys_model::id::{NodeId, WorkloadId};
use persys_model::link::Registration;
use persys_model::mode::Mode;
use persys_model::time::{Millis, Now};
use persys_model::token::{CommitSeq, Epoch, Term};
use persys_model::zoo::Bug;

use crate::effects::{Effects, Mark, Outbound, RefusalCode, Reply};
use crate::input::{Ask, Input, RequestId};
use crate::placement::{Index, NodeIndex};
use crate::record::Head;
use crate::settings::Settings;
use crate::store::HighWater;

pub use copy::ReadCopy;
pub use drift_view::DriftView;
pub use foresee::{Action, Foreseen, Wish};
pub use judge::{Judged, Verdict};
pub use open::Memory;
pub use recovery_plan::{Conflict, Disagreement, RecoveryPlan};
pub use secrets::NewValue;
pub use slots::WorkloadIndex;
pub use tally::Tally;
pub use view::{NodeView, WorkloadView};
pub use volume_asks::Homes;
pub use wanted::Wanted;

use letter_case::CapitalIds;
use slots::{NodeSlot, Slab, WorkloadSlot};
use timers::{Timer, Timers};
use waiting::WaitingRoom;

/// The cluster, as its leading scheduler knows it.
#[derive(Debug)]
pub struct World {
    settings: Settings,
    /// The leadership in the store's counting, and as agents see it.
    lease_term: Term,
    term: Term,
    /// Until when this process may act as leader, on its own clock.
    leads_until: Millis,
    mode: Mode,
    mode_why: Arc<str>,
    mode_since: Now,
    now: Now,
    /// Counters after the last unit that was made.
    head: Head,
    /// The last unit that is durable.
    durable: CommitSeq,
    /// The highest decision made before this leadership: agents may know it already.
    opened_epoch: Epoch,
    /// The first unit of the present incarnation; until it is durable the rebuilding may be lost.
    incarnation_since: CommitSeq,
    /// What this host remembers of the store, to notice when the store knows less.
    known: Option<HighWater>,

    nodes: Slab<NodeSlot>,
    node_by_id: BTreeMap<NodeId, NodeIndex>,
    workloads: Slab<WorkloadSlot>,
    workload_by_id: BTreeMap<WorkloadId, WorkloadIndex>,
    capital_ids: CapitalIds,
    /// Records that are neither workloads nor nodes; shared with those who judge by them.
    entries: Arc<Entries>,
    shadow: shadow::Shadow,
    index: Index,
    waiting: WaitingRoom,
    /// Room may have appeared since the waiting room was last looked at.
    room_changed: bool,
    dirty: VecDeque<WorkloadIndex>,
    timers: Timers,
    /// Nodes that are not ready.
    silent: BTreeSet<NodeIndex>,
    /// Where unknown workloads were found, by their name.
    orphans: BTreeMap<WorkloadId, BTreeSet<NodeIndex>>,
    /// Where graves are, by the name of their workload.
    buried: BTreeMap<WorkloadId, BTreeSet<NodeIndex>>,
    brake: bool,
    brake_released: bool,
    /// With a known bug only: restarts whose start is still to be asked for.
    second_steps: BTreeSet<WorkloadId>,
    /// What is stored of volumes.
    volumes: volumes::Kept,
    /// Registrations heard in recovery: what the control plane can be rebuilt from.
    heard: BTreeMap<NodeId, Registration>,
    witness: witness::Witness,

    draft: journal::Draft,
    /// Whose wish is being carried out.
    audit: Option<audit::Audit>,
    outbox: Vec<Outbound>,
    held: journal::Held,
    effects: Effects,
}

impl World {
    /// Takes in what happened and says what to do.
    pub fn step(&mut self, input: Input, now: Now) -> Effects {
        self.now = now;
        if self.frozen() {
            self.step_frozen(input);
        } else if let Some(input) = self.keep_back(input) {
            self.step_normal(input);
        }
        self.end_listening();
        if !self.undecided() {
            // What was asked for and what the clock brings are stored apart.
            self.close_unit();
            self.run_timers();
            self.settle_dirty();
            self.place_waiting();
        }
        self.finish()
    }

    /// Looks at every workload again. All that had to be done is done already, so nothing comes of
    /// it; it is the safety net below the dirty marks, and the proof that they suffice.
    pub fn sweep_all(&mut self, now: Now) -> Effects {
        self.now = now;
        if !self.undecided() {
            let all: Vec<_> = self.workload_by_id.values().copied().collect();
            for at in all {
                self.mark_dirty(at);
            }
            self.room_changed = true;
            self.settle_dirty();
            self.place_waiting();
        }
        self.finish()
    }

    /// Until when this process may act as leader, on its own clock.
    pub fn set_leads_until(&mut self, until: Millis) {
        self.leads_until = until;
    }

    fn step_normal(&mut self, input: Input) {
        match input {
            Input::Register(request, registration) => self.register(request, registration),
            Input::Beat(request, beat) => self.beat(request, beat),
            Input::Answered { node, session, workload, epoch, answer, task } => {
                self.note_task(&node, session, &workload, epoch, task);
                self.answered(&node, session, &workload, epoch, &answer);
            }
            Input::Undelivered(what) => self.undelivered(&what),
            Input::Actions { workload, epoch, text } => self.take_actions(&workload, epoch, &text),
            Input::Probed { node, session, asked, found } => {
                self.probed(&node, session, asked, found);
            }
            Input::Ask(request, author, Ask::Refused { verb, rule, left_out }) => {
                self.record_refusal(&author, verb, rule, left_out);
                self.done(request, "written down");
            }
            Input::Ask(request, author, ask) => {
                self.begin_audit(author, &ask);
                self.ask(request, ask);
                self.end_audit();
            }
            Input::StoreLost { why } => self.store_lost(why),
            Input::Loaded(snapshot) => self.loaded(snapshot),
            Input::Committed(through) => self.committed(through),
            Input::Tick => {}
        }
    }

    /// Degraded and recovery: nothing is written, nothing is started or stopped.
    fn step_frozen(&mut self, input: Input) {
        match input {
            Input::Register(request, registration) => self.register_frozen(request, registration),
            Input::Beat(request, beat) => self.beat_frozen(request, &beat),
            Input::Ask(request, author, ask @ Ask::Recover(_)) if self.mode == Mode::Recovery => {
                self.begin_audit(author, &ask);
                if let Ask::Recover(recovery) = ask {
                    self.recover(request, recovery);
                }
                self.end_audit();
            }
            Input::Ask(request, ..) => {
                self.mark(Mark::RefusedFrozen);
                let why = format!(
                    "the control plane is in {} mode ({}): nothing is changed; running workloads go on",
                    self.mode.word(),
                    self.mode_why
                );
                self.refuse(request, RefusalCode::Unavailable, why);
            }
            Input::StoreLost { why } => self.store_lost(why),
            Input::Loaded(snapshot) => self.loaded(snapshot),
            Input::Committed(through) => self.committed(through),
            Input::Answered { .. }
            | Input::Undelivered(_)
            | Input::Actions { .. }
            | Input::Probed { .. }
            | Input::Tick => {}
        }
    }

    /// True while nothing is decided: frozen, or waiting to hear the agents.
    fn undecided(&self) -> bool {
        self.frozen() || self.witness.listens()
    }

    /// Whether nothing may be written, started or stopped.
    fn frozen(&self) -> bool {
        match self.mode {
            Mode::Normal => false,
            Mode::Degraded => !self.settings.zoo.has(Bug::DegradedStillActs),
            Mode::Recovery => true,
        }
    }

    fn run_timers(&mut self) {
        while let Some(timer) = self.timers.pop_due(self.now.mono) {
            match timer {
                Timer::Liveness(at) => self.look_at_liveness(at),
                Timer::Resend(at) => self.resend(at),
                Timer::Reach(at) => self.probe_unreachable(at),
                Timer::Workload(at) => self.mark_dirty(at),
                Timer::DriftSweep => self.sweep(),
                Timer::Look => {}
            }
        }
    }

    /// Has `at` looked at before this step ends.
    fn mark_dirty(&mut self, at: WorkloadIndex) {
        if let Some(slot) = self.workloads.get_mut(at.0)
            && !slot.dirty
        {
            slot.dirty = true;
            self.dirty.push_back(at);
        }
    }

    fn done(&mut self, request: RequestId, note: impl Into<Arc<str>>) {
        self.later(Outbound::Reply(request, Reply::Done { note: note.into() }));
    }

    fn refuse(&mut self, request: RequestId, code: RefusalCode, why: impl Into<Arc<str>>) {
        self.at_once(Outbound::Reply(request, Reply::Refused { code, why: why.into() }));
    }
}
