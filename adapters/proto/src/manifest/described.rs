//! A workload as `get -o yaml` shows it, applied again: its spec counts, its state does not.

use crate::control::v1::ApplyWorkloadRequest;
use persys_model::fault::Faults;
use serde_json::{Map, Value};

use super::shape::{fault, whole};

/// Stands where `get` does not show a value.
const MASK: &str = "***";

/// The request behind a described workload.
pub(super) fn request(object: &Map<String, Value>) -> Result<ApplyWorkloadRequest, Faults> {
    let mut kept = Map::new();
    let text = |key: &str| object.get("workload").and_then(|workload| workload.get(key)).cloned();
    kept.extend(text("workload_id").map(|id| ("workload_id".to_owned(), id)));
    kept.extend(text("desired_state").map(|state| ("desired_state".to_owned(), state)));
    if let Some(spec) = object.get("spec") {
        if let Some(path) = masked("spec", spec) {
            let why =
                "is hidden here and would be lost; take it from `persys get ID --secrets -o yaml`";
            return Err(fault(&path, why));
        }
        kept.insert("spec".to_owned(), spec.clone());
    }
    whole(&kept)
}

/// The path of the first value that is not shown.
fn masked(path: &str, value: &Value) -> Option<String> {
    match value {
        Value::String(text) if text == MASK => Some(path.to_owned()),
        Value::Object(object) => {
            object.iter().find_map(|(key, inner)| masked(&format!("{path}.{key}"), inner))
        }
        Value::Array(all) => {
            all.iter().enumerate().find_map(|(at, inner)| masked(&format!("{path}[{at}]"), inner))
        }
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => None,
    }
}
