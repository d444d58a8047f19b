//! What the cluster says of itself at one moment.

use persys_proto::compute::v1 as compute;
use persys_proto::control::v1 as wire;
use tonic::{Code, Status};

use super::state::Subject;
use crate::connect::Client;
use crate::problem::Problem;
use crate::show;

/// What the cluster says of itself. Who may not look at a part is told why.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Heard {
    pub(super) standing: Result<compute::StandingResponse, String>,
    pub(super) nodes: Result<Vec<wire::NodeView>, String>,
    pub(super) workloads: Result<Vec<wire::WorkloadView>, String>,
}

/// What became of asking.
#[derive(Debug, Clone)]
pub(super) enum Asked {
    Heard(Box<Heard>),
    /// Nobody answered, and why.
    Missed(Problem),
}

/// Asks for everything.
pub(super) async fn ask(client: &Client) -> Asked {
    let (mut control, mut lists, mut compute) =
        (client.control(), client.control(), client.compute());
    let (standing, nodes, workloads) = tokio::join!(
        client.answer(compute.standing(compute::StandingRequest {})),
        client.answer(control.list_nodes(wire::ListNodesRequest::default())),
        client.answer(lists.list_workloads(wire::ListWorkloadsRequest::default())),
    );
    let missed = |status: &Status| client.refused("the cluster cannot be looked at", status);
    match all(standing, nodes, workloads) {
        Ok(Heard { standing: Err(_), nodes: Err(_), workloads: Err(why) }) => {
            Asked::Missed(missed(&Status::permission_denied(why)))
        }
        Ok(heard) => Asked::Heard(Box::new(heard)),
        Err(status) => Asked::Missed(missed(&status)),
    }
}

/// All of it; or why there is no answer.
fn all(
    standing: Result<compute::StandingResponse, Status>,
    nodes: Result<wire::ListNodesResponse, Status>,
    workloads: Result<wire::ListWorkloadsResponse, Status>,
) -> Result<Heard, Status> {
    Ok(Heard {
        standing: allowed(standing)?,
        nodes: allowed(nodes)?.map(|answer| answer.nodes),
        workloads: allowed(workloads)?.map(|answer| answer.workloads),
    })
}

/// An answer, or why this caller does not get it; anything else is no answer.
fn allowed<T>(answer: Result<T, Status>) -> Result<Result<T, String>, Status> {
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(status) if matches!(status.code(), Code::PermissionDenied | Code::Unimplemented) => {
            Ok(Err(status.message().to_owned()))
        }
        Err(status) => Err(status),
    }
}

/// Why a workload or a node is as it is, in lines.
pub(super) async fn explain(client: &Client, program: &str, of: &Subject) -> Vec<String> {
    let request = match of {
        Subject::Node(id) => {
            compute::WhyRequest { node_id: id.clone(), ..compute::WhyRequest::default() }
        }
        Subject::Workload(id) => {
            compute::WhyRequest { workload_id: id.clone(), ..compute::WhyRequest::default() }
        }
    };
    let text = match client.answer(client.compute().why(request)).await {
        Ok(why) => show::why::text(&why, program, false),
        Err(status) => client
            .refused(&format!("{} cannot be explained", of.id()), &status)
            .text(program, false),
    };
    text.lines().map(str::to_owned).collect()
}
