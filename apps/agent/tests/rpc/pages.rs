//! Pages for probes and dashboards, and a node that lacks something.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use persys_agent::app::{self, Config, RuntimeChoice};
use persys_model::spec::WorkloadType;
use persys_node::settings::AgentSettings;
use persys_proto::agent::v1::ActualState;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::node::{apply, config, request, sim, start_with, wait};
use crate::scheduler::{Kind, serve};

async fn get(at: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(at).await.unwrap();
    let ask = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

fn any() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

#[tokio::test]
async fn an_agent_that_works_says_so_and_counts() {
    let (dir, runtime) = (tempfile::tempdir().unwrap(), sim());
    let (agent, mut client) =
        start_with(Config { http: Some(any()), ..config(dir.path(), &runtime) }).await;
    let at = agent.http.unwrap();
    let (code, body) = get(at, "/health").await;
    let health = json(&body);
    assert_eq!((code, &health["status"]), (200, &"ok".into()), "{body}");
    assert_eq!((&health["node"], &health["fence"]), (&"node-1".into(), &false.into()));
    assert_eq!(health["scheduler"]["connected"], true);

    apply(&mut client, request("a", "rev-1", "nginx:1")).await;
    wait(&mut client, "a", ActualState::Running).await;
    apply(&mut client, request("b", "rev-1", "fail:NETWORK_ERROR")).await;
    wait(&mut client, "b", ActualState::Failed).await;
    let (code, text) = get(at, "/metrics").await;
    assert_eq!(code, 200);
    for line in [
        "persys_agent_workload_count{state=\"Running\",type=\"container\"} 1",
        "persys_agent_task_executions_total{type=\"apply_workload\",status=\"completed\"} 1",
        "persys_agent_task_failures_total{type=\"apply_workload\"} 1",
        "persys_agent_task_latency_seconds_count{type=\"apply_workload\",status=\"failed\"} 1",
        "persys_agent_runtime_health_status{runtime_type=\"container\"} 1",
        "persys_agent_scheduler_connected 1",
        "persys_agent_task_queue_depth 0",
    ] {
        assert!(text.to_lowercase().contains(&line.to_lowercase()), "{line} is not in:\n{text}");
    }
    assert!(text.contains("persys_agent_system_disk_utilization_percent{mount_point=\"/\"}"));
    let counted = |start: &str| {
        let line = text.lines().find(|line| line.starts_with(start));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).unwrap_or_default()
    };
    for series in [
        "persys_agent_ledger_writes_total{outcome=\"ok\"}",
        "persys_agent_runtime_operation_duration_seconds_count{operation=\"observe\"",
        "persys_agent_workload_reconcile_duration_seconds_count",
        "persys_agent_grpc_server_requests_total{method=\"/persys.agent.v1.AgentService/ApplyWorkload\"",
    ] {
        assert!(counted(series) > 0.0, "{series} in\n{text}");
    }

    runtime.set_silent(true);
    let (code, body) = get(at, "/health").await;
    assert_eq!((code, &json(&body)["reason"]), (503, &"no runtime answers".into()));
    agent.stop().await;
}

#[tokio::test]
async fn an_agent_without_its_scheduler_is_not_well() {
    let dir = tempfile::tempdir().unwrap();
    let follows = serve(Kind::Follows).await;
    let schedulers = vec![follows.address.to_string()];
    let agent =
        app::start(Config { http: Some(any()), schedulers, ..config(dir.path(), &sim()) }).await;
    let agent = agent.unwrap();
    let (code, body) = get(agent.http.unwrap(), "/health").await;
    assert_eq!((code, &json(&body)["reason"]), (503, &"no scheduler answers".into()), "{body}");
    agent.stop().await;
}

/// Machines on a node without libvirt.
fn no_libvirt(folder: &std::path::Path) -> persys_runtime::vm::settings::Settings {
    let mut settings = persys_runtime::vm::settings::Settings::default();
    settings.libvirt.sockets = vec![folder.join("nobody-libvirt.sock")];
    settings.storage.home = folder.join("machines");
    settings
}

#[tokio::test]
async fn without_docker_it_starts_at_once_and_says_how_to_get_it() {
    let dir = tempfile::tempdir().unwrap();
    let leads = serve(Kind::Leads).await;
    let host = format!("unix://{}", dir.path().join("nobody.sock").display());
    let wanted = Config {
        runtime: RuntimeChoice::Docker { host: Some(host.clone()) },
        machines: Some(no_libvirt(dir.path())),
        schedulers: vec![leads.address.to_string()],
        http: Some(any()),
        ..config(dir.path(), &sim())
    };
    let begun = Instant::now();
    let agent = app::start(wanted).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    let missing = agent.handle.read(|agent, _| agent.facts().missing.clone()).await.unwrap();
    let advice = &missing[&WorkloadType::Container];
    assert!(advice.contains(&host) && advice.contains("apt-get install docker.io"), "{advice}");
    let machines = &missing[&WorkloadType::Vm];
    assert!(
        machines.contains("nobody-libvirt.sock") && machines.contains("apt-get install"),
        "{machines}"
    );

    let deadline = Instant::now() + Duration::from_secs(15);
    let told = loop {
        let first = leads.fake.registrations.lock().unwrap().first().cloned();
        if let Some(first) = first {
            break first.capabilities.unwrap();
        }
        assert!(Instant::now() < deadline, "it does not join");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert!(told.supported_workload_types.is_empty());
    assert_eq!(told.missing_runtimes["container"], **advice);
    assert_eq!(told.missing_runtimes["vm"], **machines);
    let (code, body) = get(agent.http.unwrap(), "/health").await;
    assert_eq!(code, 503);
    assert!(json(&body)["runtimes"]["container"].as_str().unwrap().contains("apt-get"), "{body}");
    agent.stop().await;
}

#[tokio::test]
async fn a_busy_node_says_so_refuses_with_a_reason_and_leaves_what_runs_alone() {
    let dir = tempfile::tempdir().unwrap();
    let leads = serve(Kind::Leads).await;
    // Every machine uses more of its memory than this.
    let settings =
        AgentSettings { admit_percent: 1, release_percent: 1, ..AgentSettings::default() };
    let schedulers = vec![leads.address.to_string()];
    let (agent, mut client) = start_with(Config {
        settings,
        schedulers,
        http: Some(any()),
        ..config(dir.path(), &sim())
    })
    .await;
    assert!(apply(&mut client, request("early", "rev-1", "nginx:1")).await.applied);
    let before = wait(&mut client, "early", ActualState::Running).await;
    let deadline = Instant::now() + Duration::from_secs(20);
    let told = || leads.fake.beats.lock().unwrap().last().map(|beat| beat.busy.clone());
    while told().unwrap_or_default().is_empty() {
        assert!(Instant::now() < deadline, "the node does not say that it is busy");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(told().unwrap().contains("% of its memory is in use"), "{:?}", told());
    apply(&mut client, request("late", "rev-1", "nginx:1")).await;
    let late = wait(&mut client, "late", ActualState::Failed).await;
    assert_eq!(late.metadata["failure_reason"], "INSUFFICIENT_RESOURCES");
    assert!(late.message.contains("the node is too busy"), "{}", late.message);
    let (_, body) = get(agent.http.unwrap(), "/health").await;
    assert_eq!(json(&body)["takesNewWork"], false, "{body}");
    let after = wait(&mut client, "early", ActualState::Running).await;
    assert_eq!(after.metadata["container.id"], before.metadata["container.id"]);
    agent.stop().await;
}
