//! Answers as they were shown: the same bytes of a scheduler are shown the same way again, without the
//! work.
//!
//! Most things change less often than they are looked at. What is kept is compared with the whole
//! answer, so nothing is ever shown that the scheduler did not say just now.
//!
//! ```text
//!   shown ──▶ young ── half the room is used ──▶ old ── the other half is, too ──▶ forgotten
//!               ▲                                 │
//!               └────────── shown again ──────────┘
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::HeaderValue;
use bytes::Bytes;

/// Longest answer that is kept.
const LONGEST: usize = 2 * 1024 * 1024;
/// Most answers that are kept, and most bytes of all together.
const MOST: usize = 8192;
const MOST_BYTES: usize = 32 * 1024 * 1024;

/// A body, ready to be sent.
#[derive(Debug, Clone)]
pub struct Body {
    /// What it says.
    pub text: Bytes,
    /// What changes when it does.
    pub tag: HeaderValue,
}

#[derive(Debug)]
struct Kept {
    answer: Bytes,
    body: Body,
}

/// Those of one age, by the address they were shown at.
#[derive(Debug, Default)]
struct Half {
    kept: HashMap<Box<str>, Arc<Kept>>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct All {
    young: Half,
    old: Half,
}

/// What was shown last.
#[derive(Debug, Default)]
pub struct Shown(Mutex<All>);

impl Shown {
    /// The body of an answer to whoever asked at this address, path and query: what was shown
    /// before, or what `make` makes of it.
    pub fn of<E>(
        &self,
        at: &str,
        answer: &Bytes,
        make: impl FnOnce() -> Result<Body, E>,
    ) -> Result<Body, E> {
        if answer.len() > LONGEST {
            return make();
        }
        let known = self.locked().find(at);
        // Compared outside the lock; the same piece of memory needs no look.
        if let Some(known) = known {
            let same = std::ptr::eq(known.answer.as_ptr(), answer.as_ptr())
                && known.answer.len() == answer.len();
            if same || known.answer == *answer {
                return Ok(known.body.clone());
            }
        }
        let body = make()?;
        let kept = Kept { answer: answer.clone(), body: body.clone() };
        self.locked().keep(at.into(), Arc::new(kept));
        Ok(body)
    }

    fn locked(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl All {
    fn find(&mut self, at: &str) -> Option<Arc<Kept>> {
        if let Some(known) = self.young.kept.get(at) {
            return Some(Arc::clone(known));
        }
        let (at, known) = self.old.remove(at)?;
        self.keep(at, Arc::clone(&known));
        Some(known)
    }

    fn keep(&mut self, at: Box<str>, kept: Arc<Kept>) {
        let size = kept.size(&at);
        if size > MOST_BYTES / 2 {
            return;
        }
        drop(self.old.remove(&at));
        drop(self.young.remove(&at));
        if self.young.kept.len() >= MOST / 2 || self.young.bytes + size > MOST_BYTES / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.bytes += size;
        self.young.kept.insert(at, kept);
    }
}

impl Half {
    fn remove(&mut self, at: &str) -> Option<(Box<str>, Arc<Kept>)> {
        let (at, kept) = self.kept.remove_entry(at)?;
        self.bytes -= kept.size(&at);
        Some((at, kept))
    }
}

impl Kept {
    fn size(&self, at: &str) -> usize {
        at.len() + self.answer.len() + self.body.text.len()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn body(text: &'static str) -> Body {
        Body { text: Bytes::from_static(text.as_bytes()), tag: HeaderValue::from_static("\"x\"") }
    }

    fn shown_as(shown: &Shown, at: &str, answer: &Bytes, text: &'static str) -> Bytes {
        shown.of(at, answer, || Ok::<_, Infallible>(body(text))).unwrap().text
    }

    #[test]
    fn the_same_answer_is_made_once_and_another_one_anew() {
        let shown = Shown::default();
        let (one, other) = (Bytes::from(vec![1; 4096]), Bytes::from(vec![2; 4096]));
        let again = Bytes::from(one.to_vec());
        assert_eq!(shown_as(&shown, "/w", &one, "1"), "1");
        assert_eq!(shown_as(&shown, "/w", &again, "2"), "1");
        assert_eq!(shown_as(&shown, "/w?a", &one, "3"), "3");
        assert_eq!(shown_as(&shown, "/w", &other, "4"), "4");
        assert_eq!(shown_as(&shown, "/w", &one, "5"), "5");
        let long = Bytes::from(vec![1; LONGEST + 1]);
        assert_eq!(shown_as(&shown, "/w", &long, "6"), "6");
        assert_eq!(shown_as(&shown, "/w", &long, "7"), "7");
    }

    #[test]
    fn what_is_kept_is_bounded_and_what_is_looked_at_stays() {
        let shown = Shown::default();
        let seen = Bytes::from_static(b"seen");
        assert_eq!(shown_as(&shown, "/seen", &seen, "1"), "1");
        for size in [200 * 1024, 8] {
            for nth in 0..2 * MOST {
                let answer = Bytes::from(vec![0; size]);
                shown_as(&shown, &format!("/w{nth}"), &answer, "x");
                assert_eq!(shown_as(&shown, "/seen", &seen, "2"), "1", "{nth}");
            }
            let all = shown.0.lock().unwrap();
            let (count, mut bytes) = (all.young.kept.len() + all.old.kept.len(), 0);
            for (at, kept) in all.young.kept.iter().chain(&all.old.kept) {
                bytes += kept.size(at);
            }
            assert!(count <= MOST && bytes <= MOST_BYTES, "{count} {bytes}");
            assert_eq!(bytes, all.young.bytes + all.old.bytes);
            assert!(all.young.kept.contains_key(&*format!("/w{}", 2 * MOST - 1)));
            assert!(!all.young.kept.contains_key("/w0") && !all.old.kept.contains_key("/w0"));
        }
    }
}
