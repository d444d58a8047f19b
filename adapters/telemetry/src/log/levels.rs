//! How much each module tells, and how that changes for a while.
//!
//! ```text
//!   settings: info,persys_scheduler::rpc=debug         for good
//!   somebody: persys_agent=trace, for 10 minutes       on top, and gone by itself
//! ```

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tracing_subscriber::filter::{LevelFilter, Targets};

/// Modules that have levels: the crates of this program, by name.
pub const MODULES: &[&str] = &[
    "access",
    "agent",
    "ca",
    "cli",
    "cluster",
    "codec",
    "compose",
    "dns",
    "doctor",
    "etcd",
    "gateway",
    "git",
    "identity",
    "libvirt",
    "metrics",
    "model",
    "node",
    "oidc",
    "process",
    "proto",
    "runtime",
    "scheduler",
    "seal",
    "store",
    "telemetry",
    "volumes",
];

/// Longest text of directives.
const LONGEST: usize = 1024;
/// Most changes on top of the settings at a time.
const MOST_OVERRIDES: usize = 64;
/// Longest time for which a change lasts: what is to stay belongs into the settings.
pub(super) const LONGEST_CHANGE: Duration = Duration::from_hours(24);

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing.
    Off,
    /// What should not be.
    Error,
    /// What somebody should look at.
    Warn,
    /// One line for each operation.
    Info,
    /// What led to it.
    Debug,
    /// Everything.
    Trace,
}

impl Level {
    const ALL: [Self; 6] =
        [Self::Off, Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// As it is written.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.word().eq_ignore_ascii_case(text))
    }

    fn filter(self) -> LevelFilter {
        match self {
            Self::Off => LevelFilter::OFF,
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
            Self::Trace => LevelFilter::TRACE,
        }
    }
}

/// How much one module tells, or all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// Which module, as in `persys_scheduler::rpc`; all of ours where there is none.
    pub module: Option<String>,
    /// How much.
    pub level: Level,
}

impl fmt::Display for Directive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.module {
            Some(module) => write!(f, "{module}={}", self.level.word()),
            None => f.write_str(self.level.word()),
        }
    }
}

/// Directives nobody understands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part:?}: {why}")]
pub struct BadDirective {
    /// The part that is wrong.
    pub part: String,
    /// What is wrong with it.
    pub why: String,
}

/// Reads directives: a level, `module=level`, or several of them with commas. The crate's name may be
/// written without `persys_`.
pub fn parse(text: &str) -> Result<Vec<Directive>, BadDirective> {
    let bad = |part: &str, why: String| BadDirective { part: part.to_owned(), why };
    if text.len() > LONGEST {
        return Err(bad("", format!("longer than {LONGEST} bytes")));
    }
    let mut found = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (module, level) = match part.split_once('=') {
            Some((module, level)) => {
                let module = module_of(module.trim()).map_err(|why| bad(part, why))?;
                (Some(module), level.trim())
            }
            None => (None, part),
        };
        let level = Level::parse(level).ok_or_else(|| {
            bad(part, "a level is error, warn, info, debug, trace or off".to_owned())
        })?;
        found.push(Directive { module, level });
    }
    if found.is_empty() {
        return Err(bad(text, "a level, such as info, or module=level".to_owned()));
    }
    Ok(found)
}

fn module_of(text: &str) -> Result<String, String> {
    let (first, rest) = match text.split_once("::") {
        Some((first, rest)) => (first, Some(rest)),
        None => (text, None),
    };
    let short = first.strip_prefix("persys_").unwrap_or(first);
    if first != "persys" && !MODULES.contains(&short) {
        return Err(format!("there is no module {first:?}; modules are {}", MODULES.join(", ")));
    }
    let plain = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    if rest.is_some_and(|rest| !rest.split("::").all(plain)) {
        return Err("a module is a name, with :: between its parts".to_owned());
    }
    let first = if first == "persys" { first.to_owned() } else { format!("persys_{short}") };
    Ok(match rest {
        Some(rest) => format!("{first}::{rest}"),
        None => first,
    })
}

/// What lets lines through: later directives count more than earlier ones about the same module.
pub(super) fn filter(directives: &[Directive]) -> Targets {
    let mut targets = Targets::new();
    let ours = directives.iter().rev().find(|one| one.module.is_none());
    let ours = ours.map_or(Level::Info, |one| one.level);
    targets =
        targets.with_default(ours.min(Level::Warn).filter()).with_target("persys", ours.filter());
    for Directive { module, level } in directives {
        if let Some(module) = module {
            targets = targets.with_target(module.clone(), level.filter());
        }
    }
    targets
}

/// A change on top of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// What was said.
    pub directive: Directive,
    /// How long it still lasts.
    pub left: Duration,
}

/// The levels of the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// What the settings say.
    pub settings: Vec<Directive>,
    /// What counts on top of it, for a while.
    pub overrides: Vec<Override>,
}

/// The levels of a log that runs. Copies are the same.
#[derive(Clone)]
pub struct Levels(Arc<Inner>);

struct Inner {
    settings: Vec<Directive>,
    overrides: Mutex<Vec<(Directive, Instant)>>,
    change: Box<dyn Fn(Targets) + Send + Sync>,
}

impl fmt::Debug for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Levels").field(&self.shown()).finish()
    }
}

impl Levels {
    /// Levels that begin with the settings; `change` has a filter count.
    pub(super) fn new(
        settings: Vec<Directive>,
        change: impl Fn(Targets) + Send + Sync + 'static,
    ) -> Self {
        let overrides = Mutex::default();
        Self(Arc::new(Inner { settings, overrides, change: Box::new(change) }))
    }

    /// What counts now.
    #[must_use]
    pub fn shown(&self) -> Shown {
        let now = Instant::now();
        let left = |(directive, until): &(Directive, Instant)| {
            let left = until.saturating_duration_since(now);
            (!left.is_zero()).then(|| Override { directive: directive.clone(), left })
        };
        let overrides = self.overrides().iter().filter_map(left).collect();
        Shown { settings: self.0.settings.clone(), overrides }
    }

    /// Has directives count for a while, and then what counted before. Needs a runtime, which has the
    /// time pass.
    pub fn change(&self, directives: Vec<Directive>, lasts: Duration) -> Result<(), BadDirective> {
        let lasts = lasts.clamp(Duration::from_secs(1), LONGEST_CHANGE);
        let until = Instant::now() + lasts;
        {
            let mut overrides = self.overrides();
            // The same said again lasts from now.
            overrides.retain(|(old, _)| directives.iter().all(|new| new.module != old.module));
            if overrides.len() + directives.len() > MOST_OVERRIDES {
                let why = format!("more than {MOST_OVERRIDES} changes at a time");
                return Err(BadDirective { part: String::new(), why });
            }
            overrides.extend(directives.into_iter().map(|directive| (directive, until)));
        }
        self.apply();
        let levels = self.clone();
        tokio::spawn(async move {
            sleep_until(until).await;
            levels.apply();
        });
        Ok(())
    }

    /// Goes back to what the settings say.
    pub fn reset(&self) {
        self.overrides().clear();
        self.apply();
    }

    /// Has what lasts still count.
    fn apply(&self) {
        let now = Instant::now();
        let mut directives = self.0.settings.clone();
        {
            let mut overrides = self.overrides();
            overrides.retain(|(_, until)| *until > now);
            directives.extend(overrides.iter().map(|(directive, _)| directive.clone()));
        }
        (self.0.change)(filter(&directives));
    }

    fn overrides(&self) -> MutexGuard<'_, Vec<(Directive, Instant)>> {
        // A list is never half changed.
        self.0.overrides.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(filter: &Targets, target: &str, level: tracing::Level) -> bool {
        filter.would_enable(target, &level)
    }

    #[test]
    fn directives_say_how_much_each_module_tells() {
        let found = parse("warn, scheduler::rpc=debug,persys_agent=off").unwrap();
        let shown: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["warn", "persys_scheduler::rpc=debug", "persys_agent=off"]);
        let filter = filter(&found);
        assert!(allows(&filter, "persys_scheduler::rpc::guard", tracing::Level::DEBUG));
        assert!(!allows(&filter, "persys_scheduler::app", tracing::Level::INFO));
        assert!(!allows(&filter, "persys_agent::driver", tracing::Level::ERROR));
    }

    #[test]
    fn libraries_never_tell_what_they_carry() {
        let filter = filter(&parse("trace").unwrap());
        assert!(allows(&filter, "persys_store", tracing::Level::TRACE));
        assert!(allows(&filter, "h2::codec", tracing::Level::WARN));
        assert!(!allows(&filter, "h2::codec", tracing::Level::INFO));
        assert!(parse("h2=trace").unwrap_err().to_string().contains("no module \"h2\""));
    }

    #[test]
    fn a_fault_is_named_with_the_part_it_is_in() {
        for (text, part, why) in [
            ("loud", "loud", "a level is"),
            ("info,scheduler=loud", "scheduler=loud", "a level is"),
            ("schedular=debug", "schedular=debug", "no module \"schedular\""),
            ("scheduler::=debug", "scheduler::=debug", "::"),
            ("", "", "a level, such as info"),
        ] {
            let fault = parse(text).unwrap_err();
            assert_eq!(fault.part, part);
            assert!(fault.why.contains(why), "{text}: {fault}");
        }
        assert!(parse(&"info,".repeat(500)).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_over_by_itself() {
        let now = Arc::new(Mutex::new(Targets::new()));
        let counts = Arc::clone(&now);
        let levels =
            Levels::new(parse("info").unwrap(), move |filter| *counts.lock().unwrap() = filter);
        let debugs = || allows(&now.lock().unwrap(), "persys_agent::driver", tracing::Level::DEBUG);
        levels.change(parse("agent=debug").unwrap(), Duration::from_mins(10)).unwrap();
        assert!(debugs());
        tokio::time::sleep(Duration::from_mins(5)).await;
        assert_eq!(levels.shown().overrides.len(), 1);
        // Said again, it lasts from then.
        levels.change(parse("agent=debug").unwrap(), Duration::from_mins(10)).unwrap();
        tokio::time::sleep(Duration::from_mins(8)).await;
        assert!(debugs());
        tokio::time::sleep(Duration::from_mins(3)).await;
        assert!(!debugs() && levels.shown().overrides.is_empty());
        levels.change(parse("agent=debug").unwrap(), Duration::from_mins(10)).unwrap();
        levels.reset();
        assert!(!debugs());
    }
}
