//! What goes up a stream, gathered: that an order was taken in waits a moment for the beat that follows.
//!
//! ```text
//!   taken in ──▶ held ──▶ beat, refusal, many held, or a moment has passed ──▶ all at once, in order
//! ```
//!
//! An order that is taken in is mostly followed by a beat that tells what came of it. Sent together, both
//! are one frame, one record and one system call at either end; a thousand agents at work feel it. Nobody
//! waits for the word alone: what comes of it is in the beat, and what is refused is said at once.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use persys_proto::control::v1::ControlMessage;
use persys_proto::control::v1::control_message::Message;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep};

/// Longest wait of a word that can wait. An agent on a busy machine starts something quick within it; what
/// takes longer, as containers do, has its word sent alone. It is far below what the scheduler waits for.
const HOLD: Duration = Duration::from_millis(25);
/// Most words held.
const MOST: usize = 32;

/// The messages of a channel as a stream.
pub(super) struct Gathered {
    from: mpsc::Receiver<ControlMessage>,
    held: VecDeque<ControlMessage>,
    /// What is held goes now.
    go: bool,
    /// When it goes at the latest, while something is held.
    until: Pin<Box<Sleep>>,
}

impl Gathered {
    pub(super) fn new(from: mpsc::Receiver<ControlMessage>) -> Self {
        Self { from, held: VecDeque::new(), go: false, until: Box::pin(sleep(HOLD)) }
    }

    fn hold(&mut self, message: ControlMessage) {
        if self.held.is_empty() {
            self.until.as_mut().reset(Instant::now() + HOLD);
        }
        self.go |= !can_wait(&message) || self.held.len() + 1 >= MOST;
        self.held.push_back(message);
    }
}

/// Whether a message only says that an order was taken in.
fn can_wait(message: &ControlMessage) -> bool {
    match &message.message {
        Some(Message::AgentReply(reply)) => reply.accepted && !reply.removed,
        Some(_) | None => false,
    }
}

impl Stream for Gathered {
    type Item = ControlMessage;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if self.go {
                if let Some(message) = self.held.pop_front() {
                    return Poll::Ready(Some(message));
                }
                self.go = false;
            }
            match self.from.poll_recv(context) {
                Poll::Ready(Some(message)) => self.hold(message),
                Poll::Ready(None) if self.held.is_empty() => return Poll::Ready(None),
                Poll::Ready(None) => self.go = true,
                Poll::Pending if self.held.is_empty() => return Poll::Pending,
                Poll::Pending => {
                    if self.until.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    self.go = true;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use persys_proto::control::v1 as wire;

    use super::*;

    fn reply(command_id: u64, accepted: bool) -> ControlMessage {
        let reply = wire::AgentReply { command_id, accepted, ..wire::AgentReply::default() };
        ControlMessage { message: Some(Message::AgentReply(reply)) }
    }

    fn beat(seq: u64) -> ControlMessage {
        let beat = wire::HeartbeatRequest { seq, ..wire::HeartbeatRequest::default() };
        ControlMessage { message: Some(Message::Heartbeat(Box::new(beat))) }
    }

    /// All that is to be had without waiting.
    fn now(stream: &mut Gathered) -> Vec<ControlMessage> {
        let mut all = Vec::new();
        while let Some(Some(message)) = futures::FutureExt::now_or_never(stream.next()) {
            all.push(message);
        }
        all
    }

    fn channel() -> (mpsc::Sender<ControlMessage>, Gathered) {
        let (to, from) = mpsc::channel(64);
        (to, Gathered::new(from))
    }

    #[tokio::test(start_paused = true)]
    async fn a_word_that_can_wait_goes_with_the_beat() {
        let (to, mut stream) = channel();
        to.try_send(reply(1, true)).unwrap();
        assert_eq!(now(&mut stream), []);
        to.try_send(reply(2, true)).unwrap();
        assert_eq!(now(&mut stream), []);
        to.try_send(beat(7)).unwrap();
        assert_eq!(now(&mut stream), [reply(1, true), reply(2, true), beat(7)]);
        assert_eq!(now(&mut stream), []);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_beat_it_goes_alone_in_time() {
        let (to, mut stream) = channel();
        to.try_send(reply(1, true)).unwrap();
        let begun = Instant::now();
        assert_eq!(stream.next().await, Some(reply(1, true)));
        assert_eq!(begun.elapsed().as_millis(), HOLD.as_millis());
        // The next one has its own time.
        to.try_send(reply(2, true)).unwrap();
        assert_eq!(stream.next().await, Some(reply(2, true)));
        assert!(begun.elapsed() >= HOLD * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_goes_at_once_and_so_do_many() {
        let (to, mut stream) = channel();
        to.try_send(reply(1, false)).unwrap();
        assert_eq!(now(&mut stream), [reply(1, false)]);
        for id in 0..MOST {
            to.try_send(reply(u64::try_from(id).unwrap(), true)).unwrap();
        }
        assert_eq!(now(&mut stream).len(), MOST);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_held_goes_before_the_end() {
        let (to, mut stream) = channel();
        to.try_send(reply(1, true)).unwrap();
        assert_eq!(now(&mut stream), []);
        drop(to);
        assert_eq!(stream.next().await, Some(reply(1, true)));
        assert_eq!(stream.next().await, None);
    }
}
