//! What agents say on their own, and what they are answered.

use std::sync::Arc;

use persys_cluster::contract::Word;
use persys_model::failure::FailureReason;
use persys_model::id::{DriverName, WorkloadId};
use persys_model::link::{BeatAnswer, RegistrationAnswer, Removal};
use persys_model::time::WallMillis;
use persys_model::token::{Epoch, Session, Term};
use persys_proto::control::v1 as wire;
use persys_proto::convert::beat::{self, LegacyBeatAnswer};
use persys_proto::convert::register::{self, LegacyAnswer};
use persys_proto::convert::{ITEMS, LABELS, POOLS, Said, report};

use crate::paths;
use crate::random::Random;
use crate::samples;

const NOW: WallMillis = WallMillis(1_700_000_000_250);

#[test]
fn a_registration_survives() {
    for seed in 0..300 {
        let said = samples::registration(&mut Random(seed));
        let arrived = register::from_wire(register::to_wire(&said, NOW)).unwrap();
        assert_eq!(arrived.value, Said::Ours(said), "seed {seed}");
        assert!(arrived.odd.is_empty(), "seed {seed}: {}", arrived.odd);
    }
}

#[test]
fn a_beat_survives() {
    for seed in 0..300 {
        let said = samples::beat(&mut Random(seed));
        let arrived = beat::from_wire(beat::to_wire(&said, NOW)).unwrap();
        assert_eq!(arrived.value, Said::Ours(said), "seed {seed}");
        assert!(arrived.odd.is_empty(), "seed {seed}: {}", arrived.odd);
    }
}

fn removal(nth: u8) -> Removal {
    let workload = WorkloadId::new(&format!("w{nth}")).unwrap();
    Removal { workload, epoch: Epoch(u64::from(nth) + 1) }
}

#[test]
fn a_removal_that_cannot_be_read_is_not_obeyed() {
    let answer = BeatAnswer::Heard {
        term: Term(3),
        session: Session(4),
        seq: 1,
        renewed: true,
        hold: false,
        drain: false,
        want_inventory: false,
        beat_ms: 0,
        removals: vec![removal(1)],
        mark: None,
    };
    let mut message = beat::answer_to_wire(&answer, false, 6_000, NOW);
    let odd = [("", 5), ("a b", 5), ("web", 0)];
    message
        .removals
        .extend(odd.map(|(id, epoch)| wire::Removal { workload_id: id.to_owned(), epoch }));
    assert_eq!(beat::answer_from_wire(&message), Ok(Said::Ours(answer)));
}

#[test]
fn a_heartbeat_has_its_node_and_its_time() {
    let said = samples::beat(&mut Random(1));
    let message = beat::to_wire(&said, NOW);
    assert_eq!(message.node_id, said.node.to_string());
    let at = message.timestamp.unwrap();
    assert_eq!((at.seconds, at.nanos), (1_700_000_000, 250_000_000));
}

#[test]
fn answers_survive() {
    for answer in [
        RegistrationAnswer::Accepted {
            term: Term(3),
            session: Session(4),
            beat_ms: 2_500,
            lease_ms: 6_000,
        },
        RegistrationAnswer::Refused { why: Arc::from("no"), retry_after_ms: 900 },
    ] {
        let message = register::answer_to_wire(&answer, NOW);
        assert_eq!(register::answer_from_wire(&message), Ok(Said::Ours(answer)));
    }
    for bits in 0..8_u8 {
        let answer = BeatAnswer::Heard {
            term: Term(3),
            session: Session(4),
            seq: 0,
            renewed: bits & 1 > 0,
            hold: bits & 2 > 0,
            drain: false,
            want_inventory: bits & 4 > 0,
            beat_ms: u64::from(bits) * 1_000,
            removals: (0..bits).map(removal).collect(),
            mark: None,
        };
        let message = beat::answer_to_wire(&answer, false, 6_000, NOW);
        assert_eq!(message.drain_node, bits & 2 > 0, "old agents read hold as drain");
        assert_eq!(beat::answer_from_wire(&message), Ok(Said::Ours(answer)));
    }
    let again = BeatAnswer::RegisterAgain { term: Term(3) };
    let message = beat::answer_to_wire(&again, true, 6_000, NOW);
    assert_eq!(beat::answer_from_wire(&message), Ok(Said::Ours(again)));
}

#[test]
fn an_old_agent_reads_seconds_and_a_date() {
    let answer = RegistrationAnswer::Accepted {
        term: Term(3),
        session: Session(4),
        beat_ms: 2_500,
        lease_ms: 6_000,
    };
    let message = register::answer_to_wire(&answer, NOW);
    assert_eq!(message.heartbeat_interval_seconds, 3);
    let until = message.lease_expires_at.unwrap();
    assert_eq!((until.seconds, until.nanos), (1_700_000_006, 250_000_000));
}

#[test]
fn an_old_scheduler_gives_no_session() {
    let welcome = wire::RegisterNodeResponse {
        accepted: true,
        heartbeat_interval_seconds: 60,
        lease_expires_at: Some(prost_types::Timestamp { seconds: 7, nanos: 500_000_000 }),
        ..Default::default()
    };
    let lease_expires_at = Some(WallMillis(7_500));
    let expected = LegacyAnswer::Accepted { beat_ms: Some(60_000), lease_expires_at };
    assert_eq!(register::answer_from_wire(&welcome), Ok(Said::Legacy(expected)));
    let refusal = wire::RegisterNodeResponse { reason: "no".into(), ..Default::default() };
    let expected = LegacyAnswer::Refused { why: Arc::from("no") };
    assert_eq!(register::answer_from_wire(&refusal), Ok(Said::Legacy(expected)));
    let heard =
        wire::HeartbeatResponse { acknowledged: true, drain_node: true, ..Default::default() };
    let expected = LegacyBeatAnswer { acknowledged: true, drain: true, lease_expires_at: None };
    assert_eq!(beat::answer_from_wire(&heard), Ok(Said::Legacy(expected)));
    let half = wire::HeartbeatResponse { acknowledged: true, session: 4, ..Default::default() };
    assert_eq!(paths(beat::answer_from_wire(&half)), ["term"]);
}

fn old_node() -> wire::RegisterNodeRequest {
    wire::RegisterNodeRequest {
        node_id: "host-0af3".into(),
        grpc_endpoint: "10.0.0.9".into(),
        capabilities: Some(wire::NodeCapabilities {
            cpu_total_millicores: 8_000,
            memory_total_mb: 16_000,
            supported_workload_types: vec!["container".into(), "microvm".into(), "VM".into()],
            ..Default::default()
        }),
        ..Default::default()
    }
}

#[test]
fn a_node_without_our_fields_is_an_old_one() {
    let arrived = register::from_wire(old_node()).unwrap();
    let Said::Legacy(node) = arrived.value else { panic!("taken for one of ours") };
    assert_eq!(&*node.endpoint, "10.0.0.9:50051");
    assert_eq!(node.types.iter().map(|kind| kind.word()).collect::<Vec<_>>(), ["container", "vm"]);
    assert_eq!(node.drivers.iter().map(DriverName::as_str).collect::<Vec<_>>(), ["local"]);
}

#[test]
fn a_node_that_names_no_workload_type_is_refused_by_the_name_of_the_field() {
    let mut node = old_node();
    node.capabilities.as_mut().unwrap().supported_workload_types.clear();
    let fault = register::from_wire(node.clone()).unwrap_err().to_string();
    assert!(fault.contains("capabilities.supported_workload_types: is empty"), "{fault}");
    // An agent of ours that says of each type why it cannot run it is seen with its reasons.
    let why = ("container".to_owned(), "Docker does not answer".to_owned());
    node.capabilities.as_mut().unwrap().missing_runtimes = [why].into();
    assert!(register::from_wire(node).is_ok());
}

#[test]
fn half_of_our_fields_is_a_fault() {
    let half = wire::RegisterNodeRequest { host_id: "h".into(), ..old_node() };
    assert_eq!(paths(register::from_wire(half)), ["incarnation"]);
    let half = wire::RegisterNodeRequest { session: 3, fence_available: true, ..old_node() };
    assert_eq!(paths(register::from_wire(half)), ["session", "fence_available"]);
    let half = wire::HeartbeatRequest { node_id: "n".into(), seq: 3, ..Default::default() };
    assert_eq!(paths(beat::from_wire(half)), ["seq"]);
}

#[test]
fn every_fault_of_a_registration_is_named() {
    let mut request = wire::RegisterNodeRequest {
        node_id: "../x".into(),
        grpc_endpoint: "0.0.0.0:0".into(),
        host_id: "h 1".into(),
        incarnation: "i".repeat(200),
        ..old_node()
    };
    let capabilities = request.capabilities.as_mut().unwrap();
    capabilities.cpu_total_millicores = -1;
    capabilities.memory_total_mb = i64::MAX;
    let pool = |name: &str, total_gb| wire::StoragePool {
        name: name.into(),
        r#type: "local".into(),
        total_gb,
        ..Default::default()
    };
    capabilities.storage_pools = vec![pool("", -5)];
    capabilities.supported_storage_drivers = vec!["a/b".into()];
    request.labels.insert("a=b".into(), "c".into());
    request.tombstones = vec![wire::Tombstone { workload_id: "w".into(), epoch: 0, purged: false }];
    let item = wire::InventoryItem { workload_id: "w".into(), ..Default::default() };
    request.inventory = vec![item];
    assert_eq!(
        paths(register::from_wire(request)),
        [
            "host_id",
            "incarnation",
            "inventory[0].revision_id",
            "inventory[0].desired_state",
            "inventory[0].report",
            "tombstones[0].epoch",
            "node_id",
            "grpc_endpoint",
            "labels[a=b]",
            "capabilities.cpu_total_millicores",
            "capabilities.memory_total_mb",
            "capabilities.storage_pools[0].name",
            "capabilities.storage_pools[0].total_gb",
            "capabilities.supported_storage_drivers[0]",
        ]
    );
}

#[test]
fn endpoints() {
    let rows = [
        ("h", Some("h:50051")),
        (":7", Some("127.0.0.1:7")),
        ("a.b-c.d:1", Some("a.b-c.d:1")),
        ("[::1]", Some("[::1]:50051")),
        ("[fe80::1]:9", Some("[fe80::1]:9")),
        ("", None),
        ("h:", None),
        ("h:0", None),
        ("h:+1", None),
        ("h:65536", None),
        ("fe80::1", None),
        ("[::]:1", None),
        ("0.0.0.0:1", None),
        ("http://h:1", None),
        ("a b:1", None),
        ("-h:1", None),
    ];
    for (given, expected) in rows {
        let request = wire::RegisterNodeRequest { grpc_endpoint: given.into(), ..old_node() };
        let found = match register::from_wire(request) {
            Ok(arrived) => match arrived.value {
                Said::Legacy(node) => Some(node.endpoint.to_string()),
                Said::Ours(_) => panic!("taken for one of ours"),
            },
            Err(_) => None,
        };
        assert_eq!(found.as_deref(), expected, "{given:?}");
    }
}

#[test]
fn lists_have_an_end() {
    let mut request = old_node();
    request.labels = (0..=LABELS).map(|nth| (format!("k{nth}"), String::new())).collect();
    let capabilities = request.capabilities.as_mut().unwrap();
    capabilities.storage_pools = vec![wire::StoragePool::default(); POOLS + 1];
    assert_eq!(paths(register::from_wire(request)), ["labels", "capabilities.storage_pools"]);

    let session =
        |session| wire::HeartbeatRequest { node_id: "n".into(), session, ..Default::default() };
    let beat = wire::HeartbeatRequest {
        reports: vec![wire::WorkloadReport::default(); ITEMS + 1],
        tombstones: vec![wire::Tombstone::default(); ITEMS + 1],
        full_inventory: true,
        inventory: vec![wire::InventoryItem::default(); ITEMS + 1],
        buried: vec![wire::Tombstone::default(); ITEMS + 1],
        ..session(1)
    };
    assert_eq!(paths(beat::from_wire(beat)), ["reports", "tombstones", "inventory", "buried"]);
    let beat = wire::HeartbeatRequest {
        workload_statuses: vec![wire::WorkloadStatus::default(); ITEMS + 1],
        ..session(0)
    };
    assert_eq!(paths(beat::from_wire(beat)), ["workload_statuses"]);
}

#[test]
fn an_old_agent_lives_whatever_it_says_of_its_workloads() {
    let status = |id: &str, state: &str, reason| wire::WorkloadStatus {
        workload_id: id.into(),
        state: state.into(),
        failure_reason: reason,
        message: "boom".into(),
        ..Default::default()
    };
    let request = wire::HeartbeatRequest {
        node_id: "n1".into(),
        usage: Some(wire::NodeUsage { cpu_used_millicores: -1, ..Default::default() }),
        workload_statuses: vec![
            status("web", "running", 0),
            status("w b", "Running", 0),
            status("db", "Failed", 0),
            status("vm", "Failed", 8),
            status("x", "Dancing", 99),
        ],
        ..Default::default()
    };
    let arrived = beat::from_wire(request).unwrap();
    let Said::Legacy(beat) = arrived.value else { panic!("taken for one of ours") };
    let found: Vec<_> = beat.statuses.iter().map(|s| (s.word, s.reason, &*s.message)).collect();
    assert_eq!(
        found,
        [
            (Word::Running, None, "boom"),
            (Word::Failed, None, "boom"),
            (Word::Failed, Some(FailureReason::VmBootFailed), "boom"),
        ]
    );
    let odd: Vec<_> = arrived.odd.listed().iter().map(|fault| fault.path.as_str()).collect();
    assert_eq!(
        odd,
        [
            "workload_statuses[1].workload_id",
            "workload_statuses[4].state",
            "workload_statuses[4].failure_reason",
            "usage.cpu_used_millicores"
        ]
    );
}

/// A check that became stricter must not keep a node out.
#[test]
fn a_held_spec_that_is_not_accepted_is_left_out_and_named() {
    let mut random = Random(5);
    let mut said = samples::registration(&mut random);
    said.inventory.held.truncate(0);
    while said.inventory.held.is_empty() {
        said.inventory = samples::inventory(&mut random);
        said.inventory.held.retain(|held| held.spec.is_some());
    }
    said.inventory.held.truncate(1);
    let mut message = register::to_wire(&said, NOW);
    message.inventory[0].spec.as_mut().unwrap().r#type = "pod".into();
    let arrived = register::from_wire(message).unwrap();
    let Said::Ours(read) = arrived.value else { panic!("taken for an old one") };
    assert_eq!(read.inventory.held[0].spec, None);
    assert_eq!(arrived.odd.listed()[0].path, "inventory[0].spec.type");
}

#[test]
fn an_inventory_item_is_of_one_mind() {
    let item = |id: &str, epoch| wire::InventoryItem {
        paused: false,
        workload_id: id.into(),
        epoch,
        revision_id: "r".into(),
        desired_state: "Running".into(),
        spec: None,
        report: Some(wire::WorkloadReport {
            workload_id: "w".into(),
            epoch: 4,
            state: "Running".into(),
            ..Default::default()
        }),
    };
    let beat = |inventory| wire::HeartbeatRequest {
        node_id: "n".into(),
        session: 1,
        full_inventory: true,
        inventory,
        ..Default::default()
    };
    assert_eq!(
        paths(beat::from_wire(beat(vec![item("v", 4), item("w", 5)]))),
        ["inventory[0].report.workload_id", "inventory[1].report.epoch"]
    );
    let twice = beat(vec![item("w", 4), item("w", 4)]);
    assert_eq!(paths(beat::from_wire(twice)), ["inventory[1].workload_id"]);
    let part = wire::HeartbeatRequest { full_inventory: false, ..beat(vec![item("w", 4)]) };
    assert_eq!(paths(beat::from_wire(part)), ["inventory"]);
}

#[test]
fn a_report_has_a_reason_exactly_when_it_failed() {
    let report = |state: &str, failure_reason| wire::WorkloadReport {
        workload_id: "w".into(),
        state: state.into(),
        failure_reason,
        ..Default::default()
    };
    for state in ["Pending", "Running", "Stopped", "Completed", "Unknown"] {
        assert!(report::from_wire(&report(state, 0)).is_ok());
        assert_eq!(paths(report::from_wire(&report(state, 5))), ["failure_reason"], "{state}");
    }
    for state in ["Failed", "Restarting"] {
        assert!(report::from_wire(&report(state, 5)).is_ok());
        assert_eq!(paths(report::from_wire(&report(state, 0))), ["failure_reason"], "{state}");
        assert_eq!(paths(report::from_wire(&report(state, 9))), ["failure_reason"], "{state}");
        assert_eq!(paths(report::from_wire(&report(state, -1))), ["failure_reason"], "{state}");
    }
    assert_eq!(paths(report::from_wire(&report("", 0))), ["state"]);
}
