//! The gateway in a process of its own, and clients of it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use persys_gateway::app::{self, Security};
use persys_gateway::limits::Limits;
use persys_identity::{Role, Source};
use reqwest::{Certificate, Client, Identity};

use crate::fleet::Fault;
use crate::fleet::names::{CLUSTER, Names};
use crate::own::{self, Own};

const NAME: &str = "gateway";

fn certificate(folder: &Path) -> Source {
    Source::Bundle(folder.join("gateway.pem"))
}

/// Serves until standard input ends; says where on standard output.
pub(super) async fn serve(folder: &Path, clusters: &[(String, SocketAddr)]) -> Result<(), Fault> {
    let clusters: Vec<_> = clusters.iter().map(|(id, at)| (id.as_str(), *at)).collect();
    let mut config = persys_e2e::gateway::config(&clusters);
    config.security = Security::Mtls(certificate(folder));
    config.request_timeout = Duration::from_secs(10);
    config.health_interval = Duration::from_secs(5);
    // How often one caller may ask is a setting, and not what is measured.
    config.limits = Limits { requests_per_second: 10_000_000, ..Limits::default() };
    let running = app::start(config).await?;
    let inner = running.inner.ok_or("there is no door for certificates")?;
    own::tell(&inner)?;
    own::until_closed().await?;
    running.stop().await;
    Ok(())
}

/// The gateway's process, seen from outside. Dropping it ends it.
pub(super) struct Gateway {
    at: SocketAddr,
    own: Own,
}

impl Gateway {
    pub(super) async fn start(
        folder: &Path,
        names: &Names,
        east: SocketAddr,
        west: SocketAddr,
    ) -> Result<Self, Fault> {
        names.save(Role::Gateway, NAME, &certificate(folder))?;
        let mut again = own::again()?;
        again.args([NAME.as_ref(), folder.as_os_str()]).args([east.to_string(), west.to_string()]);
        let mut own = Own::start("the gateway", &mut again)?;
        let at = own.told().await?.parse()?;
        Ok(Self { at, own })
    }

    pub(super) fn pid(&self) -> u32 {
        self.own.pid()
    }
}

/// Where everything is.
pub(super) struct Site<'a> {
    pub(super) folder: &'a Path,
    pub(super) names: &'a Names,
    pub(super) gateway: &'a Gateway,
}

impl Site<'_> {
    /// A client with the certificate of this user; each has connections of its own.
    pub(super) fn client(&self, user: &str) -> Result<Client, Fault> {
        let path = self.folder.join(format!("{user}.pem"));
        if !path.exists() {
            self.names.save(Role::User, user, &Source::Bundle(path.clone()))?;
        }
        let pem = std::fs::read(path)?;
        let client = Client::builder()
            .no_proxy()
            .http1_only()
            .tls_certs_only(Certificate::from_pem_bundle(&pem)?)
            .identity(Identity::from_pem(&pem)?)
            .resolve(&host(), self.gateway.at)
            .build()?;
        Ok(client)
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("https://{}:{}{path}", host(), self.gateway.at.port())
    }
}

fn host() -> String {
    format!("{NAME}.{CLUSTER}")
}
