//! An etcd, schedulers and agents around it, and containers that run; and what is seen of them from
//! the outside.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use persys_e2e::engine::{Container, Engine, Recorder};
use persys_e2e::part::Pace;
use persys_e2e::processes::{PATIENCE, Stack, Wish, now_seconds};
use persys_etcd::{Client, Op, Pages, Range, Txn};
use persys_etcd_host::{Host, Options};
use persys_proto::compute::v1 as compute;
use persys_proto::compute::v1::compute_client::ComputeClient;
use persys_proto::control::v1 as api;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;
use tonic::transport::Channel;

/// The first scheduler of a scene, and mostly the only one.
pub(crate) const SCHEDULER: &str = "scheduler";
/// A scheduler tells this soon that its store is away.
pub(crate) const NOTICED: Duration = Duration::from_secs(3);
/// It works again this soon after the store is back.
pub(crate) const BACK: Duration = Duration::from_secs(10);
/// Writes flow again this soon after the end of a leader.
pub(crate) const TAKEOVER: Duration = Duration::from_secs(12);
/// A host may stall for a moment of its own; a product that is slow is slow every time.
const TRIES: usize = 3;
/// Who leads is no record: its key goes with a lease, and is written when somebody else leads.
const LEADERSHIP: [&str; 2] = ["/meta/leader", "/meta/term"];
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A container as Docker tells of it: which, when it was started, how often Docker restarted it.
type Life = (String, String, i64);

/// What one scheduler says on its page.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

impl Health {
    pub(crate) fn mode(&self) -> &str {
        self.body["mode"].as_str().unwrap_or_default()
    }

    /// Whether it leads and everything works.
    pub(crate) fn leads_well(&self) -> bool {
        self.code == 200 && self.mode() == "normal" && self.body["role"] == "leader"
    }
}

/// How large a scene is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) schedulers: usize,
    pub(crate) agents: usize,
    pub(crate) containers: usize,
}

/// One scheduler, two agents, and four containers.
pub(crate) const SMALL: Size = Size { schedulers: 1, agents: 2, containers: 4 };

/// An etcd, schedulers, agents and containers. Dropping it ends them all.
pub(crate) struct Scene {
    // Dropped first: whoever is left would only miss its etcd.
    pub(crate) stack: Stack,
    pub(crate) host: Host,
    /// The workloads that run since the beginning, and the containers in which they do.
    pub(crate) lives: BTreeMap<String, Life>,
    recorder: Recorder,
    late: Vec<String>,
    name: &'static str,
}

/// Plays a test until nothing in it was late. Whatever else is wrong is wrong the first time.
pub(crate) async fn in_time(play: impl AsyncFn() -> Scene) {
    let mut late = Vec::new();
    for _ in 0..TRIES {
        let scene = play().await;
        if scene.late.is_empty() {
            return;
        }
        late.push(scene.late.clone());
    }
    panic!("late each time: {late:?}");
}

impl Scene {
    pub(crate) async fn set(name: &'static str, options: Options, size: Size) -> Self {
        let host = Host::start(options).await;
        let endpoints = host.endpoints();
        Self::set_behind(name, host, endpoints, size).await
    }

    /// The same, with etcd reached at other addresses than its own.
    pub(crate) async fn set_behind(
        name: &'static str,
        host: Host,
        endpoints: Vec<String>,
        size: Size,
    ) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_node"));
        let mut stack = Stack::sharing(program, Pace::Product, endpoints, size.schedulers);
        let recorder = Engine::shared().record(&stack.cluster, now_seconds());
        for process in stack.schedulers() {
            stack.start_named(&process, None).await;
        }
        for nth in 1..=size.agents {
            stack.start_agent(&format!("n{nth}"), Some(&Engine::shared()), None).await;
        }
        stack.until_ready(size.agents).await;
        let ids: Vec<_> = (0..size.containers).map(|nth| stack.id(&format!("w{nth}"))).collect();
        for id in &ids {
            stack.apply(&Wish::runs(id).request()).await;
        }
        for id in &ids {
            stack.until_status(id, "Running").await;
        }
        let mut scene =
            Self { stack, host, lives: BTreeMap::new(), recorder, late: Vec::new(), name };
        scene.lives = scene.seen().await;
        assert!(scene.lives.keys().eq(&BTreeSet::from_iter(ids)), "one container each");
        scene.until_quiet().await;
        scene
    }

    /// The nth of the workloads that run since the beginning.
    pub(crate) fn id(&self, nth: usize) -> String {
        self.stack.id(&format!("w{nth}"))
    }

    /// Notes how long something took; later than promised is told at the end.
    pub(crate) fn took(&mut self, what: &str, took: Duration, promised: Duration) {
        let name = self.name;
        println!("{name}: {what} after {:.2} s", took.as_secs_f64());
        if took > promised {
            self.late.push(format!("{what} after {took:?}"));
        }
    }

    // What Docker says.

    /// Every container of the cluster, by workload. Two for one workload are one too many.
    async fn seen(&self) -> BTreeMap<String, Life> {
        let engine = Engine::shared();
        let mut seen = BTreeMap::new();
        for Container { id, workload, running, .. } in engine.containers(&self.stack.cluster).await
        {
            assert!(running, "the container of {workload} does not run");
            let (at, restarts) = engine.started(&id).await;
            let twice = seen.insert(workload.clone(), (id, at, restarts));
            assert_eq!(twice, None, "{workload} runs twice");
        }
        seen
    }

    /// Everything that ran in the beginning runs, in the same container, never started again; and
    /// besides it only what is named here.
    pub(crate) async fn is_untouched(&self, besides: &[&str]) {
        let mut seen = self.seen().await;
        for id in besides {
            assert!(seen.remove(*id).is_some(), "{id} does not run");
        }
        assert_eq!(seen, self.lives, "{}", self.logs());
    }

    /// The same, for all that happened between two looks too.
    pub(crate) async fn was_untouched(&mut self, besides: &[&str]) {
        self.is_untouched(besides).await;
        let history = self.recorder.history().await;
        for id in self.lives.keys() {
            assert_eq!(history.get(id).unwrap(), &["create", "start"], "{id}");
        }
    }

    /// What no longer runs, on purpose.
    pub(crate) fn forget(&mut self, id: &str) {
        self.lives.remove(id).unwrap();
    }

    /// What runs from now on and is to stay.
    pub(crate) async fn keep(&mut self, id: &str) {
        let life = self.seen().await.remove(id).unwrap();
        self.lives.insert(id.to_owned(), life);
    }

    // What etcd says.

    pub(crate) async fn revision(&self) -> i64 {
        self.past().status().await.unwrap().revision
    }

    /// Past the schedulers.
    pub(crate) fn past(&self) -> Client {
        self.host.client()
    }

    /// Every record that there is and when it was written, but for who leads.
    pub(crate) async fn records(&self) -> BTreeMap<String, (i64, Vec<u8>)> {
        let past = self.past();
        let mut pages = Pages::new(&past, Range::between("/", "0"));
        let mut records = BTreeMap::new();
        while let Some(page) = pages.next().await.unwrap() {
            for kv in page {
                let key = String::from_utf8(kv.key.to_vec()).unwrap();
                if !LEADERSHIP.contains(&&*key) {
                    records.insert(key, (kv.mod_revision, kv.value.to_vec()));
                }
            }
        }
        records
    }

    /// Waits until nothing has been written for a while.
    pub(crate) async fn until_quiet(&self) {
        let deadline = Instant::now() + PATIENCE;
        let (mut last, mut since) = (self.revision().await, Instant::now());
        while since.elapsed() < Duration::from_millis(2500) {
            assert!(Instant::now() < deadline, "etcd is written all the time: {last}");
            tokio::time::sleep(Duration::from_millis(100)).await;
            let now = self.revision().await;
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
    }

    // What the schedulers say.

    /// What a scheduler says on its page, if it says anything within a moment.
    pub(crate) async fn health(&self, process: &str) -> Option<Health> {
        let ask = page(self.stack.pages_of(process), "/health");
        let text = tokio::time::timeout(Duration::from_secs(1), ask).await.ok()?.ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let code = head.split(' ').nth(1)?.parse().ok()?;
        Some(Health { code, body: serde_json::from_str(body).ok()? })
    }

    /// Waits until a scheduler's page is as `wanted` says.
    pub(crate) async fn until_health(
        &self,
        process: &str,
        wanted: impl Fn(&Health) -> bool,
    ) -> Health {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let health = self.health(process).await;
            if let Some(health) = health.clone().filter(&wanted) {
                return health;
            }
            assert!(Instant::now() < deadline, "{process} says {health:?}\n{}", self.logs());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Waits until a scheduler says that it is in this mode, in the documented words.
    pub(crate) async fn until_mode(&self, process: &str, mode: &str) {
        let health = self.until_health(process, |health| health.mode() == mode).await;
        assert_eq!(health.code, 503, "{health:?}");
        for field in ["status", "reason", "modeChangedAt"] {
            assert!(health.body[field].as_str().is_some_and(|text| !text.is_empty()), "{health:?}");
        }
    }

    /// The store is there again: so is the scheduler, in time, with every record as it was, and
    /// nothing that runs has noticed.
    pub(crate) async fn is_back(
        &mut self,
        revision: i64,
        records: &BTreeMap<String, (i64, Vec<u8>)>,
    ) {
        let back = Instant::now();
        self.until_normal_without_writes(SCHEDULER, revision).await;
        self.took("normal again", back.elapsed(), BACK);
        let after = self.records().await;
        // Whoever reads a store again raises its head, and then tells of it by an event.
        for (key, value) in records.iter().filter(|(key, _)| *key != "/meta/head") {
            assert_eq!(after.get(key), Some(value), "{key} changed meanwhile");
        }
        self.works("after").await;
        self.was_untouched(&[]).await;
    }

    /// Waits until a scheduler leads and works, and sees to it that until then etcd stands still at
    /// `revision`, but for the one step by which a leader makes sure of what it reads again.
    pub(crate) async fn until_normal_without_writes(&self, process: &str, revision: i64) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let before = self.health(process).await;
            if before.as_ref().is_some_and(Health::leads_well) {
                return;
            }
            let now = self.revision().await;
            let after = self.health(process).await;
            let halted = |health: &Option<Health>| {
                health.as_ref().is_some_and(|health| health.mode() == "degraded")
            };
            if halted(&before) && halted(&after) {
                assert!(now == revision || now == revision + 1, "{now} after {revision}");
            }
            assert!(Instant::now() < deadline, "{process} says {after:?}\n{}", self.logs());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    pub(crate) fn compute(&self, process: &str) -> ComputeClient<Channel> {
        ComputeClient::new(self.stack.channel_of(process))
    }

    /// Everything that changes something is refused, and says when to come again; what is known is
    /// shown.
    pub(crate) async fn refuses_changes(&self, process: &str) {
        let mut client = self.stack.client_of(process);
        let id = || self.id(0);
        let new = Wish::runs(&self.stack.id("meanwhile")).request();
        let delete = api::DeleteWorkloadRequest { workload_id: id(), volumes: false };
        let retry = api::RetryWorkloadRequest { workload_id: id() };
        let drain = api::DrainNodeRequest { node_id: "n1".to_owned(), ..Default::default() };
        let restart = compute::RestartRequest { workload_id: id() };
        let refused = [
            client.apply_workload(new).await.unwrap_err(),
            client.delete_workload(delete).await.unwrap_err(),
            client.retry_workload(retry).await.unwrap_err(),
            client.drain_node(drain).await.unwrap_err(),
            self.compute(process).restart(restart).await.unwrap_err(),
        ];
        for refused in refused {
            assert_eq!(refused.code(), Code::Unavailable, "{refused}");
            assert!(refused.metadata().contains_key("retry-after"), "{refused:?}");
        }
    }

    /// What is known is shown, and how old that is.
    pub(crate) async fn serves_reads(&self, process: &str) {
        let mut client = self.stack.client_of(process);
        let all = client.list_workloads(api::ListWorkloadsRequest::default()).await.unwrap();
        assert!(all.metadata().contains_key("persys-copy-age-ms"), "{:?}", all.metadata());
        let all: Vec<_> =
            all.into_inner().workloads.into_iter().map(|view| view.workload_id).collect();
        for id in self.lives.keys() {
            assert!(all.contains(id), "{id} is not shown: {all:?}");
        }
        let nodes = client.list_nodes(api::ListNodesRequest::default()).await.unwrap();
        assert!(!nodes.into_inner().nodes.is_empty(), "no node is shown");
    }

    /// Work goes on: one more is taken in, runs, and goes again; and nobody was given up.
    pub(crate) async fn works(&mut self, name: &str) {
        let id = self.stack.id(name);
        self.stack.apply(&Wish::runs(&id).request()).await;
        self.stack.until_status(&id, "Running").await;
        self.is_untouched(&[&id]).await;
        self.stack.delete(&id).await;
        self.gone(&id).await;
        self.nobody_was_given_up().await;
    }

    /// Waits until Docker has nothing of a workload.
    pub(crate) async fn gone(&self, id: &str) {
        let deadline = Instant::now() + PATIENCE;
        while Engine::shared()
            .containers(&self.stack.cluster)
            .await
            .iter()
            .any(|container| container.workload == id)
        {
            assert!(Instant::now() < deadline, "{id} stays");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// No node was missed, nothing was started again.
    pub(crate) async fn nobody_was_given_up(&self) {
        for kind in ["NodeNotReady", "NodeLost", "WorkloadRestarting", "WorkloadFailed"] {
            let request = api::ListEventsRequest {
                limit: 1000,
                r#type: kind.to_owned(),
                ..Default::default()
            };
            let events = self.stack.client().list_events(request).await.unwrap().into_inner();
            assert!(events.events.is_empty(), "{:?}\n{}", events.events, self.logs());
        }
    }

    /// The scheduler that says it leads.
    pub(crate) async fn leader(&self) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            for process in self.stack.schedulers() {
                if self.health(&process).await.is_some_and(|health| health.leads_well()) {
                    return process;
                }
            }
            assert!(Instant::now() < deadline, "nobody leads\n{}", self.logs());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    pub(crate) fn logs(&self) -> String {
        let logs = self.stack.schedulers().into_iter().map(|process| {
            let log = self.stack.log(&process);
            format!("-- {process}\n{log}")
        });
        logs.collect::<Vec<_>>().join("\n")
    }
}

async fn page(at: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(at).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

/// Puts bytes under a key, past the schedulers.
pub(crate) async fn put(past: &Client, key: &str, bytes: &[u8]) -> Result<(), persys_etcd::Error> {
    let then = vec![Op::put(key.to_owned(), bytes.to_vec())];
    past.txn(Txn { then, ..Txn::default() }).await.map(drop)
}
