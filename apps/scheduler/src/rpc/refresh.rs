//! `persys.compute.v1.Sources`: files in repositories that moved on.
//!
//! Whoever asks says only that something moved. What each workload takes, and from where, is in its
//! own spec; it is resolved again, and applied again when it stands for another commit, in the name
//! of whoever asks and by the same way as every other change.

use std::collections::BTreeMap;

use persys_cluster::world::World;
use persys_git::Source;
use persys_model::id::WorkloadId;
use persys_model::repository::{is_of, may_move};
use persys_model::spec::Kind;
use persys_model::spec::compose::ComposeSource;
use persys_model::token::Generation;
use persys_model::workload::Desired;
use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::sources_server::Sources as Service;
use persys_proto::control::v1 as wire;
use persys_proto::convert::spec;
use tonic::{Request, Response, Status};

use super::Control;
use super::refusal::in_band;
use super::workloads::ask_for;
use crate::permit::Sight;

/// Most workloads that are looked at for one push.
const MOST: usize = 256;
/// Longest path of a repository, and longest name of a reference.
const LONGEST: usize = 512;

/// How often a workload is looked at that others change meanwhile.
const TRIES: usize = 3;

/// A workload that takes its file from a repository.
struct Taken {
    id: WorkloadId,
    generation: Generation,
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
        let mut settled = BTreeMap::new();
        for nth in 1..=TRIES {
            let taken = self.taken_from(repository.clone(), reference.clone()).await?;
            let left: Vec<_> =
                taken.into_iter().filter(|one| !settled.contains_key(&one.id)).collect();
            if left.is_empty() {
                break;
            }
            for taken in left {
                let (id, commit) = (taken.id.clone(), taken.commit.clone());
                match self.look_again(taken).await {
                    Some(told) => drop(settled.insert(id, told)),
                    None if nth < TRIES => {}
                    None => {
                        let problem = "it is being changed all the time".to_owned();
                        settled.insert(id.clone(), told(&id, false, &commit, problem));
                    }
                }
            }
        }
        Ok(Response::new(api::RefreshResponse { workloads: settled.into_values().collect() }))
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
                    id: view.workload.id.clone(),
                    generation: view.workload.generation,
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

    /// Applies a workload again whose reference stands for another commit. `None` when somebody
    /// changed it meanwhile: theirs counts, and is looked at again.
    async fn look_again(&self, taken: Taken) -> Option<api::Refreshed> {
        let Taken { id, generation, source, commit, spec, desired } = taken;
        let stays = |problem: String| Some(told(&id, false, &commit, problem));
        let now = match self.fetcher.fetch(&source).await {
            Ok(found) if found.commit == commit => return stays(String::new()),
            Ok(found) => found.commit,
            Err(error) => return stays(error.to_string()),
        };
        let desired_state = match desired {
            Desired::Running | Desired::Paused | Desired::Deleted => "Running",
            Desired::Stopped => "Stopped",
        };
        let request = wire::ApplyWorkloadRequest {
            workload_id: id.to_string(),
            spec: Some(spec),
            desired_state: desired_state.to_owned(),
            ..wire::ApplyWorkloadRequest::default()
        };
        let checked = match self.checked(request).await {
            Ok(checked) => checked,
            Err((_, why)) => return stays(why),
        };
        let wanted = id.clone();
        let same = move |world: &World| {
            let view = world.workload(&wanted);
            view.is_some_and(|view| view.workload.generation == generation)
        };
        match self.handle.ask_if(ask_for(checked), same).await {
            Ok(None) => None,
            Ok(Some(reply)) => match in_band(reply) {
                Ok(Ok(_)) => Some(told(&id, true, &now, String::new())),
                Ok(Err((_, why))) => stays(why),
                Err(status) => stays(status.message().to_owned()),
            },
            Err(unanswered) => stays(unanswered.to_string()),
        }
    }
}

fn told(id: &WorkloadId, changed: bool, commit: &str, problem: String) -> api::Refreshed {
    api::Refreshed { workload_id: id.to_string(), changed, commit: commit.to_owned(), problem }
}
