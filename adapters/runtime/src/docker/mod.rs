//! Containers through the Docker Engine.
//!
//! - [`settings`]: what can be set.
//! - [`identity`]: names and labels; the one place that says what is ours.
//! - [`shape`]: from a spec to what Docker is asked to make.
//! - [`lifecycle`]: start, stop, remove.
//! - [`earlier`]: containers of an earlier installation; [`adopted`] remembers those taken over.
//! - [`pull`]: fetching images; [`image`] reads their names, [`logins`] credentials.
//! - [`observe`]: inspect, list, health; [`health`]: the checks that Docker runs.
//! - [`cgroup`]: what a container uses, from the kernel; [`layers`]: what it writes into its own layer.
//! - [`exclusive`]: what a watchdog must know.
//! - [`streams`]: logs, exec, usage, evidence; [`wakeups`]: events.
//! - [`call`]: deadlines, and "no answer" kept apart from "no"; [`refusal`]: what a "no" means;
//!   [`holder`]: who has a port.
//!
//! Every request opens its own connection and has its own deadline, so a container the daemon is
//! stuck on holds up nothing but the calls about itself. What is changed is addressed by the id that
//! was just inspected, never by name: whoever takes the name in between is not hit.
//!
//! The client library logs whole request bodies at its debug level, environment included. Do not
//! turn that level on for `bollard`.

pub mod image;
pub mod pull;
pub mod settings;

pub(crate) mod call;
pub(crate) mod identity;
pub(crate) mod observe;
pub(crate) mod refusal;
pub(crate) mod streams;
mod stuck;
pub(crate) mod wakeups;

mod adopted;
mod cgroup;
mod earlier;
mod exclusive;
mod health;
mod holder;
mod layers;
mod lifecycle;
mod logins;
mod shape;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use persys_model::id::WorkloadId;
use persys_model::spec::health::Check;
use persys_model::spec::{ContainerSpec, Kind, Spec};
use persys_node::input::{Existing, ImageHealth, Observation, ProbeOutcome, Seen};

use crate::clock::Clock;
use crate::error::Error;
use crate::probe;
use crate::runtime::{Health, Owner, Progress, Refresh, Runtime, Start, Thing, observation};

use settings::Settings;

/// The limit of the client library itself; ours are shorter, except for a long stop.
const LIBRARY_TIMEOUT: Duration = Duration::from_hours(2);

/// A Docker daemon, as far as it runs our containers.
#[derive(Debug, Clone)]
pub struct Docker {
    pub(crate) owner: Owner,
    pub(crate) settings: Arc<Settings>,
    pub(crate) clock: Clock,
    adopted: adopted::AdoptedTable,
    client: Arc<OnceLock<bollard::Docker>>,
    quota: Arc<layers::Quota>,
    probes: Arc<stuck::Probes>,
    /// Images that were looked at last, and whether each has a check of its own.
    checked: Arc<Mutex<BTreeMap<String, bool>>>,
}

impl Docker {
    /// Speaks to the daemon of `settings` about the things of `owner`. The daemon need not be
    /// there yet.
    #[must_use]
    pub fn new(owner: Owner, settings: Settings, clock: Clock) -> Self {
        let adopted = adopted::AdoptedTable::open(settings.adopted.clone());
        let (settings, client) = (Arc::new(settings), Arc::default());
        let (quota, probes, checked) = (Arc::default(), Arc::default(), Arc::default());
        Self { owner, settings, clock, adopted, client, quota, probes, checked }
    }

    /// Where the daemon is.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.settings.host
    }

    /// The client, made when the daemon's socket is first there.
    pub(crate) fn client(&self) -> Result<bollard::Docker, Error> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let client = bollard::Docker::connect_with_host(&self.settings.host)
            .map_err(|error| Error::Unreachable { detail: error.to_string() })?
            .with_timeout(LIBRARY_TIMEOUT)
            .with_request_modifier(pull::url_safe_credentials);
        Ok(self.client.get_or_init(|| client).clone())
    }
}

fn container_of(spec: &Spec) -> Result<&ContainerSpec, Error> {
    match &spec.kind {
        Kind::Container(container) => Ok(container),
        Kind::Compose(_) | Kind::Vm(_) => Err(Error::WrongKind { kind: spec.workload_type() }),
    }
}

#[async_trait]
impl Runtime for Docker {
    async fn prepare(&self, spec: &Spec, progress: &dyn Progress) -> Result<(), Error> {
        self.fetch(&container_of(spec)?.image, progress).await
    }

    async fn start(&self, start: &Start) -> Result<(), Error> {
        self.make_and_start(start, container_of(&start.spec)?).await
    }

    async fn fresh_health(&self, start: &Start) -> Option<ImageHealth> {
        let container = container_of(&start.spec).ok()?;
        self.first_verdict(start, &container.image).await
    }

    async fn probe(&self, workload: &WorkloadId, check: &Check) -> ProbeOutcome {
        probe::ask(self.look_at(workload).await, check).await
    }

    async fn pause(&self, workload: &WorkloadId) -> Result<(), Error> {
        self.hold_still(workload).await
    }

    async fn signal(&self, refresh: &Refresh) -> Result<(), Error> {
        match self.ours(&refresh.workload).await? {
            Some(ours) if ours.seen.state == Existing::Running => {
                for signal in refresh.signals() {
                    self.signal_by_id(&ours.id, signal).await?;
                }
                Ok(())
            }
            Some(_) | None => {
                Err(Error::Refused { verb: "signal", detail: "it does not run".to_owned() })
            }
        }
    }

    async fn stop(&self, workload: &WorkloadId, within: Option<Duration>) -> Result<(), Error> {
        self.let_end(workload, within).await
    }

    async fn remove(&self, workload: &WorkloadId, _purge: bool) -> Result<(), Error> {
        self.leave_nothing(workload).await
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
        self.feel().await
    }
}
