//! One who follows: what they missed first, then what happens, each event once and in order.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use persys_proto::control::v1::{ListEventsRequest, ListEventsResponse};
use persys_proto::json::Message as _;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::watch;

use super::hub::{Hub, Shown, State};
use crate::clusters::Call;
use crate::rest::Target;

/// Events that are read at a time by one who was away.
const AT_A_TIME: i64 = 500;
const LIST: &str = "/persys.control.v1.AgentControl/ListEvents";

/// Which events somebody wants; what is empty does not matter.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    pub(crate) kind: String,
    pub(crate) workload: String,
    pub(crate) node: String,
}

impl Filter {
    fn admits(&self, event: &Shown) -> bool {
        let fits = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        (self.kind.is_empty() || self.kind.eq_ignore_ascii_case(&event.kind))
            && fits(&self.workload, &event.workload)
            && fits(&self.node, &event.node)
    }
}

/// What a follower is told.
pub(crate) enum Told {
    Event(Arc<Shown>),
    /// The stream from the scheduler is there, or it is not.
    State {
        connected: bool,
        why: String,
    },
    End,
}

/// One who follows.
pub(crate) struct Follower {
    hub: Arc<Hub>,
    target: Target,
    filter: Filter,
    /// The last event that was dealt with; ids of the same length sort as events happened.
    last: String,
    /// Dealt with next.
    waiting: VecDeque<Arc<Shown>>,
    live: broadcast::Receiver<Arc<Shown>>,
    state: watch::Receiver<State>,
    /// Whether something was missed that the scheduler still has.
    behind: bool,
}

impl Follower {
    pub(crate) fn new(hub: Arc<Hub>, target: Target, filter: Filter, last: String) -> Self {
        let (recent, live) = hub.subscribe();
        let last = if last.is_empty() { last } else { format!("{last:0>20}") };
        // Who was away longer than what is kept here reads the rest from the scheduler.
        let behind = !last.is_empty() && recent.first().is_none_or(|oldest| oldest.id > last);
        let mut state = hub.state();
        state.mark_changed();
        let waiting = if behind { VecDeque::new() } else { recent.into() };
        Self { hub, target, filter, last, waiting, live, state, behind }
    }

    pub(crate) async fn next(&mut self) -> Told {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                if let Some(event) = self.take(event) {
                    return Told::Event(event);
                }
                continue;
            }
            if self.behind && self.catch_up().await {
                continue;
            }
            tokio::select! {
                biased;
                changed = self.state.changed() => {
                    if changed.is_err() {
                        return Told::End;
                    }
                    if let Some(told) = self.told() {
                        return told;
                    }
                }
                event = self.live.recv() => match event {
                    Ok(event) => self.waiting.push_back(event),
                    Err(RecvError::Lagged(_)) => {
                        let (_, live) = self.hub.subscribe();
                        (self.live, self.behind) = (live, true);
                    }
                    Err(RecvError::Closed) => return Told::End,
                },
            }
        }
    }

    /// The event, unless it was dealt with or is not wanted.
    fn take(&mut self, event: Arc<Shown>) -> Option<Arc<Shown>> {
        if event.id <= self.last {
            return None;
        }
        self.last.clone_from(&event.id);
        self.filter.admits(&event).then_some(event)
    }

    fn told(&mut self) -> Option<Told> {
        match &*self.state.borrow_and_update() {
            State::Connecting => None,
            State::Live => Some(Told::State { connected: true, why: String::new() }),
            State::Lost(why) => Some(Told::State { connected: false, why: why.clone() }),
            State::Refused(_) => Some(Told::End),
        }
    }

    /// Reads the next of what was missed; says whether there was something.
    async fn catch_up(&mut self) -> bool {
        let request = ListEventsRequest {
            limit: AT_A_TIME,
            after_id: self.last.clone(),
            ..ListEventsRequest::default()
        };
        let call = Call {
            path: LIST,
            message: Bytes::from(request.encode_to_vec()),
            caller: &self.target.caller,
            source: self.target.source,
            reason: None,
            keys: &self.target.keys,
            is_safe: true,
        };
        let missed = match self.target.cluster.call(&call).await {
            Ok(answer) => {
                ListEventsResponse::decode(answer.into_inner()).unwrap_or_default().events
            }
            // It is tried again with the next event, or when the stream is found again.
            Err(_) => return false,
        };
        self.behind = !missed.is_empty();
        self.waiting.extend(missed.iter().map(|event| Arc::new(Shown::of(event))));
        !missed.is_empty()
    }
}
