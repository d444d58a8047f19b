//! What a fetcher is told: which addresses it may go to, who it is there, and how much it may take.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use persys_model::repository::Protocol;

/// How much one fetch may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of all that git keeps on disk meanwhile.
    pub folder_bytes: u64,
    /// Time, waiting for a turn included.
    pub deadline: Duration,
    /// How many fetches run at a time; others wait.
    pub at_a_time: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 256 * 1024,
            folder_bytes: 256 * 1024 * 1024,
            deadline: Duration::from_secs(30),
            at_a_time: 4,
        }
    }
}

/// Who we are to servers reached over ssh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ssh {
    /// The private key.
    pub key: PathBuf,
    /// The keys of the servers; one that is not in it is not talked to.
    pub known_hosts: PathBuf,
}

/// What a fetcher is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The git program.
    pub git: PathBuf,
    /// The program that bounds another one: `prlimit` of util-linux.
    pub limiter: PathBuf,
    /// The ssh program.
    pub ssh_program: PathBuf,
    /// Protocols that are allowed.
    pub allow: BTreeSet<Protocol>,
    /// Hosts that are allowed; none named means all.
    pub hosts: BTreeSet<String>,
    /// File with credentials for https, one `https://user:token@host` a line.
    pub credentials: Option<PathBuf>,
    /// Who we are over ssh; without it nothing is fetched over ssh.
    pub ssh: Option<Ssh>,
    /// How much one fetch may take.
    pub limits: Limits,
    /// A folder for our use alone; what is left in it from an earlier life is removed.
    pub scratch: PathBuf,
}

impl Settings {
    /// The same in this folder.
    #[must_use]
    pub fn within(self, scratch: PathBuf) -> Self {
        Self { scratch, ..self }
    }
}

impl Default for Settings {
    /// What holds when nobody says more: https and ssh, everywhere, nobody in particular.
    fn default() -> Self {
        Self {
            git: PathBuf::from("/usr/bin/git"),
            limiter: PathBuf::from("/usr/bin/prlimit"),
            ssh_program: PathBuf::from("/usr/bin/ssh"),
            allow: BTreeSet::from([Protocol::Https, Protocol::Ssh]),
            hosts: BTreeSet::new(),
            credentials: None,
            ssh: None,
            limits: Limits::default(),
            scratch: PathBuf::from("/var/lib/persys/git"),
        }
    }
}

/// Whether `path` may stand in the command by which git starts ssh, which a shell reads: absolute,
/// and without a character that means anything to a shell.
#[must_use]
pub fn safe_path(path: &Path) -> bool {
    let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'.' | b'_' | b'-' | b'+');
    path.is_absolute() && path.to_str().is_some_and(|text| text.bytes().all(known))
}
