//! Repositories for tests, and fetchers that may read them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use persys_git::{Fetcher, Settings, Source};
use persys_model::repository::Protocol;
use tempfile::TempDir;

/// A repository in a folder of its own.
pub(crate) struct Repo {
    pub(crate) folder: TempDir,
}

impl Repo {
    pub(crate) fn new() -> Self {
        let repo = Self { folder: tempfile::tempdir().unwrap() };
        repo.git(&["init", "--quiet", "--initial-branch=main", "."]);
        repo
    }

    /// A new one with one file in one commit.
    pub(crate) fn with(path: &str, text: &str) -> Self {
        let repo = Self::new();
        repo.commit(path, text);
        repo
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        let output = Command::new("/usr/bin/git")
            .args(args)
            .current_dir(self.path())
            .env_clear()
            .envs([
                ("PATH", "/usr/bin:/bin"),
                ("HOME", "/nonexistent"),
                ("GIT_CONFIG_NOSYSTEM", "1"),
                ("GIT_CONFIG_GLOBAL", "/dev/null"),
                ("GIT_AUTHOR_NAME", "t"),
                ("GIT_AUTHOR_EMAIL", "t@t"),
                ("GIT_COMMITTER_NAME", "t"),
                ("GIT_COMMITTER_EMAIL", "t@t"),
            ])
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Writes a file and commits everything; the commit.
    pub(crate) fn commit(&self, path: &str, text: &str) -> String {
        let file = self.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
        self.commit_all()
    }

    pub(crate) fn commit_all(&self) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message=x"]);
        self.git(&["rev-parse", "HEAD"])
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn address(&self) -> String {
        format!("file://{}", self.path().display())
    }

    pub(crate) fn source(&self, reference: &str, path: &str) -> Source {
        source(&self.address(), reference, path)
    }
}

pub(crate) fn source(repository: &str, reference: &str, path: &str) -> Source {
    Source {
        repository: repository.to_owned(),
        reference: reference.to_owned(),
        path: path.to_owned(),
    }
}

/// A fetcher for tests with a folder of its own.
pub(crate) struct Bench {
    pub(crate) folder: TempDir,
    pub(crate) settings: Settings,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = Settings::default().within(folder.path().join("scratch"));
        settings.allow = Protocol::ALL.into_iter().collect();
        settings.limits.deadline = Duration::from_secs(30);
        Self { folder, settings }
    }

    pub(crate) fn fetcher(&self) -> Fetcher {
        Fetcher::new(self.settings.clone()).unwrap()
    }

    /// What is left in its folder.
    pub(crate) fn left(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.settings.scratch).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// Credentials for one origin.
    pub(crate) fn with_token(mut self, origin: &str, user: &str, token: &str) -> Self {
        let path = self.folder.path().join("tokens");
        let (scheme, host) = origin.split_once("://").unwrap();
        std::fs::write(&path, format!("{scheme}://{user}:{token}@{host}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).unwrap();
        self.settings.credentials = Some(path);
        self
    }
}
