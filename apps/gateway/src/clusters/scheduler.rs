//! One scheduler: the connections to it, and whether it answers.
//!
//! ```text
//!   Unknown ── answers ──▶ Well ◀── answers ── Silent
//!      └────── does not ──▶ Silent ◀── does not ──┘
//! ```
//!
//! What it answers does not matter here: a refusal is an answer. Somebody silent is asked by nobody
//! but the one who looks after its health, so that a dead one costs no request any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use persys_identity::{Connector, Credentials, Expected, Lasting};
use serde::{Deserialize, Serialize};
use tonic::transport::{Channel, Endpoint};

use super::file::SchedulerPlan;

/// Connections to one scheduler: what one connection carries is bounded by one core's cipher, and the
/// fewer there are, the more requests go together in one piece.
const CONNECTIONS: usize = 2;
/// How long it may take to be reached.
const REACH: Duration = Duration::from_secs(2);
/// How often a quiet connection is asked whether it is still there, and how long it may take.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(5));

/// How connections are made.
#[derive(Debug, Clone)]
pub enum Way {
    /// Without certificates.
    Plain,
    /// With the certificate of the moment.
    Tls(Credentials),
}

/// Why there is no way to a scheduler.
#[derive(Debug, thiserror::Error)]
#[error("{address}: {why}")]
pub struct NoWay {
    /// Where it was to go.
    pub address: String,
    /// Why not.
    pub why: String,
}

/// Whether it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Nobody asked yet.
    Unknown,
    /// It answers.
    Well,
    /// It does not.
    Silent,
}

/// One scheduler.
#[derive(Debug)]
pub struct Scheduler {
    /// What and where it is.
    pub plan: SchedulerPlan,
    channels: Vec<Lasting>,
    next: AtomicUsize,
    health: AtomicU8,
    seen_ms: AtomicU64,
    told: ArcSwapOption<Told>,
}

/// Mode and node counts, as a scheduler says them of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Told {
    /// normal, degraded, recovery or standby.
    pub mode: String,
    /// Why.
    #[serde(default)]
    pub reason: String,
    /// Since when, as RFC 3339.
    #[serde(default)]
    pub mode_changed_at: String,
    /// leader or follower.
    #[serde(default)]
    pub role: String,
    /// Its nodes, where it counts them.
    #[serde(default)]
    pub nodes: Option<Nodes>,
}

/// Nodes by condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Nodes {
    /// All of them.
    pub total: u64,
    /// Those whose heartbeats come.
    pub ready: u64,
    /// Those whose heartbeats stay away.
    pub not_ready: u64,
    /// Those given up.
    pub lost: u64,
    /// Those being emptied.
    pub draining: u64,
}

impl Scheduler {
    /// A way to a scheduler. Nothing is dialled before it is needed.
    pub fn new(plan: SchedulerPlan, way: &Way) -> Result<Self, NoWay> {
        let address = plan.address.clone();
        let bad = |why: String| NoWay { address: address.clone(), why };
        let connector = match way {
            Way::Plain => Connector::plain(),
            Way::Tls(credentials) => Connector::tls(credentials, Expected::Scheduler)
                .map_err(|fault| bad(fault.to_string()))?,
        };
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|fault| bad(fault.to_string()))?
            .connect_timeout(REACH)
            .http2_keep_alive_interval(KEEPALIVE.0)
            .keep_alive_timeout(KEEPALIVE.1);
        let connect = || Lasting::new(endpoint.clone(), connector.clone());
        let channels = std::iter::repeat_with(connect).take(CONNECTIONS).collect();
        Ok(Self {
            plan,
            channels,
            next: AtomicUsize::new(0),
            health: AtomicU8::new(0),
            seen_ms: AtomicU64::new(0),
            told: ArcSwapOption::empty(),
        })
    }

    /// One of the connections.
    pub fn channel(&self) -> Option<Channel> {
        let nth = self.next.fetch_add(1, Ordering::Relaxed) % CONNECTIONS;
        self.channels.get(nth).map(Lasting::channel)
    }

    /// Whether it answers, as far as is known.
    pub fn health(&self) -> Health {
        match self.health.load(Ordering::Relaxed) {
            0 => Health::Unknown,
            1 => Health::Well,
            _ => Health::Silent,
        }
    }

    /// Mode and node counts, as it last said them; `None` while it does not answer.
    pub fn told(&self) -> Option<Arc<Told>> {
        self.told.load_full()
    }

    /// It says its mode and its node counts; earlier versions say none.
    pub fn tell(&self, told: Option<Told>) {
        self.told.store(told.map(Arc::new));
    }

    /// When it last answered.
    pub fn seen(&self) -> Option<SystemTime> {
        match self.seen_ms.load(Ordering::Relaxed) {
            0 => None,
            ms => Some(UNIX_EPOCH + Duration::from_millis(ms)),
        }
    }

    /// It answered.
    pub fn answered(&self) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        self.seen_ms.store(ms, Ordering::Relaxed);
        if self.health.swap(1, Ordering::Relaxed) == 2 {
            tracing::info!(scheduler = self.plan.id, at = self.plan.address, "answers again");
        }
    }

    /// It did not answer.
    pub fn was_silent(&self, why: &str) {
        self.told.store(None);
        if self.health.swap(2, Ordering::Relaxed) != 2 {
            tracing::warn!(
                scheduler = self.plan.id,
                at = self.plan.address,
                why,
                "does not answer"
            );
        }
    }
}
