//! Why a node is as it is, and what it cannot do.

use std::sync::Arc;

use persys_cluster::world::{NodeView, World};
use persys_model::id::NodeId;
use persys_model::node::Condition;
use persys_model::spec::WorkloadType;
use persys_model::time::WallMillis;
use persys_proto::compute::v1 as api;
use persys_proto::convert::view::node::effect;

use super::words::amounts;
use crate::moment::{ago, rfc3339};

/// Most workloads of a node that are named.
const MOST_NAMED: usize = 5;

/// The answer, but for the events. `beat` is when it last beat, as far as this process knows.
pub(super) fn explain(
    world: &World,
    id: &NodeId,
    beat: Option<WallMillis>,
    now: WallMillis,
) -> Option<api::WhyResponse> {
    let view = world.node(id)?;
    Some(api::WhyResponse {
        summary: summary(&view, now),
        facts: facts(world, &view, beat, now),
        suggestions: suggestions(world, &view),
        next: next(&view),
        ..api::WhyResponse::default()
    })
}

fn summary(view: &NodeView<'_>, now: WallMillis) -> String {
    let (id, since) = (&view.node.facts.id, ago(view.node.since, now));
    let blocking = view.node.taints.len();
    match (view.node.condition, &view.node.drain) {
        (Condition::Lost, _) => {
            format!("{id} is lost: for {since} it has neither beaten nor answered a probe")
        }
        (Condition::NotReady, _) => {
            format!("{id} is not ready: its heartbeats have stayed away for {since}")
        }
        (Condition::Ready, Some(why)) if why.is_empty() => {
            format!("{id} is being drained and takes no new work")
        }
        (Condition::Ready, Some(why)) => {
            format!("{id} is being drained ({why}) and takes no new work")
        }
        (Condition::Ready, None) if view.unreachable.is_some() => {
            let why = view.unreachable.unwrap_or_default();
            format!("{id} takes no new work: orders cannot be delivered: {why}")
        }
        (Condition::Ready, None) if !view.down.is_empty() => {
            format!("{id} is ready, but {}", runtimes_down(view).join("; "))
        }
        (Condition::Ready, None) if blocking > 0 => {
            format!("{id} is ready, but takes only work that tolerates its taints")
        }
        (Condition::Ready, None) => {
            format!("{id} is ready and takes work, up to {}", amounts(view.free))
        }
    }
}

fn facts(
    world: &World,
    view: &NodeView<'_>,
    beat: Option<WallMillis>,
    now: WallMillis,
) -> Vec<String> {
    let node = view.node;
    let since = rfc3339(node.since);
    let status = node.status_word();
    let mut facts = vec![format!("{status} since {since} ({} ago)", ago(node.since, now))];
    facts.push(match beat {
        Some(beat) => format!("last heard {} ({} ago)", rfc3339(beat), ago(beat, now)),
        None => "not heard since this scheduler started".to_owned(),
    });
    let capacity = node.facts.capacity;
    facts.push(format!("has {}", amounts(capacity)));
    facts.push(format!("reserved {}", amounts(capacity.minus(view.free))));
    facts.push(format!("free {}", amounts(view.free)));
    let disk = match view.used_disk_gib {
        0 => String::new(),
        gib => format!(", {gib} GiB disk"),
    };
    facts.push(format!("really used {}{disk}", amounts(view.used)));
    facts.extend(world.shrunk_pools(&node.facts.id));
    facts.push(match view.workloads {
        0 => "has no workloads".to_owned(),
        count => {
            let largest = world.largest_on(&node.facts.id, MOST_NAMED);
            let names: Vec<_> = largest.iter().map(ToString::to_string).collect();
            format!("has {count} workloads, the largest: {}", names.join(", "))
        }
    });
    for taint in &node.taints {
        let (key, value) = (&taint.key, &taint.value);
        facts.push(format!("taint {key}={value} ({})", effect(taint.effect)));
    }
    if let Some(why) = &node.drain {
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        facts.push(format!("drained by an operator{why}"));
    }
    let runs: Vec<_> = node.facts.types.iter().map(|kind| kind.word()).collect();
    facts.push(if runs.is_empty() {
        "can run nothing: none of its runtimes answers".to_owned()
    } else {
        format!("can run {}", runs.join(", "))
    });
    facts.extend(missing(view).map(|kind| format!("cannot run {kind}")));
    facts.extend(runtimes_down(view));
    if let Some(why) = view.unreachable {
        facts.push(format!("orders cannot be delivered: {why}"));
    }
    if world.brake() {
        let text = "so many nodes are silent that nothing is moved; releasing the brake moves it";
        facts.push(text.to_owned());
    }
    facts.push(format!("is called at {}", node.facts.endpoint));
    facts
}

fn runtimes_down(view: &NodeView<'_>) -> Vec<String> {
    let line =
        |(kind, why): (&WorkloadType, &Arc<str>)| format!("cannot run {}: {why}", kind.word());
    view.down.iter().map(line).collect()
}

fn missing<'a>(view: &'a NodeView<'_>) -> impl Iterator<Item = &'static str> + 'a {
    let types = &view.node.facts.types;
    WorkloadType::ALL.into_iter().filter(|kind| !types.contains(kind)).map(WorkloadType::word)
}

fn suggestions(world: &World, view: &NodeView<'_>) -> Vec<String> {
    let mut all = Vec::new();
    match view.node.condition {
        Condition::NotReady | Condition::Lost => {
            let endpoint = &view.node.facts.endpoint;
            all.push(format!(
                "see whether the machine is on, its agent runs, and {endpoint} can be reached"
            ));
        }
        Condition::Ready if view.unreachable.is_some() => {
            let endpoint = &view.node.facts.endpoint;
            all.push(format!(
                "open the way from this scheduler to {endpoint}, or start the agent with the address \
                 it can be called at (PERSYS_AGENT_GRPC_ENDPOINT) or with --reach stream"
            ));
        }
        Condition::Ready if view.node.facts.types.is_empty() => {
            all.push("install and start Docker on it; the node then offers containers".to_owned());
        }
        Condition::Ready => {}
    }
    if world.brake() {
        all.push("if those nodes are really gone, release the brake".to_owned());
    }
    all
}

fn next(view: &NodeView<'_>) -> Vec<String> {
    let id = &view.node.facts.id;
    let mut next = Vec::new();
    if view.node.drain.is_some() {
        next.push(format!("persys node undrain {id}"));
    }
    next.push(format!("persys events -f --node {id}"));
    next.push("persys nodes".to_owned());
    next
}
