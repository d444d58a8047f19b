//! Pages for probes and dashboards: `/health` and `/metrics`.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use persys_model::time::WallMillis;
use serde_json::json;

use crate::handle::Handle;
use crate::metrics::{Gauges, Metrics};

/// What the pages are made from.
#[derive(Debug, Clone)]
pub(crate) struct Pages {
    pub(crate) handle: Handle,
    pub(crate) metrics: Arc<Metrics>,
}

pub(crate) fn router(pages: Pages) -> Router {
    Router::new().route("/health", get(health)).route("/metrics", get(metrics)).with_state(pages)
}

/// 200 only while this process can do its job.
async fn health(State(pages): State<Pages>) -> Response {
    let standing = pages.handle.standing().borrow().clone();
    let (code, status) = if standing.is_normal() {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
    };
    let body = json!({
        "status": status,
        "mode": standing.word(),
        "reason": &*standing.why,
        "modeChangedAt": rfc3339(standing.since),
    });
    (code, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// A process that does not lead counts nothing, so that two of them never add up to twice the
/// cluster.
async fn metrics(State(pages): State<Pages>) -> Response {
    let gauges = pages.handle.read(Gauges::of).await.unwrap_or_else(|_| Gauges::none());
    let body = pages.metrics.text(&gauges);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], body).into_response()
}

/// The moment in UTC, as RFC 3339 has it. Days are counted as in the proleptic Gregorian calendar,
/// from a March 1st so that leap days come last.
fn rfc3339(at: WallMillis) -> String {
    let (seconds, ms) = (at.0 / 1000, at.0 % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let shifted = days.saturating_add(719_468);
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second % 3_600 / 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_people_read_them() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_001, "2024-02-29T23:59:59.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(WallMillis(ms)), text);
        }
    }
}
