//! What the same etcd does at its best: transactions of 128 writes, one after the other.

use std::time::{Duration, Instant};

use persys_etcd::{Op, Txn};
use persys_etcd_host::Host;

use super::Fault;

/// Writes in one transaction: as many as etcd allows.
const WRITES: usize = 128;
/// How long one measurement takes.
const LENGTH: Duration = Duration::from_secs(2);
/// Bytes of a value, about those of one of our records.
const VALUE: usize = 512;

/// Raw writes, measured between the stretches of the benchmark.
#[derive(Debug, Default)]
pub(super) struct Raw {
    transactions: u32,
    time: Duration,
}

impl Raw {
    /// Adds one measurement. What it wrote is taken away again.
    pub(super) async fn measure(&mut self, etcd: &Host) -> Result<(), Fault> {
        let client = etcd.client();
        let begun = Instant::now();
        let mut nth = 0_usize;
        while begun.elapsed() < LENGTH {
            let then = (0..WRITES)
                .map(|one| Op::put(format!("/raw/{:05}", (nth + one) % 20_000), vec![b'x'; VALUE]));
            client.txn(Txn { then: then.collect(), ..Txn::default() }).await?;
            nth += WRITES;
            self.transactions += 1;
        }
        self.time += begun.elapsed();
        let clear = Op::DeleteRange("/raw/".to_owned(), "/raw0".to_owned());
        client.txn(Txn { then: vec![clear], ..Txn::default() }).await?;
        Ok(())
    }

    /// Transactions in a second.
    pub(super) fn transactions_per_second(&self) -> f64 {
        f64::from(self.transactions) / self.time.as_secs_f64().max(0.001)
    }

    /// Writes in a second.
    pub(super) fn writes_per_second(&self) -> f64 {
        self.transactions_per_second() * 128.0
    }
}
