//! Manifests with `apiVersion: persys.io/v1` and `kind: Workload`.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::control::v1::workload_spec::Workload;
use crate::control::v1::{
    ApplyWorkloadRequest, ComposeSpec, Constraint, ContainerSpec, PlacementRules, Port,
    ResourceRequirements, VolumeMount, WorkloadSpec,
};
use persys_model::fault::Faults;
use serde_json::{Map, Value};

use super::fields::Fields;
use super::sizes;
use super::{body, shape};

/// The request such a manifest means.
pub(super) fn manifest(object: &Map<String, Value>) -> Result<ApplyWorkloadRequest, Faults> {
    let faults = RefCell::new(Faults::none());
    let mut fields = Fields::new(&faults, "", object.clone());
    if fields.text("apiVersion").as_deref() != Some("persys.io/v1") {
        fields.fault("apiVersion", "must be persys.io/v1");
    }
    if fields.text("kind").as_deref() != Some("Workload") {
        fields.fault("kind", "must be Workload");
    }
    let mut request = ApplyWorkloadRequest::default();
    let mut metadata = BTreeMap::new();
    if let Some(mut about) = fields.object("metadata") {
        request.workload_id = about.text("name").unwrap_or_default();
        metadata = about.texts("labels");
        about.finish();
    }
    if let Some(mut inner) = fields.object("spec") {
        match inner.text("name") {
            Some(name) if request.workload_id.is_empty() => request.workload_id = name,
            Some(name) if name != request.workload_id => {
                inner.fault("name", format!("says {name:?}, but metadata.name is another"));
            }
            Some(_) | None => {}
        }
        let mut spec = spec(&faults, inner);
        spec.metadata.append(&mut metadata);
        request.spec = Some(spec);
    } else {
        fields.fault("spec", "is missing");
    }
    fields.finish();
    let faults = faults.into_inner();
    if faults.is_empty() { Ok(request) } else { Err(faults) }
}

fn spec(faults: &RefCell<Faults>, mut fields: Fields<'_>) -> WorkloadSpec {
    let kind = fields.text("type").unwrap_or_default();
    let labels = fields.texts("labels");
    let selector = fields.texts("nodeSelector");
    let constraint =
        |(key, value)| Constraint { key, operator: "in".to_owned(), values: vec![value] };
    let mut spec = WorkloadSpec {
        resources: resources(&mut fields),
        placement: (!selector.is_empty()).then(|| PlacementRules {
            constraints: selector.into_iter().map(constraint).collect(),
            ..PlacementRules::default()
        }),
        ..WorkloadSpec::default()
    };
    let vm = fields.take("vm");
    let compose = fields.text("composeSpec");
    let git = fields.object("git");
    match kind.as_str() {
        "vm" => spec.workload = vm.clone().and_then(|value| machine(faults, &value)),
        "compose" => {
            let env = fields.texts("env");
            spec.workload = Some(Workload::Compose(stack(compose.clone(), git, env)));
        }
        "container" => {
            let container = container(&mut fields, labels.clone());
            spec.workload = Some(Workload::Container(container));
        }
        other => fields.fault("type", format!("{other:?} is none of container, compose, vm")),
    }
    if kind != "vm" && vm.is_some() {
        fields.fault("vm", format!("is given, but the type is {kind}"));
    }
    if kind != "compose" && compose.is_some() {
        fields.fault("composeSpec", format!("is given, but the type is {kind}"));
    }
    if kind != "container" {
        spec.metadata = labels;
    }
    spec.r#type = kind;
    fields.finish();
    spec
}

fn machine(faults: &RefCell<Faults>, value: &Value) -> Option<Workload> {
    match body::read("vm", "spec.vm", value) {
        Ok(spec) => spec.workload,
        Err(found) => {
            shape::adopt(&mut faults.borrow_mut(), &found);
            None
        }
    }
}

fn stack(
    inline: Option<String>,
    git: Option<Fields<'_>>,
    env: BTreeMap<String, String>,
) -> ComposeSpec {
    let mut compose = ComposeSpec {
        source_type: if git.is_some() { "git" } else { "inline" }.to_owned(),
        inline_yaml: inline.unwrap_or_default(),
        env,
        ..ComposeSpec::default()
    };
    if let Some(mut git) = git {
        compose.git_repo = git.text("url").unwrap_or_default();
        compose.git_ref = git.text("ref").unwrap_or_default();
        compose.git_path = git.text("path").unwrap_or_default();
        git.finish();
    }
    compose
}

fn container(fields: &mut Fields<'_>, labels: BTreeMap<String, String>) -> ContainerSpec {
    ContainerSpec {
        image: fields.text("image").unwrap_or_default(),
        env: fields.texts("env"),
        labels,
        ports: fields.list("ports").into_iter().map(port).collect(),
        volumes: fields.list("volumes").into_iter().map(volume).collect(),
        restart_policy: fields.text("restartPolicy").unwrap_or_default(),
        privileged: fields.flag("privileged"),
        ..ContainerSpec::default()
    }
}

fn port(mut fields: Fields<'_>) -> Port {
    let mut number = |key: &str| {
        let number = fields.number(key).unwrap_or_default();
        i32::try_from(number).unwrap_or_else(|_| {
            fields.fault(key, "is not a port");
            0
        })
    };
    let (host_port, container_port) = (number("host"), number("container"));
    let protocol = fields.text("protocol").unwrap_or_default().to_ascii_lowercase();
    fields.finish();
    Port { host_port, container_port, protocol, host_ip: String::new() }
}

fn volume(mut fields: Fields<'_>) -> VolumeMount {
    let host_path = fields.text("name").unwrap_or_default();
    if !host_path.starts_with('/') {
        fields.fault(
            "name",
            "must be a path of the node here; a volume that we make needs a size, which a spec under managed_volumes can say",
        );
    }
    let container_path = fields.text("mountPath").unwrap_or_default();
    let read_only = fields.flag("readOnly");
    fields.finish();
    VolumeMount { host_path, container_path, read_only }
}

fn resources(fields: &mut Fields<'_>) -> Option<ResourceRequirements> {
    let mut asked = fields.object("resources")?;
    let mut wanted = ResourceRequirements::default();
    if let Some(value) = asked.take("cpu") {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match sizes::cpu(&text) {
            Ok(millicores) => wanted.cpu_millicores = millicores,
            Err(why) => asked.fault("cpu", why),
        }
    }
    wanted.memory_mb = asked.number("memoryMb").unwrap_or_default();
    // Disk is counted in GiB; what is begun is reserved whole.
    wanted.disk_gb = asked.number("diskMb").map_or(0, |mib| mib.saturating_add(1023) / 1024);
    asked.finish();
    Some(wanted)
}
