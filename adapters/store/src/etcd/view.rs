//! What a transaction builds on: the head, and which events there are.

use persys_cluster::record::Head;
use persys_etcd::{Op, Pages, Range, Txn};

use super::lead::Lead;
use super::packs::{Mark, Packs};
use super::{Inner, nth};
use crate::book::Book;
use crate::error::Error;
use crate::key::event_of;

/// The store as the last transaction left it.
#[derive(Debug)]
pub(super) struct View {
    /// The leadership that saw it.
    pub(super) lead: i64,
    pub(super) head: Option<Head>,
    /// When the head was written; 0 when there is none.
    pub(super) head_revision: i64,
    pub(super) events: Packs,
}

impl Inner {
    /// Looks at the store as it is now.
    pub(super) async fn look(&self, lead: &Lead, book: &Book) -> Result<View, Error> {
        let look = || Txn {
            when: self.guard(lead),
            then: vec![
                Op::Get(self.keys.head()),
                Op::Get(self.keys.journal()),
                Op::Get(self.keys.filling()),
            ],
            otherwise: self.instead(),
        };
        let mut seen = self.client.look(look()).await.map_err(Error::unavailable)?;
        if seen.held
            && let Some(kv) = nth(&seen.found, 1)
        {
            let head = nth(&seen.found, 0).map_or(0, |kv| kv.mod_revision);
            self.finish_journal(lead, head, kv).await?;
            seen = self.client.look(look()).await.map_err(Error::unavailable)?;
        }
        if !seen.held {
            return Err(self.refusal(lead, &seen.found));
        }
        self.refuse_half_filled(nth(&seen.found, 2))?;
        let head = nth(&seen.found, 0);
        Ok(View {
            lead: lead.revision,
            head: book.read_head(head.map(|kv| &*kv.value))?,
            head_revision: head.map_or(0, |kv| kv.mod_revision),
            events: Packs::found(self.event_marks(seen.revision).await?),
        })
    }

    /// The keys of all events, oldest first, at one revision. What has no key of an event is none.
    pub(super) async fn event_marks(&self, revision: i64) -> Result<Vec<Mark>, Error> {
        let (from, to) = self.keys.folder("events");
        let range = Range { keys_only: true, revision, ..Range::between(from, to) };
        let mut pages = Pages::new(&self.client, range);
        let mut marks = Vec::new();
        while let Some(page) = pages.next().await.map_err(Error::unavailable)? {
            let keys = page.iter().filter_map(|kv| std::str::from_utf8(&kv.key).ok());
            marks.extend(keys.filter_map(event_of));
        }
        Ok(marks)
    }
}
