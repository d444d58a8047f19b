//! The numbers decisions depend on.

use std::sync::Arc;

use persys_model::zoo::Zoo;

/// Most nodes that are asked in a second for all they hold.
const INVENTORIES_PER_SECOND: u64 = 50;

/// All timings and limits, in milliseconds where nothing else is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How often agents beat.
    pub beat_ms: u64,
    /// Most beats in a second from all agents together: a large fleet beats less often.
    pub beats_per_second: u64,
    /// How long a beat keeps a node ready; at least three beats long.
    pub lease_ms: u64,
    /// How long after the lease a node that answers no probe is lost.
    pub failover_grace_ms: u64,
    /// Time after the lease until work moves off a node whose host refuses the connection: the
    /// machine lives, its agent does not.
    pub agent_down_failover_ms: u64,
    /// How often a silent node is probed.
    pub probe_interval_ms: u64,
    /// How long after its last renewal an agent stops exclusive work by itself. Told to agents.
    pub fence_ms: u64,
    /// How long after its node's last renewal exclusive work may start elsewhere.
    pub exclusive_failover_ms: u64,
    /// How long a workload missing on its node is left to the agent's own repair.
    pub missing_grace_ms: u64,
    /// How long to wait for an agent's answer before a command is sent again.
    pub resend_ms: u64,
    /// Wait before an order that could not be delivered is sent again; doubles up to `resend_ms`.
    pub redeliver_ms: u64,
    /// Longest time without progress until an attempt to start a container or a stack ends.
    pub apply_timeout_ms: u64,
    /// The same for virtual machines.
    pub vm_apply_timeout_ms: u64,
    /// Longest time without progress until a stop or a removal is reported as overdue.
    pub delete_timeout_ms: u64,
    /// Interval at which the status of an open workload is asked for, of agents that do not tell of
    /// changes by themselves.
    pub status_poll_ms: u64,
    /// Most failed attempts in one incident.
    pub retry_attempts: u32,
    /// Wait after the first failed attempt; doubles with each further one.
    pub retry_base_ms: u64,
    /// Longest wait between attempts.
    pub retry_cap_ms: u64,
    /// How long a workload must be healthy until its failures are forgotten.
    pub retry_refill_ms: u64,
    /// How often every node is asked for all it holds; in a large fleet less often.
    pub drift_interval_ms: u64,
    /// Above this share of silent nodes, in percent, nothing is moved.
    pub brake_percent: usize,
    /// How long a lost node counts as recently silent for the brake.
    pub brake_window_ms: u64,
    /// How long leadership lasts without renewal, on the store's clock.
    pub leader_ttl_ms: u64,
    /// How often a leader renews: also how soon an idle one looks whether the store is there.
    pub renew_ms: u64,
    /// How often those who follow ask for the lead, and hear who has it.
    pub campaign_ms: u64,
    /// Longest time between two looks at what is due, although nothing happened: the safety net of
    /// whoever drives the core.
    pub look_ms: u64,
    /// Most workloads that may wait for a node; beyond it submissions are refused.
    pub pending_limit: usize,
    /// True while no workload of the cluster has ports or names: a rollout beside another system.
    pub shadow: bool,
    /// Key of marks for a store that has none yet, drawn at random by each process; empty: no marks.
    pub mark_key: Arc<str>,
    /// Longest time that a process which has just started waits to hear its agents before it orders
    /// anything.
    pub listen_ms: u64,
    /// Known bugs that are switched on; always none outside the proofs.
    pub zoo: Zoo,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            beat_ms: 2_000,
            beats_per_second: 400,
            lease_ms: 6_000,
            failover_grace_ms: 4_000,
            agent_down_failover_ms: 60_000,
            probe_interval_ms: 1_000,
            fence_ms: 12_000,
            exclusive_failover_ms: 30_000,
            missing_grace_ms: 15_000,
            resend_ms: 10_000,
            redeliver_ms: 1_000,
            apply_timeout_ms: 45_000,
            vm_apply_timeout_ms: 240_000,
            delete_timeout_ms: 60_000,
            status_poll_ms: 1_000,
            retry_attempts: 5,
            retry_base_ms: 5_000,
            retry_cap_ms: 120_000,
            retry_refill_ms: 600_000,
            drift_interval_ms: 30_000,
            brake_percent: 30,
            brake_window_ms: 60_000,
            leader_ttl_ms: 6_000,
            renew_ms: 700,
            campaign_ms: 1_500,
            look_ms: 5_000,
            pending_limit: 100_000,
            shadow: false,
            mark_key: Arc::from(""),
            listen_ms: 6_000,
            zoo: Zoo::NONE,
        }
    }
}

impl Settings {
    /// How often each of so many agents beats: what they cost together does not grow with them.
    pub fn beat_ms_of(&self, nodes: usize) -> u64 {
        let nodes = u64::try_from(nodes).unwrap_or(u64::MAX);
        let shared = nodes.saturating_mul(1_000) / self.beats_per_second.max(1);
        self.beat_ms.max(shared)
    }

    /// How often each of so many nodes is asked for all it holds, for the same reason.
    pub fn drift_ms_of(&self, nodes: usize) -> u64 {
        let nodes = u64::try_from(nodes).unwrap_or(u64::MAX);
        self.drift_interval_ms.max(nodes.saturating_mul(1_000) / INVENTORIES_PER_SECOND)
    }

    /// How long a beat keeps a node ready that beats this often.
    pub fn lease_ms_of(&self, beat_ms: u64) -> u64 {
        self.lease_ms.max(beat_ms.saturating_mul(3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_fleet_beats_less_often_and_is_given_more_time() {
        let settings = Settings::default();
        assert_eq!(settings.beat_ms_of(1), 2_000);
        assert_eq!(settings.beat_ms_of(800), 2_000);
        assert_eq!(settings.beat_ms_of(5_000), 12_500);
        assert_eq!(settings.drift_ms_of(1_000), 30_000);
        assert_eq!(settings.drift_ms_of(5_000), 100_000);
        assert_eq!(settings.lease_ms_of(2_000), 6_000);
        assert_eq!(settings.lease_ms_of(12_500), 37_500);
    }
}
