//! What the cluster says of nodes and workloads, as far as names go.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use persys_model::event::{Event, Happening};
use persys_model::id::{NodeId, WorkloadId};
use persys_model::node::{BY_STREAM, Condition};
use persys_model::phase::Phase;
use persys_model::spec::{HostPort, Kind};
use persys_model::workload::Desired;

use super::name::Name;
use crate::world::{NodeView, WorkloadView, World};

/// Where something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// At this address.
    Ip(IpAddr),
    /// Wherever this name leads; it ends with a dot.
    Name(Arc<str>),
}

impl Host {
    /// The host of `host:port`, if others can use it.
    #[must_use]
    pub fn of_endpoint(endpoint: &str) -> Option<Self> {
        if endpoint == BY_STREAM {
            return None;
        }
        let (host, _) = endpoint.rsplit_once(':')?;
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        if let Ok(ip) = bare.parse::<IpAddr>() {
            let ip = ip.to_canonical();
            return (!ip.is_unspecified()).then_some(Self::Ip(ip));
        }
        // A name without a dot means something else on every machine.
        let name = Name::parse(host).ok().filter(|name| name.path().contains('/'))?;
        Some(Self::Name(Arc::from(name.dotted())))
    }
}

/// A workload that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Where.
    pub node: NodeId,
    /// Ports it has there.
    pub ports: Vec<HostPort>,
}

/// What is so now: of everything, or of what was touched. `None` is what has no name at present.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct News {
    /// Whether what is not mentioned is gone.
    pub whole: bool,
    /// Nodes, and where they are.
    pub nodes: Vec<(NodeId, Option<Host>)>,
    /// Workloads, and where they run.
    pub workloads: Vec<(WorkloadId, Option<Served>)>,
}

impl News {
    /// Everything.
    #[must_use]
    pub fn whole(world: &World) -> Self {
        let nodes = world.nodes().map(|view| (view.node.facts.id.clone(), host(world, &view)));
        let workloads =
            world.workloads().map(|view| (view.workload.id.clone(), served(world, &view)));
        Self {
            whole: true,
            nodes: nodes.filter(|(_, host)| host.is_some()).collect(),
            workloads: workloads.filter(|(_, served)| served.is_some()).collect(),
        }
    }

    /// What was touched.
    #[must_use]
    pub fn of(world: &World, touched: &Touched) -> Self {
        if touched.whole {
            return Self::whole(world);
        }
        let node = |id: &NodeId| (id.clone(), world.node(id).and_then(|view| host(world, &view)));
        let workload = |id: &WorkloadId| {
            (id.clone(), world.workload(id).and_then(|view| served(world, &view)))
        };
        Self {
            whole: false,
            nodes: touched.nodes.iter().map(node).collect(),
            workloads: touched.workloads.iter().map(workload).collect(),
        }
    }
}

/// A silent node keeps its names until it is known to be lost: its work goes on as far as anybody
/// knows, and a blip must not take it off the map.
///
/// A cluster in shadow announces nothing: its nodes may have the same names in another system.
fn host(world: &World, view: &NodeView<'_>) -> Option<Host> {
    if world.is_shadow() {
        return None;
    }
    match view.node.condition {
        Condition::Ready | Condition::NotReady => Host::of_endpoint(&view.node.facts.endpoint),
        Condition::Lost => None,
    }
}

fn served(world: &World, view: &WorkloadView<'_>) -> Option<Served> {
    if view.shadow && !world.announces_shadow() {
        return None;
    }
    let runs = view.assignment.phase == Phase::Running && view.workload.desired == Desired::Running;
    let place = view.assignment.place.as_ref().filter(|_| runs)?;
    let mut ports = place.ports.clone();
    // Nobody reaches those from outside the node.
    if let Kind::Container(body) = &view.workload.spec.kind {
        ports.retain(|port| {
            let bound = body.addresses_of(*port);
            bound.is_empty() || !bound.iter().all(IpAddr::is_loopback)
        });
    }
    Some(Served { node: place.node.clone(), ports })
}

/// What has to be looked at again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Touched {
    whole: bool,
    nodes: BTreeSet<NodeId>,
    workloads: BTreeSet<WorkloadId>,
}

impl Touched {
    /// Everything.
    #[must_use]
    pub fn everything() -> Self {
        Self { whole: true, ..Self::default() }
    }

    /// Whether nothing has to be looked at.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.whole && self.nodes.is_empty() && self.workloads.is_empty()
    }

    /// Takes in what happened.
    pub fn note(&mut self, event: &Event) {
        match &event.what {
            Happening::Workload { id, .. } => {
                self.workloads.insert(id.clone());
            }
            Happening::NodeRegistered { id }
            | Happening::NodeCondition { id, .. }
            | Happening::NodeChanged { id, .. } => {
                self.nodes.insert(id.clone());
            }
            Happening::Asked { workload, node, .. } => {
                self.workloads.extend(workload.clone());
                self.nodes.extend(node.clone());
            }
            // The store was read anew: what it holds may be another cluster. And of workloads that
            // enter or leave shadow some wait for their nodes, and have no event of their own yet.
            Happening::ModeChanged { .. } | Happening::Shadow { .. } => self.whole = true,
            Happening::MassFailureBrake { .. }
            | Happening::Health { .. }
            | Happening::NodeTrouble { .. }
            | Happening::WorkloadDelayed { .. }
            | Happening::SecretChanged { .. }
            | Happening::Drift { .. }
            | Happening::Volume { .. } => {}
        }
    }
}
