//! `persys.compute.v1.Reads`: several questions as one.

use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::reads_server::Reads as Service;
use persys_proto::compute::v1::workload_answer::Answer;
use persys_proto::control::v1 as wire;
use persys_proto::together::MOST;
use tonic::{Code, Request, Response, Status};

use super::refusal::workload_id;
use super::workloads::{Seen, no_such, seen};
use super::{Control, shown};
use crate::handle::Looked;
use crate::permit::Sight;

#[tonic::async_trait]
impl Service for Control {
    async fn get_workloads(
        &self,
        request: Request<api::GetWorkloadsRequest>,
    ) -> Result<Response<api::GetWorkloadsResponse>, Status> {
        let ids = request.into_inner().workload_ids;
        if ids.len() > MOST {
            let count = ids.len();
            let why = format!("workload_ids: {count} are more than the {MOST} that go together");
            return Err(Status::invalid_argument(why));
        }
        self.workloads_of(ids).await.map(shown)
    }
}

impl Control {
    async fn workloads_of(
        &self,
        ids: Vec<String>,
    ) -> Result<Looked<api::GetWorkloadsResponse>, Status> {
        let named: Vec<_> = ids.iter().map(|id| workload_id(id)).collect();
        let wanted: Vec<_> = named.iter().map(|id| id.as_ref().ok().cloned()).collect();
        let (sight, attempts) = (Sight::current(), self.settings.retry_attempts);
        let looked = self
            .handle
            .look(move |world| {
                let one = |id| seen(world, &sight, id, attempts);
                wanted.iter().map(|id| id.as_ref().map(one)).collect::<Vec<_>>()
            })
            .await?;
        let Looked { value, mut from } = looked;
        let (now, mut answers) = (self.now(), Vec::with_capacity(ids.len()));
        for ((id, text), found) in named.into_iter().zip(ids).zip(value) {
            let answer = match (id, found) {
                (Err(refusal), _) => refused(&refusal),
                (Ok(id), None | Some(Seen::Nothing)) => refused(&no_such(&id)),
                (Ok(_), Some(Seen::Whole(mut workload))) => {
                    self.usages.add_to(&mut workload, now);
                    Answer::Found(wire::GetWorkloadResponse { workload: Some(*workload) })
                }
                // Why it waits is work for the core: one at a time, so that nobody waits for all.
                (Ok(_), Some(Seen::Waits)) => {
                    let request = wire::GetWorkloadRequest { workload_id: text };
                    match self.workload(request).await {
                        Ok(alone) => {
                            from = from.older(alone.from);
                            Answer::Found(alone.value)
                        }
                        Err(why) if why.code() == Code::NotFound => refused(&why),
                        Err(why) => return Err(why),
                    }
                }
            };
            answers.push(api::WorkloadAnswer { answer: Some(answer) });
        }
        Ok(Looked { value: api::GetWorkloadsResponse { answers }, from })
    }
}

fn refused(why: &Status) -> Answer {
    let (code, message) = (i32::from(why.code()), why.message().to_owned());
    Answer::Refused(api::ReadRefused { code, message })
}
