//! One spec of the earlier system as a request of ours.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use persys_model::spec::ADOPT_ON_KEY;
use persys_proto::control::v1::workload_spec::Workload;
use persys_proto::control::v1::{
    ApplyWorkloadRequest, ComposeSpec, ContainerSpec, Port, ResourceRequirements, VolumeMount,
    WorkloadSpec,
};
use serde_json::{Map, Value};

use super::text;

/// Fields that are carried over, or whose meaning is history: state, attempts and logs.
const KNOWN: [&str; 34] = [
    "id",
    "name",
    "type",
    "revisionId",
    "image",
    "command",
    "commandList",
    "compose",
    "composeYaml",
    "projectName",
    "gitRepo",
    "gitBranch",
    "gitToken",
    "envVars",
    "resources",
    "desiredState",
    "labels",
    "createdAt",
    "localPath",
    "ports",
    "volumes",
    "network",
    "restartPolicy",
    "vm",
    "assignedNode",
    "nodeId",
    "status",
    "logs",
    "metadata",
    "retry",
    "statusInfo",
    "workloadId",
    "updatedAt",
    "lastUpdated",
];

/// What became of a spec.
pub(super) struct Converted {
    pub(super) kind: String,
    pub(super) request: ApplyWorkloadRequest,
    pub(super) faults: Vec<String>,
    pub(super) notes: Vec<String>,
}

/// Converts one spec. It is pinned to the node that runs it until it has run there.
pub(super) fn convert(id: &str, value: &Value, node: Option<&str>) -> Converted {
    let kind = text(value, "type").unwrap_or_default().to_ascii_lowercase();
    let (mut faults, mut notes) = (Vec::new(), unknown(value));
    let mut desired = match text(value, "desiredState").unwrap_or_default().to_ascii_lowercase() {
        state if state == "stopped" => "Stopped",
        state if state == "deleted" => {
            faults.push("it is being deleted there".to_owned());
            "Deleted"
        }
        _ => "Running",
    };
    for (field, why) in [
        ("network", "networks of its own are not carried over"),
        ("localPath", "a folder on the host of the earlier scheduler cannot be read from here"),
    ] {
        if let Some(found) = text(value, field) {
            faults.push(format!("{field} is {found:?}: {why}"));
        }
    }
    let workload = match kind.as_str() {
        "container" | "docker" => Some(Workload::Container(container(value, &mut faults))),
        "compose" | "docker-compose" | "git" => {
            if desired == "Running" {
                desired = "Stopped";
                notes.push(by_hand(id, node));
            }
            compose(value, &mut faults, &mut notes).map(Workload::Compose)
        }
        "vm" => {
            faults.push(
                "virtual machines are not taken over: shut it down there, then apply a spec that names \
                 its disk by path"
                    .to_owned(),
            );
            None
        }
        other => {
            faults.push(format!("its type is {other:?}"));
            None
        }
    };
    let metadata =
        node.map(|node| (ADOPT_ON_KEY.to_owned(), node.to_owned())).into_iter().collect();
    let request = ApplyWorkloadRequest {
        workload_id: id.to_owned(),
        spec: Some(WorkloadSpec {
            r#type: match workload {
                Some(Workload::Compose(_)) => "compose".to_owned(),
                Some(Workload::Container(_) | Workload::Vm(_)) | None => "container".to_owned(),
            },
            resources: Some(resources(value)),
            workload,
            metadata,
            ..WorkloadSpec::default()
        }),
        revision_id: text(value, "revisionId").unwrap_or_default().to_owned(),
        desired_state: desired.to_owned(),
        plan: String::new(),
    };
    Converted { kind, request, faults, notes }
}

/// A stack is imported at rest: two agents must not both run it.
fn by_hand(id: &str, node: Option<&str>) -> String {
    let node = node.unwrap_or("its node");
    format!(
        "imported as Stopped, because a running stack is not taken over: on {node} stop it (docker \
         compose -p {id} stop), then persys start {id}"
    )
}

fn unknown(value: &Value) -> Vec<String> {
    let fields = value.as_object().into_iter().flat_map(Map::keys);
    let unknown: Vec<_> =
        fields.filter(|field| !KNOWN.contains(&field.as_str())).cloned().collect();
    if unknown.is_empty() {
        return Vec::new();
    }
    vec![format!("unknown fields, not carried over: {}", unknown.join(", "))]
}

fn container(value: &Value, faults: &mut Vec<String>) -> ContainerSpec {
    let list = texts(value, "commandList");
    if list.is_empty()
        && let Some(command) = text(value, "command")
    {
        faults.push(format!(
            "its command is one text ({command:?}): how it is split into words is not recorded"
        ));
    }
    let (mut ports, mut volumes) = (Vec::new(), Vec::new());
    for text in texts(value, "ports") {
        match port(&text) {
            Some(port) => ports.push(port),
            None => faults.push(format!("the port {text:?} cannot be read")),
        }
    }
    for text in texts(value, "volumes") {
        match volume(&text) {
            Some(volume) => volumes.push(volume),
            None => faults.push(format!("the volume {text:?} is no path of the node")),
        }
    }
    ContainerSpec {
        image: text(value, "image").unwrap_or_default().to_owned(),
        // The earlier agent kept the entrypoint of the image.
        args: list,
        env: map(value, "envVars").into_iter().collect(),
        ports,
        volumes,
        restart_policy: text(value, "restartPolicy").unwrap_or("no").to_owned(),
        labels: map(value, "labels")
            .into_iter()
            .filter(|(key, _)| !key.starts_with("persys."))
            .collect(),
        ..ContainerSpec::default()
    }
}

fn compose(
    value: &Value,
    faults: &mut Vec<String>,
    notes: &mut Vec<String>,
) -> Option<ComposeSpec> {
    let env = map(value, "envVars").into_iter().collect();
    if let Some(file) = text(value, "composeYaml").or_else(|| text(value, "compose")) {
        let decoded =
            BASE64_STANDARD.decode(file.trim()).ok().and_then(|b| String::from_utf8(b).ok());
        return Some(ComposeSpec {
            source_type: "inline".to_owned(),
            inline_yaml: decoded.unwrap_or_else(|| file.to_owned()),
            env,
            ..ComposeSpec::default()
        });
    }
    let Some(repository) = text(value, "gitRepo") else {
        faults.push("there is no Compose file in it".to_owned());
        return None;
    };
    if text(value, "gitToken").is_some() {
        notes
            .push("gitToken is not carried over: set the credentials of the repository".to_owned());
    }
    Some(ComposeSpec {
        source_type: "git".to_owned(),
        git_repo: repository.to_owned(),
        git_ref: text(value, "gitBranch").unwrap_or_default().to_owned(),
        env,
        ..ComposeSpec::default()
    })
}

/// Cores, MB and GB.
fn resources(value: &Value) -> ResourceRequirements {
    let amount = |field: &str| {
        value.get("resources").and_then(|all| all.get(field)?.as_f64()).unwrap_or_default()
    };
    ResourceRequirements {
        cpu_millicores: whole(amount("cpu_usage") * 1000.0),
        memory_mb: whole(amount("memory_usage")),
        disk_gb: whole(amount("disk_usage")),
    }
}

/// The nearest whole number; nothing where there is none.
fn whole(amount: f64) -> i64 {
    format!("{:.0}", amount.max(0.0)).parse().unwrap_or_default()
}

/// `host:container[/protocol]`
fn port(text: &str) -> Option<Port> {
    let (ports, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let (host, container) = ports.split_once(':')?;
    Some(Port {
        host_port: host.parse::<u16>().ok()?.into(),
        container_port: container.parse::<u16>().ok()?.into(),
        protocol: protocol.to_owned(),
        host_ip: String::new(),
    })
}

/// `host:container[:ro]`
fn volume(text: &str) -> Option<VolumeMount> {
    let mut parts = text.split(':');
    let (host, container) = (parts.next()?, parts.next()?);
    let read_only = match (parts.next(), parts.next()) {
        (None | Some("rw"), None) => false,
        (Some("ro"), None) => true,
        (Some(_) | None, _) => return None,
    };
    let absolute = host.starts_with('/') && container.starts_with('/');
    absolute.then(|| VolumeMount {
        host_path: host.to_owned(),
        container_path: container.to_owned(),
        read_only,
    })
}

fn texts(value: &Value, field: &str) -> Vec<String> {
    let all = value.get(field).and_then(Value::as_array).into_iter().flatten();
    all.filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}

fn map(value: &Value, field: &str) -> BTreeMap<String, String> {
    let all = value.get(field).and_then(Value::as_object).into_iter().flatten();
    all.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
