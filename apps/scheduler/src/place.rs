//! Where a scheduler keeps its records: a file of its own, or an etcd that it shares.

use std::path::Path;
use std::sync::Arc;

use persys_dns::RecordSink;
use persys_store::embedded::OpenError;
use persys_store::etcd::Health;
use persys_store::{Embedded, Etcd, EtcdSettings, Settings, Store};
use tokio::sync::watch;

use crate::skydns::EtcdSink;

/// Where the records are.
#[derive(Debug, Clone, Default)]
pub enum Place {
    /// In a file in the folder of the state; then there is no other scheduler.
    #[default]
    File,
    /// In etcd. It need not answer yet: it is waited for.
    Etcd(Box<EtcdSettings>),
}

/// How the etcd is, if there is one.
pub(crate) type Seen = Option<watch::Receiver<Health>>;

/// A store, and what comes with an etcd.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) health: Seen,
    /// Where names can be kept for other servers.
    pub(crate) names: Option<Arc<dyn RecordSink>>,
}

impl Place {
    pub(crate) fn open(&self, state_dir: &Path) -> Result<Opened, OpenError> {
        match self {
            Self::File => {
                let path = state_dir.join("store.redb");
                let store = Arc::new(Embedded::open(&path, Settings::default())?);
                Ok(Opened { store, health: None, names: None })
            }
            Self::Etcd(settings) => {
                let etcd = Etcd::open(EtcdSettings::clone(settings))?;
                let health = Some(etcd.health());
                let names: Arc<dyn RecordSink> = Arc::new(EtcdSink(etcd.clone()));
                Ok(Opened { store: Arc::new(etcd), health, names: Some(names) })
            }
        }
    }
}
