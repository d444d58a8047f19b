//! The cluster in ten numbers.
//!
//! Each workload is counted under one heading or none: `deleted` is what is on its way out, and
//! what rests or has completed is in the total alone.

use persys_cluster::world::{NodeView, WorkloadView};
use persys_model::health::HealthState;
use persys_model::node::Condition;
use persys_model::phase::Phase;
use persys_model::time::WallMillis;
use persys_model::workload::Desired;

use crate::control::v1::GetClusterSummaryResponse;
use crate::convert::time::timestamp;

/// Counts nodes and workloads. A draining node is ready.
pub fn to_wire<'a>(
    nodes: impl Iterator<Item = NodeView<'a>>,
    workloads: impl Iterator<Item = WorkloadView<'a>>,
    now: WallMillis,
) -> GetClusterSummaryResponse {
    let mut summary = GetClusterSummaryResponse {
        generated_at: Some(timestamp(now)),
        ..GetClusterSummaryResponse::default()
    };
    for view in nodes {
        more(&mut summary.total_nodes);
        match view.node.condition {
            Condition::Ready => more(&mut summary.ready_nodes),
            Condition::NotReady | Condition::Lost => more(&mut summary.not_ready_nodes),
        }
    }
    for view in workloads {
        more(&mut summary.total_workloads);
        if view.shadow {
            more(&mut summary.shadow_workloads);
        }
        let health = view.assignment.health.as_ref().map(|known| known.health.state);
        if health == Some(HealthState::Unhealthy) {
            more(&mut summary.unhealthy_workloads);
        }
        match view.assignment.phase {
            _ if view.workload.desired == Desired::Deleted => more(&mut summary.deleted_workloads),
            Phase::Deleting => more(&mut summary.deleted_workloads),
            Phase::Running | Phase::Paused | Phase::Unresponsive | Phase::Restarting => {
                more(&mut summary.running_workloads);
            }
            Phase::Pending | Phase::Starting | Phase::Backoff => {
                more(&mut summary.pending_workloads);
            }
            Phase::Failed => more(&mut summary.failed_workloads),
            Phase::Stopping | Phase::Stopped | Phase::Completed => {}
        }
    }
    summary
}

fn more(count: &mut i32) {
    *count = count.saturating_add(1);
}
