//! Whether a command is obeyed, and whether the machine has room for something new.
//!
//! Tokens are looked at in a fixed order, from the widest to the narrowest: the leadership, the
//! life of the node, the decision. Whatever is older than what the agent knows is refused and
//! named; what it already holds is confirmed and changes nothing.

use std::collections::BTreeMap;

use persys_model::command::{Command, Order, Refusal};
use persys_model::failure::{Failure, FailureReason};
use persys_model::id::PoolName;
use persys_model::resources::Compute;
use persys_model::token::{Epoch, Session, Term};
use persys_model::zoo::{Bug, Zoo};

use crate::input::Used;
use crate::ledger::{Goal, Intent};
use crate::settings::AgentSettings;

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
    /// If it is data: the newest decision about a workload that wants it.
    pub wanted: Option<Epoch>,
    /// Whether nothing new is taken.
    pub hold: bool,
    /// True if nothing new is started while stops and removals are obeyed.
    pub drain: bool,
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
    if let Some(held) = standing.wanted.filter(|wanted| *wanted > command.epoch) {
        return Verdict::Refuse(Refusal::OldEpoch { held });
    }
    match standing.held {
        Some(held) if held.epoch > command.epoch => {
            Verdict::Refuse(Refusal::OldEpoch { held: held.epoch })
        }
        Some(held) if held.epoch == command.epoch => same_epoch(held, &command.order, standing),
        Some(_) | None if standing.hold => Verdict::Refuse(Refusal::Holding),
        Some(_) | None if standing.drain && starts(&command.order) => {
            Verdict::Refuse(Refusal::Draining)
        }
        Some(_) | None => Verdict::Take,
    }
}

/// True if the order has something running that did not run before it.
fn starts(order: &Order) -> bool {
    match order {
        Order::Apply(apply) => apply.run,
        Order::Remove { .. } => false,
    }
}

/// A decision that is already held. Two contents never share an epoch, so what is held stays,
/// unless only the running thing was found and its content is told now.
fn same_epoch(held: &Intent, order: &Order, standing: &Standing<'_>) -> Verdict {
    let bare = match held.goal {
        Goal::Run | Goal::Pause | Goal::Rest => held.spec.is_none(),
        Goal::Gone { .. } => false,
    };
    match order {
        Order::Apply(_) if bare => Verdict::FillIn,
        Order::Remove { .. } if bare && standing.hold => Verdict::Refuse(Refusal::Holding),
        Order::Remove { .. } if bare => Verdict::FillIn,
        Order::Apply(_) | Order::Remove { .. } => Verdict::Confirm,
    }
}

/// Whether the machine is too busy for new work, by what it measures of itself. Once something is
/// too much in use it stays so until the use has fallen well below the limit, so that the node does
/// not flutter. What runs is never touched because of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Load {
    used: Compute,
    used_disk_gib: u64,
    limits: BTreeMap<PoolName, u64>,
    cpu: Gauge,
    memory: Gauge,
    disk: Gauge,
}

/// One thing that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Gauge {
    percent: u64,
    release: u64,
    over: bool,
}

impl Gauge {
    /// `limit` and `release` are percent of `all`; no limit is 0.
    fn measure(&mut self, used: u64, all: u64, limit: u64, release: u64) {
        let release = release.min(limit);
        let threshold = if self.over { release } else { limit };
        let reached = used.saturating_mul(100) >= all.saturating_mul(threshold);
        self.over = limit > 0 && all > 0 && reached;
        self.percent = used.saturating_mul(100).checked_div(all).unwrap_or(0);
        self.release = release;
    }
}

impl Load {
    /// Takes in a measurement.
    pub fn measure(&mut self, used: Used, capacity: Compute, settings: &AgentSettings) {
        self.used = used.compute;
        self.used_disk_gib = used.disk_gib;
        self.limits = used.limits;
        let (limit, release) = (settings.admit_percent, settings.release_percent);
        self.cpu.measure(used.compute.cpu_millicores, capacity.cpu_millicores, limit, release);
        self.memory.measure(used.compute.memory_mib, capacity.memory_mib, limit, release);
        let (limit, release) = (settings.admit_disk_percent, settings.release_disk_percent);
        self.disk.measure(used.disk_permille.into(), 1000, limit, release);
    }

    /// The last measurement.
    #[must_use]
    pub fn used(&self) -> Compute {
        self.used
    }

    /// The last measurement of the file systems behind the pools.
    #[must_use]
    pub fn used_disk_gib(&self) -> u64 {
        self.used_disk_gib
    }

    /// Present capacity of pools that have less than their size for workloads.
    #[must_use]
    pub fn limits(&self) -> &BTreeMap<PoolName, u64> {
        &self.limits
    }

    /// What is too much in use, in words, if so.
    #[must_use]
    pub fn busy(&self) -> Option<String> {
        let over = [("CPU", &self.cpu), ("memory", &self.memory), ("disk", &self.disk)]
            .into_iter()
            .filter(|(_, gauge)| gauge.over)
            .map(|(what, Gauge { percent, release, .. })| {
                format!("{percent} % of its {what} is in use (new work below {release} %)")
            })
            .collect::<Vec<_>>();
        (!over.is_empty()).then(|| format!("the node is too busy: {}", over.join(", ")))
    }

    /// Why nothing new is taken, if so.
    #[must_use]
    pub fn refusal(&self) -> Option<Failure> {
        self.busy().map(|text| Failure::new(FailureReason::InsufficientResources, &text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_has_its_hysteresis_and_names_itself() {
        let settings = AgentSettings::default();
        let capacity = Compute::new(1000, 1000);
        let mut load = Load::default();
        let mut busy = |cpu: u64, memory: u64, disk_permille: u32| {
            let used =
                Used { compute: Compute::new(cpu, memory), disk_permille, ..Used::default() };
            load.measure(used, capacity, &settings);
            load.busy()
        };
        let rows: [(u64, u64, u32, &[&str]); 9] = [
            (799, 799, 899, &[]),
            (800, 0, 0, &["CPU"]),
            (750, 0, 0, &["CPU"]),
            (749, 0, 0, &[]),
            (799, 800, 0, &["memory"]),
            (0, 749, 900, &["disk"]),
            (0, 0, 850, &["disk"]),
            (900, 900, 849, &["CPU", "memory"]),
            (0, 0, 0, &[]),
        ];
        for (cpu, memory, disk, named) in rows {
            let words = busy(cpu, memory, disk).unwrap_or_default();
            for what in ["CPU", "memory", "disk"] {
                let said = words.contains(what);
                assert_eq!(said, named.contains(&what), "{cpu} {memory} {disk}: {words}");
            }
        }
    }

    #[test]
    fn no_limit_is_no_limit() {
        let settings =
            AgentSettings { admit_percent: 0, admit_disk_percent: 0, ..AgentSettings::default() };
        let mut load = Load::default();
        let used = Used { compute: Compute::new(9, 9), disk_permille: 1000, ..Used::default() };
        load.measure(used, Compute::new(1, 1), &settings);
        assert_eq!(load.refusal(), None);
    }
}
