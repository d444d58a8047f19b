//! A daemon, and what a test needs around it. Every test has a cluster of its own, so that tests
//! run side by side and leave nothing behind.

use std::sync::Arc;

use async_trait::async_trait;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, RemoveContainerOptionsBuilder,
    StartContainerOptions,
};
use persys_model::id::{NodeId, WorkloadId};
use persys_model::spec::container::Port;
use persys_model::spec::{ContainerSpec, Kind, Protocol};
use persys_runtime::docker::Docker;
use persys_runtime::docker::settings::Settings;
use persys_runtime::{Clock, Owner};

use crate::contract::{Bench, Everything};
pub(crate) use crate::support::{IMAGE, fresh_prefix, host, raw};

pub(crate) struct DockerBench {
    pub(crate) docker: Docker,
    pub(crate) prefix: String,
    pub(crate) raw: bollard::Docker,
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
    #[expect(clippy::unused_self, reason = "asked of a bench, as its kin are")]
    pub(crate) fn runs(&self) -> ContainerSpec {
        shell("trap 'exit 0' TERM; sleep 1000 & wait")
    }

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
    fn runs(&self) -> Kind {
        self.runs().into()
    }
    fn hears(&self) -> (Kind, &'static str, usize) {
        (shell(crate::contract::HEARS).into(), "ready", 1)
    }
    fn exits(&self, code: i32) -> Kind {
        shell(&format!("exit {code}")).into()
    }
    fn publishes(&self, host: Option<u16>) -> Kind {
        let port = Port { address: None, host, container: 80, protocol: Protocol::Tcp };
        ContainerSpec { ports: vec![port], ..self.runs() }.into()
    }
    fn broken(&self) -> Kind {
        ContainerSpec { command: vec![Arc::from("/bin/nonesuch")], ..self.runs() }.into()
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
