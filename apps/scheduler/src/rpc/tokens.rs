//! `persys.compute.v1.Tokens`: who may become a member, and who is no longer believed.

use std::sync::{Arc, OnceLock};

use persys_cluster::input::Ask;
use persys_identity::{Credentials, Denied, Name, Pin, Role, Subject};
use persys_model::entry::{Entries, Entry, EntryKey, EntryKind, JoinToken, Revocation};
use persys_model::id::EntryName;
use persys_model::join::{MOST_TTL_MS, MOST_USES};
use persys_model::time::WallMillis;
use persys_proto::compute::v1 as wire;
use persys_proto::compute::v1::tokens_server::Tokens as Service;
use persys_proto::convert::time::timestamp;
use tonic::{Request, Response, Status};

use super::refusal;
use crate::clock::Clock;
use crate::handle::Handle;

/// Longest reason that is kept.
const LONGEST_REASON: usize = 200;

/// The service.
pub(crate) struct Tokens {
    pub(crate) handle: Handle,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) enrolment: Enrolment,
}

/// Where members of the cluster join it, once that is known.
#[derive(Debug, Clone, Default)]
pub struct Enrolment {
    pub(crate) at: Arc<OnceLock<String>>,
    pub(crate) credentials: Option<Credentials>,
}

impl Enrolment {
    /// Says where, `host:port`. Only the first word counts.
    pub fn is_at(&self, address: String) {
        if self.at.set(address).is_err() {
            tracing::warn!("the enrolment has an address already");
        }
    }

    fn pin(&self) -> Option<Pin> {
        self.credentials.as_ref()?.current().issuer_pin()
    }
}

/// The list of the revoked, as connections use it.
pub(crate) fn denied(entries: &Entries) -> Denied {
    let mut denied = Denied::default();
    for revocation in entries.revocations() {
        match Subject::parse(&revocation.subject()) {
            Ok(subject) => denied.add(subject),
            Err(fault) => tracing::error!(%fault, "a revocation is about nobody"),
        }
    }
    denied
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Service for Tokens {
    async fn create_join_token(
        &self,
        request: Request<wire::CreateJoinTokenRequest>,
    ) -> Answer<wire::CreateJoinTokenResponse> {
        let (Some(enrol_at), Some(pin)) = (self.enrolment.at.get(), self.enrolment.pin()) else {
            return Err(Status::failed_precondition(
                "nobody can join here: this scheduler has no authority beside it; see `persys ca init`",
            ));
        };
        let token = self.checked(request.into_inner())?;
        self.sweep().await;
        let entry = Arc::new(Entry::JoinToken(token.clone()));
        if self.handle.entries().get(&entry.key()).is_some() {
            return Err(Status::already_exists("there is a token with this id already"));
        }
        refusal::done(self.handle.ask(Ask::Keep(entry)).await?)?;
        Ok(Response::new(wire::CreateJoinTokenResponse {
            token: Some(shown(&token)),
            enrol_at: enrol_at.clone(),
            pin: pin.to_string(),
        }))
    }

    async fn list_join_tokens(
        &self,
        _request: Request<wire::ListJoinTokensRequest>,
    ) -> Answer<wire::ListJoinTokensResponse> {
        let (entries, now) = (self.handle.entries(), self.now());
        let tokens = entries.join_tokens().filter(|token| token.expires > now).map(shown);
        Ok(Response::new(wire::ListJoinTokensResponse { tokens: tokens.collect() }))
    }

    async fn delete_join_token(
        &self,
        request: Request<wire::DeleteJoinTokenRequest>,
    ) -> Answer<wire::DeleteJoinTokenResponse> {
        let name = entry_name("id", &request.into_inner().id)?;
        self.forget(EntryKind::JoinToken, name).await?;
        Ok(Response::new(wire::DeleteJoinTokenResponse {}))
    }

    async fn revoke(&self, request: Request<wire::RevokeRequest>) -> Answer<wire::RevokeResponse> {
        let wire::RevokeRequest { subject, reason } = request.into_inner();
        let name = subject_name(&subject)?;
        let reason: String = reason.chars().filter(|found| !found.is_control()).collect();
        let reason: String = reason.chars().take(LONGEST_REASON).collect();
        let revocation = Revocation { name, since: self.now(), reason: Arc::from(reason) };
        let entry = Arc::new(Entry::Revocation(revocation));
        // Whoever is revoked already stays so since then.
        if self.handle.entries().get(&entry.key()).is_none() {
            refusal::done(self.handle.ask(Ask::Keep(entry)).await?)?;
        }
        Ok(Response::new(wire::RevokeResponse {}))
    }

    async fn reinstate(
        &self,
        request: Request<wire::ReinstateRequest>,
    ) -> Answer<wire::ReinstateResponse> {
        let name = subject_name(&request.into_inner().subject)?;
        self.forget(EntryKind::Revocation, name).await?;
        Ok(Response::new(wire::ReinstateResponse {}))
    }

    async fn list_revocations(
        &self,
        _request: Request<wire::ListRevocationsRequest>,
    ) -> Answer<wire::ListRevocationsResponse> {
        let entries = self.handle.entries();
        let revocations = entries.revocations().map(|one| wire::Revocation {
            subject: one.subject(),
            since: Some(timestamp(one.since)),
            reason: one.reason.to_string(),
        });
        Ok(Response::new(wire::ListRevocationsResponse { revocations: revocations.collect() }))
    }
}

impl Tokens {
    fn now(&self) -> WallMillis {
        self.clock.now().wall
    }

    async fn forget(&self, kind: EntryKind, name: EntryName) -> Result<(), Status> {
        let key = EntryKey { kind, name };
        refusal::done(self.handle.ask(Ask::Forget(key)).await?).map(|_| ())
    }

    /// Tokens that nobody can use any more make room.
    async fn sweep(&self) {
        let (entries, now) = (self.handle.entries(), self.now());
        let over = entries.join_tokens().filter(|token| token.expires <= now);
        for name in over.map(|token| token.id.clone()).collect::<Vec<_>>() {
            if let Err(fault) = self.forget(EntryKind::JoinToken, name).await {
                tracing::debug!(%fault, "an old token stays");
            }
        }
    }

    fn checked(&self, request: wire::CreateJoinTokenRequest) -> Result<JoinToken, Status> {
        let wire::CreateJoinTokenRequest { id, secret_hash, role, name, ttl_seconds, uses } =
            request;
        let mut faults = Vec::new();
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if secret_hash.len() != 64 || !secret_hash.bytes().all(hex) {
            faults.push("secret_hash: is not 64 hexadecimal digits".to_owned());
        }
        match Role::parse(&role) {
            Ok(Role::Agent | Role::Gateway) => {}
            Ok(Role::Scheduler | Role::Operator | Role::User | Role::Metrics) => {
                faults.push(format!("role: nobody joins as {role}; `persys ca issue` makes those"));
            }
            Err(fault) => faults.push(format!("role: {fault}")),
        }
        if !name.is_empty()
            && let Err(fault) = Name::new(&name)
        {
            faults.push(format!("name: {fault}"));
        }
        let ttl_ms = ttl_seconds.saturating_mul(1000);
        if ttl_ms == 0 || ttl_ms > MOST_TTL_MS {
            faults.push(format!("ttl_seconds: from 1 to {}", MOST_TTL_MS / 1000));
        }
        if uses == 0 || uses > MOST_USES || (uses > 1 && !name.is_empty()) {
            let text = format!("uses: from 1 to {MOST_USES}, and 1 for a token with a name");
            faults.push(text);
        }
        let id = entry_name("id", &id).map_err(|fault| faults.push(fault.message().to_owned()));
        let (Ok(id), true) = (id, faults.is_empty()) else {
            return Err(Status::invalid_argument(faults.join("; ")));
        };
        Ok(JoinToken {
            id,
            hash: Arc::from(secret_hash),
            role: Arc::from(role),
            name: (!name.is_empty()).then(|| Arc::from(name)),
            expires: WallMillis(self.now().0.saturating_add(ttl_ms)),
            uses_left: uses,
            uses: Vec::new(),
        })
    }
}

fn entry_name(field: &str, text: &str) -> Result<EntryName, Status> {
    EntryName::new(text).map_err(|fault| Status::invalid_argument(format!("{field}: {fault}")))
}

fn subject_name(text: &str) -> Result<EntryName, Status> {
    let subject = Subject::parse(text);
    let subject = subject.map_err(|fault| Status::invalid_argument(fault.to_string()))?;
    let name = Revocation::name_of(&subject.to_string());
    name.map_err(|fault| Status::invalid_argument(format!("subject: {fault}")))
}

fn shown(token: &JoinToken) -> wire::JoinToken {
    wire::JoinToken {
        id: token.id.to_string(),
        role: token.role.to_string(),
        name: token.name.as_deref().unwrap_or_default().to_owned(),
        expires_at: Some(timestamp(token.expires)),
        uses_left: token.uses_left,
        used_by: token.uses.iter().map(|one| one.name.to_string()).collect(),
    }
}
