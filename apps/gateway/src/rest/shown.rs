//! Answers as they were shown: the same bytes of a scheduler are shown the same way again, without the
//! work.
//!
//! Long lists change less often than they are looked at. What is kept is compared with the whole
//! answer, so nothing is ever shown that the scheduler did not say just now.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::HeaderValue;
use bytes::Bytes;

use super::row::Row;

/// Shortest answer that is worth it, and longest that is kept.
const WORTH: std::ops::RangeInclusive<usize> = 2 * 1024..=2 * 1024 * 1024;
/// Most answers that are kept, and most bytes of all together.
const MOST: usize = 256;
const MOST_BYTES: usize = 32 * 1024 * 1024;

/// A body, ready to be sent.
#[derive(Debug, Clone)]
pub struct Body {
    /// What it says.
    pub text: Bytes,
    /// What changes when it does.
    pub tag: HeaderValue,
}

type Key = (&'static str, String);

#[derive(Debug)]
struct Kept {
    answer: Bytes,
    body: Body,
    used: u64,
}

#[derive(Debug, Default)]
struct All {
    kept: HashMap<Key, Arc<Kept>>,
    bytes: usize,
    turn: u64,
}

/// What was shown last.
#[derive(Debug, Default)]
pub struct Shown(Mutex<All>);

impl Shown {
    /// The body of an answer to a request with this query: what was shown before, or what `make`
    /// makes of it.
    pub fn of<E>(
        &self,
        row: &Row,
        query: Option<&str>,
        answer: &Bytes,
        make: impl FnOnce() -> Result<Body, E>,
    ) -> Result<Body, E> {
        if !WORTH.contains(&answer.len()) {
            return make();
        }
        let key = (row.path, query.unwrap_or_default().to_owned());
        let known = {
            let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.kept.get(&key).map(Arc::clone)
        };
        // Compared outside the lock; the same piece of memory needs no look.
        if let Some(known) = known {
            let same = std::ptr::eq(known.answer.as_ptr(), answer.as_ptr())
                && known.answer.len() == answer.len();
            if same || known.answer == *answer {
                return Ok(known.body.clone());
            }
        }
        let body = make()?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keep(key, answer, &body);
        Ok(body)
    }
}

impl All {
    fn keep(&mut self, key: Key, answer: &Bytes, body: &Body) {
        self.turn += 1;
        let kept = Kept { answer: answer.clone(), body: body.clone(), used: self.turn };
        self.bytes += kept.size();
        if let Some(before) = self.kept.insert(key, Arc::new(kept)) {
            self.bytes -= before.size();
        }
        while self.kept.len() > MOST || self.bytes > MOST_BYTES {
            let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { return };
            if let Some(gone) = self.kept.remove(&oldest) {
                self.bytes -= gone.size();
            }
        }
    }
}

impl Kept {
    fn size(&self) -> usize {
        self.answer.len() + self.body.text.len()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::rest::table;

    fn body(text: &'static str) -> Body {
        Body { text: Bytes::from_static(text.as_bytes()), tag: HeaderValue::from_static("\"x\"") }
    }

    fn shown_as(shown: &Shown, query: Option<&str>, answer: &Bytes, text: &'static str) -> Bytes {
        let row = table::all().next().unwrap();
        shown.of(row, query, answer, || Ok::<_, Infallible>(body(text))).unwrap().text
    }

    #[test]
    fn the_same_answer_is_made_once_and_another_one_anew() {
        let shown = Shown::default();
        let (one, other) = (Bytes::from(vec![1; 4096]), Bytes::from(vec![2; 4096]));
        let again = Bytes::from(one.to_vec());
        assert_eq!(shown_as(&shown, None, &one, "1"), "1");
        assert_eq!(shown_as(&shown, None, &again, "2"), "1");
        assert_eq!(shown_as(&shown, Some("a"), &one, "3"), "3");
        assert_eq!(shown_as(&shown, None, &other, "4"), "4");
        assert_eq!(shown_as(&shown, None, &one, "5"), "5");
        let short = Bytes::from_static(b"short");
        assert_eq!(shown_as(&shown, None, &short, "6"), "6");
        assert_eq!(shown_as(&shown, None, &short, "7"), "7");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let shown = Shown::default();
        for nth in 0..1000 {
            let answer = Bytes::from(vec![0; 200 * 1024]);
            shown_as(&shown, Some(&nth.to_string()), &answer, "x");
        }
        let all = shown.0.lock().unwrap();
        assert!(all.bytes <= MOST_BYTES && all.kept.len() <= MOST, "{}", all.bytes);
        let path = table::all().next().unwrap().path;
        assert!(all.kept.contains_key(&(path, "999".to_owned())));
        assert_eq!(all.bytes, all.kept.values().map(|kept| kept.size()).sum::<usize>());
    }
}
