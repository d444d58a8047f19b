//! Taking up new certificates while running.
//!
//! The files are read every few seconds rather than watched: that sees every way of replacing them,
//! also a folder swapped under a link. What loads, is valid and names the same identity goes into
//! use; anything else leaves what is in use in use, and is reported once, not at every look.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::task::{JoinError, spawn_blocking};
use tokio::time::sleep;

use crate::credentials::{Bundle, Credentials, IdentityChanged};
use crate::event::{Event, Report};
use crate::files::{LoadError, Source};

/// How often the files are looked at.
pub const PERIOD: Duration = Duration::from_secs(3);
/// The same for a certificate that ends soon: so many times until then, and not more often than this.
const LOOKS: u32 = 40;
const SHORTEST: Duration = Duration::from_millis(50);

/// Why new files were not taken up.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// They do not load.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// They are somebody else's.
    #[error(transparent)]
    Identity(#[from] IdentityChanged),
    /// Reading them was broken off.
    #[error("reading the files was broken off")]
    BrokenOff(#[from] JoinError),
}

/// Keeps credentials as their files are.
#[derive(Debug)]
pub struct Watcher {
    source: Source,
    credentials: Credentials,
    /// The last failure, so that it is told once.
    told: Option<String>,
}

impl Watcher {
    /// Loads what is at `source` for the first time.
    pub fn open(source: Source, now: SystemTime) -> Result<Self, LoadError> {
        let credentials = Credentials::new(source.load(now)?);
        Ok(Self { source, credentials, told: None })
    }

    /// What it keeps.
    pub fn credentials(&self) -> Credentials {
        self.credentials.clone()
    }

    /// Looks once. Says what changed, if anything did.
    pub fn check(&mut self, now: SystemTime) -> Option<Event> {
        let loaded = self.source.load(now).map_err(ReloadError::Load);
        self.take(loaded)
    }

    /// Looks for ever; ends when dropped.
    pub async fn run(mut self, clock: impl Fn() -> SystemTime + Send, report: Report) {
        loop {
            let (source, now) = (self.source.clone(), clock());
            // Files may be on a disk that answers late; the connections of this thread go on.
            let loaded = match spawn_blocking(move || source.load(now)).await {
                Ok(loaded) => loaded.map_err(ReloadError::Load),
                Err(broken_off) => Err(ReloadError::BrokenOff(broken_off)),
            };
            if let Some(event) = self.take(loaded) {
                report(event);
            }
            sleep(self.pause(clock())).await;
        }
    }

    /// How long to wait for the next look: what follows a certificate that ends soon has to be found
    /// sooner.
    fn pause(&self, now: SystemTime) -> Duration {
        let end = self.credentials.current().certificate().not_after;
        let left = end.duration_since(now).unwrap_or(PERIOD * LOOKS);
        (left / LOOKS).clamp(SHORTEST, PERIOD)
    }

    fn take(&mut self, loaded: Result<Bundle, ReloadError>) -> Option<Event> {
        match loaded.and_then(|bundle| self.replace(bundle)) {
            Ok(event) => {
                self.told = None;
                self.credentials.set_trouble(None);
                event
            }
            Err(fault) => {
                let text = fault.to_string();
                self.credentials.set_trouble(Some(text.clone()));
                if self.told.as_ref() == Some(&text) {
                    return None;
                }
                self.told = Some(text);
                Some(Event::ReloadFailed(fault))
            }
        }
    }

    fn replace(&self, bundle: Bundle) -> Result<Option<Event>, ReloadError> {
        let current: Arc<Bundle> = self.credentials.current();
        if current.same_as(&bundle) {
            return Ok(None);
        }
        let certificate = bundle.certificate().clone();
        let remapped = bundle.mapping().filter(|_| current.has_same_certificates(&bundle));
        let remapped = remapped.map(|mapping| (mapping.path().to_owned(), mapping.len()));
        self.credentials.replace(bundle)?;
        Ok(Some(match remapped {
            Some((path, rows)) => Event::Remapped(path, rows),
            None => Event::Reloaded(certificate),
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::time::UNIX_EPOCH;

    use tempfile::TempDir;

    use super::*;
    use crate::{Authority, ClusterName, Grant, Issued, Name, Role, TrustDomain, Validity};

    const DAY: Duration = Duration::from_hours(24);

    struct Bench {
        _folder: TempDir,
        path: PathBuf,
        authority: Authority,
        watcher: Watcher,
    }

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_hours(500_000)
    }

    fn bench() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.pem");
        let (domain, cluster) = (TrustDomain::new("example.org"), ClusterName::new("east"));
        let (domain, cluster) = (domain.unwrap(), cluster.unwrap());
        let authority = Authority::open_or_create(folder.path(), &domain, &cluster, now()).unwrap();
        let source = Source::Bundle(path.clone());
        source.save(&issue(&authority, "n1")).unwrap();
        let watcher = Watcher::open(source, now()).unwrap();
        Bench { _folder: folder, path, authority, watcher }
    }

    fn issue(authority: &Authority, name: &'static str) -> Issued {
        let grant = Grant::new(Role::Agent, Name::fixed(name));
        authority.issue(&grant, Validity { now: now(), lifetime: DAY }).unwrap()
    }

    impl Bench {
        fn serial(&self) -> String {
            self.watcher.credentials().current().certificate().serial.to_string()
        }

        fn save(&self, issued: &Issued) {
            Source::Bundle(self.path.clone()).save(issued).unwrap();
        }

        /// Looks twice: a failure is told once, and what was in use still is.
        fn keeps(&mut self, wanted: &str) {
            let before = self.serial();
            let event = self.watcher.check(now()).unwrap();
            assert_eq!(event.name(), "tls_reload_failed");
            assert!(event.to_string().contains(wanted), "{event}");
            assert!(self.watcher.check(now()).is_none(), "told twice");
            assert_eq!(self.serial(), before);
        }
    }

    #[test]
    fn a_new_certificate_is_taken_once() {
        let mut bench = bench();
        assert!(bench.watcher.check(now()).is_none());
        let next = issue(&bench.authority, "n1");
        bench.save(&next);
        let event = bench.watcher.check(now()).unwrap();
        assert_eq!(event.name(), "tls_reloaded");
        assert_eq!(bench.serial(), next.certificate.serial.to_string());
        assert!(bench.watcher.check(now()).is_none());
    }

    #[test]
    fn what_does_not_load_changes_nothing() {
        let mut bench = bench();
        let good = fs::read(&bench.path).unwrap();
        for (written, wanted) in [
            (&b"garbage"[..], "there is no certificate"),
            (&good[..good.len() / 2], "half written"),
            (&[], "there is no certificate"),
        ] {
            fs::write(&bench.path, written).unwrap();
            bench.keeps(wanted);
            fs::write(&bench.path, &good).unwrap();
            assert!(bench.watcher.check(now()).is_none());
        }
        fs::remove_file(&bench.path).unwrap();
        bench.keeps("does not exist");
        let other = issue(&bench.authority, "n1");
        bench.save(&Issued { key_pem: other.key_pem, ..issue(&bench.authority, "n1") });
        bench.keeps("does not belong");
        bench.save(&issue(&bench.authority, "n2"));
        bench.keeps("restart to become somebody else");
        bench.save(&issue(&bench.authority, "n1"));
        assert_eq!(bench.watcher.check(now()).unwrap().name(), "tls_reloaded");
    }

    /// Wherever a writer stops, what was in use stays in use.
    #[test]
    fn a_file_cut_anywhere_is_never_taken() {
        let mut bench = bench();
        let before = bench.serial();
        let next = issue(&bench.authority, "n1");
        bench.save(&next);
        let whole = fs::read(&bench.path).unwrap();
        let root = whole.windows(27).rposition(|text| text == b"-----BEGIN CERTIFICATE-----");
        for length in (0..root.unwrap() + 30).step_by(7) {
            fs::write(&bench.path, &whole[..length]).unwrap();
            bench.watcher.check(now());
            assert_eq!(bench.serial(), before, "{length} bytes");
        }
    }
}
