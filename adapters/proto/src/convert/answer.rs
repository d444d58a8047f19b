//! An agent's answer to an order, both ways.
//!
//! All three messages carry the same five facts; [`Facts`] is their common form.

use std::sync::Arc;

use persys_model::command::{Answer, Refusal};
use persys_model::failure::{Failure, clip};
use persys_model::fault::Faults;
use persys_model::task::TaskStatus;
use persys_model::token::{Epoch, Session, Term};

use super::at::{At, reading};
use super::leaf::{token, word};
use super::{Said, task};
use crate::agent::v1 as agent;
use crate::control::v1 as control;

/// What an old agent answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyAnswer {
    /// It accepted; the work goes on in the background.
    pub done: bool,
    /// It says that this revision was applied before, and did nothing.
    pub skipped: bool,
    /// What it says beside that, cut.
    pub message: Arc<str>,
    /// The id and the progress of the action it began, where it names one.
    pub task: Option<(Arc<str>, TaskStatus)>,
}

/// The facts of an answer as the wire has them.
#[derive(Default)]
struct Facts {
    refusal: &'static str,
    message: &'static str,
    epoch: u64,
    term: u64,
    session: u64,
    removed: bool,
}

#[derive(Clone, Copy)]
enum Rule {
    OldTerm,
    OtherSession,
    OldEpoch,
    Buried,
    Holding,
    Draining,
}

const RULES: &[(&str, Rule)] = &[
    ("old_term", Rule::OldTerm),
    ("other_session", Rule::OtherSession),
    ("old_epoch", Rule::OldEpoch),
    ("buried", Rule::Buried),
    ("holding", Rule::Holding),
    ("draining", Rule::Draining),
];

/// `ordered` is the decision that was answered; it tells our acceptance from an old agent's.
fn facts(answer: &Answer, ordered: Epoch) -> Facts {
    let refused =
        |refusal, message| Facts { refusal, message, epoch: ordered.0, ..Facts::default() };
    match answer {
        Answer::Accepted => Facts { epoch: ordered.0, ..Facts::default() },
        Answer::Removed { epoch } => Facts { epoch: epoch.0, removed: true, ..Facts::default() },
        Answer::Refused(Refusal::OldTerm { seen }) => {
            let facts = refused("old_term", "the order comes from a leadership that has ended");
            Facts { term: seen.0, ..facts }
        }
        Answer::Refused(Refusal::OtherSession { present }) => {
            let facts =
                refused("other_session", "the order was meant for another life of the node");
            Facts { session: present.map_or(0, |session| session.0), ..facts }
        }
        Answer::Refused(Refusal::OldEpoch { held }) => {
            let facts = refused("old_epoch", "a newer decision is already held");
            Facts { epoch: held.0, ..facts }
        }
        Answer::Refused(Refusal::Buried { tombstone }) => {
            let facts = refused("buried", "the workload was removed by a newer decision");
            Facts { epoch: tombstone.0, ..facts }
        }
        Answer::Refused(Refusal::Holding) => {
            refused("holding", "the agent takes nothing new at present")
        }
        Answer::Refused(Refusal::Draining) => refused(
            "draining",
            "the node is being drained by its scheduler: it starts nothing new; stops and deletes \
             are accepted",
        ),
    }
}

/// The answer to `ApplyWorkload`. An order to apply that ends in a removal was overtaken by it, and
/// says so.
#[must_use]
pub fn to_apply(answer: &Answer, ordered: Epoch) -> agent::ApplyWorkloadResponse {
    let facts = match answer {
        Answer::Removed { epoch } => {
            facts(&Answer::Refused(Refusal::Buried { tombstone: *epoch }), ordered)
        }
        Answer::Accepted | Answer::Refused(_) => facts(answer, ordered),
    };
    agent::ApplyWorkloadResponse {
        applied: facts.refusal.is_empty(),
        skipped: false,
        message: facts.message.to_owned(),
        status: None,
        refusal: facts.refusal.to_owned(),
        epoch: facts.epoch,
        term: facts.term,
        session: facts.session,
        task: None,
    }
}

/// The answer to `DeleteWorkload`.
#[must_use]
pub fn to_delete(answer: &Answer, ordered: Epoch) -> agent::DeleteWorkloadResponse {
    let facts = facts(answer, ordered);
    agent::DeleteWorkloadResponse {
        success: facts.refusal.is_empty(),
        message: facts.message.to_owned(),
        refusal: facts.refusal.to_owned(),
        epoch: facts.epoch,
        term: facts.term,
        session: facts.session,
        removed: facts.removed,
        task: None,
    }
}

/// The answer on a stream.
#[must_use]
pub fn to_stream(answer: &Answer, ordered: Epoch, command_id: u64) -> control::AgentReply {
    let facts = facts(answer, ordered);
    control::AgentReply {
        command_id,
        accepted: facts.refusal.is_empty(),
        refusal: facts.refusal.to_owned(),
        report: None,
        epoch: facts.epoch,
        term: facts.term,
        session: facts.session,
        removed: facts.removed,
        task: None,
    }
}

/// What the answer to `ApplyWorkload` means.
pub fn from_apply(
    answer: &agent::ApplyWorkloadResponse,
) -> Result<Said<Answer, LegacyAnswer>, Faults> {
    if answer.refusal.is_empty() && answer.epoch == 0 {
        return Ok(Said::Legacy(LegacyAnswer {
            task: task::named_in(answer.status.as_ref()),
            ..legacy(answer.applied, answer.skipped, &answer.message)
        }));
    }
    let wire = Wire {
        obeyed: answer.applied,
        refusal: &answer.refusal,
        epoch: answer.epoch,
        term: answer.term,
        session: answer.session,
        removed: false,
    };
    reading(|at| read(at, "applied", &wire)).map(Said::Ours)
}

/// What the answer to `DeleteWorkload` means.
pub fn from_delete(
    answer: &agent::DeleteWorkloadResponse,
) -> Result<Said<Answer, LegacyAnswer>, Faults> {
    if answer.refusal.is_empty() && answer.epoch == 0 {
        return Ok(Said::Legacy(legacy(answer.success, false, &answer.message)));
    }
    let wire = Wire {
        obeyed: answer.success,
        refusal: &answer.refusal,
        epoch: answer.epoch,
        term: answer.term,
        session: answer.session,
        removed: answer.removed,
    };
    reading(|at| read(at, "success", &wire)).map(Said::Ours)
}

/// What an answer on a stream means, with the number of its order.
pub fn from_stream(answer: &control::AgentReply) -> Result<(u64, Answer), Faults> {
    let wire = Wire {
        obeyed: answer.accepted,
        refusal: &answer.refusal,
        epoch: answer.epoch,
        term: answer.term,
        session: answer.session,
        removed: answer.removed,
    };
    reading(|at| read(at, "accepted", &wire)).map(|read| (answer.command_id, read))
}

struct Wire<'a> {
    obeyed: bool,
    refusal: &'a str,
    epoch: u64,
    term: u64,
    session: u64,
    removed: bool,
}

fn read(at: &At<'_>, obeyed: &'static str, wire: &Wire<'_>) -> Option<Answer> {
    let epoch = || token(&at.field("epoch"), wire.epoch, Epoch);
    if wire.obeyed == wire.refusal.is_empty() {
        if !wire.obeyed {
            let refusal = refusal(at, wire, epoch)?;
            return Some(Answer::Refused(refusal));
        }
        let epoch = epoch()?;
        return Some(if wire.removed { Answer::Removed { epoch } } else { Answer::Accepted });
    }
    at.field(obeyed).refuse("contradicts refusal")
}

fn refusal(at: &At<'_>, wire: &Wire<'_>, epoch: impl FnOnce() -> Option<Epoch>) -> Option<Refusal> {
    Some(match word(&at.field("refusal"), wire.refusal, RULES)? {
        Rule::OldTerm => Refusal::OldTerm { seen: token(&at.field("term"), wire.term, Term)? },
        Rule::OtherSession => {
            Refusal::OtherSession { present: (wire.session > 0).then_some(Session(wire.session)) }
        }
        Rule::OldEpoch => Refusal::OldEpoch { held: epoch()? },
        Rule::Buried => Refusal::Buried { tombstone: epoch()? },
        Rule::Holding => Refusal::Holding,
        Rule::Draining => Refusal::Draining,
    })
}

fn legacy(done: bool, skipped: bool, message: &str) -> LegacyAnswer {
    let message = Arc::from(clip(message, Failure::MESSAGE_LIMIT));
    LegacyAnswer { done, skipped, message, task: None }
}
