//! The set of records, kept up to date by what changed.
//!
//! Invariant: after any sequence of [`News`] the records are those that one whole look at the same
//! cluster gives, and the changes told on the way, put together, are exactly these records.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use persys_model::id::{NodeId, WorkloadId};
use persys_model::spec::HostPort;

use super::name::{Label, Name, digest};
use super::news::{Host, News, Served};
use super::zones::Zones;

/// How long others may keep what rarely changes: the scheduler and its agents. Existing clients know
/// this number.
const SETTLED_TTL_S: u32 = 300;
/// How long others may keep where a workload runs: it may be elsewhere soon.
const WORKLOAD_TTL_S: u32 = 30;

/// What a name leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Where it is.
    pub host: Host,
    /// What can be asked about it.
    pub shape: Shape,
    /// How long others may keep it, in seconds.
    pub ttl_s: u32,
}

/// What can be asked about a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// Its address.
    Address,
    /// Which port of `target` serves; `target` has the address.
    Service {
        /// Whose address it is.
        target: Name,
        /// The port.
        port: u16,
    },
    /// Its address, and its ports there.
    Workload {
        /// Ports, sorted.
        ports: Vec<HostPort>,
    },
}

/// A record came, changed or went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Whose.
    pub name: Name,
    /// What was there before.
    pub before: Option<Arc<Record>>,
    /// What is there now; never the same.
    pub after: Option<Arc<Record>>,
}

/// Who has a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Node(NodeId),
    Workload(WorkloadId),
}

/// All records of a cluster.
#[derive(Debug)]
pub struct Directory {
    zones: Zones,
    digest: fn(&str) -> u128,
    nodes: BTreeMap<NodeId, Host>,
    workloads: BTreeMap<WorkloadId, Served>,
    by_node: BTreeMap<NodeId, BTreeSet<WorkloadId>>,
    /// Who is there under a hashed label. Two of them: nobody is answered for.
    claims: BTreeMap<Name, BTreeSet<Owner>>,
    records: BTreeMap<Name, Arc<Record>>,
}

impl Directory {
    /// A cluster of which nothing is known but where its scheduler is.
    #[must_use]
    pub fn new(zones: Zones, scheduler: Option<SocketAddr>) -> Self {
        Self::with_digest(zones, scheduler, digest)
    }

    pub(super) fn with_digest(
        zones: Zones,
        scheduler: Option<SocketAddr>,
        digest: fn(&str) -> u128,
    ) -> Self {
        let records = scheduler.map(|at| of_scheduler(&zones, at)).unwrap_or_default();
        Self {
            zones,
            digest,
            nodes: BTreeMap::new(),
            workloads: BTreeMap::new(),
            by_node: BTreeMap::new(),
            claims: BTreeMap::new(),
            records,
        }
    }

    /// Under which names everything is.
    #[must_use]
    pub fn zones(&self) -> &Zones {
        &self.zones
    }

    /// All records.
    #[must_use]
    pub fn records(&self) -> &BTreeMap<Name, Arc<Record>> {
        &self.records
    }

    /// All records, as changes from nothing.
    #[must_use]
    pub fn all_as_changes(&self) -> Vec<Change> {
        let change = |(name, record): (&Name, &Arc<Record>)| Change {
            name: name.clone(),
            before: None,
            after: Some(Arc::clone(record)),
        };
        self.records.iter().map(change).collect()
    }

    /// Takes in what is so now, and says what that changes.
    pub fn take(&mut self, news: News) -> Vec<Change> {
        let mut touched = BTreeSet::new();
        if news.whole {
            self.forget_unmentioned(&news, &mut touched);
        }
        for (id, host) in news.nodes {
            self.take_node(id, host, &mut touched);
        }
        for (id, served) in news.workloads {
            self.take_workload(id, served, &mut touched);
        }
        let mut names: BTreeMap<Name, BTreeSet<Owner>> = BTreeMap::new();
        for owner in touched {
            let (name, hashed) = self.name_of(&owner);
            if hashed {
                self.claim(&name, &owner);
            }
            names.entry(name).or_default().insert(owner);
        }
        names.into_iter().filter_map(|(name, owners)| self.settle(name, &owners)).collect()
    }

    fn forget_unmentioned(&mut self, news: &News, touched: &mut BTreeSet<Owner>) {
        let nodes: BTreeSet<_> = news.nodes.iter().map(|(id, _)| id).collect();
        let gone: Vec<_> = self.nodes.keys().filter(|id| !nodes.contains(id)).cloned().collect();
        for id in gone {
            self.take_node(id, None, touched);
        }
        let workloads: BTreeSet<_> = news.workloads.iter().map(|(id, _)| id).collect();
        let gone = self.workloads.keys().filter(|id| !workloads.contains(id));
        for id in gone.cloned().collect::<Vec<_>>() {
            self.take_workload(id, None, touched);
        }
    }

    fn take_node(&mut self, id: NodeId, host: Option<Host>, touched: &mut BTreeSet<Owner>) {
        if self.nodes.get(&id) == host.as_ref() {
            return;
        }
        if let Some(here) = self.by_node.get(&id) {
            touched.extend(here.iter().cloned().map(Owner::Workload));
        }
        touched.insert(Owner::Node(id.clone()));
        match host {
            Some(host) => self.nodes.insert(id, host),
            None => self.nodes.remove(&id),
        };
    }

    fn take_workload(
        &mut self,
        id: WorkloadId,
        served: Option<Served>,
        touched: &mut BTreeSet<Owner>,
    ) {
        if self.workloads.get(&id) == served.as_ref() {
            return;
        }
        touched.insert(Owner::Workload(id.clone()));
        if let Some(before) = self.workloads.remove(&id)
            && let Some(there) = self.by_node.get_mut(&before.node)
        {
            there.remove(&id);
            if there.is_empty() {
                self.by_node.remove(&before.node);
            }
        }
        if let Some(served) = served {
            self.by_node.entry(served.node.clone()).or_default().insert(id.clone());
            self.workloads.insert(id, served);
        }
    }

    fn name_of(&self, owner: &Owner) -> (Name, bool) {
        let (below, id) = match owner {
            Owner::Node(id) => (self.zones.agents(), id.as_str()),
            Owner::Workload(id) => (self.zones.workloads(), id.as_str()),
        };
        let label = Label::of(id, self.digest);
        (below.child(&label), label.is_digest())
    }

    fn claim(&mut self, name: &Name, owner: &Owner) {
        let is_there = self.record_of(owner).is_some();
        let claims = self.claims.entry(name.clone()).or_default();
        if is_there {
            claims.insert(owner.clone());
        } else {
            claims.remove(owner);
        }
        if claims.is_empty() {
            self.claims.remove(name);
        }
    }

    /// Sees to it that the record of a name is what it should be now.
    fn settle(&mut self, name: Name, touched: &BTreeSet<Owner>) -> Option<Change> {
        let mut owners = self.claims.get(&name).unwrap_or(touched).iter();
        let after = match (owners.next(), owners.next()) {
            (Some(only), None) => self.record_of(only),
            (None, _) | (Some(_), Some(_)) => None,
        };
        let before = match &after {
            Some(record) => self.records.insert(name.clone(), Arc::clone(record)),
            None => self.records.remove(&name),
        };
        (before != after).then_some(Change { name, before, after })
    }

    fn record_of(&self, owner: &Owner) -> Option<Arc<Record>> {
        match owner {
            Owner::Node(id) => {
                let host = self.nodes.get(id)?.clone();
                Some(Arc::new(Record { host, shape: Shape::Address, ttl_s: SETTLED_TTL_S }))
            }
            Owner::Workload(id) => {
                let served = self.workloads.get(id)?;
                let host = self.nodes.get(&served.node)?.clone();
                let mut ports = served.ports.clone();
                ports.sort_unstable();
                ports.dedup();
                let shape = Shape::Workload { ports };
                Some(Arc::new(Record { host, shape, ttl_s: WORKLOAD_TTL_S }))
            }
        }
    }
}

fn of_scheduler(zones: &Zones, at: SocketAddr) -> BTreeMap<Name, Arc<Record>> {
    let record = |shape| {
        let host = Host::Ip(at.ip().to_canonical());
        Arc::new(Record { host, shape, ttl_s: SETTLED_TTL_S })
    };
    let target = zones.scheduler();
    let service = |name| {
        let shape = Shape::Service { target: target.clone(), port: at.port() };
        (name, record(shape))
    };
    let mut records: BTreeMap<_, _> = zones.services().into_iter().map(service).collect();
    records.insert(target.clone(), record(Shape::Address));
    records
}
