//! Many clusters behind one gateway.
//!
//! | question | file |
//! |---|---|
//! | which clusters there are | `file.rs` |
//! | which scheduler is asked | `order.rs` |
//! | who is found by DNS | `discovery.rs` |
//! | whether it answers | `scheduler.rs`, `health.rs` |
//! | how a question gets an answer | `cluster.rs` |

mod cluster;
pub mod discovery;
pub mod file;
pub mod health;
pub mod order;
pub mod scheduler;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

pub use self::cluster::{Call, Cluster, LARGEST_ANSWER};
use self::scheduler::{Health, Scheduler};
use crate::moment::rfc3339;
use crate::problem::Problem;

/// All clusters.
#[derive(Debug)]
pub struct Clusters {
    default: String,
    by_id: BTreeMap<String, Arc<Cluster>>,
    repositories: BTreeMap<String, String>,
}

impl Clusters {
    /// These clusters.
    pub fn new(
        default: String,
        clusters: Vec<Cluster>,
        repositories: BTreeMap<String, String>,
    ) -> Self {
        let by_id = clusters.into_iter().map(|one| (one.id.clone(), Arc::new(one))).collect();
        Self { default, by_id, repositories }
    }

    /// The one of this name, or the one that is meant when nobody says which.
    pub fn find(&self, id: Option<&str>) -> Result<&Arc<Cluster>, Problem> {
        let id = id.filter(|id| !id.is_empty()).unwrap_or(&self.default);
        self.by_id
            .get(id)
            .ok_or_else(|| Problem::not_found(format!("there is no cluster {:?}", shortened(id))))
    }

    /// All of them, by their ids.
    pub fn all(&self) -> Vec<&Arc<Cluster>> {
        self.by_id.values().collect()
    }

    /// The one that is meant when nobody says which.
    pub fn default_id(&self) -> &str {
        &self.default
    }

    /// The cluster a repository belongs to.
    pub fn of_repository(&self, repository: &str) -> Option<&Arc<Cluster>> {
        let id = self.repositories.get(repository).unwrap_or(&self.default);
        self.by_id.get(id)
    }
}

/// At most as much of a text as is worth repeating.
fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

/// A cluster as clients of the gateway see it.
pub fn view(cluster: &Cluster) -> Value {
    let schedulers = cluster.schedulers();
    let healthy = schedulers.iter().filter(|one| one.health() == Health::Well).count();
    let shown: Vec<_> = schedulers.iter().map(|one| scheduler_view(one)).collect();
    json!({
        "id": cluster.id,
        "name": cluster.name,
        "routing_strategy": cluster.routing.word(),
        "total_schedulers": schedulers.len(),
        "healthy_schedulers": healthy,
        "schedulers": shown,
    })
}

fn scheduler_view(scheduler: &Scheduler) -> Value {
    let mut shown = json!({
        "id": scheduler.plan.id,
        "address": scheduler.plan.address,
        "is_leader": scheduler.plan.is_leader,
        "healthy": scheduler.health() == Health::Well,
    });
    if let (Some(shown), Some(seen)) = (shown.as_object_mut(), scheduler.seen()) {
        shown.insert("last_seen".to_owned(), rfc3339(seen).into());
    }
    shown
}
