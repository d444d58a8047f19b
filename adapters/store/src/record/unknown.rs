//! Fields of a record that its shape does not know.
//!
//! They are what is left of the stored JSON once everything is taken away that the shape writes
//! itself. Objects are compared field by field, at any depth; lists are taken as a whole, since
//! their entries have no names: a field unknown inside a list entry does not survive a rewrite.

use serde_json::{Map, Value};

/// Fields to be put back when the record is written again.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Unknown(Map<String, Value>);

impl Unknown {
    /// What `stored` has beyond `known`, without the names that are `made` anew whenever the record
    /// is written; `None` when that is nothing.
    pub(crate) fn between(stored: &[u8], known: &[u8], made: &[&str]) -> Option<Self> {
        let stored = serde_json::from_slice(stored).ok()?;
        let known = serde_json::from_slice(known).ok()?;
        let mut beyond = beyond(stored, &known);
        beyond.retain(|field, _| !made.contains(&field.as_str()));
        (!beyond.is_empty()).then_some(Self(beyond))
    }

    /// Puts the fields back, where the object they stood in is still there and has no such field.
    pub(crate) fn merge_into(&self, value: &mut Value) {
        if let Value::Object(fields) = value {
            merge(fields, &self.0);
        }
    }
}

fn beyond(stored: Map<String, Value>, known: &Map<String, Value>) -> Map<String, Value> {
    let mut rest = Map::new();
    for (field, value) in stored {
        match (value, known.get(&field)) {
            (value, None) => {
                rest.insert(field, value);
            }
            (Value::Object(inner), Some(Value::Object(known))) => {
                let inner = beyond(inner, known);
                if !inner.is_empty() {
                    rest.insert(field, Value::Object(inner));
                }
            }
            (_, Some(_)) => {}
        }
    }
    rest
}

fn merge(fields: &mut Map<String, Value>, unknown: &Map<String, Value>) {
    for (field, value) in unknown {
        match (fields.get_mut(field), value) {
            (None, value) => {
                fields.insert(field.clone(), value.clone());
            }
            (Some(Value::Object(inner)), Value::Object(unknown)) => merge(inner, unknown),
            (Some(_), _) => {}
        }
    }
}
