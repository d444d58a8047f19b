//! One contract agent, as far as this process has spoken with it. All of it may be forgotten: the World
//! gives unfinished orders again, and the agent is asked for all it holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_model::failure::Failure;
use persys_model::id::{RevisionId, WorkloadId};
use persys_model::inventory::State;
use persys_model::link::Usage;
use persys_model::spec::Spec;
use persys_model::time::Millis;
use persys_model::token::Epoch;

use super::report::{AMISS_GRACE_MS, UPDATE_GRACE_MS};
use super::told::{Told, Word};

/// Questions under way at one agent.
const MOST_ASKED: usize = 8;
/// Questions in a row without an answer after which only heartbeats count.
const UNANSWERED: u32 = 3;
/// Longest wait before a question without an answer is asked again.
const LONGEST_WAIT_MS: u64 = 10_000;
/// Time after which something that is still open is asked about less often.
const PATIENT_AFTER_MS: u64 = 120_000;
/// Shortest time between two lists.
const LIST_PAUSE_MS: u64 = 1_000;

/// What was last ordered of one workload.
#[derive(Debug, Clone)]
pub(super) struct Copy {
    /// The decision the agent took.
    pub(super) epoch: Epoch,
    /// The version it was given.
    pub(super) revision: RevisionId,
    /// What it was given to run.
    pub(super) spec: Arc<Spec>,
    /// Running or at rest.
    pub(super) run: bool,
    /// Time of an order to run that the agent was not seen to carry out: it may yet come to it, before it
    /// comes to this one.
    pub(super) start_open: Option<Millis>,
    /// Time of the last order: an answer to an earlier question may be about the time before.
    pub(super) touched: Millis,
    /// How far the agent has come with it.
    pub(super) taken: Taken,
    /// The state that was last passed on.
    pub(super) last: Option<State>,
    /// True if the attempt before failed: the agent says so until it comes to the order.
    pub(super) failed_before: bool,
    /// Start of the time in which heartbeats alone say that something is amiss.
    pub(super) amiss_since: Option<Millis>,
    /// The version that runs on because the agent refused this one.
    pub(super) kept: Option<RevisionId>,
}

/// How far an agent has come with an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// It took it.
    Open,
    /// It said that it has this version, running or at rest as ordered.
    Reached,
    /// It refused it, and does not come to it by itself.
    Refused,
}

/// The end of an order that is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Awaits {
    /// The workload is as it was ordered, or what is amiss with it has passed.
    Applied,
    /// The agent refused the order, or the order could not be carried out; the World is to hear of it.
    Refused(Failure),
    /// The workload is gone.
    Removed,
    /// The workload has stopped, in place of a removal that would have taken its data along.
    Stopped,
}

/// One workload whose status is asked for.
#[derive(Debug, Clone)]
pub(super) struct Watch {
    pub(super) epoch: Epoch,
    pub(super) awaits: Awaits,
    /// Time of the order.
    pub(super) since: Millis,
    pub(super) next_at: Millis,
    /// Time of the question that is under way.
    pub(super) asked: Option<Millis>,
    pub(super) failures: u32,
    /// Start of the time in which it was amiss.
    pub(super) amiss_since: Option<Millis>,
    /// Heartbeats since the order that did not name it.
    pub(super) beats_without: u8,
    /// The last trouble the agent told of.
    pub(super) trouble: Option<Failure>,
    /// True if the agent refused the order: it may be given again at once.
    pub(super) refused: bool,
}

impl Watch {
    pub(super) fn new(epoch: Epoch, awaits: Awaits, since: Millis, next_at: Millis) -> Self {
        Self {
            epoch,
            awaits,
            since,
            next_at,
            asked: None,
            failures: 0,
            amiss_since: None,
            beats_without: 0,
            trouble: None,
            refused: false,
        }
    }

    /// Asks again after one interval, or later if it takes long.
    pub(super) fn again(&mut self, poll_ms: u64, now: Millis) {
        let wait = if now.since(self.since) < PATIENT_AFTER_MS { poll_ms } else { LONGEST_WAIT_MS };
        self.next_at = now.plus(wait);
    }
}

/// The question for all that an agent holds.
#[derive(Debug, Clone, Default)]
pub(super) struct Listing {
    pub(super) wanted: bool,
    next_at: Millis,
    pub(super) asked: Option<Millis>,
    failures: u32,
}

/// One contract agent.
#[derive(Debug, Default)]
pub(super) struct Agent {
    /// False if it is reached over a stream: it is not asked anything.
    pub(super) callable: bool,
    pub(super) copies: BTreeMap<WorkloadId, Copy>,
    pub(super) watches: BTreeMap<WorkloadId, Watch>,
    /// Removals that were proved, with their time, until a later list is in.
    pub(super) removed: BTreeMap<WorkloadId, Millis>,
    /// Workloads of which it has another version than the record, by its last list: its heartbeats, which
    /// name no version, are about that one.
    pub(super) strays: BTreeSet<WorkloadId>,
    /// Workloads of which a heartbeat said that they failed, and of which nothing was ordered since this
    /// process speaks with the agent.
    pub(super) failed: BTreeSet<WorkloadId>,
    pub(super) list: Listing,
    /// Questions in a row without an answer.
    pub(super) unanswered: u32,
    /// Time of the last heartbeat.
    pub(super) heard_at: Millis,
    /// Use of the machine as the last heartbeat told it.
    pub(super) usage: Usage,
}

impl Agent {
    /// True if only its heartbeats tell of it.
    pub(super) fn is_only_heard(&self) -> bool {
        !self.callable || self.unanswered >= UNANSWERED
    }

    /// The version of a workload that ran before the present order.
    pub(super) fn runs_before(&self, workload: &WorkloadId) -> Option<RevisionId> {
        let before = self.copies.get(workload)?;
        match before.last {
            Some(State::Running) => Some(before.revision.clone()),
            _ => before.kept.clone(),
        }
    }

    /// True if the agent still says of a workload that it failed when it is given this order.
    pub(super) fn failed_before(&self, workload: &WorkloadId, epoch: Epoch) -> bool {
        self.failed.contains(workload)
            || self.copies.get(workload).is_some_and(|copy| {
                let again = copy.epoch == epoch && copy.failed_before;
                again || matches!(copy.last, Some(State::Failed(_)))
            })
    }

    /// True if this may be the failure of the attempt before the order.
    pub(super) fn may_be_of_before(&self, workload: &WorkloadId, state: &State) -> bool {
        let before = self.copies.get(workload).is_some_and(|copy| copy.failed_before);
        before && matches!(state, State::Failed(_))
    }

    /// The same of an order that is so fresh that the agent may not have begun.
    pub(super) fn is_of_before(&self, workload: &WorkloadId, state: &State, now: Millis) -> bool {
        let fresh = |copy: &Copy| now.since(copy.touched) < AMISS_GRACE_MS;
        self.copies.get(workload).is_some_and(fresh) && self.may_be_of_before(workload, state)
    }

    /// True if it took this decision.
    pub(super) fn holds(&self, workload: &WorkloadId, epoch: Epoch) -> bool {
        self.copies.get(workload).is_some_and(|copy| copy.epoch == epoch)
    }

    /// True if an order about a workload was given at or after `asked`.
    pub(super) fn touched_since(&self, workload: &WorkloadId, asked: Millis) -> bool {
        self.copies.get(workload).is_some_and(|copy| copy.touched >= asked)
            || self.watches.get(workload).is_some_and(|watch| {
                let ordered = matches!(watch.awaits, Awaits::Removed | Awaits::Stopped);
                ordered && watch.since >= asked
            })
            || self.removed.get(workload).is_some_and(|at| *at >= asked)
    }

    /// True if the order for its version is so fresh that the agent may not have come to it.
    pub(super) fn is_coming(&self, workload: &WorkloadId, grace_ms: u64, now: Millis) -> bool {
        let fresh = |copy: &Copy| copy.taken == Taken::Open && now.since(copy.touched) < grace_ms;
        self.copies.get(workload).is_some_and(fresh)
    }

    /// The agent says that it has the version it was given.
    pub(super) fn reached(&mut self, workload: &WorkloadId, told: &Told) {
        if let Some(copy) = self.copies.get_mut(workload) {
            if told.run.is_none_or(|run| run == copy.run) {
                copy.taken = Taken::Reached;
            }
            if told.word == Word::Running || told.run == Some(true) {
                copy.start_open = None;
            }
        }
    }

    /// The order to run before the one that is to be given, if the agent may yet come to it.
    pub(super) fn open_start(&self, workload: &WorkloadId, run: bool) -> Option<Millis> {
        let copy = self.copies.get(workload).filter(|_| !run)?;
        let own = (copy.run && copy.taken == Taken::Open).then_some(copy.touched);
        own.or(copy.start_open)
    }

    /// True if a workload that rests may be started once more, by an order that was given before.
    pub(super) fn may_yet_start(&self, workload: &WorkloadId, now: Millis) -> bool {
        let open = self.copies.get(workload).and_then(|copy| copy.start_open);
        open.is_some_and(|at| now.since(at) < UPDATE_GRACE_MS)
    }

    /// A question was answered.
    pub(super) fn answered(&mut self) {
        self.unanswered = 0;
    }

    /// A question about a workload had no answer.
    pub(super) fn no_answer(&mut self, workload: &WorkloadId, poll_ms: u64, now: Millis) {
        self.unanswered = self.unanswered.saturating_add(1);
        if let Some(watch) = self.watches.get_mut(workload) {
            watch.failures = watch.failures.saturating_add(1);
            watch.next_at = now.plus(backoff_ms(poll_ms, watch.failures));
        }
    }

    /// The list did not come.
    pub(super) fn no_list(&mut self, poll_ms: u64, now: Millis) {
        self.unanswered = self.unanswered.saturating_add(1);
        self.list.failures = self.list.failures.saturating_add(1);
        self.list.next_at = now.plus(backoff_ms(poll_ms, self.list.failures));
    }

    /// The list came.
    pub(super) fn listed(&mut self, asked: Millis, now: Millis) {
        self.answered();
        self.list.failures = 0;
        self.list.wanted = false;
        self.list.next_at = now.plus(LIST_PAUSE_MS);
        self.removed.retain(|_, at| *at >= asked);
    }

    /// Starts the list if it is wanted and due.
    pub(super) fn start_list(&mut self, now: Millis) -> bool {
        let due = self.callable && self.list.wanted && self.list.asked.is_none();
        if !due || now < self.list.next_at {
            return false;
        }
        self.list.asked = Some(now);
        true
    }

    /// Workloads whose status is to be asked for now; marks them as asked.
    pub(super) fn start_questions(&mut self, now: Millis) -> Vec<WorkloadId> {
        if !self.callable {
            return Vec::new();
        }
        let under_way = self.watches.values().filter(|watch| watch.asked.is_some()).count();
        let room = MOST_ASKED.saturating_sub(under_way);
        let mut due: Vec<(Millis, WorkloadId)> = self
            .watches
            .iter()
            .filter(|(_, watch)| watch.asked.is_none() && watch.next_at <= now)
            .filter(|(_, watch)| !matches!(watch.awaits, Awaits::Refused(_)))
            .map(|(id, watch)| (watch.next_at, id.clone()))
            .collect();
        // The longest wait first: with more open than may be asked at once, each has its turn.
        due.sort();
        due.truncate(room);
        for (_, id) in &due {
            if let Some(watch) = self.watches.get_mut(id) {
                watch.asked = Some(now);
            }
        }
        due.into_iter().map(|(_, id)| id).collect()
    }

    /// True if something waits to be told to the World.
    pub(super) fn has_news(&self, now: Millis) -> bool {
        let due =
            |watch: &Watch| matches!(watch.awaits, Awaits::Refused(_)) && watch.next_at <= now;
        self.watches.values().any(due)
    }

    /// The World could not be told: again later.
    pub(super) fn delay_news(&mut self, poll_ms: u64, now: Millis) {
        for watch in self.watches.values_mut() {
            if matches!(watch.awaits, Awaits::Refused(_)) {
                watch.next_at = now.plus(poll_ms);
            }
        }
    }

    /// Time of its next question or news, if nothing happens before; `None` while it has nothing open.
    pub(super) fn wake_at(&self) -> Option<Millis> {
        let asked = self.watches.values().filter(|watch| watch.asked.is_some()).count();
        let may_ask = self.callable && asked < MOST_ASKED;
        let open = self.watches.values().filter(|watch| {
            let news = matches!(watch.awaits, Awaits::Refused(_));
            news || (may_ask && watch.asked.is_none())
        });
        let list = self.callable && self.list.wanted && self.list.asked.is_none();
        open.map(|watch| watch.next_at).chain(list.then_some(self.list.next_at)).min()
    }
}

/// Wait before a question is asked again that had no answer so many times.
fn backoff_ms(poll_ms: u64, failures: u32) -> u64 {
    poll_ms.saturating_mul(1 << failures.min(8)).clamp(1, LONGEST_WAIT_MS.max(poll_ms))
}
