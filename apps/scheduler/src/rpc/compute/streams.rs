//! Output and commands, passed on between a caller and the agent of a workload's present place.
//!
//! A stream ends with the caller, with the agent's end, or with this scheduler. One that follows a
//! workload which moves ends too: the caller asks again and is sent to the new place.

use std::sync::Arc;
use std::time::Duration;

use persys_access::Who;
use persys_model::id::NodeId;
use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::console_input::Input as Held;
use persys_proto::compute::v1::exec_input::Input;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::timeout;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::Compute;
use super::inside::told_by;
use crate::rpc::refusal::{unavailable, workload_id};

/// Pieces on their way to one caller.
const BUFFER: usize = 16;
/// How long a caller may take to say what to run.
const FIRST_WORD: Duration = Duration::from_secs(10);

type Passed<T> = ReceiverStream<Result<T, Status>>;

impl Compute {
    pub(super) async fn pass_logs(
        &self,
        request: api::LogsRequest,
    ) -> Result<Passed<api::LogChunk>, Status> {
        let id = workload_id(&request.workload_id)?;
        let permit = self.room_for_stream()?;
        let agent = self.agent_of(&id, Who::Viewers).await?;
        let from = agent
            .ask(|mut client| {
                let request = request.clone();
                async move { client.logs(request).await.map(tonic::Response::into_inner) }
            })
            .await?;
        Ok(self.pass_on(agent.node, from, permit))
    }

    pub(super) async fn pass_exec(
        &self,
        mut typed: Streaming<api::ExecInput>,
    ) -> Result<Passed<api::ExecOutput>, Status> {
        let permit = self.room_for_stream()?;
        let Ok(first) = timeout(FIRST_WORD, typed.message()).await else {
            return Err(Status::invalid_argument("start: did not come in time"));
        };
        let Some(Input::Start(start)) = first?.and_then(|first| first.input) else {
            return Err(Status::invalid_argument("start: must be the first message"));
        };
        let id = workload_id(&start.workload_id)?;
        if start.argv.first().is_none_or(String::is_empty) {
            return Err(Status::invalid_argument("start.argv: is empty"));
        }
        let agent = self.agent_of(&id, Who::Operators).await?;
        // A command may not be given twice, so a dead connection is found out by a question first.
        agent.inspect(&id).await?;
        let first = api::ExecInput { input: Some(Input::Start(start)) };
        // A caller that breaks off ends its input; that it is gone is seen by its output.
        let typed = tokio_stream::once(first).chain(typed.map_while(Result::ok));
        let mut client = agent.client.clone();
        let from = agent.in_time(client.exec(typed)).await?.into_inner();
        Ok(self.pass_on(agent.node, from, permit))
    }

    pub(super) async fn pass_console(
        &self,
        mut typed: Streaming<api::ConsoleInput>,
    ) -> Result<Passed<api::ConsoleOutput>, Status> {
        let permit = self.room_for_stream()?;
        let Ok(first) = timeout(FIRST_WORD, typed.message()).await else {
            return Err(Status::invalid_argument("start: did not come in time"));
        };
        let Some(Held::Start(start)) = first?.and_then(|first| first.input) else {
            return Err(Status::invalid_argument("start: must be the first message"));
        };
        let id = workload_id(&start.workload_id)?;
        let agent = self.agent_of(&id, Who::Operators).await?;
        // A stream is begun once, so a dead connection is found out by a question first.
        agent.inspect(&id).await?;
        let first = api::ConsoleInput { input: Some(Held::Start(start)) };
        let typed = tokio_stream::once(first).chain(typed.map_while(Result::ok));
        let mut client = agent.client.clone();
        let from = agent.in_time(client.console(typed)).await?.into_inner();
        Ok(self.pass_on(agent.node, from, permit))
    }

    fn room_for_stream(&self) -> Result<OwnedSemaphorePermit, Status> {
        match Arc::clone(&self.streams).try_acquire_owned() {
            Ok(permit) => Ok(permit),
            Err(_) => Err(Status::resource_exhausted("too many streams already; try again later")),
        }
    }

    fn pass_on<T: Send + 'static>(
        &self,
        node: NodeId,
        from: Streaming<T>,
        permit: OwnedSemaphorePermit,
    ) -> Passed<T> {
        let (to, passed) = mpsc::channel(BUFFER);
        tokio::spawn(carry(node, from, to, self.stop.clone(), permit));
        ReceiverStream::new(passed)
    }
}

async fn carry<T>(
    node: NodeId,
    mut from: Streaming<T>,
    to: mpsc::Sender<Result<T, Status>>,
    mut stop: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
) {
    loop {
        let next = tokio::select! {
            next = from.message() => next,
            () = to.closed() => return,
            _ = stop.wait_for(|stop| *stop) => Err(unavailable("the scheduler is stopping")),
        };
        let (sent, last) = match next {
            Ok(Some(piece)) => (Ok(piece), false),
            Ok(None) => return,
            Err(why) => (Err(told_by(&node, &why)), true),
        };
        // A caller that does not read holds up its own stream alone.
        if to.send(sent).await.is_err() || last {
            return;
        }
    }
}
