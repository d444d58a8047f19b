//! Requests that no node could ever hold, pools of one file system, and disks that others fill.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may stop")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_cluster::input::{Ask, Input};
use persys_cluster::settings::Settings;
use persys_model::id::{PoolName, RevisionId};
use persys_model::labels::{Constraint, Rule};
use persys_model::link::{Beat, Usage};
use persys_model::node::{NodeFacts, Pool};
use persys_model::phase::Phase;
use persys_model::spec::container::Port;
use persys_model::spec::{Kind, Protocol, Spec, WorkloadType};
use persys_model::workload::Desired;

use support::{Cluster, container, facts, node_id, workload_id};

fn pool(name: &'static str) -> PoolName {
    PoolName::fixed(name)
}

fn with_disk(name: Option<&'static str>, gib: u64) -> Spec {
    let mut spec = container(100, 64);
    spec.resources.disk.add(name.map(pool), gib);
    spec
}

/// One node whose pools `root` and `fast` share a disk of 100 GiB.
fn shared() -> Cluster {
    let mut c = Cluster::new(Settings::default());
    let mut facts = facts(&node_id(1), 4_000, 8_192);
    let fast = Pool { shares: Some(pool("root")), ..Pool::alone(pool("fast"), 100) };
    facts.pools = vec![Pool::alone(pool("root"), 100), fast];
    c.join(facts);
    c
}

fn limited(c: &mut Cluster, limits: BTreeMap<PoolName, u64>) {
    let id = node_id(1);
    let agent = c.agents.get_mut(&id).unwrap();
    agent.seq += 1;
    let beat = Beat {
        node: id.clone(),
        session: agent.session,
        seq: agent.seq,
        reports: agent.held.values().map(|held| held.report.clone()).collect(),
        removed: Vec::new(),
        inventory: None,
        tasks: Vec::new(),
        usage: Usage::default(),
        limits,
        busy: None,
        down: BTreeMap::new(),
        takes_removals: false,
    };
    let request = c.request();
    c.step(Input::Beat(request, beat));
    c.obey();
}

#[test]
fn what_no_node_could_ever_hold_is_told_with_the_largest_there_is() {
    let mut c = Cluster::with_nodes(2, 4_000, 8_192);
    let never = |c: &Cluster, spec: &Spec| c.world.never_fits(spec);
    assert_eq!(never(&c, &container(4_000, 8_192)), None);
    let said = never(&c, &container(100, 99 * 1024)).unwrap();
    assert!(said.contains("any of the 2 nodes"), "{said}");
    assert!(said.contains("101376 MiB memory and the largest has 8192 MiB"), "{said}");
    let said = never(&c, &with_disk(None, 101)).unwrap();
    assert!(said.contains("101 GiB in the default pool"), "{said}");
    let said = never(&c, &with_disk(Some("fast"), 1)).unwrap();
    assert!(said.contains("the fast pool"), "{said}");
    let mut placed = container(100, 64);
    let rule = Rule::In([Arc::from("mars")].into());
    placed.placement.constraints = vec![Constraint { key: Arc::from("zone"), rule }];
    let said = never(&c, &placed).unwrap();
    assert!(said.contains("none meets the constraint") && said.contains("mars"), "{said}");
    // Room that is taken comes back, and so do closed nodes.
    for name in ["a", "b"] {
        c.apply(name, container(4_000, 8_192), "r1");
    }
    c.apply("waits", container(4_000, 8_192), "r1");
    assert_eq!(c.phase("waits"), Some(Phase::Pending));
    assert_eq!(never(&c, &container(4_000, 8_192)), None);
}

#[test]
fn a_type_that_no_node_offers_is_told_and_an_empty_cluster_says_nothing() {
    let mut c = Cluster::new(Settings::default());
    let spec = container(100, 64);
    assert_eq!(c.world.never_fits(&spec), None, "nodes may join yet");
    let mut facts = facts(&node_id(1), 4_000, 8_192);
    facts.types = [WorkloadType::Vm].into();
    c.join(facts);
    let said = c.world.never_fits(&spec).unwrap();
    let wanted = "the one node of this cluster: none offers workloads of type container";
    assert!(said.contains(wanted), "{said}");
}

#[test]
fn pools_in_one_file_system_are_counted_once() {
    let mut c = shared();
    let node = c.world.node(&node_id(1)).unwrap();
    assert_eq!(node.free_disk_gib, 100);
    c.apply("a", with_disk(None, 60), "r1");
    c.apply("b", with_disk(Some("fast"), 41), "r1");
    assert_eq!((c.phase("a"), c.phase("b")), (Some(Phase::Running), Some(Phase::Pending)));
    c.apply("c", with_disk(Some("fast"), 40), "r1");
    assert_eq!(c.phase("c"), Some(Phase::Running));
    assert_eq!(c.world.node(&node_id(1)).unwrap().free_disk_gib, 0);
    let mut both = with_disk(None, 60);
    both.resources.disk.add(Some(pool("fast")), 60);
    assert_eq!(c.world.never_fits(&both), None, "each fits a pool; placement counts them together");
}

#[test]
fn a_disk_that_others_fill_takes_nothing_new_and_keeps_what_it_has() {
    let mut c = shared();
    c.apply("old", with_disk(None, 60), "r1");
    limited(&mut c, [(pool("root"), 54), (pool("fast"), 54)].into());
    c.apply("new", with_disk(Some("fast"), 1), "r1");
    assert_eq!((c.phase("old"), c.phase("new")), (Some(Phase::Running), Some(Phase::Pending)));
    let told = format!("{:?}", c.world.judge(&workload_id("new"), 5).unwrap());
    assert!(told.contains("has 54 of 100 GiB for workloads"), "{told}");
    assert_eq!(c.world.shrunk_pools(&node_id(1)).len(), 1, "one disk, one sentence");
    limited(&mut c, BTreeMap::new());
    assert_eq!(c.phase("new"), Some(Phase::Running));
}

#[test]
fn what_is_stopped_while_a_larger_version_waits_is_told_the_version_its_room_was_made_for() {
    let mut c = Cluster::with_nodes(1, 4_000, 8_192);
    c.apply("db", with_disk(None, 20), "r1");
    c.apply("db", with_disk(None, 200), "r2");
    assert_eq!(c.phase("db"), Some(Phase::Running), "r2 has no room, r1 goes on");
    c.ask(Ask::Apply {
        workload: workload_id("db"),
        spec: None,
        revision: None,
        desired: Desired::Stopped,
    });
    assert_eq!(c.phase("db"), Some(Phase::Stopped));
    let held = &c.agents[&node_id(0)].held[&workload_id("db")];
    assert_eq!(held.revision.as_str(), "r1", "a node counts by what it is told");
    // A version of the same size is told at once, so that agents know it when a store is lost.
    c.apply("web", with_disk(None, 20), "r1");
    c.ask(Ask::Apply {
        workload: workload_id("web"),
        spec: Some(Arc::new(with_disk(None, 20))),
        revision: Some(RevisionId::fixed("r2")),
        desired: Desired::Stopped,
    });
    let held = &c.agents[&node_id(0)].held[&workload_id("web")];
    assert_eq!(held.revision.as_str(), "r2");
}

/// The container of `container`, with a port on the node's own address only.
fn on_loopback() -> Spec {
    let mut spec = container(100, 64);
    if let Kind::Container(body) = &mut spec.kind {
        let address = Some([127, 0, 0, 1].into());
        body.ports = vec![Port { address, host: Some(80), container: 80, protocol: Protocol::Tcp }];
    }
    spec
}

/// An agent of an earlier release would publish the port on every address, so it never gets it.
#[test]
fn a_port_on_one_address_waits_for_an_agent_that_can_do_it() {
    let mut c = Cluster::new(Settings::default());
    c.join(NodeFacts { addresses: false, ..facts(&node_id(0), 1_000, 1_024) });
    c.apply("web", on_loopback(), "r1");
    assert_eq!((c.phase("web"), c.node_of("web")), (Some(Phase::Pending), None));
    let why = c.world.why_waits(&workload_id("web")).unwrap();
    assert!(why.contains("publish a port on one address"), "{why}");
    let never = c.world.never_fits(&on_loopback()).unwrap();
    assert!(never.contains("publish a port on one address"), "{never}");

    // What runs there already is not ordered to such an agent either.
    c.apply("old", container(100, 64), "r1");
    c.apply("old", on_loopback(), "r2");
    let held = &c.agents[&node_id(0)].held[&workload_id("old")];
    assert_eq!(held.revision.as_str(), "r1");

    c.join(facts(&node_id(1), 1_000, 1_024));
    assert_eq!(c.node_of("web"), Some(node_id(1)));
    // The port counts as taken on the whole node.
    let mut other = on_loopback();
    if let Kind::Container(body) = &mut other.kind {
        body.ports[0].address = Some([127, 0, 0, 2].into());
    }
    c.apply("other", other, "r1");
    assert_eq!(c.node_of("other"), None);
    assert!(c.world.check().is_empty());
}
