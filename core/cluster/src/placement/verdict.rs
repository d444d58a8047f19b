//! How each node judges one request: every filter that refuses, not only the first.

use persys_model::resources::Resources;
use persys_model::spec::HostPort;

use super::class::Classes;
use super::explain::{Reason, Shortage, class_faults, node_faults};
use super::node::Nodes;
use super::request::{NodeIndex, Request};

/// What one node says to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeVerdict {
    /// Which node.
    pub node: NodeIndex,
    /// Every filter that refuses, in the order they are tried; none if it fits.
    pub faults: Vec<Reason>,
}

/// What one who asks already holds on a node: it would be free for the request.
#[derive(Debug, Clone, Copy)]
pub struct Own<'a> {
    /// Where.
    pub node: NodeIndex,
    /// What is held there.
    pub reserved: &'a Resources,
    /// Which ports.
    pub ports: &'a [HostPort],
}

/// Judges every node.
pub(super) fn verdicts(
    nodes: &Nodes,
    classes: &Classes,
    request: &Request<'_>,
    own: Option<Own<'_>>,
) -> Vec<NodeVerdict> {
    let mut all = Vec::new();
    for (_, class) in classes.iter() {
        let of_class = class_faults(&class.traits, request);
        for member in &class.members {
            let node = NodeIndex(*member);
            let (Some(hot), Some(cold)) = (nodes.hot(node), nodes.cold(node)) else { continue };
            let closed = (!hot.open).then_some(Reason::Closed);
            let mut faults: Vec<Reason> = closed.into_iter().chain(of_class.clone()).collect();
            match own.filter(|own| own.node == node) {
                None => faults.extend(node_faults(hot, cold, request)),
                Some(own) => {
                    let (mut hot, mut cold) = (hot.clone(), cold.clone());
                    hot.give(own.reserved.compute);
                    cold.give(&own.reserved.disk, own.ports);
                    faults.extend(node_faults(&hot, &cold, request));
                }
            }
            all.push(NodeVerdict { node, faults });
        }
    }
    all
}

impl Reason {
    /// The same said of one node.
    #[must_use]
    pub fn of_one(&self) -> String {
        let amount = |what: &str, unit: &str, short: &Shortage| {
            let Shortage { need, most_free } = short;
            format!("too little {what}: {need}{unit} asked for, {most_free}{unit} free")
        };
        match self {
            Self::Closed => "takes no work".to_owned(),
            Self::WorkloadType(kind) => format!("cannot run {}", kind.word()),
            Self::Driver(driver) => format!("lacks the storage driver {driver}"),
            Self::Constraint(_, constraint) => format!("lacks {constraint}"),
            Self::Taint(taint) if taint.value.is_empty() => format!("has the taint {}", taint.key),
            Self::Taint(taint) => format!("has the taint {}={}", taint.key, taint.value),
            Self::Port(port) => format!("port {port} is taken"),
            Self::Cpu(short) => amount("cpu", "m", short),
            Self::Memory(short) => amount("memory", " MiB", short),
            Self::Disk(None, short) => amount("disk", " GiB", short),
            Self::Disk(Some(pool), short) => amount(&format!("disk in pool {pool}"), " GiB", short),
        }
    }
}
