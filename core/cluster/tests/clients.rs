//! What clients of the contract do that knows nothing of ours: one revision for every content, ids
//! with capital letters, and deletions on nodes that do not answer.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a story stops at the first surprise")]

mod support;

use persys_cluster::effects::Reply;
use persys_cluster::input::{Ask, OrphanVerdict};
use persys_model::phase::Phase;

use support::{Cluster, container, workload_id};

fn note(reply: &Reply) -> String {
    match reply {
        Reply::Done { note } => note.to_string(),
        Reply::Refused { why, .. } | Reply::Unknown { why } => panic!("refused: {why}"),
    }
}

fn refusal(reply: &Reply) -> String {
    match reply {
        Reply::Refused { why, .. } => why.to_string(),
        Reply::Done { note } | Reply::Unknown { why: note } => panic!("not refused: {note}"),
    }
}

fn revision(c: &Cluster, name: &str) -> String {
    c.world.workload(&workload_id(name)).unwrap().workload.revision.to_string()
}

#[test]
fn other_content_under_the_same_revision_is_a_revision_of_its_own() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("web", container(500, 512), "rev-1");
    assert_eq!(revision(&c, "web"), "rev-1");
    let epoch = |c: &Cluster| c.assignment("web").place.unwrap().epoch;
    let first = epoch(&c);
    let told = note(&c.apply("web", container(600, 512), "rev-1"));
    let second = revision(&c, "web");
    assert!(second.starts_with("rev-1+") && second.len() == 6 + 8, "{second}");
    assert!(told.contains("already names another content") && told.contains(&second), "{told}");
    assert!(epoch(&c) > first, "it is rolled out");
    assert_eq!(c.phase("web"), Some(Phase::Running));

    let (writes, before) = (c.store.writes, epoch(&c));
    assert_eq!(note(&c.apply("web", container(600, 512), "rev-1")), "nothing to change");
    assert_eq!(note(&c.apply("web", container(600, 512), &second)), "nothing to change");
    assert_eq!((c.store.writes, epoch(&c)), (writes, before), "the same again is the same");

    c.apply("web", container(500, 512), "rev-1");
    let third = revision(&c, "web");
    assert!(third.starts_with("rev-1+") && third != second, "{third}");
    assert_eq!(note(&c.apply("web", container(500, 512), "rev-2")), "accepted");
    assert_eq!(revision(&c, "web"), "rev-2", "a revision of their own choice is honoured");
}

#[test]
fn a_revision_derived_from_content_survives_a_new_leader() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("web", container(500, 512), "rev-1");
    c.apply("web", container(600, 512), "rev-1");
    c.reopen();
    assert_eq!(note(&c.apply("web", container(600, 512), "rev-1")), "nothing to change");
}

#[test]
fn no_two_workloads_differ_only_in_capital_letters() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    assert_eq!(note(&c.apply("Web", container(500, 512), "r1")), "accepted");
    assert_eq!(note(&c.apply("db", container(500, 512), "r1")), "accepted");
    for twin in ["web", "WEB", "Db"] {
        let why = refusal(&c.apply(twin, container(500, 512), "r1"));
        assert!(why.contains("only in capital letters"), "{why}");
    }
    assert_eq!(note(&c.apply("Web", container(600, 512), "r2")), "accepted", "itself it may be");
    c.reopen();
    assert!(
        refusal(&c.apply("wEb", container(500, 512), "r1")).contains("there is a workload Web")
    );
    note(&c.ask(Ask::Delete(workload_id("Web"))));
    c.obey();
    assert_eq!(note(&c.apply("web", container(500, 512), "r1")), "accepted", "once it is gone");
}

#[test]
fn a_deletion_on_a_silent_node_says_what_is_left_and_until_when() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    let node = c.node_of("web").unwrap();
    let other = c.apply("other", container(100, 128), "r1");
    assert_eq!(note(&other), "accepted");
    assert_eq!(note(&c.ask(Ask::Delete(workload_id("other")))), "accepted", "its node answers");
    c.deaf.push(node.clone());
    c.pass(8_000);
    let told = note(&c.ask(Ask::Delete(workload_id("web"))));
    assert!(told.contains(node.as_str()) && told.contains("runs on"), "{told}");
    assert!(told.contains("as soon as it answers again"), "{told}");
    assert!(told.contains(&format!("persys node confirm-gone {node}")), "{told}");
}

#[test]
fn an_orphan_is_not_adopted_beside_its_namesake() {
    // The rule is the one for new workloads; only the way in differs.
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("Web", container(500, 512), "r1");
    let node = c.node_of("Web").unwrap();
    let ask = Ask::Orphan(node, workload_id("web"), OrphanVerdict::Adopt);
    assert!(!refusal(&c.ask(ask)).is_empty());
}
