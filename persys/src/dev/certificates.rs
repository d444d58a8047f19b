//! The authority of a development cluster, and a certificate for everybody in it.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use persys_ca::office::record;
use persys_identity::authority::Validity;
use persys_identity::{Authority, Grant, Role, Source, TrustDomain};

use super::folder::Folder;
use super::{Error, NODE, name, system};
use crate::enrol::DOMAIN;

/// How long they last; they are made anew with every start.
const LIFETIME: Duration = Duration::from_hours(30 * 24);

/// Where the certificates of each part are.
pub(super) struct Certificates {
    pub(super) scheduler: Source,
    pub(super) agent: Source,
    pub(super) gateway: Source,
    pub(super) operator: PathBuf,
}

/// Opens or makes the authority and certifies every part anew.
pub(super) fn certify(folder: &Folder) -> Result<Certificates, Error> {
    let now = SystemTime::now();
    let domain = TrustDomain::new(DOMAIN)?;
    let authority =
        Authority::open_or_create(&folder.path.join("ca"), &domain, &folder.cluster, now)?;
    let kept = folder.path.join("certificates");
    std::fs::create_dir_all(&kept).map_err(system(kept.display().to_string()))?;
    let validity = Validity { now, lifetime: LIFETIME };
    let issue = |role, who: &str, loopback: bool| -> Result<PathBuf, Error> {
        let grant = Grant::new(role, name(who)?);
        let grant = if loopback { grant.on_loopback() } else { grant };
        let path = kept.join(format!("{who}-{role}.pem"));
        let issued = authority.issue(&grant, validity)?;
        record(&authority, &issued.certificate, "issue", now)?;
        Source::Bundle(path.clone()).save(&issued)?;
        Ok(path)
    };
    Ok(Certificates {
        scheduler: Source::Bundle(issue(Role::Scheduler, "scheduler", true)?),
        agent: Source::Bundle(issue(Role::Agent, NODE, false)?),
        gateway: Source::Bundle(issue(Role::Gateway, "gateway", true)?),
        operator: issue(Role::Operator, "admin", false)?,
    })
}
