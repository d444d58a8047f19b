//! The revisions of a workload: the present one, and those before it that can be had again.
//!
//! ```text
//!   Workload { spec, revision, history } ── a new revision ──► the old one becomes a Revision and a body
//!        number 3                            number 4          /history/<id>/<number>, /history/<id>/spec-<content>
//! ```
//!
//! A workload carries only the numbers of its revisions and the hashes of their contents. Who made a
//! revision, when, and its spec are in the store; nobody keeps them in memory.

use std::sync::Arc;

use crate::id::{RevisionId, WorkloadId};
use crate::spec::Spec;
use crate::time::WallMillis;

/// Most revisions of one workload that are kept, the present one among them.
pub const MOST_REVISIONS: usize = 10;

/// The revisions of one workload. A record of a release before histories has a history of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// Number of the present revision; numbers are never given twice.
    number: u32,
    /// The time it was asked for; `None` where the record does not tell.
    since: Option<WallMillis>,
    /// The one who asked for it; empty where nobody is recorded.
    by: Arc<str>,
    /// The number of the revision whose content this one took back.
    rolled_back_to: Option<u32>,
    /// Earlier revisions, oldest first.
    earlier: Vec<Earlier>,
}

/// An earlier revision, as far as it is kept in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Earlier {
    /// Its number.
    pub number: u32,
    /// The hash of its content: the key of its body.
    pub content: RevisionId,
    /// True if it is known that it never came to run.
    pub failed: bool,
}

/// An earlier revision as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "a revision id is called so everywhere")]
pub struct Revision {
    /// The workload.
    pub workload: WorkloadId,
    /// Its number.
    pub number: u32,
    /// Its name, the client's or ours.
    pub revision: RevisionId,
    /// The hash of its content.
    pub content: RevisionId,
    /// The time it was asked for; `None` where nobody recorded that.
    pub since: Option<WallMillis>,
    /// The one who asked for it; empty where nobody is recorded.
    pub by: Arc<str>,
    /// The number of the revision whose content it took back.
    pub rolled_back_to: Option<u32>,
    /// The reason it did not come to run; empty where it did, or where nobody knows.
    pub failed: Arc<str>,
}

/// The content of an earlier revision as it is stored; revisions with the same content share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// The workload.
    pub workload: WorkloadId,
    /// The hash of the content.
    pub content: RevisionId,
    /// The content.
    pub spec: Arc<Spec>,
}

/// The parts of a history, to store and to read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryParts {
    /// Number of the present revision.
    pub number: u32,
    /// The time it was asked for.
    pub since: Option<WallMillis>,
    /// The one who asked for it.
    pub by: Arc<str>,
    /// The number of the revision whose content it took back.
    pub rolled_back_to: Option<u32>,
    /// Earlier revisions, oldest first.
    pub earlier: Vec<Earlier>,
}

/// The origin of a new revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The time it was asked for.
    pub at: WallMillis,
    /// The one who asked for it.
    pub by: Arc<str>,
    /// The number of the revision whose content it takes back.
    pub rolled_back_to: Option<u32>,
}

/// Changes of the store that keep it equal to a history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HistoryChange {
    /// True if the body of the superseded revision has to be written.
    pub new_body: bool,
    /// Numbers of revisions that are no longer kept.
    pub dropped: Vec<u32>,
    /// Contents that no kept revision has.
    pub unused: Vec<RevisionId>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            number: 1,
            since: None,
            by: Arc::from(""),
            rolled_back_to: None,
            earlier: Vec::new(),
        }
    }
}

impl History {
    /// A history of one.
    #[must_use]
    pub fn of_one(origin: Origin) -> Self {
        let Origin { at, by, rolled_back_to } = origin;
        Self { since: Some(at), by, rolled_back_to, ..Self::default() }
    }

    /// Number of the present revision.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The number of the revision that a rollback took back; `None` unless the present one is its work.
    #[must_use]
    pub fn rolled_back_to(&self) -> Option<u32> {
        self.rolled_back_to
    }

    /// Earlier revisions, oldest first.
    #[must_use]
    pub fn earlier(&self) -> &[Earlier] {
        &self.earlier
    }

    /// The content of an earlier revision.
    #[must_use]
    pub fn content_of(&self, number: u32) -> Option<&RevisionId> {
        self.earlier.iter().find(|one| one.number == number).map(|one| &one.content)
    }

    /// Earlier revisions that a rollback may go to by itself, the newest first: those that came to run
    /// and have another content than the present one, which is `present`.
    pub fn ways_back<'a>(&'a self, present: &'a RevisionId) -> impl Iterator<Item = u32> + 'a {
        let ran = |one: &&Earlier| !one.failed && one.content != *present;
        self.earlier.iter().rev().filter(ran).map(|one| one.number)
    }

    /// All that is stored of it.
    #[must_use]
    pub fn parts(&self) -> HistoryParts {
        let Self { number, since, by, rolled_back_to, earlier } = self.clone();
        HistoryParts { number, since, by, rolled_back_to, earlier }
    }

    /// A history as it was stored. More than is kept, numbers out of order and a missing number are
    /// mended rather than refused: a workload is worth more than its history.
    #[must_use]
    pub fn from_parts(parts: HistoryParts) -> Self {
        let HistoryParts { number, since, by, rolled_back_to, mut earlier } = parts;
        let number = number.max(1);
        earlier.retain(|one| one.number > 0 && one.number < number);
        earlier.sort_by_key(|one| one.number);
        earlier.dedup_by_key(|one| one.number);
        let surplus = earlier.len().saturating_sub(MOST_REVISIONS - 1);
        earlier.drain(..surplus);
        Self { number, since, by, rolled_back_to, earlier }
    }

    /// The present revision of a workload, as it is stored once another takes its place.
    #[must_use]
    pub fn present(
        &self,
        workload: &WorkloadId,
        (revision, content): (&RevisionId, &RevisionId),
        failed: &str,
    ) -> Revision {
        Revision {
            workload: workload.clone(),
            number: self.number,
            revision: revision.clone(),
            content: content.clone(),
            since: self.since,
            by: Arc::clone(&self.by),
            rolled_back_to: self.rolled_back_to,
            failed: Arc::from(failed),
        }
    }

    /// A new revision takes the place of the present one, whose content is `superseded` and which
    /// `failed` if it never came to run.
    pub fn supersede(
        &mut self,
        superseded: RevisionId,
        failed: bool,
        origin: Origin,
    ) -> HistoryChange {
        let new_body = !self.has_content(&superseded);
        self.earlier.push(Earlier { number: self.number, content: superseded, failed });
        self.number = self.number.saturating_add(1);
        self.since = Some(origin.at);
        self.by = origin.by;
        self.rolled_back_to = origin.rolled_back_to;
        let surplus = self.earlier.len().saturating_sub(MOST_REVISIONS - 1);
        let gone: Vec<Earlier> = self.earlier.drain(..surplus).collect();
        let mut change = HistoryChange { new_body, ..HistoryChange::default() };
        for Earlier { number, content, failed: _ } in gone {
            change.dropped.push(number);
            if !self.has_content(&content) && !change.unused.contains(&content) {
                change.unused.push(content);
            }
        }
        change
    }

    /// Everything that is stored of it, for a workload that goes.
    #[must_use]
    pub fn all(&self) -> HistoryChange {
        let mut change = HistoryChange::default();
        for Earlier { number, content, failed: _ } in &self.earlier {
            change.dropped.push(*number);
            if !change.unused.contains(content) {
                change.unused.push(content.clone());
            }
        }
        change
    }

    /// The same without earlier revisions, whose bodies are not there.
    #[must_use]
    pub fn alone(&self) -> Self {
        Self { earlier: Vec::new(), ..self.clone() }
    }

    fn has_content(&self, content: &RevisionId) -> bool {
        self.earlier.iter().any(|one| one.content == *content)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn origin(at: u64) -> Origin {
        Origin { at: WallMillis(at), by: Arc::from("user ada"), rolled_back_to: None }
    }

    fn content(text: &str) -> RevisionId {
        RevisionId::new(text).unwrap()
    }

    /// A store that does what the changes say.
    #[derive(Default)]
    struct Stored {
        numbers: BTreeSet<u32>,
        bodies: BTreeSet<RevisionId>,
    }

    impl Stored {
        fn supersede(&mut self, history: &mut History, superseded: &str, at: u64) {
            let number = history.number();
            let change = history.supersede(content(superseded), false, origin(at));
            assert!(self.numbers.insert(number), "a number is given once");
            if change.new_body {
                assert!(self.bodies.insert(content(superseded)), "a body is written once");
            }
            for number in change.dropped {
                assert!(self.numbers.remove(&number));
            }
            for unused in change.unused {
                assert!(self.bodies.remove(&unused));
            }
        }
    }

    #[test]
    fn ten_are_kept_and_every_one_has_its_body() {
        let mut history = History::of_one(origin(1));
        let mut stored = Stored::default();
        for at in 0..100 {
            // Contents come back: 7 of them, and now and then a new one.
            let text = if at % 9 == 0 { format!("new-{at}") } else { format!("sha-{}", at % 7) };
            stored.supersede(&mut history, &text, at);
            assert!(history.earlier().len() < MOST_REVISIONS);
            let named: BTreeSet<_> =
                history.earlier().iter().map(|one| one.content.clone()).collect();
            assert_eq!(named, stored.bodies, "no body is missing, none is left over");
            let numbers: BTreeSet<_> = history.earlier().iter().map(|one| one.number).collect();
            assert_eq!(numbers, stored.numbers);
        }
        assert_eq!(history.number(), 101);
        let all = history.all();
        assert_eq!(all.dropped.len(), MOST_REVISIONS - 1);
        assert_eq!(all.unused.into_iter().collect::<BTreeSet<_>>(), stored.bodies);
    }

    #[test]
    fn a_content_that_comes_back_has_a_new_number_and_the_same_body() {
        let mut history = History::default();
        let first = history.supersede(content("a"), false, origin(1));
        let second = history.supersede(content("b"), false, origin(2));
        let third = history.supersede(content("a"), false, origin(3));
        assert!(first.new_body && second.new_body && !third.new_body);
        assert_eq!(history.number(), 4);
        assert_eq!(history.content_of(1), history.content_of(3));
    }

    #[test]
    fn a_broken_record_is_mended() {
        let earlier = |number| Earlier { number, content: content("a"), failed: false };
        let parts = HistoryParts {
            number: 0,
            since: None,
            by: Arc::from(""),
            rolled_back_to: None,
            earlier: vec![earlier(3)],
        };
        assert_eq!(History::from_parts(parts.clone()), History::default());
        let many = (1..40).rev().chain([5, 90]).map(earlier).collect();
        let mended = History::from_parts(HistoryParts { number: 50, earlier: many, ..parts });
        assert_eq!(mended.earlier().len(), MOST_REVISIONS - 1);
        assert_eq!(mended.earlier().last().map(|one| one.number), Some(39));
    }
}
