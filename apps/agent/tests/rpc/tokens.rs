//! Schedulers of ours.

use std::sync::Arc;

use persys_model::command::{Apply, Command, Order};
use persys_model::id::{RevisionId, WorkloadId};
use persys_model::resources::{Compute, Disk, Resources};
use persys_model::spec::{ContainerSpec, Kind, Placement, Spec};
use persys_model::token::{Epoch, Session};
use persys_proto::agent::v1::ActualState;
use persys_proto::convert::command::{Call, to_call};

use crate::node::{Client, sim, start, wait};

fn order(epoch: u64) -> Order {
    let container = ContainerSpec { image: Arc::from("nginx:1"), ..ContainerSpec::default() };
    let spec = Arc::new(Spec {
        kind: Kind::Container(container),
        resources: Resources { compute: Compute::new(10, 16), disk: Disk::none() },
        placement: Placement::default(),
        metadata: [].into(),
        secrets: Vec::new(),
        stop_grace_ms: None,
        health: persys_model::spec::health::HealthChecks::default(),
    });
    let revision = RevisionId::new(&format!("rev-{epoch}")).unwrap();
    Order::Apply(Apply { revision, run: true, pause: false, spec, secrets: Arc::default() })
}

/// Whether the order was obeyed, and the rule that refused it.
async fn give(client: &mut Client, command: &Command) -> (bool, String) {
    match to_call(command) {
        Call::Apply(request) => {
            let answer = client.apply_workload(*request).await.unwrap().into_inner();
            (answer.applied, answer.refusal)
        }
        Call::Delete(request) => {
            let answer = client.delete_workload(request).await.unwrap().into_inner();
            assert_eq!(answer.removed, answer.success);
            (answer.success, answer.refusal)
        }
    }
}

#[tokio::test]
async fn an_order_is_obeyed_by_its_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let (agent, mut client) = start(dir.path(), &sim()).await;
    let (term, session) =
        agent.handle.read(|agent, _| (agent.term(), agent.session())).await.unwrap();
    let session = session.unwrap();
    let workload = WorkloadId::fixed("web");
    let command = |session, epoch, order| Command {
        term,
        session,
        epoch: Epoch(epoch),
        workload: workload.clone(),
        order,
    };
    let obeyed = (true, String::new());
    let refused = |rule: &str| (false, rule.to_owned());
    assert_eq!(give(&mut client, &command(session, 7, order(7))).await, obeyed);
    let status = wait(&mut client, "web", ActualState::Running).await;
    assert_eq!((status.epoch, status.revision_id.as_str()), (7, "rev-7"));

    assert_eq!(give(&mut client, &command(session, 7, order(7))).await, obeyed);
    assert_eq!(give(&mut client, &command(session, 6, order(6))).await, refused("old_epoch"));
    let other = Session(session.0 + 1);
    assert_eq!(give(&mut client, &command(other, 8, order(8))).await, refused("other_session"));
    let remove = Order::Remove { purge: false };
    assert_eq!(give(&mut client, &command(session, 6, remove.clone())).await.1, "old_epoch");
    assert_eq!(give(&mut client, &command(session, 9, remove)).await, obeyed);
    assert_eq!(give(&mut client, &command(session, 8, order(8))).await, refused("buried"));
    agent.stop().await;
}
