use persys_model::spec::ADOPT_ON_KEY;
use persys_proto::control::v1::workload_spec::Workload;
use serde_json::json;

use super::*;

fn pairs(records: &[(&str, Value)]) -> Pairs {
    records.iter().map(|(key, value)| ((*key).to_owned(), value.to_string().into_bytes())).collect()
}

fn web() -> Value {
    json!({
        "id": "web", "name": "", "type": "container", "revisionId": "rev-3", "image": "nginx:1",
        "command": "", "commandList": ["nginx", "-g", "daemon off;"],
        "envVars": {"A": "1"}, "resources": {"cpu_usage": 0.25, "memory_usage": 256.0, "disk_usage": 1},
        "desiredState": "Running", "labels": {"team": "blue", "persys.managed": "true"},
        "ports": ["8080:80/tcp"], "volumes": ["/srv/web:/data:ro"], "restartPolicy": "always",
        "network": "", "localPath": "",
    })
}

fn one(records: &[(&str, Value)]) -> Planned {
    let mut plan = plan(&pairs(records));
    assert_eq!(plan.workloads.len(), 1);
    plan.workloads.remove(0)
}

#[test]
fn a_container_is_planned_where_it_runs() {
    let found = one(&[
        ("/nodes/n1", json!({"nodeId": "n1", "status": "Ready"})),
        ("/workloads-spec/web", web()),
        ("/workloads-status/web", json!({"id": "web", "assignedNode": "n2", "logs": "x"})),
        ("/assignments/web", json!({"workloadId": "web", "nodeId": "n1"})),
    ]);
    assert_eq!((found.faults.len(), found.notes.len()), (0, 0), "{found:?}");
    assert_eq!(found.node.as_deref(), Some("n1"), "the assignment comes first");
    let request = found.request.unwrap();
    assert_eq!((&*request.revision_id, &*request.desired_state), ("rev-3", "Running"));
    let spec = request.spec.unwrap();
    assert_eq!(spec.metadata[ADOPT_ON_KEY], "n1");
    let resources = spec.resources.unwrap();
    assert_eq!((resources.cpu_millicores, resources.memory_mb, resources.disk_gb), (250, 256, 1));
    let Some(Workload::Container(body)) = spec.workload else { panic!("no container") };
    assert_eq!(body.args, ["nginx", "-g", "daemon off;"]);
    assert!(body.command.is_empty(), "the entrypoint of the image stays");
    assert_eq!((body.ports[0].host_port, body.ports[0].container_port), (8080, 80));
    assert!(body.volumes[0].read_only && body.volumes[0].host_path == "/srv/web");
    assert_eq!((body.labels.len(), &*body.restart_policy), (1, "always"));
}

#[test]
fn what_cannot_be_said_is_named_and_not_imported() {
    let with = |field: &str, value: Value| {
        let mut spec = web();
        spec[field] = value;
        let found = one(&[("/workloads-spec/web", spec)]);
        assert!(found.request.is_none(), "{field}");
        found.faults.join("; ")
    };
    assert!(with("network", json!("blue")).contains("network is \"blue\""));
    assert!(with("volumes", json!(["data:/x"])).contains("\"data:/x\" is no path"));
    assert!(with("ports", json!(["80"])).contains("the port \"80\""));
    assert!(with("type", json!("vm")).contains("virtual machines"));
    assert!(with("desiredState", json!("Deleted")).contains("being deleted"));
    assert!(with("image", json!("")).contains("image"));
    let mut spec = web();
    spec["commandList"] = json!([]);
    spec["command"] = json!("sh -c true");
    let found = one(&[("/workloads-spec/web", spec)]);
    assert!(found.faults[0].contains("one text"), "{found:?}");
    let volume = json!({"workloadId": "web", "volumeId": "local:data", "nodeId": "n1"});
    let found = one(&[("/attachments/n1/web/local:data", volume), ("/workloads-spec/web", web())]);
    assert!(found.request.is_none() && found.faults[0].contains("local:data"), "{found:?}");
}

#[test]
fn unknown_fields_and_a_missing_node_are_told() {
    let mut spec = web();
    spec["gpuCount"] = json!(2);
    let found = one(&[("/workloads-spec/web", spec)]);
    assert!(found.request.is_some());
    assert!(found.notes[0].contains("gpuCount") && found.notes[1].contains("no node runs it"));
}

#[test]
fn a_stack_is_imported_at_rest() {
    let spec = json!({
        "id": "shop", "type": "compose", "revisionId": "r1", "desiredState": "Running",
        "composeYaml": "c2VydmljZXM6CiAgd2ViOgogICAgaW1hZ2U6IG5naW54OjEK",
    });
    let status = json!({"id": "shop", "nodeId": "n1", "status": "Running"});
    let found = one(&[("/workloads-spec/shop", spec), ("/workloads-status/shop", status)]);
    let request = found.request.unwrap();
    assert_eq!(request.desired_state, "Stopped");
    assert!(found.notes[0].contains("on n1 stop it"), "{:?}", found.notes);
    let Some(Workload::Compose(body)) = request.spec.unwrap().workload else { panic!("no stack") };
    assert!(body.inline_yaml.starts_with("services:"), "{}", body.inline_yaml);
}

#[test]
fn legacy_records_are_read_and_records_of_ours_are_not() {
    let mut legacy = web();
    legacy["assignedNode"] = json!("n3");
    let ours = json!({"v": 1, "id": "api", "revision": "r1"});
    let found = one(&[("/workloads/api", ours), ("/workloads/web", legacy)]);
    assert_eq!((found.id.as_str(), found.node.as_deref()), ("web", Some("n3")));
    let plan = plan(&vec![
        ("/nodes/n1/status".to_owned(), b"Ready".to_vec()),
        ("/workloads-spec/bad".to_owned(), b"{".to_vec()),
        ("/meta/head".to_owned(), b"{}".to_vec()),
    ]);
    assert_eq!(plan.unreadable, [("/workloads-spec/bad".to_owned(), "is not JSON".to_owned())]);
    assert!(plan.workloads.is_empty());
}
