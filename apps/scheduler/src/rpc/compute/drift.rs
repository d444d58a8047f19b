//! Where what is recorded and what nodes have differ.

use persys_cluster::world::DriftView;
use persys_model::drift::DriftKind;
use persys_model::inventory::{Held, State};
use persys_proto::compute::v1 as api;
use persys_proto::convert::time::timestamp;
use tonic::Status;

use super::Compute;
use crate::permit::Sight;
use crate::rpc::refusal::node_id;

impl Compute {
    pub(super) async fn tell_drifts(
        &self,
        request: api::ListDriftsRequest,
    ) -> Result<api::ListDriftsResponse, Status> {
        let wanted = match request.node_id.as_str() {
            "" => None,
            node => Some(node_id(node)?),
        };
        let sight = Sight::current();
        let drifts = self.handle.read(move |world| {
            let of_wanted = |view: &DriftView<'_>| {
                wanted.as_ref().is_none_or(|node| view.drift.node == *node)
                    && sight.sees_id(world, &view.drift.workload)
            };
            world.drifts().filter(of_wanted).map(|view| tell(&view)).collect()
        });
        Ok(api::ListDriftsResponse { drifts: drifts.await? })
    }
}

fn tell(view: &DriftView<'_>) -> api::Drift {
    let drift = view.drift;
    api::Drift {
        kind: drift.kind.word().to_owned(),
        node_id: drift.node.to_string(),
        workload_id: drift.workload.to_string(),
        since: Some(timestamp(drift.since)),
        ignored: drift.ignored,
        recorded: recorded(view),
        found: found(view),
        remedy: remedy(view).to_owned(),
    }
}

fn recorded(view: &DriftView<'_>) -> String {
    let Some(workload) = view.workload else { return "nothing".to_owned() };
    let phase = workload.assignment.phase.word();
    match &workload.assignment.place {
        Some(place) => format!("{phase} on {} (decision {})", place.node, place.epoch),
        None => format!("{phase}, on no node"),
    }
}

fn found(view: &DriftView<'_>) -> String {
    let epoch = view.drift.epoch;
    match view.drift.kind {
        DriftKind::MissingOnAgent => "nothing".to_owned(),
        DriftKind::RevisionMismatch | DriftKind::StateMismatch => format!("decision {epoch}"),
        DriftKind::OrphanOnAgent => match view.held {
            Some(held) => {
                let spec = if held.spec.is_some() { "" } else { ", known only by its labels" };
                format!("{} (decision {epoch}){spec}", state(held))
            }
            None => format!("decision {epoch}; its node has not told more yet"),
        },
    }
}

fn state(held: &Held) -> &'static str {
    match held.report.state {
        State::Pending => "pending",
        State::Running => "running",
        State::Paused => "paused",
        State::Unresponsive => "not responding",
        State::Restarting(_) => "restarting",
        State::Stopped => "stopped",
        State::Completed => "completed",
        State::Failed(_) => "failed",
        State::Unknown => "unknown",
    }
}

fn remedy(view: &DriftView<'_>) -> &'static str {
    match view.drift.kind {
        DriftKind::OrphanOnAgent if view.drift.ignored => "left alone, as an operator said",
        DriftKind::OrphanOnAgent => "left alone until an operator says adopt, delete or ignore",
        DriftKind::StateMismatch => "the node's word is taken",
        DriftKind::RevisionMismatch => "the node is told the present decision again",
        DriftKind::MissingOnAgent => "the node is told to run it again",
    }
}
