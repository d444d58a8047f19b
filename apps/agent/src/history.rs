//! What this agent has done lately, for `ListActions`: bounded, newest last, and known to the next
//! life of the process.

use std::collections::VecDeque;
use std::sync::Arc;

use persys_model::failure::clip;
use persys_model::id::{NodeId, WorkloadId};
use persys_model::task::{Task, TaskAction, TaskStatus, WorkloadTask};
use persys_model::time::WallMillis;
use persys_model::token::Epoch;

/// Actions that are remembered.
pub const MOST_ACTIONS: usize = 1_000;
/// Bytes of an error that are remembered.
const MOST_ERROR_BYTES: usize = 1_024;

/// How long an action stays queued although its workload is as ordered: its verb may still come.
const SETTLED_AFTER_MS: u64 = 5_000;

/// One thing the agent did or does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// Its number; it goes on counting in the next life.
    pub id: u64,
    /// About which workload.
    pub workload: WorkloadId,
    /// The decision it carries out; none for what is cleaned up, and in records of earlier versions.
    pub epoch: Option<Epoch>,
    /// What.
    pub kind: ActionKind,
    /// How it went; `None` while it is queued or runs.
    pub result: Option<Result<(), String>>,
    /// When the order for it was taken, or when it began without one.
    pub created_at: WallMillis,
    /// When it began; `None` while it is queued.
    pub started_at: Option<WallMillis>,
    /// When it ended.
    pub ended_at: Option<WallMillis>,
}

impl Action {
    /// Its name for schedulers and in logs.
    #[must_use]
    pub fn task_id(&self) -> String {
        format!("task-{}-{}", self.created_at.0, self.id)
    }

    /// The action as schedulers are told of it.
    #[must_use]
    pub fn task(&self, node: &NodeId) -> Task {
        let (status, error) = match &self.result {
            None if self.is_queued() => (TaskStatus::Pending, None),
            None => (TaskStatus::Running, None),
            Some(Ok(())) => (TaskStatus::Completed, None),
            Some(Err(error)) => (TaskStatus::Failed, Some(clip(error, Task::LONGEST_ERROR))),
        };
        Task {
            node: node.clone(),
            id: Arc::from(self.task_id()),
            action: match self.kind {
                ActionKind::Apply => TaskAction::Apply,
                ActionKind::Delete => TaskAction::Delete,
            },
            status,
            error: error.map(Arc::from),
            created: Some(self.created_at),
            started: self.started_at,
            ended: self.ended_at,
        }
    }

    /// True if it was ordered and has neither begun nor ended.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.started_at.is_none() && self.result.is_none()
    }
}

/// What an action is, in the words of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionKind {
    /// Something is made, started or stopped.
    Apply,
    /// Something is removed.
    Delete,
}

/// The last actions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    actions: VecDeque<Action>,
}

impl History {
    /// What an earlier life remembered. What it had begun and not ended, nobody knows the end of.
    #[must_use]
    pub fn remembered(actions: impl IntoIterator<Item = Action>, now: WallMillis) -> Self {
        let mut history = Self::default();
        for action in actions {
            history.put(action);
        }
        history.interrupt(now);
        history
    }

    /// All that is under way is let go.
    pub fn interrupt(&mut self, now: WallMillis) {
        for action in self.actions.iter_mut().filter(|action| action.result.is_none()) {
            let why = "the agent ended before this did; what became of it was looked up anew";
            action.result = Some(Err(why.to_owned()));
            action.ended_at = Some(now);
        }
    }

    /// How many are under way.
    #[must_use]
    pub fn open(&self) -> usize {
        self.actions.iter().filter(|action| action.result.is_none()).count()
    }

    /// An action that was ordered and has not begun; gives it and the one it replaces, if any.
    pub fn queue(
        &mut self,
        workload: WorkloadId,
        epoch: Epoch,
        kind: ActionKind,
        at: WallMillis,
    ) -> (Action, Option<Action>) {
        let waiting = self.actions.iter().rev();
        let mut waiting = waiting.filter(|one| one.is_queued() && one.workload == workload);
        let replaced = waiting.next().map(|one| one.id);
        let why = || Err("a later order replaced this one before it began".to_owned());
        let replaced = replaced.and_then(|id| self.end(id, why(), at));
        (self.add(new_action(workload, Some(epoch), kind, at)), replaced)
    }

    /// An action begins; gives it as it is kept. It is the queued one of that kind, if there is one.
    pub fn begin(
        &mut self,
        workload: WorkloadId,
        epoch: Option<Epoch>,
        kind: ActionKind,
        at: WallMillis,
    ) -> Action {
        let mut waiting = self.actions.iter_mut().rev();
        let mine = |one: &Action| one.workload == workload && one.kind == kind;
        if let Some(action) = waiting.find(|one| one.is_queued() && mine(one)) {
            action.started_at = Some(at);
            return action.clone();
        }
        let action = new_action(workload, epoch, kind, at);
        self.add(Action { started_at: Some(at), ..action })
    }

    fn add(&mut self, action: Action) -> Action {
        let id = self.actions.back().map_or(1, |last| last.id.saturating_add(1));
        let action = Action { id, ..action };
        self.put(action.clone());
        action
    }

    /// Ends queued actions that have nothing to do: those of workloads that `settled` knows the end
    /// of, [`SETTLED_AFTER_MS`] after they were ordered. Gives them as they are kept.
    pub fn settle(
        &mut self,
        at: WallMillis,
        settled: impl Fn(&Action) -> Option<Result<(), String>>,
    ) -> Vec<Action> {
        let old = |one: &&Action| {
            one.is_queued() && at.0.saturating_sub(one.created_at.0) >= SETTLED_AFTER_MS
        };
        let ends: Vec<_> = self
            .actions
            .iter()
            .filter(old)
            .filter_map(|one| Some((one.id, settled(one)?)))
            .collect();
        ends.into_iter().filter_map(|(id, result)| self.end(id, result, at)).collect()
    }

    /// An action ended; gives it as it is kept. One of too long ago is nothing.
    pub fn end(&mut self, id: u64, result: Result<(), String>, at: WallMillis) -> Option<Action> {
        let action = self.actions.iter_mut().rev().find(|action| action.id == id)?;
        let cut = |error: String| clip(&error, MOST_ERROR_BYTES).to_owned();
        action.result = Some(result.map_err(cut));
        action.ended_at = Some(at);
        Some(action.clone())
    }

    /// Takes in an action as it is now; the oldest goes when there are too many.
    pub fn put(&mut self, action: Action) {
        if let Some(known) = self.actions.iter_mut().rev().find(|known| known.id == action.id) {
            *known = action;
            return;
        }
        if self.actions.len() >= MOST_ACTIONS {
            self.actions.pop_front();
        }
        self.actions.push_back(action);
    }

    /// The last action for a workload under this decision, as schedulers are told of it.
    #[must_use]
    pub fn task(&self, node: &NodeId, workload: &WorkloadId, epoch: Epoch) -> Option<WorkloadTask> {
        let wanted = |action: &&Action| action.epoch == Some(epoch) && action.workload == *workload;
        let task = Arc::new(self.actions.iter().rev().find(wanted)?.task(node));
        Some(WorkloadTask { workload: workload.clone(), epoch, task })
    }

    /// All that are remembered, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Action> {
        self.actions.iter()
    }
}

/// An action that has not begun; its number is given when it is added.
fn new_action(
    workload: WorkloadId,
    epoch: Option<Epoch>,
    kind: ActionKind,
    created_at: WallMillis,
) -> Action {
    let (result, started_at, ended_at) = (None, None, None);
    Action { id: 0, workload, epoch, kind, result, created_at, started_at, ended_at }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web() -> WorkloadId {
        WorkloadId::fixed("a")
    }

    #[test]
    fn a_queued_action_is_the_one_that_begins() {
        let mut history = History::default();
        let (queued, _) = history.queue(web(), Epoch(1), ActionKind::Apply, WallMillis(1));
        assert!(queued.is_queued());
        let other = history.begin(web(), None, ActionKind::Delete, WallMillis(2));
        assert_ne!(other.id, queued.id, "of another kind");
        let begun = history.begin(web(), None, ActionKind::Apply, WallMillis(3));
        assert_eq!((begun.id, begun.created_at), (queued.id, WallMillis(1)));
        assert_eq!(begun.started_at, Some(WallMillis(3)));
        let (first, _) = history.queue(web(), Epoch(1), ActionKind::Apply, WallMillis(4));
        let (second, replaced) = history.queue(web(), Epoch(1), ActionKind::Apply, WallMillis(5));
        assert_eq!(replaced.map(|one| one.id), Some(first.id), "the later order counts");
        assert!(history.settle(WallMillis(6), |_| Some(Ok(()))).is_empty(), "it may still begin");
        assert!(history.settle(WallMillis(10_000), |_| None).is_empty(), "not as ordered");
        let ended = history.settle(WallMillis(10_000), |_| Some(Ok(())));
        assert_eq!(ended.first().map(|one| one.id), Some(second.id));
        assert_eq!(history.open(), 2, "what runs is ended by itself");
    }

    #[test]
    fn it_never_grows_beyond_its_limit() {
        let mut history = History::default();
        for at in 0..3_000 {
            let id = history.begin(web(), None, ActionKind::Apply, WallMillis(at)).id;
            history.end(id, Ok(()), WallMillis(at));
        }
        assert_eq!(history.iter().count(), MOST_ACTIONS);
        assert_eq!(history.iter().next_back().map(|action| action.id), Some(3_000));
        assert!(history.end(7, Ok(()), WallMillis(0)).is_none(), "forgotten");
    }

    #[test]
    fn schedulers_are_told_the_last_action_for_the_decision_they_made() {
        let (mut history, node) = (History::default(), NodeId::fixed("n1"));
        for (epoch, at) in [(1, 10), (2, 20), (2, 30)] {
            let at = WallMillis(at);
            let id = history.begin(web(), Some(Epoch(epoch)), ActionKind::Apply, at).id;
            history.end(id, Err("no such image".to_owned()), WallMillis(at.0 + 5));
        }
        let told = history.task(&node, &web(), Epoch(2)).unwrap();
        assert_eq!((&*told.task.id, told.task.status), ("task-30-3", TaskStatus::Failed));
        assert_eq!(told.task.error.as_deref(), Some("no such image"));
        assert_eq!(
            (told.task.started, told.task.ended),
            (Some(WallMillis(30)), Some(WallMillis(35)))
        );
        assert_eq!(history.task(&node, &web(), Epoch(3)), None);
        assert_eq!(history.task(&node, &WorkloadId::fixed("b"), Epoch(2)), None);
    }

    #[test]
    fn the_next_life_goes_on_counting_and_leaves_nothing_open() {
        let mut before = History::default();
        let done = before.begin(web(), None, ActionKind::Apply, WallMillis(1)).id;
        before.end(done, Err("x".repeat(5_000)), WallMillis(2));
        before.begin(web(), None, ActionKind::Delete, WallMillis(3));
        let mut after = History::remembered(before.iter().cloned(), WallMillis(9));
        let last = after.iter().next_back().cloned().unwrap();
        assert!(matches!(&last.result, Some(Err(why)) if why.contains("the agent ended")));
        assert_eq!((last.id, last.ended_at), (2, Some(WallMillis(9))));
        let first = after.iter().next().cloned().unwrap();
        assert!(matches!(first.result, Some(Err(why)) if why.len() == MOST_ERROR_BYTES));
        assert_eq!(after.begin(web(), None, ActionKind::Apply, WallMillis(10)).id, 3);
    }
}
