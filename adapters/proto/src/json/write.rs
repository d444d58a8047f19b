//! From bytes to JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message as _;
use prost_types::{DescriptorProto, FieldDescriptorProto};
use serde_json::{Map, Value};

use super::Style;
use super::bytes::{Raw, take_field, take_number};
use super::schema::{self, Holds};

/// The message as JSON. Bytes that are none are shown as nothing: they come from an encoder.
pub(super) fn message(name: &str, bytes: &[u8], style: Style) -> Value {
    let Some(described) = schema::of(name) else { return Value::Null };
    let mut shown = Map::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let Some((number, raw)) = take_field(&mut rest) else { break };
        let known = |field: &&FieldDescriptorProto| u64::try_from(field.number()) == Ok(number);
        let Some(field) = described.field.iter().find(known) else { continue };
        let Some(holds) = schema::holds(field) else { continue };
        let key = match style {
            Style::Plain | Style::Snake => field.name().to_owned(),
            Style::Camel => schema::camel(field.name()),
        };
        add(&mut shown, key, field, (holds, raw), style);
    }
    Value::Object(shown)
}

fn add(
    shown: &mut Map<String, Value>,
    key: String,
    field: &FieldDescriptorProto,
    (holds, raw): (Holds, Raw<'_>),
    style: Style,
) {
    if let (Holds::Message(name), Raw::Bytes(bytes)) = (holds, raw)
        && let Some(entry) = schema::map_entry(name)
    {
        let map = shown.entry(key).or_insert_with(|| Value::Object(Map::new()));
        if let (Some(map), (name, value)) = (map.as_object_mut(), pair(entry, bytes, style)) {
            map.insert(name, value);
        }
        return;
    }
    if !schema::repeated(field) {
        shown.insert(key, single(holds, raw, style));
        return;
    }
    let list = shown.entry(key).or_insert_with(|| Value::Array(Vec::new()));
    let Some(list) = list.as_array_mut() else { return };
    match (holds, raw) {
        // Numbers of a list stand together in one field.
        (Holds::Number { .. } | Holds::Flag | Holds::Choice(_), Raw::Bytes(mut packed)) => {
            while let Some(number) = take_number(&mut packed) {
                list.push(single(holds, Raw::Number(number), style));
            }
        }
        _ => list.push(single(holds, raw, style)),
    }
}

fn pair(entry: &'static DescriptorProto, bytes: &[u8], style: Style) -> (String, Value) {
    let (mut key, mut value) = (String::new(), Value::String(String::new()));
    let mut rest = bytes;
    while let Some((number, raw)) = take_field(&mut rest) {
        match (number, raw) {
            (1, Raw::Bytes(text)) => key = String::from_utf8_lossy(text).into_owned(),
            (2, raw) => {
                let holds = entry.field.get(1).and_then(schema::holds);
                value = holds.map_or(Value::Null, |holds| single(holds, raw, style));
            }
            _ => {}
        }
    }
    (key, value)
}

fn single(holds: Holds, raw: Raw<'_>, style: Style) -> Value {
    match (holds, raw) {
        (Holds::Text, Raw::Bytes(bytes)) => String::from_utf8_lossy(bytes).into_owned().into(),
        (Holds::Bytes, Raw::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        (Holds::Flag, Raw::Number(number)) => (number != 0).into(),
        (Holds::Number { bits, signed }, Raw::Number(number)) => {
            let signed_value = i64::from_le_bytes(number.to_le_bytes());
            match (style, bits, signed) {
                (Style::Camel | Style::Snake, 64, true) => signed_value.to_string().into(),
                (Style::Camel | Style::Snake, 64, false) => number.to_string().into(),
                (_, _, true) => signed_value.into(),
                (_, _, false) => number.into(),
            }
        }
        (Holds::Fraction, Raw::Eight(bits)) => f64::from_bits(bits).into(),
        (Holds::Choice(name), Raw::Number(number)) => {
            let signed = i64::from_le_bytes(number.to_le_bytes());
            schema::enum_word(name, signed).map_or_else(|| signed.into(), Into::into)
        }
        (Holds::Message(schema::TIMESTAMP), Raw::Bytes(bytes)) => {
            prost_types::Timestamp::decode(bytes)
                .map_or(Value::Null, |moment| moment.to_string().into())
        }
        (Holds::Message(name), Raw::Bytes(bytes)) => message(name, bytes, style),
        _ => Value::Null,
    }
}
