//! Bad input through gRPC: a clear answer, nothing stored, nothing started. Single fields are tried
//! beside the code that checks them; here it is what comes over the wire, whole messages at a time.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop")]

use std::time::SystemTime;

use bytes::Bytes;
use persys_cluster::record::Head;
use persys_codec::raw::Raw;
use persys_e2e::stack::{Stack, Wire};
use persys_identity::Role;
use persys_proto::agent::v1 as agent;
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::FailureReason;
use persys_runtime::Runtime as _;
use prost::Message as _;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

const CONTROL: &str = "persys.control.v1.AgentControl";
const AGENT: &str = "persys.agent.v1.AgentService";
/// Both programs read messages up to this size.
const LARGEST: usize = 4 * 1024 * 1024;

async fn send(channel: &Channel, method: &str, message: Vec<u8>) -> Result<Bytes, Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let path: PathAndQuery = format!("/{method}").parse().unwrap();
    Ok(client.unary(Request::new(Bytes::from(message)), path, Raw).await?.into_inner())
}

/// Sends a message to `ApplyWorkload` of the scheduler; gives the refusal that is in the answer.
async fn refused(channel: &Channel, message: Vec<u8>) -> wire::ApplyWorkloadResponse {
    let answer = send(channel, &format!("{CONTROL}/ApplyWorkload"), message).await.unwrap();
    let answer = wire::ApplyWorkloadResponse::decode(answer).unwrap();
    assert!(!answer.success && !answer.error_message.is_empty(), "{answer:?}");
    answer
}

/// A cluster of one node, and how it was before anything bad came.
struct Before {
    stack: Stack,
    operator: Channel,
    head: Head,
    written: SystemTime,
}

impl Before {
    async fn new() -> Self {
        let mut stack = Stack::start(Wire::Plain).await;
        stack.add_agent("n1").await;
        let operator = stack.channel(Role::Operator, "alice").await;
        let head = stack.head().await;
        let written = std::fs::metadata(stack.store()).unwrap().modified().unwrap();
        Self { stack, operator, head, written }
    }

    /// Nothing was stored, nothing was started, and a good request is still served.
    async fn same(self) {
        assert_eq!(self.stack.head().await, self.head, "something was stored");
        let written = std::fs::metadata(self.stack.store()).unwrap().modified().unwrap();
        assert_eq!(written, self.written, "the file was written to");
        for (node, sim) in &self.stack.sims {
            let there = sim.list().await.unwrap();
            assert!(there.is_empty(), "{node} runs {there:?}");
        }
        let good = container("web").encode_to_vec();
        let answer = send(&self.operator, &format!("{CONTROL}/ApplyWorkload"), good).await.unwrap();
        assert!(wire::ApplyWorkloadResponse::decode(answer).unwrap().success);
        assert_ne!(self.stack.head().await, self.head, "a good one is stored");
        self.stack.stop().await;
    }
}

fn container(id: &str) -> wire::ApplyWorkloadRequest {
    let body = wire::ContainerSpec { image: "app:1".to_owned(), ..Default::default() };
    wire::ApplyWorkloadRequest {
        workload_id: id.to_owned(),
        spec: Some(wire::WorkloadSpec {
            r#type: "container".to_owned(),
            workload: Some(wire::workload_spec::Workload::Container(body)),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// A container, changed.
fn changed(edit: impl FnOnce(&mut wire::WorkloadSpec)) -> Vec<u8> {
    let mut request = container("bad");
    edit(request.spec.as_mut().unwrap());
    request.encode_to_vec()
}

fn body(spec: &mut wire::WorkloadSpec) -> &mut wire::ContainerSpec {
    match &mut spec.workload {
        Some(wire::workload_spec::Workload::Container(body)) => body,
        other => unreachable!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_contradicts_itself_is_refused_by_name() {
    let before = Before::new().await;
    let channel = &before.operator;
    let vm = || wire::workload_spec::Workload::Vm(wire::VmSpec::default());
    let port = |host_port, container_port, protocol: &str| wire::Port {
        host_port,
        container_port,
        protocol: protocol.to_owned(),
        host_ip: String::new(),
    };
    for (bad, named) in [
        (changed(|spec| spec.r#type = "vm".to_owned()), "type"),
        (changed(|spec| spec.workload = Some(vm())), "type"),
        (changed(|spec| spec.workload = None), "container"),
        (changed(|spec| spec.r#type = "Balloon".to_owned()), "spec.type"),
        (changed(|spec| body(spec).image.clear()), "image"),
        (changed(|spec| body(spec).image = "a b\n".to_owned()), "image"),
        (changed(|spec| body(spec).restart_policy = "sometimes".to_owned()), "restart_policy"),
        (changed(|spec| body(spec).ports = vec![port(70_000, 80, "tcp")]), "host_port"),
        (changed(|spec| body(spec).ports = vec![port(80, 80, "smtp")]), "protocol"),
        (changed(|spec| body(spec).ports = vec![port(80, 80, "tcp"); 2]), "ports"),
        (
            changed(|spec| {
                spec.resources =
                    Some(wire::ResourceRequirements { memory_mb: i64::MIN, ..Default::default() });
            }),
            "memory_mb",
        ),
    ] {
        let answer = refused(channel, bad).await;
        assert_eq!(answer.failure_reason(), FailureReason::InvalidSpec, "{answer:?}");
        assert!(answer.error_message.contains(named), "{named}: {}", answer.error_message);
    }

    // All faults at once, not the first alone.
    let many = changed(|spec| {
        body(spec).image.clear();
        body(spec).restart_policy = "sometimes".to_owned();
        body(spec).ports = vec![port(-1, 0, "tcp")];
    });
    let told = refused(channel, many).await.error_message;
    for named in ["image", "restart_policy", "host_port", "container_port"] {
        assert!(told.contains(named), "{named} is not in {told}");
    }

    // Both kinds in one message: the last one on the wire counts, and it is not what the type says.
    let mut both = container("bad").encode_to_vec();
    let other = wire::ApplyWorkloadRequest {
        spec: Some(wire::WorkloadSpec { workload: Some(vm()), ..Default::default() }),
        ..Default::default()
    };
    both.extend(other.encode_to_vec());
    let told = refused(channel, both).await.error_message;
    assert!(told.contains("type"), "{told}");
    before.same().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_none_are_refused_everywhere() {
    let before = Before::new().await;
    let long = "x".repeat(10_000);
    for name in ["../../etc/passwd", "a/b", "a b", "a\0b", "-rf", "Ünder", "$(reboot)", &long] {
        let answer = refused(&before.operator, container(name).encode_to_vec()).await;
        assert!(answer.error_message.contains("workload_id"), "{}", answer.error_message);
        assert!(answer.error_message.len() < 2_000, "what was sent comes back in full");
        let named = wire::GetWorkloadRequest { workload_id: name.to_owned() }.encode_to_vec();
        for method in ["GetWorkload", "DeleteWorkload", "RetryWorkload", "GetNode"] {
            let answer =
                send(&before.operator, &format!("{CONTROL}/{method}"), named.clone()).await;
            let told = answer.unwrap_err();
            assert_eq!(told.code(), Code::InvalidArgument, "{method} {name:?}: {told}");
            assert!(!told.message().is_empty());
        }
    }
    before.same().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_is_not_read() {
    let before = Before::new().await;
    let large = changed(|spec| {
        spec.metadata.insert("note".to_owned(), "x".repeat(LARGEST));
    });
    let at_agent = before.stack.agent_channel("n1").await;
    for (channel, method) in [
        (&before.operator, format!("{CONTROL}/ApplyWorkload")),
        (&before.operator, format!("{CONTROL}/RegisterNode")),
        (&before.operator, format!("{CONTROL}/Heartbeat")),
        (&at_agent, format!("{AGENT}/ApplyWorkload")),
    ] {
        let told = send(channel, &method, large.clone()).await.unwrap_err();
        assert_eq!(told.code(), Code::OutOfRange, "{method}: {told}");
        assert!(told.message().contains("limit"), "{told}");
    }
    // Below that, what is kept for ever has limits of its own.
    let note = changed(|spec| {
        spec.metadata.insert("note".to_owned(), "x".repeat(LARGEST / 2));
    });
    let told = refused(&before.operator, note).await.error_message;
    assert!(told.contains("metadata") && told.len() < 2_000, "{told:.200}");
    before.same().await;
}

/// Numbers that look random and are the same in every run.
struct Draw(u64);

impl Draw {
    fn byte(&mut self) -> u8 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0.to_be_bytes()[0]
    }
}

/// Random bytes, messages cut short, and messages with one byte changed.
fn broken(draw: &mut Draw, whole: &[u8]) -> [Vec<u8>; 3] {
    let length = usize::from(draw.byte());
    let noise = (0..length).map(|_| draw.byte()).collect();
    let cut =
        whole.iter().copied().take(1 + usize::from(draw.byte()) % (whole.len() - 1)).collect();
    let mut flipped = whole.to_vec();
    // The name is left out of it: another good name would be another good request.
    let at = whole.len() - 1 - usize::from(draw.byte()) % (whole.len() / 2);
    if let Some(byte) = flipped.get_mut(at) {
        *byte ^= 0x80 | draw.byte();
    }
    [noise, cut, flipped]
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_message_are_answered() {
    let before = Before::new().await;
    let at_agent = before.stack.agent_channel("n1").await;
    // A request without an image is refused however it is damaged; all that is tried is the reading.
    let whole = changed(|spec| body(spec).image.clear());
    let mut draw = Draw(7);
    let mut unreadable = 0;
    for _ in 0..40 {
        for message in broken(&mut draw, &whole) {
            for method in
                ["ApplyWorkload", "DeleteWorkload", "RegisterNode", "Heartbeat", "DrainNode"]
            {
                let answer =
                    send(&before.operator, &format!("{CONTROL}/{method}"), message.clone()).await;
                unreadable += u32::from(is_refusal(method, answer));
            }
            for method in ["ApplyWorkload", "DeleteWorkload"] {
                let answer = send(&at_agent, &format!("{AGENT}/{method}"), message.clone()).await;
                unreadable += u32::from(is_refusal(method, answer));
            }
        }
    }
    assert!(unreadable > 100, "hardly anything was unreadable: {unreadable}");
    before.same().await;
}

/// Says whether the message could not be read; panics when it was obeyed.
fn is_refusal(method: &str, answer: Result<Bytes, Status>) -> bool {
    match answer {
        Err(status) => {
            let fitting = [Code::InvalidArgument, Code::Internal, Code::NotFound];
            assert!(fitting.contains(&status.code()), "{method}: {status}");
            assert!(!status.message().is_empty(), "{method}: no words");
            status.code() == Code::Internal
        }
        Ok(bytes) => {
            // `success`, `accepted`, `applied` and `acknowledged` are all field 1; proto3 does not
            // write what is false. To delete what is not there is no change at an agent.
            let obeyed = bytes.starts_with(&[0x08, 0x01]);
            assert!(!obeyed || method == "DeleteWorkload", "{method} was obeyed: {bytes:?}");
            false
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_takes_no_unknown_words() {
    let before = Before::new().await;
    let channel = before.stack.agent_channel("n1").await;
    let good = || agent::ApplyWorkloadRequest {
        id: "bad".to_owned(),
        r#type: agent::WorkloadType::Container.into(),
        revision_id: "r1".to_owned(),
        desired_state: agent::DesiredState::Running.into(),
        spec: Some(agent::WorkloadSpec {
            spec: Some(agent::workload_spec::Spec::Container(agent::ContainerSpec {
                image: "app:1".to_owned(),
                ..Default::default()
            })),
        }),
        ..Default::default()
    };
    let vm = agent::workload_spec::Spec::Vm(agent::VmSpec::default());
    for bad in [
        agent::ApplyWorkloadRequest::default(),
        agent::ApplyWorkloadRequest { r#type: 77, ..good() },
        agent::ApplyWorkloadRequest { r#type: agent::WorkloadType::Vm.into(), ..good() },
        agent::ApplyWorkloadRequest { desired_state: -3, ..good() },
        agent::ApplyWorkloadRequest { spec: Some(agent::WorkloadSpec { spec: None }), ..good() },
        agent::ApplyWorkloadRequest {
            spec: Some(agent::WorkloadSpec { spec: Some(vm) }),
            ..good()
        },
        agent::ApplyWorkloadRequest { id: "..".to_owned(), ..good() },
        // Tokens of a leadership nobody has heard of, and only some of them.
        agent::ApplyWorkloadRequest { epoch: 9, ..good() },
    ] {
        let answer =
            send(&channel, &format!("{AGENT}/ApplyWorkload"), bad.encode_to_vec()).await.unwrap();
        let answer = agent::ApplyWorkloadResponse::decode(answer).unwrap();
        assert!(!answer.applied && !answer.message.is_empty(), "{bad:?}: {answer:?}");
    }
    before.same().await;
}
