//! All that runs workloads on this node, as one runtime.
//!
//! What is started goes to the runtime of its type. What is stopped or removed is known by its name
//! alone, so every runtime is asked: for one that never had it, it is so already.

mod part;
mod switched_off;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::future::join_all;
use persys_model::id::WorkloadId;
use persys_model::spec::health::Check;
use persys_model::spec::{Spec, WorkloadType};
use persys_node::input::{ImageHealth, Observation, ProbeOutcome, Seen};
use persys_runtime::compose::Compose;
use persys_runtime::docker::Docker;
use persys_runtime::inside::{
    ConsoleSession, End, ExecCommand, LogRange, Output, Reading, Session, Wakeup,
};
use persys_runtime::runtime::{Health, Progress, Thing};
use persys_runtime::sim::Sim;
use persys_runtime::vm::Machines;
use persys_runtime::{Error, Evidence, Refresh, Runtime, Start};
use tokio::time::timeout;

use crate::handle::Handle;
use crate::usage::Usages;

use part::Part;

/// How long a runtime may take to say that it is well.
const FEEL: Duration = Duration::from_secs(2);
/// How long a new agent waits for the first answer of a runtime.
const ARRIVE: Duration = Duration::from_secs(1);

/// All that runs workloads here.
#[derive(Clone)]
pub struct Runtimes {
    parts: Vec<Part>,
    /// What is not offered, and why.
    missing: Arc<Mutex<BTreeMap<WorkloadType, Arc<str>>>>,
    usages: Arc<Usages>,
}

impl std::fmt::Debug for Runtimes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<_> = self.parts.iter().map(|part| &part.runtime).collect();
        f.debug_struct("Runtimes")
            .field("parts", &parts)
            .field("missing", &self.missing)
            .finish_non_exhaustive()
    }
}

impl Runtimes {
    /// Containers by Docker, if it answers. One that does not is kept: what it already runs is
    /// still ours to see and to remove, and it is offered when it comes.
    pub async fn docker(docker: Docker) -> Self {
        let mut missing = unsupported();
        if !matches!(timeout(ARRIVE, docker.health()).await, Ok(Ok(_))) {
            let why = format!(
                "Docker does not answer at {}; install it with `apt-get install docker.io` and \
                 start it with `systemctl start docker`",
                docker.host()
            );
            tracing::warn!(why, "containers are not offered");
            missing.insert(WorkloadType::Container, Arc::from(why));
        }
        let part = Part::new([WorkloadType::Container].into(), docker);
        Self { parts: vec![part], missing: Arc::new(Mutex::new(missing)), usages: Arc::default() }
    }

    /// And stacks by Compose, if it is wanted and answers. What it runs already is ours to see and
    /// to remove in any case.
    #[must_use]
    pub async fn and_compose(mut self, compose: Compose, wanted: bool) -> Self {
        let kind = WorkloadType::Compose;
        let why: Option<Arc<str>> = if wanted {
            match timeout(ARRIVE, compose.health()).await {
                Ok(Ok(_)) => None,
                Ok(Err(Error::Refused { detail, .. })) => Some(Arc::from(detail)),
                Ok(Err(error)) => Some(Arc::from(error.to_string())),
                // It is slow to say its version and no worse for it. Had the node to join anew for
                // that, everything on it would begin a new life.
                Err(_) if compose.is_installed() => None,
                Err(_) => Some(Arc::from("Compose has not answered yet")),
            }
        } else {
            let why = "stacks are switched off on this node; see PERSYS_COMPOSE_ENABLED";
            Some(Arc::from(why))
        };
        match why {
            None => drop(self.lacks().remove(&kind)),
            Some(why) => {
                tracing::warn!(%why, "stacks are not offered");
                self.lacks().insert(kind, why);
            }
        }
        let mut part = Part::new([kind].into(), compose);
        if !wanted {
            part.types.clear();
        }
        self.parts.push(part);
        self
    }

    /// Returns when a runtime has answered that did not before, and from then on offers what it
    /// runs; or when none is missing. Says whether there is more than before, and whether that is
    /// all there can be.
    pub async fn arrived(&self, between: Duration) -> (bool, bool) {
        loop {
            let (mut more, mut all) = (false, true);
            for part in &self.parts {
                let lacking = part.types.iter().any(|kind| self.lacks().contains_key(kind));
                if !lacking {
                    continue;
                }
                if !matches!(timeout(FEEL, part.runtime.health()).await, Ok(Ok(_))) {
                    all = false;
                    continue;
                }
                for kind in &part.types {
                    more |= self.lacks().remove(kind).is_some();
                }
            }
            if more || all {
                return (more, all);
            }
            tokio::time::sleep(between).await;
        }
    }

    /// What cannot be run here, and what to do about it.
    #[must_use]
    pub fn missing(&self) -> BTreeMap<WorkloadType, Arc<str>> {
        self.lacks().clone()
    }

    fn lacks(&self) -> MutexGuard<'_, BTreeMap<WorkloadType, Arc<str>>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// And virtual machines by libvirt, if it answers. It need not be on the node: then they are
    /// not offered, and nothing else is the worse for it.
    #[must_use]
    pub async fn and_machines(mut self, machines: Machines) -> Self {
        let kind = WorkloadType::Vm;
        if let Ok(Ok(_)) = timeout(ARRIVE, machines.health()).await {
            self.lacks().remove(&kind);
        } else {
            let why = format!(
                "libvirt does not answer at {}; install it with `apt-get install \
                 libvirt-daemon-system qemu-system-x86 qemu-utils` and start it with \
                 `systemctl start libvirtd`",
                machines.sockets()
            );
            tracing::warn!(why, "virtual machines are not offered");
            self.lacks().insert(kind, Arc::from(why));
        }
        self.parts.push(Part::new([kind].into(), machines.clone()).with_console(machines));
        self
    }

    /// Everything in memory.
    #[must_use]
    pub fn sim(sim: Sim) -> Self {
        let types = WorkloadType::ALL.into_iter().collect();
        let part = Part::new(types, sim.clone()).with_console(sim);
        Self { parts: vec![part], missing: Arc::default(), usages: Arc::default() }
    }

    /// What can be run here.
    #[must_use]
    pub fn offered(&self) -> BTreeSet<WorkloadType> {
        let all = self.parts.iter().flat_map(|part| part.types.iter().copied());
        all.filter(|kind| !self.lacks().contains_key(kind)).collect()
    }

    /// How each type is, in the words of the contract.
    pub async fn told(&self) -> BTreeMap<String, String> {
        let mut told: BTreeMap<_, _> = self
            .lacks()
            .iter()
            .map(|(kind, why)| (kind.word().to_owned(), format!("unhealthy: {why}")))
            .collect();
        for part in &self.parts {
            let text = match timeout(FEEL, part.runtime.health()).await {
                Ok(Ok(_)) => "healthy".to_owned(),
                Ok(Err(error)) => format!("unhealthy: {error}"),
                Err(_) => format!("unhealthy: no answer within {FEEL:?}"),
            };
            for kind in &part.types {
                told.entry(kind.word().to_owned()).or_insert_with(|| text.clone());
            }
        }
        told
    }

    /// Passes every hint of the runtimes on, for ever.
    pub async fn listen(self, handle: Handle) {
        let streams = self.parts.iter().map(|part| part.wakeups.wakeups());
        let mut hints = futures::stream::select_all(streams);
        while let Some(hint) = hints.next().await {
            handle.wake(match hint {
                Wakeup::Workload(workload) => Some(workload),
                Wakeup::Everything => None,
            });
        }
    }

    /// What is left of the last end of a workload, if it has ended and a runtime can tell.
    pub async fn end_of(&self, workload: &WorkloadId) -> Option<End> {
        for part in &self.parts {
            if let Ok(Some(end)) = part.evidence.evidence(workload).await {
                return Some(end);
            }
        }
        None
    }

    /// What a workload printed.
    pub async fn logs(&self, workload: &WorkloadId, range: LogRange) -> Result<Output, Error> {
        for part in &self.parts {
            match part.logs.logs(workload, range.clone()).await {
                Err(Error::Absent { .. }) => {}
                answer => return answer,
            }
        }
        Err(Error::Absent { workload: workload.clone() })
    }

    /// Runs a command inside a workload.
    pub async fn exec(
        &self,
        workload: &WorkloadId,
        command: &ExecCommand,
    ) -> Result<Session, Error> {
        for part in &self.parts {
            match part.exec.exec(workload, command).await {
                Err(Error::Absent { .. }) => {}
                answer => return answer,
            }
        }
        Err(Error::Absent { workload: workload.clone() })
    }

    /// Holds the serial console of a workload.
    pub async fn console(
        &self,
        workload: &WorkloadId,
        force: bool,
    ) -> Result<ConsoleSession, Error> {
        for console in self.parts.iter().filter_map(|part| part.console.as_ref()) {
            match console.console(workload, force).await {
                Err(Error::Absent { .. }) => {}
                answer => return answer,
            }
        }
        if self.inspect(workload).await?.is_none() {
            return Err(Error::Absent { workload: workload.clone() });
        }
        let detail = format!(
            "{workload} is no virtual machine and has no console; `persys exec -it {workload} -- sh` \
             opens a shell inside"
        );
        Err(Error::Refused { verb: "console", detail })
    }

    /// What a workload uses, if it runs and a runtime can tell.
    pub async fn usage(&self, workload: &WorkloadId) -> Option<Reading> {
        for part in &self.parts {
            if let Ok(Some(reading)) = part.usage.usage(workload).await {
                return Some(reading);
            }
        }
        None
    }

    /// Bytes that containers of a workload have written into layers of their own, if a runtime can tell.
    pub async fn layer_bytes(&self, workload: &WorkloadId) -> Option<u64> {
        for part in &self.parts {
            if let Ok(Some(bytes)) = part.usage.layer_bytes(workload).await {
                return Some(bytes);
            }
        }
        None
    }

    /// What everything that runs here uses. A runtime that does not answer is left out.
    pub async fn usage_of_all(&self) -> BTreeMap<WorkloadId, (Option<WorkloadType>, Reading)> {
        let mut all = BTreeMap::new();
        for part in &self.parts {
            let kind = part.types.first().copied().filter(|_| part.types.len() == 1);
            let Ok(Ok(read)) = timeout(FEEL, part.usage.usage_of_all()).await else { continue };
            all.extend(read.into_iter().map(|(workload, reading)| (workload, (kind, reading))));
        }
        all
    }

    /// What was read of it last.
    #[must_use]
    pub fn usages(&self) -> &Arc<Usages> {
        &self.usages
    }

    fn part_of(&self, spec: &Spec) -> Result<&Part, Error> {
        let kind = spec.workload_type();
        let part = self.parts.iter().find(|part| part.types.contains(&kind));
        part.ok_or(Error::WrongKind { kind })
    }

    /// What each runtime says it has. One that is away holds up no other.
    async fn lists(&self, probe: bool) -> Vec<(&Part, Result<Vec<Seen>, Error>)> {
        let lists = join_all(self.parts.iter().map(|part| async move {
            if probe { part.runtime.list().await } else { part.runtime.glance().await }
        }))
        .await;
        let lists: Vec<_> = self.parts.iter().zip(lists).collect();
        for (part, list) in &lists {
            if let Ok(list) = list {
                part.memory.told(list);
            }
        }
        lists
    }
}

fn unsupported() -> BTreeMap<WorkloadType, Arc<str>> {
    let why = |kind: WorkloadType| format!("this release of the agent cannot run {}", kind.word());
    [WorkloadType::Compose, WorkloadType::Vm].map(|kind| (kind, Arc::from(why(kind)))).into()
}

#[async_trait]
impl Evidence for Runtimes {
    async fn evidence(&self, workload: &WorkloadId) -> Result<Option<End>, Error> {
        Ok(self.end_of(workload).await)
    }
}

#[async_trait]
impl Runtime for Runtimes {
    async fn prepare(&self, spec: &Spec, progress: &dyn Progress) -> Result<(), Error> {
        self.part_of(spec)?.runtime.prepare(spec, progress).await
    }

    async fn start(&self, start: &Start) -> Result<(), Error> {
        if start.spec.kind.updates_in_place() {
            // What was of another kind before is not updated but replaced; its data stays.
            let kind = start.spec.workload_type();
            for part in self.parts.iter().filter(|part| !part.types.contains(&kind)) {
                let there = part.runtime.inspect(&start.workload).await;
                if part.about(&start.workload, there)?.is_some() {
                    part.runtime.remove(&start.workload, false).await?;
                }
            }
        }
        let part = self.part_of(&start.spec)?;
        part.memory.begins(&start.workload);
        part.runtime.start(start).await
    }

    async fn fresh_health(&self, start: &Start) -> Option<ImageHealth> {
        self.part_of(&start.spec).ok()?.runtime.fresh_health(start).await
    }

    async fn probe(&self, workload: &WorkloadId, check: &Check) -> ProbeOutcome {
        for part in &self.parts {
            match part.about(workload, part.runtime.inspect(workload).await) {
                Ok(Some(_)) => return part.runtime.probe(workload, check).await,
                Ok(None) => {}
                Err(_) => return ProbeOutcome::Unknown,
            }
        }
        ProbeOutcome::Unknown
    }

    async fn pause(&self, workload: &WorkloadId) -> Result<(), Error> {
        for part in &self.parts {
            if part.about(workload, part.runtime.inspect(workload).await)?.is_some() {
                return part.runtime.pause(workload).await;
            }
        }
        Err(Error::Refused { verb: "pause", detail: "it does not run".to_owned() })
    }

    async fn signal(&self, refresh: &Refresh) -> Result<(), Error> {
        self.part_of(&refresh.spec)?.runtime.signal(refresh).await
    }

    async fn stop(&self, workload: &WorkloadId, within: Option<Duration>) -> Result<(), Error> {
        for part in &self.parts {
            part.about(workload, part.runtime.stop(workload, within).await)?;
        }
        Ok(())
    }

    async fn remove(&self, workload: &WorkloadId, purge: bool) -> Result<(), Error> {
        for part in &self.parts {
            part.about(workload, part.runtime.remove(workload, purge).await)?;
            part.memory.ended(workload);
        }
        Ok(())
    }

    async fn inspect(&self, workload: &WorkloadId) -> Result<Option<Thing>, Error> {
        for part in &self.parts {
            if let Some(thing) = part.about(workload, part.runtime.inspect(workload).await)? {
                return Ok(Some(thing));
            }
        }
        Ok(None)
    }

    async fn list(&self) -> Result<Vec<Seen>, Error> {
        let mut all = Vec::new();
        for (_, list) in self.lists(true).await {
            all.extend(list?);
        }
        Ok(all)
    }

    async fn observe(&self, probe: bool) -> Observation {
        let (mut seen, mut blind, mut hears) = (Vec::new(), BTreeSet::new(), false);
        for (part, list) in self.lists(probe).await {
            match list {
                Ok(list) => {
                    hears = true;
                    seen.extend(list);
                }
                Err(error) => {
                    tracing::debug!(%error, kinds = ?part.kinds, "what runs is not known");
                    blind.extend(part.kinds.iter().copied());
                }
            }
        }
        match (hears, blind.is_empty()) {
            (false, _) => Observation::Unknown,
            (true, true) => Observation::Complete(seen),
            (true, false) => Observation::Partial { seen, blind },
        }
    }

    async fn health(&self) -> Result<Health, Error> {
        let mut all = Health::default();
        for part in &self.parts {
            // What is not offered is not missed.
            if part.types.iter().all(|kind| self.lacks().contains_key(kind)) {
                continue;
            }
            let health = part.runtime.health().await?;
            all.version = health.version;
            all.warnings.extend(health.warnings);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests;
