//! Health checks of a spec.

use std::sync::Arc;

use persys_model::spec::health::{Check, HealthChecks, Probe, Ready};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Default)]
pub(super) struct HealthShape {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ready: Option<ReadyShape>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReadyShape {
    Disabled,
    Check(CheckShape),
}

#[derive(Serialize, Deserialize)]
struct CheckShape {
    probe: ProbeShape,
    interval_ms: u64,
    timeout_ms: u64,
    start_period_ms: u64,
    retries: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ProbeShape {
    Http { port: u16, path: Arc<str> },
    Tcp { port: u16 },
    Exec(Vec<Arc<str>>),
}

impl HealthShape {
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_none()
    }
}

impl From<&HealthChecks> for HealthShape {
    fn from(HealthChecks { ready }: &HealthChecks) -> Self {
        Self {
            ready: ready.as_ref().map(|ready| match ready {
                Ready::Disabled => ReadyShape::Disabled,
                Ready::Check(check) => ReadyShape::Check(CheckShape::from(&**check)),
            }),
        }
    }
}

impl From<HealthShape> for HealthChecks {
    fn from(HealthShape { ready }: HealthShape) -> Self {
        Self {
            ready: ready.map(|ready| match ready {
                ReadyShape::Disabled => Ready::Disabled,
                ReadyShape::Check(check) => Ready::Check(Arc::new(check.into())),
            }),
        }
    }
}

impl From<&Check> for CheckShape {
    fn from(check: &Check) -> Self {
        let Check { probe, interval_ms, timeout_ms, start_period_ms, retries } = check;
        let probe = match probe {
            Probe::Http { port, path } => ProbeShape::Http { port: *port, path: Arc::clone(path) },
            Probe::Tcp { port } => ProbeShape::Tcp { port: *port },
            Probe::Exec(words) => ProbeShape::Exec(words.clone()),
        };
        Self {
            probe,
            interval_ms: *interval_ms,
            timeout_ms: *timeout_ms,
            start_period_ms: *start_period_ms,
            retries: *retries,
        }
    }
}

impl From<CheckShape> for Check {
    fn from(shape: CheckShape) -> Self {
        let CheckShape { probe, interval_ms, timeout_ms, start_period_ms, retries } = shape;
        let probe = match probe {
            ProbeShape::Http { port, path } => Probe::Http { port, path },
            ProbeShape::Tcp { port } => Probe::Tcp { port },
            ProbeShape::Exec(words) => Probe::Exec(words),
        };
        Self { probe, interval_ms, timeout_ms, start_period_ms, retries }
    }
}
