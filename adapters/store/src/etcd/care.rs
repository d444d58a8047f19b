//! What goes on beside the calls: old revisions are forgotten, gauges are read, and the head is
//! followed. Nothing of it is needed for anything to be right.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use persys_cluster::record::Head;
use persys_etcd::Client;
use persys_model::token::CommitSeq;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::lead::Leadership;
use super::{Inner, lock};
use crate::error::Error;
use crate::key::Keys;
use crate::record::decode;

/// How often etcd is asked how it is.
const ROUND: Duration = Duration::from_secs(15);
/// How long old revisions are kept: longer than any read takes.
const KEEP: Duration = Duration::from_mins(5);
/// How soon a watch that ended is begun again.
const WATCH_AGAIN: Duration = Duration::from_secs(1);

/// How etcd is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Health {
    /// Whether it answered when it was last asked.
    pub reachable: bool,
    /// Its release.
    pub version: String,
    /// The size of its file.
    pub size_bytes: u64,
    /// How much of that is in use.
    pub used_bytes: u64,
    /// How much it may store, if that is known.
    pub quota_bytes: Option<u64>,
    /// The revision of the store.
    pub revision: i64,
    /// The revision before which this process had everything forgotten.
    pub compacted: i64,
    /// What it complains about: alarms are among it.
    pub complaints: Vec<String>,
}

impl Health {
    /// Whether it takes no more because it is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        is_full(&self.complaints)
    }
}

/// Whether etcd complains that it is full.
pub(super) fn is_full(complaints: &[String]) -> bool {
    complaints.iter().any(|complaint| complaint.contains("NOSPACE"))
}

/// Which revisions were seen when, and which may be forgotten.
#[derive(Debug, Default)]
struct Past {
    seen: Vec<(Instant, i64)>,
    compacted: i64,
}

impl Past {
    /// The revision up to which all may be forgotten now, if that is more than last time.
    fn note(&mut self, revision: i64, now: Instant) -> Option<i64> {
        if self.seen.last().is_none_or(|(_, last)| *last != revision) {
            self.seen.push((now, revision));
        }
        let old = self.seen.iter().rposition(|(at, _)| now.duration_since(*at) >= KEEP)?;
        let (_, due) = *self.seen.get(old)?;
        // The last one stays, so that a revision that does not move is known.
        self.seen.drain(..old);
        (due > self.compacted).then_some(due)
    }
}

/// Watches over etcd for as long as the store is open.
pub(super) async fn take_care(
    client: Client,
    leadership: Arc<Mutex<Leadership>>,
    health: watch::Sender<Health>,
) {
    let mut past = Past::default();
    loop {
        match client.status().await {
            Ok(status) => {
                let due = past.note(status.revision, Instant::now());
                let leads = lock(&leadership).lead.is_some();
                if let Some(revision) = due.filter(|_| leads)
                    && client.compact(revision, false).await.is_ok()
                {
                    past.compacted = revision;
                }
                health.send_modify(|health| {
                    health.reachable = true;
                    health.version = status.version;
                    health.size_bytes = u64::try_from(status.size_bytes).unwrap_or(0);
                    health.used_bytes = u64::try_from(status.used_bytes).unwrap_or(0);
                    health.revision = status.revision;
                    health.compacted = past.compacted;
                    health.complaints = status.complaints;
                });
            }
            Err(_) => health.send_modify(|health| health.reachable = false),
        }
        sleep(ROUND).await;
    }
}

/// Tells what others write, as long as etcd does.
pub(super) async fn follow_head(client: Client, keys: Keys, head: watch::Sender<CommitSeq>) {
    loop {
        if let Ok(mut watching) = client.watch(&keys.head()).await {
            while let Ok(value) = watching.next().await {
                if let Some((read, _)) = value.and_then(|bytes| decode::<Head>(&bytes).ok()) {
                    head.send_if_modified(|seq| {
                        let news = read.seq > *seq;
                        *seq = read.seq.max(*seq);
                        news
                    });
                }
            }
        }
        sleep(WATCH_AGAIN).await;
    }
}

impl Inner {
    pub(super) async fn reclaim(&self) -> Result<(), Error> {
        let told = |error: persys_etcd::Error| Error::etcd(&error);
        let status = self.client.status().await.map_err(told)?;
        self.client.compact(status.revision, true).await.map_err(told)?;
        self.client.defragment().await.map_err(told)?;
        self.client.disarm().await.map_err(told)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_revisions_go_and_an_idle_store_is_left_alone() {
        let (mut past, start) = (Past::default(), Instant::now());
        let at = |minutes: u64| start + Duration::from_mins(minutes);
        assert_eq!(past.note(10, at(0)), None);
        assert_eq!(past.note(20, at(3)), None);
        assert_eq!(past.note(30, at(5)), Some(10));
        past.compacted = 10;
        assert_eq!(past.note(30, at(7)), None, "20 is not old enough");
        assert_eq!(past.note(30, at(8)), Some(20));
        past.compacted = 20;
        assert_eq!(past.note(30, at(10)), Some(30));
        past.compacted = 30;
        for minute in 11..60 {
            assert_eq!(past.note(30, at(minute)), None, "nothing moved");
        }
        assert!(past.seen.len() < 3);
    }
}
