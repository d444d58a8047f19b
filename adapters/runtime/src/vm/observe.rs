//! What is there: one machine, all of them, and libvirt itself.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use persys_libvirt::{AddressSource, Domain, Groups, Hold, Off, Session, State};
use persys_model::id::WorkloadId;
use persys_model::spec::Class;
use persys_node::input::{Existing, Seen, ServiceEnds};
use tokio::time::timeout;

use crate::error::Error;
use crate::found::Found;
use crate::runtime::{Health, Thing};

use super::identity::{self, Mark};
use super::record::{Ended, Record, moment, now_ms};
use super::xml::Element;
use super::{Machines, boot, call};

/// How many machines are asked about at a time.
const AT_A_TIME: usize = 16;
/// How long the agent in a guest may take: it runs in the guest's time, not in ours.
const GUEST: Duration = Duration::from_secs(2);

/// Exit codes, in the way of containers: 128 and the signal that would have done the same.
const CRASHED: i32 = 1;
const DESTROYED: i32 = 137;
const NOBODY_SAW: i32 = 255;

/// One of our machines.
#[derive(Debug)]
pub(super) struct Ours {
    pub(super) domain: Domain,
    pub(super) mark: Mark,
    pub(super) state: State,
    pub(super) record: Record,
}

impl Ours {
    fn seen(&self) -> Seen {
        Seen {
            workload: self.mark.workload.clone(),
            epoch: self.mark.epoch,
            revision: self.mark.revision.clone(),
            state: existing(self.state, &self.record),
            services: ServiceEnds::default(),
            health: None,
        }
    }

    pub(super) fn existing(&self) -> Existing {
        existing(self.state, &self.record)
    }

    /// True while its emulator runs, even if its boot failed: its disks are in use.
    pub(super) fn has_emulator(&self) -> bool {
        exit_code(self.state).is_none()
    }

    /// True if its boot failed and its emulator is kept as it was.
    pub(super) fn is_stuck(&self) -> bool {
        self.has_emulator() && self.record.stuck.is_some()
    }
}

impl Machines {
    /// An open session with libvirt.
    pub(super) async fn session(&self) -> Result<Session, Error> {
        self.client.session().await.map_err(|said| call::told("connect", said))
    }

    /// Looks at what has the name of this workload's machine.
    pub(super) async fn find(
        &self,
        session: &Session,
        workload: &WorkloadId,
    ) -> Result<Found<Ours>, Error> {
        let name = identity::name_of(&self.settings.name_prefix, workload);
        let found = session.domain(&name).await.map_err(|said| call::told("inspect", said))?;
        match found {
            Some(domain) => self.judge(session, domain, None).await,
            None => Ok(Found::Nothing),
        }
    }

    /// One of our machines, or nothing: what is not ours is nothing to us.
    pub(super) async fn ours(
        &self,
        session: &Session,
        workload: &WorkloadId,
    ) -> Result<Option<Ours>, Error> {
        Ok(self.find(session, workload).await?.ours())
    }

    /// Whose a domain is, and how it is if it is ours.
    async fn judge(
        &self,
        session: &Session,
        domain: Domain,
        state: Option<State>,
    ) -> Result<Found<Ours>, Error> {
        // Somebody may undefine it between two questions.
        let text = match session.xml(&domain, true).await {
            Ok(text) => text,
            Err(said) if said.is_not_found() => return Ok(Found::Nothing),
            Err(said) => return Err(call::told("inspect", said)),
        };
        let tree = Element::read(&text).map_err(|error| Error::Unreadable {
            verb: "inspect",
            detail: format!("{}: {error}", domain.name),
        })?;
        let Some(mark) = identity::mark_of(&self.owner, &self.settings.name_prefix, &tree) else {
            return Ok(Found::Foreign { owner: identity::owner_of(&tree), name: domain.name });
        };
        let state = match state {
            Some(state) => state,
            None => match session.state(&domain).await {
                Ok(state) => state,
                Err(said) if said.is_not_found() => return Ok(Found::Nothing),
                Err(said) => return Err(call::told("inspect", said)),
            },
        };
        let record = self.keep_end(&mark.workload, state).await;
        Ok(Found::Ours(Box::new(Ours { domain, mark, state, record })))
    }

    /// The record of a machine; an end that is seen for the first time is written there, because
    /// libvirt forgets it when it is restarted.
    async fn keep_end(&self, workload: &WorkloadId, state: State) -> Record {
        let folder = self.folder(workload);
        let mut record = Record::read(&folder).await;
        if record.started_ms.is_none() || record.ended.is_some() {
            return record;
        }
        let now = now_ms();
        let mut code = exit_code(state);
        if code.is_none() {
            record.stuck = failed_boot(&folder, &record, now).await;
            code = record.stuck.as_ref().map(|_| CRASHED);
        }
        if let Some(code) = code {
            record.ended = Some(Ended { at_ms: now, code });
            // Whoever looks next sees the same and tries again.
            let _unwritten = record.write(&folder).await;
        }
        record
    }

    pub(super) async fn look_at(&self, workload: &WorkloadId) -> Result<Option<Thing>, Error> {
        let session = self.session().await?;
        let Some(ours) = self.ours(&session, workload).await? else { return Ok(None) };
        let seen = ours.seen();
        let runs = seen.state.is_alive();
        let addresses = if runs { addresses(&session, &ours).await } else { Vec::new() };
        let ended = ours.record.ended.filter(|_| !runs);
        Ok(Some(Thing {
            seen,
            id: uuid_text(&ours.domain.uuid),
            started_at: ours.record.started_ms.map(moment),
            finished_at: ended.map(|ended| moment(ended.at_ms)),
            addresses,
            ports: Vec::new(),
            services: Vec::new(),
        }))
    }

    /// Everything of ours: one question for how all machines are, then one for each whose name could
    /// be ours.
    pub(super) async fn all(&self) -> Result<Vec<Ours>, Error> {
        let session = self.session().await?;
        let listed = session.stats(Groups::STATE).await.map_err(|said| call::told("list", said))?;
        let prefix = &self.settings.name_prefix;
        let maybe = listed.into_iter().filter(|stats| stats.domain.name.starts_with(&**prefix));
        let looks = maybe.map(|one| (one.state(), one.domain));
        let looks = looks.map(|(state, domain)| self.judge(&session, domain, state));
        let found: Vec<_> = stream::iter(looks).buffer_unordered(AT_A_TIME).collect().await;
        let mut all = Vec::new();
        for found in found {
            if let Found::Ours(ours) = found? {
                all.push(*ours);
            }
        }
        all.sort_by(|a, b| a.mark.workload.cmp(&b.mark.workload));
        Ok(all)
    }

    pub(super) async fn look_at_all(&self) -> Result<Vec<Seen>, Error> {
        let all = self.all().await?;
        self.guests.keep(&all);
        let session = self.session().await?;
        let looks = all.into_iter().map(|ours| self.checked(&session, ours));
        Ok(stream::iter(looks).buffered(AT_A_TIME).collect().await)
    }

    /// One machine with the verdict of the agent in its guest.
    async fn checked(&self, session: &Session, ours: Ours) -> Seen {
        let health = self.guests.ping(session, &ours).await;
        Seen { health, ..ours.seen() }
    }

    /// What a watchdog must know.
    pub(super) async fn exclusive_work(&self) -> Result<Vec<WorkloadId>, Error> {
        let all = self.all().await?.into_iter();
        let alone = all.filter(|ours| ours.mark.class == Class::Exclusive && ours.has_emulator());
        Ok(alone.map(|ours| ours.mark.workload).collect())
    }

    pub(super) async fn feel(&self) -> Result<Health, Error> {
        let session = self.session().await?;
        let told = |said| call::told("health", said);
        let library = session.lib_version().await.map_err(told)?;
        let emulator = session.version().await.map_err(told)?;
        let version = format!("libvirt {library}, QEMU {emulator}");
        let warnings = self.slow(&session).into_iter().collect();
        Ok(Health { version, warnings })
    }
}

/// Addresses of a machine: those it was given for good and those networks lent it; without any, those its
/// own agent reports. None of them has to know.
async fn addresses(session: &Session, ours: &Ours) -> Vec<IpAddr> {
    let mut all = ours.record.addresses.clone();
    for source in [AddressSource::Lease, AddressSource::Agent] {
        if source == AddressSource::Agent && !all.is_empty() {
            break;
        }
        if let Ok(Ok(cards)) = timeout(GUEST, session.cards(&ours.domain, source)).await {
            all.extend(cards.into_iter().flat_map(|card| card.addresses).filter(reachable));
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Not the guest's own loopback, nor what only its neighbours on the wire can use.
fn reachable(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local() && !v4.is_unspecified(),
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local() && !v6.is_unspecified(),
    }
}

/// Words for a boot that failed, of a machine that libvirt says runs.
async fn failed_boot(folder: &Path, record: &Record, now_ms: u64) -> Option<String> {
    let since = Duration::from_millis(now_ms.saturating_sub(record.started_ms?));
    if since > boot::WINDOW {
        return None;
    }
    boot::sign(folder, record.console_from).await.map(str::to_owned)
}

/// A machine that libvirt holds for a moment, to save or move it, runs. One whose boot
/// failed for good has ended, though its emulator is kept for whoever wants to look.
fn existing(state: State, record: &Record) -> Existing {
    let known = record.ended.map(|ended| ended.code);
    match exit_code(state) {
        None if record.stuck.is_some() => Existing::Exited { code: known.unwrap_or(CRASHED) },
        None => match state {
            State::Paused(Hold::User) => Existing::PAUSED,
            State::Paused(hold) => match hold.fault() {
                Some(fault) => Existing::Paused { fault: Some(Arc::from(fault)) },
                None => Existing::Running,
            },
            State::Running
            | State::Blocked
            | State::ShuttingDown
            | State::Asleep
            | State::None
            | State::Other(_)
            | State::Off(_)
            | State::Crashed => Existing::Running,
        },
        // libvirt says so of a machine that never ran, and of every one after its own restart.
        Some(_) if record.started_ms.is_none() && state == State::Off(Off::Unknown) => {
            Existing::Created
        }
        Some(code) => Existing::Exited { code: known.unwrap_or(code) },
    }
}

/// The end that a state stands for; `None` while it runs.
fn exit_code(state: State) -> Option<i32> {
    match state {
        State::Running
        | State::Blocked
        | State::Paused(_)
        | State::ShuttingDown
        | State::Asleep
        | State::None
        | State::Other(_) => None,
        State::Crashed => Some(CRASHED),
        State::Off(Off::Shutdown | Off::Saved | Off::Migrated | Off::Snapshot) => Some(0),
        State::Off(Off::Crashed | Off::Failed) => Some(CRASHED),
        State::Off(Off::Destroyed) => Some(DESTROYED),
        State::Off(Off::Unknown | Off::Daemon | Off::Other(_)) => Some(NOBODY_SAW),
    }
}

/// As people write it.
fn uuid_text(uuid: &[u8; 16]) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(*uuid));
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(ended: Option<i32>) -> Record {
        let ended = ended.map(|code| Ended { at_ms: 2, code });
        Record { started_ms: Some(1), ended, ..Record::default() }
    }

    #[test]
    fn an_end_is_good_only_if_the_guest_went_down() {
        let code = |off| existing(State::Off(off), &ran(None));
        assert_eq!(code(Off::Shutdown), Existing::Exited { code: 0 });
        assert_eq!(code(Off::Destroyed), Existing::Exited { code: 137 });
        assert_eq!(code(Off::Crashed), Existing::Exited { code: 1 });
        assert_eq!(existing(State::Crashed, &ran(None)), Existing::Exited { code: 1 });
        let moved = State::Paused(Hold::Passing);
        for state in [State::Running, moved, State::ShuttingDown, State::Blocked] {
            assert_eq!(existing(state, &ran(Some(3))), Existing::Running, "{state:?}");
        }
    }

    #[test]
    fn a_machine_that_is_stuck_in_its_boot_has_ended() {
        let stuck = Record { stuck: Some("nothing to boot".to_owned()), ..ran(Some(1)) };
        for state in [State::Running, State::Blocked, State::Off(Off::Destroyed)] {
            assert_eq!(existing(state, &stuck), Existing::Exited { code: 1 }, "{state:?}");
        }
    }

    #[test]
    fn what_libvirt_forgot_is_remembered() {
        let forgot = State::Off(Off::Unknown);
        assert_eq!(existing(forgot, &Record::default()), Existing::Created);
        assert_eq!(existing(forgot, &ran(Some(0))), Existing::Exited { code: 0 });
        assert_eq!(existing(forgot, &ran(None)), Existing::Exited { code: 255 }, "nobody saw it");
        let ended = State::Off(Off::Destroyed);
        assert_eq!(
            existing(ended, &ran(Some(1))),
            Existing::Exited { code: 1 },
            "it crashed first"
        );
    }

    #[test]
    fn only_addresses_of_use_are_told() {
        for (text, use_of) in [
            ("192.168.122.7", true),
            ("127.0.0.1", false),
            ("169.254.3.4", false),
            ("fe80::1", false),
            ("::1", false),
            ("2001:db8::7", true),
        ] {
            assert_eq!(reachable(&text.parse().unwrap()), use_of, "{text}");
        }
    }

    #[test]
    fn a_uuid_is_written_in_five_parts() {
        let uuid = [0xca, 0x97, 0xcd, 0xee, 0x7b, 0x3d, 0x81, 0xe7, 0xab, 0x50, 1, 2, 3, 4, 5, 6];
        assert_eq!(uuid_text(&uuid), "ca97cdee-7b3d-81e7-ab50-010203040506");
    }
}
