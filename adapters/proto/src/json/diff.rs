//! Differences between two messages, field by field.

use std::collections::BTreeMap;

use serde_json::Value;

/// One field that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its path, as in `container.ports[0].host_port`.
    pub path: String,
    /// Its value before; empty where it was added.
    pub before: String,
    /// Its value after; empty where it was removed.
    pub after: String,
}

/// The fields that differ, in the order of their paths.
#[must_use]
pub fn diff(before: &Value, after: &Value) -> Vec<Difference> {
    let (mut old, mut new) = (BTreeMap::new(), BTreeMap::new());
    flatten(before, "", &mut old);
    flatten(after, "", &mut new);
    let mut paths: Vec<&String> = old.keys().chain(new.keys()).collect();
    paths.sort();
    paths.dedup();
    let text =
        |side: &BTreeMap<String, String>, path: &str| side.get(path).cloned().unwrap_or_default();
    let differs = |path: &&&String| old.get(**path) != new.get(**path);
    let difference = |path: &String| Difference {
        path: path.clone(),
        before: text(&old, path),
        after: text(&new, path),
    };
    paths.iter().filter(differs).map(|path| difference(path)).collect()
}

fn flatten(value: &Value, path: &str, into: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (key, inner) in fields {
                let at = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(inner, &at, into);
            }
        }
        Value::Array(items) => {
            for (at, inner) in items.iter().enumerate() {
                flatten(inner, &format!("{path}[{at}]"), into);
            }
        }
        Value::Null => {}
        Value::String(text) => drop(into.insert(path.to_owned(), text.clone())),
        Value::Bool(_) | Value::Number(_) => drop(into.insert(path.to_owned(), value.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_field_that_differs_is_named_once() {
        let before =
            json!({"container": {"image": "a:1", "env": {"A": "1", "B": "2"}}, "ports": [80]});
        let after = json!({"container": {"image": "a:2", "env": {"A": "1"}}, "ports": [80, 443]});
        let told: Vec<_> = diff(&before, &after)
            .into_iter()
            .map(|one| format!("{} {:?} {:?}", one.path, one.before, one.after))
            .collect();
        assert_eq!(
            told,
            [r#"container.env.B "2" """#, r#"container.image "a:1" "a:2""#, r#"ports[1] "" "443""#]
        );
        assert!(diff(&after, &after).is_empty());
    }
}
