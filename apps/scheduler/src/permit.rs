//! Whether somebody may touch a workload: judged by the namespace of what is stored, never by what
//! a request says of it.
//!
//! Changes are judged inside the driver, right before they are made, so that nothing comes in
//! between. Somebody who may not even look is told that there is nothing.

use std::sync::Arc;

use persys_access::{Caller, Who};
use persys_cluster::effects::{RefusalCode, Reply};
use persys_cluster::input::Ask;
use persys_cluster::world::World;
use persys_model::id::{NamespaceName, WorkloadId};
use persys_model::spec::{ADOPT_ON_KEY, Spec};
use tonic::Status;

use crate::author;
use crate::handle::Handle;

/// Why `caller` may not have what they ask for, if so. What is not about a workload was judged with
/// its method.
pub(crate) fn refusal(world: &World, caller: &Caller, ask: &Ask) -> Option<Reply> {
    if caller.may_everywhere(Who::Operators) {
        return None;
    }
    if let Ask::Planned(_, ask) = ask {
        return refusal(world, caller, ask);
    }
    let (id, wanted) = if let Ask::Apply { workload, spec, .. } = ask {
        (workload, spec.as_ref())
    } else if let Ask::Rollback(asked) = ask {
        (&asked.workload, Some(&asked.spec))
    } else if let Ask::Delete(workload)
    | Ask::DeleteWithVolumes(workload)
    | Ask::Retry(workload)
    | Ask::Restart(workload)
    | Ask::Resume(workload) = ask
    {
        (workload, None)
    } else {
        return None;
    };
    if wanted.is_some_and(|spec| spec.adopt_on().is_some()) {
        let why = format!(
            "taking over work of an earlier installation ({ADOPT_ON_KEY}) is for {} of the whole cluster",
            Who::Operators.rule()
        );
        return Some(Reply::Refused { code: RefusalCode::Forbidden, why: Arc::from(why) });
    }
    let stored = world.workload(id).map(|view| view.workload.spec.namespace());
    let (code, why) = match (stored, wanted) {
        (Some(namespace), _) if caller.may_in(Who::Operators, &namespace) => return None,
        (Some(namespace), _) if caller.may_in(Who::Viewers, &namespace) => {
            (RefusalCode::Forbidden, not_in(&namespace))
        }
        // A name is all that is told of what is elsewhere.
        (Some(_), Some(_)) => (RefusalCode::Conflict, format!("the name {id} is taken")),
        (None, Some(spec)) => {
            let namespace = spec.namespace();
            if caller.may_in(Who::Operators, &namespace) {
                return None;
            }
            (RefusalCode::Forbidden, not_in(&namespace))
        }
        (Some(_) | None, None) => (RefusalCode::NotFound, format!("there is no workload {id}")),
    };
    Some(Reply::Refused { code, why: Arc::from(why) })
}

fn not_in(namespace: &NamespaceName) -> String {
    format!("changes in the namespace {namespace} are for {}", Who::Operators.rule())
}

/// What whoever asks may look at.
#[derive(Debug, Clone)]
pub(crate) struct Sight(Arc<Caller>);

impl Sight {
    /// Of the request under way.
    pub(crate) fn current() -> Self {
        Self(author::current().caller)
    }

    /// Whether that is everything.
    pub(crate) fn is_full(&self) -> bool {
        self.0.may_everywhere(Who::Viewers)
    }

    /// Whether a workload is among it.
    pub(crate) fn sees(&self, spec: &Spec) -> bool {
        self.is_full() || self.0.may_in(Who::Viewers, &spec.namespace())
    }

    /// Whether the workload of that name is among it; what is not there is seen by those who see
    /// everything.
    pub(crate) fn sees_id(&self, world: &World, id: &WorkloadId) -> bool {
        self.is_full() || world.workload(id).is_some_and(|view| self.sees(&view.workload.spec))
    }
}

/// Lets through who may do to a workload what `who` may.
pub(crate) async fn workload(handle: &Handle, id: &WorkloadId, who: Who) -> Result<(), Status> {
    let caller = author::current().caller;
    if caller.may_everywhere(who) {
        return Ok(());
    }
    let wanted = id.clone();
    let found = handle
        .look(move |world| world.workload(&wanted).map(|view| view.workload.spec.namespace()))
        .await?;
    match found.value {
        Some(namespace) if caller.may_in(who, &namespace) => Ok(()),
        Some(namespace) if caller.may_in(Who::Viewers, &namespace) => {
            let rule = who.rule();
            Err(Status::permission_denied(format!(
                "this is for {rule}, and {id} is in {namespace}"
            )))
        }
        Some(_) | None => Err(Status::not_found(format!("there is no workload {id}"))),
    }
}
