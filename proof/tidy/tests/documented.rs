//! Defaults and metrics that the requirement documents name, looked up in the pages that other tests
//! compare with the program's own tables.

#![allow(clippy::unwrap_used, reason = "a test may stop")]

use persys_tidy::tree;

fn page(path: &str) -> String {
    std::fs::read_to_string(tree::root().join(path)).unwrap()
}

/// The rows of the tables below a heading, as their cells.
fn rows<'a>(page: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let start = format!("## {heading}");
    let below = page.lines().skip_while(|line| *line != start).skip(1);
    let part = below.take_while(|line| !line.starts_with("## "));
    let tables = part.filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    tables.map(|line| line.split(" | ").map(str::trim).collect()).collect()
}

/// The text of a cell without the marks of code.
fn bare(cell: &str) -> &str {
    cell.trim_matches('`')
}

/// Settings of the documents: component, variable, default. A default that is not the documented one is
/// here too; the table of requirements says why.
const DEFAULTS: &[(&str, &str, &str)] = &[
    ("Agent", "PERSYS_GRPC_ADDR", "0.0.0.0"),
    ("Agent", "PERSYS_GRPC_PORT", "50051"),
    ("Agent", "PERSYS_TLS_ENABLED", "true"),
    ("Agent", "PERSYS_TLS_CERT", "/etc/persys/certs/agent.crt"),
    ("Agent", "PERSYS_TLS_KEY", "/etc/persys/certs/agent.key"),
    ("Agent", "PERSYS_TLS_CA", "/etc/persys/certs/ca.crt"),
    ("Agent", "PERSYS_STATE_PATH", "/var/lib/persys/agent"),
    ("Agent", "PERSYS_DOCKER_ENABLED", "true"),
    ("Agent", "PERSYS_COMPOSE_ENABLED", "true"),
    ("Agent", "PERSYS_VM_ENABLED", "true"),
    ("Agent", "PERSYS_LIBVIRT_URI", "qemu:///system"),
    ("Agent", "PERSYS_RECONCILE_INTERVAL", "30s"),
    ("Agent", "PERSYS_LOG_LEVEL", "info"),
    ("Scheduler", "GRPC_PORT", "8085"),
    ("Scheduler", "METRICS_PORT", "8084"),
    ("Scheduler", "ETCD_ENDPOINTS", "localhost:2379"),
    ("Scheduler", "DOMAIN", "persys.local"),
    ("Scheduler", "SCHEDULER_RECONCILE_INTERVAL", "5s"),
    ("Scheduler", "SCHEDULER_DRIFT_DETECT_INTERVAL", "30s"),
    ("Scheduler", "SCHEDULER_AGENT_APPLY_TIMEOUT", "45s"),
    ("Scheduler", "SCHEDULER_AGENT_VM_APPLY_TIMEOUT", "4m"),
    ("Scheduler", "SCHEDULER_AGENT_DELETE_TIMEOUT", "1m"),
    ("Scheduler", "AGENTS_DISCOVERY_DOMAIN", "agents.persys.cloud"),
    ("Scheduler", "SCHEDULER_SHARD_KEY", "default"),
    ("Scheduler", "PERSYS_TLS_CA", "/etc/persys/certs/persys-scheduler/ca.pem"),
    ("Scheduler", "PERSYS_TLS_CERT", "/etc/persys/certs/persys-scheduler/persys_scheduler.crt"),
    ("Scheduler", "PERSYS_TLS_KEY", "/etc/persys/certs/persys-scheduler/persys_scheduler-key.key"),
    ("Scheduler", "PERSYS_VAULT_ENABLED", "auto"),
    ("Scheduler", "PERSYS_VAULT_PKI_MOUNT", "pki"),
    ("Scheduler", "PERSYS_VAULT_PKI_ROLE", "persys-scheduler"),
    ("Scheduler", "PERSYS_VAULT_CERT_TTL", "24h"),
    ("Scheduler", "PERSYS_VAULT_RETRY_INTERVAL", "1m"),
    ("Scheduler", "PERSYS_VAULT_SERVICE_NAME", "persys-scheduler"),
];

#[test]
fn documented_defaults_are_those_of_the_program() {
    let page = page("docs/settings.md");
    for (component, variable, default) in DEFAULTS {
        let rows = rows(&page, component);
        let of = |row: &&Vec<&str>| {
            row.get(1).is_some_and(|names| names.split(", ").any(|name| bare(name) == *variable))
        };
        let row = rows.iter().find(of).unwrap_or_else(|| panic!("{component} has no {variable}"));
        assert_eq!(bare(row[2]), *default, "{component}: {variable}");
    }
}

/// Families of metrics by which the documents' wishes are met.
const METRICS: &[(&str, &str)] = &[
    ("Agent", "persys_agent_workload_count"),
    ("Agent", "persys_agent_runtime_operation_duration_seconds"),
    ("Agent", "persys_agent_workload_reconcile_duration_seconds"),
    ("Agent", "persys_agent_ledger_writes_total"),
    ("Agent", "persys_agent_grpc_server_requests_total"),
    ("Agent", "persys_agent_grpc_server_request_duration_seconds"),
    ("Agent", "persys_agent_workload_apply_duration_seconds"),
    ("Agent", "persys_agent_workload_ends_total"),
    ("Agent", "persys_agent_system_cpu_utilization_percent"),
    ("Agent", "persys_agent_system_memory_utilization_percent"),
    ("Agent", "persys_agent_system_disk_utilization_percent"),
    ("Agent", "persys_agent_runtime_health_status"),
    ("Agent", "persys_agent_garbage_collection_resources_deleted_total"),
    ("Scheduler", "persys_scheduler_workload_failures_total"),
    ("Scheduler", "persys_scheduler_workloads_failed"),
];

#[test]
fn documented_metrics_are_those_of_the_program() {
    let page = page("docs/metrics.md");
    for (component, family) in METRICS {
        let rows = rows(&page, component);
        assert!(rows.iter().any(|row| bare(row[0]) == *family), "{component} has no {family}");
    }
}

#[test]
fn the_license_is_mit() {
    assert!(page("LICENSE").starts_with("MIT License"));
    assert!(page("Cargo.toml").contains("license = \"MIT\""));
}
