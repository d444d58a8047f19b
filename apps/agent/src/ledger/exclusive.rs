//! A mark beside the ledger: this node was ordered to run exclusive work, or may have been.
//!
//! The watchdog cannot read the ledger while the agent has it open, and a runtime that does not answer
//! tells it nothing. Where the mark is missing nothing exclusive can run, so an orphaned watchdog need
//! not wait for a runtime that may never come.
//!
//! Invariant: the mark is on disk before the first exclusive intent is.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use persys_model::spec::Class;
use persys_node::ledger::{Intent, LedgerChange};

const MARK: &str = "exclusive";

/// True for exclusive work, and for what was found running after the ledger was lost: that may be
/// anything.
pub(crate) fn may_be_exclusive(intent: &Intent) -> bool {
    intent.spec.as_ref().is_none_or(|spec| spec.placement.class == Class::Exclusive)
}

/// Sets the mark if any of `changes` orders exclusive work.
pub(super) fn mark_for(dir: &Path, changes: &[LedgerChange]) -> io::Result<()> {
    let orders = |change: &LedgerChange| match change {
        LedgerChange::Put(_, intent) => may_be_exclusive(intent),
        LedgerChange::Term(_)
        | LedgerChange::Mark(_)
        | LedgerChange::Bury(..)
        | LedgerChange::Forget(_)
        | LedgerChange::Withdraw(_) => false,
    };
    if changes.iter().any(orders) { mark(dir) } else { Ok(()) }
}

/// Sets the mark. One that is there is left as it is.
pub(crate) fn mark(dir: &Path) -> io::Result<()> {
    if dir.join(MARK).try_exists()? {
        return Ok(());
    }
    File::create(dir.join(MARK))?.sync_all()?;
    File::open(dir)?.sync_all()
}

/// Takes the mark away: the agent ends, and its ledger orders nothing exclusive.
pub(crate) fn unmark(dir: &Path) -> io::Result<()> {
    match fs::remove_file(dir.join(MARK)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// True unless the mark is certainly missing.
pub(crate) fn is_marked(dir: &Path) -> bool {
    dir.join(MARK).try_exists().unwrap_or(true)
}
