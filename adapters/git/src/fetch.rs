//! Fetching itself: one step after another, each bounded by what is left of the time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use persys_model::fault::Faults;
use persys_model::repository::{self, Protocol, Repository, is_commit};
use persys_process::{Ended, ProcessError};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::command::{FETCHED, Git, origin};
use crate::credentials::{self, Token};
use crate::error::{Error, Step, next, said};
use crate::folder::{self, Folder};
use crate::settings::{Settings, safe_path};
use crate::{Fetched, Source, USUAL_NAMES};

/// How often the folder is measured while git writes to it.
const MEASURE: Duration = Duration::from_millis(100);
/// Bytes of names and commits that are read.
const SHORT: usize = 16 * 1024;

/// Fetches files of repositories. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Fetcher {
    settings: Arc<Settings>,
    room: Arc<Semaphore>,
}

/// What somebody asks for, checked.
#[derive(Debug)]
struct Wanted {
    repository: Repository,
    reference: Arc<str>,
    path: Arc<str>,
}

impl Fetcher {
    /// A fetcher by these settings. What an earlier life left in its folder is removed.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let ssh = settings.ssh.iter().flat_map(|ssh| [&ssh.key, &ssh.known_hosts]);
        for path in ssh.chain([&settings.ssh_program]) {
            if !safe_path(path) {
                let what = format!(
                    "{} must be absolute, of letters, digits, '/', '.', '_', '-', '+'",
                    path.display()
                );
                return Err(Error::Setup { what });
            }
        }
        folder::empty(&settings.scratch)
            .map_err(|source| Error::Disk { path: settings.scratch.clone(), source })?;
        let room = Arc::new(Semaphore::new(settings.limits.at_a_time.max(1)));
        Ok(Self { settings: Arc::new(settings), room })
    }

    /// The file `source` names, at the commit its reference stands for now.
    pub async fn fetch(&self, source: &Source) -> Result<Fetched, Error> {
        let wanted = self.check(source)?;
        let within = self.settings.limits.deadline;
        let until = Instant::now() + within;
        let Ok(Ok(_turn)) = timeout_at(until, self.room.acquire()).await else {
            return Err(Error::Busy { within });
        };
        let token = self.token(&wanted.repository)?;
        let folder = Folder::within(&self.settings.scratch)
            .map_err(|source| Error::Disk { path: self.settings.scratch.clone(), source })?;
        let settings = self.settings.as_ref();
        let git = Git {
            settings,
            repository: &wanted.repository,
            token: token.as_ref(),
            folder: folder.path(),
        };
        let found = One { git, until }.fetch(&wanted).await;
        let removed = tokio::task::spawn_blocking(move || drop(folder));
        // It is removed in any case; that nobody waits for it is no reason to fail.
        let _gone = removed.await;
        found
    }

    /// Every fault of `source`, by the names its fields have in a spec.
    fn check(&self, source: &Source) -> Result<Wanted, Error> {
        let mut faults = Faults::none();
        let mut note = |field: &str, problem: String| {
            faults.push(format!("spec.compose.{field}"), problem);
        };
        let repository = Repository::read(&source.repository);
        match &repository {
            Ok(repository) => {
                for problem in self.forbidden(repository) {
                    note("git_repo", problem);
                }
            }
            Err(problem) => note("git_repo", problem.clone()),
        }
        let reference = repository::reference(&source.reference);
        if let Err(problem) = &reference {
            note("git_ref", problem.clone());
        }
        let path = repository::file(&source.path);
        if let Err(problem) = &path {
            note("git_path", problem.clone());
        }
        match (repository, reference, path) {
            (Ok(repository), Ok(reference), Ok(path)) if faults.is_empty() => {
                Ok(Wanted { repository, reference, path })
            }
            _ => Err(Error::Refused(faults)),
        }
    }

    /// Why we do not go there.
    fn forbidden(&self, repository: &Repository) -> Vec<String> {
        let mut problems = Vec::new();
        let protocol = repository.protocol;
        if !self.settings.allow.contains(&protocol) {
            let allowed: Vec<_> = self.settings.allow.iter().map(|p| p.word()).collect();
            problems.push(format!(
                "{} is not allowed here, only {}; an operator can allow it with PERSYS_GIT_ALLOW",
                protocol.word(),
                allowed.join(", ")
            ));
        }
        if let Some(host) = &repository.host
            && !self.settings.hosts.is_empty()
            && !self.settings.hosts.contains(host.as_ref())
        {
            problems.push(format!(
                "the host {host} is not allowed here; an operator can allow it with PERSYS_GIT_HOSTS"
            ));
        }
        if protocol == Protocol::Ssh && self.settings.ssh.is_none() {
            problems.push(
                "no key is set up for ssh; an operator can give one with PERSYS_GIT_SSH_KEY and \
                 PERSYS_GIT_KNOWN_HOSTS"
                    .to_owned(),
            );
        }
        problems
    }

    fn token(&self, repository: &Repository) -> Result<Option<Token>, Error> {
        match (&self.settings.credentials, origin(repository)) {
            (Some(path), Some(origin)) => credentials::find(path, &origin),
            _ => Ok(None),
        }
    }
}

/// One fetch on its way.
struct One<'a> {
    git: Git<'a>,
    until: Instant,
}

impl One<'_> {
    async fn fetch(&self, wanted: &Wanted) -> Result<Fetched, Error> {
        let folder = self.git.folder.display().to_string();
        self.run(
            Step::Prepare,
            &["init", "--quiet", "--bare", "--template=", "--", &folder],
            SHORT,
        )
        .await?;
        let filter = format!("--filter=blob:limit={}", self.file_limit().saturating_add(1));
        let reference = if wanted.reference.is_empty() { "HEAD" } else { &wanted.reference };
        let refspec = format!("+{reference}:{FETCHED}");
        let address = wanted.repository.address.as_ref();
        let words = [
            "fetch",
            "--quiet",
            "--depth=1",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            &filter,
            "--",
            address,
            &refspec,
        ];
        self.run(Step::Fetch, &words, SHORT).await?;
        let commit = self.commit(reference).await?;
        let (path, blob) = self.find(&commit, &wanted.path).await?;
        let file = self.read(&path, &blob).await?;
        Ok(Fetched { commit, path, file })
    }

    async fn commit(&self, reference: &str) -> Result<String, Error> {
        let name = format!("{FETCHED}^{{commit}}");
        let words = ["rev-parse", "--verify", "--quiet", "--end-of-options", &name];
        let ended = self.run(Step::Resolve, &words, SHORT).await?;
        let commit = ended.stdout.text().trim().to_owned();
        if !is_commit(&commit) || (is_commit(reference) && reference != commit) {
            return Err(Error::Git {
                step: Step::Resolve,
                said: "what came is not the commit that was asked for".to_owned(),
                next: "name a branch, a tag or a commit",
            });
        }
        Ok(commit)
    }

    /// Path and object of the regular file at `path`, or of the first usual name.
    async fn find(&self, commit: &str, path: &str) -> Result<(String, String), Error> {
        let looked = if path.is_empty() { USUAL_NAMES.to_vec() } else { vec![path] };
        let mut words = vec!["ls-tree", "-z", "--full-tree", commit, "--"];
        words.extend(&looked);
        let listed = self.run(Step::Find, &words, SHORT).await?.stdout.text();
        let entries: Vec<_> = listed.split('\0').filter_map(entry).collect();
        let found = looked.iter().find_map(|name| entries.iter().find(|entry| entry.path == *name));
        let Some(found) = found else {
            let looked = looked.into_iter().map(str::to_owned).collect();
            return Err(Error::NoFile { looked, commit: commit.to_owned() });
        };
        let what = match found.mode {
            "100644" | "100755" | "100664" => {
                return Ok((found.path.to_owned(), found.object.to_owned()));
            }
            "120000" => "a symbolic link",
            "160000" => "a submodule",
            "040000" => "a folder",
            _ => "no regular file",
        };
        Err(Error::NotAFile { path: found.path.to_owned(), what, commit: commit.to_owned() })
    }

    async fn read(&self, path: &str, blob: &str) -> Result<String, Error> {
        let limit = self.file_limit();
        let too_large = || Error::FileTooLarge { path: path.to_owned(), limit };
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let ended = match self.run(Step::Read, &["cat-file", "blob", blob], most).await {
            // What was not sent is larger than the filter of the fetch.
            Err(Error::Git { said, .. }) if said.contains("promisor") => return Err(too_large()),
            ended => ended?,
        };
        if ended.stdout.cut || ended.stdout.bytes.len() > most {
            return Err(too_large());
        }
        String::from_utf8(ended.stdout.bytes)
            .map_err(|_not_text| Error::NotText { path: path.to_owned() })
    }

    fn file_limit(&self) -> u64 {
        self.git.settings.limits.file_bytes
    }

    /// Runs git to its good end while its folder stays within bounds.
    async fn run(&self, step: Step, args: &[&str], output: usize) -> Result<Ended, Error> {
        let settings = self.git.settings;
        let left = self.until.saturating_duration_since(Instant::now());
        let child = self.git.child(args, left, output);
        let limit = settings.limits.folder_bytes;
        let ended = tokio::select! {
            ended = persys_process::run(&child) => ended,
            () = outgrown(self.git.folder, limit) => {
                return Err(Error::RepositoryTooLarge { step, limit });
            }
        };
        let ended = ended.map_err(|error| match error {
            ProcessError::Deadline { .. } => {
                Error::Deadline { step, within: settings.limits.deadline }
            }
            ProcessError::NotAbsolute { .. }
            | ProcessError::Spawn { .. }
            | ProcessError::Wait { .. } => Error::Setup {
                what: format!("{error}; install it with `apt-get install util-linux git`"),
            },
        })?;
        if ended.code == Some(0) {
            return Ok(ended);
        }
        if folder::size(self.git.folder) >= limit {
            return Err(Error::RepositoryTooLarge { step, limit });
        }
        let complaint = ended.stderr.text();
        if complaint.contains("failed to execute") {
            let what = format!(
                "{} cannot be run; install it with `apt-get install git`",
                settings.git.display()
            );
            return Err(Error::Setup { what });
        }
        let secrets = self.git.token.map(Token::secrets).unwrap_or_default();
        let said = said(&complaint, &secrets);
        let next = next(&said);
        Err(Error::Git { step, said, next })
    }
}

/// Returns when `folder` holds more than `limit` bytes.
async fn outgrown(folder: &Path, limit: u64) {
    loop {
        tokio::time::sleep(MEASURE).await;
        let path = folder.to_owned();
        let size = tokio::task::spawn_blocking(move || folder::size(&path)).await;
        if size.is_ok_and(|size| size > limit) {
            return;
        }
    }
}

/// One line of a tree.
struct Entry<'a> {
    mode: &'a str,
    object: &'a str,
    path: &'a str,
}

fn entry(line: &str) -> Option<Entry<'_>> {
    let (about, path) = line.split_once('\t')?;
    let mut words = about.split(' ');
    let (mode, _kind, object) = (words.next()?, words.next()?, words.next()?);
    Some(Entry { mode, object, path })
}
