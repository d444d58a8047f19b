//! One agent and a caller of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use persys_agent::app::{
    self, Config, Limit, Reach, Running, RuntimeChoice, Security, VolumeSettings,
};
use persys_identity::Exposure;
use persys_node::settings::AgentSettings;
use persys_proto::agent::v1 as wire;
use persys_proto::agent::v1::agent_service_client::AgentServiceClient;
use persys_proto::agent::v1::{ActualState, DesiredState, WorkloadType};
use persys_runtime::Clock;
use persys_runtime::sim::{Settings, Sim};
use tonic::transport::{Channel, Endpoint};

pub(crate) type Client = AgentServiceClient<Channel>;

/// How long something may take to become true.
const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) fn config(dir: &Path, sim: &Sim) -> Config {
    Config {
        node: Some("Node-1".to_owned()),
        grpc: ([127, 0, 0, 1], 0).into(),
        advertise: None,
        reach: Reach::Called,
        schedulers: Vec::new(),
        state_dir: dir.to_path_buf(),
        cluster: "test".to_owned(),
        runtime: RuntimeChoice::Sim(Some(sim.clone())),
        security: Security::Insecure(Exposure::Loopback),
        labels: BTreeMap::new(),
        // The machine that runs the tests may be busy.
        settings: AgentSettings {
            admit_percent: 0,
            admit_disk_percent: 0,
            ..AgentSettings::default()
        },
        watchdog: None,
        compose: app::ComposeChoice::default(),
        registry_auth: None,
        volumes: VolumeSettings::within(dir, Limit::None),
        machines: None,
        http: None,
    }
}

pub(crate) fn sim() -> Sim {
    Sim::new(Settings::default(), Clock::since_boot())
}

/// An agent that has its session.
pub(crate) async fn start(dir: &Path, sim: &Sim) -> (Running, Client) {
    start_with(config(dir, sim)).await
}

pub(crate) async fn start_with(config: Config) -> (Running, Client) {
    let running = app::start(config).await.expect("it starts");
    let deadline = Instant::now() + PATIENCE;
    while running.handle.read(|agent, _| agent.session()).await.unwrap().is_none() {
        assert!(Instant::now() < deadline, "no session");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let channel = Endpoint::from_shared(format!("http://{}", running.grpc.unwrap())).unwrap();
    (running, AgentServiceClient::new(channel.connect_lazy()))
}

pub(crate) fn body(kind: WorkloadType, image: &str) -> wire::WorkloadSpec {
    use wire::workload_spec::Spec;
    let body = match kind {
        WorkloadType::Compose => Spec::Compose(wire::ComposeSpec {
            project_name: "stack".to_owned(),
            compose_yaml: "services:\n  web:\n    image: nginx\n".to_owned(),
            ..wire::ComposeSpec::default()
        }),
        WorkloadType::Vm => Spec::Vm(wire::VmSpec {
            name: "machine".to_owned(),
            vcpus: 1,
            memory_mb: 512,
            os_image: "debian-12".to_owned(),
            ..wire::VmSpec::default()
        }),
        WorkloadType::Container | WorkloadType::Unspecified | WorkloadType::Microvm => {
            Spec::Container(wire::ContainerSpec {
                image: image.to_owned(),
                ..wire::ContainerSpec::default()
            })
        }
    };
    wire::WorkloadSpec { spec: Some(body) }
}

/// A request as those who know no tokens make it.
pub(crate) fn request(id: &str, revision: &str, image: &str) -> wire::ApplyWorkloadRequest {
    wire::ApplyWorkloadRequest {
        id: id.to_owned(),
        r#type: WorkloadType::Container.into(),
        revision_id: revision.to_owned(),
        desired_state: DesiredState::Running.into(),
        spec: Some(body(WorkloadType::Container, image)),
        ..wire::ApplyWorkloadRequest::default()
    }
}

pub(crate) async fn apply(
    client: &mut Client,
    request: wire::ApplyWorkloadRequest,
) -> wire::ApplyWorkloadResponse {
    client.apply_workload(request).await.expect("an answer").into_inner()
}

pub(crate) async fn delete(client: &mut Client, id: &str) -> wire::DeleteWorkloadResponse {
    let request =
        wire::DeleteWorkloadRequest { id: id.to_owned(), ..wire::DeleteWorkloadRequest::default() };
    client.delete_workload(request).await.expect("an answer").into_inner()
}

pub(crate) async fn status(
    client: &mut Client,
    id: &str,
) -> Result<wire::WorkloadStatus, tonic::Status> {
    let request = wire::GetWorkloadStatusRequest { id: id.to_owned() };
    let answer = client.get_workload_status(request).await?.into_inner();
    Ok(answer.status.expect("a status"))
}

pub(crate) async fn list(client: &mut Client, kind: WorkloadType) -> Vec<wire::WorkloadStatus> {
    let request = wire::ListWorkloadsRequest { r#type: kind.into() };
    client.list_workloads(request).await.expect("an answer").into_inner().workloads
}

/// Waits until a workload is in this state.
pub(crate) async fn wait(
    client: &mut Client,
    id: &str,
    state: ActualState,
) -> wire::WorkloadStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let last = status(client, id).await;
        match last {
            Ok(status) if status.actual_state() == state => return status,
            last => assert!(Instant::now() < deadline, "{id} is not {state:?} but {last:?}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
