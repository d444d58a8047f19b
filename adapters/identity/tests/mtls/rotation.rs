//! New certificates and new roots while requests flow: not one of them fails.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use persys_identity::{
    Authority, Certificate, Connector, Credentials, Expected, Grant, Incoming, Issued, Lasting,
    Name, Role, Source, Validity, Watcher, tls,
};
use persys_proto::agent::v1::agent_service_client::AgentServiceClient;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tonic::Code;
use tonic::transport::{Endpoint, Server};

use crate::bench::{Told, ask, authority, call, dial, hold, issue, listener, serve, serve_from};

/// How long to wait for what takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Callers, half of which keep their connection and half of which make a new one each time.
struct Load {
    done: Vec<Arc<AtomicUsize>>,
    stop: Arc<AtomicBool>,
    callers: JoinSet<()>,
}

impl Load {
    fn start(address: SocketAddr, credentials: &Credentials) -> Self {
        let mut load = Self { done: Vec::new(), stop: Arc::default(), callers: JoinSet::new() };
        for number in 0..4 {
            let done = Arc::new(AtomicUsize::new(0));
            load.done.push(Arc::clone(&done));
            let (stop, credentials) = (Arc::clone(&load.stop), credentials.clone());
            load.callers.spawn(async move {
                let connector = || Connector::tls(&credentials, Expected::Scheduler).unwrap();
                let mut client = dial(address, connector()).await.unwrap();
                while !stop.load(Ordering::Relaxed) {
                    if number % 2 == 0 {
                        client = dial(address, connector()).await.unwrap();
                    }
                    ask(&mut client).await.unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        load
    }

    /// Until every caller has had three more answers. Fails when one of them failed.
    async fn flow(&mut self) {
        let count = |done: &Vec<Arc<AtomicUsize>>| -> Vec<usize> {
            done.iter().map(|done| done.load(Ordering::Relaxed)).collect()
        };
        let (before, begun) = (count(&self.done), Instant::now());
        while count(&self.done).iter().zip(&before).any(|(now, before)| *now < before + 3) {
            assert!(self.callers.try_join_next().is_none(), "a caller ended");
            assert!(begun.elapsed() < PATIENCE, "no more answers");
            tokio::task::yield_now().await;
        }
    }

    async fn finish(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.callers.join_next().await {
            ended.unwrap();
        }
        self.done.iter().map(|done| done.load(Ordering::Relaxed)).sum()
    }
}

struct Side {
    source: Source,
    watcher: Watcher,
}

impl Side {
    fn open(path: &Path, issued: &Issued) -> Self {
        let source = Source::Bundle(path.to_owned());
        source.save(issued).unwrap();
        let watcher = Watcher::open(source.clone(), SystemTime::now()).unwrap();
        Self { source, watcher }
    }

    fn rotate(&mut self, issued: &Issued) {
        self.source.save(issued).unwrap();
        let event = self.watcher.check(SystemTime::now()).unwrap();
        assert_eq!(event.name(), "tls_reloaded", "{event}");
    }
}

/// Sees the serial number that a server shows, always with the same settings: a session that is
/// resumed would show the old one.
struct Onlooker {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Onlooker {
    fn new(credentials: &Credentials) -> Self {
        let (config, name) = tls::client_config(credentials, Expected::Scheduler).unwrap();
        Self { config, name }
    }

    async fn look(&self, address: SocketAddr) -> String {
        let stream = TcpStream::connect(address).await.unwrap();
        let connector = TlsConnector::from(Arc::clone(&self.config));
        let stream = connector.connect(self.name.clone(), stream).await.unwrap();
        let chain = stream.get_ref().1.peer_certificates().unwrap();
        Certificate::read(&chain[0]).unwrap().serial.to_string()
    }
}

fn pair(authority: &Authority) -> (Issued, Issued) {
    (issue(authority, Role::Scheduler, "s1"), issue(authority, Role::Agent, "n1"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_rotate_under_load() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(&folder.path().join("ca"), "east");
    let (scheduler, agent) = pair(&authority);
    let mut serving = Side::open(&folder.path().join("scheduler.pem"), &scheduler);
    let mut calling = Side::open(&folder.path().join("agent.pem"), &agent);
    let client = calling.watcher.credentials();
    let server = serve(&serving.watcher.credentials()).await;
    let onlooker = Onlooker::new(&client);
    let connector = Connector::tls(&client, Expected::Scheduler).unwrap();
    let mut load = Load::start(server.address, &client);
    for _ in 0..10 {
        let (scheduler, agent) = pair(&authority);
        serving.rotate(&scheduler);
        load.flow().await;
        calling.rotate(&agent);
        load.flow().await;
        let serial = scheduler.certificate.serial.to_string();
        assert_eq!(onlooker.look(server.address).await, serial);
        let mut fresh = dial(server.address, connector.clone()).await.unwrap();
        let told = ask(&mut fresh).await.unwrap();
        assert_eq!(told, format!("agent/n1/{}", agent.certificate.serial));
    }
    assert!(load.finish().await >= 10 * 2 * 3 * 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_root_rotates_under_load() {
    let folder = tempfile::tempdir().unwrap();
    let old = authority(&folder.path().join("old"), "east");
    let new = authority(&folder.path().join("new"), "east");
    let both = format!("{}{}", old.root_pem(), new.root_pem());
    let trusting_both = |issued: Issued| Issued { roots_pem: both.clone(), ..issued };
    let (scheduler, agent) = pair(&old);
    let left_behind = hold(&trusting_both(issue(&old, Role::Agent, "n1")));
    let mut serving = Side::open(&folder.path().join("scheduler.pem"), &scheduler);
    let mut calling = Side::open(&folder.path().join("agent.pem"), &agent);
    let client = calling.watcher.credentials();
    let server = serve(&serving.watcher.credentials()).await;
    let mut load = Load::start(server.address, &client);

    // First everybody trusts both, then everybody changes, then nobody trusts the old one.
    serving.rotate(&trusting_both(scheduler));
    load.flow().await;
    calling.rotate(&trusting_both(agent));
    load.flow().await;
    let (scheduler, agent) = pair(&new);
    serving.rotate(&trusting_both(scheduler.clone()));
    load.flow().await;
    call(server.address, &left_behind, Expected::Scheduler).await.unwrap();
    calling.rotate(&trusting_both(agent.clone()));
    load.flow().await;
    serving.rotate(&scheduler);
    calling.rotate(&agent);
    load.flow().await;
    load.finish().await;
    call(server.address, &left_behind, Expected::Scheduler).await.unwrap_err();
    server.told.wait("UnknownIssuer").await;
}

/// Callers that keep one channel for good, through twenty rotations of both ends: no call fails, and
/// each rotation shows in the next call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_rotations_of_both_ends_cost_no_call() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(&folder.path().join("ca"), "east");
    let (scheduler, agent) = pair(&authority);
    let mut serving = Side::open(&folder.path().join("scheduler.pem"), &scheduler);
    let mut calling = Side::open(&folder.path().join("agent.pem"), &agent);
    let client = calling.watcher.credentials();
    let server = serve(&serving.watcher.credentials()).await;
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    let connector = Connector::tls(&client, Expected::Scheduler).unwrap();
    let lasting = Arc::new(Lasting::new(endpoint, connector));
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut callers = JoinSet::new();
    for _ in 0..4 {
        let (lasting, stop, done) = (Arc::clone(&lasting), Arc::clone(&stop), Arc::clone(&done));
        callers.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let mut client = AgentServiceClient::new(lasting.channel());
                ask(&mut client).await.unwrap();
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    for _ in 0..20 {
        let (scheduler, agent) = pair(&authority);
        serving.rotate(&scheduler);
        calling.rotate(&agent);
        let told = ask(&mut AgentServiceClient::new(lasting.channel())).await.unwrap();
        assert_eq!(told, format!("agent/n1/{}", agent.certificate.serial));
        let before = done.load(Ordering::Relaxed);
        while done.load(Ordering::Relaxed) < before + 20 {
            assert!(callers.try_join_next().is_none(), "a caller ended");
            tokio::task::yield_now().await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = callers.join_next().await {
        ended.unwrap();
    }
    assert!(done.load(Ordering::Relaxed) >= 400);
}

/// A connection ends with the certificate that the server showed on it, whoever else renews when: a
/// channel that is kept has another one by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_servers_certificate_costs_no_call() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(&folder.path().join("ca"), "east");
    let short = || {
        let grant = Grant::new(Role::Scheduler, Name::fixed("s1"));
        let validity = Validity { now: SystemTime::now(), lifetime: Duration::from_secs(4) };
        authority.issue(&grant, validity).unwrap()
    };
    let mut serving = Side::open(&folder.path().join("scheduler.pem"), &short());
    let server = serve(&serving.watcher.credentials()).await;
    let client = hold(&issue(&authority, Role::Agent, "n1"));
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    let connector = Connector::tls(&client, Expected::Scheduler).unwrap();
    let lasting = Lasting::new(endpoint, connector);
    let (begun, mut renewed, mut calls) = (Instant::now(), Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(7) {
        if renewed.elapsed() > Duration::from_secs(1) {
            serving.rotate(&short());
            renewed = Instant::now();
        }
        let told = ask(&mut AgentServiceClient::new(lasting.channel())).await;
        assert!(told.is_ok(), "after {:?}: {told:?}", begun.elapsed());
        calls += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(calls > 50, "{calls}");
}

/// One channel for months: when its connection has served its time, the next one shows what is
/// current. A call that meets the moment of change was not sent, and says so.
#[tokio::test]
async fn a_lasting_channel_follows() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(&folder.path().join("ca"), "east");
    let (scheduler, agent) = pair(&authority);
    let mut calling = Side::open(&folder.path().join("agent.pem"), &agent);
    let client = calling.watcher.credentials();
    let told = Told::default();
    let incoming = Incoming::tls(listener().await, &hold(&scheduler), told.report()).unwrap();
    let server = Server::builder().max_connection_age(Duration::from_millis(50));
    let server = serve_from(server, incoming, told);
    let connector = Connector::tls(&client, Expected::Scheduler).unwrap();
    let mut channel = dial(server.address, connector).await.unwrap();
    for _ in 0..3 {
        let next = issue(&authority, Role::Agent, "n1");
        calling.rotate(&next);
        let wanted = format!("agent/n1/{}", next.certificate.serial);
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < PATIENCE, "still the old certificate");
            match ask(&mut channel).await {
                Ok(told) if told == wanted => break,
                Ok(_) => {}
                Err(status) => assert_eq!(status.code(), Code::Cancelled, "{status}"),
            }
        }
    }
}

#[tokio::test]
async fn garbage_in_the_file_changes_nothing_for_anybody() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(&folder.path().join("ca"), "east");
    let (scheduler, agent) = pair(&authority);
    let path = folder.path().join("scheduler.pem");
    let mut serving = Side::open(&path, &scheduler);
    let client = hold(&agent);
    let server = serve(&serving.watcher.credentials()).await;
    fs::write(&path, "garbage").unwrap();
    let event = serving.watcher.check(SystemTime::now()).unwrap();
    assert_eq!(event.name(), "tls_reload_failed");
    let serial = scheduler.certificate.serial.to_string();
    assert_eq!(Onlooker::new(&client).look(server.address).await, serial);
    call(server.address, &client, Expected::Scheduler).await.unwrap();
}
