//! `nodes` and `node …`.

use std::time::SystemTime;

use persys_proto::control::v1 as wire;
use serde_json::Value;

use super::{find, legacy, look, operate};
use crate::args::{NodeCommand, Nodes};
use crate::manifest::options::pair;
use crate::problem::Problem;
use crate::shell::Shell;
use crate::show;

/// `nodes`.
pub(super) async fn list(shell: &Shell, nodes: &Nodes) -> Result<u8, Problem> {
    let client = shell.client()?;
    let request = wire::ListNodesRequest { status: nodes.status.clone().unwrap_or_default() };
    let once = || async {
        let mut control = client.control();
        let question = control.list_nodes(request.clone());
        let found = client.ask("nodes cannot be listed", question).await?.nodes;
        Ok(if shell.output().is_data() {
            let all = found.iter().map(|node| show::control("NodeView", node)).collect();
            show::data(&Value::Array(all), shell.output())
        } else {
            show::node::list(&found, shell.wide(), SystemTime::now())
        })
    };
    look::screen(shell, &client, nodes.watch, once).await
}

/// `node …`.
pub(super) async fn run(shell: &Shell, command: NodeCommand) -> Result<u8, Problem> {
    match command {
        // Programs that read the old spelling get what they are used to.
        NodeCommand::List(nodes) if shell.global.output.is_none() && !shell.world.out_terminal => {
            legacy::list_nodes(shell, &nodes.status.unwrap_or_default()).await
        }
        NodeCommand::List(nodes) => list(shell, &nodes).await,
        NodeCommand::Get { id: Some(id), .. } => get(shell, &id).await,
        NodeCommand::Get { old, .. } => legacy::get_node(shell, &old.unwrap_or_default()).await,
        NodeCommand::Drain { node, reason } => drain(shell, &node, why(shell, reason)).await,
        NodeCommand::Undrain { node, reason } => undrain(shell, &node, why(shell, reason)).await,
        NodeCommand::Taint { node, taint } => set_taint(shell, &node, &taint).await,
        NodeCommand::Untaint { node, taint } => untaint(shell, &node, &taint).await,
        NodeCommand::Label { node, labels } => label(shell, &node, &labels).await,
        NodeCommand::Remove { node } => operate::remove_node(shell, &node).await,
        NodeCommand::ConfirmGone { node } => operate::confirm_gone(shell, &node).await,
    }
}

async fn get(shell: &Shell, typed: &str) -> Result<u8, Problem> {
    let client = shell.client()?;
    let node = find::node(&client, typed).await?;
    if shell.output().is_data() {
        shell.data(&show::control("NodeView", &node))?;
    } else {
        shell.print(&show::node::whole(&node, SystemTime::now()))?;
    }
    Ok(0)
}

/// What became of a node, as an answer says it.
fn changed(
    shell: &Shell,
    what: String,
    (accepted, message, node): (bool, String, Option<wire::NodeView>),
    done: &str,
) -> Result<u8, Problem> {
    if !accepted {
        return Err(Problem::new(what).why(message).next("persys nodes"));
    }
    let node = node.unwrap_or_default();
    if shell.output().is_data() {
        shell.data(&show::control("NodeView", &node))?;
        return Ok(0);
    }
    let remark = if message.is_empty() { String::new() } else { format!(": {message}") };
    shell.line(&format!("{done}{remark}"))?;
    Ok(0)
}

/// The reason others are shown: the one for the node, or that of the whole command.
fn why(shell: &Shell, reason: String) -> String {
    if reason.is_empty() { shell.settings.because.clone().unwrap_or_default() } else { reason }
}

async fn drain(shell: &Shell, typed: &str, reason: String) -> Result<u8, Problem> {
    let client = shell.client()?;
    let node_id = find::node(&client, typed).await?.node_id;
    let what = format!("node {node_id} cannot be drained");
    let request = wire::DrainNodeRequest { node_id: node_id.clone(), reason };
    let answer = client.ask(&what, client.control().drain_node(request)).await?;
    let outcome = (answer.accepted, answer.message, answer.node);
    let code = changed(shell, what, outcome, &format!("node {node_id} is being emptied"))?;
    if !shell.output().is_data() {
        shell.line(&format!(
            "next:\n  {}",
            shell.typed(&format!("persys list --node {node_id} --watch"))
        ))?;
    }
    Ok(code)
}

async fn undrain(shell: &Shell, typed: &str, reason: String) -> Result<u8, Problem> {
    let client = shell.client()?;
    let node_id = find::node(&client, typed).await?.node_id;
    let what = format!("node {node_id} cannot be undrained");
    let request = wire::UndrainNodeRequest { node_id: node_id.clone(), reason };
    let answer = client.ask(&what, client.control().undrain_node(request)).await?;
    let outcome = (answer.accepted, answer.message, answer.node);
    changed(shell, what, outcome, &format!("node {node_id} takes work again"))
}

async fn set_taint(shell: &Shell, typed: &str, text: &str) -> Result<u8, Problem> {
    let taint = taint(text).map_err(|why| Problem::usage("the taint is wrong").why(why))?;
    let client = shell.client()?;
    let node_id = find::node(&client, typed).await?.node_id;
    let what = format!("node {node_id} cannot be tainted");
    let request = wire::TaintNodeRequest { node_id: node_id.clone(), taint: Some(taint) };
    let answer = client.ask(&what, client.control().taint_node(request)).await?;
    let outcome = (answer.accepted, answer.message, answer.node);
    changed(shell, what, outcome, &format!("node {node_id} is tainted"))
}

/// `key=value:effect`, `key:effect`, `key=value`, `key`.
fn taint(text: &str) -> Result<wire::NodeTaint, String> {
    let (pair, effect) = text.rsplit_once(':').unwrap_or((text, ""));
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    let known = ["", "NoSchedule", "PreferNoSchedule"];
    let Some(effect) = known.iter().find(|known| known.eq_ignore_ascii_case(effect)) else {
        return Err(format!("{effect:?} is neither NoSchedule nor PreferNoSchedule"));
    };
    if key.is_empty() {
        return Err(format!("{text:?} has no key; write key=value:NoSchedule"));
    }
    Ok(wire::NodeTaint {
        key: key.to_owned(),
        value: value.to_owned(),
        effect: (*effect).to_owned(),
    })
}

async fn untaint(shell: &Shell, typed: &str, text: &str) -> Result<u8, Problem> {
    let taint = taint(text.trim_end_matches('-'))
        .map_err(|why| Problem::usage("the taint is wrong").why(why))?;
    let client = shell.client()?;
    let node_id = find::node(&client, typed).await?.node_id;
    let what = format!("the taint of node {node_id} cannot be taken away");
    let request =
        wire::UntaintNodeRequest { node_id: node_id.clone(), key: taint.key, effect: taint.effect };
    let answer = client.ask(&what, client.control().untaint_node(request)).await?;
    let outcome = (answer.accepted, answer.message, answer.node);
    changed(shell, what, outcome, &format!("node {node_id} is no longer tainted"))
}

/// A label to set or to take away.
#[derive(Debug, PartialEq, Eq)]
enum LabelChange {
    Set(String, String),
    Delete(String),
}

fn label_change(text: &str) -> Result<LabelChange, String> {
    match text.strip_suffix('-') {
        Some(key) if !key.is_empty() && !key.contains('=') => {
            Ok(LabelChange::Delete(key.to_owned()))
        }
        Some(_) | None => pair(text, "a label").map(|(key, value)| LabelChange::Set(key, value)),
    }
}

async fn label(shell: &Shell, typed: &str, labels: &[String]) -> Result<u8, Problem> {
    let mut changes = Vec::new();
    let mut problem = Problem::usage("nothing was changed: the labels are wrong");
    for text in labels {
        match label_change(text) {
            Ok(change) => changes.push(change),
            Err(why) => problem.why.push(why),
        }
    }
    if !problem.why.is_empty() {
        return Err(problem);
    }
    let client = shell.client()?;
    let node_id = find::node(&client, typed).await?.node_id;
    let what = format!("the labels of node {node_id} cannot be changed");
    let mut last = (true, String::new(), None);
    for change in changes {
        last = match change {
            LabelChange::Set(key, value) => {
                let request = wire::SetNodeLabelRequest { node_id: node_id.clone(), key, value };
                let answer = client.ask(&what, client.control().set_node_label(request)).await?;
                (answer.accepted, answer.message, answer.node)
            }
            LabelChange::Delete(key) => {
                let request = wire::DeleteNodeLabelRequest { node_id: node_id.clone(), key };
                let answer = client.ask(&what, client.control().delete_node_label(request)).await?;
                (answer.accepted, answer.message, answer.node)
            }
        };
        if !last.0 {
            break;
        }
    }
    changed(shell, what, last, &format!("node {node_id} is labelled"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_and_labels_are_read_as_people_write_them() {
        let of = |key: &str, value: &str, effect: &str| wire::NodeTaint {
            key: key.to_owned(),
            value: value.to_owned(),
            effect: effect.to_owned(),
        };
        assert_eq!(taint("a=b:NoSchedule"), Ok(of("a", "b", "NoSchedule")));
        assert_eq!(taint("a:prefernoschedule"), Ok(of("a", "", "PreferNoSchedule")));
        assert_eq!(taint("a"), Ok(of("a", "", "")));
        assert!(taint("a=b:Evict").is_err());
        assert!(taint("=b").is_err());
        assert_eq!(label_change("a=b"), Ok(LabelChange::Set("a".to_owned(), "b".to_owned())));
        assert_eq!(label_change("a-"), Ok(LabelChange::Delete("a".to_owned())));
        assert_eq!(label_change("a=b-"), Ok(LabelChange::Set("a".to_owned(), "b-".to_owned())));
        assert!(label_change("a").is_err());
    }
}
