//! The story of a run: a hash that two runs of one seed must share, and lines people can read.

use crate::rng::mix;

/// The story so far.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    events: u64,
    lines: Option<Vec<String>>,
}

impl Trace {
    /// An untold story; lines are only kept when somebody wants to read them.
    pub(crate) fn new(readable: bool) -> Self {
        Self { hash: 0, events: 0, lines: readable.then(Vec::new) }
    }

    /// Takes a number into the hash.
    pub(crate) fn note(&mut self, number: u64) {
        self.hash = mix(self.hash.rotate_left(5) ^ number.wrapping_add(0x9e37_79b9));
    }

    /// Counts one event.
    pub(crate) fn count(&mut self) {
        self.events += 1;
    }

    /// Tells one line, if anybody listens.
    pub(crate) fn tell(&mut self, at: u64, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>8}.{:03}  {}", at / 1000, at % 1000, line()));
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// The lines, if they were kept.
    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        self.lines.take().unwrap_or_default()
    }
}
