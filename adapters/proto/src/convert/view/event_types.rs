//! Types of events, as filters name them.

/// Every type an event can have.
pub const TYPES: [&str; 52] = [
    "ChangeRequested",
    "DiskAttached",
    "DiskAvailable",
    "DiskDeleted",
    "DiskDeleting",
    "DiskError",
    "DiskPending",
    "DiskProvisioning",
    "DiskReleased",
    "DiskRetained",
    "DriftDetected",
    "DriftResolved",
    "FailoverHeld",
    "FailoverReleased",
    "NodeConfirmedGone",
    "NodeDraining",
    "NodeJoined",
    "NodeLabelDeleted",
    "NodeLabelSet",
    "NodeLeft",
    "NodeLost",
    "NodeNotReady",
    "NodeReady",
    "NodeTainted",
    "NodeTrouble",
    "NodeTroubleEnded",
    "NodeUntainted",
    "Rescheduled",
    "RetryScheduled",
    "RetryTriggered",
    "SchedulerModeChanged",
    "SecretChanged",
    "ShadowEntered",
    "ShadowLeft",
    "WorkloadCompleted",
    "WorkloadDelayed",
    "WorkloadDeleted",
    "WorkloadDeleting",
    "WorkloadFailed",
    "WorkloadHealthStarting",
    "WorkloadHealthy",
    "WorkloadNotResponding",
    "WorkloadPaused",
    "WorkloadPending",
    "WorkloadRestarting",
    "WorkloadRunning",
    "WorkloadScheduled",
    "WorkloadStopped",
    "WorkloadStopping",
    "WorkloadSubmitted",
    "WorkloadUnhealthy",
    "WorkloadUpdateFailed",
];

/// The fault of a filter by type, if no event has that type. The case of letters does not matter.
///
/// # Errors
///
/// A sentence that lists the types of what the filter seems to be about.
pub fn check(kind: &str) -> Result<(), String> {
    if kind.is_empty() || TYPES.iter().any(|one| one.eq_ignore_ascii_case(kind)) {
        return Ok(());
    }
    let mut near: Vec<&str> = TYPES.iter().copied().filter(|one| is_near(one, kind)).collect();
    if near.is_empty() {
        near = TYPES.to_vec();
    }
    Err(format!("type: there is no event type {kind:?}; there are {}", near.join(", ")))
}

/// True if both begin alike.
fn is_near(one: &str, typed: &str) -> bool {
    let begin: String = typed.chars().take(4).collect::<String>().to_ascii_lowercase();
    begin.len() >= 4 && one.to_ascii_lowercase().starts_with(&begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_nobody_knows_is_refused_with_those_it_may_mean() {
        assert_eq!(check(""), Ok(()));
        assert_eq!(check("nodelost"), Ok(()));
        let why = check("NodeGone").unwrap_err();
        assert!(why.contains("\"NodeGone\"") && why.contains("NodeLost"), "{why}");
        assert!(!why.contains("DiskError"), "{why}");
        let why = check("nonsense").unwrap_err();
        assert!(TYPES.iter().all(|one| why.contains(one)), "{why}");
    }
}
