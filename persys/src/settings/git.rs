//! How Compose files are fetched from repositories.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use persys_scheduler::app::{GitProtocol, GitSettings, GitSsh, safe_path};

use super::read::Reader;

/// Shortest time a fetch is given.
const LEAST_MS: u64 = 1_000;

/// What the fetcher is told.
pub(super) fn settings(read: &mut Reader<'_>) -> GitSettings {
    let mut settings = GitSettings {
        allow: protocols(read),
        hosts: read.list("git-hosts").into_iter().collect(),
        credentials: read.text("git-credentials").map(PathBuf::from),
        ssh: ssh(read),
        ..GitSettings::default()
    };
    settings.limits.deadline = Duration::from_millis(read.interval_ms("git-timeout", LEAST_MS));
    settings
}

fn protocols(read: &mut Reader<'_>) -> BTreeSet<GitProtocol> {
    let mut allowed = BTreeSet::new();
    for word in read.list("git-allow") {
        match GitProtocol::ALL.into_iter().find(|known| known.word() == word) {
            Some(protocol) => drop(allowed.insert(protocol)),
            None => read.fault("git-allow", format!("{word:?} is none of https, ssh, file, http")),
        }
    }
    allowed
}

fn ssh(read: &mut Reader<'_>) -> Option<GitSsh> {
    let given = |key: &str| read.text(key).map(PathBuf::from);
    let (key, known_hosts) = match (given("git-ssh-key"), given("git-known-hosts")) {
        (Some(key), Some(known_hosts)) => (key, known_hosts),
        (Some(_), None) => {
            read.fault("git-known-hosts", "goes with git-ssh-key: no server is trusted unseen");
            return None;
        }
        (None, Some(_)) => {
            read.fault("git-ssh-key", "goes with git-known-hosts");
            return None;
        }
        (None, None) => return None,
    };
    for (setting, path) in [("git-ssh-key", &key), ("git-known-hosts", &known_hosts)] {
        if !safe_path(path) {
            read.fault(setting, "an absolute path of letters, digits, '/', '.', '_', '-', '+'");
        }
    }
    Some(GitSsh { key, known_hosts })
}
