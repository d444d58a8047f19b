//! A Compose stack applied by those who know no tokens, as `agent.v1` always took it.

use std::time::{Duration, Instant};

use persys_proto::agent::v1 as wire;
use persys_proto::agent::v1::agent_service_client::AgentServiceClient;
use persys_proto::agent::v1::{ActualState, DesiredState, WorkloadType};
use tonic::transport::{Channel, Endpoint};

use crate::node::{IMAGE, ask, cluster, config, runs};

type Client = AgentServiceClient<Channel>;

fn request(id: &str, revision: &str, word: &str) -> wire::ApplyWorkloadRequest {
    let file = format!(
        "services:\n  web:\n    image: {IMAGE}\n    restart: always\n    environment: {{WORD: \
         $WORD}}\n    command: [sh, -c, \"trap 'exit 0' TERM; sleep 1000 & wait\"]\n  job:\n    \
         image: {IMAGE}\n    command: ['true']\n"
    );
    let stack = wire::ComposeSpec {
        compose_yaml: file,
        env: [("WORD".to_owned(), word.to_owned())].into(),
        ..wire::ComposeSpec::default()
    };
    wire::ApplyWorkloadRequest {
        id: id.to_owned(),
        r#type: WorkloadType::Compose.into(),
        revision_id: revision.to_owned(),
        desired_state: DesiredState::Running.into(),
        spec: Some(wire::WorkloadSpec { spec: Some(wire::workload_spec::Spec::Compose(stack)) }),
        ..wire::ApplyWorkloadRequest::default()
    }
}

async fn applied(client: &mut Client, request: wire::ApplyWorkloadRequest) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let answer = client.apply_workload(request.clone()).await.unwrap().into_inner();
        if answer.applied {
            return;
        }
        assert!(Instant::now() < deadline, "{answer:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn running(client: &mut Client, id: &str, revision: &str) -> wire::WorkloadStatus {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let request = wire::GetWorkloadStatusRequest { id: id.to_owned() };
        let last = client.get_workload_status(request).await;
        let status = last.unwrap().into_inner().status.unwrap();
        if status.actual_state() == ActualState::Running && status.revision_id == revision {
            return status;
        }
        assert!(Instant::now() < deadline, "{status:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) fn story() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = cluster("stacks");
    let id = format!("{cluster}-shop");
    let (web, job) = (format!("persys-{id}_web_1"), format!("persys-{id}_job_1"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let agent = persys_agent::app::start(config(dir.path(), &cluster, false)).await.unwrap();
        let at = format!("http://{}", agent.grpc.unwrap());
        let channel = Endpoint::from_shared(at).unwrap().connect_lazy();
        let mut client = AgentServiceClient::new(channel);
        for (revision, word) in [("r1", "one"), ("r2", "two")] {
            applied(&mut client, request(&id, revision, word)).await;
            let status = running(&mut client, &id, revision).await;
            assert_eq!(status.metadata["service.web"], "running");
            assert_eq!(status.metadata["service.job"], "done");
            let env = ask(&web, "{{.Config.Env}}").unwrap();
            assert!(env.contains(&format!("WORD={word}")), "{env}");
        }
        assert!(runs(&web) && !runs(&job));
        let request = wire::DeleteWorkloadRequest { id: id.clone(), ..Default::default() };
        let answer = client.delete_workload(request).await.unwrap().into_inner();
        assert!(answer.success, "{answer:?}");
        agent.stop().await;
    });
    assert!(ask(&web, "{{.Id}}").is_none() && ask(&job, "{{.Id}}").is_none());
}
