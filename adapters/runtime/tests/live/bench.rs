//! A daemon, and what a test needs around it. Every test has a cluster of its own, so that tests
//! run side by side and leave nothing behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, RemoveContainerOptionsBuilder,
    StartContainerOptions,
};
use persys_model::id::{NodeId, WorkloadId};
use persys_model::spec::ContainerSpec;
use persys_runtime::docker::Docker;
use persys_runtime::docker::settings::Settings;
use persys_runtime::{Clock, Owner};

use crate::contract::{Bench, Everything};

pub(crate) const IMAGE: &str = "persys-test/busybox:1";

pub(crate) struct DockerBench {
    pub(crate) docker: Docker,
    pub(crate) prefix: String,
    pub(crate) raw: bollard::Docker,
}

pub(crate) fn host() -> String {
    std::env::var("DOCKER_HOST").unwrap_or_else(|_| Settings::default().host)
}

pub(crate) fn raw() -> bollard::Docker {
    bollard::Docker::connect_with_host(&host()).expect("a daemon: run hack/docker-up")
}

/// A prefix no other test has, nor an earlier run.
pub(crate) fn fresh_prefix() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("persys-test-{}-{count}-", std::process::id())
}

pub(crate) fn settings(prefix: &str) -> Settings {
    Settings { host: host(), name_prefix: prefix.to_owned(), ..Settings::default() }
}

pub(crate) fn owner(prefix: &str) -> Owner {
    Owner { cluster: Arc::from(prefix), node: NodeId::fixed("n1") }
}

pub(crate) fn bench_with(change: impl FnOnce(&mut Settings)) -> DockerBench {
    let prefix = fresh_prefix();
    let mut settings = settings(&prefix);
    change(&mut settings);
    let docker = Docker::new(owner(&prefix), settings, Clock::since_boot());
    DockerBench { docker, prefix, raw: raw() }
}

pub(crate) fn bench() -> DockerBench {
    bench_with(|_| {})
}

pub(crate) fn shell(script: &str) -> ContainerSpec {
    ContainerSpec {
        image: Arc::from(IMAGE),
        command: ["/bin/sh", "-c", script].map(Arc::from).to_vec(),
        // So that hack/docker-down finds what a broken test left.
        labels: [(Arc::from("persys.test"), Arc::from("live"))].into(),
        ..ContainerSpec::default()
    }
}

impl DockerBench {
    pub(crate) fn name(&self, workload: &str) -> String {
        format!("{}{workload}", self.prefix)
    }

    /// Makes and starts a container that is not ours.
    pub(crate) async fn plant(&self, name: &str, body: ContainerCreateBody) -> String {
        let options = CreateContainerOptionsBuilder::default().name(name).build();
        let id = self.raw.create_container(Some(options), body).await.unwrap().id;
        self.raw.start_container(&id, None::<StartContainerOptions>).await.unwrap();
        id
    }

    pub(crate) async fn dig_up(&self, id: &str) {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        self.raw.remove_container(id, Some(options)).await.unwrap();
    }

    pub(crate) async fn is_up(&self, name: &str) -> bool {
        let state = self.raw.inspect_container(name, None::<InspectContainerOptions>).await;
        state.unwrap().state.unwrap().running.unwrap()
    }
}

pub(crate) fn sleeper() -> ContainerCreateBody {
    ContainerCreateBody {
        image: Some(IMAGE.to_owned()),
        cmd: Some(["/bin/sleep", "1000"].map(ToOwned::to_owned).to_vec()),
        labels: Some([("persys.test".to_owned(), "live".to_owned())].into()),
        ..ContainerCreateBody::default()
    }
}

#[async_trait]
impl Bench for DockerBench {
    fn runtime(&self) -> &dyn Everything {
        &self.docker
    }
    fn runs(&self) -> ContainerSpec {
        shell("trap 'exit 0' TERM; sleep 1000 & wait")
    }
    fn exits(&self, code: i32) -> ContainerSpec {
        shell(&format!("exit {code}"))
    }
    async fn plant_foreign(&self, workload: &WorkloadId) {
        self.plant(&self.name(workload.as_str()), sleeper()).await;
    }
    async fn dig_up_foreign(&self, workload: &WorkloadId) -> bool {
        let name = self.name(workload.as_str());
        let runs = self.is_up(&name).await;
        self.dig_up(&name).await;
        runs
    }
}
