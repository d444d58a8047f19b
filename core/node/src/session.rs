//! The line to the scheduler: one registration per session, then beats.
//!
//! ```text
//!   Looking ──saw the runtimes, or waited──► Asking ──accepted──► Alive
//!                                           ▲    │ refused,         │ register again
//!                                           │    ▼ unreachable      │
//!                                          Waiting ◄────────────────┘ (at once)
//! ```
//!
//! Invariant: a session is never replaced by an older one, and a renewal is counted from a moment
//! not later than the sending of the message it answers.

use std::collections::BTreeMap;

use persys_model::time::Millis;
use persys_model::token::{Session, Term};

use crate::agent::Agent;
use crate::restart;
use crate::settings::AgentSettings;
use crate::slot::Heard;

/// Most beats whose sending is remembered; an answer to an older one renews nothing.
const REMEMBERED_BEATS: usize = 128;
/// Beats in a row that may go unanswered before the scheduler counts as out of reach.
const UNHEARD_BEATS: u64 = 3;

/// The line to the scheduler.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    phase: Phase,
    /// The last session and the leadership that gave it; kept to recognise older ones.
    last: Option<(Term, Session)>,
    tries: u32,
    /// Registrations without an answer, and when the first of them was sent.
    asks: u32,
    oldest_ask: Option<Millis>,
    since: Millis,
    beat_ms: u64,
    seq: u64,
    /// The last beat that was answered.
    heard: u64,
    sent: BTreeMap<u64, Millis>,
    last_beat: Option<Millis>,
    inventory: Heard,
    hold: bool,
    drain: bool,
}

/// Where the line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waits for the runtimes before the first word.
    Looking { until: Millis },
    /// Waits for the answer to a registration.
    Asking { until: Millis },
    /// Waits before the next registration.
    Waiting { at: Millis },
    /// Registered.
    Alive(Session),
}

/// What an accepted registration means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Welcome {
    /// It is older than what we have, or the same.
    Nothing,
    /// A session begins; its lease counts from here, if that is known.
    Begins { renewed_at: Option<Millis> },
}

impl Agent {
    /// Whether the scheduler answers: there is a session, and of its beats hardly any went unheard.
    pub fn connected(&self) -> bool {
        self.session().is_some() && self.line.unanswered() <= UNHEARD_BEATS
    }
}

impl Line {
    pub(crate) fn new(settings: &AgentSettings, now: Millis) -> Self {
        Self {
            phase: Phase::Looking { until: now.plus(settings.observe_wait_ms) },
            last: None,
            tries: 0,
            asks: 0,
            oldest_ask: None,
            since: now,
            beat_ms: settings.beat_ms,
            seq: 0,
            heard: 0,
            sent: BTreeMap::new(),
            last_beat: None,
            inventory: Heard::Known,
            hold: false,
            drain: false,
        }
    }

    pub(crate) fn session(&self) -> Option<Session> {
        match self.phase {
            Phase::Alive(session) => Some(session),
            Phase::Looking { .. } | Phase::Asking { .. } | Phase::Waiting { .. } => None,
        }
    }

    /// Beats of this session that were not answered, at least not yet.
    pub(crate) fn unanswered(&self) -> u64 {
        self.seq.saturating_sub(self.heard)
    }

    pub(crate) fn holds(&self) -> bool {
        self.hold
    }

    pub(crate) fn drains(&self) -> bool {
        self.drain
    }

    /// When the session began.
    pub(crate) fn since(&self) -> Millis {
        self.since
    }

    /// The runtimes have answered: there is something true to say.
    pub(crate) fn looked(&mut self, now: Millis) {
        match self.phase {
            Phase::Looking { .. } => self.phase = Phase::Waiting { at: now },
            Phase::Asking { .. } | Phase::Waiting { .. } | Phase::Alive(_) => {}
        }
    }

    /// Whether to register now; if so the registration counts as sent.
    pub(crate) fn register(&mut self, settings: &AgentSettings, now: Millis) -> bool {
        let due = match self.phase {
            Phase::Looking { until } | Phase::Asking { until } => until <= now,
            Phase::Waiting { at } => at <= now,
            Phase::Alive(_) => false,
        };
        if due {
            self.phase = Phase::Asking { until: now.plus(settings.answer_wait_ms) };
            self.asks = self.asks.saturating_add(1);
            self.oldest_ask.get_or_insert(now);
            // A registration tells all that is held.
            self.inventory = Heard::Known;
        }
        due
    }

    /// A registration was accepted by a leadership that is not older than what we know.
    pub(crate) fn accepted(
        &mut self,
        term: Term,
        session: Session,
        beat_ms: u64,
        now: Millis,
    ) -> Welcome {
        let renewed_at = self.answered();
        let offer = Some((term, session));
        if offer < self.last || (offer == self.last && self.session().is_some()) {
            return Welcome::Nothing;
        }
        if self.last.map(|(_, session)| session) != Some(session) {
            // In a session that goes on the numbers go on, or its beats would look overtaken.
            self.seq = 0;
            self.heard = 0;
            self.sent.clear();
        }
        self.phase = Phase::Alive(session);
        self.last = offer;
        self.tries = 0;
        self.since = now;
        self.beat_ms = beat_ms.max(1);
        self.last_beat = None;
        if self.inventory != Heard::Known {
            self.inventory = Heard::Unsent;
        }
        self.hold = false;
        self.drain = false;
        Welcome::Begins { renewed_at }
    }

    /// A registration was refused, or accepted by somebody who leads no more.
    pub(crate) fn refused(&mut self, retry_after_ms: u64, now: Millis) {
        self.answered();
        match self.phase {
            Phase::Asking { .. } => {
                self.phase = Phase::Waiting { at: now.plus(retry_after_ms.max(1)) };
            }
            Phase::Looking { .. } | Phase::Waiting { .. } | Phase::Alive(_) => {}
        }
    }

    /// The last message reached nobody. Beats go on as they were; registrations wait longer each
    /// time.
    pub(crate) fn unreachable(&mut self, settings: &AgentSettings, now: Millis) {
        match self.phase {
            Phase::Asking { .. } => {
                self.tries = self.tries.saturating_add(1);
                let wait = restart::delay_ms(
                    self.tries,
                    settings.register_base_ms,
                    settings.register_cap_ms,
                );
                self.phase = Phase::Waiting { at: now.plus(wait.max(1)) };
            }
            Phase::Looking { .. } | Phase::Waiting { .. } | Phase::Alive(_) => {}
        }
    }

    /// The session is over.
    pub(crate) fn lost(&mut self, now: Millis) {
        self.phase = Phase::Waiting { at: now };
        self.hold = false;
        self.drain = false;
    }

    /// A beat was heard; says when it was sent, if that is remembered.
    pub(crate) fn heard(
        &mut self,
        seq: u64,
        (hold, drain): (bool, bool),
        want_inventory: bool,
        beat_ms: u64,
    ) -> Option<Millis> {
        if seq >= self.heard {
            self.heard = seq;
            self.hold = hold;
            self.drain = drain;
            if beat_ms > 0 {
                self.beat_ms = beat_ms;
            }
        }
        self.inventory.acknowledge(seq);
        if want_inventory && self.inventory == Heard::Known {
            self.inventory = Heard::Unsent;
        }
        let sent = self.sent.get(&seq).copied();
        self.sent.retain(|later, _| *later > seq);
        sent
    }

    /// Something was found that the scheduler may not know of: tell all.
    pub(crate) fn tell_all(&mut self) {
        self.inventory = Heard::Unsent;
    }

    /// When the next beat is due, after `most_ms` at the latest; at once when there is news, but
    /// never in a flurry.
    pub(crate) fn beat_at(
        &self,
        news: bool,
        most_ms: u64,
        settings: &AgentSettings,
    ) -> Option<Millis> {
        self.session()?;
        let news = news || self.inventory == Heard::Unsent;
        let usual = self.beat_ms.min(most_ms);
        let gap = if news { settings.min_beat_gap_ms.min(usual) } else { usual };
        // The first beat of a session is due at once: it is the first to renew for certain.
        Some(self.last_beat.map_or(Millis(0), |last| last.plus(gap)))
    }

    /// A beat is sent; gives its number and whether all that is held goes with it.
    pub(crate) fn beat(&mut self, now: Millis) -> (u64, bool) {
        self.seq = self.seq.saturating_add(1);
        self.last_beat = Some(now);
        self.sent.insert(self.seq, now);
        if self.sent.len() > REMEMBERED_BEATS {
            self.sent.pop_first();
        }
        self.inventory.send(self.seq);
        (self.seq, self.inventory != Heard::Known)
    }

    /// When a registration is due.
    pub(crate) fn register_at(&self) -> Option<Millis> {
        match self.phase {
            Phase::Looking { until } | Phase::Asking { until } => Some(until),
            Phase::Waiting { at } => Some(at),
            Phase::Alive(_) => None,
        }
    }

    /// One registration fewer is without an answer. Which one was answered is not known, so the
    /// answer counts from the oldest; that one is forgotten only when none is open.
    fn answered(&mut self) -> Option<Millis> {
        let oldest = self.oldest_ask;
        self.asks = self.asks.saturating_sub(1);
        if self.asks == 0 {
            self.oldest_ask = None;
        }
        oldest
    }
}
