//! Which shape a document has, and the request it means.

use crate::control::v1::workload_spec::Workload;
use crate::control::v1::{ApplyWorkloadRequest, ComposeSpec, WorkloadSpec};
use crate::json;
use persys_model::fault::Faults;
use serde_json::{Map, Value};

use super::{Beside, body, described, kind};

const APPLY: &str = "persys.control.v1.ApplyWorkloadRequest";
const SPEC: &str = "persys.control.v1.WorkloadSpec";
/// Other words for a workload's id.
const ID_WORDS: [&str; 4] = ["workload_id", "workloadId", "name", "id"];

/// The request, and the part of its paths that the document does not have.
pub(super) fn request(
    document: &Value,
    text: Option<&str>,
    beside: &Beside,
) -> Result<(ApplyWorkloadRequest, String), Faults> {
    let Value::Object(object) = document else {
        return Err(fault("", "is not an object of keys and values"));
    };
    let has = |key: &str| object.contains_key(key);
    let is_compose_file = |object: &Map<String, Value>| {
        let ours = [
            "apiVersion",
            "kind",
            "spec",
            "workload_id",
            "workloadId",
            "container",
            "compose",
            "vm",
        ];
        object.contains_key("services") && !ours.iter().any(|key| object.contains_key(*key))
    };
    let (mut request, prefix) = if has("apiVersion") || has("kind") {
        (kind::manifest(object)?, String::new())
    } else if has("spec") && object.get("workload").is_some_and(Value::is_object) {
        (described::request(object)?, String::new())
    } else if has("spec") || has("workload_id") || has("workloadId") {
        (whole(object)?, String::new())
    } else if ["container", "compose", "vm"].iter().any(|key| has(key)) {
        let spec = spec("", object)?;
        (ApplyWorkloadRequest { spec: Some(spec), ..Default::default() }, "spec".to_owned())
    } else if has("services") {
        (compose_file(object, text, beside)?, "spec.compose.inline_yaml".to_owned())
    } else {
        bare(object, beside)?
    };
    if !beside.env.is_empty() && !is_compose_file(object) {
        return Err(fault("--env", "is for a Compose file; write the variables in the spec"));
    }
    add_beside(&mut request, beside)?;
    Ok((request, prefix))
}

pub(super) fn fault(path: &str, problem: impl Into<String>) -> Faults {
    let mut faults = Faults::none();
    faults.push(path, problem);
    faults
}

/// Our own shape: a name and a spec.
pub(super) fn whole(object: &Map<String, Value>) -> Result<ApplyWorkloadRequest, Faults> {
    let mut rest = object.clone();
    let mut faults = Faults::none();
    let mut ids: Vec<(&str, String)> = Vec::new();
    for word in ID_WORDS {
        match rest.remove(word) {
            None | Some(Value::Null) => {}
            Some(Value::String(id)) => ids.push((word, id)),
            Some(_) => faults.push(word, "must be a text"),
        }
    }
    if let [(first, id), others @ ..] = ids.as_slice() {
        for (word, other) in others {
            if other != id {
                faults.push(*word, format!("says {other:?}, but {first} says {id:?}"));
            }
        }
    }
    let spec = match rest.remove("spec") {
        None | Some(Value::Null) => None,
        Some(Value::Object(object)) => match spec("spec", &object) {
            Ok(spec) => Some(spec),
            Err(found) => {
                adopt(&mut faults, &found);
                None
            }
        },
        Some(_) => {
            faults.push("spec", "must be an object");
            None
        }
    };
    match json::read::<ApplyWorkloadRequest>(APPLY, "", &Value::Object(rest)) {
        Ok(request) if faults.is_empty() => {
            let workload_id = ids.into_iter().next().map(|(_, id)| id).unwrap_or_default();
            Ok(ApplyWorkloadRequest { workload_id, spec, ..request })
        }
        Ok(_) => Err(faults),
        Err(found) => {
            adopt(&mut faults, &found);
            Err(faults)
        }
    }
}

pub(super) fn adopt(faults: &mut Faults, found: &Faults) {
    for fault in found.listed() {
        faults.push(fault.path.clone(), fault.problem.clone());
    }
}

/// A spec whose body may be in either shape.
fn spec(path: &str, object: &Map<String, Value>) -> Result<WorkloadSpec, Faults> {
    let mut rest = object.clone();
    let mut faults = Faults::none();
    let mut given = None;
    for key in ["container", "compose", "vm"] {
        let Some(value) = rest.remove(key).filter(|value| !value.is_null()) else { continue };
        let here = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        if given.is_some() {
            faults.push(here, "is a second body: give one of container, compose, vm");
            continue;
        }
        match body::read(key, &here, &value) {
            Ok(body) => given = Some(body),
            Err(found) => {
                adopt(&mut faults, &found);
                // So that a second body is seen.
                given = Some(WorkloadSpec::default());
            }
        }
    }
    match json::read::<WorkloadSpec>(SPEC, path, &Value::Object(rest)) {
        Ok(outer) if faults.is_empty() => {
            let inner = given.unwrap_or_default();
            Ok(WorkloadSpec {
                workload: inner.workload,
                resources: outer.resources.or(inner.resources),
                ..outer
            })
        }
        Ok(_) => Err(faults),
        Err(found) => {
            adopt(&mut faults, &found);
            Err(faults)
        }
    }
}

/// A Compose file as it is.
fn compose_file(
    object: &Map<String, Value>,
    text: Option<&str>,
    beside: &Beside,
) -> Result<ApplyWorkloadRequest, Faults> {
    let Some(text) = text else {
        return Err(fault("services", "is a Compose file; it must be alone in its file"));
    };
    let compose = ComposeSpec {
        source_type: "inline".to_owned(),
        inline_yaml: text.to_owned(),
        env: beside.env.clone().into_iter().collect(),
        ..ComposeSpec::default()
    };
    // As with the compose program: what is typed wins over the file.
    let name = object.get("name").and_then(Value::as_str);
    let name = beside.id.as_deref().or(name).unwrap_or_default();
    Ok(ApplyWorkloadRequest {
        workload_id: name.to_owned(),
        spec: Some(WorkloadSpec {
            r#type: "compose".to_owned(),
            workload: Some(Workload::Compose(compose)),
            ..WorkloadSpec::default()
        }),
        ..ApplyWorkloadRequest::default()
    })
}

/// The body of a container, stack or VM and nothing around it.
fn bare(
    object: &Map<String, Value>,
    beside: &Beside,
) -> Result<(ApplyWorkloadRequest, String), Faults> {
    let has = |keys: &[&str]| keys.iter().any(|key| object.contains_key(*key));
    let kind = match beside.kind.as_deref() {
        Some(kind @ ("container" | "compose" | "vm")) => kind,
        Some(other) => {
            let problem = format!("{other:?} is none of container, compose, vm");
            return Err(fault("--type", problem));
        }
        None if has(&["image"]) => "container",
        None if has(&["vcpus", "disks", "os_image", "osImage"]) => "vm",
        None if has(&["inline_yaml", "inlineYaml", "compose_yaml", "composeYaml", "git_repo"]) => {
            "compose"
        }
        None => {
            let keys: Vec<_> = object.keys().take(8).cloned().collect();
            let problem = format!(
                "is no shape that is known: it has {}; expected are a name and a spec, or say --type container|compose|vm",
                if keys.is_empty() {
                    "no keys".to_owned()
                } else {
                    format!("the keys {}", keys.join(", "))
                }
            );
            return Err(fault("", problem));
        }
    };
    let mut body = object.clone();
    let around = ["secrets", "health"].into_iter();
    let around = around.filter_map(|key| Some((key.to_owned(), body.remove(key)?))).collect();
    let WorkloadSpec { secrets, health, .. } = json::read(SPEC, "", &Value::Object(around))?;
    let inner = body::read(kind, "", &Value::Object(body))?;
    let spec = WorkloadSpec { r#type: kind.to_owned(), secrets, health, ..inner };
    let request = ApplyWorkloadRequest { spec: Some(spec), ..ApplyWorkloadRequest::default() };
    Ok((request, format!("spec.{kind}")))
}

/// What was said beside the file fills in what it leaves out; where both speak they must agree.
pub(super) fn add_beside(
    request: &mut ApplyWorkloadRequest,
    beside: &Beside,
) -> Result<(), Faults> {
    let mut faults = Faults::none();
    let mut fill = |option: &str, given: &Option<String>, said: &mut String| {
        let Some(given) = given else { return };
        if said.is_empty() {
            said.clone_from(given);
        } else if said != given {
            faults.push(option, format!("says {given:?}, but the file says {said:?}"));
        }
    };
    fill(beside.given.id(), &beside.id, &mut request.workload_id);
    fill("--revision", &beside.revision, &mut request.revision_id);
    fill("--desired-state", &beside.desired, &mut request.desired_state);
    if let Some(spec) = &mut request.spec {
        fill("--type", &beside.kind, &mut spec.r#type);
    }
    if request.workload_id.is_empty() {
        faults.push("name", beside.given.name_missing());
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}
