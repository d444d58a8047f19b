//! Workloads of an earlier installation, read from its etcd and planned as requests of ours.
//!
//! ```text
//!   /workloads-spec/<id> or /workloads/<id>   the spec
//!   /workloads-status/<id>, /assignments/<id> the node that runs it
//!   /attachments/<node>/<id>/..., /volumes    managed volumes it uses
//! ```
//!
//! Nothing is guessed: what cannot be said in a spec of ours is named, and such a workload is not
//! imported. The records themselves are only read.

mod spec;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use persys_model::id::{NodeId, WorkloadId};
use persys_proto::control::v1::ApplyWorkloadRequest;
use persys_proto::convert::draft;
use persys_store::Pairs;
use serde_json::Value;

/// One workload of the earlier installation.
#[derive(Debug, PartialEq)]
pub(crate) struct Planned {
    pub(crate) id: String,
    /// container, compose, vm; empty if that is not known.
    pub(crate) kind: String,
    /// The node that runs it, if it was assigned.
    pub(crate) node: Option<String>,
    /// The request that imports it; none if `faults` says why not.
    pub(crate) request: Option<ApplyWorkloadRequest>,
    /// Reasons not to import it.
    pub(crate) faults: Vec<String>,
    /// What the operator must know: fields that are not carried over, and what to do.
    pub(crate) notes: Vec<String>,
}

/// What the etcd of an earlier installation holds.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub(crate) workloads: Vec<Planned>,
    /// Nodes that it knew.
    pub(crate) nodes: BTreeSet<String>,
    /// Keys of its folders that could not be read, with the reason.
    pub(crate) unreadable: Vec<(String, String)>,
}

/// Its records, by folder and the rest of the key.
#[derive(Default)]
struct Records {
    specs: BTreeMap<String, Value>,
    legacy: BTreeMap<String, Value>,
    statuses: BTreeMap<String, Value>,
    assignments: BTreeMap<String, Value>,
    /// Managed volumes by workload.
    volumes: BTreeMap<String, BTreeSet<String>>,
}

/// Plans the import of everything in `pairs`, which are keys below the root of the earlier system.
pub(crate) fn plan(pairs: &Pairs) -> Plan {
    let mut plan = Plan::default();
    let mut records = Records::default();
    for (key, bytes) in pairs {
        let Some((folder, rest)) = key.trim_start_matches('/').split_once('/') else { continue };
        let wanted = [
            "nodes",
            "workloads-spec",
            "workloads-status",
            "workloads",
            "assignments",
            "volumes",
            "attachments",
        ];
        // `/nodes/<id>/status` is a plain word, and says what the node says.
        if !wanted.contains(&folder) || (folder == "nodes" && rest.contains('/')) {
            continue;
        }
        let value = match serde_json::from_slice::<Value>(bytes) {
            Ok(value @ Value::Object(_)) => value,
            Ok(_) => {
                plan.unreadable.push((key.clone(), "is no JSON object".to_owned()));
                continue;
            }
            Err(_) => {
                plan.unreadable.push((key.clone(), "is not JSON".to_owned()));
                continue;
            }
        };
        // A record of this system has a version.
        if value.get("v").is_none() {
            take(&mut plan, &mut records, (folder, rest), value);
        }
    }
    let ids: BTreeSet<_> = records.specs.keys().chain(records.legacy.keys()).cloned().collect();
    plan.workloads = ids.iter().map(|id| planned(id, &records)).collect();
    plan
}

fn take(plan: &mut Plan, records: &mut Records, (folder, rest): (&str, &str), value: Value) {
    match folder {
        "nodes" => {
            plan.nodes.insert(rest.to_owned());
        }
        "workloads-spec" => {
            records.specs.insert(rest.to_owned(), value);
        }
        "workloads-status" => {
            records.statuses.insert(rest.to_owned(), value);
        }
        "workloads" => {
            records.legacy.insert(rest.to_owned(), value);
        }
        "assignments" => {
            records.assignments.insert(rest.to_owned(), value);
        }
        "volumes" => {
            let users = value.get("workloadRefs").and_then(Value::as_array);
            for workload in users.into_iter().flatten() {
                if let Some(workload) = workload.as_str() {
                    let volumes = records.volumes.entry(workload.to_owned()).or_default();
                    volumes.insert(rest.to_owned());
                }
            }
        }
        _ => {
            let workload = text(&value, "workloadId");
            let volume = text(&value, "volumeId");
            if let (Some(workload), Some(volume)) = (workload, volume) {
                records.volumes.entry(workload.to_owned()).or_default().insert(volume.to_owned());
            }
        }
    }
}

fn planned(id: &str, records: &Records) -> Planned {
    let legacy = records.legacy.get(id);
    let Some(value) = records.specs.get(id).or(legacy) else {
        return Planned {
            id: id.to_owned(),
            kind: String::new(),
            node: None,
            request: None,
            faults: Vec::new(),
            notes: Vec::new(),
        };
    };
    let status = records.statuses.get(id).or(legacy);
    let node = records
        .assignments
        .get(id)
        .and_then(|assignment| text(assignment, "nodeId"))
        .or_else(|| status.and_then(|status| text(status, "assignedNode")))
        .or_else(|| status.and_then(|status| text(status, "nodeId")))
        .map(ToOwned::to_owned);
    let mut found = spec::convert(id, value, node.as_deref());
    if let Err(why) = WorkloadId::new(id) {
        found.faults.push(format!("its id {why}"));
    }
    if let Some(Err(why)) = node.as_deref().map(NodeId::new) {
        found.faults.push(format!("the id of its node {why}"));
    }
    if node.is_none() {
        found.notes.push("no node runs it: it starts wherever it fits".to_owned());
    }
    if let Some(volumes) = records.volumes.get(id) {
        let names: Vec<_> = volumes.iter().map(String::as_str).collect();
        found.faults.push(format!(
            "it uses the managed volume {}, whose data is under the storage root of the earlier agent: \
             make a volume here, copy the data, and apply a spec that names it",
            names.join(", ")
        ));
    }
    let mut planned = Planned {
        id: id.to_owned(),
        kind: found.kind,
        node,
        request: None,
        faults: found.faults,
        notes: found.notes,
    };
    if planned.faults.is_empty() {
        match draft::apply(found.request.clone()) {
            Ok(_) => planned.request = Some(found.request),
            Err(faults) => {
                let listed = faults.listed();
                let faults =
                    listed.iter().map(|fault| format!("{}: {}", fault.path, fault.problem));
                planned.faults.extend(faults);
            }
        }
    }
    planned
}

/// A text that is there and not empty.
fn text<'v>(value: &'v Value, field: &str) -> Option<&'v str> {
    value.get(field).and_then(Value::as_str).filter(|text| !text.is_empty())
}
