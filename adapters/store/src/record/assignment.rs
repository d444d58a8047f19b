//! `/assignments/<id>`

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_model::assignment::{
    Assignment, FormerCopy, Place, Reason, ReasonCode, Update, UpdateFailure, Version,
};
use persys_model::failure::{Failure, FailureReason, FailureStage};
use persys_model::health::{Health, HealthRecord, HealthState};
use persys_model::id::{NodeId, RevisionId, SecretName, WorkloadId};
use persys_model::phase::Phase;
use persys_model::time::WallMillis;
use persys_model::token::{Epoch, Generation};
use serde::{Deserialize, Serialize};

use super::resources::{HostPortShape, ResourcesShape};
use super::spec::SpecShape;
use super::{Beside, Record, VERSION, mirror, name};

#[derive(Serialize, Deserialize)]
pub(crate) struct AssignmentShape {
    v: u32,
    workload: Arc<str>,
    phase: PhaseShape,
    /// A phase that earlier releases do not know, beside the nearest one they do know, as with `exact` of
    /// the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exact_phase: Option<PhaseShape>,
    reason: ReasonShape,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place: Option<PlaceShape>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    former: BTreeMap<Arc<str>, FormerShape>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data_on: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    update: Option<UpdateShape>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    health: Option<HealthShape>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ReasonShape {
    code: CodeShape,
    /// A code that earlier releases do not know; they read the nearest one they do know in `code`.
    /// It counts only beside that one, since they keep it when they change `code`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exact: Option<CodeShape>,
    message: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<FailureShape>,
    since_ms: u64,
}

/// The code that earlier releases read in place of this one, if they do not know it.
fn nearest(code: ReasonCode) -> Option<ReasonCode> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "all others were always known")]
    match code {
        ReasonCode::DispatchFailed => Some(ReasonCode::Placed),
        ReasonCode::PauseRequested | ReasonCode::RolledBack => Some(ReasonCode::Updated),
        ReasonCode::UpdateFailed => Some(ReasonCode::Running),
        ReasonCode::Paused | ReasonCode::FoundPaused | ReasonCode::NotResponding => {
            Some(ReasonCode::Running)
        }
        _ => None,
    }
}

/// The phase that earlier releases read in place of this one, if they do not know it.
fn nearest_phase(phase: Phase) -> Option<Phase> {
    matches!(phase, Phase::Paused | Phase::Unresponsive).then_some(Phase::Running)
}

/// The phase meant by a stored one and the exact one beside it.
fn meant_phase(phase: Phase, exact: Option<Phase>) -> Phase {
    exact.filter(|exact| nearest_phase(*exact) == Some(phase)).unwrap_or(phase)
}

#[derive(Debug, Serialize, Deserialize)]
struct FailureShape {
    reason: FailureReasonShape,
    message: Arc<str>,
    /// Records of earlier versions do not tell the stages apart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    program_ended: bool,
}

#[derive(Serialize, Deserialize)]
struct PlaceShape {
    node: Arc<str>,
    epoch: u64,
    generation: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    paused: bool,
    reserved: ResourcesShape,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ports: Vec<HostPortShape>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<VersionShape>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    values: BTreeMap<Arc<str>, Arc<str>>,
    /// Records of earlier versions know no shadow: their decisions were made outside of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    shadow: bool,
    /// Releases that do not know this find an older generation and have it run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    restart: Option<u64>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct VersionShape {
    revision: Arc<str>,
    spec: SpecShape,
}

#[derive(Serialize, Deserialize)]
struct UpdateShape {
    from: VersionShape,
    number: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    on: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<UpdateFailureShape>,
}

#[derive(Serialize, Deserialize)]
struct UpdateFailureShape {
    failure: FailureShape,
    at_ms: u64,
    #[serde(default, rename = "final", skip_serializing_if = "std::ops::Not::not")]
    is_final: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct HealthShape {
    state: HealthStateShape,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    detail: Arc<str>,
    since_ms: u64,
    epoch: u64,
    #[serde(default)]
    restarts: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct FormerShape {
    epoch: u64,
    reserved: ResourcesShape,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    restart: bool,
}

mirror!(HealthStateShape of HealthState { Starting, Healthy, Unhealthy });
mirror!(PhaseShape of Phase {
    Pending, Starting, Running, Paused, Unresponsive, Restarting, Stopping, Stopped, Completed, Backoff, Failed, Deleting,
});
mirror!(CodeShape of ReasonCode {
    Submitted, NoNodeFits, Placed, Running, DispatchFailed, Updated, UpdateWaits, UpdateFailed, RolledBack, StopRequested, Stopped,
    PauseRequested, Paused, FoundPaused, NotResponding, StartRequested, Completed, Restarting, AttemptFailed, GaveUp, RetryRequested, RetryDue,
    NodeLost, NodeDrained, DataOnNode, WaitsForFence, DeleteRequested, Recovered, Adopted,
});
mirror!(FailureReasonShape of FailureReason {
    ImagePullFailed, ImageNotFound, InsufficientResources, InvalidSpec, RuntimeError, NetworkError,
    StorageError, VmBootFailed,
});

impl Record for Assignment {
    type Shape = AssignmentShape;

    fn shape(&self) -> AssignmentShape {
        let Self { workload, phase, reason, place, former, data_on, update, health } = self;
        let former = former.iter().map(|(node, copy)| (Arc::from(node.as_str()), copy.into()));
        AssignmentShape {
            v: VERSION,
            workload: Arc::from(workload.as_str()),
            phase: nearest_phase(*phase).unwrap_or(*phase).into(),
            exact_phase: nearest_phase(*phase).map(|_| (*phase).into()),
            reason: reason.into(),
            place: place.as_ref().map(PlaceShape::from),
            former: former.collect(),
            data_on: data_on.as_ref().map(|node| Arc::from(node.as_str())),
            update: update.as_ref().map(UpdateShape::from),
            health: health.as_deref().map(HealthShape::from),
        }
    }

    fn version(shape: &AssignmentShape) -> u32 {
        shape.v
    }

    fn read(shape: AssignmentShape) -> Result<Self, String> {
        let mut former = BTreeMap::new();
        for (node, copy) in shape.former {
            let FormerShape { epoch, reserved, restart } = copy;
            let copy = FormerCopy { epoch: Epoch(epoch), reserved: reserved.read()?, restart };
            former.insert(name("former", &node, NodeId::new)?, copy);
        }
        Ok(Self {
            workload: name("workload", &shape.workload, WorkloadId::new)?,
            phase: meant_phase(shape.phase.into(), shape.exact_phase.map(Phase::from)),
            reason: shape.reason.into(),
            place: shape.place.map(PlaceShape::read).transpose()?,
            former,
            data_on: shape.data_on.map(|node| name("data_on", &node, NodeId::new)).transpose()?,
            update: shape.update.map(UpdateShape::read).transpose()?,
            health: shape.health.map(|health| Box::new(health.into())),
        })
    }

    const BESIDE: &'static [&'static str] =
        &["workloadId", "nodeId", "assignedNode", "status", "statusInfo"];

    fn beside(&self, fields: &mut Beside) {
        fields.put("workloadId", self.workload.as_str());
        if let Some(place) = &self.place {
            fields.put("nodeId", place.node.as_str());
            fields.put("assignedNode", place.node.as_str());
        }
        let (status, reason) = (self.phase.word(), &self.reason);
        fields.put("status", status);
        fields.put(
            "statusInfo",
            &StatusInfo {
                actual_state: status,
                last_updated: reason.since.rfc3339(),
                failure_reason: reason.failure.as_ref().map(|failure| failure.reason.code()),
            },
        );
    }
}

/// `statusInfo` of the earlier system. Its `reason` is left out: ours is beside it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusInfo {
    actual_state: &'static str,
    last_updated: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_reason: Option<&'static str>,
}

impl From<&Reason> for ReasonShape {
    fn from(Reason { code, message, failure, since }: &Reason) -> Self {
        let failure = failure.as_ref().map(FailureShape::from);
        let (known, exact) = match nearest(*code) {
            Some(known) => (known, Some(CodeShape::from(*code))),
            None => (*code, None),
        };
        let message = Arc::clone(message);
        Self { code: known.into(), exact, message, failure, since_ms: since.0 }
    }
}

impl From<ReasonShape> for Reason {
    fn from(ReasonShape { code, exact, message, failure, since_ms }: ReasonShape) -> Self {
        let code = ReasonCode::from(code);
        let exact = exact.map(ReasonCode::from).filter(|exact| nearest(*exact) == Some(code));
        let failure = failure.map(Failure::from);
        Self { code: exact.unwrap_or(code), message, failure, since: WallMillis(since_ms) }
    }
}

impl From<&Failure> for FailureShape {
    fn from(Failure { reason, stage, message }: &Failure) -> Self {
        Self {
            reason: (*reason).into(),
            message: Arc::clone(message),
            program_ended: *stage == FailureStage::Run,
        }
    }
}

impl From<FailureShape> for Failure {
    fn from(FailureShape { reason, message, program_ended }: FailureShape) -> Self {
        let stage = if program_ended { FailureStage::Run } else { FailureStage::Start };
        Self { reason: reason.into(), stage, message }
    }
}

impl From<&HealthRecord> for HealthShape {
    fn from(HealthRecord { health, since, epoch, restarts }: &HealthRecord) -> Self {
        Self {
            state: health.state.into(),
            detail: Arc::clone(&health.detail),
            since_ms: since.0,
            epoch: epoch.0,
            restarts: *restarts,
        }
    }
}

impl From<HealthShape> for HealthRecord {
    fn from(HealthShape { state, detail, since_ms, epoch, restarts }: HealthShape) -> Self {
        let health = Health { state: state.into(), detail };
        Self { health, since: WallMillis(since_ms), epoch: Epoch(epoch), restarts }
    }
}

impl From<&Update> for UpdateShape {
    fn from(Update { from, number, on, failed }: &Update) -> Self {
        Self {
            from: from.into(),
            number: *number,
            on: on.as_ref().map(|node| Arc::from(node.as_str())),
            failed: failed.as_ref().map(|failed| UpdateFailureShape {
                failure: FailureShape::from(&failed.failure),
                at_ms: failed.at.0,
                is_final: failed.is_final,
            }),
        }
    }
}

impl UpdateShape {
    fn read(self) -> Result<Update, String> {
        let failed = self.failed.map(|failed| UpdateFailure {
            failure: Failure::from(failed.failure),
            at: WallMillis(failed.at_ms),
            is_final: failed.is_final,
        });
        let on = self.on.map(|node| name("update.on", &node, NodeId::new)).transpose()?;
        Ok(Update {
            from: self.from.read("update.from.revision")?,
            number: self.number,
            on,
            failed,
        })
    }
}

impl From<&Place> for PlaceShape {
    fn from(place: &Place) -> Self {
        let Place { node, epoch, generation, paused, reserved, .. } = place;
        let Place { ports, version, values, shadow, restart, .. } = place;
        let value = |(name, digest): (&SecretName, &Arc<str>)| {
            (Arc::from(name.as_str()), Arc::clone(digest))
        };
        Self {
            node: Arc::from(node.as_str()),
            epoch: epoch.0,
            generation: generation.0,
            paused: *paused,
            reserved: reserved.into(),
            ports: ports.iter().map(|port| HostPortShape::from(*port)).collect(),
            version: version.as_ref().map(VersionShape::from),
            values: values.iter().map(value).collect(),
            shadow: *shadow,
            restart: restart.map(|generation| generation.0),
        }
    }
}

impl PlaceShape {
    fn read(self) -> Result<Place, String> {
        let ports: Result<Vec<_>, _> = self.ports.into_iter().map(HostPortShape::read).collect();
        let value = |(secret, digest): (Arc<str>, Arc<str>)| {
            Ok((name("place.values", &secret, SecretName::new)?, digest))
        };
        let values: Result<BTreeMap<_, _>, String> = self.values.into_iter().map(value).collect();
        Ok(Place {
            node: name("place.node", &self.node, NodeId::new)?,
            epoch: Epoch(self.epoch),
            generation: Generation(self.generation),
            paused: self.paused,
            reserved: self.reserved.read()?,
            ports: ports?,
            version: self
                .version
                .map(|version| version.read("place.version.revision"))
                .transpose()?,
            values: values?,
            shadow: self.shadow,
            restart: self.restart.map(Generation),
        })
    }
}

impl From<&FormerCopy> for FormerShape {
    fn from(FormerCopy { epoch, reserved, restart }: &FormerCopy) -> Self {
        Self { epoch: epoch.0, reserved: reserved.into(), restart: *restart }
    }
}

impl From<&Version> for VersionShape {
    fn from(Version { revision, spec }: &Version) -> Self {
        Self { revision: Arc::from(revision.as_str()), spec: SpecShape::from(&**spec) }
    }
}

impl VersionShape {
    pub(super) fn read(self, field: &'static str) -> Result<Version, String> {
        Ok(Version {
            revision: name(field, &self.revision, RevisionId::new)?,
            spec: Arc::new(self.spec.read()?),
        })
    }
}
