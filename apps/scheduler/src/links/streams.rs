//! The streams that agents keep open, one per node.
//!
//! An agent that nobody can call opens a `ControlStream`, and orders go down that. It is a tunnel, with
//! a connection to the agent inside, or it carries messages of the contract. A newer stream of the
//! same node replaces the older, which may have died without anybody noticing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use persys_model::id::NodeId;
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::transport::Channel;

use super::messages::Messages;

/// How long an order waits for the stream of a node that has just none, as after a restart.
const PATIENCE: Duration = Duration::from_secs(3);

/// What a stream carries.
#[derive(Debug)]
pub(crate) enum Carries {
    /// A connection to the agent's services.
    Tunnel(Channel),
    /// Messages of the contract.
    Messages(Messages),
}

/// How a stream stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Open, but its node is not yet known to be in its present life.
    Opening,
    /// Orders may go down.
    Ready,
    /// Gone, or replaced.
    Over,
}

/// One open stream.
#[derive(Debug)]
pub(crate) struct Open {
    id: u64,
    carries: Carries,
    state: watch::Sender<State>,
}

impl Open {
    pub(crate) fn carries(&self) -> &Carries {
        &self.carries
    }

    /// Whether orders may go down now.
    pub(crate) fn is_ready(&self) -> bool {
        *self.state.borrow() == State::Ready
    }

    /// Waits until orders may go down; says no when they may not, or not soon.
    pub(crate) async fn ready(&self) -> bool {
        if self.is_ready() {
            return true;
        }
        let mut state = self.state.subscribe();
        let settled = timeout(PATIENCE, state.wait_for(|state| *state != State::Opening)).await;
        matches!(settled, Ok(Ok(state)) if *state == State::Ready)
    }

    /// Whether it is gone.
    pub(crate) fn is_over(&self) -> bool {
        *self.state.borrow() == State::Over
    }

    /// Waits until it is gone.
    pub(crate) async fn over(&self) {
        // We hold the sender; waiting cannot fail.
        drop(self.state.subscribe().wait_for(|state| *state == State::Over).await);
    }
}

/// All open streams.
#[derive(Debug)]
pub(crate) struct Streams {
    open: watch::Sender<BTreeMap<NodeId, Arc<Open>>>,
    next: AtomicU64,
}

impl Default for Streams {
    fn default() -> Self {
        Self { open: watch::Sender::new(BTreeMap::new()), next: AtomicU64::new(0) }
    }
}

impl Streams {
    /// A node opened a stream.
    pub(crate) fn enter(self: &Arc<Self>, node: NodeId, carries: Carries, state: State) -> Place {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let open = Arc::new(Open { id, carries, state: watch::Sender::new(state) });
        let mut older = None;
        self.open.send_modify(|all| older = all.insert(node.clone(), Arc::clone(&open)));
        if let Some(older) = older {
            older.state.send_replace(State::Over);
        }
        Place { streams: Arc::clone(self), node, open }
    }

    /// The stream of a node, if it has one.
    pub(crate) fn of(&self, node: &NodeId) -> Option<Arc<Open>> {
        self.open.borrow().get(node).cloned()
    }

    /// The connection inside a node's stream.
    pub(crate) fn tunnel(&self, node: &NodeId) -> Option<Channel> {
        match self.of(node)?.carries() {
            Carries::Tunnel(channel) => Some(channel.clone()),
            Carries::Messages(_) => None,
        }
    }

    /// Waits a little for a node's stream.
    pub(crate) async fn await_one(&self, node: &NodeId) {
        let mut all = self.open.subscribe();
        // Whoever looks next finds it there or not.
        drop(timeout(PATIENCE, all.wait_for(|all| all.contains_key(node))).await);
    }
}

/// A stream's place among the others; left when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    streams: Arc<Streams>,
    node: NodeId,
    open: Arc<Open>,
}

impl Place {
    pub(crate) fn node(&self) -> &NodeId {
        &self.node
    }

    pub(crate) fn open(&self) -> &Arc<Open> {
        &self.open
    }

    /// From now on orders may go down.
    pub(crate) fn ready(&self) {
        self.open.state.send_if_modified(|state| {
            let opening = *state == State::Opening;
            if opening {
                *state = State::Ready;
            }
            opening
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.streams.open.send_if_modified(|all| {
            let ours = all.get(&self.node).is_some_and(|open| open.id == self.open.id);
            if ours {
                all.remove(&self.node);
            }
            ours
        });
        // Last: whoever waits for the end looks for the next one then.
        self.open.state.send_replace(State::Over);
    }
}
