//! One order to one agent, both ways: over a stream the agent opened, or by calling the agent.

use std::sync::Arc;

use persys_model::command::{Apply, Command, Order};
use persys_model::failure::{Failure, clip};
use persys_model::fault::Faults;
use persys_model::id::{RevisionId, SecretName, WorkloadId};
use persys_model::secret::{MOST_USES, MOST_VALUE_BYTES, Redacted, SecretValue, SecretValues};
use persys_model::spec::draft::ApplyDraft;
use persys_model::token::{Epoch, Session, Term};
use persys_model::volume::order_id;

use super::at::{At, reading};
use super::held::{DESIRED, desired_word};
use super::leaf::{name, token, word};
use super::{Said, agent_draft, classic, spec};
use crate::agent::v1 as agent;
use crate::control::v1 as control;

/// A call that carries an order to an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// `ApplyWorkload`.
    Apply(Box<agent::ApplyWorkloadRequest>),
    /// `DeleteWorkload`.
    Delete(agent::DeleteWorkloadRequest),
}

/// The call for an agent of ours: tokens and the whole spec.
#[must_use]
pub fn to_call(command: &Command) -> Call {
    let Command { term, session, epoch, workload, order } = command;
    match order {
        Order::Apply(apply) => Call::Apply(Box::new(agent::ApplyWorkloadRequest {
            term: term.0,
            session: session.0,
            epoch: epoch.0,
            whole_spec: Some(spec::to_order(&apply.spec)),
            secrets: secrets(&apply.secrets),
            paused: apply.pause,
            ..classic_request(workload, apply)
        })),
        Order::Remove { purge } => Call::Delete(agent::DeleteWorkloadRequest {
            id: workload.to_string(),
            term: term.0,
            session: session.0,
            epoch: epoch.0,
            purge: *purge,
        }),
    }
}

/// The call for an old agent, or what it could not do. Its delete takes deletable data along, so a
/// removal that must keep the data is refused.
pub fn to_legacy_call(command: &Command) -> Result<Call, Faults> {
    match &command.order {
        Order::Apply(apply) => Ok(Call::Apply(Box::new(agent::ApplyWorkloadRequest {
            spec: Some(classic::to_wire(&command.workload, &apply.spec)?),
            ..classic_request(&command.workload, apply)
        }))),
        Order::Remove { purge: true } => Ok(Call::Delete(agent::DeleteWorkloadRequest {
            id: command.workload.to_string(),
            ..agent::DeleteWorkloadRequest::default()
        })),
        Order::Remove { purge: false } => {
            reading(|at| at.field("purge").refuse("this agent removes a workload's data with it"))
        }
    }
}

fn classic_request(workload: &WorkloadId, apply: &Apply) -> agent::ApplyWorkloadRequest {
    let desired =
        if apply.run { agent::DesiredState::Running } else { agent::DesiredState::Stopped };
    agent::ApplyWorkloadRequest {
        id: workload.to_string(),
        r#type: classic::workload_type(apply.spec.workload_type()).into(),
        revision_id: apply.revision.to_string(),
        desired_state: desired.into(),
        ..agent::ApplyWorkloadRequest::default()
    }
}

/// What a call to an agent means: an order of a scheduler of ours, or a request of somebody who
/// knows no tokens.
pub fn from_apply(
    request: agent::ApplyWorkloadRequest,
) -> Result<Said<Command, ApplyDraft>, Faults> {
    reading(|at| {
        if (request.term, request.session, request.epoch) == (0, 0, 0) {
            if request.whole_spec.is_some() {
                at.field("whole_spec").fault("is given, but term, session and epoch are not");
            }
            return agent_draft::apply_draft(at, request).map(Said::Legacy);
        }
        let tokens = tokens(at, request.term, request.session, request.epoch);
        let workload = name(&at.field("id"), &request.id, WorkloadId::new);
        let revision = name(&at.field("revision_id"), &request.revision_id, RevisionId::new);
        let run = match agent::DesiredState::try_from(request.desired_state) {
            Ok(agent::DesiredState::Running) => Some(true),
            Ok(agent::DesiredState::Stopped) => Some(false),
            Ok(agent::DesiredState::Unspecified) | Err(_) => {
                at.field("desired_state").refuse("is neither running nor stopped")
            }
        };
        if request.spec.is_some() {
            at.field("spec").fault("is for agents without tokens; whole_spec stands for it");
        }
        let spec = match request.whole_spec {
            Some(whole) => spec::read(at, whole),
            None => at.field("whole_spec").refuse("is missing"),
        };
        let (spec, kind) = (spec?, request.r#type);
        if kind != i32::from(classic::workload_type(spec.workload_type())) {
            at.field("type").fault(format!("{kind} is not the type of the spec"));
        }
        let secrets = read_secrets(at, request.secrets);
        let (spec, run) = (Arc::new(spec), run?);
        let pause = run && request.paused;
        let apply = Apply { revision: revision?, run, pause, spec, secrets: secrets? };
        Some(Said::Ours(command(tokens?, workload?, Order::Apply(apply))))
    })
}

/// What a call to an agent means: an order of a scheduler of ours, or the wish of somebody who
/// knows no tokens to have a workload gone.
pub fn from_delete(
    request: &agent::DeleteWorkloadRequest,
) -> Result<Said<Command, WorkloadId>, Faults> {
    reading(|at| {
        let legacy = (request.term, request.session, request.epoch) == (0, 0, 0);
        let named = if legacy { WorkloadId::new } else { order_id };
        let workload = name(&at.field("id"), &request.id, named);
        if legacy {
            return workload.map(Said::Legacy);
        }
        let tokens = tokens(at, request.term, request.session, request.epoch);
        let order = Order::Remove { purge: request.purge };
        Some(Said::Ours(command(tokens?, workload?, order)))
    })
}

/// The order on a stream. `command_id` ties the answer to it.
#[must_use]
pub fn to_stream(command: &Command, command_id: u64) -> control::AgentCommand {
    let mut message = control::AgentCommand {
        term: command.term.0,
        session: command.session.0,
        epoch: command.epoch.0,
        workload_id: command.workload.to_string(),
        command_id,
        ..control::AgentCommand::default()
    };
    match &command.order {
        Order::Apply(apply) => {
            "apply".clone_into(&mut message.action);
            message.revision_id = apply.revision.to_string();
            desired_word(apply.run).clone_into(&mut message.desired_state);
            message.spec = Some(spec::to_order(&apply.spec));
            message.secrets = secrets(&apply.secrets);
            message.paused = apply.pause;
        }
        Order::Remove { purge } => {
            "remove".clone_into(&mut message.action);
            message.purge = *purge;
        }
    }
    message
}

#[derive(Clone, Copy)]
enum Action {
    Apply,
    Remove,
}

/// The order a message on a stream means, with its number.
pub fn from_stream(message: control::AgentCommand) -> Result<(u64, Command), Faults> {
    reading(|at| {
        let tokens = tokens(at, message.term, message.session, message.epoch);
        let workload = name(&at.field("workload_id"), &message.workload_id, order_id);
        let actions = &[("apply", Action::Apply), ("remove", Action::Remove)];
        let action = word(&at.field("action"), &message.action, actions);
        let id = message.command_id;
        let order = match action? {
            Action::Apply => Order::Apply(apply(at, message)?),
            Action::Remove if message.spec.is_some() => {
                return at.field("spec").refuse("contradicts the action remove");
            }
            Action::Remove => Order::Remove { purge: message.purge },
        };
        Some((id, command(tokens?, workload?, order)))
    })
}

fn apply(at: &At<'_>, message: control::AgentCommand) -> Option<Apply> {
    let revision = name(&at.field("revision_id"), &message.revision_id, RevisionId::new);
    let run = word(&at.field("desired_state"), &message.desired_state, DESIRED);
    if message.purge {
        at.field("purge").fault("contradicts the action apply");
    }
    let spec = match message.spec {
        Some(spec) => spec::read(at, spec),
        None => at.field("spec").refuse("is missing"),
    };
    let secrets = read_secrets(at, message.secrets);
    let (run, spec) = (run?, Arc::new(spec?));
    let pause = run && message.paused;
    Some(Apply { revision: revision?, run, pause, spec, secrets: secrets? })
}

fn secrets(values: &SecretValues) -> Vec<control::SecretValue> {
    let one = |(name, secret): (&SecretName, &Result<SecretValue, Arc<str>>)| {
        let name = name.to_string();
        match secret {
            Ok(secret) => control::SecretValue {
                name,
                version: secret.version,
                value: secret.value.reveal().to_vec(),
                problem: String::new(),
            },
            Err(why) => control::SecretValue {
                name,
                problem: why.to_string(),
                ..control::SecretValue::default()
            },
        }
    };
    values.iter().map(one).collect()
}

fn read_secrets(at: &At<'_>, values: Vec<control::SecretValue>) -> Option<Arc<SecretValues>> {
    let at = at.field("secrets");
    if values.len() > MOST_USES {
        return at.refuse("are too many");
    }
    let mut read = SecretValues::new();
    for control::SecretValue { name: given, version, value, problem } in values {
        let secret = name(&at, &given, SecretName::new)?;
        if value.len() > MOST_VALUE_BYTES {
            return at.refuse(format!("{secret} is too large"));
        }
        let value = SecretValue { version, value: Redacted::new(&value) };
        let problem = Some(Arc::from(clip(&problem, Failure::MESSAGE_LIMIT)));
        let problem = problem.filter(|problem: &Arc<str>| !problem.is_empty());
        read.insert(secret, problem.map_or(Ok(value), Err));
    }
    Some(Arc::new(read))
}

type Tokens = (Term, Session, Epoch);

fn tokens(at: &At<'_>, term: u64, session: u64, epoch: u64) -> Option<Tokens> {
    let term = token(&at.field("term"), term, Term);
    let session = token(&at.field("session"), session, Session);
    let epoch = token(&at.field("epoch"), epoch, Epoch);
    Some((term?, session?, epoch?))
}

fn command((term, session, epoch): Tokens, workload: WorkloadId, order: Order) -> Command {
    Command { term, session, epoch, workload, order }
}
