//! Has a workload restarted, and waits until it was ended and is started again.
//!
//! The wish is stored before the wait begins, so it is carried out whoever goes away: the caller, this
//! process, or the leader.

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
use crate::permit;
use crate::rpc::refusal::{self, done, unavailable, workload_id};

/// Time for which a caller waits until it has ended.
const REST: Duration = Duration::from_mins(1);
/// How often it is looked at while no event tells of it.
const LOOK: Duration = Duration::from_secs(1);

/// Progress of a restart.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// It has ended and is started again.
    Started,
    Ending,
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

/// Restarts a workload.
pub(crate) async fn restart_workload(handle: &Handle, id: WorkloadId) -> Result<String, Status> {
    let wanted = id.clone();
    handle.read(move |world| may_restart(world, &wanted)).await??;
    // Events from now on, so that none falls between the order and the wait.
    let mut events = handle.events();
    done(handle.ask(Ask::Restart(id.clone())).await?).map_err(|why| {
        refusal::saying(&why, format!("{id} is not restarted: {}", why.message()))
    })?;
    let generation = generation(handle, &id).await?;
    let deadline = Instant::now() + REST;
    loop {
        let wanted = id.clone();
        match handle.read(move |world| progress(world, &wanted, generation)).await? {
            Progress::Started => return Ok(format!("{id} was stopped and is started again")),
            Progress::Ending if Instant::now() >= deadline => {
                return Err(Status::deadline_exceeded(format!(
                    "{id} did not come to rest within {} s; it is started again as soon as it does",
                    REST.as_secs()
                )));
            }
            Progress::Ending => {}
            Progress::Changed => {
                let why = format!("somebody else changed {id}; it is left as they want it");
                return Err(Status::aborted(why));
            }
            Progress::Gone => return Err(Status::aborted(format!("{id} was deleted"))),
        }
        let look = (Instant::now() + LOOK).min(deadline);
        // Whatever happened, it is looked at again.
        drop(timeout_at(look, events.recv()).await);
        if events.is_closed() {
            sleep_until(look).await;
        }
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

async fn generation(handle: &Handle, id: &WorkloadId) -> Result<Generation, Status> {
    let wanted = id.clone();
    let found = handle
        .read(move |world| world.workload(&wanted).map(|view| view.workload.generation))
        .await?;
    found.ok_or_else(|| Status::aborted(format!("{id} was deleted")))
}

fn progress(world: &World, id: &WorkloadId, generation: Generation) -> Progress {
    let Some(view) = world.workload(id) else { return Progress::Gone };
    if view.workload.generation != generation || view.workload.desired != Desired::Running {
        return Progress::Changed;
    }
    let ending = view.assignment.place.as_ref().is_some_and(|place| place.restart.is_some());
    if ending { Progress::Ending } else { Progress::Started }
}
