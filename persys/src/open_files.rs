//! How many files a process may have open. Connections are files, and the limit that shells and systems
//! begin with is from a time when a thousand were many.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// As many as the system lets this process have.
pub(crate) fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => tracing::debug!(?current, ?maximum, "may have more files open"),
        Err(fault) => tracing::warn!(%fault, ?current, "may not have more files open"),
    }
}
