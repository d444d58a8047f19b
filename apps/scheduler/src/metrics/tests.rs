//! What a large cluster costs to show, and what is told of lives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use persys_cluster::record::{Head, Snapshot};
use persys_cluster::settings::Settings;
use persys_model::assignment::{Assignment, Place, Reason, ReasonCode};
use persys_model::audit::AuditHead;
use persys_model::event::{Event, Happening};
use persys_model::history::History;
use persys_model::id::{NodeId, RevisionId, WorkloadId};
use persys_model::node::{Condition, Node, NodeFacts};
use persys_model::phase::Phase;
use persys_model::resources::{Compute, Disk, Resources};
use persys_model::spec::{ContainerSpec, Kind, Placement, Spec, WorkloadType};
use persys_model::time::{Now, WallMillis};
use persys_model::token::{CommitSeq, Epoch, EventSeq, Generation, Session, Term};
use persys_model::workload::{Desired, Workload};
use tonic::Code;

use super::*;

fn node(nth: usize) -> Arc<Node> {
    Arc::new(Node {
        facts: NodeFacts {
            id: NodeId::new(&format!("node-{nth:05}")).unwrap(),
            host: Arc::from(format!("host-{nth}")),
            incarnation: Arc::from("life"),
            endpoint: Arc::from("127.0.0.1:1"),
            capacity: Compute::new(16_000, 65_536),
            pools: Vec::new(),
            types: WorkloadType::ALL.into_iter().collect(),
            drivers: BTreeSet::new(),
            labels: BTreeMap::new(),
            fence: true,
            pauses: true,
            checks_health: true,
            signals: true,
            addresses: true,
            missing: BTreeMap::new(),
        },
        session: Session(1),
        labels: BTreeMap::new(),
        hidden_labels: BTreeSet::new(),
        taints: BTreeSet::new(),
        drain: None,
        condition: Condition::Ready,
        since: WallMillis(1),
    })
}

fn resources() -> Resources {
    Resources { compute: Compute::new(100, 128), disk: Disk::none() }
}

fn workload(nth: usize, spec: &Arc<Spec>) -> Arc<Workload> {
    Arc::new(Workload {
        id: WorkloadId::new(&format!("workload-{nth:06}")).unwrap(),
        spec: Arc::clone(spec),
        revision: RevisionId::new("r1").unwrap(),
        generation: Generation(1),
        desired: Desired::Running,
        created_at: WallMillis(1),
        history: History::default(),
    })
}

fn assignment(workload: &Workload, node: &Node) -> Arc<Assignment> {
    Arc::new(Assignment {
        workload: workload.id.clone(),
        phase: Phase::Running,
        reason: Reason {
            code: ReasonCode::Running,
            message: Arc::from(""),
            failure: None,
            since: WallMillis(1),
        },
        place: Some(Place {
            node: node.facts.id.clone(),
            epoch: Epoch(1),
            generation: Generation(1),
            paused: false,
            reserved: resources(),
            ports: Vec::new(),
            version: None,
            values: BTreeMap::new(),
            shadow: false,
            restart: None,
        }),
        former: BTreeMap::new(),
        update: None,
        health: None,
        data_on: None,
    })
}

/// A cluster as it is read back from its store.
fn cluster(nodes: usize, workloads: usize) -> World {
    let nodes: Vec<_> = (0..nodes).map(node).collect();
    let image = Arc::from("busybox");
    let spec = Arc::new(Spec {
        kind: Kind::Container(ContainerSpec { image, ..ContainerSpec::default() }),
        resources: resources(),
        placement: Placement::default(),
        metadata: BTreeMap::new(),
        secrets: Vec::new(),
        stop_grace_ms: None,
        health: persys_model::spec::health::HealthChecks::default(),
    });
    let workloads: Vec<_> = (0..workloads).map(|nth| workload(nth, &spec)).collect();
    let places = workloads.iter().zip(nodes.iter().cycle());
    let snapshot = Snapshot {
        head: Some(Head {
            cluster: Arc::from("c"),
            incarnation: 1,
            seq: CommitSeq(1),
            epoch: Epoch(1),
            event: EventSeq(1),
            audit: AuditHead::default(),
            rebuilding: false,
            mark_key: Arc::from(""),
        }),
        assignments: places.map(|(workload, node)| assignment(workload, node)).collect(),
        nodes,
        workloads,
        ..Snapshot::default()
    };
    let now = Now::at(1_000_000);
    World::open(Settings::default(), Term(1), snapshot, None, Arc::from("c"), now).0
}

fn present(world: &World) -> Present {
    let now = WallMillis(1_000_000);
    let cluster = Some((world.tally(), Led::of(world)));
    Present { cluster, standing: Standing::new(now), copy_age: None, requests: 0, now }
}

/// Every method was called, and every third of them failed in two ways.
fn busy(metrics: &Metrics) {
    for (nth, (method, ..)) in persys_access::TABLE.iter().enumerate() {
        let codes: &[Code] = if nth % 3 == 0 {
            &[Code::Ok, Code::Unavailable, Code::InvalidArgument]
        } else {
            &[Code::Ok]
        };
        for code in codes {
            metrics.served.ended(method, *code, Duration::from_millis(3));
        }
    }
    for rpc in ["ApplyWorkload", "DeleteWorkload", "GetWorkloadStatus", "ControlStream"] {
        metrics.called.ended(rpc, Code::Ok, Duration::from_millis(3));
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "the numbers are for people")]
fn five_thousand_nodes_are_shown_in_a_tenth_of_a_second_and_a_megabyte() {
    let (world, metrics) = (cluster(5_000, 50_000), Metrics::default());
    busy(&metrics);
    let counting = Instant::now();
    let present = present(&world);
    let counted = counting.elapsed();
    let text = metrics.answer(&present, None).text;
    let took = counting.elapsed();
    for line in [
        "persys_scheduler_workloads_status{status=\"running\"} 50000",
        "persys_scheduler_cpu_cores{state=\"capacity\"} 80000.0",
        "persys_scheduler_cpu_cores{state=\"reserved\"} 5000.0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}");
    }
    let checking = Instant::now();
    assert_eq!(world.violations(), []);
    let checked = checking.elapsed();
    println!(
        "5,000 nodes, 50,000 workloads: counted in {counted:?}, shown in {took:?}, {} bytes; checked in {checked:?}",
        text.len()
    );
    // A build for debugging is many times slower than what ships.
    let most =
        if cfg!(debug_assertions) { Duration::from_secs(1) } else { Duration::from_millis(100) };
    assert!(took < most, "{took:?}");
    assert!(text.len() < 1_000_000, "{} bytes", text.len());
}

#[test]
fn the_page_of_a_large_cluster_has_as_many_lines_as_that_of_a_small_one() {
    let lines = |nodes, workloads| {
        let text = Metrics::default().answer(&present(&cluster(nodes, workloads)), None).text;
        text.lines().count()
    };
    assert_eq!(lines(1, 1), lines(50, 500));
}

#[test]
fn what_is_shown_before_anything_happened_is_what_dashboards_expect() {
    let metrics = Metrics::default();
    let text = metrics.answer(&present(&cluster(0, 0)), None).text;
    let mut expected = Vec::new();
    for (family, label, words) in [
        ("nodes_status", "status", "ready active notready unknown draining"),
        ("workloads_status", "status", "pending running stopped failed deleted updating unknown"),
        ("workloads_desired_state", "desired_state", "running stopped deleted unknown"),
        ("workloads_update_state", "state", "Updating UpdateFailed RolledBack"),
        ("workloads_health", "health", "Starting Healthy Unhealthy"),
        (
            "state_store_writes_total",
            "category",
            "spec status retry assignment reconciliation event",
        ),
        ("invariant_violations_total", "name", "unsettled amounts waiting volumes"),
        ("mode", "mode", "normal degraded recovery"),
    ] {
        let line = |word| format!("persys_scheduler_{family}{{{label}=\"{word}\"}} 0");
        expected.extend(words.split(' ').map(line));
    }
    for line in expected {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn it_is_told_how_long_workloads_wait_and_start() {
    let metrics = Metrics::default();
    let id = WorkloadId::fixed("web");
    let step = |from, to, at| {
        let what = Happening::Workload {
            id: id.clone(),
            from,
            to,
            code: ReasonCode::Submitted,
            message: Arc::from(""),
            node: None,
            epoch: None,
            revision: None,
            task: None,
        };
        let event = Event { seq: EventSeq(1), at: WallMillis(at), what, by: None };
        metrics.lives.happened(&event, None);
    };
    step(None, Some(Phase::Pending), 1_000);
    step(Some(Phase::Pending), Some(Phase::Starting), 3_000);
    step(Some(Phase::Starting), Some(Phase::Running), 3_400);
    // What began under another leader is not measured.
    metrics.lives.forget();
    step(Some(Phase::Starting), Some(Phase::Running), 99_000);
    let text = metrics.answer(&present(&cluster(0, 0)), None).text;
    for line in [
        "persys_scheduler_placement_duration_seconds_sum 2.0",
        "persys_scheduler_placement_duration_seconds_count 1",
        "persys_scheduler_workload_start_duration_seconds_sum 0.4",
        "persys_scheduler_workload_start_duration_seconds_count 1",
        "persys_scheduler_events_total{kind=\"workload\"} 4",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}
