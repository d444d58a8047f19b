//! The mode of the scheduler, as it last said: for the agent's `/health`.

use std::sync::{Mutex, PoisonError};

use persys_model::mode::Mode;
use persys_model::time::WallMillis;

/// The last mode a scheduler told, and when it became so.
#[derive(Debug, Default)]
pub struct ToldMode(Mutex<Option<(&'static str, WallMillis)>>);

impl ToldMode {
    /// A scheduler said its mode; one that says none, or a word nobody knows, leaves it as it was.
    pub(super) fn hear(&self, said: &str, now: WallMillis) {
        let known = [Mode::Normal, Mode::Degraded, Mode::Recovery].map(Mode::word);
        let Some(word) = known.into_iter().find(|word| *word == said) else { return };
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|(before, _)| before != word) {
            *told = Some((word, now));
        }
    }

    /// The mode, and since when; `None` while none was told.
    #[must_use]
    pub fn get(&self) -> Option<(&'static str, WallMillis)> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_counts_from_when_it_changed() {
        let mode = ToldMode::default();
        mode.hear("", WallMillis(1));
        mode.hear("standby", WallMillis(2));
        assert_eq!(mode.get(), None);
        mode.hear("normal", WallMillis(3));
        mode.hear("normal", WallMillis(4));
        assert_eq!(mode.get(), Some(("normal", WallMillis(3))));
        mode.hear("degraded", WallMillis(5));
        assert_eq!(mode.get(), Some(("degraded", WallMillis(5))));
    }
}
