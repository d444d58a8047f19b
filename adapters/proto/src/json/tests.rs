use serde_json::json;

use super::*;
use crate::control::v1::{ApplyWorkloadRequest, NodeView, WorkloadView};

const APPLY: &str = "persys.control.v1.ApplyWorkloadRequest";

#[test]
fn what_is_written_is_read_back() {
    let value = json!({
        "workload_id": "web",
        "revision_id": "r1",
        "spec": {
            "type": "container",
            "resources": {"cpu_millicores": 500, "memory_mb": 64},
            "container": {
                "image": "nginx",
                "command": ["a", "b"],
                "env": {"A.B": "1", "C": ""},
                "ports": [{"host_port": 8080, "container_port": 80, "protocol": "tcp"}],
                "privileged": true,
            },
            "placement": {"constraints": [{"key": "zone", "values": ["a"]}]},
        },
    });
    let message: ApplyWorkloadRequest = read(APPLY, "", &value).unwrap();
    assert_eq!(write(APPLY, &message, Style::Plain), value);
    let camel = write(APPLY, &message, Style::Camel);
    assert_eq!(camel["spec"]["resources"]["cpuMillicores"], json!("500"));
    assert_eq!(camel["spec"]["container"]["ports"][0]["hostPort"], json!(8080));
    let again: ApplyWorkloadRequest = read(APPLY, "", &camel).unwrap();
    assert!(again == message);
}

#[test]
fn numbers_moments_and_choices_survive() {
    let view = NodeView {
        total_cpu_cores: 1.5,
        total_memory_mb: -7,
        status_updated_at: Some(prost_types::Timestamp { seconds: 1, nanos: 500_000_000 }),
        ..NodeView::default()
    };
    let name = "persys.control.v1.NodeView";
    let value = write(name, &view, Style::Plain);
    let wanted = json!({
        "total_cpu_cores": 1.5,
        "total_memory_mb": -7,
        "status_updated_at": "1970-01-01T00:00:01.500Z",
    });
    assert_eq!(value, wanted);
    let again: NodeView = read(name, "", &value).unwrap();
    assert_eq!(again, view);

    let view = WorkloadView { epoch: u64::MAX, uncertain: true, ..WorkloadView::default() };
    let value = write("persys.control.v1.WorkloadView", &view, Style::Plain);
    assert_eq!(value, json!({"epoch": u64::MAX, "uncertain": true}));
    let again: WorkloadView = read("persys.control.v1.WorkloadView", "", &value).unwrap();
    assert_eq!(again, view);
}

#[test]
fn all_faults_are_named_at_once() {
    let value = json!({
        "workload_id": 7,
        "spec": {
            "container": {"imagee": "x", "ports": [{"host_port": 1.5}, 3], "env": {"A": true}},
            "vm": {},
        },
    });
    let faults = read::<ApplyWorkloadRequest>(APPLY, "", &value).unwrap_err();
    let paths: Vec<_> = faults.listed().iter().map(|fault| fault.path.as_str()).collect();
    let wanted = [
        "spec.container.env.A",
        "spec.container.imagee",
        "spec.container.ports[0].host_port",
        "spec.container.ports[1]",
        "spec.vm",
        "workload_id",
    ];
    assert_eq!(paths, wanted);
    let text = faults.to_string();
    assert!(text.contains("ContainerSpec has no key \"imagee\"; its keys are image, "), "{text}");
    assert!(text.contains("must be a text, not a number; put it in quotes"), "{text}");
    assert!(text.contains("is given beside container"), "{text}");
}

#[test]
fn no_value_is_quoted_in_a_fault() {
    let value = json!({"spec": {"container": {"env": {"PASSWORD": 1234}, "image": ["hunter2"]}}});
    let text = read::<ApplyWorkloadRequest>(APPLY, "", &value).unwrap_err().to_string();
    assert!(!text.contains("1234") && !text.contains("hunter2"), "{text}");
}
