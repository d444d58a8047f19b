//! Where in which trace something happens, and who writes it down.
//!
//! A trail belongs to a request as a whole, so it is set once where the request comes in and not
//! handed from function to function; what goes on in a task of its own is given it by name.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use persys_model::failure::clip;
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue};
use tonic::{Request, Status};

use super::export::Sampling;
use super::fields::Value;
use super::otlp::{self, Begun};
use super::place::Place;
use super::queue::Queue;

/// The headers in which a trail is told.
const PARENT: HeaderName = HeaderName::from_static("traceparent");
const STATE: HeaderName = HeaderName::from_static("tracestate");

/// Longest part of an error that is written down with a span.
const LONGEST_WHY: usize = 256;
/// Longest name, and longest text that is said about something.
const LONGEST_TEXT: usize = 1024;

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

/// What a span is to whom it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A part of the work.
    Internal,
    /// Somebody asked for it.
    Server,
    /// Somebody else is asked for it.
    Client,
}

impl Kind {
    fn number(self) -> u64 {
        match self {
            Self::Internal => 1,
            Self::Server => 2,
            Self::Client => 3,
        }
    }
}

/// Who writes spans down.
pub(super) struct Recorder {
    queue: Queue,
    sampling: Sampling,
    /// Numbers are made from a count, under keys that no other process has.
    keys: RandomState,
    count: AtomicU64,
}

impl Recorder {
    pub(super) fn new(queue: Queue, sampling: Sampling) -> Self {
        Self { queue, sampling, keys: RandomState::new(), count: AtomicU64::new(0) }
    }

    /// A number that nobody had before; never 0.
    fn number(&self) -> u64 {
        self.keys.hash_one(self.count.fetch_add(1, Ordering::Relaxed)).max(1)
    }

    /// The place of what begins at `parent`, or of a new trace.
    fn place(&self, parent: Option<&Place>) -> Place {
        let trace = match parent {
            Some(parent) => parent.trace,
            None => u128::from(self.number()) << 64 | u128::from(self.number()),
        };
        let is_sampled = match parent {
            Some(parent) if self.sampling.follows => parent.is_sampled,
            Some(_) | None => self.sampling.takes(trace),
        };
        let state = parent.and_then(|parent| parent.state.clone());
        Place { trace, span: self.number(), is_sampled, state }
    }
}

/// Where in which trace something happens, and who writes it down. Copies are the same.
#[derive(Clone, Default)]
pub struct Trail {
    recorder: Option<Arc<Recorder>>,
    place: Option<Place>,
}

impl fmt::Debug for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Trail").field(&self.place).finish()
    }
}

impl Trail {
    pub(super) fn home(recorder: Recorder) -> Self {
        Self { recorder: Some(Arc::new(recorder)), place: None }
    }

    /// Whether anything is written down here.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.recorder.is_some()
    }

    /// The same recorder, in no trace yet.
    #[must_use]
    pub fn afresh(&self) -> Self {
        Self { recorder: self.recorder.clone(), place: None }
    }

    /// The trace, as people look for it; nothing where none is written down.
    #[must_use]
    pub fn trace_id(&self) -> Option<String> {
        let place = self.place.as_ref().filter(|place| place.is_sampled);
        place.map(|place| format!("{:032x}", place.trace))
    }

    /// Begins a span, which ends when it is dropped.
    #[must_use]
    pub fn begin(&self, name: &str, kind: Kind) -> Span {
        self.begin_at(name, kind, None)
    }

    /// The same for something that began before.
    #[must_use]
    pub fn begin_at(&self, name: &str, kind: Kind, at: Option<SystemTime>) -> Span {
        let unwanted = |recorder: &&Arc<Recorder>| {
            recorder.sampling.follows && self.place.as_ref().is_some_and(|place| !place.is_sampled)
        };
        let Some(recorder) = self.recorder.as_ref().filter(|recorder| !unwanted(recorder)) else {
            return Span { open: None, trail: self.clone() };
        };
        let place = recorder.place(self.place.as_ref());
        let open = place.is_sampled.then(|| {
            otlp::Span::begin(&Begun {
                trace: place.trace,
                id: place.span,
                state: place.state.as_deref(),
                parent: self.place.as_ref().map(|parent| parent.span),
                name: clip(name, LONGEST_TEXT),
                kind: kind.number(),
                start: nanos(at.unwrap_or_else(SystemTime::now)),
            })
        });
        Span { open, trail: Self { recorder: self.recorder.clone(), place: Some(place) } }
    }

    /// The trail that the headers of a request tell of, in `traceparent`; this one where they tell of
    /// none or of nonsense.
    #[must_use]
    pub fn told(&self, headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let place = text(PARENT).and_then(|parent| Place::read(parent.trim()));
        let place = place.map(|place| match text(STATE) {
            Some(state) => place.with_state(state),
            None => place,
        });
        self.at(place)
    }

    /// The same, told in one text, such as the variable `TRACEPARENT`.
    #[must_use]
    pub fn told_by(&self, traceparent: &str) -> Self {
        self.at(Place::read(traceparent.trim()))
    }

    fn at(&self, place: Option<Place>) -> Self {
        let place = place.or_else(|| self.place.clone());
        Self { recorder: self.recorder.clone(), place }
    }

    /// This trail in one text; nothing where it leads nowhere.
    #[must_use]
    pub fn traceparent(&self) -> Option<String> {
        let written = self.place.as_ref().map(Place::written)?;
        String::from_utf8(written.to_vec()).ok()
    }

    /// Writes this trail into the headers of a request, in place of any other.
    pub fn tell(&self, headers: &mut HeaderMap) {
        let Some(place) = &self.place else { return };
        let Ok(told) = HeaderValue::from_bytes(&place.written()) else { return };
        headers.insert(PARENT, told);
        let state = place.state.as_deref().and_then(|state| HeaderValue::from_str(state).ok());
        match state {
            Some(state) => headers.insert(STATE, state),
            None => headers.remove(STATE),
        };
    }
}

/// Nanoseconds since 1970.
fn nanos(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Something that takes time. It ends when it is dropped.
#[derive(Default)]
pub struct Span {
    /// What is written down of it, if anything is.
    open: Option<otlp::Span>,
    trail: Trail,
}

impl Drop for Span {
    fn drop(&mut self) {
        if let (Some(span), Some(recorder)) = (self.open.take(), &self.trail.recorder) {
            recorder.queue.push(&span.end(nanos(SystemTime::now())));
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Span").field(&self.trail.place).finish()
    }
}

impl Span {
    /// Whether it is written down; what is expensive to find out is left out otherwise.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.open.is_some()
    }

    /// Says more about it.
    #[expect(single_use_lifetimes, reason = "it has to have a name here")]
    pub fn set<'a>(&mut self, key: &'static str, value: impl Into<Value<'a>>) {
        if let Some(open) = &mut self.open {
            let value = match value.into() {
                Value::Text(text) => Value::Text(clip(text, LONGEST_TEXT)),
                number @ Value::Whole(_) => number,
            };
            open.set(key, value);
        }
    }

    /// It did not go well.
    pub fn fail(&mut self, why: &dyn fmt::Display) {
        if let Some(open) = &mut self.open {
            open.fail(clip(&why.to_string(), LONGEST_WHY));
        }
    }

    /// Where what belongs to it happens.
    #[must_use]
    pub fn trail(&self) -> &Trail {
        &self.trail
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
        assert_eq!(sent(&Trail::default().told_by("00-0-0-01")), None);
        assert_eq!(sent(&Trail::default()), None);
    }

    #[test]
    fn what_others_keep_in_a_trace_is_passed_on_with_it_and_not_with_another() {
        let mut headers = HeaderMap::new();
        headers.insert(PARENT, HeaderValue::from_static(SAMPLED));
        headers.insert(STATE, HeaderValue::from_static("a=b"));
        let trail = Trail::default().told(&headers);
        let mut passed = HeaderMap::new();
        trail.tell(&mut passed);
        assert_eq!(passed, headers);
        Trail::default().told_by(SAMPLED).tell(&mut passed);
        assert!(!passed.contains_key(STATE));
    }

    #[tokio::test]
    async fn work_knows_its_trail_and_nothing_else_does() {
        let trail = Trail::default().told_by(SAMPLED);
        let inside = scope(trail, async { sent(&current()) }).await;
        assert_eq!(inside.as_deref(), Some(SAMPLED));
        assert_eq!(sent(&current()), None);
    }
}
