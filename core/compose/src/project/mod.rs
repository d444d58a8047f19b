//! A project as the compose program reads one: several files, what they extend and include, variables,
//! profiles, and what stands beside them.
//!
//! ```text
//!  files ── variables ── include, extends ── one over the other ── profiles ──► nodes
//!                                                                               │
//!      what nodes on another machine cannot see:                                ▼
//!      env_file, small files and folders ── into the file ──────────────► one file, judged and sent
//!      secrets ── into the cluster          build ── by Docker, here
//! ```
//!
//! Where a project is one file that needs nothing beside it, it is sent as it was written.

mod beside;
mod build;
mod dotenv;
mod load;
mod merge;
mod path;
mod secrets;
mod tree;
mod written;

use std::collections::{BTreeMap, BTreeSet};

use crate::content::ContentFile;
use crate::finding::{Log, Place};
use crate::limits::FILE_BYTES;
use crate::read;
use crate::yaml::Node;
use crate::{Finding, Reading, Verdict};

pub use build::Build;
pub use secrets::SecretGiven;

/// Where the files of a project are.
pub trait Files {
    /// What is at a path, which is `./…` or `../…` from the folder of the project, `~/…` of the home of
    /// whoever types, or absolute; or why that cannot be said. Of more than `most` it says so.
    fn look(&self, path: &str, most: Most) -> Result<Found, String>;
}

/// How much is taken of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Most {
    /// Files.
    pub files: usize,
    /// Bytes of all of them.
    pub bytes: usize,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A file.
    File(ContentFile),
    /// A folder, by the paths of the files in it.
    Folder(BTreeMap<String, ContentFile>),
}

/// What is wanted of a project.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// Its files, the later over the earlier, from the folder of the first.
    pub files: Vec<String>,
    /// Variables that were typed: they win over all others.
    pub given: BTreeMap<String, String>,
    /// Variables of the shell: they win over `.env`.
    pub shell: BTreeMap<String, String>,
    /// Profiles that were chosen; `*` chooses all.
    pub profiles: Vec<String>,
    /// The name that was typed.
    pub name: Option<String>,
    /// What its folder is called.
    pub folder: String,
}

/// A project that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// What became of every key of every file.
    pub reading: Reading,
    /// Its name: as it was typed, as its file says, or after its folder.
    pub name: String,
    /// The one file that is sent.
    pub text: String,
    /// The variables that are sent with it.
    pub variables: BTreeMap<String, String>,
    /// Secrets that must be in the cluster first.
    pub secrets: Vec<SecretGiven>,
    /// Images that must be built first.
    pub builds: Vec<Build>,
    /// The nodes of the file, for what is only known later.
    root: Option<Node>,
}

impl Project {
    /// Says which version of a secret the cluster has, so that another one is another revision.
    pub fn has_version(&mut self, secret: &SecretGiven, version: u64) {
        let named = self.root.as_mut().and_then(|root| tree::field_mut(root, "secrets"));
        let Some(named) = named.and_then(|all| tree::field_mut(&mut all.value, &secret.key)) else {
            return;
        };
        let line = named.line;
        let version = tree::scalar(version.to_string());
        tree::put(&mut named.value, read::secrets::VERSION, line, version);
        self.write_again();
    }

    /// Says under which name and id the image of a service was built or found, so that another one is
    /// another revision.
    pub fn has_image(&mut self, service: &str, image: &str, id: &str) {
        let services = self.root.as_mut().and_then(|root| tree::field_mut(root, "services"));
        let Some(own) = services.and_then(|all| tree::field_mut(&mut all.value, service)) else {
            return;
        };
        let line = own.line;
        tree::put(&mut own.value, "image", line, tree::scalar(image));
        tree::put(&mut own.value, "x-persys-image-id", line, tree::scalar(id));
        self.write_again();
    }

    fn write_again(&mut self) {
        if let Some(root) = &self.root {
            self.text = written::file(root);
        }
    }
}

/// Whether a text is a Compose file, and not one of the other shapes that have services.
#[must_use]
pub fn is_compose(text: &str) -> bool {
    const OTHERS: [&str; 8] =
        ["apiVersion", "kind", "spec", "workload_id", "workloadId", "container", "compose", "vm"];
    let Ok(crate::yaml::Parsed { root, .. }) = crate::yaml::parse(text, 0) else { return false };
    let has = |key: &str| tree::field(&root, key).is_some();
    (has("services") || has("include")) && !OTHERS.iter().any(|key| has(key))
}

/// Reads a project. Never panics, and takes bounded time whatever is in it.
#[must_use]
pub fn load(files: &dyn Files, ask: &Ask) -> Project {
    let log = Log::default();
    let at = Place::root(&log);
    let mut loader = load::Loader::new(files, &at);
    let dotenv = loader.dotenv(".");
    let variables = layered([&dotenv, &ask.shell, &ask.given]);
    let root = loader.all(&ask.files, &variables);
    let mut project = Project {
        reading: Reading { document: None, findings: Vec::new(), files: Vec::new() },
        name: String::new(),
        text: loader.first_text.clone(),
        variables: BTreeMap::new(),
        secrets: Vec::new(),
        builds: Vec::new(),
        root: None,
    };
    project.name = name(ask, root.as_ref(), &variables);
    let (names, mut asked) = (loader.names.clone(), loader.asked.clone());
    let (mut document, mut read_so_far) = (None, usize::MAX);
    if let Some(mut root) = root {
        let mut changed = loader.several || ask.files.len() > 1;
        changed |= profiles(&at, &mut root, &chosen(ask, &variables));
        let mut beside = beside::Beside::new(&mut loader, &variables);
        changed |= beside.settle(&at, &mut root, &mut asked);
        changed |= secrets::settle(&at, &mut root, &mut project, &mut beside);
        changed |= build::settle(&at, &mut root, &mut project);
        if changed {
            beside.without_values(&mut root);
        }
        read_so_far = log.len();
        document = read::judged(&at, &root, &variables);
        if changed {
            project.text = written::file(&root);
            if project.text.len() > FILE_BYTES {
                let bytes = project.text.len();
                at.refused(format!(
                    "has {bytes} bytes with all that stands beside it; at most {FILE_BYTES} are sent"
                ));
            }
            project.root = Some(root);
        } else {
            let sent = variables.into_iter().filter(|(name, _)| asked.contains(name));
            project.variables = sent.collect();
        }
    }
    let findings = crate::in_order(once(log.into_findings(), read_so_far));
    let refused = findings.iter().any(|finding| finding.verdict == Verdict::Refused);
    project.reading = Reading { document: document.filter(|_| !refused), findings, files: names };
    project
}

/// What could not be read is not judged as well: it would be said twice, and once wrongly.
fn once(mut findings: Vec<Finding>, read_so_far: usize) -> Vec<Finding> {
    let judged = findings.split_off(read_so_far.min(findings.len()));
    let unread: BTreeSet<String> = findings
        .iter()
        .filter(|finding| finding.verdict == Verdict::Refused)
        .map(|finding| finding.path.clone())
        .collect();
    findings.extend(judged.into_iter().filter(|finding| !unread.contains(&finding.path)));
    // What was added for what stands beside is no key of anybody's file.
    findings.retain(|finding| finding.line > 0 || finding.verdict != Verdict::Honoured);
    findings
}

/// Variables of several sources, the later over the earlier.
fn layered(sources: [&BTreeMap<String, String>; 3]) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for source in sources {
        all.extend(source.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    all
}

/// The name of a project, made of what a project may be named with.
fn name(ask: &Ask, root: Option<&Node>, variables: &BTreeMap<String, String>) -> String {
    if let Some(typed) = &ask.name {
        return typed.clone();
    }
    let said = root.and_then(|root| tree::text_of(root, "name")).filter(|name| !name.is_empty());
    let of_shell = variables.get("COMPOSE_PROJECT_NAME").filter(|name| !name.is_empty());
    let name = said.or(of_shell.map(String::as_str)).unwrap_or(&ask.folder);
    plain(name)
}

/// A name as the compose program makes it: small letters, digits, `-` and `_`.
fn plain(name: &str) -> String {
    let kept: String = name
        .to_lowercase()
        .chars()
        .filter(|letter| matches!(letter, 'a'..='z' | '0'..='9' | '-' | '_'))
        .collect();
    kept.trim_matches(|letter: char| !letter.is_ascii_alphanumeric()).to_owned()
}

fn chosen(ask: &Ask, variables: &BTreeMap<String, String>) -> BTreeSet<String> {
    let of_shell = variables.get("COMPOSE_PROFILES").map(String::as_str).unwrap_or_default();
    let of_shell = of_shell.split(',').map(str::trim).filter(|name| !name.is_empty());
    ask.profiles.iter().cloned().chain(of_shell.map(str::to_owned)).collect()
}

/// Leaves out the services that no chosen profile names; says whether the file is another one by that.
fn profiles(at: &Place<'_>, root: &mut Node, chosen: &BTreeSet<String>) -> bool {
    if chosen.is_empty() {
        return false;
    }
    let Some(services) = tree::field_mut(root, "services") else { return false };
    let at = at.key("services", services.line);
    for service in tree::entries_mut(&mut services.value) {
        let here = at.key(&service.key, service.line);
        let Some(entry) = tree::field_mut(&mut service.value, "profiles") else { continue };
        let here = here.key("profiles", entry.line);
        let mut named = tree::items_mut(&mut entry.value).iter().filter_map(tree::text);
        if let Some(name) = named.find(|name| chosen.contains(*name) || chosen.contains("*")) {
            here.honoured(format!("the profile {} is chosen", crate::finding::shown(name)));
            drop(tree::take(&mut service.value, "profiles"));
        }
    }
    true
}

/// `1 entry`, `2 entries`.
fn counted(count: usize, word: &str) -> String {
    match (count, word.strip_suffix('y')) {
        (1, _) => format!("1 {word}"),
        (count, Some(stem)) => format!("{count} {stem}ies"),
        (count, None) => format!("{count} {word}s"),
    }
}
