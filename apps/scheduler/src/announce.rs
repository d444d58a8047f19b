//! The log of what happens to the cluster: mode and leadership of this process, and its nodes.
//!
//! Operations on workloads have lines of their own, in [`crate::operations`].

use persys_model::event::{Event, Happening, NodeChange};
use persys_model::mode::Mode;
use persys_model::node::Condition;
use tokio::sync::watch;

use crate::standing::{Role, Standing};

/// Writes the line of an event about nodes or the whole cluster.
pub(crate) fn log_event(event: &Event) {
    let by = event.by.as_ref().map(|author| &*author.who);
    let because = event.by.as_ref().map(|author| &*author.why).filter(|why| !why.is_empty());
    match &event.what {
        Happening::NodeRegistered { id } => {
            tracing::info!(node = id.as_str(), "node joined");
        }
        Happening::NodeCondition { id, from, to, why } => {
            let (node, from, condition, reason) = (id.as_str(), word(*from), word(*to), &**why);
            match to {
                Condition::Ready => {
                    tracing::info!(node, from, condition, reason, "node is back");
                }
                Condition::NotReady => {
                    tracing::warn!(node, from, condition, reason, "node is not ready");
                }
                Condition::Lost => tracing::warn!(node, from, condition, reason, "node is lost"),
            }
        }
        Happening::NodeChanged { id, what } => {
            let (node, change) = (id.as_str(), changed(*what));
            tracing::info!(node, change, by, because, "node changed");
        }
        Happening::MassFailureBrake { silent, total, on } => {
            if *on {
                tracing::warn!(
                    silent,
                    total,
                    "brake on: too many nodes are silent, no work is moved"
                );
            } else {
                tracing::info!(silent, total, "brake off: work of lost nodes is moved again");
            }
        }
        Happening::Drift { node, id, kind, resolved } => {
            let (node, workload, kind) = (node.as_str(), id.as_str(), kind.word());
            tracing::info!(node, workload, kind, resolved, "drift");
        }
        // Modes are told from the standing, which knows of them although nothing can be stored.
        Happening::ModeChanged { .. }
        | Happening::Workload { .. }
        | Happening::Volume { .. }
        | Happening::Asked { .. } => {}
    }
}

fn word(condition: Condition) -> &'static str {
    match condition {
        Condition::Ready => "Ready",
        Condition::NotReady => "NotReady",
        Condition::Lost => "Lost",
    }
}

fn changed(what: NodeChange) -> &'static str {
    match what {
        NodeChange::Draining => "drain",
        NodeChange::Undrained => "undrain",
        NodeChange::Tainted => "taint",
        NodeChange::Untainted => "untaint",
        NodeChange::LabelSet => "label",
        NodeChange::LabelDeleted => "unlabel",
        NodeChange::ConfirmedGone => "confirm-gone",
        NodeChange::Removed => "remove",
    }
}

/// Writes down changes of mode and leadership, for as long as there are any.
pub(crate) async fn log_standing(mut standing: watch::Receiver<Standing>) {
    let mut before = standing.borrow_and_update().clone();
    if before.mode.is_some() {
        log_change(None, &before);
    }
    while standing.changed().await.is_ok() {
        let now = standing.borrow_and_update().clone();
        log_change(Some(&before), &now);
        before = now;
    }
}

/// Writes the lines of one change.
fn log_change(before: Option<&Standing>, now: &Standing) {
    let led = before.is_some_and(|before| before.role() == Role::Leader);
    let reason = &*now.why;
    match (led, now.role()) {
        (false, Role::Leader) => tracing::info!("leadership gained: this scheduler leads"),
        (true, Role::Follower) => {
            tracing::warn!(reason, "leadership lost: this scheduler no longer leads");
        }
        (true, Role::Leader) | (false, Role::Follower) => {}
    }
    let leader = now.leader.as_deref();
    let known = before.and_then(|before| before.leader.as_deref());
    if now.role() == Role::Follower && leader.is_some() && leader != known {
        tracing::info!(leader, "this scheduler follows another one");
    }
    let (from, Some(to)) = (before.and_then(|before| before.mode), now.mode) else { return };
    if from == Some(to) {
        return;
    }
    let (mode, from) = (to.word(), from.map(Mode::word));
    match to {
        Mode::Normal => tracing::info!(mode, from, reason, "mode changed"),
        Mode::Degraded | Mode::Recovery => tracing::warn!(mode, from, reason, "mode changed"),
    }
}
