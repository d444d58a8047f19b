//! Each filter alone, then everything at once against the exact pass.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_model::id::{DriverName, PoolName};
use persys_model::labels::{Constraint, Rule, Taint, TaintEffect, Toleration};
use persys_model::node::Pool;
use persys_model::resources::{Compute, Disk, Resources};
use persys_model::spec::{HostPort, Protocol, Strategy, WorkloadType};
use proptest::prelude::*;

use crate::placement::{Explanation, Index, NodeIndex, Request, Suggestion, Traits};

const NO_DISK: &Disk = &Disk::none();
const HTTP: HostPort = HostPort { port: 80, protocol: Protocol::Tcp };
const HTTP_UDP: HostPort = HostPort { port: 80, protocol: Protocol::Udp };

fn request(cpu: u64, mem: u64) -> Request<'static> {
    Request {
        compute: Compute::new(cpu, mem),
        disk: NO_DISK,
        ports: &[],
        constraints: &[],
        tolerations: &[],
        workload_type: WorkloadType::Container,
        drivers: &[],
        strategy: Strategy::Spread,
        avoid: &[],
    }
}

fn traits() -> Traits {
    Traits { types: BTreeSet::from([WorkloadType::Container]), ..Traits::default() }
}

fn labelled(key: &str, value: &str) -> Traits {
    Traits { labels: BTreeMap::from([(Arc::from(key), Arc::from(value))]), ..traits() }
}

fn tainted(effect: TaintEffect) -> Traits {
    let taint = Taint { key: Arc::from("gpu"), value: Arc::from("a100"), effect };
    Traits { taints: BTreeSet::from([taint]), ..traits() }
}

fn is(key: &str, value: &str) -> Constraint {
    Constraint { key: Arc::from(key), rule: Rule::In(BTreeSet::from([Arc::from(value)])) }
}

fn compute(cpu: u64, mem: u64) -> Resources {
    Resources { compute: Compute::new(cpu, mem), disk: Disk::none() }
}

fn disk(pool: Option<&str>, gib: u64) -> Disk {
    let mut disk = Disk::none();
    disk.add(pool.map(|name| PoolName::new(name).unwrap()), gib);
    disk
}

fn pool(name: &str, total_gib: u64) -> Pool {
    Pool::alone(PoolName::new(name).unwrap(), total_gib)
}

/// Nodes of 4 cores and 8 GiB with the given traits.
fn fleet(all: &[Traits]) -> Index {
    let mut index = Index::new();
    for (number, traits) in (0..).zip(all) {
        index.set_node(NodeIndex(number), Compute::new(4000, 8192), &[], traits.clone());
    }
    index
}

fn picked(index: &mut Index, request: &Request<'_>) -> Option<u32> {
    index.pick(request).map(|node| node.0)
}

#[test]
fn nothing_fits_on_nothing() {
    let mut index = Index::new();
    assert_eq!(index.pick(&request(0, 0)), None);
    assert_eq!(index.explain(&request(0, 0)).to_string(), "no node fits: there are no nodes");
}

#[test]
fn amounts_are_filters() {
    let mut index = fleet(&[traits()]);
    assert_eq!(picked(&mut index, &request(4000, 8192)), Some(0));
    assert_eq!(picked(&mut index, &request(4001, 0)), None);
    assert_eq!(picked(&mut index, &request(0, 8193)), None);
    assert_eq!(picked(&mut index, &request(u64::MAX, u64::MAX)), None);
}

#[test]
fn closed_nodes_keep_their_accounts_and_are_not_picked() {
    let mut index = fleet(&[traits(), traits()]);
    index.take(NodeIndex(1), &compute(1000, 1000), &[]);
    index.set_open(NodeIndex(0), false);
    assert_eq!(picked(&mut index, &request(1, 1)), Some(1));
    assert!(!index.fits(NodeIndex(0), &request(1, 1)));
    index.take(NodeIndex(0), &compute(500, 500), &[]);
    index.set_open(NodeIndex(0), true);
    assert_eq!(index.free(NodeIndex(0)), Compute::new(3500, 7692));
    assert_eq!(picked(&mut index, &request(1, 1)), Some(0));
}

#[test]
fn a_removed_node_is_forgotten_and_its_number_used_again() {
    let mut index = fleet(&[traits(), labelled("disk", "ssd")]);
    index.take(NodeIndex(1), &compute(1000, 1000), &[HTTP]);
    index.remove_node(NodeIndex(1));
    let constraints = [is("disk", "ssd")];
    let ask = Request { constraints: &constraints, ports: &[HTTP], ..request(4000, 8192) };
    assert_eq!(picked(&mut index, &ask), None);
    index.set_node(NodeIndex(1), Compute::new(4000, 8192), &[], labelled("disk", "ssd"));
    assert_eq!(picked(&mut index, &ask), Some(1));
}

#[test]
fn type_driver_and_label_are_filters() {
    let ceph = DriverName::new("ceph-rbd").unwrap();
    let vm = Traits { types: BTreeSet::from([WorkloadType::Vm]), ..traits() };
    let stores = Traits { drivers: BTreeSet::from([ceph.clone()]), ..traits() };
    let mut index = fleet(&[traits(), vm, stores, labelled("disk", "ssd")]);
    let ask = Request { workload_type: WorkloadType::Vm, ..request(1, 1) };
    assert_eq!(picked(&mut index, &ask), Some(1));
    let drivers = [ceph];
    assert_eq!(picked(&mut index, &Request { drivers: &drivers, ..request(1, 1) }), Some(2));
    let constraints = [is("disk", "ssd")];
    let ask = Request { constraints: &constraints, ..request(1, 1) };
    assert_eq!(picked(&mut index, &ask), Some(3));
    index.set_node(NodeIndex(3), Compute::new(4000, 8192), &[], labelled("disk", "hdd"));
    assert_eq!(picked(&mut index, &ask), None);
    index.set_node(NodeIndex(0), Compute::new(4000, 8192), &[], labelled("disk", "ssd"));
    assert_eq!(picked(&mut index, &ask), Some(0));
}

#[test]
fn taints_exclude_or_come_last() {
    let strict = tainted(TaintEffect::NoSchedule);
    let mild = tainted(TaintEffect::PreferNoSchedule);
    let mut index = fleet(&[strict, mild, traits()]);
    index.take(NodeIndex(2), &compute(2000, 2000), &[]);
    assert_eq!(picked(&mut index, &request(1000, 1)), Some(2));
    assert_eq!(picked(&mut index, &request(3000, 1)), Some(1));
    let tolerations = [Toleration { key: Arc::from("gpu"), value: None }];
    let ask = Request { tolerations: &tolerations, ..request(1000, 1) };
    assert_eq!(picked(&mut index, &ask), Some(0));
}

#[test]
fn avoided_nodes_come_last() {
    let mut index = fleet(&[traits(), traits()]);
    index.take(NodeIndex(1), &compute(2000, 2000), &[]);
    let avoid = [NodeIndex(0)];
    assert_eq!(picked(&mut index, &Request { avoid: &avoid, ..request(1000, 1) }), Some(1));
    assert_eq!(picked(&mut index, &Request { avoid: &avoid, ..request(3000, 1) }), Some(0));
}

#[test]
fn ports_are_counted_by_transport() {
    let mut index = fleet(&[traits()]);
    let none = Resources::default();
    let ask = Request { ports: &[HTTP], ..request(1, 1) };
    index.take(NodeIndex(0), &none, &[HTTP_UDP]);
    assert_eq!(picked(&mut index, &ask), Some(0));
    index.take(NodeIndex(0), &none, &[HTTP]);
    index.take(NodeIndex(0), &none, &[HTTP]);
    assert_eq!(picked(&mut index, &ask), None);
    index.give(NodeIndex(0), &none, &[HTTP]);
    assert_eq!(picked(&mut index, &ask), None);
    index.give(NodeIndex(0), &none, &[HTTP]);
    assert_eq!(picked(&mut index, &ask), Some(0));
}

#[test]
fn disk_is_counted_where_pools_are_declared() {
    let mut index = fleet(&[traits()]);
    let (some, named) = (disk(None, 100), disk(Some("fast"), 10));
    assert_eq!(picked(&mut index, &Request { disk: &some, ..request(1, 1) }), Some(0));
    assert_eq!(picked(&mut index, &Request { disk: &named, ..request(1, 1) }), None);
    assert_eq!(index.free_disk(NodeIndex(0), None), None);
    let pools = [pool("slow", 100), pool("fast", 10)];
    index.set_node(NodeIndex(0), Compute::new(4000, 8192), &pools, traits());
    assert_eq!(picked(&mut index, &Request { disk: &some, ..request(1, 1) }), Some(0));
    assert_eq!(picked(&mut index, &Request { disk: &named, ..request(1, 1) }), Some(0));
    let taken = Resources { compute: Compute::ZERO, disk: disk(Some("slow"), 1) };
    index.take(NodeIndex(0), &taken, &[]);
    assert_eq!(index.free_disk(NodeIndex(0), None), Some(99));
    assert_eq!(picked(&mut index, &Request { disk: &some, ..request(1, 1) }), None);
    index.give(NodeIndex(0), &taken, &[]);
    let mut twice = disk(None, 60);
    twice.add(Some(PoolName::new("slow").unwrap()), 60);
    assert_eq!(picked(&mut index, &Request { disk: &twice, ..request(1, 1) }), None);
}

#[test]
fn taking_beyond_capacity_is_undone_exactly() {
    let mut index = fleet(&[traits()]);
    index.take(NodeIndex(0), &compute(3000, 100), &[]);
    index.take(NodeIndex(0), &compute(9000, 100), &[]);
    assert_eq!(index.free(NodeIndex(0)), Compute::new(0, 7992));
    assert_eq!(index.taken(NodeIndex(0)), Compute::new(12_000, 200));
    index.set_node(NodeIndex(0), Compute::new(8000, 8192), &[], labelled("a", "b"));
    assert_eq!(index.taken(NodeIndex(0)), Compute::new(12_000, 200));
    index.give(NodeIndex(0), &compute(9000, 100), &[]);
    assert_eq!(index.free(NodeIndex(0)), Compute::new(5000, 8092));
}

#[test]
fn equal_workloads_spread_evenly_over_equal_nodes() {
    let mut index = fleet(&vec![traits(); 20]);
    let mut counts = [0_u32; 20];
    for _ in 0..1000 {
        let at = index.pick(&request(50, 100)).unwrap();
        index.take(at, &compute(50, 100), &[]);
        counts[at.wide()] += 1;
    }
    assert_eq!(counts, [50; 20]);
}

#[test]
fn a_large_fleet_is_spread_over_and_packed() {
    let mut spread = fleet(&vec![traits(); 3000]);
    let mut packed = fleet(&vec![traits(); 3000]);
    let (mut most, mut used) = (0, BTreeSet::new());
    for _ in 0..6000 {
        let at = spread.pick(&request(100, 200)).unwrap();
        spread.take(at, &compute(100, 200), &[]);
        most = most.max(spread.taken(at).cpu_millicores);
        let ask = Request { strategy: Strategy::BinPack, ..request(100, 200) };
        let at = packed.pick(&ask).unwrap();
        packed.take(at, &compute(100, 200), &[]);
        used.insert(at);
    }
    assert!(most <= 300, "two each is even, one node has {most}m");
    assert!(used.len() <= 160, "150 nodes are enough, {} are used", used.len());
    assert_eq!(spread.fallbacks() + packed.fallbacks(), 0);
}

#[test]
fn per_host_labels_do_not_split_the_fleet() {
    let hosts: Vec<Traits> = (0..2000).map(|n| labelled("host", &format!("h{n}"))).collect();
    let mut index = fleet(&hosts);
    for n in (0..2000).rev().step_by(7) {
        let constraints = [is("host", &format!("h{n}"))];
        let ask = Request { constraints: &constraints, ..request(1, 1) };
        assert_eq!(picked(&mut index, &ask), Some(n));
        assert!(index.pick(&request(1, 1)).is_some());
    }
    let used = index.groups.table().iter().filter(|group| group.grid.len() > 0).count();
    assert_eq!((index.fallbacks(), used), (0, 1));
}

#[test]
fn disk_found_short_is_refused_at_once_until_given_back() {
    let mut index = Index::new();
    for number in 0..1000 {
        index.set_node(NodeIndex(number), Compute::new(4000, 8192), &[pool("p", 100)], traits());
    }
    let half = Resources { compute: Compute::ZERO, disk: disk(None, 50) };
    for number in 0..1000 {
        index.take(NodeIndex(number), &half, &[]);
    }
    let most = disk(None, 80);
    let ask = Request { disk: &most, ..request(1, 1) };
    for _ in 0..10 {
        assert_eq!(picked(&mut index, &ask), None);
    }
    assert_eq!(index.fallbacks(), 1);
    index.give(NodeIndex(777), &half, &[]);
    assert_eq!(picked(&mut index, &ask), Some(777));
}

#[test]
fn a_refusal_reads_as_one_sentence() {
    let ssd = labelled("disk", "ssd");
    let mut index = fleet(&[vec![ssd; 15], vec![traits(); 5]].concat());
    for number in 0..12 {
        index.take(NodeIndex(number), &compute(0, 8192 - 1024 - u64::from(number)), &[]);
    }
    for number in 12..15 {
        index.set_open(NodeIndex(number), false);
    }
    let constraints = [is("disk", "ssd")];
    let ask = Request { constraints: &constraints, ..request(1000, 4096) };
    let explanation = index.explain(&ask);
    assert_eq!(
        explanation.to_string(),
        "no node fits: 12 of 20 have too little memory (need 4096 MiB, most free 1035 MiB), \
         5 lack disk=ssd, 3 closed"
    );
    let said: Vec<String> = explanation.suggestions.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "memory <= 1035 MiB would fit",
            "without constraint disk=ssd 5 nodes fit",
            "3 nodes fit once open again"
        ]
    );
    assert!(matches!(
        explanation.suggestions.first(),
        Some(Suggestion::LessMemory { mib: 1035, node: NodeIndex(11) })
    ));
}

#[test]
fn suggestions_are_one_change_away() {
    let index = fleet(&[tainted(TaintEffect::NoSchedule)]);
    let said = |explanation: Explanation| -> Vec<String> {
        explanation.suggestions.iter().map(ToString::to_string).collect()
    };
    assert_eq!(said(index.explain(&request(1, 1))), ["1 node fits if taint gpu were tolerated"]);
    assert!(said(index.explain(&request(5000, 1))).is_empty());
    let mut index = fleet(&[traits()]);
    assert_eq!(
        said(index.explain(&request(5000, 10_000))),
        [
            "bigger than any node: the largest have 4000m cpu, 8192 MiB memory",
            "cpu <= 4000m with memory <= 8192 MiB would fit"
        ]
    );
    index.take(NodeIndex(0), &compute(0, 0), &[HTTP]);
    let ask = Request { ports: &[HTTP], ..request(1, 1) };
    assert_eq!(said(index.explain(&ask)), ["1 node fits with another port than 80/tcp"]);
}

mod against_the_scan;
