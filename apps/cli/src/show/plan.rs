//! What a way out of recovery would do.

use persys_proto::compute::v1::{RecoveryPlan, WorkloadCopy};

use super::table::clean;

/// Lines of one kind that are shown.
const LISTED: usize = 200;

/// The plan as a person reads it.
pub(crate) fn text(way: &str, plan: &RecoveryPlan) -> String {
    let mut text = String::new();
    let nodes = |names: &[String]| {
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    part(&mut text, "nodes heard", &[nodes(&plan.heard)]);
    if !plan.missing.is_empty() {
        let note = "what they hold is not in this plan: wait for them, or go on without";
        part(&mut text, "nodes not heard yet", &[format!("{}  ({note})", nodes(&plan.missing))]);
    }
    let on = |copies: &[WorkloadCopy], word: &str| -> Vec<String> {
        let line = |copy: &WorkloadCopy| format!("{} {word} {}", copy.workload_id, copy.node_id);
        copies.iter().map(line).collect()
    };
    let basis = if way == "from_snapshot" { "the snapshot" } else { "the store" };
    section(&mut text, &format!("stay as {basis} has them"), &plan.kept);
    section(&mut text, "are restored", &on(&plan.restored, "from"));
    section(&mut text, "were deleted since", &on(&plan.deleted, "as proven by"));
    section(&mut text, "are known no more", &plan.dropped);
    section(&mut text, "are copies out of place and go later", &on(&plan.superseded, "on"));
    section(&mut text, "are known only by their labels", &on(&plan.without_spec, "on"));
    section(
        &mut text,
        "run on as something nobody knows (`drift adopt` takes them over)",
        &on(&plan.orphans, "on"),
    );
    section(&mut text, "conflicts", &plan.conflicts);
    section(&mut text, "records of the snapshot cannot be read", &plan.unreadable);
    text
}

fn section(text: &mut String, title: &str, lines: &[String]) {
    if !lines.is_empty() {
        part(text, &format!("{} {title}", lines.len()), lines);
    }
}

fn part(text: &mut String, title: &str, lines: &[String]) {
    text.push_str(title);
    text.push_str(":\n");
    for line in lines.iter().take(LISTED) {
        text.extend(["  ", &clean(line), "\n"]);
    }
    if lines.len() > LISTED {
        text.extend([format!("  and {} more; -o json lists all\n", lines.len() - LISTED)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_says_everything_once() {
        let copy = |workload: &str, node: &str| WorkloadCopy {
            workload_id: workload.to_owned(),
            node_id: node.to_owned(),
        };
        let plan = RecoveryPlan {
            restored: vec![copy("web", "n1")],
            orphans: vec![copy("odd", "n1")],
            conflicts: vec!["web: a\u{1b}b".to_owned()],
            heard: vec!["n1".to_owned()],
            missing: vec!["n2".to_owned()],
            ..RecoveryPlan::default()
        };
        assert_eq!(
            text("from_agents", &plan),
            "nodes heard:\n  n1\n\
             nodes not heard yet:\n  n2  (what they hold is not in this plan: wait for them, or go on without)\n\
             1 are restored:\n  web from n1\n\
             1 run on as something nobody knows (`drift adopt` takes them over):\n  odd on n1\n\
             1 conflicts:\n  web: a b\n"
        );
        let many = RecoveryPlan { kept: vec!["x".to_owned(); 201], ..RecoveryPlan::default() };
        let text = text("from_snapshot", &many);
        assert!(text.contains("201 stay as the snapshot has them:"), "{text}");
        assert!(text.ends_with("  and 1 more; -o json lists all\n"), "{text}");
    }
}
