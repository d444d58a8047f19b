//! Health checks.

use persys_model::spec::check::limits as most;
use persys_model::spec::health::{INTERVAL_MS, RETRIES, START_PERIOD_MS, TIMEOUT_MS};

use super::{Field, field, kib};

fn seconds(ms: u64) -> String {
    format!("`{}s`", ms / 1000)
}

pub(super) fn checks() -> Vec<Field> {
    vec![field(
        "ready",
        "the `HEALTHCHECK` of the image",
        "Whether it does its work; takes the place of the image's check",
    )]
}

pub(super) fn check() -> Vec<Field> {
    let (words, bytes) = (most::CHECK_WORDS, kib(most::CHECK_BYTES));
    let retries = most::CHECK_RETRIES;
    vec![
        field("http", "one of the three must be given", "A request that has to be answered well"),
        field("tcp", "", "A connection that has to be accepted"),
        field(
            "exec",
            "",
            format!(
                "A command inside that has to end with 0; up to {words} words, {bytes} together. Not in a VM"
            ),
        ),
        field("interval", &seconds(INTERVAL_MS), "Time between two checks, from `1s` to `1h`"),
        field("timeout", &seconds(TIMEOUT_MS), "Time a check may take, from `1s` to `1h`"),
        field(
            "start_period",
            &seconds(START_PERIOD_MS),
            "Time after a start in which failures do not count, up to a day; the first success ends it",
        ),
        field(
            "retries",
            &format!("`{RETRIES}`"),
            format!("Failures in a row that make it unhealthy; up to {retries}"),
        ),
        field(
            "disable",
            "`false`",
            "No check at all, not even that of the image; nothing else may stand beside it",
        ),
    ]
}

pub(super) fn http() -> Vec<Field> {
    let path = most::PATH_BYTES;
    vec![
        field("port", "must be given", "A port inside; it need not be published"),
        field(
            "path",
            "`/`",
            format!("Path and query; up to {path} bytes. A status from 200 to 399 is a success"),
        ),
    ]
}

pub(super) fn tcp() -> Vec<Field> {
    vec![field("port", "must be given", "A port inside; it need not be published")]
}
