//! Compose files: read, judged key by key, and written again as what will run.
//!
//! What was checked is what runs. A file is parsed once, by us; every key is on a list of those we
//! know and gets a verdict with its line. What comes out is a [`Document`] of typed values, and only
//! what [`Document::emit`] makes of it is ever handed to the compose program. The user's own file
//! is kept and shown as it is, and never run.
//!
//! ```text
//!  text ─ yaml ──► nodes ─ interpolate ──► nodes ─ read ──► Document ─ emit ──► JSON for the program
//!         budget,          variables of             one verdict
//!         aliases          the workload only        per key
//! ```

mod document;
mod emit;
pub mod ending;
mod file;
mod finding;
pub mod grammar;
mod interpolate;
pub mod limits;
pub mod policy;
#[cfg(test)]
mod property;
mod read;
mod service;
mod signal;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};

pub use document::{Document, Need, Network, Subnet, Volume};
pub use emit::Marks;
pub use finding::{Finding, Verdict};
pub use service::{
    Attachment, Condition, Endpoint, Health, HostPort, Identity, Limits, Logging, Mount,
    MountSource, Names, Namespace, Port, Powers, Process, Protocol, Restart, SecretFile, Service,
    secret_file,
};
pub use signal::Signal;

/// What came of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// What will run; `None` when anything is refused.
    pub document: Option<Document>,
    /// What became of every key, by line.
    pub findings: Vec<Finding>,
}

/// Reads `text`, filling in `variables`. Never panics, and takes bounded time whatever is in it.
#[must_use]
pub fn read(text: &str, variables: &BTreeMap<String, String>) -> Reading {
    let log = finding::Log::default();
    let document = read::document(&finding::Place::root(&log), text, variables);
    let findings = in_order(log.into_findings());
    let refused = findings.iter().any(|finding| finding.verdict == Verdict::Refused);
    Reading { document: document.filter(|_| !refused), findings }
}

/// A time as Compose writes it, such as `30s` or `1m30s`, in milliseconds; `None` for anything else, and
/// for more than a day.
#[must_use]
pub fn duration_ms(text: &str) -> Option<u64> {
    read::value::milliseconds(text)
}

/// By line. What got another verdict, or has something refused in it, was not simply honoured.
fn in_order(mut findings: Vec<Finding>) -> Vec<Finding> {
    let mut settled = BTreeSet::new();
    for finding in findings.iter().filter(|finding| finding.verdict != Verdict::Honoured) {
        settled.insert(finding.path.clone());
        let ends = finding.path.match_indices(['.', '[']).map(|(at, _)| at);
        if finding.verdict == Verdict::Refused {
            settled.extend(ends.filter_map(|at| finding.path.get(..at)).map(str::to_owned));
        }
    }
    findings.retain(|one| one.verdict != Verdict::Honoured || !settled.contains(&one.path));
    findings.sort_by(|a, b| (a.line, &a.path).cmp(&(b.line, &b.path)));
    findings
}
