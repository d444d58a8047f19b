//! An outside policy engine proposes; the scheduler decides.

use persys_cluster::input::Ask;
use persys_model::id::WorkloadId;
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::AutomationActionType as Action;
use persys_proto::convert::draft;
use persys_proto::convert::time::timestamp;
use tonic::Status;

use super::Control;
use super::refusal::in_band;
use super::workloads::ask_for;

impl Control {
    pub(super) async fn suggest(
        &self,
        request: wire::SubmitAutomationSuggestionRequest,
    ) -> Result<wire::SubmitAutomationSuggestionResponse, Status> {
        let Some(suggestion) = request.suggestion else {
            return Err(Status::invalid_argument("suggestion: is missing"));
        };
        let decided = match meaning(suggestion) {
            Ok((action, ask)) => match in_band(self.handle.ask(ask).await?)? {
                Ok(note) => Ok((action, note)),
                Err((_, why)) => Err(why),
            },
            Err(why) => Err(why),
        };
        let decided_at = Some(timestamp(self.now()));
        let accepted = decided.is_ok();
        let (decision, action, reason) = match decided {
            Ok((action, note)) => ("accepted", action, note),
            Err(why) => ("rejected", "", why),
        };
        tracing::info!(decision, action, reason, "automation");
        Ok(wire::SubmitAutomationSuggestionResponse {
            accepted,
            decision: decision.to_owned(),
            reason,
            applied_action: action.to_owned(),
            decided_at,
        })
    }
}

/// What is to be done, or why nothing is.
fn meaning(suggestion: wire::AutomationSuggestion) -> Result<(&'static str, Ask), String> {
    let target = suggestion.target_workload;
    let workload = WorkloadId::new(&target).map_err(|fault| format!("target_workload: {fault}"))?;
    match Action::try_from(suggestion.action_type) {
        Ok(Action::AutomationActionSetDesiredState) => {
            let checked = draft::apply(wire::ApplyWorkloadRequest {
                workload_id: target,
                desired_state: suggestion.desired_state,
                ..wire::ApplyWorkloadRequest::default()
            });
            let checked = checked.map_err(|faults| faults.to_string())?;
            Ok(("set_desired_state", ask_for(checked)))
        }
        Ok(Action::AutomationActionRetryWorkload) => Ok(("retry_workload", Ask::Retry(workload))),
        Ok(Action::AutomationActionDeleteWorkload) => {
            Ok(("delete_workload", Ask::Delete(workload)))
        }
        Ok(Action::AutomationActionScaleReplicas) => {
            Err("a workload runs once; it cannot be scaled".to_owned())
        }
        Ok(Action::Unspecified) | Err(_) => Err("the action is not known".to_owned()),
    }
}
