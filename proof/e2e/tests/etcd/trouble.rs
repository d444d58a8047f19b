//! etcd is slow, forgets, is full, or holds what nobody can read.

use std::collections::BTreeSet;
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use persys_e2e::processes::{PATIENCE, Wish, now_seconds};
use persys_etcd::Kind;
use persys_etcd_host::Options;
use persys_proto::control::v1 as api;
use persys_store::{Etcd, EtcdSettings, Settings};
use rustix::process::{Pid, Signal, kill_process};

use crate::scene::{BACK, Health, NOTICED, SCHEDULER, SMALL, Scene, Size, in_time, put};

/// A process that stands still most of the time, until this is dropped.
struct Slow {
    going_on: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Slow {
    /// It stands still and goes on by turns, for so long each.
    fn down(process: u32, still: Duration, going: Duration) -> Self {
        let pid = Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
        let (going_on, ends) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let passed = |time| ends.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            loop {
                kill_process(pid, Signal::STOP).unwrap();
                let again = passed(still);
                kill_process(pid, Signal::CONT).unwrap();
                if !(again && passed(going)) {
                    return;
                }
            }
        });
        Self { going_on: Some(going_on), thread: Some(thread) }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        drop(self.going_on.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

#[tokio::test]
async fn a_slow_etcd_costs_time_and_a_very_slow_one_is_as_good_as_away() {
    in_time(async || {
        let mut scene = Scene::set("slow", Options::new(1), SMALL).await;
        let pid = scene.host.pid(0).unwrap();
        let slow = Slow::down(pid, Duration::from_millis(200), Duration::from_millis(50));
        let mut slowest = Duration::ZERO;
        for _ in 0..50 {
            let begun = Instant::now();
            let nodes = scene.stack.client().list_nodes(api::ListNodesRequest::default()).await;
            slowest = slowest.max(begun.elapsed());
            assert_eq!(nodes.unwrap().into_inner().nodes.len(), 2);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // What is answered from memory does not wait for etcd.
        scene.took("slowest read", slowest, Duration::from_millis(150));
        scene.works("slowly").await;
        drop(slow);
        scene.until_quiet().await;

        let records = scene.records().await;
        let begun = Instant::now();
        // Longer than two renewals wait: one that is answered now and then would do for a leader.
        let slow = Slow::down(pid, Duration::from_secs(4), Duration::from_millis(20));
        scene.until_mode(SCHEDULER, "degraded").await;
        scene.took("degraded", begun.elapsed(), NOTICED);
        scene.serves_reads(SCHEDULER).await;
        while begun.elapsed() < Duration::from_secs(11) {
            scene.is_untouched(&[]).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        drop(slow);
        let back = Instant::now();
        scene.until_health(SCHEDULER, Health::leads_well).await;
        scene.took("normal again", back.elapsed(), BACK);
        let after = scene.records().await;
        for (key, value) in records.iter().filter(|(key, _)| *key != "/meta/head") {
            assert_eq!(after.get(key), Some(value), "{key} changed meanwhile");
        }
        scene.works("after").await;
        scene.was_untouched(&[]).await;
        scene
    })
    .await;
}

impl Scene {
    /// Many revisions of others, all of which are forgotten.
    async fn forgets(&self) {
        let past = self.past();
        for number in 0..300_u32 {
            put(&past, "/elsewhere/counter", &number.to_le_bytes()).await.unwrap();
        }
        past.compact(self.revision().await, true).await.unwrap();
        past.defragment().await.unwrap();
    }
}

#[tokio::test]
async fn etcd_forgets_revisions_under_a_scheduler_that_stands_still() {
    in_time(async || {
        let mut scene = Scene::set("compacted", Options::new(1), SMALL).await;
        let records = scene.records().await;
        let paused = Instant::now();
        scene.stack.pause(SCHEDULER);
        scene.forgets().await;
        // Longer than its lease, and than the leases of all nodes and their grace.
        while paused.elapsed() < Duration::from_secs(12) {
            scene.is_untouched(&[]).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let back = Instant::now();
        scene.stack.resume(SCHEDULER);
        // It led when it fell asleep: what it does first is no news.
        let id = scene.stack.id("awake");
        scene.stack.apply(&Wish::runs(&id).request()).await;
        scene.took("writes flow again", back.elapsed(), BACK);
        scene.stack.until_status(&id, "Running").await;
        scene.is_untouched(&[&id]).await;
        scene.stack.delete(&id).await;
        scene.gone(&id).await;
        let after = scene.records().await;
        for (key, value) in records.iter().filter(|(key, _)| *key != "/meta/head") {
            assert_eq!(after.get(key), Some(value), "{key} changed meanwhile");
        }
        // Who was missed would be known by now.
        tokio::time::sleep(Duration::from_secs(11)).await;
        scene.works("after").await;
        scene.was_untouched(&[]).await;
        scene
    })
    .await;
}

#[tokio::test]
async fn who_follows_misses_nothing_that_etcd_forgot_meanwhile() {
    in_time(async || {
        let size = Size { schedulers: 2, ..SMALL };
        let mut scene = Scene::set("compacted under a follower", Options::new(1), size).await;
        let leader = scene.leader().await;
        let follower = scene.stack.schedulers().into_iter().find(|name| *name != leader).unwrap();
        scene.serves_reads(&follower).await;
        scene.stack.pause(&follower);
        scene.stack.front = leader;
        let (deleted, created) = (scene.id(0), scene.stack.id("young"));
        scene.stack.delete(&deleted).await;
        scene.gone(&deleted).await;
        scene.forget(&deleted);
        scene.stack.apply(&Wish::runs(&created).request()).await;
        scene.stack.until_status(&created, "Running").await;
        scene.keep(&created).await;
        scene.forgets().await;
        let back = Instant::now();
        scene.stack.resume(&follower);
        let mut client = scene.stack.client_of(&follower);
        let wanted: BTreeSet<_> = scene.lives.keys().cloned().collect();
        loop {
            let all = client.list_workloads(api::ListWorkloadsRequest::default()).await;
            let all = all.map(|all| {
                let all = all.into_inner().workloads;
                all.into_iter().map(|view| view.workload_id).collect::<BTreeSet<_>>()
            });
            if all.as_ref().is_ok_and(|all| *all == wanted) {
                break;
            }
            assert!(back.elapsed() < PATIENCE, "{all:?}, not {wanted:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        scene.took("all is known", back.elapsed(), BACK);
        scene.works("after").await;
        scene.was_untouched(&[]).await;
        scene
    })
    .await;
}

#[tokio::test]
async fn a_full_etcd_is_told_and_works_again_once_there_is_room() {
    in_time(async || {
        let options = Options::new(1).with(&["--quota-backend-bytes", "8388608"]);
        let mut scene = Scene::set("full", options, SMALL).await;
        let (past, records) = (scene.past(), scene.records().await);
        let full = loop {
            if let Err(error) = put(&past, "/elsewhere/big", &vec![b'x'; 500_000]).await {
                break error;
            }
        };
        assert_eq!(full.kind(), Kind::NoSpace);
        let (begun, revision) = (Instant::now(), scene.revision().await);
        scene.until_mode(SCHEDULER, "degraded").await;
        scene.took("degraded", begun.elapsed(), NOTICED);
        let said = |health: &Health| health.body["reason"].as_str().unwrap().contains("NOSPACE");
        scene.until_health(SCHEDULER, said).await;
        scene.refuses_changes(SCHEDULER).await;
        scene.serves_reads(SCHEDULER).await;
        while begun.elapsed() < Duration::from_secs(11) {
            scene.is_untouched(&[]).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        scene.until_mode(SCHEDULER, "degraded").await;
        assert_eq!(scene.revision().await, revision, "it takes nothing");

        let (way, store) = (scene.host.patient_way(), Settings::default());
        let etcd = Etcd::open(EtcdSettings { way, store, quota_bytes: None }).unwrap();
        etcd.reclaim().await.unwrap();
        scene.is_back(revision, &records).await;
        scene
    })
    .await;
}

/// What a person or another program may leave under the keys of ours.
const GARBAGE: [&str; 9] = [
    "/nodes/n9",
    "/nodes/n1/lease",
    "/workloads/w9",
    "/assignments/w9",
    "/retries/w9",
    "/graves/n1/w9",
    "/drifts/n1/w9/missing",
    "/skydns/local/x",
    "/somebody/else",
];

#[tokio::test]
async fn what_nobody_can_read_concerns_nobody_else() {
    in_time(async || {
        let mut scene = Scene::set("garbage", Options::new(1), SMALL).await;
        let past = scene.past();
        // An old one would go with its time.
        let event = format!("/events/{:017}000-{:020}", now_seconds(), 7_777_777);
        let garbage: Vec<_> = GARBAGE.into_iter().chain([&*event]).collect();
        for key in &garbage {
            put(&past, key, format!("{{ not ours: {key}").as_bytes()).await.unwrap();
        }
        // Somebody edited the records of two that run, and left them broken.
        let (spec, place) =
            (format!("/workloads/{}", scene.id(0)), format!("/assignments/{}", scene.id(1)));
        let broken = [spec, place];
        for key in &broken {
            put(&past, key, format!("broken {key}").as_bytes()).await.unwrap();
        }
        scene.works("beside-it").await;
        // A new life reads them all.
        scene.stack.kill(SCHEDULER).await;
        scene.stack.start_again(SCHEDULER).await;
        let back = Instant::now();
        scene.until_health(SCHEDULER, Health::leads_well).await;
        scene.took("leads again", back.elapsed(), BACK);
        scene.stack.until_ready(2).await;
        let (good, better) = (scene.id(2), scene.id(3));
        for id in [&good, &better] {
            scene.stack.until_status(id, "Running").await;
        }
        scene.works("after").await;
        // Longer than a drift sweep would need to take what is unknown for an orphan, and act.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(12) {
            scene.is_untouched(&[]).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        // Everything is still there, under its key or where it was put aside.
        let values: BTreeSet<_> =
            scene.records().await.into_values().map(|(_, value)| value).collect();
        for key in &garbage {
            assert!(values.contains(format!("{{ not ours: {key}").as_bytes()), "{key} is gone");
        }
        for key in &broken {
            assert!(values.contains(format!("broken {key}").as_bytes()), "{key} is gone");
        }
        scene.was_untouched(&[]).await;
        scene
    })
    .await;
}
