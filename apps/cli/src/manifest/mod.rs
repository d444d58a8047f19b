//! What files say, as requests.
//!
//! ```text
//!   text ──► documents ──► shape? ──► request ──► the same check as the scheduler's ──► Wanted
//! ```
//!
//! A file may be written in our own shape (a name and a spec), as the bare spec of a container,
//! stack or VM in either shape that clients use, as a manifest with `apiVersion` and `kind`, or be
//! a Compose file as it is. Every key is known or named as unknown, and all faults of all
//! documents are told at once.

mod body;
pub(crate) mod compose;
mod described;
mod fields;
mod kind;
pub(crate) mod options;
#[cfg(test)]
mod page;
pub(crate) mod project;
mod shape;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use persys_compose::project::Project;
use persys_model::fault::Faults;
use persys_proto::control::v1::ApplyWorkloadRequest;
use persys_proto::convert::draft;
use serde_json::Value;

use crate::problem::Problem;
use crate::world::World;

/// Bytes of one file: a spec at all its limits fits several times.
pub(crate) const MOST_BYTES: u64 = 4 * 1024 * 1024;
/// Documents of all files together.
const MOST_DOCUMENTS: usize = 1000;

/// What was said beside the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Beside {
    pub(crate) id: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) revision: Option<String>,
    pub(crate) desired: Option<String>,
    /// Variables of a Compose file.
    pub(crate) env: std::collections::BTreeMap<String, String>,
    /// Profiles of a Compose file that are chosen.
    pub(crate) profiles: Vec<String>,
}

/// One workload that is wanted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) request: ApplyWorkloadRequest,
    /// Ids it is known by in its file.
    pub(crate) from: String,
    /// The Compose project it is, with what has to be done before it is sent.
    pub(crate) project: Option<Box<Project>>,
}

/// All that the files want, or everything that is wrong with them. Compose files that are `named` are
/// a project each, with the file that goes over it; those given as `joined` are one project, the later
/// over the earlier, as the compose program has it with several `-f`.
pub(crate) fn load(
    world: &World,
    named: &[PathBuf],
    joined: &[PathBuf],
    beside: &Beside,
) -> Result<Vec<Wanted>, Problem> {
    let mut wanted: Vec<Wanted> = Vec::new();
    let mut faults = Faults::none();
    let only_one = named.len().saturating_add(joined.len()) == 1;
    let mut add = |name: String, found: Result<Vec<Wanted>, Problem>| match found {
        Ok(found) => {
            wanted.extend(found);
            Ok(())
        }
        Err(problem) if only_one => Err(problem),
        Err(problem) => {
            for why in problem.why {
                faults.push(name.clone(), why);
            }
            Ok(())
        }
    };
    let mut parts = Vec::new();
    for file in joined {
        let text = text(world, file)?;
        if project::is_one(&text) {
            parts.push(file.clone());
        } else {
            add(name(file), read(&name(file), &text, beside))?;
        }
    }
    if let Some(first) = parts.first() {
        add(name(first), project::wanted(world, &parts, false, beside).map(|one| vec![one]))?;
    }
    for file in named {
        let inside = if file.is_dir() { project::in_folder(file) } else { None };
        let file = inside.as_ref().unwrap_or(file);
        let text = text(world, file)?;
        let found = if project::is_one(&text) {
            project::wanted(world, std::slice::from_ref(file), true, beside).map(|one| vec![one])
        } else {
            read(&name(file), &text, beside)
        };
        add(name(file), found)?;
    }
    let mut seen = std::collections::BTreeMap::new();
    for one in &wanted {
        if let Some(other) = seen.insert(one.request.workload_id.clone(), one.from.clone()) {
            let problem = format!("{} is also in {other}", one.request.workload_id);
            faults.push(one.from.clone(), problem);
        }
    }
    if wanted.len() > MOST_DOCUMENTS {
        faults.push(
            "",
            format!("there are {} documents; at most {MOST_DOCUMENTS} at a time", wanted.len()),
        );
    }
    if !faults.is_empty() {
        return Err(Problem::faults("nothing was applied: the files have faults", &faults));
    }
    Ok(wanted)
}

fn name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

/// The text of a file, `-` for what is typed.
pub(crate) fn text(world: &World, path: &Path) -> Result<String, Problem> {
    let name = name(path);
    let what = || Problem::new(format!("{name} cannot be read"));
    let bytes = if path == Path::new("-") {
        world.typed(MOST_BYTES)
    } else {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                return Err(what().why("it is a folder; name the files in it"));
            }
            Ok(_) | Err(_) => {}
        }
        let mut bytes = Vec::new();
        fs::File::open(path)
            .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
            .map(|_| bytes)
    };
    let bytes = bytes.map_err(|why| {
        let named = path.display().to_string();
        if named.starts_with("http://") || named.starts_with("https://") {
            return what()
                .why("files are read from this machine, not from addresses")
                .next(format!("curl -fsSL {named} | persys apply -f -"));
        }
        if why.kind() == std::io::ErrorKind::NotFound {
            let init = "persys init       (writes a spec to start from)";
            what().why("there is no such file").next(init)
        } else if why.kind() == std::io::ErrorKind::PermissionDenied {
            what().why("you may not read it")
        } else {
            what().why(why.to_string())
        }
    })?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MOST_BYTES) {
        return Err(what().why(format!("it has more than {} MiB", MOST_BYTES / 1024 / 1024)));
    }
    String::from_utf8(bytes).map_err(|why| {
        what().why(format!("it is not text: byte {} is not UTF-8", why.utf8_error().valid_up_to()))
    })
}

/// All that one text wants, or everything that is wrong with it.
pub(crate) fn read(name: &str, text: &str, beside: &Beside) -> Result<Vec<Wanted>, Problem> {
    let documents = yaml(text)
        .map_err(|why| Problem::new(format!("{name} is not well-formed YAML or JSON")).why(why))?;
    let documents: Vec<Value> = documents.into_iter().filter(|value| !value.is_null()).collect();
    if documents.is_empty() {
        return Err(Problem::new(format!("{name} is empty")).next("persys init"));
    }
    let several = documents.len() > 1;
    if several && beside.id.is_some() {
        return Err(Problem::usage("--id is for one workload")
            .why(format!("{name} has {} documents", documents.len())));
    }
    let mut faults = Faults::none();
    let mut wanted = Vec::new();
    for (nth, document) in documents.iter().enumerate() {
        let text = (!several).then_some(text);
        let prefix = if several { format!("document {}: ", nth + 1) } else { String::new() };
        match one(document, text, beside) {
            Ok(request) => {
                let from = format!("{prefix}{name}");
                wanted.push(Wanted { request, from, project: None });
            }
            Err(found) => {
                for fault in found.listed() {
                    let path = format!("{prefix}{}", fault.path);
                    faults.push(path.trim_end_matches(": "), fault.problem.clone());
                }
            }
        }
    }
    if faults.is_empty() {
        return Ok(wanted);
    }
    let what = format!("{name} has {}; nothing was sent", count(faults.count(), "fault"));
    Err(Problem::faults(what, &faults))
}

/// `1 fault`, `3 faults`.
pub(crate) fn count(number: usize, word: &str) -> String {
    if number == 1 { format!("1 {word}") } else { format!("{number} {word}s") }
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
pub(crate) fn yaml(text: &str) -> Result<Vec<Value>, String> {
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
