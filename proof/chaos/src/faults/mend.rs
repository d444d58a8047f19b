//! How faults are undone.

use rustix::process::Signal;

use crate::Fault;
use crate::cluster::Cluster;
use crate::proxy::Way;

/// One thing to undo.
#[derive(Debug)]
pub enum Mend {
    /// A process is started again.
    Start(String),
    /// A process goes on.
    Resume(String),
    /// Links pass everything on.
    Open(Vec<String>),
    /// A member of etcd is started again.
    StartMember(usize),
    /// A member of etcd goes on.
    ResumeMember(usize),
    /// A daemon of Docker is started again.
    StartDocker(usize),
    /// A daemon of Docker goes on.
    ResumeDocker(usize),
    /// Connections end.
    Leave(Vec<tokio::net::TcpStream>),
}

impl Mend {
    /// Undoes it.
    pub fn play(self, cluster: &mut Cluster) -> Result<(), Fault> {
        match self {
            Self::Start(name) => match cluster.process(&name) {
                Some(process) => process.start(),
                None => Ok(()),
            },
            Self::Resume(name) => match cluster.process(&name) {
                Some(process) => process.resume(),
                None => Ok(()),
            },
            Self::Open(links) => {
                cluster.set_links(&links, Way::Open);
                Ok(())
            }
            Self::StartMember(nth) => {
                if let Some(etcd) =
                    cluster.etcd.as_mut().filter(|etcd| etcd.host.pid(nth).is_none())
                {
                    etcd.host.spawn(nth);
                }
                Ok(())
            }
            Self::ResumeMember(nth) => {
                if let Some(etcd) = &mut cluster.etcd {
                    etcd.paused.retain(|paused| *paused != nth);
                    if etcd.host.pid(nth).is_some() {
                        etcd.host.resume(nth);
                    }
                }
                Ok(())
            }
            Self::StartDocker(nth) => {
                if let Some(docker) = cluster.dockers.get_mut(nth).filter(|docker| !docker.runs) {
                    tokio::task::block_in_place(|| docker.daemon.start_again());
                    docker.runs = true;
                }
                Ok(())
            }
            Self::ResumeDocker(nth) => {
                if let Some(docker) = cluster.dockers.get_mut(nth) {
                    docker.paused = false;
                    docker.daemon.signal(Signal::CONT);
                }
                Ok(())
            }
            Self::Leave(connections) => {
                drop(connections);
                Ok(())
            }
        }
    }
}
