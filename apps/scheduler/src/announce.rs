//! The log of what happens to the cluster: mode and leadership of this process, and its nodes.
//!
//! Operations on workloads have lines of their own, in [`crate::operations`].

use std::collections::BTreeMap;

use persys_model::event::{Event, Happening, NodeChange};
use persys_model::health::HealthState;
use persys_model::id::{NamespaceName, NodeId};
use persys_model::mode::Mode;
use persys_model::node::Condition;
use tokio::sync::watch;

use crate::standing::{Role, Standing};

/// Nodes as events told of them, so that one that returns is told from one that is new. A process that
/// begins to lead knows none.
#[derive(Debug, Default)]
pub(crate) struct Nodes(BTreeMap<NodeId, Condition>);

/// How a node that registers was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Unknown,
    Ready,
    Away(Condition),
}

impl Nodes {
    /// Takes in a registration.
    fn registered(&mut self, id: &NodeId) -> Before {
        match self.0.insert(id.clone(), Condition::Ready) {
            None => Before::Unknown,
            Some(Condition::Ready) => Before::Ready,
            Some(away @ (Condition::NotReady | Condition::Lost)) => Before::Away(away),
        }
    }

    /// Writes the line of an event about nodes or the whole cluster.
    pub(crate) fn log(&mut self, event: &Event) {
        match &event.what {
            Happening::NodeRegistered { id } => {
                let before = self.registered(id);
                log_registration(id, before);
            }
            Happening::NodeCondition { id, from, to, why } => {
                self.0.insert(id.clone(), *to);
                log_condition(id, (*from, *to), why);
            }
            Happening::NodeTrouble { id, part, why: Some(reason) } => {
                let (node, reason) = (id.as_str(), &**reason);
                tracing::warn!(node, ?part, reason, "a part of a node does not work");
            }
            Happening::NodeTrouble { id, part, why: None } => {
                tracing::info!(node = id.as_str(), ?part, "a part of a node works again");
            }
            Happening::WorkloadDelayed { id, node, message } => {
                let (node, workload) = (node.as_ref().map(NodeId::as_str), id.as_str());
                tracing::warn!(node, workload, reason = &**message, "a workload is delayed");
            }
            Happening::Health { id, node, to: HealthState::Unhealthy, message } => {
                let (node, workload, reason) = (node.as_str(), id.as_str(), &**message);
                tracing::warn!(node, workload, reason, "a workload is unhealthy");
            }
            Happening::Health { id, node, to, .. } => {
                let (node, workload, health) = (node.as_str(), id.as_str(), to.text());
                tracing::info!(node, workload, health, "the health of a workload changed");
            }
            Happening::SecretChanged { id, node, message } => {
                let (node, workload) = (node.as_str(), id.as_str());
                tracing::info!(node, workload, done = &**message, "a secret has a new value");
            }
            Happening::NodeChanged { id, what } => {
                if *what == NodeChange::Removed {
                    self.0.remove(id);
                }
                let by = event.by.as_ref().map(|author| &*author.who);
                let because = event.by.as_ref().map(|author| &*author.why);
                let because = because.filter(|why| !why.is_empty());
                let (node, change) = (id.as_str(), changed(*what));
                tracing::info!(node, change, by, because, "node changed");
            }
            Happening::MassFailureBrake { silent, total, on: true } => {
                tracing::warn!(
                    silent,
                    total,
                    "brake on: too many nodes are silent, no work is moved"
                );
            }
            Happening::MassFailureBrake { silent, total, on: false } => {
                tracing::info!(silent, total, "brake off: work of lost nodes is moved again");
            }
            Happening::Drift { node, id, kind, resolved } => {
                let (node, workload, kind) = (node.as_str(), id.as_str(), kind.word());
                tracing::info!(node, workload, kind, resolved, "drift");
            }
            // Modes are told from the standing, which knows of them although nothing can be stored.
            Happening::Shadow { namespace, on, workloads } => {
                let namespace = namespace.as_ref().map(NamespaceName::as_str);
                tracing::info!(namespace, on, workloads, "shadow mode changed");
            }
            Happening::ModeChanged { .. }
            | Happening::Workload { .. }
            | Happening::Volume { .. }
            | Happening::Asked { .. } => {}
        }
    }
}

fn log_registration(id: &NodeId, before: Before) {
    let node = id.as_str();
    match before {
        Before::Unknown => tracing::info!(node, "node joined"),
        Before::Ready => tracing::info!(node, "node joined again: its agent was restarted"),
        Before::Away(from) => {
            let (from, condition) = (word(from), word(Condition::Ready));
            tracing::info!(node, from, condition, reason = "registered", "node is back");
        }
    }
}

fn log_condition(id: &NodeId, (from, to): (Condition, Condition), reason: &str) {
    let (node, from, condition) = (id.as_str(), word(from), word(to));
    match to {
        Condition::Ready => tracing::info!(node, from, condition, reason, "node is back"),
        Condition::NotReady => tracing::warn!(node, from, condition, reason, "node is not ready"),
        Condition::Lost => tracing::warn!(node, from, condition, reason, "node is lost"),
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

/// A line about mode or leadership.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    Leads,
    LeadsNoLonger { reason: &'a str },
    Follows { leader: &'a str },
    Mode { mode: Mode, from: Option<Mode>, reason: &'a str },
}

impl Line<'_> {
    fn write(&self) {
        match *self {
            Self::Leads => tracing::info!("leadership gained: this scheduler leads"),
            Self::LeadsNoLonger { reason } => {
                tracing::warn!(reason, "leadership lost: this scheduler no longer leads");
            }
            Self::Follows { leader } => {
                tracing::info!(leader, "this scheduler follows another one");
            }
            Self::Mode { mode: to, from, reason } => {
                let (mode, from) = (to.word(), from.map(Mode::word));
                match to {
                    Mode::Normal => tracing::info!(mode, from, reason, "mode changed"),
                    Mode::Degraded | Mode::Recovery => {
                        tracing::warn!(mode, from, reason, "mode changed");
                    }
                }
            }
        }
    }
}

/// Writes down changes of mode and leadership, for as long as there are any.
pub(crate) async fn log_standing(mut standing: watch::Receiver<Standing>) {
    let mut before = None;
    loop {
        let now = standing.borrow_and_update().clone();
        for line in changes(before.as_ref(), &now) {
            line.write();
        }
        before = Some(now);
        if standing.changed().await.is_err() {
            return;
        }
    }
}

/// The lines of one change.
fn changes<'a>(before: Option<&Standing>, now: &'a Standing) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    let led = before.is_some_and(|before| before.role() == Role::Leader);
    match (led, now.role()) {
        (false, Role::Leader) => lines.push(Line::Leads),
        (true, Role::Follower) => lines.push(Line::LeadsNoLonger { reason: &now.why }),
        (true, Role::Leader) | (false, Role::Follower) => {}
    }
    let known = before.and_then(|before| before.leader.as_deref());
    if now.role() == Role::Follower
        && let Some(leader) = now.leader.as_deref().filter(|leader| known != Some(*leader))
    {
        lines.push(Line::Follows { leader });
    }
    let from = before.and_then(|before| before.mode);
    if let Some(mode) = now.mode.filter(|mode| from != Some(*mode)) {
        lines.push(Line::Mode { mode, from, reason: &now.why });
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use persys_model::time::WallMillis;

    use super::*;

    fn standing(mode: Option<Mode>, leader: Option<&str>, why: &str) -> Standing {
        let leader = leader.map(Arc::from);
        Standing { mode, leader, why: Arc::from(why), since: WallMillis(0) }
    }

    #[test]
    fn each_change_of_mode_and_leadership_has_a_line() {
        let waits = standing(None, None, "nobody leads");
        let leads = standing(Some(Mode::Normal), None, "store healthy");
        let hurt = standing(Some(Mode::Degraded), None, "the store does not answer");
        let follows = standing(None, Some("s2:8085"), "follows s2:8085, which leads");
        assert_eq!(changes(None, &waits), []);
        let normal = Line::Mode { mode: Mode::Normal, from: None, reason: "store healthy" };
        assert_eq!(changes(Some(&waits), &leads), [Line::Leads, normal]);
        assert_eq!(changes(Some(&leads), &leads), []);
        let (from, reason) = (Some(Mode::Normal), "the store does not answer");
        assert_eq!(
            changes(Some(&leads), &hurt),
            [Line::Mode { mode: Mode::Degraded, from, reason }]
        );
        let reason = "follows s2:8085, which leads";
        assert_eq!(
            changes(Some(&hurt), &follows),
            [Line::LeadsNoLonger { reason }, Line::Follows { leader: "s2:8085" }]
        );
        assert_eq!(changes(Some(&follows), &follows), []);
    }

    #[test]
    fn a_node_that_returns_is_told_from_one_that_is_new() {
        let (mut nodes, id) = (Nodes::default(), NodeId::fixed("n1"));
        assert_eq!(nodes.registered(&id), Before::Unknown);
        assert_eq!(nodes.registered(&id), Before::Ready);
        nodes.0.insert(id.clone(), Condition::Lost);
        assert_eq!(nodes.registered(&id), Before::Away(Condition::Lost));
        assert_eq!(nodes.registered(&id), Before::Ready);
    }
}
