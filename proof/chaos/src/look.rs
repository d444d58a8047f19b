//! What is seen of a cluster: its records from the one that leads, its runtimes from themselves.

use std::process::Command;
use std::time::Duration;

use persys_proto::agent::v1 as agent;
use persys_proto::agent::v1::agent_service_client::AgentServiceClient;
use persys_proto::compute::v1 as compute;
use persys_proto::compute::v1::compute_client::ComputeClient;
use persys_proto::control::v1 as api;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use tokio::time::timeout;
use tonic::transport::Channel;

use crate::Fault;
use crate::check::{Copy, Node, Row, Seen};
use crate::cluster::{Agent, Cluster, Docker};

/// Longest time for one question.
const ASK: Duration = Duration::from_secs(4);

/// How a scheduler stands; none if it does not answer.
pub async fn standing(of: &Channel) -> Option<compute::StandingResponse> {
    let mut client = ComputeClient::new(of.clone());
    let asked = timeout(ASK, client.standing(compute::StandingRequest {})).await;
    asked.ok()?.ok().map(tonic::Response::into_inner)
}

/// The scheduler that leads and works, by its place in the list.
pub async fn leader(cluster: &Cluster) -> Option<usize> {
    for (nth, scheduler) in cluster.schedulers.iter().enumerate() {
        if scheduler.process.is_paused() {
            continue;
        }
        let standing = standing(&scheduler.direct).await;
        if standing.is_some_and(|standing| standing.role == "leader" && standing.mode == "normal") {
            return Some(nth);
        }
    }
    None
}

/// Workloads and nodes as a scheduler lists them.
pub async fn records(of: &Channel) -> Result<Seen, Fault> {
    let mut client = AgentControlClient::new(of.clone());
    let workloads = client.list_workloads(api::ListWorkloadsRequest::default());
    let workloads = timeout(ASK, workloads).await??.into_inner().workloads;
    let nodes = client.list_nodes(api::ListNodesRequest::default());
    let nodes = timeout(ASK, nodes).await??.into_inner().nodes;
    Ok(Seen {
        workloads: workloads.into_iter().map(row).collect(),
        nodes: nodes.into_iter().map(node).collect(),
        ..Seen::default()
    })
}

fn row(view: api::WorkloadView) -> Row {
    let reason = view.reason.map(|reason| reason.message).unwrap_or_default();
    Row {
        id: view.workload_id,
        desired: view.desired_state,
        status: view.status,
        revision: view.revision_id,
        node: view.assigned_node_id,
        why: format!("{reason} {}", view.why),
    }
}

fn node(view: api::NodeView) -> Node {
    Node {
        id: view.node_id,
        condition: view.condition,
        total: millicores(view.total_cpu_cores),
        available: millicores(view.available_cpu_cores),
    }
}

#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "a few thousand at most"
)]
fn millicores(cores: f64) -> i64 {
    (cores * 1000.0).round() as i64
}

/// Everything, from everybody. Whoever does not answer is an error.
pub async fn everything(cluster: &Cluster) -> Result<Seen, Fault> {
    let nth = leader(cluster).await.ok_or("nobody leads")?;
    let leading = cluster.schedulers.get(nth).ok_or("nobody leads")?;
    let mut seen = records(&leading.direct).await?;
    for scheduler in &cluster.schedulers {
        let standing = standing(&scheduler.direct).await;
        let mode = standing.map(|standing| standing.mode).unwrap_or_default();
        // One that follows stands by.
        let mode = if mode == "standby" { "normal".to_owned() } else { mode };
        seen.modes.insert(scheduler.process.name.clone(), mode);
    }
    let mut client = ComputeClient::new(leading.direct.clone());
    let drifts = timeout(ASK, client.list_drifts(compute::ListDriftsRequest::default())).await??;
    seen.drifts = drifts
        .into_inner()
        .drifts
        .into_iter()
        .map(|drift| format!("{} of {} on {}", drift.kind, drift.workload_id, drift.node_id))
        .collect();
    for agent in &cluster.agents {
        let copies = match agent.docker.and_then(|nth| cluster.dockers.get(nth)) {
            Some(docker) => containers(docker, &cluster.name)?,
            None => simulated(agent).await?,
        };
        seen.copies.insert(agent.process.name.clone(), copies);
    }
    seen.held = cluster.witness.held()?;
    Ok(seen)
}

/// What `docker` prints; fails if the daemon does not answer soon.
pub fn docker(host: &str, words: &[&str]) -> Result<String, Fault> {
    let output = Command::new("timeout").args(["10", "docker", "-H", host]).args(words).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("docker {words:?}: {said}").into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The containers of a cluster on a daemon.
pub fn containers(on: &Docker, cluster: &str) -> Result<Vec<Copy>, Fault> {
    let filter = format!("label=persys.cluster={cluster}");
    let format = "{{.Label \"persys.workload_id\"}} {{.State}} {{.Label \"persys.revision_id\"}}";
    let list = docker(&on.host, &["ps", "-a", "--filter", &filter, "--format", format])?;
    let copy = |line: &str| {
        let mut words = line.split(' ');
        let workload = words.next()?.to_owned();
        let running = words.next()? == "running";
        Some(Copy { workload, running, revision: words.next()?.to_owned() })
    };
    Ok(list.lines().filter_map(copy).collect())
}

async fn simulated(on: &Agent) -> Result<Vec<Copy>, Fault> {
    let mut client = AgentServiceClient::new(on.direct.clone());
    let asked = client.list_workloads(agent::ListWorkloadsRequest::default());
    let all = timeout(ASK, asked).await??.into_inner().workloads;
    let copy = |status: agent::WorkloadStatus| Copy {
        running: status.actual_state() == agent::ActualState::Running,
        workload: status.id,
        revision: status.revision_id,
    };
    Ok(all.into_iter().map(copy).collect())
}
