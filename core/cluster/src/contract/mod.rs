//! Agents that know only the documents' contract, under this scheduler.
//!
//! Such an agent knows no decision, no session and no tombstone. It accepts an order and works on it in
//! the background; `GetWorkloadStatus` tells how that stands, `ListWorkloads` tells all it holds, and its
//! heartbeats tell states without a version. [`ContractAgents`] stands between such agents and the
//! `World`: it turns orders into calls and whatever comes back into the beats an agent of ours would
//! have sent.
//!
//! ```text
//!   World ── Command ──► order ── Deed ──► call ── Outcome ──► ordered ── Answer ──► World
//!   due ── Question ──► call ── Found ──► status_came · list_came ┐
//!   heartbeat ────────────────────────────────────────────────────┴─ Beat ──► World ──► beat_answered
//! ```
//!
//! Invariants: a status counts for a decision only if the agent took that decision and runs its version;
//! a removal is proved only by the agent's own word that the workload is not there; a delete that would
//! take data along is never sent unless the data is to go; nothing is asked of an agent with nothing
//! open, except for the list the World wants.

mod agent;
pub(crate) mod capability;
mod heard;
mod here;
mod listed;
mod report;
mod told;

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_model::command::{Answer, Apply, Command, Order};
use persys_model::failure::{Failure, FailureReason};
use persys_model::id::{NodeId, WorkloadId};
use persys_model::link::BeatAnswer;
use persys_model::time::Millis;
use persys_model::volume::VolumeKey;

use agent::{Agent, Awaits, Copy, Taken, Watch};
pub use told::{Told, Word, has_data, says_gone};

/// Time in which an accepted stop or removal is not ordered again; longer than it takes to report it as
/// overdue.
const PATIENCE_MS: u64 = 120_000;

/// Said of a copy that can be neither removed nor stopped.
const UNKNOWN_COPY: &str = "its version is not known here, and its agent would delete its data with it: \
                            remove it on its node";

/// All contract agents of a cluster, as this process has spoken with them.
#[derive(Debug)]
pub struct ContractAgents {
    poll_ms: u64,
    agents: BTreeMap<NodeId, Agent>,
    /// Number of the last beat. Agents of the contract do not number theirs.
    seq: u64,
}

/// The call that carries out an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// `ApplyWorkload`.
    Apply(Apply),
    /// `ApplyWorkload` with the desired state Stopped, in place of a removal that must keep the data.
    StopInstead(Apply),
    /// `DeleteWorkload`.
    Delete,
    /// None: this is the answer.
    Nothing(Answer),
}

/// What the World knows of a workload beside the order about it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OrderContext {
    /// The copy on the node at rest, in the version it was last given: for a removal that must keep the
    /// data.
    pub at_rest: Option<Apply>,
    /// True for a removal if the node is to have the workload again by a later decision. An agent of ours
    /// tells the two apart by their numbers; one of the contract would carry out both, in any order.
    pub superseded: bool,
}

/// The agent's answer to a deed. A call without an answer is not told here: the World hears that its
/// order was not delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It took the order, or had it already.
    Accepted,
    /// It refused, with its message.
    Refused(Arc<str>),
}

/// A question to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The agent's node.
    pub node: NodeId,
    /// The time it is asked at; goes back with the answer.
    pub asked: Millis,
    /// The question.
    pub what: Ask,
}

/// What an agent is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// `GetWorkloadStatus`.
    Status(WorkloadId),
    /// `ListWorkloads`.
    List,
}

/// The answer to `GetWorkloadStatus`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The status.
    Status(Told),
    /// The agent does not know the workload.
    Missing,
    /// No answer, or one that cannot be read.
    NoAnswer,
}

/// Work for the driver.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Due {
    /// Questions to ask now.
    pub questions: Vec<Question>,
    /// Nodes with news for the World: [`ContractAgents::news`] makes the beat.
    pub news: Vec<NodeId>,
    /// Time of the next work if nothing happens before.
    pub wake_at: Option<Millis>,
}

impl ContractAgents {
    /// No agent yet. The status of an open workload is asked for every `poll_ms`.
    #[must_use]
    pub fn new(poll_ms: u64) -> Self {
        Self { poll_ms: poll_ms.max(1), agents: BTreeMap::new(), seq: 0 }
    }

    fn agent(&mut self, node: &NodeId) -> &mut Agent {
        self.agents.entry(node.clone()).or_default()
    }

    /// A contract agent registered, and the World took it. One that is `callable` is asked for all it
    /// holds.
    pub fn registered(&mut self, node: &NodeId, callable: bool, now: Millis) {
        let mut agent = Agent { callable, heard_at: now, ..Agent::default() };
        agent.list.wanted = callable;
        self.agents.insert(node.clone(), agent);
    }

    /// The node is gone, or what was sent to it may not have arrived.
    pub fn forget(&mut self, node: &NodeId) {
        if let Some(agent) = self.agents.get_mut(node) {
            *agent =
                Agent { callable: agent.callable, heard_at: agent.heard_at, ..Agent::default() };
        }
    }

    /// This process does not lead: another one speaks with the agents.
    pub fn forget_all(&mut self) {
        self.agents.clear();
    }

    /// Asks an agent for all it holds as soon as possible.
    pub fn want_list(&mut self, node: &NodeId) {
        if let Some(agent) = self.agents.get_mut(node).filter(|agent| agent.callable) {
            agent.list.wanted = true;
        }
    }

    /// The World answered a beat of this node.
    pub fn beat_answered(&mut self, node: &NodeId, answer: &BeatAnswer) {
        if let BeatAnswer::Heard { want_inventory: true, .. } = answer {
            self.want_list(node);
        }
    }

    /// The call for an order. `context` is
    /// [`World::context_of`](crate::world::World::context_of) it when it was given.
    pub fn order(
        &mut self,
        node: &NodeId,
        command: &Command,
        context: &OrderContext,
        now: Millis,
    ) -> Deed {
        let (workload, epoch) = (&command.workload, command.epoch);
        let purge = match &command.order {
            Order::Apply(apply) => return Deed::Apply(apply.clone()),
            Order::Remove { purge } => *purge,
        };
        // Such an agent has no volumes apart from workloads: they go with the workload that made them.
        if VolumeKey::ordered_by(workload).is_some() {
            return Deed::Nothing(Answer::Removed { epoch });
        }
        if context.superseded {
            return Deed::Nothing(Answer::Accepted);
        }
        let at_rest = context.at_rest.as_ref();
        let next_at = now.plus(self.poll_ms);
        let agent = self.agent(node);
        if let Some(watch) = agent.watches.get(workload)
            && watch.epoch == epoch
            && matches!(watch.awaits, Awaits::Removed | Awaits::Stopped)
            && !watch.refused
            && now.since(watch.since) < PATIENCE_MS
        {
            // It works on it: a second task for the same would only stand in a queue.
            return Deed::Nothing(Answer::Accepted);
        }
        if purge {
            return Deed::Delete;
        }
        let given = agent.copies.get(workload);
        let spec = given.map(|copy| &copy.spec).or_else(|| at_rest.map(|apply| &apply.spec));
        match (spec, at_rest) {
            (Some(spec), _) if !has_data(spec) => Deed::Delete,
            (Some(spec), at_rest) => {
                // The version the agent has: another one would be made anew, and its data with it.
                let revision = given.map(|copy| &copy.revision);
                let revision = revision.or_else(|| at_rest.map(|apply| &apply.revision));
                let Some(revision) = revision.cloned() else { return Deed::Delete };
                let (spec, secrets) = (Arc::clone(spec), Arc::default());
                Deed::StopInstead(Apply { revision, run: false, pause: false, spec, secrets })
            }
            (None, _) => {
                // Nobody knows what it is: it is left alone until its agent says that it is gone or has
                // ended.
                let mut watch = Watch::new(epoch, Awaits::Stopped, now, next_at);
                watch.trouble = Some(Failure::new(FailureReason::RuntimeError, UNKNOWN_COPY));
                agent.watches.insert(workload.clone(), watch);
                Deed::Nothing(Answer::Accepted)
            }
        }
    }

    /// The agent answered a deed: the answer for the World.
    pub fn ordered(
        &mut self,
        node: &NodeId,
        command: &Command,
        (deed, outcome): (&Deed, &Outcome),
        now: Millis,
    ) -> Answer {
        let next_at = now.plus(self.poll_ms);
        let (workload, epoch) = (command.workload.clone(), command.epoch);
        let agent = self.agent(node);
        agent.answered();
        let refused = match outcome {
            Outcome::Accepted => None,
            Outcome::Refused(message) => Some(message),
        };
        let mut copy = |apply: &Apply| {
            let (revision, spec) = (apply.revision.clone(), Arc::clone(&apply.spec));
            let failed_before = agent.failed_before(&workload, epoch);
            let start_open = agent.open_start(&workload, apply.run);
            let (last, amiss_since) = (None, None);
            // An order that was refused changed nothing: what ran before runs on.
            let kept = refused.and_then(|_| agent.runs_before(&workload));
            let copy = Copy {
                epoch,
                revision,
                spec,
                run: apply.run,
                start_open,
                touched: now,
                taken: if refused.is_some() { Taken::Refused } else { Taken::Open },
                last,
                failed_before,
                amiss_since,
                kept,
            };
            agent.copies.insert(workload.clone(), copy);
            agent.strays.remove(&workload);
            agent.failed.remove(&workload);
        };
        let awaits = match (deed, refused) {
            (Deed::Nothing(answer), _) => return answer.clone(),
            (Deed::Apply(apply), None) => {
                copy(apply);
                Awaits::Applied
            }
            (Deed::Apply(apply), Some(_)) if !apply.run => {
                // It runs on. A failure would say that it ended; the order is given again instead.
                copy(apply);
                Awaits::Applied
            }
            (Deed::Apply(apply), Some(message)) => {
                copy(apply);
                Awaits::Refused(refusal(message))
            }
            (Deed::Delete | Deed::StopInstead(_), Some(message)) if says_gone(message) => {
                agent.watches.remove(&workload);
                agent.copies.remove(&workload);
                agent.removed.insert(workload, now);
                return Answer::Removed { epoch };
            }
            (Deed::StopInstead(apply), _) => {
                copy(apply);
                Awaits::Stopped
            }
            (Deed::Delete, _) => {
                if let Some(copy) = agent.copies.get_mut(&workload) {
                    copy.touched = now;
                }
                Awaits::Removed
            }
        };
        let news = matches!(awaits, Awaits::Refused(_));
        let mut watch = Watch::new(epoch, awaits, now, if news { now } else { next_at });
        watch.trouble = refused.map(|message| refusal(message));
        watch.refused = refused.is_some();
        agent.watches.insert(workload, watch);
        Answer::Accepted
    }

    /// Everything that is due now.
    pub fn due(&mut self, now: Millis) -> Due {
        let mut due = Due::default();
        for (node, agent) in &mut self.agents {
            if agent.has_news(now) {
                due.news.push(node.clone());
            }
            let ask = |what| Question { node: node.clone(), asked: now, what };
            if agent.start_list(now) {
                due.questions.push(ask(Ask::List));
            }
            due.questions.extend(agent.start_questions(now).into_iter().map(Ask::Status).map(ask));
            due.wake_at = due.wake_at.into_iter().chain(agent.wake_at()).min();
        }
        due
    }
}

/// The failure behind a refusal. Only what can never work is told apart; the rest is tried again.
fn refusal(message: &str) -> Failure {
    let lower = message.to_ascii_lowercase();
    let invalid = ["invalid", "validation", "malformed", "required", "unsupported"];
    let reason = if invalid.iter().any(|word| lower.contains(word)) {
        FailureReason::InvalidSpec
    } else if ["insufficient", "quota"].iter().any(|word| lower.contains(word)) {
        FailureReason::InsufficientResources
    } else {
        FailureReason::RuntimeError
    };
    let said = if message.is_empty() { "its agent refused it without a reason" } else { message };
    Failure::new(reason, said)
}
