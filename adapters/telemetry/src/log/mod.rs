//! The log: one line for each thing that happened, on standard error.
//!
//! Levels are of this program's own modules. Libraries print what they carry, which may be secret,
//! so that of them only warnings are ever told.

mod levels;
mod lines;

use std::io::IsTerminal as _;
use std::sync::OnceLock;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, Registry, reload};

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
