//! Certificates for everybody in the benchmark.

use std::path::Path;
use std::time::{Duration, SystemTime};

use persys_identity::{
    Authority, Bundle, ClusterName, Credentials, Grant, Name, Role, Source, TrustDomain, Validity,
};

use super::Fault;

pub(crate) const CLUSTER: &str = "fleet";
/// Longer than any run.
const LIFETIME: Duration = Duration::from_hours(12);

/// The authority of the fleet.
pub(crate) struct Names(Authority);

impl Names {
    /// Makes the authority, and the scheduler's certificate in its file.
    pub(crate) fn create(folder: &Path) -> Result<Self, Fault> {
        let ca = folder.join("ca");
        std::fs::create_dir(&ca)?;
        let begun = SystemTime::now() - LIFETIME;
        let (domain, cluster) = (TrustDomain::new("example.org")?, ClusterName::new(CLUSTER)?);
        let names = Self(Authority::open_or_create(&ca, &domain, &cluster, begun)?);
        scheduler_source(folder).save(&names.issue(Role::Scheduler, "s1")?)?;
        Ok(names)
    }

    pub(crate) fn credentials(&self, role: Role, name: &str) -> Result<Credentials, Fault> {
        let bundle = Bundle::from_issued(&self.issue(role, name)?, SystemTime::now())?;
        Ok(Credentials::new(bundle))
    }

    /// Keeps a certificate in a file.
    pub(crate) fn save(&self, role: Role, name: &str, source: &Source) -> Result<(), Fault> {
        source.save(&self.issue(role, name)?)?;
        Ok(())
    }

    fn issue(&self, role: Role, name: &str) -> Result<persys_identity::Issued, Fault> {
        let grant = Grant::new(role, Name::new(name)?);
        let validity = Validity { now: SystemTime::now(), lifetime: LIFETIME };
        Ok(self.0.issue(&grant, validity)?)
    }
}

/// Where the scheduler's certificate is.
pub(crate) fn scheduler_source(folder: &Path) -> Source {
    Source::Bundle(folder.join("scheduler.pem"))
}
