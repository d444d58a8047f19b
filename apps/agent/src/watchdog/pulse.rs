//! How a watchdog proves that it is alive and can do its work: a small file it writes again and
//! again. It is not synced: it means nothing after this boot.

use std::fs;
use std::io;
use std::path::Path;

use persys_model::time::Millis;
use serde::{Deserialize, Serialize};

const FILE: &str = "watchdog";
/// A pulse older than this is none. Longer than the runtime may take to answer.
const ALIVE_MS: u64 = 5_000;
/// How long the runtime may be out of a watchdog's sight before it counts as unable to stop
/// anything.
const SIGHT_MS: u64 = 15_000;

/// One beat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pulse {
    pub(super) boot: String,
    /// When it began, then its process: the later one is the one in charge.
    pub(super) born_ms: u64,
    pub(super) pid: u32,
    pub(super) alive_ms: u64,
    /// When the runtime last told it all.
    pub(super) saw_ms: Option<u64>,
}

impl Pulse {
    /// Reads the last beat in `dir`, if there is one.
    pub(super) fn read(dir: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(dir.join(FILE)).ok()?).ok()
    }

    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        // Two that write at once rename the same file: one of them then has not beaten.
        let new = dir.join(format!("{FILE}.new"));
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        fs::write(&new, text).and_then(|()| fs::rename(&new, dir.join(FILE)))
    }

    /// Whether it beat lately, in this boot.
    pub(super) fn is_alive(&self, boot: &str, now: Millis) -> bool {
        self.boot == boot && now.since(Millis(self.alive_ms)) < ALIVE_MS
    }

    /// Whether the runtime would hear it, too.
    pub(super) fn is_able(&self, boot: &str, now: Millis) -> bool {
        let saw = self.saw_ms.is_some_and(|saw| now.since(Millis(saw)) < SIGHT_MS);
        self.is_alive(boot, now) && saw
    }

    /// Whether the other one is in charge.
    pub(super) fn yields_to(&self, other: &Self) -> bool {
        (other.born_ms, other.pid) > (self.born_ms, self.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulse_is_worth_something_for_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let pulse = Pulse {
            boot: "b".to_owned(),
            born_ms: 1,
            pid: 7,
            alive_ms: 20_000,
            saw_ms: Some(19_000),
        };
        pulse.write(dir.path()).unwrap();
        assert_eq!(Pulse::read(dir.path()), Some(pulse.clone()));
        assert!(pulse.is_able("b", Millis(20_001)));
        assert!(!pulse.is_able("other boot", Millis(20_001)));
        assert!(!pulse.is_alive("b", Millis(25_000)));
        let blind = Pulse { saw_ms: Some(4_000), ..pulse.clone() };
        assert!(blind.is_alive("b", Millis(20_001)) && !blind.is_able("b", Millis(20_001)));
        let unproven = Pulse { saw_ms: None, ..pulse.clone() };
        assert!(!unproven.is_able("b", Millis(20_001)), "it has to prove itself first");
        let next = Pulse { born_ms: 2, pid: 3, ..pulse.clone() };
        assert!(pulse.yields_to(&next) && !next.yields_to(&pulse));
        fs::write(dir.path().join(FILE), "garbage").unwrap();
        assert_eq!(Pulse::read(dir.path()), None);
    }
}
