//! Between spans and the collector: a queue that nobody waits for.
//!
//! ```text
//!   span ends ──► room? ──► queue ──► every half second, or when there are enough ──► collector
//!                  └ no: dropped, counted                 └ no answer in time: dropped, counted
//! ```
//!
//! A span is kept as the bytes that are sent of it: a few hundred, one after the other. What was sent
//! leaves its room to those that come after.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::fields::Fields;
use super::otlp::Spans;

/// Spans that may wait, and their bytes; beyond that they are dropped.
const MOST_WAITING: usize = 16 * 1024;
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// Most spans in one message to the collector, and bytes from which it is long enough.
const MOST_AT_ONCE: usize = 512;
const ENOUGH_AT_ONCE: usize = 256 * 1024;
/// Room that is kept of what was sent. A page of memory that is touched for the first time costs more
/// than the spans that fill it.
const MOST_SPARE: usize = 4;
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

/// Spans that are sent together.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) spans: Spans,
    count: usize,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.count >= MOST_AT_ONCE || self.spans.len() >= ENOUGH_AT_ONCE
    }
}

#[derive(Debug, Default)]
struct Waiting {
    /// All but the last of them are full.
    batches: VecDeque<Batch>,
    count: usize,
    bytes: usize,
    /// Room of those that were sent.
    spare: Vec<Spans>,
}

impl Waiting {
    /// Whether that made enough for a message; nothing where there was no room.
    fn push(&mut self, span: &Fields) -> Option<bool> {
        if self.count >= MOST_WAITING || self.bytes + span.as_bytes().len() > MOST_BYTES {
            return None;
        }
        if self.batches.back().is_none_or(Batch::is_full) {
            let spans = self.spare.pop().unwrap_or_else(|| Spans::with_room(ENOUGH_AT_ONCE));
            self.batches.push_back(Batch { spans, count: 0 });
        }
        let last = self.batches.back_mut()?;
        let before = last.spans.len();
        last.spans.push(span);
        last.count += 1;
        self.count += 1;
        self.bytes += last.spans.len() - before;
        Some(last.is_full())
    }

    fn pop(&mut self) -> Option<Batch> {
        let batch = self.batches.pop_front()?;
        self.count -= batch.count;
        self.bytes -= batch.spans.len();
        Some(batch)
    }

    fn keep(&mut self, spans: Spans) {
        if self.spare.len() < MOST_SPARE {
            self.spare.push(spans.emptied());
        }
    }

    fn pop_full(&mut self) -> Option<Batch> {
        let has_one = self.batches.front().is_some_and(Batch::is_full);
        if has_one { self.pop() } else { None }
    }
}

/// Where spans go when they end.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    waiting: Arc<Mutex<Waiting>>,
    counts: Arc<Counts>,
    enough: Arc<Notify>,
}

impl Queue {
    /// Takes one that has ended.
    pub(super) fn push(&self, span: &Fields) {
        let pushed = self.locked().push(span);
        match pushed {
            Some(true) => self.enough.notify_one(),
            Some(false) => {}
            None => {
                self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn locked(&self) -> MutexGuard<'_, Waiting> {
        // Nothing is ever half pushed.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever takes spans.
pub(super) trait Collector: Send + 'static {
    /// Takes these; says how many of them it did not want, and why, or why it took none.
    fn take(&self, batch: &Batch) -> impl Future<Output = Result<Option<Rest>, String>> + Send;
}

/// Spans a collector did not want.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) count: u64,
    pub(super) why: String,
}

/// Has everything that waits sent, and says when that is done.
pub(super) type Flush = mpsc::Sender<oneshot::Sender<()>>;

/// A queue to this collector. The work it gives goes on until the flush is gone.
pub(super) fn queue(
    collector: impl Collector,
) -> (Queue, Flush, Arc<Counts>, impl Future<Output = ()> + Send + 'static) {
    let (flush, flushes) = mpsc::channel(1);
    let counts = Arc::<Counts>::default();
    let queue =
        Queue { waiting: Arc::default(), counts: Arc::clone(&counts), enough: Arc::default() };
    let sender = Sender { collector, queue: queue.clone(), told: None, why: None };
    (queue, flush, counts, sender.run(flushes))
}

struct Sender<C> {
    collector: C,
    queue: Queue,
    /// When it was last told that spans are dropped, and how many there were then.
    told: Option<(Instant, u64)>,
    /// What the collector last said.
    why: Option<String>,
}

impl<C: Collector> Sender<C> {
    async fn run(mut self, mut flushes: mpsc::Receiver<oneshot::Sender<()>>) {
        let mut every = interval(EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let enough = Arc::clone(&self.queue.enough);
        loop {
            tokio::select! {
                _ = every.tick() => self.send_all().await,
                () = enough.notified() => self.send_full().await,
                flush = flushes.recv() => match flush {
                    Some(done) => {
                        self.send_all().await;
                        // Whoever flushes may end next, and this with it.
                        self.tell();
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
        let mut left = self.queue.locked().count;
        while left > 0 {
            let Some(batch) = self.queue.locked().pop() else { return };
            left = left.saturating_sub(batch.count);
            self.send(batch).await;
        }
    }

    /// Sends one message that is full, and comes back for the next.
    async fn send_full(&mut self) {
        let Some(batch) = self.queue.locked().pop_full() else { return };
        self.send(batch).await;
        self.queue.enough.notify_one();
    }

    async fn send(&mut self, batch: Batch) {
        let all = u64::try_from(batch.count).unwrap_or(u64::MAX);
        let (dropped, why) = match timeout(PATIENCE, self.collector.take(&batch)).await {
            Ok(Ok(None)) => (0, None),
            Ok(Ok(Some(rest))) => (rest.count.min(all), Some(rest.why)),
            Ok(Err(why)) => (all, Some(why)),
            Err(_) => (all, Some(format!("no answer within {PATIENCE:?}"))),
        };
        let counts = &self.queue.counts;
        counts.sent.fetch_add(all - dropped, Ordering::Relaxed);
        counts.dropped.fetch_add(dropped, Ordering::Relaxed);
        self.why = why.or_else(|| self.why.take());
        self.queue.locked().keep(batch.spans);
    }

    /// Tells that spans are dropped, once a minute at most.
    fn tell(&mut self) {
        let dropped = self.queue.counts.dropped.load(Ordering::Relaxed);
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
    use super::*;

    /// A collector that takes so long, and remembers how many it was sent at a time.
    #[derive(Debug, Clone)]
    struct Slow {
        takes: Duration,
        rejects: u64,
        got: Arc<Mutex<Vec<usize>>>,
    }

    impl Collector for Slow {
        async fn take(&self, batch: &Batch) -> Result<Option<Rest>, String> {
            tokio::time::sleep(self.takes).await;
            self.got.lock().unwrap().push(batch.count);
            let why = "too old".to_owned();
            Ok((self.rejects > 0).then_some(Rest { count: self.rejects, why }))
        }
    }

    fn started(takes: Duration, rejects: u64) -> (Queue, Flush, Arc<Counts>, Slow) {
        let slow = Slow { takes, rejects, got: Arc::default() };
        let (queue, flush, counts, work) = queue(slow.clone());
        tokio::spawn(work);
        (queue, flush, counts, slow)
    }

    /// One with a name of so many bytes.
    fn span(bytes: usize) -> Fields {
        let mut fields = Fields::default();
        fields.bytes(5, &vec![b'x'; bytes]);
        fields
    }

    fn spans(queue: &Queue, count: usize) {
        for _ in 0..count {
            queue.push(&span(100));
        }
    }

    async fn flushed(flush: &Flush) {
        let (done, until) = oneshot::channel();
        flush.send(done).await.unwrap();
        until.await.unwrap();
    }

    fn known(counts: &Counts) -> (u64, u64) {
        (counts.sent.load(Ordering::Relaxed), counts.dropped.load(Ordering::Relaxed))
    }

    #[tokio::test(start_paused = true)]
    async fn what_ended_is_sent_in_messages_of_a_bounded_size() {
        let (queue, flush, counts, slow) = started(Duration::ZERO, 0);
        spans(&queue, 1_300);
        flushed(&flush).await;
        assert_eq!(*slow.got.lock().unwrap(), [512, 512, 276]);
        assert_eq!(known(&counts), (1_300, 0));
        let long = span(100_000);
        for _ in 0..4 {
            queue.push(&long);
        }
        flushed(&flush).await;
        assert_eq!(slow.got.lock().unwrap().split_off(3), [3, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn room_is_used_again_and_only_some_of_it_is_kept() {
        let (queue, flush, counts, slow) = started(Duration::ZERO, 0);
        spans(&queue, 10 * MOST_AT_ONCE);
        flushed(&flush).await;
        assert_eq!(queue.locked().spare.len(), MOST_SPARE);
        spans(&queue, 1);
        assert_eq!(queue.locked().spare.len(), MOST_SPARE - 1);
        flushed(&flush).await;
        assert_eq!(queue.locked().spare.len(), MOST_SPARE);
        assert_eq!(slow.got.lock().unwrap().last(), Some(&1), "nothing of before is in it");
        assert_eq!(known(&counts), (5_121, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_enough_for_a_message_does_not_wait_for_the_time_to_send() {
        let (queue, _flush, counts, slow) = started(Duration::ZERO, 0);
        // The first look comes at once, and finds nothing.
        tokio::time::sleep(EVERY / 4).await;
        spans(&queue, 2 * MOST_AT_ONCE + 1);
        tokio::time::sleep(EVERY / 4).await;
        assert_eq!(*slow.got.lock().unwrap(), [512, 512]);
        tokio::time::sleep(EVERY).await;
        assert_eq!(*slow.got.lock().unwrap(), [512, 512, 1]);
        assert_eq!(known(&counts), (1_025, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_collector_that_stands_still_costs_its_spans_and_nobody_waits() {
        let (queue, flush, counts, _) = started(Duration::from_hours(1), 0);
        let begun = std::time::Instant::now();
        spans(&queue, MOST_WAITING + 100);
        assert_eq!(known(&counts), (0, 100), "those without room");
        flushed(&flush).await;
        let all = u64::try_from(MOST_WAITING + 100).unwrap();
        assert_eq!(known(&counts), (0, all), "and those without an answer");
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn long_spans_are_held_to_their_bytes() {
        let (queue, _flush, counts, _) = started(Duration::from_hours(1), 0);
        let long = span(1024 * 1024);
        for _ in 0..20 {
            queue.push(&long);
        }
        assert_eq!(known(&counts), (0, 5));
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_collector_does_not_want_counts_as_dropped() {
        let (queue, flush, counts, _) = started(Duration::ZERO, 3);
        spans(&queue, 10);
        flushed(&flush).await;
        assert_eq!(known(&counts), (7, 3));
    }
}
