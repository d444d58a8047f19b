//! A copy of the store, handed out piece by piece as the file it becomes.
//!
//! It is read from the store itself, not from memory: also while the control plane is degraded or
//! in recovery, and whoever leads.

use std::io::{self, Write};
use std::time::Duration;

use persys_proto::compute::v1 as api;
use persys_store::archive::{self, Archive};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::Compute;
use crate::rpc::refusal::unavailable;

/// How long reading all of the store may take.
const LONGEST: Duration = Duration::from_mins(1);
/// A piece is sent when it has so many bytes.
const PIECE: usize = 256 * 1024;
/// Pieces on their way.
const BUFFER: usize = 4;

type Piece = Result<api::SnapshotChunk, Status>;

impl Compute {
    pub(super) async fn copy_store(&self) -> Result<ReceiverStream<Piece>, Status> {
        let room = self.copies.clone().try_acquire_owned();
        let room = room.map_err(|_full| unavailable("other copies of the store are being made"))?;
        let late = |_| unavailable(format!("the store was not read within {LONGEST:?}"));
        let pairs = timeout(LONGEST, self.store.dump()).await.map_err(late)?;
        let pairs = pairs.map_err(|error| unavailable(error.to_string()))?;
        if pairs.is_empty() {
            return Err(Status::failed_precondition(
                "the store is empty: there is nothing to save",
            ));
        }
        let archive = Archive::new(pairs, self.now());
        let (to, pieces) = mpsc::channel(BUFFER);
        tokio::task::spawn_blocking(move || {
            let mut out = Pieces { to, piece: Vec::new() };
            if let Err(fault) = archive::write(&archive, &mut out) {
                // Whoever no longer listens does not mind.
                drop(out.to.blocking_send(Err(Status::resource_exhausted(fault.to_string()))));
            }
            drop(room);
        });
        Ok(ReceiverStream::new(pieces))
    }
}

/// Gathers what is written into pieces.
struct Pieces {
    to: mpsc::Sender<Piece>,
    piece: Vec<u8>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = PIECE.saturating_sub(self.piece.len());
        let taken = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        self.piece.extend_from_slice(taken);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let data = std::mem::take(&mut self.piece);
        let sent = self.to.blocking_send(Ok(api::SnapshotChunk { data }));
        sent.map_err(|_gone| io::ErrorKind::BrokenPipe.into())
    }
}
