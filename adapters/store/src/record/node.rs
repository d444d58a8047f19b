//! `/nodes/<id>`

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_model::id::{DriverName, NodeId, PoolName};
use persys_model::labels::{Taint, TaintEffect};
use persys_model::node::{Condition, Node, NodeFacts, Pool};
use persys_model::resources::Compute;
use persys_model::spec::WorkloadType;
use persys_model::time::WallMillis;
use persys_model::token::Session;
use serde::{Deserialize, Serialize};

use super::{Beside, Record, VERSION, is_false, mirror, name};

#[derive(Debug, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "one for each capability of its agent")]
pub(crate) struct NodeShape {
    v: u32,
    id: Arc<str>,
    condition: ConditionShape,
    since_ms: u64,
    session: u64,
    host: Arc<str>,
    incarnation: Arc<str>,
    endpoint: Arc<str>,
    cpu_millicores: u64,
    memory_mib: u64,
    #[serde(default)]
    pools: Vec<PoolShape>,
    #[serde(default)]
    types: Vec<TypeShape>,
    #[serde(default)]
    drivers: Vec<Arc<str>>,
    #[serde(default)]
    agent_labels: BTreeMap<Arc<str>, Arc<str>>,
    #[serde(default)]
    labels: BTreeMap<Arc<str>, Arc<str>>,
    #[serde(default)]
    hidden_labels: BTreeSet<Arc<str>>,
    #[serde(default)]
    taints: Vec<TaintShape>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    drain: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "is_false")]
    fence: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pauses: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    checks_health: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    signals: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    addresses: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    missing: Vec<MissingShape>,
}

#[derive(Debug, Serialize, Deserialize)]
struct MissingShape {
    #[serde(rename = "type")]
    kind: TypeShape,
    why: Arc<str>,
}

#[derive(Debug, Serialize, Deserialize)]
struct PoolShape {
    name: Arc<str>,
    total_gib: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shares: Option<Arc<str>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct TaintShape {
    key: Arc<str>,
    value: Arc<str>,
    effect: TaintEffectShape,
}

mirror!(TaintEffectShape of TaintEffect { NoSchedule, PreferNoSchedule });
mirror!(TypeShape of WorkloadType { Container, Compose, Vm });
mirror!(ConditionShape of Condition { Ready, NotReady, Lost });

impl Record for Node {
    type Shape = NodeShape;

    fn shape(&self) -> NodeShape {
        let Self { facts, session, labels, hidden_labels, taints, drain, condition, since } = self;
        let NodeFacts {
            id,
            host,
            incarnation,
            endpoint,
            capacity: Compute { cpu_millicores, memory_mib },
            pools,
            types,
            drivers,
            labels: agent_labels,
            fence,
            pauses,
            checks_health,
            signals,
            addresses,
            missing,
        } = facts;
        NodeShape {
            v: VERSION,
            id: Arc::from(id.as_str()),
            condition: (*condition).into(),
            since_ms: since.0,
            session: session.0,
            host: Arc::clone(host),
            incarnation: Arc::clone(incarnation),
            endpoint: Arc::clone(endpoint),
            cpu_millicores: *cpu_millicores,
            memory_mib: *memory_mib,
            pools: pools.iter().map(PoolShape::from).collect(),
            types: types.iter().map(|kind| TypeShape::from(*kind)).collect(),
            drivers: drivers.iter().map(|driver| Arc::from(driver.as_str())).collect(),
            agent_labels: agent_labels.clone(),
            labels: labels.clone(),
            hidden_labels: hidden_labels.clone(),
            taints: taints.iter().map(TaintShape::from).collect(),
            drain: drain.clone(),
            fence: *fence,
            pauses: *pauses,
            checks_health: *checks_health,
            signals: *signals,
            addresses: *addresses,
            missing: missing
                .iter()
                .map(|(kind, why)| MissingShape { kind: (*kind).into(), why: Arc::clone(why) })
                .collect(),
        }
    }

    fn version(shape: &NodeShape) -> u32 {
        shape.v
    }

    fn read(shape: NodeShape) -> Result<Self, String> {
        let pools: Result<Vec<_>, _> = shape.pools.into_iter().map(PoolShape::read).collect();
        let drivers: Result<BTreeSet<_>, _> =
            shape.drivers.iter().map(|driver| name("drivers", driver, DriverName::new)).collect();
        let facts = NodeFacts {
            id: name("id", &shape.id, NodeId::new)?,
            host: shape.host,
            incarnation: shape.incarnation,
            endpoint: shape.endpoint,
            capacity: Compute::new(shape.cpu_millicores, shape.memory_mib),
            pools: pools?,
            types: shape.types.into_iter().map(WorkloadType::from).collect(),
            drivers: drivers?,
            labels: shape.agent_labels,
            fence: shape.fence,
            pauses: shape.pauses,
            checks_health: shape.checks_health,
            signals: shape.signals,
            addresses: shape.addresses,
            missing: shape.missing.into_iter().map(|one| (one.kind.into(), one.why)).collect(),
        };
        Ok(Self {
            facts,
            session: Session(shape.session),
            labels: shape.labels,
            hidden_labels: shape.hidden_labels,
            taints: shape.taints.into_iter().map(Taint::from).collect(),
            drain: shape.drain,
            condition: shape.condition.into(),
            since: WallMillis(shape.since_ms),
        })
    }

    const BESIDE: &'static [&'static str] = &[
        "nodeId",
        "hostname",
        "ipAddress",
        "agentGrpcPort",
        "agentEndpoint",
        "status",
        "statusUpdatedAt",
        "totalCpu",
        "totalMemory",
        "supportedWorkloadTypes",
        "supportedStorageDrivers",
    ];

    fn beside(&self, fields: &mut Beside) {
        let facts = &self.facts;
        fields.put("nodeId", facts.id.as_str());
        fields.put("hostname", facts.id.as_str());
        if let Some((address, port)) = facts.endpoint.rsplit_once(':') {
            fields.put("ipAddress", address.trim_matches(['[', ']']));
            if let Ok(port) = port.parse::<u16>() {
                fields.put("agentGrpcPort", &port);
            }
        }
        fields.put("agentEndpoint", &*facts.endpoint);
        fields.put("status", self.status_word());
        fields.time("statusUpdatedAt", self.since);
        let (cores, rest) =
            (facts.capacity.cpu_millicores / 1000, facts.capacity.cpu_millicores % 1000);
        let cores: Option<serde_json::Number> = format!("{cores}.{rest:03}").parse().ok();
        fields.put("totalCpu", &cores);
        fields.put("totalMemory", &facts.capacity.memory_mib);
        let types: Vec<_> = facts.types.iter().map(|kind| kind.word()).collect();
        fields.put("supportedWorkloadTypes", &types);
        let drivers: Vec<_> = facts.drivers.iter().map(DriverName::as_str).collect();
        fields.put("supportedStorageDrivers", &drivers);
    }
}

impl From<&Pool> for PoolShape {
    fn from(Pool { name, total_gib, shares }: &Pool) -> Self {
        let shares = shares.as_ref().map(|first| Arc::from(first.as_str()));
        Self { name: Arc::from(name.as_str()), total_gib: *total_gib, shares }
    }
}

impl PoolShape {
    fn read(self) -> Result<Pool, String> {
        let shares = self.shares.map(|first| name("pools.shares", &first, PoolName::new));
        Ok(Pool {
            name: name("pools.name", &self.name, PoolName::new)?,
            total_gib: self.total_gib,
            shares: shares.transpose()?,
        })
    }
}

impl From<&Taint> for TaintShape {
    fn from(Taint { key, value, effect }: &Taint) -> Self {
        Self { key: Arc::clone(key), value: Arc::clone(value), effect: (*effect).into() }
    }
}

impl From<TaintShape> for Taint {
    fn from(TaintShape { key, value, effect }: TaintShape) -> Self {
        Self { key, value, effect: effect.into() }
    }
}
