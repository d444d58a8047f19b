//! What goes over the network.

use persys_cluster::input::{Ask, Probe};
use persys_model::command::{Answer, Command, Order};
use persys_model::id::{NodeId, WorkloadId};
use persys_model::link::{BeatAnswer, Registration, RegistrationAnswer, Removal};
use persys_model::token::{Epoch, Session};
use persys_node::effects::Upward;

use crate::contract_agent::{Call, CallAnswer, Heard, Upcall};

/// One life of one process: messages meant for an earlier one are not delivered to a later one,
/// as a connection does not outlive its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Life(pub(crate) u64);

/// A caller's number for a call, so that a second answer to it is thrown away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallNumber(pub(crate) u64);

/// One message.
#[derive(Debug, Clone)]
pub(crate) enum Message {
    /// An agent registers or beats.
    Up { node: usize, life: Life, call: CallNumber, scheduler: usize, what: Box<Upward> },
    /// The scheduler's answer.
    UpAnswer { node: usize, life: Life, call: CallNumber, scheduler: usize, answer: UpAnswer },
    /// A scheduler orders.
    Down { scheduler: usize, life: Life, node: usize, command: Box<Command> },
    /// The agent's answer.
    DownAnswer { scheduler: usize, life: Life, node: NodeId, told: Told, answer: Answer },
    /// A scheduler asks whether a node lives.
    Probe { scheduler: usize, life: Life, node: usize, call: CallNumber },
    /// The machine's or the agent's answer to that.
    ProbeAnswer { scheduler: usize, life: Life, call: CallNumber, found: Probe },
    /// A user asks.
    Ask { op: u64, scheduler: usize, ask: Box<Ask> },
    /// The scheduler's answer; `None` when it does not lead.
    AskAnswer { op: u64, reply: Option<persys_cluster::effects::Reply> },
    /// A scheduler calls an agent that knows only the contract.
    Contract {
        scheduler: usize,
        life: Life,
        node: usize,
        call: CallNumber,
        sent: u64,
        what: Box<Call>,
    },
    /// The agent's answer.
    ContractAnswer { scheduler: usize, life: Life, call: CallNumber, answer: Box<CallAnswer> },
    /// Such an agent registers or beats.
    ContractUp { node: usize, life: Life, call: CallNumber, scheduler: usize, what: Upcall },
    /// The scheduler's answer.
    ContractUpAnswer { node: usize, life: Life, call: CallNumber, heard: Heard },
    /// A second machine wants the name of another.
    Impostor { scheduler: usize, registration: Box<Registration> },
}

/// What a scheduler says to an agent that called it.
#[derive(Debug, Clone)]
pub(crate) enum UpAnswer {
    Registered(RegistrationAnswer),
    Heard(BeatAnswer),
    NotLeader,
}

/// The tokens of a command, by which its answer is known.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) session: Session,
    pub(crate) workload: WorkloadId,
    pub(crate) epoch: Epoch,
}

/// The orders that the answer to a heartbeat carries.
pub(crate) fn removals(answer: &BeatAnswer) -> Vec<Command> {
    let BeatAnswer::Heard { term, session, removals, .. } = answer else { return Vec::new() };
    let order = |Removal { workload, epoch }: &Removal| Command {
        term: *term,
        session: *session,
        epoch: *epoch,
        workload: workload.clone(),
        order: Order::Remove { purge: false },
    };
    removals.iter().map(order).collect()
}
