//! Why things are as they are.

use persys_proto::compute::v1 as compute;
use persys_proto::control::v1 as wire;
use tonic::Code;

use super::find;
use crate::args::Why;
use crate::connect::Client;
use crate::problem::Problem;
use crate::shell::Shell;
use crate::show;

/// `why`.
pub(super) async fn why(shell: &Shell, wanted: &Why) -> Result<u8, Problem> {
    let node = match (wanted.subject.as_str(), wanted.name.as_deref()) {
        ("node", Some(name)) => Some(name),
        (_, Some(name)) => return Err(Problem::usage(format!("{name:?} is one word too many"))),
        (subject, None) => subject.strip_prefix("node/"),
    };
    let client = shell.client()?;
    let found = if let Some(node) = node {
        let node = find::node(&client, node).await?;
        of_node(&client, &node).await?
    } else {
        let view = find::workload(&client, &wanted.subject).await?;
        of_workload(&client, &view).await?
    };
    if shell.output().is_data() {
        shell.data(&show::compute("WhyResponse", &found))?;
    } else {
        shell.print(&show::why::text(&found, &shell.program, shell.wide()))?;
    }
    Ok(0)
}

/// The explanation of a workload; of an older scheduler what it says itself.
pub(super) async fn of_workload(
    client: &Client,
    view: &wire::WorkloadView,
) -> Result<compute::WhyResponse, Problem> {
    let id = &view.workload_id;
    let request = compute::WhyRequest { workload_id: id.clone(), ..Default::default() };
    match client.answer(client.compute().why(request)).await {
        Ok(found) => Ok(found),
        Err(status) if status.code() == Code::Unimplemented => Ok(from_view(view)),
        Err(status) => Err(client.refused(&format!("{id} cannot be explained"), &status)),
    }
}

async fn of_node(client: &Client, node: &wire::NodeView) -> Result<compute::WhyResponse, Problem> {
    let id = &node.node_id;
    let request = compute::WhyRequest { node_id: id.clone(), ..Default::default() };
    match client.answer(client.compute().why(request)).await {
        Ok(found) => Ok(found),
        Err(status) if status.code() == Code::Unimplemented => Ok(compute::WhyResponse {
            summary: format!("node {id} is {}: {}", node.status, node.status_reason),
            next: vec![format!("persys node get {id}")],
            ..Default::default()
        }),
        Err(status) => Err(client.refused(&format!("node {id} cannot be explained"), &status)),
    }
}

fn from_view(view: &wire::WorkloadView) -> compute::WhyResponse {
    let id = &view.workload_id;
    let reason = show::workload::reason(view);
    let summary = if reason.is_empty() {
        format!("{id} is {}", view.status)
    } else {
        format!("{id} is {}: {reason}", view.status)
    };
    let mut facts = Vec::new();
    if !view.assigned_node_id.is_empty() {
        facts.push(format!("its node is {}", view.assigned_node_id));
    }
    if view.retry_attempts > 0 {
        let (tried, most) = (view.retry_attempts, view.retry_max_attempts);
        facts.push(format!("{tried} of {most} attempts failed"));
    }
    let next = vec![format!("persys events --workload {id}")];
    compute::WhyResponse { summary, facts, next, ..Default::default() }
}
