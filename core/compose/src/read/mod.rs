//! From nodes to a document: every key known, every value of its type, every verdict said.
//!
//! - [`fill`]: variables; [`value`]: leaves.
//! - [`service`]: the table of keys; [`run`], [`ports`], [`mounts`], [`network`], [`deploy`],
//!   [`health`], [`process`], [`names`], [`powers`], [`secrets`]: who reads each.
//! - [`whole`]: what only shows once all services are read.

mod deploy;
mod fill;
mod health;
mod mounts;
mod names;
mod network;
mod ports;
mod powers;
mod process;
mod run;
mod secrets;
mod service;
pub(crate) mod value;
mod whole;

use std::collections::BTreeMap;

use crate::document::Document;
use crate::finding::Place;
use crate::limits::{ENTRIES, FILE_BYTES, SERVICES};
use crate::yaml::{self, Entry, Value};

/// The document in `text`, if there is one. What it means is only right if nothing was refused.
pub(crate) fn document<'a>(
    at: &Place<'a>,
    text: &str,
    variables: &'a BTreeMap<String, String>,
) -> Option<Document> {
    if text.len() > FILE_BYTES {
        return at.refuse(format!("has {} bytes; at most {FILE_BYTES} are read", text.len()));
    }
    let mut root = match yaml::parse(text) {
        Ok(root) => root,
        Err(problem) => return at.on_line(problem.line).refuse(problem.why),
    };
    if !matches!(root.value, Value::Map(_)) {
        return at.refuse("is not a Compose file: it has no keys");
    }
    fill::fill(at, &mut root, variables);
    let keys = value::map(at, &root, ENTRIES)?;
    let mut document = Document::default();
    let (mut services, mut named_secrets) = (None, BTreeMap::new());
    for entry in keys {
        let here = at.key(&entry.key, entry.line);
        match entry.key.as_str() {
            "services" => services = Some((here, entry)),
            "networks" if entry.value.value != Value::Null => {
                document.networks = network::all_networks(&here, &entry.value);
            }
            "volumes" if entry.value.value != Value::Null => {
                document.volumes = network::all_volumes(&here, &entry.value);
            }
            "secrets" if !is_empty(&entry.value.value) => {
                named_secrets = secrets::all(&here, &entry.value);
            }
            key => top_level(&here, key, entry),
        }
    }
    let Some((here, entry)) = services else {
        return at.refuse("is not a Compose file: it has no services");
    };
    let mut drafts = all_services(&here, entry, variables)?;
    secrets::settle(&mut drafts, &named_secrets);
    whole::check(&here, &drafts, &document);
    drafts.retain(|draft| !draft.has_profiles);
    service::into_document(drafts, &mut document);
    document.settle_one_shots();
    Some(document)
}

fn all_services<'a>(
    at: &Place<'a>,
    entry: &Entry,
    variables: &'a BTreeMap<String, String>,
) -> Option<Vec<service::Draft<'a>>> {
    let mut drafts = Vec::new();
    for entry in value::map(at, &entry.value, SERVICES)? {
        let here = at.key(&entry.key, entry.line);
        drafts.extend(service::service(&here, entry, variables));
    }
    Some(drafts)
}

/// Keys of the file itself that hold nothing that runs.
fn top_level(at: &Place<'_>, key: &str, entry: &Entry) {
    let is_empty = is_empty(&entry.value.value);
    let refused = match key {
        "version" => return at.ignored("files of every version are read alike"),
        "name" => return at.changed("the project is named after the workload"),
        _ if key.starts_with("x-") => return at.ignored("is the file's own"),
        "networks" | "volumes" => return at.ignored("has no value"),
        "configs" | "secrets" | "include" | "models" if is_empty => {
            return at.ignored("has no value");
        }
        "configs" => {
            "need files beside this one; put the content into the image, or into environment"
        }
        "include" => "there is no file beside this one; put everything into one file",
        "models" => "are not supported; run the model as a service",
        _ => {
            let known = ["services", "networks", "volumes", "secrets"];
            at.refused(unknown("a Compose file", key, known));
            return;
        }
    };
    at.refused(refused);
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Map(entries) => entries.is_empty(),
        Value::List(items) => items.is_empty(),
        Value::Scalar(_) => false,
    }
}

/// What to say of a key nobody knows. Names the one that was probably meant.
fn unknown(of: &str, key: &str, known: impl IntoIterator<Item = &'static str>) -> String {
    let near = known.into_iter().find(|known| is_near(key, known));
    match near {
        Some(near) => format!("is not a key of {of}; is \"{near}\" meant?"),
        None => format!("is not a key of {of} that is known here; leave it out"),
    }
}

/// Whether one slip of the finger makes `a` into `b`.
fn is_near(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > 1 {
        return false;
    }
    let start = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let rest = |text: &[char]| text.len().saturating_sub(start);
    let end = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let end = end.min(rest(&a)).min(rest(&b));
    let (left_a, left_b) = (rest(&a).saturating_sub(end), rest(&b).saturating_sub(end));
    let swapped = left_a == 2
        && left_b == 2
        && a.get(start) == b.get(start.saturating_add(1))
        && a.get(start.saturating_add(1)) == b.get(start);
    (left_a <= 1 && left_b <= 1) || swapped
}
