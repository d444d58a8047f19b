//! etcd is away for a while: nothing moves, and everything goes on afterwards.

use std::time::{Duration, Instant};

use persys_etcd_host::{Host, Options};

use crate::scene::{NOTICED, SCHEDULER, SMALL, Scene, in_time};

/// How long etcd is away at least: longer than a lease of a node and its grace.
const AWAY: Duration = Duration::from_secs(11);
/// The same where the leader's lease is to outlive it.
const AWAY_BRIEFLY: Duration = Duration::from_secs(4);

/// etcd is harmed and mended; between the two nothing moves.
async fn away(
    name: &'static str,
    members: usize,
    how_long: Duration,
    harm: impl AsyncFn(&mut Host),
    mend: impl AsyncFn(&mut Host),
) {
    in_time(async || {
        let mut scene = Scene::set(name, Options::new(members), SMALL).await;
        let (revision, records) = (scene.revision().await, scene.records().await);
        let begun = Instant::now();
        harm(&mut scene.host).await;
        scene.until_mode(SCHEDULER, "degraded").await;
        scene.took("degraded", begun.elapsed(), NOTICED);
        scene.refuses_changes(SCHEDULER).await;
        scene.serves_reads(SCHEDULER).await;
        while begun.elapsed() < how_long {
            scene.is_untouched(&[]).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        mend(&mut scene.host).await;
        scene.is_back(revision, &records).await;
        scene
    })
    .await;
}

#[tokio::test]
async fn etcd_is_killed_and_comes_back() {
    let mend = async |host: &mut Host| host.restart().await;
    away("killed", 1, AWAY, async |host: &mut Host| host.kill(0), mend).await;
}

#[tokio::test]
async fn etcd_stands_still_and_goes_on() {
    let harm = async |host: &mut Host| host.pause(0);
    away("paused", 1, AWAY_BRIEFLY, harm, async |host: &mut Host| host.resume(0)).await;
}

#[tokio::test]
async fn most_members_of_etcd_are_lost_and_come_back() {
    let harm = async |host: &mut Host| {
        host.kill(0);
        host.kill(1);
    };
    let mend = async |host: &mut Host| host.restart().await;
    away("without most members", 3, AWAY, harm, mend).await;
}
