//! The log: one line for each thing that happened, on standard error.
//!
//! Levels are of this program's own modules. Libraries print what they carry, which may be secret,
//! so that of them only warnings are ever told.

mod levels;
mod lines;

use std::io::IsTerminal as _;
use std::sync::OnceLock;
use std::time::Duration;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, Registry, reload};

use levels::LONGEST_CHANGE;
pub use levels::{BadDirective, Directive, Level, Levels, MODULES, Override, Shown, parse};
pub use lines::{Lines, Writing};

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl Format {
    /// What a setting says: `text`, `json`, or `auto`, which is text on a terminal and JSON elsewhere.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            "auto" | "" if std::io::stderr().is_terminal() => Ok(Self::Text),
            "auto" | "" => Ok(Self::Json),
            _ => Err("text, json or auto".to_owned()),
        }
    }
}

/// A process has one log, and so one set of levels.
static LEVELS: OnceLock<Levels> = OnceLock::new();

/// The levels of this process's log, if it was started here.
#[must_use]
pub fn levels() -> Option<&'static Levels> {
    LEVELS.get()
}

/// Starts the log of this process. What was written is told when what this gives is finished.
/// Nothing happens where a log was started before.
pub fn start(directives: &[Directive], format: Format) -> Option<Writing> {
    let (filter, handle) = reload::Layer::<_, Registry>::new(levels::filter(directives));
    let (lines, writing) = Lines::open(std::io::stderr());
    let base = tracing_subscriber::fmt::layer().with_writer(lines);
    let started = match format {
        Format::Json => {
            let layer =
                base.json().flatten_event(true).with_current_span(false).with_span_list(false);
            tracing_subscriber::registry().with(layer.with_filter(filter)).try_init()
        }
        Format::Text => {
            let ansi = std::io::stderr().is_terminal();
            tracing_subscriber::registry().with(base.with_ansi(ansi).with_filter(filter)).try_init()
        }
    };
    started.ok()?;
    let change = move |filter| drop(handle.reload(filter));
    // Only whoever started the log gets here, and that is once.
    drop(LEVELS.set(Levels::new(directives.to_vec(), change)));
    Some(writing)
}

/// How long a change of levels lasts when nobody says.
const USUAL_CHANGE: Duration = Duration::from_mins(10);

/// Why levels are not changed.
#[derive(Debug, thiserror::Error)]
pub enum NotChanged {
    /// The log of this process was started by somebody else.
    #[error("the log of this process cannot be changed")]
    NotOurs,
    /// What was said is not understood.
    #[error("directives: {0}")]
    Bad(#[from] BadDirective),
    /// It would last too long.
    #[error("seconds: a change lasts {} at most", LONGEST_CHANGE.as_secs())]
    TooLong,
}

/// What somebody wants of the levels of this process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted<'a> {
    /// What is to count for a while; nothing is changed when it is empty.
    pub directives: &'a str,
    /// For how many seconds; 0: ten minutes.
    pub seconds: u64,
    /// Whether to go back to the settings first.
    pub reset: bool,
    /// Who wants it, for the log.
    pub who: &'a str,
}

impl Wanted<'_> {
    /// Does it, and tells what counts then.
    pub fn carry_out(&self) -> Result<Shown, NotChanged> {
        if Duration::from_secs(self.seconds) > LONGEST_CHANGE {
            return Err(NotChanged::TooLong);
        }
        let levels = levels().ok_or(NotChanged::NotOurs)?;
        let directives = match self.directives.trim() {
            "" => Vec::new(),
            text => parse(text)?,
        };
        if self.reset {
            levels.reset();
        }
        let lasts = match self.seconds {
            0 => USUAL_CHANGE,
            seconds => Duration::from_secs(seconds),
        };
        if !directives.is_empty() {
            levels.change(directives, lasts)?;
        }
        if self.reset || !self.directives.is_empty() {
            let Self { who, directives, reset, .. } = self;
            tracing::warn!(
                who,
                directives,
                reset,
                for_s = lasts.as_secs(),
                "levels of the log were changed"
            );
        }
        Ok(levels.shown())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_would_last_too_long_is_refused_and_not_cut_short() {
        let wanted = |seconds| Wanted { directives: "", seconds, reset: false, who: "alice" };
        assert!(matches!(wanted(86_401).carry_out(), Err(NotChanged::TooLong)));
        assert!(!matches!(wanted(86_400).carry_out(), Err(NotChanged::TooLong)));
    }
}
