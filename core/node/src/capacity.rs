//! Capacity of the machine against what the agent holds.
//!
//! A workload reserves CPU and memory while it is to run, and disk as long as its data is kept. What is
//! on its way out reserves nothing: a refusal here is certain, never a guess.

use persys_model::failure::{Failure, FailureReason};
use persys_model::id::WorkloadId;
use persys_model::link::Usage;
use persys_model::node::{self, Pool};
use persys_model::resources::{Compute, Disk, Resources};
use persys_model::spec::Spec;

use crate::agent::Agent;
use crate::effects::Effects;
use crate::ledger::{Goal, Intent};
use crate::slot::Layer;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

impl Agent {
    /// True while its scheduler wants nothing new started here; stops and removals are obeyed.
    pub fn draining(&self) -> bool {
        self.line.drains()
    }

    /// Reserved and measured use, as heartbeats report it.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage {
            used: self.load.used(),
            used_disk_gib: self.load.used_disk_gib(),
            ..Usage::default()
        };
        for (compute, held) in self.intents().values().filter_map(reserves) {
            usage.allocated = usage.allocated.plus(compute);
            let disk = held.disk.iter().fold(0, |sum: u64, (_, gib)| sum.saturating_add(gib));
            usage.allocated_disk_gib = usage.allocated_disk_gib.saturating_add(disk);
        }
        usage
    }

    /// Refusal of a spec that this machine cannot run beside what it already holds, with the amounts.
    /// What the workload itself holds does not count against it.
    pub fn no_room(&self, workload: &WorkloadId, spec: &Spec) -> Option<Failure> {
        let others = self.intents().iter().filter(|(id, _)| *id != workload);
        let (mut compute, mut disks) = (Compute::ZERO, Vec::new());
        for (taken, held) in others.filter_map(|(_, intent)| reserves(intent)) {
            compute = compute.plus(taken);
            disks.push(&held.disk);
        }
        let (need, all) = (spec.resources.compute, self.facts.capacity);
        let rows = [
            ("millicores of CPU", need.cpu_millicores, all.cpu_millicores, compute.cpu_millicores),
            ("MiB of memory", need.memory_mib, all.memory_mib, compute.memory_mib),
        ];
        let mut lacks: Vec<_> = rows
            .into_iter()
            .filter_map(|(what, need, all, taken)| lack(what, need, all, taken))
            .collect();
        lacks.extend(self.disk_lacks(&spec.resources.disk, &disks));
        if lacks.is_empty() {
            return None;
        }
        let text = format!("the node has no room for it: {}", lacks.join("; "));
        Some(Failure::new(FailureReason::InsufficientResources, &text))
    }

    /// Why it takes nothing new because of what the machine uses, if so.
    pub fn too_busy(&self) -> Option<String> {
        self.load.busy()
    }

    /// Limits in bytes of what workloads that run may write into layers of their own.
    pub fn layer_limits(&self) -> Vec<(WorkloadId, u64)> {
        let limit = |(id, intent): (&WorkloadId, &Intent)| {
            let gib = intent.spec.as_deref().filter(|_| intent.goal == Goal::Run)?.layer_gib()?;
            let runs = self.slots.get(id).is_some_and(|slot| slot.view.runs());
            runs.then(|| (id.clone(), gib.saturating_mul(GIB)))
        };
        self.intents().iter().filter_map(limit).collect()
    }

    /// Containers have filled layers of their own so far: told from nine tenths of the limit on, and
    /// given up beyond it.
    pub(crate) fn wrote(
        &mut self,
        workload: &WorkloadId,
        bytes: u64,
        limit: u64,
        effects: &mut Effects,
    ) {
        let intent = self.journal.ledger().intents.get(workload);
        let Some(intent) = intent.filter(|intent| intent.goal == Goal::Run) else { return };
        let Some(slot) = self.slots.get_mut(workload).filter(|slot| slot.view.runs()) else {
            return;
        };
        let (use_mib, limit_mib) = (bytes.div_ceil(MIB), limit / MIB);
        let failure = |text: String| Failure::new(FailureReason::StorageError, &text);
        slot.layer = Layer::Fits;
        if bytes > limit {
            slot.layer = Layer::Over;
            if intent.gave_up.is_none() {
                let why = failure(format!(
                    "its containers wrote {use_mib} MiB into layers of their own, and it reserves \
                     {limit_mib} MiB of disk; it was stopped. Reserve more disk (resources.disk_gb), or \
                     write to a volume"
                ));
                let intent = Intent { gave_up: Some(why), ..intent.clone() };
                self.put(workload, intent, effects);
            }
        } else if bytes.saturating_mul(10) >= limit.saturating_mul(9) {
            slot.layer = Layer::Nearly(failure(format!(
                "its containers wrote {use_mib} MiB into layers of their own; it is stopped beyond the \
                 {limit_mib} MiB of disk that it reserves"
            )));
        }
        self.touched.insert(workload.clone());
    }

    fn disk_lacks(&self, need: &Disk, held: &[&Disk]) -> Vec<String> {
        let pools = &self.facts.pools;
        let on = |disk: &Disk, first: &Pool| {
            let here = |pool| node::first_of(pools, pool).is_some_and(|one| one.name == first.name);
            let gib = disk.iter().filter(|(pool, _)| here(*pool)).map(|(_, gib)| gib);
            gib.fold(0, u64::saturating_add)
        };
        let lacking = |first: &Pool| {
            let taken = held.iter().map(|disk| on(disk, first)).fold(0, u64::saturating_add);
            let what = format!("GiB of disk in pool {}", first.name);
            let limit = self.load.limits().get(&first.name).copied().unwrap_or(u64::MAX);
            lack(&what, on(need, first), first.total_gib.min(limit), taken)
        };
        pools.iter().filter(|pool| pool.shares.is_none()).filter_map(lacking).collect()
    }
}

/// One amount that is not there, in words; an amount nobody asks for is always there.
fn lack(what: &str, need: u64, all: u64, taken: u64) -> Option<String> {
    if need == 0 || taken.saturating_add(need) <= all {
        return None;
    }
    if need > all {
        return Some(format!("it needs {need} {what}, and the machine has {all}"));
    }
    let free = all.saturating_sub(taken);
    Some(format!("it needs {need} {what}, and {free} of {all} are not reserved"))
}

/// CPU and memory an intent reserves now, and everything its spec asks for; `None` if it reserves
/// nothing, or only the running thing is known.
fn reserves(intent: &Intent) -> Option<(Compute, &Resources)> {
    let resources = &intent.spec.as_deref()?.resources;
    match intent.goal {
        Goal::Run | Goal::Pause if intent.gave_up.is_none() && !intent.completed => {
            Some((resources.compute, resources))
        }
        Goal::Run | Goal::Pause | Goal::Rest => Some((Compute::ZERO, resources)),
        Goal::Gone { .. } => None,
    }
}
