//! Passing on what only the leader can answer.
//!
//! The request goes on as it came, whatever it carries, and so does the answer: nothing is taken
//! apart. Two things are added: for whom it is, see `on_behalf`, and that its trace came through here. What was passed on once is not passed
//! on again, so that two schedulers that take each other for the leader answer at once.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use persys_access::{By, Caller, Role as Held};
use persys_cluster::input::Ask;
use persys_identity::{ConnectError, ConnectInfo, Connector, Expected, Lasting, Role};
use persys_model::audit::Sampler;
use persys_model::event::Author;
use persys_model::failure::clip;
use persys_model::time::Millis;
use persys_telemetry::trace;
use tokio::sync::watch;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::transport::{Channel, Endpoint};
use tower_service::Service as _;

use super::on_behalf;
use super::refusal::unavailable;
use crate::author::{self, Asker};
use crate::clock::{Clock as _, HostClock};
use crate::handle::{Handle, Unanswered};
use crate::links::grpc::Way;
use crate::standing::Standing;

/// Connections to the leader. Each carries a thousand requests at a time, and every stream of an
/// agent is one.
const CONNECTIONS: usize = 8;
/// How long the leader may take to take a call.
const REACH: Duration = Duration::from_secs(2);
/// How long a silent connection is trusted, and how long its answer may take.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3));

/// Longest name of a method that is written down.
const LONGEST_METHOD: usize = 128;

/// What is to be done with a request.
#[derive(Debug)]
pub(super) enum Route {
    /// It is answered here.
    Here,
    /// It is passed on to the one who leads.
    To(Arc<str>),
    /// Nobody can answer it at present.
    Nobody(Box<Status>),
}

/// The way to the leader.
#[derive(Debug)]
pub(crate) struct Forward {
    way: Way,
    handle: Handle,
    leader: Mutex<Option<(Arc<str>, Vec<Lasting>)>>,
    next: AtomicUsize,
    /// When a change was last passed on: who made it reads no copy from before.
    changed_at: AtomicU64,
    refusals: Mutex<Sampler>,
    clock: HostClock,
    stop: watch::Receiver<bool>,
}

impl Forward {
    pub(crate) fn new(way: Way, handle: Handle, stop: watch::Receiver<bool>) -> Arc<Self> {
        let (leader, next, changed_at) = (Mutex::default(), AtomicUsize::new(0), AtomicU64::new(0));
        let (refusals, clock) = (Mutex::default(), HostClock::start());
        Arc::new(Self { way, handle, leader, next, changed_at, refusals, clock, stop })
    }

    /// Waits until this process stops; what whoever is still being answered is told then. Another
    /// scheduler goes on with it.
    pub(super) fn stopping(&self) -> impl Future<Output = Status> + Send + use<> {
        let stopped = crate::app::stopped(self.stop.clone());
        async {
            stopped.await;
            Unanswered::Stopping.into()
        }
    }

    /// Writes down that somebody was refused, unless so many are that they are only counted. The
    /// refusal waits for nothing.
    pub(super) fn refused(&self, by: Arc<Author>, method: &str) {
        let mut sampler = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(left_out) = sampler.take(self.clock.now().wall) else { return };
        drop(sampler);
        let verb = Arc::from(clip(method, LONGEST_METHOD));
        let rule = Arc::clone(&by.origin.rule);
        let (ask, handle) = (Ask::Refused { verb, rule, left_out }, self.handle.clone());
        let asker = Asker { author: by, caller: Arc::new(Caller::with(Held::Admin)) };
        tokio::spawn(author::scope(asker, async move {
            // Who does not lead has told its log.
            drop(handle.ask(ask).await);
        }));
    }

    /// Whether whoever is at the other end is still believed: their connection is being cut, but a
    /// request may have come through before.
    pub(super) fn believes<B>(&self, request: &Request<B>) -> Result<(), Status> {
        let (Way::Tls(credentials), Some(info)) =
            (&self.way, request.extensions().get::<ConnectInfo>())
        else {
            return Ok(());
        };
        let shown = info.peer.certificate.as_deref();
        if shown.is_some_and(|certificate| credentials.revoked().has(certificate)) {
            let (role, name) = (info.peer.role, &info.peer.name);
            return Err(Status::unauthenticated(format!("{role}/{name} was revoked")));
        }
        let passes_on = matches!(info.peer.role, Role::Gateway | Role::Scheduler);
        let denied = credentials.revoked().current();
        match on_behalf::speaks_for_revoked(request.headers(), &denied).filter(|_| passes_on) {
            Some(whom) => Err(Status::unauthenticated(format!("{whom} was revoked"))),
            None => Ok(()),
        }
    }

    /// Who answers a request.
    pub(super) fn route(&self, by: By, passed_on: bool) -> Route {
        let standing = self.handle.standing.borrow();
        if by == By::Here || standing.mode.is_some() {
            return Route::Here;
        }
        let leader = standing.leader.clone().filter(|_| !passed_on);
        if by == By::Copy {
            return match leader.filter(|_| self.is_behind()) {
                Some(leader) => Route::To(leader),
                None => Route::Here,
            };
        }
        match leader {
            Some(leader) => Route::To(leader),
            None => Route::Nobody(Box::new(nobody(&standing, passed_on))),
        }
    }

    /// Whether somebody who was passed on to the leader would miss in the copy what they did there.
    fn is_behind(&self) -> bool {
        let changed_at = self.changed_at.load(Ordering::Relaxed);
        if changed_at == 0 || self.handle.copies.is_after(Millis(changed_at)) {
            return false;
        }
        // It is passed on this time; for the next there is to be a copy.
        drop(self.handle.copies.renew());
        true
    }

    /// Passes a request on.
    pub(super) async fn pass(
        &self,
        mut request: Request<Body>,
        leader: Arc<str>,
        by: By,
    ) -> Result<Response<Body>, Status> {
        let Some(info) = request.extensions().get::<ConnectInfo>().cloned() else {
            return Err(Status::unauthenticated("nobody knows who is calling"));
        };
        on_behalf::name(request.headers_mut(), &info)?;
        // In its trace it came through here.
        trace::current().tell(request.headers_mut());
        let mut channel = self.channel(&leader)?;
        let mut standing = self.handle.standing();
        let call = async {
            std::future::poll_fn(|context| channel.poll_ready(context)).await?;
            channel.call(request).await
        };
        let answer = tokio::select! {
            answer = call => answer.map_err(|fault| {
                self.handle.leader_is_silent();
                unreached(&leader, &fault)
            }),
            // A leader that stands still keeps nobody waiting once another has its place.
            _ = standing.wait_for(|now| now.leader.as_ref() != Some(&leader)) => {
                Err(unavailable(format!("{leader} no longer leads; ask again")))
            }
        };
        if by == By::Change {
            // Well or not: a request that broke off may have been carried out.
            let now = self.handle.copies.now().mono.0.max(1);
            self.changed_at.fetch_max(now, Ordering::Relaxed);
        }
        answer
    }

    /// One of the kept connections. Those to an earlier leader end with what is under way on them.
    fn channel(&self, leader: &Arc<str>) -> Result<Channel, Status> {
        let mut kept = self.leader.lock().unwrap_or_else(PoisonError::into_inner);
        let channels = match &mut *kept {
            Some((at, channels)) if at == leader => channels,
            other => {
                let open = || self.open(leader);
                let channels = std::iter::repeat_with(open).take(CONNECTIONS);
                &mut other.insert((Arc::clone(leader), channels.collect::<Result<_, _>>()?)).1
            }
        };
        let nth = self.next.fetch_add(1, Ordering::Relaxed) % CONNECTIONS;
        let channel = channels.get(nth).map(Lasting::channel);
        channel.ok_or_else(|| unavailable("there is no connection to the leader"))
    }

    fn open(&self, leader: &str) -> Result<Lasting, Status> {
        let bad = |why: String| unavailable(format!("the leader {leader} is not reached: {why}"));
        let connector = match &self.way {
            Way::Plain => Connector::plain(),
            Way::Tls(credentials) => Connector::tls(credentials, Expected::Scheduler)
                .map_err(|fault| bad(fault.to_string()))?,
        };
        let endpoint = Endpoint::from_shared(format!("http://{leader}"))
            .map_err(|fault| bad(fault.to_string()))?
            .connect_timeout(REACH)
            .http2_keep_alive_interval(KEEPALIVE.0)
            .keep_alive_timeout(KEEPALIVE.1);
        Ok(Lasting::new(endpoint, connector))
    }
}

fn nobody(standing: &Standing, passed_on: bool) -> Status {
    if passed_on {
        let leader = standing.leader.as_deref().unwrap_or("nobody it knows of");
        return unavailable(format!(
            "this was passed on to a scheduler that does not lead; it follows {leader}"
        ));
    }
    unavailable(format!("{}; ask again", standing.why))
}

fn unreached(leader: &str, fault: &tonic::transport::Error) -> Status {
    let why = ConnectError::within(fault).map(ToString::to_string);
    let why = why.unwrap_or_else(|| fault.to_string());
    unavailable(format!("the leader {leader} is not reached: {why}; ask again"))
}
