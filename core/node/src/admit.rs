//! Whether a command is obeyed, and whether the machine has room for something new.
//!
//! Tokens are looked at in a fixed order, from the widest to the narrowest: the leadership, the
//! life of the node, the decision. Whatever is older than what the agent knows is refused and
//! named; what it already holds is confirmed and changes nothing.

use persys_model::command::{Command, Order, Refusal};
use persys_model::failure::{Failure, FailureReason};
use persys_model::resources::Compute;
use persys_model::token::{Epoch, Session, Term};
use persys_model::zoo::{Bug, Zoo};

use crate::ledger::{Goal, Intent};

/// What a command is judged against.
#[derive(Debug, Clone, Copy)]
pub struct Standing<'a> {
    /// The highest leadership heard of.
    pub term: Term,
    /// The present life.
    pub session: Option<Session>,
    /// What is held of the workload.
    pub held: Option<&'a Intent>,
    /// The decision that last removed it.
    pub buried: Option<Epoch>,
    /// Whether nothing new is taken.
    pub hold: bool,
    /// Known bugs that are switched on.
    pub zoo: Zoo,
}

/// What becomes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is not obeyed.
    Refuse(Refusal),
    /// What it wants gone was removed under this decision or before.
    Gone(Epoch),
    /// It says again what is held.
    Confirm,
    /// It says what was found only as a running thing.
    FillIn,
    /// It is new.
    Take,
}

/// Judges `command`.
#[must_use]
pub fn judge(command: &Command, standing: &Standing<'_>) -> Verdict {
    let zoo = standing.zoo;
    if command.term < standing.term && !zoo.has(Bug::NoTermInApply) {
        return Verdict::Refuse(Refusal::OldTerm { seen: standing.term });
    }
    if standing.session != Some(command.session) && !zoo.has(Bug::NoSessionInApply) {
        return Verdict::Refuse(Refusal::OtherSession { present: standing.session });
    }
    if let Some(tombstone) = standing.buried.filter(|tombstone| *tombstone >= command.epoch) {
        return match command.order {
            Order::Apply(_) => Verdict::Refuse(Refusal::Buried { tombstone }),
            Order::Remove { .. } => Verdict::Gone(tombstone),
        };
    }
    match standing.held {
        Some(held) if held.epoch > command.epoch => {
            Verdict::Refuse(Refusal::OldEpoch { held: held.epoch })
        }
        Some(held) if held.epoch == command.epoch => same_epoch(held, &command.order, standing),
        Some(_) | None if standing.hold => Verdict::Refuse(Refusal::Holding),
        Some(_) | None => Verdict::Take,
    }
}

/// A decision that is already held. Two contents never share an epoch, so what is held stays,
/// unless only the running thing was found and its content is told now.
fn same_epoch(held: &Intent, order: &Order, standing: &Standing<'_>) -> Verdict {
    let bare = match held.goal {
        Goal::Run | Goal::Rest => held.spec.is_none(),
        Goal::Gone { .. } => false,
    };
    match order {
        Order::Apply(_) if bare => Verdict::FillIn,
        Order::Remove { .. } if bare && standing.hold => Verdict::Refuse(Refusal::Holding),
        Order::Remove { .. } if bare => Verdict::FillIn,
        Order::Apply(_) | Order::Remove { .. } => Verdict::Confirm,
    }
}

/// Whether the machine is too busy for new work, by what it measures of itself. Once too busy it
/// stays so until the use has fallen well below the limit, so that it does not flutter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    used: Compute,
    busy: bool,
}

impl Load {
    /// Takes in a measurement. `limit` and `release` are percent of `capacity`; no limit is 0.
    pub fn measure(&mut self, used: Compute, capacity: Compute, limit: u64, release: u64) {
        self.used = used;
        let at_least = |percent: u64| {
            let over = |used: u64, all: u64| {
                all > 0 && used.saturating_mul(100) >= all.saturating_mul(percent)
            };
            over(used.cpu_millicores, capacity.cpu_millicores)
                || over(used.memory_mib, capacity.memory_mib)
        };
        let threshold = if self.busy { release.min(limit) } else { limit };
        self.busy = limit > 0 && at_least(threshold);
    }

    /// The last measurement.
    #[must_use]
    pub fn used(&self) -> Compute {
        self.used
    }

    /// Why nothing new is taken, if so.
    #[must_use]
    pub fn refusal(&self, capacity: Compute) -> Option<Failure> {
        self.busy.then(|| {
            let text = format!(
                "the node is too busy: {} of {} millicores and {} of {} MiB are in use",
                self.used.cpu_millicores,
                capacity.cpu_millicores,
                self.used.memory_mib,
                capacity.memory_mib
            );
            Failure::new(FailureReason::InsufficientResources, &text)
        })
    }
}
