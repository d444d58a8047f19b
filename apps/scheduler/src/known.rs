//! What this host remembers of the store, in a small file outside it.
//!
//! Written lazily: a mark that is a little old still notices a store that was lost.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use persys_cluster::store::HighWater;
use persys_model::token::CommitSeq;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::driver::Memory;

/// Shortest time between two writes.
const PAUSE: Duration = Duration::from_secs(1);

/// Why the file is of no use.
#[derive(Debug, thiserror::Error)]
pub enum KnownError {
    /// The system does not let us.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It says nothing that makes sense.
    #[error(
        "{} is damaged; remove it if the store beside it is known to be whole",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

/// What the file says; nothing when there is none.
pub(crate) fn read(path: &Path) -> Result<Option<HighWater>, KnownError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(KnownError::Read { path: path.to_owned(), source }),
    };
    let value: Option<Value> = serde_json::from_slice(&text).ok();
    let mark = value.and_then(|value| {
        Some(HighWater {
            cluster: Arc::from(value.get("cluster")?.as_str()?),
            incarnation: value.get("incarnation")?.as_u64()?,
            seq: CommitSeq(value.get("seq")?.as_u64()?),
        })
    });
    mark.map(Some).ok_or_else(|| KnownError::Damaged { path: path.to_owned() })
}

/// Whole or not at all.
fn write(path: &Path, mark: &HighWater) -> io::Result<()> {
    let text = json!({
        "cluster": &*mark.cluster,
        "incarnation": mark.incarnation,
        "seq": mark.seq.0,
    });
    let beside = path.with_extension("json.new");
    let mut file = File::create(&beside)?;
    file.write_all(text.to_string().as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

/// Hands marks to the one who writes them.
#[derive(Debug)]
pub(crate) struct Known(watch::Sender<Option<HighWater>>);

impl Memory for Known {
    fn remember(&self, mark: &HighWater) {
        self.0.send_replace(Some(mark.clone()));
    }
}

impl Known {
    /// The memory, and the work of keeping it, which ends with the last mark once the memory is dropped.
    pub(crate) fn keep(path: PathBuf) -> (Self, impl Future<Output = ()> + Send) {
        let (to_file, mut marks) = watch::channel(None);
        let work = async move {
            while marks.changed().await.is_ok() {
                let mark = marks.borrow_and_update().clone();
                if let Some(mark) = mark {
                    save(path.clone(), mark).await;
                }
                // A pause, cut short when there will be no more marks but the last.
                let mut end = marks.clone();
                drop(timeout(PAUSE, end.wait_for(|_| false)).await);
            }
        };
        (Self(to_file), work)
    }
}

async fn save(path: PathBuf, mark: HighWater) {
    let written = spawn_blocking(move || write(&path, &mark)).await;
    if let Ok(Err(fault)) = written {
        tracing::warn!(%fault, "cannot remember how far the store has come");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nonsense_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("known.json");
        assert!(read(&path).unwrap().is_none());
        let mark = HighWater { cluster: Arc::from("c-1"), incarnation: 2, seq: CommitSeq(77) };
        write(&path, &mark).unwrap();
        assert_eq!(read(&path).unwrap(), Some(mark));
        fs::write(&path, b"{\"cluster\":1}").unwrap();
        assert!(matches!(read(&path), Err(KnownError::Damaged { .. })));
    }
}
