//! To the scheduler over the wire.
//!
//! Several addresses may be given. The one that answered last is asked first; when it is not
//! reached, or neither leads nor knows who does, the others are asked in turn. Every call ends within
//! its deadline, and a connection that fell silent is noticed by its keepalive. One that says hold is
//! believed only when no other says anything else.
//!
//! A scheduler that does not know our fields gives no session. The agent then gives itself one, and
//! sends the statuses such a scheduler reads; what it runs for it is never exclusive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use persys_identity::{Connector, Credentials, Denied, Lasting};
use persys_model::id::WorkloadId;
use persys_model::inventory::Report;
use persys_model::link::{Beat, BeatAnswer, Registration, RegistrationAnswer};
use persys_model::time::WallMillis;
use persys_model::token::Term;
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use persys_proto::convert::register::LegacyAnswer;
use persys_proto::convert::{Said, beat, register, report};
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};

use super::alone::Sessions;
use super::lease::{Lease, Named};
use super::messages::Talk;
use super::{Scheduler, ToldMode, Unreachable, cause};
use crate::usage::Usages;
use crate::version::Version;

/// Longest wait for one scheduler.
pub(super) const CALL: Duration = Duration::from_secs(5);
/// The same for a beat where there are others to ask: one that stands still must not cost the lease,
/// and a beat that is told twice does no harm.
const BEAT_CALL: Duration = Duration::from_secs(2);
/// Longest wait for all of them together.
const ALL_CALLS: Duration = Duration::from_secs(10);
/// How often a silent connection is tried, and how long its answer may take.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(5));
/// How often to beat when an old scheduler does not say.
const LEGACY_BEAT_MS: u64 = 2_000;
/// How long to wait after an old scheduler said no.
const LEGACY_RETRY_MS: u64 = 5_000;
/// Largest message taken.
const MESSAGE_BYTES: usize = 4 * 1024 * 1024;

/// Tells the date.
pub type Date = Arc<dyn Fn() -> WallMillis + Send + Sync>;

/// An address that is none.
#[derive(Debug, thiserror::Error)]
#[error("{address:?} is not the address of a scheduler: host:port is")]
pub struct BadAddress {
    /// What was given.
    pub address: String,
}

/// Schedulers over the wire.
pub struct Grpc {
    clients: Vec<(String, Lasting)>,
    /// What is shown to them, and whom it lets in.
    credentials: Option<Credentials>,
    /// Who answered last.
    favourite: watch::Sender<usize>,
    date: Date,
    sessions: Sessions,
    /// Name of the cluster the node belongs to; empty is not sent.
    cluster: String,
    /// Version that is told with registrations and beats.
    version: String,
    /// The lease an old scheduler gave.
    lease: Lease,
    /// What an old scheduler is to be told with each beat; `None` with one of ours.
    legacy: Mutex<Option<BTreeMap<WorkloadId, Report>>>,
    usages: Arc<Usages>,
    /// The stream that beats go up and orders come down, while there is one.
    talk: Mutex<Option<Arc<Talk>>>,
    /// Whether the scheduler that took us in is one of ours.
    ours: watch::Sender<bool>,
    /// The mode of the scheduler, as it last said.
    mode: Arc<ToldMode>,
}

impl std::fmt::Debug for Grpc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let addresses: Vec<_> = self.clients.iter().map(|(address, _)| address).collect();
        f.debug_struct("Grpc").field("addresses", &addresses).finish_non_exhaustive()
    }
}

impl Grpc {
    /// Reaches the schedulers at `addresses`, each `host:port`, when there is something to say.
    pub fn new(
        addresses: &[String],
        connector: &Connector,
        date: Date,
    ) -> Result<Self, BadAddress> {
        let clients = addresses.iter().map(|address| {
            let bad = || BadAddress { address: address.clone() };
            let endpoint = Endpoint::from_shared(format!("http://{address}"))
                .ok()
                .filter(|endpoint| endpoint.uri().port_u16().is_some())
                .ok_or_else(bad)?
                .connect_timeout(CALL)
                .timeout(CALL)
                .http2_keep_alive_interval(KEEPALIVE.0)
                .keep_alive_timeout(KEEPALIVE.1)
                .keep_alive_while_idle(true);
            Ok((address.clone(), Lasting::new(endpoint, connector.clone())))
        });
        Ok(Self {
            clients: clients.collect::<Result<_, _>>()?,
            credentials: connector.credentials().cloned(),
            favourite: watch::Sender::new(0),
            sessions: Sessions::since(date()),
            date,
            cluster: String::new(),
            version: Version::default().told(),
            lease: Lease::default(),
            legacy: Mutex::default(),
            usages: Arc::default(),
            talk: Mutex::default(),
            ours: watch::Sender::new(false),
            mode: Arc::default(),
        })
    }

    /// Tells with each beat what workloads use.
    #[must_use]
    pub fn telling(self, usages: &Arc<Usages>) -> Self {
        Self { usages: Arc::clone(usages), ..self }
    }

    /// The mode of the scheduler, as it last said.
    #[must_use]
    pub fn mode(&self) -> Arc<ToldMode> {
        Arc::clone(&self.mode)
    }

    /// Names the cluster of this node when it registers.
    #[must_use]
    pub fn of_cluster(self, cluster: &str) -> Self {
        Self { cluster: cluster.to_owned(), ..self }
    }

    /// Tells schedulers this version.
    #[must_use]
    pub fn of_version(self, version: &Version) -> Self {
        Self { version: version.told(), ..self }
    }

    /// Asks one scheduler after the other until one answers.
    pub(super) async fn ask<T, F>(
        &self,
        longest: Duration,
        call: impl Fn(AgentControlClient<Channel>) -> F + Send + Sync,
    ) -> Result<T, Unreachable>
    where
        F: Future<Output = Result<T, Status>> + Send,
    {
        let all = async {
            let mut causes = Vec::new();
            let first = *self.favourite.borrow();
            for nth in (0..self.clients.len()).map(|nth| (first + nth) % self.clients.len()) {
                let Some((address, lasting)) = self.clients.get(nth) else { continue };
                let client = AgentControlClient::new(lasting.channel());
                let client = client.max_decoding_message_size(MESSAGE_BYTES);
                match tokio::time::timeout(longest, call(client)).await {
                    Ok(Ok(answer)) => {
                        self.favourite.send_if_modified(|now| std::mem::replace(now, nth) != nth);
                        return Ok(answer);
                    }
                    Ok(Err(status)) => causes.push(cause::of(&status, address)),
                    Err(_) => causes.push(format!("{address}: no answer within {longest:?}")),
                }
            }
            if causes.is_empty() {
                causes.push("no address of a scheduler is configured".to_owned());
            }
            Err(Unreachable(causes.join("; ")))
        };
        match tokio::time::timeout(ALL_CALLS, all).await {
            Ok(answer) => answer,
            Err(_) => Err(Unreachable(format!("none answered within {ALL_CALLS:?}"))),
        }
    }

    /// Who answered last, as it changes.
    pub(super) fn favourite(&self) -> watch::Receiver<usize> {
        self.favourite.subscribe()
    }

    /// Whether the scheduler that took us in is one of ours, as it changes.
    pub(super) fn ours(&self) -> watch::Receiver<bool> {
        self.ours.subscribe()
    }

    /// From now on beats go this way; without one they are calls.
    pub(super) fn talk_on(&self, talk: Option<Arc<Talk>>) {
        *self.talk.lock().unwrap_or_else(PoisonError::into_inner) = talk;
    }

    /// Changes whenever what is shown to schedulers does.
    pub(super) fn renewals(&self) -> Option<watch::Receiver<u64>> {
        self.credentials.as_ref().map(Credentials::changes)
    }

    /// Beats on the open stream; nothing where there is none or no answer comes, and where whoever is
    /// at its other end says hold and others may know better.
    async fn said_on_stream(
        &self,
        message: &wire::HeartbeatRequest,
    ) -> Option<wire::HeartbeatResponse> {
        let talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        // Enough is left for a call, should this be no way any more.
        let answer = talk.beat(message.clone(), self.longest_beat() / 2).await?;
        let elsewhere = self.clients.len() > 1 && answer.hold && !answer.re_register;
        (!elsewhere).then_some(answer)
    }

    fn longest_beat(&self) -> Duration {
        if self.clients.len() > 1 { BEAT_CALL } else { CALL }
    }

    /// Beats by calling one scheduler after the other; nothing from an old one that does not know
    /// the node.
    async fn call(
        &self,
        message: wire::HeartbeatRequest,
    ) -> Result<Option<wire::HeartbeatResponse>, Unreachable> {
        let several = self.clients.len() > 1;
        let longest = self.longest_beat();
        // One that cannot reach its store says hold, and may not know that another leads by now.
        let held = Mutex::new(None);
        let asked = self
            .ask(longest, |mut client| {
                let (message, held) = (message.clone(), &held);
                async move {
                    match client.heartbeat(message).await.map(Response::into_inner) {
                        Ok(answer) if several && answer.hold && !answer.re_register => {
                            *held.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
                            Err(Status::unavailable("it says hold"))
                        }
                        Ok(answer) => Ok(Some(answer)),
                        // An old scheduler that does not know the node.
                        Err(status) if status.code() == Code::NotFound => Ok(None),
                        Err(status) => Err(status),
                    }
                }
            })
            .await;
        let held = held.into_inner().unwrap_or_else(PoisonError::into_inner);
        match (asked, held) {
            (Ok(answer), _) => Ok(answer),
            (Err(_), Some(held)) => Ok(Some(held)),
            (Err(why), None) => Err(why),
        }
    }

    fn named(&self, ends: Option<WallMillis>) -> Named {
        Named { ends, heard: (self.date)() }
    }

    fn denied_digest(&self) -> u64 {
        self.credentials.as_ref().map_or(0, |ours| ours.revoked().current().digest())
    }

    /// Believes those no longer whom the scheduler names.
    fn believe(&self, answer: &wire::HeartbeatResponse) {
        let Some(ours) = self.credentials.as_ref().filter(|_| answer.denied_changed) else {
            return;
        };
        match Denied::of_lines(&answer.denied) {
            Ok(denied) => ours.revoked().replace(denied),
            Err(fault) => tracing::warn!(%fault, "a list of the revoked that nobody understands"),
        }
    }

    fn legacy<T>(&self, look: impl FnOnce(&mut Option<BTreeMap<WorkloadId, Report>>) -> T) -> T {
        look(&mut self.legacy.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What an old scheduler reads of a beat: how everything is, each time.
    fn statuses(&self, beat: &Beat) -> Vec<wire::WorkloadStatus> {
        let now = (self.date)();
        self.legacy(|legacy| {
            let Some(known) = legacy else { return Vec::new() };
            for tombstone in &beat.removed {
                known.remove(&tombstone.workload);
            }
            for report in &beat.reports {
                known.insert(report.workload.clone(), report.clone());
            }
            known.values().map(|one| report::to_status(one, now)).collect()
        })
    }
}

#[async_trait::async_trait]
impl Scheduler for Grpc {
    async fn register(
        &self,
        registration: Registration,
    ) -> Result<RegistrationAnswer, Unreachable> {
        let mut message = register::to_wire(&registration, (self.date)());
        message.agent_version.clone_from(&self.version);
        message.cluster_id.clone_from(&self.cluster);
        let answer = self
            .ask(CALL, |mut client| {
                let message = message.clone();
                async move { Ok(client.register_node(message).await?.into_inner()) }
            })
            .await?;
        self.usages.tell_anew();
        let said = register::answer_from_wire(&answer)
            .map_err(|faults| Unreachable(format!("an answer nobody understands: {faults}")))?;
        Ok(match said {
            Said::Ours(answer) => {
                self.legacy(|legacy| *legacy = None);
                self.lease.end();
                self.ours.send_replace(true);
                answer
            }
            Said::Legacy(LegacyAnswer::Accepted { beat_ms, lease_expires_at }) => {
                let held = registration.inventory.held.into_iter();
                let known = held.map(|held| (held.report.workload.clone(), held.report));
                self.legacy(|legacy| *legacy = Some(known.collect()));
                self.ours.send_replace(false);
                let beat_ms = beat_ms.unwrap_or(LEGACY_BEAT_MS);
                self.lease.begin(beat_ms, self.named(lease_expires_at), Instant::now());
                self.sessions.accept(registration.term, beat_ms)
            }
            Said::Legacy(LegacyAnswer::Refused { why }) => {
                RegistrationAnswer::Refused { why, retry_after_ms: LEGACY_RETRY_MS }
            }
        })
    }

    async fn beat(&self, beat: Beat) -> Result<BeatAnswer, Unreachable> {
        let mut message = beat::to_wire(&beat, (self.date)());
        message.workload_statuses = self.statuses(&beat);
        message.workload_usage = self.usages.news(Instant::now());
        message.denied_digest = self.denied_digest();
        message.agent_version.clone_from(&self.version);
        let answer = match self.said_on_stream(&message).await {
            Some(answer) => Some(answer),
            // Set apart: without it, every beat on a stream would have the size of a call.
            None => Box::pin(self.call(message)).await?,
        };
        let Some(answer) = answer else { return Ok(BeatAnswer::RegisterAgain { term: Term(0) }) };
        self.believe(&answer);
        self.mode.hear(&answer.mode, (self.date)());
        let said = beat::answer_from_wire(&answer)
            .map_err(|faults| Unreachable(format!("an answer nobody understands: {faults}")))?;
        Ok(match said {
            Said::Ours(answer) => answer,
            Said::Legacy(answer) if answer.acknowledged => {
                if self.lease.renew(self.named(answer.lease_expires_at), Instant::now()) {
                    self.sessions.heard(&beat, false, answer.drain)
                } else {
                    tracing::info!(
                        "the lease of this node has ended meanwhile: it registers again"
                    );
                    BeatAnswer::RegisterAgain { term: Term(0) }
                }
            }
            Said::Legacy(_) => BeatAnswer::RegisterAgain { term: Term(0) },
        })
    }
}
