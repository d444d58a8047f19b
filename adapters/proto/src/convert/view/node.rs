//! A node as it is shown.

use persys_cluster::world::NodeView;
use persys_model::labels::{Taint, TaintEffect};
use persys_model::node::{Condition, total_gib};
use persys_model::time::WallMillis;

use crate::control::v1 as wire;
use crate::convert::leaf::{number_of, signed, texts};
use crate::convert::register::missing_to_wire;
use crate::convert::time::timestamp;

/// The node on the wire. When it last beat, and the version of its agent, are known to whoever
/// receives beats, not to the record.
#[must_use]
pub fn to_wire(view: &NodeView<'_>, last_beat: Option<WallMillis>) -> wire::NodeView {
    let node = view.node;
    let (reason, by) = status_reason(view);
    wire::NodeView {
        node_id: node.facts.id.to_string(),
        status: node.status_word().to_owned(),
        status_reason: reason,
        status_updated_by: by.to_owned(),
        status_updated_at: Some(timestamp(node.since)),
        last_heartbeat: last_beat.map(timestamp),
        grpc_endpoint: node.facts.endpoint.to_string(),
        total_cpu_cores: cores(node.facts.capacity.cpu_millicores),
        available_cpu_cores: cores(view.free.cpu_millicores),
        total_memory_mb: signed(node.facts.capacity.memory_mib),
        available_memory_mb: signed(view.free.memory_mib),
        supported_workload_types: node.facts.types.iter().map(|t| t.word().to_owned()).collect(),
        labels: texts(&node.effective_labels()),
        taints: node.taints.iter().map(taint).collect(),
        condition: condition(node.condition).to_owned(),
        workloads: number_of(view.workloads),
        used_cpu_cores: cores(view.used.cpu_millicores),
        used_memory_mb: signed(view.used.memory_mib),
        used_disk_gb: signed(view.used_disk_gib),
        missing_runtimes: missing_to_wire(&node.facts.missing),
        fence_available: node.facts.fence,
        total_disk_gb: signed(total_gib(&node.facts.pools)),
        available_disk_gb: signed(view.free_disk_gib),
        agent_version: String::new(),
    }
}

/// The word for a condition.
#[must_use]
pub fn condition(condition: Condition) -> &'static str {
    match condition {
        Condition::Ready => "Ready",
        Condition::NotReady => "NotReady",
        Condition::Lost => "Lost",
    }
}

/// Why the node is as it is, and who found that.
fn status_reason(view: &NodeView<'_>) -> (String, &'static str) {
    let node = view.node;
    match (node.condition, &node.drain) {
        (Condition::Lost, _) => {
            ("heartbeat expired and the node answers no probe".to_owned(), "monitor")
        }
        (Condition::NotReady, _) => ("heartbeat expired".to_owned(), "monitor"),
        (Condition::Ready, Some(why)) if why.is_empty() => ("draining".to_owned(), "operator"),
        (Condition::Ready, Some(why)) => (why.to_string(), "operator"),
        (Condition::Ready, None) => ready_reason(view),
    }
}

fn ready_reason(view: &NodeView<'_>) -> (String, &'static str) {
    if let Some(why) = view.unreachable {
        return (format!("orders cannot be delivered: {why}"), "reconciler");
    }
    if let Some((kind, why)) = view.down.first_key_value() {
        return (format!("{} cannot be run: {why}", kind.word()), "heartbeat");
    }
    (view.busy.unwrap_or("keeps its lease").to_owned(), "heartbeat")
}

/// Cores, as clients show them. No machine comes near the end of the smaller type.
fn cores(millicores: u64) -> f64 {
    f64::from(u32::try_from(millicores).unwrap_or(u32::MAX)) / 1000.0
}

/// A taint on the wire.
#[must_use]
pub fn taint(taint: &Taint) -> wire::NodeTaint {
    wire::NodeTaint {
        key: taint.key.to_string(),
        value: taint.value.to_string(),
        effect: effect(taint.effect).to_owned(),
    }
}

/// The word for an effect.
#[must_use]
pub fn effect(effect: TaintEffect) -> &'static str {
    match effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
    }
}
