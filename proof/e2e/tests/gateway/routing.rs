//! Which of several schedulers is asked: the same one for the same session or workload, another one when
//! it is gone; and those that DNS names beside the ones that are configured.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, OpCode};
use hickory_proto::rr::rdata::{A, SRV};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use persys_e2e::gateway;
use persys_e2e::stack::{Stack, Wire};
use persys_gateway::app::{Config, Running};
use persys_gateway::clusters::discovery::Discovery;
use persys_gateway::clusters::file::SchedulerPlan;
use persys_gateway::clusters::order::Routing;
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

use super::{PATIENCE, told};

/// A way to a scheduler that counts its connections, and can be cut.
struct Door {
    at: SocketAddr,
    taken: Arc<AtomicUsize>,
    tasks: JoinSet<()>,
}

impl Door {
    async fn open(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (at, taken) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let (mut tasks, counted) = (JoinSet::new(), Arc::clone(&taken));
        tasks.spawn(async move {
            let mut ways = JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                ways.spawn(async move {
                    let mut far = TcpStream::connect(to).await.unwrap();
                    drop(copy_bidirectional(&mut near, &mut far).await);
                });
            }
        });
        Self { at, taken, tasks }
    }

    fn connections(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }

    async fn cut(&mut self) {
        self.tasks.shutdown().await;
    }
}

/// One cluster of two schedulers, which are told apart by their clusters' nodes.
struct Two {
    stacks: Vec<Stack>,
    doors: Vec<Door>,
    gateway: Running,
    http: reqwest::Client,
}

impl Two {
    /// Both are configured, or the second is only in DNS.
    async fn start(routing: Routing, change: impl FnOnce(&mut Config, &[Door])) -> Self {
        let (mut stacks, mut doors) = (Vec::new(), Vec::new());
        for name in ["n1", "n2"] {
            let mut stack = Stack::start(Wire::Plain).await;
            stack.add_agent(name).await;
            doors.push(Door::open(stack.scheduler.grpc).await);
            stacks.push(stack);
        }
        let mut config = gateway::config(&[("stack", doors[0].at)]);
        config.plan.clusters[0].routing = routing;
        change(&mut config, &doors);
        let gateway = persys_gateway::app::start(config).await.unwrap();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { stacks, doors, gateway, http }
    }

    async fn both(routing: Routing) -> Self {
        let second = |config: &mut Config, doors: &[Door]| {
            config.plan.clusters[0].schedulers.push(SchedulerPlan {
                id: "s2".to_owned(),
                address: doors[1].at.to_string(),
                is_leader: false,
            });
        };
        Self::start(routing, second).await
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> (u16, Value) {
        let url = format!("http://{}{path}", self.gateway.public);
        let request = self.http.get(url);
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        told(request.send().await.unwrap()).await
    }

    /// Which scheduler answers somebody who says this.
    async fn who(&self, path: &str, headers: &[(&str, &str)]) -> String {
        let (status, shown) = self.get(path, headers).await;
        assert_eq!(status, 200, "{shown}");
        shown["nodes"][0]["node_id"].as_str().unwrap().to_owned()
    }

    async fn until_schedulers(&self, healthy: u64) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (_, shown) = self.get("/clusters/stack", &[]).await;
            if shown["cluster"]["healthy_schedulers"] == json!(healthy) {
                return shown;
            }
            assert!(Instant::now() < deadline, "{shown}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn stop(self) {
        self.gateway.stop().await;
        for stack in self.stacks {
            stack.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_session_asks_the_same_scheduler_and_another_one_when_it_is_gone() {
    let mut two = Two::both(Routing::Sticky).await;
    two.until_schedulers(2).await;
    let mut seen = BTreeSet::new();
    for nth in 0..16 {
        let session = format!("session-{nth}");
        let headers = [("x-persys-session", session.as_str())];
        let first = two.who("/nodes", &headers).await;
        for _ in 0..3 {
            assert_eq!(two.who("/nodes", &headers).await, first, "{session} stays");
        }
        seen.insert(first);
    }
    assert_eq!(seen.len(), 2, "sessions are spread");
    // Their scheduler is gone: what only looks is asked of the other, and nobody waits.
    two.doors[1].cut().await;
    for nth in 0..16 {
        let session = format!("session-{nth}");
        let begun = Instant::now();
        assert_eq!(two.who("/nodes", &[("x-persys-session", session.as_str())]).await, "n1");
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    }
    two.until_schedulers(1).await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_workload_is_asked_about_at_the_same_scheduler_whoever_asks() {
    let two = Two::both(Routing::Shard).await;
    two.until_schedulers(2).await;
    let mut seen = BTreeSet::new();
    for nth in 0..16 {
        let workload = format!("w{nth}");
        let ask = |session: &'static str| {
            let (two, workload) = (&two, workload.clone());
            async move {
                let headers =
                    [("x-persys-workload-key", workload.as_str()), ("x-persys-session", session)];
                two.who("/nodes", &headers).await
            }
        };
        let first = ask("a").await;
        assert_eq!(ask("b").await, first, "{workload} stays");
        seen.insert(first);
    }
    assert_eq!(seen.len(), 2, "workloads are spread");
    two.stop().await;
}

/// Answers for the names of the second scheduler, until it is dropped.
async fn dns(at: SocketAddr, port: u16, served: Arc<AtomicUsize>) -> JoinSet<()> {
    let socket = UdpSocket::bind(at).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut buffer = vec![0; 4096];
        loop {
            let (size, from) = socket.recv_from(&mut buffer).await.unwrap();
            let question = Message::from_vec(&buffer[..size]).unwrap();
            let mut answer = Message::response(question.metadata.id, OpCode::Query);
            let asked = question.queries[0].clone();
            let name = asked.name().clone();
            let data = if asked.query_type() == RecordType::SRV {
                let target = Name::from_ascii("s2.persys.local.").unwrap();
                Some(RData::SRV(SRV::new(0, 0, port, target)))
            } else {
                (asked.query_type() == RecordType::A).then(|| RData::A(A::new(127, 0, 0, 1)))
            };
            answer.add_query(asked);
            if let Some(data) = data {
                answer.add_answer(Record::from_rdata(name, 30, data));
            }
            served.fetch_add(1, Ordering::SeqCst);
            socket.send_to(&answer.to_vec().unwrap(), from).await.unwrap();
        }
    });
    tasks
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduler_that_dns_names_is_asked_too_and_stays_when_dns_is_gone() {
    let served = Arc::new(AtomicUsize::new(0));
    let first = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let names_at = first.local_addr().unwrap();
    drop(first);
    let two = Two::start(Routing::Sticky, |config, _| {
        config.discovery = Some(Discovery {
            server: names_at,
            service: "_persys-scheduler.persys.local".to_owned(),
            every: Duration::from_millis(200),
        });
    })
    .await;
    // Nobody answers for names yet, and the one that is configured does its work.
    assert_eq!(two.who("/nodes", &[]).await, "n1");
    let port = two.doors[1].at.port();
    let mut tasks = dns(names_at, port, Arc::clone(&served)).await;
    let shown = two.until_schedulers(2).await;
    let ids: Vec<_> = shown["cluster"]["schedulers"].as_array().unwrap().iter().collect();
    assert!(ids.iter().any(|one| one["id"] == json!(format!("discovered-127.0.0.1:{port}"))));
    let mut seen = BTreeSet::new();
    for nth in 0..16 {
        let session = format!("session-{nth}");
        seen.insert(two.who("/nodes", &[("x-persys-session", session.as_str())]).await);
    }
    assert_eq!(seen.len(), 2, "both are asked");
    assert!(two.doors[1].connections() > 0);

    // A server of names that is gone takes nobody away.
    let before = served.load(Ordering::SeqCst);
    assert!(before > 0);
    tasks.shutdown().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    two.until_schedulers(2).await;
    two.stop().await;
}
