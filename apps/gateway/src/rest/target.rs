//! Which cluster a request means, and what it is told apart by.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::request::Parts;

use super::message::Said;
use crate::caller::{Caller, fingerprint};
use crate::clusters::Cluster;
use crate::clusters::order::{Keys, Routing};
use crate::gateway::Gateway;
use crate::problem::Problem;
use crate::serve::Origin;
use crate::who::{COOKIE, cookie};

/// Where a request goes, and for whom.
#[derive(Debug, Clone)]
pub struct Target {
    /// The cluster.
    pub cluster: Arc<Cluster>,
    /// Who asks.
    pub caller: Caller,
    /// From where they ask.
    pub source: Option<IpAddr>,
    /// What it is told apart by.
    pub keys: Keys,
}

impl Target {
    /// What a request means: the cluster in its path, in its header, in its query, or the usual one.
    pub fn of(
        gateway: &Gateway,
        parts: &Parts,
        said: &Said,
        caller: Caller,
    ) -> Result<Self, Problem> {
        let header = |name: &str| parts.headers.get(name).and_then(|text| text.to_str().ok());
        let named = said
            .part("cluster_id")
            .or_else(|| header("x-persys-cluster-id"))
            .or_else(|| said.parameter("cluster_id"));
        let cluster = Arc::clone(gateway.clusters.find(named)?);
        let source = parts.extensions.get::<Origin>().map(|origin| origin.remote.ip());
        // Only what decides whom it goes to is worth finding out.
        let keys = match cluster.routing {
            Routing::LeaderOnly => Keys::default(),
            Routing::Sticky => {
                let remote = || source.map(|source| source.to_string()).unwrap_or_default();
                let session = header("x-persys-session").or_else(|| cookie(&parts.headers, COOKIE));
                let session = session.map_or_else(
                    || header("authorization").map_or_else(remote, fingerprint),
                    ToOwned::to_owned,
                );
                Keys { session, ..Keys::default() }
            }
            Routing::Shard => {
                let workload = header("x-persys-workload-key")
                    .or_else(|| said.part("id"))
                    .or_else(|| said.parameter("workload_id"))
                    .unwrap_or_else(|| parts.uri.path());
                Keys { workload: workload.to_owned(), ..Keys::default() }
            }
        };
        Ok(Self { cluster, caller, source, keys })
    }
}
