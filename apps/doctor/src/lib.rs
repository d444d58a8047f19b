//! Looks at a host as its agent will, and says how to mend what it finds.
//!
//! Every check is two functions: one looks, the other judges what was seen. The second has no effects,
//! so that hosts nobody has at hand can be judged in a test. Nothing is changed on the host, and what
//! hangs is given up on: a host that is ill is the one that gets examined.

pub mod certificates;
pub mod clock;
pub mod disk;
pub mod finding;
pub mod kernel;
pub mod ports;
pub mod runtimes;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::SystemTime;

use persys_identity::Source;
use persys_runtime::compose::Compose;
use persys_runtime::docker::Docker;
use persys_runtime::vm::Machines;

pub use finding::{Finding, Verdict};

/// What is to be looked at: the places an agent on this host was told of.
#[derive(Debug)]
pub struct Host {
    /// What runs containers; none: they are not wanted.
    pub docker: Option<Docker>,
    /// What brings stacks up; none: stacks are not wanted.
    pub compose: Option<Compose>,
    /// What runs virtual machines; none: they are not wanted.
    pub machines: Option<Machines>,
    /// Where components listen, and under which name.
    pub ports: Vec<(&'static str, SocketAddr)>,
    /// Where the agent's certificate is; none: it runs without.
    pub certificates: Option<Source>,
    /// Folders that fill up, and what they are for.
    pub folders: Vec<(&'static str, PathBuf)>,
    /// The date.
    pub now: SystemTime,
}

/// Everything that was found, in the order in which one would mend it.
pub async fn examine(host: &Host) -> Vec<Finding> {
    let (docker, compose, machines) = tokio::join!(
        runtimes::docker(host.docker.as_ref()),
        runtimes::compose(host.compose.as_ref()),
        runtimes::machines(host.machines.as_ref()),
    );
    let mut found = vec![kernel::cgroups(), kernel::forwarding(), docker, compose, machines];
    found.push(runtimes::kvm(host.machines.is_some()));
    found.extend(host.folders.iter().map(|(purpose, folder)| disk::room(purpose, folder)));
    found.push(clock::synchronised());
    found.extend(host.certificates.as_ref().map(|from| certificates::valid(from, host.now)));
    found.extend(host.ports.iter().map(|(who, at)| ports::free(who, *at)));
    found
}
