//! One stream from a scheduler for all who follow with the same rights.
//!
//! A scheduler serves a few hundred streams; a gateway has thousands of pages open. Those of one
//! caller to one cluster share a stream, each with its own filter and its own place. Nobody sees what
//! they could not see by themselves: the stream is asked for in the caller's name.
//!
//! ```text
//!   Connecting ──▶ Live ◀──▶ Lost (is tried again from where it was)
//!        └───────────┴────▶ Refused (the end)
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use persys_proto::control::v1::agent_control_client::AgentControlClient;
use persys_proto::control::v1::{SchedulerEventView, WatchEventsRequest};
use persys_proto::json::{self, Style};
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tonic::{Code, Request, Status};

use crate::caller::{Caller, CallerAt};
use crate::clusters::Cluster;
use crate::clusters::order::Keys;
use crate::rights::{Changed, Rights, Watched};

/// Events on their way to those who follow; who is slower reads what they missed from the scheduler.
const BUFFER: usize = 256;
/// Events that are kept for those who come later.
const RECENT: usize = 256;
/// How long a stream may take to begin.
const BEGIN: Duration = Duration::from_secs(5);
/// How long until a lost stream is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// An event, ready to be sent.
#[derive(Debug)]
pub struct Shown {
    /// Its id; ids sort as events happened.
    pub id: String,
    /// What kind of event.
    pub kind: String,
    /// Of which workload.
    pub workload: String,
    /// Of which node.
    pub node: String,
    /// All of it, as JSON.
    pub json: String,
}

impl Shown {
    /// An event as it is sent.
    pub fn of(event: &SchedulerEventView) -> Self {
        let name = "persys.control.v1.SchedulerEventView";
        Self {
            id: event.id.clone(),
            kind: event.r#type.clone(),
            workload: event.workload_id.clone(),
            node: event.node_id.clone(),
            json: json::write(name, event, Style::Snake).to_string(),
        }
    }
}

/// How the stream from the scheduler is.
#[derive(Debug, Clone)]
pub enum State {
    /// Nobody knows yet.
    Connecting,
    /// It runs.
    Live,
    /// It broke off, or did not begin, and is tried again.
    Lost(String),
    /// The scheduler refuses it.
    Refused(Box<Status>),
}

/// One stream.
#[derive(Debug)]
pub struct Hub {
    live: broadcast::Sender<Arc<Shown>>,
    recent: Arc<Mutex<VecDeque<Arc<Shown>>>>,
    state: watch::Receiver<State>,
    task: JoinHandle<()>,
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// All streams that are followed.
#[derive(Debug, Default)]
pub struct Hubs(Mutex<BTreeMap<CallerAt, Weak<Hub>>>);

impl Hubs {
    /// The stream of a caller from a cluster; it ends when nobody follows it any more.
    pub fn follow(&self, cluster: &Arc<Cluster>, caller: &Caller, rights: &Rights) -> Arc<Hub> {
        let key = (cluster.id.clone(), Arc::clone(caller.key()));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hub) = all.get(&key).and_then(Weak::upgrade)
            && !matches!(*hub.state.borrow(), State::Refused(_))
        {
            return hub;
        }
        all.retain(|_, hub| hub.strong_count() > 0);
        let hub = Arc::new(Hub::start(
            Arc::clone(cluster),
            caller.clone(),
            rights.watch(cluster, caller),
        ));
        all.insert(key, Arc::downgrade(&hub));
        hub
    }
}

impl Hub {
    fn start(cluster: Arc<Cluster>, caller: Caller, rights: Arc<Watched>) -> Self {
        let (live, _) = broadcast::channel(BUFFER);
        let (state_to, state) = watch::channel(State::Connecting);
        let recent = Arc::default();
        let feed = Feed {
            cluster,
            caller,
            rights,
            live: live.clone(),
            recent: Arc::clone(&recent),
            state: state_to,
            last: String::new(),
        };
        Self { live, recent, state, task: tokio::spawn(feed.run()) }
    }

    /// What is recent, and what comes from now on; nothing falls in between.
    pub fn subscribe(&self) -> (Vec<Arc<Shown>>, broadcast::Receiver<Arc<Shown>>) {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        (recent.iter().cloned().collect(), self.live.subscribe())
    }

    /// How the stream is, and how it comes to be.
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }
}

/// What keeps a stream going.
struct Feed {
    cluster: Arc<Cluster>,
    caller: Caller,
    rights: Arc<Watched>,
    live: broadcast::Sender<Arc<Shown>>,
    recent: Arc<Mutex<VecDeque<Arc<Shown>>>>,
    state: watch::Sender<State>,
    /// The last event that came.
    last: String,
}

impl Feed {
    async fn run(mut self) {
        loop {
            let Err(why) = self.once().await else { continue };
            let refused = matches!(
                why.code(),
                Code::Unauthenticated | Code::PermissionDenied | Code::InvalidArgument
            );
            if refused {
                self.state.send_replace(State::Refused(Box::new(why)));
                return;
            }
            self.state.send_replace(State::Lost(why.message().to_owned()));
            sleep(AGAIN).await;
        }
    }

    async fn once(&mut self) -> Result<(), Status> {
        let keys = Keys { session: self.caller.key().to_string(), workload: String::new() };
        let (scheduler, channel) = self.cluster.channel(&keys)?;
        let mut request =
            Request::new(WatchEventsRequest { after_id: self.last.clone(), ..Default::default() });
        self.caller.attach(None, request.metadata_mut());
        let mut client = AgentControlClient::new(channel);
        let Ok(begun) = timeout(BEGIN, client.watch_events(request)).await else {
            scheduler.was_silent("no stream in time");
            return Err(Status::unavailable("the scheduler did not answer in time"));
        };
        let mut stream = begun?.into_inner();
        self.state.send_replace(State::Live);
        let rights = Arc::clone(&self.rights);
        let mut changed = std::pin::pin!(rights.changed());
        loop {
            let message = tokio::select! {
                message = stream.message() => message?,
                changed = changed.as_mut() => return Err(match changed {
                    Changed::Gone(why) => why,
                    // What they may see now is asked for anew, from where they were.
                    Changed::Otherwise => Status::aborted("the caller's roles changed"),
                }),
            };
            let Some(event) = message else { break };
            self.last.clone_from(&event.id);
            let shown = Arc::new(Shown::of(&event));
            let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
            if recent.len() >= RECENT {
                recent.pop_front();
            }
            recent.push_back(Arc::clone(&shown));
            // Nobody may be listening at this moment.
            drop(self.live.send(shown));
        }
        Err(Status::unavailable("the stream ended"))
    }
}
