//! The Compose program: finding it once, and running it.
//!
//! It is only ever run to bring a stack up. Everything else is asked of Docker itself, which is
//! quicker and says what it means.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};

use crate::process::{self, Child, Ended, ProcessError};

/// Where programs are looked for, and what they find theirs in.
const FOLDERS: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// Where Docker keeps Compose as a part of its own.
const PLUGINS: [&str; 4] = [
    "/usr/local/lib/docker/cli-plugins",
    "/usr/local/libexec/docker/cli-plugins",
    "/usr/lib/docker/cli-plugins",
    "/usr/libexec/docker/cli-plugins",
];
/// How long it may take to say its version: the first start of an interpreter on a busy machine.
const ANSWER: Duration = Duration::from_secs(30);
/// What is kept of its words.
const WORDS: usize = 64 * 1024;

/// A program that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    path: PathBuf,
    /// What stands before its own arguments.
    first: Option<&'static str>,
    pub(super) version: String,
}

/// The search for it, under way or over. It goes on when whoever asked has gone.
type Search = Shared<BoxFuture<'static, Result<Program, Arc<str>>>>;

/// Finds the program when it is first needed, and again after a search that found none.
#[derive(Clone, Default)]
pub(super) struct Finder {
    named: Option<PathBuf>,
    search: Arc<Mutex<Option<Search>>>,
}

impl std::fmt::Debug for Finder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Finder").field("named", &self.named).finish_non_exhaustive()
    }
}

impl Finder {
    pub(super) fn new(named: Option<PathBuf>) -> Self {
        Self { named, search: Arc::default() }
    }

    /// Whether there is something to run, whatever it says when it is run.
    pub(super) fn is_there(&self) -> bool {
        let usual =
            || FOLDERS.iter().chain(&PLUGINS).map(|it| Path::new(it).join("docker-compose"));
        match &self.named {
            Some(named) => places(named).iter().any(|path| path.is_file()),
            None => usual().any(|path| path.is_file()),
        }
    }

    /// The program, or what to do about it.
    pub(super) async fn program(&self, home: &Path) -> Result<Program, Arc<str>> {
        let search = {
            let mut held = self.search.lock().unwrap_or_else(PoisonError::into_inner);
            let failed = held.as_ref().is_some_and(|search| matches!(search.peek(), Some(Err(_))));
            if failed {
                *held = None;
            }
            held.get_or_insert_with(|| begin(self.named.clone(), home.to_owned())).clone()
        };
        search.await
    }
}

fn begin(named: Option<PathBuf>, home: PathBuf) -> Search {
    let task = tokio::spawn(async move { find(named, &home).await });
    let search = async move {
        match task.await {
            Ok(found) => found,
            Err(error) => Err(Arc::from(format!("the search for Compose ended: {error}"))),
        }
    };
    search.boxed().shared()
}

/// Paths that a name stands for: itself if it is one, else that name in the usual folders.
fn places(named: &Path) -> Vec<PathBuf> {
    if named.is_absolute() {
        return vec![named.to_path_buf()];
    }
    FOLDERS.iter().map(|folder| Path::new(folder).join(named)).collect()
}

fn existing(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.into_iter().filter(|path| path.is_file()).collect()
}

async fn find(named: Option<PathBuf>, home: &Path) -> Result<Program, Arc<str>> {
    let candidates = match &named {
        Some(named) if named.is_absolute() => vec![named.clone()],
        Some(named) => existing(places(named)),
        None => existing(
            ["docker", "docker-compose"].iter().flat_map(|name| places(Path::new(name))).collect(),
        ),
    };
    let mut seen = Vec::new();
    for path in candidates {
        let plugin = path.file_name().is_some_and(|name| name == "docker");
        let first = plugin.then_some("compose");
        let mut program = Program { path, first, version: String::new() };
        let args = ["version", "--short"].map(ToOwned::to_owned).to_vec();
        match program.run(args, Path::new("/"), home, None, ANSWER).await {
            Ok(Ended { code: Some(0), stdout, .. }) => {
                stdout.text().trim().clone_into(&mut program.version);
                return Ok(program);
            }
            Ok(ended) => {
                let text = ended.stderr.text();
                let words = text.lines().next().unwrap_or("no version");
                seen.push(format!("{}: {words}", program.path.display()));
            }
            Err(error) => seen.push(error.to_string()),
        }
    }
    let tried = if seen.is_empty() { String::new() } else { format!(" ({})", seen.join("; ")) };
    let searched = named
        .filter(|named| !named.is_absolute())
        .map(|named| format!(" ({} is not in {})", named.display(), FOLDERS.join(", ")));
    let tried = searched.filter(|_| seen.is_empty()).unwrap_or(tried);
    Err(Arc::from(format!(
        "no Compose program answers{tried}; install one with `apt-get install docker-compose`, or \
         name it with PERSYS_COMPOSE_BINARY"
    )))
}

impl Program {
    /// Runs it to its end.
    pub(super) async fn run(
        &self,
        args: Vec<String>,
        folder: &Path,
        home: &Path,
        docker: Option<&str>,
        deadline: Duration,
    ) -> Result<Ended, ProcessError> {
        let mut env = BTreeMap::from([
            ("PATH".to_owned(), FOLDERS.join(":")),
            ("HOME".to_owned(), home.display().to_string()),
        ]);
        if let Some(host) = docker {
            env.insert("DOCKER_HOST".to_owned(), host.to_owned());
        }
        let args = self.first.map(ToOwned::to_owned).into_iter().chain(args).collect();
        let (program, folder) = (self.path.clone(), folder.to_owned());
        process::run(&Child { program, args, env, folder, deadline, output_limit: WORDS }).await
    }
}

/// The arguments that bring a stack up: all of it, or only `services` of it.
pub(super) fn up(project: &str, file: &Path, services: &[String]) -> Vec<String> {
    let file = file.display().to_string();
    let mut args: Vec<String> =
        ["--ansi", "never", "--project-name", project, "--file", &file, "up", "--detach"]
            .map(ToOwned::to_owned)
            .to_vec();
    args.push("--no-build".to_owned());
    if !services.is_empty() {
        args.extend(["--no-deps".to_owned(), "--no-recreate".to_owned(), "--".to_owned()]);
        args.extend(services.iter().cloned());
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named_with_the_next_step() {
        let finder = Finder::new(Some(PathBuf::from("/no/such/compose")));
        for _ in 0..2 {
            let why = finder.program(Path::new("/")).await.unwrap_err();
            assert!(why.contains("/no/such/compose") && why.contains("apt-get install"), "{why}");
        }
        assert!(!finder.is_there());
        let liar = Finder::new(Some(PathBuf::from("/bin/false")));
        assert!(liar.is_there(), "what it is worth is seen when it is run");
        assert!(liar.program(Path::new("/")).await.is_err());
    }

    #[tokio::test]
    async fn whatever_says_its_version_is_one() {
        let finder = Finder::new(Some(PathBuf::from("/bin/echo")));
        let program = finder.program(Path::new("/")).await.unwrap();
        assert_eq!(program.version, "version --short");
    }

    #[tokio::test]
    async fn a_bare_name_is_looked_for_in_the_usual_folders() {
        let finder = Finder::new(Some(PathBuf::from("echo")));
        assert!(finder.is_there());
        let program = finder.program(Path::new("/")).await.unwrap();
        assert!(program.path.is_absolute() && program.path.ends_with("echo"), "{program:?}");
        let missing = Finder::new(Some(PathBuf::from("no-such-compose")));
        assert!(!missing.is_there());
        let why = missing.program(Path::new("/")).await.unwrap_err();
        assert!(why.contains("no-such-compose"), "{why}");
    }
}
