//! Managed volumes as the control plane shows them: where the data is, who uses it, and that it
//! keeps its workload.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may stop")]

use std::time::{Duration, Instant};

use persys_e2e::stack::{Stack, Wire};
use persys_identity::Role;
use persys_proto::compute::v1 as compute;
use persys_proto::compute::v1::compute_client::ComputeClient;
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use persys_proto::control::v1::workload_spec::Workload;
use tonic::Code;
use tonic::transport::Channel;

type Client = AgentControlClient<Channel>;

const PATIENCE: Duration = Duration::from_secs(20);

fn request(id: &str, policy: &str) -> wire::ApplyWorkloadRequest {
    let volume = wire::ManagedVolumeSpec {
        name: format!("{id}-data"),
        driver: "local".to_owned(),
        size_gb: 2,
        mount_path: "/data".to_owned(),
        retain_policy: policy.to_owned(),
        ..wire::ManagedVolumeSpec::default()
    };
    let container = wire::ContainerSpec {
        image: "db:1".to_owned(),
        managed_volumes: vec![volume],
        ..wire::ContainerSpec::default()
    };
    wire::ApplyWorkloadRequest {
        workload_id: id.to_owned(),
        spec: Some(wire::WorkloadSpec {
            r#type: "container".to_owned(),
            workload: Some(Workload::Container(container)),
            ..wire::WorkloadSpec::default()
        }),
        ..wire::ApplyWorkloadRequest::default()
    }
}

async fn until(client: &mut Client, id: &str, status: &str) -> wire::WorkloadView {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let request = wire::GetWorkloadRequest { workload_id: id.to_owned() };
        let view = client.get_workload(request).await.unwrap().into_inner().workload.unwrap();
        if view.status == status {
            return view;
        }
        assert!(Instant::now() < deadline, "{view:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn disks(client: &mut Client) -> Vec<wire::DiskView> {
    client.list_disks(wire::ListDisksRequest {}).await.unwrap().into_inner().disks
}

#[tokio::test(flavor = "multi_thread")]
async fn disks_are_shown_with_their_node_and_their_users() {
    let mut stack = Stack::start(Wire::Mtls).await;
    let mut client = AgentControlClient::new(stack.channel(Role::Operator, "me").await);
    assert!(disks(&mut client).await.is_empty());
    for (id, policy) in [("db", "Retain"), ("cache", "Delete")] {
        let applied = client.apply_workload(request(id, policy)).await.unwrap().into_inner();
        assert!(applied.success, "{}", applied.error_message);
    }
    let waiting = disks(&mut client).await;
    assert_eq!(waiting.len(), 2);
    assert!(waiting.iter().all(|disk| disk.phase == "Pending" && disk.attached_nodes.is_empty()));

    stack.add_agent("n1").await;
    until(&mut client, "db", "Running").await;
    until(&mut client, "cache", "Running").await;
    let all = disks(&mut client).await;
    let ids: Vec<_> = all.iter().map(|disk| disk.id.as_str()).collect();
    assert_eq!(ids, ["local:cache-data", "local:db-data"]);
    let one = &all[1];
    assert_eq!((one.phase.as_str(), one.size_gb, one.node_id.as_str()), ("Attached", 2, "n1"));
    assert_eq!(
        (one.workload_refs.as_slice(), one.retain_policy.as_str()),
        (&["db".to_owned()][..], "Retain")
    );

    for disk_id in ["db-data", "local:db-data"] {
        let request = wire::GetDiskRequest { disk_id: disk_id.to_owned() };
        assert_eq!(client.get_disk(request).await.unwrap().into_inner().disk.as_ref(), Some(one));
    }
    let absent = wire::GetDiskRequest { disk_id: "nfs:db-data".to_owned() };
    assert_eq!(client.get_disk(absent).await.unwrap_err().code(), Code::NotFound);

    // One in use is not deleted under anybody.
    let used = wire::DeleteDiskRequest { disk_id: "db-data".to_owned(), force: true };
    let answer = client.delete_disk(used).await.unwrap().into_inner();
    assert!(!answer.success && answer.error_message.contains("used by db"), "{answer:?}");

    // Deleted, one goes with its workload and the other stays listed, with where its data is.
    for workload_id in ["cache", "db"] {
        let request =
            wire::DeleteWorkloadRequest { workload_id: workload_id.to_owned(), volumes: false };
        client.delete_workload(request).await.unwrap();
    }
    let kept = disk_until(&mut client, "db-data", |disk| disk.phase == "Retained").await;
    assert_eq!((kept.node_id.as_str(), kept.workload_refs.len()), ("n1", 0));
    while disks(&mut client).await.len() > 1 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    // On another cluster of nodes the next workload of that data goes to where it is.
    stack.add_agent("n2").await;
    stack.add_agent("n3").await;
    let mut next = request("db2", "Retain");
    if let Some(wire::WorkloadSpec { workload: Some(Workload::Container(body)), .. }) =
        next.spec.as_mut()
    {
        body.managed_volumes[0].name = "db-data".to_owned();
    }
    client.apply_workload(next).await.unwrap();
    assert_eq!(until(&mut client, "db2", "Running").await.assigned_node_id, "n1");
    stack.stop().await;
}

async fn disk_until(
    client: &mut Client,
    id: &str,
    is: impl Fn(&wire::DiskView) -> bool,
) -> wire::DiskView {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let all = disks(client).await;
        if let Some(found) = all.iter().find(|disk| disk.name == id && is(disk)) {
            return found.clone();
        }
        assert!(Instant::now() < deadline, "{all:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_is_made_used_and_deleted_by_itself() {
    let mut stack = Stack::start(Wire::Mtls).await;
    stack.add_agent("n1").await;
    stack.add_agent("n2").await;
    let mut client = AgentControlClient::new(stack.channel(Role::Operator, "me").await);
    let wanted = wire::CreateDiskRequest {
        name: "own".to_owned(),
        size_gb: 2,
        node_id: "n2".to_owned(),
        ..Default::default()
    };
    let made = client.create_disk(wanted.clone()).await.unwrap().into_inner().disk.unwrap();
    assert_eq!((made.id.as_str(), made.phase.as_str()), ("local:own", "Available"));
    assert!(made.standalone && made.retain_policy == "Retain" && made.node_id == "n2");
    client.create_disk(wanted).await.unwrap();
    let faulty = wire::CreateDiskRequest {
        name: "../x".to_owned(),
        driver: "tape".to_owned(),
        ..Default::default()
    };
    let refused = client.create_disk(faulty).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("disk.name") && refused.message().contains("disk.driver"));

    let mut using = request("db", "Retain");
    if let Some(wire::WorkloadSpec { workload: Some(Workload::Container(body)), .. }) =
        using.spec.as_mut()
    {
        body.managed_volumes[0].name = "own".to_owned();
    }
    client.apply_workload(using).await.unwrap();
    assert_eq!(until(&mut client, "db", "Running").await.assigned_node_id, "n2");
    let delete = || wire::DeleteDiskRequest { disk_id: "local:own".to_owned(), force: true };
    let answer = client.delete_disk(delete()).await.unwrap().into_inner();
    assert!(!answer.success && answer.error_message.contains("persys delete db"), "{answer:?}");
    let gone = wire::DeleteWorkloadRequest { workload_id: "db".to_owned(), volumes: false };
    client.delete_workload(gone).await.unwrap();
    disk_until(&mut client, "own", |disk| disk.phase == "Retained").await;
    let answer = client.delete_disk(delete()).await.unwrap().into_inner();
    assert!(answer.success && answer.error_message.is_empty(), "{answer:?}");
    let deadline = Instant::now() + PATIENCE;
    while !disks(&mut client).await.is_empty() {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(client.delete_disk(delete()).await.unwrap_err().code(), Code::NotFound);
    stack.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn data_keeps_its_workload_and_says_so() {
    let mut stack = Stack::start(Wire::Mtls).await;
    stack.add_agent("n1").await;
    let channel = stack.channel(Role::Operator, "me").await;
    let mut client = AgentControlClient::new(channel.clone());
    let mut look = ComputeClient::new(channel);
    client.apply_workload(request("db", "Retain")).await.unwrap();
    until(&mut client, "db", "Running").await;
    stack.add_agent("n2").await;
    let why = compute::WhyRequest { workload_id: "db".to_owned(), ..Default::default() };
    let said = format!("{:?}", look.why(why.clone()).await.unwrap().into_inner());
    assert!(said.contains("will not move: its data is on n1"), "{said}");

    // Emptying its node does not take it from its data.
    let drain = wire::DrainNodeRequest { node_id: "n1".to_owned(), reason: String::new() };
    client.drain_node(drain).await.unwrap();
    let said = format!("{:?}", look.why(why).await.unwrap().into_inner());
    assert!(said.contains("will not move: its data is on n1"), "{said}");
    let disk = disks(&mut client).await.remove(0);
    assert_eq!((disk.node_id.as_str(), disk.attached_nodes), ("n1", vec!["n1".to_owned()]));
    stack.stop().await;
}
