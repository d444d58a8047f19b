//! From nodes to a document: every key known, every value of its type, every verdict said.
//!
//! - [`fill`]: variables; [`value`]: leaves.
//! - [`service`]: the table of keys; [`run`], [`ports`], [`mounts`], [`network`], [`deploy`],
//!   [`health`], [`process`], [`names`], [`powers`], [`secrets`], [`configs`]: who reads each.
//! - [`content`]: files that were sent along.
//! - [`whole`]: what only shows once all services are read.

mod configs;
pub(crate) mod content;
mod deploy;
pub(crate) mod fill;
mod health;
pub(crate) mod mounts;
mod names;
mod network;
mod ports;
mod powers;
mod process;
mod run;
pub(crate) mod secrets;
mod service;
pub(crate) mod value;
mod whole;

use std::collections::{BTreeMap, BTreeSet};

use crate::document::Document;
use crate::finding::{Place, shown};
use crate::limits::{ENTRIES, FILE_BYTES, SERVICES};
use crate::yaml::{self, Entry, Node, Value};

/// The document in `text`, if there is one. What it means is only right if nothing was refused.
pub(crate) fn document<'a>(
    at: &Place<'a>,
    text: &str,
    variables: &'a BTreeMap<String, String>,
) -> Option<Document> {
    if text.len() > FILE_BYTES {
        return at.refuse(format!("has {} bytes; at most {FILE_BYTES} are read", text.len()));
    }
    let mut root = nodes(at, text, 0)?;
    fill::fill(at, &mut root, variables, &mut BTreeSet::new());
    judged(at, &root, variables)
}

/// The nodes of `text`, which is this file of its project.
pub(crate) fn nodes(at: &Place<'_>, text: &str, file: u16) -> Option<Node> {
    nodes_and_cuts(at, text, file).map(|(root, _)| root)
}

/// The same, with the keys that earlier files of the project lose.
pub(crate) fn nodes_and_cuts(
    at: &Place<'_>,
    text: &str,
    file: u16,
) -> Option<(Node, Vec<Vec<String>>)> {
    let yaml::Parsed { root, twice, cuts } = match yaml::parse(text, file) {
        Ok(parsed) => parsed,
        Err(problem) => return at.on_line(problem.line).refuse(problem.why),
    };
    for (line, key) in twice.into_iter().take(ENTRIES) {
        let why = format!("the key \"{}\" stands twice in one mapping", shown(&key));
        at.on_line(line).changed(format!("{why}; the later one counts, as with Compose"));
    }
    if !matches!(root.value, Value::Map(_)) {
        return at.refuse("is not a Compose file: it has no keys");
    }
    Some((root, cuts))
}

/// The document of nodes whose variables are filled in.
pub(crate) fn judged<'a>(
    at: &Place<'a>,
    root: &Node,
    variables: &'a BTreeMap<String, String>,
) -> Option<Document> {
    let keys = value::map(at, root, ENTRIES)?;
    let mut document = Document::default();
    let (mut services, mut named_secrets) = (None, BTreeMap::new());
    let contents = keys.iter().find(|entry| entry.key == content::KEY);
    document.contents = contents
        .map(|entry| content::table(&at.key(&entry.key, entry.line), &entry.value))
        .unwrap_or_default();
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
            "configs" if !is_empty(&entry.value.value) => {
                configs::all(&here, &entry.value, variables, &mut document.contents);
            }
            content::KEY => {}
            key => top_level(&here, key, entry),
        }
    }
    let Some((here, entry)) = services else {
        return at.refuse("is not a Compose file: it has no services");
    };
    let mut drafts = all_services(&here, entry, variables)?;
    configs::settle(&drafts, &mut document.contents);
    content::settle(&mut drafts, &mut document);
    network::settle(&mut drafts);
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
        "include" => {
            "names files beside this one, which were not sent along; apply it with `persys apply`"
        }
        "models" => "are not supported; run the model as a service",
        _ => {
            let known = ["services", "networks", "volumes", "secrets", "configs"];
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
