//! Files that people write, as requests of the contract: one reader for the command line and the pages.
//!
//! ```text
//!   text ──► documents ──► shape? ──► request ──► the same check as the scheduler's
//! ```
//!
//! A file may be written in our own shape (a name and a spec), as the bare spec of a container,
//! stack or VM in either shape that clients use, as a manifest with `apiVersion` and `kind`, or be
//! a Compose file as it is. Every key is known or named as unknown, and all faults of all
//! documents are told at once.

mod body;
mod described;
mod fields;
mod kind;
mod shape;
pub mod sizes;

use std::collections::BTreeMap;

use persys_compose::Verdict;
use persys_compose::project::Project;
use persys_model::fault::Faults;
use serde_json::Value;

use crate::control::v1::workload_spec::Workload;
use crate::control::v1::{ApplyWorkloadRequest, ComposeSpec, WorkloadSpec};
use crate::convert::draft;

/// Options that complete a file.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// Id of the workload.
    pub id: Option<String>,
    /// `container`, `compose` or `vm`.
    pub kind: Option<String>,
    /// Id of the revision.
    pub revision: Option<String>,
    /// Desired state.
    pub desired: Option<String>,
    /// Variables of a Compose file.
    pub env: BTreeMap<String, String>,
    /// Profiles of a Compose file that are chosen.
    pub profiles: Vec<String>,
    /// Where the options are given: messages name them.
    pub given: Given,
}

/// Place where the options of a file are given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Given {
    /// On the command line, as `--id`.
    #[default]
    Typed,
    /// In the fields of a page.
    Page,
}

impl Given {
    /// The sentence about a missing name.
    fn name_missing(self) -> &'static str {
        match self {
            Self::Typed => "is missing; write it in the file or say --id NAME",
            Self::Page => "is missing; write it in the file or in the field Name",
        }
    }

    /// The option for the name.
    fn id(self) -> &'static str {
        match self {
            Self::Typed => "--id",
            Self::Page => "Name",
        }
    }
}

/// Reason why a text is no request.
#[derive(Debug, Clone)]
pub enum Unread {
    /// It is neither YAML nor JSON.
    Malformed(String),
    /// It holds nothing.
    Empty,
    /// It has this many documents, and the options are for one.
    Several(usize),
    /// Everything that is wrong with it.
    Faults(Faults),
}

/// A request, and the prefix of its paths in a file of several documents: `document 2: `.
pub type Prefixed = (ApplyWorkloadRequest, String);

/// The requests of one text, or everything that is wrong with it.
pub fn read(text: &str, beside: &Beside) -> Result<Vec<Prefixed>, Unread> {
    let documents = yaml(text).map_err(Unread::Malformed)?;
    let documents: Vec<Value> = documents.into_iter().filter(|value| !value.is_null()).collect();
    if documents.is_empty() {
        return Err(Unread::Empty);
    }
    let several = documents.len() > 1;
    if several && beside.id.is_some() {
        return Err(Unread::Several(documents.len()));
    }
    let mut faults = Faults::none();
    let mut requests = Vec::new();
    for (nth, document) in documents.iter().enumerate() {
        let text = (!several).then_some(text);
        let prefix =
            if several { format!("document {}: ", nth.saturating_add(1)) } else { String::new() };
        match one(document, text, beside) {
            Ok(request) => requests.push((request, prefix)),
            Err(found) => {
                for fault in found.listed() {
                    let path = format!("{prefix}{}", fault.path);
                    faults.push(path.trim_end_matches(": "), fault.problem.clone());
                }
            }
        }
    }
    if faults.is_empty() { Ok(requests) } else { Err(Unread::Faults(faults)) }
}

fn one(
    document: &Value,
    text: Option<&str>,
    beside: &Beside,
) -> Result<ApplyWorkloadRequest, Faults> {
    let (request, prefix) = shape::request(document, text, beside)?;
    match draft::unfetched(request.clone()) {
        Ok(()) => Ok(request),
        Err(found) => Err(without_prefix(&found, &prefix)),
    }
}

/// The request for a Compose project, or everything that is wrong with it.
pub fn of_project(project: &Project, beside: &Beside) -> Result<ApplyWorkloadRequest, Faults> {
    let reading = &project.reading;
    if reading.document.is_none() {
        let mut faults = Faults::none();
        for finding in reading.findings.iter().filter(|one| one.verdict == Verdict::Refused) {
            faults.push("", reading.sentence(finding));
        }
        return Err(faults);
    }
    let compose = ComposeSpec {
        source_type: "inline".to_owned(),
        inline_yaml: project.text.clone(),
        env: project.variables.clone().into_iter().collect(),
        ..ComposeSpec::default()
    };
    let mut request = ApplyWorkloadRequest {
        workload_id: project.name.clone(),
        spec: Some(WorkloadSpec {
            r#type: "compose".to_owned(),
            workload: Some(Workload::Compose(compose)),
            ..WorkloadSpec::default()
        }),
        ..ApplyWorkloadRequest::default()
    };
    let inside = |found: &Faults| without_prefix(found, "spec.compose.inline_yaml");
    shape::add_beside(&mut request, beside).map_err(|found| inside(&found))?;
    draft::unfetched(request.clone()).map_err(|found| inside(&found))?;
    Ok(request)
}

/// Paths as they stand in a file that holds only the inner part.
fn without_prefix(found: &Faults, prefix: &str) -> Faults {
    let mut faults = Faults::none();
    for fault in found.listed() {
        let path = match fault.path.strip_prefix(prefix) {
            Some(rest) if !prefix.is_empty() => rest.trim_start_matches('.'),
            Some(_) | None => fault.path.as_str(),
        };
        faults.push(path, fault.problem.clone());
    }
    faults
}

/// The documents of a text. A word is true or false only if it says so; a doubled key is an error.
pub fn yaml(text: &str) -> Result<Vec<Value>, String> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|why| {
        let said = why.to_string();
        match why.location() {
            Some(location) if !said.contains("line") => {
                format!("line {}: {said}", location.line())
            }
            Some(_) | None => said,
        }
    })
}
