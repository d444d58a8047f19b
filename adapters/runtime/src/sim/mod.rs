//! A runtime in memory: for tests, and for rehearsing a cluster without Docker.
//!
//! It keeps the same contract as the others. What an image does is said by its name ([`script`]):
//! `fail:IMAGE_NOT_FOUND` fails with that reason, `exit:3` ends at once with that code, `checked:1` has a
//! health check, `ill:1` one that fails, everything else runs until it is stopped. A command inside it repeats its arguments; `exit 3` ends with that
//! code, and `cat` repeats what is typed.

pub mod script;

mod inside;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use persys_model::health::HealthState;
use persys_model::id::WorkloadId;
use persys_model::spec::health::Check;
use persys_model::spec::{Kind, Spec};
use persys_node::input::{Existing, ImageHealth, Observation, ProbeOutcome, Seen, ServiceEnds};
use tokio::sync::broadcast;

use crate::clock::Clock;
use crate::error::Error;
use crate::inside::Wakeup;
use crate::runtime::{
    Fetched, Health, Progress, Published, Refresh, Runtime, Start, Thing, observation,
};

use script::Script;

/// Hints kept for a slow listener; one that misses some is told to look at everything.
const HINTS: usize = 256;
/// Lines of output kept for each workload.
const MOST_LINES: usize = 1_000;
/// The first port given to who does not care which.
const FIRST_FREE_PORT: u16 = 32_768;

/// How long things take in a simulated runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// Fetching an image.
    pub prepare: Duration,
    /// A start.
    pub start: Duration,
    /// A stop, if its grace allows so much.
    pub stop: Duration,
}

/// A runtime in memory. Clones share what runs.
#[derive(Debug, Clone)]
pub struct Sim {
    settings: Settings,
    clock: Clock,
    state: Arc<Mutex<State>>,
    hints: broadcast::Sender<Wakeup>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the runtime is out of order.
    silent: bool,
    /// Counts what was made and started, for ids and moments.
    count: u64,
    ours: BTreeMap<WorkloadId, Made>,
    /// What can be neither stopped nor removed, and why.
    held: BTreeMap<WorkloadId, String>,
    /// What workloads wrote into layers of their own.
    layers: BTreeMap<WorkloadId, u64>,
    /// Workloads whose checks fail, and why.
    ill: BTreeMap<WorkloadId, String>,
    /// Names taken by others, and by whom.
    foreign: BTreeMap<WorkloadId, String>,
}

impl State {
    fn lets_go(&self, workload: &WorkloadId) -> Result<(), Error> {
        match self.held.get(workload) {
            Some(why) => Err(Error::Storage { detail: why.clone() }),
            None => Ok(()),
        }
    }
}

#[derive(Debug, Clone)]
struct Made {
    seen: Seen,
    spec: Arc<Spec>,
    id: u64,
    started: Option<u64>,
    /// What it printed, as far as it is kept.
    printed: Vec<String>,
}

impl Sim {
    /// An empty one.
    #[must_use]
    pub fn new(settings: Settings, clock: Clock) -> Self {
        Self { settings, clock, state: Arc::default(), hints: broadcast::Sender::new(HINTS) }
    }

    /// Makes the runtime answer nothing, or answer again. What runs goes on.
    pub fn set_silent(&self, silent: bool) {
        self.lock().silent = silent;
        if !silent {
            self.hint(Wakeup::Everything);
        }
    }

    /// Lets a workload end by itself, if it runs.
    pub fn end(&self, workload: &WorkloadId, code: i32) {
        if let Some(made) = self.lock().ours.get_mut(workload)
            && made.seen.state.is_alive()
        {
            made.seen.state = Existing::Exited { code };
        }
        self.hint(Wakeup::Workload(workload.clone()));
    }

    /// A workload is taken away by force, behind the agent's back.
    pub fn vanish(&self, workload: &WorkloadId) {
        let gone = self.lock().ours.remove(workload).is_some();
        if gone {
            self.hint(Wakeup::Workload(workload.clone()));
        }
    }

    /// Pauses a workload that runs, as somebody would behind the agent's back; `fault` if one did it.
    pub fn freeze(&self, workload: &WorkloadId, fault: Option<&str>) {
        self.stand_still(workload, Existing::Paused { fault: fault.map(Arc::from) });
    }

    /// Lets a workload that runs be stuck, for this reason.
    pub fn stick(&self, workload: &WorkloadId, why: &str) {
        self.stand_still(workload, Existing::Stuck { why: Arc::from(why) });
    }

    fn stand_still(&self, workload: &WorkloadId, how: Existing) {
        if let Some(made) = self.lock().ours.get_mut(workload)
            && made.seen.state == Existing::Running
        {
            made.seen.state = how;
        }
        self.hint(Wakeup::Workload(workload.clone()));
    }

    /// Lets the containers of a workload have written so many bytes into layers of their own.
    pub fn wrote(&self, workload: &WorkloadId, bytes: u64) {
        self.lock().layers.insert(workload.clone(), bytes);
    }

    /// Lets the checks of a workload fail, for this reason, or pass again. Where its image has a check the
    /// runtime tells the verdict; a check of the spec is answered so.
    pub fn set_ill(&self, workload: &WorkloadId, why: Option<&str>) {
        let mut state = self.lock();
        match why {
            Some(why) => state.ill.insert(workload.clone(), why.to_owned()),
            None => state.ill.remove(workload),
        };
        if let Some(made) = state.ours.get_mut(workload)
            && let Some(health) = &mut made.seen.health
        {
            *health = match why {
                Some(why) => ImageHealth::of_one(HealthState::Unhealthy, why),
                None => ImageHealth::of_one(HealthState::Healthy, ""),
            };
        }
        drop(state);
        self.hint(Wakeup::Workload(workload.clone()));
    }

    /// Makes it fail to stop or remove a workload, for this reason, or lets it go again.
    pub fn hold(&self, workload: &WorkloadId, why: Option<&str>) {
        let mut state = self.lock();
        match why {
            Some(why) => state.held.insert(workload.clone(), why.to_owned()),
            None => state.held.remove(workload),
        };
    }

    /// Lets a workload print a line, if it runs.
    pub fn print(&self, workload: &WorkloadId, line: &str) {
        if let Some(made) = self.lock().ours.get_mut(workload)
            && made.seen.state == Existing::Running
        {
            made.print(line.to_owned());
        }
        self.hint(Wakeup::Workload(workload.clone()));
    }

    /// Takes the name of a workload for somebody else.
    pub fn plant_foreign(&self, workload: &WorkloadId, owner: &str) {
        self.lock().foreign.insert(workload.clone(), owner.to_owned());
    }

    /// Who else has the name of a workload.
    #[must_use]
    pub fn foreign(&self, workload: &WorkloadId) -> Option<String> {
        self.lock().foreign.get(workload).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is left half done under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answering(&self) -> Result<MutexGuard<'_, State>, Error> {
        let state = self.lock();
        if state.silent {
            return Err(Error::Unreachable {
                detail: "the simulated runtime is silent".to_owned(),
            });
        }
        Ok(state)
    }

    fn hint(&self, wakeup: Wakeup) {
        // Nobody has to listen.
        let _listeners = self.hints.send(wakeup);
    }

    /// Makes the thing, or finds it; `false` if it runs already.
    fn make(&self, start: &Start) -> Result<bool, Error> {
        let mut state = self.answering()?;
        if let Some(owner) = state.foreign.get(&start.workload) {
            let (name, owner) = (start.workload.to_string(), owner.clone());
            return Err(Error::Foreign { name, owner });
        }
        if let Some(made) = state.ours.get(&start.workload) {
            if made.seen.revision != start.revision {
                if start.spec.kind.updates_in_place() {
                    return Ok(true);
                }
                let (workload, found) = (start.workload.clone(), made.seen.revision.clone());
                return Err(Error::OtherRevision { workload, found });
            }
            return Ok(made.seen.state != Existing::Running);
        }
        state.count += 1;
        let made = Made {
            seen: Seen {
                workload: start.workload.clone(),
                epoch: start.epoch,
                revision: start.revision.clone(),
                state: Existing::Created,
                services: ServiceEnds::default(),
                health: None,
            },
            spec: Arc::clone(&start.spec),
            id: state.count,
            started: None,
            printed: Vec::new(),
        };
        state.ours.insert(start.workload.clone(), made);
        Ok(true)
    }

    fn set_going(&self, start: &Start, script: Script) -> Result<(), Error> {
        let mut state = self.answering()?;
        if start.not_after.is_some_and(|not_after| self.clock.now() >= not_after) {
            return Err(Error::TooLate { workload: start.workload.clone() });
        }
        if let Some((port, holder)) = state.taken_port(start) {
            return Err(Error::PortTaken { port, holder: format!("the workload {holder}") });
        }
        let alive = |made: &Made| made.seen.state.is_alive();
        if start.resume && !state.ours.get(&start.workload).is_some_and(alive) {
            return Err(Error::not_paused());
        }
        state.count += 1;
        let count = state.count;
        let Some(made) = state.ours.get_mut(&start.workload) else {
            let detail = "it was removed meanwhile".to_owned();
            return Err(Error::Refused { verb: "start", detail });
        };
        if made.seen.revision != start.revision {
            made.seen.revision = start.revision.clone();
            made.seen.epoch = start.epoch;
            made.spec = Arc::clone(&start.spec);
        } else if made.seen.state.is_alive() {
            if let Existing::Paused { .. } = made.seen.state {
                made.seen.state = Existing::Running;
            }
            return Ok(());
        }
        made.started = Some(count);
        made.print(format!("{} in revision {} is simulated", start.workload, start.revision));
        made.seen.state = match script {
            Script::Exit(code) => Existing::Exited { code },
            Script::Fail(_) | Script::Run | Script::Checked | Script::Ill => Existing::Running,
        };
        let health = match script {
            Script::Checked => Some(ImageHealth::of_one(HealthState::Starting, "")),
            Script::Ill => {
                Some(ImageHealth::of_one(HealthState::Unhealthy, "as its name asks for"))
            }
            Script::Run | Script::Exit(_) | Script::Fail(_) => None,
        };
        made.seen.health = health.filter(|_| !start.spec.health.silences_runtime());
        Ok(())
    }
}

impl State {
    /// A port of `start` that something else that runs has, and who.
    fn taken_port(&self, start: &Start) -> Option<(String, WorkloadId)> {
        let wanted = start.spec.host_ports();
        let others = self
            .ours
            .values()
            .filter(|made| made.seen.state.is_alive() && made.seen.workload != start.workload);
        others.into_iter().find_map(|made| {
            let port = made.spec.host_ports().into_iter().find(|port| wanted.contains(port))?;
            Some((port.to_string(), made.seen.workload.clone()))
        })
    }
}

impl Made {
    fn print(&mut self, line: String) {
        if self.printed.len() < MOST_LINES {
            self.printed.push(line);
        }
    }

    fn thing(&self) -> Thing {
        let runs = self.seen.state.is_alive();
        let moment = self.started.map(|count| format!("start {count}"));
        let ended = matches!(self.seen.state, Existing::Exited { .. });
        let ports = match &self.spec.kind {
            Kind::Container(container) if runs => {
                let free = FIRST_FREE_PORT..;
                let published = container.ports.iter().zip(free).map(|(port, free)| Published {
                    address: port.address,
                    host: persys_model::spec::HostPort {
                        port: port.host.unwrap_or(free),
                        protocol: port.protocol,
                    },
                    inner: port.container,
                });
                published.collect()
            }
            Kind::Container(_) | Kind::Compose(_) | Kind::Vm(_) => Vec::new(),
        };
        Thing {
            seen: self.seen.clone(),
            id: format!("sim-{}", self.id),
            started_at: moment.clone(),
            finished_at: moment.filter(|_| ended),
            addresses: Vec::new(),
            ports,
            services: Vec::new(),
        }
    }
}

#[async_trait]
impl Runtime for Sim {
    async fn prepare(&self, spec: &Spec, progress: &dyn Progress) -> Result<(), Error> {
        drop(self.answering()?);
        tokio::time::sleep(self.settings.prepare).await;
        drop(self.answering()?);
        let script = Script::of(spec);
        if let Some(error) = script.prepare_error(spec) {
            return Err(error);
        }
        progress.fetched(Fetched { parts: 1, of_parts: 1, bytes: 0, of_bytes: 0 });
        Ok(())
    }

    async fn start(&self, start: &Start) -> Result<(), Error> {
        let script = Script::of(&start.spec);
        if !self.make(start)? {
            return Ok(());
        }
        tokio::time::sleep(self.settings.start).await;
        if let Some(error) = script.start_error(&start.spec) {
            return Err(error);
        }
        self.set_going(start, script)?;
        self.hint(Wakeup::Workload(start.workload.clone()));
        Ok(())
    }

    async fn fresh_health(&self, start: &Start) -> Option<ImageHealth> {
        let state = self.lock();
        state.ours.get(&start.workload).and_then(|made| made.seen.health.clone())
    }

    async fn probe(&self, workload: &WorkloadId, _check: &Check) -> ProbeOutcome {
        let Ok(state) = self.answering() else { return ProbeOutcome::Unknown };
        match state.ours.get(workload) {
            Some(made) if made.seen.state == Existing::Running => match state.ill.get(workload) {
                Some(why) => ProbeOutcome::Failed(Arc::from(why.as_str())),
                None => ProbeOutcome::Passed,
            },
            Some(_) | None => ProbeOutcome::Unknown,
        }
    }

    async fn pause(&self, workload: &WorkloadId) -> Result<(), Error> {
        let detail = || "it does not run".to_owned();
        let mut state = self.answering()?;
        let made = state.ours.get_mut(workload).filter(|made| made.seen.state.is_alive());
        let made = made.ok_or_else(|| Error::Refused { verb: "pause", detail: detail() })?;
        made.seen.state = Existing::PAUSED;
        drop(state);
        self.hint(Wakeup::Workload(workload.clone()));
        Ok(())
    }

    async fn signal(&self, refresh: &Refresh) -> Result<(), Error> {
        let mut state = self.answering()?;
        let made = state.ours.get_mut(&refresh.workload);
        let made = made.filter(|made| made.seen.state == Existing::Running).ok_or_else(|| {
            Error::Refused { verb: "signal", detail: "it does not run".to_owned() }
        })?;
        // What is simulated prints each signal it gets.
        for signal in refresh.signals() {
            made.print(signal.word().to_owned());
        }
        drop(state);
        self.hint(Wakeup::Workload(refresh.workload.clone()));
        Ok(())
    }

    async fn stop(&self, workload: &WorkloadId, within: Option<Duration>) -> Result<(), Error> {
        let own = |state: &State| {
            let made = state.ours.get(workload).filter(|made| made.seen.state.is_alive())?;
            Some(Duration::from_millis(made.spec.stop_grace_ms()))
        };
        let Some(own) = own(&*self.answering()?) else { return Ok(()) };
        self.lock().lets_go(workload)?;
        let grace = within.map_or(own, |within| within.min(own));
        tokio::time::sleep(self.settings.stop.min(grace)).await;
        let code = if self.settings.stop > grace { 137 } else { 143 };
        if let Some(made) = self.answering()?.ours.get_mut(workload)
            && made.seen.state.is_alive()
        {
            made.seen.state = Existing::Exited { code };
        }
        self.hint(Wakeup::Workload(workload.clone()));
        Ok(())
    }

    async fn remove(&self, workload: &WorkloadId, _purge: bool) -> Result<(), Error> {
        self.stop(workload, None).await?;
        let mut state = self.answering()?;
        state.lets_go(workload)?;
        let gone = state.ours.remove(workload);
        drop(state);
        if gone.is_some() {
            self.hint(Wakeup::Workload(workload.clone()));
        }
        Ok(())
    }

    async fn inspect(&self, workload: &WorkloadId) -> Result<Option<Thing>, Error> {
        Ok(self.answering()?.ours.get(workload).map(Made::thing))
    }

    async fn list(&self) -> Result<Vec<Seen>, Error> {
        Ok(self.answering()?.ours.values().map(|made| made.seen.clone()).collect())
    }

    async fn observe(&self, _probe: bool) -> Observation {
        observation(self.list().await)
    }

    async fn health(&self) -> Result<Health, Error> {
        drop(self.answering()?);
        let warnings = vec!["nothing really runs here".to_owned()];
        Ok(Health { version: "simulated".to_owned(), warnings })
    }
}
