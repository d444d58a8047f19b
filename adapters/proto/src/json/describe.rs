//! The contract as JSON Schema, for descriptions of HTTP interfaces.

use std::collections::BTreeMap;

use prost_types::{DescriptorProto, FieldDescriptorProto};
use serde_json::{Map, Value, json};

use super::schema::{self, Holds};

/// What a method takes and gives, by the full names of its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Method {
    /// What it takes.
    pub input: &'static str,
    /// What it gives.
    pub output: &'static str,
    /// Whether it takes one message and gives one.
    pub is_unary: bool,
}

/// The method at this path, such as `/persys.control.v1.AgentControl/GetNode`.
#[must_use]
pub fn method(path: &str) -> Option<Method> {
    let found = schema::method(path)?;
    Some(Method {
        input: found.input_type().trim_start_matches('.'),
        output: found.output_type().trim_start_matches('.'),
        is_unary: !found.client_streaming() && !found.server_streaming(),
    })
}

/// Adds the schema of a message, as [`Style::Snake`](super::Style::Snake) shows it, and those of all
/// messages inside it, each under its full name.
pub fn schema(name: &str, into: &mut BTreeMap<String, Value>) {
    let name = name.trim_start_matches('.');
    if into.contains_key(name) {
        return;
    }
    let Some(message) = schema::of(name) else { return };
    // Its place is taken before what is inside it is looked at: a message may hold itself.
    into.insert(name.to_owned(), Value::Null);
    let described = object(message, into);
    into.insert(name.to_owned(), described);
}

fn object(message: &'static DescriptorProto, into: &mut BTreeMap<String, Value>) -> Value {
    let mut properties = Map::new();
    for field in &message.field {
        if let Some(described) = property(field, into) {
            properties.insert(field.name().to_owned(), described);
        }
    }
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

fn property(
    field: &'static FieldDescriptorProto,
    into: &mut BTreeMap<String, Value>,
) -> Option<Value> {
    let holds = schema::holds(field)?;
    if let Holds::Message(name) = holds
        && let Some(entry) = schema::map_entry(name)
    {
        let value = entry.field.get(1).and_then(schema::holds)?;
        return Some(json!({"type": "object", "additionalProperties": one(value, into)}));
    }
    let single = one(holds, into);
    Some(if schema::repeated(field) { json!({"type": "array", "items": single}) } else { single })
}

fn one(holds: Holds, into: &mut BTreeMap<String, Value>) -> Value {
    match holds {
        Holds::Text => json!({"type": "string"}),
        Holds::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
        Holds::Flag => json!({"type": "boolean"}),
        Holds::Number { bits: 64, signed: true } => {
            json!({"type": ["string", "integer"], "format": "int64", "pattern": "^-?[0-9]+$"})
        }
        Holds::Number { bits: 64, signed: false } => {
            json!({"type": ["string", "integer"], "format": "uint64", "pattern": "^[0-9]+$", "minimum": 0})
        }
        Holds::Number { signed: true, .. } => json!({"type": "integer", "format": "int32"}),
        Holds::Number { signed: false, .. } => json!({"type": "integer", "minimum": 0}),
        Holds::Fraction => json!({"type": "number"}),
        Holds::Choice(name) => {
            let words: Vec<_> =
                schema::enum_values(name).into_iter().map(|(word, _)| word).collect();
            json!({"type": "string", "enum": words})
        }
        Holds::Message(schema::TIMESTAMP) => json!({"type": "string", "format": "date-time"}),
        Holds::Message(name) => {
            schema(name, into);
            let name = name.trim_start_matches('.');
            json!({"$ref": format!("#/components/schemas/{name}")})
        }
    }
}
