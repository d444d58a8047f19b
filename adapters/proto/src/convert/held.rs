//! What an agent holds and what it has removed, both ways.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_model::fault::Faults;
use persys_model::id::RevisionId;
use persys_model::inventory::{Held, Inventory, Tombstone};
use persys_model::spec::WorkloadType;
use persys_model::store_mark::StoreMark;
use persys_model::time::WallMillis;
use persys_model::token::Epoch;
use persys_model::volume::order_id;

use super::at::At;
use super::leaf::{ITEMS, list, name, token, word};
use super::{classic, report, spec, time};
use crate::agent::v1 as agent;
use crate::control::v1 as wire;

/// One entry of the ledger on the wire.
#[must_use]
pub fn to_wire(held: &Held) -> wire::InventoryItem {
    wire::InventoryItem {
        workload_id: held.report.workload.to_string(),
        epoch: held.report.epoch.0,
        revision_id: held.revision.to_string(),
        desired_state: desired_word(held.run).to_owned(),
        spec: held.spec.as_deref().map(spec::to_wire),
        report: Some(report::to_wire(&held.report)),
        paused: held.pause,
    }
}

/// A removal on the wire.
#[must_use]
pub fn tombstone_to_wire(tombstone: &Tombstone) -> wire::Tombstone {
    wire::Tombstone {
        workload_id: tombstone.workload.to_string(),
        epoch: tombstone.epoch.0,
        purged: tombstone.purged,
    }
}

/// A mark of the store on the wire; empty for none.
#[must_use]
pub(super) fn mark_to_wire(mark: Option<&StoreMark>) -> Vec<u8> {
    mark.map(|mark| mark.as_bytes().to_vec()).unwrap_or_default()
}

/// The word for what an agent is to do with a workload it has.
pub(super) fn desired_word(run: bool) -> &'static str {
    if run { "Running" } else { "Stopped" }
}

pub(super) const DESIRED: &[(&str, bool)] = &[("Running", true), ("Stopped", false)];

/// An inventory, whole. A spec that is not accepted any more is left out and noted in `odd`.
pub(super) fn inventory(
    at: &At<'_>,
    odd: &RefCell<Faults>,
    items: (&'static str, Vec<wire::InventoryItem>),
    tombstones: (&'static str, Vec<wire::Tombstone>),
    mark: &[u8],
) -> Option<Inventory> {
    let here = at.field(items.0);
    let held = list(&here, items.1, ITEMS, |at, item| read(at, odd, item));
    let tombstones =
        list(&at.field(tombstones.0), tombstones.1, ITEMS, |at, one| tombstone(at, &one));
    let held = held?;
    let mut seen = BTreeSet::new();
    for (nth, one) in held.iter().enumerate() {
        if !seen.insert(&one.report.workload) {
            here.index(nth).field("workload_id").fault("is held twice");
        }
    }
    // A mark of an unknown format proves nothing to this release.
    Some(Inventory { held, tombstones: tombstones?, mark: StoreMark::from_bytes(mark) })
}

fn read(at: &At<'_>, odd: &RefCell<Faults>, item: wire::InventoryItem) -> Option<Held> {
    let workload = name(&at.field("workload_id"), &item.workload_id, order_id);
    let revision = name(&at.field("revision_id"), &item.revision_id, RevisionId::new);
    let run = word(&at.field("desired_state"), &item.desired_state, DESIRED);
    let said = at.field("report");
    let report = match item.report {
        Some(report) => report::read(&said, &report),
        None => said.refuse("is missing"),
    };
    let spec = item.spec.and_then(|one| spec::read(&at.noting_in(odd), one)).map(Arc::new);
    let (workload, report) = (workload?, report?);
    if report.workload != workload {
        return said.field("workload_id").refuse("is another workload");
    }
    if report.epoch.0 != item.epoch {
        return said.field("epoch").refuse("is another decision");
    }
    let run = run?;
    Some(Held { report, revision: revision?, run, pause: run && item.paused, spec })
}

/// One removal.
pub(super) fn tombstone(at: &At<'_>, tombstone: &wire::Tombstone) -> Option<Tombstone> {
    let workload = name(&at.field("workload_id"), &tombstone.workload_id, order_id);
    let epoch = token(&at.field("epoch"), tombstone.epoch, Epoch);
    Some(Tombstone { workload: workload?, epoch: epoch?, purged: tombstone.purged })
}

/// What an agent answers when somebody asks for one workload, or for all.
#[must_use]
pub fn to_status(held: &Held, created: WallMillis, updated: WallMillis) -> agent::WorkloadStatus {
    let status = report::to_status(&held.report, updated);
    let mut metadata = BTreeMap::new();
    if let Some(reason) = status.reason {
        metadata.insert("failure_reason".to_owned(), reason.code);
        metadata.insert("failure_message".to_owned(), reason.message);
        metadata.insert("retryable".to_owned(), reason.retryable.to_string());
    }
    let kind = held.spec.as_ref().map(|spec| spec.workload_type());
    let desired =
        if held.run { agent::DesiredState::Running } else { agent::DesiredState::Stopped };
    agent::WorkloadStatus {
        id: held.report.workload.to_string(),
        r#type: kind_number(kind),
        revision_id: held.revision.to_string(),
        desired_state: desired.into(),
        actual_state: report::actual_state(&held.report.state).into(),
        message: status.message,
        created_at: time::unix_seconds(created),
        updated_at: time::unix_seconds(updated),
        metadata,
        usage: None,
        epoch: held.report.epoch.0,
        restarts: held.report.restarts,
    }
}

fn kind_number(kind: Option<WorkloadType>) -> i32 {
    kind.map_or(agent::WorkloadType::Unspecified, classic::workload_type).into()
}
