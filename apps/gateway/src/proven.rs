//! Whether somebody who is named is who they say, where no scheduler is asked anyway.
//!
//! A token is checked by the scheduler that answers a request. What the gateway answers by itself, such
//! as which clusters there are, is for nobody whose token no cluster takes. While none of them answers,
//! a token that was good a short while ago will do: then is when people look which ones are away.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::time::timeout;
use tonic::{Code, Status};

use crate::caller::Caller;
use crate::clusters::{Call, Cluster};
use crate::gateway::Gateway;
use crate::problem::Problem;
use crate::serve::Origin;

/// How long a cluster has to answer.
const WITHIN: Duration = Duration::from_secs(2);
/// For how long a token is believed that nobody can check.
const BELIEVED: Duration = Duration::from_hours(1);
/// Most tokens that are remembered.
const MOST: usize = 10_000;
const WHO: &str = "/persys.compute.v1.Access/WhoAmI";

/// Tokens that were good, and when.
#[derive(Debug, Default)]
pub struct Proven(Mutex<BTreeMap<Arc<str>, Instant>>);

impl Proven {
    fn remember(&self, caller: &Caller, now: Instant) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            all.retain(|_, at| now.saturating_duration_since(*at) < BELIEVED);
        }
        if all.len() < MOST {
            all.insert(Arc::clone(caller.key()), now);
        }
    }

    fn remembers(&self, caller: &Caller, now: Instant) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.get(caller.key());
        at.is_some_and(|at| now.saturating_duration_since(*at) < BELIEVED)
    }

    fn forget(&self, caller: &Caller) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(caller.key());
    }
}

/// Refuses somebody whom no cluster knows.
pub async fn prove(gateway: &Gateway, caller: &Caller, origin: &Origin) -> Result<(), Problem> {
    let asked = gateway.clusters.all().into_iter().map(|one| ask(one, caller, origin));
    let mut asked: FuturesUnordered<_> = asked.collect();
    let mut refused = None;
    while let Some(answer) = asked.next().await {
        match answer {
            Ok(()) => {
                gateway.proven.remember(caller, Instant::now());
                return Ok(());
            }
            Err(why) if is_refusal(&why) => refused = Some(why),
            Err(_) => {}
        }
    }
    match refused {
        Some(why) => {
            if why.code() == Code::Unauthenticated {
                gateway.proven.forget(caller);
            }
            Err(why.into())
        }
        None if gateway.proven.remembers(caller, Instant::now()) => Ok(()),
        // What a certificate says was seen to when the connection was made, as far as it goes: only
        // the clusters know who was revoked since.
        None if !caller.has_token() => Ok(()),
        None => {
            let sentence = "no cluster answers that could say whether this token is good";
            let next = "ask again, or use a client certificate";
            let status = StatusCode::SERVICE_UNAVAILABLE;
            Err(Problem::new(status, "unavailable", sentence, next).again_in(1))
        }
    }
}

/// Whether a cluster knows better, or has heard too much of whoever asks.
fn is_refusal(why: &Status) -> bool {
    matches!(why.code(), Code::Unauthenticated | Code::ResourceExhausted)
}

async fn ask(cluster: &Cluster, caller: &Caller, origin: &Origin) -> Result<(), Status> {
    let call = Call::bare(WHO, caller, Some(origin.remote.ip()));
    match timeout(WITHIN, cluster.call(&call)).await {
        Ok(Ok(_)) => Ok(()),
        // Who holds nothing there is still somebody.
        Ok(Err(why)) if why.code() == Code::PermissionDenied => Ok(()),
        Ok(Err(why)) => Err(why),
        Err(_) => Err(Status::unavailable("no answer in time")),
    }
}
