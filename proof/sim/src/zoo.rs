//! The zoo: every known bug is put back, one at a time, and must be found.

use persys_model::zoo::{Bug, Zoo};

use crate::check::Violation;
use crate::run::{Batch, run_many};
use crate::setup::Setup;

/// A bug and the first seed that found it.
#[derive(Debug)]
pub(crate) struct Catch {
    pub(crate) bug: Bug,
    pub(crate) found: Option<(u64, Violation)>,
    pub(crate) seeds: u64,
}

/// Looks for one bug.
pub(crate) fn hunt(bug: Bug, batch: Batch) -> Catch {
    let batch = Batch { failures: 1, ..batch };
    let tally = run_many(batch, &|seed| Setup::draw(seed).with_zoo(Zoo::only(bug)));
    Catch { bug, found: tally.failed.into_iter().next(), seeds: tally.seeds }
}
