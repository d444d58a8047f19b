//! Writes the ledger beside the driver's loop, in order.
//!
//! After a failed write nothing later is written before the core has sent the lost changes again:
//! what is acknowledged is a number, and it stands for everything up to it.

use std::sync::Arc;
use std::time::Instant;

use persys_node::input::{Input, LedgerSeq};
use persys_node::ledger::LedgerChange;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::ledger::Keeper;
use crate::metrics::Metrics;

/// Ledger writes that may wait for the disk.
const MOST_WRITES: usize = 1024;

/// Writes beside the loop.
pub(crate) struct Writer {
    /// Changes on their way to the disk, in order.
    pub(crate) writes: mpsc::Sender<Vec<(LedgerSeq, LedgerChange)>>,
    pub(crate) written: mpsc::Receiver<Input>,
    task: JoinHandle<()>,
}

impl Writer {
    pub(crate) fn start(keeper: Arc<dyn Keeper>, metrics: Arc<Metrics>) -> Self {
        let (writes, queue) = mpsc::channel(MOST_WRITES);
        let (to_written, written) = mpsc::channel(MOST_WRITES);
        let task = tokio::spawn(write_in_order(keeper, metrics, queue, to_written));
        Self { writes, written, task }
    }

    /// Waits until all that is queued is on disk, or has failed. Nobody hears of it any more.
    pub(crate) async fn finish(self) {
        let Self { writes, mut written, task } = self;
        drop(writes);
        while written.recv().await.is_some() {}
        if let Err(error) = task.await {
            tracing::error!(%error, "the ledger's writer ended badly");
        }
    }
}

/// Writes what is queued, in order, as much as waits at a time.
async fn write_in_order(
    keeper: Arc<dyn Keeper>,
    metrics: Arc<Metrics>,
    mut queue: mpsc::Receiver<Vec<(LedgerSeq, LedgerChange)>>,
    written: mpsc::Sender<Input>,
) {
    // The first change of the write that failed: it comes again before anything else counts.
    let mut missing: Option<LedgerSeq> = None;
    while let Some(mut batch) = queue.recv().await {
        while let Ok(more) = queue.try_recv() {
            batch.extend(more);
        }
        if let Some(first) = missing {
            let again = batch.iter().position(|(seq, _)| *seq <= first);
            batch.drain(..again.unwrap_or(batch.len()));
        }
        let (Some((first, _)), Some((last, _))) = (batch.first(), batch.last()) else { continue };
        let (first, last) = (*first, *last);
        let changes = batch.into_iter().map(|(_, change)| change).collect();
        let began = Instant::now();
        let done = keeper.write(changes).await;
        metrics.wrote(done.is_ok(), began.elapsed());
        let input = match done {
            Ok(()) => {
                missing = None;
                Input::Persisted(last)
            }
            Err(error) => {
                tracing::error!(%error, "ledger");
                missing = Some(first);
                Input::LedgerFailed
            }
        };
        if written.send(input).await.is_err() {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use persys_model::id::WorkloadId;
    use persys_model::time::Millis;
    use persys_node::ledger::Ledger;

    use super::*;
    use crate::history::Action;
    use crate::ledger::NotWritten;

    /// Fails the first write, and keeps how many changes the others had.
    #[derive(Debug, Default)]
    struct FailsOnce(Mutex<Vec<usize>>, std::sync::atomic::AtomicBool);

    #[async_trait::async_trait]
    impl Keeper for FailsOnce {
        async fn load(&self) -> Ledger {
            Ledger::default()
        }

        async fn write(&self, changes: Vec<LedgerChange>) -> Result<(), NotWritten> {
            if !self.1.swap(true, std::sync::atomic::Ordering::Relaxed) {
                return Err(NotWritten("the disk is full".to_owned()));
            }
            self.0.lock().unwrap().push(changes.len());
            Ok(())
        }

        async fn lease(&self, _: Millis) -> Result<(), NotWritten> {
            Ok(())
        }

        async fn actions(&self) -> Vec<Action> {
            Vec::new()
        }

        fn note(&self, _: Action) {}

        async fn flush(&self) -> Result<(), NotWritten> {
            Ok(())
        }
    }

    fn changes(from: u64, to: u64) -> Vec<(LedgerSeq, LedgerChange)> {
        let forget = || LedgerChange::Forget(WorkloadId::new("web").unwrap());
        (from..=to).map(|seq| (LedgerSeq(seq), forget())).collect()
    }

    #[tokio::test]
    async fn nothing_counts_as_written_before_what_was_lost_is() {
        let keeper = Arc::new(FailsOnce::default());
        let mut writer = Writer::start(Arc::<FailsOnce>::clone(&keeper), Arc::default());
        writer.writes.send(changes(1, 2)).await.unwrap();
        assert_eq!(writer.written.recv().await, Some(Input::LedgerFailed));
        // The core has not heard of it yet and goes on; only then it begins again.
        writer.writes.send(changes(3, 3)).await.unwrap();
        writer.writes.send(changes(1, 3)).await.unwrap();
        assert_eq!(writer.written.recv().await, Some(Input::Persisted(LedgerSeq(3))));
        assert_eq!(*keeper.0.lock().unwrap(), [3], "the late one was written alone");
        writer.finish().await;
    }
}
