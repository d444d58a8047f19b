//! The loop: what happens goes into the agent core, what it wants is carried out.
//!
//! Verbs, ledger writes, observations and messages run beside the loop and come back as inputs, so
//! that a stuck container or a silent scheduler holds up nothing else. One thing is waited for: the
//! lease of exclusive work is on disk before a verb of the same step runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use persys_model::fetched::Fetched;
use persys_model::id::WorkloadId;
use persys_model::inventory::State;
use persys_model::link::Beat;
use persys_model::task::WorkloadTask;
use persys_model::time::{Millis, Now};
use persys_model::token::Epoch;
use persys_node::agent::Agent;
use persys_node::effects::{Effects, Probing, Run, Upward, Verb};
use persys_node::input::{Input, Observation, RequestId};
use persys_runtime::{Evidence, Runtime};
use persys_telemetry::trace::Trails;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::evidence;
use crate::handle::{Handle, Inbox, Life, Obeyed};
use crate::history::{Action, ActionKind, History};
use crate::ledger::Keeper;
use crate::metrics::Metrics;
use crate::operations::{self, Operation};
use crate::progress::ProgressReports;
use crate::reach::{Reach, refusal};
use crate::upward::{Scheduler, Unreachable};
use crate::verbs;
use crate::writer::Writer;

/// Orders and questions that may wait for the driver.
const MOST_REQUESTS: usize = 1024;
/// Longest sleep; wake-ups come earlier when the core asks for it.
const LONGEST_SLEEP_MS: u64 = 5_000;
/// How much later than wanted a wake-up may come, so that the timer need not be set for every input.
const WAKE_SLACK: Duration = Duration::from_millis(1);

/// Tells the moment. It must be the clock the runtime judges leases by.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// Everything a driver works with.
pub struct Parts {
    /// The host's clocks.
    pub clock: Clock,
    /// Where the ledger is.
    pub keeper: Arc<dyn Keeper>,
    /// What runs workloads.
    pub runtime: Arc<dyn Runtime>,
    /// The way to the scheduler.
    pub scheduler: Arc<dyn Scheduler>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

/// What runs beside the loop and how it ended.
enum Ended {
    Input(Input),
    /// What came of a message to the scheduler; `cause` says why it did not answer as it should.
    Spoken {
        input: Input,
        cause: Option<String>,
    },
    /// `action` is its number in the history.
    Verb {
        action: u64,
        input: Input,
        told: Result<(), String>,
    },
    /// Several, in this order.
    Inputs(Vec<Input>),
}

/// A caller who waits for the answer to an order.
struct Caller {
    to: oneshot::Sender<Obeyed>,
    workload: WorkloadId,
    epoch: Epoch,
}

/// Owns the agent core and steps it.
pub struct Driver {
    parts: Parts,
    evidence: Option<Arc<dyn Evidence>>,
    agent: Agent,
    inbox: mpsc::Receiver<Inbox>,
    callers: BTreeMap<RequestId, Caller>,
    last_request: u64,
    history: History,
    outside: JoinSet<Ended>,
    writer: Writer,
    wake_at: Option<Millis>,
    /// When the core was last stepped.
    stepped_at: Millis,
    metrics: Arc<Metrics>,
    trails: Arc<Trails>,
    /// Signs of progress of verbs under way.
    progress: (ProgressReports, mpsc::Receiver<(WorkloadId, Fetched)>),
    reach: Reach,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("parts", &self.parts).finish_non_exhaustive()
    }
}

impl Driver {
    /// A driver for an agent that has just started, and the way to it. `effects` are those of the
    /// start; they are carried out when the driver runs.
    #[must_use]
    pub fn new(parts: Parts, agent: Agent) -> (Self, Handle) {
        Self::counting(parts, agent, Arc::default())
    }

    pub(crate) fn counting(parts: Parts, agent: Agent, metrics: Arc<Metrics>) -> (Self, Handle) {
        let (to_inbox, inbox) = mpsc::channel(MOST_REQUESTS);
        let writer = Writer::start(Arc::clone(&parts.keeper), Arc::clone(&metrics));
        let trails = Arc::<Trails>::default();
        let (trailing, counted) = (Arc::clone(&trails), Arc::clone(&metrics));
        let handle = Handle { inbox: to_inbox, trails: trailing, metrics: counted };
        let driver = Self {
            parts,
            evidence: None,
            agent,
            inbox,
            callers: BTreeMap::new(),
            last_request: 0,
            history: History::default(),
            outside: JoinSet::new(),
            writer,
            wake_at: None,
            stepped_at: Millis(0),
            metrics,
            trails,
            progress: ProgressReports::new(),
            reach: Reach::default(),
        };
        (driver, handle)
    }

    /// Has what was left of bad ends looked up here.
    #[must_use]
    pub fn with_evidence(mut self, evidence: Arc<dyn Evidence>) -> Self {
        self.evidence = Some(evidence);
        self
    }

    /// Runs until it is told to stop or every handle is gone. What runs on the node goes on.
    pub async fn run(mut self, first: Effects) {
        let before = self.parts.keeper.actions().await;
        self.history = History::remembered(before, (self.parts.clock)().wall);
        self.carry_out(first).await;
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
                    Some(Inbox::Stop) | None => break,
                    Some(message) => self.take(message).await,
                },
                Some(input) = self.writer.written.recv() => self.step(input).await,
                Some((workload, fetched)) = self.progress.1.recv() => {
                    self.step(Input::Progress(workload, fetched)).await;
                }
                Some(ended) = self.outside.join_next() => match ended {
                    Ok(Ended::Input(input)) => self.hear(input).await,
                    Ok(Ended::Spoken { input, cause }) => {
                        self.hear(input).await;
                        self.tell_reach(cause.as_deref());
                    }
                    Ok(Ended::Inputs(inputs)) => {
                        for input in inputs {
                            self.step(input).await;
                        }
                    }
                    Ok(Ended::Verb { action, input, told }) => {
                        let ended = self.history.end(action, told, (self.parts.clock)().wall);
                        if let Some(action) = ended {
                            self.parts.keeper.note(action);
                        }
                        self.step(input).await;
                    }
                    Err(error) => tracing::error!(%error, "a task of the agent ended badly"),
                },
                () = &mut alarm => if self.until_wake().is_zero() {
                    self.step(Input::Tick).await;
                },
            }
        }
        self.outside.shutdown().await;
        self.writer.finish().await;
    }

    /// Ends this life of the agent and begins another, as a restart of the process would: what is
    /// under way is let go, and what is on disk is all that is known.
    async fn begin_anew(&mut self, life: Life) {
        self.outside.shutdown().await;
        let writer = Writer::start(Arc::clone(&self.parts.keeper), Arc::clone(&self.metrics));
        std::mem::replace(&mut self.writer, writer).finish().await;
        self.callers.clear();
        self.history.interrupt((self.parts.clock)().wall);
        let ledger = self.parts.keeper.load().await;
        let Life { facts, settings } = life;
        let (mut agent, effects) = Agent::start(facts, ledger, settings, (self.parts.clock)());
        agent.inherit_lease(self.agent.fence_at());
        self.agent = agent;
        self.carry_out(effects).await;
        // It looks at the lease it was given.
        self.step(Input::Tick).await;
    }

    fn until_wake(&self) -> Duration {
        let now = (self.parts.clock)().mono;
        let last = self.stepped_at.plus(LONGEST_SLEEP_MS);
        let at = self.wake_at.map_or(last, |at| at.min(last));
        Duration::from_millis(at.since(now))
    }

    async fn take(&mut self, message: Inbox) {
        match message {
            Inbox::Command(command, to) => {
                self.last_request += 1;
                let request = RequestId(self.last_request);
                self.callers.retain(|_, caller| !caller.to.is_closed());
                let (workload, epoch) = (command.workload.clone(), command.epoch);
                self.callers.insert(request, Caller { to, workload, epoch });
                self.step(Input::Command(request, *command)).await;
            }
            Inbox::Read(look) => look(&self.agent, &self.history),
            Inbox::Queue((workload, epoch, kind), to) => {
                let at = (self.parts.clock)().wall;
                let (action, replaced) = self.history.queue(workload, epoch, kind, at);
                for noted in replaced.into_iter().chain([action.clone()]) {
                    self.parts.keeper.note(noted);
                }
                // A caller who went away asks again.
                drop(to.send(action));
            }
            Inbox::Unqueue(action, why) => {
                let at = (self.parts.clock)().wall;
                if let Some(ended) = self.history.end(action, Err(why), at) {
                    self.parts.keeper.note(ended);
                }
            }
            Inbox::Wake(workload) => self.step(Input::Stirred(workload)).await,
            Inbox::Usage(used) => self.step(Input::Usage(used)).await,
            Inbox::Wrote(workload, bytes, limit) => {
                self.step(Input::Wrote { workload, bytes, limit }).await;
            }
            Inbox::BeginAnew(life) => self.begin_anew(*life).await,
            Inbox::Stop => {}
        }
    }

    /// A fresh bad end is looked into before the core hears of it, since a restart or a removal
    /// leaves nothing of it. Everything else goes in at once.
    async fn hear(&mut self, input: Input) {
        let Some(evidence) = &self.evidence else { return self.step(input).await };
        let fresh = match &input {
            Input::Observed(
                _,
                Observation::Complete(list) | Observation::Partial { seen: list, .. },
            ) => self.agent.fresh_ends(list),
            Input::Observed(_, Observation::Unknown)
            | Input::Command(..)
            | Input::Registered(_)
            | Input::Heard(_)
            | Input::Unreachable
            | Input::Ended { .. }
            | Input::Done { .. }
            | Input::Progress(..)
            | Input::Probed { .. }
            | Input::Persisted(_)
            | Input::LedgerFailed
            | Input::Stirred(_)
            | Input::Usage(_)
            | Input::Wrote { .. }
            | Input::Tick => Vec::new(),
        };
        if fresh.is_empty() {
            return self.step(input).await;
        }
        let evidence = Arc::clone(evidence);
        self.outside.spawn(async move {
            let mut inputs = evidence::gather(evidence.as_ref(), fresh).await;
            inputs.push(input);
            Ended::Inputs(inputs)
        });
    }

    async fn step(&mut self, input: Input) {
        let (settles, began) = (matches!(input, Input::Observed(..)), Instant::now());
        let now = (self.parts.clock)();
        self.stepped_at = now.mono;
        let effects = self.agent.step(input, now);
        self.carry_out(effects).await;
        if settles {
            self.metrics.reconciled(began.elapsed());
            let agent = &self.agent;
            for ended in self.history.settle(now.wall, |action| as_ordered(agent, action)) {
                self.parts.keeper.note(ended);
            }
        }
    }

    async fn carry_out(&mut self, effects: Effects) {
        self.metrics.ended(&effects.ends);
        if !effects.ledger.is_empty() && self.writer.writes.send(effects.ledger).await.is_err() {
            tracing::error!("the ledger's writer is gone");
        }
        if let Some(until) = effects.fence_at
            && let Err(error) = self.parts.keeper.lease(until).await
        {
            tracing::error!(%error, "lease");
        }
        for run in effects.verbs {
            self.run_verb(run);
        }
        for (request, answer) in effects.answers {
            if let Some(Caller { to, workload, epoch }) = self.callers.remove(&request) {
                let task = self.task(&workload, epoch);
                // A caller who went away asks again.
                drop(to.send(Obeyed { answer, task }));
            }
        }
        if let Some(message) = effects.send {
            self.send(message);
        }
        for probing in effects.probes {
            self.run_probe(probing);
        }
        if let Some(look) = effects.observe {
            let (runtime, metrics) = (Arc::clone(&self.parts.runtime), Arc::clone(&self.metrics));
            self.outside.spawn(async move {
                let began = Instant::now();
                let seen = runtime.observe(look.probe).await;
                metrics.observed(&seen, began.elapsed());
                Ended::Input(Input::Observed(look.id, seen))
            });
        }
        self.wake_at = effects.wake_at;
    }

    /// The last action for a decision about a workload.
    fn task(&self, workload: &WorkloadId, epoch: Epoch) -> Option<WorkloadTask> {
        self.history.task(&self.agent.facts().id, workload, epoch)
    }

    /// The actions behind what a beat says.
    fn tasks_of(&self, beat: &Beat) -> Vec<WorkloadTask> {
        let reported = beat.reports.iter().map(|report| (&report.workload, report.epoch));
        let removed = beat.removed.iter().map(|one| (&one.workload, one.epoch));
        reported.chain(removed).filter_map(|(workload, epoch)| self.task(workload, epoch)).collect()
    }

    fn run_verb(&mut self, run: Run) {
        let kind = match &run.verb {
            Verb::Start { .. }
            | Verb::Prepare { .. }
            | Verb::Refresh { .. }
            | Verb::Pause
            | Verb::Stop { .. } => ActionKind::Apply,
            Verb::Remove { .. } => ActionKind::Delete,
        };
        let at = (self.parts.clock)().wall;
        let intent = self.agent.intents().get(&run.workload);
        let epoch = intent.map(|intent| intent.epoch);
        let action = self.history.begin(run.workload.clone(), epoch, kind, at);
        let number = action.id;
        let (runtime, metrics) = (Arc::clone(&self.parts.runtime), Arc::clone(&self.metrics));
        let node = self.agent.facts().id.clone();
        let operation = Operation::begin(&self.trails, node, &run, &action);
        self.parts.keeper.note(action);
        let progress = self.progress.0.clone();
        self.outside.spawn(async move {
            let (verb, began) = (verbs::word(&run.verb), Instant::now());
            let workload = run.workload.clone();
            let running = verbs::run(runtime, run, &progress);
            let (input, told) = operation.carry_out(running).await;
            progress.ended(&workload);
            metrics.ran(verb, &input, began.elapsed());
            Ended::Verb { action: number, input, told }
        });
    }

    fn run_probe(&mut self, probing: Probing) {
        let (runtime, metrics) = (Arc::clone(&self.parts.runtime), Arc::clone(&self.metrics));
        self.outside.spawn(async move {
            let Probing { id, workload, check } = probing;
            let began = Instant::now();
            let outcome = runtime.probe(&workload, &check).await;
            metrics.probed(&outcome, began.elapsed());
            Ended::Input(Input::Probed { probe: id, workload, outcome })
        });
    }

    fn send(&mut self, mut message: Upward) {
        if let Upward::Beat(beat) = &mut message {
            beat.tasks = self.tasks_of(beat);
        }
        let (scheduler, metrics) = (Arc::clone(&self.parts.scheduler), Arc::clone(&self.metrics));
        let told = operations::reporting(&self.trails, &message);
        self.outside.spawn(async move {
            // They end when the scheduler has answered.
            let _told = told;
            let (rpc, began) = (word(&message), Instant::now());
            let input = match message {
                Upward::Register(registration) => {
                    scheduler.register(registration).await.map(Input::Registered)
                }
                Upward::Beat(beat) => scheduler.beat(beat).await.map(Input::Heard),
            };
            metrics.told(rpc, input.is_ok(), began.elapsed());
            match input {
                Ok(input) => Ended::Spoken { cause: refusal(&input), input },
                Err(Unreachable(cause)) => {
                    Ended::Spoken { input: Input::Unreachable, cause: Some(cause) }
                }
            }
        });
    }

    /// Writes down that the scheduler is out of reach, refuses this node, or answers again.
    fn tell_reach(&mut self, cause: Option<&str>) {
        let (node, now) = (self.agent.facts().id.as_str(), Instant::now());
        let Some(cause) = cause else {
            if let Some(line) = self.reach.answered(now) {
                let (seconds, attempts) = (line.lost_for.as_secs(), line.attempts);
                tracing::info!(node, seconds, attempts, "the scheduler answers again");
            }
            return;
        };
        let mono = (self.parts.clock)().mono;
        let wait = self.agent.speaks_at().map_or(0, |at| at.since(mono));
        if let Some(line) = self.reach.failed(cause, now) {
            let (seconds, attempts) = (line.lost_for.as_secs(), line.attempts);
            tracing::warn!(
                node,
                cause,
                retry_in_ms = wait,
                seconds,
                attempts,
                "no scheduler accepts this agent; it tries again by itself"
            );
        }
    }
}

/// The end of an action that needed no verb, if its workload is as it was ordered.
fn as_ordered(agent: &Agent, action: &Action) -> Option<Result<(), String>> {
    match (agent.held(&action.workload), action.kind) {
        (None, _) => Some(Ok(())),
        (Some(_), ActionKind::Delete) => None,
        (Some(held), ActionKind::Apply) => match (&held.report.state, held.run) {
            (State::Failed(failure), _) => Some(Err(failure.message.to_string())),
            (State::Running, true) if held.pause => None,
            (State::Paused, true) if !held.pause => None,
            (State::Running | State::Paused, true)
            | (State::Stopped, false)
            | (State::Completed, _) => Some(Ok(())),
            (State::Running | State::Paused, false)
            | (State::Stopped, true)
            | (State::Pending | State::Unresponsive | State::Restarting(_) | State::Unknown, _) => {
                None
            }
        },
    }
}

fn word(message: &Upward) -> &'static str {
    match message {
        Upward::Register(_) => "RegisterNode",
        Upward::Beat(_) => "Heartbeat",
    }
}
