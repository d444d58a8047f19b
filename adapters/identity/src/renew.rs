//! Certificates that renew themselves.
//!
//! ```text
//!   file ──► how old? ──due──► Issuer ──► file        the watcher of the file does the rest
//!              ▲                  │
//!              └──── try again ◄──┘ not now
//! ```
//!
//! A certificate is renewed at a random moment between half and four fifths of its life, so that a
//! fleet that joined in one minute does not renew in one. Until the new one is whole and checked, the
//! old file stays; what cannot be renewed is tried again and told, and an ended certificate is renewed
//! with its key as long as the authority lets it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::sleep;

use crate::authority::AuthorityError;
use crate::certificate::Certificate;
use crate::credentials::{Bundle, BundleError, Terms};
use crate::disk::FileError;
use crate::event::{Event, Report};
use crate::files::{LoadError, Source};
use crate::request::NewKey;

/// What comes back for a request.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The certificate and what signed it, as PEM.
    pub certificate: String,
    /// The roots to trust, as PEM.
    pub roots: String,
    /// The key, from an issuer that makes it itself.
    pub key: Option<zeroize::Zeroizing<String>>,
}

/// Who gives the next certificate.
#[async_trait]
pub trait Issuer: Send + Sync {
    /// Certifies the key of a request, for the holder of `present`; or for the first time.
    async fn issue(
        &self,
        present: Option<&Bundle>,
        request_pem: &str,
    ) -> Result<Answer, IssueError>;

    /// The roots to trust, where these can change between two certificates.
    async fn roots(&self, present: &Bundle) -> Result<Option<String>, IssueError>;
}

/// Why there is no next certificate yet.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The issuer is not there, or not now.
    #[error("{0}")]
    Unreachable(String),
    /// The issuer said no.
    #[error("{0}")]
    Refused(String),
}

/// Why nothing was renewed.
#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    /// The issuer gave none.
    #[error(transparent)]
    Issue(#[from] IssueError),
    /// No key can be made.
    #[error(transparent)]
    Key(#[from] AuthorityError),
    /// What came back is of no use.
    #[error("what came back cannot be used: {0}")]
    Answer(#[from] BundleError),
    /// It would make us somebody else.
    #[error("the new certificate names {found}, but this is {ours}")]
    OtherIdentity {
        /// Who we are.
        ours: String,
        /// Who it names.
        found: String,
    },
    /// It cannot be kept.
    #[error(transparent)]
    File(#[from] FileError),
    /// The present one cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Writing was broken off.
    #[error("reading or writing the files was broken off")]
    BrokenOff(#[source] JoinError),
}

/// How often what is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// How long to wait after a failure.
    pub retry: Duration,
    /// How often the issuer is asked for the roots to trust.
    pub roots: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { retry: Duration::from_mins(1), roots: Duration::from_secs(30) }
    }
}

/// How long a certificate is new: issuers date them back, and hosts have clocks of their own.
const NEW: Duration = Duration::from_mins(6);

/// When a certificate is to be renewed: between half and four fifths of its life, where in between
/// chance says, from 0 to 255. Its life begins when it is issued, which is when it is first seen if
/// it is new: what it says itself is dated back.
pub fn due(certificate: &Certificate, seen: SystemTime, chance: u8) -> SystemTime {
    let age = seen.duration_since(certificate.not_before).unwrap_or_default();
    let begun = if age <= NEW { seen } else { certificate.not_before };
    let life = certificate.not_after.duration_since(begun).unwrap_or_default();
    let part = life.mul_f64(0.5 + 0.3 * f64::from(chance) / 255.0);
    begun.checked_add(part).unwrap_or(certificate.not_after)
}

/// Whether a certificate should have been renewed by now: a sixth of its life is left, or less.
pub fn is_overdue(certificate: &Certificate, now: SystemTime) -> bool {
    let life = certificate.not_after.duration_since(certificate.not_before).unwrap_or_default();
    now.checked_add(life / 6).is_none_or(|soon| soon > certificate.not_after)
}

/// Renews what is kept at one place.
pub struct Renewer {
    source: Source,
    issuer: Arc<dyn Issuer>,
    pace: Pace,
}

impl std::fmt::Debug for Renewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Renewer").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Renewer {
    /// Will renew what is at `source`.
    pub fn new(source: Source, issuer: Arc<dyn Issuer>, pace: Pace) -> Self {
        Self { source, issuer, pace }
    }

    /// Sees that there is a valid certificate to start with: keeps what is there if it is valid, and
    /// asks for one otherwise.
    pub async fn ensure(&self, now: SystemTime) -> Result<Option<Certificate>, RenewError> {
        if self.load(Some(now)).await.is_ok() {
            return Ok(None);
        }
        let present = self.load(None).await.ok();
        self.renew(present.as_ref(), now).await.map(Some)
    }

    /// Renews for ever; ends when dropped.
    pub async fn run(self, clock: impl Fn() -> SystemTime + Send, report: Report) {
        let (mut drawn, mut roots_at) = (None, clock());
        loop {
            let now = clock();
            let present = match self.load(None).await {
                Ok(present) => present,
                Err(fault) => {
                    report(Event::RenewalFailed(fault));
                    sleep(self.pace.retry).await;
                    continue;
                }
            };
            let serial = present.certificate().serial.clone();
            let due = match &drawn {
                Some((of, due)) if *of == serial => *due,
                _ => due(present.certificate(), now, chance()),
            };
            drawn = Some((serial, due));
            if now >= due {
                match self.renew(Some(&present), now).await {
                    Ok(certificate) => report(Event::Renewed(certificate)),
                    Err(fault) => {
                        report(Event::RenewalFailed(fault));
                        sleep(self.pace.retry).await;
                    }
                }
                continue;
            }
            if now >= roots_at {
                if let Err(fault) = self.follow_roots(&present, now).await {
                    report(Event::RenewalFailed(fault));
                }
                roots_at = now.checked_add(self.pace.roots).unwrap_or(now);
            }
            let next = due.min(roots_at).duration_since(clock()).unwrap_or_default();
            // The files may change meanwhile, and the clock may be set.
            sleep(next.clamp(Duration::from_millis(10), self.pace.roots)).await;
        }
    }

    /// Gets a new certificate for a new key, and keeps both if they are what they should be.
    pub async fn renew(
        &self,
        present: Option<&Bundle>,
        now: SystemTime,
    ) -> Result<Certificate, RenewError> {
        let key = NewKey::generate()?;
        let answer = self.issuer.issue(present, key.request_pem()).await?;
        let key = answer.key.map_or(key, NewKey::foreign);
        let source = self.source.clone();
        let mapping = spawn_blocking(move || source.mapping()).await;
        let mapping = mapping.map_err(RenewError::BrokenOff)??;
        let terms = Terms { now: Some(now), mapping };
        let issued = key.with_terms(answer.certificate, answer.roots, terms)?;
        if let Some(present) = present
            && *present.identity() != issued.certificate.identity
        {
            return Err(RenewError::OtherIdentity {
                ours: present.identity().to_string(),
                found: issued.certificate.identity.to_string(),
            });
        }
        let certificate = issued.certificate.clone();
        let source = self.source.clone();
        let saved = spawn_blocking(move || source.save(&issued)).await;
        saved.map_err(RenewError::BrokenOff)??;
        Ok(certificate)
    }

    /// Trusts what the issuer says is to be trusted now.
    async fn follow_roots(&self, present: &Bundle, now: SystemTime) -> Result<(), RenewError> {
        let Some(roots) = self.issuer.roots(present).await? else { return Ok(()) };
        if roots == present.roots_pem() {
            return Ok(());
        }
        let source = self.source.clone();
        let saved = spawn_blocking(move || source.save_roots(&roots, now)).await;
        Ok(saved.map_err(RenewError::BrokenOff)??)
    }

    async fn load(&self, now: Option<SystemTime>) -> Result<Bundle, RenewError> {
        let source = self.source.clone();
        let loaded = spawn_blocking(move || match now {
            Some(now) => source.load(now),
            None => source.load_ended(),
        });
        Ok(loaded.await.map_err(RenewError::BrokenOff)??)
    }
}

/// Without randomness everybody renews in the middle.
fn chance() -> u8 {
    let mut byte = [128];
    getrandom::fill(&mut byte).ok();
    let [byte] = byte;
    byte
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::authority::Stage;
    use crate::{Authority, ClusterName, Grant, Name, Role, TrustDomain, Validity};

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_hours(500_000)
    }

    struct Office(Authority);

    #[async_trait]
    impl Issuer for Office {
        async fn issue(
            &self,
            present: Option<&Bundle>,
            request_pem: &str,
        ) -> Result<Answer, IssueError> {
            let refused = |why: &dyn std::fmt::Display| IssueError::Refused(why.to_string());
            let Some(present) = present else { return Err(refused(&"nobody")) };
            let proof = present.prove(request_pem).unwrap_or_default();
            let shown = present.certificate_pem();
            let (_, grant) = self
                .0
                .renewable(
                    shown.as_bytes(),
                    request_pem.as_bytes(),
                    &proof,
                    (now(), Duration::from_hours(1)),
                )
                .map_err(|why| refused(&why))?;
            let validity = Validity { now: now(), lifetime: Duration::from_hours(24) };
            let signed = self.0.sign(request_pem.as_bytes(), &grant, validity);
            let signed = signed.map_err(|why| refused(&why))?;
            let (certificate, roots) = (signed.certificate_pem, signed.roots_pem);
            Ok(Answer { certificate, roots, key: None })
        }

        async fn roots(&self, _present: &Bundle) -> Result<Option<String>, IssueError> {
            Ok(Some(self.0.roots_pem()))
        }
    }

    fn office(folder: &std::path::Path) -> Authority {
        let (domain, cluster) = (TrustDomain::new("example.org"), ClusterName::new("east"));
        let begun = now() - Duration::from_hours(100);
        Authority::open_or_create(folder, &domain.unwrap(), &cluster.unwrap(), begun).unwrap()
    }

    fn issue(authority: &Authority, at: SystemTime) -> crate::Issued {
        let grant = Grant::new(Role::Scheduler, Name::fixed("s1")).on_loopback();
        let validity = Validity { now: at, lifetime: Duration::from_hours(24) };
        authority.issue(&grant, validity).unwrap()
    }

    #[test]
    fn renewal_is_due_between_half_and_four_fifths() {
        let folder = tempfile::tempdir().unwrap();
        let certificate = issue(&office(folder.path()), now()).certificate;
        let life = certificate.not_after.duration_since(now()).unwrap();
        let part = |seen, chance| {
            let at = due(&certificate, seen, chance).duration_since(now()).unwrap();
            at.as_secs_f64() / life.as_secs_f64()
        };
        for seen in [now(), now() + Duration::from_hours(9)] {
            let (first, last) = (part(seen, 0), part(seen, 255));
            assert!((first - 0.5).abs() < 0.01 && (last - 0.8).abs() < 0.01, "{first} {last}");
        }
        assert!(!is_overdue(&certificate, due(&certificate, now(), 255)));
        assert!(is_overdue(&certificate, certificate.not_after - life / 7));
    }

    #[tokio::test]
    async fn the_next_certificate_says_the_same_for_another_key() {
        let folder = tempfile::tempdir().unwrap();
        let authority = office(&folder.path().join("ca"));
        let source = Source::Bundle(folder.path().join("s1.pem"));
        let first = issue(&authority, now());
        source.save(&first).unwrap();
        let renewer = Renewer::new(source.clone(), Arc::new(Office(authority)), Pace::default());
        assert!(renewer.ensure(now()).await.unwrap().is_none(), "it is valid");
        let present = source.load(now()).unwrap();
        let next = renewer.renew(Some(&present), now()).await.unwrap();
        assert_eq!(next.identity, first.certificate.identity);
        assert_ne!(next.serial, first.certificate.serial);
        let kept = source.load(now()).unwrap();
        assert_eq!(kept.certificate(), &next);
        let text = kept.certificate_pem();
        assert!(!text.contains(&first.certificate_pem));
    }

    #[tokio::test]
    async fn what_has_ended_is_renewed_for_a_while_and_only_by_its_holder() {
        let folder = tempfile::tempdir().unwrap();
        let authority = office(&folder.path().join("ca"));
        let source = Source::Bundle(folder.path().join("s1.pem"));
        let hours = Duration::from_hours;
        source.save(&issue(&authority, now() - hours(24) - hours(1) / 2)).unwrap();
        assert!(source.load(now()).is_err(), "it has ended");
        let thief = NewKey::generate().unwrap();
        let shown = source.load_ended().unwrap().certificate_pem();
        let request = thief.request_pem().as_bytes();
        let other = issue(&authority, now());
        let other = Bundle::from_issued(&other, now()).unwrap();
        let proof = other.prove(thief.request_pem()).unwrap();
        let refused = authority.renewable(shown.as_bytes(), request, &proof, (now(), hours(1)));
        assert_eq!(refused.unwrap_err(), crate::authority::RenewalRefused::Proof);

        let renewer = Renewer::new(source.clone(), Arc::new(Office(authority)), Pace::default());
        renewer.ensure(now()).await.unwrap().unwrap();
        assert!(source.load(now()).is_ok());

        let authority = office(&folder.path().join("ca"));
        source.save(&issue(&authority, now() - hours(26))).unwrap();
        let refused = renewer.ensure(now()).await.unwrap_err();
        assert!(refused.to_string().contains("too long ago"), "{refused}");
    }

    #[tokio::test]
    async fn one_root_follows_another_and_the_files_follow_them() {
        let folder = tempfile::tempdir().unwrap();
        let ca = folder.path().join("ca");
        let open = || Authority::open(&ca, now()).unwrap();
        let first = office(&ca);
        let source = Source::Bundle(folder.path().join("s1.pem"));
        source.save(&issue(&first, now())).unwrap();
        let follow = || async {
            let renewer = Renewer::new(source.clone(), Arc::new(Office(open())), Pace::default());
            let present = source.load(now()).unwrap();
            renewer.follow_roots(&present, now()).await.map(|()| source.load(now()).unwrap())
        };
        assert_eq!(first.stage(), Stage::Settled);
        first.prepare(now()).unwrap();
        let prepared = open();
        assert_eq!(prepared.stage(), Stage::Prepared);
        assert_eq!(prepared.root_pem(), first.root_pem(), "the first still issues");
        assert_eq!(follow().await.unwrap().roots().len(), 2);
        prepared.switch(now()).unwrap();
        let switched = open();
        assert_eq!(switched.stage(), Stage::Switched);
        assert_ne!(switched.root_pem(), first.root_pem());
        assert!(!ca.join("next.pem").exists());
        // Certificates of the first are still good, and still renewed.
        let renewer = Renewer::new(source.clone(), Arc::new(Office(open())), Pace::default());
        let present = follow().await.unwrap();
        assert_eq!(present.roots().len(), 2);
        switched.finish(now()).unwrap();
        assert_eq!(open().stage(), Stage::Settled);
        assert!(
            follow().await.is_err(),
            "roots that do not cover our own certificate are not taken"
        );
        renewer.renew(Some(&present), now()).await.unwrap();
        assert_eq!(follow().await.unwrap().roots().len(), 1);
    }
}
