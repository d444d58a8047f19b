//! Between spans and the collector: a queue that nobody waits for.
//!
//! ```text
//!   span ends ──► room? ──► queue ──► every half second, so many at a time ──► collector
//!                  └ no: dropped, counted                     └ no answer in time: dropped, counted
//! ```

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter, SpanProcessor};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// Spans that may wait; beyond that they are dropped.
const MOST_WAITING: usize = 16 * 1024;
/// Most spans in one message to the collector.
const MOST_AT_ONCE: usize = 512;
/// How often what waits is sent.
const EVERY: Duration = Duration::from_millis(500);
/// How long the collector may take for one message.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is told that spans are dropped.
const TELL_EVERY: Duration = Duration::from_mins(1);

/// What became of spans.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) sent: AtomicU64,
    pub(super) dropped: AtomicU64,
}

/// Where spans go when they end.
pub(super) struct Queue {
    to: mpsc::Sender<SpanData>,
    counts: Arc<Counts>,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("counts", &self.counts).finish_non_exhaustive()
    }
}

/// Has everything that waits sent, and says when that is done.
pub(super) type Flush = mpsc::Sender<oneshot::Sender<()>>;

/// A queue to this exporter. The work it gives goes on until the queue and the flush are gone.
pub(super) fn queue<E: SpanExporter + 'static>(
    exporter: E,
) -> (Queue, Flush, Arc<Counts>, impl Future<Output = ()> + Send + 'static) {
    let (to, waiting) = mpsc::channel(MOST_WAITING);
    let (flush, flushes) = mpsc::channel(1);
    let counts = Arc::<Counts>::default();
    let queue = Queue { to, counts: Arc::clone(&counts) };
    let sender = Sender { exporter, waiting, counts: Arc::clone(&counts), told: None, why: None };
    (queue, flush, counts, sender.run(flushes))
}

impl SpanProcessor for Queue {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() && self.to.try_send(span).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Err(OTelSdkError::InternalFailure("flushed by whoever began to export".to_owned()))
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

struct Sender<E> {
    exporter: E,
    waiting: mpsc::Receiver<SpanData>,
    counts: Arc<Counts>,
    /// When it was last told that spans are dropped, and how many there were then.
    told: Option<(Instant, u64)>,
    /// What the collector last said.
    why: Option<String>,
}

impl<E: SpanExporter> Sender<E> {
    async fn run(mut self, mut flushes: mpsc::Receiver<oneshot::Sender<()>>) {
        let mut every = interval(EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = every.tick() => self.send_all().await,
                flush = flushes.recv() => match flush {
                    Some(done) => {
                        self.send_all().await;
                        // Whoever gave up waiting is gone.
                        done.send(()).ok();
                    }
                    None => return,
                },
            }
            self.tell();
        }
    }

    /// Sends what waits now, and not what comes meanwhile.
    async fn send_all(&mut self) {
        let mut left = self.waiting.len();
        while left > 0 {
            let mut batch = Vec::with_capacity(left.min(MOST_AT_ONCE));
            while batch.len() < MOST_AT_ONCE
                && let Ok(span) = self.waiting.try_recv()
            {
                batch.push(span);
            }
            let count = batch.len();
            left = left.saturating_sub(count.max(1));
            if count > 0 {
                self.send(batch, u64::try_from(count).unwrap_or(u64::MAX)).await;
            }
        }
    }

    async fn send(&mut self, batch: Vec<SpanData>, count: u64) {
        let why = match timeout(PATIENCE, self.exporter.export(batch)).await {
            Ok(Ok(())) => {
                self.counts.sent.fetch_add(count, Ordering::Relaxed);
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {PATIENCE:?}"),
        };
        self.counts.dropped.fetch_add(count, Ordering::Relaxed);
        self.why = Some(why);
    }

    /// Tells that spans are dropped, once a minute at most.
    fn tell(&mut self) {
        let dropped = self.counts.dropped.load(Ordering::Relaxed);
        let (at, before) = self.told.map_or((None, 0), |(at, before)| (Some(at), before));
        if dropped == before || at.is_some_and(|at| at.elapsed() < TELL_EVERY) {
            return;
        }
        self.told = Some((Instant::now(), dropped));
        let why = self.why.take().unwrap_or_else(|| "more came than could be sent".to_owned());
        let more = dropped.saturating_sub(before);
        tracing::warn!(dropped = more, all = dropped, why, "spans were dropped");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use opentelemetry::trace::{Span as _, Tracer as _, TracerProvider as _};
    use opentelemetry_sdk::trace::SdkTracerProvider;

    use super::*;

    /// A collector that takes so long, and remembers how many it was sent at a time.
    #[derive(Debug, Clone)]
    struct Slow {
        takes: Duration,
        got: Arc<Mutex<Vec<usize>>>,
    }

    impl SpanExporter for Slow {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            tokio::time::sleep(self.takes).await;
            self.got.lock().unwrap().push(batch.len());
            Ok(())
        }
    }

    fn started(takes: Duration) -> (SdkTracerProvider, Flush, Arc<Counts>, Slow) {
        let slow = Slow { takes, got: Arc::default() };
        let (queue, flush, counts, work) = queue(slow.clone());
        tokio::spawn(work);
        (SdkTracerProvider::builder().with_span_processor(queue).build(), flush, counts, slow)
    }

    fn spans(provider: &SdkTracerProvider, count: usize) {
        let tracer = provider.tracer("test");
        for _ in 0..count {
            tracer.start("one").end();
        }
    }

    async fn flushed(flush: &Flush) {
        let (done, until) = oneshot::channel();
        flush.send(done).await.unwrap();
        until.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_ended_is_sent_in_messages_of_a_bounded_size() {
        let (provider, flush, counts, slow) = started(Duration::ZERO);
        spans(&provider, 1_300);
        flushed(&flush).await;
        assert_eq!(*slow.got.lock().unwrap(), [512, 512, 276]);
        assert_eq!(counts.sent.load(Ordering::Relaxed), 1_300);
    }

    #[tokio::test(start_paused = true)]
    async fn a_collector_that_stands_still_costs_its_spans_and_nobody_waits() {
        let (provider, flush, counts, _) = started(Duration::from_hours(1));
        let begun = std::time::Instant::now();
        spans(&provider, MOST_WAITING + 100);
        assert_eq!(counts.dropped.load(Ordering::Relaxed), 100, "those without room");
        flushed(&flush).await;
        let all = u64::try_from(MOST_WAITING + 100).unwrap();
        assert_eq!(counts.dropped.load(Ordering::Relaxed), all, "and those without an answer");
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    }
}
