//! Who asked for a change, and why.

use std::path::Path;
use std::sync::Arc;

use persys_cluster::record::{Unit, Write};
use persys_model::audit::AuditRecord;
use persys_store::{Campaign, Embedded, Settings, Store as _};

use crate::rig::{Rig, tell_words};

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_kept_with_who_asked_for_it_and_why() {
    let rig = Rig::start().await;
    rig.types("run web --name one").await.ended(0);
    let words = ["run", "web", "--name", "two", "--because", "new disk, 100 % \u{fc}ber Nacht"];
    tell_words(&rig.world(""), &words).await.ended(0);
    let told = rig.types("audit list").await.ended(0);
    let line = |id: &str| {
        let found = told.out.lines().find(|line| line.contains(&format!("apply workload/{id} ")));
        found.unwrap_or_else(|| panic!("{id} is not in {}", told.out)).to_owned()
    };
    let plain = line("one");
    assert!(plain.contains("operator admin") && plain.ends_with("from 127.0.0.1"), "{plain}");
    assert!(line("two").ends_with(": new disk, 100 % \u{fc}ber Nacht"), "{}", line("two"));

    // What happened by itself is no part of it.
    let all = rig.types("events -o json").await.ended(0).json();
    let asked = rig.types("events --asked -o json").await.ended(0).json();
    let (all, asked) = (all.as_array().unwrap(), asked.as_array().unwrap());
    assert!(asked.len() < all.len() && !asked.is_empty(), "{} of {}", asked.len(), all.len());
    let has_author = |event: &serde_json::Value| event["details"]["by"].is_string();
    assert!(asked.iter().all(has_author), "{asked:#?}");
    assert!(all.iter().any(|event| event["type"] == "WorkloadRunning" && !has_author(event)));

    // And after one of them come the others.
    let (first, rest) = asked.split_first().unwrap();
    let id = first["id"].as_str().unwrap();
    let after = rig.types(&format!("events --asked --after {id} -o json")).await.ended(0).json();
    assert_eq!(after.as_array().map(Vec::as_slice), Some(rest));
    let last = asked.last().unwrap()["id"].as_str().unwrap();
    let none = rig.types(&format!("events --asked --after {last}")).await.ended(0);
    assert_eq!(none.out, "nothing happened\n");

    // Every kind of change takes it, also where an operator speaks.
    let words = ["node", "drain", "n1", "--because", "moves to another rack"];
    tell_words(&rig.world(""), &words).await.ended(0);
    let told = rig.types("audit --object node/n1").await.ended(0);
    assert!(
        told.out.contains("drain node/n1") && told.out.contains("moves to another rack"),
        "{told:?}"
    );
    tell_words(&rig.world(""), &["summary", "--because", "two\nlines"]).await.ended(64);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_in_the_log_and_the_log_can_be_checked() {
    let rig = Rig::start().await;
    rig.types("run web --name one").await.ended(0);
    // Somebody who may do nothing tries everything, often.
    let guest = rig.path("guest-user.pem");
    for _ in 0..40 {
        rig.types(&format!("delete one --identity {guest}")).await.ended(1);
    }
    rig.types(&format!("audit --identity {guest}")).await.ended(1);
    let denied = rig
        .until("audit --denied -o json", |told| {
            told.code == 0 && told.json().as_array().is_some_and(|all| all.len() >= 30)
        })
        .await
        .json();
    let denied = denied.as_array().unwrap();
    assert_eq!(denied.len(), 30, "a flood is counted, not written");
    let first = &denied[0];
    assert_eq!(first["who"], "user guest");
    assert!(first["verb"].as_str().unwrap().starts_with("/persys."), "{first}");
    assert!(first["rule"].as_str().is_some_and(|rule| !rule.is_empty()), "{first}");

    let whole = rig.types("audit verify").await.ended(0);
    assert!(whole.out.contains("is whole"), "{whole:?}");
    let file = rig.path("audit.jsonl");
    rig.types(&format!("audit export {file}")).await.ended(0);
    rig.types(&format!("audit verify --file {file}")).await.ended(0);
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let spoilt = |lines: &[String]| {
        let path = rig.file("spoilt.jsonl", &format!("{}\n", lines.join("\n")));
        format!("audit verify --file {path}")
    };
    let own = |lines: &[&str]| lines.iter().map(ToString::to_string).collect::<Vec<_>>();
    // Another name in the third record, a record left out, and the end cut off.
    let mut other = own(&lines);
    other[3] = other[3].replace("user guest", "user ghost");
    let told = rig.types(&spoilt(&other)).await.ended(1);
    assert!(told.err.contains("record 4"), "{told:?}");
    let mut less = own(&lines);
    less.remove(2);
    let told = rig.types(&spoilt(&less)).await.ended(1);
    assert!(told.err.contains("record 2: is missing"), "{told:?}");
    let mut cut = own(&lines);
    cut.remove(lines.len() - 2);
    assert!(rig.types(&spoilt(&cut)).await.ended(1).err.contains("is missing"));

    // It goes on after a restart of the scheduler, and in a copy of the store.
    let mut rig = rig;
    rig.stop_scheduler().await;
    rig.start_scheduler("scheduler").await;
    rig.until("audit verify", |told| told.code == 0).await;
    rig.types("run web --name two").await.ended(0);
    rig.types("audit verify").await.ended(0);
    rig.stop().await;
}

/// Writes more records into the audit log of a scheduler that does not run, as one would.
async fn lengthen(store: &Path, count: u64) {
    let store = Embedded::open(store, Settings::default()).unwrap();
    let Campaign::Won(term) = store.campaign(&"test#1".into(), 60_000).await.unwrap() else {
        panic!("somebody leads");
    };
    let mut head = store.load(term, None).await.unwrap().snapshot.head.unwrap();
    let after = head.seq;
    let mut writes = Vec::new();
    for _ in 0..count {
        let (seq, previous) = (head.audit.seq + 1, head.audit.hash);
        let who = "operator robot".into();
        let record = AuditRecord { seq, who, previous, allowed: true, ..AuditRecord::default() };
        head.audit = record.head();
        writes.push(Write::PutAudit(Arc::new(record)));
    }
    head.seq = head.seq.next();
    store.commit(term, after, vec![Unit { head, writes }]).await.unwrap();
    store.resign(term).await.unwrap();
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_log_is_read_page_by_page() {
    let mut rig = Rig::start().await;
    rig.types("run web --name one").await.ended(0);
    rig.stop_scheduler().await;
    lengthen(Path::new(&rig.path("scheduler/store.redb")), 2_500).await;
    rig.start_scheduler("scheduler").await;
    let whole = rig.until("audit verify", |told| told.code == 0).await;
    let count = whole.out.split_whitespace().find_map(|word| word.parse::<usize>().ok()).unwrap();
    assert!(count > 2_500, "{whole:?}");
    let seqs = |told: serde_json::Value| -> Vec<u64> {
        let all = told.as_array().unwrap().iter();
        all.map(|one| one["seq"].to_string().trim_matches('"').parse().unwrap()).collect()
    };
    // More than a page, the newest, oldest first; and a page and a bit of what fits.
    let list = seqs(rig.types("audit list --limit 1500 -o json").await.ended(0).json());
    assert_eq!(list.len(), 1_500);
    assert!(list.is_sorted() && list.windows(2).all(|two| two[1] == two[0] + 1));
    let of_robot = "audit list --who robot --limit 100000 -o json";
    assert_eq!(seqs(rig.types(of_robot).await.ended(0).json()).len(), 2_500);
    let few = seqs(rig.types("audit list --limit 3 -o json").await.ended(0).json());
    assert_eq!(few[..], list[1_497..]);
    let file = rig.path("audit.jsonl");
    rig.types(&format!("audit export {file}")).await.ended(0);
    assert!(std::fs::read_to_string(&file).unwrap().lines().count() >= count + 2);
    rig.types(&format!("audit verify --file {file}")).await.ended(0);
    rig.stop().await;
}
