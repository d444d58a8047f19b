//! Why there is no file, and what to do about it.

use std::path::PathBuf;
use std::time::Duration;

use persys_model::fault::Faults;

/// A part of fetching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Making a place for it.
    Prepare,
    /// Asking the server for the commit and its files.
    Fetch,
    /// Finding out which commit that is.
    Resolve,
    /// Finding the file in it.
    Find,
    /// Reading the file.
    Read,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Prepare => "preparing a place for it",
            Self::Fetch => "fetching the commit",
            Self::Resolve => "resolving the commit",
            Self::Find => "looking for the file",
            Self::Read => "reading the file",
        })
    }
}

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for is not sound or not allowed.
    #[error("{0}")]
    Refused(Faults),
    /// The host is not set up for it.
    #[error("repositories cannot be fetched here: {what}")]
    Setup {
        /// What is missing, and where to get it.
        what: String,
    },
    /// Too many want the same.
    #[error("no turn came to fetch within {} s; try again", .within.as_secs())]
    Busy {
        /// How long it waited.
        within: Duration,
    },
    /// It took too long.
    #[error("{step} took longer than {} s and was given up; see that the server answers, or fetch from one that is nearer", .within.as_secs())]
    Deadline {
        /// What took long.
        step: Step,
        /// How long all of it may take.
        within: Duration,
    },
    /// Git said no.
    #[error("{step} failed: {said}; {next}")]
    Git {
        /// What failed.
        step: Step,
        /// Git's own words, without secrets.
        said: String,
        /// What to do.
        next: &'static str,
    },
    /// The repository does not fit.
    #[error(
        "{step} took more than {limit} bytes and was given up; keep the Compose file in a small repository"
    )]
    RepositoryTooLarge {
        /// When it was seen.
        step: Step,
        /// How much is taken.
        limit: u64,
    },
    /// The file does not fit.
    #[error("{path} has more than {limit} bytes; a Compose file must be smaller")]
    FileTooLarge {
        /// Its path.
        path: String,
        /// How much is taken.
        limit: u64,
    },
    /// There is no such file in the commit.
    #[error("there is no {} in commit {commit}; give its path within the repository", .looked.join(" or "))]
    NoFile {
        /// What was looked for.
        looked: Vec<String>,
        /// Where.
        commit: String,
    },
    /// It is something else.
    #[error("{path} is {what} in commit {commit}; give the path of a regular file")]
    NotAFile {
        /// Its path.
        path: String,
        /// What it is.
        what: &'static str,
        /// Where.
        commit: String,
    },
    /// It is no text.
    #[error("{path} is not text in UTF-8")]
    NotText {
        /// Its path.
        path: String,
    },
    /// Our own folder cannot be used.
    #[error("{} cannot be used: {source}", .path.display())]
    Disk {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl Error {
    /// Whether the same request can succeed later without a change of it.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::Deadline { .. } | Self::Git { step: Step::Fetch, .. } => true,
            Self::Refused(_)
            | Self::Setup { .. }
            | Self::Git { .. }
            | Self::RepositoryTooLarge { .. }
            | Self::FileTooLarge { .. }
            | Self::NoFile { .. }
            | Self::NotAFile { .. }
            | Self::NotText { .. }
            | Self::Disk { .. } => false,
        }
    }
}

/// Most characters of git's words that are passed on.
const MOST_SAID: usize = 400;

/// Git's words, fit for a message: one line, nothing that could steer a terminal, no secret.
pub(crate) fn said(text: &str, secrets: &[String]) -> String {
    let mut text = text.to_owned();
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        text = text.replace(secret.as_str(), "<hidden>");
    }
    let lines: Vec<_> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("warning: "))
        .collect();
    let joined = lines.join(", ");
    let clean: String = joined.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let count = clean.chars().count();
    let tail: String = clean.chars().skip(count.saturating_sub(MOST_SAID)).collect();
    if tail.is_empty() { "git gave no reason".to_owned() } else { tail }
}

/// What to do about what git said.
pub(crate) fn next(said: &str) -> &'static str {
    const KNOWN: &[(&str, &str)] = &[
        ("couldn't find remote ref", "name a branch or tag that exists, or a commit in full"),
        ("not our ref", "name a commit that the server still has"),
        ("unadvertised object", "this server gives branches and tags only; name one"),
        (
            "could not read Username",
            "the repository is private or absent; give its host a token in the file of git credentials",
        ),
        (
            "Authentication failed",
            "the token for this host is not accepted; renew it in the file of git credentials",
        ),
        ("403", "the token for this host may not read the repository"),
        (
            "not found",
            "see that the address is right and may be read with the token given for its host",
        ),
        ("Host key verification failed", "put the server's key into the file of known hosts"),
        ("Permission denied", "give the key the right to read the repository"),
        ("redirect", "give the address it redirects to"),
        ("certificate", "see that the server's certificate is trusted on the scheduler's host"),
        ("resolve host", "see that the host's name is right and known where the scheduler runs"),
        ("Connection refused", "see that the server runs and listens there"),
        ("does not appear to be a git repository", "see that the address is that of a repository"),
        ("dubious ownership", "let the repository belong to the user the scheduler runs as"),
    ];
    KNOWN.iter().find(|(words, _)| said.contains(words)).map_or(
        "try `git ls-remote` with the same address where the scheduler runs",
        |(_, next)| next,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_says_is_one_clean_line_without_secrets() {
        let text = "warning: x\nfatal: \u{1b}[31mno tok3n here\n\n";
        assert_eq!(said(text, &["tok3n".to_owned()]), "fatal:  [31mno <hidden> here");
        assert_eq!(said("", &[]), "git gave no reason");
        assert!(said(&"x".repeat(9000), &[]).len() <= MOST_SAID);
    }
}
