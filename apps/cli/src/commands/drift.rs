//! `drift …`: where what is recorded and what nodes have differ.

use std::time::SystemTime;

use persys_proto::compute::v1 as compute;
use persys_proto::compute::v1::operate_request::Word;
use serde_json::Value;

use super::{find, operate};
use crate::args::{DriftCommand, Orphan};
use crate::problem::Problem;
use crate::shell::Shell;
use crate::show;
use crate::show::moment::age;
use crate::show::table::table;

/// `drift …`.
pub(super) async fn run(shell: &Shell, command: DriftCommand) -> Result<u8, Problem> {
    match command {
        DriftCommand::List { node } => list(shell, node.as_deref()).await,
        DriftCommand::Check { node } => check(shell, node.as_deref()).await,
        DriftCommand::Adopt(at) => operate::orphan(shell, Orphan::Adopt(at)).await,
        DriftCommand::Delete(at) => operate::orphan(shell, Orphan::Delete(at)).await,
        DriftCommand::Ignore(at) => operate::orphan(shell, Orphan::Ignore(at)).await,
    }
}

async fn list(shell: &Shell, node: Option<&str>) -> Result<u8, Problem> {
    let client = shell.client()?;
    let node_id = match node {
        Some(typed) => find::node(&client, typed).await?.node_id,
        None => String::new(),
    };
    let request = compute::ListDriftsRequest { node_id };
    let what = "differences cannot be listed";
    let found = client.ask(what, client.compute().list_drifts(request)).await?.drifts;
    if shell.output().is_data() {
        let all = found.iter().map(|drift| show::compute("Drift", drift)).collect();
        shell.data(&Value::Array(all))?;
        return Ok(0);
    }
    if found.is_empty() {
        shell.line("what is recorded and what the nodes have is the same")?;
        return Ok(0);
    }
    let now = SystemTime::now();
    let row = |drift: &compute::Drift| {
        vec![
            drift.kind.clone(),
            drift.node_id.clone(),
            drift.workload_id.clone(),
            age(drift.since.as_ref(), now),
            drift.recorded.clone(),
            drift.found.clone(),
            drift.remedy.clone(),
        ]
    };
    let header = ["KIND", "NODE", "WORKLOAD", "AGE", "RECORDED", "FOUND", "REMEDY"];
    shell.print(&table(&header, found.iter().map(row).collect()))?;
    let open = found.iter().find(|drift| drift.kind == "orphan_on_agent" && !drift.ignored);
    if let Some(orphan) = open {
        let which = format!("{} {}", orphan.node_id, orphan.workload_id);
        shell.line("next:")?;
        for verdict in ["adopt", "delete", "ignore"] {
            shell
                .line(&format!("  {}", shell.typed(&format!("persys drift {verdict} {which}"))))?;
        }
    }
    Ok(0)
}

async fn check(shell: &Shell, node: Option<&str>) -> Result<u8, Problem> {
    let node_id = match node {
        Some(typed) => find::node(&shell.client()?, typed).await?.node_id,
        None => String::new(),
    };
    let word = Word::CheckDrift(compute::CheckDrift { node_id });
    operate::say(shell, "nothing can be compared", word, "nodes are asked for all they hold").await
}
