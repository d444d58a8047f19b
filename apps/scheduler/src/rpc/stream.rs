//! `ControlStream`: an agent that nobody can call opens it, and is reached over it.
//!
//! With a header that names its node it is a tunnel, see `links::tunnel`. Without, it carries messages
//! of the contract: `register` and `heartbeat` as if they were called, answered by `registered` and
//! `heard`, and orders down. What would fail the call ends the stream with the same status.
//!
//! It also ends when a newer one of the same node takes its place, when this process no longer leads,
//! and when it stops.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use persys_identity::Peer;
use persys_model::id::NodeId;
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::control_message::Message;
use persys_proto::tunnel;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Status, Streaming};

use super::refusal::{node_id, unavailable};
use super::{Control, access};
use crate::handle::Unanswered;
use crate::links::messages::{Messages, Sent};
use crate::links::streams::{Carries, Place, State};

/// How long a node may take to say its first word.
const FIRST_WORD: Duration = Duration::from_secs(10);

/// The calls that messages stand for.
const REGISTER: &str = "/persys.control.v1.AgentControl/RegisterNode";
const HEARTBEAT: &str = "/persys.control.v1.AgentControl/Heartbeat";

type From = Streaming<wire::ControlMessage>;

impl Control {
    pub(super) fn open_stream(
        &self,
        request: Request<From>,
    ) -> Result<ReceiverStream<Sent>, Status> {
        if self.handle.standing().borrow().mode.is_none() {
            return Err(Unanswered::NotLeader.into());
        }
        let peer = Peer::of(&request).cloned();
        let peer = peer.ok_or_else(|| Status::unauthenticated("nobody knows who is calling"))?;
        let named = header(request.metadata())?;
        if let Some(node) = &named {
            access::own_node(Some(&peer), node.as_str())?;
        }
        let Ok(permit) = Arc::clone(&self.stream_room).try_acquire_owned() else {
            return Err(Status::resource_exhausted("too many streams are open; try again later"));
        };
        let (to, sent) = mpsc::channel(tunnel::MESSAGES);
        match named {
            Some(node) => self.open_tunnel(node, request.into_inner(), to, permit),
            None => self.open_messages(peer, request.into_inner(), to, permit)?,
        }
        Ok(ReceiverStream::new(sent))
    }

    fn open_tunnel(
        &self,
        node: NodeId,
        from: From,
        to: mpsc::Sender<Sent>,
        permit: OwnedSemaphorePermit,
    ) {
        let (ours, pipe) = tunnel::pipe();
        let channel = crate::links::tunnel::channel(ours);
        let place = self.streams.enter(node, Carries::Tunnel(channel), State::Ready);
        let open = Arc::clone(place.open());
        let carrying = tunnel::carry(pipe, from, to.clone(), Ok);
        let control = self.clone();
        tokio::spawn(async move {
            let why = control.until_over(carrying, Some(open.over()), &to).await;
            tracing::debug!(node = %place.node(), ?why, "a tunnel ended");
            drop((place, permit));
            say(&to, why);
        });
    }

    fn open_messages(
        &self,
        peer: Peer,
        from: From,
        to: mpsc::Sender<Sent>,
        permit: OwnedSemaphorePermit,
    ) -> Result<(), Status> {
        let mut talk = Talk {
            control: self.clone(),
            from,
            to: to.clone(),
            place: None,
            life: format!("stream-{:016x}", getrandom::u64().map_err(no_chance)?),
            registered: false,
            peer,
        };
        // A certificate names the node before its first word, and it has but one stream from then on.
        if talk.peer.certificate.is_some() {
            talk.enter(node_id(talk.peer.name.as_str())?);
        }
        let control = self.clone();
        tokio::spawn(async move {
            let why = control.until_over(talk.run(), None::<std::future::Pending<()>>, &to).await;
            tracing::debug!(?why, "a stream ended");
            drop((talk, permit));
            say(&to, why);
        });
        Ok(())
    }

    /// Works until the work ends, or until there is a reason to end it; none is told to one who left.
    async fn until_over(
        &self,
        work: impl Future<Output = Status>,
        replaced: Option<impl Future<Output = ()>>,
        to: &mpsc::Sender<Sent>,
    ) -> Option<Status> {
        let (mut stop, mut standing) = (self.stop.clone(), self.handle.standing());
        let replaced = async {
            match replaced {
                Some(replaced) => replaced.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            why = work => Some(why),
            () = to.closed() => None,
            () = replaced => Some(newer()),
            _ = stop.wait_for(|stop| *stop) => Some(Unanswered::Stopping.into()),
            _ = standing.wait_for(|standing| standing.mode.is_none()) => {
                Some(Unanswered::NotLeader.into())
            }
        }
    }
}

/// The node a tunnel is to lead to; none when the stream is no tunnel.
fn header(metadata: &MetadataMap) -> Result<Option<NodeId>, Status> {
    let Some(value) = metadata.get(tunnel::NODE_HEADER) else { return Ok(None) };
    let bad = |_| Status::invalid_argument(format!("{}: is not text", tunnel::NODE_HEADER));
    node_id(value.to_str().map_err(bad)?).map(Some)
}

fn no_chance(fault: getrandom::Error) -> Status {
    unavailable(fault.to_string())
}

fn newer() -> Status {
    Status::aborted("a newer stream of the same node took its place")
}

/// The last word. One who does not read is not waited for; its stream ends without.
fn say(to: &mpsc::Sender<Sent>, why: Option<Status>) {
    if let Some(why) = why.filter(|why| why.code() != Code::Ok) {
        drop(to.try_send(Err(why)));
    }
}

/// One stream of messages.
struct Talk {
    control: Control,
    peer: Peer,
    from: From,
    to: mpsc::Sender<Sent>,
    /// Once it is known whose it is.
    place: Option<Place>,
    /// Tells this stream from every other one.
    life: String,
    registered: bool,
}

impl Talk {
    async fn run(&mut self) -> Status {
        match self.talk().await {
            Ok(()) => Status::ok("the stream was closed"),
            Err(why) => why,
        }
    }

    async fn talk(&mut self) -> Result<(), Status> {
        while let Some(message) = self.next().await? {
            let Some(message) = message.message else { continue };
            let began = Instant::now();
            let answer = match message {
                Message::Register(request) => {
                    let answer = self.register(*request).await;
                    self.count(REGISTER, began, &answer);
                    answer?
                }
                Message::Heartbeat(request) => {
                    let answer = self.hear(*request).await;
                    self.count(HEARTBEAT, began, &answer);
                    answer?
                }
                Message::AgentReply(reply) => {
                    self.answered(&reply)?;
                    continue;
                }
                Message::Tunnel(_) => {
                    let why = format!("a tunnel names its node in {}", tunnel::NODE_HEADER);
                    return Err(Status::failed_precondition(why));
                }
                Message::Apply(_)
                | Message::Delete(_)
                | Message::AgentCommand(_)
                | Message::Registered(_)
                | Message::Heard(_) => {
                    return Err(Status::invalid_argument("only the scheduler says this"));
                }
            };
            let answer = wire::ControlMessage { message: Some(answer) };
            if self.to.send(Ok(answer)).await.is_err() {
                return Ok(());
            }
            if self.registered
                && let Some(place) = &self.place
            {
                place.ready();
            }
        }
        Ok(())
    }

    /// The next message. The first must come in time, and nothing is read from one who was replaced.
    async fn next(&mut self) -> Result<Option<wire::ControlMessage>, Status> {
        let Some(place) = &self.place else {
            let first = timeout(FIRST_WORD, self.from.message()).await;
            let silent = |_| Status::deadline_exceeded("a stream begins with register");
            return first.map_err(silent)?;
        };
        let open = Arc::clone(place.open());
        tokio::select! {
            message = self.from.message() => message,
            () = open.over() => Err(newer()),
        }
    }

    fn count(&self, method: &'static str, began: Instant, answer: &Result<Message, Status>) {
        let code = answer.as_ref().map_or_else(Status::code, |_| Code::Ok);
        self.control.metrics.served.ended(method, code, began.elapsed());
    }

    fn enter(&mut self, node: NodeId) {
        let carries = Carries::Messages(Messages::new(self.to.clone()));
        self.control.agents.lost(&node);
        self.place = Some(self.control.streams.enter(node, carries, State::Opening));
    }

    /// A stream is one node's.
    fn speaks_for(&mut self, node: &str) -> Result<(), Status> {
        access::own_node(Some(&self.peer), node)?;
        let node = node_id(node)?;
        match &self.place {
            Some(place) if *place.node() == node => Ok(()),
            Some(place) => {
                let why = format!("this is the stream of {}, not of {node}", place.node());
                Err(Status::permission_denied(why))
            }
            None => {
                self.enter(node);
                Ok(())
            }
        }
    }

    async fn register(&mut self, request: wire::RegisterNodeRequest) -> Result<Message, Status> {
        self.speaks_for(&request.node_id)?;
        let answer = self.control.register(Some(&self.peer), request, &self.life).await?;
        self.registered |= answer.accepted;
        Ok(Message::Registered(answer))
    }

    async fn hear(&mut self, request: wire::HeartbeatRequest) -> Result<Message, Status> {
        self.speaks_for(&request.node_id)?;
        let tokens = request.session != 0;
        if !tokens && !self.registered {
            // What was sent on an earlier stream may be lost; a new life is told everything again.
            return Err(Status::not_found("a stream begins with register"));
        }
        let answer = self.control.hear(Some(&self.peer), request).await?;
        self.registered |= tokens && answer.acknowledged;
        Ok(Message::Heard(answer))
    }

    fn answered(&self, reply: &wire::AgentReply) -> Result<(), Status> {
        match self.place.as_ref().map(|place| place.open().carries()) {
            Some(Carries::Messages(messages)) => messages.answered(reply),
            Some(Carries::Tunnel(_)) | None => Err(Status::invalid_argument("nothing was ordered")),
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        // What was sent down a newer stream counts.
        if let Some(place) = &self.place
            && let Some(open) = self.control.streams.of(place.node())
            && Arc::ptr_eq(&open, place.open())
        {
            self.control.agents.lost(place.node());
        }
    }
}
