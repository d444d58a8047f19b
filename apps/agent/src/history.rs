//! What this agent has done lately, for `ListActions`: bounded, newest last, and known to the next
//! life of the process.

use std::collections::VecDeque;

use persys_model::failure::clip;
use persys_model::id::WorkloadId;
use persys_model::time::WallMillis;

/// Actions that are remembered.
pub const MOST_ACTIONS: usize = 1_000;
/// Bytes of an error that are remembered.
const MOST_ERROR_BYTES: usize = 1_024;

/// One thing the agent did or does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// Its number; it goes on counting in the next life.
    pub id: u64,
    /// About which workload.
    pub workload: WorkloadId,
    /// What.
    pub kind: ActionKind,
    /// How it went; `None` while it runs.
    pub result: Option<Result<(), String>>,
    /// When it began.
    pub started_at: WallMillis,
    /// When it ended.
    pub ended_at: Option<WallMillis>,
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

    /// An action begins; gives it as it is kept.
    pub fn begin(&mut self, workload: WorkloadId, kind: ActionKind, at: WallMillis) -> Action {
        let id = self.actions.back().map_or(1, |last| last.id.saturating_add(1));
        let (result, ended_at) = (None, None);
        let action = Action { id, workload, kind, result, started_at: at, ended_at };
        self.put(action.clone());
        action
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

    /// All that are remembered, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Action> {
        self.actions.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web() -> WorkloadId {
        WorkloadId::fixed("a")
    }

    #[test]
    fn it_never_grows_beyond_its_limit() {
        let mut history = History::default();
        for at in 0..3_000 {
            let id = history.begin(web(), ActionKind::Apply, WallMillis(at)).id;
            history.end(id, Ok(()), WallMillis(at));
        }
        assert_eq!(history.iter().count(), MOST_ACTIONS);
        assert_eq!(history.iter().next_back().map(|action| action.id), Some(3_000));
        assert!(history.end(7, Ok(()), WallMillis(0)).is_none(), "forgotten");
    }

    #[test]
    fn the_next_life_goes_on_counting_and_leaves_nothing_open() {
        let mut before = History::default();
        let done = before.begin(web(), ActionKind::Apply, WallMillis(1)).id;
        before.end(done, Err("x".repeat(5_000)), WallMillis(2));
        before.begin(web(), ActionKind::Delete, WallMillis(3));
        let mut after = History::remembered(before.iter().cloned(), WallMillis(9));
        let last = after.iter().next_back().cloned().unwrap();
        assert!(matches!(&last.result, Some(Err(why)) if why.contains("the agent ended")));
        assert_eq!((last.id, last.ended_at), (2, Some(WallMillis(9))));
        let first = after.iter().next().cloned().unwrap();
        assert!(matches!(first.result, Some(Err(why)) if why.len() == MOST_ERROR_BYTES));
        assert_eq!(after.begin(web(), ActionKind::Apply, WallMillis(10)).id, 3);
    }
}
