//! Reading many keys: page by page, all at the revision of the first.
//!
//! A page is cut by count, since etcd knows no other way. The count follows the size of what was
//! read so far, so that a page has about the same number of bytes whatever is stored; a page that
//! turns out too large is asked for again in smaller pieces.

use prost::bytes::Bytes;

use crate::client::Client;
use crate::error::{Error, Kind};
use crate::generated::KeyValue;
use crate::request::Range;

/// Records of the first page.
const FIRST: i64 = 500;
/// Most records of any page.
const MOST: i64 = 10_000;
/// About how many bytes a page should have.
const AIM_BYTES: usize = 2 * 1024 * 1024;

/// Reads a range page by page.
#[derive(Debug)]
pub struct Pages {
    client: Client,
    next: Option<Range>,
    revision: i64,
    limit: i64,
}

/// One page.
pub type Page = Vec<KeyValue>;

impl Pages {
    /// The pages of `range`; without a revision it is read at that of the first page.
    #[must_use]
    pub fn new(client: &Client, range: Range) -> Self {
        let revision = range.revision;
        Self { client: client.clone(), next: Some(range), revision, limit: FIRST }
    }

    /// The revision at which is read; 0 before the first page if none was given.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// The next page; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<Page>, Error> {
        let Some(mut range) = self.next.take() else { return Ok(None) };
        loop {
            let asked = Range { limit: self.limit, ..range.clone() };
            match self.client.range(asked).await {
                Ok((page, more, revision)) => {
                    if range.revision == 0 {
                        range.revision = revision;
                    }
                    self.revision = range.revision;
                    self.limit = fitting(&page, self.limit);
                    if let Some(last) = page.last().filter(|_| more) {
                        range.from = after(&last.key);
                        self.next = Some(range);
                    }
                    return Ok(Some(page));
                }
                Err(error) if error.kind() == Kind::TooMuch && self.limit > 1 => {
                    self.limit = (self.limit / 8).max(1);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The first key that sorts after this one.
fn after(key: &[u8]) -> Bytes {
    let mut next = key.to_vec();
    next.push(0);
    next.into()
}

/// How many such records make a page.
fn fitting(page: &[KeyValue], limit: i64) -> i64 {
    let bytes: usize = page.iter().map(|kv| kv.key.len() + kv.value.len() + 32).sum();
    let Some(each) = bytes.checked_div(page.len()) else { return limit };
    let fitting = i64::try_from(AIM_BYTES / each.max(1)).unwrap_or(MOST);
    fitting.clamp(1, MOST.min(limit.saturating_mul(4)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_follows_the_size_of_what_was_read() {
        let page = |bytes: usize| {
            vec![KeyValue { value: vec![0; bytes].into(), ..KeyValue::default() }; 10]
        };
        assert_eq!(fitting(&[], 500), 500);
        assert_eq!(fitting(&page(10), 500), 2000, "grows step by step");
        assert_eq!(fitting(&page(10), 5000), MOST);
        assert!(fitting(&page(100_000), 500) <= 20);
        assert_eq!(fitting(&page(9_000_000), 500), 1);
        assert_eq!(&*after(b"/a"), b"/a\0");
    }
}
