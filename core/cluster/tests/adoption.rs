//! Workloads of an earlier installation: they start on the node that ran them, and nowhere else
//! until they have run there once.

#![allow(clippy::unwrap_used, reason = "a test may stop")]

mod support;

use persys_model::phase::Phase;
use persys_model::spec::{ADOPT_ON_KEY, Spec};

use support::{Cluster, container, facts, node_id};

fn imported(node: usize) -> Spec {
    let mut spec = container(500, 512);
    spec.metadata.insert(ADOPT_ON_KEY.into(), node_id(node).as_str().into());
    spec
}

#[test]
fn an_imported_workload_waits_for_the_node_that_runs_it() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    c.apply("web", imported(2), "r1");
    assert_eq!(c.phase("web"), Some(Phase::Pending), "no second copy elsewhere");
    let why = c.assignment("web").reason.message.to_string();
    assert!(why.contains("runs it on n2, which has not joined"), "{why}");
    c.join(facts(&node_id(2), 4000, 8192));
    c.pass(1_000);
    assert_eq!((c.phase("web"), c.node_of("web")), (Some(Phase::Running), Some(node_id(2))));
}

#[test]
fn once_it_has_run_it_moves_like_any_other() {
    let mut c = Cluster::with_nodes(3, 4000, 8192);
    c.apply("web", imported(1), "r1");
    assert_eq!(c.node_of("web"), Some(node_id(1)));
    assert_eq!(c.assignment("web").data_on, None);
    c.deaf.push(node_id(1));
    c.pass(60_000);
    assert_eq!(c.phase("web"), Some(Phase::Running));
    assert_ne!(c.node_of("web"), Some(node_id(1)));
}
