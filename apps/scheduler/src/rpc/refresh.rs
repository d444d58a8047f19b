//! `persys.compute.v1.Sources`: files in repositories that moved on.
//!
//! Whoever asks says only that something moved. What each workload takes, and from where, is in its
//! own spec; it is resolved again, and applied again when it stands for another commit, in the name
//! of whoever asks and by the same way as every other change.

use persys_git::Source;
use persys_model::repository::{is_of, may_move};
use persys_model::spec::Kind;
use persys_model::spec::compose::ComposeSource;
use persys_model::workload::Desired;
use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::sources_server::Sources as Service;
use persys_proto::control::v1 as wire;
use persys_proto::convert::spec;
use tonic::{Request, Response, Status};

use super::Control;
use crate::permit::Sight;

/// Most workloads that are looked at for one push.
const MOST: usize = 256;
/// Longest path of a repository, and longest name of a reference.
const LONGEST: usize = 512;

/// A workload that takes its file from a repository.
struct Taken {
    id: String,
    source: Source,
    commit: String,
    spec: wire::WorkloadSpec,
    desired: Desired,
}

#[tonic::async_trait]
impl Service for Control {
    async fn refresh(
        &self,
        request: Request<api::RefreshRequest>,
    ) -> Result<Response<api::RefreshResponse>, Status> {
        let api::RefreshRequest { repository, reference } = request.into_inner();
        for (name, text) in [("repository", &repository), ("reference", &reference)] {
            if text.is_empty() || text.len() > LONGEST {
                return Err(Status::invalid_argument(format!("{name}: is empty or too long")));
            }
        }
        let mut workloads = Vec::new();
        for taken in self.taken_from(repository, reference).await? {
            workloads.push(self.look_again(taken).await);
        }
        Ok(Response::new(api::RefreshResponse { workloads }))
    }
}

impl Control {
    async fn taken_from(&self, repository: String, pushed: String) -> Result<Vec<Taken>, Status> {
        let sight = Sight::current();
        let found = self.handle.read(move |world| {
            let mut found = Vec::new();
            for view in world.workloads().filter(|view| sight.sees(&view.workload.spec)) {
                let Kind::Compose(compose) = &view.workload.spec.kind else { continue };
                let ComposeSource::Git { repository: own, reference, path, commit, .. } =
                    &compose.source
                else {
                    continue;
                };
                if view.workload.desired == Desired::Deleted
                    || !is_of(own, &repository)
                    || !may_move(reference, &pushed)
                {
                    continue;
                }
                found.push(Taken {
                    id: view.workload.id.to_string(),
                    source: Source {
                        repository: own.to_string(),
                        reference: reference.to_string(),
                        path: path.to_string(),
                    },
                    commit: commit.to_string(),
                    spec: spec::to_wire(&view.workload.spec),
                    desired: view.workload.desired,
                });
                if found.len() >= MOST {
                    break;
                }
            }
            found
        });
        Ok(found.await?)
    }

    async fn look_again(&self, taken: Taken) -> api::Refreshed {
        let Taken { id, source, commit, spec, desired } = taken;
        let told = |changed, commit: &str, problem: String| api::Refreshed {
            workload_id: id.clone(),
            changed,
            commit: commit.to_owned(),
            problem,
        };
        let now = match self.fetcher.fetch(&source).await {
            Ok(found) if found.commit == commit => return told(false, &commit, String::new()),
            Ok(found) => found.commit,
            Err(error) => return told(false, &commit, error.to_string()),
        };
        let desired_state = match desired {
            Desired::Running | Desired::Deleted => "Running",
            Desired::Stopped => "Stopped",
        };
        let request = wire::ApplyWorkloadRequest {
            workload_id: id.clone(),
            spec: Some(spec),
            desired_state: desired_state.to_owned(),
            ..wire::ApplyWorkloadRequest::default()
        };
        match self.apply(request).await {
            Ok(answer) if answer.success => told(true, &now, String::new()),
            Ok(answer) => told(false, &commit, answer.error_message),
            Err(status) => told(false, &commit, status.message().to_owned()),
        }
    }
}
