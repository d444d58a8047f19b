//! Why a workload or a node is as it is.

use persys_access::Who;
use persys_proto::compute::v1 as api;
use persys_proto::control::v1::SchedulerEventView;
use tonic::Status;

use super::{Compute, why_node, why_workload};
use crate::permit::{self, Sight};
use crate::rpc::events::{self, Filter};
use crate::rpc::refusal::{node_id, workload_id};

/// How many events are told.
const EVENTS: usize = 10;

/// Events that tell of a failure.
const FAILURES: [&str; 3] = ["RetryScheduled", "WorkloadFailed", "WorkloadRestarting"];

impl Compute {
    pub(super) async fn explain(
        &self,
        request: api::WhyRequest,
    ) -> Result<api::WhyResponse, Status> {
        match (request.workload_id.as_str(), request.node_id.as_str()) {
            (workload, "") => self.explain_workload(workload).await,
            ("", node) => self.explain_node(node).await,
            (_, _) => {
                let why = "name a workload or a node: workload_id and node_id are both given";
                Err(Status::invalid_argument(why))
            }
        }
    }

    async fn explain_workload(&self, id: &str) -> Result<api::WhyResponse, Status> {
        let id = workload_id(id)?;
        permit::workload(&self.handle, &id, Who::Viewers).await?;
        let (wanted, attempts, now) = (id.clone(), self.settings.retry_attempts, self.now());
        let zones = self.zones.clone();
        let found = self
            .handle
            .read(move |world| why_workload::explain(world, &wanted, attempts, now, &zones))
            .await?;
        let mut why =
            found.ok_or_else(|| Status::not_found(format!("there is no workload {id}")))?;
        let filter = Filter { workload: id.to_string(), ..Filter::default() };
        self.add_events(&mut why, &filter).await;
        if why.evidence.is_empty() {
            why.evidence = last_failure(&why.events);
        }
        Ok(why)
    }

    async fn explain_node(&self, id: &str) -> Result<api::WhyResponse, Status> {
        let id = node_id(id)?;
        if !Sight::current().is_full() {
            let rule = Who::ClusterViewers.rule();
            return Err(Status::permission_denied(format!("nodes are for {rule}")));
        }
        let (wanted, beat, now) = (id.clone(), self.agents.last_beat(&id), self.now());
        let found =
            self.handle.read(move |world| why_node::explain(world, &wanted, beat, now)).await?;
        let mut why = found.ok_or_else(|| Status::not_found(format!("there is no node {id}")))?;
        let filter = Filter { node: id.to_string(), ..Filter::default() };
        self.add_events(&mut why, &filter).await;
        Ok(why)
    }

    /// An answer without events is still an answer: it is wanted most when the store is away.
    async fn add_events(&self, why: &mut api::WhyResponse, filter: &Filter) {
        match events::find(self.store.as_ref(), filter, EVENTS).await {
            Ok(events) => why.events = events,
            Err(status) => why.facts.push(format!("events cannot be read: {}", status.message())),
        }
    }
}

/// What was left of the last failure among `events`, for one that has recovered since.
fn last_failure(events: &[SchedulerEventView]) -> Vec<String> {
    let failed = events.iter().rev().find(|event| FAILURES.contains(&event.r#type.as_str()));
    failed.map_or_else(Vec::new, |event| event.reason.lines().map(str::to_owned).collect())
}
