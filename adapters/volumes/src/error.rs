//! Why a volume is not as asked.

use std::path::PathBuf;

use persys_model::id::VolumeName;

/// Why a volume is not as asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This node has no such driver.
    #[error("volumes of {driver} are not offered here: {why}")]
    NotOffered {
        /// Which.
        driver: &'static str,
        /// What is missing, and what to do.
        why: String,
    },
    /// It cannot be done for this volume.
    #[error("volume {name}: {why}")]
    Refused {
        /// Which.
        name: VolumeName,
        /// Why, and what to do.
        why: String,
    },
    /// A program said no.
    #[error("volume {name}: {doing} failed: {said}")]
    Tool {
        /// Which.
        name: VolumeName,
        /// What was done.
        doing: &'static str,
        /// The program's words.
        said: String,
    },
    /// The system said no.
    #[error("{}: {source}", .path.display())]
    Disk {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is not known how it went.
    #[error("volume {name}: {doing} got no answer: {said}")]
    Unknown {
        /// Which.
        name: VolumeName,
        /// What was done.
        doing: &'static str,
        /// What was heard.
        said: String,
    },
}

/// An error of the system at `path`.
pub(crate) fn disk(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Disk { path, source }
}
