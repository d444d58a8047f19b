//! A scheduler's machine and the process on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_cluster::contract::{ContractAgents, Deed, Question};
use persys_cluster::input::{RequestId, Undelivered};
use persys_cluster::replica::Replica;
use persys_cluster::store::{CallId, HighWater};
use persys_model::command::Command;
use persys_model::id::NodeId;
use persys_model::time::Millis;
use persys_model::token::Session;

use crate::clock::Clock;
use crate::wire::{CallNumber, Life};

/// One scheduler's machine.
#[derive(Debug)]
pub(crate) struct SchedulerHost {
    pub(crate) clock: Clock,
    pub(crate) process: Option<Process>,
    pub(crate) lives: u64,
    /// What it remembers of the store, on its own disk.
    pub(crate) high: Option<HighWater>,
    /// The time of the last write of it: a later one does not come before it.
    pub(crate) high_written_at: u64,
    /// It stands still until then.
    pub(crate) paused_until: u64,
    /// When it last stood still, or had to.
    pub(crate) paused_at: u64,
    /// It cannot reach the store until then.
    pub(crate) store_cut_until: u64,
}

/// One life of a scheduler.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) replica: Replica,
    pub(crate) life: Life,
    pub(crate) wake: Option<u64>,
    /// Calls to the store without an answer.
    pub(crate) calls: BTreeSet<CallId>,
    /// Callers that wait.
    pub(crate) callers: BTreeMap<RequestId, Caller>,
    pub(crate) next_request: u64,
    pub(crate) probes: BTreeMap<CallNumber, (NodeId, Session, Millis)>,
    pub(crate) next_probe: u64,
    /// Orders without an answer, by number.
    pub(crate) orders: BTreeMap<u64, Undelivered>,
    pub(crate) next_order: u64,
    /// Agents that know only the contract, as this process has spoken with them.
    pub(crate) contract: ContractAgents,
    pub(crate) contract_wake: Option<u64>,
    /// Calls to them without an answer.
    pub(crate) contract_calls: BTreeMap<CallNumber, ContractCall>,
    pub(crate) next_contract_call: u64,
}

/// A call to a contract agent that waits for an answer.
#[derive(Debug)]
pub(crate) enum ContractCall {
    Order { node: NodeId, command: Box<Command>, deed: Deed },
    Question(Question),
}

/// Somebody who waits for an answer.
#[derive(Debug, Clone)]
pub(crate) enum Caller {
    Agent {
        node: usize,
        life: Life,
        call: CallNumber,
    },
    User {
        op: u64,
    },
    Impostor,
    /// An agent that knows only the contract.
    ContractAgent {
        node: usize,
        life: Life,
        call: CallNumber,
    },
    /// The component that speaks with such agents.
    ContractNews {
        node: NodeId,
    },
}

impl SchedulerHost {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            process: None,
            lives: 0,
            high: None,
            high_written_at: 0,
            paused_until: 0,
            paused_at: 0,
            store_cut_until: 0,
        }
    }

    /// The process, if it still lives this life.
    pub(crate) fn process_of(&mut self, life: Life) -> Option<&mut Process> {
        self.process.as_mut().filter(|process| process.life == life)
    }
}

impl Process {
    pub(crate) fn new(replica: Replica, life: Life, poll_ms: u64) -> Self {
        Self {
            replica,
            life,
            wake: None,
            calls: BTreeSet::new(),
            callers: BTreeMap::new(),
            next_request: 0,
            probes: BTreeMap::new(),
            next_probe: 0,
            orders: BTreeMap::new(),
            next_order: 0,
            contract: ContractAgents::new(poll_ms),
            contract_wake: None,
            contract_calls: BTreeMap::new(),
            next_contract_call: 0,
        }
    }

    /// A name for a caller that waits from now on.
    pub(crate) fn admit(&mut self, caller: Caller) -> RequestId {
        self.next_request += 1;
        let request = RequestId(self.next_request);
        self.callers.insert(request, caller);
        request
    }
}

/// The name of one life of a scheduler: its host, then its life.
pub(crate) fn candidate(scheduler: usize, life: Life) -> Arc<str> {
    Arc::from(format!("s{scheduler}#{}", life.0))
}
