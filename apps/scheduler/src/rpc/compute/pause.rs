//! Pauses a workload, and lets what is paused run again.

use persys_access::Who;
use persys_cluster::effects::ACCEPTED;
use persys_cluster::input::Ask;
use persys_model::workload::Desired;
use persys_proto::compute::v1 as api;
use tonic::Status;

use super::Compute;
use crate::permit;
use crate::rpc::refusal::{done, workload_id};

impl Compute {
    pub(super) async fn hold_still(&self, id: &str) -> Result<api::PauseResponse, Status> {
        let workload = workload_id(id)?;
        permit::workload(&self.handle, &workload, Who::Operators).await?;
        let ask = Ask::Apply { workload, spec: None, revision: None, desired: Desired::Paused };
        Ok(api::PauseResponse { note: note(done(self.handle.ask(ask).await?)?) })
    }

    pub(super) async fn let_run(&self, id: &str) -> Result<api::ResumeResponse, Status> {
        let workload = workload_id(id)?;
        permit::workload(&self.handle, &workload, Who::Operators).await?;
        Ok(api::ResumeResponse { note: note(done(self.handle.ask(Ask::Resume(workload)).await?)?) })
    }
}

/// The answer beyond that it was taken.
fn note(said: String) -> String {
    if said == ACCEPTED { String::new() } else { said }
}
