//! One scheduler process: it campaigns, loads, leads, and steps down.
//!
//! ```text
//!   Follower ── won ──► Loading ── loaded ──► Leading ─┐ store lost: frozen, keeps answering
//!      ▲  ▲                │                    │  ▲   │ store back: load again
//!      │  └── failed ──────┘                    │  └───┘
//!      └────────────── deposed ────────────────┘
//! ```

use std::sync::Arc;

use persys_model::time::{Millis, Now};

use crate::effects::{Marks, Outbound};
use crate::input::Input;
use crate::settings::Settings;
use crate::store::{CallId, HighWater, StoreCall, StoreReply};

/// One thing that happens to a scheduler process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicaInput {
    /// The store answered a call, or its deadline passed.
    Store(CallId, StoreReply),
    /// Something for the scheduler proper: requests, beats, answers, probes.
    /// (`Committed`, `StoreLost`, `Loaded` are made by the replica itself.)
    Cluster(Input),
    /// Time passed.
    Tick,
}

/// What a scheduler process does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplicaEffects {
    /// Calls to the store. The shell answers each with exactly one reply, at the latest when its
    /// own deadline passes (then `Unknown`, or `Unavailable` when it was surely not sent).
    pub calls: Vec<(CallId, StoreCall)>,
    /// Messages that may go now.
    pub out: Vec<Outbound>,
    /// Callers to be told that this process does not lead.
    pub not_leader: Vec<crate::input::RequestId>,
    /// How far the store has come: keep it on this host, outside the store. Lazily is enough.
    pub remember: Option<HighWater>,
    /// When to step again if nothing happens before.
    pub wake_at: Option<Millis>,
    /// Rare turns that were taken.
    pub marks: Marks,
}

/// One scheduler process.
#[derive(Debug)]
pub struct Replica {
    candidate: Arc<str>,
    settings: Settings,
}

impl Replica {
    /// A process that has just started. `candidate` names this life of it; `fresh_cluster` is the
    /// identity to use if the store turns out to be new; `known` is what this host remembers.
    pub fn start(
        candidate: Arc<str>,
        fresh_cluster: Arc<str>,
        known: Option<HighWater>,
        settings: Settings,
        _now: Now,
    ) -> Self {
        let _ = (fresh_cluster, known);
        Self { candidate, settings }
    }

    /// Takes in what happened and says what to do.
    pub fn step(&mut self, _input: ReplicaInput, _now: Now) -> ReplicaEffects {
        let _ = (&self.candidate, &self.settings);
        ReplicaEffects::default()
    }
}
