//! A real Prometheus in front of a scheduler, an agent and a gateway, with the configuration, the rules
//! and the dashboards that are shipped.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use persys_e2e::gateway;
use persys_e2e::processes::Wish;
use persys_e2e::stack::{Stack, Wire};
use persys_etcd_host::Host;
use persys_identity::Role;
use persys_proto::control::v1 as api;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use persys_scheduler::place::Place;
use persys_store::EtcdSettings;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use tonic::transport::Channel;

use crate::Site;

/// How long something may take to become true; what workloads use shows after twenty seconds.
const PATIENCE: Duration = Duration::from_mins(2);
/// How much etcd may store, which it does not tell.
const QUOTA: u64 = 2 << 30;
/// The linter takes this for a part of a histogram; it is a name that others rely on.
const KNOWN_NAME: &str = "persys_agent_workload_count";

fn shipped(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

struct Prometheus {
    url: String,
    http: reqwest::Client,
    log: PathBuf,
    _process: Child,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    /// Reads these every second, with alerts that do not wait.
    fn start([scheduler, agent, gateway]: [String; 3]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = shipped("prometheus/prometheus.yml").replace(": 15s", ": 1s");
        for (usual, here) in
            [("127.0.0.1:8084", scheduler), ("127.0.0.1:8089", agent), ("127.0.0.1:8585", gateway)]
        {
            assert!(config.contains(usual), "{usual}");
            config = config.replace(usual, &here);
        }
        let rules: Vec<String> = shipped("prometheus/persys.rules.yml")
            .lines()
            .filter(|line| !line.trim_start().starts_with("for: "))
            .map(str::to_owned)
            .collect();
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
            folder.path().join(name)
        };
        write("persys.rules.yml", &rules.join("\n"));
        let config = write("prometheus.yml", &config);
        let log = write("log", "");
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .kill_on_drop(true)
            .spawn()
            .expect("hack/prometheus-install installs prometheus");
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("http://127.0.0.1:{port}/api/v1");
        Self { url, http, log, _process: process, _folder: folder }
    }

    async fn ask(&self, path: &str, query: &[(&str, &str)]) -> Option<Value> {
        let pairs = query.iter().map(|(name, value)| format!("{name}={}", encoded(value)));
        let url = format!("{}/{path}?{}", self.url, pairs.collect::<Vec<_>>().join("&"));
        let response = self.http.get(url).send().await.ok()?;
        let said: Value = serde_json::from_str(&response.text().await.ok()?).ok()?;
        assert_eq!(said["status"], "success", "{path} {query:?}: {said}");
        Some(said["data"].clone())
    }

    /// Looks until it is so.
    async fn until(&self, path: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.ask(path, &[]).await;
            if let Some(seen) = seen.as_ref().filter(|seen| wanted(seen)) {
                return seen.clone();
            }
            let log = || std::fs::read_to_string(&self.log).unwrap_or_default();
            assert!(Instant::now() < deadline, "{what}: {seen:?}\n{}", log());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Whether a query gives a number: a panel shows nothing of what is none.
    async fn has(&self, expr: &str) -> bool {
        let found = self.ask("query", &[("query", expr)]).await.unwrap();
        let mut values = found["result"].as_array().unwrap().iter().map(|one| &one["value"][1]);
        values.any(|value| !value.as_str().unwrap().parse::<f64>().unwrap().is_nan())
    }
}

/// A query as it may stand in an address.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let one = |byte: u8| {
        if plain(byte) { String::from(char::from(byte)) } else { format!("%{byte:02X}") }
    };
    text.bytes().map(one).collect()
}

fn firing(alerts: &Value, name: &str) -> bool {
    let alerts = alerts["alerts"].as_array().unwrap();
    alerts.iter().any(|one| one["labels"]["alertname"] == name && one["state"] == "firing")
}

/// Everything a dashboard asks: title of the panel, and query.
fn questions() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for name in ["persys-scheduler", "persys-agent", "persys-gateway"] {
        let dashboard: Value =
            serde_json::from_str(&shipped(&format!("grafana/{name}.json"))).unwrap();
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let expr = target["expr"].as_str().unwrap().replace("$__rate_interval", "1m");
                let title = format!("{name}: {}", panel["title"].as_str().unwrap());
                // No authority serves alone here; its page has a test of its own.
                if !expr.contains("persys_ca_") {
                    all.push((title, expr.replace("$instance", ".*")));
                }
            }
        }
    }
    all
}

/// What the linter of Prometheus says of a page; a page it cannot read it refuses.
async fn lint(page: &str) -> String {
    let mut tool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("hack/prometheus-install installs promtool");
    let mut pipe = tool.stdin.take().unwrap();
    pipe.write_all(page.as_bytes()).await.unwrap();
    drop(pipe);
    let said = tool.wait_with_output().await.unwrap();
    let text = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
    text.lines().filter(|line| !line.contains(KNOWN_NAME)).collect::<Vec<_>>().join("\n")
}

/// Workloads that run, fail, wait and are gone, and requests that are answered and refused.
async fn stir(site: &Site) {
    let mut client = AgentControlClient::new(site.stack.channel(Role::Operator, "alice").await);
    let mut failing = Wish::runs("bad");
    "fail:IMAGE_NOT_FOUND".clone_into(&mut failing.container.image);
    let mut waiting = Wish::runs("waits");
    waiting.runtime = Some("none-has-it");
    for wish in [Wish::runs("web"), Wish::runs("gone"), failing, waiting] {
        let applied = client.apply_workload(wish.request()).await.unwrap().into_inner();
        assert!(applied.success, "{applied:?}");
    }
    for (id, wanted) in
        [("web", "Running"), ("gone", "Running"), ("bad", "Failed"), ("waits", "Pending")]
    {
        until_it_is(&mut client, id, wanted).await;
    }
    let gone = api::DeleteWorkloadRequest { workload_id: "gone".to_owned(), volumes: false };
    client.delete_workload(gone).await.unwrap();
    assert!(site.get("/v1/nothing-here").await.0 >= 400);
}

async fn until_it_is(client: &mut AgentControlClient<Channel>, id: &str, wanted: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let request = api::GetWorkloadRequest { workload_id: id.to_owned() };
        let seen = client.get_workload(request).await.unwrap().into_inner().workload.unwrap();
        if seen.status == wanted {
            return;
        }
        assert!(Instant::now() < deadline, "{id} is not {wanted}: {seen:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prometheus_reads_everything_and_an_alert_fires_and_clears() {
    // What the panels about etcd show is there only with one.
    let etcd = Host::one().await;
    let place = EtcdSettings {
        way: etcd.patient_way(),
        store: persys_store::Settings::default(),
        quota_bytes: Some(QUOTA),
    };
    let mut stack = Stack::start_at(Wire::Mtls, Place::Etcd(Box::new(place))).await;
    stack.add_agent("n1").await;
    let gateway = gateway::start(&stack, |_| ()).await;
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let site = Site { stack, gateway, http };
    let pages = [
        site.stack.scheduler.http.to_string(),
        site.stack.agent_pages("n1").to_string(),
        site.gateway.public.to_string(),
    ];
    let prometheus = Prometheus::start(pages.clone());
    stir(&site).await;

    let targets = prometheus
        .until("targets", "all three are read", |seen| {
            let targets = seen["activeTargets"].as_array().unwrap();
            targets.len() == 3 && targets.iter().all(|one| one["health"] == "up")
        })
        .await;
    for target in targets["activeTargets"].as_array().unwrap() {
        assert_eq!(target["lastError"], "", "{target}");
    }
    let rules = prometheus
        .until("rules", "every rule is evaluated", |seen| {
            let groups = seen["groups"].as_array().unwrap();
            let mut all = groups.iter().flat_map(|group| group["rules"].as_array().unwrap());
            !groups.is_empty() && all.all(|rule| rule["health"] == "ok")
        })
        .await;
    let rules = rules["groups"].as_array().unwrap().iter();
    let loaded: usize = rules.map(|group| group["rules"].as_array().unwrap().len()).sum();
    assert_eq!(loaded, shipped("prometheus/persys.rules.yml").matches("- alert: ").count());

    alert(&site, &prometheus).await;
    for page in pages {
        let text = site.http.get(format!("http://{page}/metrics")).send().await.unwrap();
        assert_eq!(lint(&text.text().await.unwrap()).await, "", "{page}");
    }
    every_question_is_answered(&site, &prometheus).await;
    for what in [
        "persys_scheduler_workloads_status{status=\"running\"} >= 1",
        "persys_scheduler_workloads_status{status=\"failed\"} == 1",
        "sum(persys_scheduler_workloads_pending) >= 1",
        "persys_scheduler_etcd_up == 1",
        "persys_scheduler_etcd_used_bytes / persys_scheduler_etcd_quota_bytes < 0.8",
    ] {
        assert!(prometheus.has(what).await, "{what}");
    }
    // Nothing it was told was ever unreadable.
    assert!(!prometheus.has("min_over_time(up[5m]) == 0").await);
    let log = std::fs::read_to_string(&prometheus.log).unwrap();
    assert!(!log.contains("level=error") && !log.contains("Append failed"), "{log}");
    site.stop().await;
}

/// The runtime falls silent and comes back.
async fn alert(site: &Site, prometheus: &Prometheus) {
    let name = "PersysRuntimeUnhealthy";
    let well = "persys_agent_runtime_health_status{runtime_type=\"container\"} == 1";
    let deadline = Instant::now() + PATIENCE;
    while !prometheus.has(well).await {
        assert!(Instant::now() < deadline, "the runtime is not seen well");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let sim = site.stack.sims.values().next().unwrap();
    assert!(!firing(&prometheus.ask("alerts", &[]).await.unwrap(), name));
    sim.set_silent(true);
    prometheus.until("alerts", "the alert fires", |seen| firing(seen, name)).await;
    sim.set_silent(false);
    prometheus.until("alerts", "the alert clears", |seen| !firing(seen, name)).await;
}

/// Work comes and goes meanwhile: how long something takes is known only while it happens.
async fn every_question_is_answered(site: &Site, prometheus: &Prometheus) {
    let mut client = AgentControlClient::new(site.stack.channel(Role::Operator, "alice").await);
    let deadline = Instant::now() + PATIENCE;
    let mut open = questions();
    assert!(open.len() > 100, "{}", open.len());
    for number in 0.. {
        let passing = format!("passing-{number}");
        client.apply_workload(Wish::runs(&passing).request()).await.unwrap();
        until_it_is(&mut client, &passing, "Running").await;
        let gone = api::DeleteWorkloadRequest { workload_id: passing, volumes: false };
        client.delete_workload(gone).await.unwrap();
        let mut left = Vec::new();
        for question in open {
            if !prometheus.has(&question.1).await {
                left.push(question);
            }
        }
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "no answer to {left:#?}");
        open = left;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
