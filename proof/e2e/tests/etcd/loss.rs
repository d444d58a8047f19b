//! etcd loses what it knew, and people say how to go on.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use persys_cli::context::{self, Context};
use persys_cli::world::World;
use persys_e2e::processes::{PATIENCE, Wish};
use persys_etcd_host::Options;
use persys_proto::compute::v1 as compute;

use crate::scene::{BACK, NOTICED, SMALL, Scene, Size, in_time};

const SCHEDULER: &str = "scheduler";

impl Scene {
    /// Types a command of `persys` as an operator; says what it printed.
    async fn types(&self, line: &str) -> String {
        let home = self.stack.folder_of("home");
        let context = Context {
            endpoint: self.stack.address_of(SCHEDULER).to_string(),
            identity: Some(self.stack.operator_file()),
            insecure: false,
            note: None,
        };
        context::write(&home, "here", &context).unwrap();
        context::choose(&home, "here").unwrap();
        let env = BTreeMap::from([("PERSYS_HOME".to_owned(), home.display().to_string())]);
        let world = World::kept(env, b"");
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let code = persys_cli::run_in(&world, "persys", words, Vec::new()).await;
        assert_eq!(code, 0, "{line}: {}{}", world.printed(), world.remarked());
        world.printed()
    }

    /// Waits until a scheduler in recovery has heard what so many nodes hold.
    async fn until_heard(&self, nodes: usize) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let standing = self.compute(SCHEDULER).standing(compute::StandingRequest {}).await;
            let heard = standing.unwrap().into_inner().heard;
            if heard.len() == nodes {
                return;
            }
            assert!(Instant::now() < deadline, "only {heard:?} told\n{}", self.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Kills etcd, changes its data, starts it; the scheduler notices both.
    async fn comes_back_otherwise(&mut self, otherwise: impl Fn(&mut Scene)) {
        let begun = Instant::now();
        self.host.kill_all();
        self.until_mode(SCHEDULER, "degraded").await;
        self.took("degraded", begun.elapsed(), NOTICED);
        otherwise(self);
        self.host.restart().await;
        let back = Instant::now();
        self.until_mode(SCHEDULER, "recovery").await;
        self.took("recovery", back.elapsed(), BACK);
    }

    /// In recovery nothing is written, nothing stops, and every change is refused.
    async fn keeps_still_in_recovery(&self, agents: usize, how_long: Duration) {
        let (begun, revision) = (Instant::now(), self.revision().await);
        self.refuses_changes(SCHEDULER).await;
        self.until_heard(agents).await;
        while begun.elapsed() < how_long {
            self.is_untouched(&[]).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        self.until_mode(SCHEDULER, "recovery").await;
        assert_eq!(self.revision().await, revision, "written in recovery");
    }
}

#[tokio::test]
async fn a_wiped_etcd_is_left_alone() {
    in_time(async || {
        let mut scene = Scene::set("wiped", Options::new(1), SMALL).await;
        scene.comes_back_otherwise(|scene| scene.host.wipe()).await;
        assert!(scene.records().await.is_empty(), "only who leads is written");
        scene.keeps_still_in_recovery(2, Duration::from_secs(12)).await;
        assert!(scene.records().await.is_empty(), "only who leads is written");
        // A new life of the scheduler does not take the empty store for a new cluster either.
        scene.stack.kill(SCHEDULER).await;
        scene.stack.start_again(SCHEDULER).await;
        scene.until_mode(SCHEDULER, "recovery").await;
        scene.keeps_still_in_recovery(2, Duration::from_secs(3)).await;
        scene.was_untouched(&[]).await;
        scene
    })
    .await;
}

#[tokio::test]
async fn twenty_containers_outlive_a_wiped_etcd_and_are_managed_again() {
    in_time(async || {
        let size = Size { containers: 20, ..SMALL };
        let mut scene = Scene::set("wiped under twenty", Options::new(1), size).await;
        scene.comes_back_otherwise(|scene| scene.host.wipe()).await;
        scene.keeps_still_in_recovery(2, Duration::ZERO).await;
        let shown = scene.types("recover --from-agents --dry-run").await;
        let begun = Instant::now();
        let done = scene.types("recover --from-agents --yes").await;
        for id in scene.lives.keys() {
            assert!(shown.contains(id) && done.contains(id), "{id} in {shown} and in {done}");
        }
        scene.until_health(SCHEDULER, crate::scene::Health::leads_well).await;
        let ids: Vec<_> = scene.lives.keys().cloned().collect();
        for id in &ids {
            scene.stack.until_status(id, "Running").await;
        }
        scene.took("twenty managed again", begun.elapsed(), BACK);
        scene.was_untouched(&[]).await;
        // They obey.
        let (stopped, deleted) = (scene.id(3), scene.id(4));
        scene.stack.wish(&stopped, "Stopped").await;
        scene.stack.until_status(&stopped, "Stopped").await;
        scene.stack.wish(&stopped, "Running").await;
        scene.stack.until_status(&stopped, "Running").await;
        scene.forget(&stopped);
        scene.stack.delete(&deleted).await;
        scene.gone(&deleted).await;
        scene.forget(&deleted);
        scene.was_untouched(&[&stopped]).await;
        scene
    })
    .await;
}

#[tokio::test]
async fn an_older_etcd_neither_revives_nor_loses() {
    in_time(async || {
        let mut scene = Scene::set("older", Options::new(1), SMALL).await;
        scene.host.kill_all();
        scene.host.save("old");
        scene.host.restart().await;
        scene.until_health(SCHEDULER, crate::scene::Health::leads_well).await;
        let (deleted, created) = (scene.id(0), scene.stack.id("young"));
        scene.stack.delete(&deleted).await;
        scene.gone(&deleted).await;
        scene.forget(&deleted);
        scene.stack.apply(&Wish::runs(&created).request()).await;
        scene.stack.until_status(&created, "Running").await;
        scene.keep(&created).await;
        scene.until_quiet().await;

        scene.comes_back_otherwise(|scene| scene.host.restore("old")).await;
        scene.keeps_still_in_recovery(2, Duration::from_secs(8)).await;
        let shown = scene.types("recover --from-agents --dry-run").await;
        println!("{shown}");
        scene.types("recover --from-agents --yes").await;
        scene.until_health(SCHEDULER, crate::scene::Health::leads_well).await;
        let ids: Vec<_> = scene.lives.keys().cloned().collect();
        for id in &ids {
            scene.stack.until_status(id, "Running").await;
        }
        let deadline = Instant::now() + PATIENCE;
        while scene.stack.look(&deleted).await != Ok(None) {
            assert!(Instant::now() < deadline, "{deleted} is back\n{}", scene.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        scene.works("after").await;
        scene.was_untouched(&[]).await;
        scene
    })
    .await;
}

/// The backup of etcd is older than the cluster, and the scheduler that reads it is a new one: only agents
/// know that something is missing.
#[tokio::test]
async fn an_older_etcd_is_noticed_by_a_scheduler_that_remembers_nothing() {
    in_time(async || {
        let mut scene = Scene::set("older, forgotten", Options::new(1), SMALL).await;
        scene.host.kill_all();
        scene.host.save("old");
        scene.host.restart().await;
        scene.until_health(SCHEDULER, crate::scene::Health::leads_well).await;
        let (deleted, created) = (scene.id(0), scene.stack.id("young"));
        scene.stack.delete(&deleted).await;
        scene.gone(&deleted).await;
        scene.forget(&deleted);
        scene.stack.apply(&Wish::runs(&created).request()).await;
        scene.stack.until_status(&created, "Running").await;
        scene.keep(&created).await;
        scene.until_quiet().await;
        // Agents have a mark of it with the answer to their next heartbeat.
        tokio::time::sleep(Duration::from_secs(5)).await;

        scene.stack.kill(SCHEDULER).await;
        scene.host.kill_all();
        scene.host.restore("old");
        scene.host.restart().await;
        let memory = scene.stack.folder_of(SCHEDULER).join("known.json");
        std::fs::remove_file(&memory).unwrap();
        scene.stack.start_again(SCHEDULER).await;
        let back = Instant::now();
        scene.until_mode(SCHEDULER, "recovery").await;
        scene.took("recovery", back.elapsed(), BACK);
        scene.keeps_still_in_recovery(2, Duration::from_secs(3)).await;
        let shown = scene.types("recover --from-agents --dry-run").await;
        assert!(shown.contains(&created) && shown.contains(&deleted), "{shown}");
        scene.types("recover --from-agents --yes").await;
        scene.until_health(SCHEDULER, crate::scene::Health::leads_well).await;
        let ids: Vec<_> = scene.lives.keys().cloned().collect();
        for id in &ids {
            scene.stack.until_status(id, "Running").await;
        }
        let deadline = Instant::now() + PATIENCE;
        while scene.stack.look(&deleted).await != Ok(None) {
            assert!(Instant::now() < deadline, "{deleted} is back\n{}", scene.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        scene.works("after").await;
        scene.was_untouched(&[]).await;
        scene
    })
    .await;
}
