//! `persys.compute.v1.Check`: what would become of a workload, without anything becoming of it.
//!
//! The same checks are made in the same order as when it is applied, by the same code: the spec, the
//! rights of whoever asks, what is there already, and then the nodes.

use std::sync::Arc;

use persys_cluster::effects::Reply;
use persys_cluster::input::Ask;
use persys_cluster::world::{Action, Foreseen, Judged, Wish};
use persys_model::fault::Faults;
use persys_model::id::WorkloadId;
use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::check_server::Check as Service;
use persys_proto::control::v1 as wire;
use tonic::{Request, Response, Status};

use super::sources::NotTaken;
use super::workloads::ask_for;
use super::{Control, plan};
use crate::{author, permit};

/// Most nodes whose judgement is told.
const MOST_VERDICTS: usize = 50;

#[tonic::async_trait]
impl Service for Control {
    async fn check(
        &self,
        request: Request<wire::ApplyWorkloadRequest>,
    ) -> Result<Response<api::CheckResponse>, Status> {
        let request = request.into_inner();
        if request.workload_id.is_empty() {
            return Err(Status::invalid_argument("workload_id: is empty"));
        }
        let checked = match self.looked_at(request).await {
            Ok(checked) => checked,
            Err(NotTaken::Faults(faults)) => return Ok(Response::new(faulty(&faults))),
            Err(NotTaken::Else(_, why)) => return Ok(Response::new(refused(why))),
        };
        let ask = ask_for(checked);
        let caller = author::current().caller;
        let foreseen = self.handle.read(move |world| {
            if let Some(Reply::Refused { why, .. }) = permit::refusal(world, &caller, &ask) {
                return Err(why);
            }
            let Ask::Apply { workload, spec, revision, desired } = ask else {
                return Err(Arc::from("it is no wish"));
            };
            let (spec, revision) = (spec.as_ref(), revision.as_ref());
            let wish = Wish { workload: &workload, spec, revision, desired };
            let foreseen = world.foresee(wish, MOST_VERDICTS);
            let plan = world.plan(wish, &foreseen);
            let (action, node) = (foreseen.action, foreseen.node.clone());
            let mut answer = told(&workload, foreseen);
            if answer.accepted {
                let view = world.workload(&workload);
                let spec = spec.map(|spec| &**spec);
                plan::tell(&mut answer, view.as_ref(), (action, node.as_ref()), spec);
                (answer.plan, answer.index) = (plan.to_string(), plan.index.0);
            }
            Ok(answer)
        });
        Ok(Response::new(match foreseen.await? {
            Ok(answer) => answer,
            Err(why) => refused(why.to_string()),
        }))
    }
}

fn faulty(faults: &Faults) -> api::CheckResponse {
    let listed = faults
        .listed()
        .iter()
        .map(|fault| api::CheckFault { path: fault.path.clone(), problem: fault.problem.clone() });
    api::CheckResponse {
        summary: format!("it would be refused: {faults}"),
        faults: listed.collect(),
        ..api::CheckResponse::default()
    }
}

fn refused(refusal: String) -> api::CheckResponse {
    let summary = format!("it would be refused: {refusal}");
    api::CheckResponse { summary, refusal, ..api::CheckResponse::default() }
}

fn told(id: &WorkloadId, foreseen: Foreseen) -> api::CheckResponse {
    let Foreseen { action, refusal, node, judged } = foreseen;
    if let Some(refusal) = refusal {
        return refused(refusal);
    }
    let does = match action {
        Action::Create => "would be made",
        Action::Update => "would get a new version",
        Action::Start => "would be started",
        Action::Stop => "would be stopped",
        Action::Delete => "would be deleted",
        Action::Nothing => "would stay as it is",
    };
    let place = match (&node, &judged) {
        (Some(node), _) => format!(" and run on {node}"),
        (None, Some(judged)) => format!(" and wait: {}", waits_for(judged)),
        (None, None) => String::new(),
    };
    let mut answer = api::CheckResponse {
        accepted: true,
        summary: format!("{id} {does}{place}"),
        action: action.word().to_owned(),
        node_id: node.map(|node| node.to_string()).unwrap_or_default(),
        ..api::CheckResponse::default()
    };
    if let Some(judged) = judged {
        tell_judgement(&mut answer, judged);
    }
    answer
}

/// What it would wait for. Where it fits and cannot go, its data is elsewhere.
fn waits_for(judged: &Judged) -> String {
    match judged.verdicts.first().filter(|_| judged.explanation.fitting > 0) {
        Some(closest) => format!("{}: {}", closest.node, closest.faults.join(", ")),
        None => judged.explanation.to_string(),
    }
}

fn tell_judgement(answer: &mut api::CheckResponse, judged: Judged) {
    let Judged { explanation, suggestions, verdicts } = judged;
    // Why others refuse matters when nobody takes it.
    if answer.node_id.is_empty() {
        let refusals = explanation.refusals.into_iter().map(|refusal| api::Refusal {
            reason: refusal.reason.to_string(),
            nodes: u32::try_from(refusal.nodes).unwrap_or(u32::MAX),
        });
        answer.refusals = refusals.collect();
        answer.suggestions = suggestions;
    }
    let verdicts = verdicts.into_iter().map(|verdict| api::Verdict {
        node_id: verdict.node.to_string(),
        fits: verdict.faults.is_empty(),
        faults: verdict.faults,
    });
    answer.verdicts = verdicts.collect();
}
