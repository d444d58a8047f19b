//! What every request is answered with.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::clusters::Clusters;
use crate::events::Hubs;
use crate::limits::{Connections, Limits, Rates};
use crate::login::sessions::Sessions;
use crate::metrics::Metrics;
use crate::proven::Proven;
use crate::rest::keys::Answers;
use crate::rest::question::Question;
use crate::rest::shared::Shared;
use crate::rest::shown::Shown;
use crate::rights::Rights;
use crate::webhooks::Webhooks;

/// Everything a request may need. Copies are the same.
#[derive(Debug, Clone)]
pub struct Gateway(Arc<Parts>);

/// What there is.
#[derive(Debug)]
pub struct Parts {
    /// Whom questions go to.
    pub clusters: Arc<Clusters>,
    /// Who is logged in.
    pub sessions: Sessions,
    /// Tokens that were good when somebody looked.
    pub proven: Proven,
    /// What was answered to requests that may come twice.
    pub answers: Answers,
    /// Questions that many ask at a time.
    pub shared: Shared<Question>,
    /// Answers as they were shown.
    pub shown: Shown,
    /// Who follows events.
    pub hubs: Hubs,
    /// Whether those who follow something still may.
    pub rights: Rights,
    /// How often callers ask.
    pub rates: Rates<Arc<str>>,
    /// The same by the address they come from.
    pub sources: Rates<IpAddr>,
    /// How much of everything there may be.
    pub limits: Limits,
    /// Connections there are.
    pub connections: Arc<Connections>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Room for streams and terminals.
    pub streams: Arc<Semaphore>,
    /// Webhooks, where they are taken.
    pub webhooks: Option<Webhooks>,
    /// Whether there are no certificates, and so no callers to tell apart.
    pub is_open: bool,
}

impl Gateway {
    /// A gateway to these clusters.
    pub fn new(
        clusters: Arc<Clusters>,
        limits: Limits,
        webhooks: Option<Webhooks>,
        is_open: bool,
    ) -> Self {
        Self(Arc::new(Parts {
            clusters,
            sessions: Sessions::default(),
            proven: Proven::default(),
            answers: Answers::default(),
            shared: Shared::default(),
            shown: Shown::default(),
            hubs: Hubs::default(),
            rights: Rights::default(),
            rates: Rates::new(limits.requests_per_second),
            sources: Rates::new(limits.requests_per_second),
            connections: Connections::new(&limits),
            streams: Arc::new(Semaphore::new(limits.streams)),
            limits,
            metrics: Arc::default(),
            webhooks,
            is_open,
        }))
    }
}

impl Deref for Gateway {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
