//! Volumes that a Compose file names: kept when their stack is deleted, unless its user says otherwise.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test may stop"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_cluster::effects::{RefusalCode, Reply};
use persys_cluster::input::Ask;
use persys_cluster::settings::Settings;
use persys_model::entry::{Entry, Namespace};
use persys_model::id::{NamespaceName, RevisionId, WorkloadId};
use persys_model::labels::{Constraint, Rule};
use persys_model::phase::Phase;
use persys_model::spec::compose::ComposeSource;
use persys_model::spec::secret::Secret;
use persys_model::spec::{ComposeSpec, Kind, NAMESPACE_KEY, Spec};
use persys_model::volume::{VolumeKey, VolumePhase};
use persys_model::workload::Desired;

use support::{Cluster, container, facts, node_id, workload_id};

fn stack(volumes: &[&str]) -> Spec {
    let named: Vec<_> = volumes.iter().map(|name| format!("{name}: {{}}")).collect();
    let named = named.join(", ");
    let file = format!("services:\n  db: {{image: busybox}}\nvolumes: {{{named}}}\n");
    let mut spec = container(500, 512);
    spec.kind = Kind::Compose(ComposeSpec {
        source: ComposeSource::Inline(Secret::new(&file)),
        project: None,
        env: BTreeMap::new(),
        host_ports: Vec::new(),
        has_named_volumes: true,
    });
    spec
}

fn disks(c: &Cluster) -> Vec<(String, VolumePhase)> {
    let stored = c.store.snapshot.volumes.iter();
    let stored: Vec<_> = stored.map(|one| (one.key.to_string(), one.phase)).collect();
    let known: Vec<_> = c.world.volumes().map(|one| (one.key.to_string(), one.phase)).collect();
    assert_eq!(stored, known, "memory and store differ");
    stored
}

fn note(reply: &Reply) -> String {
    match reply {
        Reply::Done { note } => note.to_string(),
        other => panic!("not done: {other:?}"),
    }
}

fn data() -> VolumeKey {
    VolumeKey::of_stack(&workload_id("shop"), "data")
}

/// What nodes say of what they removed under this name: whether data went along.
fn removed(c: &Cluster, id: &WorkloadId) -> Vec<bool> {
    let said = c.agents.values().filter_map(|agent| agent.tombstones.get(id));
    said.map(|(_, purged)| *purged).collect()
}

/// Three nodes, and a stack on one of them.
fn running() -> (Cluster, usize) {
    let mut c = Cluster::new(Settings::default());
    for nth in 0..3 {
        let mut facts = facts(&node_id(nth), 4000, 8192);
        facts.labels.insert(Arc::from("at"), Arc::from(node_id(nth).as_str()));
        c.join(facts);
    }
    c.apply("shop", stack(&["data"]), "r1");
    let place = c.assignment("shop").place.unwrap().node;
    let at = (0..3).find(|at| node_id(*at) == place).unwrap();
    (c, at)
}

#[test]
fn a_deleted_stack_leaves_its_volumes_and_says_so() {
    let (mut c, at) = running();
    assert_eq!(disks(&c), [], "while the stack is there they are its own affair");
    let said = note(&c.ask(Ask::Delete(workload_id("shop"))));
    assert!(said.contains("compose:shop.data") && said.contains("persys disk delete"), "{said}");
    c.pass(5_000);
    assert_eq!(removed(&c, &workload_id("shop")), [false], "no agent takes data along");
    assert_eq!(c.phase("shop"), None);
    assert_eq!(disks(&c), [("compose:shop.data".to_owned(), VolumePhase::Retained)]);
    assert_eq!(c.world.volume(&data()).unwrap().home, Some(node_id(at)));
}

#[test]
fn a_stack_of_the_same_id_takes_them_again_where_they_are() {
    let (mut c, at) = running();
    c.ask(Ask::Delete(workload_id("shop")));
    c.pass(5_000);
    // Its node is now the fullest.
    let mut heavy = container(3000, 4096);
    heavy.placement.constraints = vec![Constraint {
        key: Arc::from("at"),
        rule: Rule::In(BTreeSet::from([Arc::from(node_id(at).as_str())])),
    }];
    c.apply("heavy", heavy, "r1");
    assert_eq!(c.phase("heavy"), Some(Phase::Running));
    c.apply("shop", stack(&["data"]), "r2");
    assert_eq!(c.phase("shop"), Some(Phase::Running));
    assert_eq!(c.assignment("shop").place.unwrap().node, node_id(at));
    assert_eq!(disks(&c), [], "they are the stack's again");
    c.ask(Ask::Delete(workload_id("shop")));
    c.pass(5_000);
    assert_eq!(disks(&c).len(), 1, "and are kept again");
}

#[test]
fn what_is_kept_is_deleted_by_its_name() {
    let (mut c, _) = running();
    c.ask(Ask::Delete(workload_id("shop")));
    c.pass(5_000);
    note(&c.ask(Ask::DeleteVolume(data())));
    c.pass(5_000);
    assert_eq!(disks(&c), []);
    assert_eq!(removed(&c, &data().order_id()).len(), 1, "its node was told");
}

#[test]
fn volumes_go_with_their_stack_if_that_is_said() {
    let (mut c, _) = running();
    c.ask(Ask::DeleteWithVolumes(workload_id("shop")));
    c.pass(10_000);
    assert_eq!(c.phase("shop"), None);
    assert_eq!(disks(&c), []);
    assert!(c.store.snapshot.attachments.is_empty() && c.store.snapshot.graves.is_empty());
    assert_eq!(removed(&c, &data().order_id()).len(), 1, "its node was told to delete the data");
}

#[test]
fn a_node_that_is_away_keeps_them_too() {
    let (mut c, at) = running();
    c.deaf.push(node_id(at));
    c.pass(60_000);
    c.ask(Ask::Delete(workload_id("shop")));
    assert_eq!(c.phase("shop"), None, "a deletion does not wait for a node");
    c.deaf.clear();
    c.pass(20_000);
    assert_eq!(removed(&c, &workload_id("shop")), [false]);
    assert_eq!(disks(&c), [("compose:shop.data".to_owned(), VolumePhase::Retained)]);
    assert!(c.store.snapshot.graves.is_empty());
}

#[test]
fn nobody_takes_the_data_of_another_namespace() {
    let (mut c, _) = running();
    c.ask(Ask::Delete(workload_id("shop")));
    c.pass(5_000);
    let team = Namespace::new(NamespaceName::fixed("team"));
    c.ask(Ask::Keep(Arc::new(Entry::Namespace(team))));
    let mut spec = stack(&["data"]);
    spec.metadata.insert(Arc::from(NAMESPACE_KEY), Arc::from("team"));
    let ask = Ask::Apply {
        workload: workload_id("shop"),
        spec: Some(Arc::new(spec)),
        revision: Some(RevisionId::fixed("r2")),
        desired: Desired::Running,
    };
    match c.ask(ask) {
        Reply::Refused { code: RefusalCode::Conflict, why } => {
            assert!(why.contains("another namespace"), "{why}");
        }
        other => panic!("not refused: {other:?}"),
    }
    assert_eq!(disks(&c).len(), 1);
}
