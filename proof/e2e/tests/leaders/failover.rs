//! The leader dies, stops, or stands still.

use std::time::{Duration, Instant};

use persys_agent::app::Reach;
use persys_cluster::settings::Settings;
use persys_model::mode::Mode;
use persys_proto::control::v1 as wire;
use persys_scheduler::standing::Role;

use crate::gate::Way;
use crate::rig::{Client, PATIENCE, Rig, apply, container, events, until};

/// Writes flow again this soon after a leader's death.
const TAKEOVER: Duration = Duration::from_secs(12);

/// Three schedulers, three agents that each know another one first, twelve workloads that run.
async fn at_work() -> Rig {
    let mut rig = Rig::start(3, true, Settings::default()).await;
    for n in 0..3 {
        let reach = if n == 2 { Reach::Stream } else { Reach::Called };
        rig.add_agent(&format!("n{n}"), reach, rig.addresses(n)).await;
    }
    let mut client = rig.operator(0).await;
    for n in 0..12 {
        apply(&mut client, &format!("w{n}")).await;
    }
    for n in 0..12 {
        until(&mut client, &format!("w{n}"), "Running").await;
    }
    rig
}

/// Asks one after the other until it is done.
async fn apply_at_any(clients: &mut [Client], id: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        for client in clients.iter_mut() {
            let asked = client.apply_workload(container(id));
            if let Ok(Ok(answer)) = tokio::time::timeout(Duration::from_secs(1), asked).await {
                assert!(answer.get_ref().success, "{:?}", answer.get_ref());
                return;
            }
        }
        assert!(Instant::now() < deadline, "nobody takes {id}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// After a change of leader all is as before, through whomever one asks.
async fn all_is_as_before(
    rig: &Rig,
    before: &std::collections::BTreeMap<
        persys_model::id::WorkloadId,
        Vec<(persys_model::id::NodeId, u64, String)>,
    >,
) {
    let leader = rig.leader().unwrap();
    let leads = rig.schedulers[leader].grpc.to_string();
    for nth in 0..rig.schedulers.len() {
        // Who has just lost one leader hears of the next within a moment.
        let mut standing = rig.schedulers[nth].standing.clone();
        let knows = standing.wait_for(|now| now.leader.as_deref() == Some(&leads));
        drop(tokio::time::timeout(Duration::from_secs(3), knows).await.unwrap().unwrap());
        let mut client = rig.operator(nth).await;
        let id = format!("through-{nth}");
        apply(&mut client, &id).await;
        until(&mut client, &id, "Running").await;
        let all = client.list_workloads(wire::ListWorkloadsRequest::default()).await.unwrap();
        assert!(all.get_ref().workloads.len() >= 12);
        for kind in ["NodeNotReady", "NodeLost", "WorkloadRestarting", "WorkloadFailed"] {
            assert_eq!(events(&mut client, kind).await, 0, "{kind}");
        }
        let nodes = client.list_nodes(wire::ListNodesRequest::default()).await.unwrap();
        assert!(nodes.get_ref().nodes.iter().all(|node| node.status == "Ready"));
    }
    let after = rig.made().await;
    for (id, copies) in before {
        assert_eq!(after.get(id), Some(copies), "{id} is what it was: same copy, same decision");
    }
    assert!(after.values().all(|copies| copies.len() == 1), "{after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_killed_is_followed_by_another_and_nothing_is_lost() {
    let mut rig = at_work().await;
    let before = rig.made().await;
    let killed = Instant::now();
    rig.take_leader().kill();
    let mut clients = vec![rig.operator(0).await, rig.operator(1).await];
    // What can be read is read on from what is at hand.
    let all = clients[0].list_workloads(wire::ListWorkloadsRequest::default()).await.unwrap();
    assert_eq!(all.get_ref().workloads.len(), 12);
    apply_at_any(&mut clients, "after").await;
    let took = killed.elapsed();
    println!("writes flow again {took:?} after the leader's death");
    assert!(took < TAKEOVER, "{took:?}");
    until(&mut clients[0], "after", "Running").await;
    all_is_as_before(&rig, &before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_stops_gives_its_place_away_at_once() {
    let mut rig = at_work().await;
    let before = rig.made().await;
    let stopped = Instant::now();
    rig.take_leader().stop();
    let mut clients = vec![rig.operator(0).await, rig.operator(1).await];
    apply_at_any(&mut clients, "after").await;
    let took = stopped.elapsed();
    println!("writes flow again {took:?} after the leader began to stop");
    // Its lease alone would take longer than this.
    assert!(took < Duration::from_secs(5), "{took:?}");
    all_is_as_before(&rig, &before).await;
}

/// What it passes on to the leader goes on there; it must not wait for the end of that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_stops_sends_those_it_passed_on_elsewhere() {
    let mut rig = Rig::start(2, true, Settings::default()).await;
    let mut client = rig.operator(1).await;
    let mut events =
        client.watch_events(wire::WatchEventsRequest::default()).await.unwrap().into_inner();
    let stopped = Instant::now();
    rig.schedulers.remove(1).stop();
    let took = stopped.elapsed();
    assert!(took < Duration::from_secs(2), "somebody was waited for: {took:?}");
    let end = loop {
        match events.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the stream ended without a word"),
            Err(status) => break status,
        }
    };
    assert_eq!(
        (end.code(), end.message()),
        (tonic::Code::Unavailable, "the scheduler is stopping")
    );
    assert!(rig.schedulers[0].leads());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_stood_still_harms_nothing_when_it_goes_on() {
    let rig = at_work().await;
    let leader = rig.leader().unwrap();
    assert_eq!(leader, 0);
    let before = rig.made().await;
    // Asked before it stands still, answered after: what it decides then comes too late.
    let mut late = rig.operator(leader).await;
    let frozen = rig.schedulers[leader].freeze();
    let late = tokio::spawn(async move {
        let deleted = wire::DeleteWorkloadRequest { workload_id: "w0".to_owned(), volumes: false };
        late.delete_workload(deleted).await
    });
    let still = Instant::now();
    let mut clients = vec![rig.operator(1).await, rig.operator(2).await];
    apply_at_any(&mut clients, "after").await;
    let took = still.elapsed();
    println!("writes flow again {took:?} after the leader stood still");
    assert!(took < TAKEOVER, "{took:?}");
    until(&mut clients[0], "after", "Running").await;

    drop(frozen);
    // It may have been refused, or passed on to the new leader; it may not have been lost halfway.
    let deleted = tokio::time::timeout(PATIENCE, late).await.unwrap().unwrap();
    let mut standing = rig.schedulers[leader].standing.clone();
    let follows = standing.wait_for(|now| now.role() == Role::Follower && now.leader.is_some());
    tokio::time::timeout(PATIENCE, follows).await.unwrap().unwrap();
    assert_eq!(rig.schedulers.iter().filter(|process| process.leads()).count(), 1);
    let mut before = before;
    let w0 = persys_e2e::cluster::workload("w0");
    let mut client = rig.operator(1).await;
    let request = || wire::GetWorkloadRequest { workload_id: w0.to_string() };
    match deleted {
        Ok(answer) if answer.get_ref().success => {
            before.remove(&w0);
            let deadline = Instant::now() + PATIENCE;
            while client.get_workload(request()).await.is_ok() {
                assert!(Instant::now() < deadline, "w0 stays");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(answer) => panic!("{answer:?}"),
        Err(refused) => {
            assert_eq!(refused.code(), tonic::Code::Unavailable, "{refused}");
        }
    }
    all_is_as_before(&rig, &before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_leave_a_leader_that_lost_its_store_for_one_that_has_it() {
    let rig = at_work().await;
    let before = rig.made().await;
    // For this process alone. It still believes that it leads, and says hold.
    rig.schedulers[0].store.send_replace(Way::Refuses);
    let mut clients = vec![rig.operator(1).await, rig.operator(2).await];
    let deadline = Instant::now() + PATIENCE;
    while !rig.schedulers.iter().skip(1).any(crate::rig::Process::leads) {
        assert!(Instant::now() < deadline, "nobody takes over");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Longer than a lease: who went on to beat to the first one alone would be silent by now.
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(rig.schedulers[0].standing.borrow().mode, Some(Mode::Degraded));
    for kind in ["NodeNotReady", "NodeLost"] {
        assert_eq!(events(&mut clients[0], kind).await, 0, "{kind}");
    }
    apply_at_any(&mut clients, "after").await;
    until(&mut clients[0], "after", "Running").await;
    rig.schedulers[0].store.send_replace(Way::Open);
    let mut standing = rig.schedulers[0].standing.clone();
    let follows = standing.wait_for(|now| now.role() == Role::Follower && now.leader.is_some());
    drop(tokio::time::timeout(PATIENCE, follows).await.unwrap().unwrap());
    all_is_as_before(&rig, &before).await;
}
