//! The page that applies files: everything `persys init` writes and Compose files, pasted, chosen and
//! dropped; faults by name, and gone with the next attempt.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use persys_browser::looks::assert_sound;
use persys_browser::tab::{Screen, Tab};
use persys_e2e::gateway;
use persys_e2e::stack::{Stack, Wire};
use serde_json::json;

const SUBMIT: &str = "form.apply button[type=submit]";
const NO_FAULT: &str = "return document.querySelector('.notice.bad') === null";

#[tokio::test(flavor = "multi_thread")]
async fn a_person_applies_files_as_they_are() {
    let mut stack = Stack::start(Wire::Plain).await;
    stack.add_agent("n1").await;
    stack.add_agent("n2").await;
    let config = gateway::config(&[("east", stack.scheduler.grpc)]);
    let gateway = persys_gateway::app::start(config).await.expect("a gateway");
    let folder = tempfile::tempdir().expect("a folder");
    let tab = Tab::open().await;
    tab.on(Screen::LAPTOP).await;
    tab.prefers("light").await;
    tab.go(&format!("http://{}/", gateway.public)).await;
    tab.sees(".connection", "Live").await;

    pastes_what_init_writes(&tab, folder.path()).await;
    chooses_and_drops(&tab, folder.path()).await;
    mends_a_fault(&tab).await;
    let mut complaints = tab.complaints().await;
    // What was refused on purpose is no complaint.
    complaints.retain(|complaint| !complaint.contains("/v1/manifests"));
    assert!(complaints.is_empty(), "{complaints:#?}");
    tab.close().await;
    gateway.stop().await;
    stack.stop().await;
}

/// Unchanged, one of each kind.
async fn pastes_what_init_writes(tab: &Tab, folder: &Path) {
    for (kind, id) in [("vm", "box"), ("container", "web"), ("compose", "shop")] {
        let file = folder.join(format!("{kind}.yaml"));
        let words = ["init", "--type", kind, file.to_str().expect("a path")];
        let _code = persys_cli::run("persys", words.map(OsString::from).to_vec()).await;
        let text = fs::read_to_string(&file).expect("init writes a file");
        tab.go_within("#/apply").await;
        tab.fill("#manifest", &text).await;
        tab.click_on(SUBMIT).await;
        tab.sees("h1", id).await;
        tab.sees(".head .badge", "Running").await;
    }
}

/// A Compose file with what stands beside it.
async fn chooses_and_drops(tab: &Tab, folder: &Path) {
    let compose = folder.join("compose.yaml");
    let text = "name: picked\nservices:\n  web:\n    image: web:${TAG}\n    env_file: web.env\n";
    for (name, text) in [("compose.yaml", text), (".env", "TAG=7\n"), ("web.env", "GREETING=hi\n")]
    {
        fs::write(folder.join(name), text).expect("a file");
    }
    tab.go_within("#/apply").await;
    tab.choose("#file", &[folder.join("web.env"), compose, folder.join(".env")]).await;
    tab.sees("form.apply", "compose.yaml with 2 files beside it").await;
    tab.until(
        "return document.querySelector('#manifest').value.startsWith('name: picked')",
        "the file is in the field",
    )
    .await;
    assert_sound(tab, "apply").await;
    tab.keep("apply-chosen").await;
    tab.click_on(SUBMIT).await;
    tab.sees("h1", "picked").await;
    tab.sees(".head .badge", "Running").await;

    let project = folder.join("project");
    fs::create_dir_all(project.join("conf")).expect("a folder");
    let text = "name: whole\nservices:\n  web:\n    image: web\n    volumes: ['./conf:/etc/web']\n";
    fs::write(project.join("compose.yaml"), text).expect("a file");
    fs::write(project.join("conf/web.ini"), "word=1\n").expect("a file");
    tab.go_within("#/apply").await;
    tab.choose("#folder", &[project]).await;
    tab.sees("form.apply", "compose.yaml with 1 file beside it: conf/web.ini").await;
    tab.click_on(SUBMIT).await;
    tab.sees("h1", "whole").await;

    tab.go_within("#/apply").await;
    tab.sees("form.apply", "drop them here").await;
    let drop = "const held = new DataTransfer();
        held.items.add(new File(['services:\\n  api:\\n    image: api\\n'], 'docker-compose.yml'));
        const form = document.querySelector('form.apply');
        form.dispatchEvent(new DragEvent('drop', { dataTransfer: held, bubbles: true, cancelable: true }))";
    tab.run(drop).await;
    tab.sees("form.apply", "docker-compose.yml").await;
    tab.click_on(SUBMIT).await;
    tab.sees(".notice.bad", "field Name").await;
    tab.fill("#name", "dropped").await;
    tab.until(NO_FAULT, "the fault is gone with the first letter").await;
    tab.click_on(SUBMIT).await;
    tab.sees("h1", "dropped").await;
}

/// What is said is of this attempt and this text.
async fn mends_a_fault(tab: &Tab) {
    tab.go_within("#/apply").await;
    tab.fill("#name", "").await;
    tab.fill("#manifest", "name: api\nspec:\n  container:\n    imaeg: web\n").await;
    tab.click_on(SUBMIT).await;
    tab.sees(".notice.bad", "imaeg").await;
    tab.keep("apply-fault").await;
    tab.fill("#manifest", "services:\n  api:\n    build: .\n").await;
    tab.until(NO_FAULT, "an edit takes the old fault away").await;
    tab.fill("#name", "built").await;
    tab.click_on(SUBMIT).await;
    tab.sees(".notice.bad", "services.api.build").await;
    tab.sees(".notice.bad", "persys apply FILE").await;
    let text = "return document.querySelector('.notice.bad').textContent.includes('imaeg')";
    assert_eq!(tab.run(text).await, json!(false), "the old fault is still there");
    tab.fill("#name", "").await;
    tab.fill("#manifest", "name: api\nspec:\n  container:\n    image: web\n").await;
    tab.click_on(SUBMIT).await;
    tab.sees("h1", "api").await;
    tab.go_within("#/apply").await;
    tab.until(NO_FAULT, "nothing is left of the last attempt").await;
}
