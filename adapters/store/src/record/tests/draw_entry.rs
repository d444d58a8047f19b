//! Any record that is neither a workload nor a node.

use std::sync::Arc;

use persys_model::entry::vault::{KvVersion, OnChange, VaultPath, VaultSource};
use persys_model::entry::{
    Allowance, Binding, Entry, JoinToken, Namespace, Revocation, Scope, SecretEntry, Subject,
    TokenHash, UserRole, UserToken,
};
use persys_model::id::{EntryName, NamespaceName, SecretName, SubjectName};
use persys_model::join::Use;
use persys_model::secret::Envelope;
use persys_model::time::WallMillis;
use proptest::collection::btree_set;
use proptest::prelude::*;
use proptest::sample::select;

use super::draw::{name, text};

fn namespace() -> impl Strategy<Value = NamespaceName> {
    "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?".prop_map(|text| NamespaceName::new(&text).unwrap())
}

fn subject() -> impl Strategy<Value = SubjectName> {
    "[!-.0-~]{1,40}".prop_map(|text| SubjectName::new(&text).unwrap())
}

fn entry_name() -> impl Strategy<Value = EntryName> {
    name().prop_map(|text| EntryName::new(&text).unwrap())
}

fn role() -> impl Strategy<Value = UserRole> {
    select(UserRole::ALL)
}

fn scope() -> impl Strategy<Value = Scope> {
    prop_oneof![Just(Scope::Cluster), btree_set(namespace(), 0..4).prop_map(Scope::Namespaces),]
}

fn allowance() -> impl Strategy<Value = Allowance> {
    let paths = || btree_set(text(), 0..3);
    (any::<(bool, bool, bool)>(), paths(), paths()).prop_map(|(flags, host_paths, vault_paths)| {
        let (privileged, host_network, devices) = flags;
        Allowance { privileged, host_network, devices, host_paths, vault_paths }
    })
}

fn vault() -> impl Strategy<Value = Option<VaultSource>> {
    let path = "[a-z0-9]{1,9}(/[a-z0-9]{1,9}){0,2}";
    let drawn = (path, path, "[a-z]{1,9}", any::<[bool; 2]>(), proptest::option::of(any::<u64>()));
    let source = drawn.prop_map(|(mount, path, field, [second, restart], fetched)| {
        let version = if second { KvVersion::Two } else { KvVersion::One };
        VaultSource {
            at: VaultPath::new(&mount, &path, &field, version).unwrap(),
            on_change: if restart { OnChange::Restart } else { OnChange::Leave },
            fetched_at: fetched.map(WallMillis),
        }
    });
    proptest::option::of(source)
}

pub(super) fn entry() -> impl Strategy<Value = Entry> {
    let namespaces =
        (namespace(), allowance(), any::<bool>()).prop_map(|(name, allowance, shadow)| {
            Entry::Namespace(Namespace { name, allowance, shadow })
        });
    let bindings = (entry_name(), subject(), any::<bool>(), role(), scope()).prop_map(
        |(name, who, group, role, scope)| {
            let subject = if group { Subject::Group(who) } else { Subject::User(who) };
            Entry::Binding(Binding { name, subject, role, scope })
        },
    );
    let tokens = (entry_name(), subject(), any::<[u8; 32]>(), role(), scope(), any::<[u64; 2]>())
        .prop_map(|(id, user, hash, role, scope, [created, expires])| {
            let (created_at, expires_at) = (WallMillis(created), WallMillis(expires));
            let hash = TokenHash(hash);
            Entry::UserToken(UserToken { id, user, hash, role, scope, created_at, expires_at })
        });
    let one = (text(), text()).prop_map(|(key, name)| Use { key, name });
    let uses = proptest::collection::vec(one, 0..3);
    let parts = (entry_name(), text(), proptest::option::of(text()), any::<(u64, u32)>(), uses);
    let joins = parts.prop_map(|(id, hash, name, (expires, uses_left), uses)| {
        let (role, expires) = (Arc::from("agent"), WallMillis(expires));
        Entry::JoinToken(JoinToken { id, hash, role, name, expires, uses_left, uses })
    });
    let revocations = (entry_name(), any::<u64>(), text()).prop_map(|(name, since, reason)| {
        Entry::Revocation(Revocation { name, since: WallMillis(since), reason })
    });
    let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
    let sealed = (bytes(), bytes(), text());
    let secrets = (namespace(), name(), any::<[u64; 2]>(), text(), sealed, vault()).prop_map(
        |(namespace, name, [version, set_at], set_by, (wrapped, body, key), vault)| {
            let digest = key.clone();
            Entry::Secret(SecretEntry {
                namespace,
                name: SecretName::new(name.get(..60).unwrap_or(&name))
                    .unwrap_or_else(|_| SecretName::fixed("x")),
                version,
                set_at: WallMillis(set_at),
                set_by,
                sealed: Envelope { key, wrapped: wrapped.into(), body: body.into(), digest },
                vault,
            })
        },
    );
    prop_oneof![namespaces, bindings, tokens, joins, revocations, secrets]
}
