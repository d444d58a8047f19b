//! When to start again what has ended, and how long to wait before.
//!
//! The first restart in a row is at once, so that a crash costs a second or two; from then on each
//! wait is twice the last, so that a crash loop costs nothing. A workload that ran long enough
//! begins a new row.

use persys_model::failure::{Failure, FailureReason};
use persys_model::spec::container::RestartPolicy;
use persys_model::spec::{Kind, Spec};

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

/// What a workload that ended with `code` after `streak` restarts in a row is to do.
#[must_use]
pub fn verdict(policy: RestartPolicy, code: i32, streak: u32) -> Verdict {
    let failure = || ended(code);
    match policy {
        RestartPolicy::Always | RestartPolicy::UnlessStopped => Verdict::Again(failure()),
        RestartPolicy::No | RestartPolicy::OnFailure { .. } if code == 0 => Verdict::Complete,
        RestartPolicy::No => Verdict::GiveUp(failure()),
        RestartPolicy::OnFailure { max_retries } if max_retries > 0 && streak >= max_retries => {
            Verdict::GiveUp(failure())
        }
        RestartPolicy::OnFailure { .. } => Verdict::Again(failure()),
        RestartPolicy::AlwaysUpTo { max_retries } if streak < max_retries => {
            Verdict::Again(failure())
        }
        RestartPolicy::AlwaysUpTo { .. } if code == 0 => Verdict::Complete,
        RestartPolicy::AlwaysUpTo { .. } => Verdict::GiveUp(failure()),
    }
}

/// The failure of a workload that ended by itself.
#[must_use]
pub fn ended(code: i32) -> Failure {
    Failure::new(FailureReason::RuntimeError, &format!("exited with code {code}"))
}

/// The class of an end by itself. A machine that ends badly did not come up, or did not stay up.
#[must_use]
pub fn reason(spec: Option<&Spec>, code: i32) -> FailureReason {
    match spec.map(|spec| &spec.kind) {
        Some(Kind::Vm(_)) if code != 0 => FailureReason::VmBootFailed,
        Some(Kind::Vm(_) | Kind::Container(_) | Kind::Compose(_)) | None => {
            FailureReason::RuntimeError
        }
    }
}

/// The failure of a workload that somebody else took away.
#[must_use]
pub fn vanished() -> Failure {
    Failure::new(FailureReason::RuntimeError, "was removed from the runtime by somebody else")
}

/// The policy of a spec. Machines are to run as long as they are wanted.
#[must_use]
pub fn policy(spec: &Spec) -> RestartPolicy {
    match &spec.kind {
        Kind::Container(container) => container.restart,
        Kind::Compose(stack) => stack.restart(),
        Kind::Vm(_) => RestartPolicy::Always,
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

    #[test]
    fn each_policy_judges_good_and_bad_ends() {
        use RestartPolicy::{Always, No, OnFailure, UnlessStopped};
        let again = |code| Verdict::Again(ended(code));
        let rows = [
            (No, 0, 0, Verdict::Complete),
            (No, 3, 0, Verdict::GiveUp(ended(3))),
            (Always, 0, 9, again(0)),
            (Always, 3, 9, again(3)),
            (UnlessStopped, 0, 9, again(0)),
            (UnlessStopped, 3, 9, again(3)),
            (OnFailure { max_retries: 2 }, 0, 9, Verdict::Complete),
            (OnFailure { max_retries: 2 }, 1, 1, again(1)),
            (OnFailure { max_retries: 2 }, 1, 2, Verdict::GiveUp(ended(1))),
            (OnFailure { max_retries: 0 }, 1, 99, again(1)),
        ];
        for (policy, code, streak, wanted) in rows {
            assert_eq!(verdict(policy, code, streak), wanted, "{policy:?} {code} {streak}");
        }
    }

    #[test]
    fn waits_double_to_the_cap_and_never_wrap() {
        let waits: Vec<_> = (0..9).map(|streak| delay_ms(streak, 1_000, 60_000)).collect();
        assert_eq!(waits, [0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        assert_eq!(delay_ms(u32::MAX, 1_000, 60_000), 60_000);
    }
}
