//! Agents join and beat, those of ours and those from before us.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use persys_cluster::world::World;
use persys_identity::Peer;
use persys_model::fault::Faults;
use persys_model::id::NodeId;
use persys_model::inventory::Inventory;
use persys_model::link::{Beat, BeatAnswer, Registration, RegistrationAnswer};
use persys_model::mode::Mode;
use persys_model::node::{CONTRACT_HOST, NodeFacts};
use persys_model::time::WallMillis;
use persys_model::token::Term;
use persys_proto::control::v1 as wire;
use persys_proto::convert::beat::LegacyBeat;
use persys_proto::convert::register::LegacyNode;
use persys_proto::convert::{Said, beat, register, time};
use tonic::Status;

use super::refusal::{self, unavailable};
use super::{Control, access};
use crate::links::contract::Contract;
use crate::usages::Usages;

/// What is known of agents besides what the core knows.
#[derive(Debug)]
pub(super) struct Agents {
    /// When each node last beat, for people. Only nodes the core knows come in.
    beats: Mutex<BTreeMap<NodeId, WallMillis>>,
    /// Agents that know only the contract.
    contract: Arc<Contract>,
    usages: Arc<Usages>,
    /// The version each agent says it is of, for people.
    versions: Mutex<BTreeMap<NodeId, Arc<str>>>,
}

/// Bytes of a version.
const VERSION_BYTES: usize = 64;

impl Agents {
    pub(super) fn new(contract: Arc<Contract>, usages: Arc<Usages>) -> Self {
        Self { beats: Mutex::default(), contract, usages, versions: Mutex::default() }
    }

    /// A stream to an old agent ended, and with it perhaps what was last sent.
    pub(super) fn lost(&self, node: &NodeId) {
        self.contract.with(|agents, _| agents.forget(node));
    }

    pub(super) fn last_beats(&self) -> BTreeMap<NodeId, WallMillis> {
        self.beats.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn last_beat(&self, node: &NodeId) -> Option<WallMillis> {
        self.beats.lock().unwrap_or_else(PoisonError::into_inner).get(node).copied()
    }

    pub(super) fn versions(&self) -> BTreeMap<NodeId, Arc<str>> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn version(&self, node: &NodeId) -> Option<Arc<str>> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner).get(node).cloned()
    }

    /// An agent says its version; most say what they said before. What is no version is left out.
    fn is_of(&self, node: &NodeId, version: &str) {
        if version.is_empty()
            || version.len() > VERSION_BYTES
            || !version.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return;
        }
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        if versions.get(node).is_none_or(|known| **known != *version) {
            versions.insert(node.clone(), Arc::from(version));
        }
    }

    fn heard(&self, node: NodeId, now: WallMillis) {
        self.beats.lock().unwrap_or_else(PoisonError::into_inner).insert(node, now);
    }
}

impl Control {
    /// A node joins. `life` tells apart the lives of an old agent, which does not say.
    pub(super) async fn register(
        &self,
        peer: Option<&Peer>,
        mut request: wire::RegisterNodeRequest,
        life: &str,
    ) -> Result<wire::RegisterNodeResponse, Status> {
        access::own_node(peer, &request.node_id)?;
        let version = std::mem::take(&mut request.agent_version);
        if let Some(why) = other_cluster(&self.cluster, &request) {
            let retry_after_ms = self.settings.lease_ms;
            let refused = RegistrationAnswer::Refused { why: Arc::from(why), retry_after_ms };
            return Ok(register::answer_to_wire(&refused, self.now()));
        }
        let arrived = match register::from_wire(request) {
            Ok(arrived) => arrived,
            Err(faults) => return self.refuse_node(&faults),
        };
        if !arrived.odd.is_empty() {
            tracing::warn!(odd = %arrived.odd, "parts of a registration are left out");
        }
        let registration = match arrived.value {
            Said::Ours(registration) => registration,
            Said::Legacy(node) => registration_of(node, life),
        };
        access::own_labels(&registration.facts.labels)?;
        let node = registration.facts.id.clone();
        let contract = registration.facts.is_contract();
        let callable = registration.facts.is_asked_for_inventory();
        let answer = self.handle.register(registration).await?;
        let now = self.now();
        if let RegistrationAnswer::Accepted { .. } = &answer {
            if contract {
                let about = &self.agents.contract;
                about.with(|agents, now| agents.registered(&node, callable, now));
                about.wake();
            }
            self.agents.usages.forget(&node);
            self.agents.is_of(&node, &version);
            self.agents.heard(node, now);
        }
        Ok(register::answer_to_wire(&answer, now))
    }

    /// Without a name or an address there is nobody to refuse; everything else is said in the
    /// response.
    fn refuse_node(&self, faults: &Faults) -> Result<wire::RegisterNodeResponse, Status> {
        let nobody = |path: &str| path == "node_id" || path == "grpc_endpoint";
        if faults.listed().iter().any(|fault| nobody(&fault.path)) {
            return Err(refusal::faults(faults));
        }
        let answer = RegistrationAnswer::Refused {
            why: Arc::from(faults.to_string()),
            retry_after_ms: self.settings.lease_ms,
        };
        Ok(register::answer_to_wire(&answer, self.now()))
    }

    pub(super) async fn hear(
        &self,
        peer: Option<&Peer>,
        mut request: wire::HeartbeatRequest,
    ) -> Result<wire::HeartbeatResponse, Status> {
        access::own_node(peer, &request.node_id)?;
        let usage = std::mem::take(&mut request.workload_usage);
        let version = std::mem::take(&mut request.agent_version);
        let known = request.denied_digest;
        let from = NodeId::new(&request.node_id);
        let arrived = beat::from_wire(request).map_err(|f| refusal::faults(&f))?;
        if !arrived.odd.is_empty() {
            tracing::warn!(odd = %arrived.odd, "parts of a heartbeat are left out");
        }
        let mut answer = match arrived.value {
            // Ours are told of a drain by orders, not by this flag.
            Said::Ours(beat) => self.pass_on(beat).await,
            Said::Legacy(beat) => self.hear_legacy(beat).await,
        }?;
        // Only of a node that is known: its beat was heard.
        if let Ok(node) = from
            && answer.acknowledged
        {
            self.agents.usages.hear(&node, usage, self.now());
            self.agents.is_of(&node, &version);
            let denied = super::denied(&self.handle.entries());
            if denied.digest() != known {
                answer.denied_changed = true;
                answer.denied = denied.lines();
            }
        }
        Ok(answer)
    }

    async fn pass_on(&self, beat: Beat) -> Result<wire::HeartbeatResponse, Status> {
        let node = beat.node.clone();
        let answer = self.handle.beat(beat).await?;
        Ok(self.beat_answer(node, &answer, false))
    }

    /// The answer to a beat on the wire.
    fn beat_answer(
        &self,
        node: NodeId,
        answer: &BeatAnswer,
        drain: bool,
    ) -> wire::HeartbeatResponse {
        let now = self.now();
        if let BeatAnswer::Heard { .. } = answer {
            self.agents.heard(node, now);
        }
        let drain = drain || self.frozen();
        let beat_ms = match answer {
            BeatAnswer::Heard { beat_ms, .. } => *beat_ms,
            BeatAnswer::RegisterAgain { .. } => 0,
        };
        let lease_ms = self.settings.lease_ms_of(beat_ms);
        let mut message = beat::answer_to_wire(answer, drain, lease_ms, now);
        self.handle.standing().borrow().word().clone_into(&mut message.mode);
        message
    }

    /// Whether agents are to take nothing new, whatever else they are told.
    fn frozen(&self) -> bool {
        match self.handle.standing().borrow().mode {
            Some(Mode::Degraded | Mode::Recovery) => true,
            Some(Mode::Normal) | None => false,
        }
    }

    /// A heartbeat of an agent that knows only the contract.
    async fn hear_legacy(&self, old: LegacyBeat) -> Result<wire::HeartbeatResponse, Status> {
        let LegacyBeat { node, usage, statuses } = old;
        let drains = Arc::new(AtomicBool::new(false));
        let (contract, about, seen) =
            (Arc::clone(&self.agents.contract), node.clone(), Arc::clone(&drains));
        let make = move |world: &World| {
            let drain = world.node(&about).is_some_and(|view| view.node.drain.is_some());
            seen.store(drain, Ordering::Relaxed);
            let told = (statuses.as_slice(), usage);
            contract.with(|agents, now| agents.heartbeat(world, &about, told, now))
        };
        let answered = self.handle.beat_of(make).await?;
        let contract = &self.agents.contract;
        let Some(answer) = answered else {
            if self.frozen() {
                return Ok(self.keep_still());
            }
            let why = format!("there is no node {node}; register first");
            return Err(Status::not_found(why));
        };
        contract.with(|agents, _| agents.beat_answered(&node, &answer));
        contract.wake();
        let message = self.beat_answer(node, &answer, drains.load(Ordering::Relaxed));
        match answer {
            BeatAnswer::Heard { .. } => Ok(message),
            BeatAnswer::RegisterAgain { .. } if self.frozen() => Ok(self.keep_still()),
            // Its session ended between reading and beating; it does not know what that is.
            BeatAnswer::RegisterAgain { .. } => Err(unavailable("beat again")),
        }
    }

    /// The answer while nobody joins: a contract agent is to start nothing new. It stays registered in
    /// its own eyes, is told so again with each heartbeat, and registers anew once it is not known.
    fn keep_still(&self) -> wire::HeartbeatResponse {
        let now = self.now();
        let lease_ms = self.settings.lease_ms;
        let mut message = wire::HeartbeatResponse {
            acknowledged: true,
            drain_node: true,
            hold: true,
            lease_expires_at: Some(time::timestamp_after(now, lease_ms)),
            ..wire::HeartbeatResponse::default()
        };
        self.handle.standing().borrow().word().clone_into(&mut message.mode);
        message
    }
}

/// The name existing clients send where nobody named a cluster.
const NO_CLUSTER_NAMED: &str = "default";

/// Refusal of a node that names another cluster. Earlier agents name none, or the default one, and
/// are taken.
fn other_cluster(ours: &str, request: &wire::RegisterNodeRequest) -> Option<String> {
    let theirs = &request.cluster_id;
    let unnamed = theirs.is_empty() || theirs == NO_CLUSTER_NAMED;
    if unnamed || ours.is_empty() || theirs == ours {
        return None;
    }
    Some(format!(
        "cluster_id: node {:?} belongs to cluster {theirs:?}, and this scheduler serves cluster \
         {ours:?}; start the agent with --cluster {ours}, or name a scheduler of its own cluster",
        request.node_id
    ))
}

/// An old agent as the core knows nodes. Its address stands for the machine.
fn registration_of(old: LegacyNode, life: &str) -> Registration {
    let LegacyNode { id, endpoint, capacity, pools, types, drivers, labels } = old;
    Registration {
        facts: NodeFacts {
            id,
            host: Arc::from(format!("{CONTRACT_HOST}{endpoint}")),
            incarnation: Arc::from(life),
            endpoint,
            capacity,
            pools,
            types,
            drivers,
            labels,
            fence: false,
            pauses: false,
            checks_health: false,
            signals: false,
            addresses: false,
            missing: BTreeMap::new(),
        },
        inventory: Inventory::default(),
        term: Term(0),
    }
}
