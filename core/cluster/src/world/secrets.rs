//! Workloads that failed for want of a secret are tried again when it is set.

use std::sync::Arc;

use persys_model::assignment::ReasonCode;
use persys_model::id::{NamespaceName, SecretName};
use persys_model::phase::Phase;

use super::World;
use super::slots::WorkloadIndex;

impl World {
    /// A secret has a value: whoever uses it and failed begins anew. What runs is left alone, and
    /// gets the value when it is next started.
    pub(super) fn secret_was_set(&mut self, namespace: &NamespaceName, secret: &SecretName) {
        let failed: Vec<WorkloadIndex> = self
            .workload_by_id
            .values()
            .copied()
            .filter(|at| {
                let Some(slot) = self.workloads.get(at.0) else { return false };
                slot.workload.desired.is_up()
                    && matches!(slot.assignment.phase, Phase::Failed | Phase::Backoff)
                    && slot.workload.spec.secrets.iter().any(|one| one.secret == *secret)
                    && slot.workload.spec.namespace() == *namespace
            })
            .collect();
        for at in failed {
            self.try_again(at);
        }
    }

    /// Begins a fresh budget of attempts for what failed.
    pub(super) fn try_again(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        // Trying again is a new version of the wish, not of the spec.
        let workload = Arc::make_mut(&mut slot.workload);
        workload.generation = workload.generation.next();
        let placed = slot.assignment.place.is_some();
        self.touch_intent(at);
        self.forget_failures(at);
        self.forget_failed_update(at);
        if !placed {
            self.set_phase(at, Phase::Pending, ReasonCode::RetryRequested, "", None);
        }
        self.settle(at);
    }
}
