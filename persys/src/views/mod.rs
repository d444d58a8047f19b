//! What dashboards and alerts show is what the program has: `docs/metrics.md` is made from the families
//! themselves, and every query in `deploy/` names what there is.

mod queries;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use serde_json::Value;

use crate::settings::understood;
use queries::Query;

const HEADER: &str = "\
# Metrics

Each component shows its numbers at `/metrics`, for Prometheus: the scheduler on port 8084, the agent on
8089, the gateway on 8585, where only this machine and those with a certificate of the cluster may look,
and an authority that serves alone on 8087.
`deploy/prometheus` has a configuration and alert rules, `deploy/grafana` has dashboards.

Labels come from closed sets, so the page of a large cluster is as long as that of a small one. Only
agents tell workloads apart, and only those that run on their node. Of several schedulers the one that
leads counts the cluster; the others show 0, so that sums are right.

A counter begins anew with its process. A histogram `x` has the series `x_bucket`, `x_sum` and
`x_count`. This page is made from the program itself: `PERSYS_BLESS=1 cargo test -p persys views`.
";

fn root(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(root(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A family as queries see it.
struct Family {
    kind: &'static str,
    labels: Vec<&'static str>,
    help: &'static str,
}

type Families = BTreeMap<String, Family>;

macro_rules! families {
    ($component:ident) => {
        $component::metrics::families()
            .into_iter()
            .map(|one| {
                let family = Family { kind: one.kind.word(), labels: one.labels, help: one.help };
                (one.name, family)
            })
            .collect::<Families>()
    };
}

fn components() -> [(&'static str, Families); 4] {
    [
        ("Scheduler", families!(persys_scheduler)),
        ("Agent", families!(persys_agent)),
        ("Gateway", families!(persys_gateway)),
        ("Authority", families!(persys_ca)),
    ]
}

fn everything() -> Families {
    components().into_iter().flat_map(|(_, families)| families).collect()
}

fn section<'a>(
    page: &mut String,
    title: &str,
    families: impl Iterator<Item = (&'a String, &'a Family)>,
) {
    let head = "| family | type | labels | what it says |\n|---|---|---|---|";
    writeln!(page, "\n## {title}\n\n{head}").unwrap();
    for (name, Family { kind, labels, help }) in families {
        let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
        writeln!(page, "| `{name}` | {kind} | {} | {help} |", labels.join(", ")).unwrap();
    }
}

#[test]
fn the_page_of_metrics_is_that_of_the_program() {
    let mut page = HEADER.to_owned();
    for (title, families) in &components() {
        section(&mut page, title, families.iter().filter(|(name, _)| name.starts_with("persys_")));
    }
    let every = &components()[0].1;
    section(
        &mut page,
        "Every component",
        every.iter().filter(|(name, _)| !name.starts_with("persys_")),
    );
    let at = root("docs/metrics.md");
    if std::env::var_os("PERSYS_BLESS").is_some() {
        std::fs::write(&at, &page).unwrap();
    }
    let written = std::fs::read_to_string(&at).unwrap_or_default();
    assert!(written == page, "docs/metrics.md is not that of the program; PERSYS_BLESS=1 makes it");
}

/// What existing dashboards ask for is there.
#[test]
fn names_that_others_rely_on_are_there() {
    let all = everything();
    for (prefix, names) in [
        (
            "persys_scheduler",
            "grpc_server_requests_total{method,code} \
             grpc_server_request_duration_seconds{method,code} agent_rpc_requests_total{rpc,code} \
             agent_rpc_duration_seconds{rpc,code} reconciliation_results_total{action,success} \
             reconciliation_cycle_duration_seconds reconciliation_cycles_total{result} \
             nodes_status{status} workloads_status{status} \
             workloads_desired_state{desired_state} state_store_writes_total{category}",
        ),
        (
            "persys_agent",
            "workload_count{state,type} workload_created_total workload_deleted_total \
             workload_failed_total workload_reconcile_total workload_apply_duration_seconds \
             workload_delete_duration_seconds workload_reconcile_duration_seconds \
             runtime_health_status{runtime_type} system_memory_utilization_percent \
             system_cpu_utilization_percent system_disk_utilization_percent{mount_point} \
             errors_total{error_code} garbage_collection_runs_total \
             garbage_collection_duration_seconds \
             garbage_collection_orphaned_resources_found{resource_type} \
             garbage_collection_old_failed_workloads_found \
             garbage_collection_resources_deleted_total{resource_type} task_queue_depth \
             task_latency_seconds{type,status} task_executions_total{type,status} \
             task_failures_total{type} workload_cpu_percent{workload_id,type} \
             workload_memory_bytes{workload_id,type} \
             workload_disk_read_bytes_total{workload_id,type} \
             workload_disk_write_bytes_total{workload_id,type} \
             workload_network_rx_bytes_total{workload_id,type} \
             workload_network_tx_bytes_total{workload_id,type}",
        ),
        (
            "persys_gateway",
            "requests_total{method,url,code} request_duration_seconds request_size_bytes \
             response_size_bytes",
        ),
    ] {
        for wanted in names.split_whitespace() {
            let (name, labels) = wanted.split_once('{').unwrap_or((wanted, ""));
            let family = all.get(&format!("{prefix}_{name}"));
            let family = family.unwrap_or_else(|| panic!("{prefix}_{name} is not there"));
            for label in labels.trim_end_matches('}').split(',').filter(|one| !one.is_empty()) {
                assert!(family.labels.contains(&label), "{wanted}");
            }
        }
    }
}

#[derive(Debug, Deserialize)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Debug, Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
struct Rule {
    alert: String,
    expr: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

fn rules() -> Vec<Rule> {
    let file = "deploy/prometheus/persys.rules.yml";
    let rules: Rules = serde_saphyr::from_str(&text(file)).unwrap();
    rules.groups.into_iter().flat_map(|group| group.rules).collect()
}

#[test]
fn every_alert_asks_for_what_there_is_and_says_what_to_look_at() {
    let (all, rules) = (everything(), rules());
    assert!(rules.len() > 30, "{}", rules.len());
    for Rule { alert, expr, labels, annotations } in &rules {
        let query = Query::read(expr);
        assert_eq!(query.faults(&all), Vec::<String>::new(), "{alert}");
        assert!(["info", "warning", "critical"].contains(&labels["severity"].as_str()), "{alert}");
        for name in ["summary", "meaning", "look"] {
            assert!(annotations[name].len() > 10, "{alert}: {name}");
            let unknown = query.unknown_words(&all, "{{ $labels.", " }}", &annotations[name]);
            assert_eq!(unknown, Vec::<String>::new(), "{alert}: {name}");
        }
        for command in annotations["look"].split("; ").filter(|one| one.starts_with("persys ")) {
            let told = understood(command);
            assert!(told.is_ok(), "{alert}: {command}: {told:?}");
        }
    }
}

/// Panels with their queries and legends, those in rows too.
fn panels(dashboard: &Value) -> Vec<&Value> {
    let mut found = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        found.extend(panel["panels"].as_array().into_iter().flatten());
        found.push(panel);
    }
    found
}

#[test]
fn every_dashboard_asks_for_what_there_is() {
    let all = everything();
    for name in ["persys-scheduler", "persys-agent", "persys-gateway"] {
        let dashboard: Value =
            serde_json::from_str(&text(&format!("deploy/grafana/{name}.json"))).unwrap();
        assert_eq!(dashboard["uid"], name);
        assert_eq!(dashboard["templating"]["list"][0]["type"], "datasource", "{name}");
        let mut seen = 0;
        for panel in panels(&dashboard) {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let (title, expr) = (&panel["title"], target["expr"].as_str().unwrap());
                let query = Query::read(expr);
                assert_eq!(query.faults(&all), Vec::<String>::new(), "{name}: {title}");
                let legend = target["legendFormat"].as_str().unwrap();
                let unknown = query.unknown_words(&all, "{{", "}}", legend);
                assert_eq!(unknown, Vec::<String>::new(), "{name}: {title}");
                assert_eq!(target["datasource"]["uid"], "${datasource}", "{name}: {title}");
                seen += 1;
            }
        }
        assert!(seen >= 15, "{name}: {seen} queries");
    }
}

/// Every family of ours is shown on a dashboard or watched by an alert, so that none is there for nothing.
#[test]
fn every_family_is_looked_at_by_something() {
    let mut asked = String::new();
    for file in ["grafana/persys-scheduler.json", "grafana/persys-agent.json"] {
        asked.push_str(&text(&format!("deploy/{file}")));
    }
    asked.push_str(&text("deploy/grafana/persys-gateway.json"));
    asked.push_str(&text("deploy/prometheus/persys.rules.yml"));
    // Kept under these names for those who count them.
    let beside = ["_records_written_total", "_events_written_total", "_timestamp_seconds"];
    let beside = |name: &String| {
        beside.iter().any(|end| name.ends_with(end)) || name.ends_with("_build_info")
    };
    let all = everything();
    let unused: Vec<_> = all
        .keys()
        .filter(|name| name.starts_with("persys_") && !beside(name) && !asked.contains(*name))
        .filter(|name| !name.ends_with("_etcd_revision"))
        .collect();
    assert!(unused.is_empty(), "{unused:?}");
}

fn promtool(words: &[&str], folder: &str) -> (bool, String) {
    let said = Command::new("promtool").args(words).current_dir(root(folder)).output();
    let said = said.expect("hack/prometheus-install installs promtool");
    let text = [said.stdout, said.stderr].concat();
    (said.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn prometheus_takes_the_configuration_and_the_rules() {
    let (taken, said) = promtool(&["check", "config", "prometheus.yml"], "deploy/prometheus");
    assert!(taken, "{said}");
    assert!(said.contains(&format!("{} rules found", rules().len())), "{said}");
    let (taken, said) = promtool(&["check", "config", "prometheus.yml"], "deploy/demo");
    assert!(taken && said.contains(&format!("{} rules found", rules().len())), "{said}");
}

#[test]
fn every_alert_fires_and_clears() {
    let (went_well, said) = promtool(&["test", "rules", "persys.test.yml"], "deploy/prometheus");
    assert!(went_well, "{said}");
    let tests = text("deploy/prometheus/persys.test.yml");
    for Rule { alert, .. } in rules() {
        let of: Vec<_> =
            tests.split("\n  - name: ").filter(|one| one.starts_with(&alert)).collect();
        let of = of.iter().find(|one| one.lines().next() == Some(alert.as_str()));
        let of = of.unwrap_or_else(|| panic!("{alert} has no test"));
        assert!(of.contains("exp_labels:"), "{alert} does not fire");
        assert!(of.contains("exp_alerts: []"), "{alert} does not clear");
    }
    // And the tool notices when one does not fire.
    let folder = tempfile::tempdir().unwrap();
    let broken = text("deploy/prometheus/persys.rules.yml").replace("up{job=", "down{job=");
    std::fs::write(folder.path().join("persys.rules.yml"), broken).unwrap();
    std::fs::write(folder.path().join("persys.test.yml"), tests).unwrap();
    let file = folder.path().join("persys.test.yml");
    assert!(!promtool(&["test", "rules", file.to_str().unwrap()], ".").0);
}

/// Queries of dashboards are well formed: as rules they would be taken.
#[test]
fn prometheus_understands_every_query_of_the_dashboards() {
    let mut rules = "groups:\n- name: queries\n  rules:\n".to_owned();
    let mut count = 0;
    for name in ["persys-scheduler", "persys-agent", "persys-gateway"] {
        let dashboard: Value =
            serde_json::from_str(&text(&format!("deploy/grafana/{name}.json"))).unwrap();
        for panel in panels(&dashboard) {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let expr = target["expr"].as_str().unwrap().replace("$__rate_interval", "1m");
                let expr = expr.replace("$instance", ".*").replace('\'', "''");
                writeln!(rules, "  - record: query:{count}\n    expr: '{expr}'").unwrap();
                count += 1;
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queries.yml");
    std::fs::write(&file, rules.replace("query:", "query_")).unwrap();
    let (taken, said) = promtool(&["check", "rules", file.to_str().unwrap()], ".");
    assert!(taken, "{said}");
    assert!(said.contains(&format!("{count} rules found")), "{said}");
}
