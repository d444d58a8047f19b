//! What files say, as requests.
//!
//! ```text
//!   text ──► documents ──► shape? ──► request ──► the same check as the scheduler's ──► Wanted
//! ```
//!
//! Shapes and their check are in `persys_proto::manifest`, which the gateway uses too.

pub(crate) mod compose;
pub(crate) mod options;
#[cfg(test)]
mod page;
pub(crate) mod project;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use persys_compose::project::Project;
use persys_model::fault::Faults;
use persys_proto::control::v1::ApplyWorkloadRequest;
use persys_proto::manifest::{self, Unread};
pub(crate) use persys_proto::manifest::{Beside, yaml};

use crate::problem::Problem;
use crate::world::World;

/// Bytes of one file: a spec at all its limits fits several times.
pub(crate) const MOST_BYTES: u64 = 4 * 1024 * 1024;
/// Documents of all files together.
const MOST_DOCUMENTS: usize = 1000;

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
    let requests = manifest::read(text, beside).map_err(|why| match why {
        Unread::Malformed(why) => {
            Problem::new(format!("{name} is not well-formed YAML or JSON")).why(why)
        }
        Unread::Empty => Problem::new(format!("{name} is empty")).next("persys init"),
        Unread::Several(documents) => Problem::usage("--id is for one workload")
            .why(format!("{name} has {documents} documents")),
        Unread::Faults(faults) => {
            let what = format!("{name} has {}; nothing was sent", count(faults.count(), "fault"));
            Problem::faults(what, &faults)
        }
    })?;
    let wanted = |(request, prefix): (ApplyWorkloadRequest, String)| {
        let from = format!("{prefix}{name}");
        Wanted { request, from, project: None }
    };
    Ok(requests.into_iter().map(wanted).collect())
}

/// `1 fault`, `3 faults`.
pub(crate) fn count(number: usize, word: &str) -> String {
    if number == 1 { format!("1 {word}") } else { format!("{number} {word}s") }
}
