//! What variables do to an agent; what runs is simulated.

use std::path::Path;
use std::time::{Duration, Instant};

use persys_identity::Role;
use serde_json::Value;

use crate::engine::Engine;
use crate::program::{Folder, Program, ends, free_port, healthy, name, ready_node, types, until};

fn scheduler(folder: &Folder, variables: &[(&str, &str)], words: &[&str]) -> Program {
    let state = folder.at("scheduler");
    let mut all = vec![
        ("PERSYS_STATE_DIR", state.as_str()),
        ("GRPC_PORT", "0"),
        ("METRICS_PORT", "0"),
        ("PERSYS_DNS_PORT", "0"),
    ];
    all.extend_from_slice(variables);
    Program::start(folder.path(), words, &all)
}

/// An agent that takes any free port, keeps nothing outside the folder, and these variables.
fn agent(folder: &Folder, variables: &[(&str, &str)]) -> Program {
    let state = folder.at("agent");
    let mut all = vec![
        ("PERSYS_TLS_ENABLED", "false"),
        ("PERSYS_STATE_PATH", state.as_str()),
        ("PERSYS_GRPC_PORT", "0"),
        ("PERSYS_METRICS_PORT", "0"),
        ("PERSYS_SCHEDULER_ADDR", "none"),
    ];
    all.retain(|(name, _)| variables.iter().all(|(given, _)| given != name));
    all.extend_from_slice(variables);
    Program::start(folder.path(), &["agent", "--runtime", "sim"], &all)
}

#[test]
fn a_node_joins_as_it_was_said() {
    let folder = Folder::new();
    let zones = [("AGENTS_DISCOVERY_DOMAIN", "agents.test"), ("SCHEDULER_SHARD_KEY", "north")];
    let mut scheduler = scheduler(&folder, &zones, &["scheduler", "-insecure"]);
    let at = scheduler.at("grpc").to_string();
    let port = free_port();
    let endpoint = format!("127.0.0.1:{port}");
    let mut agent = agent(
        &folder,
        &[
            // The first does not answer: the second does.
            ("PERSYS_SCHEDULER_ADDR", &format!("127.0.0.1:1,{at}")),
            ("PERSYS_SCHEDULER_INSECURE", "true"),
            ("PERSYS_NODE_ID", "n7"),
            ("PERSYS_GRPC_PORT", &port),
            ("PERSYS_AGENT_GRPC_ENDPOINT", &endpoint),
            ("PERSYS_NODE_LABELS", "disk=ssd"),
            ("PERSYS_NODE_REGION", "eu"),
            ("PERSYS_NODE_ENV", "prod"),
        ],
    );
    assert_eq!(agent.at("at").to_string(), endpoint);
    let node = ready_node(&folder, &format!("--insecure --endpoint {at}"));
    assert_eq!((&node["node_id"], &node["grpc_endpoint"]), (&"n7".into(), &endpoint.into()));
    for (label, value) in [("disk", "ssd"), ("region", "eu"), ("env", "prod")] {
        assert_eq!(node["labels"][label], value, "{node}");
    }
    assert_eq!(name(scheduler.at("dns"), "n7.north.agents.test", "A"), "127.0.0.1");
}

#[test]
fn a_node_behind_nat_opens_a_stream() {
    let folder = Folder::new();
    let mut scheduler = scheduler(&folder, &[], &["scheduler", "-insecure"]);
    let at = scheduler.at("grpc").to_string();
    let variables = [("PERSYS_AGENT_REACH", "stream"), ("PERSYS_SCHEDULER_ADDR", at.as_str())];
    let mut agent = agent(&folder, &variables);
    assert!(agent.says("the agent serves").contains("the stream it opens"));
    ready_node(&folder, &format!("--insecure --endpoint {at}"));
}

#[test]
fn addresses_and_files_are_those_that_were_said() {
    let folder = Folder::new();
    let (grpc, http, state) = (free_port(), free_port(), folder.at("own/state.db"));
    let mut agent = agent(
        &folder,
        &[
            ("PERSYS_GRPC_ADDR", "127.0.0.2"),
            ("PERSYS_GRPC_PORT", &grpc),
            ("PERSYS_METRICS_PORT", &http),
            ("PERSYS_STATE_PATH", &state),
        ],
    );
    assert_eq!(agent.at("at").to_string(), format!("127.0.0.2:{grpc}"));
    healthy(format!("127.0.0.2:{http}").parse().unwrap());
    let kept = std::fs::read_dir(folder.path().join("own/agent")).unwrap().count();
    assert!(kept > 0, "a folder beside the file that was named");
}

#[test]
fn the_log_is_as_it_was_said() {
    let folder = Folder::new();
    let mut told = agent(&folder, &[("LOG_FORMAT", "json")]);
    let line: Value = serde_json::from_str(&told.says("the agent serves")).unwrap();
    assert_eq!(line["level"], "INFO");
    let (other, http) = (Folder::new(), free_port());
    let quiet = agent(&other, &[("PERSYS_LOG_LEVEL", "error"), ("PERSYS_METRICS_PORT", &http)]);
    healthy(format!("127.0.0.1:{http}").parse().unwrap());
    assert_eq!(quiet.log(), "");
}

#[test]
fn certificates_are_those_that_were_said() {
    let folder = Folder::new();
    for (role, name) in [(Role::Scheduler, "s1"), (Role::Agent, "n1"), (Role::Operator, "admin")] {
        folder.certify("blue", role, name);
    }
    let own = folder.at("s1.pem");
    let identity = [("PERSYS_CLUSTER_ID", "blue"), ("PERSYS_IDENTITY", own.as_str())];
    let mut scheduler = scheduler(&folder, &identity, &["scheduler"]);
    let at = format!("127.0.0.1:{}", scheduler.at("grpc").port());
    let (ca, cert, key) = (folder.at("ca.pem"), folder.at("n1.crt"), folder.at("n1.key"));
    let endpoint = format!("127.0.0.1:{}", free_port());
    let variables = [
        ("PERSYS_TLS_ENABLED", "true"),
        ("PERSYS_CLUSTER_ID", "blue"),
        ("PERSYS_NODE_ID", "n1"),
        ("PERSYS_SCHEDULER_ADDR", &at),
        ("PERSYS_AGENT_GRPC_ENDPOINT", &endpoint),
        ("PERSYS_TLS_CA", &ca),
        ("PERSYS_TLS_CERT", &cert),
        ("PERSYS_TLS_KEY", &key),
    ];
    let running = agent(&folder, &variables);
    let node =
        ready_node(&folder, &format!("--identity {} --endpoint {at}", folder.at("admin.pem")));
    assert_eq!(node["node_id"], "n1");
    drop(running);
    for name in ["PERSYS_TLS_CA", "PERSYS_TLS_CERT", "PERSYS_TLS_KEY", "PERSYS_IDENTITY"] {
        let (state, mut set) = (folder.at("other"), variables.to_vec());
        set.retain(|(given, _)| *given != name);
        set.extend([(name, "/nowhere/x"), ("PERSYS_STATE_PATH", state.as_str())]);
        // Another agent may have the default ports of this machine.
        let ports = ["--grpc-port", "0", "--metrics-port", "0"];
        let (code, _, err) = ends(&[&["agent", "--runtime", "sim"], &ports[..]].concat(), &set);
        assert_eq!(code, 1, "{name}: {err}");
        assert!(err.contains("/nowhere/x"), "{name}: {err}");
    }
}

#[test]
fn docker_is_asked_where_and_as_often_as_was_said() {
    let folder = Folder::new();
    let socket = folder.at("docker.sock");
    let engine = Engine::listen(Path::new(&socket));
    let (state, host) = (folder.at("agent"), format!("unix://{socket}"));
    let variables = [
        ("DOCKER_HOST", host.as_str()),
        ("PERSYS_RECONCILE_INTERVAL", "200ms"),
        ("PERSYS_TLS_ENABLED", "false"),
        ("PERSYS_STATE_PATH", &state),
        ("PERSYS_GRPC_PORT", "0"),
        ("PERSYS_METRICS_PORT", "0"),
        ("PERSYS_SCHEDULER_ADDR", "none"),
        ("PERSYS_DOCKER_ENABLED", "true"),
    ];
    let words = ["agent", "--watchdog=false"];
    let running = Program::start(folder.path(), &words, &variables);
    let first = until("Docker is asked", || Some(engine.asked()).filter(|asked| *asked > 0));
    // Every 30 s is usual: so often that would take ten minutes.
    until("it is asked again", || (engine.asked() >= first + 20).then_some(()));
    drop(running);
}

#[test]
fn a_file_is_read_where_it_was_said_and_each_variable_is_told() {
    let folder = Folder::new();
    std::fs::write(folder.at("a.yaml"), "node_id: filed\nregion: eu\n").unwrap();
    let file = folder.at("a.yaml");
    let variables = [
        ("PERSYS_CONFIG_FILE", file.as_str()),
        ("PERSYS_NODE_REGION", "us"),
        ("PERSYS_RECONCILE_INTERVAL", "11s"),
        ("PERSYS_STATE_STORE_PATH", "/srv/x.db"),
        ("PERSYS_COMPOSE_BINARY", "docker compose"),
        ("PERSYS_VM_ENABLED", "false"),
        ("PERSYS_RECONCILE_ENABLED", "false"),
        ("PERSYS_VERSION", "1"),
        ("PERSYS_GATEWAY_CONFIG", "/g.yaml"),
        ("OTEL_SERVICE_NAME", "own"),
    ];
    let (code, out, err) = ends(&["agent", "config"], &variables);
    assert_eq!(code, 0, "{err}");
    for row in [
        ["node-id", "filed", &file],
        ["region", "us", "PERSYS_NODE_REGION"],
        ["reconcile-interval", "11s", "PERSYS_RECONCILE_INTERVAL"],
        ["state-path", "/srv/x.db", "PERSYS_STATE_STORE_PATH"],
        ["vm-enabled", "false", "PERSYS_VM_ENABLED"],
        ["reconcile-enabled", "false", "PERSYS_RECONCILE_ENABLED"],
        ["agent-version", "1", "PERSYS_VERSION"],
        ["service-name", "own", "OTEL_SERVICE_NAME"],
    ] {
        assert!(out.lines().any(|line| line.split_whitespace().eq(row)), "{row:?}: {out}");
    }
    assert!(err.contains("PERSYS_GATEWAY_CONFIG has no effect: "), "{err}");
}

#[test]
fn tls_to_the_scheduler_goes_with_tls_at_all() {
    let variables = [("PERSYS_SCHEDULER_INSECURE", "true")];
    let (code, _, err) = ends(&["agent", "--runtime", "sim"], &variables);
    assert_eq!(code, 64);
    assert!(err.contains("TLS is on both ways or on neither"), "{err}");
}

/// The lease of a silent node is over after 6 s. What comes then is not sooner than was said.
#[test]
fn a_silent_node_keeps_its_work_as_long_as_was_said() {
    let folder = Folder::new();
    let grace = [("SCHEDULER_NODE_UNAVAILABLE_GRACE", "10s")];
    let mut scheduler = scheduler(&folder, &grace, &["scheduler", "-insecure"]);
    let at = scheduler.at("grpc").to_string();
    let agent = agent(&folder, &[("PERSYS_SCHEDULER_ADDR", &at), ("PERSYS_NODE_ID", "n1")]);
    let way = format!("--insecure --endpoint {at}");
    ready_node(&folder, &way);
    agent.pause();
    let since = |condition: &str| {
        until(condition, || {
            let (_, out, _) = types(&folder, &format!("nodes -o json {way}"));
            let nodes: Value = serde_json::from_str(&out).ok()?;
            (nodes[0]["condition"] == condition).then(Instant::now)
        })
    };
    // Seen a little late, which only makes the time between them shorter.
    let silent = since("NotReady");
    let kept = since("Lost").duration_since(silent);
    assert!(kept > Duration::from_secs(8), "{kept:?}, where 4 s is usual");
}
