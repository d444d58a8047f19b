//! What variables do to a scheduler.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use persys_identity::Role;
use serde_json::Value;

use crate::program::{Folder, Program, ends, free_port, healthy, name, page, types, until};

/// A scheduler that takes any free port, and these variables.
fn scheduler(folder: &Folder, variables: &[(&str, &str)]) -> Program {
    let state = folder.at("scheduler");
    let mut all = vec![
        ("PERSYS_STATE_DIR", state.as_str()),
        ("GRPC_PORT", "0"),
        ("METRICS_PORT", "0"),
        ("PERSYS_DNS_PORT", "0"),
    ];
    all.retain(|(name, _)| variables.iter().all(|(given, _)| given != name));
    all.extend_from_slice(variables);
    let secure =
        variables.iter().any(|(name, _)| name.contains("_TLS_") || *name == "PERSYS_IDENTITY");
    let words: &[&str] = if secure { &["scheduler"] } else { &["scheduler", "-insecure"] };
    Program::start(folder.path(), words, &all)
}

#[test]
fn ports_and_addresses_are_those_that_were_said() {
    let folder = Folder::new();
    let (grpc, http, dns) = (free_port(), free_port(), free_port());
    let variables = [
        ("PERSYS_GRPC_ADDR", "127.0.0.2"),
        ("GRPC_PORT", &grpc),
        ("METRICS_PORT", &http),
        ("PERSYS_DNS_ADDR", "127.0.0.3"),
        ("PERSYS_DNS_PORT", &dns),
    ];
    let mut scheduler = scheduler(&folder, &variables);
    assert_eq!(scheduler.at("grpc").to_string(), format!("127.0.0.2:{grpc}"));
    let at: SocketAddr = format!("127.0.0.2:{http}").parse().unwrap();
    let health = healthy(at);
    assert_eq!((&health["mode"], &health["role"]), (&"normal".into(), &"leader".into()));
    let dns: SocketAddr = format!("127.0.0.3:{dns}").parse().unwrap();
    assert_eq!(name(dns, "persys-scheduler.persys.local", "A"), "127.0.0.2");
    let (code, out, err) =
        types(&folder, &format!("status --insecure --endpoint 127.0.0.2:{grpc}"));
    assert_eq!(code, 0, "{out}{err}");
    assert!(folder.path().join("scheduler/store.redb").exists(), "PERSYS_STATE_DIR");
}

#[test]
fn names_and_what_they_point_to_are_those_that_were_said() {
    let folder = Folder::new();
    let variables = [
        ("DOMAIN", "own.test"),
        ("SCHEDULER_ADVERTISE_IP", "10.1.2.3"),
        ("SCHEDULER_ADVERTISE_PORT", "9085"),
    ];
    let mut scheduler = scheduler(&folder, &variables);
    let dns = scheduler.at("dns");
    assert_eq!(name(dns, "persys-scheduler.own.test", "A"), "10.1.2.3");
    let service = name(dns, "_persys-scheduler.own.test", "SRV");
    assert!(service.contains(" 9085 "), "{service}");
}

#[test]
fn no_names_are_answered_when_that_was_said() {
    let folder = Folder::new();
    let mut scheduler = scheduler(&folder, &[("PERSYS_DNS_ENABLED", "false")]);
    let line = scheduler.says("the scheduler serves");
    assert!(line.contains("dns=\"nowhere\""), "{line}");
}

#[test]
fn the_log_is_as_it_was_said() {
    let folder = Folder::new();
    let mut told = scheduler(&folder, &[("LOG_FORMAT", "json")]);
    let line: Value = serde_json::from_str(&told.says("the scheduler serves")).unwrap();
    assert_eq!(line["level"], "INFO");

    let http = free_port();
    let other = Folder::new();
    let quiet = scheduler(&other, &[("LOG_LEVEL", "error"), ("METRICS_PORT", &http)]);
    healthy(format!("127.0.0.1:{http}").parse().unwrap());
    assert_eq!(quiet.log(), "");
    let (code, _, err) = ends(&["scheduler", "-insecure"], &[("LOG_LEVEL", "loud")]);
    assert_eq!(code, 64);
    assert!(err.contains("log-level = \"loud\""), "{err}");
}

#[test]
fn certificates_are_those_that_were_said() {
    let folder = Folder::new();
    folder.certify("blue", Role::Scheduler, "s1");
    folder.certify("blue", Role::Operator, "admin");
    let (ca, cert, key, one) =
        (folder.at("ca.pem"), folder.at("s1.crt"), folder.at("s1.key"), folder.at("s1.pem"));
    let three = [
        ("PERSYS_CLUSTER_ID", "blue"),
        ("PERSYS_TLS_CA", ca.as_str()),
        ("PERSYS_TLS_CERT", &cert),
        ("PERSYS_TLS_KEY", &key),
    ];
    for variables in [&three[..], &[("PERSYS_CLUSTER_ID", "blue"), ("PERSYS_IDENTITY", &one)]] {
        let mut scheduler = scheduler(&folder, variables);
        let at = scheduler.at("grpc");
        let way =
            format!("--identity {} --endpoint 127.0.0.1:{}", folder.at("admin.pem"), at.port());
        let status = until("a status", || {
            let (code, out, _) = types(&folder, &format!("status -o json {way}"));
            (code == 0).then(|| serde_json::from_str::<Value>(&out).unwrap())
        });
        assert_eq!(status["cluster"], "blue", "{status}");
        let (code, ..) =
            types(&folder, &format!("status --insecure --endpoint 127.0.0.1:{}", at.port()));
        assert_eq!(code, 1, "without a certificate nobody is answered");
    }
    for name in ["PERSYS_TLS_CA", "PERSYS_TLS_CERT", "PERSYS_TLS_KEY", "PERSYS_IDENTITY"] {
        let state = folder.at("other");
        let variables = [three.as_slice(), &[("PERSYS_STATE_DIR", &state), (name, "/nowhere/x")]];
        let ports = ["--grpc-port", "0", "--metrics-port", "0", "--dns-port", "0"];
        let words = [&["scheduler"], &ports[..]].concat();
        let (code, _, err) = ends(&words, &variables.concat());
        assert_eq!(code, 1, "{name}");
        assert!(err.contains("/nowhere/x"), "{name}: {err}");
    }
}

#[test]
fn tls_to_agents_goes_with_tls_at_all() {
    let (code, _, err) =
        ends(&["scheduler", "-insecure"], &[("SCHEDULER_AGENT_TLS_ENABLED", "true")]);
    assert_eq!(code, 64);
    assert!(err.contains("contradicts `insecure`"), "{err}");
    let folder = Folder::new();
    let state = folder.at("s");
    let variables = [
        ("SCHEDULER_AGENT_TLS_ENABLED", "false"),
        ("PERSYS_STATE_DIR", state.as_str()),
        ("GRPC_PORT", "0"),
        ("METRICS_PORT", "0"),
        ("PERSYS_DNS_PORT", "0"),
    ];
    Program::start(folder.path(), &["scheduler", "-insecure"], &variables).says("serves");
}

#[test]
fn it_looks_as_often_as_was_said() {
    let folder = Folder::new();
    let mut scheduler = scheduler(&folder, &[("SCHEDULER_RECONCILE_INTERVAL", "50ms")]);
    let at = scheduler.at("http");
    healthy(at);
    let looks = || {
        let page = page(at, "/metrics")?;
        let name = "persys_scheduler_reconciliation_cycles_total{result=\"success\"} ";
        page.lines().find_map(|line| line.strip_prefix(name))?.parse::<u64>().ok()
    };
    let (begun, first) = (Instant::now(), looks().unwrap());
    until("forty looks", || looks().filter(|count| *count >= first + 40));
    // Left to itself it wakes for its leadership alone, every 0.7 s: that takes half a minute.
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

/// With every variable of a kind set at once the program shows each with the name of who said it.
#[test]
fn config_tells_which_variable_said_it() {
    let variables = [
        ("PERSYS_GRPC_ADDR", "grpc-addr", "127.0.0.9"),
        ("GRPC_PORT", "grpc-port", "18085"),
        ("METRICS_PORT", "metrics-port", "18084"),
        ("ETCD_ENDPOINTS", "etcd-endpoints", "e1:2379"),
        ("DOMAIN", "domain", "own.test"),
        ("AGENTS_DISCOVERY_DOMAIN", "agents-discovery-domain", "agents.test"),
        ("SCHEDULER_SHARD_KEY", "shard-key", "north"),
        ("SCHEDULER_ADVERTISE_IP", "advertise-ip", "10.1.2.3"),
        ("SCHEDULER_ADVERTISE_PORT", "advertise-port", "9085"),
        ("SCHEDULER_RECONCILE_INTERVAL", "reconcile-interval", "6s"),
        ("SCHEDULER_DRIFT_DETECT_INTERVAL", "drift-detect-interval", "31s"),
        ("SCHEDULER_NODE_UNAVAILABLE_GRACE", "node-unavailable-grace", "5s"),
        ("SCHEDULER_MISSING_GRACE_PERIOD", "missing-grace-period", "16s"),
        ("SCHEDULER_AGENT_TLS_ENABLED", "agent-tls-enabled", "false"),
        ("PERSYS_TLS_CA", "tls-ca", "/a"),
        ("PERSYS_TLS_CERT", "tls-cert", "/b"),
        ("PERSYS_TLS_KEY", "tls-key", "/c"),
        ("LOG_LEVEL", "log-level", "debug"),
        ("LOG_FORMAT", "log-format", "json"),
    ];
    let set: Vec<_> = variables.iter().map(|(name, _, value)| (*name, *value)).collect();
    let (code, out, err) = ends(&["scheduler", "config"], &set);
    assert_eq!((code, err.as_str()), (0, ""));
    for (name, key, value) in variables {
        let row = [key, value, name];
        let found = out.lines().any(|line| line.split_whitespace().eq(row));
        assert!(found, "{row:?} is not in\n{out}");
    }
    // What is set to nothing is not set.
    let (_, out, _) = ends(&["scheduler", "config"], &[("GRPC_PORT", "")]);
    assert!(out.lines().any(|line| line.split_whitespace().eq(["grpc-port", "8085", "default"])));
}

#[test]
fn what_means_nothing_here_or_not_yet_is_told() {
    let variables = [
        ("REDIS_ADDR", "r:6379"),
        ("PERSYS_GATEWAY_CONFIG", "/g.yaml"),
        ("SCHEDULER_REAPPLY_GUARD", "45s"),
    ];
    let folder = Folder::new();
    let mut running = scheduler(&folder, &variables);
    running.says("the scheduler serves");
    let (code, _, config) = ends(&["scheduler", "config"], &variables);
    assert_eq!(code, 0);
    for (name, _) in variables {
        let told = format!("{name} has no effect: ");
        assert!(running.log().contains(&told), "{name}: {}", running.log());
        assert!(config.contains(&told), "{name}: {config}");
    }
    let hidden = ["PERSYS_VAULT_TOKEN", "PERSYS_VAULT_APPROLE_SECRET_ID", "ETCD_PASSWORD"];
    let (_, shown, said) = ends(&["scheduler", "config"], &hidden.map(|name| (name, "geheim")));
    assert!(!shown.contains("geheim") && !said.contains("geheim"), "{shown}{said}");
}
