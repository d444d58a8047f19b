//! Files that a request only points to: fetched before it is checked, and pinned from then on.
//!
//! It happens in the task of the request, never in the driver's. The same reference is resolved
//! again with every request, so a new commit is a new revision and nobody is moved by one that
//! nobody applied.

use persys_git::{Error, Source};
use persys_model::fault::Faults;
use persys_model::spec::check::{self, CheckedApply, check_apply};
use persys_model::spec::draft::{ApplyDraft, Fetched};
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::workload_spec::Workload;
use persys_proto::convert::draft;

use super::Control;

/// Why a request was not taken.
type Refused = (wire::FailureReason, String);

/// The same before it is put into words.
pub(super) enum NotTaken {
    /// Everything that is wrong with it.
    Faults(Faults),
    /// What it points to cannot be had.
    Else(wire::FailureReason, String),
}

impl From<NotTaken> for Refused {
    fn from(why: NotTaken) -> Self {
        match why {
            NotTaken::Faults(faults) => (wire::FailureReason::InvalidSpec, faults.to_string()),
            NotTaken::Else(reason, why) => (reason, why),
        }
    }
}

impl Control {
    /// The change a request means, with the file it points to.
    pub(super) async fn checked(
        &self,
        request: wire::ApplyWorkloadRequest,
    ) -> Result<CheckedApply, Refused> {
        self.looked_at(request).await.map_err(Refused::from)
    }

    /// The same, with every fault by itself.
    pub(super) async fn looked_at(
        &self,
        request: wire::ApplyWorkloadRequest,
    ) -> Result<CheckedApply, NotTaken> {
        if !points_elsewhere(&request) {
            return draft::apply(request).map_err(NotTaken::Faults);
        }
        let mut draft = draft::from_apply(request).map_err(NotTaken::Faults)?;
        self.fill(&mut draft).await?;
        check_apply(&draft).map_err(NotTaken::Faults)
    }

    async fn fill(&self, draft: &mut ApplyDraft) -> Result<(), NotTaken> {
        let Some(spec) = &mut draft.spec else { return Ok(()) };
        let Some(wanted) = check::wanted(spec) else { return Ok(()) };
        let source = Source {
            repository: wanted.repository.to_string(),
            reference: wanted.reference.to_string(),
            path: wanted.path.to_string(),
        };
        let found = self.fetcher.fetch(&source).await.map_err(|error| refused(&error))?;
        tracing::info!(
            workload = draft.workload_id,
            repository = source.repository,
            commit = found.commit,
            path = found.path,
            "fetched"
        );
        if let Some(compose) = &mut spec.compose {
            let persys_git::Fetched { commit, path, file } = found;
            compose.fetched = Some(Fetched { commit, path, file });
        }
        Ok(())
    }
}

fn points_elsewhere(request: &wire::ApplyWorkloadRequest) -> bool {
    match request.spec.as_ref().and_then(|spec| spec.workload.as_ref()) {
        Some(Workload::Compose(compose)) => {
            !compose.git_repo.is_empty() || compose.source_type.eq_ignore_ascii_case("git")
        }
        Some(Workload::Container(_) | Workload::Vm(_)) | None => false,
    }
}

fn refused(error: &Error) -> NotTaken {
    let reason = match error {
        Error::Refused(faults) => return NotTaken::Faults(faults.clone()),
        Error::Setup { .. } | Error::Disk { .. } => wire::FailureReason::RuntimeError,
        Error::Busy { .. } | Error::Deadline { .. } => wire::FailureReason::NetworkError,
        Error::Git { .. } if error.may_pass() => wire::FailureReason::NetworkError,
        Error::Git { .. }
        | Error::RepositoryTooLarge { .. }
        | Error::FileTooLarge { .. }
        | Error::NoFile { .. }
        | Error::NotAFile { .. }
        | Error::NotText { .. } => wire::FailureReason::InvalidSpec,
    };
    NotTaken::Else(reason, format!("spec.compose.git_repo: {error}"))
}
