//! `persys ca`: the authority by hand.

mod options;
mod rotate;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::CommandFactory as _;
use persys_ca::office::{OfficeError, record};
use persys_ca::{FileRegister, Local, Metrics, Office, Pages, RegisterError};
use persys_identity::authority::{AuthorityError, usual_lifetime};
use persys_identity::certificate::shown;
use persys_identity::credentials::BundleError;
use persys_identity::issued::Ledger;
use persys_identity::names::IdentityError;
use persys_identity::renew::Pace;
use persys_identity::revoked::BadSubject;
use persys_identity::{
    Authority, Bundle, ClusterName, Credentials, FileError, Grant, Issuer as _, Name, NewKey, Role,
    Source, Subject, Token, TrustDomain, Validity,
};
use persys_model::id::{EntryName, NameError};
use persys_model::join::{JoinToken, MOST_TTL_MS, MOST_USES};
use persys_model::time::WallMillis;
use persys_telemetry::trace;

use self::options::{Action, Issue, Options, Serve};
use crate::settings;
use crate::telemetry::Telemetry;
use crate::tell;

/// Why it was not done.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error(transparent)]
    Name(#[from] IdentityError),
    #[error(transparent)]
    Id(#[from] NameError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Office(#[from] OfficeError),
    #[error(transparent)]
    Register(#[from] RegisterError),
    #[error(transparent)]
    Subject(#[from] BadSubject),
    #[error("the certificate that was made cannot be used")]
    Bundle(#[from] BundleError),
    #[error("the authority cannot certify itself: {0}")]
    Own(String),
    #[error(transparent)]
    Serve(#[from] persys_ca::serve::Error),
    #[error("the system gives no random numbers")]
    Random(#[from] getrandom::Error),
    #[error("{0}")]
    Usage(String),
}

/// What can be typed after `persys ca`.
pub(crate) fn command() -> clap::Command {
    Options::command().name("ca")
}

/// Does what was typed after `persys ca`.
pub(crate) async fn run(words: Vec<OsString>) -> ExitCode {
    let options: Options = match tell::typed("persys ca", words) {
        Ok(options) => options,
        Err(code) => return code,
    };
    match act(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("persys ca: {}", tell::chain(&error));
            if let Some(next) = next_step(&error) {
                eprintln!("next: {next}");
            }
            ExitCode::FAILURE
        }
    }
}

/// What to type, where that is known.
fn next_step(error: &Error) -> Option<&'static str> {
    let missing = matches!(
        error,
        Error::Authority(AuthorityError::File(FileError::Missing { .. }))
            | Error::File(FileError::Missing { .. })
    );
    missing.then_some("persys ca init --folder FOLDER     (makes an authority there)")
}

async fn act(options: Options) -> Result<(), Error> {
    let (folder, now) = (options.folder.as_path(), SystemTime::now());
    match options.action {
        Action::Init { cluster, domain } => init(folder, &cluster, &domain, now),
        Action::Issue(issue) => make(folder, &issue, now),
        Action::List { all } => list(folder, all, now),
        Action::Rotate { force } => rotate::step(folder, force, now),
        Action::Serve(told) => begin(folder, told).await,
        Action::Token { at, role, ttl, uses, name } => {
            invite(folder, &at, (&role, name), (ttl, uses), now)
        }
        Action::Deny { subject, reason } => {
            let subject = Subject::parse(&subject)?;
            FileRegister::of(folder).revoke(&subject, &reason)?;
            println!("{subject} is believed no longer");
            Ok(())
        }
    }
}

fn init(folder: &Path, cluster: &str, domain: &str, now: SystemTime) -> Result<(), Error> {
    let (domain, cluster) = (TrustDomain::new(domain)?, ClusterName::new(cluster)?);
    if crate::enrol::has_authority(folder) {
        return Err(AuthorityError::Exists { path: folder.join("authority.pem") }.into());
    }
    let authority = Authority::open_or_create(folder, &domain, &cluster, now)?;
    println!("the authority of {cluster} is in {}", folder.display());
    println!("its key is recognised by {}", authority.pin()?);
    println!("next:");
    println!("  persys ca issue operator admin --out admin.pem");
    println!("  persys scheduler --cluster {cluster} --ca-dir {}", folder.display());
    Ok(())
}

fn make(folder: &Path, issue: &Issue, now: SystemTime) -> Result<(), Error> {
    let authority = Authority::open(folder, now)?;
    let role = Role::parse(&issue.role)?;
    let grant = Grant { role, name: Name::new(&issue.name)?, hosts: issue.hosts() };
    let lifetime = issue.ttl.unwrap_or(usual_lifetime(role));
    let issued = authority.issue(&grant, Validity { now, lifetime })?;
    record(&authority, &issued.certificate, "issue", now)?;
    Source::Bundle(issue.out.clone()).save(&issued)?;
    let (certificate, out) = (&issued.certificate, issue.out.display());
    println!("{} is {role}/{}, until {}", out, issue.name, shown(certificate.not_after));
    Ok(())
}

fn list(folder: &Path, all: bool, now: SystemTime) -> Result<(), Error> {
    // Whoever may read the list may read the key beside it.
    let authority = Authority::open(folder, now)?;
    let revoked = FileRegister::of(folder).revoked()?;
    println!("{:<34} {:<32} {:<24} {:<6} NOTE", "SERIAL", "IDENTITY", "UNTIL", "HOW");
    for entry in Ledger::of(authority.folder()).all()? {
        if !all && !entry.lives(now) {
            continue;
        }
        let serial = format!("serial/{}", entry.serial);
        let denied = revoked.contains_key(&entry.identity) || revoked.contains_key(&serial);
        let note = match (denied, entry.lives(now)) {
            (true, _) => "revoked",
            (false, false) => "ended",
            (false, true) => "",
        };
        let until = shown(entry.end()).to_string();
        println!("{:<34} {:<32} {until:<24} {:<6} {note}", entry.serial, entry.identity, entry.how);
    }
    Ok(())
}

fn invite(
    folder: &Path,
    at: &str,
    (role, name): (&str, Option<String>),
    (ttl, uses): (Duration, u32),
    now: SystemTime,
) -> Result<(), Error> {
    let authority = Authority::open(folder, now)?;
    let role = Role::parse(role)?;
    if let Some(name) = &name {
        Name::new(name)?;
    }
    let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    if ttl_ms == 0 || ttl_ms > MOST_TTL_MS || uses == 0 || uses > MOST_USES {
        let text = format!("--ttl is from 1s to 24h, --uses from 1 to {MOST_USES}");
        return Err(Error::Usage(text));
    }
    let token = Token::generate(authority.pin()?)?;
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = u64::try_from(since.as_millis()).unwrap_or_default();
    FileRegister::of(folder).invite(&JoinToken {
        id: EntryName::new(&token.id)?,
        hash: Arc::from(token.hash()),
        role: Arc::from(role.as_str()),
        name: name.map(Arc::from),
        expires: WallMillis(now_ms.saturating_add(ttl_ms)),
        uses_left: uses,
        uses: Vec::new(),
    })?;
    println!("persys join {at} --token {}", *token.text());
    Ok(())
}

/// Reads the settings, and serves with a log and traces as every component has them.
async fn begin(folder: &Path, told: Serve) -> Result<(), Error> {
    if told.only_shows {
        print!("{}", told.values.table());
        return Ok(());
    }
    let usage = |faults: Vec<String>| Error::Usage(faults.join("; "));
    let config = settings::ca::config(&told.values).map_err(usage)?;
    let telemetry = Telemetry::start(&told.values, "persys-ca").map_err(usage)?;
    let served = trace::scope(telemetry.home(), serve(folder, config)).await;
    telemetry.finish().await;
    served
}

/// Serves until it is told to stop. What it shows to callers is in memory alone, and made anew before
/// it ends.
async fn serve(folder: &Path, config: settings::ca::Config) -> Result<(), Error> {
    let settings::ca::Config { listen, http, schedulers, lifetime } = config;
    let grant = Grant::new(Role::Scheduler, Name::fixed("ca"));
    let local = Local { folder: folder.to_path_buf(), grant, lifetime };
    let credentials = Credentials::new(own(&local).await?);
    let register = Arc::new(FileRegister::of(folder));
    let office = Arc::new(Office::new(folder.to_path_buf(), register, lifetime));
    let metrics = Arc::<Metrics>::default();
    let pages = Pages::new(Arc::clone(&office), Arc::clone(&metrics), credentials.clone());
    let pages = match http {
        Some(at) => {
            let failed = |source| persys_ca::serve::Error::Listen { address: at, source };
            Some(pages.serve(at).await.map_err(failed)?)
        }
        None => None,
    };
    let shown = credentials.clone();
    let config = persys_ca::Config { listen, credentials: shown, office, schedulers, metrics };
    let running = persys_ca::start(config).await?;
    let http = pages.as_ref().map_or_else(|| "nowhere".to_owned(), |one| one.address.to_string());
    tracing::info!(at = %running.address, http, "the authority serves: machines can join");
    let renewing = async {
        loop {
            tokio::time::sleep(Pace::default().roots).await;
            match own(&local).await {
                Ok(bundle) => drop(credentials.replace(bundle)),
                Err(fault) => tracing::warn!(%fault, "the authority does not certify itself"),
            }
        }
    };
    tokio::select! {
        () = crate::component::until_told() => {}
        () = renewing => {}
    }
    running.stop().await;
    Ok(())
}

async fn own(local: &Local) -> Result<Bundle, Error> {
    let key = NewKey::generate()?;
    let answer = local.issue(None, key.request_pem()).await;
    let answer = answer.map_err(|fault| Error::Own(fault.to_string()))?;
    let now = SystemTime::now();
    let issued = key.with(answer.certificate, answer.roots, now)?;
    Ok(Bundle::from_issued(&issued, now)?)
}
