//! Progress while waiting: a spinner on a terminal, lines with a time elsewhere.

use std::time::{Duration, Instant, SystemTime};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::show::moment::now_text;
use crate::world::World;

/// How often the spinner turns.
const TURN: Duration = Duration::from_millis(100);
/// Shortest time between two lines that tell an amount.
const BETWEEN: Duration = Duration::from_secs(5);

/// Tells how it goes.
#[derive(Debug)]
pub(crate) struct Progress<'a> {
    world: &'a World,
    id: String,
    spinner: Option<ProgressBar>,
    said: Option<String>,
    /// The last amount, and the time at which a line last told one.
    amount: Option<(String, Instant)>,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(world: &'a World, id: &str) -> Self {
        let spinner = world.err_terminal.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed:>4} {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(TURN);
            bar
        });
        Self { world, id: id.to_owned(), spinner, said: None, amount: None }
    }

    /// Something changed. The same twice in a row is told once.
    pub(crate) fn step(&mut self, text: &str) {
        if self.said.as_deref() == Some(text) {
            return;
        }
        self.said = Some(text.to_owned());
        match &self.spinner {
            Some(bar) => {
                bar.println(format!("  {}: {text}", self.id));
                bar.set_message(format!("{}: {text}", self.id));
            }
            None => {
                self.world.note(&format!("{}  {}: {text}", now_text(SystemTime::now()), self.id));
            }
        }
    }
}

impl Progress<'_> {
    /// An amount grew: on a terminal it changes in place, elsewhere a line tells it now and then.
    pub(crate) fn amount(&mut self, text: &str) {
        let now = Instant::now();
        match (&self.spinner, &self.amount) {
            (_, Some((last, _))) if last == text => {}
            (Some(bar), _) => {
                bar.set_message(format!("{}: {text}", self.id));
                self.amount = Some((text.to_owned(), now));
            }
            (None, Some((_, at))) if now.saturating_duration_since(*at) < BETWEEN => {}
            (None, _) => {
                self.world.note(&format!("{}  {}: {text}", now_text(SystemTime::now()), self.id));
                self.amount = Some((text.to_owned(), now));
            }
        }
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.spinner {
            bar.finish_and_clear();
        }
    }
}
