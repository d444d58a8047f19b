//! What is there of a stack, and how the stack is by that.
//!
//! | its containers | the stack |
//! |---|---|
//! | a service has ended that its policy starts again | exited, with that code |
//! | one is missing, or was never started | created |
//! | one is paused | paused: it is resumed as a whole |
//! | one is stuck | stuck |
//! | one runs | running |
//! | all have ended and none is started again | exited, with the first bad code or 0 |
//!
//! Where all services have one policy, that of the stack judges: then a service that must run and has ended,
//! or a one-shot that has ended badly, is the end of the stack.

use std::collections::BTreeMap;
use std::sync::Arc;

use bollard::models::{ContainerInspectResponse, ContainerSummary};
use persys_model::health::HealthState;
use persys_model::id::{RevisionId, WorkloadId};
use persys_model::token::Epoch;
use persys_node::input::{Existing, ImageHealth, Seen, ServiceEnds};

use crate::docker::identity;
use crate::docker::observe::{addresses, existing, moment, published, summary_existing};
use crate::error::Error;
use crate::runtime::{ServiceStatus, Thing};

use super::Compose;
use super::book::{Record, Shape, Version};
use super::names::{self, Mark};

/// The revision of a stack between two revisions, or of one that nothing is remembered of. It is
/// nobody's, so the wanted one is brought over it.
const NO_REVISION: &str = "unfinished";
/// How a container ended that did not say how.
const BADLY: i32 = -1;

/// One container of a stack of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) id: String,
    pub(super) mark: Mark,
    pub(super) state: Existing,
    /// Verdict of its checks; `None` where it has none.
    pub(super) health: Option<ImageHealth>,
}

impl Compose {
    /// The containers of all stacks of ours, or of one.
    pub(super) async fn pieces(&self, of: Option<&WorkloadId>) -> Result<Vec<Piece>, Error> {
        let mut labels = identity::label_filter(&self.docker.owner);
        labels.push(identity::PROJECT.to_owned());
        if let Some(workload) = of {
            labels.push(format!("{}={workload}", identity::WORKLOAD));
        }
        let mut pieces = Vec::new();
        for summary in self.docker.summaries(labels, true).await? {
            let Some(mark) = self.mark_of(&summary) else { continue };
            let Some(id) = summary.id.clone() else { continue };
            let health = self.docker.listed_health(&summary).await?;
            if let Some(state) = summary_existing(&summary) {
                pieces.push(Piece { id, mark, state, health });
            } else if let Some(state) = self.state_of(&id).await? {
                pieces.push(Piece { id, mark, state, health });
            }
        }
        // By service, and by the number in the name.
        pieces.sort_by(|a, b| (&a.mark.service, &a.id).cmp(&(&b.mark.service, &b.id)));
        Ok(pieces)
    }

    pub(super) fn mark_of(&self, summary: &ContainerSummary) -> Option<Mark> {
        let labels = summary.labels.as_ref()?;
        let mut names = summary.names.iter().flatten();
        names.find_map(|name| names::read_mark(&self.docker.owner, name, labels))
    }

    async fn state_of(&self, id: &str) -> Result<Option<Existing>, Error> {
        let Some(raw) = self.docker.inspect_raw(id).await? else { return Ok(None) };
        let state = raw.state.as_ref().and_then(existing);
        state.map(Some).ok_or_else(|| Error::Unreadable {
            verb: "inspect",
            detail: format!("container {id} is in a state we do not know"),
        })
    }

    pub(super) async fn look_at_all(&self, probe: bool) -> Result<Vec<Seen>, Error> {
        let mut pieces = self.pieces(None).await?;
        let running = pieces.iter().filter(|piece| piece.state == Existing::Running);
        let running = running.map(|piece| piece.id.clone()).collect();
        let stuck = self.docker.stuck(running, probe).await?;
        for piece in &mut pieces {
            if let Some(why) = stuck.get(&piece.id) {
                piece.state = Existing::Stuck { why: Arc::clone(why) };
            }
        }
        let mut stacks: BTreeMap<WorkloadId, Vec<Piece>> = BTreeMap::new();
        for piece in pieces {
            stacks.entry(piece.mark.workload.clone()).or_default().push(piece);
        }
        let seen = |(workload, pieces): (WorkloadId, Vec<Piece>)| {
            let record = self.book.record(&workload);
            seen(workload, &record, &pieces)
        };
        Ok(stacks.into_iter().map(seen).collect())
    }

    pub(super) async fn look_at(&self, workload: &WorkloadId) -> Result<Option<Thing>, Error> {
        let pieces = self.pieces(Some(workload)).await?;
        let Some(first) = pieces.first() else { return Ok(None) };
        let record = self.book.record(workload);
        let id = first.mark.project.clone();
        let mut thing = Thing {
            seen: seen(workload.clone(), &record, &pieces),
            id,
            started_at: None,
            finished_at: None,
            addresses: Vec::new(),
            ports: Vec::new(),
            services: Vec::new(),
        };
        let looks = pieces.iter().map(|piece| self.docker.inspect_raw(&piece.id));
        for (piece, raw) in pieces.iter().zip(futures::future::join_all(looks).await) {
            add_piece(&mut thing, piece, raw?, record.judged_by());
        }
        thing.addresses.sort_unstable();
        thing.ports.sort_unstable();
        if thing.seen.state.is_alive() {
            thing.finished_at = None;
        }
        Ok(Some(thing))
    }
}

/// The times of a stack are the latest of its containers.
fn add_piece(
    thing: &mut Thing,
    piece: &Piece,
    raw: Option<ContainerInspectResponse>,
    version: Option<&Version>,
) {
    let shape = version.and_then(|version| version.services.get(&piece.mark.service));
    thing.services.push(ServiceStatus {
        name: piece.mark.service.clone(),
        id: piece.id.clone(),
        state: piece.state.clone(),
        one_shot: shape.is_some_and(|shape| shape.one_shot),
        health: piece.running_health().cloned(),
        number: piece.mark.number.parse().unwrap_or_default(),
    });
    let Some(raw) = raw else { return };
    let state = raw.state.unwrap_or_default();
    let latest = |a: Option<String>, b: Option<String>| a.max(b);
    thing.started_at = latest(thing.started_at.take(), moment(state.started_at));
    thing.finished_at = latest(thing.finished_at.take(), moment(state.finished_at));
    let network = raw.network_settings.unwrap_or_default();
    thing.addresses.extend(addresses(network.networks));
    thing.ports.extend(published(&network.ports.unwrap_or_default()));
}

fn seen(workload: WorkloadId, record: &Record, pieces: &[Piece]) -> Seen {
    let settled = record.settled().filter(|version| is_of(version, pieces));
    let revision = settled.and_then(|version| RevisionId::new(&version.revision).ok());
    let epoch = record.judged_by().map_or(Epoch::default(), Version::epoch);
    Seen {
        workload,
        epoch,
        revision: revision.unwrap_or_else(|| RevisionId::fixed(NO_REVISION)),
        state: judge(record, pieces).0,
        services: ends(record, pieces),
        health: health(pieces),
    }
}

/// A stack is as healthy as its worst service; services without a check do not count.
pub(super) fn health(pieces: &[Piece]) -> Option<ImageHealth> {
    let verdicts = || pieces.iter().filter_map(|piece| Some((piece, piece.running_health()?)));
    let worst = [HealthState::Unhealthy, HealthState::Starting, HealthState::Healthy];
    let state =
        worst.into_iter().find(|state| verdicts().any(|(_, health)| health.state == *state))?;
    let of_it: Vec<_> = verdicts().filter(|(_, health)| health.state == state).collect();
    let mut names: Vec<&str> = of_it.iter().map(|(piece, _)| piece.mark.service.as_str()).collect();
    names.dedup();
    let detail = of_it.first().map(|(_, health)| Arc::clone(&health.detail)).unwrap_or_default();
    let blamed = if state == HealthState::Unhealthy { names.join(", ") } else { String::new() };
    Some(ImageHealth { state, blamed: Arc::from(blamed), detail })
}

impl Piece {
    /// Its verdict, while it runs.
    fn running_health(&self) -> Option<&ImageHealth> {
        self.health.as_ref().filter(|_| self.state == Existing::Running)
    }
}

/// Whether containers are of the project that a version is of.
fn is_of(version: &Version, pieces: &[Piece]) -> bool {
    pieces.iter().all(|piece| piece.mark.project == version.project)
}

/// Services that ended, where each is judged by a policy of its own.
fn ends(record: &Record, pieces: &[Piece]) -> ServiceEnds {
    if !record.judges_apart() || record.rested {
        return ServiceEnds::default();
    }
    let over = |piece: &&Piece| match piece.state {
        Existing::Exited { code } => record.is_over(&piece.mark.service, code),
        Existing::Created
        | Existing::Running
        | Existing::Paused { .. }
        | Existing::Stuck { .. } => false,
    };
    let ended = matches!(judge(record, pieces).0, Existing::Exited { .. });
    if ended && !pieces.is_empty() && pieces.iter().all(|piece| over(&piece)) {
        return ServiceEnds { over: true, failed: None };
    }
    let failed = pieces.iter().filter(over).find_map(|piece| match piece.state {
        Existing::Exited { code: 0 }
        | Existing::Created
        | Existing::Running
        | Existing::Paused { .. }
        | Existing::Stuck { .. } => None,
        Existing::Exited { code } => Some(format!(
            "service {} exited with code {code}, and its restart policy does not start it again; the \
             others go on",
            piece.mark.service
        )),
    });
    ServiceEnds { over: false, failed: failed.map(Arc::from) }
}

/// State of a stack, with the container to blame if it ended badly.
pub(super) fn judge<'a>(record: &Record, pieces: &'a [Piece]) -> (Existing, Option<&'a Piece>) {
    let version = record.judged_by();
    for piece in pieces {
        match piece.state {
            Existing::Exited { code } if !record.is_over(&piece.mark.service, code) => {
                return (Existing::Exited { code }, Some(piece));
            }
            Existing::Exited { .. }
            | Existing::Created
            | Existing::Running
            | Existing::Paused { .. }
            | Existing::Stuck { .. } => {}
        }
    }
    let started = |piece: &&Piece| piece.state != Existing::Created;
    let whole = version.is_none_or(|version| {
        version.services.iter().all(|(name, Shape { replicas, .. })| {
            let there = pieces.iter().filter(|piece| piece.mark.service == *name).filter(started);
            u32::try_from(there.count()).is_ok_and(|count| count >= *replicas)
        })
    });
    if !whole || pieces.iter().any(|piece| piece.state == Existing::Created) {
        return (Existing::Created, None);
    }
    let still = |piece: &&Piece| matches!(piece.state, Existing::Stuck { .. });
    let held = |piece: &&Piece| matches!(piece.state, Existing::Paused { .. });
    if let Some(piece) = pieces.iter().find(still).or_else(|| pieces.iter().find(held)) {
        return (piece.state.clone(), None);
    }
    if pieces.iter().any(|piece| piece.state == Existing::Running) {
        return (Existing::Running, None);
    }
    let bad = pieces.iter().find(|piece| piece.state != Existing::Exited { code: 0 });
    match bad.or(pieces.first()) {
        Some(piece) => (piece.state.clone(), Some(piece)),
        None => (Existing::Exited { code: BADLY }, None),
    }
}

/// The services that have to be started for the stack to be whole. What has done its work is not
/// done again, and what its policy gave up is not tried again.
pub(super) fn lacking(record: &Record, version: &Version, pieces: &[Piece]) -> Vec<String> {
    let well = |name: &str, shape: &Shape| {
        let mine: Vec<_> = pieces.iter().filter(|piece| piece.mark.service == name).collect();
        let whole = u32::try_from(mine.len()).is_ok_and(|count| count >= shape.replicas);
        whole
            && mine.iter().all(|piece| match piece.state {
                Existing::Running | Existing::Paused { .. } | Existing::Stuck { .. } => true,
                Existing::Exited { code } => record.is_over(name, code),
                Existing::Created => false,
            })
    };
    let lacking = version.services.iter().filter(|(name, shape)| !well(name, shape));
    lacking.map(|(name, _)| name.clone()).collect()
}

/// Those of `services` that ended.
pub(super) fn ended(services: &[String], pieces: &[Piece]) -> Vec<String> {
    let has_ended = |name: &&String| {
        let mut mine = pieces.iter().filter(|piece| piece.mark.service == **name);
        mine.any(|piece| matches!(piece.state, Existing::Exited { .. }))
    };
    services.iter().filter(has_ended).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::super::book::Again;
    use super::*;

    const RUNS: Existing = Existing::Running;
    const DONE: Existing = Existing::Exited { code: 0 };
    const DIED: Existing = Existing::Exited { code: 3 };
    const MADE: Existing = Existing::Created;
    const HELD: Existing = Existing::PAUSED;

    fn version(services: &[(&str, bool, u32)]) -> Version {
        let shape =
            |one_shot, replicas| Shape { one_shot, replicas, after: Vec::new(), again: None };
        Version {
            revision: "r1".to_owned(),
            epoch: 1,
            project: "persys-shop".to_owned(),
            services: services
                .iter()
                .map(|(name, once, many)| ((*name).to_owned(), shape(*once, *many)))
                .collect(),
            document: String::new(),
        }
    }

    fn piece(service: &str, state: Existing) -> Piece {
        let mark = Mark {
            workload: WorkloadId::fixed("shop"),
            project: "persys-shop".to_owned(),
            service: service.to_owned(),
            number: String::new(),
        };
        Piece { id: format!("id-{service}"), mark, state, health: None }
    }

    #[test]
    fn a_stack_is_as_its_services_are() {
        let version = version(&[("job", true, 1), ("web", false, 1)]);
        let rows = [
            (RUNS, RUNS, RUNS, None),
            (DONE, RUNS, RUNS, None),
            (DIED, RUNS, DIED, Some("job")),
            (DONE, DONE, DONE, Some("web")),
            (DONE, DIED, DIED, Some("web")),
            (MADE, RUNS, MADE, None),
            (DONE, MADE, MADE, None),
            (RUNS, HELD, HELD, None),
            (DONE, HELD, HELD, None),
            (HELD, DIED, DIED, Some("web")),
        ];
        for (job, web, wanted, blamed) in rows {
            let pieces = [piece("job", job.clone()), piece("web", web.clone())];
            let (state, to_blame) = judge(&Record::up(version.clone()), &pieces);
            let to_blame = to_blame.map(|piece| piece.mark.service.as_str());
            assert_eq!((state, to_blame), (wanted, blamed), "{job:?} {web:?}");
        }
        let half = [piece("web", RUNS)];
        assert_eq!(judge(&Record::up(version.clone()), &half).0, MADE, "a service is missing");
    }

    #[test]
    fn a_stack_of_jobs_has_done_its_work_when_all_ended_well() {
        let version = version(&[("a", true, 1), ("b", true, 1)]);
        let state = |a, b| judge(&Record::up(version.clone()), &[piece("a", a), piece("b", b)]).0;
        assert_eq!(state(DONE, RUNS), RUNS);
        assert_eq!(state(DONE, DONE), DONE);
        assert_eq!(state(DIED, DONE), DIED);
    }

    #[test]
    fn all_replicas_are_needed() {
        let version = version(&[("web", false, 2)]);
        assert_eq!(judge(&Record::up(version.clone()), &[piece("web", RUNS)]).0, MADE);
        assert_eq!(
            judge(&Record::up(version.clone()), &[piece("web", RUNS), piece("web", RUNS)]).0,
            RUNS
        );
    }

    #[test]
    fn only_what_lacks_is_started_while_the_rest_runs() {
        let version = version(&[("db", false, 1), ("job", true, 1), ("web", false, 1)]);
        let of = |db, job, web| {
            let pieces = [piece("db", db), piece("job", job), piece("web", web)];
            lacking(&Record::up(version.clone()), &version, &pieces)
        };
        assert_eq!(of(RUNS, DONE, DIED), ["web"], "a job that is done is not done again");
        assert_eq!(of(RUNS, DIED, DONE), ["job", "web"]);
        assert_eq!(of(DIED, DONE, DIED), ["db", "web"]);
        let record = Record::up(version.clone());
        assert_eq!(lacking(&record, &version, &[piece("db", RUNS)]), ["job", "web"]);
    }

    /// A service that is never started again, one that is twice after a failure, one that always is.
    fn mixed() -> Record {
        let mut version = version(&[("job", true, 1), ("try", true, 1), ("web", false, 1)]);
        for (name, again) in [
            ("job", Again::Never),
            ("try", Again::AfterFailure { most: 2 }),
            ("web", Again::Always),
        ] {
            version.services.get_mut(name).unwrap().again = Some(again);
        }
        Record::up(version)
    }

    fn three(job: Existing, tries: Existing, web: Existing) -> [Piece; 3] {
        [piece("job", job), piece("try", tries), piece("web", web)]
    }

    #[test]
    fn services_that_differ_are_judged_each_by_its_own_policy() {
        let mut record = mixed();
        let lacks =
            |record: &Record, pieces: &[Piece]| lacking(record, record.settled().unwrap(), pieces);
        for job in [DONE, DIED] {
            let pieces = three(job.clone(), RUNS, RUNS);
            assert_eq!(judge(&record, &pieces).0, RUNS, "the others go on");
            let pieces = three(job, RUNS, DONE);
            let (state, blamed) = judge(&record, &pieces);
            assert_eq!((state, blamed.unwrap().mark.service.as_str()), (DONE, "web"));
            assert_eq!(lacks(&record, &pieces), ["web"], "what is over is not started with it");
        }
        let failed = ends(&record, &three(DIED, RUNS, RUNS)).failed.unwrap();
        assert!(failed.contains("service job exited with code 3"), "{failed}");
        assert_eq!(ends(&record, &three(DONE, RUNS, RUNS)), ServiceEnds::default());
        // The second is started again twice, by any number of ends of the third.
        let pieces = three(DONE, DIED, RUNS);
        for starts in 0..2 {
            assert_eq!(lacks(&record, &pieces), ["try"], "{starts}");
            let ended = ended(&lacks(&record, &pieces), &pieces);
            record.restarts = record.restarts_with(Epoch(4), &ended);
        }
        assert_eq!((judge(&record, &pieces).0, lacks(&record, &pieces).len()), (RUNS, 0));
        record.restarts = record.restarts_with(Epoch(5), &[]);
        assert_eq!(lacks(&record, &pieces), ["try"], "another decision counts anew");
    }

    #[test]
    fn a_stack_is_over_when_nothing_of_it_is_started_again() {
        let mut record = mixed();
        record.good.as_mut().unwrap().services.remove("web");
        let state = |job, tries| {
            let pieces = [piece("job", job), piece("try", tries)];
            (judge(&record, &pieces).0, ends(&record, &pieces).over)
        };
        assert_eq!(state(DONE, DONE), (DONE, true));
        assert_eq!(state(DIED, DONE), (DIED, true));
        assert_eq!(state(DIED, RUNS), (RUNS, false));
        assert_eq!(state(DONE, DIED), (DIED, false), "it is started again");
        assert_eq!(state(DONE, MADE), (MADE, false));
    }

    #[test]
    fn between_two_revisions_a_stack_is_of_none() {
        let id = WorkloadId::fixed("shop");
        let good = version(&[("web", false, 1)]);
        let pieces = [piece("web", RUNS)];
        let revision = |record: &Record| seen(id.clone(), record, &pieces).revision.to_string();
        let settled = Record::up(good.clone());
        assert_eq!(revision(&settled), "r1");
        let between = Record { next: Some(good.clone()), ..Record::up(good.clone()) };
        assert_eq!(revision(&between), NO_REVISION);
        assert_eq!(revision(&Record::default()), NO_REVISION);
        let moved = Version { project: "other".to_owned(), ..good };
        assert_eq!(revision(&Record::up(moved)), NO_REVISION);
    }
}
