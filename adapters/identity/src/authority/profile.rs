//! What each role's certificate may say and be used for.
//!
//! | role | DNS name | further hosts | serves | calls |
//! |---|---|---|---|---|
//! | scheduler | `scheduler.<cluster>` | as granted | yes | yes |
//! | gateway | `gateway.<cluster>` | as granted | yes | yes |
//! | agent | `<node>.agents.<cluster>` | none | yes | yes |
//! | operator, user, metrics | none | none | no | yes |
//!
//! A further host never lies in the cluster's own domain: those names are what clients tell roles
//! apart by.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use rcgen::{ExtendedKeyUsagePurpose, SanType};
use rustls_pki_types::DnsName;

use super::AuthorityError;
use crate::names::{ClusterName, Identity, Name, Role};

/// What the authority has decided to certify.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// As what.
    pub role: Role,
    /// Who.
    pub name: Name,
    /// Under which further hosts it is reached.
    pub hosts: Hosts,
}

impl Grant {
    /// A grant without further hosts.
    pub fn new(role: Role, name: Name) -> Self {
        Self { role, name, hosts: Hosts::default() }
    }

    /// The same, also reached on this machine as `localhost`.
    #[must_use]
    pub fn on_loopback(mut self) -> Self {
        self.hosts.names.push("localhost".to_owned());
        let both = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        self.hosts.addresses.extend(both);
        self
    }
}

/// Hosts besides the name of the role, for tools that check the address they dial.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts {
    /// DNS names.
    pub names: Vec<String>,
    /// Addresses.
    pub addresses: Vec<IpAddr>,
}

/// How long a certificate lasts when nobody says: those who renew by themselves get a day, people get
/// a month.
pub fn usual_lifetime(role: Role) -> Duration {
    match role {
        Role::Scheduler | Role::Agent | Role::Gateway => Duration::from_hours(24),
        Role::Operator | Role::User | Role::Metrics => Duration::from_hours(30 * 24),
    }
}

/// All names of a certificate.
pub(super) fn names(identity: &Identity, hosts: &Hosts) -> Result<Vec<SanType>, AuthorityError> {
    let role = identity.role;
    if !may_have_hosts(role)
        && let Some(host) = first(hosts)
    {
        return Err(AuthorityError::HostRefused { role, host });
    }
    let uri = identity.to_string().try_into().map_err(AuthorityError::Crypto)?;
    let mut names = vec![SanType::URI(uri)];
    if let Some(host) = identity.host_name() {
        names.push(dns(&host)?);
    }
    for host in &hosts.names {
        if within(host, &identity.cluster) {
            return Err(AuthorityError::HostReserved { host: host.clone() });
        }
        names.push(dns(host)?);
    }
    names.extend(hosts.addresses.iter().copied().map(SanType::IpAddress));
    Ok(names)
}

/// What a certificate may be used for.
pub(super) fn purposes(role: Role) -> Vec<ExtendedKeyUsagePurpose> {
    match role {
        Role::Scheduler | Role::Agent | Role::Gateway => {
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth]
        }
        Role::Operator | Role::User | Role::Metrics => vec![ExtendedKeyUsagePurpose::ClientAuth],
    }
}

fn may_have_hosts(role: Role) -> bool {
    match role {
        Role::Scheduler | Role::Gateway => true,
        Role::Agent | Role::Operator | Role::User | Role::Metrics => false,
    }
}

fn first(hosts: &Hosts) -> Option<String> {
    let name = hosts.names.first().cloned();
    name.or_else(|| hosts.addresses.first().map(ToString::to_string))
}

/// Whether a host lies in the cluster's own domain, however it is spelt.
fn within(host: &str, cluster: &ClusterName) -> bool {
    let host = host.to_ascii_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host);
    host.rsplit('.').next() == Some(cluster.as_str())
}

fn dns(host: &str) -> Result<SanType, AuthorityError> {
    let wrong = || AuthorityError::HostName { host: host.to_owned() };
    if host.ends_with('.') || DnsName::try_from(host).is_err() {
        return Err(wrong());
    }
    host.try_into().map(SanType::DnsName).ok().ok_or_else(wrong)
}
