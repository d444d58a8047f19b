//! Contexts: one small file for each cluster somebody talks to.
//!
//! `$PERSYS_HOME/contexts/<name>.yaml` says where a cluster is and how to prove who asks. Programs
//! that start a cluster write one, and people pick one with `config use`.

use std::fs;
use std::io;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use persys_model::id::NodeId;
use serde_json::{Map, Value};

/// The context that is taken when nothing else was said.
pub const DEV: &str = "dev";
/// The file that names the context in use.
const CURRENT: &str = "current_context";

/// Where a cluster is, and how to prove who asks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Context {
    /// `host:port` of its scheduler.
    pub endpoint: String,
    /// One file with key, certificate and roots.
    pub identity: Option<PathBuf>,
    /// Connect without certificates.
    pub insecure: bool,
    /// Told with every command, such as "nothing real runs".
    pub note: Option<String>,
}

/// Why a context is not kept.
#[derive(Debug)]
pub enum ContextError {
    /// It cannot be called that.
    Name(String),
    /// The system does not let us.
    File(PathBuf, io::Error),
}

impl std::fmt::Display for ContextError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(why) => write!(f, "the context's name {why}"),
            Self::File(path, why) => write!(f, "{}: {why}", path.display()),
        }
    }
}

impl std::error::Error for ContextError {}

/// Where everything of the person who types is kept: `PERSYS_HOME`, else `~/.persys`.
#[must_use]
pub fn home(persys_home: Option<&str>, home: Option<&str>) -> PathBuf {
    match (persys_home.filter(|path| !path.is_empty()), home) {
        (Some(path), _) => PathBuf::from(path),
        (None, Some(home)) => Path::new(home).join(".persys"),
        (None, None) => PathBuf::from(".persys"),
    }
}

/// The file of a context.
pub fn path(home: &Path, name: &str) -> Result<PathBuf, ContextError> {
    let name = NodeId::new(name).map_err(|why| ContextError::Name(why.to_string()))?;
    Ok(home.join("contexts").join(format!("{name}.yaml")))
}

/// Writes a context, in the place of an older one of that name.
pub fn write(home: &Path, name: &str, context: &Context) -> Result<PathBuf, ContextError> {
    let path = path(home, name)?;
    let mut keys = Map::new();
    keys.insert("endpoint".to_owned(), Value::String(context.endpoint.clone()));
    if let Some(identity) = &context.identity {
        keys.insert("identity".to_owned(), Value::String(identity.display().to_string()));
    }
    if context.insecure {
        keys.insert("insecure".to_owned(), Value::Bool(true));
    }
    if let Some(note) = &context.note {
        keys.insert("note".to_owned(), Value::String(note.clone()));
    }
    // JSON is YAML, and quotes whatever a path may hold.
    let text = format!("{:#}\n", Value::Object(keys));
    put(&path, &text).map_err(|why| ContextError::File(path.clone(), why))?;
    Ok(path)
}

/// Removes a context, and the choice of it. One that is not there is removed already.
pub fn remove(home: &Path, name: &str) -> Result<(), ContextError> {
    let path = path(home, name)?;
    gone(&path).map_err(|why| ContextError::File(path.clone(), why))?;
    if current(home).as_deref() == Some(name) {
        let chosen = home.join(CURRENT);
        gone(&chosen).map_err(|why| ContextError::File(chosen.clone(), why))?;
    }
    Ok(())
}

/// The context that was chosen.
#[must_use]
pub fn current(home: &Path) -> Option<String> {
    let text = fs::read_to_string(home.join(CURRENT)).ok()?;
    let name = text.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Chooses a context.
pub fn choose(home: &Path, name: &str) -> Result<(), ContextError> {
    path(home, name)?;
    let chosen = home.join(CURRENT);
    put(&chosen, &format!("{name}\n")).map_err(|why| ContextError::File(chosen.clone(), why))
}

/// The contexts there are, in order.
#[must_use]
pub fn all(home: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(home.join("contexts")) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            name.strip_suffix(".yaml").map(str::to_owned)
        })
        .collect();
    names.sort();
    names
}

/// Replaces a file at once: a reader sees the old text or the new.
fn put(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let beside = path.with_extension(format!("new-{}", std::process::id()));
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

fn gone(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_written_chosen_and_removed() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        let context = Context { endpoint: "127.0.0.1:8085".to_owned(), ..Context::default() };
        let file = write(home, "dev", &context).unwrap();
        assert_eq!(
            fs::read_to_string(&file).unwrap(),
            "{\n  \"endpoint\": \"127.0.0.1:8085\"\n}\n"
        );
        choose(home, "dev").unwrap();
        assert_eq!(current(home).as_deref(), Some("dev"));
        assert_eq!(all(home), ["dev"]);
        remove(home, "dev").unwrap();
        remove(home, "dev").unwrap();
        assert_eq!(current(home), None);
        assert_eq!(all(home), Vec::<String>::new());
    }

    #[test]
    fn no_name_leaves_the_folder() {
        let home = tempfile::tempdir().unwrap();
        for name in ["", "..", "../x", "a/b", "-x"] {
            assert!(write(home.path(), name, &Context::default()).is_err(), "{name:?}");
        }
    }
}
