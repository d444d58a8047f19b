//! Messages encoded by hand, tag by tag, against what the generated code reads and writes.
//!
//! The hex is the wire as the protobuf encoding defines it, not output of this crate. A tag is eight
//! times the number plus the wire type: field 100 begins `a0 06` (varint) or `a2 06` (bytes).

use std::collections::BTreeMap;
use std::fmt::Debug;

use persys_proto::{agent::v1 as agent, control::v1 as control};
use prost::Message;
use prost_types::Timestamp;

/// Hex with spaces and `#` comments, to bytes.
fn wire(text: &str) -> Vec<u8> {
    text.lines()
        .flat_map(|line| line.split('#').next().unwrap_or_default().split_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

/// Reading the bytes gives the message, and writing the message gives the bytes.
fn check<M: Message + Default + PartialEq + Debug>(text: &str, message: &M) {
    let bytes = wire(text);
    assert_eq!(&M::decode(bytes.as_slice()).unwrap(), message);
    assert_eq!(message.encode_to_vec(), bytes);
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
}

#[test]
fn agent_apply_request() {
    let container = agent::ContainerSpec {
        image: "nginx".into(),
        command: vec!["sh".into()],
        env: map(&[("A", "b"), ("C", "d")]),
        ports: vec![agent::PortMapping {
            host_port: 8080,
            container_port: 80,
            protocol: "tcp".into(),
        }],
        resources: Some(agent::ResourceLimits { memory_bytes: 1 << 26, ..Default::default() }),
        privileged: true,
        ..Default::default()
    };
    let request = agent::ApplyWorkloadRequest {
        id: "w1".into(),
        r#type: agent::WorkloadType::Container.into(),
        revision_id: "r7".into(),
        desired_state: agent::DesiredState::Running.into(),
        spec: Some(agent::WorkloadSpec {
            spec: Some(agent::workload_spec::Spec::Container(container)),
        }),
        term: 3,
        session: 5,
        epoch: 300,
        whole_spec: None,
        secrets: Vec::new(),
        paused: false,
    };
    let text = "
        0a 02 77 31                         # 1 id
        10 01                               # 2 type
        1a 02 72 37                         # 3 revision_id
        20 01                               # 4 desired_state
        2a 33                               # 5 spec
          0a 31                             #   1 container
            0a 05 6e 67 69 6e 78            #     1 image
            12 02 73 68                     #     2 command
            22 06 0a 01 41 12 01 62         #     4 env A=b
            22 06 0a 01 43 12 01 64         #     4 env C=d
            32 0a                           #     6 ports
              08 90 3f                      #       1 host_port
              10 50                         #       2 container_port
              1a 03 74 63 70                #       3 protocol
            3a 05 10 80 80 80 20            #     7 resources, 2 memory_bytes
            a0 06 01                        #     100 privileged
        a0 06 03                            # 100 term
        a8 06 05                            # 101 session
        b0 06 ac 02                         # 102 epoch
    ";
    check(text, &request);
}

#[test]
fn control_heartbeat_request() {
    let request = control::HeartbeatRequest {
        node_id: "n1".into(),
        usage: Some(control::NodeUsage {
            cpu_allocated_millicores: 1500,
            memory_used_mb: 512,
            ..Default::default()
        }),
        workload_statuses: vec![control::WorkloadStatus {
            workload_id: "w1".into(),
            state: "Failed".into(),
            failure_reason: control::FailureReason::ImageNotFound.into(),
            last_transition: Some(Timestamp { seconds: 1000, nanos: 5 }),
            ..Default::default()
        }],
        timestamp: Some(Timestamp { seconds: 1_700_000_000, nanos: 0 }),
        workload_usage: vec![control::WorkloadUsageSnapshot {
            workload_id: "w1".into(),
            r#type: "vm".into(),
            cpu_percent: 12.5,
            collected_at: Some(Timestamp { seconds: 1, nanos: 0 }),
            ..Default::default()
        }],
        session: 5,
        seq: 9,
        reports: vec![control::WorkloadReport {
            workload_id: "w2".into(),
            epoch: 7,
            state: "Running".into(),
            restarts: 2,
            ..Default::default()
        }],
        full_inventory: true,
        tombstones: vec![control::Tombstone { workload_id: "w3".into(), epoch: 4, purged: false }],
        ..Default::default()
    };
    let text = "
        0a 02 6e 31                         # 1 node_id
        12 06 08 dc 0b 20 80 04             # 2 usage: 1 cpu_allocated, 4 memory_used
        1a 15                               # 3 workload_statuses
          0a 02 77 31                       #   1 workload_id
          12 06 46 61 69 6c 65 64           #   2 state
          18 02                             #   3 failure_reason
          2a 05 08 e8 07 10 05              #   5 last_transition
        22 06 08 80 e2 cf aa 06             # 4 timestamp
        2a 15                               # 5 workload_usage
          0a 02 77 31                       #   1 workload_id
          12 02 76 6d                       #   2 type, a string here
          19 00 00 00 00 00 00 29 40        #   3 cpu_percent
          4a 02 08 01                       #   9 collected_at, a Timestamp here
        a0 06 05                            # 100 session
        a8 06 09                            # 101 seq
        b2 06 11                            # 102 reports
          0a 02 77 32                       #   1 workload_id
          10 07                             #   2 epoch
          1a 07 52 75 6e 6e 69 6e 67        #   3 state
          38 02                             #   7 restarts
        b8 06 01                            # 103 full_inventory
        ca 06 06 0a 02 77 33 10 04          # 105 tombstones
    ";
    check(text, &request);
}

#[test]
fn control_apply_request() {
    let spec = control::WorkloadSpec {
        r#type: "container".into(),
        resources: Some(control::ResourceRequirements {
            cpu_millicores: 500,
            memory_mb: 256,
            disk_gb: 0,
        }),
        workload: Some(control::workload_spec::Workload::Container(control::ContainerSpec {
            image: "nginx".into(),
            restart_policy: "always".into(),
            privileged: true,
            ..Default::default()
        })),
        metadata: map(&[("k", "v")]),
        secrets: Vec::new(),
        stop_grace: String::new(),
        health: None,
        placement: Some(control::PlacementRules {
            constraints: vec![control::Constraint {
                key: "zone".into(),
                operator: "in".into(),
                values: vec!["a".into(), "b".into()],
            }],
            strategy: "spread".into(),
            ..Default::default()
        }),
    };
    let request = control::ApplyWorkloadRequest {
        workload_id: "web".into(),
        spec: Some(spec),
        revision_id: "r1".into(),
        desired_state: "Running".into(),
        ..Default::default()
    };
    let text = "
        0a 03 77 65 62                      # 1 workload_id
        12 4c                               # 2 spec
          0a 09 63 6f 6e 74 61 69 6e 65 72  #   1 type
          12 06 08 f4 03 10 80 02           #   2 resources
          52 11                             #   10 container
            0a 05 6e 67 69 6e 78            #     1 image
            32 06 61 6c 77 61 79 73         #     6 restart_policy
            38 01                           #     7 privileged
          a2 01 06 0a 01 6b 12 01 76        #   20 metadata
          a2 06 1a                          #   100 placement
            0a 10                           #     1 constraints
              0a 04 7a 6f 6e 65             #       1 key
              12 02 69 6e                   #       2 operator
              1a 01 61 1a 01 62             #       3 values
            1a 06 73 70 72 65 61 64         #     3 strategy
        52 02 72 31                         # 10 revision_id
        5a 07 52 75 6e 6e 69 6e 67          # 11 desired_state
    ";
    check(text, &request);
}

#[test]
fn control_stream_command() {
    let command = control::AgentCommand {
        term: 1,
        session: 2,
        epoch: 3,
        workload_id: "w1".into(),
        action: "remove".into(),
        command_id: 4,
        ..Default::default()
    };
    let message = control::ControlMessage {
        message: Some(control::control_message::Message::AgentCommand(Box::new(command))),
    };
    let text = "
        a2 06 14                            # 100 agent_command
          08 01 10 02 18 03                 #   1 term, 2 session, 3 epoch
          22 02 77 31                       #   4 workload_id
          32 06 72 65 6d 6f 76 65           #   6 action
          48 04                             #   9 command_id
    ";
    check(text, &message);
}

/// What a scheduler without our fields sends is read with those fields at zero.
#[test]
fn older_peer_answers() {
    let response = control::RegisterNodeResponse {
        accepted: true,
        heartbeat_interval_seconds: 5,
        lease_expires_at: Some(Timestamp { seconds: 1000, nanos: 0 }),
        ..Default::default()
    };
    assert_eq!((response.session, response.term, response.lease_ms), (0, 0, 0));
    check("08 01  18 05  22 03 08 e8 07", &response);
}

/// A client that knows the contract alone.
#[derive(Clone, PartialEq, prost::Message)]
struct OldHeartbeatResponse {
    #[prost(bool, tag = "1")]
    acknowledged: bool,
    #[prost(bool, tag = "2")]
    drain_node: bool,
    #[prost(message, optional, tag = "3")]
    lease_expires_at: Option<Timestamp>,
}

#[test]
fn older_peer_does_not_notice_our_fields() {
    let lease_expires_at = Some(Timestamp { seconds: 1000, nanos: 0 });
    let ours = control::HeartbeatResponse {
        acknowledged: true,
        drain_node: true,
        lease_expires_at,
        hold: true,
        term: 1,
        session: 2,
        lease_ms: 6000,
        ..Default::default()
    };
    let theirs = OldHeartbeatResponse::decode(ours.encode_to_vec().as_slice()).unwrap();
    let expected = OldHeartbeatResponse { acknowledged: true, drain_node: true, lease_expires_at };
    assert_eq!(theirs, expected);
}

/// Field 5000 in each wire type, as a newer peer might send it.
#[test]
fn unknown_fields_are_passed_over() {
    let text = "
        0a 02 77 31                         # 1 workload_id
        c0 b8 02 96 01                      # varint
        c1 b8 02 01 02 03 04 05 06 07 08    # eight bytes
        c2 b8 02 03 61 62 63                # length and bytes
        c5 b8 02 01 02 03 04                # four bytes
    ";
    let request = control::RetryWorkloadRequest::decode(wire(text).as_slice()).unwrap();
    assert_eq!(request, control::RetryWorkloadRequest { workload_id: "w1".into() });
}

#[test]
fn unknown_oneof_member_reads_as_none() {
    // 200, which no version knows, holding an empty message.
    let message = control::ControlMessage::decode(wire("c2 0c 00").as_slice()).unwrap();
    assert_eq!(message.message, None);
}

#[test]
fn unknown_enum_values_are_kept() {
    let request = agent::ApplyWorkloadRequest::decode(wire("10 63  20 07").as_slice()).unwrap();
    assert_eq!((request.r#type, request.desired_state), (99, 7));
    assert_eq!(request.r#type(), agent::WorkloadType::Unspecified);
    assert!(agent::WorkloadType::try_from(request.r#type).is_err());

    let status = control::WorkloadStatus::decode(wire("18 63").as_slice()).unwrap();
    assert_eq!(status.failure_reason, 99);
    assert_eq!(status.encode_to_vec(), wire("18 63"));
}
