//! Compose stacks: brought up by the Compose program, looked at and taken down through Docker.
//!
//! - [`settings`]: what can be set.
//! - [`names`]: projects, and which containers are ours.
//! - [`book`]: what is remembered of each stack; [`contents`]: files that came with it.
//! - [`program`]: the Compose program; [`words`]: what it complains about.
//! - [`observe`]: what is there, and how a stack is by its containers.
//! - [`lifecycle`]: start, with the way back; [`ends`]: stop and remove.
//! - [`inside`]: logs, exec, usage, evidence, and the rest.
//!
//! The program is given a document of our own making and is run once for a start that has something
//! to do, never for anything else. Everything that is believed is read from Docker.

pub mod settings;

mod book;
mod contents;
mod ends;
mod inside;
mod lifecycle;
mod names;
mod observe;
mod program;
mod words;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use persys_compose::{Document, Verdict};
use persys_model::id::WorkloadId;
use persys_model::spec::health::Check;
use persys_model::spec::{ComposeSpec, Kind, Spec};
use persys_model::volume::VolumeKey;
use persys_node::input::{ImageHealth, Observation, ProbeOutcome, Seen};

use crate::docker::Docker;
use crate::error::Error;
use crate::runtime::{Health, Progress, Refresh, Runtime, Start, Thing, observation};

use book::Book;
use program::Finder;
use settings::Settings;

/// Stacks on a Docker daemon.
#[derive(Debug, Clone)]
pub struct Compose {
    docker: Docker,
    settings: Arc<Settings>,
    book: Book,
    finder: Finder,
    turns: Turns,
}

impl Compose {
    /// Runs stacks on the daemon of `docker`, for the same owner. Neither the daemon nor the program
    /// need be there yet.
    #[must_use]
    pub fn new(docker: Docker, settings: Settings) -> Self {
        let book = Book::new(settings.folder.clone());
        let finder = Finder::new(settings.program.clone());
        let docker = docker.apart();
        Self { docker, settings: Arc::new(settings), book, finder, turns: Turns::default() }
    }

    /// Whether there is a program to bring stacks up with. It need not have answered yet.
    #[must_use]
    pub fn is_installed(&self) -> bool {
        self.finder.is_there()
    }

    /// Whether the Compose program answers, with its version or the next step.
    pub async fn program(&self) -> Result<String, Arc<str>> {
        let home = self.book.home().map_err(|error| Arc::from(error.to_string()))?;
        Ok(self.finder.program(&home).await?.version)
    }
}

fn stack_of(spec: &Spec) -> Result<&ComposeSpec, Error> {
    match &spec.kind {
        Kind::Compose(stack) => Ok(stack),
        Kind::Container(_) | Kind::Vm(_) => Err(Error::WrongKind { kind: spec.workload_type() }),
    }
}

/// What a stack will run.
fn document_of(stack: &ComposeSpec) -> Result<Document, Error> {
    let reading = stack.read();
    let refused = reading.findings.iter().filter(|finding| finding.verdict == Verdict::Refused);
    let faults: Vec<_> = refused.map(|finding| reading.sentence(finding)).collect();
    reading.document.ok_or_else(|| Error::Invalid { detail: faults.join("; ") })
}

/// One verb at a time for each stack.
#[derive(Debug, Clone, Default)]
struct Turns(Arc<Mutex<BTreeMap<WorkloadId, Arc<tokio::sync::Mutex<()>>>>>);

impl Turns {
    async fn take(&self, workload: &WorkloadId) -> tokio::sync::OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(workload.clone()).or_default())
        };
        turn.lock_owned().await
    }
}

#[async_trait]
impl Runtime for Compose {
    async fn prepare(&self, spec: &Spec, progress: &dyn Progress) -> Result<(), Error> {
        let document = document_of(stack_of(spec)?)?;
        for image in document.images() {
            self.docker.fetch(image, progress).await.map_err(|cause| {
                let user = document.services().find(|service| service.image == image);
                words::in_service(user.map(|service| service.name.as_str()), cause)
            })?;
        }
        Ok(())
    }

    async fn start(&self, start: &Start) -> Result<(), Error> {
        let _turn = self.turns.take(&start.workload).await;
        self.bring_up(start).await
    }

    async fn fresh_health(&self, start: &Start) -> Option<ImageHealth> {
        // Whoever cannot be asked now is asked with the next list.
        let pieces = self.pieces(Some(&start.workload)).await.ok()?;
        observe::health(&pieces)
    }

    async fn probe(&self, _workload: &WorkloadId, _check: &Check) -> ProbeOutcome {
        // A spec that asks for it is refused when it is checked: the services have checks of their own.
        ProbeOutcome::Unknown
    }

    async fn pause(&self, workload: &WorkloadId) -> Result<(), Error> {
        let _turn = self.turns.take(workload).await;
        self.hold_still(workload).await
    }

    async fn signal(&self, refresh: &Refresh) -> Result<(), Error> {
        let _turn = self.turns.take(&refresh.workload).await;
        self.signal_services(refresh).await
    }

    async fn stop(&self, workload: &WorkloadId, within: Option<Duration>) -> Result<(), Error> {
        let _turn = self.turns.take(workload).await;
        self.let_end(workload, within).await
    }

    async fn remove(&self, workload: &WorkloadId, _purge: bool) -> Result<(), Error> {
        let _turn = self.turns.take(workload).await;
        match VolumeKey::ordered_by(workload) {
            Some(key) => self.delete_volume(&key).await,
            None => self.leave_nothing(workload).await,
        }
    }

    async fn inspect(&self, workload: &WorkloadId) -> Result<Option<Thing>, Error> {
        self.look_at(workload).await
    }

    async fn list(&self) -> Result<Vec<Seen>, Error> {
        self.look_at_all(true).await
    }

    async fn glance(&self) -> Result<Vec<Seen>, Error> {
        self.look_at_all(false).await
    }

    async fn observe(&self, probe: bool) -> Observation {
        observation(self.look_at_all(probe).await)
    }

    async fn health(&self) -> Result<Health, Error> {
        let mut health = self.docker.health().await?;
        match self.program().await {
            Ok(version) => health.version = format!("{}, Compose {version}", health.version),
            Err(why) => return Err(Error::Refused { verb: "health", detail: why.to_string() }),
        }
        Ok(health)
    }
}
