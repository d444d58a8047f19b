//! Where in which trace something happens, and who writes it down.
//!
//! A trail belongs to a request as a whole, so it is set once where the request comes in and not
//! handed from function to function; what goes on in a task of its own is given it by name.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanId, Status as SpanStatus, TraceContextExt as _,
    TraceFlags, TraceId, TraceState, Tracer as _,
};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, Span as Recorded};
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue};
use tonic::{Request, Status};

pub use opentelemetry::trace::SpanKind as Kind;

/// The headers in which a trail is told.
const PARENT: HeaderName = HeaderName::from_static("traceparent");
const STATE: HeaderName = HeaderName::from_static("tracestate");

/// Longest part of an error that is written down with a span.
const LONGEST_WHY: usize = 256;

tokio::task_local! {
    static TRAIL: Trail;
}

/// The trail of what is under way; one that leads nowhere when there is none.
#[must_use]
pub fn current() -> Trail {
    TRAIL.try_with(Trail::clone).unwrap_or_default()
}

/// Carries `work` out on `trail`.
pub fn scope<W: Future>(trail: Trail, work: W) -> impl Future<Output = W::Output> + use<W> {
    TRAIL.scope(trail, work)
}

/// Has a call tell whom it calls in which trace it is made: an interceptor for clients.
#[expect(clippy::unnecessary_wraps, reason = "this is the shape of interceptors")]
pub fn attach(mut request: Request<()>) -> Result<Request<()>, Status> {
    current().tell(request.metadata_mut().as_mut());
    Ok(request)
}

/// Who writes spans down.
pub(super) struct Recorder {
    pub(super) tracer: SdkTracer,
    /// Whether nothing is written down that whoever asked does not want written down.
    pub(super) follows: bool,
}

/// Where in which trace something happens, and who writes it down. Copies are the same.
#[derive(Clone, Default)]
pub struct Trail {
    recorder: Option<Arc<Recorder>>,
    context: Option<SpanContext>,
}

impl fmt::Debug for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Trail").field(&self.context).finish()
    }
}

impl Trail {
    pub(super) fn home(recorder: Recorder) -> Self {
        Self { recorder: Some(Arc::new(recorder)), context: None }
    }

    /// Whether anything is written down here.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.recorder.is_some()
    }

    /// The same recorder, in no trace yet.
    #[must_use]
    pub fn afresh(&self) -> Self {
        Self { recorder: self.recorder.clone(), context: None }
    }

    /// The trace, as people look for it; nothing where none is written down.
    #[must_use]
    pub fn trace_id(&self) -> Option<String> {
        let context = self.context.as_ref().filter(|context| context.is_sampled());
        context.map(|context| context.trace_id().to_string())
    }

    /// Begins a span, which ends when it is dropped.
    pub fn begin(&self, name: impl Into<Cow<'static, str>>, kind: Kind) -> Span {
        self.begin_at(name, kind, None)
    }

    /// The same for something that began before.
    pub fn begin_at(
        &self,
        name: impl Into<Cow<'static, str>>,
        kind: Kind,
        at: Option<SystemTime>,
    ) -> Span {
        let unwanted = |recorder: &&Arc<Recorder>| {
            recorder.follows && self.context.as_ref().is_some_and(|context| !context.is_sampled())
        };
        let Some(recorder) = self.recorder.as_ref().filter(|recorder| !unwanted(recorder)) else {
            return Span { recorded: None, trail: self.clone() };
        };
        let mut builder = SpanBuilder::from_name(name).with_kind(kind);
        builder.start_time = at;
        let parent = match &self.context {
            Some(context) => Context::new().with_remote_span_context(context.clone()),
            None => Context::new(),
        };
        let span = recorder.tracer.build_with_context(builder, &parent);
        let context = Some(span.span_context().clone()).filter(SpanContext::is_valid);
        let trail = Self { recorder: self.recorder.clone(), context };
        Span { recorded: Some(span).filter(Recorded::is_recording), trail }
    }

    /// The trail that the headers of a request tell of, in `traceparent`; this one where they tell of
    /// none or of nonsense.
    #[must_use]
    pub fn told(&self, headers: &HeaderMap) -> Self {
        let Some(parent) = headers.get(PARENT) else { return self.clone() };
        if let (Ok(parent), false) = (parent.to_str(), headers.contains_key(STATE)) {
            return self.told_by(parent);
        }
        let context = TraceContextPropagator::new()
            .extract_with_context(&Context::new(), &Headers(headers))
            .span()
            .span_context()
            .clone();
        if context.is_valid() {
            Self { recorder: self.recorder.clone(), context: Some(context) }
        } else {
            self.clone()
        }
    }

    /// The same, told in one text, such as the variable `TRACEPARENT`.
    #[must_use]
    pub fn told_by(&self, traceparent: &str) -> Self {
        match read(traceparent.trim()).filter(SpanContext::is_valid) {
            Some(context) => Self { recorder: self.recorder.clone(), context: Some(context) },
            None => self.clone(),
        }
    }

    /// This trail in one text; nothing where it leads nowhere.
    #[must_use]
    pub fn traceparent(&self) -> Option<String> {
        let context = self.context.as_ref()?;
        let (trace, span) = (context.trace_id(), context.span_id());
        Some(format!("00-{trace}-{span}-{:02x}", context.trace_flags().to_u8() & 1))
    }

    /// Writes this trail into the headers of a request, in place of any other.
    pub fn tell(&self, headers: &mut HeaderMap) {
        let Some(context) = &self.context else { return };
        let Some(Ok(told)) = self.traceparent().map(HeaderValue::try_from) else { return };
        headers.insert(PARENT, told);
        match HeaderValue::try_from(context.trace_state().header()) {
            Ok(state) if !state.is_empty() => headers.insert(STATE, state),
            // Without a state to tell of there is nothing to say.
            Ok(_) | Err(_) => headers.remove(STATE),
        };
    }
}

/// Reads `00-<trace>-<span>-<flags>`. What a later version says after that is left out, as the
/// recommendation has it.
fn read(text: &str) -> Option<SpanContext> {
    let mut parts = text.split('-');
    let mut hex = |digits: usize| {
        let part = parts.next().filter(|part| part.len() == digits)?;
        let plain = part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        plain.then_some(part)
    };
    let (version, trace, span, flags) = (hex(2)?, hex(32)?, hex(16)?, hex(2)?);
    let is_last = parts.next().is_none();
    if version == "ff" || version == "00" && !is_last {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let is_remote = true;
    Some(SpanContext::new(trace, span, flags, is_remote, TraceState::NONE))
}

/// Something that takes time. It ends when it is dropped.
#[derive(Default)]
pub struct Span {
    recorded: Option<Recorded>,
    trail: Trail,
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Span").field(&self.trail.context).finish()
    }
}

impl Span {
    /// Whether it is written down; what is expensive to find out is left out otherwise.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.recorded.is_some()
    }

    /// Says more about it.
    pub fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        if let Some(recorded) = &mut self.recorded {
            recorded.set_attribute(KeyValue::new(key, value));
        }
    }

    /// The same for what is shown as text.
    pub fn show(&mut self, key: &'static str, value: &dyn fmt::Display) {
        if self.is_recorded() {
            self.set(key, value.to_string());
        }
    }

    /// It did not go well.
    pub fn fail(&mut self, why: &dyn fmt::Display) {
        if let Some(recorded) = &mut self.recorded {
            let why = why.to_string();
            let why = persys_model::failure::clip(&why, LONGEST_WHY).to_owned();
            recorded.set_status(SpanStatus::error(why));
        }
    }

    /// Where what belongs to it happens.
    #[must_use]
    pub fn trail(&self) -> &Trail {
        &self.trail
    }
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn sent(trail: &Trail) -> Option<String> {
        let mut headers = HeaderMap::new();
        trail.tell(&mut headers);
        headers.get("traceparent").map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn a_process_that_writes_nothing_down_passes_on_what_it_was_told() {
        let trail = Trail::default().told_by(SAMPLED);
        let span = trail.begin("anything", Kind::Internal);
        assert!(!span.is_recorded() && !trail.is_on());
        assert_eq!(sent(span.trail()).as_deref(), Some(SAMPLED));
        assert_eq!(trail.trace_id().as_deref(), Some("0af7651916cd43dd8448eb211c80319c"));
    }

    #[test]
    fn nonsense_is_no_trail() {
        for bad in
            ["", "00", "00-0-0-01", "zz-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]
        {
            assert_eq!(sent(&Trail::default().told_by(bad)), None, "{bad}");
        }
        for bad in [
            "00-1-2-3".to_owned(),
            SAMPLED.to_uppercase(),
            SAMPLED.replacen("00-", "ff-", 1),
            format!("{SAMPLED}-more"),
            SAMPLED.replace("b7ad6b7169203331", "0000000000000000"),
        ] {
            assert_eq!(sent(&Trail::default().told_by(&bad)), None, "{bad}");
        }
        assert_eq!(sent(&Trail::default()), None);
    }

    #[test]
    fn a_text_is_read_as_the_library_reads_it() {
        let later = format!("{}-more", SAMPLED.replacen("00-", "01-", 1));
        let unsampled = SAMPLED.replace("-01", "-00");
        for text in [SAMPLED, &later, &unsampled, ""] {
            let mut headers = HeaderMap::new();
            headers.insert(PARENT, HeaderValue::from_str(text).unwrap());
            let library = TraceContextPropagator::new()
                .extract_with_context(&Context::new(), &Headers(&headers))
                .span()
                .span_context()
                .clone();
            let ours = Trail::default().told(&headers).context;
            assert_eq!(ours, Some(library).filter(SpanContext::is_valid), "{text}");
        }
    }

    #[tokio::test]
    async fn work_knows_its_trail_and_nothing_else_does() {
        let trail = Trail::default().told_by(SAMPLED);
        let inside = scope(trail, async { sent(&current()) }).await;
        assert_eq!(inside.as_deref(), Some(SAMPLED));
        assert_eq!(sent(&current()), None);
    }
}
