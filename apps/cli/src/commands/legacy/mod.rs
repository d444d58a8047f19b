//! Commands as older versions spell them: their options, their JSON; the exit code tells the
//! truth.

mod agent;
mod apply;
mod shapes;

use persys_model::id::{NodeId, WorkloadId};
use persys_proto::control::v1 as wire;
use persys_proto::json::{self, Message, Style};
use serde_json::Value;

use super::{find, lifecycle, look};
use crate::args::{LegacyGroup, SchedulerCommand, WorkloadCommand};
use crate::connect::Client;
use crate::problem::{ERROR, Problem};
use crate::shell::Shell;
use crate::wait::judge::{Goal, Verdict};
use crate::wait::{self, Ended};

/// All of them.
pub(super) async fn run(shell: &Shell, group: LegacyGroup) -> Result<u8, Problem> {
    if let LegacyGroup::Agent(group) = group {
        return Box::pin(agent::run(shell, group)).await;
    }
    if shell.settings.target.as_ref().is_some_and(|target| target.value == "agent") {
        return Err(Problem::usage("this is asked of the scheduler, not of an agent")
            .next("persys agent --help"));
    }
    match group {
        LegacyGroup::Workload(command) => Box::pin(workload(shell, command)).await,
        LegacyGroup::Scheduler(command) => Box::pin(scheduler(shell, command)).await,
        LegacyGroup::Metrics => summary(shell).await,
        LegacyGroup::Agent(_) => Ok(0),
    }
}

async fn workload(shell: &Shell, command: WorkloadCommand) -> Result<u8, Problem> {
    match command {
        WorkloadCommand::Schedule(schedule) => Box::pin(apply::schedule(shell, &schedule)).await,
        WorkloadCommand::List { status, node_id } => list_workloads(shell, status, node_id).await,
        WorkloadCommand::Get(of) => get_workload(shell, &of.id).await,
        WorkloadCommand::Delete(of) => delete(shell, &of.id).await,
        WorkloadCommand::Retry(of) => retry(shell, &of.id).await,
        WorkloadCommand::Start(of) => desired(shell, &of.id, "Running").await,
        WorkloadCommand::Stop(of) => desired(shell, &of.id, "Stopped").await,
        WorkloadCommand::Restart(of) => Box::pin(restart(shell, &of.id)).await,
    }
}

async fn scheduler(shell: &Shell, command: SchedulerCommand) -> Result<u8, Problem> {
    match command {
        SchedulerCommand::Summary => summary(shell).await,
        SchedulerCommand::Apply(spec) => Box::pin(apply::apply(shell, &spec, None)).await,
        SchedulerCommand::ApplyContainer(spec) => {
            Box::pin(apply::apply(shell, &spec, Some("container"))).await
        }
        SchedulerCommand::ApplyVm(spec) => Box::pin(apply::apply(shell, &spec, Some("vm"))).await,
        SchedulerCommand::DeleteWorkload { workload_id } => delete(shell, &workload_id).await,
        SchedulerCommand::RetryWorkload { workload_id } => retry(shell, &workload_id).await,
        SchedulerCommand::GetWorkload { workload_id } => get_workload(shell, &workload_id).await,
        SchedulerCommand::ListNodes { status } => list_nodes(shell, &status).await,
        SchedulerCommand::GetNode { node_id } => get_node(shell, &node_id).await,
        SchedulerCommand::ListWorkloads { status, filter_node_id } => {
            list_workloads(shell, status, filter_node_id).await
        }
    }
}

/// Prints a message as older versions do.
fn print<M: Message>(shell: &Shell, name: &str, message: &M) -> Result<(), Problem> {
    shell.data(&json::write(name, message, Style::Camel))
}

fn workload_id(text: &str) -> Result<String, Problem> {
    let id = WorkloadId::new(text).map_err(|why| find::bad_name("workload", text, &why))?;
    Ok(id.to_string())
}

fn node_id(text: &str) -> Result<String, Problem> {
    let id = NodeId::new(text).map_err(|why| find::bad_name("node", text, &why))?;
    Ok(id.to_string())
}

async fn summary(shell: &Shell) -> Result<u8, Problem> {
    let found = look::count(&shell.client()?).await?;
    print(shell, "persys.control.v1.GetClusterSummaryResponse", &found)?;
    Ok(0)
}

async fn list_workloads(shell: &Shell, status: String, node: String) -> Result<u8, Problem> {
    let node_id = if node.is_empty() { node } else { node_id(&node)? };
    let client = shell.client()?;
    let request = wire::ListWorkloadsRequest { node_id, status };
    let what = "workloads cannot be listed";
    let found = client.ask(what, client.control().list_workloads(request)).await?;
    shell.data(&Value::Array(found.workloads.iter().map(shapes::workload).collect()))?;
    Ok(0)
}

/// `node list`, as programs know it.
pub(super) async fn list_nodes(shell: &Shell, status: &str) -> Result<u8, Problem> {
    let client = shell.client()?;
    let request = wire::ListNodesRequest { status: status.to_owned() };
    let found = client.ask("nodes cannot be listed", client.control().list_nodes(request)).await?;
    shell.data(&Value::Array(found.nodes.iter().map(shapes::node).collect()))?;
    Ok(0)
}

async fn get_workload(shell: &Shell, id: &str) -> Result<u8, Problem> {
    let request = wire::GetWorkloadRequest { workload_id: workload_id(id)? };
    let client = shell.client()?;
    let what = format!("{id} cannot be shown");
    let found = client.ask(&what, client.control().get_workload(request)).await?;
    print(shell, "persys.control.v1.GetWorkloadResponse", &found)?;
    Ok(0)
}

/// `node get --id`.
pub(super) async fn get_node(shell: &Shell, id: &str) -> Result<u8, Problem> {
    let request = wire::GetNodeRequest { node_id: node_id(id)? };
    let client = shell.client()?;
    let what = format!("node {id} cannot be shown");
    let found = client.ask(&what, client.control().get_node(request)).await?;
    print(shell, "persys.control.v1.GetNodeResponse", &found)?;
    Ok(0)
}

async fn delete(shell: &Shell, id: &str) -> Result<u8, Problem> {
    let request = wire::DeleteWorkloadRequest { workload_id: workload_id(id)?, volumes: false };
    let client = shell.client()?;
    let what = format!("{id} cannot be deleted");
    let answer = client.ask(&what, client.control().delete_workload(request)).await?;
    print(shell, "persys.control.v1.DeleteWorkloadResponse", &answer)?;
    Ok(if answer.success { 0 } else { ERROR })
}

async fn retry(shell: &Shell, id: &str) -> Result<u8, Problem> {
    let request = wire::RetryWorkloadRequest { workload_id: workload_id(id)? };
    let client = shell.client()?;
    let what = format!("{id} cannot be tried again");
    let answer = client.ask(&what, client.control().retry_workload(request)).await?;
    print(shell, "persys.control.v1.RetryWorkloadResponse", &answer)?;
    Ok(if answer.accepted { 0 } else { ERROR })
}

async fn desired(shell: &Shell, id: &str, state: &str) -> Result<u8, Problem> {
    let client = shell.client()?;
    apply_desired(shell, &client, id, state).await
}

async fn apply_desired(
    shell: &Shell,
    client: &Client,
    id: &str,
    state: &str,
) -> Result<u8, Problem> {
    let request = wire::ApplyWorkloadRequest {
        workload_id: workload_id(id)?,
        desired_state: state.to_owned(),
        ..wire::ApplyWorkloadRequest::default()
    };
    let what = format!("{id} cannot be changed");
    let mut control = client.control();
    let sending = Box::pin(async move { control.apply_workload(request).await });
    let answer = client.ask(&what, sending).await?;
    print(shell, "persys.control.v1.ApplyWorkloadResponse", &answer)?;
    Ok(if answer.success { 0 } else { ERROR })
}

async fn restart(shell: &Shell, id: &str) -> Result<u8, Problem> {
    let id = workload_id(id)?;
    let client = shell.client()?;
    let mark = wait::mark(&client).await;
    Box::pin(lifecycle::desired(&client, &id, "Stopped")).await?;
    match wait::wait(shell, &client, (&id, Goal::Stopped), mark).await? {
        Ended::Verdict(Verdict::Done, _) => apply_desired(shell, &client, &id, "Running").await,
        Ended::Verdict(..) | Ended::TooLong(_) | Ended::Interrupted => {
            Err(Problem::new(format!("{id} was told to stop and has not yet"))
                .next(format!("persys get {id}")))
        }
    }
}
