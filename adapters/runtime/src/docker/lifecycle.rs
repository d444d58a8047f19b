//! Start, stop, remove.
//!
//! ```text
//!   find by name ── nothing ──────────── create ── start by id
//!        ├── ours, same revision ──────────────── start by id (or unpause, or nothing to do)
//!        ├── ours, other revision ─── error: remove it first
//!        └── not ours ─────────────── error: whose it is; never touched
//! ```

use std::time::Duration;

use bollard::query_parameters::{
    CreateContainerOptionsBuilder, KillContainerOptionsBuilder, ListContainersOptionsBuilder,
    RemoveContainerOptionsBuilder, StartContainerOptions, StopContainerOptionsBuilder,
};
use persys_model::id::WorkloadId;
use persys_model::secret::Signal;
use persys_model::spec::fill::VERSIONS;
use persys_model::spec::{ContainerSpec, HostPort, Protocol, STOP_GRACE_MS};
use persys_node::input::Existing;
use tokio::time::Instant;

use crate::error::Error;
use crate::found::Found;
use crate::runtime::Start;

use super::call::{self, No, Reply};
use super::observe::Ours;
use super::refusal::{self, Refusal};
use super::{Docker, holder, identity, shape};

/// How often something that is just being made or removed is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl Docker {
    pub(super) async fn make_and_start(
        &self,
        start: &Start,
        container: &ContainerSpec,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + self.settings.deadlines.act;
        if start.resume {
            self.is_there_to_resume(start).await?;
        }
        loop {
            let (id, paused) = match self.have(start, container).await? {
                Have::Runs => return Ok(()),
                Have::Paused(id) => (id, true),
                Have::Rests(id) => (id, false),
            };
            match self.set_going(start, &id, paused).await? {
                Reply::Yes(()) => return self.not_too_late(start, &id).await,
                // Somebody is removing it: it is gone soon, and then another one is made.
                Reply::No(no) if refusal::is_going(&no) && Instant::now() < deadline => {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                Reply::No(no) => return Err(self.explain("start", container, no).await),
            }
        }
    }

    /// A container that ended while it was paused is not started again: that is another decision.
    async fn is_there_to_resume(&self, start: &Start) -> Result<(), Error> {
        let ours = self.ours(&start.workload).await?;
        let alive = ours.is_some_and(|ours| ours.seen.state.is_alive());
        if alive { Ok(()) } else { Err(Error::not_paused()) }
    }

    async fn set_going(&self, start: &Start, id: &str, paused: bool) -> Result<Reply<()>, Error> {
        let limit = self.time_left(start)?;
        let client = self.client()?;
        if paused {
            return call::ask("start", limit, client.unpause_container(id)).await;
        }
        let options = None::<StartContainerOptions>;
        call::ask("start", limit, client.start_container(id, options)).await
    }

    /// Sees to it that the container exists, in this revision.
    ///
    /// Docker reserves a name before it shows the container: an earlier request of ours that it
    /// still works on, or somebody else's, has the name and cannot be looked at yet.
    async fn have(&self, start: &Start, container: &ContainerSpec) -> Result<Have, Error> {
        let limit = self.settings.deadlines.act;
        let deadline = Instant::now() + limit;
        loop {
            match self.find(&start.workload).await? {
                Found::Ours(ours) if outdated(container, &ours) => {
                    // A start with new values is a new container: its variables cannot change.
                    self.remove_by_id(&ours.id).await?;
                    self.adopted.forget(&start.workload);
                    continue;
                }
                Found::Ours(ours) => return usable(start, *ours),
                Found::Foreign { name, owner } => return Err(Error::Foreign { name, owner }),
                Found::Nothing if self.adopt(start, container).await? => continue,
                Found::Nothing => {}
            }
            if let Some(id) = self.create(start, container).await? {
                return Ok(Have::Rests(id));
            }
            if Instant::now() >= deadline {
                return Err(call::no_answer("create", limit));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Makes the container; `None` if its name was taken meanwhile.
    async fn create(
        &self,
        start: &Start,
        container: &ContainerSpec,
    ) -> Result<Option<String>, Error> {
        let mut body = shape::body(&self.owner, &self.settings, start, container)?;
        self.bound_layer(&start.spec, &mut body).await;
        let name = identity::name_of(&self.settings.name_prefix, &start.workload);
        let options = CreateContainerOptionsBuilder::default().name(&name).build();
        let client = self.client()?;
        let call = client.create_container(Some(options), body);
        match call::ask("create", self.settings.deadlines.act, call).await? {
            Reply::Yes(created) => Ok(Some(created.id)),
            Reply::No(No { status: 409, .. }) => Ok(None),
            // It is tried again without a bound, and what is written is watched instead.
            Reply::No(no) if self.quota.refused(&no) => Ok(None),
            Reply::No(no) => Err(self.explain("create", container, no).await),
        }
    }

    /// How long a start may take: as long as any, but never past the lease.
    fn time_left(&self, start: &Start) -> Result<Duration, Error> {
        self.time_within(start, self.settings.deadlines.act)
    }

    /// The part of `limit` that the lease of `start` leaves.
    pub(crate) fn time_within(&self, start: &Start, limit: Duration) -> Result<Duration, Error> {
        let Some(not_after) = start.not_after else { return Ok(limit) };
        match not_after.since(self.clock.now()) {
            0 => Err(Error::TooLate { workload: start.workload.clone() }),
            left => Ok(limit.min(Duration::from_millis(left))),
        }
    }

    /// A start that came through after the lease is undone at once.
    async fn not_too_late(&self, start: &Start, id: &str) -> Result<(), Error> {
        if start.not_after.is_none_or(|not_after| self.clock.now() < not_after) {
            return Ok(());
        }
        self.stop_by_id(id, Some(Duration::ZERO)).await?;
        Err(Error::TooLate { workload: start.workload.clone() })
    }

    pub(super) async fn hold_still(&self, workload: &WorkloadId) -> Result<(), Error> {
        match self.ours(workload).await? {
            Some(ours) if ours.seen.state == Existing::PAUSED => Ok(()),
            Some(ours) if ours.seen.state.is_alive() => self.pause_by_id(&ours.id).await,
            Some(_) | None => {
                Err(Error::Refused { verb: "pause", detail: "it does not run".to_owned() })
            }
        }
    }

    pub(crate) async fn pause_by_id(&self, id: &str) -> Result<(), Error> {
        let client = self.client()?;
        match call::ask("pause", self.settings.deadlines.act, client.pause_container(id)).await? {
            Reply::Yes(()) => Ok(()),
            // Somebody was faster, or it has ended: whoever looks next sees which.
            Reply::No(no) if no.message.contains("already paused") => Ok(()),
            Reply::No(no) => Err(Error::Refused { verb: "pause", detail: no.message }),
        }
    }

    pub(crate) async fn signal_by_id(&self, id: &str, signal: Signal) -> Result<(), Error> {
        let options = KillContainerOptionsBuilder::default().signal(signal.word()).build();
        let client = self.client()?;
        let call = client.kill_container(id, Some(options));
        match call::ask("signal", self.settings.deadlines.act, call).await? {
            Reply::Yes(()) => Ok(()),
            Reply::No(no) => Err(Error::Refused { verb: "signal", detail: no.message }),
        }
    }

    pub(crate) async fn resume_by_id(&self, id: &str, limit: Duration) -> Result<(), Error> {
        let client = self.client()?;
        match call::ask("resume", limit, client.unpause_container(id)).await? {
            Reply::Yes(()) => Ok(()),
            Reply::No(no) if no.message.contains("is not paused") => Ok(()),
            Reply::No(no) => Err(Error::Refused { verb: "resume", detail: no.message }),
        }
    }

    pub(super) async fn let_end(
        &self,
        workload: &WorkloadId,
        within: Option<Duration>,
    ) -> Result<(), Error> {
        match self.ours(workload).await? {
            Some(ours) if ours.seen.state.is_alive() => self.stop_by_id(&ours.id, within).await,
            Some(_) | None => Ok(()),
        }
    }

    /// Asks a container to end by its own signal, and ends it when its own grace is over, or `within`
    /// if that is shorter.
    pub(crate) async fn stop_by_id(&self, id: &str, within: Option<Duration>) -> Result<(), Error> {
        let own = self.grace_of(id).await?;
        self.end_by_id(id, within.map_or(own, |within| within.min(own))).await
    }

    /// The grace a container was made with.
    async fn grace_of(&self, id: &str) -> Result<Duration, Error> {
        let Some(raw) = self.inspect_raw(id).await? else { return Ok(Duration::ZERO) };
        let seconds = raw.config.and_then(|config| config.stop_timeout);
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Ok(seconds.map_or(Duration::from_millis(STOP_GRACE_MS), Duration::from_secs))
    }

    /// Asks a container to end, and ends it after `grace`.
    pub(super) async fn end_by_id(&self, id: &str, grace: Duration) -> Result<(), Error> {
        // Docker counts whole seconds; a part of one is given whole.
        let seconds = grace.as_secs().saturating_add(u64::from(grace.subsec_nanos() > 0));
        let seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
        let options = StopContainerOptionsBuilder::default().t(seconds).build();
        let limit = self.settings.deadlines.act.saturating_add(grace);
        let client = self.client()?;
        match call::ask("stop", limit, client.stop_container(id, Some(options))).await? {
            Reply::Yes(()) | Reply::No(No { status: 404, .. }) => Ok(()),
            Reply::No(no) => Err(Error::Refused { verb: "stop", detail: no.message }),
        }
    }

    /// Removes a container that has been asked to end, whatever it does. Its volumes stay, also those
    /// that its image asked for without a name: what is in them is data, and nobody said that it may go.
    pub(crate) async fn remove_by_id(&self, id: &str) -> Result<(), Error> {
        let deadline = Instant::now() + self.settings.deadlines.act;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let options = RemoveContainerOptionsBuilder::default().force(true).build();
            let client = self.client()?;
            let call = client.remove_container(id, Some(options));
            match call::ask("remove", left, call).await? {
                Reply::Yes(()) | Reply::No(No { status: 404, .. }) => return Ok(()),
                // Somebody else is removing it already; it is gone when it is gone.
                Reply::No(No { status: 409, .. }) if left > LOOK_AGAIN => {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                Reply::No(no) => return Err(Error::Refused { verb: "remove", detail: no.message }),
            }
        }
    }

    pub(super) async fn leave_nothing(&self, workload: &WorkloadId) -> Result<(), Error> {
        match self.ours(workload).await? {
            Some(ours) => {
                if ours.seen.state.is_alive() {
                    self.stop_by_id(&ours.id, None).await?;
                }
                self.remove_by_id(&ours.id).await?;
                self.adopted.forget(workload);
                Ok(())
            }
            None => Ok(()),
        }
    }

    async fn explain(&self, verb: &'static str, container: &ContainerSpec, no: No) -> Error {
        self.explained(verb, &container.image, &container.host_ports(), no).await
    }

    /// What a refusal to make or start something with `ports` from `image` means.
    pub(crate) async fn explained(
        &self,
        verb: &'static str,
        image: &str,
        ports: &[HostPort],
        no: No,
    ) -> Error {
        let words = no.message.clone();
        match refusal::of_start(verb, image, no) {
            Refusal::Other(error) => error,
            Refusal::Port(None) => Error::Network { detail: words },
            Refusal::Port(Some(port)) => {
                let known = ports.iter().copied().find(|host| host.port == port);
                let holder = self.holder_of(port, known).await;
                let port = known.map_or_else(|| port.to_string(), |host| host.to_string());
                Error::PortTaken { port, holder }
            }
        }
    }

    /// Who has `port`: the container that published it, or the process that listens on it.
    async fn holder_of(&self, port: u16, known: Option<HostPort>) -> String {
        if let Some(name) = self.publisher_of(port).await {
            return format!("the container {name}");
        }
        // The ports of a daemon elsewhere are not those of this host.
        let here = self.settings.host.starts_with("unix://");
        let protocol = known.map_or(Protocol::Tcp, |host| host.protocol);
        let look = tokio::task::spawn_blocking(move || here.then(|| holder::of(port, protocol)));
        let found = look.await.ok().flatten().flatten();
        found.unwrap_or_else(|| "a process that is no container".to_owned())
    }

    /// The container that has published `port`, if there is one and Docker says so in time.
    async fn publisher_of(&self, port: u16) -> Option<String> {
        let options = ListContainersOptionsBuilder::default().build();
        let client = self.client().ok()?;
        let call = client.list_containers(Some(options));
        let Ok(Reply::Yes(all)) = call::ask("list", self.settings.deadlines.ask, call).await else {
            return None;
        };
        let holder = all.into_iter().find(|summary| {
            summary.ports.iter().flatten().any(|published| published.public_port == Some(port))
        })?;
        let name = holder.names?.into_iter().next()?;
        Some(name.trim_start_matches('/').to_owned())
    }
}

/// What there is to start.
enum Have {
    /// Nothing: it runs.
    Runs,
    /// A container somebody froze.
    Paused(String),
    /// A container that does not run.
    Rests(String),
}

/// Whether a container that rests was made with other versions of its secrets.
fn outdated(container: &ContainerSpec, ours: &Ours) -> bool {
    let labels = ours.raw.config.as_ref().and_then(|config| config.labels.as_ref());
    let made_with = labels.and_then(|labels| labels.get(VERSIONS)).map(String::as_str);
    let wanted = container.labels.get(VERSIONS).map(|versions| &**versions);
    !ours.seen.state.is_alive() && made_with != wanted
}

fn usable(start: &Start, ours: Ours) -> Result<Have, Error> {
    if ours.seen.revision != start.revision {
        let workload = start.workload.clone();
        return Err(Error::OtherRevision { workload, found: ours.seen.revision });
    }
    match ours.seen.state {
        Existing::Paused { .. } => Ok(Have::Paused(ours.id)),
        Existing::Running | Existing::Stuck { .. } => Ok(Have::Runs),
        Existing::Created | Existing::Exited { .. } => Ok(Have::Rests(ours.id)),
    }
}
