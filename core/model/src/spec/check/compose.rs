//! Compose stacks: where the file comes from, and that it is said once.
//!
//! The file itself is parsed where it is run; here it is only made sure that there is one, plain,
//! and within bounds.

use std::sync::Arc;

use super::at::At;
use super::decode::plain_or_base64;
use super::git::{reference, repository};
use super::limits::{COMPOSE_BYTES, NAME_BYTES};
use super::text::{EnvFor, env, length, shown, word};
use crate::spec::compose::{ComposeSource, ComposeSpec};
use crate::spec::draft::ComposeDraft;
use crate::spec::secret::Secret;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Unsaid,
    Git,
    Inline,
}

const SOURCES: &[(&str, Source)] =
    &[("", Source::Unsaid), ("git", Source::Git), ("inline", Source::Inline)];

pub(super) fn compose(at: &At<'_>, draft: &ComposeDraft) -> Option<ComposeSpec> {
    let source = source(at, draft);
    let project = project(&at.field("project_name"), &draft.project_name);
    let env = env(&at.field("env"), &draft.env, EnvFor::Compose);
    Some(ComposeSpec {
        source: source?,
        project: project?,
        env: env?,
        host_ports: Vec::new(),
        has_named_volumes: false,
    })
}

fn source(at: &At<'_>, draft: &ComposeDraft) -> Option<ComposeSource> {
    let said = word(&at.field("source_type"), &draft.source_type, SOURCES)?;
    let has_git = !draft.git_repo.is_empty() || !draft.git_ref.is_empty();
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
        (Source::Git, _, false) | (Source::Unsaid, true, false) => git(at, draft),
        (Source::Inline, false, _) | (Source::Unsaid, false, true) => file(at, draft),
    }
}

fn git(at: &At<'_>, draft: &ComposeDraft) -> Option<ComposeSource> {
    let repository = repository(&at.field("git_repo"), &draft.git_repo);
    let reference = reference(&at.field("git_ref"), &draft.git_ref);
    Some(ComposeSource::Git { repository: repository?, reference: reference? })
}

fn file(at: &At<'_>, draft: &ComposeDraft) -> Option<ComposeSource> {
    let (here, given) = match (draft.inline_yaml.as_str(), draft.compose_yaml.as_str()) {
        ("", "") => return at.field("inline_yaml").refuse("is missing"),
        (inline, "") => (at.field("inline_yaml"), inline),
        ("", packed) => (at.field("compose_yaml"), packed),
        _ => return at.refuse("gives both inline_yaml and compose_yaml; give one"),
    };
    let text = plain_or_base64(&here, given, COMPOSE_BYTES)?;
    if !text.contains(':') {
        return here.refuse("is not a compose file: it has no key");
    }
    Some(ComposeSource::Inline(Secret::new(&text)))
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
