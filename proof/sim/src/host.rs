//! A machine: its power, its clock, its disk, its runtime, and the two processes on it.

use std::collections::{BTreeMap, BTreeSet};

use persys_model::command::Command;
use persys_model::id::{NodeId, WorkloadId};
use persys_model::node::NodeFacts;
use persys_model::spec::Spec;
use persys_model::time::Millis;
use persys_model::token::{Epoch, Session, Term};
use persys_node::agent::Agent;
use persys_node::fence::Watchdog;
use persys_node::input::{LedgerSeq, RequestId, VerbId};
use persys_node::ledger::{Ledger, LedgerChange};

use crate::clock::Clock;
use crate::contract_agent::ContractAgent;
use crate::runtime::Runtime;
use crate::wire::{CallNumber, Life};

/// One machine.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) id: NodeId,
    pub(crate) facts: NodeFacts,
    pub(crate) clock: Clock,
    pub(crate) power: bool,
    /// How often it was switched on; what was under way before a power cut never ends.
    pub(crate) boots: u64,
    pub(crate) agent: Option<AgentProcess>,
    /// In place of our agent: one that knows only the contract.
    pub(crate) contract: Option<ContractAgent>,
    pub(crate) watchdog: Option<WatchdogProcess>,
    /// Lives of the agent, and of the watchdog.
    pub(crate) lives: u64,
    pub(crate) watchdog_lives: u64,
    pub(crate) disk: Disk,
    /// The lease file, in memory: a power cut takes it along.
    pub(crate) fence_file: Option<Millis>,
    pub(crate) runtime: Runtime,
    pub(crate) verbs_fail_until: u64,
    pub(crate) verbs_hang_until: u64,
    /// Calls to its agent are refused until then; its heartbeats arrive.
    pub(crate) undialled_until: u64,
    /// The scheduler its agent will call next.
    pub(crate) target: usize,
    /// The last moment at which its agent would not have answered a probe.
    pub(crate) absent_until: u64,
    /// Whether somebody has been told that it is gone for good while it was switched off.
    pub(crate) vouched_gone: bool,
    /// True once somebody gave it up while it was switched off.
    pub(crate) given_up: bool,
}

/// One life of an agent.
#[derive(Debug)]
pub(crate) struct AgentProcess {
    pub(crate) agent: Agent,
    pub(crate) life: Life,
    pub(crate) wake: Option<u64>,
    pub(crate) paused_until: u64,
    /// Calls to the scheduler that wait for an answer.
    pub(crate) calls: BTreeSet<CallNumber>,
    pub(crate) next_call: u64,
    /// Verbs nobody has reported the end of.
    pub(crate) verbs: BTreeSet<VerbId>,
    /// Commands that wait for an answer, and who gave them.
    pub(crate) commands: BTreeMap<RequestId, Asked>,
    pub(crate) next_request: u64,
}

/// A command and who gave it.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) scheduler: usize,
    pub(crate) life: Life,
    pub(crate) command: Command,
    pub(crate) standing: Standing,
}

/// The newest an agent knew when a command reached it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    pub(crate) term: Term,
    pub(crate) session: Option<Session>,
    pub(crate) epoch: Option<Epoch>,
}

impl AgentProcess {
    pub(crate) fn new(agent: Agent, life: Life) -> Self {
        Self {
            agent,
            life,
            wake: None,
            paused_until: 0,
            calls: BTreeSet::new(),
            next_call: 0,
            verbs: BTreeSet::new(),
            commands: BTreeMap::new(),
            next_request: 0,
        }
    }
}

/// One life of a watchdog.
#[derive(Debug)]
pub(crate) struct WatchdogProcess {
    pub(crate) watchdog: Watchdog,
    pub(crate) life: Life,
    pub(crate) wake: Option<u64>,
}

/// What survives the agent.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    pub(crate) ledger: Ledger,
    pub(crate) full_until: u64,
    busy_until: u64,
    /// Raised when a write fails: what was queued behind it fails with it.
    pub(crate) round: u64,
    /// The life whose writes were cut off by its death.
    pub(crate) torn: Option<Life>,
}

impl Disk {
    /// When a write given at `at` that takes `takes` is done: after those before it.
    pub(crate) fn queue(&mut self, at: u64, takes: u64) -> u64 {
        self.busy_until = self.busy_until.max(at) + takes;
        self.busy_until
    }

    pub(crate) fn write(&mut self, changes: &[(LedgerSeq, LedgerChange)]) {
        for (_, change) in changes {
            self.ledger.apply(change);
        }
    }
}

impl Host {
    /// A machine that was never switched on.
    pub(crate) fn new(facts: NodeFacts, clock: Clock, target: usize) -> Self {
        Self {
            id: facts.id.clone(),
            contract: facts.is_contract().then(ContractAgent::default),
            facts,
            clock,
            power: true,
            boots: 1,
            agent: None,
            watchdog: None,
            lives: 0,
            watchdog_lives: 0,
            disk: Disk::default(),
            fence_file: None,
            runtime: Runtime::default(),
            verbs_fail_until: 0,
            verbs_hang_until: 0,
            undialled_until: 0,
            target,
            absent_until: 0,
            vouched_gone: false,
            given_up: false,
        }
    }

    /// The present life of the agent.
    pub(crate) fn agent_of(&mut self, life: Life) -> Option<&mut AgentProcess> {
        self.agent.as_mut().filter(|process| process.life == life)
    }

    /// Whether the agent has answered every probe since `since`.
    pub(crate) fn was_present_since(&self, since: u64, now: u64) -> bool {
        self.power
            && self.absent_until <= since
            && self.has_agent()
            && self.agent_paused_until() <= now
    }

    /// True if an agent, of whatever kind, runs on it.
    pub(crate) fn has_agent(&self) -> bool {
        self.agent.is_some() || self.contract.as_ref().is_some_and(|one| one.process.is_some())
    }

    /// The time until which its agent stands still.
    pub(crate) fn agent_paused_until(&self) -> u64 {
        let ours = self.agent.as_ref().map(|process| process.paused_until);
        let theirs = self.contract.as_ref().and_then(|agent| agent.process.as_ref());
        ours.or(theirs.map(|process| process.paused_until)).unwrap_or(0)
    }

    /// The spec its agent was last told of a workload.
    pub(crate) fn told_spec(&self, id: &WorkloadId) -> Option<&Spec> {
        let theirs = self.contract.as_ref().and_then(|agent| agent.has.get(id));
        let ours = self.disk.ledger.intents.get(id).and_then(|intent| intent.spec.as_deref());
        theirs.map(|has| &*has.spec).or(ours)
    }
}
