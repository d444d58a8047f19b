//! What this agent has done lately, for `ListActions`: bounded, newest last.

use std::collections::VecDeque;

use persys_model::id::WorkloadId;
use persys_model::time::WallMillis;

/// Actions that are remembered.
const MOST_ACTIONS: usize = 1_000;

/// One thing the agent did or does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// Its number.
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
#[derive(Debug, Default)]
pub struct History(VecDeque<Action>);

impl History {
    /// An action begins.
    pub fn begin(&mut self, id: u64, workload: WorkloadId, kind: ActionKind, at: WallMillis) {
        if self.0.len() >= MOST_ACTIONS {
            self.0.pop_front();
        }
        let (result, ended_at) = (None, None);
        self.0.push_back(Action { id, workload, kind, result, started_at: at, ended_at });
    }

    /// An action ended.
    pub fn end(&mut self, id: u64, result: Result<(), String>, at: WallMillis) {
        if let Some(action) = self.0.iter_mut().rev().find(|action| action.id == id) {
            action.result = Some(result);
            action.ended_at = Some(at);
        }
    }

    /// All that are remembered, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Action> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_grows_beyond_its_limit() {
        let mut history = History::default();
        for id in 0..3_000 {
            history.begin(id, WorkloadId::fixed("a"), ActionKind::Apply, WallMillis(id));
            history.end(id, Ok(()), WallMillis(id));
        }
        assert_eq!(history.iter().count(), MOST_ACTIONS);
        assert_eq!(history.iter().next_back().map(|action| action.id), Some(2_999));
    }
}
