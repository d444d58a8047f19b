//! The seam: what the agent can ask of whatever runs workloads.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
pub use persys_model::fetched::Fetched;
use persys_model::id::{NodeId, RevisionId, SecretName, VolumeName, WorkloadId};
use persys_model::secret::{SecretValues, Signal};
use persys_model::spec::health::Check;
use persys_model::spec::{HostPort, Spec};
use persys_model::time::Millis;
use persys_model::token::Epoch;
use persys_node::input::{Existing, ImageHealth, Observation, ProbeOutcome, Seen};

use crate::error::Error;

/// Runs workloads. Every verb is idempotent: "already so" is success. Every call ends by its own
/// deadline, and a call that hangs holds up no other.
#[async_trait]
pub trait Runtime: Send + Sync + std::fmt::Debug {
    /// Has everything fetched that a start of `spec` needs, and says how far it is.
    async fn prepare(&self, spec: &Spec, progress: &dyn Progress) -> Result<(), Error>;

    /// Makes the thing with its labels and starts it. If it exists in this revision it is only
    /// started. If it exists in another one, what is updated in place
    /// ([`updates_in_place`](persys_model::spec::Kind::updates_in_place)) is brought over, and a
    /// failure leaves the last good revision as it was; anything else is left alone and the error
    /// says so.
    async fn start(&self, start: &Start) -> Result<(), Error>;

    /// Verdict, right after a start, of the checks that the runtime itself runs; `None` where it runs none.
    async fn fresh_health(&self, start: &Start) -> Option<ImageHealth>;

    /// Runs a health check from outside once. It ends within the time the check has.
    async fn probe(&self, workload: &WorkloadId, check: &Check) -> ProbeOutcome;

    /// Gives what runs no CPU time and keeps all it has; [`start`](Self::start) resumes it. What does not
    /// run is an error.
    async fn pause(&self, workload: &WorkloadId) -> Result<(), Error>;

    /// Sends what runs the signals that its spec names for secrets with new values. Of a stack, only the
    /// services that see them get one. What does not run is an error.
    async fn signal(&self, refresh: &Refresh) -> Result<(), Error>;

    /// Asks it to end, and ends it when its grace is over: the one it was made with, or `within` if
    /// that is shorter. It is kept.
    async fn stop(&self, workload: &WorkloadId, within: Option<Duration>) -> Result<(), Error>;

    /// Leaves nothing of it. What runs is asked to end first, as by a stop with all its grace. Disks
    /// that were made for a machine go only with `purge`; volumes that Docker keeps for containers and
    /// stacks stay.
    async fn remove(&self, workload: &WorkloadId, purge: bool) -> Result<(), Error>;

    /// How one workload is; `None` if nothing of ours is there.
    async fn inspect(&self, workload: &WorkloadId) -> Result<Option<Thing>, Error>;

    /// All that carries the labels of our cluster and node. What is not in it does not exist; if
    /// that cannot be said for certain, this is an error.
    async fn list(&self) -> Result<Vec<Seen>, Error>;

    /// As [`list`](Self::list), without asking about every single thing that runs: what became stuck since
    /// the last list is still shown as running.
    async fn glance(&self) -> Result<Vec<Seen>, Error> {
        self.list().await
    }

    /// What the agent core is told of all this: the list, or which part of it is not known. Everybody
    /// says it: one that stands before others and forgot to pass it on would make what one of them
    /// hides hide everything.
    ///
    /// With `probe` it is made of a list, otherwise of a glance.
    async fn observe(&self, probe: bool) -> Observation;

    /// Whether the runtime can do its work.
    async fn health(&self) -> Result<Health, Error>;
}

/// Hears how far a preparation is. Any function that takes [`Fetched`] is one.
pub trait Progress: Send + Sync {
    /// So much is there.
    fn fetched(&self, fetched: Fetched);
}

impl<F: Fn(Fetched) + Send + Sync> Progress for F {
    fn fetched(&self, fetched: Fetched) {
        self(fetched);
    }
}

/// Whose things a runtime touches: those that say so on their labels, and no others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The cluster, by the name that never changes.
    pub cluster: Arc<str>,
    /// The node.
    pub node: NodeId,
}

/// An order to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Label: whose it is.
    pub workload: WorkloadId,
    /// Label: the version.
    pub revision: RevisionId,
    /// Label: the decision.
    pub epoch: Epoch,
    /// What to run.
    pub spec: Arc<Spec>,
    /// Where each managed volume of the spec is on this node, attached by its driver.
    pub volumes: BTreeMap<VolumeName, PathBuf>,
    /// Its secrets.
    pub secrets: Arc<SecretValues>,
    /// Where those that are files are, once they are.
    pub secrets_at: Option<PathBuf>,
    /// For exclusive work: do not let it start after this moment.
    pub not_after: Option<Millis>,
    /// It was seen paused: only resume it. What ended since is left alone, and this fails.
    pub resume: bool,
}

/// New values of secrets for what runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refresh {
    /// The workload.
    pub workload: WorkloadId,
    /// What runs.
    pub spec: Arc<Spec>,
    /// All its secrets.
    pub secrets: Arc<SecretValues>,
    /// Those that changed.
    pub changed: BTreeSet<SecretName>,
}

impl Refresh {
    /// The signals of what is one program: each of them once.
    #[must_use]
    pub fn signals(&self) -> BTreeSet<Signal> {
        let signals = self.spec.signals().into_iter();
        signals.filter(|(name, _)| self.changed.contains(*name)).map(|(_, signal)| signal).collect()
    }
}

/// One thing of ours, with what the runtime says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thing {
    /// What its labels say and how it is.
    pub seen: Seen,
    /// The runtime's own name for it.
    pub id: String,
    /// When it was last started, as the runtime writes it; `None` if never.
    pub started_at: Option<String>,
    /// When it last ended, as the runtime writes it; `None` if it runs or never ran.
    pub finished_at: Option<String>,
    /// Where it can be reached from the node.
    pub addresses: Vec<IpAddr>,
    /// Its ports on the node.
    pub ports: Vec<Published>,
    /// The containers of a stack; empty for what is one thing.
    pub services: Vec<ServiceStatus>,
}

/// One container of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceStatus {
    /// The service it belongs to.
    pub name: String,
    /// The runtime's own name for it.
    pub id: String,
    /// How it is.
    pub state: Existing,
    /// Whether it may end: to have ended well is then to be done.
    pub one_shot: bool,
    /// Verdict of its checks; `None` where it has none.
    pub health: Option<ImageHealth>,
    /// Its number among the containers of its service, from 1; 0 is not known.
    pub number: u32,
}

/// A port of a workload as published on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Published {
    /// Address of the node it is published on; `None` is every address.
    pub address: Option<IpAddr>,
    /// On the node.
    pub host: HostPort,
    /// In the workload.
    pub inner: u16,
}

/// How a runtime is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Health {
    /// Its version.
    pub version: String,
    /// What works less well than it could; for people.
    pub warnings: Vec<String>,
}

/// What the agent core is told about a list. Every error is *unknown*: nothing is concluded from it.
#[must_use]
pub fn observation(list: Result<Vec<Seen>, Error>) -> Observation {
    match list {
        Ok(seen) => Observation::Complete(seen),
        Err(_) => Observation::Unknown,
    }
}
