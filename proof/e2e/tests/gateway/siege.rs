//! Everything at once: ten thousand connections that say nothing, bodies without end, heads that come
//! letter by letter, floods of headers, tricks and wrong signatures. All of it is refused, costs little,
//! and no agent notices: beats and pings of the scheduler are answered as ever.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use persys_e2e::gateway;
use persys_e2e::stack::{Stack, Wire};
use persys_gateway::caller::Secret;
use persys_gateway::limits::Limits;
use persys_gateway::webhooks::{Provider, Settings};
use persys_identity::{Name, Role};
use persys_proto::compute::v1::access_client::AccessClient;
use persys_proto::compute::v1::{CreateUserTokenRequest, RoleScope};
use persys_proto::control::v1::HeartbeatRequest;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::PATIENCE;

/// Addresses the crowd comes from, and how many connections come from each.
const SOURCES: usize = 10;
const EACH: usize = 1_000;
/// How long each attack lasts.
const ATTACK: Duration = Duration::from_secs(2);
/// Longest that one beat in a hundred may take.
const P99: Duration = Duration::from_millis(500);
/// Most memory that all of it may cost, in KiB.
const MOST_MEMORY: u64 = 300 * 1024;

/// How long beats and pings took so far.
#[derive(Clone, Default)]
struct Taken(Arc<Mutex<Vec<Duration>>>);

impl Taken {
    /// Beats and pings for ever, one of each at a time.
    async fn measure(self, stack: &Stack) -> JoinSet<()> {
        let mut agent = AgentControlClient::new(stack.channel(Role::Agent, "n9").await);
        let mut pinged = HealthClient::new(stack.channel(Role::Operator, "alice").await);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // An agent nobody knows is told to register, by the same way as every other.
            let beat = HeartbeatRequest { node_id: "n9".to_owned(), ..HeartbeatRequest::default() };
            loop {
                let begun = Instant::now();
                drop(agent.heartbeat(beat.clone()).await);
                self.note(begun);
                let begun = Instant::now();
                pinged.check(HealthCheckRequest::default()).await.unwrap();
                self.note(begun);
                sleep(Duration::from_millis(10)).await;
            }
        });
        tasks
    }

    fn note(&self, begun: Instant) {
        self.0.lock().unwrap().push(begun.elapsed());
    }

    /// How many, and the 99th of a hundred.
    fn judged(&self) -> (usize, Duration) {
        let mut all = self.0.lock().unwrap().clone();
        all.sort_unstable();
        (all.len(), all[all.len().saturating_sub(1) * 99 / 100])
    }
}

/// The crowd, until it is dropped.
async fn crowd(at: SocketAddr) -> (Child, usize) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_node"))
        .args(["crowd", &at.to_string(), &SOURCES.to_string(), &EACH.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    timeout(PATIENCE * 2, out.read_line(&mut line)).await.expect("a crowd").unwrap();
    (child, line.trim().parse().unwrap())
}

fn memory_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_ascii_whitespace().next().unwrap().parse().unwrap()
}

/// What somebody sends, piece by piece with pauses, and what they are answered.
async fn attack(at: SocketAddr, pieces: Vec<Vec<u8>>, pause: Duration) -> String {
    let Ok(mut stream) = TcpStream::connect(at).await else { return String::new() };
    for piece in pieces {
        if stream.write_all(&piece).await.is_err() {
            break;
        }
        if !pause.is_zero() {
            sleep(pause).await;
        }
    }
    let mut shown = vec![0; 512];
    let read = timeout(PATIENCE, stream.read(&mut shown)).await.expect("an answer or an end");
    let size = read.unwrap_or_default();
    String::from_utf8_lossy(&shown[..size]).into_owned()
}

/// Many of one kind for a while. Every one is refused, with one of these, or cut off.
async fn wave(
    at: SocketAddr,
    name: &str,
    pause: Duration,
    wanted: &[&str],
    pieces: impl Fn() -> Vec<Vec<u8>>,
) {
    let (begun, mut tasks, mut heard) = (Instant::now(), JoinSet::new(), BTreeMap::new());
    while begun.elapsed() < ATTACK || !tasks.is_empty() {
        while begun.elapsed() < ATTACK && tasks.len() < 24 {
            tasks.spawn(attack(at, pieces(), pause));
        }
        if let Some(said) = tasks.join_next().await {
            let said = said.unwrap();
            let status = said.get(9..12).unwrap_or("cut off").to_owned();
            *heard.entry(status).or_insert(0_u32) += 1;
        }
    }
    let as_wanted = |status: &String| status == "cut off" || wanted.contains(&status.as_str());
    assert!(heard.keys().all(as_wanted), "{name}: {heard:?}");
    assert!(heard.keys().any(|status| wanted.contains(&status.as_str())), "{name}: {heard:?}");
}

/// A token of somebody who may ask for things: from others no body is read at all.
async fn token(stack: &Stack) -> String {
    let mut admin = AccessClient::new(stack.channel(Role::Operator, "alice").await);
    let request = CreateUserTokenRequest {
        user: "eve".to_owned(),
        role: "operator".to_owned(),
        scope: Some(RoleScope { cluster: true, ..RoleScope::default() }),
        ttl_seconds: 3600,
    };
    admin.create_user_token(request).await.unwrap().into_inner().token
}

async fn waves(at: SocketAddr, token: &str) {
    let none = Duration::ZERO;
    let head = |rest: &str| {
        let head = "POST /v1/workloads HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
        format!("{head}authorization: Bearer {token}\r\n{rest}\r\n").into_bytes()
    };
    wave(at, "a body of 1 GiB of nobody", none, &["401"], || {
        let head = "POST /v1/workloads HTTP/1.1\r\nhost: x\r\ncontent-length: 1073741824\r\n\r\n";
        vec![head.as_bytes().to_vec()]
    })
    .await;
    wave(at, "a body of 1 GiB, as it says", none, &["413"], || {
        vec![head("content-length: 1073741824\r\n")]
    })
    .await;
    let chunk = || format!("10000\r\n{}\r\n", " ".repeat(0x1_0000)).into_bytes();
    wave(at, "a body of 1 GiB, as it comes", none, &["413", "408"], || {
        let pieces = std::iter::repeat_with(chunk).take(128);
        std::iter::once(head("transfer-encoding: chunked\r\n")).chain(pieces).collect()
    })
    .await;
    wave(at, "a slow body", Duration::from_millis(100), &["408"], || {
        let letters = std::iter::repeat_n(b" ".to_vec(), 8);
        std::iter::once(head("content-length: 4096\r\n")).chain(letters).collect()
    })
    .await;
    wave(at, "a slow head", Duration::from_millis(150), &["cut off"], || {
        let letters = std::iter::repeat_n(b"x-a: b\r\n".to_vec(), 12);
        std::iter::once(b"GET /health HTTP/1.1\r\nhost: x\r\n".to_vec()).chain(letters).collect()
    })
    .await;
    wave(at, "a flood of headers", none, &["431"], || {
        let lines: Vec<_> = (0..2_000).map(|nth| format!("x-{nth}: {nth}\r\n")).collect();
        vec![head(&lines.concat())]
    })
    .await;
    for path in ["/../nodes", "/%2e%2e/nodes", "/a%2fb", "/a%00", "/a%252fb", "//nodes", "/a\\b"] {
        wave_once(at, path, "400").await;
    }
    wave(at, "wrong signatures", none, &["401"], || {
        let body = "{\"ref\":\"refs/heads/main\"}";
        let text = format!(
            "POST /webhooks/github HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
             x-github-event: push\r\nx-github-delivery: d\r\nx-hub-signature-256: sha256={}\r\n\
             content-length: {}\r\n\r\n{body}",
            "0".repeat(64),
            body.len()
        );
        vec![text.into_bytes()]
    })
    .await;
    wave(at, "cross-site", none, &["401"], || {
        let text = "POST /v1/workloads HTTP/1.1\r\nhost: x\r\norigin: https://evil.test\r\n\
             sec-fetch-site: cross-site\r\ncookie: persys_session=guess\r\ncontent-length: 0\r\n\r\n";
        vec![text.as_bytes().to_vec()]
    })
    .await;
}

async fn wave_once(at: SocketAddr, path: &str, wanted: &str) {
    let text = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let said = attack(at, vec![text.into_bytes()], Duration::ZERO).await;
    assert_eq!(said.get(9..12), Some(wanted), "{path}: {said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_siege_is_refused_cheaply_and_no_agent_notices() {
    persys_e2e::crowd::raise_open_files();
    let kept = tempfile::tempdir().unwrap();
    let mut stack = Stack::start(Wire::Mtls).await;
    stack.add_agent("n1").await;
    let gateway = gateway::start(&stack, |config| {
        config.webhooks = Some(Settings {
            folder: kept.path().to_owned(),
            secrets: BTreeMap::from([(Provider::Github, vec![Secret::new("a secret of theirs")])]),
            user: Name::new("webhooks").unwrap(),
            window: Duration::from_hours(24),
            listeners: Vec::new(),
        });
        config.limits = Limits {
            head_within: Duration::from_secs(1),
            body_within: Duration::from_millis(500),
            requests_per_second: 100_000,
            ..Limits::default()
        };
    })
    .await;
    let at = gateway.public;
    let before = memory_kib();
    let taken = Taken::default();
    let measuring = taken.clone().measure(&stack).await;

    // Those of the crowd that nobody knows are held for as long as a head may take, and no longer.
    let (mut crowd, open) = crowd(at).await;
    assert_eq!(open, SOURCES * EACH);
    waves(at, &token(&stack).await).await;
    let grown = memory_kib().saturating_sub(before);
    assert!(grown < MOST_MEMORY, "{grown} KiB more");
    drop(crowd.stdin.take());
    crowd.wait().await.unwrap();

    drop(measuring);
    let (count, p99) = taken.judged();
    assert!(count > 200, "{count} beats and pings");
    assert!(p99 <= P99, "one in a hundred of {count} beats and pings took {p99:?} or longer");
    let text = "GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let said = attack(at, vec![text.as_bytes().to_vec()], Duration::ZERO).await;
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    writeln!(std::io::stderr(), "{count} beats and pings, p99 {p99:?}, {grown} KiB").unwrap();
    gateway.stop().await;
    stack.stop().await;
}
