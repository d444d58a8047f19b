//! What happened: read back, and watched.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use persys_model::event::Event;
use persys_model::id::WorkloadId;
use persys_model::token::EventSeq;
use persys_proto::control::v1 as wire;
use persys_proto::convert::view::{event as shown, event_types};
use persys_store::{Span, Store};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, broadcast, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::Control;
use super::refusal::unavailable;
use crate::handle::Handle;
use crate::permit::Sight;

/// How many events are listed when nobody says how many, and replayed to a watcher.
const USUAL: usize = 100;
/// Events on their way to one watcher.
const BUFFER: usize = 64;

type Sent = Result<wire::SchedulerEventView, Status>;

/// Which events somebody wants; what is empty does not matter.
#[derive(Debug, Default)]
pub(super) struct Filter {
    pub(super) kind: String,
    pub(super) workload: String,
    pub(super) node: String,
    /// Only what somebody asked for.
    pub(super) asked: bool,
    /// The workloads whoever asks may see; everything where there is no list.
    pub(super) seen: Option<BTreeSet<String>>,
}

impl Filter {
    fn is_empty(&self) -> bool {
        let Self { kind, workload, node, asked, seen } = self;
        let any = kind.is_empty() && workload.is_empty() && node.is_empty() && !asked;
        any && seen.is_none()
    }

    fn admits(&self, event: &wire::SchedulerEventView) -> bool {
        let fits = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        (self.kind.is_empty() || self.kind.eq_ignore_ascii_case(&event.r#type))
            && fits(&self.workload, &event.workload_id)
            && fits(&self.node, &event.node_id)
            && (!self.asked || event.details.contains_key("by"))
            && self.seen.as_ref().is_none_or(|seen| seen.contains(&event.workload_id))
    }
}

impl Control {
    pub(super) async fn find_events(
        &self,
        request: wire::ListEventsRequest,
    ) -> Result<wire::ListEventsResponse, Status> {
        let limit = match usize::try_from(request.limit) {
            Ok(0) => USUAL,
            Ok(limit) => limit.min(Span::MOST),
            Err(_) => return Err(Status::invalid_argument("limit: is negative or too large")),
        };
        event_types::check(&request.r#type).map_err(Status::invalid_argument)?;
        let after = place(&request.after_id)?;
        let filter = Filter {
            kind: request.r#type,
            workload: request.workload_id,
            node: request.node_id,
            asked: request.asked,
            seen: self.seen(&Sight::current()).await?,
        };
        let store = self.store.as_ref();
        let events = match after {
            None => find(store, &filter, limit).await?,
            Some(after) => find_after(store, &filter, after, limit).await?,
        };
        Ok(wire::ListEventsResponse { events })
    }

    /// The names of all workloads somebody sees who does not see everything.
    async fn seen(&self, sight: &Sight) -> Result<Option<BTreeSet<String>>, Status> {
        if sight.is_full() {
            return Ok(None);
        }
        let sight = sight.clone();
        let names = self.handle.look(move |world| {
            let seen = world.workloads().filter(|view| sight.sees(&view.workload.spec));
            seen.map(|view| view.workload.id.to_string()).collect()
        });
        Ok(Some(names.await?.value))
    }

    pub(super) async fn follow_events(
        &self,
        request: wire::WatchEventsRequest,
    ) -> Result<ReceiverStream<Sent>, Status> {
        event_types::check(&request.r#type).map_err(Status::invalid_argument)?;
        let Ok(permit) = Arc::clone(&self.watchers).try_acquire_owned() else {
            return Err(Status::resource_exhausted("too many watch already; try again later"));
        };
        let after = place(&request.after_id)?;
        let (to_watcher, sent) = mpsc::channel(BUFFER);
        let sight = Sight::current();
        let watcher = Watcher {
            // Listening begins before reading, so that nothing falls in between.
            live: self.handle.events(),
            store: Arc::clone(&self.store),
            filter: Filter {
                kind: request.r#type,
                workload: request.workload_id,
                node: request.node_id,
                asked: request.asked,
                seen: self.seen(&sight).await?,
            },
            handle: self.handle.clone(),
            sight,
            resumed: after.is_some(),
            sent: after.unwrap_or(EventSeq(0)),
            to: to_watcher,
            stop: self.stop.clone(),
            _permit: permit,
        };
        tokio::spawn(watcher.run());
        Ok(ReceiverStream::new(sent))
    }
}

/// The last events that fit, oldest first.
pub(super) async fn find(
    store: &dyn Store,
    filter: &Filter,
    limit: usize,
) -> Result<Vec<wire::SchedulerEventView>, Status> {
    if filter.is_empty() {
        let history = read(store, Span::Last(limit)).await?;
        return Ok(history.iter().map(|event| shown::to_wire(event)).collect());
    }
    let mut found = VecDeque::new();
    let mut after = EventSeq(0);
    loop {
        let history = read(store, Span::After(after, Span::MOST)).await?;
        let Some(last) = history.last() else { break };
        after = last.seq;
        for event in history.iter().map(|event| shown::to_wire(event)) {
            if filter.admits(&event) {
                found.push_back(event);
            }
            if found.len() > limit {
                found.pop_front();
            }
        }
    }
    Ok(found.into())
}

/// The first events after `after` that fit, oldest first.
async fn find_after(
    store: &dyn Store,
    filter: &Filter,
    mut after: EventSeq,
    limit: usize,
) -> Result<Vec<wire::SchedulerEventView>, Status> {
    let mut found = Vec::new();
    while found.len() < limit {
        let history = read(store, Span::After(after, Span::MOST)).await?;
        let Some(last) = history.last() else { break };
        after = last.seq;
        let shown = history.iter().map(|event| shown::to_wire(event));
        let room = limit - found.len();
        found.extend(shown.filter(|event| filter.admits(event)).take(room));
    }
    Ok(found)
}

/// The place of an event in history, by its id as we give it out.
fn place(id: &str) -> Result<Option<EventSeq>, Status> {
    if id.is_empty() {
        return Ok(None);
    }
    match id.parse() {
        Ok(number) => Ok(Some(EventSeq(number))),
        Err(_) => {
            Err(Status::invalid_argument("after_id: is not the id of an event, which is a number"))
        }
    }
}

async fn read(store: &dyn Store, span: Span) -> Result<Vec<Arc<Event>>, Status> {
    match store.events(span).await {
        Ok(history) => Ok(history.events),
        Err(fault) => Err(unavailable(fault.to_string())),
    }
}

/// One who watches.
struct Watcher {
    live: broadcast::Receiver<Arc<Event>>,
    store: Arc<dyn Store>,
    filter: Filter,
    handle: Handle,
    sight: Sight,
    /// Whether it watched before and goes on.
    resumed: bool,
    /// The last event that was dealt with.
    sent: EventSeq,
    to: mpsc::Sender<Sent>,
    stop: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
}

impl Watcher {
    async fn run(mut self) {
        if let Err(Some(why)) = self.watch().await {
            // It may have gone away; then it does not want to know.
            drop(self.to.send(Err(why)).await);
        }
    }

    /// Ends when the watcher goes away, or with what it is to be told.
    async fn watch(&mut self) -> Result<(), Option<Status>> {
        if self.resumed {
            self.catch_up().await?;
        } else {
            for event in read(self.store.as_ref(), Span::Last(USUAL)).await? {
                self.send(&event).await?;
            }
        }
        loop {
            let next = tokio::select! {
                next = self.live.recv() => next,
                () = self.to.closed() => return Err(None),
                _ = self.stop.changed() => return Err(Some(unavailable("the scheduler is stopping"))),
            };
            match next {
                Ok(event) => self.send(&event).await?,
                // Too slow for what is live: what was missed is in the store.
                Err(RecvError::Lagged(_)) => self.catch_up().await?,
                Err(RecvError::Closed) => {
                    return Err(Some(unavailable("the scheduler is stopping")));
                }
            }
        }
    }

    async fn catch_up(&mut self) -> Result<(), Option<Status>> {
        loop {
            let missed = read(self.store.as_ref(), Span::After(self.sent, Span::MOST)).await?;
            if missed.is_empty() {
                return Ok(());
            }
            for event in missed {
                self.send(&event).await?;
            }
        }
    }

    /// Learns of a workload that was not there when the watch began, for one who does not see all.
    async fn look_at(&mut self, workload: &str) {
        let Some(seen) = self.filter.seen.as_mut().filter(|seen| !seen.contains(workload)) else {
            return;
        };
        let Ok(id) = WorkloadId::new(workload) else { return };
        let sight = self.sight.clone();
        // A scheduler that no longer leads shows no more than it knows.
        if let Ok(true) = self.handle.read(move |world| sight.sees_id(world, &id)).await {
            seen.insert(workload.to_owned());
        }
    }

    async fn send(&mut self, event: &Event) -> Result<(), Option<Status>> {
        if event.seq <= self.sent {
            return Ok(());
        }
        self.sent = event.seq;
        let message = shown::to_wire(event);
        self.look_at(&message.workload_id).await;
        if !self.filter.admits(&message) {
            return Ok(());
        }
        if self.to.send(Ok(message)).await.is_err() { Err(None) } else { Ok(()) }
    }
}
