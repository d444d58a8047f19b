//! One call: to which member, with what token, and what is to be made of a failure.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::breaker::Breaker;
use crate::connect::{ConnectError, Connector};
use crate::endpoint::Endpoint;
use crate::error::{Error, Kind};
use crate::generated::AuthenticateRequest;
use crate::generated::auth_client::AuthClient;
use crate::settings::{Login, Settings};

/// How often a quiet connection is asked whether it is still there. etcd takes those that ask more
/// often than every five seconds for rude, and hangs up.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// How long it may take to answer that.
const KEEPALIVE_ANSWER: Duration = Duration::from_secs(5);
/// Shortest time that one of several members is given to answer.
const LEAST_SHARE: Duration = Duration::from_millis(500);

/// Whether a call may be repeated although nobody knows what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nature {
    /// It changes nothing, or the same thing once more.
    Repeatable,
    /// It is sent once.
    Once,
}

/// All members, and how they have behaved.
#[derive(Debug)]
pub(crate) struct Lines {
    places: Vec<Place>,
    /// The member in use.
    at: AtomicUsize,
    breaker: Mutex<Breaker>,
    login: Option<Login>,
    token: Mutex<Option<MetadataValue<Ascii>>>,
    deadline: Duration,
    closed: AtomicBool,
}

/// One member.
#[derive(Debug)]
struct Place {
    address: String,
    connector: Connector,
    channel: tokio::sync::Mutex<Option<Channel>>,
}

/// A connection with what every request on it carries.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) channel: Channel,
    token: Option<MetadataValue<Ascii>>,
}

impl Line {
    /// A request with our token. A member without a leader refuses it at once instead of waiting.
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let metadata = request.metadata_mut();
        metadata.insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            metadata.insert("token", token.clone());
        }
        request
    }
}

/// Tells the breaker how a call ended; one that was given up after a while ended badly.
struct Passage<'a> {
    lines: &'a Lines,
    began: Instant,
    told: bool,
}

impl Passage<'_> {
    fn tell(&mut self, well: bool) {
        self.told = true;
        lock(&self.lines.breaker).leave(well, Instant::now());
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        if !self.told && self.began.elapsed() > self.lines.deadline / 2 {
            lock(&self.lines.breaker).leave(false, Instant::now());
        }
    }
}

impl Lines {
    pub(crate) fn new(settings: Settings) -> Self {
        let Settings { endpoints, tls, login, deadline } = settings;
        let tls = tls.map(Arc::new);
        let place = |endpoint: Endpoint| Place {
            address: endpoint.to_string(),
            connector: Connector::new(endpoint, tls.clone(), deadline / 2),
            channel: tokio::sync::Mutex::default(),
        };
        Self {
            places: endpoints.into_iter().map(place).collect(),
            at: AtomicUsize::new(0),
            breaker: Mutex::default(),
            login,
            token: Mutex::default(),
            deadline,
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn count(&self) -> usize {
        self.places.len()
    }

    /// Makes a call at whichever member takes it.
    pub(crate) async fn call<T, F>(
        &self,
        nature: Nature,
        call: impl Fn(Line) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Status>>,
    {
        if self.is_closed() {
            return Err(Error::not_done(Kind::Closed, "it was closed"));
        }
        let now = Instant::now();
        if !lock(&self.breaker).enter(now) {
            let why = "etcd has not answered for a while; it is tried again in a moment";
            return Err(Error::not_done(Kind::CircuitOpen, why));
        }
        let mut passage = Passage { lines: self, began: now, told: false };
        let sent = AtomicBool::new(false);
        let turns = self.turns(nature, &sent, &call);
        let done = timeout(self.deadline, turns).await.unwrap_or_else(|_| {
            self.move_on();
            Err(self.late(sent.load(Ordering::Acquire)))
        });
        passage.tell(done.as_ref().err().is_none_or(|error| !error.kind().is_trouble()));
        done
    }

    /// Makes a call at one certain member, past the breaker.
    pub(crate) async fn call_at<T, F>(
        &self,
        member: usize,
        patience: Duration,
        call: impl Fn(Line) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let Some(place) = self.places.get(member) else {
            return Err(Error::not_done(Kind::Refused, "there is no such member"));
        };
        let sent = AtomicBool::new(false);
        let done = timeout(patience, self.turn(place, &sent, &call)).await;
        done.unwrap_or_else(|_| Err(self.late(sent.load(Ordering::Acquire))))
    }

    fn late(&self, sent: bool) -> Error {
        let why = format!("etcd did not answer within {:?}", self.deadline);
        if sent { Error::unknown(why) } else { Error::not_done(Kind::Unreachable, why) }
    }

    async fn turns<T, F>(
        &self,
        nature: Nature,
        sent: &AtomicBool,
        call: &impl Fn(Line) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let count = self.places.len();
        let several = nature == Nature::Repeatable && count > 1;
        let share = u32::try_from(count).map_or(self.deadline, |count| self.deadline / count);
        // A kept connection may turn out dead: reads have a second try even at a single member.
        let tries = if nature == Nature::Repeatable { count.max(2) } else { count };
        let mut last = Error::not_done(Kind::Unreachable, "no endpoint of etcd was named");
        for _ in 0..tries {
            let at = self.at.load(Ordering::Relaxed);
            let place = at.checked_rem(count).and_then(|at| self.places.get(at));
            let Some(place) = place else { break };
            let turn = self.turn(place, sent, call);
            let done = if several {
                timeout(share.max(LEAST_SHARE), turn).await.unwrap_or_else(|_| Err(self.late(true)))
            } else {
                turn.await
            };
            let Err(error) = done else { return done };
            if !error.kind().is_trouble() {
                return Err(error);
            }
            self.forget(place, at);
            if error.is_unknown() && nature == Nature::Once {
                return Err(error);
            }
            last = error;
        }
        Err(last)
    }

    async fn turn<T, F>(
        &self,
        place: &Place,
        sent: &AtomicBool,
        call: &impl Fn(Line) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Status>>,
    {
        for fresh in [false, true] {
            let line = self.line(place, fresh).await?;
            sent.store(true, Ordering::Release);
            let error = match call(line).await {
                Ok(answer) => return Ok(answer),
                Err(status) => Error::of(&status, &place.address),
            };
            if error.kind() != Kind::StaleToken || self.login.is_none() {
                return Err(error);
            }
            // It was refused for its token alone: one more try, with a new one.
            sent.store(false, Ordering::Release);
        }
        Err(Error::not_done(Kind::Denied, "etcd takes no token of ours"))
    }

    /// A connection and a token; both are made when there are none.
    async fn line(&self, place: &Place, fresh: bool) -> Result<Line, Error> {
        let channel = place.channel().await?;
        let Some(login) = &self.login else { return Ok(Line { channel, token: None }) };
        let kept = lock(&self.token).clone();
        if let Some(token) = kept.filter(|_| !fresh) {
            return Ok(Line { channel, token: Some(token) });
        }
        let token = authenticate(login, channel.clone(), &place.address).await?;
        lock(&self.token).clone_from(&token);
        Ok(Line { channel, token })
    }

    /// The next call goes to another member, over a new connection if it comes back to this one.
    fn forget(&self, place: &Place, at: usize) {
        if let Ok(mut channel) = place.channel.try_lock() {
            *channel = None;
        }
        // Unless somebody else has moved on already.
        if self.at.load(Ordering::Relaxed) == at {
            self.at.store(at.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// The member in use did not answer at all.
    fn move_on(&self) {
        let at = self.at.load(Ordering::Relaxed);
        if let Some(place) = at.checked_rem(self.places.len()).and_then(|at| self.places.get(at)) {
            self.forget(place, at);
        }
    }
}

impl Place {
    async fn channel(&self) -> Result<Channel, Error> {
        let mut kept = self.channel.lock().await;
        if let Some(channel) = &*kept {
            return Ok(channel.clone());
        }
        // The connector knows where to go, and how; this is what the requests say they ask.
        let dialled =
            match tonic::transport::Endpoint::from_shared(format!("http://{}", self.address)) {
                Ok(endpoint) => {
                    endpoint
                        .http2_keep_alive_interval(KEEPALIVE)
                        .keep_alive_timeout(KEEPALIVE_ANSWER)
                        .connect_with_connector(self.connector.clone())
                        .await
                }
                Err(error) => Err(error),
            };
        match dialled {
            Ok(channel) => {
                *kept = Some(channel.clone());
                Ok(channel)
            }
            Err(error) => {
                let why = ConnectError::within(&error).map(ConnectError::told);
                let why = why.unwrap_or_else(|| format!("{}: {error}", self.address));
                Err(Error::not_done(Kind::Unreachable, why))
            }
        }
    }
}

async fn authenticate(
    login: &Login,
    channel: Channel,
    address: &str,
) -> Result<Option<MetadataValue<Ascii>>, Error> {
    let Login { user: name, password } = login;
    let request = AuthenticateRequest { name: name.clone(), password: password.to_string() };
    let answer = match AuthClient::new(channel).authenticate(request).await {
        Ok(answer) => answer.into_inner(),
        // An etcd that asks nobody for a password takes us without one.
        Err(status) if status.message().contains("authentication is not enabled") => {
            return Ok(None);
        }
        Err(status) => {
            let error = Error::of(&status, address);
            let kind = if error.is_unknown() { Kind::NoAnswer } else { error.kind() };
            let why = format!("no login as {name}: {error}");
            return Err(Error::not_done(kind, why));
        }
    };
    let token = MetadataValue::try_from(answer.token);
    token.map(Some).map_err(|why| Error::not_done(Kind::Refused, format!("{address}: {why}")))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // What is inside is replaced as a whole; there is never half of it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
