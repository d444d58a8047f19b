//! The list of what an authority has issued: one line each, added before the certificate is handed
//! over, so that nothing is in use that is not on it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::certificate::Certificate;
use crate::disk::{self, Existing, FileError};
use crate::names::{Name, Role};

/// The list, beside the authority.
const FILE: &str = "issued.jsonl";
/// Held while the list is written, so that two processes do not write over each other.
const LOCK: &str = "issued.lock";
/// From this size on, certificates that have ended long ago leave the list.
const LARGE: u64 = 4 << 20;
/// How long a certificate that has ended stays on a list that has become large.
const REMEMBERED: Duration = Duration::from_hours(24);

/// One certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Which one.
    pub serial: String,
    /// For whom: `<role>/<name>`.
    pub identity: String,
    /// When it was issued, in seconds since 1970.
    pub issued: u64,
    /// When it ends, in seconds since 1970.
    pub ends: u64,
    /// How it came about: `issue`, `join` or `renew`.
    pub how: String,
    /// The root that signed it, by the beginning of the hash of its key.
    #[serde(default)]
    pub root: String,
}

impl Entry {
    /// The line for a certificate.
    pub fn new(certificate: &Certificate, how: &str, root: &str, now: SystemTime) -> Self {
        let seconds = |moment: SystemTime| {
            moment.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
        };
        let (role, name) = (certificate.identity.role, &certificate.identity.name);
        Self {
            serial: certificate.serial.to_string(),
            identity: format!("{role}/{name}"),
            issued: seconds(now),
            ends: seconds(certificate.not_after),
            how: how.to_owned(),
            root: root.to_owned(),
        }
    }

    /// Whether it is still valid.
    pub fn lives(&self, now: SystemTime) -> bool {
        now < self.end()
    }

    /// When it ends.
    pub fn end(&self) -> SystemTime {
        UNIX_EPOCH.checked_add(Duration::from_secs(self.ends)).unwrap_or(UNIX_EPOCH)
    }
}

/// The list of one authority.
#[derive(Debug, Clone)]
pub struct Ledger {
    folder: PathBuf,
}

impl Ledger {
    /// That of the authority in `folder`.
    pub fn of(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf() }
    }

    /// Everything on it, oldest first. A line that a crash left half written counts as none: its
    /// certificate was never handed over.
    pub fn all(&self) -> Result<Vec<Entry>, FileError> {
        let path = self.folder.join(FILE);
        match fs::read_to_string(&path) {
            Ok(text) => {
                Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
            }
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(FileError::Read { path, source }),
        }
    }

    /// The last certificate of everybody whose last one is still valid.
    pub fn living(&self, now: SystemTime) -> Result<BTreeMap<String, Entry>, FileError> {
        let mut last = BTreeMap::new();
        for entry in self.all()?.into_iter().filter(|entry| entry.lives(now)) {
            last.insert(entry.identity.clone(), entry);
        }
        Ok(last)
    }

    /// Whether somebody holds a certificate under this name.
    pub fn is_held(&self, role: Role, name: &Name, now: SystemTime) -> Result<bool, FileError> {
        let identity = format!("{role}/{name}");
        Ok(self.all()?.iter().any(|entry| entry.identity == identity && entry.lives(now)))
    }

    /// Puts one on it.
    pub fn add(&self, entry: &Entry, now: SystemTime) -> Result<(), FileError> {
        let path = self.folder.join(FILE);
        let unwritable = |source| FileError::Write { path: path.clone(), source };
        let lock = File::create(self.folder.join(LOCK)).map_err(unwritable)?;
        lock.lock().map_err(unwritable)?;
        let mut text = fs::read(&path).ok().and_then(|text| text.last().copied()).map_or_else(
            String::new,
            |last| {
                if last == b'\n' { String::new() } else { "\n".to_owned() }
            },
        );
        text.push_str(&serde_json::to_string(entry).unwrap_or_default());
        text.push('\n');
        disk::append(&path, text.as_bytes())?;
        if fs::metadata(&path).is_ok_and(|file| file.len() > LARGE) {
            self.shorten(now)?;
        }
        Ok(())
    }

    fn shorten(&self, now: SystemTime) -> Result<(), FileError> {
        let since = now.checked_sub(REMEMBERED).unwrap_or(now);
        let kept = self.all()?.into_iter().filter(|entry| entry.lives(since));
        let lines = kept.filter_map(|entry| serde_json::to_string(&entry).ok());
        let text: String = lines.flat_map(|line| [line, "\n".to_owned()]).collect();
        disk::write(&self.folder.join(FILE), text.as_bytes(), 0o600, Existing::Replace).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(identity: &str, ends: u64) -> Entry {
        let (serial, identity) = (format!("{ends:x}"), identity.to_owned());
        Entry { serial, identity, issued: 1, ends, how: "issue".into(), root: String::new() }
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_half_written_line_costs_itself_alone() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::of(folder.path());
        assert!(ledger.all().unwrap().is_empty());
        ledger.add(&entry("agent/n1", 10), at(0)).unwrap();
        let path = folder.path().join(FILE);
        let mut text = fs::read(&path).unwrap();
        text.extend_from_slice(b"{\"serial\":\"77");
        fs::write(&path, text).unwrap();
        ledger.add(&entry("agent/n1", 20), at(0)).unwrap();
        ledger.add(&entry("agent/n2", 5), at(0)).unwrap();
        let ends: Vec<_> = ledger.all().unwrap().iter().map(|entry| entry.ends).collect();
        assert_eq!(ends, [10, 20, 5]);
        let living = ledger.living(at(7)).unwrap();
        assert_eq!(living.keys().collect::<Vec<_>>(), ["agent/n1"]);
        assert_eq!(living["agent/n1"].ends, 20);
        let (n1, n2) = (Name::fixed("n1"), Name::fixed("n2"));
        assert!(ledger.is_held(Role::Agent, &n1, at(19)).unwrap());
        assert!(!ledger.is_held(Role::Agent, &n2, at(7)).unwrap());
    }
}
