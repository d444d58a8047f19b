//! Small steps on nodes.

use crate::finding::Spot;
use crate::yaml::{Entry, Node, Scalar, Value};

/// The entries of a mapping; none of anything else.
pub(super) fn entries(node: &Node) -> &[Entry] {
    match &node.value {
        Value::Map(entries) => entries,
        Value::Null | Value::Scalar(_) | Value::List(_) => &[],
    }
}

/// The same, to be changed.
pub(super) fn entries_mut(node: &mut Node) -> &mut [Entry] {
    match &mut node.value {
        Value::Map(entries) => entries,
        Value::Null | Value::Scalar(_) | Value::List(_) => &mut [],
    }
}

/// The items of a list; a single value stands for a list of one.
pub(super) fn items_mut(node: &mut Node) -> &mut [Node] {
    if matches!(node.value, Value::Scalar(_)) {
        return std::slice::from_mut(node);
    }
    match &mut node.value {
        Value::List(items) => items,
        Value::Null | Value::Scalar(_) | Value::Map(_) => &mut [],
    }
}

/// The entry of a key.
pub(super) fn field<'n>(node: &'n Node, key: &str) -> Option<&'n Entry> {
    entries(node).iter().find(|entry| entry.key == key)
}

/// The same, to be changed.
pub(super) fn field_mut<'n>(node: &'n mut Node, key: &str) -> Option<&'n mut Entry> {
    entries_mut(node).iter_mut().find(|entry| entry.key == key)
}

/// The text of a single value.
pub(super) fn text(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar(scalar) => Some(&scalar.text),
        Value::Null | Value::List(_) | Value::Map(_) => None,
    }
}

/// The text under a key.
pub(super) fn text_of<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    field(node, key).and_then(|entry| text(&entry.value))
}

/// Takes a key out of a mapping.
pub(super) fn take(node: &mut Node, key: &str) -> Option<Entry> {
    let Value::Map(entries) = &mut node.value else { return None };
    let at = entries.iter().position(|entry| entry.key == key)?;
    Some(entries.remove(at))
}

/// Puts a key into a mapping, in place of what it had.
pub(super) fn put(node: &mut Node, key: &str, line: Spot, value: Value) {
    if matches!(node.value, Value::Null) {
        node.value = Value::Map(Vec::new());
    }
    let Value::Map(entries) = &mut node.value else { return };
    let entry = Entry { key: key.to_owned(), line, value: Node { line, value } };
    match entries.iter_mut().find(|other| other.key == key) {
        Some(other) => *other = entry,
        None => entries.push(entry),
    }
}

/// A single value.
pub(super) fn scalar(text: impl Into<String>) -> Value {
    Value::Scalar(Scalar { text: text.into(), filled_in: false })
}

/// A single value that came out of a file beside: it may be secret and is not quoted.
pub(super) fn hidden(text: impl Into<String>) -> Value {
    Value::Scalar(Scalar { text: text.into(), filled_in: true })
}

/// A mapping of single values.
pub(super) fn map<const N: usize>(line: Spot, pairs: [(&str, Value); N]) -> Value {
    let entry = |(key, value): (&str, Value)| Entry {
        key: key.to_owned(),
        line,
        value: Node { line, value },
    };
    Value::Map(pairs.into_iter().map(entry).collect())
}

/// Keys with or without a value, as a mapping or a list of `key=value` has them. Other lists, such as
/// names of networks, give names without a value. The later of two counts.
pub(super) fn pairs(node: Node, separators: &[char]) -> Vec<Entry> {
    let items = match node.value {
        Value::Map(entries) => return entries,
        Value::List(items) => items,
        Value::Null | Value::Scalar(_) => return Vec::new(),
    };
    let mut pairs: Vec<Entry> = Vec::new();
    for item in items {
        let Value::Scalar(Scalar { text, filled_in }) = item.value else { continue };
        let (key, value) = match text.split_once(separators) {
            Some((key, value)) => {
                let text = value.to_owned();
                (key.to_owned(), Value::Scalar(Scalar { text, filled_in }))
            }
            None => (text, Value::Null),
        };
        pairs.retain(|pair| pair.key != key);
        let value = Node { line: item.line, value };
        pairs.push(Entry { key, line: item.line, value });
    }
    pairs
}

/// Nodes of a value that is not from a file.
pub(super) fn of_json(line: Spot, value: serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match value {
        Json::Null => Value::Null,
        Json::String(text) => hidden(text),
        Json::Bool(truth) => scalar(truth.to_string()),
        Json::Number(number) => scalar(number.to_string()),
        Json::Array(items) => Value::List(
            items.into_iter().map(|item| Node { line, value: of_json(line, item) }).collect(),
        ),
        Json::Object(entries) => {
            let entry = |(key, value)| Entry {
                key,
                line,
                value: Node { line, value: of_json(line, value) },
            };
            Value::Map(entries.into_iter().map(entry).collect())
        }
    }
}
