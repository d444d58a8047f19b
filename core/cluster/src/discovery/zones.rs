//! Under which names everything is found.

use persys_model::id::WorkloadId;

use super::name::{Label, Name, NameFault, digest};

/// The domains we answer for. No name of one kind can be a name of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zones {
    domain: Name,
    agents_domain: Name,
    agents: Name,
    workloads: Name,
}

/// What is wrong with the domains.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZoneFault {
    /// The domain of scheduler and workloads.
    #[error("the domain {0}")]
    Domain(NameFault),
    /// The domain of agents.
    #[error("the domain of agents {0}")]
    Agents(NameFault),
    /// The shard.
    #[error("the shard is one part of a name: a-z, 0-9, '_' and '-', at most 63, without dots")]
    Shard,
    /// An agent could have the name of something else.
    #[error("agents under {agents} would share names with {with}; choose another domain or shard")]
    Shared {
        /// Where agents would be.
        agents: String,
        /// What is there already.
        with: String,
    },
}

/// The documented domains.
impl Default for Zones {
    fn default() -> Self {
        let (domain, agents_domain) =
            (Name::fixed("local/persys"), Name::fixed("cloud/persys/agents"));
        let (agents, workloads) =
            (agents_domain.fixed_child("default"), domain.fixed_child("workloads"));
        Self { domain, agents_domain, agents, workloads }
    }
}

impl Zones {
    /// Checks all three; what is wrong comes back together.
    pub fn new(domain: &str, agents_domain: &str, shard: &str) -> Result<Self, Vec<ZoneFault>> {
        let mut faults = Vec::new();
        let mut keep =
            |found: Result<Name, ZoneFault>| found.map_err(|fault| faults.push(fault)).ok();
        let domain = keep(Name::parse(domain).map_err(ZoneFault::Domain));
        let agents_domain = keep(Name::parse(agents_domain).map_err(ZoneFault::Agents));
        let one_label = Name::parse(shard).ok().filter(|name| !name.path().contains('/'));
        let shard = keep(one_label.ok_or(ZoneFault::Shard));
        let (Some(domain), Some(agents_domain), Some(shard)) = (domain, agents_domain, shard)
        else {
            return Err(faults);
        };
        let agents = agents_domain.fixed_child(shard.path());
        let workloads = domain.fixed_child("workloads");
        let zones = Self { domain, agents_domain, agents, workloads };
        match zones.shared() {
            Some(with) => {
                Err(vec![ZoneFault::Shared { agents: zones.agents.dotted(), with: with.dotted() }])
            }
            None => Ok(zones),
        }
    }

    /// The name that agents and something else would share, if any.
    fn shared(&self) -> Option<Name> {
        if self.domain.is_within(&self.agents) {
            return Some(self.domain.clone());
        }
        let [plain, tcp] = self.services();
        let taken = [self.workloads.clone(), self.scheduler(), plain, tcp];
        taken.into_iter().find(|name| self.agents.is_within(name) || name.is_within(&self.agents))
    }

    /// The zones we answer for, the narrower first if one lies in the other.
    #[must_use]
    pub fn apexes(&self) -> [&Name; 2] {
        if self.domain.is_within(&self.agents_domain) {
            [&self.domain, &self.agents_domain]
        } else {
            [&self.agents_domain, &self.domain]
        }
    }

    /// Below it are nodes.
    #[must_use]
    pub fn agents(&self) -> &Name {
        &self.agents
    }

    /// Below it are workloads.
    #[must_use]
    pub fn workloads(&self) -> &Name {
        &self.workloads
    }

    /// The name of one workload.
    #[must_use]
    pub fn workload(&self, id: &WorkloadId) -> Name {
        self.workloads.child(&Label::of(id.as_str(), digest))
    }

    /// The scheduler's address.
    #[must_use]
    pub fn scheduler(&self) -> Name {
        self.domain.fixed_child("persys-scheduler")
    }

    /// The scheduler as a service: the documented name, and the one resolvers expect.
    #[must_use]
    pub fn services(&self) -> [Name; 2] {
        let service = "_persys-scheduler";
        [self.domain.fixed_child(service), self.domain.fixed_child("_tcp").fixed_child(service)]
    }
}
