//! From JSON to bytes, with every fault named.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use persys_model::fault::Faults;
use prost::Message as _;
use prost_types::FieldDescriptorProto;
use serde_json::{Map, Value};

use super::bytes::{EIGHT, NUMBER, put_bytes, put_key, put_number};
use super::schema::{self, Holds};

/// Entries of one list or map: more than any limit of the model, less than what hurts.
const MOST_ENTRIES: usize = 4096;

/// The bytes of the message; of use only if no fault was added.
pub(super) fn message(faults: &mut Faults, name: &str, path: &str, value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    let Some(described) = schema::of(name) else {
        faults.push(path, format!("there is no message {name}"));
        return bytes;
    };
    let Value::Object(object) = value else {
        faults.push(path, format!("must be an object, not {}", kind(value)));
        return bytes;
    };
    let mut seen: Vec<&str> = Vec::new();
    let mut groups: Vec<(i32, &str)> = Vec::new();
    for (key, value) in object {
        let here = join(path, key);
        let named = |field: &&FieldDescriptorProto| {
            field.name() == key || schema::camel(field.name()) == *key
        };
        let Some(field) = described.field.iter().find(named) else {
            faults.push(here, unknown(name, key));
            continue;
        };
        if seen.contains(&field.name()) {
            faults.push(here, format!("is given twice, also as {}", field.name()));
            continue;
        }
        seen.push(field.name());
        if value.is_null() {
            continue;
        }
        if let Some(group) = field.oneof_index {
            if let Some((_, other)) = groups.iter().find(|(taken, _)| *taken == group) {
                faults.push(here, format!("is given beside {other}; give one of them"));
                continue;
            }
            groups.push((group, field.name()));
        }
        one_field(faults, field, &here, value, &mut bytes);
    }
    bytes
}

fn one_field(
    faults: &mut Faults,
    field: &'static FieldDescriptorProto,
    path: &str,
    value: &Value,
    bytes: &mut Vec<u8>,
) {
    let Some(holds) = schema::holds(field) else {
        return faults.push(path, "is of a kind that cannot be written");
    };
    if let Holds::Message(name) = holds
        && let Some(entry) = schema::map_entry(name)
    {
        let Value::Object(object) = value else {
            return faults.push(path, format!("must be an object of texts, not {}", kind(value)));
        };
        return map(faults, (field, entry), path, object, bytes);
    }
    if !schema::repeated(field) {
        return single(faults, (field.number(), holds), path, value, bytes);
    }
    let Value::Array(list) = value else {
        return faults.push(path, format!("must be a list, not {}", kind(value)));
    };
    if list.len() > MOST_ENTRIES {
        return faults.push(path, too_many(list.len()));
    }
    for (nth, value) in list.iter().enumerate() {
        single(faults, (field.number(), holds), &format!("{path}[{nth}]"), value, bytes);
    }
}

fn map(
    faults: &mut Faults,
    (field, entry): (&FieldDescriptorProto, &'static prost_types::DescriptorProto),
    path: &str,
    object: &Map<String, Value>,
    bytes: &mut Vec<u8>,
) {
    if object.len() > MOST_ENTRIES {
        return faults.push(path, too_many(object.len()));
    }
    for (key, value) in object {
        let mut pair = Vec::new();
        put_bytes(&mut pair, 1, key.as_bytes());
        if let Some(holds) = entry.field.get(1).and_then(schema::holds) {
            single(faults, (2, holds), &join(path, key), value, &mut pair);
        }
        put_bytes(bytes, field.number(), &pair);
    }
}

fn single(
    faults: &mut Faults,
    (number, holds): (i32, Holds),
    path: &str,
    value: &Value,
    bytes: &mut Vec<u8>,
) {
    let wrong = |wanted: &str| format!("must be {wanted}, not {}", kind(value));
    match holds {
        Holds::Text => match value {
            Value::String(text) => put_bytes(bytes, number, text.as_bytes()),
            Value::Number(_) | Value::Bool(_) => {
                faults.push(path, wrong("a text") + "; put it in quotes");
            }
            Value::Null | Value::Array(_) | Value::Object(_) => faults.push(path, wrong("a text")),
        },
        Holds::Bytes => match value.as_str().and_then(|text| STANDARD.decode(text).ok()) {
            Some(found) => put_bytes(bytes, number, &found),
            None => faults.push(path, wrong("base64")),
        },
        Holds::Flag => match value.as_bool() {
            Some(flag) => {
                put_key(bytes, number, NUMBER);
                put_number(bytes, u64::from(flag));
            }
            None => faults.push(path, wrong("true or false")),
        },
        Holds::Number { bits, signed } => match whole(value, bits, signed) {
            Some(whole) => {
                put_key(bytes, number, NUMBER);
                put_number(bytes, whole);
            }
            None if signed => {
                faults.push(path, wrong(&format!("a whole number of {bits} bits")));
            }
            None => {
                faults.push(path, wrong(&format!("a whole number of {bits} bits, not below 0")));
            }
        },
        Holds::Fraction => match value.as_f64() {
            Some(fraction) => {
                put_key(bytes, number, EIGHT);
                bytes.extend_from_slice(&fraction.to_le_bytes());
            }
            None => faults.push(path, wrong("a number")),
        },
        Holds::Choice(name) => choice(faults, (number, name), path, value, bytes),
        Holds::Message(schema::TIMESTAMP) => {
            let moment = value.as_str().and_then(|text| text.parse().ok());
            match moment.map(|moment: prost_types::Timestamp| moment.encode_to_vec()) {
                Some(moment) => put_bytes(bytes, number, &moment),
                None => faults.push(path, wrong("a moment such as 2026-01-31T12:00:00Z")),
            }
        }
        Holds::Message(name) => {
            let inner = message(faults, name, path, value);
            put_bytes(bytes, number, &inner);
        }
    }
}

fn choice(
    faults: &mut Faults,
    (number, name): (i32, &str),
    path: &str,
    value: &Value,
    bytes: &mut Vec<u8>,
) {
    let known = schema::enum_values(name);
    let found = match value {
        Value::String(word) => known.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)),
        Value::Number(number) => {
            known.iter().find(|(_, value)| number.as_i64() == Some(i64::from(*value)))
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    if let Some((_, value)) = found {
        put_key(bytes, number, NUMBER);
        put_number(bytes, u64::from_le_bytes(i64::from(*value).to_le_bytes()));
    } else {
        let words: Vec<_> = known.iter().map(|(word, _)| *word).collect();
        faults.push(path, format!("must be one of {}", words.join(", ")));
    }
}

/// A whole number within its bits, also as text, as the bits on the wire.
fn whole(value: &Value, bits: u8, signed: bool) -> Option<u64> {
    let number: i128 = match value {
        Value::Number(number) => {
            number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))?
        }
        Value::String(text) => text.parse().ok()?,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    match (bits, signed) {
        (32, true) => i32::try_from(number).ok().map(i64::from),
        (32, false) => u32::try_from(number).ok().map(i64::from),
        (_, true) => i64::try_from(number).ok(),
        (_, false) => return u64::try_from(number).ok(),
    }
    .map(|number| u64::from_le_bytes(number.to_le_bytes()))
}

fn unknown(message: &str, key: &str) -> String {
    let short = message.rsplit('.').next().unwrap_or(message);
    let keys = super::keys(message);
    format!("{short} has no key {key:?}; its keys are {}", keys.join(", "))
}

fn too_many(entries: usize) -> String {
    format!("has {entries} entries; at most {MOST_ENTRIES} are allowed")
}

fn join(path: &str, key: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    match (path.is_empty(), key.chars().all(plain) && !key.is_empty()) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{key:?}]"),
    }
}

/// What a value is, for a person.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
