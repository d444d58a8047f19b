//! One file over another, key by key, as the compose program does it.
//!
//! What a service says by name is merged by name; what it mounts, by where it is seen; lists that add up
//! are added up; the rest is replaced.

use super::tree;
use crate::yaml::{Entry, Node, Value};

/// Keys of a service that hold pairs or names, and what separates the two in a list.
const BY_NAME: &[(&str, &[char])] = &[
    ("annotations", &['=']),
    ("depends_on", &[]),
    ("environment", &['=']),
    ("extra_hosts", &['=', ':']),
    ("labels", &['=']),
    ("networks", &[]),
    ("storage_opt", &['=']),
    ("sysctls", &['=']),
    ("ulimits", &['=']),
];
/// Keys of a service with an entry for each path of the container.
const BY_TARGET: &[&str] = &["devices", "volumes"];
/// Keys of a service with an entry for each object it uses.
const BY_SOURCE: &[&str] = &["configs", "secrets"];
/// Keys of a service whose entries add up.
const ADDED: &[&str] = &[
    "cap_add",
    "cap_drop",
    "device_cgroup_rules",
    "dns",
    "dns_search",
    "env_file",
    "expose",
    "external_links",
    "label_file",
    "links",
    "ports",
    "profiles",
    "security_opt",
    "tmpfs",
    "volumes_from",
];
/// Keys of a service that are mappings of their own.
const NESTED: &[&str] = &["blkio_config", "build", "deploy", "healthcheck", "logging"];

/// `over` on top of `base`, both whole files.
pub(super) fn files(mut base: Node, over: Node) -> Node {
    let Value::Map(entries) = over.value else { return base };
    for entry in entries {
        let Some(own) = tree::field_mut(&mut base, &entry.key) else {
            tree::put(&mut base, &entry.key, entry.line, entry.value.value);
            continue;
        };
        match entry.key.as_str() {
            "services" => each(&mut own.value, entry.value, service),
            "networks" | "volumes" | "secrets" | "configs" => {
                each(&mut own.value, entry.value, deep);
            }
            _ => *own = entry,
        }
    }
    base
}

/// Merges two mappings, what both name by `merge`.
fn each(base: &mut Node, over: Node, merge: fn(Node, Node) -> Node) {
    let Value::Map(entries) = over.value else { return };
    for entry in entries {
        match tree::field_mut(base, &entry.key) {
            Some(own) => {
                let mine = taken(&mut own.value);
                own.value = merge(mine, entry.value);
            }
            None => tree::put(base, &entry.key, entry.line, entry.value.value),
        }
    }
}

fn taken(node: &mut Node) -> Node {
    let line = node.line;
    std::mem::replace(node, Node { line, value: Value::Null })
}

/// Mappings are merged all the way down; anything else is replaced.
fn deep(mut base: Node, over: Node) -> Node {
    match (&base.value, &over.value) {
        (Value::Map(_), Value::Map(_)) => {
            each(&mut base, over, deep);
            base
        }
        (Value::Map(_), Value::Null) => base,
        _ => over,
    }
}

/// One service over another of its name, or over the one it extends.
pub(super) fn service(mut base: Node, over: Node) -> Node {
    let Value::Map(entries) = over.value else { return base };
    for entry in entries {
        match tree::field_mut(&mut base, &entry.key) {
            Some(own) => {
                let mine = taken(&mut own.value);
                *own = Entry { value: value(&entry.key, mine, entry.value), ..entry };
            }
            None => tree::put(&mut base, &entry.key, entry.line, entry.value.value),
        }
    }
    base
}

fn value(key: &str, base: Node, over: Node) -> Node {
    if let Some((_, separators)) = BY_NAME.iter().find(|(name, _)| *name == key) {
        return by_name(base, over, separators);
    }
    if BY_TARGET.contains(&key) {
        return keyed(base, over, target);
    }
    if BY_SOURCE.contains(&key) {
        return keyed(base, over, |item| {
            tree::text_of(item, "source").or_else(|| tree::text(item)).map(str::to_owned)
        });
    }
    if ADDED.contains(&key) {
        // A port is one more port, unless it is the same in other words.
        return keyed(base, over, |item| {
            tree::text(item).map(|text| text.strip_suffix("/tcp").unwrap_or(text).to_owned())
        });
    }
    match key {
        "build" => deep(context(base), context(over)),
        "logging"
            if tree::text_of(&over, "driver") != tree::text_of(&base, "driver")
                && tree::field(&over, "driver").is_some() =>
        {
            over
        }
        key if NESTED.contains(&key) => deep(base, over),
        _ => over,
    }
}

/// `build: folder` means `build: {context: folder}`.
fn context(node: Node) -> Node {
    let Node { line, value } = node;
    match value {
        value @ Value::Scalar(_) => Node { line, value: tree::map(line, [("context", value)]) },
        value @ (Value::Null | Value::List(_) | Value::Map(_)) => Node { line, value },
    }
}

fn by_name(base: Node, over: Node, separators: &[char]) -> Node {
    let line = over.line;
    let mut merged = Node { line, value: Value::Map(tree::pairs(base, separators)) };
    let over = Node { line, value: Value::Map(tree::pairs(over, separators)) };
    each(&mut merged, over, deep);
    merged
}

/// Entries of both, of those with the same key the later.
fn keyed(base: Node, over: Node, key: impl Fn(&Node) -> Option<String>) -> Node {
    let line = over.line;
    let list = |node: Node| match node.value {
        Value::List(items) => items,
        Value::Null => Vec::new(),
        Value::Scalar(_) | Value::Map(_) => vec![node],
    };
    let mut merged = list(base);
    for item in list(over) {
        let name = key(&item);
        match merged.iter_mut().find(|other| name.is_some() && key(other) == name) {
            Some(other) => *other = item,
            None => merged.push(item),
        }
    }
    Node { line, value: Value::List(merged) }
}

/// Where a mount or a device is seen.
fn target(item: &Node) -> Option<String> {
    let text = tree::text(item);
    let short = text.map(|text| {
        let mut parts = text.split(':');
        let first = parts.next().unwrap_or_default();
        parts.next().unwrap_or(first)
    });
    let target = short.or_else(|| tree::text_of(item, "target"))?;
    Some(target.strip_suffix('/').unwrap_or(target).to_owned())
}
