//! `cluster.yaml`: which clusters there are, where their schedulers are, and which repositories
//! belong to which.
//!
//! ```yaml
//! scheduler:
//!   default_cluster_id: east
//!   repository_cluster_map: { "org/shop": east }
//!   clusters:
//!     - id: east
//!       name: East
//!       routing_strategy: leader-only      # or sticky, shard
//!       identity: /etc/persys/certs/gateway-east.pem
//!       schedulers:
//!         - { id: s1, address: "10.0.0.1:8085", is_leader: true }
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use persys_identity::Name;
use serde::Deserialize;

use super::order::Routing;

/// Most clusters of one gateway.
const MOST_CLUSTERS: usize = 256;
/// Most schedulers of one cluster.
const MOST_SCHEDULERS: usize = 32;

/// All clusters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The one that is meant when nobody says which.
    pub default: String,
    /// Each of them, by their ids.
    pub clusters: Vec<ClusterPlan>,
    /// Which cluster a repository, `org/name`, belongs to.
    pub repositories: BTreeMap<String, String>,
}

/// One cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterPlan {
    /// What it is called in paths.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Which of its schedulers is asked first.
    pub routing: Routing,
    /// Where they are.
    pub schedulers: Vec<SchedulerPlan>,
    /// Our certificate in that cluster, where it is not the gateway's own.
    pub identity: Option<PathBuf>,
}

/// One scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulerPlan {
    /// What it is called.
    pub id: String,
    /// `host:port`.
    pub address: String,
    /// Whether it is asked first where the leader is.
    pub is_leader: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    scheduler: Section,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Section {
    #[serde(default)]
    default_cluster_id: String,
    #[serde(default)]
    repository_cluster_map: BTreeMap<String, String>,
    #[serde(default)]
    clusters: Vec<ClusterRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterRow {
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    routing_strategy: String,
    #[serde(default)]
    identity: Option<PathBuf>,
    #[serde(default)]
    schedulers: Vec<SchedulerRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SchedulerRow {
    #[serde(default)]
    id: String,
    address: String,
    #[serde(default)]
    is_leader: bool,
}

impl Plan {
    /// One cluster with these schedulers, for who has no file.
    pub fn single(id: &str, addresses: &[String]) -> Result<Self, Vec<String>> {
        let row = ClusterRow {
            id: id.to_owned(),
            name: String::new(),
            routing_strategy: String::new(),
            identity: None,
            schedulers: addresses
                .iter()
                .map(|address| SchedulerRow {
                    id: String::new(),
                    address: address.clone(),
                    is_leader: false,
                })
                .collect(),
        };
        checked(Section { clusters: vec![row], ..Section::default() })
    }

    /// What the text of the file says, or everything that is wrong with it.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        let file: File = serde_saphyr::from_str(text).map_err(|fault| vec![fault.to_string()])?;
        checked(file.scheduler)
    }
}

fn checked(section: Section) -> Result<Plan, Vec<String>> {
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    let mut clusters = Vec::new();
    if section.clusters.len() > MOST_CLUSTERS {
        faults.push(format!("clusters: at most {MOST_CLUSTERS} are possible"));
    }
    for (nth, row) in section.clusters.into_iter().take(MOST_CLUSTERS).enumerate() {
        let at = format!("clusters[{nth}]");
        if let Err(fault) = Name::new(&row.id) {
            faults.push(format!("{at}.id: {fault}"));
        }
        if !seen.insert(row.id.clone()) {
            faults.push(format!("{at}.id: {:?} is given twice", row.id));
        }
        clusters.push(cluster(&at, row, &mut faults));
    }
    // The first by its id, when nobody says which.
    let first = seen.first().cloned().unwrap_or_default();
    let default = match section.default_cluster_id.as_str() {
        "" => first,
        named if seen.contains(named) => named.to_owned(),
        named => {
            faults.push(format!("default_cluster_id: there is no cluster {named:?}"));
            first
        }
    };
    for (repository, id) in &section.repository_cluster_map {
        if !seen.contains(id) {
            faults.push(format!("repository_cluster_map.{repository}: there is no cluster {id:?}"));
        }
    }
    clusters.sort_by(|one, other| one.id.cmp(&other.id));
    let repositories = section.repository_cluster_map;
    if faults.is_empty() { Ok(Plan { default, clusters, repositories }) } else { Err(faults) }
}

fn cluster(at: &str, row: ClusterRow, faults: &mut Vec<String>) -> ClusterPlan {
    let routing = Routing::parse(&row.routing_strategy).unwrap_or_else(|| {
        faults.push(format!("{at}.routing_strategy: is none of leader-only, sticky, shard"));
        Routing::LeaderOnly
    });
    if row.schedulers.len() > MOST_SCHEDULERS {
        faults.push(format!("{at}.schedulers: at most {MOST_SCHEDULERS} are possible"));
    }
    let mut schedulers: Vec<SchedulerPlan> = Vec::new();
    for (nth, scheduler) in row.schedulers.into_iter().take(MOST_SCHEDULERS).enumerate() {
        let SchedulerRow { id, address, is_leader } = scheduler;
        if !is_address(&address) {
            faults.push(format!("{at}.schedulers[{nth}].address: {address:?} is not host:port"));
        }
        let id = if id.is_empty() { address.clone() } else { id };
        if schedulers.iter().any(|other| other.id == id) {
            faults.push(format!("{at}.schedulers[{nth}].id: {id:?} is given twice"));
        }
        schedulers.push(SchedulerPlan { id, address, is_leader });
    }
    let name = if row.name.is_empty() { row.id.clone() } else { row.name };
    ClusterPlan { id: row.id, name, routing, schedulers, identity: row.identity }
}

/// Whether a text is `host:port`.
pub(super) fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-._:[]".contains(letter);
    !host.is_empty() && host.chars().all(plain) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_which_clusters_there_are() {
        let plan = Plan::parse(
            "scheduler:\n  default_cluster_id: west\n  repository_cluster_map: {org/shop: east}\n  \
             clusters:\n    - id: west\n      routing_strategy: shard\n      schedulers:\n        \
             - {id: s1, address: 'w1:8085', is_leader: true}\n        - {address: '[::1]:8086'}\n    \
             - id: east\n      name: East\n      identity: /e.pem\n",
        )
        .unwrap();
        assert_eq!(plan.default, "west");
        let ids: Vec<_> = plan.clusters.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids, ["east", "west"]);
        let [east, west] = plan.clusters.as_slice() else { panic!("two") };
        assert_eq!((east.name.as_str(), east.routing), ("East", Routing::LeaderOnly));
        assert_eq!(east.identity.as_deref(), Some(std::path::Path::new("/e.pem")));
        assert_eq!((west.routing, west.schedulers.len()), (Routing::Shard, 2));
        assert!(west.schedulers[0].is_leader);
        assert_eq!(west.schedulers[1].id, "[::1]:8086");
        assert_eq!(plan.repositories["org/shop"], "east");
    }

    #[test]
    fn all_faults_are_named_at_once() {
        let faults = Plan::parse(
            "scheduler:\n  default_cluster_id: north\n  repository_cluster_map: {a/b: south}\n  \
             clusters:\n    - id: '../x'\n      routing_strategy: random\n      schedulers:\n        \
             - {address: nowhere}\n    - id: a\n    - id: a\n",
        )
        .unwrap_err();
        assert_eq!(faults.len(), 6, "{faults:#?}");
        assert!(Plan::parse("scheduler: {clusters: [{id: a, prot: 1}]}").is_err());
    }

    #[test]
    fn without_a_choice_the_first_by_name_is_meant() {
        let plan = Plan::parse("scheduler: {clusters: [{id: b}, {id: a}]}").unwrap();
        assert_eq!(plan.default, "a");
        let plan = Plan::single("persys", &["127.0.0.1:8085".to_owned()]).unwrap();
        assert_eq!((plan.default.as_str(), plan.clusters.len()), ("persys", 1));
    }
}
