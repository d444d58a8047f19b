//! Health of simulated workloads: which are checked, which are ill at a moment, and whether the record says so.
//!
//! Everything follows from names, sizes and the time, so that no seed draws other numbers because of it. While
//! there are faults, workloads fall ill and recover; in the calm each stays as it is.

use std::sync::Arc;

use persys_model::assignment::Assignment;
use persys_model::health::HealthState;
use persys_model::id::WorkloadId;
use persys_model::spec::health::{Check, HealthChecks, Probe, Ready};
use persys_model::spec::{Kind, Spec};
use persys_node::effects::Probing;
use persys_node::input::{Existing, ImageHealth, Input, Observation, ProbeOutcome, Seen};

use crate::runtime::{Thing, image, image_of};
use crate::sim::{Event, Sim, Stage};
use crate::wire::Life;

/// Time for which a workload stays as it is while there are faults.
const SPELL_MS: u64 = 17_000;
/// The port of checks that are run by agents.
const PORT: u16 = 80;

/// Checks of a spec of this size: a third has one that its agent runs.
pub(crate) fn checks(cpu_millicores: u64) -> HealthChecks {
    let ready = (cpu_millicores / 100 % 3 == 1).then(|| {
        Ready::Check(Arc::new(Check {
            probe: Probe::Tcp { port: PORT },
            interval_ms: 2_000,
            timeout_ms: 1_000,
            start_period_ms: 4_000,
            retries: 2,
        }))
    });
    HealthChecks { ready }
}

/// True if the runtime itself checks what runs from this spec.
fn is_checked_by_runtime(spec: &Spec) -> bool {
    let third = (spec.resources.compute.cpu_millicores / 100).is_multiple_of(3);
    third && image_of(spec) == image::GOOD && !matches!(spec.kind, Kind::Vm(_))
}

impl Sim {
    /// True if the checks of a workload fail now.
    fn is_ill(&self, workload: &WorkloadId) -> bool {
        let spell = match self.stage {
            Stage::Faults => self.now / SPELL_MS,
            Stage::Healing { .. } | Stage::Settled { .. } | Stage::Silence { .. } | Stage::Over => {
                0
            }
        };
        let name: u64 = workload.as_str().bytes().map(u64::from).sum();
        (name + spell).is_multiple_of(3)
    }

    /// The verdict that a runtime has of what it checks itself.
    fn runtime_verdict(&self, workload: &WorkloadId, thing: &Thing) -> Option<ImageHealth> {
        let checked = thing.state == Existing::Running && is_checked_by_runtime(&thing.spec);
        let state =
            if self.is_ill(workload) { HealthState::Unhealthy } else { HealthState::Healthy };
        // The output of a check differs from one time to the next.
        let detail = format!("ill at {}", self.now);
        checked.then(|| ImageHealth::of_one(state, &detail))
    }

    /// All that exists on a machine, with the verdicts of its runtime.
    pub(crate) fn observed(&self, node: usize) -> Observation {
        let Some(host) = self.hosts.get(node) else { return Observation::Unknown };
        let Observation::Complete(list) = host.runtime.observe() else {
            return Observation::Unknown;
        };
        let verdict = |seen: Seen| {
            let thing = host.runtime.things.get(&seen.workload);
            let health = thing.and_then(|thing| self.runtime_verdict(&seen.workload, thing));
            Seen { health, ..seen }
        };
        Observation::Complete(list.into_iter().map(verdict).collect())
    }

    /// An agent runs a check.
    pub(crate) fn probe_begun(&mut self, node: usize, life: Life, probing: Probing) {
        let takes = 1 + probing.id.0 % 32;
        self.queue.push(self.now + takes, Event::Probed { node, life, probing });
    }

    /// The check has its answer, if the workload runs and its runtime tells where.
    pub(crate) fn probe_done(&mut self, node: usize, life: Life, probing: Probing) {
        let Some(host) = self.hosts.get_mut(node) else { return };
        if host.agent_of(life).is_none() {
            return;
        }
        let answers = host.runtime.answers(self.now);
        let thing = host.runtime.things.get(&probing.workload);
        let runs = thing.is_some_and(|thing| thing.state == Existing::Running);
        let Probing { id: probe, workload, check: _ } = probing;
        let outcome = match (answers && runs, self.is_ill(&workload)) {
            (false, _) => ProbeOutcome::Unknown,
            (true, true) => {
                self.cover.hit("agent: a health check failed");
                ProbeOutcome::Failed(Arc::from(format!("ill at {}", self.now)))
            }
            (true, false) => ProbeOutcome::Passed,
        };
        self.agent_input(node, Input::Probed { probe, workload, outcome });
    }

    /// The record of a workload that runs says of its health what is so.
    pub(crate) fn wrong_health(&self, assignment: &Assignment) -> Option<String> {
        let place = assignment.place.as_ref()?;
        let host = self.hosts.iter().find(|host| host.id == place.node)?;
        let thing = host.runtime.things.get(&assignment.workload)?;
        let checked = is_checked_by_runtime(&thing.spec) || thing.spec.health.check().is_some();
        let wanted = match (checked && host.contract.is_none(), self.is_ill(&assignment.workload)) {
            (false, _) => None,
            (true, true) => Some(HealthState::Unhealthy),
            (true, false) => Some(HealthState::Healthy),
        };
        let told = assignment.health.as_ref().map(|known| known.health.state);
        (told != wanted).then(|| format!("is told to be {told:?}, in truth {wanted:?}"))
    }
}
