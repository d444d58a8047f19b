//! Orders of those who know no tokens: old schedulers, `persysctl` and people.
//!
//! The agent gives such an order the tokens it lacks. Term and session are the present ones. The
//! epoch is one above what is held, or above the tombstone, so that the order is newer than
//! everything before it; a scheduler of ours that manages the same workload draws its next epoch
//! from the counter of the cluster, which is higher still, and wins. An order that changes nothing
//! draws no epoch and is skipped: the same revision, the same desired state, and not failed. It
//! still confirms what is held, which a new life of the agent starts only when somebody asks for it.
//!
//! A delete takes deletable data along, as it always did for these callers.

use std::sync::Arc;

use persys_model::command::{Answer, Apply, Command, Order};
use persys_model::id::WorkloadId;
use persys_model::spec::check::{CheckedApply, check_apply};
use persys_model::spec::draft::ApplyDraft;
use persys_model::token::{Epoch, Session, Term};
use persys_model::workload::Desired;
use persys_node::agent::Agent;
use persys_node::ledger::{Goal, Intent};
use persys_proto::agent::v1 as wire;
use persys_proto::convert::answer;
use tonic::Status;

use super::{Service, status, unanswered};
use crate::history::ActionKind;

const NOT_JOINED: &str = "the agent has not yet joined its scheduler; try again";

/// What an order without tokens is given.
struct Standing {
    term: Term,
    session: Option<Session>,
    held: Option<Intent>,
    buried: Option<Epoch>,
    confirmed: bool,
}

impl Standing {
    fn of(agent: &Agent, workload: &WorkloadId) -> Self {
        let ledger = agent.ledger();
        Self {
            term: ledger.term,
            session: agent.session(),
            held: ledger.intents.get(workload).cloned(),
            buried: ledger.tombstones.get(workload).map(|buried| buried.epoch),
            confirmed: agent.confirmed(workload),
        }
    }

    fn epoch(&self) -> Epoch {
        let held = self.held.as_ref().map(|held| held.epoch);
        held.max(self.buried).unwrap_or_default().next()
    }

    fn command(&self, workload: WorkloadId, order: Order) -> Option<Command> {
        let (term, epoch) = (self.term, self.epoch());
        Some(Command { term, session: self.session?, epoch, workload, order })
    }

    /// Whether `apply` says what is held already.
    fn has(&self, apply: &Apply) -> bool {
        let goal = if apply.run { Goal::Run } else { Goal::Rest };
        self.held.as_ref().is_some_and(|held| {
            held.revision == apply.revision && held.goal == goal && held.gave_up.is_none()
        })
    }
}

pub(super) fn not_applied(message: String) -> wire::ApplyWorkloadResponse {
    wire::ApplyWorkloadResponse { message, ..wire::ApplyWorkloadResponse::default() }
}

pub(super) fn not_deleted(message: String) -> wire::DeleteWorkloadResponse {
    wire::DeleteWorkloadResponse { message, ..wire::DeleteWorkloadResponse::default() }
}

impl Service {
    pub(super) async fn legacy_apply(
        &self,
        draft: ApplyDraft,
    ) -> Result<wire::ApplyWorkloadResponse, Status> {
        let checked = match check_apply(&draft) {
            Ok(checked) => checked,
            Err(faults) => return Ok(not_applied(faults.to_string())),
        };
        let workload = checked.workload.clone();
        let _turn = self.one_at_a_time.lock().await;
        let standing = self.standing(&workload).await?;
        let apply = match apply(checked, standing.held.as_ref()) {
            Ok(apply) => apply,
            Err(why) => return Ok(not_applied(why.to_owned())),
        };
        if standing.has(&apply) {
            return self.skip(workload, &standing).await;
        }
        let Some(command) = standing.command(workload.clone(), Order::Apply(apply)) else {
            return Ok(not_applied(NOT_JOINED.to_owned()));
        };
        if let Some(why) = self.no_room(&command).await? {
            return Ok(not_applied(why));
        }
        let epoch = command.epoch;
        let task = self.handle.queue(workload.clone(), epoch, ActionKind::Apply).await;
        let task = task.map_err(unanswered)?;
        let mut response = answer::to_apply(&self.command(command).await?.answer, epoch);
        response.status = self.status(&workload).await?;
        if !response.applied {
            self.handle.unqueue(task.id, response.message.clone()).await;
        } else if let Some(status) = &mut response.status {
            status::taken(status, &task);
        }
        Ok(response)
    }

    /// Nothing changes.
    async fn skip(
        &self,
        workload: WorkloadId,
        standing: &Standing,
    ) -> Result<wire::ApplyWorkloadResponse, Status> {
        let held = standing.held.as_ref();
        if let (false, Some(session), Some(held)) = (standing.confirmed, standing.session, held)
            && let Some(command) = held_again(standing.term, session, &workload, held)
        {
            self.command(command).await?;
        }
        Ok(wire::ApplyWorkloadResponse {
            applied: true,
            skipped: true,
            message: "this revision is already applied".to_owned(),
            status: self.status(&workload).await?,
            epoch: held.map_or(0, |held| held.epoch.0),
            ..wire::ApplyWorkloadResponse::default()
        })
    }

    pub(super) async fn legacy_delete(
        &self,
        workload: WorkloadId,
    ) -> Result<wire::DeleteWorkloadResponse, Status> {
        let turn = self.one_at_a_time.lock().await;
        let standing = self.standing(&workload).await?;
        let Some(held) = &standing.held else {
            return Ok(wire::DeleteWorkloadResponse {
                success: true,
                message: "there is no such workload".to_owned(),
                ..wire::DeleteWorkloadResponse::default()
            });
        };
        if matches!(held.goal, Goal::Gone { .. }) {
            return Ok(answer::to_delete(&Answer::Accepted, held.epoch));
        }
        let Some(command) = standing.command(workload, Order::Remove { purge: true }) else {
            return Ok(not_deleted(NOT_JOINED.to_owned()));
        };
        let epoch = command.epoch;
        // The epoch is drawn when the core has the order; the removal itself holds up nobody.
        let removal = self.command(command);
        tokio::pin!(removal);
        let answered = tokio::select! {
            biased;
            answered = &mut removal => Some(answered),
            () = tokio::task::yield_now() => None,
        };
        drop(turn);
        let answered = match answered {
            Some(answered) => answered,
            None => removal.await,
        };
        Ok(answer::to_delete(&answered?.answer, epoch))
    }

    /// Refusal of an order that exceeds the machine, before anything of it is kept.
    async fn no_room(&self, command: &Command) -> Result<Option<String>, Status> {
        let spec = match &command.order {
            Order::Apply(apply) if apply.run => Arc::clone(&apply.spec),
            Order::Apply(_) | Order::Remove { .. } => return Ok(None),
        };
        let workload = command.workload.clone();
        let look = move |agent: &Agent, _: &_| agent.no_room(&workload, &spec);
        let refused = self.handle.read(look).await.map_err(unanswered)?;
        Ok(refused.map(|why| format!("{}: {}", why.reason.code(), why.message)))
    }

    async fn standing(&self, workload: &WorkloadId) -> Result<Standing, Status> {
        let workload = workload.clone();
        let look = move |agent: &Agent, _: &_| Standing::of(agent, &workload);
        self.handle.read(look).await.map_err(unanswered)
    }
}

/// The order that was given already, said again; `None` if only the running thing is known.
pub(crate) fn held_again(
    term: Term,
    session: Session,
    workload: &WorkloadId,
    held: &Intent,
) -> Option<Command> {
    let apply = |run, pause| {
        let spec = held.spec.clone()?;
        Some(Order::Apply(Apply {
            revision: held.revision.clone(),
            run,
            pause,
            spec,
            secrets: Arc::clone(&held.secrets),
        }))
    };
    let order = match held.goal {
        Goal::Run => apply(true, false)?,
        Goal::Pause => apply(true, true)?,
        Goal::Rest => apply(false, false)?,
        Goal::Gone { purge } => Order::Remove { purge },
    };
    Some(Command { term, session, epoch: held.epoch, workload: workload.clone(), order })
}

/// The order a checked request means, given what is held.
fn apply(checked: CheckedApply, held: Option<&Intent>) -> Result<Apply, &'static str> {
    let run = match checked.desired {
        Desired::Running => true,
        Desired::Paused => return Err("to have a workload paused, ask its scheduler"),
        Desired::Stopped => false,
        Desired::Deleted => return Err("to have a workload gone, delete it"),
    };
    let known = held.and_then(|held| held.spec.clone());
    let spec = checked.spec.map(Arc::new).or(known);
    let spec = spec.ok_or("spec is missing, and nothing is known of this workload")?;
    let revision = checked.revision.or_else(|| held.map(|held| held.revision.clone()));
    let revision = revision.ok_or("revision_id is missing")?;
    Ok(Apply { revision, run, pause: false, spec, secrets: Arc::default() })
}
