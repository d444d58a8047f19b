//! The part of OTLP that is spoken here: spans on their way out, and what a collector says to them.
//!
//! Field numbers are those of its public specification. The collector of the proofs has its messages
//! from elsewhere, so that what is written here is read there as everybody else reads it.

use prost::bytes::{BufMut as _, Bytes, BytesMut};
use prost::{Message, Oneof};

/// The method that takes spans.
pub(super) const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// What goes before the first and the second field of a message, where that has a length.
const FIRST: u8 = 1 << 3 | 2;
const SECOND: u8 = 2 << 3 | 2;

/// What is said about something.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Attribute {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<Any>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Any {
    #[prost(oneof = "Value", tags = "1, 3")]
    pub(super) value: Option<Value>,
}

/// A text or a number.
#[derive(Clone, PartialEq, Oneof)]
pub enum Value {
    /// A text.
    #[prost(string, tag = "1")]
    Text(String),
    /// A number.
    #[prost(int64, tag = "3")]
    Whole(i64),
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Whole(number)
    }
}

impl Attribute {
    pub(super) fn new(key: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { key: key.into(), value: Some(Any { value: Some(value.into()) }) }
    }
}

/// Something that took time.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) trace: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) id: Vec<u8>,
    #[prost(string, tag = "3")]
    pub(super) state: String,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) parent: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(super) name: String,
    #[prost(int32, tag = "6")]
    pub(super) kind: i32,
    /// Nanoseconds since 1970.
    #[prost(fixed64, tag = "7")]
    pub(super) start: u64,
    #[prost(fixed64, tag = "8")]
    pub(super) end: u64,
    #[prost(message, repeated, tag = "9")]
    pub(super) attributes: Vec<Attribute>,
    #[prost(message, optional, tag = "15")]
    pub(super) status: Option<Status>,
    /// What whoever called said of the trace.
    #[prost(fixed32, tag = "16")]
    pub(super) flags: u32,
}

/// How it went; said only where it went badly.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Status {
    #[prost(string, tag = "2")]
    pub(super) message: String,
    #[prost(int32, tag = "3")]
    pub(super) code: i32,
}

/// The code of what went badly.
pub(super) const FAILED: i32 = 2;

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
}

/// What a collector answers.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Taken {
    #[prost(message, optional, tag = "1")]
    pub(super) partly: Option<Partly>,
}

/// It did not take everything.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Partly {
    #[prost(int64, tag = "1")]
    pub(super) rejected: i64,
    #[prost(string, tag = "2")]
    pub(super) why: String,
}

impl Span {
    /// In the form in which several of them, one after the other, can be sent.
    pub(super) fn written(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.encoded_len() + 6);
        bytes.push(SECOND);
        // What grows has room.
        self.encode_length_delimited(&mut bytes).ok();
        bytes
    }
}

/// Who sends spans: written once, in front of all of them.
#[derive(Debug, Clone)]
pub(super) struct Sender {
    resource: Bytes,
    scope: Bytes,
}

impl Sender {
    pub(super) fn new(attributes: Vec<Attribute>) -> Self {
        let scope = Scope { name: "persys".to_owned() };
        Self { resource: first(&Resource { attributes }), scope: first(&scope) }
    }

    /// The request that sends these spans, as they were written.
    pub(super) fn request(&self, spans: &[u8]) -> Bytes {
        let inner = self.scope.len() + spans.len();
        let outer = self.resource.len() + 1 + prost::length_delimiter_len(inner) + inner;
        let mut bytes = BytesMut::with_capacity(outer + 1 + prost::length_delimiter_len(outer));
        bytes.put_u8(FIRST);
        prost::encode_length_delimiter(outer, &mut bytes).ok();
        bytes.put_slice(&self.resource);
        bytes.put_u8(SECOND);
        prost::encode_length_delimiter(inner, &mut bytes).ok();
        bytes.put_slice(&self.scope);
        bytes.put_slice(spans);
        bytes.freeze()
    }
}

fn first(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(FIRST);
    message.encode_length_delimited(&mut bytes).ok();
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value;

    use super::*;

    #[test]
    fn what_is_written_is_read_as_everybody_reads_it() {
        let span = |name: &str| Span {
            trace: vec![7; 16],
            id: vec![8; 8],
            state: "a=b".to_owned(),
            parent: vec![9; 8],
            name: name.to_owned(),
            kind: 3,
            start: 1_700_000_000_000_000_001,
            end: 1_700_000_000_000_000_002,
            attributes: vec![Attribute::new("text", "ä"), Attribute::new("number", -5)],
            status: Some(Status { message: "why".to_owned(), code: FAILED }),
            flags: 1,
        };
        let long = "x".repeat(300);
        let mut spans = span("one").written();
        spans.extend(span(&long).written());
        let sender = Sender::new(vec![Attribute::new("service.name", "persys-test")]);
        let read = ExportTraceServiceRequest::decode(sender.request(&spans)).unwrap();
        let [all] = read.resource_spans.as_slice() else { panic!("{read:?}") };
        assert_eq!(all.resource.as_ref().unwrap().attributes[0].key, "service.name");
        let [scope] = all.scope_spans.as_slice() else { panic!("{all:?}") };
        assert_eq!(scope.scope.as_ref().unwrap().name, "persys");
        let [one, other] = scope.spans.as_slice() else { panic!("{scope:?}") };
        assert_eq!((one.name.as_str(), &other.name), ("one", &long));
        assert_eq!((&one.trace_id, &one.span_id), (&vec![7; 16], &vec![8; 8]));
        assert_eq!((&one.parent_span_id, one.trace_state.as_str()), (&vec![9; 8], "a=b"));
        assert_eq!((one.kind, one.flags), (3, 1));
        assert_eq!(one.end_time_unix_nano - one.start_time_unix_nano, 1);
        let status = one.status.as_ref().unwrap();
        assert_eq!((status.code, status.message.as_str()), (2, "why"));
        let values: Vec<_> =
            one.attributes.iter().map(|one| one.value.clone().unwrap().value.unwrap()).collect();
        let text = any_value::Value::StringValue("ä".to_owned());
        assert_eq!(values, [text, any_value::Value::IntValue(-5)]);
    }
}
