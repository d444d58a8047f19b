//! `agent …`: an agent asked directly.

use persys_identity::{Expected, Name};
use persys_proto::agent::v1 as wire;
use persys_proto::control::v1::ListNodesRequest;
use persys_proto::convert::agent_draft;
use persys_proto::json;

use super::{apply, print, workload_id};
use crate::args::{AgentCommand, AgentGroup, ApplySpec, ListActions};
use crate::commands::find;
use crate::connect::Client;
use crate::connect::settings::{Origin, address};
use crate::manifest;
use crate::problem::{ERROR, Problem};
use crate::shell::Shell;

/// All of them.
pub(super) async fn run(shell: &Shell, group: AgentGroup) -> Result<u8, Problem> {
    // What was typed is looked at before anybody is asked.
    let question = question(shell, group.command)?;
    let client = connect(shell, group.of.as_deref()).await?;
    Box::pin(ask(shell, &client, question)).await
}

/// What an agent is asked.
enum Question {
    Health,
    Apply(Box<wire::ApplyWorkloadRequest>),
    Status(String),
    List(i32),
    Delete(String),
    Actions(ListActions),
}

fn question(shell: &Shell, command: AgentCommand) -> Result<Question, Problem> {
    Ok(match command {
        AgentCommand::Health => Question::Health,
        AgentCommand::Apply(spec) => Question::Apply(Box::new(agent_request(shell, &spec)?)),
        AgentCommand::Status(of) => Question::Status(workload_id(&of.id)?),
        AgentCommand::List { kind } => Question::List(number_of(kind.as_deref())?),
        AgentCommand::Delete(of) => Question::Delete(workload_id(&of.id)?),
        AgentCommand::ListActions(actions) => Question::Actions(actions),
    })
}

fn number_of(kind: Option<&str>) -> Result<i32, Problem> {
    let found = match kind.unwrap_or_default() {
        "" => wire::WorkloadType::Unspecified,
        "container" => wire::WorkloadType::Container,
        "compose" => wire::WorkloadType::Compose,
        "vm" => wire::WorkloadType::Vm,
        other => {
            let what = format!("{other:?} is none of container, compose, vm");
            return Err(Problem::usage(what));
        }
    };
    Ok(found.into())
}

/// The request of the agent's own package: the body of the file in the agent's shape, or in the
/// control shape where that says nothing the agent's cannot.
fn agent_request(shell: &Shell, spec: &ApplySpec) -> Result<wire::ApplyWorkloadRequest, Problem> {
    use wire::workload_spec::Spec;
    let kind = spec.kind.as_deref().unwrap_or("container");
    let number = number_of(Some(kind))?;
    let Some(file) = &spec.spec_file else {
        return Err(Problem::usage("there is no spec").why("--spec-file is missing"));
    };
    let name = file.display().to_string();
    let text = manifest::text(&shell.world, file)?;
    let wrong = |why: String| Problem::new(format!("{name} cannot be applied")).why(why);
    let documents = manifest::yaml(&text).map_err(wrong)?;
    let [value] = documents.as_slice() else {
        return Err(Problem::new(format!("{name} cannot be applied")).why("it is not one document"));
    };
    let body = match kind {
        "compose" => json::read("persys.agent.v1.ComposeSpec", "", value).map(Spec::Compose),
        "vm" => json::read("persys.agent.v1.VMSpec", "", value).map(Spec::Vm),
        _ => json::read("persys.agent.v1.ContainerSpec", "", value).map(Spec::Container),
    };
    let body = match body {
        Ok(body) => body,
        Err(faults) => {
            // The file may be in the control shape; what is wrong with it there is told, too.
            apply::from_file(shell, spec, Some(kind))?;
            let what = format!("{name} is in the scheduler's shape, which agents do not take");
            return Err(Problem::faults(what, &faults).next("persys apply -f FILE"));
        }
    };
    let desired = match spec.desired_state.to_ascii_lowercase().as_str() {
        "running" | "" => wire::DesiredState::Running,
        "stopped" | "stop" => wire::DesiredState::Stopped,
        other => return Err(Problem::usage(format!("{other:?} is neither running nor stopped"))),
    };
    let request = wire::ApplyWorkloadRequest {
        id: workload_id(spec.id.as_deref().or(spec.name.as_deref()).unwrap_or_default())?,
        r#type: number,
        revision_id: spec.revision.clone(),
        desired_state: desired.into(),
        spec: Some(wire::WorkloadSpec { spec: Some(body) }),
        ..wire::ApplyWorkloadRequest::default()
    };
    agent_draft::from_apply(request.clone())
        .and_then(|draft| persys_model::spec::check::check_apply(&draft))
        .map_err(|faults| Problem::faults(format!("{name} cannot be applied"), &faults))?;
    Ok(request)
}

async fn ask(shell: &Shell, client: &Client, question: Question) -> Result<u8, Problem> {
    let mut agent = client.agent();
    let done = match question {
        Question::Health => {
            let request = wire::HealthCheckRequest {};
            let answer = client.ask("the agent is not well", agent.health_check(request)).await?;
            print(shell, "persys.agent.v1.HealthCheckResponse", &answer)?;
            answer.healthy
        }
        Question::Apply(request) => {
            let what = format!("{} was not accepted", request.id);
            let asked = Box::pin(client.ask(&what, agent.apply_workload(*request)));
            let answer = asked.await?;
            print(shell, "persys.agent.v1.ApplyWorkloadResponse", &answer)?;
            answer.applied || answer.skipped
        }
        Question::Status(id) => {
            let what = format!("the agent does not tell how {id} is");
            let request = wire::GetWorkloadStatusRequest { id };
            let answer = client.ask(&what, agent.get_workload_status(request)).await?;
            print(shell, "persys.agent.v1.GetWorkloadStatusResponse", &answer)?;
            true
        }
        Question::List(number) => {
            let request = wire::ListWorkloadsRequest { r#type: number };
            let what = "the agent's workloads cannot be listed";
            let answer = client.ask(what, agent.list_workloads(request)).await?;
            print(shell, "persys.agent.v1.ListWorkloadsResponse", &answer)?;
            true
        }
        Question::Delete(id) => {
            let what = format!("{id} cannot be deleted");
            let request = wire::DeleteWorkloadRequest { id, ..Default::default() };
            let answer = client.ask(&what, agent.delete_workload(request)).await?;
            print(shell, "persys.agent.v1.DeleteWorkloadResponse", &answer)?;
            answer.success
        }
        Question::Actions(wanted) => {
            let request = wire::ListActionsRequest {
                workload_id: wanted.workload_id,
                action_type: wanted.action_type,
                status: wanted.action_status,
                limit: wanted.action_limit,
                newest_first: wanted.newest_first,
            };
            let what = "the agent's actions cannot be listed";
            let answer = client.ask(what, agent.list_actions(request)).await?;
            print(shell, "persys.agent.v1.ListActionsResponse", &answer)?;
            true
        }
    };
    Ok(if done { 0 } else { ERROR })
}

/// The way to the agent: the address that was given with its node, or what the scheduler says.
async fn connect(shell: &Shell, of: Option<&str>) -> Result<Client, Problem> {
    let settings = &shell.settings;
    let given = matches!(settings.endpoint.origin, Origin::Flag(_))
        || settings.target.as_ref().is_some_and(|target| target.value == "agent");
    let (node, endpoint) = if given {
        let endpoint = address(&settings.endpoint.value)
            .map_err(|why| Problem::usage("--endpoint is wrong").why(why))?;
        match (of, settings.insecure.value) {
            (Some(node), _) => (node.to_owned(), endpoint),
            (None, true) => ("agent".to_owned(), endpoint),
            (None, false) => {
                return Err(Problem::usage("whose agent is that?")
                    .why("its certificate is checked against the name of its node")
                    .next("persys agent --of NODE --endpoint HOST:PORT ...")
                    .next("persys nodes"));
            }
        }
    } else {
        let found = node_of(&shell.client()?, of).await?;
        (found.node_id, found.grpc_endpoint)
    };
    let name = Name::new(&node).map_err(|why| {
        Problem::usage(format!("{node:?} is not the name of a node")).why(why.to_string())
    })?;
    Client::to(settings, &endpoint, Expected::Agent(name), "agent")
}

async fn node_of(
    client: &Client,
    of: Option<&str>,
) -> Result<persys_proto::control::v1::NodeView, Problem> {
    if let Some(typed) = of {
        return find::node(client, typed).await;
    }
    let request = ListNodesRequest::default();
    let mut nodes =
        client.ask("nodes cannot be listed", client.control().list_nodes(request)).await?.nodes;
    match (nodes.pop(), nodes.len()) {
        (Some(node), 0) => Ok(node),
        (None, _) => Err(Problem::new("there is no agent").why("no node has joined")),
        (Some(last), others) => Err(Problem::usage("whose agent?")
            .why(format!("there are {} nodes, {} among them", others + 1, last.node_id))
            .next("persys agent --of NODE ...")
            .next("persys nodes")),
    }
}
