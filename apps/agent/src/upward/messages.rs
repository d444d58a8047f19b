//! A stream to the scheduler that leads: beats go up and orders come down as messages.
//!
//! ```text
//!   register ── a call ──▶ taken in by one of ours ──▶ stream ──▶ beats, orders
//!                                                        └ ends ──▶ calls, and a new stream
//! ```
//!
//! A call has headers, a stream of its own and a task of its own on both sides, and the scheduler would
//! have to call back over a second connection. A message is a few bytes on a connection that both have
//! in use. Nothing depends on it: without a stream beats are calls and the scheduler calls the agent,
//! and what was said on a stream that broke is said again by a call.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use persys_model::command::{Command, Order};
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::control_message::Message;
use persys_proto::convert::{answer, command, task};
use persys_telemetry::trace::{self, Kind};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Request, Status, Streaming};

use super::Unreachable;
use super::gathered::Gathered;
use super::grpc::{CALL, Grpc};
use super::stream::{GOOD, PAUSE, until_elsewhere};
use crate::handle::{Handle, Obeyed};
use crate::rpc;

/// Messages that may wait to be sent.
const MESSAGES: usize = 64;
/// Most orders under way; what comes beyond that waits in the stream.
const MOST_ORDERS: usize = 64;
/// How long one who sends what nobody understands is left to calls.
const MISUNDERSTOOD: Duration = Duration::from_mins(1);

/// The way up an open stream, and who waits for what comes down. Answers come in the order of the
/// beats.
#[derive(Debug)]
pub(super) struct Talk {
    to: mpsc::Sender<wire::ControlMessage>,
    waiting: Mutex<VecDeque<oneshot::Sender<wire::HeartbeatResponse>>>,
    /// A beat was not answered in time: the other end stands still, or the way to it does.
    slow: Notify,
}

impl Talk {
    fn on(to: mpsc::Sender<wire::ControlMessage>) -> Arc<Self> {
        Arc::new(Self { to, waiting: Mutex::default(), slow: Notify::new() })
    }

    /// Beats, and waits for the answer; nothing when the stream ends or is too slow.
    pub(super) async fn beat(
        &self,
        message: wire::HeartbeatRequest,
        longest: Duration,
    ) -> Option<wire::HeartbeatResponse> {
        let (to, answer) = oneshot::channel();
        {
            // Who waits is noted in the order in which it is sent.
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let message =
                wire::ControlMessage { message: Some(Message::Heartbeat(Box::new(message))) };
            self.to.try_send(message).ok()?;
            waiting.push_back(to);
        }
        let Ok(answer) = timeout(longest, answer).await else {
            self.slow.notify_one();
            return None;
        };
        answer.ok()
    }

    /// A beat was answered. Whoever waited for it may be gone.
    fn heard(&self, answer: wire::HeartbeatResponse) {
        let first = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        if let Some(first) = first {
            drop(first.send(answer));
        }
    }

    /// Nobody is answered any more.
    fn over(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Keeps a stream open while the agent is a member of a cluster of ours.
pub async fn keep(grpc: Arc<Grpc>, handle: Handle) {
    let mut ours = grpc.ours();
    let mut pause = PAUSE.0;
    while ours.wait_for(|ours| *ours).await.is_ok() {
        let begun = Instant::now();
        let why = match open(&grpc).await {
            Ok(opened) => serve(&grpc, &handle, opened).await,
            Err(why) => Why::Over(why.to_string()),
        };
        let why = match why {
            Why::Over(why) => why,
            Why::Misunderstood(what) => {
                tracing::warn!(
                    what,
                    "an order on the stream is not understood; it is to be called"
                );
                pause = MISUNDERSTOOD;
                what
            }
        };
        tracing::debug!(why, "the stream to the scheduler is not open");
        if begun.elapsed() >= GOOD {
            pause = pause.min(PAUSE.0);
        }
        sleep(pause).await;
        pause = pause.saturating_mul(2).min(PAUSE.1.max(pause));
    }
}

/// Why a stream is no more.
enum Why {
    Over(String),
    Misunderstood(String),
}

/// An open stream, both ways.
struct Opened {
    from: Streaming<wire::ControlMessage>,
    to: mpsc::Sender<wire::ControlMessage>,
}

async fn open(grpc: &Grpc) -> Result<Opened, Unreachable> {
    grpc.ask(CALL, |mut client| async move {
        let (to, sent) = mpsc::channel(MESSAGES);
        let sent = Gathered::new(sent);
        let from = client.control_stream(Request::new(sent)).await?.into_inner();
        Ok(Opened { from, to })
    })
    .await
}

async fn serve(grpc: &Grpc, handle: &Handle, opened: Opened) -> Why {
    let talk = Talk::on(opened.to.clone());
    grpc.talk_on(Some(Arc::clone(&talk)));
    let why = tokio::select! {
        why = talking(&talk, handle, opened) => why,
        () = talk.slow.notified() => Why::Over("a beat was not answered in time".to_owned()),
        why = until_elsewhere(grpc) => Why::Over(why.message().to_owned()),
    };
    grpc.talk_on(None);
    talk.over();
    why
}

/// Takes what comes down until nothing more does.
async fn talking(talk: &Talk, handle: &Handle, mut opened: Opened) -> Why {
    let mut orders = JoinSet::new();
    loop {
        let room = orders.len() < MOST_ORDERS;
        tokio::select! {
            message = opened.from.message(), if room => match message {
                Ok(Some(message)) => match message.message {
                    Some(Message::Heard(answer)) => talk.heard(answer),
                    Some(Message::AgentCommand(order)) => match Ordered::read(*order) {
                        Ok(ordered) => {
                            orders.spawn(ordered.carry_out(handle.clone(), opened.to.clone()));
                        }
                        Err(what) => return Why::Misunderstood(what),
                    },
                    Some(_) | None => {}
                },
                Ok(None) => return Why::Over("it was closed".to_owned()),
                Err(status) => return Why::Over(told(&status)),
            },
            Some(_) = orders.join_next() => {}
        }
    }
}

fn told(status: &Status) -> String {
    format!("{} {}", status.code(), status.message())
}

/// An order that came down.
struct Ordered {
    number: u64,
    order: Command,
    traceparent: String,
}

impl Ordered {
    fn read(mut message: wire::AgentCommand) -> Result<Self, String> {
        let traceparent = std::mem::take(&mut message.traceparent);
        let read = command::from_stream(message).map_err(|faults| faults.to_string());
        read.map(|(number, order)| Self { number, order, traceparent })
    }

    /// Gives the order and says what came of it. One that is not answered here is given again.
    async fn carry_out(self, handle: Handle, to: mpsc::Sender<wire::ControlMessage>) {
        let Self { number, order, traceparent } = self;
        let (epoch, began) = (order.epoch, Instant::now());
        // What it would be as a call, and is counted and told as.
        let method = match order.order {
            Order::Apply(_) => "/persys.agent.v1.AgentService/ApplyWorkload",
            Order::Remove { .. } => "/persys.agent.v1.AgentService/DeleteWorkload",
        };
        let given = if traceparent.is_empty() {
            rpc::command_to(&handle, order).await
        } else {
            let trail = handle.home().told_by(&traceparent);
            let span = trail.begin(method.trim_start_matches('/'), Kind::Server);
            trace::scope(span.trail().clone(), rpc::command_to(&handle, order)).await
        };
        let given = given.map_err(rpc::unanswered);
        let code = given.as_ref().map_or_else(Status::code, |_| Code::Ok);
        handle.metrics.rpcs.ended(method, code, began.elapsed());
        let Ok(Obeyed { answer, task }) = given else { return };
        let mut reply = answer::to_stream(&answer, epoch, number);
        reply.task = task.as_ref().map(task::to_wire);
        let reply = Message::AgentReply(reply);
        // Nobody to tell: it is asked for again.
        drop(to.send(wire::ControlMessage { message: Some(reply) }).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(seq: u64) -> wire::HeartbeatRequest {
        wire::HeartbeatRequest { seq, ..wire::HeartbeatRequest::default() }
    }

    fn answer(seq: u64) -> wire::HeartbeatResponse {
        wire::HeartbeatResponse { seq, ..wire::HeartbeatResponse::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_come_in_the_order_of_the_beats_and_one_who_left_is_skipped() {
        let (to, mut sent) = mpsc::channel(4);
        let talk = Talk::on(to);
        let beat = |seq, longest| {
            let talk = Arc::clone(&talk);
            tokio::spawn(async move { talk.beat(numbered(seq), longest).await })
        };
        let short = beat(1, Duration::from_secs(1));
        assert!(sent.recv().await.is_some());
        let long = beat(2, Duration::from_mins(1));
        assert!(sent.recv().await.is_some());
        assert_eq!(short.await.unwrap(), None);
        talk.slow.notified().await;
        talk.heard(answer(1));
        talk.heard(answer(2));
        assert_eq!(long.await.unwrap().map(|answer| answer.seq), Some(2));
        // Nobody asked for this one.
        talk.heard(answer(3));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_on_a_stream_that_ends_waits_no_longer() {
        let (to, mut sent) = mpsc::channel(4);
        let talk = Talk::on(to);
        let waiting = {
            let talk = Arc::clone(&talk);
            tokio::spawn(async move { talk.beat(numbered(1), Duration::from_mins(1)).await })
        };
        assert!(sent.recv().await.is_some());
        talk.over();
        assert_eq!(waiting.await.unwrap(), None);
        drop(sent);
        assert_eq!(talk.beat(numbered(2), Duration::from_mins(1)).await, None);
    }
}
