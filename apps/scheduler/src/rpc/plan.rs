//! What a wish would do, for a plan: what changes, what restarts, where it goes, what data is touched.

use std::collections::BTreeMap;

use persys_cluster::world::{Action, WorkloadView};
use persys_model::id::NodeId;
use persys_model::phase::Phase;
use persys_model::spec::volume::ManagedVolume;
use persys_model::spec::{Kind, Spec};
use persys_model::volume::VolumeKey;
use persys_proto::compute::v1 as api;

use super::history::differences;

/// Adds to an answer what would change, restart and become of data. `spec` is the new content.
pub(super) fn tell(
    answer: &mut api::CheckResponse,
    view: Option<&WorkloadView<'_>>,
    (action, node): (Action, Option<&NodeId>),
    spec: Option<&Spec>,
) {
    let before = view.map(|view| &*view.workload.spec);
    if let (Some(before), Some(after), Action::Update) = (before, spec, action) {
        answer.changes = differences(before, after, false);
    }
    answer.revision_number = match (view, action) {
        (None, _) => 1,
        (Some(view), Action::Update) => view.workload.history.number().saturating_add(1),
        (Some(view), _) => view.workload.history.number(),
    };
    if let Some(view) = view {
        answer.restart = restart(view, action, node, spec);
    }
    answer.data = data(before, spec, action);
}

/// What stops or restarts, in a sentence; empty where nothing does.
fn restart(
    view: &WorkloadView<'_>,
    action: Action,
    node: Option<&NodeId>,
    spec: Option<&Spec>,
) -> String {
    let runs = match view.assignment.phase {
        Phase::Starting
        | Phase::Running
        | Phase::Paused
        | Phase::Unresponsive
        | Phase::Restarting => true,
        Phase::Pending
        | Phase::Stopping
        | Phase::Stopped
        | Phase::Completed
        | Phase::Backoff
        | Phase::Failed
        | Phase::Deleting => false,
    };
    if !runs {
        return String::new();
    }
    let here = view.assignment.place.as_ref().map(|place| &place.node);
    let kind = spec.map_or(&view.workload.spec.kind, |spec| &spec.kind);
    match (action, here, node) {
        (Action::Create | Action::Start | Action::Nothing, ..) => String::new(),
        (Action::Stop, ..) => "it is stopped".to_owned(),
        (Action::Delete, ..) => "it is stopped and removed".to_owned(),
        (Action::Update, Some(_), None) => {
            "nothing yet: the present revision goes on until there is room for the new one"
                .to_owned()
        }
        (Action::Update, Some(here), Some(there)) if here != there => {
            format!("it moves from {here} to {there}: it is removed there and started here")
        }
        (Action::Update, ..) => match kind {
            Kind::Container(_) => {
                "its container is stopped and made anew, once the new image is there".to_owned()
            }
            Kind::Compose(_) => {
                "services whose definition changes are made anew; the others run on".to_owned()
            }
            Kind::Vm(_) => {
                "the machine is stopped and started with its new definition; its disks stay"
                    .to_owned()
            }
        },
    }
}

/// What becomes of data, a sentence each.
fn data(before: Option<&Spec>, after: Option<&Spec>, action: Action) -> Vec<String> {
    let volumes = |spec: Option<&Spec>| -> BTreeMap<VolumeKey, ManagedVolume> {
        let named = spec.map(|spec| spec.managed_volumes().to_vec()).unwrap_or_default();
        named.into_iter().map(|one| (VolumeKey::of(&one), one)).collect()
    };
    let old = volumes(before);
    match action {
        Action::Nothing | Action::Start | Action::Stop => Vec::new(),
        Action::Delete => old
            .iter()
            .map(|(key, one)| {
                let fate = if one.retain { "is kept" } else { "is deleted with it" };
                format!("volume {key} {fate}")
            })
            .collect(),
        Action::Create | Action::Update => {
            let new = volumes(after.or(before));
            let added = new.iter().filter(|(key, _)| !old.contains_key(key));
            let gone = old.keys().filter(|key| !new.contains_key(key));
            let kept = old.keys().filter(|key| new.contains_key(key));
            added
                .map(|(key, one)| format!("volume {key} is attached ({} GiB)", one.size_gib))
                .chain(kept.map(|key| format!("volume {key} stays as it is")))
                .chain(gone.map(|key| format!("volume {key} is no longer used, and is kept")))
                .collect()
        }
    }
}
