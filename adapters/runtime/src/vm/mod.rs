//! Virtual machines through libvirt.
//!
//! - [`settings`]: what can be set.
//! - [`identity`]: names and marks; the one place that says what is ours.
//! - [`assemble`]: from an order to a [`domain`], which is told to libvirt as [`xml`], and to a
//!   [`seed`], which is a disc ([`iso`]); [`kvm`]: who carries out its instructions.
//! - [`disks`]: made, checked, grown, released; [`storage`]: where they are; [`manifest`]: which are
//!   ours; [`image`], [`qemu_img`]: what a disk says about itself.
//! - `plan`: all that a machine needs, from libvirt and from the parts above; `lifecycle`: start,
//!   stop, remove; `turns`: one verb at a time.
//! - `observe`: inspect, list, health; `guest`: the agent in a guest; `boot`: signs that a boot failed; `record`: what libvirt does not keep.
//! - `inside`: `console`, usage, evidence; `wakeups`: events.
//! - `call`: what an answer of libvirt means.
//!
//! libvirt keeps a machine by its name and says whose it is by our facts in its description. What is
//! changed is addressed by name and uuid together, as it was just found: whoever takes the name in
//! between is not hit. While libvirt does not answer, everything is unknown and nothing is gone.

pub mod assemble;
pub mod disks;
pub mod domain;
pub mod identity;
pub mod image;
pub mod iso;
pub mod kvm;
pub mod manifest;
pub mod qemu_img;
pub mod seed;
pub mod settings;
pub mod storage;
pub mod xml;

mod boot;
mod call;
mod console;
mod guest;
mod inside;
mod lifecycle;
mod observe;
mod plan;
mod record;
mod turns;
mod wakeups;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use persys_libvirt::Client;
use persys_model::id::WorkloadId;
use persys_model::spec::health::Check;
use persys_model::spec::{Kind, Spec, VmSpec};
use persys_node::input::{ImageHealth, Observation, ProbeOutcome, Seen};
use tokio::sync::OnceCell;

use crate::clock::Clock;
use crate::error::Error;
use crate::probe;
use crate::runtime::{Health, Owner, Progress, Refresh, Runtime, Start, Thing, observation};

use disks::Disks;
use settings::Settings;

/// libvirt, as far as it runs our machines.
#[derive(Debug, Clone)]
pub struct Machines {
    owner: Owner,
    settings: Arc<Settings>,
    clock: Clock,
    client: Client,
    disks: Disks,
    /// What machines are run with here; found out when it is first needed.
    host: Arc<OnceCell<plan::Found>>,
    turns: Arc<turns::Turns>,
    sampled: Arc<inside::Sampled>,
    guests: guest::Guests,
}

impl Machines {
    /// Speaks to the libvirt of `settings` about the machines of `owner`. It need not be there yet.
    #[must_use]
    pub fn new(owner: Owner, settings: Settings, clock: Clock) -> Self {
        Self {
            owner,
            client: Client::new(settings.libvirt.clone()),
            disks: Disks::new(settings.storage.clone()),
            settings: Arc::new(settings),
            clock,
            host: Arc::default(),
            turns: Arc::default(),
            sampled: Arc::default(),
            guests: guest::Guests::default(),
        }
    }

    /// Where libvirt is looked for, in words.
    #[must_use]
    pub fn sockets(&self) -> String {
        let all = self.settings.libvirt.sockets.iter();
        all.map(|path| path.display().to_string()).collect::<Vec<_>>().join(" or ")
    }

    /// The folder of one machine. The id was checked when it was made: it is one plain name.
    fn folder(&self, workload: &WorkloadId) -> PathBuf {
        self.disks.storage().folder(&identity::name_of(&self.settings.name_prefix, workload))
    }
}

fn machine_of(spec: &Spec) -> Result<&VmSpec, Error> {
    match &spec.kind {
        Kind::Vm(vm) => Ok(vm),
        Kind::Container(_) | Kind::Compose(_) => {
            Err(Error::WrongKind { kind: spec.workload_type() })
        }
    }
}

#[async_trait]
impl Runtime for Machines {
    async fn prepare(&self, spec: &Spec, _progress: &dyn Progress) -> Result<(), Error> {
        self.check(machine_of(spec)?).await
    }

    async fn start(&self, start: &Start) -> Result<(), Error> {
        self.make_and_start(start, machine_of(&start.spec)?).await
    }

    async fn fresh_health(&self, _start: &Start) -> Option<ImageHealth> {
        // The agent in a guest, if there is one, is heard of when it has booted.
        None
    }

    async fn probe(&self, workload: &WorkloadId, check: &Check) -> ProbeOutcome {
        probe::ask(self.look_at(workload).await, check).await
    }

    async fn pause(&self, workload: &WorkloadId) -> Result<(), Error> {
        self.hold_still(workload).await
    }

    async fn signal(&self, _refresh: &Refresh) -> Result<(), Error> {
        // A spec that asks for it is refused when it is checked.
        let detail = "no signal can reach the programs of a virtual machine".to_owned();
        Err(Error::Refused { verb: "signal", detail })
    }

    async fn stop(&self, workload: &WorkloadId, within: Option<Duration>) -> Result<(), Error> {
        self.let_end(workload, within).await
    }

    async fn remove(&self, workload: &WorkloadId, purge: bool) -> Result<(), Error> {
        self.leave_nothing(workload, purge).await
    }

    async fn inspect(&self, workload: &WorkloadId) -> Result<Option<Thing>, Error> {
        if self.never_had(workload).await {
            return Ok(None);
        }
        self.look_at(workload).await
    }

    async fn list(&self) -> Result<Vec<Seen>, Error> {
        match self.look_at_all().await {
            // Where no machine was ever made, a libvirt that is not there hides none.
            Err(error) if error.is_unknown() && self.never_had_any().await => Ok(Vec::new()),
            answer => answer,
        }
    }

    async fn observe(&self, _probe: bool) -> Observation {
        observation(self.list().await)
    }

    async fn health(&self) -> Result<Health, Error> {
        self.feel().await
    }
}
