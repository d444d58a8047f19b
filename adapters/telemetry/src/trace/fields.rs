//! Bytes of protobuf messages, written field by field where they are sent from.

use prost::bytes::Bytes;

/// How a field is told, in the last three bits of its key.
const NUMBER: u64 = 0;
const EIGHT_BYTES: u64 = 1;
const LENGTH: u64 = 2;
const FOUR_BYTES: u64 = 5;

/// Numbers of the fields of an attribute, and of its value.
const NAME: u64 = 1;
const VALUE: u64 = 2;
const TEXT: u64 = 1;
const WHOLE: u64 = 3;

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
    pub(super) fn long(field: u64, bytes: usize) -> usize {
        length_of(field << 3) + length_of(whole(bytes)) + bytes
    }

    /// Fields that were written before.
    pub(super) fn append(&mut self, fields: &[u8]) {
        self.0.extend_from_slice(fields);
    }

    /// A text, bytes, or a message.
    pub(super) fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.length(field, bytes.len());
        self.0.extend_from_slice(bytes);
    }

    /// What comes before so many bytes.
    pub(super) fn length(&mut self, field: u64, bytes: usize) {
        self.varint(field << 3 | LENGTH);
        self.varint(whole(bytes));
    }

    pub(super) fn number(&mut self, field: u64, number: u64) {
        self.varint(field << 3 | NUMBER);
        self.varint(number);
    }

    pub(super) fn eight_bytes(&mut self, field: u64, number: u64) {
        self.varint(field << 3 | EIGHT_BYTES);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn four_bytes(&mut self, field: u64, number: u32) {
        self.varint(field << 3 | FOUR_BYTES);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// A name with a value, as OTLP has them everywhere.
    pub(super) fn attribute(&mut self, field: u64, name: &str, value: Value<'_>) {
        let told = match value {
            Value::Text(text) => Self::long(TEXT, text.len()),
            Value::Whole(number) => 1 + length_of(number.cast_unsigned()),
        };
        self.length(field, Self::long(NAME, name.len()) + Self::long(VALUE, told));
        self.bytes(NAME, name.as_bytes());
        self.length(VALUE, told);
        match value {
            Value::Text(text) => self.bytes(TEXT, text.as_bytes()),
            Value::Whole(number) => self.number(WHOLE, number.cast_unsigned()),
        }
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            let [low, ..] = number.to_le_bytes();
            self.0.push(low | 0x80);
            number >>= 7;
        }
        let [last, ..] = number.to_le_bytes();
        self.0.push(last);
    }
}

fn whole(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// How many bytes a number takes, seven bits in each.
fn length_of(number: u64) -> usize {
    usize::try_from((number | 1).ilog2() / 7).unwrap_or(9) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_library_writes_them() {
        for number in [0, 1, 127, 128, 16_383, 16_384, 1 << 35, u64::MAX >> 1, u64::MAX] {
            let mut fields = Fields::default();
            fields.varint(number);
            let mut wanted = Vec::new();
            prost::encoding::encode_varint(number, &mut wanted);
            assert_eq!(fields.as_bytes(), wanted, "{number}");
            assert_eq!(length_of(number), wanted.len(), "{number}");
        }
    }
}
