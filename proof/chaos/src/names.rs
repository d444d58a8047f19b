//! Certificates of one cluster, and connections with them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use persys_identity::{
    Authority, Bundle, ClusterName, Connector, Credentials, Expected, Grant, Issued, Name, Role,
    Source, TrustDomain, Validity,
};
use tonic::transport::{Channel, Endpoint};

use crate::Fault;

/// An authority and a folder for what it issues.
#[derive(Debug)]
pub struct Names {
    authority: Authority,
    folder: PathBuf,
}

impl Names {
    /// Makes an authority for a cluster of this name.
    pub fn create(folder: &Path, cluster: &str) -> Result<Self, Fault> {
        let ca = folder.join("ca");
        std::fs::create_dir_all(&ca)?;
        let (domain, cluster) = (TrustDomain::new("example.org")?, ClusterName::new(cluster)?);
        let authority = Authority::open_or_create(&ca, &domain, &cluster, SystemTime::now())?;
        Ok(Self { authority, folder: folder.to_owned() })
    }

    fn issue(&self, role: Role, name: &str) -> Result<Issued, Fault> {
        let grant = Grant::new(role, Name::new(name)?);
        let grant = if role == Role::Scheduler { grant.on_loopback() } else { grant };
        let validity = Validity { now: SystemTime::now(), lifetime: Duration::from_hours(24) };
        Ok(self.authority.issue(&grant, validity)?)
    }

    /// The file with the certificate of a scheduler.
    pub fn scheduler(&self, name: &str) -> Result<PathBuf, Fault> {
        self.file(Role::Scheduler, name)
    }

    /// The file with the certificate of an agent.
    pub fn agent(&self, name: &str) -> Result<PathBuf, Fault> {
        self.file(Role::Agent, name)
    }

    fn file(&self, role: Role, name: &str) -> Result<PathBuf, Fault> {
        let path = self.folder.join(format!("{name}.pem"));
        Source::Bundle(path.clone()).save(&self.issue(role, name)?)?;
        Ok(path)
    }

    /// An admin's way to a scheduler, connected when it is used.
    pub fn to_scheduler(&self, at: SocketAddr, within: Duration) -> Result<Channel, Fault> {
        self.channel(at, Expected::Scheduler, within)
    }

    /// An admin's way to the agent of a node, connected when it is used.
    pub fn to_agent(&self, node: &str, at: SocketAddr, within: Duration) -> Result<Channel, Fault> {
        self.channel(at, Expected::Agent(Name::new(node)?), within)
    }

    fn channel(&self, at: SocketAddr, whom: Expected, within: Duration) -> Result<Channel, Fault> {
        let issued = self.issue(Role::Operator, "chaos")?;
        let bundle = Bundle::from_issued(&issued, SystemTime::now())?;
        let connector = Connector::tls(&Credentials::new(bundle), whom)?;
        let endpoint = Endpoint::from_shared(format!("http://{at}"))?;
        let endpoint = endpoint.timeout(within).connect_timeout(within);
        Ok(endpoint.connect_with_connector_lazy(connector))
    }
}
