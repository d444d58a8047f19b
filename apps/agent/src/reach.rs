//! The log of the way to the scheduler: a line when it is lost, one a minute while nothing changes,
//! and one when it is back.
//!
//! ```text
//!   reached ── fails: a line ──► lost ── same cause: once a minute; another cause: a line ──┐
//!      ▲                          │  ▲                                                      │
//!      └───── answers: a line ────┘  └──────────────────────────────────────────────────────┘
//! ```

use persys_model::link::RegistrationAnswer;
use persys_node::input::Input;
use std::time::{Duration, Instant};

/// Between two lines about the same cause.
const SAME_CAUSE: Duration = Duration::from_mins(1);
/// Between two lines at all, where causes take turns.
const ANY_CAUSE: Duration = Duration::from_secs(10);

/// The way to the scheduler, as the log last told it.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    lost: Option<Lost>,
}

#[derive(Debug)]
struct Lost {
    since: Instant,
    /// The cause that was last told, and when.
    told: (String, Instant),
    attempts: u64,
}

/// A line for the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// How long no scheduler has answered.
    pub(crate) lost_for: Duration,
    /// Attempts in vain since then.
    pub(crate) attempts: u64,
}

impl Reach {
    /// An attempt was in vain; gives a line if one is due.
    pub(crate) fn failed(&mut self, cause: &str, now: Instant) -> Option<Line> {
        let Some(lost) = &mut self.lost else {
            let told = (cause.to_owned(), now);
            self.lost = Some(Lost { since: now, told, attempts: 1 });
            return Some(Line { lost_for: Duration::ZERO, attempts: 1 });
        };
        lost.attempts = lost.attempts.saturating_add(1);
        let pause = if lost.told.0 == cause { SAME_CAUSE } else { ANY_CAUSE };
        if now.duration_since(lost.told.1) < pause {
            return None;
        }
        lost.told = (cause.to_owned(), now);
        let lost_for = now.duration_since(lost.since);
        Some(Line { lost_for, attempts: lost.attempts })
    }

    /// The scheduler answered as it should; gives a line if it did not before.
    pub(crate) fn answered(&mut self, now: Instant) -> Option<Line> {
        let Lost { since, attempts, .. } = self.lost.take()?;
        Some(Line { lost_for: now.duration_since(since), attempts })
    }
}

/// Cause for which a scheduler that answered does not accept this node.
pub(crate) fn refusal(input: &Input) -> Option<String> {
    match input {
        Input::Registered(RegistrationAnswer::Refused { why, .. }) => {
            Some(format!("registration refused: {why}"))
        }
        Input::Registered(RegistrationAnswer::Accepted { .. })
        | Input::Heard(_)
        | Input::Command(..)
        | Input::Unreachable
        | Input::Observed(..)
        | Input::Ended { .. }
        | Input::Done { .. }
        | Input::Progress(..)
        | Input::Probed { .. }
        | Input::Persisted(_)
        | Input::LedgerFailed
        | Input::Stirred(_)
        | Input::Usage(_)
        | Input::Wrote { .. }
        | Input::Tick => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seconds: u64, attempts: u64) -> Line {
        Line { lost_for: Duration::from_secs(seconds), attempts }
    }

    #[test]
    fn the_same_cause_is_told_once_a_minute_and_another_one_soon() {
        let (mut reach, begun) = (Reach::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(reach.answered(at(0)), None);
        assert_eq!(reach.failed("refused", at(0)), Some(line(0, 1)));
        for second in 1..60 {
            assert_eq!(reach.failed("refused", at(second)), None, "{second}");
        }
        assert_eq!(reach.failed("refused", at(60)), Some(line(60, 61)));
        assert_eq!(reach.failed("wrong certificate", at(61)), None, "causes may take turns");
        assert_eq!(reach.failed("wrong certificate", at(70)), Some(line(70, 63)));
        assert_eq!(reach.failed("wrong certificate", at(129)), None);
        assert_eq!(reach.answered(at(130)), Some(line(130, 64)));
        assert_eq!(reach.answered(at(131)), None);
        assert_eq!(reach.failed("refused", at(132)), Some(line(0, 1)));
    }

    #[test]
    fn a_registration_that_is_refused_is_a_cause_for_the_log() {
        let why = std::sync::Arc::from("another machine holds the name n1 and is alive");
        let refused = RegistrationAnswer::Refused { why, retry_after_ms: 1 };
        let cause = refusal(&Input::Registered(refused)).unwrap();
        assert_eq!(cause, "registration refused: another machine holds the name n1 and is alive");
        let (term, session) = (persys_model::token::Term(1), persys_model::token::Session(1));
        let accepted = RegistrationAnswer::Accepted { term, session, beat_ms: 1, lease_ms: 1 };
        assert_eq!(refusal(&Input::Registered(accepted)), None);
    }
}
