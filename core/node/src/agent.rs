//! One life of an agent process.

use std::collections::BTreeMap;

use persys_model::id::WorkloadId;
use persys_model::inventory::Inventory;
use persys_model::node::NodeFacts;
use persys_model::time::{Millis, Now};
use persys_model::token::{Session, Term};

use crate::effects::Effects;
use crate::input::{Input, VerbId};
use crate::ledger::{Intent, Ledger};
use crate::settings::AgentSettings;

/// One life of an agent process.
#[derive(Debug, Clone)]
pub struct Agent {
    facts: NodeFacts,
    ledger: Ledger,
    settings: AgentSettings,
}

impl Agent {
    /// Begins a life with what the ledger on disk says. `facts.incarnation` is unique to it.
    pub fn start(
        facts: NodeFacts,
        ledger: Ledger,
        settings: AgentSettings,
        now: Now,
    ) -> (Self, Effects) {
        let agent = Self { facts, ledger, settings };
        let wake_at = now.mono.plus(agent.settings.observe_wait_ms);
        (agent, Effects { observe: true, wake_at: Some(wake_at), ..Effects::default() })
    }

    /// Takes in one input and says what is to be done.
    pub fn step(&mut self, _input: Input, _now: Now) -> Effects {
        Effects::default()
    }

    /// Who it is.
    pub fn facts(&self) -> &NodeFacts {
        &self.facts
    }

    /// What it is to have, on disk or about to be.
    pub fn intents(&self) -> &BTreeMap<WorkloadId, Intent> {
        &self.ledger.intents
    }

    /// Everything it must not forget, on disk or about to be.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The life the scheduler gave it, once registered.
    pub fn session(&self) -> Option<Session> {
        None
    }

    /// The highest leadership it has heard of.
    pub fn term(&self) -> Term {
        self.ledger.term
    }

    /// Whether it takes nothing new at present.
    pub fn holding(&self) -> bool {
        false
    }

    /// Whether the scheduler named this workload in the present session.
    pub fn confirmed(&self, _workload: &WorkloadId) -> bool {
        false
    }

    /// The verb that runs for this workload.
    pub fn busy(&self, _workload: &WorkloadId) -> Option<VerbId> {
        None
    }

    /// Until when exclusive work may run here.
    pub fn fence_at(&self) -> Option<Millis> {
        None
    }

    /// All that it would say it holds.
    pub fn inventory(&self) -> Inventory {
        Inventory::default()
    }
}
