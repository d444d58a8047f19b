//! Looking into what runs, over real gRPC from end to end: an operator's client, a scheduler, an
//! agent, and a runtime in memory.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use persys_agent::app as agent;
use persys_cluster::settings::Settings;
use persys_identity::Exposure;
use persys_model::id::WorkloadId;
use persys_node::settings::AgentSettings;
use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::compute_client::ComputeClient;
use persys_proto::compute::v1::exec_input::Input;
use persys_proto::compute::v1::exec_output::Output;
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use persys_proto::control::v1::workload_spec::Workload;
use persys_runtime::Clock;
use persys_runtime::sim::{Settings as SimSettings, Sim};
use persys_scheduler::app as scheduler;
use persys_scheduler::discovery::Discovery;
use tokio::time::timeout;
use tokio_stream::Stream;
use tonic::transport::Channel;
use tonic::{Code, Status};

const PATIENCE: Duration = Duration::from_secs(20);

struct Bench {
    _folder: tempfile::TempDir,
    scheduler: scheduler::Running,
    agent: agent::Running,
    sim: Sim,
    control: AgentControlClient<Channel>,
    compute: ComputeClient<Channel>,
}

fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

impl Bench {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scheduler = scheduler::start(scheduler::Config {
            grpc: any(),
            http: any(),
            advertise: scheduler::Advertise::default(),
            state_dir: folder.path().join("scheduler"),
            store: persys_scheduler::place::Place::File,
            cluster: "inside".to_owned(),
            security: scheduler::Security::Insecure(Exposure::Loopback),
            settings: Settings::default(),
            discovery: Discovery::default(),
            logins: None,
            git: persys_scheduler::app::GitSettings::default(),
            secrets_key: None,
            vault: None,
        });
        let scheduler = scheduler.await.unwrap();
        let sim = Sim::new(SimSettings::default(), Clock::since_boot());
        let agent = agent::start(agent::Config {
            node: Some("n1".to_owned()),
            grpc: any(),
            advertise: None,
            schedulers: vec![scheduler.grpc.to_string()],
            state_dir: folder.path().join("agent"),
            cluster: "inside".to_owned(),
            runtime: agent::RuntimeChoice::Sim(Some(sim.clone())),
            security: agent::Security::Insecure(Exposure::Loopback),
            labels: BTreeMap::new(),
            // How busy the machine of the test is must not matter.
            settings: AgentSettings {
                admit_percent: 0,
                admit_disk_percent: 0,
                ..AgentSettings::default()
            },
            reach: agent::Reach::Called,
            watchdog: None,
            compose: agent::ComposeChoice::default(),
            registry_auth: None,
            volumes: agent::VolumeSettings::within(folder.path(), agent::Limit::None),
            machines: None,
            http: None,
        });
        let agent = agent.await.unwrap();
        let endpoint = Channel::from_shared(format!("http://{}", scheduler.grpc)).unwrap();
        let channel = endpoint.connect().await.unwrap();
        let (control, compute) =
            (AgentControlClient::new(channel.clone()), ComputeClient::new(channel));
        Self { _folder: folder, scheduler, agent, sim, control, compute }
    }

    async fn stop(self) {
        self.agent.stop().await;
        self.scheduler.stop().await;
    }

    async fn apply(&mut self, id: &str, container: wire::ContainerSpec, memory_mb: i64) {
        let request = wire::ApplyWorkloadRequest {
            workload_id: id.to_owned(),
            spec: Some(wire::WorkloadSpec {
                r#type: "container".to_owned(),
                resources: Some(wire::ResourceRequirements {
                    cpu_millicores: 10,
                    memory_mb,
                    disk_gb: 0,
                }),
                workload: Some(Workload::Container(container)),
                ..wire::WorkloadSpec::default()
            }),
            ..wire::ApplyWorkloadRequest::default()
        };
        let leads = async {
            loop {
                match self.control.apply_workload(request.clone()).await {
                    Ok(answer) => break answer.into_inner(),
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        };
        let answer = timeout(PATIENCE, leads).await.unwrap();
        assert!(answer.success, "{}", answer.error_message);
    }

    async fn until(&mut self, id: &str, wanted: &[&str]) -> wire::WorkloadView {
        let reached = async {
            loop {
                let request = wire::GetWorkloadRequest { workload_id: id.to_owned() };
                let answer = self.control.get_workload(request).await.unwrap().into_inner();
                let view = answer.workload.unwrap();
                if wanted.contains(&view.status.as_str()) {
                    break view;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, reached).await.unwrap()
    }

    async fn why(&mut self, id: &str) -> api::WhyResponse {
        let request = api::WhyRequest { workload_id: id.to_owned(), ..Default::default() };
        self.compute.why(request).await.unwrap().into_inner()
    }

    async fn exec(&mut self, messages: Vec<Input>) -> Result<(String, Option<i32>), Status> {
        let messages = messages.into_iter().map(|input| api::ExecInput { input: Some(input) });
        read_exec(&mut self.compute, tokio_stream::iter(messages)).await
    }
}

async fn read_exec(
    client: &mut ComputeClient<Channel>,
    typed: impl Stream<Item = api::ExecInput> + Send + 'static,
) -> Result<(String, Option<i32>), Status> {
    let reading = async {
        let mut output = client.exec(typed).await?.into_inner();
        let (mut text, mut code) = (String::new(), None);
        while let Some(message) = output.message().await? {
            match message.output.unwrap() {
                Output::Chunk(chunk) => text.push_str(&String::from_utf8_lossy(&chunk.data)),
                Output::ExitCode(found) => code = Some(found),
            }
        }
        Ok((text, code))
    };
    timeout(PATIENCE, reading).await.unwrap()
}

fn image(name: &str) -> wire::ContainerSpec {
    wire::ContainerSpec { image: name.to_owned(), ..wire::ContainerSpec::default() }
}

fn command(id: &str, argv: &[&str], input: bool) -> Input {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    Input::Start(api::ExecStart { workload_id: id.to_owned(), argv, input, ..Default::default() })
}

fn logs(id: &str, tail: u32, follow: bool) -> api::LogsRequest {
    api::LogsRequest { workload_id: id.to_owned(), tail, follow, ..Default::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_and_commands_go_through() {
    let mut bench = Bench::start().await;
    bench.apply("web", image("web:1"), 16).await;
    bench.until("web", &["Running"]).await;
    let web = WorkloadId::new("web").unwrap();
    bench.sim.print(&web, "first");
    bench.sim.print(&web, "second");

    let mut kept = bench.compute.logs(logs("web", 2, false)).await.unwrap().into_inner();
    let mut text = Vec::new();
    while let Some(chunk) = kept.message().await.unwrap() {
        assert_eq!(chunk.stream, 1);
        text.extend(chunk.data);
    }
    assert_eq!(String::from_utf8(text).unwrap(), "first\nsecond\n");

    let mut live = bench.compute.logs(logs("web", 1, true)).await.unwrap().into_inner();
    let seen = live.message().await.unwrap().unwrap();
    assert_eq!(seen.data, b"second\n");
    bench.sim.print(&web, "third");
    let seen = timeout(PATIENCE, live.message()).await.unwrap().unwrap().unwrap();
    assert_eq!(seen.data, b"third\n");

    let echoed = bench.exec(vec![command("web", &["echo", "hello"], false)]).await.unwrap();
    assert_eq!(echoed, ("echo hello\n".to_owned(), Some(0)));
    let (_, code) = bench.exec(vec![command("web", &["exit", "7"], false)]).await.unwrap();
    assert_eq!(code, Some(7));
    let typed = vec![
        command("web", &["cat"], true),
        Input::Data(b"typed ".to_vec()),
        Input::Size(api::TerminalSize { rows: 40, columns: 120 }),
        Input::Data(b"in".to_vec()),
        Input::End(true),
    ];
    assert_eq!(bench.exec(typed).await.unwrap(), ("typed in".to_owned(), Some(0)));

    let restarted = api::RestartRequest { workload_id: "web".to_owned() };
    let note = bench.compute.restart(restarted).await.unwrap().into_inner().note;
    assert_eq!(note, "web was stopped and is started again");
    bench.until("web", &["Running"]).await;
    // The output that was followed ended with what printed it.
    let rest = async { while let Ok(Some(_)) = live.message().await {} };
    timeout(PATIENCE, rest).await.unwrap();
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_come_with_what_was_left_of_them() {
    let mut bench = Bench::start().await;
    let once = wire::ContainerSpec { restart_policy: "no".to_owned(), ..image("exit:137") };
    bench.apply("dies", once, 16).await;
    let view = bench.until("dies", &["RetryPending", "Failed"]).await;
    let reason = view.reason.unwrap().message;
    assert!(reason.contains("exited with code 137 (SIGKILL)"), "{reason}");
    assert!(reason.contains("is simulated"), "{reason}");
    let why = bench.why("dies").await;
    assert!(why.summary.contains("exited with code 137 (SIGKILL)"), "{}", why.summary);
    assert!(!why.evidence.iter().any(|line| line.contains("(SIGKILL)")), "said above: {why:?}");
    assert!(why.evidence.iter().any(|line| line.contains("is simulated")), "{:?}", why.evidence);
    assert!(!why.events.is_empty() && why.events.len() <= 10);
    assert!(why.next.contains(&"persys retry dies".to_owned()), "{:?}", why.next);
    let told = why.events.iter().any(|event| event.reason.contains("(SIGKILL)"));
    assert!(told, "{:?}", why.events);

    bench.apply("huge", image("web:1"), 1 << 26).await;
    let why = bench.why("huge").await;
    assert!(why.summary.starts_with("huge waits: no node fits"), "{}", why.summary);
    assert_eq!((&*why.verdicts[0].node_id, why.verdicts[0].fits), ("n1", false));
    assert!(why.verdicts[0].faults[0].starts_with("too little memory"));
    assert!(!why.suggestions.is_empty());
    let node = api::WhyRequest { node_id: "n1".to_owned(), ..Default::default() };
    let node = bench.compute.why(node).await.unwrap().into_inner();
    assert!(node.summary.starts_with("n1 is ready"), "{}", node.summary);

    let refused = bench.compute.logs(logs("huge", 0, false)).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("huge has no node"), "{}", refused.message());
    let refused = bench.exec(vec![command("nobody", &["ls"], false)]).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    let refused = bench.exec(vec![Input::End(true)]).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let restart = api::RestartRequest { workload_id: "huge".to_owned() };
    let refused = bench.compute.restart(restart).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let unknown = api::WhyRequest { workload_id: "nobody".to_owned(), ..Default::default() };
    assert_eq!(bench.compute.why(unknown).await.unwrap_err().code(), Code::NotFound);
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_about_one_is_told_and_secrets_are_kept() {
    let mut bench = Bench::start().await;
    let env = BTreeMap::from([("TOKEN".to_owned(), "hunter2".to_owned())]);
    let ports = vec![wire::Port {
        host_port: 8080,
        container_port: 80,
        protocol: "tcp".to_owned(),
        ..wire::Port::default()
    }];
    bench.apply("web", wire::ContainerSpec { env, ports, ..image("web:1") }, 16).await;
    bench.until("web", &["Running"]).await;
    for (secrets, shown) in [(false, "***"), (true, "hunter2")] {
        let request = api::DescribeRequest { workload_id: "web".to_owned(), secrets };
        let all = bench.compute.describe(request).await.unwrap().into_inner();
        let Some(Workload::Container(container)) = all.spec.unwrap().workload else {
            panic!("it is a container");
        };
        assert_eq!(container.env["TOKEN"], shown);
        assert_eq!(all.addresses, ["127.0.0.1:8080/tcp"]);
        let inside = all.inside.unwrap();
        assert!(inside.runtime_id.starts_with("sim-") && all.inside_missing.is_empty());
        assert_eq!(inside.ports, ["8080:80/tcp"]);
        assert!(inside.usage.is_some());
    }
    let standing = bench.compute.standing(api::StandingRequest {}).await.unwrap().into_inner();
    assert_eq!((&*standing.cluster, &*standing.mode, standing.brake), ("inside", "normal", false));
    assert!(standing.term > 0 && !standing.version.is_empty());

    // Without its node the rest is still told, and whose fault it is.
    bench.agent.stop().await;
    let request = api::DescribeRequest { workload_id: "web".to_owned(), secrets: false };
    let all = bench.compute.describe(request).await.unwrap().into_inner();
    assert!(all.inside.is_none() && all.inside_missing.contains("n1"), "{}", all.inside_missing);
    let refused = bench.compute.logs(logs("web", 0, true)).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("n1"), "{}", refused.message());
    bench.scheduler.stop().await;
}

/// A stop that fails is tried again for ever, because nobody else can do it: whoever asks is told why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn why_something_does_not_go_is_told_until_it_goes() {
    let mut bench = Bench::start().await;
    bench.apply("web", image("web"), 8).await;
    bench.until("web", &["Running"]).await;
    let web = WorkloadId::new("web").unwrap();
    bench.sim.hold(&web, Some("device or resource busy"));
    let request =
        wire::DeleteWorkloadRequest { workload_id: "web".to_owned(), ..Default::default() };
    bench.control.delete_workload(request).await.unwrap();
    let told = async {
        loop {
            let why = bench.why("web").await;
            if why.summary.contains("tries again") {
                break why;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let why = timeout(PATIENCE, told).await.unwrap();
    assert!(why.summary.starts_with("web is being deleted: "), "{}", why.summary);
    assert!(why.summary.contains("device or resource busy"), "{}", why.summary);

    bench.sim.hold(&web, None);
    let ask = || api::WhyRequest { workload_id: "web".to_owned(), ..Default::default() };
    let gone = async {
        while bench.compute.why(ask()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, gone).await.unwrap();
    bench.stop().await;
}
