//! `import`: brings the workloads of an earlier installation over.

use std::collections::BTreeSet;

use persys_proto::control::v1 as wire;
use serde_json::{Value, json};

use super::submit::send;
use crate::args::Import;
use crate::connect::Client;
use crate::import::{Plan, Planned, plan};
use crate::problem::{ERROR, Problem};
use crate::shell::Shell;
use crate::show::table::table;
use crate::stores::{self, For, Way};
use crate::wait;

/// What became of one workload.
struct Outcome {
    planned: Planned,
    result: Imported,
}

/// The result for one workload.
#[derive(Debug, PartialEq)]
enum Imported {
    /// It would be, or is.
    Yes,
    /// It is here already and is left alone.
    Exists(String),
    /// It cannot be, for the reasons of its plan.
    No,
    /// The scheduler refused it.
    Refused(String),
}

/// `import`.
pub(super) async fn run(shell: &Shell, import: &Import) -> Result<u8, Problem> {
    let way = Way::new(import.etcd_options.clone(), shell.world.var("ETCD_PASSWORD"));
    let store = stores::open(&import.etcd, For::Reading, &way)?;
    let read = store.dump().await;
    store.close().await;
    let what = format!("{} cannot be read", import.etcd);
    let pairs = read.map_err(|error| Problem::new(what.clone()).why(error.to_string()))?;
    let mut plan = plan(&pairs);
    if plan.workloads.is_empty() && plan.unreadable.is_empty() {
        return Err(Problem::new(format!("{} holds no workload of an earlier installation", import.etcd))
            .why("no key is below /workloads-spec or /workloads; --etcd-root names what stands before them"));
    }
    let client = shell.client()?;
    let nodes = nodes(&client).await?;
    let mut outcomes = Vec::new();
    for planned in std::mem::take(&mut plan.workloads) {
        outcomes.push(Box::pin(outcome(&client, planned, &nodes, import.dry_run)).await);
    }
    tell(shell, import, &plan, &outcomes)?;
    let whole = plan.unreadable.is_empty()
        && outcomes.iter().all(|one| matches!(one.result, Imported::Yes | Imported::Exists(_)));
    Ok(if whole { 0 } else { ERROR })
}

/// Nodes of this cluster.
async fn nodes(client: &Client) -> Result<BTreeSet<String>, Problem> {
    let request = wire::ListNodesRequest { status: String::new() };
    let mut control = client.control();
    let found = client.ask("nodes cannot be listed", control.list_nodes(request)).await?;
    Ok(found.nodes.into_iter().map(|node| node.node_id).collect())
}

async fn outcome(
    client: &Client,
    mut planned: Planned,
    nodes: &BTreeSet<String>,
    dry_run: bool,
) -> Outcome {
    if let Some(node) = planned.node.as_ref().filter(|node| !nodes.contains(*node)) {
        let note = format!("node {node} has not joined this cluster: it waits for that node");
        planned.notes.push(note);
    }
    let Some(request) = planned.request.clone() else {
        return Outcome { planned, result: Imported::No };
    };
    if let Some(view) = wait::view(client, &planned.id).await {
        let result = Imported::Exists(format!("{} in revision {}", view.status, view.revision_id));
        return Outcome { planned, result };
    }
    let result = if dry_run {
        Imported::Yes
    } else {
        match send(client, &request).await {
            Ok(warning) => {
                planned.notes.extend(warning.words());
                Imported::Yes
            }
            Err(problem) => Imported::Refused(problem.why.join("; ")),
        }
    };
    Outcome { planned, result }
}

fn tell(shell: &Shell, import: &Import, plan: &Plan, outcomes: &[Outcome]) -> Result<(), Problem> {
    if shell.output().is_data() {
        return shell.data(&data(import, plan, outcomes));
    }
    let rows = outcomes.iter().map(|one| {
        let state = one.planned.request.as_ref().map_or("", |request| &*request.desired_state);
        vec![
            one.planned.id.clone(),
            one.planned.kind.clone(),
            one.planned.node.clone().unwrap_or_default(),
            state.to_owned(),
            result(&one.result, import.dry_run),
        ]
    });
    let header = ["WORKLOAD", "TYPE", "NODE", "STATE", "RESULT"];
    shell.print(&table(&header, rows.collect()))?;
    for one in outcomes {
        for line in one.planned.faults.iter().chain(&one.planned.notes) {
            shell.line(&format!("{}: {line}", one.planned.id))?;
        }
    }
    for (key, why) in &plan.unreadable {
        shell.line(&format!("{key} {why}"))?;
    }
    if import.dry_run {
        shell.line("nothing was changed; the same without --dry-run imports")?;
    }
    Ok(())
}

fn result(result: &Imported, dry_run: bool) -> String {
    match result {
        Imported::Yes if dry_run => "would be imported".to_owned(),
        Imported::Yes => "imported".to_owned(),
        Imported::Exists(how) => format!("left alone: it exists here ({how})"),
        Imported::No => "cannot be imported".to_owned(),
        Imported::Refused(why) => format!("refused: {why}"),
    }
}

fn data(import: &Import, plan: &Plan, outcomes: &[Outcome]) -> Value {
    let workloads = outcomes.iter().map(|one| {
        json!({
            "workload_id": one.planned.id,
            "type": one.planned.kind,
            "node_id": one.planned.node,
            "desired_state": one.planned.request.as_ref().map(|request| &request.desired_state),
            "result": result(&one.result, import.dry_run),
            "faults": one.planned.faults,
            "notes": one.planned.notes,
        })
    });
    json!({
        "dry_run": import.dry_run,
        "workloads": workloads.collect::<Vec<_>>(),
        "nodes": plan.nodes,
        "unreadable": plan.unreadable.iter().map(|(key, why)| json!({"key": key, "why": why}))
            .collect::<Vec<_>>(),
    })
}
