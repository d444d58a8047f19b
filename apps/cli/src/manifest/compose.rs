//! A Compose file as it is: the name of its folder, and the variables beside it.
//!
//! As people are used to: without another word the stack is named after the folder, and variables
//! come from `.env` in it. Only those that the file mentions are sent; the rest is nobody's business.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use persys_model::fault::Faults;

use super::{options, text};
use crate::problem::Problem;
use crate::world::World;

/// What stands beside a file, in its folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Folder {
    /// Its name, made into an id; empty where nothing of it is left.
    pub(crate) name: String,
    /// What its `.env` says.
    pub(crate) variables: BTreeMap<String, String>,
}

impl Folder {
    /// The folder of `file`; of what is typed there is none.
    pub(crate) fn of(world: &World, file: &Path) -> Result<Self, Problem> {
        if file == Path::new("-") {
            return Ok(Self::default());
        }
        // A file that is not there is told of by whoever reads it.
        let Ok(whole) = file.canonicalize() else { return Ok(Self::default()) };
        let folder = whole.parent().map(Path::to_path_buf).unwrap_or_default();
        let name = folder.file_name().and_then(|name| name.to_str()).map(id).unwrap_or_default();
        let dotenv = folder.join(".env");
        let variables =
            if dotenv.is_file() { dotenv_of(&text(world, &dotenv)?) } else { BTreeMap::new() };
        Ok(Self { name, variables })
    }

    /// Those of its variables that `file` mentions.
    pub(crate) fn mentioned(&self, file: &str) -> BTreeMap<String, String> {
        let all = self.variables.iter().filter(|(name, _)| file.contains(name.as_str()));
        all.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

/// A name as the compose program makes it: small letters, digits, `-` and `_`.
fn id(name: &str) -> String {
    let kept: String = name
        .to_lowercase()
        .chars()
        .filter(|letter| matches!(letter, 'a'..='z' | '0'..='9' | '-' | '_'))
        .collect();
    kept.trim_matches(|letter: char| !letter.is_ascii_alphanumeric()).to_owned()
}

/// Lines of `.env`: `NAME=value`, with or without `export` and quotes. Others are not for us.
fn dotenv_of(text: &str) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=') else { continue };
        let value = value.trim();
        let quoted = ['"', '\''].iter().find_map(|quote| {
            value.strip_prefix(*quote).and_then(|rest| rest.strip_suffix(*quote))
        });
        variables.insert(name.trim().to_owned(), quoted.unwrap_or(value).to_owned());
    }
    variables
}

/// Variables from options, or every option that is wrong.
pub(crate) fn variables(
    world: &World,
    env: &[String],
    files: &[PathBuf],
) -> Result<BTreeMap<String, String>, Problem> {
    let mut faults = Faults::none();
    let variables = options::environment(world, env, files, &mut faults)?;
    if faults.is_empty() {
        return Ok(variables);
    }
    let what = "nothing was done: the options have faults";
    Err(Problem::faults(what, &faults).code(crate::problem::USAGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_gives_its_name_and_its_variables() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("My Shop.2");
        std::fs::create_dir(&inner).unwrap();
        let file = inner.join("docker-compose.yml");
        std::fs::write(&file, "services: {}").unwrap();
        let dotenv = "# secrets\nexport TAG=1.2\nPASSWORD=\"a b\"\nCOMPOSE_FILE=x\nnonsense\nE=\n";
        std::fs::write(inner.join(".env"), dotenv).unwrap();
        let found = Folder::of(&World::real(), &file).unwrap();
        assert_eq!(found.name, "myshop2");
        let mentioned = found.mentioned("a: ${TAG}\nb: $PASSWORD");
        let mentioned: Vec<_> = mentioned.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(mentioned, [("PASSWORD", "a b"), ("TAG", "1.2")]);
        assert_eq!(Folder::of(&World::real(), Path::new("-")).unwrap(), Folder::default());
    }
}
