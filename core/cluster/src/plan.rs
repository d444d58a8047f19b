//! A plan: what a wish was foreseen to do, so that it is carried out so or not at all.
//!
//! A plan carries the index of the store it was made at. Much is written that has nothing to do with a
//! plan, such as the lease of a node, so a plan is stale only if its own workload changed since, or if the
//! same wish would do something else now.

use std::sync::Arc;

use persys_model::id::{NodeId, RevisionId};
use persys_model::token::{CommitSeq, Generation};

use crate::world::Action;

/// What a wish was foreseen to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The cluster it was made in.
    pub cluster: Arc<str>,
    /// The index of the store it was made at.
    pub index: CommitSeq,
    /// The generation of its workload then; `None` if there was none.
    pub generation: Option<Generation>,
    /// What it does.
    pub action: Action,
    /// The node it goes to, if it is to run and one has room.
    pub node: Option<NodeId>,
    /// The hash of its content, if it has one.
    pub content: Option<RevisionId>,
}

/// First part of the text of a plan: the form it is written in.
const FORM: &str = "plan1";
/// Stands for what is not there.
const NONE: &str = "-";
/// Letters of the longest text that is read.
const LONGEST: usize = 1024;

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cluster, index, generation, action, node, content } = self;
        let generation = generation.map_or_else(|| NONE.to_owned(), |one| one.0.to_string());
        let node = node.as_ref().map_or(NONE, NodeId::as_str);
        let content = content.as_ref().map_or(NONE, RevisionId::as_str);
        let (index, action) = (index.0, action.word());
        write!(f, "{FORM}/{cluster}/{index}/{generation}/{action}/{node}/{content}")
    }
}

impl Plan {
    /// The plan that a text means, if it is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let mut parts = text.split('/');
        let mut next = || parts.next().filter(|part| !part.is_empty());
        if next()? != FORM {
            return None;
        }
        let plan = Self {
            cluster: Arc::from(next()?),
            index: CommitSeq(next()?.parse().ok()?),
            generation: match next()? {
                NONE => None,
                number => Some(Generation(number.parse().ok()?)),
            },
            action: Action::of_word(next()?)?,
            node: match next()? {
                NONE => None,
                node => Some(NodeId::new(node).ok()?),
            },
            content: match next()? {
                NONE => None,
                content => Some(RevisionId::new(content).ok()?),
            },
        };
        parts.next().is_none().then_some(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let whole = Plan {
            cluster: Arc::from("c0ffee"),
            index: CommitSeq(42),
            generation: Some(Generation(3)),
            action: Action::Update,
            node: Some(NodeId::fixed("n1")),
            content: Some(RevisionId::fixed("content-00ff")),
        };
        let bare = Plan {
            generation: None,
            node: None,
            content: None,
            action: Action::Stop,
            ..whole.clone()
        };
        for plan in [whole, bare] {
            assert_eq!(Plan::parse(&plan.to_string()), Some(plan));
        }
        for bad in
            ["", "plan1", "plan2/a/1/-/stop/-/-", "plan1/a/1/-/stop/-/-/x", "plan1/a/1/-/x/-/-"]
        {
            assert_eq!(Plan::parse(bad), None, "{bad}");
        }
    }
}
