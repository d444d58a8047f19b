//! Stacks, and what a test needs around them. Every test has a cluster of its own, so that tests run
//! side by side and leave nothing behind.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, ListContainersOptionsBuilder,
    ListNetworksOptionsBuilder, ListVolumesOptionsBuilder, RemoveContainerOptionsBuilder,
    StartContainerOptions,
};
use persys_model::id::{NodeId, WorkloadId};
use persys_model::spec::compose::ComposeSource;
use persys_model::spec::secret::Secret;
use persys_model::spec::{ComposeSpec, Kind};
use persys_node::input::Existing;
use persys_runtime::compose::Compose;
use persys_runtime::compose::settings::Settings;
use persys_runtime::docker::{Docker, settings};
use persys_runtime::runtime::ServiceStatus;
use persys_runtime::{Clock, Owner, Runtime};

use crate::contract::{Bench, Everything, HEARS};
use crate::support::{IMAGE, fresh_prefix, host, raw};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A command that runs until it is told to end, and ends at once then.
pub(crate) const STAYS: &str = "trap 'exit 0' TERM; sleep 1000 & wait";

pub(crate) struct StackBench {
    pub(crate) compose: Compose,
    pub(crate) prefix: String,
    pub(crate) folder: PathBuf,
    pub(crate) raw: bollard::Docker,
    host: String,
}

pub(crate) fn bench() -> StackBench {
    bench_on(&host(), |_| {})
}

pub(crate) fn bench_on(host: &str, change: impl FnOnce(&mut settings::Settings)) -> StackBench {
    let prefix = fresh_prefix();
    let folder = std::env::temp_dir().join(format!("{prefix}stacks"));
    let raw = bollard::Docker::connect_with_host(host).unwrap_or_else(|_| raw());
    let compose = compose(&prefix, host, &folder, change);
    StackBench { compose, prefix, folder, raw, host: host.to_owned() }
}

fn compose(
    prefix: &str,
    host: &str,
    folder: &std::path::Path,
    change: impl FnOnce(&mut settings::Settings),
) -> Compose {
    let mut docker = settings::Settings {
        host: host.to_owned(),
        name_prefix: prefix.to_owned(),
        ..settings::Settings::default()
    };
    change(&mut docker);
    let owner = Owner { cluster: Arc::from(prefix), node: NodeId::fixed("n1") };
    let docker = Docker::new(owner, docker, Clock::since_boot());
    Compose::new(docker, Settings::in_folder(folder.to_owned()))
}

impl Drop for StackBench {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// A stack from a file.
pub(crate) fn stack(file: &str) -> Kind {
    ComposeSpec {
        source: ComposeSource::Inline(Secret::new(file)),
        project: None,
        env: BTreeMap::new(),
        host_ports: Vec::new(),
        has_named_volumes: false,
    }
    .into()
}

/// One service that runs `script`, with further lines.
pub(crate) fn one(script: &str, more: &str) -> Kind {
    stack(&format!("services:\n{}", service("web", script, more)))
}

/// A service of a file; `more` are further lines of it.
pub(crate) fn service(name: &str, script: &str, more: &str) -> String {
    let mut text = format!("  {name}:\n    image: {IMAGE}\n    command: [sh, -c, \"{script}\"]\n");
    for line in more.lines() {
        text.extend(["    ", line, "\n"]);
    }
    text
}

impl StackBench {
    /// The next life of the agent: nothing is remembered but what is on disk.
    pub(crate) fn reborn(&self) -> Compose {
        compose(&self.prefix, &self.host, &self.folder, |_| {})
    }

    pub(crate) fn project(&self, workload: &str) -> String {
        format!("{}{workload}", self.prefix)
    }

    pub(crate) async fn services(&self, workload: &WorkloadId) -> Vec<ServiceStatus> {
        self.compose.inspect(workload).await.unwrap().expect("it is there").services
    }

    pub(crate) async fn service(&self, workload: &WorkloadId, name: &str) -> ServiceStatus {
        let all = self.services(workload).await;
        all.into_iter().find(|service| service.name == name).expect("the service is there")
    }

    /// Ids and start times of all containers of a stack.
    pub(crate) async fn moments(
        &self,
        workload: &WorkloadId,
    ) -> BTreeMap<String, (String, String)> {
        let mut all = BTreeMap::new();
        for service in self.services(workload).await {
            let options = None::<InspectContainerOptions>;
            let raw = self.raw.inspect_container(&service.id, options).await.unwrap();
            let started = raw.state.unwrap().started_at.unwrap();
            all.insert(service.name, (service.id, started));
        }
        all
    }

    pub(crate) async fn until(&self, workload: &WorkloadId, wanted: &Existing) {
        let begun = Instant::now();
        loop {
            let thing = self.compose.inspect(workload).await.unwrap();
            let state = thing.map(|thing| thing.seen.state);
            if state.as_ref() == Some(wanted) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{workload} is {state:?}, not {wanted:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What a command in a service prints.
    pub(crate) async fn say(&self, workload: &WorkloadId, service: &str, script: &str) -> String {
        use futures::StreamExt as _;
        use persys_runtime::Exec as _;
        let command = persys_runtime::inside::ExecCommand {
            argv: ["sh", "-c", script].map(ToOwned::to_owned).to_vec(),
            service: Some(service.to_owned()),
            ..Default::default()
        };
        let mut session = self.compose.exec(workload, &command).await.unwrap();
        let mut text = Vec::new();
        while let Some(chunk) = session.output.next().await {
            text.extend_from_slice(&chunk.unwrap().bytes);
        }
        String::from_utf8_lossy(&text).trim().to_owned()
    }

    /// Everything Docker has with a label: containers, networks, volumes.
    pub(crate) async fn objects(&self, label: &str) -> (usize, usize, Vec<String>) {
        let filters = HashMap::from([("label", vec![label.to_owned()])]);
        let all = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let containers = self.raw.list_containers(Some(all)).await.unwrap().len();
        let all = ListNetworksOptionsBuilder::default().filters(&filters).build();
        let networks = self.raw.list_networks(Some(all)).await.unwrap().len();
        let all = ListVolumesOptionsBuilder::default().filters(&filters).build();
        let volumes = self.raw.list_volumes(Some(all)).await.unwrap().volumes.unwrap_or_default();
        (containers, networks, volumes.into_iter().map(|volume| volume.name).collect())
    }

    /// Everything of this test's own cluster.
    pub(crate) async fn ours(&self) -> (usize, usize, Vec<String>) {
        self.objects(&format!("persys.cluster={}", self.prefix)).await
    }
}

#[async_trait]
impl Bench for StackBench {
    fn runtime(&self) -> &dyn Everything {
        &self.compose
    }
    fn runs(&self) -> Kind {
        one(STAYS, "restart: always")
    }
    fn hears(&self) -> (Kind, &'static str, usize) {
        let service = |name, secret: &str| service(name, HEARS, &format!("secrets: [{secret}]"));
        let file = format!(
            "services:\n{}{}secrets:\n  db: {{external: true, x-persys-signal: SIGHUP}}\n  \
             key: {{external: true, x-persys-signal: USR1}}\n",
            service("one", "db"),
            service("two", "key"),
        );
        (stack(&file), "ready", 2)
    }
    fn exits(&self, code: i32) -> Kind {
        one(&format!("exit {code}"), "restart: always")
    }
    fn publishes(&self, host: Option<u16>) -> Kind {
        let port = host.map_or_else(|| "80".to_owned(), |host| format!("{host}:80"));
        one(STAYS, &format!("restart: always\nports: ['{port}']"))
    }
    fn broken(&self) -> Kind {
        stack("services: {web: {image: 'persys-test/nonesuch:1'}}")
    }
    fn keeps_what_failed(&self) -> bool {
        false
    }
    async fn plant_foreign(&self, workload: &WorkloadId) {
        let project = self.project(workload.as_str());
        let body = ContainerCreateBody {
            image: Some(IMAGE.to_owned()),
            cmd: Some(["/bin/sleep", "1000"].map(ToOwned::to_owned).to_vec()),
            labels: Some(
                [
                    ("com.docker.compose.project", project.as_str()),
                    ("com.docker.compose.service", "web"),
                    ("com.docker.compose.oneoff", "False"),
                    ("com.docker.compose.container-number", "1"),
                    ("persys.test", "live"),
                ]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            ),
            ..ContainerCreateBody::default()
        };
        let name = format!("{project}_web_1");
        let options = CreateContainerOptionsBuilder::default().name(&name).build();
        let id = self.raw.create_container(Some(options), body).await.unwrap().id;
        self.raw.start_container(&id, None::<StartContainerOptions>).await.unwrap();
    }
    async fn dig_up_foreign(&self, workload: &WorkloadId) -> bool {
        let name = format!("{}_web_1", self.project(workload.as_str()));
        let state = self.raw.inspect_container(&name, None::<InspectContainerOptions>).await;
        let runs = state.unwrap().state.unwrap().running.unwrap();
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        self.raw.remove_container(&name, Some(options)).await.unwrap();
        runs
    }
}
