//! The clusters themselves, and all of them at once.

use std::net::IpAddr;
use std::time::Duration;

use axum::Json;
use axum::extract::{Extension, RawPathParams, State};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::future::join_all;
use persys_proto::json::{self, Style};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::caller::Caller;
use crate::clusters::order::Keys;
use crate::clusters::{Call, Cluster, view};
use crate::gateway::Gateway;
use crate::problem::Problem;
use crate::proven::prove;
use crate::serve::Origin;
use crate::who::Who;

/// How long all clusters have to answer; those that do not are told of.
const TOGETHER: Duration = Duration::from_secs(2);
const SUMMARY: &str = "/persys.control.v1.AgentControl/GetClusterSummary";
const STANDING: &str = "/persys.compute.v1.Compute/Standing";

/// `GET /clusters`.
pub(super) async fn list(
    State(gateway): State<Gateway>,
    Extension(origin): Extension<Origin>,
    Extension(who): Extension<Who>,
) -> Result<Response, Problem> {
    prove(&gateway, who.known()?, &origin).await?;
    let clusters: Vec<_> = gateway.clusters.all().into_iter().map(|one| view(one)).collect();
    let default = gateway.clusters.default_id();
    Ok(Json(json!({"default_cluster_id": default, "clusters": clusters})).into_response())
}

/// `GET /clusters/{cluster_id}`.
pub(super) async fn one(
    State(gateway): State<Gateway>,
    Extension(origin): Extension<Origin>,
    Extension(who): Extension<Who>,
    path: RawPathParams,
) -> Result<Response, Problem> {
    prove(&gateway, who.known()?, &origin).await?;
    let id = path.iter().find(|(name, _)| *name == "cluster_id").map(|(_, value)| value);
    let cluster = view(gateway.clusters.find(id)?);
    let default = gateway.clusters.default_id();
    Ok(Json(json!({"default_cluster_id": default, "cluster": cluster})).into_response())
}

/// `GET /v1/overview`: every cluster with how it stands. One that does not answer in time is there
/// all the same, with the reason, and `partial` says that something is missing.
pub(super) async fn overview(
    State(gateway): State<Gateway>,
    Extension(origin): Extension<Origin>,
    Extension(who): Extension<Who>,
) -> Result<Response, Problem> {
    let caller = who.known()?;
    prove(&gateway, caller, &origin).await?;
    let source = Some(origin.remote.ip());
    let all = gateway.clusters.all();
    let shown = join_all(all.into_iter().map(|cluster| show(cluster, caller, source))).await;
    let partial = shown.iter().any(|one| one.get("problem").is_some());
    Ok(Json(json!({
        "default_cluster_id": gateway.clusters.default_id(),
        "partial": partial,
        "clusters": shown,
    }))
    .into_response())
}

async fn show(cluster: &Cluster, caller: &Caller, source: Option<IpAddr>) -> Value {
    let keys = Keys::default();
    let ask = |path: &'static str| {
        let keys = &keys;
        async move {
            let call = Call {
                path,
                message: Bytes::new(),
                caller,
                source,
                reason: None,
                keys,
                is_safe: true,
            };
            let answer = cluster.call(&call).await.map_err(Problem::from)?;
            let name = json::method(path).map(|method| method.output).unwrap_or_default();
            Ok::<_, Problem>(json::write_bytes(name, answer.get_ref(), Style::Snake))
        }
    };
    let both = async { tokio::try_join!(ask(SUMMARY), ask(STANDING)) };
    let answered = timeout(TOGETHER, both).await.unwrap_or_else(|_| {
        Err(Problem::unavailable(format!("the cluster did not answer within {TOGETHER:?}")))
    });
    let mut shown = view(cluster);
    if let Some(shown) = shown.as_object_mut() {
        match answered {
            Ok((summary, standing)) => {
                shown.insert("summary".to_owned(), summary);
                shown.insert("standing".to_owned(), standing);
            }
            Err(problem) => drop(shown.insert("problem".to_owned(), problem.to_json())),
        }
    }
    shown
}
