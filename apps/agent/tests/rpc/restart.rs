//! What an agent knows outlives it.

use std::time::{Duration, Instant};

use persys_agent::app::{self, Config};
use persys_model::id::WorkloadId;
use persys_proto::agent::v1 as wire;
use persys_proto::agent::v1::{ActualState, WorkloadType};

use crate::node::{
    Client, apply, config, delete, list, request, sim, start, start_with, status, wait,
};
use crate::scheduler::{Kind, serve};

async fn actions(client: &mut Client) -> Vec<wire::AgentAction> {
    let request = wire::ListActionsRequest::default();
    client.list_actions(request).await.unwrap().into_inner().actions
}

#[tokio::test]
async fn the_next_life_knows_everything() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = sim();
    let (agent, mut client) = start(dir.path(), &runtime).await;
    for id in ["a", "b", "c"] {
        apply(&mut client, request(id, "rev-1", "nginx:1")).await;
        wait(&mut client, id, ActualState::Running).await;
    }
    apply(&mut client, request("bad", "rev-1", "fail:NETWORK_ERROR")).await;
    let failed = wait(&mut client, "bad", ActualState::Failed).await;
    delete(&mut client, "c").await;
    let before = wait(&mut client, "a", ActualState::Running).await;
    let did = actions(&mut client).await;
    assert!(did.len() >= 5, "{did:?}");
    agent.stop().await;

    let (agent, mut client) = start(dir.path(), &runtime).await;
    assert_eq!(actions(&mut client).await.get(..did.len()), Some(did.as_slice()));
    let after = wait(&mut client, "a", ActualState::Running).await;
    assert_eq!((after.epoch, &after.revision_id), (before.epoch, &before.revision_id));
    assert_eq!(after.metadata["container.id"], before.metadata["container.id"], "left running");
    let still = wait(&mut client, "bad", ActualState::Failed).await;
    assert_eq!(still.message, failed.message);
    assert_eq!(list(&mut client, WorkloadType::Container).await.len(), 3);
    assert!(status(&mut client, "c").await.is_err());
    let again = apply(&mut client, request("a", "rev-1", "nginx:1")).await;
    assert!(again.skipped, "{again:?}");
    // The tombstone is older than a new wish.
    assert!(apply(&mut client, request("c", "rev-1", "nginx:1")).await.applied);
    wait(&mut client, "c", ActualState::Running).await;
    agent.stop().await;
}

#[tokio::test]
async fn what_ended_meanwhile_is_started_again_once_somebody_asks_for_it() {
    let forever = || {
        let mut request = request("a", "rev-1", "nginx:1");
        let policy = wire::RestartPolicy { policy: "always".to_owned(), max_retry_count: 0 };
        if let Some(wire::workload_spec::Spec::Container(body)) =
            request.spec.as_mut().and_then(|spec| spec.spec.as_mut())
        {
            body.restart_policy = Some(policy);
        }
        request
    };
    let (dir, runtime) = (tempfile::tempdir().unwrap(), sim());
    let (agent, mut client) = start(dir.path(), &runtime).await;
    assert!(apply(&mut client, forever()).await.applied);
    wait(&mut client, "a", ActualState::Running).await;
    agent.stop().await;
    runtime.end(&WorkloadId::fixed("a"), 1);

    // A scheduler has to ask for it: it may have moved the workload.
    let old = serve(Kind::Old).await;
    let schedulers = vec![old.address.to_string()];
    let (agent, mut client) =
        start_with(Config { schedulers, ..config(dir.path(), &runtime) }).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let rests = status(&mut client, "a").await.unwrap();
    assert_ne!(rests.actual_state(), ActualState::Running);
    assert!(apply(&mut client, forever()).await.skipped);
    wait(&mut client, "a", ActualState::Running).await;
    agent.stop().await;
    runtime.end(&WorkloadId::fixed("a"), 1);

    // On its own, the ledger asks.
    let (agent, mut client) = start(dir.path(), &runtime).await;
    wait(&mut client, "a", ActualState::Running).await;
    agent.stop().await;
}

#[tokio::test]
async fn a_life_with_other_facts_is_like_a_restart() {
    let (dir, runtime) = (tempfile::tempdir().unwrap(), sim());
    let leads = serve(Kind::Leads).await;
    let schedulers = vec![leads.address.to_string()];
    let config = Config { schedulers, ..config(dir.path(), &runtime) };
    let settings = config.settings.clone();
    let (agent, mut client) = start_with(config).await;
    assert!(apply(&mut client, request("a", "rev-1", "nginx:1")).await.applied);
    let before = wait(&mut client, "a", ActualState::Running).await;

    let mut facts = agent.handle.read(|agent, _| agent.facts().clone()).await.unwrap();
    facts.incarnation = "another".into();
    facts.types.remove(&persys_model::spec::WorkloadType::Vm);
    agent.handle.begin_anew(facts, settings).await;
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        let joined = leads.fake.registrations.lock().unwrap().last().cloned().unwrap();
        if joined.incarnation == "another" {
            assert_eq!(
                joined.capabilities.unwrap().supported_workload_types,
                ["container", "compose"]
            );
            assert_eq!(joined.inventory.len(), 1);
            break;
        }
        assert!(Instant::now() < deadline, "it did not join anew");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let after = wait(&mut client, "a", ActualState::Running).await;
    assert_eq!(after.epoch, before.epoch);
    assert_eq!(after.metadata["container.id"], before.metadata["container.id"], "left running");
    agent.stop().await;
}

#[tokio::test]
async fn two_agents_do_not_share_a_state() {
    let dir = tempfile::tempdir().unwrap();
    let (agent, _client) = start(dir.path(), &sim()).await;
    let second = app::start(config(dir.path(), &sim())).await;
    assert!(matches!(second, Err(app::Error::Ledger(_))), "{second:?}");
    agent.stop().await;
}

#[tokio::test]
async fn a_lost_ledger_starts_no_second_copy() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = sim();
    let (agent, mut client) = start(dir.path(), &runtime).await;
    apply(&mut client, request("a", "rev-1", "nginx:1")).await;
    let before = wait(&mut client, "a", ActualState::Running).await;
    agent.stop().await;
    std::fs::write(dir.path().join("agent.redb"), "no ledger").unwrap();

    let (agent, mut client) = start(dir.path(), &runtime).await;
    assert!(agent.ledger_moved_to.is_some());
    let after = wait(&mut client, "a", ActualState::Running).await;
    assert_eq!(after.epoch, before.epoch, "known by its labels");
    assert_eq!(after.metadata["container.id"], before.metadata["container.id"]);
    agent.stop().await;
}
