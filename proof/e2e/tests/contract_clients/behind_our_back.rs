//! Drift of what runs in memory: somebody removes or pauses it behind the back of its agent.

use persys_e2e::stack::Stack;
use persys_model::id::WorkloadId;
use persys_node::input::Existing;
use persys_runtime::Runtime as _;

use crate::calls::until;

/// The runtime's own name for a workload that runs on a node, if it does.
pub(crate) async fn running(stack: &Stack, node: &str, id: &str) -> Option<String> {
    let found = stack.sim(node).inspect(&WorkloadId::new(id).unwrap()).await.unwrap()?;
    (found.seen.state == Existing::Running).then_some(found.id)
}

/// Takes a workload away. Its agent has to make it again, and once.
pub(crate) async fn removed(stack: &Stack, node: &str, id: &str) {
    let before = running(stack, node, id).await.expect("it runs");
    stack.sim(node).vanish(&WorkloadId::new(id).unwrap());
    let made = || async { running(stack, node, id).await.filter(|made| *made != before) };
    until(&format!("{id} is made again"), made).await;
}

/// Pauses a workload. Its agent has to resume it, and not to make another.
pub(crate) async fn paused(stack: &Stack, node: &str, id: &str) {
    let before = running(stack, node, id).await.expect("it runs");
    stack.sim(node).freeze(&WorkloadId::new(id).unwrap(), None);
    let resumed = || async { running(stack, node, id).await };
    assert_eq!(until(&format!("{id} is resumed"), resumed).await, before, "the same one");
}
