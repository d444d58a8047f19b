//! Docker as it is seen from the outside: what really runs, and what happened to it.

#![expect(clippy::expect_used, reason = "a test stops at what cannot be")]

use std::collections::{BTreeMap, HashMap};
use std::process::Command;

use bollard::Docker;
use bollard::models::{ContainerSummary, ContainerSummaryStateEnum};
use bollard::query_parameters::{
    EventsOptionsBuilder, InspectContainerOptions, KillContainerOptionsBuilder,
    ListContainersOptionsBuilder, ListNetworksOptions, ListVolumesOptions,
    RemoveContainerOptionsBuilder,
};
use futures::StreamExt as _;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The image of all live tests; `hack/docker-up` makes it.
pub const IMAGE: &str = "persys-test/busybox:1";
/// By this label `hack/docker-down` finds what a broken test left. Keys that start with `persys.` are
/// not for users.
pub const LABEL: (&str, &str) = ("test.persys", "live");
/// The label that names the cluster a container belongs to.
pub const CLUSTER: &str = "persys.cluster";
const WORKLOAD: &str = "persys.workload_id";

/// A Docker daemon.
#[derive(Debug, Clone)]
pub struct Engine {
    /// Where it is.
    pub host: String,
    client: Docker,
}

/// One container of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Docker's name for it: another one is another container.
    pub id: String,
    /// Whose it is.
    pub workload: String,
    /// Which version.
    pub revision: String,
    /// Whether it runs.
    pub running: bool,
    /// Its ports on the host.
    pub ports: Vec<u16>,
}

impl Engine {
    /// The daemon all tests share.
    #[must_use]
    pub fn shared() -> Self {
        let usual = "unix:///var/run/docker.sock".to_owned();
        Self::at(std::env::var("DOCKER_HOST").unwrap_or(usual))
    }

    /// The daemon at `host`.
    #[must_use]
    pub fn at(host: String) -> Self {
        let client = Docker::connect_with_host(&host).expect("a daemon: run hack/docker-up");
        Self { host, client }
    }

    /// All containers of a cluster, by workload.
    pub async fn containers(&self, cluster: &str) -> Vec<Container> {
        let label = HashMap::from([("label", vec![format!("{CLUSTER}={cluster}")])]);
        let options = ListContainersOptionsBuilder::default().all(true).filters(&label).build();
        let all = self.client.list_containers(Some(options)).await.expect("a list of containers");
        let mut all: Vec<_> = all.into_iter().map(container).collect();
        all.sort_by(|a, b| (&a.workload, &a.id).cmp(&(&b.workload, &b.id)));
        all
    }

    /// When a container was last started, and how often Docker itself has restarted it.
    pub async fn started(&self, id: &str) -> (String, i64) {
        let options = None::<InspectContainerOptions>;
        let seen = self.client.inspect_container(id, options).await.expect("the container");
        let at = seen.state.and_then(|state| state.started_at).unwrap_or_default();
        (at, seen.restart_count.unwrap_or_default())
    }

    /// Kills what runs in a container, as an operator would by hand.
    pub async fn kill(&self, id: &str) {
        let options = KillContainerOptionsBuilder::default().signal("KILL").build();
        self.client.kill_container(id, Some(options)).await.expect("a container to kill");
    }

    /// Removes a container, as an operator would by hand.
    pub async fn remove(&self, id: &str) {
        let options = RemoveContainerOptionsBuilder::default().force(true).build();
        self.client.remove_container(id, Some(options)).await.expect("a container to remove");
    }

    /// Writes down what happens to the containers of a cluster from `since` (in seconds) on.
    ///
    /// Docker remembers only its last few hundred events, of all its containers together.
    #[must_use]
    pub fn record(&self, cluster: &str, since: u64) -> Recorder {
        let filters = HashMap::from([
            ("type", vec!["container".to_owned()]),
            ("label", vec![format!("{CLUSTER}={cluster}")]),
            ("event", ["create", "start", "destroy"].map(ToOwned::to_owned).to_vec()),
        ]);
        let since = since.to_string();
        let options = EventsOptionsBuilder::default().since(&since).filters(&filters).build();
        let mut events = self.client.events(Some(options));
        let (tell, heard) = watch::channel(Vec::new());
        let task = tokio::spawn(async move {
            while let Some(Ok(event)) = events.next().await {
                let labels = event.actor.and_then(|actor| actor.attributes).unwrap_or_default();
                let workload = labels.get(WORKLOAD).cloned().unwrap_or_default();
                tell.send_modify(|all: &mut Vec<_>| {
                    all.push((workload, event.action.unwrap_or_default()));
                });
            }
        });
        Recorder { engine: self.clone(), cluster: cluster.to_owned(), heard, task }
    }

    /// The names of all networks and volumes.
    pub async fn furniture(&self) -> Vec<String> {
        let networks = self.client.list_networks(None::<ListNetworksOptions>).await;
        let networks = networks.expect("networks").into_iter().filter_map(|network| network.name);
        let volumes = self.client.list_volumes(None::<ListVolumesOptions>).await;
        let volumes = volumes.expect("volumes").volumes.unwrap_or_default();
        let volumes = volumes.into_iter().map(|volume| volume.name);
        networks
            .map(|name| format!("network {name}"))
            .chain(volumes.map(|name| format!("volume {name}")))
            .collect()
    }

    /// Runs the `docker` command; says what it printed.
    pub fn docker(&self, args: &[&str]) -> String {
        let output = Command::new("docker").args(["-H", &self.host]).args(args).output();
        let output = output.expect("docker: run hack/docker-up");
        assert!(output.status.success(), "docker {args:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Removes all containers of a cluster.
    pub fn clear(&self, cluster: &str) {
        let filter = format!("label={CLUSTER}={cluster}");
        for _ in 0..3 {
            let left = self.docker(&["ps", "-aq", "--filter", &filter]);
            if left.is_empty() {
                self.clear_furniture(cluster);
                return;
            }
            let mut args = vec!["rm", "-f", "-v"];
            args.extend(left.lines());
            // What somebody else is removing already is gone all the same.
            Command::new("docker").args(["-H", &self.host]).args(args).output().ok();
        }
    }

    /// Removes all networks and volumes of a cluster.
    pub fn clear_furniture(&self, cluster: &str) {
        let filter = format!("label={CLUSTER}={cluster}");
        for kind in ["network", "volume"] {
            for name in self.docker(&[kind, "ls", "-q", "--filter", &filter]).lines() {
                Command::new("docker").args(["-H", &self.host, kind, "rm", name]).output().ok();
            }
        }
    }
}

/// What happened to the containers of a cluster.
#[derive(Debug)]
pub struct Recorder {
    engine: Engine,
    cluster: String,
    heard: watch::Receiver<Vec<(String, String)>>,
    task: JoinHandle<()>,
}

impl Recorder {
    /// What happened to each workload so far: made, started, removed.
    pub async fn history(&mut self) -> BTreeMap<String, Vec<String>> {
        // Events come in order: when that of a container we make now has come, all before it have.
        let mark = format!("{}-mark", self.cluster);
        let cluster = format!("{CLUSTER}={}", self.cluster);
        let workload = format!("{WORKLOAD}={mark}");
        let args = ["create", "--label", &cluster, "--label", &workload, IMAGE];
        let id = self.engine.docker(&args);
        let marked =
            |all: &Vec<(String, String)>| all.iter().any(|(workload, _)| *workload == mark);
        let heard =
            tokio::time::timeout(crate::processes::PATIENCE, self.heard.wait_for(marked)).await;
        let all = heard.expect("its event").expect("the events go on").clone();
        self.engine.docker(&["rm", &id]);
        let mut history = BTreeMap::<_, Vec<_>>::new();
        for (workload, action) in all.into_iter().filter(|(workload, _)| *workload != mark) {
            history.entry(workload).or_default().push(action);
        }
        history
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn container(summary: ContainerSummary) -> Container {
    let labels = summary.labels.unwrap_or_default();
    let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
    let ports = summary.ports.unwrap_or_default();
    let mut ports: Vec<_> = ports.into_iter().filter_map(|port| port.public_port).collect();
    ports.sort_unstable();
    ports.dedup();
    Container {
        id: summary.id.unwrap_or_default(),
        workload: label(WORKLOAD),
        revision: label("persys.revision_id"),
        running: summary.state == Some(ContainerSummaryStateEnum::RUNNING),
        ports,
    }
}
