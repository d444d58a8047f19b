//! Starting a stack: as one unit, or back to the last good version of it.
//!
//! ```text
//!   all there in this revision ─────────────────────────────── nothing to do
//!   this revision, something lacks ── up, what lacks
//!   another revision, or nothing ──── next on disk ── up ──┬── next is the good one
//!                                                          ├── failed: up with the good one
//!                                                          │          (none: all of it removed)
//!                                                          └── no answer: next stays next
//! ```
//!
//! Images are looked for before anything is touched, so that the program never fetches any itself:
//! it would know nothing of our credentials, and would have stopped half the stack by then.

use std::path::PathBuf;
use std::time::Duration;

use futures::future::join;
use persys_compose::{Document, Marks, Protocol};
use persys_model::id::WorkloadId;
use persys_model::spec::{self, HostPort, Kind};
use persys_node::input::Existing;

use crate::docker::call;
use crate::docker::identity;
use crate::error::Error;
use crate::process::{Ended, ProcessError};
use crate::runtime::{Refresh, Start};

use super::book::{self, Record, Version};
use super::observe::{Piece, ended, judge, lacking};
use super::program::Program;
use super::{Compose, document_of, names, program, stack_of, words};

impl Compose {
    pub(super) async fn bring_up(&self, start: &Start) -> Result<(), Error> {
        let record = self.book.record(&start.workload);
        let (project, pieces) = self.project(start, &record).await?;
        let same = record.settled().filter(|version| {
            version.revision == start.revision.as_str() && version.project == project
        });
        let settled = same.filter(|_| !pieces.is_empty());
        if start.resume && !(settled.is_some() && judge(&record, &pieces).0.is_alive()) {
            return Err(Error::not_paused());
        }
        if let Some(version) = settled {
            match judge(&record, &pieces).0 {
                Existing::Running | Existing::Stuck { .. } => return Ok(()),
                Existing::Paused { .. } => return self.resume(start, &pieces).await,
                Existing::Created | Existing::Exited { .. } => {}
            }
            // All of it, if we stopped it, or if it has done its work and is to do it again.
            let services =
                if record.rested { Vec::new() } else { lacking(&record, version, &pieces) };
            let restarts = record.restarts_with(start.epoch, &ended(&services, &pieces));
            let counted = Record { restarts, ..Record::clone(&record) };
            if counted != *record {
                self.book.keep(&start.workload, counted.clone()).await?;
            }
            return self.repair(start, counted, version, &services).await;
        }
        let document = document_of(stack_of(&start.spec)?)?;
        self.has_images(&document).await?;
        self.docker.time_within(start, self.settings.up)?;
        let version = self.version(start, project, &document);
        // What is not there cannot be gone back to.
        let good = record.good.clone().filter(|_| !pieces.is_empty());
        self.renew(start, good, version, &document).await
    }

    /// Pauses every container that runs. Those that have done their work stay as they are.
    pub(super) async fn hold_still(&self, workload: &WorkloadId) -> Result<(), Error> {
        let pieces = self.pieces(Some(workload)).await?;
        if !pieces.iter().any(|piece| piece.state.is_alive()) {
            return Err(Error::Refused { verb: "pause", detail: "it does not run".to_owned() });
        }
        for piece in pieces.iter().filter(|piece| piece.state == Existing::Running) {
            self.docker.pause_by_id(&piece.id).await?;
        }
        Ok(())
    }

    /// Signals the services that see what changed. Those that have done their work see nothing any more.
    pub(super) async fn signal_services(&self, refresh: &Refresh) -> Result<(), Error> {
        let document = document_of(stack_of(&refresh.spec)?)?;
        let signals =
            document.signals(|name| refresh.changed.iter().any(|one| one.as_str() == name));
        let pieces = self.pieces(Some(&refresh.workload)).await?;
        let refused = || Error::Refused { verb: "signal", detail: "it does not run".to_owned() };
        if !pieces.iter().any(|piece| piece.state.is_alive()) {
            return Err(refused());
        }
        for piece in pieces.iter().filter(|piece| piece.state.is_alive()) {
            let service = &*piece.mark.service;
            for signal in signals.get(service).into_iter().flatten() {
                let sent = match piece.state {
                    Existing::Running => self.docker.signal_by_id(&piece.id, *signal).await,
                    Existing::Created
                    | Existing::Paused { .. }
                    | Existing::Stuck { .. }
                    | Existing::Exited { .. } => Err(refused()),
                };
                sent.map_err(|cause| words::in_service(Some(service), cause))?;
            }
        }
        Ok(())
    }

    /// Resumes every container that is paused.
    async fn resume(&self, start: &Start, pieces: &[Piece]) -> Result<(), Error> {
        let limit = self.docker.time_within(start, self.docker.settings.deadlines.act)?;
        for piece in pieces.iter().filter(|piece| piece.state == Existing::PAUSED) {
            self.docker.resume_by_id(&piece.id, limit).await?;
        }
        self.not_too_late(start).await
    }

    /// The project of this stack, and its containers; an error if others are in that project.
    ///
    /// A stack keeps the project it has: earlier versions used the name a client asked for, and its
    /// containers and volumes are found under that name only.
    async fn project(&self, start: &Start, record: &Record) -> Result<(String, Vec<Piece>), Error> {
        let workload = &start.workload;
        if let Some(version) = record.judged_by() {
            let project = version.project.clone();
            let (alone, pieces) =
                join(self.alone_in(workload, &project), self.pieces(Some(workload))).await;
            return alone.and(pieces).map(|pieces| (project, pieces));
        }
        let pieces = self.pieces(Some(workload)).await?;
        let project = match pieces.first() {
            Some(piece) => piece.mark.project.clone(),
            None => match self.project_of_volumes(workload).await? {
                Some(project) => project,
                None => names::project_of(&self.docker.settings.name_prefix, workload),
            },
        };
        self.alone_in(workload, &project).await?;
        Ok((project, pieces))
    }

    /// An error if a project has containers that are not of `workload`.
    async fn alone_in(&self, workload: &WorkloadId, project: &str) -> Result<(), Error> {
        let label = format!("{}={project}", identity::PROJECT);
        for summary in self.docker.summaries(vec![label], true).await? {
            let mark = self.mark_of(&summary);
            if mark.as_ref().is_some_and(|mark| mark.workload == *workload) {
                continue;
            }
            let owner = match mark {
                Some(mark) => format!("the workload {}", mark.workload),
                None => identity::owner_of(&summary.labels.unwrap_or_default()),
            };
            return Err(Error::Foreign { name: project.to_owned(), owner });
        }
        Ok(())
    }

    async fn has_images(&self, document: &Document) -> Result<(), Error> {
        for image in document.images() {
            if !self.docker.has(image).await? {
                let detail = "it is not on this node".to_owned();
                let cause = Error::ImagePull { image: image.to_owned(), detail };
                let user = document.services().find(|service| service.image == image);
                return Err(words::in_service(user.map(|service| service.name.as_str()), cause));
            }
        }
        Ok(())
    }

    fn version(&self, start: &Start, project: String, document: &Document) -> Version {
        let docker = &self.docker.settings;
        // Stacks under an earlier project have no such label, and a new one would replace all of
        // their containers.
        let derived = project == names::project_of(&docker.name_prefix, &start.workload);
        let asked = match &start.spec.kind {
            Kind::Compose(stack) if derived => stack.project.as_ref(),
            Kind::Compose(_) | Kind::Container(_) | Kind::Vm(_) => None,
        };
        let asked = asked.map(|name| (names::ASKED.to_owned(), name.to_string()));
        let mut marks = Marks {
            labels: identity::lasting_labels(&self.docker.owner, start).chain(asked).collect(),
            pids: u64::try_from(docker.pids_limit).unwrap_or(u64::MAX),
            stop_grace_ms: start.spec.stop_grace_ms,
            secrets: start.secrets_at.as_ref().map(|at| at.to_string_lossy().into_owned()),
            contents: Some(self.book.contents_of(&start.workload).to_string_lossy().into_owned()),
            ..Marks::default()
        };
        marks.logging.file_mib = docker.log_file_mib;
        marks.logging.files = docker.log_files;
        Version {
            revision: start.revision.to_string(),
            epoch: start.epoch.0,
            project,
            services: book::shapes(document),
            document: document.emit(&marks),
        }
    }

    /// Starts what lacks of a version that is there.
    async fn repair(
        &self,
        start: &Start,
        record: Record,
        version: &Version,
        services: &[String],
    ) -> Result<(), Error> {
        let limit = self.docker.time_within(start, self.settings.up)?;
        match self.up(start, version, services, limit).await? {
            Ended { code: Some(0), .. } => {
                self.book.keep(&start.workload, Record { rested: false, ..record }).await?;
                self.not_too_late(start).await
            }
            ended => {
                // Docker speaks for itself: an outage is no failure of the stack.
                self.pieces(Some(&start.workload)).await?;
                let document = document_of(stack_of(&start.spec)?)?;
                Err(self.complaint(&document, &ended).await)
            }
        }
    }

    /// Brings a new version over what is there.
    async fn renew(
        &self,
        start: &Start,
        good: Option<Version>,
        version: Version,
        document: &Document,
    ) -> Result<(), Error> {
        let begun = Record { good: good.clone(), next: Some(version.clone()), ..Record::default() };
        // One that cannot be run touches nothing.
        self.found().await?;
        self.book.keep(&start.workload, begun).await?;
        self.retire(&start.workload, &version).await?;
        let limit = self.settings.up + good.as_ref().map_or(Duration::ZERO, Version::grace);
        let limit = self.docker.time_within(start, limit)?;
        let ended = match self.up(start, &version, &[], limit).await {
            Ok(ended) => ended,
            Err(error) => {
                // Cut off by its lease, it must not go on either.
                self.not_too_late(start).await?;
                return Err(error);
            }
        };
        if ended.code == Some(0) {
            self.book.tidy(&start.workload, &version).await?;
            self.book.keep(&start.workload, Record::up(version)).await?;
            return self.not_too_late(start).await;
        }
        self.pieces(Some(&start.workload)).await?;
        let error = self.complaint(document, &ended).await;
        match good {
            None => {
                self.leave_nothing(&start.workload).await?;
                Err(error)
            }
            Some(good) => Err(self.bring_back(start, good, error).await),
        }
    }

    /// Brings the last good version back, and says why that was needed.
    async fn bring_back(&self, start: &Start, good: Version, error: Error) -> Error {
        if let Err(failed) = self.retire(&start.workload, &good).await {
            return failed;
        }
        let limit = match self.docker.time_within(start, self.settings.up + good.grace()) {
            Ok(limit) => limit,
            Err(late) => return late,
        };
        let failed = match self.up(start, &good, &[], limit).await {
            Ok(Ended { code: Some(0), .. }) => {
                return match self.book.keep(&start.workload, Record::up(good)).await {
                    Ok(()) => error,
                    Err(failed) => failed,
                };
            }
            Ok(ended) => words::last(&ended.stderr.text()),
            Err(unknown) => return unknown,
        };
        let detail = format!("{error}; and {} could not be brought back: {failed}", good.revision);
        Error::Refused { verb: "start", detail }
    }

    /// The program and its home.
    async fn found(&self) -> Result<(Program, PathBuf), Error> {
        let home = self.book.home()?;
        match self.finder.program(&home).await {
            Ok(program) => Ok((program, home)),
            Err(why) => Err(Error::Refused { verb: "start", detail: why.to_string() }),
        }
    }

    /// Runs the program once.
    async fn up(
        &self,
        start: &Start,
        version: &Version,
        services: &[String],
        limit: Duration,
    ) -> Result<Ended, Error> {
        let (program, home) = self.found().await?;
        self.book.unpack(&start.workload, document_of(stack_of(&start.spec)?)?).await?;
        let file = self.book.hand_out(&start.workload, version).await?;
        let folder = file.parent().unwrap_or(&home);
        let args = program::up(&version.project, &file, services);
        let host = self.docker.host();
        match program.run(args, folder, &home, Some(host), limit).await {
            Ok(ended) if words::is_unreachable(&ended.stderr.text()) => {
                Err(Error::Unreachable { detail: words::last(&ended.stderr.text()) })
            }
            Ok(ended) => Ok(ended),
            Err(ProcessError::Deadline { .. }) => Err(call::no_answer("start", limit)),
            Err(error) => Err(Error::Refused { verb: "start", detail: error.to_string() }),
        }
    }

    /// A start that came through after the lease is undone at once.
    async fn not_too_late(&self, start: &Start) -> Result<(), Error> {
        if start.not_after.is_none_or(|not_after| self.docker.clock.now() < not_after) {
            return Ok(());
        }
        self.let_end(&start.workload, Some(Duration::ZERO)).await?;
        Err(Error::TooLate { workload: start.workload.clone() })
    }

    /// What the program complained about, as one of our errors.
    async fn complaint(&self, document: &Document, ended: &Ended) -> Error {
        let complaint = words::read(&ended.stderr.text(), document);
        let service = complaint.service.as_deref().and_then(|name| document.service(name));
        let image = service.map_or("", |service| service.image.as_str());
        let no = call::No { status: 500, message: complaint.words };
        let cause = self.docker.explained("start", image, &ports(document), no).await;
        words::in_service(service.map(|service| service.name.as_str()), cause)
    }
}

fn ports(document: &Document) -> Vec<HostPort> {
    let port = |port: persys_compose::HostPort| HostPort {
        port: port.port,
        protocol: match port.protocol {
            Protocol::Tcp => spec::Protocol::Tcp,
            Protocol::Udp => spec::Protocol::Udp,
        },
    };
    document.host_ports().into_iter().map(port).collect()
}
