//! What happened, a line each.

use persys_proto::control::v1::SchedulerEventView;

use super::moment::clock;
use super::table::clean;

/// One event as a line, without its end.
pub(crate) fn line(event: &SchedulerEventView) -> String {
    let subject = match (event.workload_id.as_str(), event.node_id.as_str()) {
        ("", "") => "cluster".to_owned(),
        ("", node) => format!("node/{node}"),
        (workload, "") => workload.to_owned(),
        (workload, node) => format!("{workload} on {node}"),
    };
    let line = format!(
        "{}  {:<20}  {subject}: {}{}",
        clock(event.timestamp.as_ref()),
        event.r#type,
        event.reason,
        author(event)
    );
    clean(&line)
}

/// Who asked for it and why, where somebody did.
fn author(event: &SchedulerEventView) -> String {
    match (event.details.get("by"), event.details.get("because")) {
        (None, _) => String::new(),
        (Some(who), None) => format!(" (by {who})"),
        (Some(who), Some(why)) => format!(" (by {who}: {why})"),
    }
}

/// What an event means for somebody who waits for one workload; `None` for what is no news.
pub(crate) fn progress(event: &SchedulerEventView) -> Option<String> {
    let node = &event.node_id;
    let reason = &event.reason;
    let because = |text: &str| {
        let plain = event.details.get("code").map(String::as_str) == Some(reason.as_str());
        if reason.is_empty() || plain { text.to_owned() } else { format!("{text}: {reason}") }
    };
    let text = match event.r#type.as_str() {
        "WorkloadSubmitted" => "accepted".to_owned(),
        "WorkloadScheduled" if node.is_empty() => "starting".to_owned(),
        "WorkloadScheduled" => format!("placed on node {node}; fetching and starting it"),
        "WorkloadRunning" => format!("started on node {node}"),
        "WorkloadPending" => because("no node takes it yet"),
        "Rescheduled" => because("leaves its node"),
        "WorkloadRestarting" => because("ended and is started again"),
        "RetryScheduled" => because("an attempt failed"),
        "RetryTriggered" => "is tried again".to_owned(),
        "WorkloadFailed" => because("failed"),
        "WorkloadStopping" => "stopping".to_owned(),
        "WorkloadStopped" => "stopped".to_owned(),
        "WorkloadCompleted" => "ran to its end".to_owned(),
        "WorkloadDeleting" => "being removed from its node".to_owned(),
        "WorkloadDeleted" => "gone".to_owned(),
        _ => return None,
    };
    Some(clean(&text))
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;

    #[test]
    fn events_are_told_as_lines() {
        let event = SchedulerEventView {
            r#type: "WorkloadScheduled".to_owned(),
            workload_id: "web".to_owned(),
            node_id: "n1".to_owned(),
            reason: "Placed".to_owned(),
            timestamp: Some(Timestamp { seconds: 0, nanos: 0 }),
            ..SchedulerEventView::default()
        };
        assert_eq!(line(&event), "1970-01-01T00:00:00Z  WorkloadScheduled     web on n1: Placed");
        assert_eq!(
            progress(&event).as_deref(),
            Some("placed on node n1; fetching and starting it")
        );
        let failed = SchedulerEventView {
            r#type: "WorkloadFailed".to_owned(),
            reason: "exit 1\u{1b}".to_owned(),
            ..SchedulerEventView::default()
        };
        assert_eq!(progress(&failed).as_deref(), Some("failed: exit 1 "));
        let drift = SchedulerEventView { r#type: "DriftDetected".to_owned(), ..failed };
        assert_eq!(progress(&drift), None);
    }
}
