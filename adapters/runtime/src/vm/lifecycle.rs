//! Start, stop, remove.
//!
//! ```text
//!   find by name ── nothing ──────────────── disks, seed ── define ── start
//!        ├── ours, same revision ──────────────────────────────────── start (or resume, or nothing)
//!        ├── ours, other revision ── stop if it must ── grow disks ── define ── start
//!        └── not ours ─────────── error: whose it is; never touched
//! ```
//!
//! A machine is never made twice to change it: its disks are what it is. A new description takes
//! effect when it is started the next time, so a machine whose hardware changes is stopped in between,
//! and one whose does not goes on running.

use std::time::Duration;

use persys_libvirt::{Domain, Off, Session, State};
use persys_model::id::WorkloadId;
use persys_model::spec::VmSpec;
use persys_node::input::Existing;
use tokio::time::{Instant, timeout};

use crate::error::Error;
use crate::found::Found;
use crate::runtime::Start;

use super::disks::Power;
use super::observe::Ours;
use super::record::{Record, now_ms};
use super::{Machines, boot, call};

/// How often a machine that is about to end is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How often the power button is pressed again: a guest that has not booted yet does not hear it.
const PRESS_AGAIN: Duration = Duration::from_secs(5);

impl Machines {
    pub(super) async fn make_and_start(&self, start: &Start, vm: &VmSpec) -> Result<(), Error> {
        let _turn = self.turns.take(&start.workload).await;
        self.time_left(start)?;
        let session = self.session().await?;
        let (domain, state) = match self.find(&session, &start.workload).await? {
            Found::Foreign { name, owner } => return Err(Error::Foreign { name, owner }),
            Found::Ours(ours) if start.resume && !ours.existing().is_alive() => {
                return Err(Error::not_paused());
            }
            Found::Nothing if start.resume => return Err(Error::not_paused()),
            Found::Ours(ours) if ours.mark.revision == start.revision && ours.is_stuck() => {
                self.destroy(&session, &ours.domain).await?;
                (ours.domain, State::Off(Off::Destroyed))
            }
            Found::Ours(ours) if ours.mark.revision == start.revision => (ours.domain, ours.state),
            Found::Ours(ours) => self.bring_over(&session, start, vm, *ours).await?,
            Found::Nothing => {
                let plan = self.plan(&session, start, vm, Power::Off).await?;
                let made = self.realise(&session, &start.workload, &plan, Power::Off).await?;
                (made, State::None)
            }
        };
        self.set_going(&session, start, &domain, state).await
    }

    /// Makes the machine of another revision the one of this. Its disks stay.
    async fn bring_over(
        &self,
        session: &Session,
        start: &Start,
        vm: &VmSpec,
        ours: Ours,
    ) -> Result<(Domain, State), Error> {
        let workload = &start.workload;
        if ours.existing().is_alive() {
            // What cannot be made must not end what runs.
            let plan = self.plan(session, start, vm, Power::On).await?;
            if !self.must_restart(&plan, &ours.record).await {
                let same = self.realise(session, workload, &plan, Power::On).await?;
                return Ok((same, ours.state));
            }
            self.end(session, &ours, None).await?;
        } else if ours.state == State::Crashed || ours.is_stuck() {
            self.destroy(session, &ours.domain).await?;
        }
        let plan = self.plan(session, start, vm, Power::Off).await?;
        Ok((self.realise(session, workload, &plan, Power::Off).await?, State::None))
    }

    /// Sees to it that a defined machine runs.
    async fn set_going(
        &self,
        session: &Session,
        start: &Start,
        domain: &Domain,
        state: State,
    ) -> Result<(), Error> {
        match state {
            State::Running | State::Blocked | State::ShuttingDown | State::Asleep => {
                return Ok(());
            }
            State::Paused(_) => {
                self.time_left(start)?;
                let resumed = session.resume(domain).await;
                return resumed.map_err(|said| call::told("start", said));
            }
            State::Crashed => self.destroy(session, domain).await?,
            State::None | State::Off(_) | State::Other(_) => {}
        }
        let limit = self.time_left(start)?;
        let folder = self.folder(&start.workload);
        let before = Record::read(&folder).await;
        self.forget_picture(&start.workload).await;
        let begun = Record {
            started_ms: Some(now_ms()),
            ended: None,
            console_from: boot::mark(&folder).await,
            stuck: None,
            ..before.clone()
        };
        begun.write(&folder).await?;
        let within_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        match timeout(limit, session.start(domain)).await {
            Err(_late) => return Err(Error::NoAnswer { verb: "start", within_ms }),
            Ok(Ok(_)) => {}
            // Somebody started it meanwhile.
            Ok(Err(said)) if said.is_not_so() && self.runs(session, domain).await => {}
            Ok(Err(said)) => {
                if said.refusal().is_some() {
                    before.write(&folder).await?;
                }
                return Err(call::of_start(said));
            }
        }
        self.not_too_late(session, start, domain).await
    }

    async fn runs(&self, session: &Session, domain: &Domain) -> bool {
        matches!(session.state(domain).await, Ok(State::Running))
    }

    /// How long a start may take: as long as any, but never past the lease.
    fn time_left(&self, start: &Start) -> Result<Duration, Error> {
        let limit = self.settings.libvirt.act;
        let Some(not_after) = start.not_after else { return Ok(limit) };
        match not_after.since(self.clock.now()) {
            0 => Err(Error::TooLate { workload: start.workload.clone() }),
            left => Ok(limit.min(Duration::from_millis(left))),
        }
    }

    /// A start that came through after the lease is undone at once.
    async fn not_too_late(
        &self,
        session: &Session,
        start: &Start,
        domain: &Domain,
    ) -> Result<(), Error> {
        if start.not_after.is_none_or(|not_after| self.clock.now() < not_after) {
            return Ok(());
        }
        self.destroy(session, domain).await?;
        Err(Error::TooLate { workload: start.workload.clone() })
    }

    pub(super) async fn hold_still(&self, workload: &WorkloadId) -> Result<(), Error> {
        let _turn = self.turns.take(workload).await;
        let session = self.session().await?;
        let there = self.ours(&session, workload).await?;
        match there.filter(|ours| ours.existing().is_alive()) {
            Some(ours) if ours.existing() == Existing::PAUSED => Ok(()),
            Some(ours) => {
                session.suspend(&ours.domain).await.map_err(|said| call::told("pause", said))
            }
            None => Err(Error::Refused { verb: "pause", detail: "it does not run".to_owned() }),
        }
    }

    pub(super) async fn let_end(
        &self,
        workload: &WorkloadId,
        within: Option<Duration>,
    ) -> Result<(), Error> {
        let _turn = self.turns.take(workload).await;
        if self.never_had(workload).await {
            return Ok(());
        }
        let session = self.session().await?;
        let Some(ours) = self.ours(&session, workload).await? else { return Ok(()) };
        self.end(&session, &ours, within).await
    }

    /// Presses the power button, waits for as long as its own grace or `within` if that is shorter, and
    /// pulls the plug.
    async fn end(
        &self,
        session: &Session,
        ours: &Ours,
        within: Option<Duration>,
    ) -> Result<(), Error> {
        let own = ours.mark.stop_grace_ms.map_or(self.settings.stop_grace, Duration::from_millis);
        let grace = within.map_or(own, |within| within.min(own));
        let domain = &ours.domain;
        if ours.is_stuck() {
            return self.destroy(session, domain).await;
        }
        match ours.state {
            State::Off(_) => return Ok(()),
            // It is held as it crashed; there is nobody to hear the button.
            State::Crashed => return self.destroy(session, domain).await,
            State::Paused(_) => {
                session.resume(domain).await.map_err(|said| call::told("stop", said))?;
            }
            State::Running
            | State::Blocked
            | State::ShuttingDown
            | State::Asleep
            | State::None
            | State::Other(_) => {}
        }
        let deadline = Instant::now() + grace;
        let mut press = Instant::now();
        while Instant::now() < deadline {
            if Instant::now() >= press {
                press = Instant::now() + PRESS_AGAIN;
                match session.shutdown(domain).await {
                    Ok(()) => {}
                    Err(said) if said.is_not_so() || said.is_not_found() => {}
                    Err(said) => return Err(call::told("stop", said)),
                }
            }
            match session.state(domain).await {
                Ok(State::Off(_)) => return self.note_end(session, ours).await,
                Ok(State::Crashed) => break,
                Ok(_) => {}
                Err(said) if said.is_not_found() => return Ok(()),
                Err(said) => return Err(call::told("stop", said)),
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        self.destroy(session, domain).await?;
        self.note_end(session, ours).await
    }

    /// Looks at it once more, which writes down how it ended.
    async fn note_end(&self, session: &Session, ours: &Ours) -> Result<(), Error> {
        self.ours(session, &ours.mark.workload).await.map(|_looked| ())
    }

    /// Ends a machine at once. One that is off already is as it should be.
    async fn destroy(&self, session: &Session, domain: &Domain) -> Result<(), Error> {
        match session.destroy(domain).await {
            Ok(()) => Ok(()),
            Err(said) if said.is_not_so() || said.is_not_found() => Ok(()),
            Err(said) => Err(call::told("stop", said)),
        }
    }

    pub(super) async fn leave_nothing(
        &self,
        workload: &WorkloadId,
        purge: bool,
    ) -> Result<(), Error> {
        let _turn = self.turns.take(workload).await;
        if self.never_had(workload).await {
            return Ok(());
        }
        let session = self.session().await?;
        match self.find(&session, workload).await? {
            Found::Foreign { .. } => return Ok(()),
            Found::Nothing => {}
            Found::Ours(ours) => {
                self.end(&session, &ours, None).await?;
                // What nobody could ask is ended all the same.
                self.destroy(&session, &ours.domain).await?;
                match session.undefine(&ours.domain).await {
                    Ok(()) => {}
                    Err(said) if said.is_not_found() => {}
                    Err(said) => return Err(call::told("remove", said)),
                }
            }
        }
        self.clear(workload, purge).await
    }

    /// Whether there is certainly nothing of this workload here: libvirt is not on this node, and
    /// no folder was ever made for it. Then what is asked is so already, whatever kind it is of.
    pub(super) async fn never_had(&self, workload: &WorkloadId) -> bool {
        let folder = self.folder(workload);
        let had = tokio::fs::try_exists(&folder).await.unwrap_or(true);
        !had && self.client.session().await.is_err()
    }

    /// Whether no machine was ever made here.
    pub(super) async fn never_had_any(&self) -> bool {
        match tokio::fs::read_dir(&self.disks.storage().home).await {
            Ok(mut entries) => matches!(entries.next_entry().await, Ok(None)),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        }
    }
}
