//! Leaves of checking: texts, words, numbers, paths, maps.
//!
//! Each takes the place it stands at, notes what is wrong there, and gives a value only if nothing
//! is. Problems quote what was given, cut and escaped, except where it could be a secret.

use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) use persys_compose::grammar::host_and_port;

use super::at::At;
use super::limits::{ENV_ENTRIES, ENV_NAME_BYTES, ENV_TOTAL_BYTES, ENV_VALUE_BYTES, PATH_BYTES};
use super::limits::{LABEL_ENTRIES, LABEL_KEY_BYTES, LABEL_TOTAL_BYTES, LABEL_VALUE_BYTES};
use crate::spec::draft::Texts;
use crate::spec::secret::Secret;

/// `text` fit for a message: at most 40 characters, nothing that could steer a terminal.
pub(crate) fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    if short.len() < text.len() && text.chars().nth(40).is_some() {
        short.push('…');
    }
    short
}

/// One of a table of words, any case. The empty word, where the table has it, is the default.
pub(super) fn word<T: Copy>(at: &At<'_>, text: &str, table: &[(&str, T)]) -> Option<T> {
    if let Some((_, value)) = table.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)) {
        return Some(*value);
    }
    let known: Vec<_> = table.iter().map(|(word, _)| *word).filter(|w| !w.is_empty()).collect();
    at.refuse(format!("\"{}\" is not supported; known are {}", shown(text), known.join(", ")))
}

/// A whole number within `least` and `most`.
pub(super) fn number(at: &At<'_>, given: i64, least: i64, most: i64) -> Option<u64> {
    if given < least || given > most {
        return at.refuse(format!("{given} is outside {least} to {most}"));
    }
    u64::try_from(given).ok()
}

/// Whether the list here is short enough to be looked at.
pub(super) fn count(at: &At<'_>, given: usize, most: usize) -> Option<()> {
    if given > most {
        return at.refuse(format!("has {given} entries; at most {most} are allowed"));
    }
    Some(())
}

/// Whether the text here is short enough to be looked at.
pub(super) fn length(at: &At<'_>, given: usize, most: usize) -> Option<()> {
    if given > most {
        return at.refuse(format!("has {given} bytes; at most {most} are allowed"));
    }
    Some(())
}

/// Letters, digits, and inside also `-`, `_`, `.`; no two dots in a row. Safe as a file name and
/// as an argument.
pub(super) fn is_plain_name(text: &str) -> bool {
    let inside = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inside) && !text.contains("..")
}

/// A name for [`is_plain_name`] of at most `most` bytes.
pub(super) fn plain_name(at: &At<'_>, text: &str, most: usize) -> Option<Arc<str>> {
    length(at, text.len(), most)?;
    if !is_plain_name(text) {
        return at.refuse(format!(
            "\"{}\" is not a name: letters, digits, and inside also '-', '_', '.'",
            shown(text)
        ));
    }
    Some(Arc::from(text))
}

/// An absolute path that means what it says: no `.`, `..` or empty parts, nothing unprintable, and
/// neither `:` nor `,`, which separate fields in mount and disk options. A slash at the end is
/// dropped.
pub(super) fn path(at: &At<'_>, text: &str) -> Option<Arc<str>> {
    length(at, text.len(), PATH_BYTES)?;
    let quoted = || shown(text);
    let Some(inside) = text.strip_prefix('/') else {
        return at.refuse(format!("\"{}\" is not an absolute path", quoted()));
    };
    if let Some(found) = text.chars().find(|c| c.is_control() || matches!(c, ':' | ',')) {
        return at.refuse(format!("a path must not contain {found:?}"));
    }
    let inside = inside.strip_suffix('/').unwrap_or(inside);
    if !inside.is_empty() && inside.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return at.refuse(format!("\"{}\" has an empty part, '.' or '..' in it", quoted()));
    }
    Some(if inside.is_empty() { Arc::from("/") } else { Arc::from(format!("/{inside}")) })
}

/// Whether `text` can be kept in a text file: no control characters but tab and line ends.
pub(super) fn is_clean_text(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
}

/// What an environment is for: a compose project reads its from a file of ours.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EnvFor {
    Container,
    Compose,
}

/// An environment. Values are never quoted.
pub(super) fn env(
    at: &At<'_>,
    texts: &Texts,
    purpose: EnvFor,
) -> Option<BTreeMap<Arc<str>, Secret>> {
    count(at, texts.len(), ENV_ENTRIES)?;
    let mut total = 0_usize;
    let mut env = BTreeMap::new();
    let mut sound = true;
    for (name, value) in texts {
        let here = at.key(name);
        sound &= env_name(&here, name, purpose).is_some();
        sound &= env_value(&here, value, purpose).is_some();
        total = total.saturating_add(name.len()).saturating_add(value.len());
        if sound {
            env.insert(Arc::from(name.as_str()), Secret::new(value));
        }
    }
    sound &= length(at, total, ENV_TOTAL_BYTES).is_some();
    sound.then_some(env)
}

pub(super) fn env_name(at: &At<'_>, name: &str, purpose: EnvFor) -> Option<()> {
    length(at, name.len(), ENV_NAME_BYTES)?;
    let start = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    if !start || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return at.refuse("is not a variable's name: letters, digits and '_', no digit first");
    }
    // These steer the compose program itself rather than the services it starts.
    let steers = ["COMPOSE_", "DOCKER_", "GIT_", "LD_"].iter().any(|p| name.starts_with(p));
    if purpose == EnvFor::Compose && (steers || name == "PATH") {
        return at.refuse("would steer the compose program; set it on the service in the file");
    }
    Some(())
}

fn env_value(at: &At<'_>, value: &str, purpose: EnvFor) -> Option<()> {
    length(at, value.len(), ENV_VALUE_BYTES)?;
    if value.contains('\0') {
        return at.refuse("has a NUL character in its value");
    }
    if purpose == EnvFor::Compose && value.contains(['\n', '\r']) {
        return at.refuse("has a line break in its value, which an environment file cannot hold");
    }
    Some(())
}

/// A label's key: visible ASCII without `=`, a letter or digit first.
pub(super) fn label_key(at: &At<'_>, key: &str) -> Option<Arc<str>> {
    length(at, key.len(), LABEL_KEY_BYTES)?;
    let start = key.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    if !start || !key.bytes().all(|b| b.is_ascii_graphic() && b != b'=') {
        return at.refuse(format!(
            "\"{}\" is not a key: visible ASCII without '=', a letter or digit first",
            shown(key)
        ));
    }
    Some(Arc::from(key))
}

/// Labels or metadata. `reserved` says why a key may not be used, if it may not.
pub(super) fn labels(
    at: &At<'_>,
    texts: &Texts,
    reserved: fn(&str) -> Option<&'static str>,
) -> Option<BTreeMap<Arc<str>, Arc<str>>> {
    count(at, texts.len(), LABEL_ENTRIES)?;
    let mut total = 0_usize;
    let mut labels = BTreeMap::new();
    let mut sound = true;
    for (key, value) in texts {
        let here = at.key(key);
        total = total.saturating_add(key.len()).saturating_add(value.len());
        if let Some(why) = reserved(key) {
            here.fault(why);
            sound = false;
            continue;
        }
        let checked = label_key(&here, key);
        let fits = length(&here, value.len(), LABEL_VALUE_BYTES).is_some();
        let clean = is_clean_text(value);
        if !clean {
            here.fault("has a control character in its value");
        }
        match checked {
            Some(key) if fits && clean => drop(labels.insert(key, Arc::from(value.as_str()))),
            _ => sound = false,
        }
    }
    sound &= length(at, total, LABEL_TOTAL_BYTES).is_some();
    sound.then_some(labels)
}
