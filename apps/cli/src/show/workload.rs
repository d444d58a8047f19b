//! Workloads in a list.

use std::time::SystemTime;

use persys_model::assignment::UpdateState;
use persys_model::health::HealthState;
use persys_proto::control::v1::WorkloadView;
use persys_proto::convert::report;

use super::moment::age;
use super::table::{or_dash, short, table};

/// Letters of a reason in a list that is not wide.
const REASON: usize = 60;

/// What stands under status.
pub(crate) fn status(view: &WorkloadView) -> String {
    let mut status = view.status.clone();
    if view.uncertain {
        status.push_str(" (node silent)");
    }
    if let Some(health) = health(view) {
        status.extend([format!(" ({health})")]);
    }
    if let Some(update) = update(view) {
        status.extend([format!(" ({update})")]);
    }
    if view.shadow {
        status.push_str(" (shadow)");
    }
    if view.restarts > 0 && ["Running", "Restarting"].contains(&view.status.as_str()) {
        let times = if view.restarts == 1 { "restart" } else { "restarts" };
        status.extend([format!(" ({} {times})", view.restarts)]);
    }
    status
}

/// The verdict of its health checks, as it stands beside the status.
pub(crate) fn health(view: &WorkloadView) -> Option<&'static str> {
    let all = HealthState::ALL.into_iter();
    all.filter(|state| state.word() == view.health).map(HealthState::text).next()
}

/// The state of its update, as it stands beside the status.
pub(crate) fn update(view: &WorkloadView) -> Option<&'static str> {
    let all = UpdateState::ALL.into_iter();
    all.filter(|state| state.word() == view.update_state).map(UpdateState::text).next()
}

/// `pulling image, 34 of 80 MiB`, while its image is pulled.
pub(crate) fn pull(view: &WorkloadView) -> Option<String> {
    view.pull.as_ref().map(|pull| report::fetched(pull).to_string())
}

/// Why it is as it is, in a sentence; empty where the status says all.
pub(crate) fn reason(view: &WorkloadView) -> String {
    if let Some(pull) = pull(view) {
        return pull;
    }
    let reason = view.reason.as_ref();
    let message = reason.map(|reason| reason.message.as_str()).unwrap_or_default();
    let failed = view.update_state == "UpdateFailed" && view.status == "Running";
    let unhealthy = view.health == HealthState::Unhealthy.word() && view.status == "Running";
    let message = match (failed, unhealthy) {
        (true, _) => view.update_message.as_str(),
        (false, true) => view.health_message.lines().next().unwrap_or_default(),
        (false, false) => message,
    };
    let text = if view.why.is_empty() { message } else { view.why.as_str() };
    let settled = ["Running", "Stopped", "Completed"].contains(&view.status.as_str());
    let code = reason.map(|reason| reason.code.as_str()).unwrap_or_default();
    match (view.failure_reason.as_str(), text) {
        ("", "") if settled => String::new(),
        ("", "") => code.to_owned(),
        ("", text) => text.to_owned(),
        (failure, "") => failure.to_owned(),
        (failure, text) if text.contains(failure) => text.to_owned(),
        (failure, text) => format!("{failure}: {text}"),
    }
}

/// The list, under a note of the scheduler about it.
pub(crate) fn list(views: &[WorkloadView], note: &str, (wide, now): (bool, SystemTime)) -> String {
    let note = if note.is_empty() { String::new() } else { format!("{note}\n") };
    if views.is_empty() {
        return if note.is_empty() { "there are no workloads\n".to_owned() } else { note };
    }
    let mut header = vec!["ID", "TYPE", "STATUS", "NODE", "AGE"];
    if wide {
        header.extend(["WANTED", "REVISION", "TRIES", "CHANGED"]);
    }
    header.push("WHY");
    let row = |view: &WorkloadView| {
        let mut row = vec![
            view.workload_id.clone(),
            view.r#type.clone(),
            status(view),
            or_dash(&view.assigned_node_id),
            age(view.created_at.as_ref(), now),
        ];
        if wide {
            row.extend([
                view.desired_state.clone(),
                short(&view.revision_id, 20),
                format!("{}/{}", view.retry_attempts, view.retry_max_attempts),
                age(view.last_updated.as_ref(), now),
            ]);
        }
        let why = reason(view);
        row.push(if wide { why } else { short(&why, REASON) });
        row
    };
    note + &table(&header, views.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use persys_proto::control::v1::ReasonDetail;
    use prost_types::Timestamp;

    use super::*;

    fn view(id: &str, status: &str) -> WorkloadView {
        WorkloadView {
            workload_id: id.to_owned(),
            r#type: "container".to_owned(),
            desired_state: "Running".to_owned(),
            status: status.to_owned(),
            revision_id: "r1".to_owned(),
            retry_max_attempts: 5,
            created_at: Some(Timestamp { seconds: 100, nanos: 0 }),
            ..WorkloadView::default()
        }
    }

    #[test]
    fn a_list_says_what_where_and_why() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(160);
        let reason = ReasonDetail {
            code: "NoNodeFits".to_owned(),
            message: "no node fits".to_owned(),
            ..ReasonDetail::default()
        };
        let views = [
            WorkloadView {
                assigned_node_id: "n1".to_owned(),
                restarts: 2,
                ..view("web", "Running")
            },
            WorkloadView { reason: Some(reason), ..view("db", "Pending") },
            WorkloadView { failure_reason: "IMAGE_NOT_FOUND".to_owned(), ..view("x", "Failed") },
        ];
        assert_eq!(
            list(&views, "", (false, now)),
            "ID   TYPE       STATUS                NODE  AGE  WHY\n\
             web  container  Running (2 restarts)  n1    60s\n\
             db   container  Pending               -     60s  no node fits\n\
             x    container  Failed                -     60s  IMAGE_NOT_FOUND\n"
        );
        let wide = list(&views, "", (true, now));
        assert!(wide.starts_with("ID   TYPE       STATUS                NODE  AGE  WANTED   REVISION  TRIES  CHANGED  WHY\n"), "{wide}");
        assert_eq!(list(&[], "", (false, now)), "there are no workloads\n");
        let note = "the control plane is in recovery";
        assert_eq!(list(&[], note, (false, now)), format!("{note}\n"), "nothing is claimed");
        assert!(list(&views, note, (false, now)).starts_with(&format!("{note}\nID ")));
    }
}
