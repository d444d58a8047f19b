//! Deals with pushes: has the scheduler look again, until it did or it is clear that it never will.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use persys_proto::compute::v1::{RefreshRequest, RefreshResponse};
use persys_proto::json::Message as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tonic::{Code, Status};

use super::ledger::Ledger;
use super::push::Push;
use crate::caller::Caller;
use crate::clusters::Call;
use crate::clusters::order::Keys;
use crate::gateway::Gateway;

const REFRESH: &str = "/persys.compute.v1.Sources/Refresh";
/// Pushes that are dealt with at a time.
const AT_A_TIME: usize = 8;
/// How often one is tried, and how long after the first failure it is tried again; then twice that.
const TRIES: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// How often the ledger is looked at for what did not come by itself.
const LOOK: Duration = Duration::from_secs(30);

/// Deals with pushes for ever; ends when dropped.
pub(super) async fn run(
    gateway: &Gateway,
    caller: &Caller,
    ledger: &Arc<Ledger>,
    mut work: mpsc::Receiver<(u64, Push)>,
) {
    let mut under_way: BTreeSet<u64> = BTreeSet::new();
    let mut tasks: JoinSet<u64> = JoinSet::new();
    let mut waiting = ledger.work().unwrap_or_default();
    loop {
        waiting.retain(|(id, _)| !under_way.contains(id));
        while tasks.len() < AT_A_TIME && !waiting.is_empty() {
            let (id, push) = waiting.remove(0);
            under_way.insert(id);
            tasks.spawn(one(gateway.clone(), caller.clone(), Arc::clone(ledger), id, push));
        }
        tokio::select! {
            Some(next) = work.recv() => waiting.push(next),
            Some(done) = tasks.join_next() => {
                if let Ok(id) = done {
                    under_way.remove(&id);
                }
            }
            () = sleep(LOOK) => waiting = ledger.work().unwrap_or_default(),
        }
    }
}

async fn one(gateway: Gateway, caller: Caller, ledger: Arc<Ledger>, id: u64, push: Push) -> u64 {
    let mut pause = FIRST_PAUSE;
    for nth in 1..=TRIES {
        match refresh(&gateway, &caller, &push).await {
            Ok(answer) => {
                told(&gateway, &push, &answer);
                break;
            }
            Err(why) if nth < TRIES && may_pass(&why) => {
                tracing::info!(repository = push.repository, why = why.message(), "tried again");
                sleep(pause).await;
                pause = pause.saturating_mul(2);
            }
            Err(why) => {
                gateway.metrics.webhook("in", "failed");
                let (repository, reference) = (&push.repository, &push.reference);
                tracing::warn!(repository, reference, why = why.message(), "a push was given up");
                break;
            }
        }
    }
    let kept = tokio::task::spawn_blocking(move || ledger.done(id)).await;
    if !matches!(kept, Ok(Ok(()))) {
        tracing::warn!("a push that was dealt with may be dealt with again");
    }
    id
}

fn told(gateway: &Gateway, push: &Push, answer: &RefreshResponse) {
    gateway.metrics.webhook("in", "done");
    let Push { repository, reference } = push;
    for one in &answer.workloads {
        let (workload, commit) = (&one.workload_id, &one.commit);
        if one.problem.is_empty() {
            let changed = one.changed;
            tracing::info!(repository, reference, workload, commit, changed, "looked at again");
        } else {
            let why = &one.problem;
            tracing::warn!(repository, reference, workload, why, "was left as it is");
        }
    }
}

async fn refresh(
    gateway: &Gateway,
    caller: &Caller,
    push: &Push,
) -> Result<RefreshResponse, Status> {
    let cluster = gateway.clusters.of_repository(&push.repository);
    let cluster = cluster.ok_or_else(|| Status::not_found("there is no cluster"))?;
    let request =
        RefreshRequest { repository: push.repository.clone(), reference: push.reference.clone() };
    let call = Call {
        path: REFRESH,
        message: Bytes::from(request.encode_to_vec()),
        caller,
        source: None,
        reason: Some("a%20push"),
        keys: &Keys::default(),
        // To look twice changes nothing that to look once did not.
        is_safe: true,
    };
    let answer = cluster.call(&call).await?;
    RefreshResponse::decode(answer.into_inner())
        .map_err(|fault| Status::internal(format!("the answer is none: {fault}")))
}

/// Whether it may go well later.
fn may_pass(why: &Status) -> bool {
    !matches!(
        why.code(),
        Code::InvalidArgument
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::Unimplemented
            | Code::NotFound
    )
}
