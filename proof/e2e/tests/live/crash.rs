//! A few of the points of the sweep; `make sweep` takes them all.

use persys_e2e::sweep::{Victim, sweep};

use crate::program;

/// Every so manieth point. No divisor of 2: points before and after an effect take turns.
const STRIDE: u64 = 13;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_agent_changes_nothing_in_the_end() {
    assert!(sweep(program(), Victim::Agent, STRIDE).await >= 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_scheduler_changes_nothing_in_the_end() {
    assert!(sweep(program(), Victim::Scheduler, STRIDE).await >= 2);
}
