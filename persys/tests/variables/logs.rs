//! What the logs of real processes say of trouble between them, and what their pages say of the cluster:
//! certificates that do not fit, schedulers that are away, nodes that come and go, modes.

use std::net::SocketAddr;

use persys_collector::Collector;
use persys_identity::Role;
use serde_json::Value;

use crate::program::{Folder, Program, ends, free_port, healthy, page, ready_node, until};

/// Every line of a log with this message, as JSON.
fn lines(program: &Program, message: &str) -> Vec<Value> {
    let parsed = |line: &str| serde_json::from_str::<Value>(line).ok();
    let all = program.log();
    let told = all.lines().filter_map(parsed);
    told.filter(|line| line["message"].as_str().is_some_and(|text| text.contains(message)))
        .collect()
}

/// The first of them, once it is there.
fn line(program: &mut Program, message: &str) -> Value {
    program.says(message);
    lines(program, message).remove(0)
}

/// Files of a cluster `blue` in a folder, with the scheduler's certificate beside those of others.
fn scheduler(folder: &Folder, port: &str, more: &[(&str, &str)]) -> Program {
    let (state, identity) = (folder.at("state"), folder.at("s1.pem"));
    let variables = [
        ("PERSYS_STATE_DIR", state.as_str()),
        ("PERSYS_GRPC_ADDR", "127.0.0.1"),
        ("GRPC_PORT", port),
        ("METRICS_PORT", "0"),
        ("PERSYS_DNS_ENABLED", "false"),
        ("PERSYS_CLUSTER_ID", "blue"),
        ("PERSYS_IDENTITY", &identity),
        ("LOG_FORMAT", "json"),
    ];
    Program::start(folder.path(), &["scheduler"], &[&variables, more].concat())
}

fn agent(folder: &Folder, identity: &str, port: &str, more: &[(&str, &str)]) -> Program {
    let (state, address) = (folder.at("agent"), format!("127.0.0.1:{port}"));
    let variables = [
        ("PERSYS_NODE_ID", "n1"),
        ("PERSYS_STATE_PATH", state.as_str()),
        ("PERSYS_GRPC_ADDR", "127.0.0.1"),
        ("PERSYS_GRPC_PORT", "0"),
        ("PERSYS_METRICS_PORT", "0"),
        ("PERSYS_CLUSTER_ID", "blue"),
        ("PERSYS_IDENTITY", identity),
        ("PERSYS_SCHEDULER_ADDR", &address),
        ("LOG_FORMAT", "json"),
    ];
    let words = ["agent", "--runtime", "sim", "--admit-percent", "0", "--admit-disk-percent", "0"];
    Program::start(folder.path(), &words, &[&variables, more].concat())
}

/// The address in the line a component writes when it serves.
fn at(program: &mut Program, key: &str) -> SocketAddr {
    let line = line(program, "serves");
    line[key].as_str().unwrap().parse().unwrap_or_else(|_| panic!("{key} in {line}"))
}

#[test]
fn an_agent_that_is_not_let_in_says_why_and_so_does_the_scheduler() {
    let (folder, foreign) = (Folder::new(), Folder::new());
    folder.certify("blue", Role::Scheduler, "s1");
    folder.certify("blue", Role::Agent, "n1");
    // Of the same name and cluster, and of another authority.
    foreign.certify("blue", Role::Agent, "n1");
    let port = free_port();
    let mut away = agent(&folder, &folder.at("n1.pem"), &port, &[]);
    let told = line(&mut away, "no scheduler accepts this agent");
    assert!(told["cause"].as_str().unwrap().contains("connection refused"), "{told}");
    assert!(told["retry_in_ms"].is_u64() && told["node"] == "n1", "{told}");

    let mut scheduler = scheduler(&folder, &port, &[]);
    let back = line(&mut away, "the scheduler answers again");
    assert!(back["attempts"].as_u64().unwrap() >= 1, "{back}");
    let (joined, leads) =
        (line(&mut scheduler, "node joined"), line(&mut scheduler, "leadership gained"));
    assert_eq!((&joined["node"], &joined["level"]), (&"n1".into(), &"INFO".into()));
    assert_eq!(leads["level"], "INFO");
    assert_eq!(line(&mut scheduler, "mode changed")["mode"], "normal");
    drop(away);

    // With a certificate nobody here trusts, both sides say so; once, not with each attempt.
    let state = foreign.at("agent");
    let mut wrong =
        agent(&foreign, &foreign.at("n1.pem"), &port, &[("PERSYS_STATE_PATH", state.as_str())]);
    let told = line(&mut wrong, "no scheduler accepts this agent");
    let cause = told["cause"].as_str().unwrap();
    assert!(cause.contains("certificate") || cause.contains("TLS"), "{told}");
    let refused = line(&mut scheduler, "a peer was refused");
    assert!(refused["peer"].as_str().unwrap().starts_with("127.0.0.1"), "{refused}");
    assert!(refused["fault"].is_string() && refused["event"] == "tls_handshake_failed");
    until("further attempts", || {
        let metrics = page(at(&mut scheduler, "http"), "/metrics")?;
        let count = metrics.lines().find(|line| line.contains("tls_handshake_failed"))?;
        let count: u64 = count.rsplit(' ').next()?.parse().ok()?;
        (count >= 3).then_some(())
    });
    let faults: std::collections::BTreeSet<_> = lines(&scheduler, "a peer was refused")
        .iter()
        .map(|line| line["fault"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(lines(&scheduler, "a peer was refused").len(), faults.len(), "one line for each");
    assert_eq!(lines(&wrong, "no scheduler accepts this agent").len(), 1);
}

#[test]
fn nodes_that_go_and_drains_have_a_line_each() {
    let folder = Folder::new();
    for (role, name) in [(Role::Scheduler, "s1"), (Role::Agent, "n1"), (Role::Operator, "ann")] {
        folder.certify("blue", role, name);
    }
    let port = free_port();
    let mut scheduler = scheduler(&folder, &port, &[]);
    let agent = agent(&folder, &folder.at("n1.pem"), &port, &[]);
    let way = format!("--endpoint 127.0.0.1:{port} --identity {}", folder.at("ann.pem"));
    ready_node(&folder, &way);
    let http = at(&mut scheduler, "http");
    let health = healthy(http);
    assert_eq!(health["nodes"]["ready"], 1, "{health}");
    assert_eq!((&health["mode"], &health["role"]), (&"normal".into(), &"leader".into()));
    assert!(health["modeChangedAt"].is_string() && health["reason"].is_string(), "{health}");

    for verb in ["drain", "undrain"] {
        let line = format!("node {verb} n1 {way}");
        let words: Vec<_> = line.split_whitespace().collect();
        let (code, out, err) = ends(&words, &[("PERSYS_HOME", &folder.at("home"))]);
        assert_eq!(code, 0, "{out}{err}");
    }
    scheduler.says("\"undrain\"");
    let changes = lines(&scheduler, "node changed");
    let changes: Vec<_> = changes.iter().map(|line| line["change"].as_str().unwrap()).collect();
    assert_eq!(changes, ["drain", "undrain"]);
    assert!(lines(&scheduler, "node changed")[0]["by"].as_str().unwrap().contains("ann"));

    agent.pause();
    let silent = line(&mut scheduler, "node is not ready");
    assert_eq!((&silent["node"], &silent["level"]), (&"n1".into(), &"WARN".into()));
    assert!(silent["reason"].is_string(), "{silent}");
    let gone: Value = serde_json::from_str(&page(http, "/health").unwrap()).unwrap();
    assert_eq!((&gone["nodes"]["ready"], &gone["nodes"]["total"]), (&0.into(), &1.into()));
    drop(agent);
}

#[test]
fn an_authority_that_serves_alone_has_pages_and_a_log_for_programs() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let collector = runtime.block_on(Collector::start()).unwrap();
    let endpoint = format!("http://{}", collector.at);
    let (folder, enrol) = (Folder::new(), format!("127.0.0.1:{}", free_port()));
    let ca = folder.at("ca");
    let (code, out, err) = ends(&["ca", "init", "--cluster", "blue", "--folder", &ca], &[]);
    assert_eq!(code, 0, "{out}{err}");
    let words = ["ca", "serve", "--listen", &enrol, "--folder", &ca];
    let variables = [
        ("PERSYS_CA_HTTP_ADDR", "127.0.0.1:0"),
        ("PERSYS_LOG_FORMAT", "auto"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_TRACES_SAMPLER", "always_on"),
    ];
    let mut authority = Program::start(folder.path(), &words, &variables);
    let http = at(&mut authority, "http");
    let health = healthy(http);
    for (key, value) in [("mode", "normal"), ("reason", ""), ("cluster", "blue")] {
        assert_eq!(health[key], value, "{health}");
    }
    assert!(health["modeChangedAt"].is_string() && health["certificate"]["notAfter"].is_string());
    let metrics = page(http, "/metrics").unwrap();
    assert!(metrics.contains("persys_ca_requests_total{method=\"join\",outcome=\"done\"} 0"));
    assert!(metrics.contains("persys_ca_certificate_expires_in_seconds"), "{metrics}");
    until("spans of both pages", || {
        let spans = collector.spans();
        let has =
            |name: &str| spans.iter().any(|span| span.service == "persys-ca" && span.name == name);
        (has("GET /health") && has("GET /metrics")).then_some(())
    });
    // Its files are gone: nobody can join, and it says so.
    std::fs::rename(&ca, folder.at("elsewhere")).unwrap();
    let broken: Value = serde_json::from_str(&page(http, "/health").unwrap()).unwrap();
    assert_eq!((&broken["status"], &broken["mode"]), (&"unavailable".into(), &"degraded".into()));
    let (code, out, _) = ends(&["ca", "serve", "config", "--listen", "127.0.0.1:1"], &[]);
    assert!(code == 0 && out.contains("http-addr") && out.contains("0.0.0.0:8087"), "{out}");
}
