//! The way to libvirt: found, opened, and opened again after libvirt was restarted.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt as _};
use tokio::net::UnixStream;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex, OnceCell, broadcast};
use tokio::time::timeout;

use crate::connection::{Connection, Procedure, RawEvent};
use crate::error::Error;
use crate::stream::Stream;
use crate::values::Change;
use crate::xdr::{Malformed, Reader, Writer};

const CONNECT_OPEN: Procedure = Procedure::new(1, "open");
const AUTH_LIST: Procedure = Procedure::new(66, "how to log in");
const AUTH_POLKIT: Procedure = Procedure::new(70, "log in by polkit");
const REGISTER: Procedure = Procedure::new(316, "events");
/// The event a lifecycle registration brings.
const LIFECYCLE: u32 = 318;

const AUTH_NONE: u32 = 0;
const AUTH_BY_POLKIT: u32 = 2;

/// How long to wait before the events are looked for again.
const AGAIN: Duration = Duration::from_secs(1);

/// Where libvirt usually is: one daemon for everything, or one for QEMU alone.
pub const SOCKETS: [&str; 2] = ["/var/run/libvirt/libvirt-sock", "/var/run/libvirt/virtqemud-sock"];

/// What can be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where to look for the socket, in this order.
    pub sockets: Vec<PathBuf>,
    /// Which driver: `qemu:///system`.
    pub uri: String,
    /// How long a question may take, and to connect.
    pub ask: Duration,
    /// How long a change may take.
    pub act: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sockets: SOCKETS.iter().map(PathBuf::from).collect(),
            uri: "qemu:///system".to_owned(),
            ask: Duration::from_secs(10),
            act: Duration::from_mins(1),
        }
    }
}

/// libvirt, as far as it is reached. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    settings: Arc<Settings>,
    current: Arc<Mutex<Option<Session>>>,
}

/// One connection that was opened. It is of no more use once it broke; ask the [`Client`] again.
#[derive(Debug, Clone)]
pub struct Session(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    connection: Connection,
    settings: Arc<Settings>,
    registered: OnceCell<()>,
}

/// What a listener hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// From now on nothing is missed; before, something may have been.
    Everything,
    /// Something happened to a domain.
    Change(Change),
}

impl Client {
    /// A way to libvirt that is not yet gone.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings: Arc::new(settings), current: Arc::default() }
    }

    /// What was set.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// An open session: the one in use, or a new one if that broke.
    pub async fn session(&self) -> Result<Session, Error> {
        let opening = async {
            let mut current = self.current.lock().await;
            if let Some(session) = current.as_ref().filter(|session| session.works()) {
                return Ok(session.clone());
            }
            let session = Session::open(Arc::clone(&self.settings)).await?;
            *current = Some(session.clone());
            Ok(session)
        };
        let limit = self.settings.ask;
        timeout(limit, opening).await.unwrap_or_else(|_late| {
            let within_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
            Err(Error::NoAnswer { asked: CONNECT_OPEN.name, within_ms })
        })
    }

    /// What happens to domains, for ever: after an outage libvirt is found again, as long as
    /// somebody waits for the next word.
    #[must_use]
    pub fn changes(&self) -> BoxStream<'static, Heard> {
        let client = self.clone();
        futures::stream::unfold((client, None), |(client, mut open)| async move {
            loop {
                let Some(Listening { session, events }) = &mut open else {
                    if let Ok(listening) = client.listen().await {
                        return Some((Heard::Everything, (client, Some(listening))));
                    }
                    tokio::time::sleep(AGAIN).await;
                    continue;
                };
                match session.next_change(events).await {
                    Some(heard) => return Some((heard, (client, open))),
                    None => open = None,
                }
            }
        })
        .boxed()
    }

    async fn listen(&self) -> Result<Listening, Error> {
        let session = self.session().await?;
        let events = session.0.connection.events();
        session.register().await?;
        Ok(Listening { session, events })
    }
}

struct Listening {
    session: Session,
    events: broadcast::Receiver<RawEvent>,
}

impl Session {
    async fn open(settings: Arc<Settings>) -> Result<Self, Error> {
        let (reading, writing) = connect(&settings.sockets).await?.into_split();
        Self::over(Connection::over(reading, writing), settings).await
    }

    /// Logs in and opens the driver.
    pub(crate) async fn over(
        connection: Connection,
        settings: Arc<Settings>,
    ) -> Result<Self, Error> {
        let session = Self(Arc::new(Inner { connection, settings, registered: OnceCell::new() }));
        let ways =
            session.ask(AUTH_LIST, Writer::new(), |reader| reader.list(20, Reader::u32)).await?;
        if !ways.is_empty() && !ways.contains(&AUTH_NONE) {
            session.log_in(&ways).await?;
        }
        let args = Writer::new().optional_text(Some(&session.0.settings.uri)).u32(0);
        session.ask(CONNECT_OPEN, args, |_| Ok(())).await?;
        Ok(session)
    }

    async fn log_in(&self, ways: &[u32]) -> Result<(), Error> {
        if !ways.contains(&AUTH_BY_POLKIT) {
            let detail = "it wants a password; let this user in without one, in libvirtd.conf";
            return Err(Error::unreachable(detail));
        }
        self.ask(AUTH_POLKIT, Writer::new(), Reader::i32).await.map(|_complete| ())
    }

    /// Whether it can still be used.
    #[must_use]
    pub fn works(&self) -> bool {
        self.0.connection.broken().is_none()
    }

    async fn register(&self) -> Result<(), Error> {
        // VIR_DOMAIN_EVENT_ID_LIFECYCLE, of all domains.
        let args = || Writer::new().i32(0).u32(0);
        let register = || async { self.ask(REGISTER, args(), Reader::i32).await.map(|_id| ()) };
        self.0.registered.get_or_try_init(register).await.copied()
    }

    /// The next change; `None` when the session broke.
    async fn next_change(&self, events: &mut broadcast::Receiver<RawEvent>) -> Option<Heard> {
        loop {
            // The channel lives as long as the session, so its end is not heard of by waiting.
            let event = tokio::select! {
                event = events.recv() => event,
                () = self.0.connection.ended() => return None,
            };
            match event {
                Ok(event) if event.procedure == LIFECYCLE => {
                    // What cannot be read is still word that something changed.
                    let change = Change::read(event.body);
                    return Some(change.map_or(Heard::Everything, Heard::Change));
                }
                Ok(_other) => {}
                Err(RecvError::Lagged(_)) => return Some(Heard::Everything),
                Err(RecvError::Closed) => return None,
            }
        }
    }

    pub(crate) async fn ask<T>(
        &self,
        procedure: Procedure,
        args: Writer,
        read: impl FnOnce(&mut Reader) -> Result<T, Malformed>,
    ) -> Result<T, Error> {
        self.0.connection.call(procedure, args.done(), self.0.settings.ask, read).await
    }

    pub(crate) async fn act<T>(
        &self,
        procedure: Procedure,
        args: Writer,
        read: impl FnOnce(&mut Reader) -> Result<T, Malformed>,
    ) -> Result<T, Error> {
        self.0.connection.call(procedure, args.done(), self.0.settings.act, read).await
    }

    pub(crate) async fn open_stream<T>(
        &self,
        procedure: Procedure,
        args: Writer,
        read: impl FnOnce(&mut Reader) -> Result<T, Malformed>,
    ) -> Result<(T, Stream), Error> {
        self.0.connection.open(procedure, args.done(), self.0.settings.act, read).await
    }
}

/// Connects to the first socket that is there.
async fn connect(sockets: &[PathBuf]) -> Result<UnixStream, Error> {
    let mut refusal = None;
    for path in sockets {
        match UnixStream::connect(path).await {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                refusal.get_or_insert_with(|| Error::unreachable(said(path, &error)));
            }
        }
    }
    let looked = || {
        let paths: Vec<_> = sockets.iter().map(|path| path.display().to_string()).collect();
        Error::Absent { looked: paths.join(" or ") }
    };
    Err(refusal.unwrap_or_else(looked))
}

fn said(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
