//! The ledger as the agent sees it: what is written, and what is still on its way to disk.
//!
//! ```text
//!   write ──► made ──► sent to the shell ──► durable
//!                         ▲      │ cannot be written
//!                         └──────┘ all of it again, after a while
//! ```
//!
//! Invariant: changes reach the disk in the order they were made, and nothing that was made is
//! ever dropped; what rests on a change waits until it is durable.

use std::collections::{BTreeSet, VecDeque};

use persys_model::id::WorkloadId;
use persys_model::time::Millis;
use persys_model::zoo::{Bug, Zoo};

use crate::input::LedgerSeq;
use crate::ledger::{Ledger, LedgerChange};
use crate::slot::is_exclusive;

/// Changes for the shell to write.
pub(crate) type Writes = Vec<(LedgerSeq, LedgerChange)>;

/// The ledger and its changes under way.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    ledger: Ledger,
    /// Workloads of which at most one copy may exist anywhere.
    exclusive: BTreeSet<WorkloadId>,
    made: LedgerSeq,
    sent: LedgerSeq,
    durable: LedgerSeq,
    open: VecDeque<(LedgerSeq, LedgerChange)>,
    broken: Option<Broken>,
    zoo: Zoo,
}

/// The disk does not take changes.
#[derive(Debug, Clone, Copy)]
struct Broken {
    /// The change whose writing would show that it does again.
    proof: Option<LedgerSeq>,
    /// When to try; `None` while a try is under way.
    retry_at: Option<Millis>,
}

impl Journal {
    pub(crate) fn new(ledger: Ledger, zoo: Zoo) -> Self {
        let none = LedgerSeq::default();
        let open = VecDeque::new();
        let intents = ledger.intents.iter().filter(|(_, intent)| is_exclusive(intent));
        let exclusive = intents.map(|(workload, _)| workload.clone()).collect();
        Self { ledger, exclusive, made: none, sent: none, durable: none, open, broken: None, zoo }
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Makes a change; it counts in memory at once and on disk when it is durable.
    pub(crate) fn write(&mut self, change: LedgerChange, out: &mut Writes) -> LedgerSeq {
        self.ledger.apply(&change);
        if let Some(workload) = subject(&change) {
            let exclusive = self.ledger.intents.get(workload).is_some_and(is_exclusive);
            if exclusive {
                self.exclusive.insert(workload.clone());
            } else {
                self.exclusive.remove(workload);
            }
        }
        self.made = LedgerSeq(self.made.0.saturating_add(1));
        self.open.push_back((self.made, change));
        if self.broken.is_none() {
            self.send(out);
        }
        self.made
    }

    /// The last change made.
    pub(crate) fn made(&self) -> LedgerSeq {
        self.made
    }

    /// Workloads of which at most one copy may exist anywhere.
    pub(crate) fn exclusive(&self) -> &BTreeSet<WorkloadId> {
        &self.exclusive
    }

    /// Whether what rests on this change may happen.
    pub(crate) fn covers(&self, seq: LedgerSeq) -> bool {
        self.durable >= seq || self.zoo.has(Bug::EffectBeforeIntent)
    }

    /// Whether the disk takes no changes.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// When to try the disk again.
    pub(crate) fn retry_at(&self) -> Option<Millis> {
        self.broken.and_then(|broken| broken.retry_at)
    }

    /// Changes up to `seq` are on disk; gives the workloads they are about.
    pub(crate) fn persisted(&mut self, seq: LedgerSeq, out: &mut Writes) -> Vec<WorkloadId> {
        let durable = self.durable.max(seq.min(self.sent));
        self.durable = durable;
        let mut now_safe = Vec::new();
        while let Some((_, change)) = self.open.pop_front_if(|(seq, _)| *seq <= durable) {
            now_safe.extend(subject(&change).cloned());
        }
        let works = self.broken.and_then(|broken| broken.proof).is_some_and(|p| p <= self.durable);
        if works {
            self.broken = None;
            self.send(out);
        }
        now_safe
    }

    /// The disk refused what was sent; try again at `retry_at`.
    pub(crate) fn failed(&mut self, retry_at: Millis) {
        let proof = self.open.iter().map(|(seq, _)| *seq).rfind(|seq| *seq <= self.sent);
        self.broken = Some(Broken { proof, retry_at: Some(retry_at) });
    }

    /// Sends everything again that is not durable, if it is time.
    pub(crate) fn retry(&mut self, now: Millis, out: &mut Writes) {
        if self.retry_at().is_none_or(|at| at > now) {
            return;
        }
        if self.open.is_empty() {
            // Nothing waits, so something harmless must show that the disk works again.
            self.made = LedgerSeq(self.made.0.saturating_add(1));
            self.open.push_back((self.made, LedgerChange::Term(self.ledger.term)));
        }
        self.sent = self.durable;
        self.send(out);
        self.broken = Some(Broken { proof: Some(self.made), retry_at: None });
    }

    fn send(&mut self, out: &mut Writes) {
        let sent = self.sent;
        out.extend(self.open.iter().filter(|(seq, _)| *seq > sent).cloned());
        self.sent = self.made;
    }
}

/// Whose intent a change is about.
fn subject(change: &LedgerChange) -> Option<&WorkloadId> {
    match change {
        LedgerChange::Put(workload, _)
        | LedgerChange::Bury(workload, _)
        | LedgerChange::Withdraw(workload) => Some(workload),
        LedgerChange::Forget(_) | LedgerChange::Term(_) | LedgerChange::Mark(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use persys_model::token::Term;

    use super::*;

    fn term(term: u64) -> LedgerChange {
        LedgerChange::Term(Term(term))
    }

    #[test]
    fn refused_changes_are_sent_again_in_order_and_hold_ends_when_they_are_written() {
        let mut journal = Journal::new(Ledger::default(), Zoo::NONE);
        let mut out = Vec::new();
        journal.write(term(1), &mut out);
        journal.failed(Millis(10));
        journal.write(term(2), &mut out);
        assert_eq!(out, [(LedgerSeq(1), term(1))], "nothing is sent to a broken disk");
        journal.persisted(LedgerSeq(0), &mut out);
        assert!(journal.is_broken(), "a late word about earlier changes proves nothing");
        out.clear();
        journal.retry(Millis(9), &mut out);
        assert!(out.is_empty());
        journal.retry(Millis(10), &mut out);
        assert_eq!(out, [(LedgerSeq(1), term(1)), (LedgerSeq(2), term(2))]);
        journal.persisted(LedgerSeq(2), &mut out);
        assert!(!journal.is_broken() && journal.covers(LedgerSeq(2)));
    }

    #[test]
    fn an_idle_ledger_is_probed_with_a_harmless_change() {
        let mut journal = Journal::new(Ledger { term: Term(7), ..Ledger::default() }, Zoo::NONE);
        let mut out = Vec::new();
        journal.failed(Millis(10));
        journal.retry(Millis(10), &mut out);
        assert_eq!(out, [(LedgerSeq(1), term(7))]);
        journal.persisted(LedgerSeq(1), &mut out);
        assert!(!journal.is_broken());
    }
}
