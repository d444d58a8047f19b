//! One connection: many calls at once, told apart by their serial.
//!
//! ```text
//!   call ─► queue ─► writer ─► socket ─► reader ─► by serial ─► whoever waits
//!                                          ├─► events ─► everybody who listens
//!                                          └─► pieces ─► whoever has that stream
//! ```
//!
//! A call that is given up leaves nothing half written, because only the writer writes; its answer,
//! if it comes after all, is dropped. When the connection breaks, all who wait are told that it is
//! unknown how their call went.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, broadcast, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::error::{Error, Refusal};
use crate::frame::{self, Frame, Kind, Status};
use crate::stream::{PIECES, Piece, Stream};
use crate::xdr::{Malformed, Reader};

/// How many messages may wait to be written.
const QUEUE: usize = 64;
/// How many events a slow listener may lag behind before it is told to look at everything.
const EVENTS: usize = 256;

/// A call: what it is, for libvirt and for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Procedure {
    pub(crate) program: u32,
    pub(crate) number: u32,
    pub(crate) name: &'static str,
}

impl Procedure {
    pub(crate) const fn new(number: u32, name: &'static str) -> Self {
        Self { program: frame::REMOTE, number, name }
    }
}

/// An event as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawEvent {
    pub(crate) procedure: u32,
    pub(crate) body: Bytes,
}

/// Who waits under a serial.
struct Waiter {
    reply: Option<oneshot::Sender<Result<Bytes, Error>>>,
    pieces: Option<mpsc::Sender<Piece>>,
    asked: &'static str,
}

#[derive(Default)]
struct Waiting {
    by_serial: HashMap<u32, Waiter>,
    /// Why nothing more comes.
    broken: Option<Error>,
}

/// What the reader and the callers share.
pub(crate) struct Shared {
    waiting: Mutex<Waiting>,
    serial: AtomicU32,
    queue: mpsc::Sender<Bytes>,
    events: broadcast::Sender<RawEvent>,
    ended: Notify,
}

/// A connection that was made. It is closed when it is dropped.
pub(crate) struct Connection {
    shared: Arc<Shared>,
    tasks: [JoinHandle<()>; 2],
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("broken", &self.broken()).finish_non_exhaustive()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        self.shared.fail(&Error::unreachable("the connection was let go"));
    }
}

impl Connection {
    /// Speaks over two halves of a socket.
    pub(crate) fn over(
        reading: impl AsyncRead + Unpin + Send + 'static,
        writing: impl AsyncWrite + Unpin + Send + 'static,
    ) -> Self {
        let (queue, queued) = mpsc::channel(QUEUE);
        let (events, _) = broadcast::channel(EVENTS);
        let (serial, ended) = (AtomicU32::new(1), Notify::new());
        let shared = Shared { waiting: Mutex::default(), serial, queue, events, ended };
        let shared = Arc::new(shared);
        let tasks = [
            tokio::spawn(write(Arc::clone(&shared), writing, queued)),
            tokio::spawn(read(Arc::clone(&shared), reading)),
        ];
        Self { shared, tasks }
    }

    /// Why it no longer works, if it does not.
    pub(crate) fn broken(&self) -> Option<Error> {
        self.shared.waiting().broken.clone()
    }

    /// Returns once it no longer works.
    pub(crate) async fn ended(&self) {
        let mut ended = pin!(self.shared.ended.notified());
        ended.as_mut().enable();
        if self.broken().is_none() {
            ended.await;
        }
    }

    /// Events from now on.
    pub(crate) fn events(&self) -> broadcast::Receiver<RawEvent> {
        self.shared.events.subscribe()
    }

    /// Asks, waits at most `limit`, and reads the answer to its last byte.
    pub(crate) async fn call<T>(
        &self,
        procedure: Procedure,
        args: Vec<u8>,
        limit: Duration,
        read: impl FnOnce(&mut Reader) -> Result<T, Malformed>,
    ) -> Result<T, Error> {
        let (asked, _stream) = self.send(procedure, args, limit, None).await?;
        read_all(procedure.name, asked, read)
    }

    /// Asks for a stream; gives the answer and the stream.
    pub(crate) async fn open<T>(
        &self,
        procedure: Procedure,
        args: Vec<u8>,
        limit: Duration,
        read: impl FnOnce(&mut Reader) -> Result<T, Malformed>,
    ) -> Result<(T, Stream), Error> {
        let (sender, pieces) = mpsc::channel(PIECES);
        let (body, serial) = self.send(procedure, args, limit, Some(sender)).await?;
        let stream = Stream::new(Arc::clone(&self.shared), procedure, serial, pieces);
        Ok((read_all(procedure.name, body, read)?, stream))
    }

    async fn send(
        &self,
        procedure: Procedure,
        args: Vec<u8>,
        limit: Duration,
        pieces: Option<mpsc::Sender<Piece>>,
    ) -> Result<(Bytes, u32), Error> {
        let streams = pieces.is_some();
        let deadline = Instant::now() + limit;
        let serial = self.shared.serial.fetch_add(1, Ordering::Relaxed);
        let frame = Frame {
            program: procedure.program,
            procedure: procedure.number,
            kind: Kind::Call,
            serial,
            status: Status::Ok,
            body: args.into(),
        };
        let bytes = frame.bytes().map_err(|cause| Error::unreadable(procedure.name, &cause))?;
        let (reply, answer) = oneshot::channel();
        let waiter = Waiter { reply: Some(reply), pieces, asked: procedure.name };
        self.shared.wait(serial, waiter)?;
        // Forgets the serial whenever this ends, also when nobody waits for it any more.
        let mut place = Place { shared: &self.shared, serial, keep: false };
        let silent = || Error::NoAnswer {
            asked: procedure.name,
            within_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
        };
        let exchange = async {
            self.shared.put(bytes).await?;
            answer.await.unwrap_or_else(|_gone| Err(self.shared.why()))
        };
        let body = timeout_at(deadline, exchange).await.map_err(|_late| silent())??;
        place.keep = streams;
        Ok((body, serial))
    }
}

fn read_all<T>(
    asked: &'static str,
    body: Bytes,
    read: impl FnOnce(&mut Reader) -> Result<T, Malformed>,
) -> Result<T, Error> {
    let mut reader = Reader::new(body);
    let value = read(&mut reader).and_then(|value| reader.end().map(|()| value));
    value.map_err(|cause| Error::unreadable(asked, &cause))
}

struct Place<'a> {
    shared: &'a Shared,
    serial: u32,
    keep: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.keep {
            self.shared.forget(self.serial);
        }
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, serial: u32, waiter: Waiter) -> Result<(), Error> {
        let mut waiting = self.waiting();
        if let Some(broken) = &waiting.broken {
            return Err(broken.clone());
        }
        waiting.by_serial.insert(serial, waiter);
        Ok(())
    }

    pub(crate) fn forget(&self, serial: u32) {
        self.waiting().by_serial.remove(&serial);
    }

    /// Hands bytes to the writer; waits while its queue is full.
    pub(crate) async fn put(&self, bytes: Bytes) -> Result<(), Error> {
        self.queue.send(bytes).await.map_err(|_closed| self.why())
    }

    /// Hands bytes to the writer if it has room.
    pub(crate) fn try_put(&self, bytes: Bytes) -> bool {
        self.queue.try_send(bytes).is_ok()
    }

    pub(crate) fn why(&self) -> Error {
        let broken = self.waiting().broken.clone();
        broken.unwrap_or_else(|| Error::unreachable("the connection ended"))
    }

    /// Nothing more comes: tells all who wait.
    fn fail(&self, error: &Error) {
        let waiters = {
            let mut waiting = self.waiting();
            waiting.broken.get_or_insert_with(|| error.clone());
            std::mem::take(&mut waiting.by_serial)
        };
        self.ended.notify_waiters();
        for waiter in waiters.into_values() {
            if let Some(reply) = waiter.reply {
                // Whoever stopped waiting needs no answer.
                let _given_up = reply.send(Err(error.clone()));
            }
        }
    }

    fn take_in(&self, frame: Frame) {
        if frame.program == frame::KEEPALIVE {
            self.keep_alive(&frame);
            return;
        }
        match frame.kind {
            Kind::Reply => self.answer(frame),
            Kind::Stream => self.piece(frame),
            Kind::Event => {
                let event = RawEvent { procedure: frame.procedure, body: frame.body };
                // Nobody needs to listen.
                let _unheard = self.events.send(event);
            }
            // libvirt asks us nothing.
            Kind::Call => {}
        }
    }

    fn keep_alive(&self, frame: &Frame) {
        if frame.procedure != frame::PING {
            return;
        }
        let pong = Frame { procedure: frame::PONG, body: Bytes::new(), ..frame.clone() };
        if let Ok(bytes) = pong.bytes() {
            // With a full queue we are busy speaking, which answers the question as well.
            let _spoken = self.try_put(bytes);
        }
    }

    /// An answer that nobody waits for came too late.
    fn answer(&self, frame: Frame) {
        let mut waiting = self.waiting();
        let Some(waiter) = waiting.by_serial.get_mut(&frame.serial) else { return };
        let Some(reply) = waiter.reply.take() else { return };
        let asked = waiter.asked;
        if waiter.pieces.is_none() || frame.status == Status::Error {
            waiting.by_serial.remove(&frame.serial);
        }
        drop(waiting);
        let result = match frame.status {
            Status::Ok => Ok(frame.body),
            Status::Error => Err(refused(asked, frame.body)),
            Status::Continue => {
                let detail = "an answer that goes on".to_owned();
                Err(Error::Unreadable { asked, detail })
            }
        };
        // Whoever stopped waiting needs no answer.
        let _given_up = reply.send(result);
    }

    /// A reader that does not keep up loses its stream, and holds up nobody.
    fn piece(&self, frame: Frame) {
        let mut waiting = self.waiting();
        let Some(waiter) = waiting.by_serial.get(&frame.serial) else { return };
        let Some(pieces) = &waiter.pieces else { return };
        let piece = match frame.status {
            Status::Continue => Piece::Bytes(frame.body),
            Status::Ok => Piece::End,
            Status::Error => Piece::Failed(refused(waiter.asked, frame.body)),
        };
        let over = !matches!(piece, Piece::Bytes(_));
        if pieces.try_send(piece).is_err() || over {
            waiting.by_serial.remove(&frame.serial);
        }
    }
}

fn refused(asked: &'static str, body: Bytes) -> Error {
    match Refusal::read(body) {
        Ok(refusal) => Error::Refused(refusal),
        Err(cause) => Error::unreadable(asked, &cause),
    }
}

async fn write(
    shared: Arc<Shared>,
    mut socket: impl AsyncWrite + Unpin,
    mut queued: mpsc::Receiver<Bytes>,
) {
    while let Some(bytes) = queued.recv().await {
        if let Err(error) = socket.write_all(&bytes).await {
            shared.fail(&Error::unreachable(error));
            return;
        }
    }
}

async fn read(shared: Arc<Shared>, socket: impl AsyncRead + Unpin) {
    let mut socket = tokio::io::BufReader::with_capacity(64 * 1024, socket);
    loop {
        match frame::next(&mut socket).await {
            Ok(frame) => shared.take_in(frame),
            Err(ended) => {
                shared.fail(&Error::unreachable(ended));
                return;
            }
        }
    }
}
