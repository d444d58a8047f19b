//! `persys.compute.v1.Access`: namespaces, roles of people, and their tokens.

use std::collections::BTreeSet;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use persys_access::Holding;
use persys_cluster::input::Ask;
use persys_model::entry::vault::is_path;
use persys_model::entry::{
    Allowance, Binding, Entry, EntryKey, EntryKind, Namespace, Scope, Subject, UserRole, UserToken,
};
use persys_model::hex::hex;
use persys_model::id::{EntryName, NameError, NamespaceName, SubjectName};
use persys_model::time::WallMillis;
use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::access_server::Access;
use persys_proto::convert::time::timestamp;
use tonic::{Request, Response, Status};

use super::refusal::done;
use super::secret;
use crate::author;
use crate::clock::Clock;
use crate::handle::Handle;

/// How long a token may be good, in seconds: a minute to a year.
const TTL_SECONDS: std::ops::RangeInclusive<u64> = 60..=366 * 24 * 3600;
/// Most namespaces and paths in one record.
const MOST_NAMES: usize = 64;
/// Longest path.
const LONGEST_PATH: usize = 1024;

/// The service.
pub(crate) struct Rights {
    handle: Handle,
    clock: Arc<dyn Clock>,
}

impl Rights {
    pub(crate) fn new(handle: Handle, clock: Arc<dyn Clock>) -> Self {
        Self { handle, clock }
    }

    async fn keep(&self, entry: Entry) -> Result<(), Status> {
        done(self.handle.ask(Ask::Keep(Arc::new(entry))).await?).map(drop)
    }

    async fn forget(&self, kind: EntryKind, name: EntryName) -> Result<(), Status> {
        done(self.handle.ask(Ask::Forget(EntryKey { kind, name })).await?).map(drop)
    }
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Access for Rights {
    async fn who_am_i(&self, _request: Request<api::WhoAmIRequest>) -> Answer<api::WhoAmIResponse> {
        let asker = author::current();
        let held = |holding: &Holding| api::HeldRole {
            role: holding.role.word().to_owned(),
            scope: Some(scope_to_wire(&holding.scope)),
        };
        let roles = asker.caller.holdings.iter().map(held).collect();
        Ok(Response::new(api::WhoAmIResponse { who: asker.author.who.to_string(), roles }))
    }

    async fn list_namespaces(
        &self,
        _request: Request<api::ListNamespacesRequest>,
    ) -> Answer<api::ListNamespacesResponse> {
        let entries = self.handle.entries();
        let usual = NamespaceName::default_one();
        let mut namespaces = Vec::new();
        if entries.namespace(&usual).is_none() {
            let name = usual.to_string();
            namespaces.push(api::AccessNamespace { name, open: true, ..Default::default() });
        }
        namespaces.extend(entries.namespaces().map(namespace_to_wire));
        Ok(Response::new(api::ListNamespacesResponse { namespaces }))
    }

    async fn put_namespace(
        &self,
        request: Request<api::PutNamespaceRequest>,
    ) -> Answer<api::PutNamespaceResponse> {
        let api::PutNamespaceRequest { namespace, only_new, only_shadow } = request.into_inner();
        let said = namespace.ok_or_else(|| missing("namespace"))?;
        let shadow = said.shadow;
        let mut namespace = namespace_of(said)?;
        let entries = self.handle.entries();
        let before = entries.namespace(&namespace.name);
        // Those who do not know of shadow neither enter nor leave it.
        namespace.shadow = shadow.or(before.map(|before| before.shadow)).unwrap_or_default();
        if only_shadow {
            let Some(before) = before else { return Err(no_record(&namespace.name)) };
            namespace.allowance = before.allowance.clone();
        }
        if only_new && self.handle.entries().namespace(&namespace.name).is_some() {
            let why = format!("there is a namespace {} already", namespace.name);
            return Err(Status::already_exists(why));
        }
        self.keep(Entry::Namespace(namespace)).await?;
        Ok(Response::new(api::PutNamespaceResponse {}))
    }

    async fn delete_namespace(
        &self,
        request: Request<api::DeleteNamespaceRequest>,
    ) -> Answer<api::DeleteNamespaceResponse> {
        let name = NamespaceName::new(&request.get_ref().name).map_err(|why| bad("name", &why))?;
        self.forget(EntryKind::Namespace, name.entry()).await?;
        Ok(Response::new(api::DeleteNamespaceResponse {}))
    }

    async fn list_bindings(
        &self,
        _request: Request<api::ListBindingsRequest>,
    ) -> Answer<api::ListBindingsResponse> {
        let bindings = self.handle.entries().bindings().map(binding_to_wire).collect();
        Ok(Response::new(api::ListBindingsResponse { bindings }))
    }

    async fn put_binding(
        &self,
        request: Request<api::PutBindingRequest>,
    ) -> Answer<api::PutBindingResponse> {
        let binding = request.into_inner().binding.ok_or_else(|| missing("binding"))?;
        let binding = binding_of(binding)?;
        let name = binding.name.to_string();
        self.keep(Entry::Binding(binding)).await?;
        Ok(Response::new(api::PutBindingResponse { name }))
    }

    async fn delete_binding(
        &self,
        request: Request<api::DeleteBindingRequest>,
    ) -> Answer<api::DeleteBindingResponse> {
        let name = EntryName::new(&request.get_ref().name).map_err(|why| bad("name", &why))?;
        self.forget(EntryKind::Binding, name).await?;
        Ok(Response::new(api::DeleteBindingResponse {}))
    }

    async fn create_user_token(
        &self,
        request: Request<api::CreateUserTokenRequest>,
    ) -> Answer<api::CreateUserTokenResponse> {
        let api::CreateUserTokenRequest { user, role, scope, ttl_seconds } = request.into_inner();
        if !TTL_SECONDS.contains(&ttl_seconds) {
            let (least, most) = (TTL_SECONDS.start(), TTL_SECONDS.end());
            let why = format!("ttl_seconds: is not between {least} and {most}");
            return Err(Status::invalid_argument(why));
        }
        let now = self.clock.now().wall;
        let fresh = secret::draw().map_err(|fault| Status::internal(fault.to_string()))?;
        let expires_at = WallMillis(now.0.saturating_add(ttl_seconds.saturating_mul(1000)));
        let token = UserToken {
            id: fresh.id.clone(),
            user: SubjectName::new(&user).map_err(|why| bad("user", &why))?,
            hash: fresh.hash,
            role: role_of(&role)?,
            scope: scope_of(scope)?,
            created_at: now,
            expires_at,
        };
        self.keep(Entry::UserToken(token)).await?;
        Ok(Response::new(api::CreateUserTokenResponse {
            id: fresh.id.to_string(),
            token: fresh.text,
            expires_at: Some(timestamp(expires_at)),
        }))
    }

    async fn list_user_tokens(
        &self,
        _request: Request<api::ListUserTokensRequest>,
    ) -> Answer<api::ListUserTokensResponse> {
        let tokens = self.handle.entries().user_tokens().map(token_to_wire).collect();
        Ok(Response::new(api::ListUserTokensResponse { tokens }))
    }

    async fn revoke_user_token(
        &self,
        request: Request<api::RevokeUserTokenRequest>,
    ) -> Answer<api::RevokeUserTokenResponse> {
        let id = EntryName::new(&request.get_ref().id).map_err(|why| bad("id", &why))?;
        self.forget(EntryKind::UserToken, id).await?;
        Ok(Response::new(api::RevokeUserTokenResponse {}))
    }
}

fn missing(field: &str) -> Status {
    Status::invalid_argument(format!("{field}: is missing"))
}

fn bad(field: &str, fault: &NameError) -> Status {
    Status::invalid_argument(format!("{field}: {fault}"))
}

fn role_of(word: &str) -> Result<UserRole, Status> {
    let known: Vec<_> = UserRole::ALL.iter().map(|role| role.word()).collect();
    let why = || Status::invalid_argument(format!("role: is none of {}", known.join(", ")));
    UserRole::parse(word).ok_or_else(why)
}

/// Nowhere is refused, and so is everywhere and somewhere at once.
fn scope_of(scope: Option<api::RoleScope>) -> Result<Scope, Status> {
    let api::RoleScope { cluster, namespaces } = scope.ok_or_else(|| missing("scope"))?;
    if cluster != namespaces.is_empty() {
        let why = "scope: name namespaces, or the whole cluster";
        return Err(Status::invalid_argument(why));
    }
    if cluster {
        return Ok(Scope::Cluster);
    }
    if namespaces.len() > MOST_NAMES {
        return Err(Status::invalid_argument(format!("scope: names more than {MOST_NAMES}")));
    }
    let read =
        |text: &String| NamespaceName::new(text).map_err(|why| bad("scope.namespaces", &why));
    Ok(Scope::Namespaces(namespaces.iter().map(read).collect::<Result<_, _>>()?))
}

fn scope_to_wire(scope: &Scope) -> api::RoleScope {
    match scope {
        Scope::Cluster => api::RoleScope { cluster: true, namespaces: Vec::new() },
        Scope::Namespaces(names) => {
            let namespaces = names.iter().map(ToString::to_string).collect();
            api::RoleScope { cluster: false, namespaces }
        }
    }
}

fn namespace_of(said: api::AccessNamespace) -> Result<Namespace, Status> {
    let api::AccessNamespace { name, privileged, host_network, devices, .. } = said;
    let (host_paths, vault_paths) = (said.host_paths, said.vault_paths);
    for (field, paths) in [("host_paths", &host_paths), ("vault_paths", &vault_paths)] {
        if paths.len() > MOST_NAMES {
            return Err(Status::invalid_argument(format!("{field}: are more than {MOST_NAMES}")));
        }
    }
    if let Some(path) = vault_paths.iter().find(|path| !is_path(path)) {
        let why = format!(
            "vault_paths: {path:?} is not a path as Vault's policies write them, such as \
             secret/data/team-a, without * and slashes at its ends"
        );
        return Err(Status::invalid_argument(why));
    }
    let clean = |path: &String| {
        let part = |part: &str| !part.is_empty() && part != "." && part != "..";
        let mut parts = path.trim_end_matches('/').split('/');
        path.len() > 1
            && parts.next() == Some("")
            && parts.all(part)
            && path.len() <= LONGEST_PATH
            && !path.chars().any(char::is_control)
    };
    if let Some(path) = host_paths.iter().find(|path| !clean(path)) {
        let why = format!("host_paths: {path:?} is not an absolute path without . and ..");
        return Err(Status::invalid_argument(why));
    }
    let host_paths: BTreeSet<_> = host_paths.iter().map(|path| Arc::from(path.as_str())).collect();
    let vault_paths = vault_paths.iter().map(|path| Arc::from(path.as_str())).collect();
    Ok(Namespace {
        name: NamespaceName::new(&name).map_err(|why| bad("name", &why))?,
        allowance: Allowance { privileged, host_network, devices, host_paths, vault_paths },
        shadow: said.shadow.unwrap_or_default(),
    })
}

fn no_record(name: &NamespaceName) -> Status {
    let usual = *name == NamespaceName::default_one();
    // A record that nobody wrote would take away what the default namespace gives without one.
    let why = if usual {
        " has no record, and gives whatever can be given; write one with `persys namespace set default` \
         and what it is to allow, or use another namespace"
    } else {
        " is not there; make it with `persys namespace create`"
    };
    Status::not_found(format!("the namespace {name}{why}"))
}

fn namespace_to_wire(namespace: &Namespace) -> api::AccessNamespace {
    let Allowance { privileged, host_network, devices, host_paths, vault_paths } =
        &namespace.allowance;
    api::AccessNamespace {
        name: namespace.name.to_string(),
        privileged: *privileged,
        host_network: *host_network,
        devices: *devices,
        host_paths: host_paths.iter().map(ToString::to_string).collect(),
        open: false,
        vault_paths: vault_paths.iter().map(ToString::to_string).collect(),
        shadow: Some(namespace.shadow),
    }
}

fn binding_of(said: api::RoleBinding) -> Result<Binding, Status> {
    let api::RoleBinding { name, user, group, role, scope } = said;
    let subject = match (user.as_str(), group.as_str()) {
        (user, "") => Subject::User(SubjectName::new(user).map_err(|why| bad("user", &why))?),
        ("", group) => Subject::Group(SubjectName::new(group).map_err(|why| bad("group", &why))?),
        (_, _) => return Err(Status::invalid_argument("name a user or a group, not both")),
    };
    let role = role_of(&role)?;
    let name = match name.as_str() {
        "" => usual_name(&subject, role),
        name => name.to_owned(),
    };
    let name = EntryName::new(&name).map_err(|why| bad("name", &why))?;
    Ok(Binding { name, subject, role, scope: scope_of(scope)? })
}

/// A name that no other subject gets: whatever cannot stand in a name is told apart by a hash.
fn usual_name(subject: &Subject, role: UserRole) -> String {
    let hash = digest(&SHA256, subject.to_string().as_bytes());
    let hash = hex(hash.as_ref().get(..6).unwrap_or_default());
    format!("{}-{hash}", role.word())
}

fn binding_to_wire(binding: &Binding) -> api::RoleBinding {
    let (user, group) = match &binding.subject {
        Subject::User(name) => (name.to_string(), String::new()),
        Subject::Group(name) => (String::new(), name.to_string()),
    };
    api::RoleBinding {
        name: binding.name.to_string(),
        user,
        group,
        role: binding.role.word().to_owned(),
        scope: Some(scope_to_wire(&binding.scope)),
    }
}

fn token_to_wire(token: &UserToken) -> api::UserTokenView {
    api::UserTokenView {
        id: token.id.to_string(),
        user: token.user.to_string(),
        role: token.role.word().to_owned(),
        scope: Some(scope_to_wire(&token.scope)),
        created_at: Some(timestamp(token.created_at)),
        expires_at: Some(timestamp(token.expires_at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_somewhere_or_everywhere_and_never_both() {
        let scope = |cluster, names: &[&str]| {
            let namespaces = names.iter().map(|name| (*name).to_owned()).collect();
            scope_of(Some(api::RoleScope { cluster, namespaces }))
        };
        assert_eq!(scope(true, &[]).unwrap(), Scope::Cluster);
        assert!(scope(false, &["web"]).unwrap().covers(&NamespaceName::fixed("web")));
        assert!(scope(false, &[]).is_err() && scope(true, &["web"]).is_err());
        assert!(scope(false, &["*"]).is_err() && scope_of(None).is_err());
    }

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        let with = |path: &str| {
            let host_paths = vec![path.to_owned()];
            let name = "web".to_owned();
            namespace_of(api::AccessNamespace { name, host_paths, ..Default::default() })
        };
        assert!(with("/srv/data").is_ok() && with("/srv/data/").is_ok());
        for path in ["", "/", "srv", "/srv/../etc", "/srv//x", "/./srv", "/a\nb"] {
            assert!(with(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn bindings_of_different_people_never_share_a_usual_name() {
        let user = |text: &str| Subject::User(SubjectName::new(text).unwrap());
        let of = |subject: &Subject| usual_name(subject, UserRole::Viewer);
        assert_ne!(of(&user("ada@x")), of(&user("ada-x")));
        assert_ne!(of(&user("ada")), of(&Subject::Group(SubjectName::new("ada").unwrap())));
        assert!(EntryName::new(&of(&user("ada@x"))).is_ok());
    }
}
