//! Health checks of a spec, both ways, and health in reports.

use persys_model::health::{Health, HealthState};
use persys_model::spec::draft::{CheckDraft, HealthDraft, HttpDraft, TcpDraft};
use persys_model::spec::health::{Check, HealthChecks, Probe, Ready};

use super::leaf::{small, words};
use crate::control::v1 as wire;

/// The checks on the wire.
pub(super) fn to_wire(health: &HealthChecks) -> Option<wire::HealthChecks> {
    let ready = match health.ready.as_ref()? {
        Ready::Disabled => wire::HealthCheck { disable: true, ..wire::HealthCheck::default() },
        Ready::Check(check) => check_to_wire(check),
    };
    Some(wire::HealthChecks { ready: Some(ready) })
}

fn check_to_wire(check: &Check) -> wire::HealthCheck {
    let mut told = wire::HealthCheck {
        interval: time(check.interval_ms),
        timeout: time(check.timeout_ms),
        start_period: time(check.start_period_ms),
        retries: small(check.retries),
        ..wire::HealthCheck::default()
    };
    match &check.probe {
        Probe::Http { port, path } => {
            told.http = Some(wire::HttpCheck { port: (*port).into(), path: path.to_string() });
        }
        Probe::Tcp { port } => told.tcp = Some(wire::TcpCheck { port: (*port).into() }),
        Probe::Exec(argv) => told.exec = words(argv),
    }
    told
}

/// A time as it is written, exactly.
fn time(ms: u64) -> String {
    if ms.is_multiple_of(1000) { format!("{}s", ms / 1000) } else { format!("{ms}ms") }
}

/// The checks as somebody wrote them.
pub(super) fn draft(health: Option<wire::HealthChecks>) -> HealthDraft {
    HealthDraft { ready: health.and_then(|health| health.ready).map(check_draft) }
}

fn check_draft(check: wire::HealthCheck) -> CheckDraft {
    let wire::HealthCheck { http, tcp, exec, interval, timeout, start_period, retries, disable } =
        check;
    CheckDraft {
        http: http.map(|http| HttpDraft { port: http.port, path: http.path }),
        tcp: tcp.map(|tcp| TcpDraft { port: tcp.port }),
        exec,
        interval,
        timeout,
        start_period,
        retries,
        disable,
    }
}

/// The word of a health in a report; empty where nothing checks the workload.
pub(super) fn word(health: Option<&Health>) -> String {
    health.map(|health| health.state.word().to_owned()).unwrap_or_default()
}

/// The health a report tells. A word of a later release says nothing here.
pub(super) fn read(word: &str, detail: &str) -> Option<Health> {
    let state = HealthState::ALL.into_iter().find(|state| state.word() == word)?;
    Some(match state {
        HealthState::Starting => Health::starting(),
        HealthState::Healthy => Health::healthy(),
        HealthState::Unhealthy => Health::unhealthy(detail),
    })
}
