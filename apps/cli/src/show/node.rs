//! Nodes.

use std::time::SystemTime;

use persys_proto::control::v1::{NodeTaint, NodeView};

use super::moment::{age, clock};
use super::table::{or_dash, pairs, table};

/// Cores, without zeros at the end.
pub(crate) fn cores(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// An amount of memory.
pub(crate) fn gib(mib: i64) -> String {
    if mib.abs() < 10 * 1024 { format!("{mib}Mi") } else { format!("{}Gi", mib / 1024) }
}

fn taint(taint: &NodeTaint) -> String {
    let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
    format!("{}{value}:{}", taint.key, taint.effect)
}

/// What stands under status.
pub(crate) fn status(node: &NodeView) -> String {
    if node.condition.is_empty() || node.condition == node.status || node.status == "Draining" {
        node.status.clone()
    } else {
        format!("{} ({})", node.status, node.condition.to_lowercase())
    }
}

/// The list.
pub(crate) fn list(nodes: &[NodeView], wide: bool, now: SystemTime) -> String {
    if nodes.is_empty() {
        return "there are no nodes\n".to_owned();
    }
    let mut header =
        vec!["NODE", "STATUS", "WORKLOADS", "CPU FREE", "MEMORY FREE", "RUNS", "HEARD"];
    if wide {
        header.extend(["ENDPOINT", "LABELS", "TAINTS", "WHY"]);
    }
    let row = |node: &NodeView| {
        let mut row = vec![
            node.node_id.clone(),
            status(node),
            node.workloads.to_string(),
            format!("{}/{}", cores(node.available_cpu_cores), cores(node.total_cpu_cores)),
            format!("{}/{}", gib(node.available_memory_mb), gib(node.total_memory_mb)),
            or_dash(&node.supported_workload_types.join(",")),
            age(node.last_heartbeat.as_ref(), now),
        ];
        if wide {
            let labels: Vec<_> = node.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
            let taints: Vec<_> = node.taints.iter().map(taint).collect();
            row.extend([
                node.grpc_endpoint.clone(),
                or_dash(&labels.join(",")),
                or_dash(&taints.join(",")),
                node.status_reason.clone(),
            ]);
        }
        row
    };
    table(&header, nodes.iter().map(row).collect())
}

/// One node, whole.
pub(crate) fn whole(node: &NodeView, now: SystemTime) -> String {
    let labels: Vec<_> = node.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let taints: Vec<_> = node.taints.iter().map(taint).collect();
    pairs(&[
        ("node", node.node_id.clone()),
        ("status", status(node)),
        ("why", node.status_reason.clone()),
        ("since", clock(node.status_updated_at.as_ref())),
        ("heard", format!("{} ago", age(node.last_heartbeat.as_ref(), now))),
        ("endpoint", node.grpc_endpoint.clone()),
        ("agent", node.agent_version.clone()),
        ("workloads", node.workloads.to_string()),
        (
            "cpu",
            format!(
                "{} cores, {} not reserved, {} in use",
                cores(node.total_cpu_cores),
                cores(node.available_cpu_cores),
                cores(node.used_cpu_cores)
            ),
        ),
        (
            "memory",
            format!(
                "{}, {} not reserved, {} in use",
                gib(node.total_memory_mb),
                gib(node.available_memory_mb),
                gib(node.used_memory_mb)
            ),
        ),
        ("runs", node.supported_workload_types.join(", ")),
        ("labels", labels.join("\n")),
        ("taints", taints.join("\n")),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_stand_in_columns() {
        let node = NodeView {
            node_id: "n1".to_owned(),
            status: "NotReady".to_owned(),
            condition: "Lost".to_owned(),
            total_cpu_cores: 4.0,
            available_cpu_cores: 3.9,
            total_memory_mb: 16 * 1024,
            available_memory_mb: 512,
            supported_workload_types: vec!["container".to_owned()],
            ..NodeView::default()
        };
        assert_eq!(
            list(std::slice::from_ref(&node), false, SystemTime::UNIX_EPOCH),
            "NODE  STATUS           WORKLOADS  CPU FREE  MEMORY FREE  RUNS       HEARD\n\
             n1    NotReady (lost)  0          3.9/4     512Mi/16Gi   container  -\n"
        );
        let whole = whole(&node, SystemTime::UNIX_EPOCH);
        assert!(whole.contains("cpu        4 cores, 3.9 not reserved, 0 in use\n"), "{whole}");
    }
}
