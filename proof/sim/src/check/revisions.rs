//! Histories: every revision that a workload names has its entry and its body, no more than ten are
//! kept, and nothing is stored that nobody names (I23).

use std::collections::BTreeSet;

use persys_model::history::MOST_REVISIONS;

use super::Check;
use crate::store::Contents;

impl Check {
    /// Units were written; `contents` is what is stored now.
    pub(super) fn histories(&mut self, now: u64, contents: &Contents) {
        if let Some(why) = wrong(contents) {
            self.violate(now, "I23", || why);
        }
    }
}

fn wrong(contents: &Contents) -> Option<String> {
    let (mut entries, mut bodies) = (0, 0);
    for (id, workload) in &contents.workloads {
        let earlier = workload.history.earlier();
        if earlier.len() >= MOST_REVISIONS {
            return Some(format!("{} revisions of {id} are kept", earlier.len() + 1));
        }
        for one in earlier {
            let entry = contents.revisions.get(&(id.clone(), one.number));
            if entry.is_none_or(|entry| entry.content != one.content) {
                return Some(format!("revision {} of {id} is named and not there", one.number));
            }
            if !contents.bodies.contains_key(&(id.clone(), one.content.clone())) {
                return Some(format!("revision {} of {id} has no body", one.number));
            }
        }
        entries += earlier.len();
        bodies += earlier.iter().map(|one| &one.content).collect::<BTreeSet<_>>().len();
    }
    ((entries, bodies) != (contents.revisions.len(), contents.bodies.len())).then(|| {
        let stored = (contents.revisions.len(), contents.bodies.len());
        format!("revisions and bodies: {stored:?} are stored, ({entries}, {bodies}) are named")
    })
}
