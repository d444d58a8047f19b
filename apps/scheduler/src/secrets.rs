//! Secrets: sealed when they are set, opened when an order goes to an agent, and at no other time.
//!
//! ```text
//!   set ──► seal (key file) ──► record in the store ──► every scheduler's memory, sealed
//!                                                            │ an order names it
//!                                                            ▼
//!                                        open (key file) ──► agent, over its connection
//! ```
//!
//! The key file is read whenever it is needed: there is nothing to reload after it was replaced.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use persys_cluster::input::Probe;
use persys_model::command::{Command, Order};
use persys_model::entry::{Entries, SecretEntry};
use persys_model::id::{NamespaceName, SecretName, WorkloadId};
use persys_model::secret::{Envelope, Redacted, SecretValue, SecretValues};
use persys_model::spec::Spec;
use persys_seal::{KeyFile, Keys, SealError};
use tokio::sync::watch;

use crate::clock::Clock;
use crate::handle::{Handle, Known};
use crate::links::{Links, OrderAnswer, Target, Unreachable};
use crate::vault_secrets::VaultSecrets;

/// The name of the key file where none is given.
const FILE: &str = "secrets.key";

/// The keys of this scheduler and what it knows of secrets.
#[derive(Debug)]
pub(crate) struct Secrets {
    cluster: String,
    file: KeyFile,
    /// Whether an operator looks after the file: then it is never written here.
    given: bool,
    known: OnceLock<watch::Receiver<Known>>,
    /// Values that Vault keeps.
    vault: Arc<VaultSecrets>,
}

impl Secrets {
    /// With the keys in `given`, or in a file of our own in `state_dir`.
    pub(crate) fn new(
        cluster: &str,
        state_dir: &std::path::Path,
        given: Option<PathBuf>,
        vault: Arc<VaultSecrets>,
    ) -> Arc<Self> {
        let (path, is_given) = match given {
            Some(path) => (path, true),
            None => (state_dir.join(FILE), false),
        };
        let (cluster, known) = (cluster.to_owned(), OnceLock::new());
        Arc::new(Self { cluster, file: KeyFile::at(path), given: is_given, known, vault })
    }

    /// From here on it knows what is stored.
    pub(crate) fn follow(&self, known: watch::Receiver<Known>) {
        // It is called once.
        drop(self.known.set(known));
    }

    fn entries(&self) -> Arc<Entries> {
        let known = self.known.get();
        known.map(|known| Arc::clone(&known.borrow().entries)).unwrap_or_default()
    }

    /// Seals a value, if this scheduler has the keys of all that was sealed before: a second key
    /// file would make secrets that only one of two schedulers can open.
    pub(crate) fn seal(
        &self,
        namespace: &NamespaceName,
        name: &SecretName,
        value: &[u8],
    ) -> Result<Envelope, String> {
        let keys = self.keys_to_write()?;
        keys.seal(&self.place(namespace, name), value).map_err(|why| why.to_string())
    }

    fn keys_to_write(&self) -> Result<Keys, String> {
        let entries = self.entries();
        let keys = match self.file.read().map_err(|why| why.to_string())? {
            Some(keys) => keys,
            None if self.given || entries.secrets().next().is_some() => return Err(self.no_file()),
            None => {
                tracing::info!(file = %self.file.path().display(), "the keys of secrets are made");
                self.file.read_or_make().map_err(|why| why.to_string())?
            }
        };
        match entries.secrets().find(|secret| !keys.has(&secret.sealed.key)) {
            None => Ok(keys),
            Some(secret) => Err(format!(
                "the key file {} of this scheduler lacks the key {} that the secret {} is sealed \
                 with: every scheduler of a cluster needs the same key file",
                self.file.path().display(),
                secret.sealed.key,
                secret.name
            )),
        }
    }

    fn no_file(&self) -> String {
        let path = self.file.path().display();
        format!(
            "there is no key file {path} on this scheduler: copy it from the scheduler that set the \
             first secret, every scheduler of a cluster needs the same one"
        )
    }

    /// Opens a secret, or says what to do.
    fn open(&self, secret: &SecretEntry) -> Result<SecretValue, String> {
        let keys = self.keys()?;
        let place = self.place(&secret.namespace, &secret.name);
        let opened = keys.open(&place, &secret.sealed).map_err(|why| why.to_string())?;
        Ok(SecretValue { version: secret.version, value: Redacted::new(&opened) })
    }

    fn keys(&self) -> Result<Keys, String> {
        match self.file.read() {
            Ok(Some(keys)) => Ok(keys),
            Ok(None) => Err(self.no_file()),
            Err(why) => Err(why.to_string()),
        }
    }

    /// The reason that a secret has no value to give here, if it has none.
    pub(crate) fn problem(&self, secret: &SecretEntry) -> Option<String> {
        self.usable(&self.entries(), secret).err()
    }

    /// Keeps the secrets of Vault as they are there; ends when dropped.
    pub(crate) fn follow_vault(
        this: Arc<Self>,
        handle: &Handle,
        clock: Arc<dyn Clock>,
    ) -> impl Future<Output = ()> + Send + use<> {
        Arc::clone(&this.vault).run(handle.clone(), this, clock)
    }

    /// The values that Vault keeps.
    pub(crate) fn vault(&self) -> &Arc<VaultSecrets> {
        &self.vault
    }

    /// True if the sealed value is this one.
    pub(crate) fn holds(&self, secret: &SecretEntry, value: &[u8]) -> bool {
        self.open(secret).is_ok_and(|opened| opened.value.reveal() == value)
    }

    /// Opens a secret, if its value may be used and was read once.
    fn usable(&self, entries: &Entries, secret: &SecretEntry) -> Result<SecretValue, String> {
        if let Some(source) = &secret.vault
            && let Some(why) = self.vault.unusable(entries, secret, source)
        {
            return Err(why);
        }
        self.open(secret)
    }

    /// All secrets under the key that writes from now on, and those that cannot be: the next key is
    /// made here, unless an operator looks after the file.
    pub(crate) fn rotate(&self) -> Result<(Keys, Vec<Resealed>), String> {
        let mut keys = self.keys_to_write()?;
        if !self.given {
            keys = keys.rotated().map_err(|why| why.to_string())?;
            // On disk before anything is sealed with it.
            self.file.write(&keys).map_err(|why| why.to_string())?;
        }
        let mut resealed = Vec::new();
        for secret in self.entries().secrets() {
            let place = self.place(&secret.namespace, &secret.name);
            match keys.rewrap(&place, &secret.sealed) {
                Ok(None) => {}
                Ok(Some(sealed)) => resealed.push(Ok(SecretEntry { sealed, ..secret.clone() })),
                Err(why) => resealed.push(Err((secret.name.clone(), why))),
            }
        }
        Ok((keys, resealed))
    }

    /// Whether an operator looks after the key file.
    pub(crate) fn is_given(&self) -> bool {
        self.given
    }

    /// Where the keys are.
    pub(crate) fn file(&self) -> &std::path::Path {
        self.file.path()
    }

    fn place<'a>(&'a self, namespace: &'a NamespaceName, name: &'a SecretName) -> [&'a str; 3] {
        [&self.cluster, namespace.as_str(), name.as_str()]
    }

    /// The values a spec names.
    fn values(&self, spec: &Spec) -> SecretValues {
        let (entries, namespace) = (self.entries(), spec.namespace());
        let value = |name: &SecretName| match entries.secret(&namespace, name) {
            None => Err(Arc::from(format!(
                "the secret {name} is not set in the namespace {namespace}: `persys secret set \
                 {name}` sets it, and this is started then"
            ))),
            Some(secret) => self.usable(&entries, secret).map_err(|why| {
                tracing::error!(secret = %name, why, "a secret cannot be used");
                let what = if secret.vault.is_some() { "has no value" } else { "cannot be opened" };
                Arc::from(format!("the secret {name} {what}: {why}"))
            }),
        };
        let names = spec.secrets.iter().map(|one| one.secret.clone());
        names.map(|name| (name.clone(), value(&name))).collect()
    }
}

/// A secret under the new key, or which cannot be and why.
pub(crate) type Resealed = Result<SecretEntry, (SecretName, SealError)>;

/// The way to agents, with secrets in what goes there.
#[derive(Debug)]
pub(crate) struct WithSecrets<L> {
    links: Arc<L>,
    secrets: Arc<Secrets>,
}

impl<L> WithSecrets<L> {
    pub(crate) fn new(links: Arc<L>, secrets: Arc<Secrets>) -> Self {
        Self { links, secrets }
    }
}

#[async_trait::async_trait]
impl<L: Links> Links for WithSecrets<L> {
    async fn order(&self, to: &Target, mut command: Command) -> Result<OrderAnswer, Unreachable> {
        if let Order::Apply(apply) = &mut command.order
            && !apply.spec.secrets.is_empty()
        {
            apply.secrets = Arc::new(self.secrets.values(&apply.spec));
        }
        self.links.order(to, command).await
    }

    async fn actions(&self, of: &Target, workload: &WorkloadId) -> Result<String, Unreachable> {
        self.links.actions(of, workload).await
    }

    async fn probe(&self, of: &Target) -> Probe {
        self.links.probe(of).await
    }
}

#[cfg(test)]
mod tests {
    use persys_model::entry::Entry;
    use persys_model::time::WallMillis;

    use super::*;

    fn opened(cluster: &str, state_dir: &std::path::Path, given: Option<PathBuf>) -> Arc<Secrets> {
        let vault = VaultSecrets::new(None, Arc::default()).unwrap();
        Secrets::new(cluster, state_dir, given, vault)
    }

    fn entry(secrets: &Secrets, name: &'static str, value: &[u8]) -> SecretEntry {
        let (namespace, name) = (NamespaceName::default_one(), SecretName::fixed(name));
        let sealed = secrets.seal(&namespace, &name, value).unwrap();
        let set_by = Arc::from("operator ann");
        let set_at = WallMillis(1);
        SecretEntry { namespace, name, version: 1, set_at, set_by, sealed, vault: None }
    }

    fn knows(secrets: &Secrets, all: &[&SecretEntry]) -> watch::Sender<Known> {
        let entries: Entries =
            all.iter().map(|one| Arc::new(Entry::Secret((*one).clone()))).collect();
        let (to, known) = watch::channel(Known { entries: Arc::new(entries), leading: true });
        secrets.follow(known);
        to
    }

    #[test]
    fn two_schedulers_need_one_key_file_and_the_second_says_so() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let ours = opened("c", one.path(), None);
        let secret = entry(&ours, "db", b"hunter2");
        assert_eq!(ours.open(&secret).unwrap().value.reveal(), b"hunter2");
        let theirs = opened("c", two.path(), None);
        let _known = knows(&theirs, &[&secret]);
        let namespace = NamespaceName::default_one();
        let why = theirs.seal(&namespace, &SecretName::fixed("x"), b"v").unwrap_err();
        assert!(why.contains("no key file") && why.contains("copy it"), "{why}");
        assert!(theirs.problem(&secret).is_some_and(|why| why.contains("no key file")));
        // Another file is as bad as none.
        opened("c", two.path(), None).file.read_or_make().unwrap();
        let why = theirs.seal(&namespace, &SecretName::fixed("x"), b"v").unwrap_err();
        assert!(why.contains("lacks the key"), "{why}");
        assert!(theirs.problem(&secret).is_some_and(|why| why.contains("same key file")));
        std::fs::copy(ours.file(), theirs.file()).unwrap();
        assert_eq!(theirs.problem(&secret), None);
    }

    #[test]
    fn a_rotation_moves_every_secret_to_the_new_key() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = opened("c", folder.path(), None);
        let secret = entry(&secrets, "db", b"hunter2");
        let _known = knows(&secrets, &[&secret]);
        let (keys, resealed) = secrets.rotate().unwrap();
        let moved = resealed.into_iter().next().unwrap().unwrap();
        assert_eq!(&*moved.sealed.key, keys.writes_with());
        assert_ne!(moved.sealed.key, secret.sealed.key);
        assert_eq!(secrets.open(&moved).unwrap().value.reveal(), b"hunter2");
        assert_eq!(
            secrets.open(&secret).unwrap().value.reveal(),
            b"hunter2",
            "until all are moved"
        );
        // A file that an operator looks after is read, not written.
        let path = secrets.file().to_path_buf();
        let given = opened("c", folder.path(), Some(path.clone()));
        let _known = knows(&given, &[&secret]);
        let before = std::fs::read(&path).unwrap();
        let (_, resealed) = given.rotate().unwrap();
        assert_eq!((resealed.len(), std::fs::read(&path).unwrap()), (1, before));
    }
}
