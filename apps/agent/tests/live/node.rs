//! One agent with exclusive and common work, and what others see of it.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

use persys_agent::app::{
    self, Config, Limit, Reach, Running, RuntimeChoice, Security, VolumeSettings,
};
use persys_identity::Exposure;
use persys_model::command::{Answer, Apply, Command, Order};
use persys_model::id::{RevisionId, WorkloadId};
use persys_model::resources::Resources;
use persys_model::spec::{Class, ContainerSpec, Kind, Placement, Spec};
use persys_model::token::Epoch;
use persys_node::settings::AgentSettings;
use serde_json::Value;

pub(crate) const IMAGE: &str = "persys-test/busybox:1";
pub(crate) const NODE: &str = "n1";
/// How long exclusive work may run without a renewal.
pub(crate) const FENCE_MS: u64 = 4_000;
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until something is so.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::yield_now();
    }
}

/// A cluster nobody else has; its name also names its workloads.
pub(crate) fn cluster(story: &str) -> String {
    format!("live-{story}-{}", std::process::id())
}

pub(crate) fn docker(arguments: &[&str]) -> Output {
    Process::new("docker").args(arguments).output().expect("docker: run hack/docker-up")
}

/// What a container is, by one of Docker's templates; `None` if there is none.
pub(crate) fn ask(name: &str, template: &str) -> Option<String> {
    let output = docker(&["inspect", "-f", template, name]);
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

pub(crate) fn runs(name: &str) -> bool {
    ask(name, "{{.State.Running}}").as_deref() == Some("true")
}

pub(crate) fn config(state: &Path, cluster: &str, watchdog: bool) -> Config {
    let exe = std::env::current_exe().unwrap().display().to_string();
    Config {
        node: Some(NODE.to_owned()),
        grpc: ([127, 0, 0, 1], 0).into(),
        advertise: None,
        reach: Reach::Called,
        schedulers: Vec::new(),
        state_dir: state.to_path_buf(),
        cluster: cluster.to_owned(),
        runtime: RuntimeChoice::Docker { host: std::env::var("DOCKER_HOST").ok() },
        security: Security::Insecure(Exposure::Loopback),
        labels: BTreeMap::new(),
        settings: AgentSettings {
            admit_percent: 0,
            admit_disk_percent: 0,
            fence_ms: FENCE_MS,
            start_margin_ms: 500,
            ..AgentSettings::default()
        },
        watchdog: watchdog.then(|| vec![exe, "watchdog".to_owned()]),
        compose: app::ComposeChoice::default(),
        registry_auth: None,
        volumes: VolumeSettings::within(state, Limit::Auto),
        machines: None,
        http: Some(([127, 0, 0, 1], 0).into()),
    }
}

pub(crate) fn spec(class: Class) -> Arc<Spec> {
    let script = "trap 'exit 0' TERM; sleep 1000 & wait";
    let container = ContainerSpec {
        image: Arc::from(IMAGE),
        command: ["/bin/sh", "-c", script].map(Arc::from).to_vec(),
        labels: [(Arc::from("persys.test"), Arc::from("live"))].into(),
        ..ContainerSpec::default()
    };
    of_kind(Kind::Container(container), class)
}

pub(crate) fn of_kind(kind: Kind, class: Class) -> Arc<Spec> {
    Arc::new(Spec {
        kind,
        resources: Resources::default(),
        placement: Placement { class, ..Placement::default() },
        metadata: BTreeMap::new(),
        secrets: Vec::new(),
        stop_grace_ms: None,
        health: persys_model::spec::health::HealthChecks::default(),
    })
}

/// Gives an order as the scheduler of the moment would: a container of this class, or its removal.
pub(crate) async fn order(agent: &Running, id: &str, epoch: u64, class: Option<Class>) {
    order_spec(agent, id, epoch, class.map(spec)).await;
}

/// The same for whatever is to run.
pub(crate) async fn order_spec(agent: &Running, id: &str, epoch: u64, spec: Option<Arc<Spec>>) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let tokens = agent.handle.read(|agent, _| (agent.term(), agent.session())).await.unwrap();
        if let (term, Some(session)) = tokens {
            let order = spec.clone().map_or(Order::Remove { purge: true }, |spec| {
                let revision = RevisionId::fixed("r1");
                Order::Apply(Apply {
                    revision,
                    run: true,
                    pause: false,
                    spec,
                    secrets: Arc::default(),
                })
            });
            let workload = WorkloadId::new(id).unwrap();
            let command = Command { term, session, epoch: Epoch(epoch), workload, order };
            match agent.handle.command(command).await {
                Ok(Answer::Accepted | Answer::Removed { .. }) => return,
                answer => assert!(Instant::now() < deadline, "{id}: {answer:?}"),
            }
        }
        assert!(Instant::now() < deadline, "no session");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Runs an agent until it is killed: its state, its cluster, the story it is part of.
pub(crate) async fn agent(arguments: &[String]) {
    let [state, cluster, story] = arguments else { panic!("state, cluster and story") };
    let state = PathBuf::from(state);
    if story == "kinds" {
        return crate::kinds::agent(&state, cluster).await;
    }
    let agent = app::start(config(&state, cluster, true)).await.unwrap();
    std::fs::write(state.join("http"), agent.http.unwrap().to_string()).unwrap();
    order(&agent, &format!("{cluster}-alone"), 5, Some(Class::Exclusive)).await;
    order(&agent, &format!("{cluster}-common"), 6, Some(Class::Default)).await;
    std::future::pending::<()>().await;
}

pub(crate) fn spawn(state: &Path, cluster: &str, story: &str) -> Child {
    drop(std::fs::remove_file(state.join("http")));
    let exe = std::env::current_exe().unwrap();
    let arguments = ["agent", &state.display().to_string(), cluster, story];
    Process::new(exe).args(arguments).spawn().unwrap()
}

/// A page of the agent: its status and its body.
pub(crate) fn page(state: &Path, path: &str) -> Option<(u16, String)> {
    let address = std::fs::read_to_string(state.join("http")).ok()?;
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

pub(crate) fn health(state: &Path) -> Option<(u16, Value)> {
    let (code, body) = page(state, "/health")?;
    Some((code, serde_json::from_str(&body).unwrap()))
}

pub(crate) fn number(state: &Path, file: &str, field: &str) -> Option<u64> {
    let text = std::fs::read(state.join(file)).ok()?;
    serde_json::from_slice::<Value>(&text).ok()?.get(field)?.as_u64()
}
