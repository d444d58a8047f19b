//! The part of OTLP that is spoken here: spans on their way out, and what a collector says to them.
//!
//! Field numbers are those of its public specification. The collector of the proofs has its messages
//! from elsewhere, so that what is written here is read there as everybody else reads it.

use prost::Message;
use prost::bytes::Bytes;

use super::fields::{Fields, Value};

/// The method that takes spans.
pub(super) const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// Bytes that most spans need.
const ROOM: usize = 384;
/// Most that is said about one span.
const MOST_ATTRIBUTES: u8 = 32;

/// Field numbers of a span.
mod span {
    pub(super) const TRACE: u32 = 1;
    pub(super) const ID: u32 = 2;
    pub(super) const STATE: u32 = 3;
    pub(super) const PARENT: u32 = 4;
    pub(super) const NAME: u32 = 5;
    pub(super) const KIND: u32 = 6;
    pub(super) const START: u32 = 7;
    pub(super) const END: u32 = 8;
    pub(super) const ATTRIBUTE: u32 = 9;
    pub(super) const STATUS: u32 = 15;
    pub(super) const FLAGS: u32 = 16;
}

/// Field numbers of how a span went, and the code of what went badly.
const MESSAGE: u32 = 2;
const CODE: u32 = 3;
const FAILED: u64 = 2;

/// Where spans stand in a request: request, resource, scope.
const ALL: u32 = 1;
const RESOURCE: u32 = 1;
const SCOPES: u32 = 2;
const SCOPE: u32 = 1;
const SPAN: u32 = 2;

/// What is known of a span when it begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun<'a> {
    pub(super) trace: u128,
    pub(super) id: u64,
    /// What others keep in the trace.
    pub(super) state: Option<&'a str>,
    pub(super) parent: Option<u64>,
    pub(super) name: &'a str,
    pub(super) kind: u64,
    /// Nanoseconds since 1970.
    pub(super) start: u64,
}

/// Something that takes time, in the bytes that are sent of it: what is known of it is written at once.
#[derive(Debug)]
pub(super) struct Span {
    fields: Fields,
    start: u64,
    attributes: u8,
}

impl Span {
    pub(super) fn begin(begun: &Begun<'_>) -> Self {
        let Begun { trace, id, state, parent, name, kind, start } = begun;
        let mut fields = Fields::with_room(ROOM);
        fields.bytes(span::TRACE, &trace.to_be_bytes());
        fields.bytes(span::ID, &id.to_be_bytes());
        if let Some(state) = state {
            fields.bytes(span::STATE, state.as_bytes());
        }
        if let Some(parent) = parent {
            fields.bytes(span::PARENT, &parent.to_be_bytes());
        }
        fields.bytes(span::NAME, name.as_bytes());
        fields.number(span::KIND, *kind);
        fields.eight_bytes(span::START, *start);
        // What whoever called said of the trace: it is written down.
        fields.four_bytes(span::FLAGS, 1);
        Self { fields, start: *start, attributes: 0 }
    }

    pub(super) fn set(&mut self, name: &str, value: Value<'_>) {
        if self.attributes < MOST_ATTRIBUTES {
            self.attributes += 1;
            self.fields.attribute(span::ATTRIBUTE, name, value);
        }
    }

    /// It went badly. What is said last counts.
    pub(super) fn fail(&mut self, why: &str) {
        let mut status = Fields::default();
        status.bytes(MESSAGE, why.as_bytes());
        status.number(CODE, FAILED);
        self.fields.bytes(span::STATUS, status.as_bytes());
    }

    /// It is over, and can be sent. A clock that was set back does not make it end before it began.
    pub(super) fn end(mut self, at: u64) -> Fields {
        self.fields.eight_bytes(span::END, at.max(self.start));
        self.fields
    }
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

/// Who sends spans: written once, in front of all of them.
#[derive(Debug)]
pub(super) struct Sender {
    resource: Fields,
    scope: Fields,
}

impl Sender {
    pub(super) fn new<'a>(attributes: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let (mut said, mut named) = (Fields::default(), Fields::default());
        for (name, value) in attributes {
            said.attribute(1, name, value.into());
        }
        named.bytes(1, b"persys");
        let (mut resource, mut scope) = (Fields::default(), Fields::default());
        resource.bytes(RESOURCE, said.as_bytes());
        scope.bytes(SCOPE, named.as_bytes());
        Self { resource, scope }
    }

    /// The request that sends these spans.
    pub(super) fn request(&self, spans: &Spans) -> Bytes {
        let (resource, scope, spans) =
            (self.resource.as_bytes(), self.scope.as_bytes(), spans.0.as_bytes());
        let inner = scope.len() + spans.len();
        let outer = resource.len() + Fields::long(SCOPES, inner);
        let mut request = Fields::with_room(Fields::long(ALL, outer));
        request.length(ALL, outer);
        request.append(resource);
        request.length(SCOPES, inner);
        request.append(scope);
        request.append(spans);
        request.into_bytes()
    }
}

/// Spans that are sent together, one after the other.
#[derive(Debug, Default)]
pub(super) struct Spans(Fields);

impl Spans {
    pub(super) fn with_room(bytes: usize) -> Self {
        Self(Fields::with_room(bytes))
    }

    pub(super) fn push(&mut self, ended: &Fields) {
        self.0.bytes(SPAN, ended.as_bytes());
    }

    pub(super) fn len(&self) -> usize {
        self.0.as_bytes().len()
    }

    /// None of them, with the room they had.
    pub(super) fn emptied(self) -> Self {
        Self(self.0.emptied())
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value;

    use super::*;

    #[test]
    fn what_is_written_is_read_as_everybody_reads_it() {
        let written = |name: &str| {
            let mut span = Span::begin(&Begun {
                trace: u128::from_be_bytes([7; 16]),
                id: u64::from_be_bytes([8; 8]),
                state: Some("a=b"),
                parent: Some(u64::from_be_bytes([9; 8])),
                name,
                kind: 3,
                start: 1_700_000_000_000_000_001,
            });
            span.set("text", "ä".into());
            span.fail("before");
            span.set("number", (-5).into());
            span.fail("why");
            span.end(1_700_000_000_000_000_002)
        };
        let long = "x".repeat(300);
        let mut spans = Spans::default();
        spans.push(&written("one"));
        spans.push(&written(&long));
        let sender = Sender::new([("service.name", "persys-test")]);
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

    #[test]
    fn a_span_ends_after_it_began_and_says_so_much_at_most() {
        let (trace, id, start) = (1, 2, 10);
        let (state, parent) = (None, None);
        let mut span =
            Span::begin(&Begun { trace, id, state, parent, name: "one", kind: 1, start });
        for number in 0..100 {
            span.set("number", number.into());
        }
        let mut spans = Spans::default();
        spans.push(&span.end(9));
        let request = Sender::new([]).request(&spans);
        let read = ExportTraceServiceRequest::decode(request).unwrap();
        let span = &read.resource_spans[0].scope_spans[0].spans[0];
        assert_eq!((span.start_time_unix_nano, span.end_time_unix_nano), (10, 10));
        assert_eq!(span.attributes.len(), usize::from(MOST_ATTRIBUTES));
        assert!(span.parent_span_id.is_empty() && span.status.is_none());
    }
}
