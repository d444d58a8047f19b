//! Requests that may come twice: whoever gives a key gets the same answer again, and nothing is done
//! again.
//!
//! ```text
//!   new ──▶ under way ──▶ answered          the same key with another request is refused
//!               └── broke off ──▶ forgotten
//! ```

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{Context, SHA256};
use axum::http::StatusCode;

use crate::problem::Problem;
use persys_model::hex::hex;

/// How long an answer is kept.
const KEPT: Duration = Duration::from_hours(24);
/// Most answers that are kept.
const MOST: usize = 10_000;
/// Largest answer that is kept; a larger one is not remembered.
const LARGEST: usize = 64 * 1024;
/// Longest key.
const LONGEST_KEY: usize = 255;

/// An answer as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// With which status.
    pub status: u16,
    /// What it said.
    pub body: String,
}

/// The answers that are kept.
#[derive(Debug, Default)]
pub struct Answers(Mutex<BTreeMap<String, Kept>>);

#[derive(Debug)]
struct Kept {
    request: String,
    at: Instant,
    given: Option<Given>,
}

/// What a key means at this moment.
#[derive(Debug)]
pub enum Met<'a> {
    /// It is new; what comes of it is to be told.
    New(UnderWay<'a>),
    /// It was answered before.
    Again(Given),
}

/// A request with a key that is being answered. Dropped without an answer, it is forgotten.
#[derive(Debug)]
pub struct UnderWay<'a> {
    answers: &'a Answers,
    key: String,
    done: bool,
}

/// What tells one request from another.
pub fn fingerprint(parts: &[&[u8]]) -> String {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&part.len().to_le_bytes());
        context.update(part);
    }
    hex(context.finish().as_ref())
}

impl Answers {
    /// Meets a key: of whom, and with which request.
    pub fn meet(
        &self,
        caller: &str,
        key: &str,
        request: &str,
        now: Instant,
    ) -> Result<Met<'_>, Problem> {
        let graphic = |byte: u8| (0x20..0x7f).contains(&byte);
        if key.is_empty() || key.len() > LONGEST_KEY || !key.bytes().all(graphic) {
            return Err(Problem::bad(format!(
                "Idempotency-Key: is not a text of 1 to {LONGEST_KEY} plain letters"
            )));
        }
        let key = fingerprint(&[caller.as_bytes(), key.as_bytes()]);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = all.get(&key)
            && now.saturating_duration_since(kept.at) < KEPT
        {
            return kept.again(request).map(Met::Again);
        }
        if all.len() >= MOST {
            all.retain(|_, kept| now.saturating_duration_since(kept.at) < KEPT);
        }
        if all.len() >= MOST {
            return Err(Problem::too_many("too many requests with a key are remembered already"));
        }
        all.insert(key.clone(), Kept { request: request.to_owned(), at: now, given: None });
        Ok(Met::New(UnderWay { answers: self, key, done: false }))
    }
}

impl Kept {
    fn again(&self, request: &str) -> Result<Given, Problem> {
        if self.request != request {
            let sentence = "this Idempotency-Key was used for another request";
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            return Err(Problem::new(status, "key_reused", sentence, "use a new key"));
        }
        self.given.clone().ok_or_else(|| {
            let sentence = "the request with this Idempotency-Key is under way";
            let next = "ask again for its answer";
            Problem::new(StatusCode::CONFLICT, "under_way", sentence, next).again_in(1)
        })
    }
}

impl UnderWay<'_> {
    /// It was answered so.
    pub fn answered(mut self, given: Given) {
        // What failed for want of somebody who answers may be tried again with the same key.
        if given.body.len() > LARGEST || given.status >= 500 {
            return;
        }
        let mut all = self.answers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = all.get_mut(&self.key) {
            kept.given = Some(given);
            self.done = true;
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.answers.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met<'a>(answers: &'a Answers, caller: &str, request: &str) -> Result<Met<'a>, Problem> {
        answers.meet(caller, "k1", request, Instant::now())
    }

    #[test]
    fn the_same_key_gets_the_same_answer_and_only_for_the_same_request() {
        let answers = Answers::default();
        let Ok(Met::New(first)) = met(&answers, "a", "r1") else { panic!("new") };
        assert_eq!(met(&answers, "a", "r1").unwrap_err().status().as_u16(), 409);
        let given = Given { status: 200, body: "done".to_owned() };
        first.answered(given.clone());
        assert!(matches!(met(&answers, "a", "r1"), Ok(Met::Again(again)) if again == given));
        assert_eq!(met(&answers, "a", "r2").unwrap_err().status().as_u16(), 422);
        assert!(matches!(met(&answers, "b", "r2"), Ok(Met::New(_))), "another caller's key");
    }

    #[test]
    fn what_broke_off_or_failed_may_be_tried_again() {
        let answers = Answers::default();
        drop(met(&answers, "a", "r1"));
        let Ok(Met::New(second)) = met(&answers, "a", "r1") else { panic!("new") };
        second.answered(Given { status: 503, body: String::new() });
        assert!(matches!(met(&answers, "a", "r1"), Ok(Met::New(_))));
        for bad in ["", "a\nb", &"x".repeat(300)] {
            assert!(answers.meet("a", bad, "r", Instant::now()).is_err());
        }
    }
}
