//! Small phrases that several answers share.

use persys_cluster::world::{Judged, World};
use persys_model::id::NodeId;
use persys_model::node::Condition;
use persys_model::resources::Compute;
use persys_model::time::WallMillis;
use persys_proto::compute::v1 as api;

use crate::moment::ago;

/// CPU and memory.
pub(super) fn amounts(compute: Compute) -> String {
    format!("{}m cpu and {} MiB memory", compute.cpu_millicores, compute.memory_mib)
}

/// The first line of a text.
pub(super) fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// A node and how it is: `n1 (Ready)`, `n2 (not ready for 20s)`.
pub(super) fn node_word(world: &World, id: &NodeId, now: WallMillis) -> String {
    let Some(view) = world.node(id) else { return format!("{id} (no longer in the cluster)") };
    let since = ago(view.node.since, now);
    match (view.node.condition, &view.node.drain) {
        (Condition::Lost, _) => format!("{id} (lost for {since})"),
        (Condition::NotReady, _) => format!("{id} (not ready for {since})"),
        (Condition::Ready, Some(_)) => format!("{id} (being drained)"),
        (Condition::Ready, None) => format!("{id} (ready)"),
    }
}

/// Adds the judgement of the nodes to an answer.
pub(super) fn tell_judgement(why: &mut api::WhyResponse, judged: Judged) {
    let Judged { explanation, suggestions, verdicts } = judged;
    let refusals = explanation.refusals.into_iter().map(|refusal| api::Refusal {
        reason: refusal.reason.to_string(),
        nodes: u32::try_from(refusal.nodes).unwrap_or(u32::MAX),
    });
    why.refusals = refusals.collect();
    why.suggestions = suggestions;
    let verdicts = verdicts.into_iter().map(|verdict| api::Verdict {
        node_id: verdict.node.to_string(),
        fits: verdict.faults.is_empty(),
        faults: verdict.faults,
    });
    why.verdicts = verdicts.collect();
}
