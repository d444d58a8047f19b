//! `persys.compute.v1.Secrets`: values go in, none comes out.

use std::sync::Arc;

use persys_access::Who;
use persys_cluster::input::Ask;
use persys_cluster::world::NewValue;
use persys_model::entry::vault::{KvVersion, OnChange, VaultPath, VaultSource};
use persys_model::entry::{Entry, EntryKey, EntryKind, SecretEntry};
use persys_model::id::{NamespaceName, SecretName};
use persys_model::secret::{Envelope, MOST_VALUE_BYTES};
use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::secrets_server::Secrets as Service;
use persys_proto::convert::time;
use tonic::{Request, Response, Status};

use super::refusal::done;
use crate::author;
use crate::clock::Clock;
use crate::handle::Handle;
use crate::secret_users::{restart_users, users};
use crate::secrets::Secrets;
use crate::vault_secrets::VaultSecrets;

/// All namespaces.
const EVERYWHERE: &str = "*";

/// The service.
pub(crate) struct SecretsService {
    handle: Handle,
    secrets: Arc<Secrets>,
    clock: Arc<dyn Clock>,
}

impl SecretsService {
    pub(crate) fn new(handle: Handle, secrets: Arc<Secrets>, clock: Arc<dyn Clock>) -> Self {
        Self { handle, secrets, clock }
    }

    /// The namespace that is meant, if whoever asks may do there what `who` may.
    fn namespace(&self, text: &str, who: Who) -> Result<NamespaceName, Status> {
        let text = if text.is_empty() { "default" } else { text };
        let name = NamespaceName::new(text)
            .map_err(|fault| Status::invalid_argument(format!("namespace: {fault}")))?;
        if !author::current().caller.may_in(who, &name) {
            let rule = who.rule();
            let why = format!("secrets of the namespace {name} are for {rule}");
            return Err(Status::permission_denied(why));
        }
        if name != NamespaceName::default_one() && self.handle.entries().namespace(&name).is_none()
        {
            return Err(Status::not_found(format!("there is no namespace {name}")));
        }
        Ok(name)
    }

    async fn set(&self, request: api::SetSecretRequest) -> Result<api::SetSecretResponse, Status> {
        let namespace = self.namespace(&request.namespace, Who::Operators)?;
        let name = secret_name(&request.name)?;
        let given = match request.vault {
            Some(source) => {
                self.read_from_vault(&namespace, &name, (&request.value, source)).await?
            }
            None => self.typed(&namespace, &name, &request.value)?,
        };
        let before = self.handle.entries().secret(&namespace, &name).cloned();
        let secret = SecretEntry {
            namespace,
            name,
            version: before.as_ref().map_or(0, |old| old.version) + 1,
            set_at: self.clock.now().wall,
            set_by: Arc::clone(&author::current().author.who),
            sealed: given.sealed,
            vault: given.vault,
        };
        let ask = Ask::Keep(Arc::new(Entry::Secret(secret.clone())));
        done(self.handle.ask(ask).await?)?;
        let unread = secret.vault.as_ref().is_some_and(|source| source.fetched_at.is_none());
        if !unread && before.as_ref().is_some_and(|old| old.sealed.digest != secret.sealed.digest) {
            restart_users(&self.handle, &secret, false);
        }
        let users = users(&self.handle, &secret).await?;
        let signalled = users.iter().any(|(_, how)| *how == NewValue::Signal);
        let note = match (before, users.len()) {
            _ if unread => self.secrets.problem(&secret).unwrap_or_default(),
            (_, 0) => "no workload uses it yet".to_owned(),
            (None, _) => "those that failed for want of it are tried again".to_owned(),
            (Some(_), _) if signalled => {
                "what names a signal for it gets it now; what else runs gets it when it is next \
                 started: `persys restart`"
                    .to_owned()
            }
            (Some(_), _) => {
                "what runs gets it when it is next started: `persys restart`".to_owned()
            }
        };
        let used_by = users.iter().map(|(id, _)| id.to_string()).collect();
        Ok(api::SetSecretResponse { secret: Some(self.view(&secret, used_by)), note })
    }

    /// A value that came with the request.
    fn typed(
        &self,
        namespace: &NamespaceName,
        name: &SecretName,
        value: &[u8],
    ) -> Result<Given, Status> {
        if value.is_empty() || value.len() > MOST_VALUE_BYTES {
            let length = value.len();
            let why = format!("value: has {length} bytes; from 1 to {MOST_VALUE_BYTES} are taken");
            return Err(Status::invalid_argument(why));
        }
        let sealed = self.secrets.seal(namespace, name, value);
        Ok(Given { sealed: sealed.map_err(Status::failed_precondition)?, vault: None })
    }

    /// A value that is in Vault. It is read at once; if that fails, the secret has no value yet, and
    /// is tried again.
    async fn read_from_vault(
        &self,
        namespace: &NamespaceName,
        name: &SecretName,
        (value, source): (&[u8], api::VaultSource),
    ) -> Result<Given, Status> {
        if !value.is_empty() {
            return Err(Status::invalid_argument(
                "value: goes with no vault: one of them is given",
            ));
        }
        let (at, on_change) = vault_source(&source)?;
        if let Some(why) = VaultSecrets::denied(&self.handle.entries(), namespace, &at) {
            return Err(Status::permission_denied(why));
        }
        let now = self.clock.now().wall;
        let read = self.secrets.vault().read((namespace, name), &at, now).await;
        let entries = self.handle.entries();
        let before = entries.secret(namespace, name);
        let same = |old: &&SecretEntry| old.vault.as_ref().is_some_and(|source| source.at == at);
        if let (Err(_), Some(before)) = (&read, before.filter(same)) {
            // What was read from there before stays in use.
            let fetched_at = before.vault.as_ref().and_then(|source| source.fetched_at);
            let vault = Some(VaultSource { at, on_change, fetched_at });
            return Ok(Given { sealed: before.sealed.clone(), vault });
        }
        let fetched_at = read.is_ok().then_some(now);
        let value = read.unwrap_or_default();
        let sealed = self.secrets.seal(namespace, name, &value);
        let vault = Some(VaultSource { at, on_change, fetched_at });
        Ok(Given { sealed: sealed.map_err(Status::failed_precondition)?, vault })
    }

    /// Workloads that name a secret.
    async fn used_by(&self, secret: &SecretEntry) -> Result<Vec<String>, Status> {
        let users = users(&self.handle, secret).await?;
        Ok(users.iter().map(|(id, _)| id.to_string()).collect())
    }

    fn view(&self, secret: &SecretEntry, used_by: Vec<String>) -> api::SecretView {
        let problem = self.secrets.problem(secret);
        let readable = problem.is_none();
        let vault = self.secrets.vault();
        // One that Vault does not confirm is still given out; that is worth a word all the same.
        let problem = problem.or_else(|| secret.vault.as_ref().and_then(|_| vault.fault(secret)));
        let source = secret.vault.as_ref();
        api::SecretView {
            namespace: secret.namespace.to_string(),
            name: secret.name.to_string(),
            version: secret.version,
            set_at: Some(time::timestamp(secret.set_at)),
            set_by: secret.set_by.to_string(),
            digest: secret.sealed.digest.to_string(),
            key: secret.sealed.key.to_string(),
            readable,
            problem: problem.unwrap_or_default(),
            used_by,
            vault: source.map(vault_to_wire),
            fetched_at: source.and_then(|one| one.fetched_at).map(time::timestamp),
            confirmed_at: vault.confirmed_at(secret).map(time::timestamp),
        }
    }

    async fn list(&self, namespace: &str) -> Result<api::ListSecretsResponse, Status> {
        let wanted = match namespace {
            EVERYWHERE => None,
            text => Some(self.namespace(text, Who::Viewers)?),
        };
        let entries = self.handle.entries();
        let (mut secrets, caller) = (Vec::new(), author::current().caller);
        for secret in entries.secrets() {
            let meant = wanted.as_ref().is_none_or(|wanted| *wanted == secret.namespace);
            if meant && caller.may_in(Who::Viewers, &secret.namespace) {
                secrets.push(self.view(secret, self.used_by(secret).await?));
            }
        }
        Ok(api::ListSecretsResponse { secrets })
    }

    async fn get(&self, request: &api::GetSecretRequest) -> Result<api::GetSecretResponse, Status> {
        let namespace = self.namespace(&request.namespace, Who::Viewers)?;
        let name = secret_name(&request.name)?;
        let entries = self.handle.entries();
        let Some(secret) = entries.secret(&namespace, &name) else {
            return Err(no_secret(&namespace, &name));
        };
        let used_by = self.used_by(secret).await?;
        Ok(api::GetSecretResponse { secret: Some(self.view(secret, used_by)) })
    }

    async fn delete(
        &self,
        request: &api::DeleteSecretRequest,
    ) -> Result<api::DeleteSecretResponse, Status> {
        let namespace = self.namespace(&request.namespace, Who::Operators)?;
        let name = secret_name(&request.name)?;
        let entries = self.handle.entries();
        let Some(secret) = entries.secret(&namespace, &name) else {
            return Err(no_secret(&namespace, &name));
        };
        let users = self.used_by(secret).await?;
        let key =
            EntryKey { kind: EntryKind::Secret, name: SecretEntry::entry_name(&namespace, &name) };
        done(self.handle.ask(Ask::Forget(key)).await?)?;
        let note = if users.is_empty() {
            "nobody used it".to_owned()
        } else {
            format!("{} run on with it and cannot be started without it", users.join(", "))
        };
        Ok(api::DeleteSecretResponse { note })
    }

    async fn rotate(&self) -> Result<api::RotateSecretsKeyResponse, Status> {
        let (keys, resealed) = self.secrets.rotate().map_err(Status::failed_precondition)?;
        let (mut count, mut failed) = (0, Vec::new());
        for one in resealed {
            match one {
                Ok(secret) => {
                    done(self.handle.ask(Ask::Keep(Arc::new(Entry::Secret(secret)))).await?)?;
                    count += 1;
                }
                Err((name, why)) => failed.push(format!("{name}: {why}")),
            }
        }
        let path = self.secrets.file().display();
        let note = if self.secrets.is_given() {
            format!("sealed with the first key of {path}, which is looked after by an operator")
        } else {
            format!("copy {path} to the other schedulers now; older keys in it are for old backups")
        };
        let key = keys.writes_with().to_owned();
        Ok(api::RotateSecretsKeyResponse { key, resealed: count, failed, note })
    }
}

/// A value to keep, and where it came from.
struct Given {
    sealed: Envelope,
    vault: Option<VaultSource>,
}

fn vault_source(said: &api::VaultSource) -> Result<(VaultPath, OnChange), Status> {
    let api::VaultSource { mount, path, field, kv_version, on_change } = said;
    let bad = |why: String| Status::invalid_argument(format!("vault.{why}"));
    let version = match kv_version {
        0 => Some(KvVersion::Two),
        number => KvVersion::of(*number),
    };
    let version = version.ok_or_else(|| bad("kv_version: is neither 1 nor 2".to_owned()))?;
    let at = VaultPath::new(mount, path, field, version).map_err(|fault| bad(fault.to_string()))?;
    let on_change = OnChange::of(on_change);
    let on_change =
        on_change.ok_or_else(|| bad("on_change: is neither leave nor restart".to_owned()))?;
    Ok((at, on_change))
}

fn vault_to_wire(source: &VaultSource) -> api::VaultSource {
    let VaultSource { at, on_change, .. } = source;
    api::VaultSource {
        mount: at.mount().to_owned(),
        path: at.path().to_owned(),
        field: at.field().to_owned(),
        kv_version: at.version().number(),
        on_change: on_change.word().to_owned(),
    }
}

fn secret_name(text: &str) -> Result<SecretName, Status> {
    SecretName::new(text).map_err(|fault| Status::invalid_argument(format!("name: {fault}")))
}

fn no_secret(namespace: &NamespaceName, name: &SecretName) -> Status {
    Status::not_found(format!("there is no secret {name} in the namespace {namespace}"))
}

#[tonic::async_trait]
impl Service for SecretsService {
    async fn set_secret(
        &self,
        request: Request<api::SetSecretRequest>,
    ) -> Result<Response<api::SetSecretResponse>, Status> {
        self.set(request.into_inner()).await.map(Response::new)
    }

    async fn list_secrets(
        &self,
        request: Request<api::ListSecretsRequest>,
    ) -> Result<Response<api::ListSecretsResponse>, Status> {
        self.list(&request.get_ref().namespace).await.map(Response::new)
    }

    async fn get_secret(
        &self,
        request: Request<api::GetSecretRequest>,
    ) -> Result<Response<api::GetSecretResponse>, Status> {
        self.get(request.get_ref()).await.map(Response::new)
    }

    async fn delete_secret(
        &self,
        request: Request<api::DeleteSecretRequest>,
    ) -> Result<Response<api::DeleteSecretResponse>, Status> {
        self.delete(request.get_ref()).await.map(Response::new)
    }

    async fn rotate_secrets_key(
        &self,
        _request: Request<api::RotateSecretsKeyRequest>,
    ) -> Result<Response<api::RotateSecretsKeyResponse>, Status> {
        self.rotate().await.map(Response::new)
    }
}
