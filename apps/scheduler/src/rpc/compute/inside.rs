//! Where a workload is, and how its agent is asked about it.

use std::sync::Arc;
use std::time::Duration;

use persys_access::Who;
use persys_cluster::world::World;
use persys_identity::ConnectError;
use persys_model::id::{NodeId, WorkloadId};
use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::inside_client::InsideClient;
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::Compute;
use super::words::first_line;
use crate::links::Target;
use crate::permit;
use crate::rpc::LARGEST;
use crate::rpc::refusal::unavailable;

/// How long an agent may take to begin its answer.
const BEGIN: Duration = Duration::from_secs(10);

/// The agent of a workload's present place.
pub(super) struct Agent {
    pub(super) node: NodeId,
    pub(super) client: InsideClient<Channel>,
}

/// The node of a workload's present place, and where it is called.
fn place_of(world: &World, id: &WorkloadId) -> Result<Target, Status> {
    let Some(view) = world.workload(id) else {
        return Err(Status::not_found(format!("there is no workload {id}")));
    };
    let assignment = view.assignment;
    let Some(place) = &assignment.place else {
        let reason = match first_line(&assignment.reason.message) {
            "" => assignment.reason.code.word(),
            text => text,
        };
        let phase = assignment.phase.word();
        return Err(Status::failed_precondition(format!(
            "{id} has no node: it is {phase} ({reason}); `persys why {id}` tells more"
        )));
    };
    match world.node(&place.node) {
        Some(view) => {
            let facts = &view.node.facts;
            let (endpoint, host) = (Arc::clone(&facts.endpoint), Arc::clone(&facts.host));
            Ok(Target { node: place.node.clone(), endpoint, host, context: None })
        }
        None => Err(unavailable(format!("{} is no longer in the cluster", place.node))),
    }
}

impl Compute {
    /// The way to the agent that has a workload, for who may do what `who` may.
    pub(super) async fn agent_of(&self, id: &WorkloadId, who: Who) -> Result<Agent, Status> {
        permit::workload(&self.handle, id, who).await?;
        let wanted = id.clone();
        let target = self.handle.read(move |world| place_of(world, &wanted)).await??;
        let channel = self.links.channel(&target);
        let node = target.node;
        let channel = channel.map_err(|why| unavailable(format!("{node}: {why}")))?;
        let client = InsideClient::new(channel).max_decoding_message_size(LARGEST);
        Ok(Agent { node, client })
    }
}

impl Agent {
    /// Asks, and asks once more if the kept connection turns out to be dead: only for questions
    /// that change nothing.
    pub(super) async fn ask<T, F>(
        &self,
        call: impl Fn(InsideClient<Channel>) -> F,
    ) -> Result<T, Status>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let twice = async {
            match call(self.client.clone()).await {
                Err(why) if is_broken(&why) => call(self.client.clone()).await,
                answer => answer,
            }
        };
        self.in_time(twice).await
    }

    /// Waits for the beginning of an answer, and says whose fault it is if there is none.
    pub(super) async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        match timeout(BEGIN, answer).await {
            Ok(answer) => answer.map_err(|why| told_by(&self.node, &why)),
            Err(_) => Err(unavailable(format!("{} does not answer", self.node))),
        }
    }

    /// What the runtime says of a workload.
    pub(super) async fn inspect(&self, id: &WorkloadId) -> Result<api::InspectResponse, Status> {
        let request = api::InspectRequest { workload_id: id.to_string() };
        self.ask(|mut client| {
            let request = request.clone();
            async move { client.inspect(request).await.map(tonic::Response::into_inner) }
        })
        .await
    }
}

/// Whether a call broke off with its connection.
fn is_broken(why: &Status) -> bool {
    let broken = [Code::Cancelled, Code::Unavailable, Code::Unknown, Code::Internal];
    broken.contains(&why.code())
        && std::error::Error::source(why).is_some()
        && ConnectError::within(why).is_none()
}

/// What an agent said, or why it said nothing, with its name.
pub(super) fn told_by(node: &NodeId, why: &Status) -> Status {
    if let Some(fault) = ConnectError::within(why) {
        return unavailable(format!("{node} cannot be reached: {fault}"));
    }
    match why.code() {
        Code::Unimplemented => {
            Status::unimplemented(format!("the agent on {node} is too old for this: update it"))
        }
        Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal => {
            unavailable(format!("{node}: {}", why.message()))
        }
        code @ (Code::Ok
        | Code::InvalidArgument
        | Code::DeadlineExceeded
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::DataLoss
        | Code::Unauthenticated) => Status::new(code, format!("{node}: {}", why.message())),
    }
}
