//! Health checks: which question is asked, and how often.

use std::sync::Arc;

use super::at::At;
use super::text::{count, is_clean_text, length, number, shown};
use crate::spec::Kind;
use crate::spec::draft::{CheckDraft, HealthDraft};
use crate::spec::health::{
    Check, HealthChecks, INTERVAL_MS, Probe, RETRIES, Ready, START_PERIOD_MS, TIMEOUT_MS,
};

use super::limits::{CHECK_BYTES, CHECK_RETRIES, CHECK_WORDS, PATH_BYTES};

/// Shortest time between two checks, and for one: less would cost more than it tells.
const LEAST_MS: u64 = 1_000;
/// Longest time between two checks, and for one.
const MOST_MS: u64 = 3_600_000;
/// Longest start period.
const MOST_START_MS: u64 = 24 * 3_600_000;

pub(super) fn health(at: &At<'_>, draft: &HealthDraft, kind: &Kind) -> Option<HealthChecks> {
    let Some(ready) = &draft.ready else { return Some(HealthChecks::default()) };
    let here = at.field("ready");
    if matches!(kind, Kind::Compose(_)) {
        return here.refuse(
            "the services of a stack have their checks in its file: healthcheck of each service",
        );
    }
    let ready = self::ready(&here, ready, kind)?;
    Some(HealthChecks { ready: Some(ready) })
}

fn ready(at: &At<'_>, draft: &CheckDraft, kind: &Kind) -> Option<Ready> {
    if draft.disable {
        let rest = CheckDraft { disable: false, ..draft.clone() };
        if rest != CheckDraft::default() {
            return at.field("disable").refuse("is true, and a check is given beside it");
        }
        return Some(Ready::Disabled);
    }
    let probe = probe(at, draft, kind);
    let interval = time(&at.field("interval"), &draft.interval, INTERVAL_MS, LEAST_MS, MOST_MS);
    let timeout = time(&at.field("timeout"), &draft.timeout, TIMEOUT_MS, LEAST_MS, MOST_MS);
    let start =
        time(&at.field("start_period"), &draft.start_period, START_PERIOD_MS, 0, MOST_START_MS);
    let retries = match draft.retries {
        0 => Some(RETRIES),
        given => number(&at.field("retries"), given.into(), 1, CHECK_RETRIES)
            .and_then(|number| u32::try_from(number).ok()),
    };
    Some(Ready::Check(Arc::new(Check {
        probe: probe?,
        interval_ms: interval?,
        timeout_ms: timeout?,
        start_period_ms: start?,
        retries: retries?,
    })))
}

fn probe(at: &At<'_>, draft: &CheckDraft, kind: &Kind) -> Option<Probe> {
    let http = draft.http.as_ref().map(|http| {
        let here = at.field("http");
        let port = port(&here.field("port"), http.port);
        let path = path(&here.field("path"), &http.path);
        port.zip(path).map(|(port, path)| Probe::Http { port, path })
    });
    let tcp = draft.tcp.as_ref().map(|tcp| {
        let port = port(&at.field("tcp").field("port"), tcp.port);
        port.map(|port| Probe::Tcp { port })
    });
    let exec = (!draft.exec.is_empty()).then(|| exec(&at.field("exec"), &draft.exec, kind));
    let mut given = [http, tcp, exec].into_iter().flatten();
    let Some(probe) = given.next() else {
        return at.refuse("has no check: give one of http, tcp, exec, or disable");
    };
    if given.next().is_some() {
        at.fault("has more than one check: give one of http, tcp, exec");
    }
    probe
}

fn port(at: &At<'_>, given: i32) -> Option<u16> {
    number(at, given.into(), 1, u16::MAX.into()).and_then(|port| u16::try_from(port).ok())
}

/// Path and query of a request; without one the root is asked for.
fn path(at: &At<'_>, text: &str) -> Option<Arc<str>> {
    if text.is_empty() {
        return Some(Arc::from("/"));
    }
    length(at, text.len(), PATH_BYTES)?;
    if !text.starts_with('/') {
        return at.refuse(format!("\"{}\" does not begin with /", shown(text)));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains('#') {
        return at.refuse(format!("\"{}\" is not the path of an address", shown(text)));
    }
    Some(Arc::from(text))
}

fn exec(at: &At<'_>, words: &[String], kind: &Kind) -> Option<Probe> {
    if matches!(kind, Kind::Vm(_)) {
        return at.refuse("cannot be run inside a VM: give http or tcp");
    }
    count(at, words.len(), CHECK_WORDS)?;
    length(at, words.iter().map(String::len).sum(), CHECK_BYTES)?;
    if words.first().is_some_and(String::is_empty) {
        return at.index(0).refuse("names no program");
    }
    let clean = |(nth, word): (usize, &String)| {
        if is_clean_text(word) {
            Some(Arc::from(word.as_str()))
        } else {
            at.index(nth).refuse("has a control character")
        }
    };
    let words: Vec<Option<Arc<str>>> = words.iter().enumerate().map(clean).collect();
    words.into_iter().collect::<Option<_>>().map(Probe::Exec)
}

fn time(at: &At<'_>, text: &str, usual: u64, least: u64, most: u64) -> Option<u64> {
    if text.is_empty() {
        return Some(usual);
    }
    match persys_compose::duration_ms(text) {
        Some(ms) if (least..=most).contains(&ms) => Some(ms),
        Some(_) => at.refuse(format!(
            "\"{}\" is not from {} s to {} s",
            shown(text),
            least / 1000,
            most / 1000
        )),
        None => at.refuse(format!("\"{}\" is not a time such as 30s or 1m30s", shown(text))),
    }
}
