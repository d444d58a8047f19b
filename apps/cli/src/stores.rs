//! Stores that a command opens itself, because no scheduler runs with them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use persys_etcd::Said;
use persys_model::token::Term;
use persys_store::embedded::{FILE, OpenError};
use persys_store::{Campaign, Embedded, Error, Etcd, EtcdSettings, Keys, Settings, Store};

use crate::args::EtcdOptions;
use crate::problem::Problem;

/// How long a store stays ours without a word, should this process end in the middle.
const TTL_MS: u64 = 60_000;
/// How often that is said.
const RENEW: Duration = Duration::from_secs(10);
/// How long etcd may take for one answer: nothing else waits for it here.
const ETCD_PATIENCE: Duration = Duration::from_secs(10);
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
    pub(crate) fn scheduler(&self, way: &Way) -> String {
        match self {
            Self::Folder(folder) => {
                format!("persys scheduler --state-dir {}", quoted(&folder.display().to_string()))
            }
            Self::Etcd(endpoints) => {
                let mut line = format!("persys scheduler --etcd-endpoints {}", endpoints.join(","));
                for (word, value) in way.options.words() {
                    line.extend([" ", word, " ", &quoted(&value)]);
                }
                line
            }
        }
    }
}

/// A word as a shell takes it for one.
fn quoted(word: &str) -> String {
    let plain =
        |character: char| character.is_ascii_alphanumeric() || "-_./:,@%+=".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
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

/// How etcd is reached, wherever one is named.
#[derive(Debug)]
pub(crate) struct Way {
    options: EtcdOptions,
    said: Said,
}

impl Way {
    /// As it was typed, with the password that the variable holds.
    pub(crate) fn new(options: EtcdOptions, password: Option<&str>) -> Self {
        let said = Said {
            endpoints: Vec::new(),
            ca: options.etcd_ca.clone(),
            cert: options.etcd_cert.clone(),
            key: options.etcd_key.clone(),
            server_name: options.etcd_server_name.clone(),
            user: options.etcd_user.clone(),
            password: password.map(|text| text.to_owned().into()),
            password_file: options.etcd_password_file.clone(),
        };
        Self { options, said }
    }

    /// Whether a password is needed that no command line holds.
    pub(crate) fn needs_variable(&self) -> bool {
        self.said.user.is_some() && self.said.password_file.is_none()
    }

    /// Refuses what was typed about etcd where none is named.
    pub(crate) fn check(&self, places: &[&Place]) -> Result<(), Problem> {
        let etcd = places.iter().any(|place| matches!(place, Place::Etcd(_)));
        match self.options.words().first() {
            Some((word, _)) if !etcd => {
                Err(Problem::usage(format!("{word} says nothing without an etcd")))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn settings(&self, endpoints: &[String]) -> Result<EtcdSettings, Problem> {
        let root = self.options.etcd_root.clone().unwrap_or_default();
        let mut problem = Problem::usage("etcd cannot be reached as it was said");
        if let Err(why) = Keys::new(&root) {
            problem = problem.why(format!("--etcd-root: {why}"));
        }
        let said = Said { endpoints: endpoints.to_vec(), ..self.said.clone() };
        match said.settings() {
            Ok(way) if problem.why.is_empty() => Ok(EtcdSettings {
                way: persys_etcd::Settings { deadline: ETCD_PATIENCE, ..way },
                store: Settings { root, ..Settings::default() },
                quota_bytes: None,
            }),
            Ok(_) => Err(problem),
            Err(faults) => Err(faults.into_iter().fold(problem, |problem, fault| {
                problem.why(format!("{}: {}", fault.word, fault.why))
            })),
        }
    }
}

/// The alarms of an etcd, each as a sentence.
pub(crate) async fn alarms(endpoints: &[String], way: &Way) -> Result<Vec<String>, Problem> {
    let client = persys_etcd::Client::new(way.settings(endpoints)?.way);
    let raised = client.alarms().await;
    client.close();
    let raised = raised.map_err(|why| Problem::new("etcd cannot be asked").why(why.to_string()))?;
    Ok(raised.iter().map(|(member, about)| format!("member {member:x}: {about}")).collect())
}

/// Opens the store at a place.
pub(crate) fn open(place: &Place, purpose: For, way: &Way) -> Result<Arc<dyn Store>, Problem> {
    match place {
        Place::Folder(folder) => open_folder(folder, purpose),
        Place::Etcd(endpoints) => match Etcd::open(way.settings(endpoints)?) {
            Ok(store) => Ok(Arc::new(store)),
            Err(why) => Err(Problem::usage(format!("--etcd-root: {why}"))),
        },
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

/// Does something for as long as it takes, and keeps the lead of a store meanwhile.
pub(crate) async fn holding<T>(
    store: &dyn Store,
    term: Term,
    work: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    let lost = async {
        loop {
            tokio::time::sleep(RENEW).await;
            if let Err(error @ Error::Deposed) = store.renew(term).await {
                return error;
            }
        }
    };
    tokio::select! {
        done = work => done,
        error = lost => Err(Problem::new("the store was taken by somebody else").why(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_is_told_the_same() {
        let options = EtcdOptions {
            etcd_root: Some("/blue".to_owned()),
            etcd_ca: Some("/my certs/ca.pem".into()),
            etcd_user: Some("me".to_owned()),
            ..EtcdOptions::default()
        };
        let way = Way::new(options, Some("geheim"));
        let place = Place::etcd("https://a:1,https://b:1").unwrap();
        assert_eq!(
            place.scheduler(&way),
            "persys scheduler --etcd-endpoints https://a:1,https://b:1 --etcd-root /blue \
             --etcd-ca '/my certs/ca.pem' --etcd-user me"
        );
        assert!(way.needs_variable() && !format!("{way:?}").contains("geheim"));
        assert!(way.settings(&["a:1".to_owned()]).is_ok());
        assert!(way.check(&[&place]).is_ok());
        assert!(way.check(&[&Place::Folder("d".into())]).is_err());
        let bad = EtcdOptions {
            etcd_root: Some("no/slash".to_owned()),
            etcd_cert: Some("c".into()),
            ..EtcdOptions::default()
        };
        let problem = Way::new(bad, None).settings(&["https://a:1".to_owned()]).unwrap_err();
        assert_eq!(problem.why.len(), 3, "{problem:?}");
    }

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
