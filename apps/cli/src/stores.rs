//! Stores that a command opens itself, because no scheduler runs with them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use persys_model::token::Term;
use persys_store::embedded::{FILE, OpenError};
use persys_store::{Campaign, Embedded, Settings, Store};

use crate::problem::Problem;

/// How long a store stays ours without a word, should this process end in the middle.
const TTL_MS: u64 = 60_000;
/// Most members of an etcd that are named.
const MOST_ENDPOINTS: usize = 16;

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a file in this state directory.
    Folder(PathBuf),
    /// In etcd, at these addresses.
    Etcd(Vec<String>),
}

impl Place {
    /// `etcd:host:port,…`, or a folder.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.strip_prefix("etcd:") {
            Some(endpoints) => Self::etcd(endpoints),
            None if text.is_empty() => Err("it is empty; name a state directory".to_owned()),
            None => Ok(Self::Folder(PathBuf::from(text))),
        }
    }

    /// `host:port,…`
    pub(crate) fn etcd(text: &str) -> Result<Self, String> {
        let endpoints: Vec<String> = text.split(',').map(|part| part.trim().to_owned()).collect();
        if endpoints.len() > MOST_ENDPOINTS {
            return Err(format!("it names more than {MOST_ENDPOINTS} addresses"));
        }
        for endpoint in &endpoints {
            let address = endpoint.split_once("://").map_or(endpoint.as_str(), |(_, rest)| rest);
            crate::connect::settings::address(address)?;
        }
        Ok(Self::Etcd(endpoints))
    }

    /// How a scheduler is started with it.
    pub(crate) fn scheduler(&self) -> String {
        match self {
            Self::Folder(folder) => format!("persys scheduler --state-dir {}", folder.display()),
            Self::Etcd(endpoints) => {
                format!("persys scheduler --etcd-endpoints {}", endpoints.join(","))
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            Self::Etcd(endpoints) => write!(f, "etcd at {}", endpoints.join(",")),
        }
    }
}

/// What a store is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    /// To be read: it must be there.
    Reading,
    /// To be filled: it may be made.
    Filling,
}

/// Opens the store at a place.
#[expect(clippy::unused_async, reason = "a store behind a network is waited for")]
pub(crate) async fn open(place: &Place, purpose: For) -> Result<Arc<dyn Store>, Problem> {
    match place {
        Place::Folder(folder) => open_folder(folder, purpose),
        Place::Etcd(_) => Err(Problem::new(format!("the store in {place} cannot be opened"))
            .why("etcd is not in this build")),
    }
}

fn open_folder(folder: &Path, purpose: For) -> Result<Arc<dyn Store>, Problem> {
    let file = folder.join(FILE);
    let what = format!("the store in {} cannot be opened", folder.display());
    match purpose {
        For::Reading => match file.try_exists() {
            Ok(true) => {}
            Ok(false) => {
                let why = format!("there is no {}", file.display());
                return Err(Problem::new(what)
                    .why(why)
                    .next("persys scheduler config       (tells its state directory)"));
            }
            Err(fault) => return Err(Problem::new(what).why(fault.to_string())),
        },
        For::Filling => std::fs::create_dir_all(folder)
            .map_err(|fault| Problem::new(what.clone()).why(fault.to_string()))?,
    }
    match Embedded::open(&file, Settings::default()) {
        Ok(store) => Ok(Arc::new(store)),
        Err(error @ OpenError::InUse { .. }) => Err(Problem::new(what)
            .why(error.to_string())
            .next("persys snapshot save FILE     (saves from the scheduler that runs)")),
        Err(error @ OpenError::Disk { .. }) => {
            let said = std::error::Error::source(&error).map(ToString::to_string);
            Err(Problem::new(what).why(error.to_string()).why(said.unwrap_or_default()))
        }
        Err(error @ (OpenError::Damaged { .. } | OpenError::Root(_))) => {
            Err(Problem::new(what).why(error.to_string()))
        }
    }
}

/// Takes the lead of a store, so that no scheduler does meanwhile; refused while one has it.
pub(crate) async fn hold(store: &dyn Store, place: &Place) -> Result<Term, Problem> {
    let what = format!("the store in {place} cannot be used");
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let name = Arc::from(format!("persys-store#{}-{}", std::process::id(), since.as_nanos()));
    match store.campaign(&name, TTL_MS).await {
        Ok(Campaign::Won(term)) => Ok(term),
        Ok(Campaign::HeldBy(holder, _)) => Err(Problem::new(what)
            .why(format!("the scheduler {holder} runs with it"))
            .next("stop that scheduler first, then type this again")),
        Err(error) => Err(Problem::new(what).why(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        let etcd = |all: &[&str]| Place::Etcd(all.iter().map(|one| (*one).to_owned()).collect());
        assert_eq!(Place::parse("/var/lib/persys"), Ok(Place::Folder("/var/lib/persys".into())));
        assert_eq!(Place::parse("etcd:a:2379, b:2379"), Ok(etcd(&["a:2379", "b:2379"])));
        assert_eq!(Place::etcd("https://a:2379"), Ok(etcd(&["https://a:2379"])));
        for bad in ["", "etcd:", "etcd:a:99999", "etcd:a:2379,,"] {
            assert!(Place::parse(bad).is_err(), "{bad}");
        }
        let many = ["a:1"; MOST_ENDPOINTS + 1].join(",");
        assert!(Place::etcd(&many).is_err());
    }
}
