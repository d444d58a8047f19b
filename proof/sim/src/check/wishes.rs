//! What users were promised: an accepted change is in the store until another is accepted.
//!
//! A request without an answer may have happened, or may still happen for as long as a message
//! can be on its way; both are then right.

use std::collections::BTreeMap;

use persys_cluster::effects::Reply;
use persys_cluster::input::Ask;
use persys_model::id::{RevisionId, WorkloadId};
use persys_model::phase::Phase;
use persys_model::workload::Desired;

use super::Check;
use crate::store::Contents;
use crate::users::{Subject, Users};

/// Time for which a request without an answer can still take effect: a message waits as long as its
/// receiver stands still, and one pause may follow another.
const LATE_MS: u64 = 90_000;

/// What may be in the store about one workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wish {
    Absent,
    Present { revision: Option<RevisionId>, desired: Desired },
}

/// All workloads.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    entries: BTreeMap<WorkloadId, Entry>,
    /// Restarts that were promised and after which nothing else was asked for, with the time they were
    /// asked for.
    restarts: BTreeMap<WorkloadId, u64>,
    /// When each workload was last started anywhere.
    started: BTreeMap<WorkloadId, u64>,
    lost_at: Option<u64>,
}

#[derive(Debug)]
struct Entry {
    possible: Vec<Wish>,
    /// The store lost something since: nothing is promised.
    anything: bool,
    /// Requests that may or may not have happened, and when that was noticed.
    doubtful: Vec<(u64, Ask)>,
    delete_asked: bool,
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            possible: vec![Wish::Absent],
            anything: false,
            doubtful: Vec::new(),
            delete_asked: false,
        }
    }
}

impl Entry {
    fn add(&mut self, wish: Wish) {
        if !self.possible.contains(&wish) {
            self.possible.push(wish);
        }
    }

    fn add_result(&mut self, ask: &Ask) {
        for wish in self.possible.clone() {
            self.add(result(ask, &wish));
        }
    }

    /// Requests without an answer may happen in any order.
    fn add_late_ones(&mut self) {
        let late = self.doubtful.clone();
        let mut before = 0;
        while before < self.possible.len() {
            before = self.possible.len();
            for (_, late) in &late {
                self.add_result(late);
            }
        }
    }
}

/// What the store says about a workload.
fn found(contents: &Contents, id: &WorkloadId) -> Wish {
    match contents.workloads.get(id) {
        None => Wish::Absent,
        Some(stored) if stored.desired == Desired::Deleted => Wish::Absent,
        Some(stored) => {
            Wish::Present { revision: Some(stored.revision.clone()), desired: stored.desired }
        }
    }
}

/// What a request makes of what was there.
fn result(ask: &Ask, before: &Wish) -> Wish {
    match (ask, before) {
        (Ask::Apply { spec: Some(_), revision, desired, .. }, _) => {
            Wish::Present { revision: revision.clone(), desired: *desired }
        }
        (Ask::Apply { spec: None, desired, .. }, Wish::Present { revision, .. }) => {
            Wish::Present { revision: revision.clone(), desired: *desired }
        }
        (Ask::Resume(_), Wish::Present { revision, .. }) => {
            Wish::Present { revision: revision.clone(), desired: Desired::Running }
        }
        (Ask::Rollback(asked), Wish::Present { desired, .. }) => {
            Wish::Present { revision: Some(asked.revision.clone()), desired: *desired }
        }
        (Ask::Delete(_), _) => Wish::Absent,
        (_, before) => before.clone(),
    }
}

impl Wishes {
    fn entry(&mut self, ask: &Ask) -> Option<&mut Entry> {
        match Subject::of(ask) {
            Subject::Workload(id) => Some(self.entries.entry(id).or_default()),
            Subject::Node(_) | Subject::Volume(_) | Subject::Cluster => None,
        }
    }

    /// Somebody asks.
    pub(crate) fn asked(&mut self, ask: &Ask) {
        let orphan = matches!(ask, Ask::Orphan(..));
        if let Subject::Workload(id) = Subject::of(ask) {
            self.restarts.remove(&id);
        }
        if let Some(entry) = self.entry(ask) {
            entry.delete_asked |= matches!(ask, Ask::Delete(_));
            // A verdict about an orphan may bring back or remove what nobody has a record of.
            entry.anything |= orphan;
        }
    }

    /// It was promised.
    pub(crate) fn done(&mut self, ask: &Ask, issued: u64) {
        if self.lost_at.is_some_and(|lost| lost + LATE_MS >= issued) {
            self.doubt(ask, issued);
            return;
        }
        let Some(entry) = self.entry(ask) else { return };
        if let Ask::Restart(id) = ask
            && entry.doubtful.is_empty()
        {
            self.restarts.insert(id.clone(), issued);
            return;
        }
        if matches!(ask, Ask::Retry(_) | Ask::Restart(_) | Ask::Orphan(..)) {
            return;
        }
        let bare = matches!(ask, Ask::Apply { spec: None, .. } | Ask::Resume(_) | Ask::Rollback(_));
        let mut possible: Vec<Wish> = Vec::new();
        for before in &entry.possible {
            let wish = result(ask, before);
            // It was done, so it was there.
            if !(possible.contains(&wish) || bare && wish == Wish::Absent) {
                possible.push(wish);
            }
        }
        entry.anything &= bare;
        entry.possible = possible;
        entry.doubtful.retain(|(since, _)| issued.saturating_sub(*since) < LATE_MS);
        entry.add_late_ones();
    }

    /// Nobody knows whether it happened.
    pub(crate) fn doubt(&mut self, ask: &Ask, now: u64) {
        let Some(entry) = self.entry(ask) else { return };
        entry.doubtful.push((now, ask.clone()));
        entry.add_late_ones();
    }

    /// The store lost something.
    pub(crate) fn store_lost(&mut self, now: u64) {
        self.lost_at = Some(now);
        self.restarts.clear();
        for entry in self.entries.values_mut() {
            entry.anything = true;
            entry.delete_asked = true;
        }
    }

    /// A copy of it was started.
    pub(crate) fn started(&mut self, id: &WorkloadId, now: u64) {
        self.started.insert(id.clone(), now);
    }

    /// The first workload that runs since before its restart was asked for.
    fn not_restarted(&self, contents: &Contents) -> Option<String> {
        let runs = |id: &WorkloadId| {
            contents.assignments.get(id).is_some_and(|a| a.phase == Phase::Running)
        };
        let (id, asked) = self.restarts.iter().find(|(id, asked)| {
            runs(id) && self.started.get(*id).is_none_or(|started| started < *asked)
        })?;
        Some(format!("{id} was not restarted, though that was promised at {asked} ms"))
    }

    /// Whether somebody asked for this workload to go.
    pub(crate) fn may_go(&self, id: &WorkloadId) -> bool {
        self.entries.get(id).is_some_and(|entry| entry.delete_asked)
    }

    /// The workload is gone: the next one of this name needs a word of its own to go.
    pub(crate) fn gone(&mut self, id: &WorkloadId) {
        if let Some(entry) = self.entries.get_mut(id) {
            // A request that was not answered may come twice.
            entry.delete_asked =
                entry.doubtful.iter().any(|(_, ask)| matches!(ask, Ask::Delete(_)));
        }
    }

    /// Whether the store says about a workload what a request has made of it that was given up and can
    /// still have come, after others that were asked for later.
    fn overtaken(&self, id: &WorkloadId, contents: &Contents, now: u64) -> bool {
        let found = found(contents, id);
        self.entries.get(id).is_some_and(|entry| {
            entry.doubtful.iter().any(|(since, late)| {
                let changes = matches!(
                    late,
                    Ask::Apply { .. } | Ask::Resume(_) | Ask::Rollback(_) | Ask::Delete(_)
                );
                changes && now.saturating_sub(*since) < LATE_MS && result(late, &found) == found
            })
        })
    }

    /// The first workload about which the store says what nobody can have asked for.
    pub(crate) fn broken(&self, contents: &Contents) -> Option<String> {
        for (id, entry) in &self.entries {
            if entry.anything {
                continue;
            }
            let found = found(contents, id);
            if !entry.possible.contains(&found) {
                return Some(format!(
                    "{id} is {found:?}, but only {:?} was asked for",
                    entry.possible
                ));
            }
        }
        self.not_restarted(contents)
    }
}

impl Check {
    /// A user is told that something is done: then it is in the store.
    pub(crate) fn user_told(
        &mut self,
        now: u64,
        users: &Users,
        op: u64,
        reply: &Reply,
        contents: &Contents,
    ) {
        let Reply::Done { .. } = reply else { return };
        let Some(request) = users.open.get(&op) else { return };
        // Until the loss is noticed and dealt with, nothing can be told about the store.
        if self.is_loss_open() || self.store_lost_at.is_some_and(|lost| lost >= request.issued) {
            return;
        }
        let held = match &request.ask {
            Ask::Apply { workload, revision: Some(revision), desired, .. } => contents
                .workloads
                .get(workload)
                .is_some_and(|stored| stored.revision == *revision && stored.desired == *desired),
            Ask::Apply { workload, desired, .. } => {
                contents.workloads.get(workload).is_some_and(|stored| stored.desired == *desired)
            }
            Ask::Resume(workload) => contents
                .workloads
                .get(workload)
                .is_some_and(|stored| stored.desired == Desired::Running),
            Ask::Delete(workload) => contents
                .workloads
                .get(workload)
                .is_none_or(|stored| stored.desired == Desired::Deleted),
            _ => true,
        };
        let overtaken = match Subject::of(&request.ask) {
            Subject::Workload(id) => self.wishes.overtaken(&id, contents, now),
            Subject::Node(_) | Subject::Volume(_) | Subject::Cluster => false,
        };
        if !held && !overtaken {
            let ask = crate::tell::ask(op, &request.ask);
            self.violate(now, "I1", || format!("{ask} was called done, but the store has it not"));
        }
    }
}
