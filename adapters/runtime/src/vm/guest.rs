//! Health of a machine by the agent in its guest: it is healthy while that agent answers.
//!
//! A guest without an agent has no health. Whether it has one shows when it first answers, so what has answered
//! once in a boot and is silent now is unhealthy.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use persys_libvirt::Session;
use persys_model::health::HealthState;
use persys_model::id::WorkloadId;
use persys_node::input::{Existing, ImageHealth};
use tokio::time::timeout;

use super::observe::Ours;

const PING: &str = r#"{"execute":"guest-ping"}"#;
/// Seconds that libvirt waits for a guest, which runs in its own time.
const PATIENCE_S: i32 = 2;

/// Machines whose agent has answered, with the start of the boot in which it did.
#[derive(Debug, Clone, Default)]
pub(super) struct Guests(Arc<Mutex<BTreeMap<WorkloadId, u64>>>);

impl Guests {
    /// Asks the agent of one machine that runs.
    pub(super) async fn ping(&self, session: &Session, ours: &Ours) -> Option<ImageHealth> {
        if ours.existing() != Existing::Running {
            return None;
        }
        let limit = Duration::from_secs(u64::from(PATIENCE_S.unsigned_abs()) + 1);
        let asked = timeout(limit, session.agent(&ours.domain, PING, PATIENCE_S)).await;
        let answer = match asked {
            Ok(Ok(_)) => true,
            Ok(Err(said)) if said.refusal().is_some() => false,
            Err(_) => false,
            // libvirt itself does not answer: that says nothing of the guest.
            Ok(Err(_)) => return None,
        };
        self.judge(&ours.mark.workload, ours.record.started_ms.unwrap_or_default(), answer)
    }

    fn judge(&self, workload: &WorkloadId, boot: u64, answers: bool) -> Option<ImageHealth> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if answers {
            known.insert(workload.clone(), boot);
            return Some(ImageHealth::of_one(HealthState::Healthy, ""));
        }
        let answered = known.get(workload) == Some(&boot);
        answered.then(|| {
            ImageHealth::of_one(HealthState::Unhealthy, "the agent in the guest does not answer")
        })
    }

    /// Forgets machines that are not among `all`.
    pub(super) fn keep(&self, all: &[Ours]) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|workload, _| all.iter().any(|ours| ours.mark.workload == *workload));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_guest_that_has_answered_in_this_boot_can_be_silent() {
        let (guests, id) = (Guests::default(), WorkloadId::fixed("box"));
        let state = |answers, boot| guests.judge(&id, boot, answers).map(|health| health.state);
        assert_eq!(state(false, 1), None, "it may have no agent");
        assert_eq!(state(true, 1), Some(HealthState::Healthy));
        assert_eq!(state(false, 1), Some(HealthState::Unhealthy));
        assert_eq!(state(false, 2), None, "it boots");
        assert_eq!(state(true, 2), Some(HealthState::Healthy));
    }
}
