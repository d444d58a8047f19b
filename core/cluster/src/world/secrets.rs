//! New values of secrets: what failed for want of one is tried again, what asks for a signal gets one.
//!
//! ```text
//!   secret set ──► failed for want of it: tried again
//!              ├─► its spec names a signal, its agent can: a decision with the new value, same revision
//!              ├─► its spec names a signal, its agent cannot: to be restarted
//!              └─► otherwise: it keeps what it was started with
//! ```
//!
//! A place holds the digests of the values its node was given, so what is left to do is known after
//! every restart of a scheduler.

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_model::assignment::ReasonCode;
use persys_model::entry::{Entry, SecretEntry};
use persys_model::event::Happening;
use persys_model::id::{NamespaceName, NodeId, SecretName, WorkloadId};
use persys_model::phase::Phase;
use persys_model::secret::Signal;
use persys_model::spec::Spec;

use super::World;
use super::slots::{WorkloadIndex, WorkloadSlot};

/// The way in which a workload gets the new value of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewValue {
    /// It is signalled, by a decision of its own.
    Signal,
    /// Its spec names a signal, and the agent of its node cannot send one: it has to be restarted.
    Restart,
    /// It gets the value when it is next started.
    NextStart,
}

impl World {
    /// A secret has a value: whoever uses it and failed begins anew, and what asks for a signal gets the
    /// value at once. Anything else that runs gets it when it is next started.
    pub(super) fn secret_was_set(&mut self, secret: &SecretEntry, before: Option<&Entry>) {
        let users: Vec<_> = self.users_of_secret(&secret.namespace, &secret.name).collect();
        for at in &users {
            let Some(slot) = self.workloads.get(at.0) else { continue };
            let failed = matches!(slot.assignment.phase, Phase::Failed | Phase::Backoff);
            if slot.workload.desired.is_up() && failed {
                self.try_again(*at);
            }
        }
        let same = |before: &Entry| match before {
            Entry::Secret(before) => before.sealed.digest == secret.sealed.digest,
            Entry::Namespace(_)
            | Entry::Binding(_)
            | Entry::UserToken(_)
            | Entry::JoinToken(_)
            | Entry::Revocation(_) => false,
        };
        // It was sealed anew, or there is no value yet.
        if before.is_some_and(same) || !has_value(secret) {
            return;
        }
        for at in users {
            match self.new_value(at, &secret.name) {
                NewValue::Signal => self.mark_dirty(at),
                NewValue::Restart => self.tell_restart(at, &secret.name),
                NewValue::NextStart => {}
            }
        }
    }

    fn users_of_secret(
        &self,
        namespace: &NamespaceName,
        secret: &SecretName,
    ) -> impl Iterator<Item = WorkloadIndex> {
        self.workload_by_id.values().copied().filter(move |at| {
            self.workloads.get(at.0).is_some_and(|slot| {
                slot.workload.spec.secrets.iter().any(|one| one.secret == *secret)
                    && slot.workload.spec.namespace() == *namespace
            })
        })
    }

    /// Workloads that use a secret, with the way in which each gets a new value of it.
    #[must_use]
    pub fn secret_users(
        &self,
        namespace: &NamespaceName,
        secret: &SecretName,
    ) -> Vec<(WorkloadId, NewValue)> {
        let users = self.users_of_secret(namespace, secret);
        let user = |at: WorkloadIndex| {
            Some((self.workloads.get(at.0)?.workload.id.clone(), self.new_value(at, secret)))
        };
        users.filter_map(user).collect()
    }

    fn new_value(&self, at: WorkloadIndex, secret: &SecretName) -> NewValue {
        let running = || {
            let slot = self.workloads.get(at.0).filter(|slot| slot.workload.desired.is_up())?;
            let place = slot.assignment.place.as_ref()?;
            let told = slot.ordered(place).1.signals().contains_key(secret);
            told.then(|| self.can_signal(&place.node))
        };
        match running() {
            Some(true) => NewValue::Signal,
            Some(false) => NewValue::Restart,
            None => NewValue::NextStart,
        }
    }

    fn can_signal(&self, node: &NodeId) -> bool {
        let slot = self.node_at(node).and_then(|at| self.nodes.get(at.0));
        slot.is_some_and(|slot| slot.node.facts.signals)
    }

    /// Digests of the present values of secrets that a spec names a signal for. One that is not set, or
    /// was never read from Vault, has none.
    pub(super) fn values_of(&self, spec: &Spec) -> BTreeMap<SecretName, Arc<str>> {
        let signals = spec.signals();
        if signals.is_empty() {
            return BTreeMap::new();
        }
        let namespace = spec.namespace();
        let value = |name: &SecretName| {
            let secret = self.entries.secret(&namespace, name).filter(|one| has_value(one))?;
            Some((name.clone(), Arc::clone(&secret.sealed.digest)))
        };
        signals.into_keys().filter_map(value).collect()
    }

    /// Secrets with other values than its node was given, if its agent can signal what runs.
    pub(super) fn changed_secrets(&self, slot: &WorkloadSlot) -> BTreeMap<SecretName, Signal> {
        let Some(place) = &slot.assignment.place else { return BTreeMap::new() };
        if slot.workload.spec.secrets.is_empty() || !self.can_signal(&place.node) {
            return BTreeMap::new();
        }
        let spec = slot.ordered(place).1;
        let signals = spec.signals();
        let values = self.values_of(&spec).into_iter();
        let changed = values.filter(|(name, digest)| place.values.get(name) != Some(digest));
        changed
            .filter_map(|(name, _)| signals.get(&name).map(|signal| (name.clone(), *signal)))
            .collect()
    }

    /// A new decision for what runs, which brings its node the new values.
    pub(super) fn refresh(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let id = slot.workload.id.clone();
        let node = slot.assignment.place.as_ref().map(|place| place.node.clone());
        let changed = self.changed_secrets(slot);
        self.decide_anew_here(at);
        let Some(node) = node else { return };
        let told: Vec<_> =
            changed.iter().map(|(name, signal)| format!("{} for {name}", signal.word())).collect();
        let message = format!("its files get the new value, and it is sent {}", told.join(", "));
        self.happen(Happening::SecretChanged { id, node, message: message.into() });
    }

    fn tell_restart(&mut self, at: WorkloadIndex, secret: &SecretName) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let Some(place) = &slot.assignment.place else { return };
        let (id, node) = (slot.workload.id.clone(), place.node.clone());
        let message = format!(
            "it is restarted for the new value of {secret}: node {node} runs an agent that cannot signal"
        );
        self.happen(Happening::SecretChanged { id, node, message: message.into() });
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

/// False for one that was never read from Vault.
fn has_value(secret: &SecretEntry) -> bool {
    secret.vault.as_ref().is_none_or(|source| source.fetched_at.is_some())
}
