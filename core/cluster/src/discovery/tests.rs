use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use persys_model::id::{NodeId, WorkloadId};
use persys_model::spec::{HostPort, Protocol};
use proptest::prelude::*;

use super::name::{Label, digest};
use super::*;

fn zones() -> Zones {
    Zones::new("persys.local", "agents.persys.cloud", "default").unwrap()
}

fn ip(n: u8) -> Host {
    Host::Ip(IpAddr::from([10, 0, 0, n]))
}

fn node(text: &str) -> NodeId {
    NodeId::new(text).unwrap()
}

fn workload(text: &str) -> WorkloadId {
    WorkloadId::new(text).unwrap()
}

fn served(on: &str, ports: &[u16]) -> Served {
    let ports = ports.iter().map(|port| HostPort { port: *port, protocol: Protocol::Tcp });
    Served { node: node(on), ports: ports.collect() }
}

fn names(directory: &Directory) -> Vec<String> {
    directory.records().keys().map(Name::dotted).collect()
}

fn part(nodes: Vec<(NodeId, Option<Host>)>, workloads: Vec<(WorkloadId, Option<Served>)>) -> News {
    News { whole: false, nodes, workloads }
}

#[test]
fn the_scheduler_is_found_by_address_and_as_a_service() {
    let at: SocketAddr = "192.0.2.7:8085".parse().unwrap();
    let directory = Directory::new(zones(), Some(at));
    assert_eq!(
        names(&directory),
        [
            "_persys-scheduler.persys.local.",
            "_persys-scheduler._tcp.persys.local.",
            "persys-scheduler.persys.local."
        ]
    );
    assert!(Directory::new(zones(), None).records().is_empty());
}

#[test]
fn a_workload_is_found_while_it_runs_on_a_node_that_is_there() {
    let mut directory = Directory::new(zones(), None);
    let web = workload("web");
    // Its node is not known yet.
    assert_eq!(directory.take(part(vec![], vec![(web.clone(), Some(served("n1", &[8081])))])), []);
    let changes = directory.take(part(vec![(node("n1"), Some(ip(1)))], vec![]));
    assert_eq!(changes.len(), 2);
    assert_eq!(
        names(&directory),
        ["n1.default.agents.persys.cloud.", "web.workloads.persys.local."]
    );
    // The node moves: so does what runs on it.
    let changes = directory.take(part(vec![(node("n1"), Some(ip(2)))], vec![]));
    assert!(changes.iter().all(|change| change.after.as_ref().unwrap().host == ip(2)));
    assert_eq!(changes.len(), 2);
    // Nothing new, nothing told.
    assert_eq!(directory.take(part(vec![(node("n1"), Some(ip(2)))], vec![])), []);
    // Lost, with all that ran there; and back.
    assert_eq!(directory.take(part(vec![(node("n1"), None)], vec![])).len(), 2);
    assert!(directory.records().is_empty());
    assert_eq!(directory.take(part(vec![(node("n1"), Some(ip(2)))], vec![])).len(), 2);
    // It ends.
    let changes = directory.take(part(vec![], vec![(web, None)]));
    assert_eq!(changes.len(), 1);
    assert_eq!(names(&directory), ["n1.default.agents.persys.cloud."]);
}

#[test]
fn ids_become_labels() {
    let label = |id: &str| Label::of(id, digest).text().to_owned();
    assert_eq!(label("web-1"), "web-1");
    assert_eq!(label("db.main_2"), "x--db-dmain-u2");
    assert_eq!(label("x--db-dmain-u2"), "x--x----db--dmain--u2");
    let long = "a".repeat(64);
    assert_eq!(label(&long), format!("x---{:032x}", digest(&long)));
    // The published value of the hash of nothing and of "a".
    assert_eq!(digest(""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
    assert_eq!(digest("a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
}

#[test]
fn of_two_ids_with_one_hash_neither_is_answered_for() {
    let mut directory = Directory::with_digest(zones(), None, |_| 7);
    let (a, b) = ("a_".repeat(30) + "a", "b_".repeat(30) + "b");
    let of = |id: &str, on: Option<&str>| {
        part(vec![], vec![(workload(id), on.map(|on| served(on, &[])))])
    };
    directory.take(part(vec![(node("n1"), Some(ip(1))), (node("n2"), Some(ip(2)))], vec![]));
    assert_eq!(directory.take(of(&a, Some("n1"))).len(), 1);
    let changes = directory.take(of(&b, Some("n2")));
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].after, None, "two claim it");
    let changes = directory.take(of(&a, None));
    assert_eq!(changes[0].after.as_ref().unwrap().host, ip(2), "one is left");
    assert_eq!(directory.take(of(&b, None))[0].after, None);
}

#[test]
fn hosts_come_from_endpoints() {
    let of = Host::of_endpoint;
    assert_eq!(of("10.0.0.1:50051"), Some(ip(1)));
    assert_eq!(of("[::ffff:10.0.0.1]:50051"), Some(ip(1)));
    assert_eq!(of("[2001:db8::1]:1"), Some(Host::Ip("2001:db8::1".parse().unwrap())));
    assert_eq!(of("Node1.Example.com:50051"), Some(Host::Name("node1.example.com.".into())));
    for nowhere in ["stream.invalid:1", "0.0.0.0:1", "in-process", "local:1", "a b.c:1", "", ":1"] {
        assert_eq!(of(nowhere), None, "{nowhere}");
    }
}

#[test]
fn the_defaults_are_the_documented_ones() {
    assert_eq!(Zones::default(), zones());
}

#[test]
fn domains_that_would_mix_are_refused() {
    let faults = Zones::new("", "a..b", "x.y").unwrap_err();
    assert_eq!(faults.len(), 3, "{faults:?}");
    for (domain, agents, shard) in [
        ("persys.local", "persys.local", "workloads"),
        ("persys.local", "workloads.persys.local", "s"),
        ("s.agents.cloud", "agents.cloud", "s"),
        ("x.s.agents.cloud", "agents.cloud", "s"),
        ("persys.local", "persys.local", "_tcp"),
        ("persys.local", "persys-scheduler.persys.local", "s"),
    ] {
        assert!(Zones::new(domain, agents, shard).is_err(), "{domain} {agents} {shard}");
    }
    assert!(Zones::new("Persys.Local.", "agents.persys.local", "default").is_ok());
    assert!(Zones::new(&format!("{}.b", "a.".repeat(70)), "c.d", "s").is_err());
    let nested = Zones::new("persys.local", "agents.persys.local", "s").unwrap();
    assert_eq!(nested.apexes()[0].dotted(), "agents.persys.local.");
}

#[test]
fn a_question_never_reaches_a_name_by_a_trick() {
    let asked = |labels: &[&[u8]]| Name::asked(labels.iter().copied());
    assert_eq!(asked(&[b"LOCAL", b"Persys"]), (Name::parse("persys.local").unwrap(), true));
    let (name, complete) = asked(&[b"local", b"persys/workloads", b"web"]);
    assert_eq!((name.path(), complete), ("local", false));
    assert!(!asked(&[b"local", b"\xff"]).1);
}

/// Ids as users may choose them, of few letters so that near misses are common.
fn id() -> impl Strategy<Value = String> {
    let any =
        prop_oneof![Just("x--"), Just("x"), Just("-"), Just("_"), Just("."), Just("d"), Just("u")];
    proptest::collection::vec(any, 1..40).prop_map(|parts| parts.concat())
}

fn workload_id() -> impl Strategy<Value = WorkloadId> {
    id().prop_filter_map("an id", |text| WorkloadId::new(&text).ok())
}

/// A small cluster: which of four nodes are there and where, which of some workloads run and where.
fn cluster() -> impl Strategy<Value = News> {
    let nodes = proptest::collection::vec(proptest::option::of(1..4_u8), 4);
    let place = proptest::option::of((0..4_usize, proptest::collection::vec(1..4_u16, 0..3)));
    let workloads = proptest::collection::vec(place, 5);
    (nodes, workloads).prop_map(|(nodes, workloads)| {
        let name = |at: usize| node(&format!("node_{at}.n{}", "long".repeat(at * 7)));
        let nodes = nodes.into_iter().enumerate().map(|(at, host)| (name(at), host.map(ip)));
        let id = |at: usize| workload(["web", "db.main", "x--a", "a_b", "z"][at]);
        let workloads = workloads.into_iter().enumerate().map(|(at, place)| {
            let served = place.map(|(on, ports)| served(name(on).as_str(), &ports));
            (id(at), served)
        });
        News { whole: false, nodes: nodes.collect(), workloads: workloads.collect() }
    })
}

proptest! {
    #[test]
    fn no_two_ids_share_a_label(a in workload_id(), b in workload_id()) {
        let (left, right) = (Label::of(a.as_str(), digest), Label::of(b.as_str(), digest));
        prop_assert_eq!(a == b, left.text() == right.text());
        prop_assert!(left.text().len() <= 63 && Name::parse(left.text()).is_ok(), "{:?}", left);
    }

    /// What is told on the way adds up to what is there, and that is what one look at the end gives.
    #[test]
    fn changes_add_up(steps in proptest::collection::vec((cluster(), any::<bool>(), any::<u16>()), 1..8)) {
        let mut directory = Directory::new(zones(), None);
        let mut told: BTreeMap<Name, Arc<Record>> = BTreeMap::new();
        let mut truth: (BTreeMap<_, _>, BTreeMap<_, _>) = Default::default();
        for (mut news, whole, mask) in steps {
            if whole {
                // A whole look does not mention what is not there.
                news.whole = true;
                news.nodes.retain(|(_, host)| host.is_some());
                news.workloads.retain(|(_, served)| served.is_some());
                truth = Default::default();
            } else {
                let mut bit = 0..16_u32;
                let mut chosen = || bit.next().is_some_and(|bit| mask & (1 << bit) != 0);
                news.nodes.retain(|_| chosen());
                news.workloads.retain(|_| chosen());
            }
            truth.0.extend(news.nodes.clone());
            truth.1.extend(news.workloads.clone());
            let changes = directory.take(news);
            let changed: BTreeSet<_> = changes.iter().map(|change| change.name.clone()).collect();
            prop_assert_eq!(changed.len(), changes.len(), "each name once");
            for Change { name, before, after } in changes {
                prop_assert_ne!(&before, &after);
                prop_assert_eq!(told.remove(&name), before);
                if let Some(record) = after {
                    told.insert(name, record);
                }
            }
            prop_assert_eq!(&told, directory.records());
        }
        let mut fresh = Directory::new(zones(), None);
        let (nodes, workloads) = truth;
        fresh.take(News {
            whole: true,
            nodes: nodes.into_iter().collect(),
            workloads: workloads.into_iter().collect(),
        });
        prop_assert_eq!(fresh.records(), directory.records());
    }
}
