//! A node joins: what its agent says, and what it is answered, both ways.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_model::failure::clip;
use persys_model::fault::Faults;
use persys_model::id::{DriverName, NodeId, PoolName};
use persys_model::labels::Labels;
use persys_model::link::{Registration, RegistrationAnswer};
use persys_model::node::{NodeFacts, Pool};
use persys_model::resources::Compute;
use persys_model::spec::WorkloadType;
use persys_model::spec::check::limits::{CPU_MILLICORES, MEMORY_MIB};
use persys_model::time::WallMillis;
use persys_model::token::{Session, Term};

use super::at::{At, reading};
use super::endpoint::endpoint;
use super::leaf::{
    CAPABILITIES, LABEL_KEY_BYTES, LABEL_VALUE_BYTES, LABELS, POOL_GIB, POOLS, amount, count,
    identity, list, name, signed, texts, token,
};
use super::{Arrived, Said, held, time};
use crate::control::v1 as wire;

/// Bytes of a sentence on why something cannot be run.
const MISSING_BYTES: usize = 512;

/// What an agent says of its machine that does not know our fields: nothing tells one life of it
/// from the next, nor one machine from another with the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyNode {
    /// Its name.
    pub id: NodeId,
    /// Where it can be called, host and port.
    pub endpoint: Arc<str>,
    /// All the CPU and memory it offers.
    pub capacity: Compute,
    /// Its storage pools.
    pub pools: Vec<Pool>,
    /// What it can run.
    pub types: BTreeSet<WorkloadType>,
    /// Which volumes it can store; `local` always, for old agents do not say it.
    pub drivers: BTreeSet<DriverName>,
    /// Labels it was configured with.
    pub labels: Labels,
}

/// The registration on the wire.
#[must_use]
pub fn to_wire(registration: &Registration, now: WallMillis) -> wire::RegisterNodeRequest {
    let facts = &registration.facts;
    let inventory = &registration.inventory;
    wire::RegisterNodeRequest {
        node_id: facts.id.to_string(),
        capabilities: Some(wire::NodeCapabilities {
            cpu_total_millicores: signed(facts.capacity.cpu_millicores),
            memory_total_mb: signed(facts.capacity.memory_mib),
            storage_pools: facts.pools.iter().map(pool_to_wire).collect(),
            supported_workload_types: facts.types.iter().map(|t| t.word().to_owned()).collect(),
            supported_storage_drivers: facts.drivers.iter().map(ToString::to_string).collect(),
            missing_runtimes: missing_to_wire(&facts.missing),
        }),
        labels: texts(&facts.labels),
        agent_version: String::new(),
        grpc_endpoint: facts.endpoint.to_string(),
        cluster_id: String::new(),
        timestamp: Some(time::timestamp(now)),
        host_id: facts.host.to_string(),
        boot_id: String::new(),
        incarnation: facts.incarnation.to_string(),
        inventory: inventory.held.iter().map(held::to_wire).collect(),
        tombstones: inventory.tombstones.iter().map(held::tombstone_to_wire).collect(),
        store_mark: held::mark_to_wire(inventory.mark.as_ref()),
        session: 0,
        fence_available: facts.fence,
        can_pause: facts.pauses,
        can_signal: facts.signals,
        checks_health: facts.checks_health,
        can_choose_address: facts.addresses,
        term: registration.term.0,
    }
}

/// What a node cannot run, and why, by the word of the type.
pub(super) fn missing_to_wire(
    missing: &BTreeMap<WorkloadType, Arc<str>>,
) -> BTreeMap<String, String> {
    missing.iter().map(|(kind, why)| (kind.word().to_owned(), why.to_string())).collect()
}

/// The sentences are for people: long ones are cut, and a type nobody knows is passed over.
fn missing(given: &BTreeMap<String, String>) -> BTreeMap<WorkloadType, Arc<str>> {
    let of = |kind: WorkloadType| {
        let why = given.get(kind.word())?.replace(char::is_control, " ");
        Some((kind, Arc::from(clip(&why, MISSING_BYTES))))
    };
    WorkloadType::ALL.into_iter().filter_map(of).collect()
}

fn pool_to_wire(pool: &Pool) -> wire::StoragePool {
    wire::StoragePool {
        name: pool.name.to_string(),
        r#type: "local".to_owned(),
        total_gb: signed(pool.total_gib),
        shares_disk_with: pool.shares.as_ref().map(ToString::to_string).unwrap_or_default(),
    }
}

/// The registration a message means, or everything that is wrong with it.
pub fn from_wire(
    request: wire::RegisterNodeRequest,
) -> Result<Arrived<Said<Registration, LegacyNode>>, Faults> {
    let odd = RefCell::new(Faults::none());
    let value = reading(|at| {
        if request.host_id.is_empty() && request.incarnation.is_empty() {
            return legacy(at, request).map(Said::Legacy);
        }
        ours(at, &odd, request).map(Said::Ours)
    })?;
    Ok(Arrived { value, odd: odd.into_inner() })
}

fn ours(
    at: &At<'_>,
    odd: &RefCell<Faults>,
    request: wire::RegisterNodeRequest,
) -> Option<Registration> {
    let host = identity(&at.field("host_id"), &request.host_id);
    let incarnation = identity(&at.field("incarnation"), &request.incarnation);
    let items = ("inventory", request.inventory);
    let inventory =
        held::inventory(at, odd, items, ("tombstones", request.tombstones), &request.store_mark);
    let given = request.capabilities.as_ref();
    let missing = given.map(|given| missing(&given.missing_runtimes)).unwrap_or_default();
    let machine =
        machine(at, &request.node_id, &request.grpc_endpoint, request.labels, request.capabilities);
    let LegacyNode { id, endpoint, capacity, pools, types, drivers, labels } = machine?;
    let facts = NodeFacts {
        id,
        host: host?,
        incarnation: incarnation?,
        endpoint,
        capacity,
        pools,
        types,
        drivers,
        labels,
        fence: request.fence_available,
        pauses: request.can_pause,
        checks_health: request.checks_health,
        signals: request.can_signal,
        addresses: request.can_choose_address,
        missing,
    };
    Some(Registration { facts, inventory: inventory?, term: Term(request.term) })
}

fn legacy(at: &At<'_>, request: wire::RegisterNodeRequest) -> Option<LegacyNode> {
    // Without the two names, nothing else of ours can be meant.
    for (field, given) in [
        ("inventory", !request.inventory.is_empty()),
        ("tombstones", !request.tombstones.is_empty()),
        ("session", request.session != 0),
        ("term", request.term != 0),
        ("fence_available", request.fence_available),
        ("can_pause", request.can_pause),
        ("can_signal", request.can_signal),
        ("can_choose_address", request.can_choose_address),
    ] {
        if given {
            at.field(field).fault("is given, but host_id and incarnation are not");
        }
    }
    let machine =
        machine(at, &request.node_id, &request.grpc_endpoint, request.labels, request.capabilities);
    let mut machine = machine?;
    machine.drivers.insert(DriverName::fixed("local"));
    Some(machine)
}

/// What every agent says of its machine.
fn machine(
    at: &At<'_>,
    node_id: &str,
    grpc_endpoint: &str,
    given_labels: BTreeMap<String, String>,
    capabilities: Option<wire::NodeCapabilities>,
) -> Option<LegacyNode> {
    let id = name(&at.field("node_id"), node_id, NodeId::new);
    let endpoint = endpoint(&at.field("grpc_endpoint"), grpc_endpoint);
    let labels = labels(&at.field("labels"), given_labels);
    let here = at.field("capabilities");
    let Some(given) = capabilities else { return here.refuse("is missing") };
    let cpu = here.field("cpu_total_millicores");
    let cpu_millicores = amount(&cpu, given.cpu_total_millicores, 1, CPU_MILLICORES);
    let memory = here.field("memory_total_mb");
    let memory_mib = amount(&memory, given.memory_total_mb, 1, MEMORY_MIB);
    let pools = pools(&here.field("storage_pools"), given.storage_pools);
    let named = &given.supported_workload_types;
    let explained = !given.missing_runtimes.is_empty();
    let types = types(&here.field("supported_workload_types"), named, explained);
    let drivers = here.field("supported_storage_drivers");
    let drivers = list(&drivers, given.supported_storage_drivers, CAPABILITIES, |at, text| {
        name(at, &text, DriverName::new)
    });
    Some(LegacyNode {
        id: id?,
        endpoint: endpoint?,
        capacity: Compute::new(cpu_millicores?, memory_mib?),
        pools: pools?,
        types: types?,
        drivers: drivers?.into_iter().collect(),
        labels: labels?,
    })
}

fn pool_name(at: &At<'_>, text: &str) -> Option<PoolName> {
    name(at, text, PoolName::new)
}

fn pools(at: &At<'_>, given: Vec<wire::StoragePool>) -> Option<Vec<Pool>> {
    let pools = list(at, given, POOLS, |at, pool| {
        let name = name(&at.field("name"), &pool.name, PoolName::new);
        let total_gib = amount(&at.field("total_gb"), pool.total_gb, 0, POOL_GIB);
        let shares = match pool.shares_disk_with.as_str() {
            "" => Some(None),
            text => pool_name(&at.field("shares_disk_with"), text).map(Some),
        };
        Some(Pool { name: name?, total_gib: total_gib?, shares: shares? })
    })?;
    let mut seen = BTreeSet::new();
    for (nth, pool) in pools.iter().enumerate() {
        if pool.shares.as_ref().is_some_and(|first| !seen.contains(first)) {
            at.index(nth).field("shares_disk_with").fault("names no earlier pool");
        }
        if !seen.insert(&pool.name) {
            at.index(nth).field("name").fault("is used by an earlier pool");
        }
    }
    Some(pools)
}

/// What the node can run of what we know. An agent may be able to do more; nothing of that kind is
/// ever asked of it, so the word is left out and not refused. An empty list is a fault, unless
/// `explained`: the agent says of each type why it cannot run it, and operators are to see that.
fn types(at: &At<'_>, given: &[String], explained: bool) -> Option<BTreeSet<WorkloadType>> {
    count(at, given.len(), CAPABILITIES)?;
    if given.is_empty() && !explained {
        return at.refuse("is empty: name at least one of container, compose, vm");
    }
    let known = |text: &String| {
        WorkloadType::ALL.into_iter().find(|kind| kind.word().eq_ignore_ascii_case(text))
    };
    Some(given.iter().filter_map(known).collect())
}

/// Labels of a node: keys of visible ASCII, values without control characters, all of them short.
fn labels(at: &At<'_>, given: BTreeMap<String, String>) -> Option<Labels> {
    count(at, given.len(), LABELS)?;
    let mut labels = Labels::new();
    for (key, value) in given {
        let here = at.key(&key);
        let start = key.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        let clean = key.bytes().all(|b| b.is_ascii_graphic() && b != b'=');
        if !start || !clean || key.len() > LABEL_KEY_BYTES {
            here.fault(format!(
                "is not a key: at most {LABEL_KEY_BYTES} visible ASCII without '='"
            ));
        }
        if value.len() > LABEL_VALUE_BYTES || value.chars().any(char::is_control) {
            here.fault(format!("has a value longer than {LABEL_VALUE_BYTES} bytes or unprintable"));
        }
        labels.insert(Arc::from(key), Arc::from(value));
    }
    Some(labels)
}

/// Bytes of a refusal that are kept for the log.
const WHY_BYTES: usize = 1024;

/// The answer on the wire. Old agents read seconds and a date, ours read durations.
#[must_use]
pub fn answer_to_wire(answer: &RegistrationAnswer, now: WallMillis) -> wire::RegisterNodeResponse {
    match answer {
        RegistrationAnswer::Accepted { term, session, beat_ms, lease_ms } => {
            let seconds = i32::try_from(beat_ms.div_ceil(1000)).unwrap_or(i32::MAX);
            wire::RegisterNodeResponse {
                accepted: true,
                reason: String::new(),
                heartbeat_interval_seconds: seconds.max(1),
                lease_expires_at: Some(time::timestamp_after(now, *lease_ms)),
                session: session.0,
                term: term.0,
                lease_ms: *lease_ms,
                heartbeat_interval_ms: *beat_ms,
                retry_after_ms: 0,
            }
        }
        RegistrationAnswer::Refused { why, retry_after_ms } => wire::RegisterNodeResponse {
            reason: clip(why, WHY_BYTES).to_owned(),
            retry_after_ms: *retry_after_ms,
            ..wire::RegisterNodeResponse::default()
        },
    }
}

/// What an old scheduler answers to an agent of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LegacyAnswer {
    /// Welcome, without a session.
    Accepted {
        /// How often to beat; `None` leaves it to the agent.
        beat_ms: Option<u64>,
        /// The moment its lease ends, by its own clock.
        lease_expires_at: Option<WallMillis>,
    },
    /// Not now, or not at all.
    Refused {
        /// Why, for the log of the agent.
        why: Arc<str>,
    },
}

/// The answer a message means, or everything that is wrong with it.
pub fn answer_from_wire(
    answer: &wire::RegisterNodeResponse,
) -> Result<Said<RegistrationAnswer, LegacyAnswer>, Faults> {
    let why = || Arc::from(clip(&answer.reason, WHY_BYTES));
    reading(|at| {
        if !answer.accepted && answer.retry_after_ms > 0 {
            let retry_after_ms = answer.retry_after_ms;
            return Some(Said::Ours(RegistrationAnswer::Refused { why: why(), retry_after_ms }));
        }
        if !answer.accepted {
            return Some(Said::Legacy(LegacyAnswer::Refused { why: why() }));
        }
        if answer.session == 0 && answer.term == 0 {
            let seconds = i64::from(answer.heartbeat_interval_seconds);
            let seconds = amount(&at.field("heartbeat_interval_seconds"), seconds, 0, 86_400)?;
            let beat_ms = (seconds > 0).then(|| seconds.saturating_mul(1000));
            let lease_expires_at = answer.lease_expires_at.as_ref().map(time::wall);
            return Some(Said::Legacy(LegacyAnswer::Accepted { beat_ms, lease_expires_at }));
        }
        let session = token(&at.field("session"), answer.session, Session);
        let term = token(&at.field("term"), answer.term, Term);
        let beat = at.field("heartbeat_interval_ms");
        let beat_ms = token(&beat, answer.heartbeat_interval_ms, |ms| ms);
        let lease_ms = token(&at.field("lease_ms"), answer.lease_ms, |ms| ms);
        Some(Said::Ours(RegistrationAnswer::Accepted {
            term: term?,
            session: session?,
            beat_ms: beat_ms?,
            lease_ms: lease_ms?,
        }))
    })
}
