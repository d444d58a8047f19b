//! `/events/<time>-<seq>`

use std::sync::Arc;

use persys_model::event::{Author, Event, Happening, NodeChange, NodePart};
use persys_model::id::{NamespaceName, NodeId, RevisionId, VolumeName, WorkloadId};
use persys_model::mode::Mode;
use persys_model::spec::WorkloadType;
use persys_model::task::{Task, TaskAction, TaskStatus};
use persys_model::time::WallMillis;
use persys_model::token::{Epoch, EventSeq};
use persys_model::volume::VolumeKey;
use serde::{Deserialize, Serialize};

use super::assignment::{CodeShape, HealthStateShape, PhaseShape};
use super::drift::DriftKindShape;
use super::node::ConditionShape;
use super::spec::volume::DriverShape;
use super::volume::VolumePhaseShape;
use super::{Record, VERSION, mirror, name};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EventShape {
    v: u32,
    seq: u64,
    at_ms: u64,
    what: HappeningShape,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    because: Option<Arc<str>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum HappeningShape {
    Workload {
        id: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<PhaseShape>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<PhaseShape>,
        code: CodeShape,
        message: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<Arc<str>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revision: Option<Arc<str>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskShape>,
    },
    NodeRegistered {
        id: Arc<str>,
    },
    NodeCondition {
        id: Arc<str>,
        from: ConditionShape,
        to: ConditionShape,
        why: Arc<str>,
    },
    NodeTrouble {
        id: Arc<str>,
        /// `orders`, or the type of workload whose runtime it is.
        part: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<Arc<str>>,
    },
    WorkloadDelayed {
        id: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<Arc<str>>,
        message: Arc<str>,
    },
    SecretChanged {
        id: Arc<str>,
        node: Arc<str>,
        message: Arc<str>,
    },
    Health {
        id: Arc<str>,
        node: Arc<str>,
        to: HealthStateShape,
        message: Arc<str>,
    },
    NodeChanged {
        id: Arc<str>,
        what: NodeChangeShape,
    },
    MassFailureBrake {
        silent: usize,
        total: usize,
        on: bool,
    },
    Drift {
        node: Arc<str>,
        id: Arc<str>,
        kind: DriftKindShape,
        resolved: bool,
    },
    Volume {
        driver: DriverShape,
        volume: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<VolumePhaseShape>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<Arc<str>>,
    },
    Asked {
        what: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workload: Option<Arc<str>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<Arc<str>>,
    },
    Shadow {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace: Option<Arc<str>>,
        on: bool,
        workloads: usize,
    },
    ModeChanged {
        from: ModeShape,
        to: ModeShape,
        why: Arc<str>,
    },
}

/// An agent's action, in the words of its `ListActions`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TaskShape {
    node: Arc<str>,
    id: Arc<str>,
    action: TaskActionShape,
    status: TaskStatusShape,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended_ms: Option<u64>,
}

mirror!(TaskActionShape of TaskAction { Apply, Delete });
mirror!(TaskStatusShape of TaskStatus { Pending, Running, Completed, Failed });

impl From<&Task> for TaskShape {
    fn from(task: &Task) -> Self {
        Self {
            node: text(task.node.as_str()),
            id: Arc::clone(&task.id),
            action: task.action.into(),
            status: task.status.into(),
            error: task.error.clone(),
            created_ms: task.created.map(|at| at.0),
            started_ms: task.started.map(|at| at.0),
            ended_ms: task.ended.map(|at| at.0),
        }
    }
}

impl TaskShape {
    fn read(self) -> Result<Task, String> {
        Ok(Task {
            node: name("node", &self.node, NodeId::new)?,
            id: self.id,
            action: self.action.into(),
            status: self.status.into(),
            error: self.error,
            created: self.created_ms.map(WallMillis),
            started: self.started_ms.map(WallMillis),
            ended: self.ended_ms.map(WallMillis),
        })
    }
}

mirror!(NodeChangeShape of NodeChange {
    Draining, Undrained, Tainted, Untainted, LabelSet, LabelDeleted, ConfirmedGone, Removed,
});
mirror!(ModeShape of Mode { Normal, Degraded, Recovery });

impl Record for Event {
    type Shape = EventShape;

    fn shape(&self) -> EventShape {
        let Self { seq, at, what, by } = self;
        let because = by.as_ref().map(|by| Arc::clone(&by.why)).filter(|why| !why.is_empty());
        let by = by.as_ref().map(|by| Arc::clone(&by.who));
        EventShape { v: VERSION, seq: seq.0, at_ms: at.0, what: what.into(), by, because }
    }

    fn version(shape: &EventShape) -> u32 {
        shape.v
    }

    fn read(shape: EventShape) -> Result<Self, String> {
        let EventShape { v: _, seq, at_ms, what, by, because } = shape;
        let why = because.unwrap_or_else(|| Arc::from(""));
        let by = by.map(|who| Arc::new(Author { why, ..Author::new(&who) }));
        Ok(Self { seq: EventSeq(seq), at: WallMillis(at_ms), what: what.read()?, by })
    }
}

/// The stored word for the delivery of orders.
const ORDERS: &str = "orders";
/// The stored word for the numbers that an agent holds.
const TOKENS: &str = "tokens";

fn read_part(word: &str) -> Result<NodePart, String> {
    if word == ORDERS {
        return Ok(NodePart::Orders);
    }
    if word == TOKENS {
        return Ok(NodePart::Tokens);
    }
    let kind = WorkloadType::ALL.into_iter().find(|kind| kind.word() == word);
    kind.map(NodePart::Runtime).ok_or_else(|| "part is not one of a node".to_owned())
}

fn text(id: impl AsRef<str>) -> Arc<str> {
    Arc::from(id.as_ref())
}

fn part_word(part: NodePart) -> &'static str {
    match part {
        NodePart::Orders => ORDERS,
        NodePart::Tokens => TOKENS,
        NodePart::Runtime(kind) => kind.word(),
    }
}

impl From<&Happening> for HappeningShape {
    #[expect(clippy::too_many_lines, reason = "one arm for each kind of event")]
    fn from(what: &Happening) -> Self {
        match what {
            Happening::Workload { id, from, to, code, message, node, epoch, revision, task } => {
                Self::Workload {
                    id: text(id.as_str()),
                    from: from.map(PhaseShape::from),
                    to: to.map(PhaseShape::from),
                    code: (*code).into(),
                    message: Arc::clone(message),
                    node: node.as_ref().map(|node| text(node.as_str())),
                    epoch: epoch.map(|epoch| epoch.0),
                    revision: revision.as_ref().map(|revision| text(revision.as_str())),
                    task: task.as_deref().map(TaskShape::from),
                }
            }
            Happening::NodeRegistered { id } => Self::NodeRegistered { id: text(id.as_str()) },
            Happening::NodeCondition { id, from, to, why } => Self::NodeCondition {
                id: text(id.as_str()),
                from: (*from).into(),
                to: (*to).into(),
                why: Arc::clone(why),
            },
            Happening::NodeTrouble { id, part, why } => Self::NodeTrouble {
                id: text(id.as_str()),
                part: Arc::from(part_word(*part)),
                why: why.clone(),
            },
            Happening::WorkloadDelayed { id, node, message } => Self::WorkloadDelayed {
                id: text(id.as_str()),
                node: node.as_ref().map(|node| text(node.as_str())),
                message: Arc::clone(message),
            },
            Happening::SecretChanged { id, node, message } => Self::SecretChanged {
                id: text(id.as_str()),
                node: text(node.as_str()),
                message: Arc::clone(message),
            },
            Happening::Health { id, node, to, message } => Self::Health {
                id: text(id.as_str()),
                node: text(node.as_str()),
                to: (*to).into(),
                message: Arc::clone(message),
            },
            Happening::NodeChanged { id, what } => {
                Self::NodeChanged { id: text(id.as_str()), what: (*what).into() }
            }
            Happening::MassFailureBrake { silent, total, on } => {
                Self::MassFailureBrake { silent: *silent, total: *total, on: *on }
            }
            Happening::Drift { node, id, kind, resolved } => Self::Drift {
                node: text(node.as_str()),
                id: text(id.as_str()),
                kind: (*kind).into(),
                resolved: *resolved,
            },
            Happening::Volume { key, to, node } => Self::Volume {
                driver: key.driver.into(),
                volume: text(key.name.as_str()),
                to: to.map(Into::into),
                node: node.as_ref().map(|node| text(node.as_str())),
            },
            Happening::Asked { what, workload, node } => Self::Asked {
                what: Arc::clone(what),
                workload: workload.as_ref().map(|id| text(id.as_str())),
                node: node.as_ref().map(|id| text(id.as_str())),
            },
            Happening::Shadow { namespace, on, workloads } => Self::Shadow {
                namespace: namespace.as_ref().map(|name| text(name.as_str())),
                on: *on,
                workloads: *workloads,
            },
            Happening::ModeChanged { from, to, why } => {
                Self::ModeChanged { from: (*from).into(), to: (*to).into(), why: Arc::clone(why) }
            }
        }
    }
}

fn read_namespace(text: &str) -> Result<NamespaceName, String> {
    name("namespace", text, NamespaceName::new)
}

impl HappeningShape {
    #[expect(clippy::too_many_lines, reason = "one arm for each kind of event")]
    fn read(self) -> Result<Happening, String> {
        let node_id = |id: &str| name("node", id, NodeId::new);
        let workload_id = |id: &str| name("workload", id, WorkloadId::new);
        Ok(match self {
            Self::Workload { id, from, to, code, message, node, epoch, revision, task } => {
                Happening::Workload {
                    id: workload_id(&id)?,
                    from: from.map(Into::into),
                    to: to.map(Into::into),
                    code: code.into(),
                    message,
                    node: node.map(|node| node_id(&node)).transpose()?,
                    epoch: epoch.map(Epoch),
                    revision: revision
                        .map(|revision| name("revision", &revision, RevisionId::new))
                        .transpose()?,
                    task: task.map(TaskShape::read).transpose()?.map(Arc::new),
                }
            }
            Self::NodeRegistered { id } => Happening::NodeRegistered { id: node_id(&id)? },
            Self::NodeCondition { id, from, to, why } => Happening::NodeCondition {
                id: node_id(&id)?,
                from: from.into(),
                to: to.into(),
                why,
            },
            Self::NodeTrouble { id, part, why } => {
                Happening::NodeTrouble { id: node_id(&id)?, part: read_part(&part)?, why }
            }
            Self::WorkloadDelayed { id, node, message } => Happening::WorkloadDelayed {
                id: workload_id(&id)?,
                node: node.map(|node| node_id(&node)).transpose()?,
                message,
            },
            Self::SecretChanged { id, node, message } => {
                Happening::SecretChanged { id: workload_id(&id)?, node: node_id(&node)?, message }
            }
            Self::Health { id, node, to, message } => Happening::Health {
                id: workload_id(&id)?,
                node: node_id(&node)?,
                to: to.into(),
                message,
            },
            Self::NodeChanged { id, what } => {
                Happening::NodeChanged { id: node_id(&id)?, what: what.into() }
            }
            Self::MassFailureBrake { silent, total, on } => {
                Happening::MassFailureBrake { silent, total, on }
            }
            Self::Drift { node, id, kind, resolved } => Happening::Drift {
                node: node_id(&node)?,
                id: workload_id(&id)?,
                kind: kind.into(),
                resolved,
            },
            Self::Volume { driver, volume, to, node } => Happening::Volume {
                key: VolumeKey {
                    driver: driver.into(),
                    name: name("volume", &volume, VolumeName::new)?,
                },
                to: to.map(Into::into),
                node: node.map(|node| node_id(&node)).transpose()?,
            },
            Self::Asked { what, workload, node } => Happening::Asked {
                what,
                workload: workload.map(|id| workload_id(&id)).transpose()?,
                node: node.map(|id| node_id(&id)).transpose()?,
            },
            Self::Shadow { namespace, on, workloads } => Happening::Shadow {
                namespace: namespace.map(|text| read_namespace(&text)).transpose()?,
                on,
                workloads,
            },
            Self::ModeChanged { from, to, why } => {
                Happening::ModeChanged { from: from.into(), to: to.into(), why }
            }
        })
    }
}
