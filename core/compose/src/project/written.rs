//! Nodes as a text again, which is read as the same nodes.

use crate::yaml::{Node, Value};

/// A file of these nodes, in which no variable is left to fill in.
pub(super) fn file(root: &Node) -> String {
    let mut out = String::new();
    node(root, 0, false, &mut out);
    out
}

/// Writes what stands after a key or a dash. `verbatim` leaves dollar signs as they are: where no
/// variables are looked for.
fn node(node: &Node, depth: usize, verbatim: bool, out: &mut String) {
    match &node.value {
        Value::Null => out.push('\n'),
        Value::Scalar(scalar) => {
            out.push(' ');
            out.push_str(&plain_or_quoted(&scalar.text, verbatim));
            out.push('\n');
        }
        Value::List(items) if items.is_empty() => out.push_str(" []\n"),
        Value::Map(entries) if entries.is_empty() => out.push_str(" {}\n"),
        Value::List(items) => {
            new_line(depth, out);
            for item in items {
                indent(depth, out);
                out.push('-');
                self::node(item, depth.saturating_add(1), verbatim, out);
            }
        }
        Value::Map(entries) => {
            new_line(depth, out);
            for entry in entries {
                indent(depth, out);
                // Keys are never filled in.
                out.push_str(&plain_or_quoted(&entry.key, true));
                out.push(':');
                let verbatim = verbatim || (depth == 0 && entry.key.starts_with("x-"));
                self::node(&entry.value, depth.saturating_add(1), verbatim, out);
            }
        }
    }
}

fn new_line(depth: usize, out: &mut String) {
    if depth > 0 {
        out.push('\n');
    }
}

fn indent(depth: usize, out: &mut String) {
    out.extend(std::iter::repeat_n("  ", depth));
}

/// Words that stand for themselves as they are; anything else in quotes, as JSON has them.
fn plain_or_quoted(text: &str, verbatim: bool) -> String {
    let text = if verbatim { text.to_owned() } else { text.replace('$', "$$") };
    let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'/' | b'$');
    let starts = text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'/');
    let is_null = matches!(text.as_str(), "null" | "Null" | "NULL");
    if starts && !is_null && text.bytes().all(known) {
        return text;
    }
    serde_json::Value::String(text).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::finding::Spot;
    use crate::yaml::{Entry, Scalar, parse};

    fn any_node() -> impl Strategy<Value = Node> {
        let made = |value| Node { line: Spot::default(), value };
        let text = "([a-z$~\\{\\}:'\"\\\\ \t\n#&*!|>%@`,\\[\\]-]|null|true|[0-9]|\\PC){0,8}";
        let leaf = prop_oneof![
            Just(Value::Null),
            text.prop_map(|text| Value::Scalar(Scalar { text, filled_in: false })),
        ];
        leaf.prop_map(made).prop_recursive(4, 24, 4, move |inner| {
            let entry = |(key, value)| Entry { key, line: Spot::default(), value };
            let keys = prop::collection::btree_map(text, inner.clone(), 0..4);
            let map = keys.prop_map(move |all| Value::Map(all.into_iter().map(entry).collect()));
            let list = prop::collection::vec(inner, 0..4).prop_map(Value::List);
            prop_oneof![map, list].prop_map(made)
        })
    }

    fn without_lines(node: &mut Node) {
        node.line = Spot::default();
        match &mut node.value {
            Value::List(items) => items.iter_mut().for_each(without_lines),
            Value::Map(entries) => {
                for entry in entries {
                    entry.line = Spot::default();
                    without_lines(&mut entry.value);
                }
            }
            Value::Null | Value::Scalar(_) => {}
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same(inner in any_node()) {
            let root = Node {
                line: Spot::default(),
                value: Value::Map(vec![Entry {
                    key: "x-any".to_owned(), line: Spot::default(), value: inner,
                }]),
            };
            let text = file(&root);
            let mut again = parse(&text, 0).map_err(|why| {
                TestCaseError::fail(format!("{why:?} in {text}"))
            })?.root;
            without_lines(&mut again);
            prop_assert_eq!(again, root, "{}", text);
        }
    }
}
