//! What a person does in the dashboard, from the login to a scheduler that is gone: in Chromium, against
//! a scheduler, an agent and a gateway, with containers on Docker.
//!
//! Pictures are kept under `target/screenshots`.

use persys_browser::house::{ADMIN, House, NODE, VIEWER};
use persys_browser::looks::assert_sound;
use persys_browser::tab::{Screen, Tab};
use serde_json::json;

const WEB: &str = "shop-web";
const HUGE: &str = "trainer";
const BROKEN: &str = "importer";
/// What else runs in the house.
const OTHERS: [&str; 4] = ["shop-api", "shop-cache", "mail", "metrics"];

/// A container that prints and goes on.
fn web() -> String {
    let command = ["sh", "-c", "n=0; while true; do n=$((n+1)); echo \"line $n\"; sleep 0.5; done"];
    request(WEB, 64, &command)
}

fn request(id: &str, memory: u64, command: &[&str]) -> String {
    let spec = json!({
        "type": "container",
        "resources": {"cpu_millicores": 100, "memory_mb": memory},
        "container": {"image": "persys-test/busybox:1", "command": command},
    });
    json!({"workload_id": id, "spec": spec}).to_string()
}

async fn apply(tab: &Tab, request: &str) {
    tab.go_within("#/apply").await;
    tab.fill("#manifest", request).await;
    tab.click_on("form.apply button[type=submit]").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_runs_a_container_and_learns_why_another_waits() {
    let mut house = House::build().await;
    let tab = Tab::open().await;
    tab.on(Screen::LAPTOP).await;
    tab.prefers("light").await;

    logs_in(&house, &tab).await;
    assert_eq!(tab.run_to_end(include_str!("terminal.js")).await, json!([]));
    sees_the_node(&tab).await;
    starts_a_container(&tab).await;
    others_are_there(&tab).await;
    follows_its_output(&tab).await;
    types_in_its_terminal(&tab).await;
    learns_why_another_waits(&tab).await;
    finds_the_way_by_keys(&tab).await;
    looks_on_a_phone_and_in_the_dark(&tab).await;
    another_may_only_look(&house).await;
    stops_it(&tab).await;
    let complaints = tab.complaints().await;
    assert!(complaints.is_empty(), "{complaints:#?}");

    deletes_both(&tab).await;
    loses_the_scheduler(&mut house, &tab).await;
    logs_out(&tab).await;
    tab.close().await;
    house.leave().await;
}

/// A wrong token is refused in words; a link lets in, and only once.
async fn logs_in(house: &House, tab: &Tab) {
    tab.go(&house.address()).await;
    tab.sees("h1", "Log in to Persys").await;
    assert_sound(tab, "login").await;
    tab.fill("#token", "persys_wrong").await;
    tab.press("Log in").await;
    tab.sees(".notice.bad", "Access denied").await;
    let link = house.link(ADMIN);
    tab.go(&link).await;
    tab.sees("h1", "Overview").await;
    let other = Tab::open().await;
    other.go(&link).await;
    other.sees(".notice.bad", "used already").await;
    other.keep("login-refused").await;
    other.close().await;
    tab.sees(".connection", "Live").await;
    tab.sees(".who", ADMIN).await;
    tab.sees(".who", "admin").await;
    // What was refused on purpose is no complaint.
    drop(tab.complaints().await);
    assert_sound(tab, "overview").await;
}

async fn sees_the_node(tab: &Tab) {
    tab.go_within("#/nodes").await;
    tab.sees("td .badge", "Ready").await;
    tab.sees("td .name", NODE).await;
    tab.sees(".tag", "zone=cellar").await;
    assert_sound(tab, "nodes").await;
    tab.keep("nodes").await;
    tab.press(NODE).await;
    tab.sees("h1", NODE).await;
    tab.sees(".gauge", "reserved").await;
    assert_sound(tab, "node").await;
}

/// It becomes Running by itself: the page is the same that it was when it was not.
async fn starts_a_container(tab: &Tab) {
    tab.run("window.sameAsBefore = true").await;
    apply(tab, &web()).await;
    tab.sees("h1", WEB).await;
    tab.sees(".head .badge", "Running").await;
    tab.sees(".timeline", "started").await;
    tab.sees(".pairs", "persys-test/busybox:1").await;
    assert_eq!(
        tab.run("return window.sameAsBefore").await,
        json!(true),
        "the page was loaded anew"
    );
    assert_sound(tab, "workload").await;
    tab.keep("workload-running").await;
}

/// What others ask for shows by itself; a failure with what was left of it.
async fn others_are_there(tab: &Tab) {
    let mut requests: Vec<_> =
        OTHERS.iter().map(|id| request(id, 48, &["sleep", "100000"])).collect();
    let fails = "echo 'reading 3 files'; echo 'catalogue.csv: no such file' >&2; exit 3";
    requests.push(request(BROKEN, 32, &["sh", "-c", fails]));
    for request in requests {
        let script = format!(
            "const done = arguments[arguments.length - 1];
             const headers = {{ 'Content-Type': 'application/json' }};
             fetch('/v1/workloads', {{ method: 'POST', headers, body: {} }}).then((answer) => done(answer.status))",
            json!(request)
        );
        assert_eq!(tab.run_to_end(&script).await, json!(200));
    }
    tab.go_within(&format!("#/workloads/{BROKEN}")).await;
    tab.sees(".why-panel .evidence", "catalogue.csv: no such file").await;
    assert_sound(tab, "failure").await;
    tab.keep("failure").await;
    tab.go_within(&format!("#/workloads/{WEB}")).await;
    tab.sees("h1", WEB).await;
}

async fn follows_its_output(tab: &Tab) {
    tab.press("Logs").await;
    tab.sees(".log-line", "line 2").await;
    let lines = "return document.querySelectorAll('.log-line').length";
    let before = tab.run(lines).await.as_u64().unwrap_or_default();
    tab.until(&format!("{lines} > {before}"), "another line").await;
    assert_sound(tab, "logs").await;
    tab.keep("logs").await;
}

async fn types_in_its_terminal(tab: &Tab) {
    tab.press("Terminal").await;
    tab.sees(".log-state", "connected").await;
    tab.types("echo hello-$((40+2))").await;
    tab.enters().await;
    tab.sees(".paper", "hello-42").await;
    tab.types("ls -l --color=always /").await;
    tab.enters().await;
    tab.sees(".paper", "etc").await;
    assert_sound(tab, "terminal").await;
    tab.keep("terminal").await;
    tab.types("exit 3").await;
    tab.enters().await;
    tab.sees(".log-state", "ended with code 3").await;
}

async fn learns_why_another_waits(tab: &Tab) {
    apply(tab, &request(HUGE, 64 * 1024 * 1024, &["sleep", "1000"])).await;
    tab.sees("h1", HUGE).await;
    tab.sees(".head .badge", "Pending").await;
    tab.sees(".why-summary", HUGE).await;
    tab.sees(".why-panel", "memory").await;
    assert_sound(tab, "why").await;
    tab.keep("why-pending").await;
    tab.go_within("#/").await;
    tab.sees(".alarms", HUGE).await;
    tab.sees(".counts", "Running").await;
    assert_sound(tab, "overview").await;
    tab.keep("overview").await;
}

async fn finds_the_way_by_keys(tab: &Tab) {
    // The first stop of the Tab key leads past the menu, and stays on the page.
    let skip = "const link = document.querySelector('.skip'); link.focus(); return document.activeElement === link";
    assert_eq!(tab.run(skip).await, json!(true));
    tab.enters().await;
    tab.until("return document.activeElement.id === 'title'", "the title has the focus").await;
    tab.sees("h1", "Overview").await;
    tab.types("gw").await;
    tab.sees("h1", "Workloads").await;
    tab.types("/").await;
    tab.types("trai").await;
    tab.until("return document.querySelectorAll('tbody tr').length === 1", "one row").await;
    tab.sees("tbody", HUGE).await;
    let address = tab.run("return location.hash").await;
    assert_eq!(address, json!("#/workloads?q=trai"), "what is searched for can be linked to");
    tab.run("document.activeElement.blur()").await;
    tab.types("?").await;
    tab.sees("dialog", "Workloads").await;
    tab.press("Close").await;
}

async fn looks_on_a_phone_and_in_the_dark(tab: &Tab) {
    for colours in ["light", "dark"] {
        tab.prefers(colours).await;
        for (screen, name) in [(Screen::LAPTOP, "laptop"), (Screen::PHONE, "phone")] {
            tab.on(screen).await;
            for (hash, title) in [
                ("#/", "Overview"),
                ("#/workloads", "Workloads"),
                ("#/drift", "Drift"),
                ("#/disks", "Disks"),
                ("#/events", "Events"),
                ("#/clusters", "Clusters"),
                ("#/apply", "Apply"),
            ] {
                tab.go_within(hash).await;
                tab.sees("h1", title).await;
                let page = format!("{}-{name}-{colours}", title.to_lowercase());
                assert_sound(tab, &page).await;
                tab.keep(&page).await;
            }
            looks_at_every_part(tab, &format!("{name}-{colours}")).await;
            tab.go_within(&format!("#/workloads/{HUGE}")).await;
            tab.sees(".why-summary", HUGE).await;
            assert_sound(tab, &format!("why-{name}-{colours}")).await;
            tab.keep(&format!("why-{name}-{colours}")).await;
            tab.go_within(&format!("#/workloads/{BROKEN}")).await;
            tab.sees(".evidence", "catalogue.csv").await;
            tab.keep(&format!("failure-{name}-{colours}")).await;
        }
    }
    tab.prefers("light").await;
    tab.on(Screen::LAPTOP).await;
}

/// The pages of one node and one workload.
async fn looks_at_every_part(tab: &Tab, way: &str) {
    for (hash, css, text) in [
        ("#/nodes".to_owned(), "td .name", NODE),
        (format!("#/nodes/{NODE}"), ".gauge", "reserved"),
        (format!("#/workloads/{WEB}"), ".why-summary", WEB),
        (format!("#/workloads/{WEB}/timeline"), ".timeline", "started"),
        (format!("#/workloads/{WEB}/history"), "td", "present"),
        (format!("#/workloads/{WEB}/logs"), ".log-line", "line"),
        (format!("#/workloads/{WEB}/terminal"), ".log-state", "connected"),
        (format!("#/workloads/{WEB}/usage"), ".graph", "Memory"),
    ] {
        tab.go_within(&hash).await;
        tab.sees(css, text).await;
        let in_sight = "return [...document.querySelectorAll('.menu [aria-current], .tabs [aria-current]')].every((one) => one.getBoundingClientRect().right <= innerWidth + 1 && one.getBoundingClientRect().left >= -1)";
        tab.until(in_sight, "the current entries of menu and tabs are in sight").await;
        let page = format!("{}-{way}", hash.trim_start_matches("#/").replace('/', "-"));
        assert_sound(tab, &page).await;
        tab.keep(&page).await;
    }
}

/// Who may only look sees everything and nothing to press.
async fn another_may_only_look(house: &House) {
    let tab = Tab::open().await;
    tab.on(Screen::LAPTOP).await;
    tab.go(&house.link(VIEWER)).await;
    tab.sees(".who", VIEWER).await;
    tab.go_within(&format!("#/workloads/{WEB}")).await;
    tab.sees(".head .badge", "Running").await;
    tab.sees(".why-summary", WEB).await;
    let buttons = "return [...document.querySelectorAll('main button, .tabs a')].map((found) => found.textContent)";
    assert_eq!(tab.run(buttons).await, json!(["Overview", "Timeline", "History", "Logs", "Usage"]));
    tab.go_within("#/nodes").await;
    tab.sees("td .name", NODE).await;
    assert_eq!(tab.run("return document.querySelectorAll('main button').length").await, json!(0));
    tab.close().await;
}

async fn stops_it(tab: &Tab) {
    tab.go_within(&format!("#/workloads/{WEB}")).await;
    tab.press("Stop").await;
    tab.sees(".head .badge", "Stopped").await;
    tab.sees(".actions", "Start").await;
}

async fn deletes_both(tab: &Tab) {
    for id in [WEB, HUGE] {
        tab.go_within(&format!("#/workloads/{id}")).await;
        tab.sees("h1", id).await;
        tab.press("Delete").await;
        tab.fill("dialog input", id).await;
        tab.click_on("dialog button.danger").await;
        let gone = format!(
            "return ![...document.querySelectorAll('td .name')].some((name) => name.textContent === '{id}') && location.hash === '#/workloads'"
        );
        tab.until(&gone, "it is gone").await;
    }
}

/// What was known stays, and it is said that it may be old.
async fn loses_the_scheduler(house: &mut House, tab: &Tab) {
    tab.go_within("#/nodes").await;
    tab.sees("td .name", NODE).await;
    house.lose_scheduler().await;
    tab.sees(".notice.bad", "does not answer").await;
    tab.sees(".connection", "Not connected").await;
    tab.sees("td .name", NODE).await;
    tab.keep("scheduler-gone").await;
}

async fn logs_out(tab: &Tab) {
    tab.click_on("button[aria-label='Log out']").await;
    tab.sees("h1", "Log in to Persys").await;
}
