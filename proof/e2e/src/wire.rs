//! The wire between a scheduler and its agents, as function calls that can be cut.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use persys_agent::upward::{Scheduler, Unreachable as NoScheduler};
use persys_cluster::input::Probe;
use persys_model::command::Command;
use persys_model::id::{NodeId, WorkloadId};
use persys_model::link::{Beat, BeatAnswer, Registration, RegistrationAnswer};
use persys_scheduler::links::{Links, OrderAnswer, Target, Unreachable as NoAgent};

/// Everybody who can be reached.
#[derive(Debug, Clone, Default)]
pub struct Wire(Arc<Mutex<Ends>>);

#[derive(Debug, Default)]
struct Ends {
    scheduler: Option<persys_scheduler::Handle>,
    agents: BTreeMap<NodeId, persys_agent::Handle>,
    cut: Vec<NodeId>,
}

impl Wire {
    fn ends<T>(&self, look: impl FnOnce(&mut Ends) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The scheduler is there, or gone.
    pub fn set_scheduler(&self, handle: Option<persys_scheduler::Handle>) {
        self.ends(|ends| ends.scheduler = handle);
    }

    /// An agent is there, or gone.
    pub fn set_agent(&self, node: &NodeId, handle: Option<persys_agent::Handle>) {
        self.ends(|ends| match handle {
            Some(handle) => drop(ends.agents.insert(node.clone(), handle)),
            None => drop(ends.agents.remove(node)),
        });
    }

    /// Cuts a node off, or joins it again.
    pub fn set_cut(&self, node: &NodeId, cut: bool) {
        self.ends(|ends| {
            ends.cut.retain(|other| other != node);
            if cut {
                ends.cut.push(node.clone());
            }
        });
    }

    fn agent(&self, node: &NodeId) -> Option<persys_agent::Handle> {
        self.ends(|ends| {
            (!ends.cut.contains(node)).then(|| ends.agents.get(node).cloned()).flatten()
        })
    }

    fn scheduler_for(&self, node: &NodeId) -> Option<persys_scheduler::Handle> {
        self.ends(|ends| (!ends.cut.contains(node)).then(|| ends.scheduler.clone()).flatten())
    }
}

#[async_trait::async_trait]
impl Links for Wire {
    async fn order(&self, to: &Target, command: Command) -> Result<OrderAnswer, NoAgent> {
        let agent = self.agent(&to.node).ok_or_else(|| NoAgent::never_sent("cut off"))?;
        let given = agent.order(command).await.map_err(NoAgent::unknown)?;
        let task = given.task.map(|named| named.task);
        Ok(OrderAnswer { answer: given.answer, task })
    }

    async fn actions(&self, of: &Target, _: &WorkloadId) -> Result<String, NoAgent> {
        self.agent(&of.node).map(|_| String::new()).ok_or_else(|| NoAgent::never_sent("cut off"))
    }

    async fn probe(&self, of: &Target) -> Probe {
        match self.agent(&of.node) {
            Some(agent) if agent.read(|_, _| ()).await.is_ok() => Probe::Answered,
            Some(_) => Probe::Refused,
            None => Probe::Silent,
        }
    }
}

/// The wire as one agent sees it.
#[derive(Debug)]
pub struct Upward {
    /// Whose.
    pub node: NodeId,
    /// Its wire.
    pub wire: Wire,
}

#[async_trait::async_trait]
impl Scheduler for Upward {
    async fn register(
        &self,
        registration: Registration,
    ) -> Result<RegistrationAnswer, NoScheduler> {
        let scheduler = self.wire.scheduler_for(&self.node);
        let scheduler = scheduler.ok_or_else(|| NoScheduler("cut off".to_owned()))?;
        scheduler.register(registration).await.map_err(|error| NoScheduler(error.to_string()))
    }

    async fn beat(&self, beat: Beat) -> Result<BeatAnswer, NoScheduler> {
        let scheduler = self.wire.scheduler_for(&self.node);
        let scheduler = scheduler.ok_or_else(|| NoScheduler("cut off".to_owned()))?;
        scheduler.beat(beat).await.map_err(|error| NoScheduler(error.to_string()))
    }
}
