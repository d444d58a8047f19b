//! The body of a spec, in either of the shapes that clients use.
//!
//! The control shape is tried first. What does not fit it is tried as the agent's; if that does not
//! fit either, the faults of the shape that is nearer are told.

use crate::agent::v1 as agent;
use crate::control::v1::WorkloadSpec;
use crate::control::v1::workload_spec::Workload;
use crate::convert::{agent_draft, spec as convert};
use crate::json;
use persys_model::fault::Faults;
use persys_model::spec::check::check_apply;
use serde_json::Value;

/// A spec with this body alone.
pub(super) fn read(kind: &str, path: &str, value: &Value) -> Result<WorkloadSpec, Faults> {
    let control = match kind {
        "container" => {
            json::read("persys.control.v1.ContainerSpec", path, value).map(Workload::Container)
        }
        "compose" => {
            json::read("persys.control.v1.ComposeSpec", path, value).map(Workload::Compose)
        }
        _ => json::read("persys.control.v1.VMSpec", path, value).map(Workload::Vm),
    };
    let ours = match control {
        Ok(body) => {
            return Ok(WorkloadSpec { workload: Some(body), ..WorkloadSpec::default() });
        }
        Err(faults) => faults,
    };
    match from_agent(kind, path, value) {
        Ok(spec) => Ok(spec),
        Err(theirs) if theirs.count() < ours.count() => Err(theirs),
        Err(_) => Err(ours),
    }
}

/// The agent's shape, checked and written in the control shape.
fn from_agent(kind: &str, path: &str, value: &Value) -> Result<WorkloadSpec, Faults> {
    use agent::workload_spec::Spec;
    let name = |short: &str| format!("persys.agent.v1.{short}");
    let (body, number) = match kind {
        "container" => (
            Spec::Container(json::read(&name("ContainerSpec"), path, value)?),
            agent::WorkloadType::Container,
        ),
        "compose" => (
            Spec::Compose(json::read(&name("ComposeSpec"), path, value)?),
            agent::WorkloadType::Compose,
        ),
        _ => (Spec::Vm(json::read(&name("VMSpec"), path, value)?), agent::WorkloadType::Vm),
    };
    let draft = agent_draft::from_apply(agent::ApplyWorkloadRequest {
        // Only the spec is looked at; its name is checked with everything around it.
        id: "x".to_owned(),
        r#type: number.into(),
        spec: Some(agent::WorkloadSpec { spec: Some(body) }),
        ..Default::default()
    });
    let renamed = |faults: &Faults| {
        let mut renamed = Faults::none();
        for fault in faults.listed() {
            let inner = fault.path.strip_prefix(&format!("spec.{kind}"));
            let here = match inner {
                Some(inner) => format!("{path}{inner}").trim_start_matches('.').to_owned(),
                None => fault.path.clone(),
            };
            renamed.push(here, fault.problem.clone());
        }
        renamed
    };
    let checked = draft.and_then(|draft| check_apply(&draft)).map_err(|faults| renamed(&faults))?;
    Ok(checked.spec.map(|spec| convert::to_wire(&spec)).unwrap_or_default())
}
