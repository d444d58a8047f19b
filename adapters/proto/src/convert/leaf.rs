//! Leaves of reading: names, amounts, tokens, words, bounded texts and lists.
//!
//! Each takes the place it stands at, notes what is wrong there, and gives a value only if nothing
//! is. The second half goes the other way, where nothing can be wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_model::id::NameError;
use persys_model::spec::secret::Secret;

use super::at::{At, shown};

/// Reports, inventory items, tombstones or statuses in one message: what one node can hold.
pub const ITEMS: usize = 10_000;
/// Labels of a node.
pub const LABELS: usize = 64;
/// Bytes of a label's key.
pub(super) const LABEL_KEY_BYTES: usize = 128;
/// Bytes of a label's value.
pub(super) const LABEL_VALUE_BYTES: usize = 256;
/// Storage pools of a node.
pub const POOLS: usize = 64;
/// Storage drivers, and workload types, of a node.
pub const CAPABILITIES: usize = 64;
/// Bytes of the name of a machine or of one process life.
pub(super) const IDENTITY_BYTES: usize = 128;
/// GiB of one pool: an exbibyte.
pub(super) const POOL_GIB: i64 = 1 << 30;

/// A checked name, by its constructor.
pub(super) fn name<T>(
    at: &At<'_>,
    text: &str,
    new: impl FnOnce(&str) -> Result<T, NameError>,
) -> Option<T> {
    match new(text) {
        Ok(name) => Some(name),
        Err(error) => at.refuse(error.to_string()),
    }
}

/// A whole number within `least` and `most`.
pub(super) fn amount(at: &At<'_>, given: i64, least: i64, most: i64) -> Option<u64> {
    if given < least || given > most {
        return at.refuse(format!("{given} is outside {least} to {most}"));
    }
    u64::try_from(given).ok()
}

/// A token of ours, which is never zero: zero is what a peer sends that does not know the field.
pub(super) fn token<T>(at: &At<'_>, given: u64, new: impl FnOnce(u64) -> T) -> Option<T> {
    if given == 0 { at.refuse("is missing") } else { Some(new(given)) }
}

/// Whether the list here is short enough to be looked at.
pub(super) fn count(at: &At<'_>, given: usize, most: usize) -> Option<()> {
    if given > most {
        return at.refuse(format!("has {given} entries; at most {most} are allowed"));
    }
    Some(())
}

/// A text of visible ASCII, there and short: the name of a machine or process, never parsed.
pub(super) fn identity(at: &At<'_>, text: &str) -> Option<Arc<str>> {
    if text.is_empty() {
        return at.refuse("is missing");
    }
    if text.len() > IDENTITY_BYTES || !text.bytes().all(|b| b.is_ascii_graphic()) {
        return at.refuse(format!("must be at most {IDENTITY_BYTES} visible ASCII characters"));
    }
    Some(Arc::from(text))
}

/// One of a table of words, any case.
pub(super) fn word<T: Copy>(at: &At<'_>, text: &str, table: &[(&str, T)]) -> Option<T> {
    if let Some((_, value)) = table.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)) {
        return Some(*value);
    }
    let known: Vec<_> = table.iter().map(|(word, _)| *word).collect();
    at.refuse(format!("\"{}\" is not known; known are {}", shown(text), known.join(", ")))
}

/// Every entry of a list, if all can be read.
pub(super) fn list<M, T>(
    at: &At<'_>,
    given: Vec<M>,
    most: usize,
    read: impl Fn(&At<'_>, M) -> Option<T>,
) -> Option<Vec<T>> {
    count(at, given.len(), most)?;
    let mut values = Vec::with_capacity(given.len());
    let mut sound = true;
    for (nth, one) in given.into_iter().enumerate() {
        match read(&at.index(nth), one) {
            Some(value) => values.push(value),
            None => sound = false,
        }
    }
    sound.then_some(values)
}

/// As the wire counts; beyond its range only what is far beyond every machine.
pub(super) fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// As the wire counts.
pub(super) fn small(amount: u32) -> i32 {
    i32::try_from(amount).unwrap_or(i32::MAX)
}

/// As the wire counts things.
pub(super) fn number_of(things: usize) -> i32 {
    i32::try_from(things).unwrap_or(i32::MAX)
}

/// Texts as the wire has them.
pub(super) fn texts(map: &BTreeMap<Arc<str>, Arc<str>>) -> BTreeMap<String, String> {
    map.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// Texts as the wire has them, no longer hidden.
pub(super) fn revealed(map: &BTreeMap<Arc<str>, Secret>) -> BTreeMap<String, String> {
    map.iter().map(|(key, value)| (key.to_string(), value.reveal().to_owned())).collect()
}

/// Words as the wire has them.
pub(super) fn words(words: &[Arc<str>]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// A text that may be absent; empty is absence.
pub(super) fn or_empty(text: Option<&Arc<str>>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}
