//! `audit …`: who did what, and whether that is still what was written.
//!
//! The chain is computed here, from what the scheduler or a file tells: a scheduler that lies about
//! its records would have to forge hashes.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use persys_model::audit::{AuditHash, AuditHead, AuditRecord, verify};
use persys_model::time::WallMillis;
use persys_proto::compute::v1 as api;
use persys_proto::json;
use serde_json::Value;

use crate::args::{Audit, AuditCommand, ListAudit};
use crate::problem::Problem;
use crate::shell::Shell;
use crate::show;
use crate::show::moment::{clock, since};

/// Most records that are asked for at once.
const PAGE: u32 = 1_000;
/// However many there are.
const ALL: u32 = u32::MAX;
const RECORD: &str = "persys.compute.v1.AuditRecord";
const HEAD: &str = "persys.compute.v1.AuditHead";

/// `audit …`.
pub(super) async fn run(shell: &Shell, audit: Audit) -> Result<u8, Problem> {
    match audit.command {
        None => list(shell, &audit.list).await,
        Some(AuditCommand::List(wanted)) => list(shell, &wanted).await,
        Some(AuditCommand::Verify { file: None }) => {
            let trail = fetch(shell, all()).await?;
            check(shell, &trail)
        }
        Some(AuditCommand::Verify { file: Some(path) }) => check(shell, &read(&path)?),
        Some(AuditCommand::Export { file }) => export(shell, file.as_deref()).await,
    }
}

fn all() -> api::ListAuditRequest {
    api::ListAuditRequest { limit: ALL, ..api::ListAuditRequest::default() }
}

/// As many records as the request wants, page by page, from the newest back; oldest first.
async fn fetch(
    shell: &Shell,
    mut request: api::ListAuditRequest,
) -> Result<api::ListAuditResponse, Problem> {
    let client = shell.client()?;
    let mut left = if request.limit == 0 { PAGE } else { request.limit };
    let (mut pages, mut trail) = (Vec::new(), api::ListAuditResponse::default());
    loop {
        request.limit = left.min(PAGE);
        let mut audit = client.audit();
        let asked = audit.list_audit(request.clone());
        let page = client.ask("the audit log cannot be read", asked).await?;
        // The chain ends as the newest page says, and begins as the oldest does: what was written or
        // dropped by age meanwhile is before the one or after the other.
        trail.head = trail.head.or(page.head);
        trail.anchor = page.anchor;
        trail.unreadable = trail.unreadable.saturating_add(page.unreadable);
        left = left.saturating_sub(u32::try_from(page.records.len()).unwrap_or(u32::MAX));
        let is_last = page.next_page_token.is_empty() || page.records.is_empty() || left == 0;
        pages.push(page.records);
        if is_last {
            break;
        }
        request.page_token = page.next_page_token;
    }
    trail.records = pages.into_iter().rev().flatten().collect();
    Ok(trail)
}

async fn list(shell: &Shell, wanted: &ListAudit) -> Result<u8, Problem> {
    let since = match &wanted.since {
        None => None,
        Some(text) => {
            let moment = since(text, SystemTime::now());
            Some(moment.map_err(|why| Problem::usage(format!("--since: {why}")))?)
        }
    };
    let request = api::ListAuditRequest {
        limit: wanted.limit,
        after: 0,
        who: wanted.who.clone().unwrap_or_default(),
        object: wanted.object.clone().unwrap_or_default(),
        since,
        denied: wanted.denied,
        page_token: String::new(),
    };
    let found = fetch(shell, request).await?;
    if shell.output().is_data() {
        let all = found.records.iter().map(|one| show::compute("AuditRecord", one)).collect();
        shell.data(&Value::Array(all))?;
        return Ok(0);
    }
    if found.records.is_empty() {
        shell.line("nothing of that kind is in the audit log")?;
    }
    for record in &found.records {
        shell.line(&line(record))?;
    }
    Ok(0)
}

/// One record, as people read it.
fn line(record: &api::AuditRecord) -> String {
    let api::AuditRecord { seq, who, verb, object, rule, before, after, .. } = record;
    let said = |condition: bool, text: String| if condition { text } else { String::new() };
    let done = if record.allowed {
        let new = said(after != before && !after.is_empty(), format!(" ({after})"));
        format!("{who}  {verb} {object}{new}")
    } else {
        format!("REFUSED {who}  {verb} (it is for {rule})")
    };
    [
        format!("{seq}  {}  {done}", clock(record.at.as_ref())),
        said(!record.source.is_empty(), format!("  from {}", record.source)),
        said(record.left_out > 0, format!("  [{} more were left out before]", record.left_out)),
        said(!record.why.is_empty(), format!(": {}", record.why)),
    ]
    .concat()
}

fn check(shell: &Shell, trail: &api::ListAuditResponse) -> Result<u8, Problem> {
    let broken = || Problem::new("the audit log is broken");
    if trail.unreadable > 0 {
        let why = format!("{} of its records cannot be read", trail.unreadable);
        return Err(broken().why(why));
    }
    let mut records = Vec::new();
    for record in &trail.records {
        let read = model(record);
        records.push(read.map_err(|why| broken().why(format!("record {}: {why}", record.seq)))?);
    }
    let head = head(trail.head.as_ref()).map_err(|why| broken().why(why))?;
    let anchor = head_or_start(trail.anchor.as_ref()).map_err(|why| broken().why(why))?;
    match verify(anchor, &records, head) {
        Ok(count) => {
            let from = anchor.seq + 1;
            shell.line(&format!("the audit log is whole: {count} records, the first is {from}"))?;
            Ok(0)
        }
        Err(why) => Err(broken().why(why.to_string())),
    }
}

fn head(place: Option<&api::AuditHead>) -> Result<AuditHead, String> {
    let Some(api::AuditHead { seq, hash }) = place else {
        return Err("it does not say where it ends".to_owned());
    };
    let hash = AuditHash::read(hash).ok_or("it ends in what is no hash")?;
    Ok(AuditHead { seq: *seq, hash })
}

fn head_or_start(place: Option<&api::AuditHead>) -> Result<AuditHead, String> {
    if place.is_none() { Ok(AuditHead::default()) } else { head(place) }
}

/// The record as it was hashed. That the hash beside it agrees is of no interest.
fn model(record: &api::AuditRecord) -> Result<AuditRecord, String> {
    let text = |text: &str| -> Arc<str> { Arc::from(text) };
    Ok(AuditRecord {
        seq: record.seq,
        at: WallMillis(u64::try_from(record.at_ms).unwrap_or_default()),
        who: text(&record.who),
        source: text(&record.source),
        verb: text(&record.verb),
        object: text(&record.object),
        namespace: text(&record.namespace),
        request: text(&record.request_id),
        allowed: record.allowed,
        rule: text(&record.rule),
        before: text(&record.before),
        after: text(&record.after),
        why: text(&record.why),
        left_out: record.left_out,
        previous: AuditHash::read(&record.previous).ok_or("previous is no hash")?,
    })
}

/// The anchor, then every record, then the head: a line each.
async fn export(shell: &Shell, file: Option<&Path>) -> Result<u8, Problem> {
    let trail = fetch(shell, all()).await?;
    let place = |place: &Option<api::AuditHead>| {
        show::compute("AuditHead", &place.clone().unwrap_or_default())
    };
    let mut lines = vec![place(&trail.anchor).to_string()];
    lines.extend(trail.records.iter().map(|one| show::compute("AuditRecord", one).to_string()));
    lines.push(place(&trail.head).to_string());
    let text = format!("{}\n", lines.join("\n"));
    match file {
        None => shell.print(&text)?,
        Some(path) => {
            let failed = |error: std::io::Error| {
                Problem::new("the audit log was not written")
                    .why(format!("{}: {error}", path.display()))
            };
            std::fs::write(path, text).map_err(failed)?;
            let count = trail.records.len();
            shell.line(&format!("{count} records are in {}", path.display()))?;
        }
    }
    Ok(0)
}

/// A file as [`export`] wrote it.
fn read(path: &Path) -> Result<api::ListAuditResponse, Problem> {
    let problem = || Problem::new(format!("{} is no audit log", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| problem().why(error.to_string()))?;
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let [anchor, records @ .., head] = lines.as_slice() else {
        return Err(problem().why("it has fewer than two lines"));
    };
    let value = |at: usize, line: &str| {
        let parsed: Result<Value, _> = serde_json::from_str(line);
        parsed.map_err(|error| problem().why(format!("line {at}: {error}")))
    };
    let place = |at: usize, line: &str| {
        let read = json::read::<api::AuditHead>(HEAD, "", &value(at, line)?);
        read.map_err(|faults| problem().why(format!("line {at}: {faults}")))
    };
    let mut trail = api::ListAuditResponse {
        anchor: Some(place(1, anchor)?),
        head: Some(place(lines.len(), head)?),
        ..api::ListAuditResponse::default()
    };
    for (at, line) in records.iter().enumerate() {
        let record = json::read::<api::AuditRecord>(RECORD, "", &value(at + 2, line)?);
        let record =
            record.map_err(|faults| problem().why(format!("line {}: {faults}", at + 2)))?;
        trail.records.push(record);
    }
    Ok(trail)
}
