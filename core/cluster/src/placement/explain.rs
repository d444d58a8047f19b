//! Why a request fits nowhere.
//!
//! Every node is counted once, under the first filter that refuses it; filters have a fixed order.
//! Invariant: nodes that fit plus nodes refused are all nodes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use persys_model::id::{DriverName, NodeId, PoolName};
use persys_model::labels::{Constraint, Taint, TaintEffect};
use persys_model::spec::{HostPort, WorkloadType};

use super::class::Classes;
use super::node::{Cold, Hot, Nodes};
use super::request::{NodeIndex, Request, Traits};
use super::suggest::{Suggestion, Suggestions};

/// What became of every node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Explanation {
    /// All nodes.
    pub total: usize,
    /// Those open for new work.
    pub open: usize,
    /// Those that fit.
    pub fitting: usize,
    /// Why the others do not, in the order of the filters.
    pub refusals: Vec<Refusal>,
    /// The smallest changes that would make it fit.
    pub suggestions: Vec<Suggestion>,
    /// What some of the nodes that cannot run it say about that.
    pub missing: Vec<(NodeId, Arc<str>)>,
}

/// How many nodes one filter refused first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The filter, and what it missed.
    pub reason: Reason,
    /// How many nodes.
    pub nodes: usize,
}

/// A filter that refused, in the order they are tried.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Draining or not ready.
    Closed,
    /// Does not run this type.
    WorkloadType(WorkloadType),
    /// Lacks this storage driver.
    Driver(DriverName),
    /// Breaks this constraint, numbered as in the request.
    Constraint(usize, Constraint),
    /// Has this taint, which is not tolerated.
    Taint(Taint),
    /// This port is taken.
    Port(HostPort),
    /// Too little cpu.
    Cpu(Shortage),
    /// Too little memory.
    Memory(Shortage),
    /// Too little room in a pool, `None` being the default one.
    Disk(Option<PoolName>, Shortage),
}

/// An amount that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shortage {
    /// What is asked for.
    pub need: u64,
    /// The most any node refused for this has free.
    pub most_free: u64,
}

impl Reason {
    /// The same reason without the amount that differs between nodes.
    fn kind(&self) -> Self {
        let blank = |shortage: &Shortage| Shortage { most_free: 0, ..*shortage };
        match self {
            Self::Cpu(shortage) => Self::Cpu(blank(shortage)),
            Self::Memory(shortage) => Self::Memory(blank(shortage)),
            Self::Disk(pool, shortage) => Self::Disk(pool.clone(), blank(shortage)),
            Self::Closed
            | Self::WorkloadType(_)
            | Self::Driver(_)
            | Self::Constraint(..)
            | Self::Taint(_)
            | Self::Port(_) => self.clone(),
        }
    }

    fn most_free(&self) -> u64 {
        match self {
            Self::Cpu(shortage) | Self::Memory(shortage) | Self::Disk(_, shortage) => {
                shortage.most_free
            }
            Self::Closed
            | Self::WorkloadType(_)
            | Self::Driver(_)
            | Self::Constraint(..)
            | Self::Taint(_)
            | Self::Port(_) => 0,
        }
    }

    fn with_most_free(self, most_free: u64) -> Self {
        match self {
            Self::Cpu(shortage) => Self::Cpu(Shortage { most_free, ..shortage }),
            Self::Memory(shortage) => Self::Memory(Shortage { most_free, ..shortage }),
            Self::Disk(pool, shortage) => Self::Disk(pool, Shortage { most_free, ..shortage }),
            Self::Closed
            | Self::WorkloadType(_)
            | Self::Driver(_)
            | Self::Constraint(..)
            | Self::Taint(_)
            | Self::Port(_) => self,
        }
    }
}

/// Every filter of the class that refuses, in order.
pub(super) fn class_faults(traits: &Traits, request: &Request<'_>) -> Vec<Reason> {
    let mut faults = Vec::new();
    if !traits.types.contains(&request.workload_type) {
        faults.push(Reason::WorkloadType(request.workload_type));
    }
    let lacking = request.drivers.iter().filter(|driver| !traits.drivers.contains(*driver));
    faults.extend(lacking.cloned().map(Reason::Driver));
    for (number, constraint) in request.constraints.iter().enumerate() {
        if !constraint.admits(&traits.labels) {
            faults.push(Reason::Constraint(number, constraint.clone()));
        }
    }
    for taint in &traits.taints {
        let tolerated = request.tolerations.iter().any(|toleration| toleration.covers(taint));
        if taint.effect == TaintEffect::NoSchedule && !tolerated {
            faults.push(Reason::Taint(taint.clone()));
        }
    }
    faults
}

/// Every filter of the node itself that refuses, in order.
pub(super) fn node_faults(hot: &Hot, cold: &Cold, request: &Request<'_>) -> Vec<Reason> {
    let mut faults = Vec::new();
    let taken = request.ports.iter().copied().filter(|port| cold.is_port_taken(*port));
    faults.extend(taken.map(Reason::Port));
    let (need, free) = (request.compute, hot.free());
    if free.cpu_millicores < need.cpu_millicores {
        let shortage = Shortage { need: need.cpu_millicores, most_free: free.cpu_millicores };
        faults.push(Reason::Cpu(shortage));
    }
    if free.memory_mib < need.memory_mib {
        let shortage = Shortage { need: need.memory_mib, most_free: free.memory_mib };
        faults.push(Reason::Memory(shortage));
    }
    if let Some((pool, need, most_free)) = cold.disk_shortage(request.disk) {
        faults.push(Reason::Disk(pool.cloned(), Shortage { need, most_free }));
    }
    faults
}

/// Judges every node.
pub(super) fn explain(nodes: &Nodes, classes: &Classes, request: &Request<'_>) -> Explanation {
    let mut explanation = Explanation::default();
    let mut counts: BTreeMap<Reason, (usize, u64)> = BTreeMap::new();
    let mut suggestions = Suggestions::new(request.compute);
    for (_, class) in classes.iter() {
        let of_class = class_faults(&class.traits, request);
        for node in &class.members {
            let at = NodeIndex(*node);
            let (Some(hot), Some(cold)) = (nodes.hot(at), nodes.cold(at)) else { continue };
            explanation.total += 1;
            explanation.open += usize::from(hot.open);
            let closed = (!hot.open).then_some(Reason::Closed);
            let mut faults: Vec<Reason> = closed.into_iter().chain(of_class.clone()).collect();
            faults.extend(node_faults(hot, cold, request));
            if of_class.is_empty() {
                suggestions.eligible(cold.capacity());
            }
            let Some(first) = faults.first() else {
                explanation.fitting += 1;
                continue;
            };
            let (count, most) = counts.entry(first.kind()).or_default();
            *count += 1;
            *most = (*most).max(first.most_free());
            suggestions.missed(at, &faults);
        }
    }
    explanation.refusals = counts
        .into_iter()
        .map(|(reason, (nodes, most))| Refusal { reason: reason.with_most_free(most), nodes })
        .collect();
    if explanation.fitting == 0 {
        explanation.suggestions = suggestions.finish();
    }
    explanation
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = |f: &mut fmt::Formatter<'_>, what: &str, unit: &str, short: &Shortage| {
            let Shortage { need, most_free } = short;
            write!(f, "too little {what} (need {need}{unit}, most free {most_free}{unit})")
        };
        match self {
            Self::Closed => f.write_str("closed"),
            Self::WorkloadType(kind) => write!(f, "cannot run {}", kind.word()),
            Self::Driver(driver) => write!(f, "lack storage driver {driver}"),
            Self::Constraint(_, constraint) => write!(f, "lack {constraint}"),
            Self::Taint(taint) if taint.value.is_empty() => write!(f, "tainted {}", taint.key),
            Self::Taint(taint) => write!(f, "tainted {}={}", taint.key, taint.value),
            Self::Port(port) => write!(f, "use port {port}"),
            Self::Cpu(shortage) => amount(f, "cpu", "m", shortage),
            Self::Memory(shortage) => amount(f, "memory", " MiB", shortage),
            Self::Disk(None, shortage) => amount(f, "disk", " GiB", shortage),
            Self::Disk(Some(pool), shortage) => {
                amount(f, &format!("disk in pool {pool}"), " GiB", shortage)
            }
        }
    }
}

impl fmt::Display for Explanation {
    /// One sentence, the commonest reason first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fitting > 0 {
            return write!(f, "fits on {} of {} nodes", self.fitting, self.total);
        }
        if self.total == 0 {
            return f.write_str("no node fits: there are no nodes");
        }
        f.write_str("no node fits: ")?;
        let mut refusals: Vec<&Refusal> = self.refusals.iter().collect();
        refusals.sort_by_key(|refusal| std::cmp::Reverse(refusal.nodes));
        for (place, Refusal { reason, nodes }) in refusals.into_iter().enumerate() {
            match place {
                0 => write!(f, "{nodes} of {}", self.total)?,
                _ => write!(f, ", {nodes}")?,
            }
            let have = matches!(reason, Reason::Cpu(_) | Reason::Memory(_) | Reason::Disk(..));
            let verb = match (have, *nodes) {
                (true, 1) => "has ",
                (true, _) => "have ",
                (false, _) => "",
            };
            write!(f, " {verb}")?;
            match (reason, *nodes) {
                (Reason::Port(port), 1) => write!(f, "uses port {port}")?,
                (Reason::Driver(_) | Reason::Constraint(..), 1) => {
                    write!(f, "{}", reason.of_one())?;
                }
                (reason, _) => write!(f, "{reason}")?,
            }
        }
        for (node, why) in &self.missing {
            write!(f, "; {node}: {why}")?;
        }
        Ok(())
    }
}
