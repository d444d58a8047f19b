//! The earlier revisions of one workload, read from a store. No load reads them: they are asked for when
//! somebody looks at a history or goes back.

use std::sync::Arc;

use persys_model::history::{Body, Revision};
use persys_model::id::{RevisionId, WorkloadId};
use persys_model::spec::Spec;

use crate::key::Keys;
use crate::record::decode;
use crate::store::Pairs;

/// Earlier revisions of one workload and their contents.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Revisions {
    /// Those that can be read, oldest first.
    pub listed: Vec<Revision>,
    /// Their contents; revisions share them.
    pub bodies: Vec<Body>,
    /// Records that cannot be read.
    pub unreadable: u32,
}

impl Revisions {
    /// The revisions of a workload in a copy of a store.
    #[must_use]
    pub fn within(pairs: &Pairs, workload: &WorkloadId) -> Self {
        let (from, to) = Keys::bare().of_history(workload);
        let mut found = Self::default();
        for (key, bytes) in pairs.iter().filter(|(key, _)| *key >= from && *key < to) {
            let last = key.rsplit('/').next().unwrap_or_default();
            let read = if last.starts_with("spec-") {
                decode::<Body>(bytes).map(|(body, _)| found.bodies.push(body))
            } else {
                decode::<Revision>(bytes).map(|(one, _)| found.listed.push(one))
            };
            found.unreadable += u32::from(read.is_err());
        }
        found.listed.sort_by_key(|one| one.number);
        found
    }

    /// An earlier revision and its content.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<(&Revision, &Arc<Spec>)> {
        let one = self.listed.iter().find(|one| one.number == number)?;
        Some((one, self.content(&one.content)?))
    }

    fn content(&self, content: &RevisionId) -> Option<&Arc<Spec>> {
        self.bodies.iter().find(|body| body.content == *content).map(|body| &body.spec)
    }
}
