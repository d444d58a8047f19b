//! The CLI of the field against a scheduler of ours: its requests as it sends them, with the one
//! revision it always sends.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use persys_cluster::settings::Settings;
use persys_e2e::stack::{Stack, Wire};
use persys_identity::Role;
use persys_scheduler::place::Place;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::behind_our_back;
use crate::calls::{call, until};
use crate::messages::control as wire;

/// The default of its flag `--revision`, which nobody changes.
const REVISION: &str = "rev-1";

async fn control<Q, A>(channel: &Channel, method: &str, request: Q) -> Result<A, Status>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    call(channel, &format!("persys.control.v1.AgentControl/{method}"), request).await
}

fn named(name: &str) -> wire::Named {
    wire::Named { name: name.to_owned() }
}

/// `workload schedule --id ID spec.json`.
async fn schedule(channel: &Channel, id: &str, spec: wire::WorkloadSpec) -> String {
    let request = wire::ApplyWorkloadRequest {
        workload_id: id.to_owned(),
        spec: Some(spec),
        revision_id: REVISION.to_owned(),
        desired_state: "running".to_owned(),
    };
    let answer: wire::ApplyWorkloadResponse =
        control(channel, "ApplyWorkload", request).await.unwrap();
    assert!(answer.success && answer.failure_reason == 0, "{id}: {answer:?}");
    answer.error_message
}

/// `workload start` and `workload stop`: a desired state and no spec.
async fn desire(channel: &Channel, id: &str, state: &str) {
    let request = wire::ApplyWorkloadRequest {
        workload_id: id.to_owned(),
        desired_state: state.to_owned(),
        ..wire::ApplyWorkloadRequest::default()
    };
    let answer: wire::ApplyWorkloadResponse =
        control(channel, "ApplyWorkload", request).await.unwrap();
    assert!(answer.success, "{id}: {answer:?}");
}

async fn get(channel: &Channel, id: &str) -> Result<wire::WorkloadView, Status> {
    let found: wire::GetWorkloadResponse = control(channel, "GetWorkload", named(id)).await?;
    Ok(found.workload.unwrap())
}

async fn status_is(channel: &Channel, id: &str, word: &str) -> wire::WorkloadView {
    let look = || async { get(channel, id).await.ok().filter(|view| view.status == word) };
    until(&format!("{id} is {word}"), look).await
}

fn spec(kind: &str) -> wire::WorkloadSpec {
    let resources =
        Some(wire::ResourceRequirements { cpu_millicores: 100, memory_mb: 128, disk_gb: 0 });
    wire::WorkloadSpec { kind: kind.to_owned(), resources, ..wire::WorkloadSpec::default() }
}

fn container(image: &str) -> wire::WorkloadSpec {
    let container = Some(wire::ContainerSpec {
        image: image.to_owned(),
        command: ["sh", "-c", "sleep 60"].map(str::to_owned).into(),
        restart_policy: "no".to_owned(),
    });
    wire::WorkloadSpec { container, ..spec("container") }
}

/// The agent's shape of a stack: its file in base64, with the branch that the CLI always sends.
fn stack(image: &str) -> wire::WorkloadSpec {
    let file = format!("services: {{web: {{image: '{image}'}}}}\n");
    let compose = Some(wire::ComposeSpec {
        source_type: "inline".to_owned(),
        git_ref: "main".to_owned(),
        inline_yaml: STANDARD.encode(file),
        ..wire::ComposeSpec::default()
    });
    wire::WorkloadSpec { compose, ..spec("compose") }
}

/// The agent's shape of a machine: the whole file in metadata, and its name as the image.
fn machine(memory_mb: i64) -> wire::WorkloadSpec {
    let file = format!(
        r#"{{"name": "web-vm", "vcpus": 1, "memory_mb": {memory_mb},
            "disks": [{{"path": "/var/lib/libvirt/images/web-vm.qcow2", "device": "vda",
                        "format": "qcow2", "size_gb": 1, "type": "disk", "boot": true}}],
            "networks": [{{"network": "default", "mac_address": "52:54:00:12:34:56",
                           "ip_address": "192.168.122.100"}}],
            "cloud_init": "{}"}}"#,
        STANDARD.encode("#cloud-config\nhostname: web\n")
    );
    let vm = Some(wire::VmSpec {
        vcpus: 1,
        memory_mb,
        os_image: "web-vm".to_owned(),
        ..wire::VmSpec::default()
    });
    let metadata = [("persys.vm_spec_b64".to_owned(), STANDARD.encode(file))].into();
    wire::WorkloadSpec { vm, metadata, ..spec("vm") }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cli_of_the_field_works_without_certificates() {
    everything(Wire::Plain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cli_of_the_field_works_with_certificates() {
    everything(Wire::Mtls).await;
}

async fn everything(wire: Wire) {
    // An agent that is gone is given up soon.
    let settings = Settings { agent_down_failover_ms: 1_000, ..Settings::default() };
    let mut stack_of_ours = Stack::start_with(wire, Place::File, settings).await;
    stack_of_ours.add_agent("n1").await;
    let channel = stack_of_ours.channel(Role::Operator, "alice").await;
    update(&channel, "web", container("nginx:1"), container("nginx:2")).await;
    update(&channel, "Shop", stack("nginx:1"), stack("nginx:2")).await;
    update(&channel, "vm-1", machine(512), machine(640)).await;

    // The ids are kept as they were given, and no two differ in case alone.
    let listed: wire::ListWorkloadsResponse =
        control(&channel, "ListWorkloads", wire::ListWorkloadsRequest::default()).await.unwrap();
    let ids: Vec<_> = listed.workloads.iter().map(|one| one.workload_id.as_str()).collect();
    assert_eq!(ids, ["Shop", "vm-1", "web"]);
    let twin = wire::ApplyWorkloadRequest {
        workload_id: "shop".to_owned(),
        spec: Some(stack("nginx:1")),
        revision_id: REVISION.to_owned(),
        desired_state: "running".to_owned(),
    };
    let refused: wire::ApplyWorkloadResponse =
        control(&channel, "ApplyWorkload", twin).await.unwrap();
    assert!(!refused.success && refused.error_message.contains("capital letters"), "{refused:?}");

    for id in &ids {
        let before = get(&channel, id).await.unwrap();
        behind_our_back::removed(&stack_of_ours, "n1", id).await;
        if *id == "web" {
            // It waits before it repairs that: once is enough.
            behind_our_back::paused(&stack_of_ours, "n1", id).await;
        }
        let after = status_is(&channel, id, "Running").await;
        assert_eq!(after.revision_id, before.revision_id, "{id}");
        assert_eq!(after.assigned_node_id, "n1", "{id}");
    }
    loss(&mut stack_of_ours, &channel, &ids).await;
    for id in ids {
        life(&channel, id).await;
        for node in ["n1", "n2"] {
            assert_eq!(behind_our_back::running(&stack_of_ours, node, id).await, None, "{id}");
        }
    }
    stack_of_ours.stop().await;
}

async fn node_is(channel: &Channel, node: &str, word: &str) {
    let look = || async {
        let found: wire::GetNodeResponse = control(channel, "GetNode", named(node)).await.ok()?;
        found.node.filter(|found| found.status == word)
    };
    until(&format!("{node} is {word}"), look).await;
}

/// The agent of a node is gone, and what runs there goes on: its work runs elsewhere, and in one copy
/// once it is back. What has its disk there waits for it.
async fn loss(stack: &mut Stack, channel: &Channel, ids: &[&str]) {
    stack.add_agent("n2").await;
    stack.lose_agent("n1").await;
    node_is(channel, "n1", "NotReady").await;
    for id in ids.iter().filter(|id| **id != "vm-1") {
        let moved = || async {
            let view = get(channel, id).await.ok()?;
            (view.status == "Running" && view.assigned_node_id == "n2").then_some(())
        };
        until(&format!("{id} runs elsewhere"), moved).await;
    }
    stack.add_agent("n1").await;
    node_is(channel, "n1", "Ready").await;
    for id in ids {
        let once = || async {
            let view = get(channel, id).await.ok().filter(|view| view.status == "Running")?;
            let mut at = Vec::new();
            for node in ["n1", "n2"] {
                if behind_our_back::running(stack, node, id).await.is_some() {
                    at.push(node);
                }
            }
            (at == [view.assigned_node_id.as_str()]).then_some(())
        };
        until(&format!("{id} runs once"), once).await;
    }
}

/// An update under the revision that the CLI always sends is a revision of its own, and says so.
async fn update(
    channel: &Channel,
    id: &str,
    first: wire::WorkloadSpec,
    second: wire::WorkloadSpec,
) {
    assert_eq!(schedule(channel, id, first.clone()).await, "");
    assert_eq!(status_is(channel, id, "Running").await.revision_id, REVISION);
    assert_eq!(schedule(channel, id, first).await, "", "the same again is the same");
    assert_eq!(get(channel, id).await.unwrap().revision_id, REVISION);
    let said = schedule(channel, id, second.clone()).await;
    let view = status_is(channel, id, "Running").await;
    assert!(view.revision_id.starts_with("rev-1+"), "{view:?}");
    assert!(said.contains(&view.revision_id), "{said}");
    assert_eq!(schedule(channel, id, second).await, "");
    assert_eq!(get(channel, id).await.unwrap().revision_id, view.revision_id);
}

/// `workload stop`, `start`, `retry`, `delete`.
async fn life(channel: &Channel, id: &str) {
    for (state, word) in [("Stopped", "Stopped"), ("Running", "Running")] {
        desire(channel, id, state).await;
        status_is(channel, id, word).await;
    }
    let retried: wire::RetryWorkloadResponse =
        control(channel, "RetryWorkload", named(id)).await.unwrap();
    assert!(retried.accepted);
    let deleted: wire::DeleteWorkloadResponse =
        control(channel, "DeleteWorkload", named(id)).await.unwrap();
    assert!(deleted.success && deleted.error_message.is_empty(), "{deleted:?}");
    let gone = || async { get(channel, id).await.err().map(|status| status.code()) };
    assert_eq!(until("it is gone", gone).await, Code::NotFound);
}
