//! The context of a development cluster: the way by which commands find it.
//!
//! The first cluster of a person is the context `dev`, which is taken when nothing else was said. A second
//! one with a folder of its own gets a context of its own name; it never takes over that of the first.

use std::path::Path;

use persys_cli::context::{self, Context, ContextError};

/// Most contexts that are tried for one cluster.
const MOST: u32 = 1000;

/// The context of the cluster that is kept in `folder`, if it has one.
pub(super) fn find(home: &Path, folder: &Path) -> Option<String> {
    context::all(home).into_iter().find(|name| is_of(home, name, folder))
}

/// Writes the context of the cluster in `folder`: the one it has, else `dev` if no other cluster has it,
/// else one that is named after the folder. Says its name.
pub(super) fn leave(home: &Path, folder: &Path, context: &Context) -> Result<String, ContextError> {
    let after = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let fits = |own: &String| context::path(home, own).is_ok();
    let own = Some(format!("{}-{after}", context::DEV)).filter(fits);
    let own = own.unwrap_or_else(|| context::DEV.to_owned());
    let mut names = [context::DEV.to_owned(), own.clone()]
        .into_iter()
        .chain((2..MOST).map(|nth| format!("{own}-{nth}")));
    let free = names.find(|name| is_free(home, name));
    let name = find(home, folder).or(free).unwrap_or_else(|| context::DEV.to_owned());
    context::write(home, &name, context)?;
    Ok(name)
}

/// Removes the context of the cluster in `folder`.
pub(super) fn remove(home: &Path, folder: &Path) -> Result<(), ContextError> {
    match find(home, folder) {
        Some(name) => context::remove(home, &name),
        None => Ok(()),
    }
}

fn identity(home: &Path, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(context::path(home, name).ok()?).ok()?;
    let value: serde_json::Value = serde_json::from_str(&text).ok()?;
    value.get("identity")?.as_str().map(ToOwned::to_owned)
}

fn is_of(home: &Path, name: &str, folder: &Path) -> bool {
    identity(home, name).is_some_and(|file| Path::new(&file).starts_with(folder))
}

/// True if there is no such context, or one of a development cluster that is gone. A context that a
/// person wrote is theirs.
fn is_free(home: &Path, name: &str) -> bool {
    let there = context::path(home, name).is_ok_and(|path| path.exists());
    let gone = || identity(home, name).is_some_and(|file| !Path::new(&file).exists());
    !there || gone()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cluster in a folder of this name, with the file of its operator.
    fn start(home: &Path, name: &str) -> (std::path::PathBuf, String) {
        let folder = home.join("state").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let operator = folder.join("operator.pem");
        std::fs::write(&operator, "").unwrap();
        let context = Context { identity: Some(operator), ..Context::default() };
        let left = leave(home, &folder, &context).unwrap();
        (folder, left)
    }

    #[test]
    fn a_second_cluster_gets_a_context_of_its_own() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        let (_, name) = start(home, "one");
        assert_eq!(name, "dev");
        assert_eq!(start(home, "one").1, "dev", "started again it keeps its own");
        let (_, name) = start(home, "one2");
        assert_eq!(name, "dev-one2");
        assert_eq!(start(home, "a b").1, "dev-2", "the name of this folder is none for a context");
    }

    #[test]
    fn a_context_goes_with_its_cluster_and_is_free_then() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        let (first, _) = start(home, "one");
        let (second, _) = start(home, "two");
        remove(home, &second).unwrap();
        assert_eq!((find(home, &first).as_deref(), find(home, &second)), (Some("dev"), None));
        std::fs::remove_dir_all(&first).unwrap();
        assert_eq!(start(home, "two").1, "dev", "the cluster that had it is gone");
    }

    #[test]
    fn a_context_that_a_person_wrote_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let theirs = Context { endpoint: "far:8085".to_owned(), ..Context::default() };
        context::write(home.path(), "dev", &theirs).unwrap();
        assert_eq!(start(home.path(), "one").1, "dev-one");
    }
}
