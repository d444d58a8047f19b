//! A stream inside a connection: a console, or something larger that comes in pieces.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::connection::{Procedure, Shared};
use crate::error::Error;
use crate::frame::{Frame, Kind, Status};

/// How many pieces may wait for a slow reader before it loses the stream.
pub(crate) const PIECES: usize = 64;
/// Largest piece that libvirt takes from us at once.
const PIECE_MOST: usize = 64 * 1024;

/// One piece, as the reader of the connection hands it over.
#[derive(Debug)]
pub(crate) enum Piece {
    Bytes(Bytes),
    End,
    Failed(Error),
}

/// A stream. Dropping it ends it on the other side as well.
pub struct Stream {
    shared: Arc<Shared>,
    procedure: Procedure,
    serial: u32,
    pieces: mpsc::Receiver<Piece>,
    over: bool,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.procedure.name;
        f.debug_struct("Stream")
            .field("of", &name)
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

impl Stream {
    pub(crate) fn new(
        shared: Arc<Shared>,
        procedure: Procedure,
        serial: u32,
        pieces: mpsc::Receiver<Piece>,
    ) -> Self {
        Self { shared, procedure, serial, pieces, over: false }
    }

    /// What comes next; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        if self.over {
            return Ok(None);
        }
        match self.pieces.recv().await {
            Some(Piece::Bytes(bytes)) if !bytes.is_empty() => Ok(Some(bytes)),
            // An empty piece says that no more data comes, and waits for our word.
            Some(Piece::Bytes(_)) => {
                self.finish();
                Ok(None)
            }
            Some(Piece::End) => {
                self.over = true;
                Ok(None)
            }
            Some(Piece::Failed(error)) => {
                self.over = true;
                Err(error)
            }
            None => {
                self.over = true;
                Err(self.shared.why())
            }
        }
    }

    /// Everything up to the end, at most `most` bytes, within `limit`.
    pub async fn rest(mut self, most: usize, limit: Duration) -> Result<Vec<u8>, Error> {
        let deadline = Instant::now() + limit;
        let asked = self.procedure.name;
        let within_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let mut all = Vec::new();
        while let Some(bytes) = timeout_at(deadline, self.next())
            .await
            .map_err(|_late| Error::NoAnswer { asked, within_ms })??
        {
            if all.len() + bytes.len() > most {
                let detail = format!("more than {most} bytes come");
                return Err(Error::Unreadable { asked, detail });
            }
            all.extend_from_slice(&bytes);
        }
        Ok(all)
    }

    /// Sends bytes; waits while the connection is busy.
    pub async fn send(&self, bytes: &[u8]) -> Result<(), Error> {
        for piece in bytes.chunks(PIECE_MOST) {
            let frame = self.frame(Status::Continue, Bytes::copy_from_slice(piece));
            let name = self.procedure.name;
            let bytes = frame.bytes().map_err(|cause| Error::unreadable(name, &cause))?;
            self.shared.put(bytes).await?;
        }
        Ok(())
    }

    fn frame(&self, status: Status, body: Bytes) -> Frame {
        let Procedure { program, number, .. } = self.procedure;
        Frame { program, procedure: number, kind: Kind::Stream, serial: self.serial, status, body }
    }

    fn finish(&mut self) {
        self.over = true;
        if let Ok(bytes) = self.frame(Status::Ok, Bytes::new()).bytes() {
            // Should the queue be full, the other side keeps the stream until we hang up.
            let _told = self.shared.try_put(bytes);
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.over {
            self.finish();
        }
        self.shared.forget(self.serial);
    }
}
