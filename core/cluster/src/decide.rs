//! The one table: what to do about a workload, given how things are.
//!
//! First placement, update, retry, failover, drain and drift all end here. The function is total
//! and has no memory: it is asked again after each action until there is nothing more to do.

use persys_model::assignment::{Place, ReasonCode};
use persys_model::inventory::State;
use persys_model::phase::Phase;
use persys_model::token::Generation;
use persys_model::workload::Desired;

/// How things are with one workload.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "facts, not a state: each is independent")]
pub(crate) struct Situation<'a> {
    pub(crate) desired: Desired,
    pub(crate) generation: Generation,
    pub(crate) phase: Phase,
    pub(crate) place: Option<&'a Place>,
    /// The node of its place.
    pub(crate) node: NodeState,
    /// The node's word about the present decision.
    pub(crate) seen: Option<&'a State>,
    /// It stays with its node.
    pub(crate) stays: bool,
    /// At most one copy may exist.
    pub(crate) exclusive: bool,
    /// No earlier copy can still run.
    pub(crate) formers_stopped: bool,
    /// Its copy on a lost node can no longer run.
    pub(crate) fenced: bool,
    /// It names a volume that one node at a time may have, and somebody vouches that its node is off:
    /// others may have the volume elsewhere now.
    pub(crate) volume_free: bool,
    /// The node says that it runs something of it by an earlier decision.
    pub(crate) runs_older: bool,
    /// The present revision failed, and its node says that the earlier one runs on.
    pub(crate) earlier_runs: bool,
    /// The same of a revision to which there is no way back.
    pub(crate) leftover_runs: bool,
    /// An update that failed is to be tried again now.
    pub(crate) update_due: bool,
    /// It entered or left shadow since the present decision was made.
    pub(crate) shadow_differs: bool,
    /// A secret that what runs is signalled for has another value than its node was given, and its
    /// agent can signal.
    pub(crate) values_differ: bool,
    /// The present attempt made no progress for longer than it may.
    pub(crate) overdue: bool,
    /// The node took in the present decision.
    pub(crate) accepted: bool,
    /// An order for it is on its way, and nobody knows yet whether it arrives.
    pub(crate) order_open: bool,
    /// No order for it can have reached the node, and no earlier copy is there.
    pub(crate) never_arrived: bool,
    /// Its node can prove by its heartbeats that it has no copy of it.
    pub(crate) provable: bool,
    /// The next attempt is due.
    pub(crate) retry_due: bool,
    /// A new revision was tried and fits nowhere: carry on with the old one.
    pub(crate) update_blocked: bool,
    /// Moving off a draining node was tried and nothing fits: carry on there.
    pub(crate) move_blocked: bool,
}

/// The node of a place, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeState {
    Ready,
    Draining,
    NotReady,
    Lost,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing: it is as it should be, or somebody else must act first.
    Rest,
    /// Find a node.
    Place,
    /// Wait until no earlier copy can run.
    AwaitFormers,
    /// Make a new decision for the present intent: here if it fits, else elsewhere.
    Reissue,
    /// Make a new decision for what runs here, because only its pause changes: it needs no room.
    Repause,
    /// Start again what was ended for a restart.
    StartAgain,
    /// Go on with the revision that an update left running.
    GoBack,
    /// Have the node remove a revision that runs on and that nobody looks after.
    EndLeftover,
    /// Make a new decision for what runs here, because only values of its secrets changed.
    Refresh,
    /// See to it that the node has been told.
    Order,
    /// Report that a stop or a removal takes too long.
    ReportOverdue,
    /// Move to another node if one fits, because the order cannot be delivered.
    Redispatch,
    /// End an attempt that makes no progress.
    TimeOut,
    /// Take in the node's word.
    Believe(Word),
    /// Give up the place; the copy there is a former one from now on.
    MoveOff(ReasonCode),
    /// Move to another node if one fits.
    TryMove,
    /// Give up the place of something at rest.
    Release,
    /// Stay with a lost node, and say why.
    Stay(ReasonCode),
    /// It is gone: remove its records.
    Finish,
    /// Its node is away: leave an order there and remove its records.
    BuryAndFinish,
}

/// The node's word, where it means a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    Runs,
    Pauses,
    Unresponsive,
    StartsAgain,
    Rests,
    Completed,
    Failed,
}

/// What to do about a workload.
pub(crate) fn decide(now: &Situation<'_>) -> Action {
    match (now.desired, now.place) {
        (Desired::Deleted, None) => Action::Finish,
        (Desired::Deleted, Some(place)) => match now.node {
            NodeState::Ready | NodeState::Draining => renew_or(now, place, order_or_report(now)),
            NodeState::NotReady | NodeState::Lost => Action::BuryAndFinish,
        },
        // Its node was removed before it could say so.
        (Desired::Stopped, None) if now.phase == Phase::Stopping => Action::Believe(Word::Rests),
        (Desired::Stopped, None) => Action::Rest,
        (Desired::Stopped, Some(place)) => match now.node {
            NodeState::Ready => renew_or(now, place, at_rest(now)),
            NodeState::Draining if now.phase == Phase::Stopped && !now.stays => Action::Release,
            NodeState::Draining => renew_or(now, place, at_rest(now)),
            // At rest it would hold the volume to a node that does not have it.
            NodeState::Lost if now.volume_free && !now.stays => Action::Release,
            NodeState::NotReady | NodeState::Lost => Action::Rest,
        },
        (Desired::Running | Desired::Paused, None) => unplaced(now),
        (Desired::Running | Desired::Paused, Some(place)) => match now.node {
            NodeState::Ready => here(now, place),
            NodeState::Draining => draining(now, place),
            NodeState::NotReady => Action::Rest,
            NodeState::Lost => lost(now, place),
        },
    }
}

/// A changed intent needs a new decision before anything else.
fn renew_or(now: &Situation<'_>, place: &Place, otherwise: Action) -> Action {
    if place.generation == now.generation { otherwise } else { Action::Reissue }
}

fn at_rest(now: &Situation<'_>) -> Action {
    let ended = match now.seen {
        Some(State::Stopped | State::Completed | State::Failed(_)) => true,
        Some(
            State::Pending
            | State::Running
            | State::Paused
            | State::Unresponsive
            | State::Restarting(_)
            | State::Unknown,
        )
        | None => false,
    };
    if ended && now.phase == Phase::Stopping {
        Action::Believe(Word::Rests)
    } else {
        order_or_report(now)
    }
}

fn order_or_report(now: &Situation<'_>) -> Action {
    if now.overdue { Action::ReportOverdue } else { Action::Order }
}

fn unplaced(now: &Situation<'_>) -> Action {
    match now.phase {
        Phase::Failed | Phase::Completed => Action::Rest,
        Phase::Pending
        | Phase::Starting
        | Phase::Running
        | Phase::Paused
        | Phase::Unresponsive
        | Phase::Restarting
        | Phase::Stopping
        | Phase::Stopped
        | Phase::Backoff
        | Phase::Deleting => {
            if now.exclusive && !now.formers_stopped {
                Action::AwaitFormers
            } else {
                Action::Place
            }
        }
    }
}

/// It should run, and its node is fine.
fn here(now: &Situation<'_>, place: &Place) -> Action {
    if place.restart.is_some() && now.phase == Phase::Stopping {
        let next = at_rest(now);
        return if next == Action::Believe(Word::Rests) { Action::StartAgain } else { next };
    }
    if (place.generation != now.generation || now.shadow_differs) && !now.update_blocked {
        return Action::Reissue;
    }
    if now.update_due && !now.update_blocked {
        return Action::Reissue;
    }
    if has_processes(now.phase) && place.paused != (now.desired == Desired::Paused) {
        // The new version waits for room; what runs meanwhile is paused and resumed all the same.
        return Action::Repause;
    }
    if has_processes(now.phase) && now.values_differ {
        return Action::Refresh;
    }
    match now.phase {
        // What an update left alone runs on, and is looked after.
        Phase::Failed | Phase::Backoff if now.earlier_runs => Action::GoBack,
        Phase::Failed if now.leftover_runs => Action::EndLeftover,
        // The record says that it is over, its node that it is not: they are brought together again.
        Phase::Failed | Phase::Completed if now.runs_older => Action::Reissue,
        Phase::Failed | Phase::Completed => Action::Rest,
        // The attempt that timed out came to its end after all.
        Phase::Backoff if now.seen == Some(&State::Running) => Action::Believe(Word::Runs),
        Phase::Backoff if now.seen == Some(&State::Paused) => Action::Believe(Word::Pauses),
        Phase::Backoff if now.retry_due && !now.update_blocked => Action::Reissue,
        Phase::Backoff => Action::Rest,
        Phase::Pending | Phase::Stopped if now.update_blocked => Action::Rest,
        Phase::Pending | Phase::Stopped => Action::Reissue,
        Phase::Starting
        | Phase::Running
        | Phase::Paused
        | Phase::Unresponsive
        | Phase::Restarting => listen(now),
        // A workload that should run is never being stopped or deleted for the same decision.
        Phase::Stopping | Phase::Deleting => Action::Order,
    }
}

/// True in the phases in which it is on its node with its processes, or about to be.
fn has_processes(phase: Phase) -> bool {
    match phase {
        Phase::Starting
        | Phase::Running
        | Phase::Paused
        | Phase::Unresponsive
        | Phase::Restarting => true,
        Phase::Pending
        | Phase::Stopping
        | Phase::Stopped
        | Phase::Completed
        | Phase::Backoff
        | Phase::Failed
        | Phase::Deleting => false,
    }
}

/// What the node's word means for a workload that should run.
fn listen(now: &Situation<'_>) -> Action {
    match (now.seen, now.phase) {
        (None | Some(State::Unknown | State::Pending | State::Stopped), Phase::Starting)
            if now.overdue =>
        {
            overdue(now)
        }
        (None, _) => Action::Order,
        (Some(State::Unknown), _) => Action::Order,
        (Some(State::Running), Phase::Running) => Action::Order,
        (Some(State::Running), _) => Action::Believe(Word::Runs),
        (Some(State::Paused), Phase::Paused) => Action::Order,
        (Some(State::Paused), _) => Action::Believe(Word::Pauses),
        (Some(State::Unresponsive), Phase::Unresponsive) => Action::Order,
        (Some(State::Unresponsive), _) => Action::Believe(Word::Unresponsive),
        (Some(State::Restarting(_)), Phase::Restarting) => Action::Order,
        (Some(State::Restarting(_)), _) => Action::Believe(Word::StartsAgain),
        (
            Some(State::Pending | State::Stopped),
            Phase::Running | Phase::Paused | Phase::Unresponsive,
        ) => Action::Believe(Word::StartsAgain),
        (Some(State::Pending | State::Stopped), _) => Action::Order,
        (Some(State::Completed), _) => Action::Believe(Word::Completed),
        (Some(State::Failed(_)), _) => Action::Believe(Word::Failed),
    }
}

/// It should run, and nothing goes on.
fn overdue(now: &Situation<'_>) -> Action {
    let safe = !now.exclusive || now.never_arrived || now.provable;
    let may_leave = !now.stays && !now.order_open && safe;
    match (now.accepted, may_leave && !now.move_blocked) {
        (true, _) => Action::TimeOut,
        (false, true) => Action::Redispatch,
        (false, false) => Action::Order,
    }
}

fn draining(now: &Situation<'_>, place: &Place) -> Action {
    let resting = !now.phase.holds_compute();
    if now.stays {
        here(now, place)
    } else if resting && place.generation == now.generation && now.phase != Phase::Pending {
        Action::Release
    } else if now.move_blocked {
        here(now, place)
    } else if now.exclusive {
        Action::MoveOff(ReasonCode::NodeDrained)
    } else {
        Action::TryMove
    }
}

fn lost(now: &Situation<'_>, place: &Place) -> Action {
    let resting = !now.phase.holds_compute() && now.phase != Phase::Pending;
    if resting && place.generation == now.generation {
        if now.volume_free && !now.stays { Action::Release } else { Action::Rest }
    } else if now.stays {
        Action::Stay(ReasonCode::DataOnNode)
    } else if now.exclusive && !now.fenced {
        Action::Stay(ReasonCode::WaitsForFence)
    } else {
        Action::MoveOff(ReasonCode::NodeLost)
    }
}
