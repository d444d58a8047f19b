//! Agents that nobody can call: they open a stream and are reached over that.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use persys_cluster::input::Probe;
use persys_identity::Role;
use persys_model::id::NodeId;
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::control_message::Message;
use persys_proto::convert::{answer, command};
use persys_proto::tunnel::NODE_HEADER;
use persys_scheduler::links::grpc::{GrpcLinks, Way};
use persys_scheduler::links::{Links, Target};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status, Streaming};

use crate::bench::{Bench, Client, container, node, old_node, status, until};
use crate::links::removal;

/// How long something may take to come.
const PATIENCE: Duration = Duration::from_secs(10);

/// An address that nothing is ever sent to.
fn nowhere() -> SocketAddr {
    "192.0.2.1:50051".parse().unwrap()
}

/// The end of a stream that is not ours.
struct Foreign {
    to: mpsc::Sender<wire::ControlMessage>,
    from: Streaming<wire::ControlMessage>,
}

impl Foreign {
    async fn open(client: &mut Client, tunnel_to: Option<&str>) -> Result<Self, Status> {
        let (to, sent) = mpsc::channel(1);
        let mut request = Request::new(ReceiverStream::new(sent));
        if let Some(node) = tunnel_to {
            request.metadata_mut().insert(NODE_HEADER, node.parse().unwrap());
        }
        let from = client.control_stream(request).await?.into_inner();
        Ok(Self { to, from })
    }

    async fn say(&self, message: Message) {
        self.to.send(wire::ControlMessage { message: Some(message) }).await.unwrap();
    }

    async fn next(&mut self) -> Result<Message, Status> {
        let next = timeout(PATIENCE, self.from.message()).await.expect("nothing comes")?;
        Ok(next.expect("the stream ended without a word").message.unwrap())
    }

    async fn end(&mut self) -> Code {
        loop {
            match self.next().await {
                Ok(_) => {}
                Err(status) => return status.code(),
            }
        }
    }

    async fn register(&mut self, request: wire::RegisterNodeRequest) -> wire::RegisterNodeResponse {
        self.say(Message::Register(Box::new(request))).await;
        let Message::Registered(answer) = self.next().await.unwrap() else { panic!("no answer") };
        answer
    }

    /// Beats, and gives what comes before the answer.
    async fn beat(&mut self, beat: wire::HeartbeatRequest) -> Vec<Message> {
        self.say(Message::Heartbeat(Box::new(beat))).await;
        let mut before = Vec::new();
        loop {
            let next = self.next().await.unwrap();
            if let Message::Heard(answer) = &next {
                assert!(answer.acknowledged);
                return before;
            }
            before.push(next);
        }
    }
}

fn beat(node: &str, running: &[&str]) -> wire::HeartbeatRequest {
    let status = |id: &&str| wire::WorkloadStatus {
        workload_id: (*id).to_owned(),
        state: "Running".to_owned(),
        ..wire::WorkloadStatus::default()
    };
    wire::HeartbeatRequest {
        node_id: node.to_owned(),
        workload_statuses: running.iter().map(status).collect(),
        ..wire::HeartbeatRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_knows_the_contract_alone_runs_and_removes_a_workload() {
    let bench = Bench::mtls().await;
    let mut client = bench.operator().await;
    let mut as_agent = bench.client(Role::Agent, "old").await;
    let mut stream = Foreign::open(&mut as_agent, None).await.unwrap();
    let joined = stream.register(old_node("old", nowhere())).await;
    assert!(joined.accepted && joined.heartbeat_interval_seconds > 0, "{}", joined.reason);

    assert!(client.apply_workload(container("web")).await.unwrap().into_inner().success);
    let Message::Apply(apply) = stream.next().await.unwrap() else { panic!("not an apply") };
    assert_eq!((&*apply.workload_id, &*apply.desired_state), ("web", "Running"));
    assert!(!apply.revision_id.is_empty());
    let spec = apply.spec.unwrap();
    assert_eq!((&*spec.r#type, spec.placement.is_none()), ("container", true));
    let Some(wire::workload_spec::Workload::Container(body)) = spec.workload else { panic!() };
    assert_eq!(body.image, "nginx:1.27");
    // That it was sent is noted right after.
    while status(&mut client, "web").await == "Scheduled" {
        assert!(stream.beat(beat("old", &["web"])).await.is_empty(), "one order is enough");
    }
    assert_eq!(status(&mut client, "web").await, "Running");

    // What was sent on a stream that ended may be lost: the next one begins with a new life.
    drop(stream);
    let mut stream = Foreign::open(&mut as_agent, None).await.unwrap();
    stream.say(Message::Heartbeat(Box::new(beat("old", &["web"])))).await;
    assert_eq!(stream.end().await, Code::NotFound);
    let mut stream = Foreign::open(&mut as_agent, None).await.unwrap();
    assert!(stream.register(old_node("old", nowhere())).await.accepted);
    let Message::Apply(apply) = stream.next().await.unwrap() else { panic!("not told again") };
    assert_eq!(apply.workload_id, "web");
    stream.beat(beat("old", &["web"])).await;

    let request = wire::DeleteWorkloadRequest { workload_id: "web".to_owned(), volumes: false };
    assert!(client.delete_workload(request).await.unwrap().into_inner().success);
    let Message::Delete(delete) = stream.next().await.unwrap() else { panic!("not a delete") };
    assert_eq!(delete.workload_id, "web");
    stream.beat(beat("old", &["web"])).await;
    stream.beat(beat("old", &[])).await;
    assert_eq!(status(&mut client, "web").await, "Deleting", "one beat may have been on its way");
    for _ in 0..2 {
        stream.beat(beat("old", &[])).await;
    }
    until(&mut client, "web", "").await;
    let page = bench.page("/metrics").await;
    for (rpc, times) in [("ApplyWorkload", 2), ("DeleteWorkload", 1)] {
        let line = format!("rpc=\"{rpc}\",code=\"OK\"}} {times}");
        assert!(page.contains(&line), "{line} is not among what was called");
    }
    bench.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_knows_tokens_answers_each_order() {
    let bench = Bench::insecure().await;
    let mut client = bench.operator().await;
    let mut stream = Foreign::open(&mut client, None).await.unwrap();
    let joined = stream.register(node("n1", nowhere())).await;
    assert!(joined.session > 0, "{}", joined.reason);

    client.apply_workload(container("web")).await.unwrap();
    let Message::AgentCommand(ordered) = stream.next().await.unwrap() else { panic!() };
    let (id, order) = command::from_stream(*ordered).unwrap();
    let late = answer::to_stream(&persys_model::command::Answer::Accepted, order.epoch, id + 100);
    stream.say(Message::AgentReply(late)).await;
    let accepted = answer::to_stream(&persys_model::command::Answer::Accepted, order.epoch, id);
    stream.say(Message::AgentReply(accepted)).await;
    let report = wire::WorkloadReport {
        workload_id: "web".to_owned(),
        epoch: order.epoch.0,
        state: "Running".to_owned(),
        confirmed: true,
        ..wire::WorkloadReport::default()
    };
    let said = wire::HeartbeatRequest {
        session: joined.session,
        seq: 1,
        reports: vec![report],
        ..beat("n1", &[])
    };
    stream.beat(said).await;
    until(&mut client, "web", "Running").await;

    let request = wire::DeleteWorkloadRequest { workload_id: "web".to_owned(), volumes: false };
    client.delete_workload(request).await.unwrap();
    let Message::AgentCommand(ordered) = stream.next().await.unwrap() else { panic!() };
    assert_eq!((&*ordered.action, ordered.purge), ("remove", true));
    let (id, order) = command::from_stream(*ordered).unwrap();
    let removed = persys_model::command::Answer::Removed { epoch: order.epoch };
    stream.say(Message::AgentReply(answer::to_stream(&removed, order.epoch, id))).await;
    until(&mut client, "web", "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_opens_streams_for_its_own_node_alone() {
    let bench = Bench::mtls().await;
    let mut agent = bench.client(Role::Agent, "n1").await;
    let refused = Foreign::open(&mut agent, Some("n2")).await.err().unwrap();
    assert_eq!(refused.code(), Code::PermissionDenied);
    for foreign in [
        Message::Register(Box::new(node("n2", nowhere()))),
        Message::Heartbeat(Box::new(beat("n2", &[]))),
    ] {
        let mut stream = Foreign::open(&mut agent, None).await.unwrap();
        stream.say(foreign).await;
        assert_eq!(stream.end().await, Code::PermissionDenied);
    }
    for role in [Role::Operator, Role::Gateway, Role::User, Role::Metrics, Role::Scheduler] {
        let mut client = bench.client(role, "n1").await;
        for tunnel in [None, Some("n1")] {
            let refused = Foreign::open(&mut client, tunnel).await.err().unwrap();
            assert_eq!(refused.code(), Code::PermissionDenied, "{role}");
        }
    }
    let seen = bench.running.handle.read(|world| world.nodes().count());
    assert_eq!(seen.await.unwrap(), 0);
    assert!(Foreign::open(&mut agent, Some("n1")).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_one_nodes_and_a_node_has_one_stream() {
    let bench = Bench::insecure().await;
    let mut client = bench.operator().await;
    let mut first = Foreign::open(&mut client, None).await.unwrap();
    assert!(first.register(node("n1", nowhere())).await.accepted);
    let mut other = Foreign::open(&mut client, None).await.unwrap();
    assert!(other.register(node("n2", nowhere())).await.accepted);
    other.say(Message::Register(Box::new(node("n1", nowhere())))).await;
    assert_eq!(other.end().await, Code::PermissionDenied);

    let mut second = Foreign::open(&mut client, Some("n1")).await.unwrap();
    assert_eq!(first.end().await, Code::Aborted);
    let _third = Foreign::open(&mut client, Some("n1")).await.unwrap();
    assert_eq!(second.end().await, Code::Aborted);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_belong_on_a_stream_ends_it() {
    let bench = Bench::insecure().await;
    let mut client = bench.operator().await;
    let refused = Foreign::open(&mut client, Some("not a node!")).await.err().unwrap();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let delete = wire::DeleteWorkloadRequest { workload_id: "web".to_owned(), volumes: false };
    let large = || "x".repeat(5 * 1024 * 1024);
    let cases = [
        (None, Message::Delete(delete.clone()), Code::InvalidArgument),
        (None, Message::AgentReply(wire::AgentReply::default()), Code::InvalidArgument),
        (None, Message::Tunnel(vec![0]), Code::FailedPrecondition),
        (
            None,
            Message::Register(Box::new(old_node("not a node!", nowhere()))),
            Code::InvalidArgument,
        ),
        (None, Message::Heartbeat(Box::new(beat(&large(), &[]))), Code::OutOfRange),
        (Some("n1"), Message::Delete(delete), Code::InvalidArgument),
        (Some("n1"), Message::Tunnel(vec![0; 65 * 1024]), Code::ResourceExhausted),
        (Some("n1"), Message::Tunnel(large().into()), Code::OutOfRange),
    ];
    for (nth, (tunnel, message, code)) in cases.into_iter().enumerate() {
        let mut stream = Foreign::open(&mut client, tunnel).await.unwrap();
        stream.say(message).await;
        assert_eq!(stream.end().await, code, "case {nth}");
    }
}

/// One who asks without end and does not listen is stopped, and nobody else notices.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_holds_up_only_its_sender() {
    let bench = Bench::insecure().await;
    let endpoint = Endpoint::from_shared(format!("http://{}", bench.running.grpc)).unwrap();
    let channel = endpoint.initial_stream_window_size(4_096).connect().await.unwrap();
    let mut deaf = Client::new(channel);
    let stream = Foreign::open(&mut deaf, None).await.unwrap();
    stream.say(Message::Register(Box::new(node("n1", nowhere())))).await;
    let flood = wire::HeartbeatRequest { seq: 1, session: 1, ..beat("n1", &[]) };
    let mut sent = 0;
    // It must wait, or its connection is cut because too much small stuff waits there.
    while sent < 200_000 {
        let message = Message::Heartbeat(Box::new(flood.clone()));
        let message = wire::ControlMessage { message: Some(message) };
        match timeout(Duration::from_secs(1), stream.to.send(message)).await {
            Ok(Ok(())) => sent += 1,
            Ok(Err(_)) | Err(_) => break,
        }
    }
    assert!(sent < 200_000, "all of it was taken");
    let mut client = bench.operator().await;
    let begun = Instant::now();
    let all = wire::ListNodesRequest::default();
    assert_eq!(client.list_nodes(all).await.unwrap().into_inner().nodes.len(), 1);
    assert!(begun.elapsed() < Duration::from_secs(1));
    let begun = Instant::now();
    bench.running.stop().await;
    // The farewell is bounded; a machine that does other things takes its time beside it.
    assert!(begun.elapsed() < Duration::from_secs(12), "the deaf one was waited for");
}

#[tokio::test(flavor = "multi_thread")]
async fn open_streams_do_not_hold_up_the_end() {
    let bench = Bench::insecure().await;
    let mut client = bench.operator().await;
    let mut streams = Vec::new();
    for nth in 0..20 {
        let mut stream = Foreign::open(&mut client, None).await.unwrap();
        assert!(stream.register(node(&format!("m{nth}"), nowhere())).await.accepted);
        streams.push(stream);
        let name = format!("t{nth}");
        streams.push(Foreign::open(&mut client, Some(&name)).await.unwrap());
    }
    let begun = Instant::now();
    bench.running.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    for mut stream in streams {
        assert_eq!(stream.end().await, Code::Unavailable);
    }
}

/// A closed stream proves nothing: the machine may be gone, or the network, or the agent.
#[tokio::test(flavor = "multi_thread")]
async fn without_its_stream_a_node_is_silent() {
    let links = GrpcLinks::new(Way::Plain);
    let to = Target {
        node: NodeId::new("n1").unwrap(),
        endpoint: Arc::from("stream.invalid:1"),
        host: Arc::from("machine"),
        at_rest: None,
    };
    let begun = Instant::now();
    assert_eq!(links.probe(&to).await, Probe::Silent);
    assert!(begun.elapsed() < Duration::from_secs(1));
    let refused = links.order(&to, removal(1)).await.unwrap_err();
    assert!(refused.to_string().contains("no stream"), "{refused}");
}
