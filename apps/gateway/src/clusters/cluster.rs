//! One cluster: its schedulers, and a call to whichever of them answers.
//!
//! What one cluster costs is bounded by itself: so many calls at a time, each with its own deadline.
//! A cluster that stands still uses up its own room and nobody else's.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use persys_identity::ConnectError;
use persys_telemetry::trace::{self, Kind, Trail};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use super::file::ClusterPlan;
use super::order::{Keys, NO_KEYS, Routing, order};
use super::scheduler::{Health, NoWay, Scheduler, Told, Way};
use crate::caller::Caller;

/// Most calls at a time.
const MOST_CALLS: usize = 512;
/// Largest answer that is taken.
pub const LARGEST_ANSWER: usize = 64 * 1024 * 1024;

/// How long a cluster that does not know how to answer several questions as one is not asked so.
const ALONE_FOR: Duration = Duration::from_mins(10);

/// How much longer than we wait the scheduler may work on an answer.
const GRACE: Duration = Duration::from_secs(1);

/// One cluster.
#[derive(Debug)]
pub struct Cluster {
    /// What it is called in paths.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Which scheduler is asked first.
    pub routing: Routing,
    /// The way to its schedulers, for those that are found later.
    pub way: Way,
    schedulers: ArcSwap<Vec<Arc<Scheduler>>>,
    room: Semaphore,
    longest: Duration,
    /// Until when it is asked one question at a time.
    alone_until: Mutex<Option<Instant>>,
}

/// A question to a cluster.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// The method, such as `/persys.control.v1.AgentControl/GetNode`.
    pub path: &'static str,
    /// Its message, in binary form.
    pub message: Bytes,
    /// For whom.
    pub caller: &'a Caller,
    /// From where the caller asks.
    pub source: Option<IpAddr>,
    /// Why, in the caller's words, as a header holds it.
    pub reason: Option<&'a str>,
    /// What it is told apart by.
    pub keys: &'a Keys,
    /// Whether asking twice changes nothing.
    pub is_safe: bool,
}

impl<'a> Call<'a> {
    /// A question without a message, which changes nothing.
    pub fn bare(path: &'static str, caller: &'a Caller, source: Option<IpAddr>) -> Self {
        let (message, reason, keys) = (Bytes::new(), None, &NO_KEYS);
        Self { path, message, caller, source, reason, keys, is_safe: true }
    }

    fn request(&self, longest: Duration, trail: &Trail) -> Request<Bytes> {
        let mut request = Request::new(self.message.clone());
        trail.tell(request.metadata_mut().as_mut());
        self.caller.attach(self.source, request.metadata_mut());
        if let Some(reason) = self.reason.and_then(|text| text.parse().ok()) {
            request.metadata_mut().insert(persys_proto::REASON_HEADER, reason);
        }
        // A little more than we wait ourselves: it is us who tell silence from an answer.
        request.set_timeout(longest + GRACE);
        request
    }
}

impl Cluster {
    /// The cluster of a plan. Nobody is called yet.
    pub fn new(plan: &ClusterPlan, way: Way, longest: Duration) -> Result<Self, NoWay> {
        let made =
            plan.schedulers.iter().map(|one| Scheduler::new(one.clone(), &way).map(Arc::new));
        let schedulers = made.collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            id: plan.id.clone(),
            name: plan.name.clone(),
            routing: plan.routing,
            way,
            schedulers: ArcSwap::from_pointee(schedulers),
            room: Semaphore::new(MOST_CALLS),
            longest,
            alone_until: Mutex::new(None),
        })
    }

    /// Its schedulers at this moment.
    pub fn schedulers(&self) -> Arc<Vec<Arc<Scheduler>>> {
        self.schedulers.load_full()
    }

    /// It has these schedulers from now on.
    pub fn set_schedulers(&self, schedulers: Vec<Arc<Scheduler>>) {
        self.schedulers.store(Arc::new(schedulers));
    }

    /// Whether several questions may be asked as one, as far as is known.
    pub fn is_asked_together(&self, now: Instant) -> bool {
        let until = self.alone_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_none_or(|until| until <= now)
    }

    /// It does not know how to answer several questions as one: for a while nobody tries.
    pub fn is_asked_alone(&self, now: Instant) {
        let mut until = self.alone_until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = Some(now + ALONE_FOR);
    }

    /// Whether somebody answers, as far as is known.
    pub fn is_well(&self) -> bool {
        self.schedulers.load().iter().any(|one| one.health() != Health::Silent)
    }

    /// Mode and node counts: those of the scheduler that leads, or of any that says them.
    pub fn told(&self) -> Option<Arc<Told>> {
        let all: Vec<_> = self.schedulers.load().iter().filter_map(|one| one.told()).collect();
        let leader = all.iter().find(|told| told.role == "leader");
        leader.or_else(|| all.first()).cloned()
    }

    /// Whom to ask, in this order: those that may answer.
    pub fn asked(&self, keys: &Keys) -> Vec<Arc<Scheduler>> {
        let all = self.schedulers.load();
        // Where there is one, there is nothing to choose.
        if let [only] = all.as_slice() {
            let may = only.health() != Health::Silent;
            return may.then(|| Arc::clone(only)).into_iter().collect();
        }
        let may: Vec<_> = all.iter().filter(|one| one.health() != Health::Silent).collect();
        let told: Vec<_> =
            may.iter().map(|one| (one.plan.id.as_str(), one.plan.is_leader)).collect();
        let places = order(self.routing, &told, keys);
        places.into_iter().filter_map(|at| may.get(at).map(|one| Arc::clone(one))).collect()
    }

    /// Asks one question: the first who answers counts, whatever the answer is.
    pub async fn call(&self, call: &Call<'_>) -> Result<Response<Bytes>, Status> {
        let Ok(_permit) = self.room.try_acquire() else {
            return Err(Status::unavailable(format!(
                "{MOST_CALLS} requests to the cluster {} are under way already",
                self.id
            )));
        };
        let mut last = self.nobody();
        for scheduler in self.asked(call.keys) {
            match self.ask(&scheduler, call).await {
                Asked::Answered(answer) => return *answer,
                Asked::NotReached(why) => last = why,
                // It may have been done: only who changes nothing by asking asks again.
                Asked::Lost(why) if call.is_safe => last = why,
                Asked::Lost(why) => return Err(why),
            }
        }
        Err(last)
    }

    async fn ask(&self, scheduler: &Scheduler, call: &Call<'_>) -> Asked {
        let Some(channel) = scheduler.channel() else { return Asked::NotReached(self.nobody()) };
        let mut span = trace::current().begin(call.path.trim_start_matches('/'), Kind::Client);
        span.set("persys.cluster", self.id.as_str());
        let request = call.request(self.longest, span.trail());
        let question = persys_codec::raw::unary(channel, call.path, request, LARGEST_ANSWER);
        let status = match timeout(self.longest, question).await {
            Ok(Ok(answer)) => {
                scheduler.answered();
                return Asked::Answered(Box::new(Ok(answer)));
            }
            Ok(Err(status)) => {
                span.fail(&status.code());
                status
            }
            Err(_) => {
                span.fail(&"no answer in time");
                scheduler.was_silent("no answer in time");
                return Asked::Lost(Status::deadline_exceeded(format!(
                    "the scheduler {} did not answer within {:?}",
                    scheduler.plan.id, self.longest
                )));
            }
        };
        judge(scheduler, status)
    }

    /// A connection for a stream, to the first who may answer.
    pub fn channel(&self, keys: &Keys) -> Result<(Arc<Scheduler>, Channel), Status> {
        let first = self.asked(keys).into_iter().next();
        let found = first.and_then(|one| one.channel().map(|channel| (one, channel)));
        found.ok_or_else(|| self.nobody())
    }

    fn nobody(&self) -> Status {
        Status::unavailable(format!("no scheduler of the cluster {} answers", self.id))
    }
}

/// What came of asking one scheduler.
enum Asked {
    Answered(Box<Result<Response<Bytes>, Status>>),
    /// Nothing was sent.
    NotReached(Status),
    /// Something was sent, and nobody knows what became of it.
    Lost(Status),
}

/// Whether a failed call was answered by the scheduler or by nobody.
fn judge(scheduler: &Scheduler, status: Status) -> Asked {
    if let Some(fault) = ConnectError::within(&status) {
        scheduler.was_silent(&fault.to_string());
        let told = format!("the scheduler {} is not reached: {fault}", scheduler.plan.id);
        return Asked::NotReached(Status::unavailable(told));
    }
    // What a peer sent as its answer has no error below it; what broke on the way has.
    if std::error::Error::source(&status).is_some() {
        if status.code() == Code::Cancelled {
            // The connection was retired as the call was made: nothing was sent on it.
            return Asked::NotReached(status);
        }
        scheduler.was_silent(status.message());
        let told = format!("the scheduler {} broke off: {}", scheduler.plan.id, status.message());
        return Asked::Lost(Status::unavailable(told));
    }
    scheduler.answered();
    Asked::Answered(Box::new(Err(status)))
}
