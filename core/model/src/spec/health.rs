//! Health checks of a container or a machine. Services of a stack have theirs in its file.

use std::sync::Arc;

/// Time between two checks unless given, in milliseconds.
pub const INTERVAL_MS: u64 = 5_000;
/// Time a check may take unless given.
pub const TIMEOUT_MS: u64 = 3_000;
/// Time after a start in which failures do not count, unless given. The first success ends it.
pub const START_PERIOD_MS: u64 = 60_000;
/// Failures in a row that make it unhealthy, unless given.
pub const RETRIES: u32 = 3;

/// The health checks of a spec.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct HealthChecks {
    /// Whether it does its work; `None` leaves that to the check of its image.
    pub ready: Option<Ready>,
}

/// The check whether a workload does its work.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Ready {
    /// No check, not even that of its image.
    Disabled,
    /// This check, in place of the one of its image.
    Check(Arc<Check>),
}

/// One health check.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Check {
    /// The question that is asked.
    pub probe: Probe,
    /// Time from the end of one probe to the next.
    pub interval_ms: u64,
    /// Time after which a probe without an answer has failed.
    pub timeout_ms: u64,
    /// Time after a start in which failures do not count. The first success ends it.
    pub start_period_ms: u64,
    /// Failures in a row that make it unhealthy; never 0.
    pub retries: u32,
}

/// A question to a workload whose answer is yes or no.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Probe {
    /// A GET that has to be answered with a status from 200 to 399.
    Http {
        /// A port inside, never 0.
        port: u16,
        /// Path and query, with the slash in front.
        path: Arc<str>,
    },
    /// A connection that has to be accepted.
    Tcp {
        /// A port inside, never 0.
        port: u16,
    },
    /// A command inside that has to end with 0; never empty.
    Exec(Vec<Arc<str>>),
}

impl HealthChecks {
    /// The check, whoever runs it.
    #[must_use]
    pub fn check(&self) -> Option<&Arc<Check>> {
        match &self.ready {
            Some(Ready::Check(check)) => Some(check),
            Some(Ready::Disabled) | None => None,
        }
    }

    /// The check that the agent runs itself: one from outside. A command inside is left to the runtime, which
    /// can end it when it takes too long.
    #[must_use]
    pub fn asked_from_outside(&self) -> Option<&Arc<Check>> {
        self.check().filter(|check| match check.probe {
            Probe::Http { .. } | Probe::Tcp { .. } => true,
            Probe::Exec(_) => false,
        })
    }

    /// True if the runtime is to run no check, not even that of the image.
    #[must_use]
    pub fn silences_runtime(&self) -> bool {
        match &self.ready {
            Some(Ready::Disabled) => true,
            Some(Ready::Check(_)) => self.asked_from_outside().is_some(),
            None => false,
        }
    }
}
