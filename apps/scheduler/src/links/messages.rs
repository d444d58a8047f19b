//! Orders as messages on a stream, for clients that know the contract.
//!
//! One that knows our tokens answers each order. One that does not is believed to have what was
//! sent, and its heartbeats tell how that stands. Should the stream end, nothing sent on it counts: the
//! node registers anew on the next one, and is told everything again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use persys_model::command::Command;
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::control_message::Message;
use persys_proto::convert::{answer, command, contract, task};
use persys_telemetry::trace;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tonic::Status;

use super::streams::Open;
use super::{OrderAnswer, Unreachable};

/// Longest wait for an answer, and for room on the stream.
const PATIENCE: Duration = Duration::from_secs(10);

/// What goes down a stream.
pub(crate) type Sent = Result<wire::ControlMessage, Status>;

/// The way down one stream, and who waits for what comes up.
#[derive(Debug)]
pub(crate) struct Messages {
    to: mpsc::Sender<Sent>,
    next: AtomicU64,
    waiting: Mutex<BTreeMap<u64, oneshot::Sender<OrderAnswer>>>,
}

impl Messages {
    pub(crate) fn new(to: mpsc::Sender<Sent>) -> Self {
        Self { to, next: AtomicU64::new(1), waiting: Mutex::default() }
    }

    /// Sends an order to one who knows no tokens. That it was sent is all there is to know.
    pub(crate) async fn tell(&self, open: &Open, order: &Command) -> Result<(), Unreachable> {
        let message = contract::to_stream(order).map_err(Unreachable::never_sent)?;
        tokio::select! {
            biased;
            () = open.over() => Err(ended()),
            sent = self.send(message) => sent,
        }
    }

    /// Sends an order to one who knows tokens, and waits for the answer or the end of the stream.
    pub(crate) async fn ask(
        &self,
        open: &Open,
        order: &Command,
    ) -> Result<OrderAnswer, Unreachable> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (to, answered) = oneshot::channel();
        self.waiting(|waiting| waiting.insert(id, to));
        let asking = async {
            let mut message = command::to_stream(order, id);
            message.traceparent = trace::current().traceparent().unwrap_or_default();
            self.send(Message::AgentCommand(Box::new(message))).await?;
            answered.await.ok().ok_or_else(ended)
        };
        let answer = tokio::select! {
            answer = timeout(PATIENCE, asking) => answer,
            () = open.over() => Ok(Err(ended())),
        };
        self.waiting(|waiting| waiting.remove(&id));
        answer.unwrap_or_else(|_| Err(Unreachable::unknown("no answer in time")))
    }

    /// An order was answered. Nobody waits for an answer that is late or was never asked for.
    pub(crate) fn answered(&self, reply: &wire::AgentReply) -> Result<(), Status> {
        let read = answer::from_stream(reply);
        let (id, answer) = read.map_err(|faults| Status::invalid_argument(faults.to_string()))?;
        if let Some(to) = self.waiting(|waiting| waiting.remove(&id)) {
            let task = reply.task.as_ref().and_then(task::from_wire).map(|named| named.task);
            drop(to.send(OrderAnswer { answer, task }));
        }
        Ok(())
    }

    async fn send(&self, message: Message) -> Result<(), Unreachable> {
        let message = wire::ControlMessage { message: Some(message) };
        match timeout(PATIENCE, self.to.send(Ok(message))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(ended()),
            Err(_) => Err(Unreachable::unknown("it does not read its stream")),
        }
    }

    fn waiting<T>(
        &self,
        look: impl FnOnce(&mut BTreeMap<u64, oneshot::Sender<OrderAnswer>>) -> T,
    ) -> T {
        look(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn ended() -> Unreachable {
    Unreachable::unknown("its stream has ended")
}
