//! A secret is in its place, and nowhere else: not in etcd and what etcd writes to its disk, not on any
//! page or in any answer of any part, not in a file, a snapshot, a log, an argument or an environment.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use persys_e2e::gateway;
use persys_e2e::stack::{Stack, Wire};
use persys_etcd_host::Host;
use persys_identity::Role;
use persys_model::entry::UserRole;
use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::compute_client::ComputeClient;
use persys_proto::compute::v1::secrets_client::SecretsClient;
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use persys_proto::control::v1::workload_spec::Workload;
use persys_scheduler::place::Place;
use persys_store::{EtcdSettings, Settings};
use reqwest::Client;
use serde_json::Value;
use tracing_subscriber::fmt;

use crate::call::token;

const CANARY: &str = "canary-5b1e07d2c94a";
/// The same in hexadecimal, as a list of numbers, and as its middle looks in base64, wherever it begins.
const SHAPES: [&str; 6] = [
    CANARY,
    "63616e6172792d356231653037643263393461",
    "99, 97, 110, 97, 114, 121, 45, 53, 98, 49, 101",
    "YXJ5LTViMWUwN2Qy",
    "bmFyeS01YjFlMDdkM",
    "YW5hcnktNWIxZTA3ZD",
];
const PATIENCE: Duration = Duration::from_secs(20);

fn holds(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    SHAPES.iter().any(|shape| text.contains(shape))
}

/// All that this test logs, at every level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// What was looked at, and where the canary was.
#[derive(Default)]
struct Search {
    places: usize,
    bytes: usize,
    found: Vec<String>,
}

impl Search {
    fn look(&mut self, place: &str, bytes: &[u8]) {
        self.places += 1;
        self.bytes += bytes.len();
        if holds(bytes) {
            self.found.push(place.to_owned());
        }
    }

    fn look_below(&mut self, folder: &Path) {
        for file in files(folder) {
            self.look(&file.display().to_string(), &std::fs::read(&file).unwrap_or_default());
        }
    }
}

fn keyed(id: &str, env: &str) -> wire::ApplyWorkloadRequest {
    let container = wire::ContainerSpec { image: "app".to_owned(), ..Default::default() };
    let (name, env) = ("db".to_owned(), env.to_owned());
    let spec = wire::WorkloadSpec {
        workload: Some(Workload::Container(container)),
        secrets: vec![wire::SecretUse { name, env, ..Default::default() }],
        ..Default::default()
    };
    wire::ApplyWorkloadRequest {
        workload_id: id.to_owned(),
        spec: Some(spec),
        ..Default::default()
    }
}

/// The one place: a file in memory, for the workload that asked for one.
fn in_its_place(workload: &str) -> Option<PathBuf> {
    ["/run", "/dev/shm", "/tmp"].iter().find_map(|memory| {
        let users = std::fs::read_dir(memory).ok()?.flatten();
        let ours =
            users.filter(|one| one.file_name().to_string_lossy().starts_with("persys-secrets-"));
        let agents =
            ours.flat_map(|user| std::fs::read_dir(user.path()).into_iter().flatten().flatten());
        let mut files = agents.map(|agent| agent.path().join(workload).join("db"));
        files.find(|file| std::fs::read(file).is_ok_and(|bytes| bytes == CANARY.as_bytes()))
    })
}

/// The folder in which an etcd keeps everything it was ever told.
fn data_of(host: &Host) -> PathBuf {
    let line = std::fs::read(format!("/proc/{}/cmdline", host.pid(0).unwrap())).unwrap();
    let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    let at = words.iter().position(|word| word.trim_start_matches('-') == "data-dir").unwrap();
    PathBuf::from(words[at + 1].to_string())
}

async fn every_page(search: &mut Search, stack: &Stack, gateway: &persys_gateway::app::Running) {
    let (_, admin) = token(stack, UserRole::Admin, &[]).await;
    let client = Client::builder().no_proxy().build().unwrap();
    let get = async |url: String| {
        let request = client.get(&url).bearer_auth(&admin).timeout(PATIENCE);
        let mut pieces = request.send().await.unwrap().bytes_stream();
        let (mut all, mut patience) = (Vec::new(), PATIENCE);
        // A stream is read for as long as it tells something new.
        while let Ok(Some(Ok(piece))) = tokio::time::timeout(patience, pieces.next()).await {
            all.extend(piece);
            patience = Duration::from_millis(500);
        }
        all
    };
    let at = format!("http://{}", gateway.public);
    let document: Value = serde_json::from_slice(&get(format!("{at}/openapi.json")).await).unwrap();
    for (path, operations) in document["paths"].as_object().unwrap() {
        if operations.get("get").is_none() || path.ends_with("/exec") || path.ends_with("/console")
        {
            continue;
        }
        let id = if path.contains("/nodes/") { "n1" } else { "keyed" };
        let filled =
            path.replace("{cluster_id}", "stack").replace("{id}", id).replace("{name}", "db");
        let goes_on = path.ends_with("/watch") || path.ends_with("/stream");
        let something = async {
            // Once it is followed, something happens that can be told.
            let url = format!("{at}/v1/workloads/keyed/restart");
            for _ in 0..if goes_on { 3 } else { 0 } {
                tokio::time::sleep(Duration::from_millis(200)).await;
                client.post(&url).bearer_auth(&admin).send().await.unwrap();
            }
        };
        let (told, ()) = tokio::join!(get(format!("{at}{filled}")), something);
        assert!(!told.is_empty(), "{filled} says nothing");
        search.look(&filled, &told);
    }
    let others = [("scheduler", stack.scheduler.http), ("agent", stack.agent_pages("n1"))];
    for (what, at) in others {
        for page in ["/metrics", "/health"] {
            let told = get(format!("http://{at}{page}")).await;
            assert!(!told.is_empty(), "{what}{page} says nothing");
            search.look(&format!("{what}{page}"), &told);
        }
    }
}

async fn snapshot(search: &mut Search, stack: &Stack) {
    let mut compute = ComputeClient::new(stack.channel(Role::Operator, "alice").await);
    let mut pieces = compute.snapshot(api::SnapshotRequest::default()).await.unwrap().into_inner();
    let mut all = Vec::new();
    while let Some(piece) = pieces.message().await.unwrap() {
        all.extend(format!("{piece:?}").into_bytes());
        all.extend(prost::Message::encode_to_vec(&piece));
    }
    assert!(all.len() > 1_000);
    search.look("a snapshot", &all);
}

#[tokio::test]
async fn a_canary_is_in_no_store_on_no_page_and_in_no_log() {
    let log = Log::default();
    let writer = log.clone();
    let logging = fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let logging = tracing::subscriber::set_default(logging);
    let etcd = Host::one().await;
    let store = Settings { root: "/canary".to_owned(), ..Settings::default() };
    let place = EtcdSettings { way: etcd.patient_way(), store, quota_bytes: None };
    let mut stack = Stack::start_at(Wire::Mtls, Place::Etcd(Box::new(place))).await;
    stack.add_agent("n1").await;
    let gateway = gateway::start(&stack, |_| ()).await;

    let mut secrets = SecretsClient::new(stack.channel(Role::Operator, "alice").await);
    let value = CANARY.as_bytes().to_vec();
    let set = api::SetSecretRequest { name: "db".to_owned(), value, ..Default::default() };
    secrets.set_secret(set).await.unwrap();
    let mut control = AgentControlClient::new(stack.channel(Role::Operator, "alice").await);
    for (id, env) in [("keyed", ""), ("other", "PASSWORD")] {
        let applied = control.apply_workload(keyed(id, env)).await.unwrap().into_inner();
        assert!(applied.success, "{applied:?}");
        let begun = Instant::now();
        loop {
            let get = wire::GetWorkloadRequest { workload_id: id.to_owned() };
            let seen = control.get_workload(get).await.unwrap().into_inner().workload.unwrap();
            if seen.status == "Running" {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "{seen:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let place = in_its_place("keyed").expect("where it belongs, it is");
    assert!(in_its_place("other").is_none(), "a variable is no file");

    let mut search = Search::default();
    every_page(&mut search, &stack, &gateway).await;
    snapshot(&mut search, &stack).await;
    search.look_below(stack.folder());
    let kept = data_of(&etcd);
    let before = search.bytes;
    search.look_below(&kept);
    assert!(search.bytes > before + 10_000, "etcd wrote nothing to {}", kept.display());
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        for file in ["cmdline", "environ"] {
            let path = process.path().join(file);
            search.look(&path.display().to_string(), &std::fs::read(&path).unwrap_or_default());
        }
    }
    gateway.stop().await;
    stack.stop().await;
    drop(logging);
    let log = std::mem::take(&mut *log.0.lock().unwrap());
    assert!(String::from_utf8_lossy(&log).contains("TRACE"), "nothing was logged at that level");
    search.look("the log", &log);
    println!("{} places, {} bytes, of which {} of log", search.places, search.bytes, log.len());
    assert!(search.found.is_empty(), "{:?}", search.found);
    std::fs::remove_file(place).ok();
}

#[test]
fn the_shapes_are_those_of_the_canary() {
    let hex: Vec<_> = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex.concat(), SHAPES[1]);
    assert!(format!("{:?}", CANARY.as_bytes()).contains(SHAPES[2]));
    for before in 0..3 {
        let encoded = base64(format!("{}{CANARY}", "x".repeat(before)).as_bytes());
        assert!(SHAPES[3..].iter().any(|shape| encoded.contains(shape)), "{before}: {encoded}");
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let mut word = [0_u8; 3];
        word[..part.len()].copy_from_slice(part);
        let number = u32::from_be_bytes([0, word[0], word[1], word[2]]);
        for at in 0..=part.len() {
            text.push(char::from(DIGITS[usize::try_from((number >> (18 - 6 * at)) & 63).unwrap()]));
        }
    }
    text
}
