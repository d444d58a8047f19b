//! Records that are neither workloads nor nodes: one file per kind.

mod binding;
mod join_token;
mod namespace;
mod revocation;
mod scope;
mod secret;
mod user_token;

use persys_model::entry::{
    Binding, Entry, EntryKind, JoinToken, Namespace, Revocation, SecretEntry, UserToken,
};

use super::{Record, Unknown, decode, encode};

/// A record of that kind and the fields its shape does not know, or why it cannot be read.
pub(crate) fn decode_entry(
    kind: EntryKind,
    bytes: &[u8],
) -> Result<(Entry, Option<Unknown>), String> {
    fn read<R: Record>(
        bytes: &[u8],
        make: impl FnOnce(R) -> Entry,
    ) -> Result<(Entry, Option<Unknown>), String> {
        decode::<R>(bytes).map(|(record, unknown)| (make(record), unknown))
    }
    match kind {
        EntryKind::Namespace => read::<Namespace>(bytes, Entry::Namespace),
        EntryKind::Binding => read::<Binding>(bytes, Entry::Binding),
        EntryKind::UserToken => read::<UserToken>(bytes, Entry::UserToken),
        EntryKind::JoinToken => read::<JoinToken>(bytes, Entry::JoinToken),
        EntryKind::Revocation => read::<Revocation>(bytes, Entry::Revocation),
        EntryKind::Secret => read::<SecretEntry>(bytes, Entry::Secret),
    }
}

/// The bytes of a record, with the fields of another release that it had before.
pub(crate) fn encode_entry(
    entry: &Entry,
    unknown: Option<&Unknown>,
) -> Result<Vec<u8>, serde_json::Error> {
    match entry {
        Entry::Namespace(namespace) => encode(namespace, unknown),
        Entry::Binding(binding) => encode(binding, unknown),
        Entry::UserToken(token) => encode(token, unknown),
        Entry::JoinToken(token) => encode(token, unknown),
        Entry::Revocation(revoked) => encode(revoked, unknown),
        Entry::Secret(secret) => encode(secret, unknown),
    }
}
