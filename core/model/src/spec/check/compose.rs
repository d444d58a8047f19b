//! Compose stacks: where the file comes from, that it is said once, and that it can be run.
//!
//! The file is read key by key; whatever is refused in it is a fault with its line. One that comes
//! from a repository must have been fetched before: what runs is what was checked.

use std::cell::RefCell;
use std::sync::Arc;

use persys_compose::{Document, Verdict};

use super::at::At;
use super::decode::{plain, plain_or_base64};
use super::git::{is_commit, path_within, reference, repository};
use super::limits::{COMPOSE_BYTES, NAME_BYTES};
use super::resources::of_services;
use super::text::{EnvFor, env, length, shown, word};
use crate::fault::Faults;
use crate::resources::Compute;
use crate::spec::compose::{ComposeSource, ComposeSpec};
use crate::spec::draft::{ComposeDraft, Draft, Fetched};
use crate::spec::secret::Secret;
use crate::spec::{HostPort, Protocol};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Unsaid,
    Git,
    Inline,
}

const SOURCES: &[(&str, Source)] =
    &[("", Source::Unsaid), ("git", Source::Git), ("inline", Source::Inline)];

/// The stack, and what its services ask for together.
pub(super) fn compose(at: &At<'_>, draft: &ComposeDraft) -> Option<(ComposeSpec, Compute)> {
    let source = source(at, draft);
    let project = project(&at.field("project_name"), &draft.project_name);
    let env = env(&at.field("env"), &draft.env, EnvFor::Compose);
    let (source, field) = source?;
    let mut spec = ComposeSpec {
        source,
        project: project?,
        env: env?,
        host_ports: Vec::new(),
        has_named_volumes: false,
    };
    let document = document(&at.field(field), &spec)?;
    spec.host_ports = document.host_ports().into_iter().map(host_port).collect();
    spec.has_named_volumes = document.named_volumes().next().is_some();
    Some((spec, of_services(document.resources())))
}

/// What the file means; everything that is refused in it is a fault of the field it came in.
fn document(at: &At<'_>, spec: &ComposeSpec) -> Option<Document> {
    let reading = spec.read();
    let refused = reading.findings.iter().filter(|one| one.verdict == Verdict::Refused);
    for finding in refused {
        at.fault(reading.sentence(finding));
    }
    reading.document
}

fn host_port(port: persys_compose::HostPort) -> HostPort {
    let protocol = match port.protocol {
        persys_compose::Protocol::Tcp => Protocol::Tcp,
        persys_compose::Protocol::Udp => Protocol::Udp,
    };
    HostPort { port: port.port, protocol }
}

/// A file that has to be fetched before a spec can be checked; all of it is well formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Address of the repository.
    pub repository: Arc<str>,
    /// Branch, tag or commit; empty means the default branch.
    pub reference: Arc<str>,
    /// Where in the repository the file is; empty means under one of the usual names.
    pub path: Arc<str>,
}

/// What has to be fetched for `draft`, if anything. A draft that is at fault wants nothing: the
/// check says why.
#[must_use]
pub fn wanted(draft: &Draft) -> Option<Wanted> {
    let compose = draft.compose.as_ref().filter(|compose| compose.fetched.is_none())?;
    let faults = RefCell::new(Faults::none());
    let at = At::root(&faults, "compose");
    match sort_of(&at, compose)? {
        Sort::Git => asked(&at, compose),
        Sort::Inline => None,
    }
}

/// A file that is beyond reproach, for a check of everything around it.
pub(super) fn stand_in(path: &str) -> Fetched {
    Fetched {
        commit: "0".repeat(40),
        path: if path.is_empty() { "compose.yaml" } else { path }.to_owned(),
        file: "services: {any: {image: any}}".to_owned(),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Git,
    Inline,
}

/// The source, and the field it was given in.
fn source(at: &At<'_>, draft: &ComposeDraft) -> Option<(ComposeSource, &'static str)> {
    match sort_of(at, draft)? {
        Sort::Git => git(at, draft).map(|source| (source, "git_repo")),
        Sort::Inline => file(at, draft),
    }
}

fn sort_of(at: &At<'_>, draft: &ComposeDraft) -> Option<Sort> {
    let said = word(&at.field("source_type"), &draft.source_type, SOURCES)?;
    let has_git = [&draft.git_repo, &draft.git_ref, &draft.git_path].iter().any(|t| !t.is_empty());
    let has_text = !draft.inline_yaml.is_empty() || !draft.compose_yaml.is_empty();
    match (said, has_git, has_text) {
        (_, true, true) => at.refuse("gives both a repository and a file; give one"),
        (Source::Unsaid, false, false) => at.refuse("gives no file: set inline_yaml or git_repo"),
        (Source::Git, _, true) => {
            at.field("source_type").refuse("says git, but the file itself is given")
        }
        (Source::Inline, true, _) => {
            at.field("source_type").refuse("says inline, but a repository is given")
        }
        (Source::Git, _, false) | (Source::Unsaid, true, false) => Some(Sort::Git),
        (Source::Inline, false, _) | (Source::Unsaid, false, true) => Some(Sort::Inline),
    }
}

fn asked(at: &At<'_>, draft: &ComposeDraft) -> Option<Wanted> {
    let repository = repository(&at.field("git_repo"), &draft.git_repo);
    let reference = reference(&at.field("git_ref"), &draft.git_ref);
    let path = path_within(&at.field("git_path"), &draft.git_path);
    Some(Wanted { repository: repository?, reference: reference?, path: path? })
}

fn git(at: &At<'_>, draft: &ComposeDraft) -> Option<ComposeSource> {
    let Wanted { repository, reference, path } = asked(at, draft)?;
    let here = at.field("git_repo");
    let Some(fetched) = &draft.fetched else {
        return here.refuse("was not fetched: fetching from repositories is not set up here");
    };
    if !is_commit(&fetched.commit) {
        return here.refuse("was fetched without the full name of its commit");
    }
    let found = path_within(&at.field("git_path"), &fetched.path)?;
    if found.is_empty() || !(path.is_empty() || path == found) {
        return at.field("git_path").refuse("is not where the file was found");
    }
    let file = plain(&here, &fetched.file, COMPOSE_BYTES)?;
    let commit = Arc::from(fetched.commit.as_str());
    Some(ComposeSource::Git { repository, reference, path: found, commit, file: Secret::new(file) })
}

fn file(at: &At<'_>, draft: &ComposeDraft) -> Option<(ComposeSource, &'static str)> {
    let (field, given) = match (draft.inline_yaml.as_str(), draft.compose_yaml.as_str()) {
        ("", "") => return at.field("inline_yaml").refuse("is missing"),
        (inline, "") => ("inline_yaml", inline),
        ("", packed) => ("compose_yaml", packed),
        _ => return at.refuse("gives both inline_yaml and compose_yaml; give one"),
    };
    let text = plain_or_base64(&at.field(field), given, COMPOSE_BYTES)?;
    Some((ComposeSource::Inline(Secret::new(&text)), field))
}

/// Docker's rule for project names.
#[expect(clippy::option_option, reason = "outer: well formed; inner: given")]
fn project(at: &At<'_>, text: &str) -> Option<Option<Arc<str>>> {
    if text.is_empty() {
        return Some(None);
    }
    length(at, text.len(), NAME_BYTES)?;
    let run = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    if !text.bytes().next().is_some_and(run)
        || !text.bytes().all(|b| run(b) || matches!(b, b'_' | b'-'))
    {
        return at.refuse(format!(
            "\"{}\" is not a project name: small letters, digits, '_', '-', no sign first",
            shown(text)
        ));
    }
    Some(Some(Arc::from(text)))
}
