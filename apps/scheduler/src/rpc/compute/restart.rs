//! Has a workload stopped and started, and waits for both to be taken.
//!
//! It goes on when the caller goes away: nothing is left stopped because a terminal was closed. If
//! it cannot go on, it says how the workload is left.

use std::time::Duration;

use persys_access::Who;
use persys_cluster::input::Ask;
use persys_cluster::world::World;
use persys_model::id::WorkloadId;
use persys_model::mode::Mode;
use persys_model::phase::Phase;
use persys_model::token::Generation;
use persys_model::workload::Desired;
use persys_proto::compute::v1 as api;
use tokio::time::{Instant, sleep_until, timeout_at};
use tonic::Status;

use super::Compute;
use crate::handle::Handle;
use crate::rpc::refusal::{self, done, unavailable, workload_id};
use crate::{author, permit};

/// How long it may take to come to rest.
const REST: Duration = Duration::from_mins(1);
/// How often it is looked at while no event tells of it.
const LOOK: Duration = Duration::from_secs(1);

/// How a workload is on its way to rest.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    Resting,
    NotYet,
    /// Somebody else wants something else.
    Changed,
    Gone,
}

impl Compute {
    pub(super) async fn start_anew(&self, id: &str) -> Result<api::RestartResponse, Status> {
        let id = workload_id(id)?;
        permit::workload(&self.handle, &id, Who::Operators).await?;
        let note = restart_workload(&self.handle, id).await?;
        Ok(api::RestartResponse { note })
    }
}

/// Restarts a workload, whoever waits for it.
pub(crate) async fn restart_workload(handle: &Handle, id: WorkloadId) -> Result<String, Status> {
    let wanted = id.clone();
    handle.read(move |world| may_restart(world, &wanted)).await??;
    let work = Restart { handle: handle.clone(), id }.run();
    match tokio::spawn(author::carried(work)).await {
        Ok(note) => note,
        Err(_) => Err(Status::internal("the restart broke off")),
    }
}

pub(super) fn may_restart(world: &World, id: &WorkloadId) -> Result<(), Status> {
    let (mode, why) = world.mode();
    if mode != Mode::Normal {
        // Before anything else: a store that lost its records does not know what there is.
        let mode = mode.word();
        return Err(unavailable(format!(
            "the control plane is in {mode} mode ({why}): nothing is changed; running workloads go on"
        )));
    }
    let Some(view) = world.workload(id) else {
        return Err(Status::not_found(format!("there is no workload {id}")));
    };
    let why = match view.workload.desired {
        Desired::Stopped => format!("{id} is stopped; `persys start {id}` starts it"),
        Desired::Paused => format!("{id} is paused; `persys resume {id}` lets it run again"),
        Desired::Deleted => format!("{id} is being deleted"),
        Desired::Running if view.assignment.phase == Phase::Pending => {
            format!("{id} does not run yet; `persys why {id}` tells what it waits for")
        }
        Desired::Running if view.uncertain => {
            let node = view.assignment.place.as_ref().map(|place| place.node.to_string());
            let node = node.unwrap_or_default();
            format!(
                "{node}, the node of {id}, does not answer; `persys why node {node}` tells more"
            )
        }
        Desired::Running => return Ok(()),
    };
    Err(Status::failed_precondition(why))
}

struct Restart {
    handle: Handle,
    id: WorkloadId,
}

impl Restart {
    async fn run(self) -> Result<String, Status> {
        let id = &self.id;
        // Events from now on, so that none falls between the order and the wait.
        let mut events = self.handle.events();
        self.want(Desired::Stopped).await.map_err(|why| {
            refusal::saying(&why, format!("{id} was not stopped: {}", why.message()))
        })?;
        let generation = self.generation().await.map_err(|why| self.left_stopped(&why))?;
        let deadline = Instant::now() + REST;
        loop {
            match self.way(generation).await.map_err(|why| self.left_stopped(&why))? {
                Way::Resting => break,
                Way::NotYet if Instant::now() >= deadline => return self.give_up().await,
                Way::NotYet => {}
                Way::Changed => {
                    let why = format!("somebody else changed {id}; it is left as they want it");
                    return Err(Status::aborted(why));
                }
                Way::Gone => return Err(Status::aborted(format!("{id} was deleted"))),
            }
            let look = (Instant::now() + LOOK).min(deadline);
            // Whatever happened, it is looked at again.
            drop(timeout_at(look, events.recv()).await);
            if events.is_closed() {
                sleep_until(look).await;
            }
        }
        self.want(Desired::Running).await.map_err(|why| self.left_stopped(&why))?;
        Ok(format!("{id} was stopped and is started again"))
    }

    async fn want(&self, desired: Desired) -> Result<(), Status> {
        let workload = self.id.clone();
        let ask = Ask::Apply { workload, spec: None, revision: None, desired };
        done(self.handle.ask(ask).await?).map(drop)
    }

    async fn generation(&self) -> Result<Generation, Status> {
        let id = self.id.clone();
        let found = self
            .handle
            .read(move |world| world.workload(&id).map(|view| view.workload.generation))
            .await?;
        found.ok_or_else(|| Status::aborted(format!("{} was deleted", self.id)))
    }

    async fn way(&self, generation: Generation) -> Result<Way, Status> {
        let id = self.id.clone();
        Ok(self.handle.read(move |world| way_of(world, &id, generation)).await?)
    }

    /// It does not come to rest: what was wanted before is wanted again.
    async fn give_up(&self) -> Result<String, Status> {
        self.want(Desired::Running).await.map_err(|why| self.left_stopped(&why))?;
        let id = &self.id;
        Err(Status::deadline_exceeded(format!(
            "{id} did not come to rest within {} s; it is wanted running again, as before",
            REST.as_secs()
        )))
    }

    fn left_stopped(&self, why: &Status) -> Status {
        let id = &self.id;
        let text = why.message();
        let text = format!("{id} is left stopped ({text}); `persys start {id}` starts it");
        refusal::saying(why, text)
    }
}

fn way_of(world: &World, id: &WorkloadId, generation: Generation) -> Way {
    let Some(view) = world.workload(id) else { return Way::Gone };
    if view.workload.generation != generation || view.workload.desired != Desired::Stopped {
        return Way::Changed;
    }
    if view.assignment.phase == Phase::Stopped { Way::Resting } else { Way::NotYet }
}
