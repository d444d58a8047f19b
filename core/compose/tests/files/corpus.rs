//! Files as people write them: what becomes of every key, line by line, and what runs.
//!
//! Beside each file stands what is to be found in it. To accept a change on purpose, run the test
//! with `PERSYS_BLESS=1` and look at the difference.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use persys_compose::{Marks, Protocol, Reading, read};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

fn variables() -> BTreeMap<String, String> {
    [("MYSQL_ROOT_PASSWORD", "r$$t"), ("DB_PASSWORD", "p$1 ${x}")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

fn reading(name: &str) -> Reading {
    let text = std::fs::read_to_string(corpus().join(name)).expect("a file of the corpus");
    read(&text, &variables())
}

fn listed(reading: &Reading) -> String {
    let mut list = String::new();
    for one in &reading.findings {
        let why = if one.why.is_empty() { String::new() } else { format!(": {}", one.why) };
        writeln!(list, "{} {} {}{why}", one.line, one.path, one.verdict.word()).expect("a line");
    }
    list
}

fn names() -> Vec<String> {
    let entries = std::fs::read_dir(corpus()).expect("the corpus");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().expect("a plain name")).collect();
    names.retain(|name| Path::new(name).extension().is_some_and(|ending| ending == "yml"));
    names.sort();
    names
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a person may ask to accept what is found")]
fn every_key_of_every_file_is_judged_as_written_down() {
    let bless = std::env::var("PERSYS_BLESS").is_ok();
    assert!(names().len() >= 8, "the corpus is missing");
    for name in names() {
        let found = listed(&reading(&name));
        let expected = corpus().join(&name).with_extension("findings");
        if bless {
            std::fs::write(&expected, &found).expect("blessed");
        }
        let expected = std::fs::read_to_string(expected).expect("what is to be found");
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn what_is_emitted_is_read_back_as_the_same_document() {
    for name in names() {
        let Some(document) = reading(&name).document else { continue };
        let labels = [("owner".to_owned(), "us $HOME".to_owned())].into();
        let marks = Marks { labels, ..Marks::default() };
        let again = read(&document.emit(&marks), &BTreeMap::new());
        assert_eq!(again.document, Some(document.as_run(&marks)), "{name}: {}", listed(&again));
    }
}

#[test]
fn the_same_file_gives_the_same_bytes() {
    for name in names() {
        let emitted = || reading(&name).document.map(|document| document.emit(&Marks::default()));
        assert_eq!(emitted(), emitted(), "{name}");
    }
}

#[test]
fn a_stack_says_what_it_takes() {
    let document = reading("monitoring.yml").document.expect("a document");
    let ports = document.host_ports().into_iter().map(|port| (port.port, port.protocol));
    assert_eq!(ports.collect::<Vec<_>>(), [(3001, Protocol::Tcp), (9090, Protocol::Tcp)]);
    assert_eq!(document.named_volumes().collect::<Vec<_>>(), ["grafana-data", "prometheus-data"]);
    assert_eq!(document.images().len(), 3);
    let need = document.resources();
    assert_eq!((need.cpu_millicores, need.memory_bytes), (500, 512 << 20));
    assert_eq!((need.without_cpu, need.without_memory), (1, 1));

    let queue = reading("queue.yml").document.expect("a document").resources();
    assert_eq!((queue.without_cpu, queue.without_memory), (5, 5), "copies are counted");
    let proxy = reading("proxy.yml").document.expect("a document");
    assert_eq!(proxy.host_ports().len(), 7, "ranges are written out");
}

#[test]
fn services_that_may_end_are_known() {
    let document = reading("migration.yml").document.expect("a document");
    let ending: Vec<_> = document.services().filter(|s| s.one_shot).map(|s| &s.name).collect();
    assert_eq!(ending, ["migrate"]);
}

#[test]
fn what_is_emitted_has_our_marks_and_limits_and_nothing_left_to_fill_in() {
    let document = reading("migration.yml").document.expect("a document");
    let labels = [("persys.managed".to_owned(), "true".to_owned())].into();
    let marks = Marks { labels, pids: 77, ..Marks::default() };
    let json: serde_json::Value = serde_json::from_str(&document.emit(&marks)).expect("JSON");
    for service in ["migrate", "web", "db"] {
        let service = &json["services"][service];
        assert_eq!(service["restart"], "no");
        assert_eq!(service["labels"]["persys.managed"], "true");
        assert_eq!(service["pids_limit"], 77);
        assert_eq!(service["mem_limit"], serde_json::Value::Null, "no limit nobody asked for");
        assert_eq!(service["logging"]["options"]["max-file"], "3");
        assert_eq!(service["cap_drop"][0], "NET_RAW");
        assert_eq!(service["security_opt"][0], "no-new-privileges=true");
    }
    let url = &json["services"]["web"]["environment"]["DATABASE_URL"];
    assert_eq!(url, "postgres://shop:p$$1 $${x}@db/shop");
    assert_eq!(json["networks"]["default"]["labels"]["persys.managed"], "true");
    assert_eq!(json["volumes"]["data"]["labels"]["persys.managed"], "true");
    assert!(json.get("version").is_none() && json.get("name").is_none());
}
