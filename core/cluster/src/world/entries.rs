//! Records that are neither workloads nor nodes: kept, forgotten, and told to those who judge by them.

use std::sync::Arc;

use persys_access::policy;
use persys_model::entry::{Entries, Entry, EntryKey, EntryKind, Scope};
use persys_model::event::Happening;
use persys_model::id::{NamespaceName, WorkloadId};
use persys_model::join::{Admission, Claim, JoinRefused};
use persys_model::spec::Spec;

use super::World;
use crate::effects::{Mark, Outbound, RefusalCode};
use crate::input::RequestId;
use crate::record::Write;

/// Most records of one kind: all of them are held in memory and looked through.
const MOST_ENTRIES: usize = 10_000;

/// The reason a new state of a secret was made from an older one than is kept: somebody, or Vault, set
/// it meanwhile. Sealing it anew keeps its version and its digest.
fn outdated(before: &Entry, after: &Entry) -> Option<String> {
    let (Entry::Secret(before), Entry::Secret(after)) = (before, after) else { return None };
    let older = after.version < before.version
        || (after.version == before.version && after.sealed.digest != before.sealed.digest);
    let name = &before.name;
    older.then(|| format!("the secret {name} was changed meanwhile: look at it, and try again"))
}

impl World {
    /// Keeps a record, in place of the one that has its key.
    pub(super) fn keep(&mut self, request: RequestId, entry: &Arc<Entry>) {
        let key = entry.key();
        let before = self.entries.get(&key);
        if before.is_some_and(|before| before == entry) {
            self.mark(Mark::Idempotent);
            return self.done(request, "nothing to change");
        }
        if before.is_none() && self.entries.count(key.kind) >= MOST_ENTRIES {
            let why = format!("there are {MOST_ENTRIES} of this kind already: {}", key.kind.word());
            return self.refuse(request, RefusalCode::Exhausted, why);
        }
        if let Some(why) = before.and_then(|before| outdated(before, entry)) {
            return self.refuse(request, RefusalCode::Conflict, why);
        }
        if let Some((code, why)) = self.dangling(entry) {
            return self.refuse(request, code, why);
        }
        if let Some(why) = self.cannot_enter_shadow(entry) {
            return self.refuse(request, RefusalCode::Conflict, why);
        }
        let before = self.entries.get(&key);
        let what = if before.is_some() { "change" } else { "make" };
        let before = before.map(Arc::clone);
        self.put_entry(Arc::clone(entry));
        if let Entry::Secret(secret) = &**entry {
            self.secret_was_set(secret, before.as_deref());
        }
        self.entry_happened(what, &key);
        self.done(request, "accepted");
    }

    /// Forgets a record.
    pub(super) fn forget(&mut self, request: RequestId, key: &EntryKey) {
        if let Some(why) = self.still_used(key) {
            return self.refuse(request, RefusalCode::Conflict, why);
        }
        if !self.drop_entry(key) {
            return self.refuse(request, RefusalCode::NotFound, format!("there is no {key}"));
        }
        self.entry_happened("delete", key);
        self.done(request, "accepted");
    }

    /// Why a spec may not be run in its namespace, whoever asks for it.
    pub(super) fn unfit(&self, id: &WorkloadId, spec: &Spec) -> Option<(RefusalCode, String)> {
        let namespace = spec.namespace();
        if !self.has_namespace(&namespace) {
            let why = format!(
                "there is no namespace {namespace}; an admin can make it: `persys namespace create \
                 {namespace}`"
            );
            return Some((RefusalCode::NotFound, why));
        }
        let refused = policy::refusals(spec, &self.entries);
        let mut told: Vec<_> = refused.iter().map(ToString::to_string).collect();
        told.extend(self.shadow_refusal(id, spec));
        if told.is_empty() {
            return None;
        }
        Some((RefusalCode::Forbidden, told.join("; ")))
    }

    fn has_namespace(&self, name: &NamespaceName) -> bool {
        *name == NamespaceName::default_one() || self.entries.namespace(name).is_some()
    }

    /// What a record points to that is not there. A role in a namespace of the future would be one
    /// in somebody else's.
    fn dangling(&self, entry: &Entry) -> Option<(RefusalCode, String)> {
        let Some(Scope::Namespaces(names)) = entry.scope() else { return None };
        if names.is_empty() {
            let why = "names no namespace: a role has to count somewhere".to_owned();
            return Some((RefusalCode::Invalid, why));
        }
        let missing = names.iter().find(|name| !self.has_namespace(name))?;
        Some((RefusalCode::NotFound, format!("there is no namespace {missing}")))
    }

    /// What still needs a record that is to go.
    fn still_used(&self, key: &EntryKey) -> Option<String> {
        if key.kind != EntryKind::Namespace {
            return None;
        }
        let Some(Entry::Namespace(namespace)) = self.entries.get(key).map(|entry| &**entry) else {
            return None;
        };
        let name = &namespace.name;
        if *name != NamespaceName::default_one() {
            let inside = self.workloads().find(|view| view.workload.spec.namespace() == *name);
            if let Some(view) = inside {
                let id = &view.workload.id;
                return Some(format!("{id} is in the namespace {name}: delete it first"));
            }
            if let Some(secret) = self.entries.secrets().find(|secret| secret.namespace == *name) {
                let secret = &secret.name;
                return Some(format!(
                    "the secret {secret} is in the namespace {name}: delete it first"
                ));
            }
            let names_it = |scope: &Scope| *scope != Scope::Cluster && scope.covers(name);
            let mut others = self.entries.iter();
            if let Some(user) = others.find(|entry| entry.scope().is_some_and(names_it)) {
                return Some(format!(
                    "the {} is for the namespace {name}: delete it first",
                    user.key()
                ));
            }
        }
        None
    }

    /// Uses an invitation: it is counted down here and stored before anybody hears of it, so that one
    /// for one is never used by two. The note of the answer is the role.
    pub(super) fn redeem(&mut self, request: RequestId, claim: &Claim) {
        let known = self.entries.join_tokens().find(|token| token.id.as_str() == &*claim.id);
        let redeemed = known.ok_or(JoinRefused::Unknown);
        let redeemed = redeemed.and_then(|token| {
            let (after, admission) = token.redeem(claim, self.now.wall)?;
            Ok((after != *token, after, admission))
        });
        match redeemed {
            Ok((changed, after, Admission { role, .. })) => {
                if changed {
                    let entry = Arc::new(Entry::JoinToken(after));
                    let key = entry.key();
                    self.put_entry(entry);
                    let what = format!("join as {role}/{} with", claim.name);
                    self.entry_happened(&what, &key);
                } else {
                    self.mark(Mark::Idempotent);
                }
                self.done(request, role);
            }
            Err(refused) => self.refuse(request, RefusalCode::Conflict, refused.to_string()),
        }
    }

    /// Puts a record into memory and into the open unit. Whoever judges by it hears of it once it is
    /// durable.
    pub(super) fn put_entry(&mut self, entry: Arc<Entry>) {
        let kind = entry.key().kind;
        Arc::make_mut(&mut self.entries).insert(Arc::clone(&entry));
        self.write(Write::PutEntry(entry));
        self.entry_changed(kind);
        self.tell_entries();
    }

    /// Takes a record out of memory and, with the open unit, out of the store. Says whether it was
    /// there.
    pub(super) fn drop_entry(&mut self, key: &EntryKey) -> bool {
        if self.entries.get(key).is_none() {
            return false;
        }
        Arc::make_mut(&mut self.entries).remove(key);
        self.write(Write::DeleteEntry(key.clone()));
        self.entry_changed(key.kind);
        self.tell_entries();
        true
    }

    /// Notes what was done to a record, in one event with its author.
    pub(super) fn entry_happened(&mut self, what: &str, key: &EntryKey) {
        let what = Arc::from(format!("{what} the {key}"));
        self.happen(Happening::Asked { what, workload: None, node: None });
    }

    /// Tells by which records requests are judged, once all that is decided so far is durable.
    pub(super) fn tell_entries(&mut self) {
        let entries: Arc<Entries> = Arc::clone(&self.entries);
        self.later(Outbound::Entries(entries));
    }
}
