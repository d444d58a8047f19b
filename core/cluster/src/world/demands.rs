//! A workload as placement looks at it.

use std::borrow::Cow;
use std::sync::Arc;

use persys_model::id::DriverName;
use persys_model::labels::{Constraint, Rule};
use persys_model::spec::{Class, HostPort, Spec};
use persys_model::workload::Desired;

use super::open::{FENCE_LABEL, PAUSE_LABEL};
use crate::contract::capability;
use crate::placement::{NodeIndex, Request};

/// Constraints of a workload on its node: those its user gave, a working fence if it must never run
/// twice, an agent that can pause if it is to be paused, and one that can carry out all of its spec.
pub(super) fn demands(spec: &Spec, desired: Desired) -> Cow<'_, [Constraint]> {
    let said = &spec.placement.constraints;
    let fence = (spec.placement.class == Class::Exclusive).then_some(FENCE_LABEL);
    let pause = (desired == Desired::Paused).then_some(PAUSE_LABEL);
    let mut needs = capability::demanded(spec);
    for key in [fence, pause].into_iter().flatten() {
        needs.push(Constraint { key: Arc::from(key), rule: Rule::Exists });
    }
    if needs.is_empty() {
        return Cow::Borrowed(said);
    }
    Cow::Owned(said.iter().cloned().chain(needs).collect())
}

/// A spec as placement looks at it.
pub(super) fn request<'a>(
    spec: &'a Spec,
    demands: &'a [Constraint],
    ports: &'a [HostPort],
    drivers: &'a [DriverName],
    avoid: &'a [NodeIndex],
) -> Request<'a> {
    Request {
        compute: spec.resources.compute,
        disk: &spec.resources.disk,
        ports,
        constraints: demands,
        tolerations: &spec.placement.tolerations,
        workload_type: spec.workload_type(),
        drivers,
        strategy: spec.placement.strategy,
        avoid,
    }
}
