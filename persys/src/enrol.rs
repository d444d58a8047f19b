//! Certificates of a component: where they come from, how they are renewed, and, beside a scheduler
//! with an authority, how others get theirs.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use persys_ca::{Enrolment, Local, Office, Register, RegisterError};
use persys_cluster::effects::{RefusalCode, Reply};
use persys_cluster::input::Ask;
use persys_identity::names::IdentityError;
use persys_identity::renew::{Pace, RenewError};
use persys_identity::vault::{self, VaultIssuer};
use persys_identity::{
    Bundle, ClusterName, Denied, Event, Grant, Identity, Issuer, Name, Renewer, Role, Source,
    TrustDomain, logged,
};
use persys_model::entry::{Entry, Revocation};
use persys_model::join::{Admission, Claim};
use persys_model::time::WallMillis;
use persys_scheduler::app as scheduler;
use persys_scheduler::handle::Handle;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::settings::renewal::Renewal;
use crate::settings::vault::Vault;

/// The domain of names where nobody says another.
pub(crate) const DOMAIN: &str = "persys.local";
/// How often an authority elsewhere is asked whom to believe no longer.
const LISTEN: Duration = Duration::from_secs(2);
/// Name of the file that says that a folder holds an authority.
const AUTHORITY: &str = "authority.pem";

/// Why there is no certificate, or nobody can join.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A name that is none.
    #[error("the certificate cannot be asked for")]
    Name(#[from] IdentityError),
    /// There is none, and none comes.
    #[error("there is no certificate, and none can be got")]
    Renew(#[from] RenewError),
    /// Vault cannot be used as told.
    #[error("Vault cannot be used")]
    Vault(#[from] vault::BadSettings),
    /// Nobody can join.
    #[error("nobody can join")]
    Serve(#[from] persys_ca::serve::Error),
}

/// Work that ends with whoever holds it.
#[derive(Debug)]
pub(crate) struct Aside(JoinHandle<()>);

impl Drop for Aside {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whether there is an authority in a folder.
pub(crate) fn has_authority(folder: &Path) -> bool {
    folder.join(AUTHORITY).exists()
}

/// Who gives certificates, and how often they are asked.
type Giver = (Arc<dyn Issuer>, Pace);

/// Who gives the certificates of a component, and how it is asked; none: somebody else looks after
/// the files.
pub(crate) fn issuer(
    renewal: &Renewal,
    role: Role,
    name: &str,
    cluster: &str,
) -> Result<Option<Giver>, Error> {
    let pace = Pace::default();
    if let Some(vault) = &renewal.vault {
        let issuer = VaultIssuer::new(vault_settings(vault, role, name, cluster)?)?;
        return Ok(Some((Arc::new(issuer), Pace { retry: vault.retry, ..pace })));
    }
    if role == Role::Scheduler && has_authority(&renewal.authority) {
        let local = Local {
            folder: renewal.authority.clone(),
            grant: Grant::new(role, Name::new(name)?).on_loopback(),
            lifetime: renewal.lifetime,
        };
        return Ok(Some((Arc::new(local), pace)));
    }
    if renewal.renew_at.is_empty() {
        return Ok(None);
    }
    Ok(Some((Arc::new(Enrolment::at(renewal.renew_at.clone())), pace)))
}

fn vault_settings(
    vault: &Vault,
    role: Role,
    name: &str,
    cluster: &str,
) -> Result<vault::Settings, Error> {
    let identity = Identity {
        trust_domain: TrustDomain::new(vault.domain.as_deref().unwrap_or(DOMAIN))?,
        cluster: ClusterName::new(cluster)?,
        role,
        name: Name::new(name)?,
    };
    Ok(vault::Settings {
        address: vault.address.clone(),
        auth: vault.auth.clone(),
        mount: vault.mount.clone(),
        role: vault.role.clone(),
        ttl: vault.ttl,
        service: vault.service.clone(),
        domain: vault.domain.clone(),
        external_ip: vault.external_ip,
        identity,
    })
}

/// Sees that there is a certificate, and that there always will be.
pub(crate) async fn keep(
    source: &Source,
    issuer: Arc<dyn Issuer>,
    pace: Pace,
) -> Result<Aside, Error> {
    let renewer = Renewer::new(source.clone(), issuer, pace);
    if let Some(certificate) = renewer.ensure(SystemTime::now()).await? {
        logged()(Event::Renewed(certificate));
    }
    Ok(Aside(tokio::spawn(renewer.run(SystemTime::now, logged()))))
}

/// Believes nobody whom an authority elsewhere believes no longer. What it says becomes records of the
/// cluster, which everybody follows already; who is reinstated there is reinstated here by hand.
pub(crate) fn follow(running: &scheduler::Running, renewal: &Renewal) -> Option<Aside> {
    let elsewhere = renewal.vault.is_none() && !has_authority(&renewal.authority);
    let credentials = running.credentials.clone().filter(|_| elsewhere)?;
    if renewal.renew_at.is_empty() {
        return None;
    }
    let (enrolment, handle) = (Enrolment::at(renewal.renew_at.clone()), running.handle.clone());
    Some(Aside(tokio::spawn(async move {
        loop {
            sleep(LISTEN).await;
            match enrolment.trust(Bundle::clone(&credentials.current())).await {
                Ok((_, denied)) => note(&handle, &denied).await,
                Err(fault) => tracing::debug!(%fault, "the authority does not say whom to believe"),
            }
        }
    })))
}

/// Writes down who is new on a list, where this process leads.
async fn note(handle: &Handle, denied: &Denied) {
    if handle.standing().borrow().mode.is_none() {
        return;
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let since = WallMillis(u64::try_from(now.as_millis()).unwrap_or_default());
    for subject in denied.lines() {
        let Ok(name) = Revocation::name_of(&subject) else { continue };
        let reason = Arc::from("the authority believes it no longer");
        let entry = Arc::new(Entry::Revocation(Revocation { name, since, reason }));
        if handle.entries().get(&entry.key()).is_some() {
            continue;
        }
        match handle.ask(Ask::Keep(entry)).await {
            Ok(Reply::Done { .. }) => tracing::info!(subject, "is believed no longer"),
            other => tracing::warn!(subject, ?other, "is still believed; it is tried again"),
        }
    }
}

/// Lets others join, beside a scheduler that runs.
pub(crate) async fn open(
    running: &scheduler::Running,
    authority: &Path,
    listen: SocketAddr,
    lifetime: Option<Duration>,
) -> Result<Option<persys_ca::Running>, Error> {
    let Some(credentials) = running.credentials.clone().filter(|_| has_authority(authority)) else {
        return Ok(None);
    };
    let register = Arc::new(OfScheduler(running.handle.clone()));
    let office = Arc::new(Office::new(authority.to_path_buf(), register, lifetime));
    let schedulers = vec![running.reached_at.to_string()];
    let config =
        persys_ca::Config { listen, credentials, office, schedulers, metrics: Arc::default() };
    let enrolment = persys_ca::start(config).await?;
    let ip = match enrolment.address.ip() {
        ip if ip.is_unspecified() => running.reached_at.ip(),
        ip => ip,
    };
    running.enrolment.is_at(SocketAddr::new(ip, enrolment.address.port()).to_string());
    Ok(Some(enrolment))
}

/// Tokens and revocations among the records of the cluster.
struct OfScheduler(Handle);

#[async_trait]
impl Register for OfScheduler {
    async fn redeem(&self, claim: Claim) -> Result<Admission, RegisterError> {
        let unavailable = |why: &dyn std::fmt::Display| RegisterError::Unavailable(why.to_string());
        let name = Arc::clone(&claim.name);
        match self.0.ask(Ask::Redeem(claim)).await.map_err(|why| unavailable(&why))? {
            Reply::Done { note } => Ok(Admission { role: note, name }),
            Reply::Unknown { why } => Err(unavailable(&why)),
            Reply::Refused { code: RefusalCode::Unavailable | RefusalCode::Exhausted, why } => {
                Err(unavailable(&why))
            }
            Reply::Refused { why, .. } => Err(RegisterError::Refused(why.to_string())),
        }
    }

    async fn denied(&self) -> Result<Denied, RegisterError> {
        let entries = self.0.entries();
        let subjects = entries.revocations().map(Revocation::subject);
        let denied = Denied::of_lines(subjects);
        denied.map_err(|fault| RegisterError::Unavailable(fault.to_string()))
    }
}
