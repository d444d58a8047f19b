//! Whether schedulers answer, found out by asking them: each by itself, each with its own deadline.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tonic::metadata::MetadataMap;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::Clusters;
use super::scheduler::{Health, Scheduler, Told};

/// How long an answer may take.
const DEADLINE: Duration = Duration::from_secs(2);
/// How often one is asked that does not answer: it may be back.
const AGAIN: Duration = Duration::from_secs(1);
/// How often the list of schedulers is looked at for new ones.
const LOOK: Duration = Duration::from_secs(1);

/// Looks after every scheduler for ever; ends when dropped.
pub async fn watch(clusters: Arc<Clusters>, every: Duration) {
    let mut watched: Vec<Arc<Scheduler>> = Vec::new();
    let mut tasks = JoinSet::new();
    loop {
        let all: Vec<_> =
            clusters.all().iter().flat_map(|one| one.schedulers().as_ref().clone()).collect();
        for scheduler in &all {
            if !watched.iter().any(|known| Arc::ptr_eq(known, scheduler)) {
                tasks.spawn(watch_one(Arc::downgrade(scheduler), every));
            }
        }
        watched = all;
        while tasks.try_join_next().is_some() {}
        sleep(LOOK).await;
    }
}

async fn watch_one(scheduler: std::sync::Weak<Scheduler>, every: Duration) {
    loop {
        let Some(one) = scheduler.upgrade() else { return };
        check(&one).await;
        let wait = if one.health() == Health::Silent { AGAIN.min(every) } else { every };
        drop(one);
        sleep(wait).await;
    }
}

/// Mode and node counts beside the answer; what cannot be read is left out.
fn told_in(metadata: &MetadataMap) -> Option<Told> {
    let bytes = metadata.get_bin(persys_proto::HEALTH_HEADER)?.to_bytes().ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Asks one scheduler. Any answer will do: one that is not ready says so to those who ask it.
pub async fn check(scheduler: &Scheduler) {
    let Some(channel) = scheduler.channel() else { return };
    let mut client = HealthClient::new(channel);
    match timeout(DEADLINE, client.check(HealthCheckRequest::default())).await {
        Ok(Ok(answer)) => {
            scheduler.answered();
            scheduler.tell(told_in(answer.metadata()));
        }
        Ok(Err(status)) if std::error::Error::source(&status).is_none() => scheduler.answered(),
        Ok(Err(status)) => scheduler.was_silent(status.message()),
        Err(_) => scheduler.was_silent("no answer in time"),
    }
}
