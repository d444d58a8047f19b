//! `persys.compute.v1.Inside`: looking into what runs here, for the scheduler to pass on.
//!
//! Only workloads the agent holds are looked into. A stream ends with its caller, and a command's
//! session with it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use persys_model::id::WorkloadId;
use persys_model::spec::Protocol;
use persys_model::time::WallMillis;
use persys_node::input::Existing;
use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::inside_server::{Inside, InsideServer};
use persys_proto::control::v1::WorkloadUsageSnapshot;
use persys_proto::convert::time::wall;
use persys_runtime::Error;
use persys_runtime::Runtime as _;
use persys_runtime::inside::{Chunk, LogRange, Output, Source};
use persys_runtime::runtime::{Published, ServiceStatus};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Request, Response, Status, Streaming};

use super::{Guarded, MESSAGE_BYTES, console, session, unanswered};
use crate::evidence;
use crate::handle::Handle;
use crate::host;
use crate::runtimes::Runtimes;
use crate::usage::{Sample, percent};

/// Most streams at a time.
const MOST_STREAMS: usize = 128;
/// Pieces on their way to one caller.
pub(super) const BUFFER: usize = 16;
/// Longest piece of output in one message.
const PIECE_BYTES: usize = 64 * 1024;
/// How long a runtime may take to tell one thing about a workload.
const LOOK: Duration = Duration::from_millis(1_500);
/// How far apart two readings are that a rate is made of.
const BETWEEN: Duration = Duration::from_millis(200);
/// How long a caller may take to say what a stream is about.
const FIRST_WORD: Duration = Duration::from_secs(10);

/// The service.
#[derive(Debug)]
pub struct Service {
    handle: Handle,
    pub(super) runtimes: Runtimes,
    streams: Arc<Semaphore>,
}

/// The service behind its guard.
pub type Behind = Guarded<InsideServer<Service>>;

/// The service behind its guard.
#[must_use]
pub fn service(handle: Handle, runtimes: Runtimes, alone: bool) -> Behind {
    let streams = Arc::new(Semaphore::new(MOST_STREAMS));
    let service = Service { handle, runtimes, streams };
    let server = InsideServer::new(service).max_decoding_message_size(MESSAGE_BYTES);
    Guarded::new(server, alone)
}

/// Pieces on their way to a caller.
pub(super) type Sent<T> = mpsc::Sender<Result<T, Status>>;
/// The same as the caller gets them.
pub(super) type Pieces<T> = futures::stream::BoxStream<'static, Result<T, Status>>;

/// Both ends of what goes to a caller.
pub(super) fn channel<T: Send + 'static>() -> (Sent<T>, Pieces<T>) {
    let (to, from) = mpsc::channel(BUFFER);
    let pieces = futures::stream::unfold(from, |mut from| async move {
        let piece = from.recv().await?;
        Some((piece, from))
    });
    (to, pieces.boxed())
}

impl Service {
    /// The name of a workload that is held here.
    pub(super) async fn known(&self, id: &str) -> Result<WorkloadId, Status> {
        let workload = match WorkloadId::new(id) {
            Ok(workload) => workload,
            Err(fault) => return Err(Status::invalid_argument(format!("workload_id: {fault}"))),
        };
        let wanted = workload.clone();
        let look = move |agent: &persys_node::agent::Agent| agent.intents().contains_key(&wanted);
        if self.handle.read(move |agent, _| look(agent)).await.map_err(unanswered)? {
            return Ok(workload);
        }
        Err(Status::not_found(format!("this node has no workload {workload}")))
    }

    pub(super) fn room_for_stream(&self) -> Result<OwnedSemaphorePermit, Status> {
        match Arc::clone(&self.streams).try_acquire_owned() {
            Ok(permit) => Ok(permit),
            Err(_) => Err(Status::resource_exhausted("too many streams on this node already")),
        }
    }

    async fn look(&self, workload: &WorkloadId) -> Result<api::InspectResponse, Status> {
        let (thing, usage, end) = tokio::join!(
            timeout(LOOK, self.runtimes.inspect(workload)),
            timeout(LOOK, self.usage(workload)),
            timeout(LOOK, self.runtimes.end_of(workload)),
        );
        let mut answer = api::InspectResponse::default();
        match thing {
            Ok(Ok(Some(thing))) => {
                answer.runtime_id = thing.id;
                answer.started_at = thing.started_at.unwrap_or_default();
                answer.finished_at = thing.finished_at.unwrap_or_default();
                answer.ip_addresses = thing.addresses.iter().map(ToString::to_string).collect();
                answer.ports = thing.ports.into_iter().map(port).collect();
                answer.services = thing.services.into_iter().map(service_status).collect();
            }
            Ok(Ok(None)) => {}
            Ok(Err(error)) => return Err(refused(&error)),
            Err(_) => return Err(Status::unavailable("the runtime does not answer")),
        }
        answer.usage = usage.ok().flatten();
        if let Ok(Some(end)) = end {
            answer.evidence = evidence::text(&end).lines().map(str::to_owned).collect();
        }
        Ok(answer)
    }

    /// What it uses; how much CPU takes two readings, of which there usually is one already.
    async fn usage(&self, workload: &WorkloadId) -> Option<WorkloadUsageSnapshot> {
        let (before, at) = (self.runtimes.usage(workload).await?, host::date());
        let known = self.runtimes.usages().of(workload);
        if let Some(cpu_percent) = known.and_then(|last| last.percent_until(&before, at)) {
            let sample = Sample { kind: None, cpu_percent, reading: before, at };
            return Some(sample.to_wire(workload));
        }
        let begun = Instant::now();
        sleep(BETWEEN).await;
        let after = self.runtimes.usage(workload).await?;
        let cpu_percent = percent(&before, &after, begun.elapsed());
        let sample = Sample { kind: None, cpu_percent, reading: after, at: host::date() };
        Some(sample.to_wire(workload))
    }
}

fn port(published: Published) -> String {
    let protocol = match published.host.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    };
    let host = match published.address {
        Some(address) => SocketAddr::new(address, published.host.port).to_string(),
        None => published.host.port.to_string(),
    };
    format!("{host}:{}/{protocol}", published.inner)
}

fn service_status(service: ServiceStatus) -> api::ServiceStatus {
    let (state, exit_code) = match service.state {
        Existing::Created => ("created", 0),
        Existing::Running => ("running", 0),
        Existing::Paused { .. } => ("paused", 0),
        Existing::Stuck { .. } => ("not responding", 0),
        Existing::Exited { code } => ("exited", code),
    };
    let health = service.health.as_ref();
    api::ServiceStatus {
        name: service.name,
        runtime_id: service.id,
        state: state.to_owned(),
        exit_code,
        one_shot: service.one_shot,
        health: health.map(|one| one.state.word().to_owned()).unwrap_or_default(),
        health_message: health.map(|one| one.detail.to_string()).unwrap_or_default(),
        number: service.number,
    }
}

/// The first message of a stream, which says what the stream is about.
pub(super) async fn first_word<T>(typed: &mut Streaming<T>) -> Result<Option<T>, Status> {
    match timeout(FIRST_WORD, typed.message()).await {
        Ok(first) => first,
        Err(_) => Err(Status::invalid_argument("start: did not come in time")),
    }
}

/// What a runtime's no means to a caller.
pub(super) fn refused(error: &Error) -> Status {
    match error {
        Error::NoAnswer { .. } | Error::Unreachable { .. } | Error::Unreadable { .. } => {
            Status::unavailable(error.to_string())
        }
        Error::Absent { workload } => {
            let text = format!("nothing of {workload} is here yet: it was never started");
            Status::failed_precondition(text)
        }
        Error::ImageNotFound { .. }
        | Error::ImagePull { .. }
        | Error::ImageDenied { .. }
        | Error::PortTaken { .. }
        | Error::Network { .. }
        | Error::Secret { .. }
        | Error::Storage { .. }
        | Error::Resources { .. }
        | Error::Invalid { .. }
        | Error::Boot { .. }
        | Error::Foreign { .. }
        | Error::OtherRevision { .. }
        | Error::InService { .. }
        | Error::TooLate { .. }
        | Error::WrongKind { .. }
        | Error::Refused { .. } => Status::failed_precondition(error.to_string()),
    }
}

/// A piece of output as messages of bearable size.
pub(super) fn messages(chunk: &Chunk) -> impl Iterator<Item = api::LogChunk> + '_ {
    let stream = match chunk.source {
        Source::Stdout => 1,
        Source::Stderr => 2,
    };
    chunk.bytes.chunks(PIECE_BYTES).map(move |data| api::LogChunk { stream, data: data.to_vec() })
}

async fn pass_on(mut output: Output, to: Sent<api::LogChunk>, _permit: OwnedSemaphorePermit) {
    loop {
        let piece = tokio::select! {
            piece = output.next() => piece,
            () = to.closed() => return,
        };
        match piece {
            None => return,
            Some(Ok(chunk)) => {
                for message in messages(&chunk) {
                    if to.send(Ok(message)).await.is_err() {
                        return;
                    }
                }
            }
            Some(Err(error)) => {
                // It may have gone away; then it does not want to know.
                drop(to.send(Err(refused(&error))).await);
                return;
            }
        }
    }
}

#[tonic::async_trait]
impl Inside for Service {
    type LogsStream = Pieces<api::LogChunk>;
    type ExecStream = Pieces<api::ExecOutput>;
    type ConsoleStream = Pieces<api::ConsoleOutput>;

    async fn inspect(
        &self,
        request: Request<api::InspectRequest>,
    ) -> Result<Response<api::InspectResponse>, Status> {
        let workload = self.known(&request.into_inner().workload_id).await?;
        self.look(&workload).await.map(Response::new)
    }

    async fn logs(
        &self,
        request: Request<api::LogsRequest>,
    ) -> Result<Response<Self::LogsStream>, Status> {
        let request = request.into_inner();
        let workload = self.known(&request.workload_id).await?;
        let permit = self.room_for_stream()?;
        let since: Option<WallMillis> = request.since.as_ref().map(wall);
        let tail = (request.tail > 0).then_some(request.tail);
        let service = Some(request.service).filter(|service| !service.is_empty());
        let range = LogRange { tail, since, follow: request.follow, service };
        let output = self.runtimes.logs(&workload, range).await.map_err(|error| refused(&error))?;
        let (to, pieces) = channel();
        tokio::spawn(pass_on(output, to, permit));
        Ok(Response::new(pieces))
    }

    async fn exec(
        &self,
        request: Request<Streaming<api::ExecInput>>,
    ) -> Result<Response<Self::ExecStream>, Status> {
        session::begin(self, request.into_inner()).await.map(Response::new)
    }

    async fn console(
        &self,
        request: Request<Streaming<api::ConsoleInput>>,
    ) -> Result<Response<Self::ConsoleStream>, Status> {
        console::begin(self, request.into_inner()).await.map(Response::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_pieces_go_in_several_messages() {
        let bytes = vec![7; PIECE_BYTES + 1].into();
        let chunk = Chunk { source: Source::Stderr, bytes };
        let sizes: Vec<_> = messages(&chunk).map(|m| (m.stream, m.data.len())).collect();
        assert_eq!(sizes, [(2, PIECE_BYTES), (2, 1)]);
    }
}
