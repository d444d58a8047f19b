//! What a container cannot show: several clusters, what nobody knows, and the console of a machine. The
//! runtime is in memory, and nobody has to log in.

use persys_browser::looks::assert_sound;
use persys_browser::tab::{Screen, Tab};
use persys_e2e::gateway;
use persys_e2e::stack::{Stack, Wire};
use persys_proto::agent::v1 as agent;
use persys_proto::agent::v1::agent_service_client::AgentServiceClient;
use serde_json::json;

/// What runs on a node of the second cluster and is in nobody's books.
const UNKNOWN: [&str; 3] = ["old-import", "old-mail", "old-cron"];
const MACHINE: &str = "desk";

/// A cluster whose node brings along what somebody started by hand.
async fn with_unknown() -> Stack {
    let mut stack = Stack::start(Wire::Plain).await;
    stack.add_lone_agent("n2").await;
    let mut client = AgentServiceClient::new(stack.agent_channel("n2").await);
    for id in UNKNOWN {
        let container = agent::ContainerSpec { image: "web".to_owned(), ..Default::default() };
        let request = agent::ApplyWorkloadRequest {
            id: id.to_owned(),
            r#type: agent::WorkloadType::Container.into(),
            revision_id: "r1".to_owned(),
            desired_state: agent::DesiredState::Running.into(),
            spec: Some(agent::WorkloadSpec {
                spec: Some(agent::workload_spec::Spec::Container(container)),
            }),
            ..Default::default()
        };
        let answer = client.apply_workload(request).await.expect("an answer").into_inner();
        assert!(answer.applied, "{answer:?}");
    }
    drop(client);
    stack.hand_over("n2").await;
    stack
}

/// Presses a button in the row about one workload.
async fn press(tab: &Tab, workload: &str, button: &str) {
    let script = format!(
        "const row = [...document.querySelectorAll('tbody tr')].find((row) => row.textContent.includes({}));
         const found = row && [...row.querySelectorAll('button')].find((one) => one.textContent === {});
         found?.click(); return Boolean(found)",
        json!(workload),
        json!(button)
    );
    tab.until(&script, &format!("{button} beside {workload}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_changes_clusters_decides_what_nobody_knows_and_holds_a_console() {
    let mut east = Stack::start(Wire::Plain).await;
    east.add_agent("n1").await;
    let west = with_unknown().await;
    let config = gateway::config(&[("east", east.scheduler.grpc), ("west", west.scheduler.grpc)]);
    let gateway = persys_gateway::app::start(config).await.expect("a gateway");
    let tab = Tab::open().await;
    tab.on(Screen::LAPTOP).await;
    tab.prefers("light").await;
    tab.go(&format!("http://{}/", gateway.public)).await;
    tab.sees("h1", "Overview").await;

    changes_clusters(&tab).await;
    decides_what_nobody_knows(&tab).await;
    holds_a_console(&tab).await;
    let mut complaints = tab.complaints().await;
    // The page asks for what nobody knows, and is told so.
    let unknown = |text: &str| text.contains("404") && UNKNOWN.iter().any(|id| text.contains(id));
    complaints.retain(|complaint| !unknown(complaint));
    assert!(complaints.is_empty(), "{complaints:#?}");
    tab.close().await;
    gateway.stop().await;
    east.stop().await;
    west.stop().await;
}

/// By the list in the menu and by the page; what is shown is of the one that was chosen.
async fn changes_clusters(tab: &Tab) {
    tab.go_within("#/nodes").await;
    tab.sees("td .name", "n1").await;
    tab.go_within("#/clusters").await;
    tab.sees("td .name", "west").await;
    tab.sees("td .tag", "shown").await;
    assert_sound(tab, "clusters").await;
    for colours in ["dark", "light"] {
        tab.prefers(colours).await;
        tab.keep(&format!("clusters-two-{colours}")).await;
    }
    press(tab, "west", "Show").await;
    tab.go_within("#/nodes").await;
    tab.sees("td .name", "n2").await;
    let chosen = "return document.querySelector('select.cluster').value";
    assert_eq!(tab.run(chosen).await, json!("west"));
    let script = "const list = document.querySelector('select.cluster'); list.value = 'east';
        list.dispatchEvent(new Event('change', { bubbles: true }))";
    tab.run(script).await;
    tab.go_within("#/nodes").await;
    tab.sees("td .name", "n1").await;
    tab.run(&script.replace("east", "west")).await;
    tab.go_within("#/nodes").await;
    tab.sees("td .name", "n2").await;
}

/// Adopted it is a workload like any other, ignored it is said so, deleted it is gone.
async fn decides_what_nobody_knows(tab: &Tab) {
    let [adopted, ignored, deleted] = UNKNOWN;
    tab.go_within("#/drift").await;
    for id in UNKNOWN {
        tab.sees("td .name", id).await;
    }
    assert_sound(tab, "drift").await;
    for colours in ["dark", "light"] {
        tab.prefers(colours).await;
        tab.keep(&format!("drift-{colours}")).await;
    }
    press(tab, ignored, "Ignore").await;
    tab.sees("td .tag", "ignored").await;
    press(tab, deleted, "Delete").await;
    tab.fill("dialog input", deleted).await;
    tab.click_on("dialog button.danger").await;
    press(tab, adopted, "Adopt").await;
    let left = format!(
        "const all = document.querySelector('main').textContent;
         return all.includes('{ignored}') && !all.includes('{adopted}') && !all.includes('{deleted}')"
    );
    tab.until(&left, "only the one that is ignored is left").await;
    assert_sound(tab, "drift").await;
    tab.go_within(&format!("#/workloads/{adopted}")).await;
    tab.sees(".head .badge", "Running").await;
}

async fn holds_a_console(tab: &Tab) {
    let spec = json!({
        "type": "vm",
        "resources": {"cpu_millicores": 1000, "memory_mb": 64},
        "vm": {"vcpus": 1, "memory_mb": 64, "os_image": "tiny", "disk_gb": 1},
    });
    tab.go_within("#/apply").await;
    let manifest = json!({"workload_id": MACHINE, "spec": spec}).to_string();
    tab.fill("#manifest", &manifest).await;
    tab.click_on("form.apply button[type=submit]").await;
    tab.sees("h1", MACHINE).await;
    tab.sees(".head .badge", "Running").await;
    tab.press("Console").await;
    tab.sees(".log-state", "connected").await;
    tab.types("who is there").await;
    tab.sees(".paper", "who is there").await;
    assert_sound(tab, "console").await;
    for colours in ["dark", "light"] {
        tab.prefers(colours).await;
        tab.keep(&format!("console-{colours}")).await;
    }
}
