//! Who is no longer believed, although the certificate is still valid.
//!
//! A certificate proves what was so when it was issued. What has changed since is in this list: it is
//! asked at every handshake and by whoever judges a request, and a connection that is open when its
//! other end comes onto the list is cut at once. The list is small: what it names leaves it when the
//! certificates concerned have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use aws_lc_rs::digest::SHA256;
use tokio::sync::watch;

use crate::certificate::Certificate;
use crate::names::{Name, Role};

/// What is no longer believed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Denied {
    /// Single certificates, by serial number.
    pub serials: BTreeSet<String>,
    /// Whole identities, whichever certificate they show.
    pub identities: BTreeMap<Role, BTreeSet<Name>>,
}

/// The prefix of a line that names one certificate.
const SERIAL: &str = "serial/";
/// Longest serial number in hexadecimal; 20 bytes are the most there are.
const MOST_SERIAL: usize = 40;

impl Denied {
    /// Whether a certificate is on the list.
    pub fn has(&self, certificate: &Certificate) -> bool {
        let identity = &certificate.identity;
        self.serials.contains(certificate.serial.as_str())
            || self.has_identity(identity.role, &identity.name)
    }

    /// Whether a whole identity is.
    pub fn has_identity(&self, role: Role, name: &Name) -> bool {
        self.identities.get(&role).is_some_and(|names| names.contains(name))
    }

    /// Adds what a line says.
    pub fn add(&mut self, subject: Subject) {
        match subject {
            Subject::Serial(serial) => drop(self.serials.insert(serial)),
            Subject::Identity(role, name) => {
                self.identities.entry(role).or_default().insert(name);
            }
        }
    }

    /// The list as lines, in order.
    pub fn lines(&self) -> Vec<String> {
        let serials = self.serials.iter().map(|serial| format!("{SERIAL}{serial}"));
        let named = self.identities.iter();
        let named =
            named.flat_map(|(role, names)| names.iter().map(move |n| format!("{role}/{n}")));
        serials.chain(named).collect()
    }

    /// A number that differs for lists that differ, so that one that is known need not be sent.
    /// Nothing on the list is 0.
    pub fn digest(&self) -> u64 {
        let lines = self.lines();
        if lines.is_empty() {
            return 0;
        }
        let all = aws_lc_rs::digest::digest(&SHA256, lines.join("\n").as_bytes());
        let first = all.as_ref().first_chunk().copied().unwrap_or_default();
        u64::from_be_bytes(first).max(1)
    }

    /// The list of such lines. A line nobody understands denies nobody, and says so.
    pub fn of_lines<L: AsRef<str>>(lines: impl IntoIterator<Item = L>) -> Result<Self, BadSubject> {
        let mut denied = Self::default();
        for line in lines {
            denied.add(Subject::parse(line.as_ref())?);
        }
        Ok(denied)
    }
}

/// One line of the list: `serial/<hex>` or `<role>/<name>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// One certificate.
    Serial(String),
    /// Everything somebody may show.
    Identity(Role, Name),
}

/// What names neither a certificate nor anybody.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither serial/<hex> nor <role>/<name>, such as agent/n1")]
pub struct BadSubject(pub String);

impl Subject {
    /// Takes a line apart.
    pub fn parse(text: &str) -> Result<Self, BadSubject> {
        let bad = || BadSubject(text.to_owned());
        if let Some(serial) = text.strip_prefix(SERIAL) {
            let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            let good = !serial.is_empty() && serial.len() <= MOST_SERIAL && serial.bytes().all(hex);
            return if good { Ok(Self::Serial(serial.to_owned())) } else { Err(bad()) };
        }
        let (role, name) = text.split_once('/').ok_or_else(bad)?;
        match (Role::parse(role), Name::new(name)) {
            (Ok(role), Ok(name)) => Ok(Self::Identity(role, name)),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Serial(serial) => write!(f, "{SERIAL}{serial}"),
            Self::Identity(role, name) => write!(f, "{role}/{name}"),
        }
    }
}

/// The list in use; cheap to clone, and the same for all clones.
#[derive(Debug, Clone)]
pub struct Revoked(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    denied: ArcSwap<Denied>,
    version: AtomicU64,
    changed: watch::Sender<u64>,
}

impl Default for Revoked {
    fn default() -> Self {
        let denied = ArcSwap::from_pointee(Denied::default());
        let (version, changed) = (AtomicU64::new(0), watch::Sender::new(0));
        Self(Arc::new(Shared { denied, version, changed }))
    }
}

impl Revoked {
    /// What is on it now.
    pub fn current(&self) -> Arc<Denied> {
        self.0.denied.load_full()
    }

    /// Whether a certificate is on it.
    pub fn has(&self, certificate: &Certificate) -> bool {
        self.0.denied.load().has(certificate)
    }

    /// Uses another list from now on. Connections of those who are new on it are cut.
    pub fn replace(&self, denied: Denied) {
        if *self.current() == denied {
            return;
        }
        self.0.denied.store(Arc::new(denied));
        self.wake();
    }

    /// Has every open connection look again, for a reason that is not on the list.
    pub(crate) fn wake(&self) {
        self.0.version.fetch_add(1, Ordering::Release);
        self.0.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// How often the list has changed; it counts before anybody is woken.
    pub(crate) fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    /// Wakes whenever the list changes.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let lines = ["serial/0af3", "agent/n1", "operator/admin"];
        let denied = Denied::of_lines(lines).unwrap();
        let mut wanted = lines.map(str::to_owned).to_vec();
        let mut found = denied.lines();
        wanted.sort();
        found.sort();
        assert_eq!(found, wanted);
        for bad in ["", "serial/", "serial/XY", "n1", "boss/n1", "agent/", "agent/N 1"] {
            assert!(Denied::of_lines([bad]).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_change_wakes_and_the_same_list_does_not() {
        let revoked = Revoked::default();
        let mut watch = revoked.watch();
        revoked.replace(Denied::of_lines(["agent/n1"]).unwrap());
        assert!(watch.has_changed().unwrap());
        watch.borrow_and_update();
        revoked.replace(Denied::of_lines(["agent/n1"]).unwrap());
        assert!(!watch.has_changed().unwrap());
        assert!(revoked.current().has_identity(Role::Agent, &Name::fixed("n1")));
    }
}
