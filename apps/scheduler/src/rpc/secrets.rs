//! `persys.compute.v1.Secrets`: values go in, none comes out.

use std::sync::Arc;

use persys_access::Who;
use persys_cluster::input::Ask;
use persys_model::entry::{Entry, EntryKey, EntryKind, SecretEntry};
use persys_model::id::{NamespaceName, SecretName};
use persys_model::secret::MOST_VALUE_BYTES;
use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::secrets_server::Secrets as Service;
use persys_proto::convert::time;
use tonic::{Request, Response, Status};

use super::refusal::done;
use crate::author;
use crate::clock::Clock;
use crate::handle::Handle;
use crate::secrets::Secrets;

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
        if request.value.is_empty() || request.value.len() > MOST_VALUE_BYTES {
            let length = request.value.len();
            let why = format!("value: has {length} bytes; from 1 to {MOST_VALUE_BYTES} are taken");
            return Err(Status::invalid_argument(why));
        }
        let sealed = self.secrets.seal(&namespace, &name, &request.value);
        let sealed = sealed.map_err(Status::failed_precondition)?;
        let before = self.handle.entries().secret(&namespace, &name).map(|old| old.version);
        let secret = SecretEntry {
            namespace,
            name,
            version: before.unwrap_or_default() + 1,
            set_at: self.clock.now().wall,
            set_by: Arc::clone(&author::current().author.who),
            sealed,
        };
        let ask = Ask::Keep(Arc::new(Entry::Secret(secret.clone())));
        done(self.handle.ask(ask).await?)?;
        let used_by = self.used_by(&secret).await?;
        let note = match (before, used_by.len()) {
            (_, 0) => "no workload uses it yet".to_owned(),
            (None, _) => "those that failed for want of it are tried again".to_owned(),
            (Some(_), _) => {
                "what runs gets it when it is next started: `persys restart`".to_owned()
            }
        };
        Ok(api::SetSecretResponse { secret: Some(self.view(&secret, used_by)), note })
    }

    /// Workloads that name a secret.
    async fn used_by(&self, secret: &SecretEntry) -> Result<Vec<String>, Status> {
        let (namespace, name) = (secret.namespace.clone(), secret.name.clone());
        let users = self.handle.look(move |world| {
            let uses = world.workloads().filter(|view| {
                let spec = &view.workload.spec;
                spec.secrets.iter().any(|one| one.secret == name) && spec.namespace() == namespace
            });
            uses.map(|view| view.workload.id.to_string()).collect()
        });
        Ok(users.await?.value)
    }

    fn view(&self, secret: &SecretEntry, used_by: Vec<String>) -> api::SecretView {
        let problem = self.secrets.problem(secret);
        api::SecretView {
            namespace: secret.namespace.to_string(),
            name: secret.name.to_string(),
            version: secret.version,
            set_at: Some(time::timestamp(secret.set_at)),
            set_by: secret.set_by.to_string(),
            digest: secret.sealed.digest.to_string(),
            key: secret.sealed.key.to_string(),
            readable: problem.is_none(),
            problem: problem.unwrap_or_default(),
            used_by,
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
