//! A Docker daemon of our own that is killed, comes back, and hangs: nothing is lost, nothing is
//! doubled, and a node beside it does not notice.

use std::time::{Duration, Instant};

use persys_e2e::daemon::{Daemon, Kind};
use persys_e2e::engine::{Container, Engine, Recorder};
use persys_e2e::part::Pace;
use persys_e2e::processes::{Stack, Wish, now_seconds};
use rustix::process::Signal;

use crate::program;

/// A cluster of a node on a Docker of its own and a node on which nothing really runs.
struct Pair {
    // Before the daemon: its processes end first.
    stack: Stack,
    daemon: Daemon,
    since: u64,
}

impl Pair {
    async fn start() -> Self {
        let (daemon, since) = (Daemon::start(Kind::Lasting), now_seconds());
        let mut stack = Stack::new(program(), Pace::Product);
        stack.start_scheduler(None).await;
        stack.start_agent("docker", Some(&Engine::at(daemon.host())), None).await;
        stack.start_agent("sim", None, None).await;
        stack.until_ready(2).await;
        let mut pair = Self { stack, daemon, since };
        for name in ["a", "b", "c"] {
            pair.submit(name, "docker").await;
        }
        pair.submit("beside", "sim").await;
        for name in ["a", "b", "c", "beside"] {
            let id = pair.stack.id(name);
            pair.stack.until_status(&id, "Running").await;
        }
        pair
    }

    async fn submit(&mut self, name: &str, runtime: &'static str) -> String {
        let id = self.stack.id(name);
        let wish = Wish { runtime: Some(runtime), ..Wish::runs(&id) };
        self.stack.apply(&wish.request()).await;
        id
    }

    fn engine(&self) -> Engine {
        Engine::at(self.daemon.host())
    }

    async fn containers(&self) -> Vec<(Container, (String, i64))> {
        let mut all = Vec::new();
        for container in self.engine().containers(&self.stack.cluster).await {
            let started = self.engine().started(&container.id).await;
            all.push((container, started));
        }
        all
    }

    /// The node beside takes new work within seconds, and what it has was not decided anew.
    async fn beside_is_unaffected(&mut self, name: &str) {
        let before = self.stack.look(&self.stack.id("beside")).await.unwrap().unwrap();
        let begun = Instant::now();
        let id = self.submit(name, "sim").await;
        self.stack.until_status(&id, "Running").await;
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        let after = self.stack.look(&self.stack.id("beside")).await.unwrap().unwrap();
        assert_eq!((before.epoch, after.restarts, &*after.status), (after.epoch, 0, "Running"));
    }

    /// All three are what they were, and a fourth that was asked for meanwhile has come.
    async fn nothing_lost_nothing_doubled(
        &mut self,
        before: Vec<(Container, (String, i64))>,
        mut recorder: Recorder,
    ) {
        let meanwhile = self.stack.id("meanwhile");
        self.stack.until_status(&meanwhile, "Running").await;
        for name in ["a", "b", "c"] {
            let id = self.stack.id(name);
            let view = self.stack.until_status(&id, "Running").await;
            assert_eq!((view.restarts, &*view.assigned_node_id), (0, "docker"));
        }
        let mut after = self.containers().await;
        after.retain(|(container, _)| container.workload != meanwhile);
        assert_eq!(after, before);
        for (id, actions) in recorder.history().await {
            assert_eq!(actions, ["create", "start"], "{id}");
        }
        for name in ["a", "b", "c", "meanwhile"] {
            let id = self.stack.id(name);
            self.stack.delete(&id).await;
        }
        assert_eq!(self.engine().containers(&self.stack.cluster).await, []);
    }
}

#[tokio::test]
async fn a_killed_daemon_costs_nothing() {
    let mut pair = Pair::start().await;
    let before = pair.containers().await;
    pair.daemon.kill();
    pair.submit("meanwhile", "docker").await;
    pair.beside_is_unaffected("one").await;
    let since = now_seconds();
    pair.daemon.start_again();
    let recorder = pair.engine().record(&pair.stack.cluster, since);
    pair.nothing_lost_nothing_doubled(before, recorder).await;
}

#[tokio::test]
async fn a_frozen_daemon_costs_nothing() {
    let mut pair = Pair::start().await;
    let before = pair.containers().await;
    let recorder = pair.engine().record(&pair.stack.cluster, pair.since);
    pair.daemon.signal(Signal::STOP);
    let frozen = Instant::now();
    pair.submit("meanwhile", "docker").await;
    // Longer than the agent waits for a list, and longer than a lease.
    let mut round = 0;
    while frozen.elapsed() < Duration::from_secs(12) {
        round += 1;
        pair.beside_is_unaffected(&format!("beside-{round}")).await;
        let request = persys_proto::control::v1::ListNodesRequest { status: "ready".to_owned() };
        let nodes = pair.stack.client().list_nodes(request).await.unwrap().into_inner().nodes;
        assert_eq!(nodes.len(), 2, "its agent still beats");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    pair.daemon.signal(Signal::CONT);
    pair.nothing_lost_nothing_doubled(before, recorder).await;
}
