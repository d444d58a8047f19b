//! Agents that know only the documents' contract: the component of the core that speaks with them, and
//! the questions it asks.
//!
//! Everything about them is decided in `persys_cluster::contract`; here it is locked, given the time, and
//! its questions are asked beside the driver. A slow agent holds up nobody: each question is a task of
//! its own, with a deadline, and the component limits how many one agent has.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use persys_cluster::contract::{Ask, ContractAgents, Found, Question};
use persys_cluster::world::World;
use persys_model::id::NodeId;
use persys_model::link::Beat;
use persys_model::time::Millis;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Target;
use super::grpc::GrpcLinks;
use crate::handle::Handle;

/// Longest time between two looks although nothing is due.
const LOOK: Duration = Duration::from_mins(1);

/// All contract agents of this process, with the clock they are spoken to by.
#[derive(Debug)]
pub(crate) struct Contract {
    agents: Mutex<ContractAgents>,
    began: Instant,
    work: Notify,
}

impl Contract {
    pub(crate) fn new(poll_ms: u64) -> Self {
        let agents = Mutex::new(ContractAgents::new(poll_ms));
        Self { agents, began: Instant::now(), work: Notify::new() }
    }

    fn now(&self) -> Millis {
        Millis(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Works with the component at the present time.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut ContractAgents, Millis) -> T) -> T {
        let now = self.now();
        work(&mut self.agents.lock().unwrap_or_else(PoisonError::into_inner), now)
    }

    /// Something may have become due.
    pub(crate) fn wake(&self) {
        self.work.notify_one();
    }
}

/// Asks contract agents whatever is due while this process leads, until the task is dropped.
pub(crate) async fn ask_agents(handle: Handle, links: Arc<GrpcLinks>) {
    let (contract, mut standing) = (links.contract(), handle.standing());
    let mut under_way = JoinSet::new();
    loop {
        let leads = standing.borrow_and_update().mode.is_some();
        let mut wait = LOOK;
        if leads {
            let due = contract.with(ContractAgents::due);
            for question in due.questions {
                under_way.spawn(ask(handle.clone(), Arc::clone(&links), question));
            }
            for node in due.news {
                let (handle, contract) = (handle.clone(), Arc::clone(&contract));
                under_way.spawn(async move {
                    let about = node.clone();
                    let make = move |world: &World, agents: &mut ContractAgents, now| {
                        agents.news(world, &about, now)
                    };
                    tell(&handle, &contract, &node, make).await;
                });
            }
            if let Some(at) = due.wake_at {
                wait = wait.min(Duration::from_millis(at.since(contract.now()).max(1)));
            }
        } else {
            contract.with(|agents, _| agents.forget_all());
        }
        tokio::select! {
            () = contract.work.notified() => {}
            Some(_) = under_way.join_next() => {}
            changed = standing.changed() => if changed.is_err() {
                return;
            },
            () = sleep(wait) => {}
        }
    }
}

/// Asks one question and passes the answer on. Every question comes back, answered or not.
async fn ask(handle: Handle, links: Arc<GrpcLinks>, question: Question) {
    let Question { node, asked, what } = question;
    let (contract, about) = (links.contract(), node.clone());
    let target = handle.read(move |world| target(world, &about)).await.ok().flatten();
    let about = node.clone();
    match what {
        Ask::Status(workload) => {
            let found = match &target {
                Some(target) => links.status(target, &workload).await,
                None => Found::NoAnswer,
            };
            let make = move |world: &World, agents: &mut ContractAgents, now| {
                agents.status_came(world, (&about, &workload, asked), found, now)
            };
            tell(&handle, &contract, &node, make).await;
        }
        Ask::List => {
            let list = match &target {
                Some(target) => links.list(target).await,
                None => None,
            };
            let make = move |world: &World, agents: &mut ContractAgents, now| {
                agents.list_came(world, (&about, asked), list.as_deref(), now)
            };
            tell(&handle, &contract, &node, make).await;
        }
    }
}

fn target(world: &World, node: &NodeId) -> Option<Target> {
    let facts = &world.node(node)?.node.facts;
    let (endpoint, host) = (Arc::clone(&facts.endpoint), Arc::clone(&facts.host));
    Some(Target { node: node.clone(), endpoint, host, context: None })
}

/// Makes a beat out of what was heard, in one go with the World taking it in: beats are numbered.
async fn tell(
    handle: &Handle,
    contract: &Arc<Contract>,
    node: &NodeId,
    make: impl FnOnce(&World, &mut ContractAgents, Millis) -> Option<Beat> + Send + 'static,
) {
    let making = Arc::clone(contract);
    let beat = move |world: &World| making.with(|agents, now| make(world, agents, now));
    match handle.beat_of(beat).await {
        Ok(Some(answer)) => contract.with(|agents, _| agents.beat_answered(node, &answer)),
        Ok(None) => {}
        // What became of the question is unknown, so everything is asked anew.
        Err(_) => contract.with(|agents, _| agents.forget(node)),
    }
}
