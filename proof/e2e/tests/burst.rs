//! As much as fits is submitted at once: all of it runs, once, evenly, and nothing more.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use persys_agent::host;
use persys_e2e::stack::{Stack, Wire};
use persys_identity::Role;
use persys_model::id::{NodeId, WorkloadId};
use persys_node::input::Existing;
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use persys_runtime::Runtime as _;
use persys_runtime::sim::Sim;
use tokio::task::JoinSet;
use tonic::transport::Channel;

const NODES: usize = 20;
const PER_NODE: usize = 50;
const AT_A_TIME: usize = 64;
/// Not divisible by the nodes, so that "even" has to mean "within one".
const FIRST: usize = 510;

type Client = AgentControlClient<Channel>;

/// Exactly fifty of this fit on a node, whatever machine this is: agents offer all its cores.
fn cpu() -> i64 {
    let cores = i64::try_from(host::capacity().cpu_millicores / 1000).unwrap();
    cores * 1000 / i64::try_from(PER_NODE).unwrap()
}

fn request(nth: usize) -> wire::ApplyWorkloadRequest {
    let container = wire::ContainerSpec { image: "app:1".to_owned(), ..Default::default() };
    let resources = wire::ResourceRequirements { cpu_millicores: cpu(), memory_mb: 4, disk_gb: 0 };
    wire::ApplyWorkloadRequest {
        workload_id: format!("w{nth}"),
        spec: Some(wire::WorkloadSpec {
            r#type: "container".to_owned(),
            resources: Some(resources),
            workload: Some(wire::workload_spec::Workload::Container(container)),
            ..Default::default()
        }),
        ..Default::default()
    }
}

async fn submit(client: &Client, which: Range<usize>) {
    let next = Arc::new(AtomicUsize::new(which.start));
    let mut tasks = JoinSet::new();
    for _ in 0..AT_A_TIME {
        let (mut client, next, end) = (client.clone(), Arc::clone(&next), which.end);
        tasks.spawn(async move {
            loop {
                let nth = next.fetch_add(1, Ordering::Relaxed);
                if nth >= end {
                    return;
                }
                let answer = client.apply_workload(request(nth)).await.unwrap().into_inner();
                assert!(answer.success, "{nth}: {}", answer.error_message);
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}

/// What the runtimes themselves have had, looked at again and again.
struct Eyes {
    sims: BTreeMap<NodeId, Sim>,
    /// Where each workload was first seen.
    seen: BTreeMap<WorkloadId, NodeId>,
    client: Client,
}

impl Eyes {
    /// Looks once; gives how many run on each node.
    async fn look(&mut self) -> BTreeMap<NodeId, usize> {
        let mut counts = BTreeMap::new();
        for (node, sim) in &self.sims {
            let there = sim.list().await.unwrap();
            assert!(there.len() <= PER_NODE, "{node} has {} workloads", there.len());
            let running = there.iter().filter(|one| one.state == Existing::Running).count();
            counts.insert(node.clone(), running);
            for one in there {
                let first = self.seen.entry(one.workload.clone()).or_insert_with(|| node.clone());
                assert_eq!(first, node, "{} is on two nodes", one.workload);
            }
        }
        counts
    }

    /// Looks until so many run.
    async fn until(&mut self, count: usize) -> BTreeMap<NodeId, usize> {
        let deadline = Instant::now() + Duration::from_secs(40);
        loop {
            let counts = self.look().await;
            if counts.values().sum::<usize>() == count {
                return counts;
            }
            if Instant::now() >= deadline {
                let mut client = self.client.clone();
                let all = client.list_workloads(wire::ListWorkloadsRequest::default()).await;
                let mut all = all.unwrap().into_inner().workloads;
                all.retain(|one| one.status != "Running");
                all.truncate(3);
                panic!("not {count} in time: {counts:?}; among the others: {all:#?}");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn get(client: &mut Client, nth: usize) -> wire::WorkloadView {
    let request = wire::GetWorkloadRequest { workload_id: format!("w{nth}") };
    client.get_workload(request).await.unwrap().into_inner().workload.unwrap()
}

/// Waits until the scheduler, too, says that so many run.
async fn told(client: &mut Client, count: usize) -> Vec<wire::WorkloadView> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let request =
            wire::ListWorkloadsRequest { status: "Running".to_owned(), ..Default::default() };
        let running = client.list_workloads(request).await.unwrap().into_inner().workloads;
        if running.len() == count {
            return running;
        }
        if Instant::now() >= deadline {
            let all = client.list_workloads(wire::ListWorkloadsRequest::default()).await.unwrap();
            let mut left = all.into_inner().workloads;
            left.retain(|one| one.status != "Running");
            panic!("{} of {count} run; the others: {left:#?}", running.len());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_fills_the_cluster_exactly_and_evenly() {
    let mut stack = Stack::start(Wire::Plain).await;
    for nth in 0..NODES {
        stack.add_agent(&format!("n{nth:02}")).await;
    }
    let mut client = AgentControlClient::new(stack.channel(Role::Operator, "alice").await)
        .max_decoding_message_size(usize::MAX);
    let all = NODES * PER_NODE;
    let mut eyes = Eyes { sims: stack.sims.clone(), seen: BTreeMap::new(), client: client.clone() };

    let (counts, ()) = tokio::join!(eyes.until(FIRST), submit(&client, 0..FIRST));
    let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
    assert!(most - least <= 1, "not spread evenly: {counts:?}");

    let (counts, ()) = tokio::join!(eyes.until(all), submit(&client, FIRST..all));
    assert!(counts.values().all(|count| *count == PER_NODE), "{counts:?}");
    let running = told(&mut client, all).await;
    for view in &running {
        let seen = &eyes.seen[&WorkloadId::new(&view.workload_id).unwrap()];
        assert_eq!(view.assigned_node_id, seen.as_str(), "{}", view.workload_id);
    }

    submit(&client, all..all + 1).await;
    let waits = get(&mut client, all).await;
    assert_eq!((&*waits.status, &*waits.assigned_node_id), ("Pending", ""));
    let reason = waits.reason.unwrap();
    assert!(!reason.code.is_empty() && reason.last_transition.is_some(), "{reason:?}");
    assert!(waits.why.contains("cpu"), "it does not say what is missing: {:?}", waits.why);

    // Room for one more is taken by the one who waits, and by nobody else.
    let request = wire::DeleteWorkloadRequest { workload_id: "w0".to_owned(), volumes: false };
    assert!(client.delete_workload(request).await.unwrap().into_inner().success);
    let running = told(&mut client, all).await;
    assert!(running.iter().any(|view| view.workload_id == format!("w{all}")));
    eyes.look().await;
    stack.stop().await;
}
