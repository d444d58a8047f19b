//! Words only an operator can say.

use persys_model::id::{NodeId, WorkloadId};
use persys_proto::compute::v1 as compute;
use persys_proto::compute::v1::operate_request::Word;

use super::find;
use crate::args::Orphan;
use crate::problem::Problem;
use crate::shell::Shell;
use crate::show;

pub(super) async fn say(shell: &Shell, what: &str, word: Word, done: &str) -> Result<u8, Problem> {
    let client = shell.client()?;
    let request = compute::OperateRequest { word: Some(word) };
    let answer = client.ask(what, client.compute().operate(request)).await?;
    if shell.output().is_data() {
        shell.data(&show::compute("OperateResponse", &answer))?;
    } else {
        let plain = matches!(answer.note.as_str(), "" | "accepted");
        shell.line(if plain { done } else { &answer.note })?;
    }
    Ok(0)
}

/// `node remove`.
pub(super) async fn remove_node(shell: &Shell, typed: &str) -> Result<u8, Problem> {
    let node = find::exact_node(&shell.client()?, typed).await?.node_id;
    let what = format!("node {node} cannot be removed");
    let done = format!("node {node} is removed");
    say(shell, &what, Word::RemoveNode(node), &done).await
}

/// `node confirm-gone`.
pub(super) async fn confirm_gone(shell: &Shell, typed: &str) -> Result<u8, Problem> {
    let node = find::exact_node(&shell.client()?, typed).await?.node_id;
    let what = format!("node {node} cannot be confirmed gone");
    let done = format!("node {node} counts as switched off; its exclusive work may move");
    say(shell, &what, Word::ConfirmGone(node), &done).await
}

/// `orphan …`.
pub(super) async fn orphan(shell: &Shell, orphan: Orphan) -> Result<u8, Problem> {
    let (verdict, at) = match orphan {
        Orphan::Adopt(at) => ("adopt", at),
        Orphan::Delete(at) => ("delete", at),
        Orphan::Ignore(at) => ("ignore", at),
    };
    let node = NodeId::new(&at.node).map_err(|why| find::bad_name("node", &at.node, &why))?;
    let workload = WorkloadId::new(&at.workload)
        .map_err(|why| find::bad_name("workload", &at.workload, &why))?;
    let what = format!("{workload} on node {node} cannot be decided about");
    let done = format!("{workload} on node {node}: {verdict}");
    let word = compute::OrphanVerdict {
        node_id: node.to_string(),
        workload_id: workload.to_string(),
        verdict: verdict.to_owned(),
    };
    say(shell, &what, Word::Orphan(word), &done).await
}

/// `release-brake`.
pub(super) async fn release_brake(shell: &Shell) -> Result<u8, Problem> {
    let word = Word::ReleaseBrake(true);
    say(shell, "the brake cannot be released", word, "work may move again").await
}
