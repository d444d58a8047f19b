//! The numbers an agent's decisions depend on.

use persys_model::spec::{Spec, WorkloadType};
use persys_model::zoo::Zoo;

use crate::restart;

/// Time in which a runtime answers for one thing that runs. What it does not answer for is stuck.
pub const PROBE_ANSWER_MS: u64 = 5_000;
/// How often the runtimes are asked by default when nothing happens.
const OBSERVE_MS: u64 = 30_000;

/// All timings and limits, in milliseconds where nothing else is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSettings {
    /// How long a new life waits for the runtimes before it registers without knowing.
    pub observe_wait_ms: u64,
    /// How often the runtimes are asked when nothing happens.
    pub observe_ms: u64,
    /// Longest time between two looks that ask about every single thing that runs: only such a look finds
    /// what is stuck. Longer where the runtimes are to be asked less often than by default.
    pub probe_ms: u64,
    /// False: the runtimes are not asked when nothing happens, only after an order, a hint or a start.
    pub observe_periodically: bool,
    /// How soon they are asked again while they do not answer.
    pub observe_retry_ms: u64,
    /// How long an answer of the runtimes or of the scheduler is waited for.
    pub answer_wait_ms: u64,
    /// Wait after the first failed registration; doubles with each further one.
    pub register_base_ms: u64,
    /// Longest wait between registrations.
    pub register_cap_ms: u64,
    /// How often to beat until the scheduler says otherwise.
    pub beat_ms: u64,
    /// Shortest gap between beats; changes in between share one.
    pub min_beat_gap_ms: u64,
    /// How long after its last renewal exclusive work is stopped.
    pub fence_ms: u64,
    /// How long before that moment exclusive work is no longer started.
    pub start_margin_ms: u64,
    /// Wait before the second restart in a row (the first is at once); doubles from there.
    pub restart_base_ms: u64,
    /// Longest wait before a restart.
    pub restart_cap_ms: u64,
    /// How long a workload must run until its restarts are no longer "in a row".
    pub restart_reset_ms: u64,
    /// Time after its start in which the crash of a machine counts as a failed boot.
    pub boot_window_ms: u64,
    /// Boots of a machine in a row that may fail before it is given up.
    pub boot_attempts: u32,
    /// Time for which something has to be paused without an order, or stuck, before it is repaired.
    pub standstill_ms: u64,
    /// Resumes in a row of what a fault paused, before it is left to an operator.
    pub resume_attempts: u32,
    /// How often a start is tried under one decision before it counts as failed.
    pub start_attempts: u32,
    /// How long to wait before changes that could not be written are written again.
    pub ledger_retry_ms: u64,
    /// How long a removal is remembered.
    pub tombstone_ms: u64,
    /// Most removals remembered; the oldest go first.
    pub tombstone_limit: usize,
    /// Measured use of CPU or memory, in percent, from which nothing new is taken; 0: no limit.
    pub admit_percent: u64,
    /// Measured use below which new work is taken again.
    pub release_percent: u64,
    /// Measured use of the disk, in percent, from which nothing new is taken; 0: no limit.
    pub admit_disk_percent: u64,
    /// Measured use of the disk below which new work is taken again.
    pub release_disk_percent: u64,
    /// With a known bug only: how long an unnamed workload is left alone.
    pub confirm_wait_ms: u64,
    /// Known bugs that are switched on; always none outside the proofs.
    pub zoo: Zoo,
}

impl AgentSettings {
    /// How long to wait after so many tries in a row.
    #[must_use]
    pub fn restart_wait_ms(&self, streak: u32) -> u64 {
        restart::delay_ms(streak, self.restart_base_ms, self.restart_cap_ms)
    }

    /// Longest time between two looks that ask about every single thing. Somebody who has the runtimes
    /// asked less often than by default wants that here as well.
    #[must_use]
    pub fn probe_interval_ms(&self) -> u64 {
        if self.observe_ms > OBSERVE_MS { self.observe_ms } else { self.probe_ms }
    }

    /// Time a workload must run until its restarts are no longer "in a row". A machine that runs for
    /// less may not have finished booting.
    #[must_use]
    pub fn row_reset_ms(&self, spec: Option<&Spec>) -> u64 {
        match spec.map(Spec::workload_type) {
            Some(WorkloadType::Vm) => self.restart_reset_ms.max(self.boot_window_ms),
            Some(WorkloadType::Container | WorkloadType::Compose) | None => self.restart_reset_ms,
        }
    }
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            observe_wait_ms: 3_000,
            observe_ms: OBSERVE_MS,
            probe_ms: 18_000,
            observe_periodically: true,
            observe_retry_ms: 1_000,
            answer_wait_ms: 10_000,
            register_base_ms: 500,
            register_cap_ms: 5_000,
            beat_ms: 2_000,
            min_beat_gap_ms: 50,
            fence_ms: 12_000,
            start_margin_ms: 2_000,
            restart_base_ms: 1_000,
            restart_cap_ms: 60_000,
            restart_reset_ms: 60_000,
            boot_window_ms: 300_000,
            boot_attempts: 3,
            standstill_ms: 10_000,
            resume_attempts: 3,
            start_attempts: 1,
            ledger_retry_ms: 1_000,
            tombstone_ms: 7 * 24 * 3_600 * 1_000,
            tombstone_limit: 10_000,
            admit_percent: 80,
            release_percent: 75,
            admit_disk_percent: 90,
            release_disk_percent: 85,
            confirm_wait_ms: 5_000,
            zoo: Zoo::NONE,
        }
    }
}
