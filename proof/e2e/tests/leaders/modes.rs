//! The store goes away under a leader, and comes back.

use std::time::{Duration, Instant};

use persys_agent::app::Reach;
use persys_cluster::settings::Settings;
use persys_identity::Role;
use persys_model::mode::Mode;
use persys_proto::compute::v1 as api;
use persys_proto::control::v1 as wire;
use persys_store::Store as _;
use tonic::Code;

use crate::gate::Way;
use crate::rig::{Client, PATIENCE, Rig, apply, container, events, until};

/// A leader without anything to write knows this soon that its store is away.
const NOTICED: Duration = Duration::from_secs(3);
/// It works again this soon after the store is back.
const BACK: Duration = Duration::from_secs(10);

async fn until_mode(rig: &Rig, mode: Mode, limit: Duration) -> Duration {
    let begun = Instant::now();
    let mut standing = rig.schedulers[0].standing.clone();
    let reached = standing.wait_for(|standing| standing.mode == Some(mode));
    drop(tokio::time::timeout(PATIENCE, reached).await.unwrap().unwrap());
    let took = begun.elapsed();
    assert!(took < limit, "{mode:?} after {took:?}");
    took
}

/// Everything that changes something is refused, and says when to come again.
async fn every_change_is_refused(rig: &Rig, client: &mut Client) {
    let name = || "a".to_owned();
    let refused = [
        client.apply_workload(container("c")).await.unwrap_err(),
        client
            .delete_workload(wire::DeleteWorkloadRequest { workload_id: name(), volumes: false })
            .await
            .unwrap_err(),
        client
            .retry_workload(wire::RetryWorkloadRequest { workload_id: name() })
            .await
            .unwrap_err(),
        client
            .drain_node(wire::DrainNodeRequest { node_id: "n1".to_owned(), ..Default::default() })
            .await
            .unwrap_err(),
        rig.compute(0)
            .await
            .restart(api::RestartRequest { workload_id: name() })
            .await
            .unwrap_err(),
    ];
    for refused in refused {
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        assert!(refused.message().contains("degraded mode"), "{refused}");
        assert!(refused.metadata().contains_key("retry-after"), "{refused}");
    }
}

async fn nobody_joins_and_who_beats_keeps_still(rig: &Rig) {
    let mut stranger = Client::new(rig.channel(rig.schedulers[0].grpc, Role::Agent, "n2").await);
    let registration = wire::RegisterNodeRequest {
        node_id: "n2".to_owned(),
        grpc_endpoint: "127.0.0.1:9".to_owned(),
        host_id: "host-n2".to_owned(),
        incarnation: "life-1".to_owned(),
        capabilities: Some(wire::NodeCapabilities {
            cpu_total_millicores: 4_000,
            memory_total_mb: 8_192,
            supported_workload_types: vec!["container".to_owned()],
            ..wire::NodeCapabilities::default()
        }),
        ..wire::RegisterNodeRequest::default()
    };
    let answer = stranger.register_node(registration).await.unwrap().into_inner();
    assert!(!answer.accepted && answer.reason.contains("degraded"), "{answer:?}");
    let mut known = Client::new(rig.channel(rig.schedulers[0].grpc, Role::Agent, "n1").await);
    let node = persys_model::id::NodeId::new("n1").unwrap();
    let session = rig.agents[&node].handle.read(|agent, _| agent.session()).await.unwrap().unwrap();
    let beat = wire::HeartbeatRequest {
        node_id: "n1".to_owned(),
        session: session.0,
        seq: 1,
        ..wire::HeartbeatRequest::default()
    };
    let answer = known.heartbeat(beat).await.unwrap().into_inner();
    assert!(answer.acknowledged && answer.drain_node && answer.hold, "{answer:?}");
}

async fn nothing_moves_while_the_store_is_away(way: Way) {
    let mut rig = Rig::start(1, true, Settings::default()).await;
    rig.add_agent("n1", Reach::Called, rig.addresses(0)).await;
    let mut client = rig.operator(0).await;
    for id in ["a", "b"] {
        apply(&mut client, id).await;
        until(&mut client, id, "Running").await;
    }
    let before = rig.made().await;
    // Idle: no write tells of the loss, only renewals can.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let head = rig.memory.peek().await.unwrap().snapshot.head;
    rig.schedulers[0].store.send_replace(way);
    let noticed = until_mode(&rig, Mode::Degraded, NOTICED).await;
    println!("{way:?}: degraded after {noticed:?}");

    let page = rig.schedulers[0].page("/health").await;
    assert!(page.starts_with("HTTP/1.1 503"), "{page}");
    for part in ["\"status\":", "\"mode\":\"degraded\"", "\"reason\":", "\"modeChangedAt\":"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(rig.schedulers[0].page("/metrics").await.starts_with("HTTP/1.1 200"));

    every_change_is_refused(&rig, &mut client).await;
    nobody_joins_and_who_beats_keeps_still(&rig).await;
    // What was known is shown, with its age.
    let all = client.list_workloads(wire::ListWorkloadsRequest::default()).await.unwrap();
    assert_eq!(all.metadata().get("persys-role").unwrap(), "leader");
    assert!(all.metadata().contains_key("persys-copy-age-ms"));
    assert_eq!(all.get_ref().workloads.len(), 2);
    let nodes = client.list_nodes(wire::ListNodesRequest::default()).await.unwrap();
    assert_eq!(nodes.get_ref().nodes.len(), 1);

    // Longer than a lease and its grace: nobody is judged meanwhile.
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(rig.memory.peek().await.unwrap().snapshot.head, head, "the store stands still");
    assert_eq!(rig.made().await, before, "and so does everything else");

    rig.schedulers[0].store.send_replace(Way::Open);
    let back = until_mode(&rig, Mode::Normal, BACK).await;
    println!("{way:?}: normal after {back:?}");
    apply(&mut client, "c").await;
    until(&mut client, "c", "Running").await;
    let mut after = rig.made().await;
    after.remove(&persys_e2e::cluster::workload("c"));
    assert_eq!(after, before, "nothing was made anew");
    for kind in ["NodeNotReady", "NodeLost", "WorkloadRestarting"] {
        assert_eq!(events(&mut client, kind).await, 0, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_moves_while_the_store_refuses() {
    nothing_moves_while_the_store_is_away(Way::Refuses).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_moves_while_the_store_hangs() {
    nothing_moves_while_the_store_is_away(Way::Hangs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_store_is_left_alone() {
    let mut rig = Rig::start(2, true, Settings::default()).await;
    rig.add_agent("n1", Reach::Called, rig.addresses(1)).await;
    let mut client = rig.operator(0).await;
    for id in ["a", "b"] {
        apply(&mut client, id).await;
        until(&mut client, id, "Running").await;
    }
    let before = rig.made().await;
    // Those who follow have heard how far the store has come.
    tokio::time::sleep(Duration::from_secs(2)).await;
    rig.memory.wipe();
    let deadline = Instant::now() + PATIENCE;
    let leader = loop {
        let stands =
            |process: &crate::rig::Process| process.standing.borrow().mode == Some(Mode::Recovery);
        if let Some(leader) = rig.schedulers.iter().position(stands) {
            break leader;
        }
        assert!(Instant::now() < deadline, "the loss is not noticed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let page = rig.schedulers[leader].page("/health").await;
    assert!(page.starts_with("HTTP/1.1 503") && page.contains("\"mode\":\"recovery\""), "{page}");
    for nth in 0..2 {
        let refused = rig.operator(nth).await.apply_workload(container("c")).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        assert!(refused.metadata().contains_key("retry-after"), "{refused}");
    }
    let mut agent = Client::new(rig.channel(rig.schedulers[leader].grpc, Role::Agent, "n1").await);
    let beat = wire::HeartbeatRequest {
        node_id: "n1".to_owned(),
        session: 1,
        seq: 1,
        ..wire::HeartbeatRequest::default()
    };
    let heard = agent.heartbeat(beat).await.unwrap().into_inner();
    assert!(heard.re_register && heard.drain_node && heard.hold, "{heard:?}");

    // Its agent tells what it holds, through whichever scheduler it knows.
    let mut compute = rig.compute(leader).await;
    let deadline = Instant::now() + PATIENCE;
    while compute.standing(api::StandingRequest {}).await.unwrap().get_ref().heard != ["n1"] {
        assert!(Instant::now() < deadline, "n1 is not heard");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(rig.memory.peek().await.unwrap().snapshot.head, None, "nothing is written");
    assert_eq!(rig.made().await, before);

    // An agent of the plain contract reads only `drain_node`: it is to start nothing, and not refused.
    let mut old = Client::new(rig.channel(rig.schedulers[leader].grpc, Role::Agent, "old").await);
    let beat =
        wire::HeartbeatRequest { node_id: "old".to_owned(), ..wire::HeartbeatRequest::default() };
    let heard = old.heartbeat(beat.clone()).await.unwrap().into_inner();
    assert!(heard.acknowledged && heard.drain_node && !heard.re_register, "{heard:?}");
    assert!(heard.lease_expires_at.is_some(), "{heard:?}");
    let start = api::RecoverStart { way: "from_agents".to_owned(), dry_run: false };
    let input = api::RecoverInput { input: Some(api::recover_input::Input::Start(start)) };
    let recovered = compute.recover(tokio_stream::iter([input])).await.unwrap().into_inner();
    assert!(recovered.done, "{recovered:?}");
    // Afterwards it hears that it is not known, which makes it register anew.
    let unknown = old.heartbeat(beat).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound, "{unknown}");
    assert_eq!(rig.made().await, before, "nothing was started a second time");
}
