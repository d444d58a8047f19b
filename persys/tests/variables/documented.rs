//! Every variable of the documents with its documented default: the program starts with all of them at once, and
//! `config` shows each and where it came from. `sample.env` and `sample.agent.env` have the same values.

use std::path::Path;
use std::process::Command;

use persys_identity::Role;

use crate::engine::Engine;
use crate::program::{Folder, Program, ends, free_port};

/// A variable and its default; empty where the documents name none.
type Documented = (&'static str, &'static str);

const SCHEDULER: &[Documented] = &[
    ("ETCD_ENDPOINTS", "localhost:2379"),
    ("DOMAIN", "persys.local"),
    ("GRPC_PORT", "8085"),
    ("METRICS_PORT", "8084"),
    ("SCHEDULER_RECONCILE_INTERVAL", "5s"),
    ("SCHEDULER_DRIFT_DETECT_INTERVAL", "30s"),
    ("SCHEDULER_NODE_UNAVAILABLE_GRACE", ""),
    ("SCHEDULER_MISSING_GRACE_PERIOD", ""),
    ("SCHEDULER_AGENT_STATUS_POLL_INTERVAL", "1s"),
    ("SCHEDULER_AGENT_APPLY_TIMEOUT", "45s"),
    ("SCHEDULER_AGENT_VM_APPLY_TIMEOUT", "240s"),
    ("SCHEDULER_AGENT_DELETE_TIMEOUT", "60s"),
    ("AGENTS_DISCOVERY_DOMAIN", "agents.persys.cloud"),
    ("SCHEDULER_SHARD_KEY", "default"),
    ("SCHEDULER_ADVERTISE_IP", ""),
    ("SCHEDULER_ADVERTISE_PORT", ""),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", ""),
    ("JAEGER_ENDPOINT", ""),
    ("OTEL_EXPORTER_OTLP_INSECURE", ""),
    ("PERSYS_TLS_CA", "/etc/persys/certs/persys-scheduler/ca.pem"),
    ("PERSYS_TLS_CERT", "/etc/persys/certs/persys-scheduler/persys_scheduler.crt"),
    ("PERSYS_TLS_KEY", "/etc/persys/certs/persys-scheduler/persys_scheduler-key.key"),
    ("PERSYS_VAULT_ENABLED", "false"),
    ("PERSYS_VAULT_ADDR", "http://127.0.0.1:8200"),
    ("PERSYS_VAULT_AUTH_METHOD", "token"),
    ("PERSYS_VAULT_TOKEN", ""),
    ("PERSYS_VAULT_APPROLE_ROLE_ID", ""),
    ("PERSYS_VAULT_APPROLE_SECRET_ID", ""),
    ("PERSYS_VAULT_PKI_MOUNT", "pki"),
    ("PERSYS_VAULT_PKI_ROLE", "persys-scheduler"),
    ("PERSYS_VAULT_CERT_TTL", "24h"),
    ("PERSYS_VAULT_RETRY_INTERVAL", "1m"),
    ("PERSYS_VAULT_SERVICE_NAME", "persys-scheduler"),
    ("PERSYS_VAULT_SERVICE_DOMAIN", ""),
];

const AGENT: &[Documented] = &[
    ("PERSYS_GRPC_ADDR", "0.0.0.0"),
    ("PERSYS_GRPC_PORT", "50051"),
    ("PERSYS_TLS_ENABLED", "true"),
    ("PERSYS_TLS_CERT", "/etc/persys/certs/agent.crt"),
    ("PERSYS_TLS_KEY", "/etc/persys/certs/agent.key"),
    ("PERSYS_TLS_CA", "/etc/persys/certs/ca.crt"),
    ("PERSYS_STATE_PATH", "/var/lib/persys/state.db"),
    ("PERSYS_DOCKER_ENABLED", "true"),
    ("DOCKER_HOST", "unix:///var/run/docker.sock"),
    ("PERSYS_COMPOSE_ENABLED", "true"),
    ("PERSYS_COMPOSE_BINARY", "docker-compose"),
    ("PERSYS_VM_ENABLED", "true"),
    ("PERSYS_LIBVIRT_URI", "qemu:///system"),
    ("PERSYS_RECONCILE_ENABLED", "true"),
    ("PERSYS_RECONCILE_INTERVAL", "30s"),
    ("PERSYS_LOG_LEVEL", "info"),
    ("PERSYS_NODE_ID", ""),
    ("PERSYS_VERSION", "dev"),
];

/// Values for the variables without a documented default.
const EXAMPLES: &[Documented] = &[
    ("SCHEDULER_NODE_UNAVAILABLE_GRACE", "4s"),
    ("SCHEDULER_MISSING_GRACE_PERIOD", "15"),
    ("SCHEDULER_ADVERTISE_IP", "10.0.0.1"),
    ("SCHEDULER_ADVERTISE_PORT", "8085"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:4317"),
    ("JAEGER_ENDPOINT", "127.0.0.1:4317"),
    ("OTEL_EXPORTER_OTLP_INSECURE", "true"),
    ("PERSYS_VAULT_TOKEN", "t"),
    ("PERSYS_VAULT_APPROLE_ROLE_ID", "r"),
    ("PERSYS_VAULT_APPROLE_SECRET_ID", "s"),
    ("PERSYS_VAULT_SERVICE_DOMAIN", "example.org"),
    ("PERSYS_NODE_ID", "n1"),
];

fn root(file: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file).display().to_string()
}

/// All with a value: the documented one, or an example.
fn with_values(documented: &[Documented]) -> Vec<Documented> {
    let example = |name: &str| EXAMPLES.iter().find(|(one, _)| *one == name).unwrap().1;
    let value = |(name, default)| match default {
        "" => (name, example(name)),
        default => (name, default),
    };
    documented.iter().copied().map(value).collect()
}

/// The value that `config` shows for a variable, if that is where it came from.
fn shown<'a>(config: &'a str, variable: &str) -> Option<&'a str> {
    let end = format!(" {variable}");
    let row = config.lines().find_map(|line| line.trim_end().strip_suffix(end.as_str()))?;
    row.trim().split_once(' ').map(|(_, value)| value.trim())
}

#[test]
fn config_shows_every_documented_variable() {
    for (component, documented) in [("scheduler", SCHEDULER), ("agent", AGENT)] {
        let all = with_values(documented);
        // One of them says the same as another, and counts only without it.
        for without in ["JAEGER_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"] {
            let mut set = all.clone();
            set.retain(|(name, _)| *name != without);
            let (code, config, told) = ends(&[component, "config"], &set);
            assert_eq!((code, told.as_str()), (0, ""), "{component}");
            for (name, value) in set {
                let secret =
                    ["PERSYS_VAULT_TOKEN", "PERSYS_VAULT_APPROLE_SECRET_ID"].contains(&name);
                let wanted = if secret { "(not shown)" } else { value };
                assert_eq!(shown(&config, name), Some(wanted), "{component} {name}:\n{config}");
            }
        }
    }
}

/// The defaults that count are those of the documents, but for the three that docs/settings.md explains.
#[test]
fn what_is_not_set_has_the_documented_default() {
    for (component, documented) in [("scheduler", SCHEDULER), ("agent", AGENT)] {
        let (_, defaults, _) = ends(&[component, "config"], &[]);
        let (_, config, _) = ends(&[component, "config"], &with_values(documented));
        for (name, value) in documented.iter().filter(|(_, value)| !value.is_empty()) {
            let row = config.lines().find(|line| line.trim_end().ends_with(&format!(" {name}")));
            let key = row.unwrap().split_whitespace().next().unwrap();
            let start = format!("{key} ");
            let line = defaults.lines().find(|line| line.starts_with(&start)).unwrap();
            let default = line[start.len()..].trim().trim_end_matches("default").trim();
            let wanted = match *name {
                "SCHEDULER_AGENT_VM_APPLY_TIMEOUT" => "4m",
                "SCHEDULER_AGENT_DELETE_TIMEOUT" => "1m",
                // On as soon as there is something to log in with.
                "PERSYS_VAULT_ENABLED" => "auto",
                // The folder that the documented file becomes.
                "PERSYS_STATE_PATH" => "/var/lib/persys/agent",
                // Looked for when nothing is said: the usual socket, whichever program, the program's own.
                "DOCKER_HOST" | "PERSYS_COMPOSE_BINARY" | "PERSYS_VERSION" => "",
                _ => value,
            };
            assert_eq!(default, wanted, "{component} {name}");
        }
    }
}

/// Runs a program as `line` says in a network of its own, where every port is free, default ports too; or, where
/// no such network can be made, nothing.
fn alone(folder: &Folder, line: &str, variables: &[(&str, &str)]) -> Option<Program> {
    let unshare = ["--net", "--pid", "--fork", "--kill-child"];
    if !Command::new("unshare").args(unshare).arg("true").status().is_ok_and(|end| end.success()) {
        return None;
    }
    let line =
        format!("ip link set lo up && {line}").replace("persys", env!("CARGO_BIN_EXE_persys"));
    let mut command = Command::new("unshare");
    command.args(unshare).args(["sh", "-c", &line]).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap()).env("NO_COLOR", "1");
    command.env("LOG_FORMAT", "text").envs(variables.iter().copied());
    Some(Program::spawn(folder.path(), command))
}

/// Values of this machine's own files instead of those that only an installation has.
fn moved<'a>(all: &[(&'a str, &'a str)], own: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let kept = all.iter().copied().filter(|(name, _)| own.iter().all(|(one, _)| one != name));
    kept.chain(own.iter().copied()).collect()
}

#[test]
fn a_scheduler_starts_with_every_documented_default() {
    let folder = Folder::new();
    folder.certify("persys", Role::Scheduler, "s1");
    let (ca, cert, key) = (folder.at("ca.pem"), folder.at("s1.crt"), folder.at("s1.key"));
    let (state, etcd) = (folder.at("scheduler"), folder.at("etcd"));
    let own = [
        ("PERSYS_TLS_CA", ca.as_str()),
        ("PERSYS_TLS_CERT", &cert),
        ("PERSYS_TLS_KEY", &key),
        ("PERSYS_STATE_DIR", &state),
    ];
    let documented: Vec<_> = SCHEDULER.iter().copied().filter(|(_, v)| !v.is_empty()).collect();
    let variables = moved(&documented, &own);
    let line = format!("(etcd --data-dir {etcd} >{etcd}.log 2>&1 &) && exec persys scheduler");
    if let Some(mut scheduler) = alone(&folder, &line, &variables) {
        assert_eq!(scheduler.at("grpc").to_string(), "0.0.0.0:8085");
        assert_eq!(scheduler.at("http").to_string(), "0.0.0.0:8084");
        return;
    }
    let (grpc, http) = (free_port(), free_port());
    let ports = [("GRPC_PORT", grpc.as_str()), ("METRICS_PORT", &http), ("PERSYS_DNS_PORT", "0")];
    let mut variables = moved(&variables, &ports);
    variables.retain(|(name, _)| *name != "ETCD_ENDPOINTS");
    Program::start(folder.path(), &["scheduler"], &variables).says("the scheduler serves");
}

#[test]
fn an_agent_starts_with_every_documented_default() {
    let folder = Folder::new();
    folder.certify("persys", Role::Agent, "n1");
    let (ca, cert, key) = (folder.at("ca.pem"), folder.at("n1.crt"), folder.at("n1.key"));
    let (state, socket) = (folder.at("state.db"), folder.at("docker.sock"));
    let _engine = Engine::listen(Path::new(&socket));
    let (docker, libvirt) = (format!("unix://{socket}"), folder.at("libvirt-sock"));
    let own = [
        ("PERSYS_TLS_CA", ca.as_str()),
        ("PERSYS_TLS_CERT", &cert),
        ("PERSYS_TLS_KEY", &key),
        ("PERSYS_STATE_PATH", &state),
        ("DOCKER_HOST", &docker),
        ("PERSYS_LIBVIRT_SOCKET", &libvirt),
        ("PERSYS_NODE_ID", "n1"),
    ];
    let variables = moved(&with_values(AGENT), &own);
    if let Some(mut agent) = alone(&folder, "exec persys agent --watchdog=false", &variables) {
        assert_eq!(agent.at("at").to_string(), "0.0.0.0:50051");
        assert_eq!(agent.at("http").to_string(), "0.0.0.0:8089");
        return;
    }
    let ports = [("PERSYS_GRPC_PORT", "0"), ("PERSYS_METRICS_PORT", "0")];
    let variables = moved(&variables, &ports);
    let words = ["agent", "--watchdog=false"];
    Program::start(folder.path(), &words, &variables).says("the agent serves");
}

/// A shell takes the files in, and every documented variable is in them with the documented value.
#[test]
fn the_sample_files_have_the_documented_values() {
    for (component, file, documented) in
        [("scheduler", "sample.env", SCHEDULER), ("agent", "sample.agent.env", AGENT)]
    {
        let text = std::fs::read_to_string(root(file)).unwrap();
        for (name, default) in documented {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
            let value = line.unwrap_or_else(|| panic!("{file} lacks {name}"));
            assert!(default.is_empty() || value == *default, "{file}: {name}={value}");
        }
        let persys = env!("CARGO_BIN_EXE_persys");
        let line = format!("set -a; . {}; exec {persys} {component} config", root(file));
        let output = Command::new("sh").args(["-c", &line]).env_clear().output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && told.is_empty(), "{file}: {told}");
        let config = String::from_utf8(output.stdout).unwrap();
        if component == "scheduler" {
            let store = config.lines().find(|line| line.starts_with("store ")).unwrap();
            assert!(store.split_whitespace().eq(["store", "etcd", "ETCD_ENDPOINTS"]), "{store}");
        }
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.ends_with('=')) {
            let Some((name, value)) = line.split_once('=') else { continue };
            assert_eq!(shown(&config, name), Some(value), "{file}: {line}\n{config}");
        }
    }
}

/// Durations as Go writes them, and bare seconds.
#[test]
fn durations_are_written_as_go_writes_them_or_in_seconds() {
    let name = "SCHEDULER_AGENT_APPLY_TIMEOUT";
    for good in ["45", "45s", "1m0s", "1h30m", "1.5h", "1500ms", "2m0.5s"] {
        let (code, out, err) = ends(&["scheduler", "config"], &[(name, good)]);
        assert_eq!((code, shown(&out, name), err.as_str()), (0, Some(good), ""), "{good}");
    }
    for bad in ["45 parsecs", "-5s", "soon", "1.5.5s", "."] {
        let variables = [(name, bad), ("GRPC_PORT", "0"), ("METRICS_PORT", "0")];
        let (code, _, err) = ends(&["scheduler", "-insecure"], &variables);
        assert_eq!(code, 64, "{bad}: {err}");
        assert!(err.contains("agent-apply-timeout"), "{bad}: {err}");
    }
}
