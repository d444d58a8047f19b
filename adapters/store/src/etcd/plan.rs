//! What one commit does to the keys of etcd. Nothing here asks etcd anything.

use std::collections::BTreeMap;

use persys_cluster::record::Unit;
use persys_etcd::Op;
use persys_model::token::CommitSeq;

use super::packs::News;
use super::view::View;
use crate::book::{Book, Edit};
use crate::chain;
use crate::error::Error;
use crate::settings::Settings;

/// What a commit does.
#[derive(Debug)]
pub(super) struct Plan {
    /// The number of the last unit.
    pub(super) seq: CommitSeq,
    /// Keys whose unreadable bytes are copied aside first.
    pub(super) aside: Vec<String>,
    /// Records, events and the trimming of events; no key stands twice.
    pub(super) ops: Vec<Op>,
    /// The new head.
    pub(super) head: Op,
}

/// What `units` do to the store that `view` shows; `None` for none. The view is then what the store
/// is after it.
pub(super) fn plan(
    view: &mut View,
    book: &mut Book,
    settings: &Settings,
    after: CommitSeq,
    units: &[Unit],
) -> Result<Option<Plan>, Error> {
    let seq = chain::follow(view.head.as_ref(), after, units)?;
    let Some(last) = units.last() else { return Ok(None) };
    // The later of two writes to one key wins; etcd takes no two in one transaction.
    let mut records = BTreeMap::new();
    let mut news = News::after(&view.events);
    for edit in book.edits(units)? {
        match edit {
            Edit::Put(key, bytes) => {
                records.insert(key.clone(), Op::put(key, bytes));
            }
            Edit::Delete(key) => {
                records.insert(key.clone(), Op::Delete(key));
            }
            Edit::Event(event, bytes) => news.push(&event, bytes),
        }
    }
    let aside = records.keys().filter(|key| book.was_aside(key)).cloned().collect();
    let mut ops: Vec<Op> = records.into_values().collect();
    ops.extend(view.events.add(news, settings, &book.keys));
    let head = match book.head(&last.head)? {
        Edit::Put(key, bytes) => Op::put(key, bytes),
        Edit::Delete(_) | Edit::Event(..) => return Err(Error::unavailable("no head")),
    };
    view.head = Some(last.head.clone());
    Ok(Some(Plan { seq, aside, ops, head }))
}
