//! From draft to spec: every fault named, with its path.
//!
//! The rule of this module: each field of a draft either shows in the spec or is refused by name.
//! Nothing is accepted and dropped, nothing is guessed, and no input makes it panic. All faults of
//! a draft are found in one pass, so that a user mends a file once.

mod at;
mod cloud_init;
mod compose;
mod container;
mod decode;
mod disk;
mod git;
mod health;
mod image;
pub mod limits;
mod network;
mod placement;
mod resources;
mod secrets;
#[cfg(test)]
mod tests;
pub(crate) mod text;
mod vm;
mod volume;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use self::at::At;
use super::canonical::content_revision;
use super::draft::{ApplyDraft, Draft, Texts, VolumeDraft};
use super::volume::ManagedVolume;
use super::{Kind, Spec, WorkloadType};
use crate::fault::Faults;
use crate::id::{NamespaceName, NodeId, RevisionId, WorkloadId};
use crate::resources::Compute;
use crate::workload::Desired;

pub use compose::{Wanted, wanted};

/// A request to change a workload, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedApply {
    /// Whose.
    pub workload: WorkloadId,
    /// What should become of it.
    pub desired: Desired,
    /// The client's name for this version, or that of the content. `None` only where neither a
    /// name nor a spec came.
    pub revision: Option<RevisionId>,
    /// What to run; `None` where only the desired state changes.
    pub spec: Option<Spec>,
}

/// The spec a draft means, or everything that is wrong with it.
pub fn check(draft: &Draft) -> Result<Spec, Faults> {
    let faults = RefCell::new(Faults::none());
    let spec = spec(&At::root(&faults, "spec"), draft);
    conclude(spec, faults)
}

/// The change a request means, or everything that is wrong with it.
pub fn check_apply(draft: &ApplyDraft) -> Result<CheckedApply, Faults> {
    let faults = RefCell::new(Faults::none());
    let apply = apply(&faults, draft);
    conclude(apply, faults)
}

/// Everything that is wrong with a request as far as it shows before a file is fetched from a
/// repository: what clients can know.
pub fn check_unfetched(draft: &ApplyDraft) -> Result<(), Faults> {
    let mut draft = draft.clone();
    if let Some(spec) = &mut draft.spec
        && wanted(spec).is_some()
        && let Some(compose) = &mut spec.compose
    {
        compose.fetched = Some(compose::stand_in(&compose.git_path));
    }
    check_apply(&draft).map(|_| ())
}

/// A volume without a workload as a request means it, or everything that is wrong with it. Nothing
/// said about its policy means that its data is kept: a volume made by itself is to last.
pub fn check_volume(draft: &VolumeDraft) -> Result<ManagedVolume, Faults> {
    let faults = RefCell::new(Faults::none());
    let mut draft = draft.clone();
    if draft.retain_policy.is_empty() {
        "Retain".clone_into(&mut draft.retain_policy);
    }
    let checked = volume::alone(&At::root(&faults, "disk"), &draft);
    conclude(checked, faults)
}

fn conclude<T>(checked: Option<T>, faults: RefCell<Faults>) -> Result<T, Faults> {
    let mut faults = faults.into_inner();
    match checked {
        Some(checked) if faults.is_empty() => Ok(checked),
        Some(_) => Err(faults),
        None => {
            debug_assert!(!faults.is_empty(), "refused without a fault");
            if faults.is_empty() {
                faults.push("spec", "was refused for a reason that was not recorded");
            }
            Err(faults)
        }
    }
}

/// Existing clients leave it empty when they mean "run". Any other word is refused: to start what
/// somebody misspelt a stop for would be worse than to say so.
const DESIRED: &[(&str, Desired)] = &[
    ("", Desired::Running),
    ("Running", Desired::Running),
    ("Stopped", Desired::Stopped),
    ("stop", Desired::Stopped),
    ("Deleted", Desired::Deleted),
    ("delete", Desired::Deleted),
];

fn apply(faults: &RefCell<Faults>, draft: &ApplyDraft) -> Option<CheckedApply> {
    let workload = match WorkloadId::new(&draft.workload_id) {
        Ok(id) => Some(id),
        Err(error) => At::root(faults, "workload_id").refuse(error.to_string()),
    };
    let revision = match draft.revision_id.as_str() {
        "" => Some(None),
        text => match RevisionId::new(text) {
            Ok(revision) => Some(Some(revision)),
            Err(error) => At::root(faults, "revision_id").refuse(error.to_string()),
        },
    };
    let desired = text::word(&At::root(faults, "desired_state"), &draft.desired_state, DESIRED);
    let spec = match &draft.spec {
        None => Some(None),
        Some(draft) => spec(&At::root(faults, "spec"), draft).map(Some),
    };
    let spec = spec?;
    let revision = revision?.or_else(|| spec.as_ref().map(content_revision));
    Some(CheckedApply { workload: workload?, desired: desired?, revision, spec })
}

fn spec(at: &At<'_>, draft: &Draft) -> Option<Spec> {
    let kind = kind(at, draft);
    let resources = at.field("resources");
    let asked = resources::asked(&resources, &draft.resources);
    let words = at.field("metadata");
    if let Some(name) = draft.metadata.get(super::NAMESPACE_KEY)
        && let Err(error) = NamespaceName::new(name)
    {
        words.key(super::NAMESPACE_KEY).fault(error.to_string());
    }
    if let Some(node) = draft.metadata.get(super::ADOPT_ON_KEY)
        && let Err(error) = NodeId::new(node)
    {
        words.key(super::ADOPT_ON_KEY).fault(error.to_string());
    }
    let metadata = metadata(&words, &draft.metadata);
    let placement = placement::placement(&at.field("placement"), &draft.placement);
    let stop_grace = match draft.stop_grace.as_str() {
        "" => Some(None),
        text => grace(&at.field("stop_grace"), text).map(Some),
    };
    let (mut kind, services) = kind?;
    let resources = resources::reserved(&resources, asked?, &mut kind, services);
    let secrets = secrets::secrets(&at.field("secrets"), &draft.secrets, &kind);
    let health = health::health(&at.field("health"), &draft.health, &kind);
    let (resources, placement) = (resources?, placement?);
    let (metadata, secrets, stop_grace_ms) = (metadata?, secrets?, stop_grace?);
    Some(Spec { kind, resources, placement, metadata, secrets, stop_grace_ms, health: health? })
}

/// The time a copy has to end by itself, as Compose writes it: `90s`, `1m30s`. Docker counts whole
/// seconds, so nothing finer can be kept.
fn grace(at: &At<'_>, text: &str) -> Option<u64> {
    let shown = text::shown(text);
    let Some(ms) = persys_compose::duration_ms(text) else {
        return at.refuse(format!("\"{shown}\" is not a time such as 30s or 1m30s, at most a day"));
    };
    if ms % 1000 != 0 {
        return at.refuse(format!("\"{shown}\" is not a whole number of seconds"));
    }
    Some(ms)
}

const TYPES: &[(&str, Option<WorkloadType>)] = &[
    ("", None),
    ("container", Some(WorkloadType::Container)),
    ("compose", Some(WorkloadType::Compose)),
    ("vm", Some(WorkloadType::Vm)),
];

/// The one body there is, and what the services of a stack ask for together. All bodies that are
/// there are checked, so that no fault waits for the next try.
fn kind(at: &At<'_>, draft: &Draft) -> Option<(Kind, Compute)> {
    let said = text::word(&at.field("type"), &draft.workload_type, TYPES);
    let bodies = [
        draft.container.as_ref().map(|body| {
            let kind = container::container(&at.field("container"), body).map(Kind::Container);
            (WorkloadType::Container, kind.map(|kind| (kind, Compute::ZERO)))
        }),
        draft.compose.as_ref().map(|body| {
            let stack = compose::compose(&at.field("compose"), body);
            (WorkloadType::Compose, stack.map(|(body, need)| (Kind::Compose(body), need)))
        }),
        draft.vm.as_ref().map(|body| {
            let kind = vm::vm(&at.field("vm"), body).map(Kind::Vm);
            (WorkloadType::Vm, kind.map(|kind| (kind, Compute::ZERO)))
        }),
    ];
    let mut bodies = bodies.into_iter().flatten();
    let Some((given, kind)) = bodies.next() else {
        return at.refuse("has no body: give one of container, compose, vm");
    };
    if bodies.next().is_some() {
        at.fault("has more than one body: give one of container, compose, vm");
    }
    if let Some(said) = said?
        && said != given
    {
        at.field("type").fault(format!("says {}, but {} is given", said.word(), given.word()));
    }
    kind
}

/// The key under which persysctl packs a whole VM spec of the agent package. Whoever speaks to the
/// client unpacks it into the draft; one that is still here would be dropped unread.
const PACKED_VM: &str = "persys.vm_spec_b64";

fn metadata(at: &At<'_>, texts: &Texts) -> Option<BTreeMap<Arc<str>, Arc<str>>> {
    text::labels(at, texts, |key| {
        (key == PACKED_VM).then_some("holds a packed VM spec that could not be unpacked")
    })
}
