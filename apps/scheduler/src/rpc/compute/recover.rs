//! The ways out of recovery: what each would do, and doing it.

use std::time::Duration;

use persys_cluster::input::{Ask, Recovery};
use persys_cluster::record::Snapshot;
use persys_cluster::world::{RecoveryPlan, World};
use persys_model::id::{NodeId, WorkloadId};
use persys_model::mode::Mode;
use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::recover_input::Input;
use persys_store::archive;
use tokio::time::timeout;
use tonic::{Status, Streaming};

use super::Compute;
use crate::rpc::refusal::{done, unavailable};

/// How long the next piece may take to come.
const NEXT: Duration = Duration::from_secs(30);
/// Largest snapshot that is taken in: it is in memory as a whole, beside what is made of it.
const LARGEST: usize = 512 * 1024 * 1024;

/// A snapshot, and what of it cannot be read.
struct Given {
    snapshot: Box<Snapshot>,
    unreadable: Vec<String>,
}

impl Compute {
    pub(super) async fn leave_recovery(
        &self,
        mut input: Streaming<api::RecoverInput>,
    ) -> Result<api::RecoverResponse, Status> {
        let start = match next(&mut input).await? {
            Some(Input::Start(start)) => start,
            Some(Input::Data(_)) | None => {
                return Err(Status::invalid_argument("the first message is not a start"));
            }
        };
        let mut unreadable = Vec::new();
        let way = match start.way.as_str() {
            "from_agents" => Recovery::FromAgents,
            "accept_empty" => Recovery::AcceptEmpty,
            "from_snapshot" => {
                let given = self.receive(&mut input).await?;
                unreadable = given.unreadable;
                Recovery::FromSnapshot(given.snapshot)
            }
            _ => {
                let why = "start.way: is none of from_agents, from_snapshot, accept_empty";
                return Err(Status::invalid_argument(why));
            }
        };
        if !matches!(way, Recovery::FromSnapshot(_)) && next(&mut input).await?.is_some() {
            return Err(Status::invalid_argument("only from_snapshot takes a snapshot"));
        }
        let shown = way.clone();
        let (plan, cluster) = self.handle.read(move |world| look(world, &shown)).await??;
        let mut plan = to_wire(plan, unreadable);
        if let Recovery::FromSnapshot(snapshot) = &way
            && let Some(head) = snapshot.head.as_ref().filter(|head| *head.cluster != *cluster)
        {
            let other = &head.cluster;
            plan.conflicts.insert(0, format!(
                "the snapshot is of the cluster {other}; this control plane is {cluster} and becomes that one"
            ));
        }
        if start.dry_run {
            let note = "nothing was changed".to_owned();
            return Ok(api::RecoverResponse { done: false, note, plan: Some(plan) });
        }
        let note = done(self.handle.ask(Ask::Recover(way)).await?)?;
        Ok(api::RecoverResponse { done: true, note, plan: Some(plan) })
    }

    /// Takes a snapshot in and makes sense of it.
    async fn receive(&self, input: &mut Streaming<api::RecoverInput>) -> Result<Given, Status> {
        let room = self.copies.clone().try_acquire_owned();
        let _room = room.map_err(|_full| unavailable("other copies of the store are in memory"))?;
        let mut bytes = Vec::new();
        while let Some(message) = next(input).await? {
            let Input::Data(data) = message else {
                return Err(Status::invalid_argument("start: was said already"));
            };
            if bytes.len().saturating_add(data.len()) > LARGEST {
                let why = format!("the snapshot has more than {LARGEST} bytes");
                return Err(Status::resource_exhausted(why));
            }
            bytes.extend_from_slice(&data);
        }
        let read = tokio::task::spawn_blocking(move || understand(&bytes));
        read.await.map_err(|fault| Status::internal(fault.to_string()))?
    }
}

async fn next(input: &mut Streaming<api::RecoverInput>) -> Result<Option<Input>, Status> {
    let late = |_| Status::deadline_exceeded("nothing came for too long");
    match timeout(NEXT, input.message()).await.map_err(late)?? {
        None => Ok(None),
        Some(api::RecoverInput { input: Some(input) }) => Ok(Some(input)),
        Some(api::RecoverInput { input: None }) => {
            Err(Status::invalid_argument("input: nothing is said"))
        }
    }
}

fn understand(mut bytes: &[u8]) -> Result<Given, Status> {
    let archive = archive::read(&mut bytes)
        .map_err(|why| Status::invalid_argument(format!("the snapshot is refused: {why}")))?;
    let loaded = archive.contents().loaded;
    if loaded.snapshot.head.is_none() {
        let why = "the snapshot is refused: its head /meta/head is missing or cannot be read";
        return Err(Status::invalid_argument(why));
    }
    let told = loaded.quarantined.iter().map(|found| format!("{} {}", found.key, found.why));
    Ok(Given { unreadable: told.collect(), snapshot: Box::new(loaded.snapshot) })
}

fn look(world: &World, way: &Recovery) -> Result<(RecoveryPlan, String), Status> {
    match world.mode() {
        (Mode::Recovery, _) => Ok((world.recovery_plan(way), world.head().cluster.to_string())),
        (Mode::Normal, _) => {
            let why = "the control plane works normally: there is nothing to recover";
            Err(Status::failed_precondition(why))
        }
        (Mode::Degraded, why) => Err(unavailable(format!("the control plane is degraded: {why}"))),
    }
}

fn to_wire(plan: RecoveryPlan, unreadable: Vec<String>) -> api::RecoveryPlan {
    api::RecoveryPlan {
        kept: names(plan.kept),
        restored: copies(plan.restored),
        deleted: copies(plan.deleted),
        dropped: names(plan.dropped),
        superseded: copies(plan.superseded),
        without_spec: copies(plan.without_spec),
        orphans: copies(plan.orphans),
        conflicts: names(plan.conflicts),
        heard: names(plan.heard),
        missing: names(plan.missing),
        unreadable,
    }
}

fn names<T: ToString>(all: impl IntoIterator<Item = T>) -> Vec<String> {
    all.into_iter().map(|one| one.to_string()).collect()
}

fn copies(all: impl IntoIterator<Item = (WorkloadId, NodeId)>) -> Vec<api::WorkloadCopy> {
    let copy = |(workload, node): (WorkloadId, NodeId)| api::WorkloadCopy {
        workload_id: workload.to_string(),
        node_id: node.to_string(),
    };
    all.into_iter().map(copy).collect()
}
