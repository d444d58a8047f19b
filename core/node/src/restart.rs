//! When to start again what has ended, and how long to wait before.
//!
//! The first restart in a row is at once, so that a crash costs a second or two; from then on each
//! wait is twice the last, so that a crash loop costs nothing. A workload that ran long enough
//! begins a new row.

use persys_model::failure::{Failure, FailureReason, FailureStage};
use persys_model::spec::container::RestartPolicy;
use persys_model::spec::{Kind, Spec};

use crate::decide::Rule;
use crate::settings::AgentSettings;

/// What an end means under a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is finished and stays so.
    Complete,
    /// It failed and stays so.
    GiveUp(Failure),
    /// It is started again.
    Again(Failure),
}

/// Restarts so far, counted in the two ways that limits are given in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Restarts {
    /// All under this decision, in every life of the agent.
    pub total: u32,
    /// Those since it last ran long enough to count as well, as far as this life knows.
    pub in_row: u32,
}

/// Judges an end with `code` under a policy. A limit of `on-failure` counts every restart, because a
/// job may run for hours before it fails; one of `always` and `unless-stopped` counts restarts in a row,
/// because a service that crashes once a month is well.
#[must_use]
pub fn verdict(policy: RestartPolicy, code: i32, so_far: Restarts) -> Verdict {
    let failure = || ended(code);
    match policy {
        RestartPolicy::Always | RestartPolicy::UnlessStopped => Verdict::Again(failure()),
        RestartPolicy::No | RestartPolicy::OnFailure { .. } if code == 0 => Verdict::Complete,
        RestartPolicy::No => Verdict::GiveUp(failure()),
        RestartPolicy::OnFailure { max_retries }
            if max_retries > 0 && so_far.total >= max_retries =>
        {
            Verdict::GiveUp(failure())
        }
        RestartPolicy::OnFailure { .. } => Verdict::Again(failure()),
        RestartPolicy::AlwaysUpTo { max_retries } if so_far.in_row < max_retries => {
            Verdict::Again(failure())
        }
        RestartPolicy::AlwaysUpTo { .. } if code == 0 => Verdict::Complete,
        RestartPolicy::AlwaysUpTo { .. } => Verdict::GiveUp(failure()),
    }
}

/// True if a service of a stack that ended with `code`, after so many restarts of its own, is started
/// again by its own policy. A limit of `always` counts restarts of the whole stack in a row, and is left
/// to the rule of the stack.
#[must_use]
pub fn service_again(policy: RestartPolicy, code: i32, restarts: u32) -> bool {
    let so_far = Restarts { total: restarts, in_row: 0 };
    match verdict(policy, code, so_far) {
        Verdict::Again(_) => true,
        Verdict::Complete | Verdict::GiveUp(_) => false,
    }
}

/// Judges the end of a machine. It runs as long as it is wanted, unless its first `boots` boots in a row
/// fail: then more of them will not help.
#[must_use]
pub fn machine_verdict(end: MachineEnd, code: i32, so_far: Restarts, boots: u32) -> Verdict {
    match end {
        MachineEnd::Boot if so_far.in_row.saturating_add(1) >= boots.max(1) => {
            Verdict::GiveUp(ended(code))
        }
        MachineEnd::Boot | MachineEnd::Later => Verdict::Again(ended(code)),
    }
}

/// The moment in which a machine ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineEnd {
    /// The guest crashed or found nothing to boot within the boot window.
    Boot,
    /// Any other end: it was powered off, ended from outside, or crashed after it had run for long.
    Later,
}

/// Exit code of a machine whose guest or emulator crashed, or which found nothing to boot. Machines
/// that were ended from outside, or whose end nobody saw, have others.
pub const MACHINE_CRASHED: i32 = 1;

/// The failure of a workload whose program ran and ended.
#[must_use]
pub fn ended(code: i32) -> Failure {
    Failure::new(FailureReason::RuntimeError, &format!("exited with code {code}"))
        .in_stage(FailureStage::Run)
}

/// The failure of a workload that somebody else took away.
#[must_use]
pub fn vanished() -> Failure {
    Failure::new(FailureReason::RuntimeError, "was removed from the runtime by somebody else")
}

/// The rule for a workload that ended with `code`. `ran_ms` is how long it ran, if this life saw it run.
#[must_use]
pub fn rule(spec: &Spec, code: i32, ran_ms: Option<u64>, settings: &AgentSettings) -> Rule {
    match &spec.kind {
        Kind::Container(container) => Rule::Policy(container.restart),
        Kind::Compose(stack) => Rule::Policy(stack.restart()),
        Kind::Vm(_) => {
            let at_boot = ran_ms.is_some_and(|ran| ran < settings.boot_window_ms);
            let end = if code == MACHINE_CRASHED && at_boot {
                MachineEnd::Boot
            } else {
                MachineEnd::Later
            };
            Rule::Machine { end, boots: settings.boot_attempts }
        }
    }
}

/// The reason of an end under a rule.
#[must_use]
pub fn reason(rule: Rule) -> FailureReason {
    match rule {
        Rule::Machine { end: MachineEnd::Boot, .. } => FailureReason::VmBootFailed,
        Rule::Machine { end: MachineEnd::Later, .. } | Rule::Policy(_) => {
            FailureReason::RuntimeError
        }
    }
}

/// How long to wait after `streak` tries in a row: nothing, then `base_ms` doubling to `cap_ms`.
#[must_use]
pub fn delay_ms(streak: u32, base_ms: u64, cap_ms: u64) -> u64 {
    match streak.checked_sub(1) {
        None => 0,
        Some(doublings) => {
            let factor = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
            base_ms.saturating_mul(factor).min(cap_ms)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(total: u32, in_row: u32) -> Restarts {
        Restarts { total, in_row }
    }

    #[test]
    fn each_policy_judges_good_and_bad_ends() {
        use RestartPolicy::{Always, AlwaysUpTo, No, OnFailure, UnlessStopped};
        let again = |code| Verdict::Again(ended(code));
        let over = |code| Verdict::GiveUp(ended(code));
        let (first, many) = (counted(0, 0), counted(9, 9));
        let two = OnFailure { max_retries: 2 };
        let up_to = AlwaysUpTo { max_retries: 2 };
        let rows = [
            (No, 0, first, Verdict::Complete),
            (No, 3, first, over(3)),
            (Always, 0, many, again(0)),
            (Always, 3, many, again(3)),
            (UnlessStopped, 0, many, again(0)),
            (UnlessStopped, 3, many, again(3)),
            (two, 0, many, Verdict::Complete),
            (two, 1, counted(1, 1), again(1)),
            (two, 1, counted(2, 2), over(1)),
            (two, 1, counted(2, 0), over(1)),
            (OnFailure { max_retries: 0 }, 1, many, again(1)),
            (up_to, 1, counted(9, 1), again(1)),
            (up_to, 1, counted(9, 2), over(1)),
            (up_to, 0, counted(9, 2), Verdict::Complete),
        ];
        for (policy, code, so_far, wanted) in rows {
            assert_eq!(verdict(policy, code, so_far), wanted, "{policy:?} {code} {so_far:?}");
        }
    }

    #[test]
    fn a_machine_fails_only_by_boots_in_a_row() {
        let judge = |end, in_row| machine_verdict(end, 1, counted(40, in_row), 3);
        assert_eq!(judge(MachineEnd::Boot, 0), Verdict::Again(ended(1)));
        assert_eq!(judge(MachineEnd::Boot, 1), Verdict::Again(ended(1)));
        assert_eq!(judge(MachineEnd::Boot, 2), Verdict::GiveUp(ended(1)));
        assert_eq!(judge(MachineEnd::Later, 9), Verdict::Again(ended(1)));
    }

    #[test]
    fn waits_double_to_the_cap_and_never_wrap() {
        let waits: Vec<_> = (0..9).map(|streak| delay_ms(streak, 1_000, 60_000)).collect();
        assert_eq!(waits, [0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        assert_eq!(delay_ms(u32::MAX, 1_000, 60_000), 60_000);
    }
}
