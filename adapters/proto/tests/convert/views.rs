//! The cluster as clients see it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_cluster::placement::Explanation;
use persys_cluster::world::{NodeView, WorkloadView};
use persys_model::assignment::{Assignment, Place, Reason, ReasonCode, Version};
use persys_model::drift::DriftKind;
use persys_model::event::{Author, Event, Happening, NodeChange};
use persys_model::failure::{Failure, FailureReason};
use persys_model::id::{NodeId, RevisionId, WorkloadId};
use persys_model::labels::{Labels, Taint, TaintEffect};
use persys_model::mode::Mode;
use persys_model::node::{Condition, Node};
use persys_model::phase::{EDGES, Phase};
use persys_model::resources::Compute;
use persys_model::retry::Retry;
use persys_model::spec::WorkloadType;
use persys_model::time::WallMillis;
use persys_model::token::{Epoch, EventSeq, Generation, Session};
use persys_model::workload::{Desired, Workload};
use persys_proto::control::v1 as wire;
use persys_proto::convert::{failure, time, view};

use crate::random::Random;
use crate::samples;

fn node() -> Node {
    let mut facts = samples::registration(&mut Random(1)).facts;
    facts.capacity = Compute::new(8_500, 32_000);
    Node {
        facts,
        session: Session(1),
        labels: Labels::from([(Arc::from("disk"), Arc::from("ssd"))]),
        hidden_labels: BTreeSet::from([Arc::from("zone")]),
        taints: BTreeSet::from([Taint {
            key: Arc::from("gpu"),
            value: Arc::from("a100"),
            effect: TaintEffect::PreferNoSchedule,
        }]),
        drain: None,
        condition: Condition::Ready,
        since: WallMillis(5_000),
    }
}

static NONE_DOWN: BTreeMap<WorkloadType, Arc<str>> = BTreeMap::new();

fn node_view(node: &Node) -> NodeView<'_> {
    NodeView {
        node,
        free: Compute::new(2_250, 1_000),
        free_disk_gib: 30,
        used: Compute::new(500, 64),
        used_disk_gib: 9,
        busy: None,
        unreachable: None,
        down: &NONE_DOWN,
        workloads: 3,
    }
}

#[test]
fn a_node() {
    let node = node();
    let view = view::node::to_wire(&node_view(&node), Some(WallMillis(7_000)));
    assert_eq!((view.node_id.as_str(), view.status.as_str()), ("n1", "Ready"));
    assert!((view.total_cpu_cores - 8.5).abs() < 1e-9, "{}", view.total_cpu_cores);
    assert!((view.available_cpu_cores - 2.25).abs() < 1e-9, "{}", view.available_cpu_cores);
    assert!((view.used_cpu_cores - 0.5).abs() < 1e-9, "{}", view.used_cpu_cores);
    assert_eq!(view.used_disk_gb, 9);
    assert_eq!((view.total_memory_mb, view.available_memory_mb), (32_000, 1_000));
    assert_eq!(view.available_disk_gb, 30);
    assert_eq!(view.labels, BTreeMap::from([("disk".to_owned(), "ssd".to_owned())]));
    assert_eq!(view.taints[0].effect, "PreferNoSchedule");
    assert_eq!(view.last_heartbeat.unwrap().seconds, 7);
    assert_eq!(view.status_updated_at.unwrap().seconds, 5);
    assert_eq!(view.workloads, 3);
}

#[test]
fn the_status_of_a_node_has_a_reason_and_an_author() {
    let rows = [
        (Condition::Ready, None, "Ready", "keeps its lease", "heartbeat", "Ready"),
        (Condition::Ready, Some("new disks"), "Draining", "new disks", "operator", "Ready"),
        (Condition::Ready, Some(""), "Draining", "draining", "operator", "Ready"),
        (Condition::NotReady, Some("x"), "NotReady", "heartbeat expired", "monitor", "NotReady"),
        (
            Condition::Lost,
            None,
            "NotReady",
            "heartbeat expired and the node answers no probe",
            "monitor",
            "Lost",
        ),
    ];
    for (condition, drain, status, reason, by, word) in rows {
        let node = Node { condition, drain: drain.map(Arc::from), ..node() };
        let view = view::node::to_wire(&node_view(&node), None);
        assert_eq!(
            (
                view.status.as_str(),
                view.status_reason.as_str(),
                view.status_updated_by.as_str(),
                view.condition.as_str()
            ),
            (status, reason, by, word)
        );
        assert_eq!(view.last_heartbeat, None);
    }
    let mut node = node();
    node.facts.missing = [(WorkloadType::Vm, Arc::from("no libvirt; install it"))].into();
    let busy = NodeView { busy: Some("too busy"), ..node_view(&node) };
    let view = view::node::to_wire(&busy, None);
    assert_eq!((view.status.as_str(), view.status_reason.as_str()), ("Ready", "too busy"));
    assert_eq!(view.missing_runtimes["vm"], "no libvirt; install it");
    assert_eq!(view.fence_available, node.facts.fence);
}

fn workload(desired: Desired) -> Workload {
    Workload {
        id: WorkloadId::fixed("web"),
        spec: samples::spec(&mut Random(3)),
        revision: RevisionId::fixed("r7"),
        generation: Generation(1),
        desired,
        created_at: WallMillis(1_000),
        history: persys_model::history::History::default(),
    }
}

fn assignment(phase: Phase) -> Assignment {
    Assignment {
        workload: WorkloadId::fixed("web"),
        phase,
        reason: Reason {
            code: ReasonCode::AttemptFailed,
            message: Arc::from(""),
            failure: Some(Failure::new(FailureReason::ImagePullFailed, "registry is down")),
            since: WallMillis(2_000),
        },
        place: None,
        former: BTreeMap::new(),
        data_on: None,
        update: None,
        health: None,
    }
}

#[test]
fn a_workload() {
    let retry = Retry {
        max_attempts: 5,
        workload: WorkloadId::fixed("web"),
        attempts: 2,
        next_at: Some(WallMillis(9_000)),
        avoid: Vec::new(),
    };
    let shown = WorkloadView {
        workload: &workload(Desired::Running),
        assignment: &assignment(Phase::Backoff),
        retry: Some(&retry),
        seen: None,
        uncertain: true,
        admitted: None,
        task: None,
        shadow: false,
    };
    let view = view::workload::to_wire(&shown, 5, None);
    assert_eq!(view.status, "RetryPending");
    assert_eq!((view.retry_attempts, view.retry_max_attempts), (2, 5));
    assert_eq!(view.failure_reason, "IMAGE_PULL_FAILED");
    let reason = view.reason.unwrap();
    assert_eq!(
        (reason.code.as_str(), reason.message.as_str()),
        ("AttemptFailed", "registry is down")
    );
    assert!(reason.retryable);
    assert_eq!(reason.next_retry_at.unwrap().seconds, 9);
    assert_eq!((view.assigned_node_id.as_str(), view.epoch), ("", 0));
    assert!(view.uncertain);
    assert_eq!(view.running_revision_id, "");
}

#[test]
fn a_workload_whose_new_revision_waits() {
    let workload = workload(Desired::Running);
    let version = Version { revision: RevisionId::fixed("r6"), spec: Arc::clone(&workload.spec) };
    let place = Place {
        node: NodeId::fixed("n1"),
        epoch: Epoch(4),
        generation: Generation(1),
        paused: false,
        reserved: workload.spec.resources.clone(),
        ports: Vec::new(),
        version: Some(version),
        values: BTreeMap::new(),
        shadow: false,
        restart: None,
    };
    let shown = WorkloadView {
        workload: &workload,
        assignment: &Assignment { place: Some(place), ..assignment(Phase::Running) },
        retry: None,
        seen: None,
        uncertain: false,
        admitted: None,
        task: None,
        shadow: false,
    };
    let nowhere = Explanation::default().to_string();
    let view = view::workload::to_wire(&shown, 5, Some(&nowhere));
    assert_eq!((view.revision_id.as_str(), view.running_revision_id.as_str()), ("r7", "r6"));
    assert_eq!((view.assigned_node_id.as_str(), view.epoch), ("n1", 4));
    assert_eq!(view.why, "no node fits: there are no nodes");
}

#[test]
fn a_workload_whose_runtime_does_not_answer_is_unknown() {
    let workload = workload(Desired::Running);
    let place = Place {
        node: NodeId::fixed("n1"),
        epoch: Epoch(4),
        generation: Generation(1),
        paused: false,
        reserved: workload.spec.resources.clone(),
        ports: Vec::new(),
        version: None,
        values: BTreeMap::new(),
        shadow: false,
        restart: None,
    };
    let report = |epoch| persys_model::inventory::Report {
        workload: WorkloadId::fixed("web"),
        epoch: Epoch(epoch),
        state: persys_model::inventory::State::Unknown,
        restarts: 0,
        confirmed: true,
        progress: 0,
        fetched: None,
        trouble: None,
        runs: None,
        health: None,
    };
    let status = |phase, epoch| {
        let assignment = Assignment { place: Some(place.clone()), ..assignment(phase) };
        let (workload, report) = (&workload, report(epoch));
        let view = WorkloadView {
            workload,
            assignment: &assignment,
            retry: None,
            seen: Some(&report),
            uncertain: false,
            admitted: None,
            task: None,
            shadow: false,
        };
        let view = view::workload::to_wire(&view, 5, None);
        (view.status, view.reason.unwrap().message)
    };
    let (word, why) = status(Phase::Running, 4);
    assert_eq!(word, "Unknown");
    assert_eq!(why, "the runtime on n1 does not answer; it was Running when last seen");
    assert_eq!(status(Phase::Running, 3).0, "Running", "an earlier decision says nothing");
    assert_eq!(status(Phase::Stopped, 4).0, "Stopped");
}

#[test]
fn a_summary_counts_each_once() {
    let nodes = [
        node(),
        Node { condition: Condition::Lost, ..node() },
        Node { drain: Some(Arc::from("")), ..node() },
    ];
    let wish = workload(Desired::Running);
    let gone = workload(Desired::Deleted);
    let assignments: Vec<_> = Phase::ALL.into_iter().map(assignment).collect();
    let show = |assignment, workload| WorkloadView {
        workload,
        assignment,
        retry: None,
        seen: None,
        uncertain: false,
        admitted: None,
        task: None,
        shadow: false,
    };
    let views =
        assignments.iter().map(|one| show(one, &wish)).chain([show(&assignments[2], &gone)]);
    let summary = view::summary::to_wire(nodes.iter().map(node_view), views, WallMillis(4_000));
    assert_eq!((summary.total_nodes, summary.ready_nodes, summary.not_ready_nodes), (3, 2, 1));
    assert_eq!(summary.total_workloads, 13);
    assert_eq!((summary.running_workloads, summary.pending_workloads), (4, 3));
    assert_eq!((summary.failed_workloads, summary.deleted_workloads), (1, 2));
    assert_eq!(summary.generated_at.unwrap().seconds, 4);
}

fn shown(what: Happening) -> wire::SchedulerEventView {
    view::event::to_wire(&Event { seq: EventSeq(7), at: WallMillis(3_000), what, by: None })
}

#[test]
fn who_asked_is_among_the_details() {
    let (what, workload) = (Arc::from("apply"), Some(WorkloadId::fixed("web")));
    let what = Happening::Asked { what, workload, node: None };
    let by = Author { why: Arc::from("a new disk"), ..Author::new("operator ann") };
    let event = Event { seq: EventSeq(1), at: WallMillis(0), what, by: Some(Arc::new(by)) };
    let view = view::event::to_wire(&event);
    assert_eq!((&*view.r#type, &*view.workload_id), ("ChangeRequested", "web"));
    assert_eq!(view.details["by"], "operator ann");
    assert_eq!(view.details["because"], "a new disk");
}

fn moved(from: Option<Phase>, to: Option<Phase>, code: ReasonCode) -> Happening {
    Happening::Workload {
        id: WorkloadId::fixed("web"),
        from,
        to,
        code,
        message: Arc::from(""),
        node: Some(NodeId::fixed("n1")),
        epoch: Some(Epoch(4)),
        revision: None,
        task: None,
    }
}

#[test]
fn a_change_of_phase() {
    use Phase::{Backoff, Failed, Pending, Running, Starting};
    let rows = [
        (None, Some(Pending), ReasonCode::Submitted, "WorkloadSubmitted"),
        (Some(Pending), Some(Starting), ReasonCode::Placed, "WorkloadScheduled"),
        (Some(Running), Some(Pending), ReasonCode::NodeLost, "Rescheduled"),
        (Some(Running), Some(Pending), ReasonCode::NodeDrained, "Rescheduled"),
        (Some(Starting), Some(Pending), ReasonCode::NoNodeFits, "WorkloadPending"),
        (Some(Backoff), Some(Starting), ReasonCode::RetryDue, "RetryTriggered"),
        (Some(Running), Some(Failed), ReasonCode::GaveUp, "WorkloadFailed"),
        (Some(Phase::Deleting), None, ReasonCode::DeleteRequested, "WorkloadDeleted"),
    ];
    for (from, to, code, kind) in rows {
        assert_eq!(shown(moved(from, to, code)).r#type, kind);
    }
    let view = shown(moved(Some(Running), Some(Failed), ReasonCode::GaveUp));
    assert_eq!(view.id, "00000000000000000007");
    assert_eq!((view.workload_id.as_str(), view.node_id.as_str()), ("web", "n1"));
    assert_eq!(view.reason, "GaveUp");
    let expected = [("code", "GaveUp"), ("epoch", "4"), ("from", "Running"), ("to", "Failed")];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(view.details, BTreeMap::from(expected));
    for (from, to, _) in EDGES {
        let view = shown(moved(Some(*from), Some(*to), ReasonCode::Placed));
        assert!(!view.r#type.is_empty() && !view.reason.is_empty(), "{from:?} -> {to:?}");
    }
}

#[test]
fn what_happens_to_nodes_and_the_cluster() {
    let id = || NodeId::fixed("n1");
    let why = || Arc::from("because");
    let condition = |to| {
        let from = Condition::Ready;
        Happening::NodeCondition { id: id(), from, to, why: why() }
    };
    let changed = |what| Happening::NodeChanged { id: id(), what };
    let drift = |resolved| {
        let (node, kind) = (id(), DriftKind::OrphanOnAgent);
        Happening::Drift { node, id: WorkloadId::fixed("web"), kind, resolved }
    };
    let mode = Happening::ModeChanged { from: Mode::Normal, to: Mode::Degraded, why: why() };
    let rows = [
        (Happening::NodeRegistered { id: id() }, "NodeJoined", "registered"),
        (condition(Condition::Lost), "NodeLost", "because"),
        (condition(Condition::NotReady), "NodeNotReady", "because"),
        (changed(NodeChange::Draining), "NodeDraining", "an operator empties it"),
        (changed(NodeChange::Removed), "NodeLeft", "an operator removed it"),
        (drift(false), "DriftDetected", "orphan_on_agent"),
        (drift(true), "DriftResolved", "orphan_on_agent"),
        (mode, "SchedulerModeChanged", "because"),
        (
            Happening::MassFailureBrake { silent: 4, total: 9, on: true },
            "FailoverHeld",
            "4 of 9 nodes are silent",
        ),
    ];
    for (what, kind, reason) in rows {
        let view = shown(what);
        assert_eq!((view.r#type.as_str(), view.reason.as_str()), (kind, reason));
    }
}

#[test]
fn reasons_go_both_ways_and_have_the_names_of_the_contract() {
    for reason in FailureReason::ALL {
        let number = failure::to_wire(reason);
        assert_eq!(number.as_str_name(), reason.code());
        assert_eq!(failure::from_wire(number), Some(reason));
    }
    assert_eq!(failure::from_wire(wire::FailureReason::Unspecified), None);
}

#[test]
fn moments() {
    let at = time::timestamp(WallMillis(1_234_567));
    assert_eq!((at.seconds, at.nanos), (1_234, 567_000_000));
    assert_eq!(time::wall(&at), WallMillis(1_234_567));
    assert_eq!(time::timestamp_after(WallMillis(u64::MAX), 5).nanos, 615_000_000);
    assert_eq!(time::unix_seconds(WallMillis(1_999)), 1);
    assert_eq!(time::wall(&prost_types::Timestamp { seconds: -1, nanos: -1 }), WallMillis(0));
    let end = prost_types::Timestamp { seconds: i64::MAX, nanos: i32::MAX };
    assert_eq!(time::wall(&end), WallMillis(u64::MAX));
}
