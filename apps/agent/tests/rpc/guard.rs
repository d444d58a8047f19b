//! Who may command an agent.

use std::path::Path;
use std::time::{Duration, SystemTime};

use persys_agent::app::{self, Config, Security};
use persys_identity::{
    Authority, Bundle, ClusterName, Connector, Credentials, Expected, Grant, Issued, Name, Role,
    Source, TrustDomain, Validity,
};
use persys_proto::agent::v1 as wire;
use persys_proto::agent::v1::agent_service_client::AgentServiceClient;
use tonic::Code;
use tonic::transport::Endpoint;

use crate::node::{Client, config, sim};

fn authority(dir: &Path) -> Authority {
    let domain = TrustDomain::new("example.org").unwrap();
    let cluster = ClusterName::new("test").unwrap();
    Authority::open_or_create(&dir.join("ca"), &domain, &cluster, SystemTime::now()).unwrap()
}

fn issue(authority: &Authority, role: Role, name: &str) -> Issued {
    let grant = Grant::new(role, Name::new(name).unwrap());
    let lifetime = Duration::from_hours(1);
    authority.issue(&grant, Validity { now: SystemTime::now(), lifetime }).unwrap()
}

fn with_certificate(dir: &Path, issued: &Issued) -> Config {
    let source = Source::Bundle(dir.join("agent.pem"));
    source.save(issued).unwrap();
    Config { security: Security::Mtls(source), ..config(&dir.join("state"), &sim()) }
}

/// The codes every method answers with to somebody of this role.
async fn codes(client: &mut Client) -> Vec<Code> {
    fn code<T>(answer: Result<T, tonic::Status>) -> Code {
        answer.map_or_else(|status| status.code(), |_| Code::Ok)
    }
    vec![
        code(client.apply_workload(wire::ApplyWorkloadRequest::default()).await),
        code(client.delete_workload(wire::DeleteWorkloadRequest::default()).await),
        code(client.list_workloads(wire::ListWorkloadsRequest::default()).await),
        code(client.health_check(wire::HealthCheckRequest {}).await),
        code(client.list_actions(wire::ListActionsRequest::default()).await),
        code(client.get_workload_status(wire::GetWorkloadStatusRequest::default()).await),
    ]
}

#[tokio::test]
async fn only_schedulers_and_operators_command_an_agent() {
    let dir = tempfile::tempdir().unwrap();
    let authority = authority(dir.path());
    let ours = issue(&authority, Role::Agent, "node-1");
    let running = app::start(with_certificate(dir.path(), &ours)).await.unwrap();
    for role in Role::ALL {
        let theirs = issue(&authority, role, "somebody");
        let theirs = Credentials::new(Bundle::from_issued(&theirs, SystemTime::now()).unwrap());
        let expected = Expected::Agent(Name::fixed("node-1"));
        let connector = Connector::tls(&theirs, expected).unwrap();
        let endpoint = Endpoint::from_shared(format!("http://{}", running.grpc.unwrap())).unwrap();
        let mut client = AgentServiceClient::new(endpoint.connect_with_connector_lazy(connector));
        let codes = codes(&mut client).await;
        match role {
            Role::Scheduler | Role::Operator => {
                let (last, others) = codes.split_last().unwrap();
                assert!(others.iter().all(|code| *code == Code::Ok), "{role}: {codes:?}");
                assert_eq!(*last, Code::Unknown);
            }
            Role::Agent | Role::Gateway | Role::User | Role::Metrics => {
                assert!(
                    codes.iter().all(|code| *code == Code::PermissionDenied),
                    "{role}: {codes:?}"
                );
            }
        }
    }
    running.stop().await;
}

#[tokio::test]
async fn an_agent_starts_with_its_own_certificate_only() {
    let dir = tempfile::tempdir().unwrap();
    let authority = authority(dir.path());
    for (role, name) in [(Role::Agent, "node-2"), (Role::Scheduler, "node-1")] {
        let config = with_certificate(dir.path(), &issue(&authority, role, name));
        let refused = app::start(config).await;
        assert!(matches!(refused, Err(app::Error::OtherIdentity { .. })), "{refused:?}");
    }
}
