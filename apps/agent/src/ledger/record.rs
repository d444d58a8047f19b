//! What is kept, byte for byte: JSON objects an operator can read, each with its version in `v`.
//!
//! A shape changes only by adding fields that have a default, or by a new version. A record of a
//! newer version is not read: the agent that wrote it knew something this one does not.

use std::collections::BTreeSet;
use std::sync::Arc;

use persys_model::failure::{Failure, FailureReason, FailureStage};
use persys_model::id::{RevisionId, SecretName, WorkloadId};
use persys_model::time::{Millis, WallMillis};
use persys_model::token::{Epoch, Term};
use persys_model::volume::order_id;
use persys_node::ledger::{Buried, Goal, Intent};
use persys_seal::Keys;
use persys_store::StoredSpec;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::secret;
use crate::history::{Action, ActionKind};

/// The version that is written, and the newest that is read.
const VERSION: u32 = 1;

/// Why a record cannot be read. It never quotes the record, which may hold secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// A newer release wrote it.
    Newer(u32),
    /// It is damaged.
    Damaged(String),
}

#[derive(Deserialize)]
struct Versioned {
    v: u32,
}

#[derive(Serialize, Deserialize)]
struct TermShape {
    v: u32,
    term: u64,
}

#[derive(Serialize, Deserialize)]
struct BuriedShape {
    v: u32,
    epoch: u64,
    at_ms: u64,
    #[serde(default)]
    purged: bool,
}

#[derive(Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "a record: each is a key of its own")]
struct IntentShape {
    v: u32,
    epoch: u64,
    revision: Arc<str>,
    goal: GoalShape,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spec: Option<StoredSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secrets: Option<secret::Sealed>,
    #[serde(default)]
    restarts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gave_up: Option<FailureShape>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    kept: bool,
    #[serde(default)]
    completed: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    started: bool,
    /// Secrets with values that what runs was not told of. Releases that do not know this tell nobody.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    untold: BTreeSet<Arc<str>>,
    /// Beside `run`: it is to be paused. Releases that do not know this have it run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    paused: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum GoalShape {
    Run,
    Rest,
    Gone { purge: bool },
}

#[derive(Serialize, Deserialize)]
struct FailureShape {
    reason: Arc<str>,
    message: Arc<str>,
    /// Absent in ledgers of earlier versions, which did not tell the stages apart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    program_ended: bool,
}

#[derive(Serialize, Deserialize)]
struct LeaseShape<'a> {
    v: u32,
    /// The start of the machine that the moment counts from.
    boot: std::borrow::Cow<'a, str>,
    fence_at_ms: u64,
}

#[derive(Serialize, Deserialize)]
struct ActionShape {
    v: u32,
    workload: Arc<str>,
    kind: ActionKindShape,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
    /// Records of earlier versions have none: it was when the action began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_ms: Option<u64>,
    /// 0 if it has not begun.
    started_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ActionKindShape {
    Apply,
    Delete,
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Unreadable> {
    let place = |error: serde_json::Error| {
        let (line, column) = (error.line(), error.column());
        Unreadable::Damaged(format!("is not a record: see line {line}, column {column}"))
    };
    let Versioned { v } = serde_json::from_slice(bytes).map_err(place)?;
    match v {
        VERSION => serde_json::from_slice(bytes).map_err(place),
        newer if newer > VERSION => Err(Unreadable::Newer(newer)),
        older => Err(Unreadable::Damaged(format!("has version {older}, which never was"))),
    }
}

pub(super) fn term(term: Term) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&TermShape { v: VERSION, term: term.0 })
}

pub(super) fn read_term(bytes: &[u8]) -> Result<Term, Unreadable> {
    read::<TermShape>(bytes).map(|shape| Term(shape.term))
}

pub(super) fn buried(buried: &Buried) -> serde_json::Result<Vec<u8>> {
    let Buried { epoch, at, purged } = *buried;
    serde_json::to_vec(&BuriedShape { v: VERSION, epoch: epoch.0, at_ms: at.0, purged })
}

pub(super) fn read_buried(bytes: &[u8]) -> Result<Buried, Unreadable> {
    let shape = read::<BuriedShape>(bytes)?;
    Ok(Buried { epoch: Epoch(shape.epoch), at: WallMillis(shape.at_ms), purged: shape.purged })
}

pub(super) fn intent(
    workload: &WorkloadId,
    intent: &Intent,
    keys: &Keys,
) -> Result<Vec<u8>, String> {
    let Intent { epoch, revision, goal, spec, secrets, restarts, gave_up, .. } = intent;
    let Intent { kept, completed, started, untold, .. } = intent;
    let shape = IntentShape {
        v: VERSION,
        epoch: epoch.0,
        revision: Arc::from(revision.as_str()),
        goal: match *goal {
            Goal::Run | Goal::Pause => GoalShape::Run,
            Goal::Rest => GoalShape::Rest,
            Goal::Gone { purge } => GoalShape::Gone { purge },
        },
        spec: spec.as_deref().map(StoredSpec::from),
        secrets: secret::seal(workload, *epoch, secrets, keys)?,
        restarts: *restarts,
        gave_up: gave_up.as_ref().map(|failure| FailureShape {
            reason: Arc::from(failure.reason.code()),
            message: Arc::clone(&failure.message),
            program_ended: failure.stage == FailureStage::Run,
        }),
        kept: *kept,
        completed: *completed,
        started: *started,
        untold: untold.iter().map(|name| Arc::from(name.as_str())).collect(),
        paused: *goal == Goal::Pause,
    };
    serde_json::to_vec(&shape).map_err(|error| error.to_string())
}

pub(super) fn read_intent(
    workload: &WorkloadId,
    bytes: &[u8],
    keys: &Keys,
) -> Result<Intent, Unreadable> {
    let shape = read::<IntentShape>(bytes)?;
    let epoch = Epoch(shape.epoch);
    let secrets = shape.secrets.map(|sealed| secret::open(workload, epoch, &sealed, keys));
    let revision = RevisionId::new(&shape.revision)
        .map_err(|error| Unreadable::Damaged(format!("revision {error}")))?;
    let spec = shape.spec.map(StoredSpec::read).transpose().map_err(Unreadable::Damaged)?;
    let untold = shape.untold.iter().map(|name| {
        let damaged = |error| Unreadable::Damaged(format!("untold {error}"));
        SecretName::new(name).map_err(damaged)
    });
    Ok(Intent {
        epoch,
        revision,
        goal: match shape.goal {
            GoalShape::Run if shape.paused => Goal::Pause,
            GoalShape::Run => Goal::Run,
            GoalShape::Rest => Goal::Rest,
            GoalShape::Gone { purge } => Goal::Gone { purge },
        },
        spec: spec.map(Arc::new),
        secrets: Arc::new(secrets.unwrap_or_default()),
        restarts: shape.restarts,
        gave_up: shape.gave_up.as_ref().map(read_failure).transpose()?,
        kept: shape.kept,
        completed: shape.completed,
        started: shape.started,
        untold: untold.collect::<Result<_, _>>()?,
    })
}

fn read_failure(shape: &FailureShape) -> Result<Failure, Unreadable> {
    let reason = FailureReason::ALL.into_iter().find(|reason| reason.code() == &*shape.reason);
    let damaged = || Unreadable::Damaged("gave_up has a reason nobody knows".to_owned());
    let stage = if shape.program_ended { FailureStage::Run } else { FailureStage::Start };
    Ok(Failure::new(reason.ok_or_else(damaged)?, &shape.message).in_stage(stage))
}

/// The lease as the watchdog reads it.
pub(super) fn lease(boot: &str, until: Millis) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&LeaseShape { v: VERSION, boot: boot.into(), fence_at_ms: until.0 })
}

/// The boot a lease counts from, and until when it lasts.
pub(super) fn read_lease(bytes: &[u8]) -> Result<(String, Millis), Unreadable> {
    let shape = read::<LeaseShape<'static>>(bytes)?;
    Ok((shape.boot.into_owned(), Millis(shape.fence_at_ms)))
}

pub(super) fn action(action: &Action) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&ActionShape {
        v: VERSION,
        workload: Arc::from(action.workload.as_str()),
        kind: match action.kind {
            ActionKind::Apply => ActionKindShape::Apply,
            ActionKind::Delete => ActionKindShape::Delete,
        },
        epoch: action.epoch.map(|epoch| epoch.0),
        created_ms: Some(action.created_at.0),
        started_ms: action.started_at.map_or(0, |at| at.0),
        ended_ms: action.ended_at.map(|at| at.0),
        error: match &action.result {
            Some(Err(error)) => Some(error.clone()),
            Some(Ok(())) | None => None,
        },
    })
}

pub(super) fn read_action(id: u64, bytes: &[u8]) -> Result<Action, Unreadable> {
    let shape = read::<ActionShape>(bytes)?;
    let workload = order_id(&shape.workload)
        .map_err(|error| Unreadable::Damaged(format!("workload {error}")))?;
    Ok(Action {
        id,
        workload,
        kind: match shape.kind {
            ActionKindShape::Apply => ActionKind::Apply,
            ActionKindShape::Delete => ActionKind::Delete,
        },
        epoch: shape.epoch.map(Epoch),
        result: shape.ended_ms.map(|_| shape.error.map_or(Ok(()), Err)),
        created_at: WallMillis(shape.created_ms.unwrap_or(shape.started_ms)),
        started_at: (shape.started_ms > 0).then_some(WallMillis(shape.started_ms)),
        ended_at: shape.ended_ms.map(WallMillis),
    })
}
