//! Secrets that Vault keeps: read by the leader, sealed into their records, and read again.
//!
//! ```text
//!   set --vault ──► allowed in the namespace? ──► Vault ──► sealed in the record ──► orders
//!                        │ no: refused                ▲              │
//!                        ▼                            └── interval ──┘ changed: a new version
//! ```
//!
//! The operator's policy decides whether a value may be used, at every order; Vault decides what it is.
//! A Vault that is away, sealed or refuses leaves the last value in use, which says how old it is; a
//! secret that was never read has no value, and workloads that need it fail with the reason.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use persys_cluster::effects::Reply;
use persys_cluster::input::Ask;
use persys_identity::vault::{Auth, BadSettings, Engine, KvReader, ReadError, ReadFault};
use persys_model::entry::vault::{KvVersion, OnChange, VaultPath, VaultSource};
use persys_model::entry::{Entries, Entry, SecretEntry};
use persys_model::id::{EntryName, NamespaceName, SecretName};
use persys_model::secret::MOST_VALUE_BYTES;
use persys_model::time::WallMillis;
use tokio::time::{Instant, sleep};
use zeroize::Zeroizing;

use crate::clock::Clock;
use crate::handle::Handle;
use crate::metrics::VaultReads;
use crate::secret_users::restart_users;
use crate::secrets::Secrets;

/// Longest pause between two looks at what is due.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// The Vault that secrets are read from.
#[derive(Debug, Clone)]
pub struct VaultSettings {
    /// Its URL.
    pub address: String,
    /// How to log in.
    pub auth: Auth,
    /// Time between two reads of one secret.
    pub refresh: Duration,
    /// Time until the next attempt after a failure.
    pub retry: Duration,
}

/// The outcome of the last read of one secret. It is the leader's, and lost with it.
#[derive(Debug, Clone)]
struct Check {
    of: VaultPath,
    at: Instant,
    confirmed_at: Option<WallMillis>,
    fault: Option<Arc<str>>,
}

/// Reads secrets from Vault, where one is configured.
#[derive(Debug)]
pub(crate) struct VaultSecrets {
    reader: Option<KvReader>,
    refresh: Duration,
    retry: Duration,
    checks: Mutex<BTreeMap<EntryName, Check>>,
    reads: Arc<VaultReads>,
}

impl VaultSecrets {
    pub(crate) fn new(
        settings: Option<VaultSettings>,
        reads: Arc<VaultReads>,
    ) -> Result<Arc<Self>, BadSettings> {
        let (refresh, retry) = settings
            .as_ref()
            .map_or((LONGEST_PAUSE, LONGEST_PAUSE), |told| (told.refresh, told.retry));
        let reader = settings.map(|told| KvReader::new(&told.address, told.auth)).transpose()?;
        let checks = Mutex::default();
        Ok(Arc::new(Self { reader, refresh, retry, checks, reads }))
    }

    /// The reason a namespace may not read from there, if it may not. Nothing is allowed by default.
    pub(crate) fn denied(
        entries: &Entries,
        namespace: &NamespaceName,
        at: &VaultPath,
    ) -> Option<String> {
        let allowed =
            entries.namespace(namespace).is_some_and(|one| one.allowance.allows_vault(at));
        (!allowed).then(|| {
            let path = at.api_path();
            format!(
                "the namespace {namespace} may not read {path} from Vault; an admin can allow it, or \
                 what it is below: `persys namespace set {namespace} --allow-vault-path {path}`"
            )
        })
    }

    /// The reason that a secret has no value to give, if it has none.
    pub(crate) fn unusable(
        &self,
        entries: &Entries,
        secret: &SecretEntry,
        source: &VaultSource,
    ) -> Option<String> {
        if let Some(denied) = Self::denied(entries, &secret.namespace, &source.at) {
            return Some(denied);
        }
        if source.fetched_at.is_some() {
            return None;
        }
        let fault = self.fault(secret);
        let why = fault.unwrap_or_else(|| "it was not read from Vault yet".to_owned());
        let retry = humantime::format_duration(self.retry);
        Some(format!("{why}; it is tried again every {retry}"))
    }

    /// The fault of the last read, whether there is an older value or not.
    pub(crate) fn fault(&self, secret: &SecretEntry) -> Option<String> {
        if self.reader.is_none() {
            return Some(NOT_CONFIGURED.to_owned());
        }
        self.check(secret)?.fault.map(|why| why.to_string())
    }

    /// When Vault last confirmed the value.
    pub(crate) fn confirmed_at(&self, secret: &SecretEntry) -> Option<WallMillis> {
        let confirmed = self.check(secret).and_then(|check| check.confirmed_at);
        confirmed.or(secret.vault.as_ref()?.fetched_at)
    }

    fn check(&self, secret: &SecretEntry) -> Option<Check> {
        let source = secret.vault.as_ref()?;
        let name = SecretEntry::entry_name(&secret.namespace, &secret.name);
        let checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        checks.get(&name).filter(|check| check.of == source.at).cloned()
    }

    /// Reads a value and remembers how that went. A new fault is told to the log once.
    pub(crate) async fn read(
        &self,
        (namespace, name): (&NamespaceName, &SecretName),
        at: &VaultPath,
        now: WallMillis,
    ) -> Result<Zeroizing<Vec<u8>>, ReadError> {
        let read = match &self.reader {
            None => Err(ReadError { fault: ReadFault::Away, text: NOT_CONFIGURED.to_owned() }),
            Some(reader) => {
                let engine = match at.version() {
                    KvVersion::One => Engine::One,
                    KvVersion::Two => Engine::Two,
                };
                let read = reader.read(&at.api_path(), engine, at.field()).await;
                read.and_then(|value| within_limits(at, value))
            }
        };
        self.reads.count(read.as_ref().map(|_| ()).map_err(|why| why.fault));
        let fault = read.as_ref().err().map(|why| Arc::from(why.text.as_str()));
        self.remember((namespace, name), at, now, fault);
        read
    }

    fn remember(
        &self,
        (namespace, name): (&NamespaceName, &SecretName),
        at: &VaultPath,
        now: WallMillis,
        fault: Option<Arc<str>>,
    ) {
        let key = SecretEntry::entry_name(namespace, name);
        let mut checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        let before = checks.get(&key).filter(|check| check.of == *at);
        let told = before.and_then(|check| check.fault.clone());
        match (&fault, &told) {
            (Some(why), told) if told.as_ref() != Some(why) => {
                tracing::warn!(%namespace, secret = %name, %why, "a secret cannot be read from Vault");
            }
            (None, Some(_)) => {
                tracing::info!(%namespace, secret = %name, "a secret is read from Vault again");
            }
            (Some(_) | None, _) => {}
        }
        let confirmed_at =
            if fault.is_none() { Some(now) } else { before.and_then(|one| one.confirmed_at) };
        let check = Check { of: at.clone(), at: Instant::now(), confirmed_at, fault };
        checks.insert(key, check);
    }

    /// Follows Vault for as long as this process leads; ends when dropped.
    pub(crate) async fn run(
        self: Arc<Self>,
        handle: Handle,
        secrets: Arc<Secrets>,
        clock: Arc<dyn Clock>,
    ) {
        let follower = Follower { vault: Arc::clone(&self), handle, secrets, clock };
        let mut known = follower.handle.watch_entries();
        loop {
            let (entries, leading) = {
                let known = known.borrow_and_update();
                (Arc::clone(&known.entries), known.leading)
            };
            if leading {
                follower.round(&entries).await;
            }
            let pause = self.retry.min(self.refresh).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
            tokio::select! {
                changed = known.changed() => if changed.is_err() { return },
                () = sleep(pause) => {}
            }
        }
    }

    fn is_due(&self, secret: &SecretEntry) -> bool {
        self.check(secret).is_none_or(|check| {
            let pause = if check.fault.is_some() { self.retry } else { self.refresh };
            check.at.elapsed() >= pause
        })
    }
}

const NOT_CONFIGURED: &str =
    "this scheduler reads no secrets from Vault: set PERSYS_VAULT_SECRETS_ENABLED";

fn within_limits(
    at: &VaultPath,
    value: Zeroizing<Vec<u8>>,
) -> Result<Zeroizing<Vec<u8>>, ReadError> {
    let length = value.len();
    if (1..=MOST_VALUE_BYTES).contains(&length) {
        return Ok(value);
    }
    let text = format!("{at} in Vault has {length} bytes; from 1 to {MOST_VALUE_BYTES} are taken");
    Err(ReadError { fault: ReadFault::Field, text })
}

/// Keeps records as Vault is.
struct Follower {
    vault: Arc<VaultSecrets>,
    handle: Handle,
    secrets: Arc<Secrets>,
    clock: Arc<dyn Clock>,
}

impl Follower {
    /// Reads everything that is due. When Vault does not answer, it is not asked for the rest.
    async fn round(&self, entries: &Entries) {
        let mut away: Option<ReadError> = None;
        let now = self.clock.now().wall;
        let mut oldest = 0;
        for secret in entries.secrets() {
            let Some(source) = &secret.vault else { continue };
            let of = (&secret.namespace, &secret.name);
            if VaultSecrets::denied(entries, &secret.namespace, &source.at).is_none()
                && self.vault.is_due(secret)
            {
                match &away {
                    Some(why) => {
                        let fault = Some(Arc::from(why.text.as_str()));
                        self.vault.remember(of, &source.at, now, fault);
                    }
                    None => away = self.follow(secret, source).await.err(),
                }
            }
            if let Some(confirmed) = self.vault.confirmed_at(secret) {
                oldest = oldest.max(now.0.saturating_sub(confirmed.0));
            }
        }
        self.vault.reads.oldest(Duration::from_millis(oldest));
    }

    /// Reads one secret and keeps what changed; an error only if Vault answers nobody now.
    async fn follow(&self, secret: &SecretEntry, source: &VaultSource) -> Result<(), ReadError> {
        let (of, now) = ((&secret.namespace, &secret.name), self.clock.now().wall);
        let value = match self.vault.read(of, &source.at, now).await {
            Ok(value) => value,
            Err(why) => {
                return match why.fault {
                    ReadFault::Away | ReadFault::Sealed => Err(why),
                    ReadFault::Missing | ReadFault::Forbidden | ReadFault::Field => Ok(()),
                };
            }
        };
        if source.fetched_at.is_some() && self.secrets.holds(secret, &value) {
            return Ok(());
        }
        let sealed = match self.secrets.seal(&secret.namespace, &secret.name, &value) {
            Ok(sealed) => sealed,
            Err(why) => {
                self.vault.remember(of, &source.at, now, Some(Arc::from(why.as_str())));
                return Ok(());
            }
        };
        let next = SecretEntry {
            version: secret.version.saturating_add(1),
            set_at: now,
            sealed,
            vault: Some(VaultSource { fetched_at: Some(now), ..source.clone() }),
            ..secret.clone()
        };
        let version = next.version;
        match self.handle.ask(Ask::Keep(Arc::new(Entry::Secret(next)))).await {
            Ok(Reply::Done { .. }) => {
                let (namespace, name) = of;
                tracing::info!(%namespace, secret = %name, version, "a secret has a new value in Vault");
                if source.fetched_at.is_some() {
                    restart_users(&self.handle, secret, source.on_change == OnChange::Restart);
                }
            }
            // It was set anew meanwhile, or this process does not lead any more: the next round tells.
            Ok(other) => tracing::info!(?other, "a new value from Vault was not kept"),
            Err(why) => tracing::info!(%why, "a new value from Vault was not kept"),
        }
        Ok(())
    }
}
