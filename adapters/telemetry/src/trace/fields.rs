//! Bytes of protobuf messages, written field by field where they are sent from, with what the code that
//! is generated for messages is written with.

use prost::bytes::Bytes;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

/// Numbers of the fields of an attribute, and of its value.
const NAME: u32 = 1;
const VALUE: u32 = 2;
const TEXT: u32 = 1;
const WHOLE: u32 = 3;

/// What is said about something: a text or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A text.
    Text(&'a str),
    /// A number.
    Whole(i64),
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Whole(number)
    }
}

/// The fields of a message, one after the other.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<u8>);

impl Fields {
    pub(super) fn with_room(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn into_bytes(self) -> Bytes {
        self.0.into()
    }

    /// None of them, with the room they had.
    pub(super) fn emptied(mut self) -> Self {
        self.0.clear();
        self
    }

    /// How long a field of so many bytes is with what comes before them.
    pub(super) fn long(field: u32, bytes: usize) -> usize {
        key_len(field) + encoded_len_varint(whole(bytes)) + bytes
    }

    /// Fields that were written before.
    pub(super) fn append(&mut self, fields: &[u8]) {
        self.0.extend_from_slice(fields);
    }

    /// A text, bytes, or a message.
    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.length(field, bytes.len());
        self.0.extend_from_slice(bytes);
    }

    /// What comes before so many bytes.
    pub(super) fn length(&mut self, field: u32, bytes: usize) {
        encode_key(field, WireType::LengthDelimited, &mut self.0);
        encode_varint(whole(bytes), &mut self.0);
    }

    pub(super) fn number(&mut self, field: u32, number: u64) {
        encode_key(field, WireType::Varint, &mut self.0);
        encode_varint(number, &mut self.0);
    }

    pub(super) fn eight_bytes(&mut self, field: u32, number: u64) {
        encode_key(field, WireType::SixtyFourBit, &mut self.0);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn four_bytes(&mut self, field: u32, number: u32) {
        encode_key(field, WireType::ThirtyTwoBit, &mut self.0);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// A name with a value, as OTLP has them everywhere.
    pub(super) fn attribute(&mut self, field: u32, name: &str, value: Value<'_>) {
        let told = match value {
            Value::Text(text) => Self::long(TEXT, text.len()),
            Value::Whole(number) => key_len(WHOLE) + encoded_len_varint(number.cast_unsigned()),
        };
        self.length(field, Self::long(NAME, name.len()) + Self::long(VALUE, told));
        self.bytes(NAME, name.as_bytes());
        self.length(VALUE, told);
        match value {
            Value::Text(text) => self.bytes(TEXT, text.as_bytes()),
            Value::Whole(number) => self.number(WHOLE, number.cast_unsigned()),
        }
    }
}

fn whole(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
