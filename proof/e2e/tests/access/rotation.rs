//! Certificates that change in a whole cluster under load, and those that are taken back.
//!
//! ```text
//!   operator ── gRPC ──► scheduler ── orders ──► agent           every certificate here is replaced,
//!   persys   ── gRPC ──►     ▲   ◄── beats ──                    all of them twenty times, and then
//!   programs ── HTTPS ─► gateway                                 the root they are signed by
//! ```

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use futures::StreamExt as _;
use persys_ca::{Enrolment, FileRegister, Office};
use persys_cli::context::{self, Context};
use persys_cli::world::World;
use persys_e2e::gateway;
use persys_e2e::stack::{Stack, Wire};
use persys_gateway::app::Running;
use persys_identity::renew::Pace;
use persys_identity::{
    Authority, Certificate, Connector, Credentials, Expected, Lasting, Name, Renewer, Role, Source,
    Watcher, logged, tls,
};
use persys_model::entry::UserRole;
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use persys_proto::control::v1::workload_spec::Workload;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tonic::transport::Endpoint;

use crate::call::{Caller, PROMISED, bind, deny, revoke, token};

/// How long certificates last here: those that were replaced end while the test goes on.
const LIFE: Duration = Duration::from_secs(16);
const ROTATIONS: usize = 20;
const PATIENCE: Duration = Duration::from_secs(30);

/// A part of the cluster with a certificate.
struct Part {
    name: &'static str,
    source: Source,
    renewer: Renewer,
    shown: Shown,
}

/// Where it can be seen which certificate is in use.
enum Shown {
    /// By whoever shakes hands there.
    At(SocketAddr, Expected),
    /// By ourselves.
    Here(Credentials),
}

struct Site {
    stack: Stack,
    gateway: Running,
    enrolment: persys_ca::Running,
    parts: Vec<Part>,
    operator: Credentials,
    /// What keeps the operator's certificate as its file is.
    _watching: JoinSet<()>,
}

impl Site {
    async fn start() -> Self {
        let mut stack = Stack::start(Wire::Mtls).await;
        stack.add_agent("n1").await;
        let gateway = gateway::start(&stack, |_| ()).await;
        let authority = stack.folder().join("ca");
        let register = Arc::new(FileRegister::of(&authority));
        let enrolment = persys_ca::start(persys_ca::Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            credentials: stack.scheduler.credentials.clone().unwrap(),
            office: Arc::new(Office::new(authority, register, Some(LIFE))),
            schedulers: Vec::new(),
            metrics: Arc::default(),
        });
        let enrolment = enrolment.await.unwrap();
        let operator = stack.certificate(Role::Operator, "op").unwrap();
        let watcher = Watcher::open(operator, SystemTime::now()).unwrap();
        let credentials = watcher.credentials();
        let mut watching = JoinSet::new();
        watching.spawn(watcher.run(SystemTime::now, logged()));
        let agent = Expected::Agent(Name::new("n1").unwrap());
        let at = enrolment.address.to_string();
        let part = |name: &'static str, shown| {
            let source = Source::Bundle(stack.folder().join(format!("{name}.pem")));
            let issuer = Arc::new(Enrolment::at(vec![at.clone()]));
            let pace =
                Pace { retry: Duration::from_millis(200), roots: Duration::from_millis(100) };
            Part {
                name,
                source: source.clone(),
                renewer: Renewer::new(source, issuer, pace),
                shown,
            }
        };
        let parts = vec![
            part("s1", Shown::At(stack.scheduler.grpc, Expected::Scheduler)),
            part("n1", Shown::At(stack.agent_at("n1"), agent)),
            part("gateway", Shown::At(gateway.inner.unwrap(), Expected::Gateway)),
            part("op", Shown::Here(credentials.clone())),
        ];
        Self { stack, gateway, enrolment, parts, operator: credentials, _watching: watching }
    }

    fn authority(&self) -> Authority {
        Authority::open(&self.stack.folder().join("ca"), SystemTime::now()).unwrap()
    }

    /// The certificate that a part shows.
    async fn shown(&self, part: &Part) -> Option<Certificate> {
        match &part.shown {
            Shown::Here(credentials) => Some(credentials.current().certificate().clone()),
            Shown::At(at, expected) => {
                let (config, name) = tls::client_config(&self.operator, expected.clone()).unwrap();
                let stream = TcpStream::connect(at).await.unwrap();
                let stream = TlsConnector::from(config).connect(name, stream).await.unwrap();
                let shown = stream.get_ref().1.peer_certificates().unwrap();
                Some(Certificate::read(shown.first()?).unwrap())
            }
        }
    }

    /// Every part gets its next certificate, from the enrolment, and uses it.
    async fn rotate(&self) {
        let rotations = self.parts.iter().map(async |part| {
            let present = part.source.load_ended().unwrap();
            let next = part.renewer.renew(Some(&present), SystemTime::now()).await;
            let next = next.unwrap_or_else(|fault| panic!("{}: {fault}", part.name));
            assert_eq!(next.identity, *present.identity());
            let old = &present.certificate().serial;
            until(part.name, async || {
                let shown = self.shown(part).await;
                shown.is_some_and(|shown| shown.serial != *old)
            })
            .await;
        });
        futures::future::join_all(rotations).await;
    }

    async fn stop(self) {
        self.enrolment.stop().await;
        self.gateway.stop().await;
        self.stack.stop().await;
    }
}

async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < PATIENCE, "{what}: never so");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Callers of every kind who never stop, and what went wrong for them.
#[derive(Default)]
struct Load {
    stop: Arc<AtomicBool>,
    counts: BTreeMap<&'static str, Arc<AtomicUsize>>,
    failed: Arc<Mutex<Vec<String>>>,
    tasks: JoinSet<()>,
}

impl Load {
    /// Does something again and again.
    fn add<F>(&mut self, what: &'static str, mut again: impl FnMut(usize) -> F + Send + 'static)
    where
        F: Future<Output = Result<(), String>> + Send,
    {
        let count = Arc::<AtomicUsize>::default();
        self.counts.insert(what, Arc::clone(&count));
        let (stop, failed) = (Arc::clone(&self.stop), Arc::clone(&self.failed));
        self.tasks.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let nth = count.fetch_add(1, Ordering::Relaxed);
                if let Err(why) = again(nth).await {
                    failed.lock().unwrap().push(format!("{what}, number {nth}: {why}"));
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
    }

    async fn finish(mut self) -> (String, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        let told = self
            .counts
            .iter()
            .map(|(what, count)| format!("{what} {}", count.load(Ordering::Relaxed)));
        (told.collect::<Vec<_>>().join(", "), std::mem::take(&mut *self.failed.lock().unwrap()))
    }
}

fn container(id: String, image: String) -> wire::ApplyWorkloadRequest {
    let container = wire::ContainerSpec { image, ..Default::default() };
    let workload = Some(Workload::Container(container));
    let spec = Some(wire::WorkloadSpec { workload, ..Default::default() });
    wire::ApplyWorkloadRequest { workload_id: id, spec, ..Default::default() }
}

/// An operator's channel that is kept, and a workload that changes with every call: orders go out.
fn operator(load: &mut Load, site: &Site) {
    let connector = Connector::tls(&site.operator, Expected::Scheduler).unwrap();
    let endpoint = Endpoint::from_shared(format!("http://{}", site.stack.scheduler.grpc)).unwrap();
    let lasting = Arc::new(Lasting::new(endpoint, connector));
    let kept = Arc::clone(&lasting);
    load.add("applied", move |nth| {
        let mut client = AgentControlClient::new(kept.channel());
        async move {
            let request = container(format!("w{}", nth % 8), format!("app:{nth}"));
            let answer = client.apply_workload(request).await.map_err(|why| format!("{why:?}"))?;
            let answer = answer.into_inner();
            if answer.success { Ok(()) } else { Err(answer.error_message) }
        }
    });
    load.add("listed", move |_| {
        let mut client = AgentControlClient::new(lasting.channel());
        async move {
            let all = client.list_nodes(wire::ListNodesRequest::default()).await;
            let all = all.map_err(|why| format!("{why:?}"))?.into_inner();
            let well = all.nodes.iter().all(|node| node.status.eq_ignore_ascii_case("ready"));
            if well { Ok(()) } else { Err(format!("{:?}", all.nodes)) }
        }
    });
}

/// Commands that are typed, each with a connection of its own.
fn commands(load: &mut Load, site: &Site) {
    let home = site.stack.folder().join("home");
    let context = Context {
        endpoint: site.stack.scheduler.grpc.to_string(),
        identity: Some(site.stack.folder().join("op.pem")),
        insecure: false,
        note: None,
    };
    context::write(&home, "dev", &context).unwrap();
    load.add("typed", move |_| typed(home.clone()));
}

async fn typed(home: PathBuf) -> Result<(), String> {
    let env = BTreeMap::from([("PERSYS_HOME".to_owned(), home.display().to_string())]);
    let world = World::kept(env, &[]);
    let words: Vec<OsString> = ["nodes", "-o", "json"].map(OsString::from).to_vec();
    match persys_cli::run_in(&world, "persys", words, Vec::new()).await {
        0 => Ok(()),
        code => Err(format!("{code}: {}{}", world.printed(), world.remarked())),
    }
}

/// Programs with a token, and with a certificate, on connections that are kept.
async fn programs(load: &mut Load, site: &Site) {
    let (_, token) = token(&site.stack, UserRole::Viewer, &[]).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{}/v1/workloads", site.gateway.public);
    load.add("asked with a token", move |_| {
        let request = client.get(&url).bearer_auth(&token);
        async move { fine(request.send().await).await }
    });
}

async fn secure_programs(load: &mut Load, site: &Site) {
    bind(&site.stack, "vera", UserRole::Viewer, &[]).await;
    let issued = site.stack.issued(Role::User, "vera").unwrap();
    let pem = format!("{}{}", issued.key_pem.as_str(), issued.certificate_pem);
    let at = site.gateway.inner.unwrap();
    let url = format!("https://gateway.stack:{}/v1/nodes", at.port());
    for (what, idle) in [("asked over HTTPS", 8), ("asked over HTTPS anew", 0)] {
        let roots = reqwest::Certificate::from_pem_bundle(issued.roots_pem.as_bytes()).unwrap();
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only(roots)
            .identity(reqwest::Identity::from_pem(pem.as_bytes()).unwrap())
            .pool_max_idle_per_host(idle)
            .resolve("gateway.stack", at);
        let (client, url) = (client.build().unwrap(), url.clone());
        load.add(what, move |_| {
            let request = client.get(&url);
            async move { fine(request.send().await).await }
        });
    }
}

async fn fine(answer: Result<reqwest::Response, reqwest::Error>) -> Result<(), String> {
    let answer = answer.map_err(|why| format!("{why:?}"))?;
    let status = answer.status();
    let text = answer.text().await.map_err(|why| format!("{why:?}"))?;
    if status.is_success() { Ok(()) } else { Err(format!("{status}: {text}")) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_rotations_of_every_certificate_of_a_cluster_and_then_of_its_root_fail_no_call() {
    let site = Site::start().await;
    let mut load = Load::default();
    operator(&mut load, &site);
    commands(&mut load, &site);
    programs(&mut load, &site).await;
    let mut secure = Load::default();
    secure_programs(&mut secure, &site).await;
    let begun = Instant::now();
    for _ in 0..ROTATIONS {
        site.rotate().await;
    }
    // Their certificates are of the root that goes next.
    let (told, failed) = secure.finish().await;
    assert!(failed.is_empty(), "{failed:#?}");
    println!("{ROTATIONS} rotations of 4 certificates in {:?}: {told}", begun.elapsed());

    let mut following = JoinSet::new();
    for part in &site.parts {
        let issuer = Arc::new(Enrolment::at(vec![site.enrolment.address.to_string()]));
        let pace = Pace { retry: Duration::from_millis(200), roots: Duration::from_millis(100) };
        let renewer = Renewer::new(part.source.clone(), issuer, pace);
        following.spawn(renewer.run(SystemTime::now, logged()));
    }
    let old = site.authority().root_pem().to_owned();
    site.authority().prepare(SystemTime::now()).unwrap();
    let trusted = async |count: usize| {
        until("roots", async || {
            let has = |part: &Part| {
                let roots = part.source.load_ended().unwrap().roots_pem();
                roots.matches("BEGIN").count() == count
            };
            site.parts.iter().all(has)
        })
        .await;
        // Files are looked at so often while certificates are this short.
        tokio::time::sleep(LIFE / 20).await;
    };
    trusted(2).await;
    site.authority().switch(SystemTime::now()).unwrap();
    site.rotate().await;
    site.authority().finish(SystemTime::now()).unwrap();
    trusted(1).await;
    assert_ne!(site.authority().root_pem(), old);
    site.rotate().await;
    let (told, failed) = load.finish().await;
    println!("and another root after {:?}: {told}", begun.elapsed());
    assert!(failed.is_empty(), "{failed:#?}");
    let events = events(&site).await;
    let lost = events.iter().filter(|kind| kind.to_ascii_lowercase().contains("notready"));
    assert_eq!(lost.count(), 0, "{events:?}");
    following.shutdown().await;
    site.stop().await;
}

async fn events(site: &Site) -> Vec<String> {
    let connector = Connector::tls(&site.operator, Expected::Scheduler).unwrap();
    let endpoint = Endpoint::from_shared(format!("http://{}", site.stack.scheduler.grpc)).unwrap();
    let channel = endpoint.connect_with_connector(connector).await.unwrap();
    let request = wire::ListEventsRequest { limit: 1000, ..Default::default() };
    let told = AgentControlClient::new(channel).list_events(request).await.unwrap();
    told.into_inner().events.into_iter().map(|event| event.r#type).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_revoked_loses_the_streams_that_are_open() {
    let stack = Stack::start(Wire::Mtls).await;
    let gateway = gateway::start(&stack, |_| ()).await;
    bind(&stack, "vera", UserRole::Viewer, &[]).await;

    // An agent in the middle of a stream.
    let mut agent = AgentControlClient::new(stack.channel(Role::Agent, "n7").await);
    let (_to, from) = tokio::sync::mpsc::channel::<wire::ControlMessage>(1);
    let from = tokio_stream::wrappers::ReceiverStream::new(from);
    let mut stream = agent.control_stream(from).await.unwrap().into_inner();
    let begun = Instant::now();
    deny(&stack, "agent/n7").await;
    let ended = tokio::time::timeout(PROMISED, stream.message()).await.expect("in time");
    println!("an agent's stream ended after {:?}: {ended:?}", begun.elapsed());
    assert!(ended.is_err(), "{ended:?}");
    let beat = agent.heartbeat(wire::HeartbeatRequest::default()).await;
    assert!(beat.is_err() && begun.elapsed() < PROMISED);

    // A token, a role and a user, each with events that are followed.
    let (id, text) = token(&stack, UserRole::Viewer, &[]).await;
    let nobody = Caller::with(&stack, Role::User, "nobody").await;
    let user = Caller::with(&stack, Role::Gateway, "g1").await.behalf("user/vera");
    let url = format!("http://{}/v1/events/stream", gateway.public);
    let page = reqwest::Client::builder().no_proxy().build().unwrap();
    let page = page.get(url).bearer_auth(&text).send().await.unwrap();
    assert_eq!(page.status().as_u16(), 200);
    let mut by_token = watch(nobody.bearer(&text)).await;
    let mut by_name = watch(user).await;
    let begun = Instant::now();
    revoke(&stack, &id).await;
    deny(&stack, "user/vera").await;
    for stream in [&mut by_token, &mut by_name] {
        let ended = tokio::time::timeout(PROMISED, async {
            while let Ok(Some(_)) = stream.message().await {}
            stream.message().await
        });
        drop(ended.await.expect("the stream ends in time"));
    }
    let pieces = page.bytes_stream().for_each(async |_| ());
    tokio::time::timeout(PROMISED, pieces).await.expect("the page's stream ends in time");
    println!("streams of users ended after {:?}", begun.elapsed());
    assert!(begun.elapsed() < PROMISED);
    gateway.stop().await;
    stack.stop().await;
}

async fn watch(caller: Caller) -> tonic::Streaming<wire::SchedulerEventView> {
    let mut client = AgentControlClient::new(caller.channel);
    let mut request = tonic::Request::new(wire::WatchEventsRequest::default());
    for (name, value) in &caller.headers {
        request.metadata_mut().insert(*name, value.parse().unwrap());
    }
    client.watch_events(request).await.unwrap().into_inner()
}
