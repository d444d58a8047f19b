//! The loop: what happens goes into the replica, what it wants goes out.
//!
//! The driver never waits for the outside. Calls to the store and orders to agents run beside it
//! and come back as inputs; while they are under way it goes on with whatever else happens.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use persys_cluster::effects::{Outbound, RefusalCode, Reply};
use persys_cluster::input::{Input, Undelivered};
use persys_cluster::replica::{Replica, ReplicaEffects, ReplicaInput};
use persys_cluster::store::{CallId, HighWater, StoreCall, StoreReply};
use persys_model::command::{Command, Order};
use persys_model::event::Event;
use persys_model::id::{NodeId, WorkloadId};
use persys_model::node::CONTRACT_HOST;
use persys_model::time::Millis;
use persys_model::token::{Epoch, Session};
use persys_store::{Store, answer};
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::author::Asker;
use crate::callers::{Caller, Callers};
use crate::clock::Clock;
use crate::copies::Copies;
use crate::handle::{Handle, Inbox, Known, Unanswered};
use crate::links::{Links, Target};
use crate::metrics::{Metrics, input_word};
use crate::operations::Operations;
use crate::orders;
use crate::permit;
use crate::standing::Standing;

/// Longest wait for the store; beyond it the outcome is unknown. A store that has deadlines of its
/// own knows better what became of a call, and has a moment more to say so.
const STORE_DEADLINE: Duration = Duration::from_millis(2500);
/// The same for a renewal, which is a small thing. With the core's own numbers it makes sure that a
/// leader with nothing to write knows within three seconds that its store is away: two renewals
/// that begin within 0.7 s and 0.2 s of what was before.
const RENEWAL_DEADLINE: Duration = Duration::from_millis(900);
/// The same for reading everything. It may take a while for a large cluster, and nobody is served
/// sooner by giving up: a store that is away says so to the calls a reading is made of.
const LOAD_DEADLINE: Duration = Duration::from_mins(1);
/// Requests that may wait for the driver; a caller beyond that waits to be let in.
const MOST_REQUESTS: usize = 4096;
/// Orders that may wait for one agent. The core sends again what does not fit.
const MOST_ORDERS: usize = 1024;
/// Events a slow watcher may fall behind before it has to read the store.
const MOST_EVENTS: usize = 4096;

/// How much later than wanted a wake-up may come, so that the timer need not be set for every input.
const WAKE_SLACK: Duration = Duration::from_millis(1);
/// How often a leader checks that what must always hold does.
const CHECK_EVERY_MS: u64 = 60_000;

/// Keeps what this host remembers of the store, outside the store.
pub trait Memory: Send + Sync {
    /// Remembers it; may be lazy.
    fn remember(&self, mark: &HighWater);
}

/// Everything a driver works with.
pub struct Parts {
    /// The process, not yet stepped.
    pub replica: Replica,
    /// The host's clocks.
    pub clock: Arc<dyn Clock>,
    /// Where records are.
    pub store: Arc<dyn Store>,
    /// The way to the agents.
    pub links: Arc<dyn Links>,
    /// What this host remembers.
    pub memory: Arc<dyn Memory>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("replica", &self.replica).finish_non_exhaustive()
    }
}

/// Owns the replica and steps it.
pub struct Driver {
    parts: Parts,
    inbox: mpsc::Receiver<Inbox>,
    callers: Callers,
    events: broadcast::Sender<Arc<Event>>,
    /// Calls, orders and probes under way; each ends as an input.
    outside: JoinSet<Option<ReplicaInput>>,
    /// One queue of orders per node, so that a stuck agent holds up nobody else.
    queues: BTreeMap<NodeId, mpsc::Sender<(Target, Command)>>,
    answers: (mpsc::Sender<Input>, mpsc::Receiver<Input>),
    wake_at: Option<Millis>,
    /// When the replica was last stepped: whatever was due then is done.
    stepped_at: Millis,
    standing: watch::Sender<Standing>,
    copies: Arc<Copies>,
    entries: watch::Sender<Known>,
    /// What the store said when it was last called in vain.
    trouble: Arc<Mutex<Option<String>>>,
    metrics: Arc<Metrics>,
    checked_at: Millis,
    operations: Arc<Operations>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("parts", &self.parts).finish_non_exhaustive()
    }
}

impl Driver {
    /// A driver, and the way to it. Nothing happens before [`Driver::run`].
    #[must_use]
    pub fn new(parts: Parts) -> (Self, Handle) {
        Self::counting(parts, Arc::default())
    }

    pub(crate) fn counting(parts: Parts, metrics: Arc<Metrics>) -> (Self, Handle) {
        let (to_inbox, inbox) = mpsc::channel(MOST_REQUESTS);
        let (events, _) = broadcast::channel(MOST_EVENTS);
        let (standing, seen) = watch::channel(Standing::new(parts.clock.now().wall));
        let (store, clock) = (Arc::clone(&parts.store), Arc::clone(&parts.clock));
        let (entries, known) = watch::channel(Known::default());
        let settings = parts.replica.settings().clone();
        let copies = Arc::new(Copies::new(store, clock, settings, entries.clone()));
        let handle = Handle {
            inbox: to_inbox,
            events: events.clone(),
            standing: seen,
            copies: Arc::clone(&copies),
            entries: known,
            operations: Arc::default(),
        };
        let driver = Self {
            parts,
            inbox,
            callers: Callers::default(),
            events,
            outside: JoinSet::new(),
            queues: BTreeMap::new(),
            answers: mpsc::channel(MOST_REQUESTS),
            wake_at: None,
            stepped_at: Millis(0),
            standing,
            copies,
            entries,
            trouble: Arc::default(),
            metrics,
            checked_at: Millis(0),
            operations: Arc::clone(&handle.operations),
        };
        (driver, handle)
    }

    /// Runs until every handle is gone. A leadership is given back then, so that the next one begins
    /// at once.
    pub async fn run(mut self) {
        self.step(ReplicaInput::Tick);
        let alarm = tokio::time::sleep(self.until_wake());
        tokio::pin!(alarm);
        loop {
            // Most inputs move the next wake-up to a later moment, and a timer that rings too early
            // costs less than one that is set each time.
            let at = tokio::time::Instant::now() + self.until_wake();
            if alarm.is_elapsed() || at + WAKE_SLACK < alarm.deadline() {
                alarm.as_mut().reset(at);
            }
            tokio::select! {
                message = self.inbox.recv() => match message {
                    Some(message) => self.take(message),
                    None => break,
                },
                Some(input) = self.answers.1.recv() => {
                    self.step(ReplicaInput::Cluster(Box::new(input)));
                }
                Some(ended) = self.outside.join_next() => {
                    // A task that was cancelled or panicked has nothing to tell; the core's own
                    // deadlines take care of what is missing.
                    if let Ok(Some(input)) = ended {
                        self.step(input);
                    }
                }
                () = &mut alarm => if self.until_wake().is_zero() {
                    self.look();
                },
            }
        }
        self.outside.shutdown().await;
        if let Some(term) = self.parts.replica.term() {
            match timeout(STORE_DEADLINE, self.parts.store.resign(term)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the leadership was not given back"),
                Err(_) => tracing::warn!("the leadership was not given back in time"),
            }
        }
    }

    /// Wake-ups come when the core asks for them, and never too far apart.
    fn until_wake(&self) -> Duration {
        let now = self.parts.clock.now().mono;
        let last = self.stepped_at.plus(self.parts.replica.settings().look_ms);
        let at = self.wake_at.map_or(last, |at| at.min(last));
        Duration::from_millis(at.since(now))
    }

    /// Looks at what is due.
    fn look(&mut self) {
        let began = Instant::now();
        self.step(ReplicaInput::Tick);
        let world = self.parts.replica.world();
        self.metrics.looked(world.is_some(), began.elapsed());
        if let Some(world) = world
            && self.stepped_at.since(self.checked_at) >= CHECK_EVERY_MS
        {
            self.checked_at = self.stepped_at;
            self.metrics.checked(&world.violations());
        }
    }

    fn take(&mut self, message: Inbox) {
        let input = match message {
            Inbox::Register(registration, to) => {
                Input::Register(self.callers.join(Caller::Registration(to)), *registration)
            }
            Inbox::Beat(beat, to) => Input::Beat(self.callers.join(Caller::Beat(to)), *beat),
            Inbox::BeatOf(make, to) => {
                let Some(world) = self.parts.replica.world() else {
                    return drop(to.send(Err(Unanswered::NotLeader)));
                };
                // Nothing to tell: the caller knows, and no longer waits.
                let Some(beat) = make(world) else { return drop(to) };
                Input::Beat(self.callers.join(Caller::Beat(to)), beat)
            }
            Inbox::AskIf(holds, asker, ask, to) => {
                if self.parts.replica.world().is_some_and(|world| !holds(world)) {
                    let (code, why) = (RefusalCode::Conflict, Arc::from("changed meanwhile"));
                    return drop(to.send(Ok(Reply::Refused { code, why })));
                }
                return self.take(Inbox::Ask(asker, ask, to));
            }
            Inbox::Ask(Asker { author, caller }, ask, to) => {
                let world = self.parts.replica.world();
                if let Some(refusal) = world.and_then(|world| permit::refusal(world, &caller, &ask))
                {
                    return drop(to.send(Ok(refusal)));
                }
                Input::Ask(self.callers.join(Caller::Ask(to)), author, *ask)
            }
            Inbox::Read(look) => return look(self.parts.replica.world()),
            Inbox::LeaderSilent => return self.step(ReplicaInput::LeaderSilent),
        };
        self.step(ReplicaInput::Cluster(Box::new(input)));
    }

    fn step(&mut self, input: ReplicaInput) {
        let now = self.parts.clock.now();
        self.stepped_at = now.mono;
        let (word, began) = (input_word(&input), Instant::now());
        let effects = self.parts.replica.step(input, now);
        self.metrics.stepped(word, began.elapsed());
        let replica = &self.parts.replica;
        let trouble = lock(&self.trouble).clone();
        let follow = |standing: &mut Standing| standing.follow(replica, trouble.as_deref(), now);
        if self.standing.send_if_modified(follow) && replica.world().is_some() {
            self.copies.forget();
        }
        if replica.world().is_none() {
            let led = self.entries.send_if_modified(|known| std::mem::take(&mut known.leading));
            if led {
                self.metrics.lives.forget();
            }
        }
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: ReplicaEffects) {
        for (id, call) in effects.calls {
            self.call_store(id, call);
        }
        for message in effects.out {
            self.send(message);
        }
        for request in effects.not_leader {
            self.callers.turn_away(request);
        }
        if let Some(mark) = effects.remember {
            self.parts.memory.remember(&mark);
        }
        self.wake_at = effects.wake_at;
    }

    fn call_store(&mut self, id: CallId, call: StoreCall) {
        let store = Arc::clone(&self.parts.store);
        let trouble = Arc::clone(&self.trouble);
        let deadline = match &call {
            StoreCall::Renew { .. } => RENEWAL_DEADLINE,
            StoreCall::Load { .. } => LOAD_DEADLINE,
            StoreCall::Campaign { .. } | StoreCall::Resign { .. } | StoreCall::Commit { .. } => {
                STORE_DEADLINE
            }
        };
        self.outside.spawn(async move {
            let answered = timeout(deadline, answer(store.as_ref(), call)).await;
            let Ok(answered) = answered else {
                *lock(&trouble) = Some("the store does not answer".to_owned());
                return Some(ReplicaInput::Store(id, StoreReply::Unknown));
            };
            if let Some(error) = &answered.error {
                tracing::warn!(%error, "store");
            }
            *lock(&trouble) = answered.error.as_ref().map(ToString::to_string);
            for record in &answered.quarantined {
                tracing::error!(key = record.key, why = record.why, "unreadable record");
            }
            Some(ReplicaInput::Store(id, answered.reply))
        });
    }

    fn send(&mut self, message: Outbound) {
        match message {
            Outbound::Command(node, command) => self.order(&node, command),
            Outbound::Actions { node, workload, epoch } => self.actions(&node, workload, epoch),
            Outbound::Probe(node, session, asked) => self.probe(node, session, asked),
            Outbound::Registered(request, answer) => self.callers.registered(request, answer),
            Outbound::Beat(request, answer) => self.callers.heard(request, answer),
            Outbound::Reply(request, reply) => self.callers.replied(request, reply),
            Outbound::Publish(event) => {
                self.metrics.lives.happened(&event, self.parts.replica.world());
                // Nobody watching is fine.
                drop(self.events.send(event));
            }
            Outbound::Entries(entries) => {
                self.entries.send_replace(Known { entries, leading: true });
            }
        }
    }

    fn target(&self, node: &NodeId) -> Option<Target> {
        let facts = &self.parts.replica.world()?.node(node)?.node.facts;
        let (endpoint, host) = (Arc::clone(&facts.endpoint), Arc::clone(&facts.host));
        Some(Target { node: node.clone(), endpoint, host, context: None })
    }

    fn order(&mut self, node: &NodeId, command: Command) {
        let Some(mut to) = self.target(node) else { return };
        let removes = matches!(command.order, Order::Remove { .. });
        if removes && to.host.starts_with(CONTRACT_HOST) {
            let world = self.parts.replica.world();
            to.context = world.map(|world| Arc::new(world.context_of(node, &command)));
        }
        if self.queues.get(node).is_none_or(mpsc::Sender::is_closed) {
            let queue = self.open_queue();
            self.queues.insert(node.clone(), queue);
        }
        let Some(queue) = self.queues.get(node) else { return };
        if let Err(full) = queue.try_send((to, command)) {
            let (_, Command { session, workload, epoch, .. }) = full.into_inner();
            let why = Arc::from("too many orders wait for this agent");
            tracing::warn!(%node, "{why}; they are sent again later");
            let (node, may_have_arrived) = (node.clone(), false);
            let what = Undelivered { node, session, workload, epoch, may_have_arrived, why };
            // Told beside the loop, like every other outcome: this step is not over yet.
            self.outside.spawn(async move {
                Some(ReplicaInput::Cluster(Box::new(Input::Undelivered(what))))
            });
        }
    }

    fn actions(&mut self, node: &NodeId, workload: WorkloadId, epoch: Epoch) {
        let Some(of) = self.target(node) else { return };
        let links = Arc::clone(&self.parts.links);
        self.outside.spawn(async move {
            let text = match links.actions(&of, &workload).await {
                Ok(text) if text.is_empty() => "its agent knows of no action".to_owned(),
                Ok(text) => format!("last actions of its agent:\n{text}"),
                Err(error) => format!("its agent did not tell its last actions: {}", error.why),
            };
            let text = Arc::from(text);
            Some(ReplicaInput::Cluster(Box::new(Input::Actions { workload, epoch, text })))
        });
    }

    fn open_queue(&mut self) -> mpsc::Sender<(Target, Command)> {
        let (to_queue, queue) = mpsc::channel(MOST_ORDERS);
        let links = Arc::clone(&self.parts.links);
        let (answers, metrics) = (self.answers.0.clone(), Arc::clone(&self.metrics));
        let operations = Arc::clone(&self.operations);
        self.outside.spawn(async move {
            orders::give(links, queue, answers, (metrics, operations)).await;
            None
        });
        to_queue
    }

    fn probe(&mut self, node: NodeId, session: Session, asked: Millis) {
        let Some(of) = self.target(&node) else { return };
        let links = Arc::clone(&self.parts.links);
        self.outside.spawn(async move {
            let found = links.probe(&of).await;
            let input = Input::Probed { node, session, asked, found };
            Some(ReplicaInput::Cluster(Box::new(input)))
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is inside is replaced as a whole; there is never half of it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
