//! Every number on every page, for a cluster with workloads in every kind of trouble: the menu, the
//! overview, the lists and the scheduler's own summary agree.

use std::collections::BTreeMap;

use persys_browser::looks::assert_sound;
use persys_browser::tab::{Screen, Tab};
use persys_e2e::gateway;
use persys_e2e::stack::{Stack, Wire};
use serde_json::{Value, json};

const COUNTS: &str = include_str!("counts.js");
/// Images of the simulated runtime do what they are called; see `persys_runtime::sim`.
const WORKLOADS: [(&str, &str, u64); 9] = [
    ("ill", "ill:1", 64),
    ("runs", "web", 64),
    ("broken", "exit:3", 64),
    ("done", "exit:0", 64),
    ("halted", "web", 64),
    ("frozen", "web", 64),
    ("updated", "web", 64),
    ("waits", "web", 64 * 1024 * 1024),
    ("retried", "fail:IMAGE_PULL_FAILED", 64),
];

fn request(id: &str, image: &str, memory: u64) -> Value {
    json!({
        "workload_id": id,
        "desired_state": "Running",
        "spec": {
            "type": "container",
            "resources": {"cpu_millicores": 10, "memory_mb": memory},
            "container": {"image": image, "restart_policy": "no"},
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_count_on_every_page_agrees() {
    let mut stack = Stack::start(Wire::Plain).await;
    stack.add_agent("n1").await;
    stack.add_agent("n2").await;
    let config = gateway::config(&[("east", stack.scheduler.grpc)]);
    let gateway = persys_gateway::app::start(config).await.expect("a gateway");
    let tab = Tab::open().await;
    tab.on(Screen::LAPTOP).await;
    tab.prefers("light").await;
    tab.go(&format!("http://{}/", gateway.public)).await;
    tab.sees(".connection", "Live").await;

    for (id, image, memory) in WORKLOADS {
        let asked = tab.asks("POST", "/v1/workloads", Some(&request(id, image, memory))).await;
        assert_eq!(asked, json!(200), "{id}");
    }
    trouble(&tab).await;
    let overview = overview(&tab).await;
    list(&tab, &overview).await;
    nodes(&tab, &overview).await;
    summary(&tab, &overview).await;
    tab.close().await;
    gateway.stop().await;
    stack.stop().await;
}

/// Waits until a row says so.
async fn becomes(tab: &Tab, id: &str, word: &str) {
    let script = format!(
        "return [...document.querySelectorAll('tbody tr')].some((row) => row.querySelector('.name').textContent === '{id}' && row.querySelector('.badge').textContent.includes('{word}'))"
    );
    tab.until(&script, &format!("{id} is {word}")).await;
}

async fn trouble(tab: &Tab) {
    tab.go_within("#/workloads").await;
    for id in ["halted", "frozen", "updated"] {
        becomes(tab, id, "Running").await;
    }
    assert_eq!(tab.asks("POST", "/v1/workloads/halted/stop", None).await, json!(200));
    assert_eq!(tab.asks("POST", "/v1/workloads/frozen/pause", None).await, json!(200));
    let update = request("updated", "fail:IMAGE_NOT_FOUND", 64);
    assert_eq!(tab.asks("POST", "/v1/workloads", Some(&update)).await, json!(200));
    for (id, word) in [
        ("runs", "Running"),
        ("ill", "unhealthy"),
        ("broken", "Failed"),
        ("done", "Completed"),
        ("halted", "Stopped"),
        ("frozen", "Paused"),
        ("updated", "update failed"),
        ("waits", "Pending"),
        ("retried", "RetryPending"),
    ] {
        becomes(tab, id, word).await;
    }
    for colours in ["dark", "light"] {
        tab.prefers(colours).await;
        assert_sound(tab, &format!("workloads in trouble, {colours}")).await;
        tab.keep(&format!("counts-workloads-{colours}")).await;
    }
}

/// Those of the overview: they agree with the menu beside them and with what is listed below them.
async fn overview(tab: &Tab) -> Value {
    tab.go_within("#/").await;
    tab.sees(".attention", "Needs attention (5)").await;
    let counts = tab.run(COUNTS).await;
    let sum: u64 = counts["states"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(_, one)| one.as_u64())
        .sum();
    assert_eq!(
        (json!(sum), &counts["workloads"]),
        (json!(WORKLOADS.len()), &json!(WORKLOADS.len())),
        "{counts}"
    );
    assert_eq!(counts["alarms"].as_array().map(Vec::len), Some(5), "{counts}");
    let menu = &counts["menu"];
    let numbers = menu.as_object().into_iter().flatten().filter_map(|(_, one)| one.as_u64());
    assert_eq!(json!(numbers.sum::<u64>()), counts["attention"], "{counts}");
    assert_eq!(menu["workloads"], json!(5), "{counts}");
    assert_sound(tab, "overview-trouble").await;
    tab.keep("counts-overview").await;
    counts
}

/// Those of the list: its chips count what the overview counts, and filter to as many rows.
async fn list(tab: &Tab, overview: &Value) {
    tab.go_within("#/workloads").await;
    tab.sees("h1", "Workloads").await;
    let counts = tab.run(COUNTS).await;
    assert_eq!(counts["head"], overview["workloads"], "{counts}");
    assert_eq!(
        (&counts["chips"]["All"], &counts["total"]),
        (&overview["workloads"], &overview["workloads"]),
        "{counts}"
    );
    assert_eq!(counts["rows"], overview["states"], "rows by status: {counts}");
    let mut chips: BTreeMap<String, Value> =
        serde_json::from_value(counts["chips"].clone()).expect("counts");
    assert_eq!(chips.remove("All"), Some(overview["workloads"].clone()));
    assert_eq!(chips.remove("Needs attention"), Some(overview["attention"].clone()));
    assert_eq!(json!(chips), overview["states"], "chips by status");
    let mut filters: Vec<_> = chips.into_iter().collect();
    filters.push(("attention".to_owned(), overview["attention"].clone()));
    for (state, number) in filters {
        tab.go_within(&format!("#/workloads?state={state}")).await;
        let rows = format!("return document.querySelectorAll('tbody tr').length === {number}");
        tab.until(&rows, &format!("{number} rows of {state}")).await;
    }
}

/// Those of nodes: on the overview, in the list and on the page of each.
async fn nodes(tab: &Tab, overview: &Value) {
    tab.go_within("#/nodes").await;
    tab.sees("td .name", "n2").await;
    let script = "return Object.fromEntries([...document.querySelectorAll('tbody tr')].map((row) => [row.querySelector('.name').textContent, Number(row.querySelector('td[data-name=Workloads]').textContent)]))";
    let listed = tab.run(script).await;
    assert_eq!(listed, overview["tiles"]);
    for (node, number) in listed.as_object().into_iter().flatten() {
        tab.go_within(&format!("#/nodes/{node}")).await;
        tab.sees("h1", node).await;
        let rows = format!("return document.querySelectorAll('tbody tr').length === {number}");
        tab.until(&rows, &format!("{number} workloads on {node}")).await;
    }
}

/// The scheduler counts the same, under fewer headings.
async fn summary(tab: &Tab, overview: &Value) {
    let script = "const done = arguments[arguments.length - 1];
        fetch('/v1/summary').then((answer) => answer.json()).then(done)";
    let summary = tab.run_to_end(script).await;
    assert_eq!(summary["total_workloads"], overview["workloads"], "{summary}");
    assert_eq!(summary["unhealthy_workloads"], json!(1), "{summary}");
    let states = &overview["states"];
    let sum = |words: &[&str]| words.iter().filter_map(|word| states[*word].as_u64()).sum::<u64>();
    for (field, words) in [
        ("running_workloads", ["Running", "Paused", "NotResponding", "Restarting"].as_slice()),
        ("pending_workloads", &["Pending", "Scheduled", "RetryPending"]),
        ("failed_workloads", &["Failed"]),
    ] {
        assert_eq!(summary[field], json!(sum(words)), "{field}: {summary} {states}");
    }
}
