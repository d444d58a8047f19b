//! What goes into the store, and how long it takes to be durable.

use std::time::Duration;

use persys_cluster::record::{Unit, Write};
use persys_metrics::{CALLS, Counter, Counters, Families, Histogram};

/// Categories every dashboard expects, and then those that are ours.
const CATEGORIES: [&str; 10] = [
    "spec",
    "status",
    "retry",
    "assignment",
    "reconciliation",
    "event",
    "node",
    "volume",
    "entry",
    "audit",
];
const CALLS_MADE: [&str; 6] = ["campaign", "renew", "resign", "load", "peek", "commit"];

/// What went into the store.
#[derive(Debug)]
pub(crate) struct Stored {
    writes: Counters<1>,
    transactions: Counter,
    records: Counter,
    events: Counter,
    commit: Histogram,
    calls: Counters<2>,
}

/// Writes of one transaction, by category.
#[derive(Debug, Default)]
pub(crate) struct Batch(Vec<(&'static str, u64)>);

impl Batch {
    /// Counts what a transaction is about to write.
    pub(crate) fn of(units: &[Unit]) -> Self {
        let mut counts: Vec<(&'static str, u64)> = Vec::new();
        for category in units.iter().flat_map(|unit| &unit.writes).map(category) {
            match counts.iter_mut().find(|(known, _)| *known == category) {
                Some((_, count)) => *count = count.saturating_add(1),
                None => counts.push((category, 1)),
            }
        }
        Self(counts)
    }
}

impl Stored {
    pub(super) fn new(families: &mut Families) -> Self {
        let writes = families.counters(
            "state_store_writes_total",
            "Records written to the store; the phase of a workload is in its assignment, so status stays 0",
            ["category"],
        );
        let calls = families.counters(
            "store_calls_total",
            "Calls to the store, and whether it answered as it should",
            ["call", "outcome"],
        );
        let both = |call| [[call, "ok"], [call, "failed"]];
        Self {
            writes: writes.preset(CATEGORIES.map(|category| [category])),
            transactions: families
                .counter("store_transactions_total", "Transactions that are durable"),
            records: families.counter(
                "store_records_written_total",
                "Records written to the store, events and audit records left out",
            ),
            events: families.counter(
                "store_events_written_total",
                "Events and audit records written to the store",
            ),
            commit: families.histogram(
                "store_commit_duration_seconds",
                "How long it took until a transaction was durable",
                CALLS,
            ),
            calls: calls.preset(CALLS_MADE.into_iter().flat_map(both)),
        }
    }

    /// The store was called.
    pub(crate) fn called(&self, call: &'static str, went_well: bool) {
        self.calls.inc([call, if went_well { "ok" } else { "failed" }]);
    }

    /// A transaction is durable.
    pub(crate) fn committed(&self, Batch(counts): &Batch, took: Duration) {
        self.transactions.inc();
        self.commit.observe(took.as_secs_f64());
        for (category, count) in counts {
            self.writes.add([category], *count);
            let happened = matches!(*category, "event" | "audit");
            if happened { &self.events } else { &self.records }.inc_by(*count);
        }
    }
}

fn category(write: &Write) -> &'static str {
    match write {
        Write::PutWorkload(_)
        | Write::DeleteWorkload(_)
        | Write::PutRevision(_)
        | Write::DeleteRevision(..)
        | Write::PutBody(_)
        | Write::DeleteBody(..) => "spec",
        Write::PutAssignment(_)
        | Write::DeleteAssignment(_)
        | Write::PutGrave(_)
        | Write::DeleteGrave(..) => "assignment",
        Write::PutRetry(_) | Write::DeleteRetry(_) => "retry",
        Write::PutDrift(_)
        | Write::DeleteDrift(..)
        | Write::PutReconciliation(_)
        | Write::DeleteReconciliation(_) => "reconciliation",
        Write::PutEvent(_) => "event",
        Write::PutAudit(_) => "audit",
        Write::PutNode(_) | Write::DeleteNode(_) | Write::PutLease(_) | Write::DeleteLease(_) => {
            "node"
        }
        Write::PutEntry(_) | Write::DeleteEntry(_) => "entry",
        Write::PutVolume(_)
        | Write::DeleteVolume(_)
        | Write::PutAttachment(_)
        | Write::DeleteAttachment(..) => "volume",
    }
}
