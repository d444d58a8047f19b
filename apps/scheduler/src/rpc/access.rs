//! Who is calling, and what they hold.
//!
//! ```text
//!   certificate ── operator ──────────► admin of the whole cluster, made where the cluster was made
//!               ── user ──────────────► what its bindings say
//!               ── agent ─────────────► an agent, for its own node
//!               ── scheduler ─────────► whoever it passes a request on for
//!               ── gateway ───────────► the user it names; by itself, nobody
//!   authorization: Bearer pu1.… ──────► what the token says, whatever the connection
//!                  Bearer <login> ────► what the bindings of the user and their groups say
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use persys_access::{Caller, Decision, Holding, Role as Held, Rule, Who, judge};
use persys_identity::{ConnectInfo, Peer, Role, vouched};
use persys_model::entry::{Entries, Subject};
use persys_model::id::SubjectName;
use persys_oidc::Verifier;
use tonic::Status;
use tonic::codegen::http::Request;
use tonic::codegen::http::header::AUTHORIZATION;

use super::attempts::Attempts;
use super::on_behalf;
use super::secret;
use crate::clock::Clock;
use crate::handle::Handle;
use crate::links::grpc::Way;

/// Labels of nodes under this are set by admins alone.
const RESTRICTED: &str = "persys.io/restricted/";

/// Whoever got through the handshake, as far as the connection and the headers tell.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    /// As it is written down: role and name.
    pub(super) who: String,
    /// What they hold.
    pub(super) caller: Caller,
    /// Where they call from.
    pub(super) source: IpAddr,
    /// Another scheduler passed the request on.
    pub(super) passed_on: bool,
}

/// What it takes to know who is calling.
pub(crate) struct Doors {
    handle: Handle,
    clock: Arc<dyn Clock>,
    /// Whose logins are believed, if anybody's.
    logins: Option<Verifier>,
    /// By which certificates are judged that a gateway passes on.
    way: Way,
    attempts: Attempts,
}

impl std::fmt::Debug for Doors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Doors").finish_non_exhaustive()
    }
}

/// Who is calling, before any record is looked at.
enum Claim {
    /// What the connection proves will do.
    Peer(Peer),
    /// A user, by certificate.
    User(SubjectName),
    /// Whoever this token is for.
    Bearer(String),
}

impl Doors {
    pub(crate) fn new(
        handle: Handle,
        clock: Arc<dyn Clock>,
        logins: Option<Verifier>,
        way: Way,
    ) -> Arc<Self> {
        Arc::new(Self { handle, clock, logins, way, attempts: Attempts::default() })
    }

    /// Whom a certificate names that a gateway was shown.
    fn vouched(&self, chain: &str) -> Result<Peer, String> {
        let Way::Tls(credentials) = &self.way else {
            return Err("there are no certificates here".to_owned());
        };
        let now = UNIX_EPOCH + Duration::from_millis(self.clock.now().wall.0);
        vouched(credentials, chain, now).map_err(|fault| fault.to_string())
    }

    /// Settles who is calling. `None` when that has to be known from records, and another process
    /// leads, which knows them better.
    pub(super) async fn identify<B>(
        &self,
        request: &mut Request<B>,
    ) -> Result<(Option<Identity>, bool), Status> {
        let said_where = request.headers().contains_key(on_behalf::SOURCE);
        let gateway = |info: &ConnectInfo| info.peer.role == Role::Gateway;
        let by_gateway = request.extensions().get::<ConnectInfo>().is_some_and(gateway);
        let passed_on = on_behalf::settle(request, |chain| self.vouched(chain))?;
        let Some(ConnectInfo { peer, remote, .. }) = request.extensions().get::<ConnectInfo>()
        else {
            return Err(Status::unauthenticated("nobody knows who is calling"));
        };
        let source = remote.ip();
        let claim = claim(peer, request)?;
        if let Claim::Peer(peer) = &claim {
            let who = format!("{} {}", peer.role.as_str(), peer.name.as_str());
            let caller = caller_of(peer, request.uri().path());
            return Ok((Some(Identity { who, caller, source, passed_on }), passed_on));
        }
        if self.handle.standing.borrow().mode.is_none() {
            return Ok((None, passed_on));
        }
        let (user, caller) = match claim {
            Claim::Peer(_) => return Err(Status::internal("a peer is known already")),
            Claim::User(user) => {
                let caller = bound(&self.handle.entries(), &user, &[]);
                (user, caller)
            }
            Claim::Bearer(text) => {
                // One who sends bad tokens through a gateway must not have the gateway itself be
                // listened to no more.
                let known = (said_where || !by_gateway).then_some(source);
                self.bearer(&text, known).await?
            }
        };
        let who = format!("user {user}");
        Ok((Some(Identity { who, caller, source, passed_on }), passed_on))
    }

    async fn bearer(
        &self,
        text: &str,
        source: Option<IpAddr>,
    ) -> Result<(SubjectName, Caller), Status> {
        let now = self.clock.now();
        if source.is_some_and(|source| self.attempts.too_many(source, now.mono)) {
            let why = "too many bad tokens came from this address; try again in a minute";
            return Err(Status::resource_exhausted(why));
        }
        let found = self.look_up(text).await;
        if let (Err(_), Some(source)) = (&found, source) {
            self.attempts.bad(source, now.mono);
        }
        found.map_err(|why| Status::unauthenticated(format!("authorization: {why}")))
    }

    async fn look_up(&self, text: &str) -> Result<(SubjectName, Caller), String> {
        let entries = self.handle.entries();
        if !text.starts_with(secret::PREFIX) {
            let logins = self.logins.as_ref();
            let logins = logins.ok_or("is not a token of ours, and there are no logins here")?;
            let login = logins.verify(text).await.map_err(|why| why.to_string())?;
            let user = SubjectName::new(&login.user).map_err(|why| format!("the user {why}"))?;
            // A group whose name cannot be bound to anything gives nothing.
            let groups = login.groups.iter().filter_map(|name| SubjectName::new(name).ok());
            let caller = bound(&entries, &user, &groups.collect::<Vec<_>>());
            return Ok((user, caller));
        }
        let token = secret::find(text, &entries, self.clock.now().wall)?;
        let holding = Holding { role: token.role.into(), scope: token.scope.clone() };
        Ok((token.user.clone(), Caller { holdings: vec![holding] }))
    }
}

/// What a request claims. A token says who its user is, whoever holds the connection: with it an
/// operator can do less, and a gateway can speak for somebody.
fn claim<B>(peer: &Peer, request: &Request<B>) -> Result<Claim, Status> {
    if let Some(header) = request.headers().get(AUTHORIZATION) {
        let text = header.to_str().ok().and_then(|text| {
            let (scheme, token) = text.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
        });
        return match (text, peer.role) {
            (None, _) => Err(Status::unauthenticated("authorization: is not Bearer <token>")),
            (Some(_), Role::Agent | Role::Scheduler) => {
                let role = peer.role.as_str();
                Err(Status::permission_denied(format!("a token is of no use to the {role} role")))
            }
            (Some(text), Role::Operator | Role::User | Role::Gateway | Role::Metrics) => {
                Ok(Claim::Bearer(text))
            }
        };
    }
    match (peer.role, SubjectName::new(peer.name.as_str())) {
        (Role::User, Ok(name)) => Ok(Claim::User(name)),
        (Role::User, Err(fault)) => Err(Status::unauthenticated(format!("the user {fault}"))),
        _ => Ok(Claim::Peer(peer.clone())),
    }
}

/// What a part of the cluster holds, and whoever has the certificate made with the cluster.
fn caller_of(peer: &Peer, path: &str) -> Caller {
    // Without certificates there is only the operator `anonymous`, and agents are it too.
    let for_agents = persys_access::row(path).is_some_and(|(_, who, _)| *who == Who::Agents);
    if peer.certificate.is_none() && for_agents {
        return Caller::with(Held::Agent);
    }
    match peer.role {
        Role::Operator => Caller::with(Held::Admin),
        Role::Agent => Caller::with(Held::Agent),
        Role::Scheduler => Caller::with(Held::Scheduler),
        Role::Gateway => Caller::with(Held::Gateway),
        Role::User | Role::Metrics => Caller::default(),
    }
}

/// What the bindings of a user and of their groups say.
fn bound(entries: &Entries, user: &SubjectName, groups: &[SubjectName]) -> Caller {
    let fits = |subject: &Subject| match subject {
        Subject::User(name) => name == user,
        Subject::Group(name) => groups.contains(name),
    };
    let bindings = entries.bindings().filter(|binding| fits(&binding.subject));
    let holding = |binding: &persys_model::entry::Binding| Holding {
        role: binding.role.into(),
        scope: binding.scope.clone(),
    };
    Caller { holdings: bindings.map(holding).collect() }
}

/// The row of the method, or why the caller may not.
pub(super) fn admit(
    path: &str,
    identity: &Identity,
) -> Result<&'static persys_access::Row, (Decision, Status)> {
    let decision = judge(path, &identity.caller);
    match decision.rule {
        Rule::NoSuchMethod => Err((decision, Status::unimplemented("there is no such method"))),
        Rule::Row(row) if decision.allowed => Ok(row),
        Rule::Row((method, who, _)) => {
            let (name, rule) = (&identity.who, who.rule());
            let why = format!("the {name} may not call {method}: it is for {rule}");
            Err((decision, Status::permission_denied(why)))
        }
    }
}

/// What an agent says of its node decides where work goes: some labels are not its to give.
pub(super) fn own_labels(labels: &BTreeMap<Arc<str>, Arc<str>>) -> Result<(), Status> {
    match labels.keys().find(|key| key.starts_with(RESTRICTED)) {
        None => Ok(()),
        Some(key) => Err(Status::permission_denied(format!(
            "labels.{key}: an agent may not set it; an admin can: `persys node label`"
        ))),
    }
}

/// An agent speaks for its own node alone.
pub(super) fn own_node(peer: Option<&Peer>, node: &str) -> Result<(), Status> {
    match peer {
        None => Err(Status::unauthenticated("nobody knows who is calling")),
        Some(peer) if peer.certificate.is_none() || peer.name.as_str() == node => Ok(()),
        Some(peer) => {
            let name = peer.name.as_str();
            Err(Status::permission_denied(format!("the agent {name} may not speak for {node:?}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use persys_access::TABLE;
    use persys_identity::ClusterName;
    use prost::Message as _;
    use tonic::Code;

    use super::*;

    fn methods(package: &str) -> BTreeSet<String> {
        let all = prost_types::FileDescriptorSet::decode(persys_proto::DESCRIPTOR).unwrap();
        let mut methods = BTreeSet::new();
        for file in all.file.iter().filter(|file| file.package() == package) {
            for service in &file.service {
                for method in &service.method {
                    methods.insert(format!("/{package}.{}/{}", service.name(), method.name()));
                }
            }
        }
        methods
    }

    #[test]
    fn every_method_of_the_contract_has_exactly_one_row() {
        let mut contract = methods("persys.control.v1");
        assert!(contract.len() > 25, "the descriptor was not read");
        // Other services of the package are the agents' own, and the authority's.
        let mut ours = methods("persys.compute.v1");
        ours.retain(|method| !method.starts_with("/persys.compute.v1.Inside/"));
        ours.retain(|method| !method.starts_with("/persys.compute.v1.Enrol/"));
        assert!(ours.len() > 20, "{ours:?}");
        contract.extend(ours);
        let rows: Vec<_> = TABLE.iter().map(|(method, ..)| (*method).to_owned()).collect();
        let unique: BTreeSet<_> = rows.iter().cloned().collect();
        assert_eq!(rows.len(), unique.len(), "a row stands twice");
        let missing: Vec<_> = contract.difference(&unique).collect();
        assert!(missing.is_empty(), "no row for {missing:?}");
        let ours = unique.iter().filter(|row| row.starts_with("/persys."));
        let extra: Vec<_> = ours.filter(|row| !contract.contains(*row)).collect();
        assert!(extra.is_empty(), "rows for nothing: {extra:?}");
    }

    fn identity(caller: Caller) -> Identity {
        let source = IpAddr::from([127, 0, 0, 1]);
        Identity { who: "operator x".to_owned(), caller, source, passed_on: false }
    }

    #[test]
    fn what_has_no_row_is_refused() {
        let peer = Peer::anonymous(ClusterName::new("east").unwrap());
        let known = "/persys.control.v1.AgentControl/ListNodes";
        let of = |role| identity(caller_of(&Peer { role, ..peer.clone() }, known));
        let operator = of(Role::Operator);
        let (_, refused) = admit("/persys.control.v1.AgentControl/Format", &operator).unwrap_err();
        assert_eq!(refused.code(), Code::Unimplemented);
        for role in [Role::Scheduler, Role::Agent, Role::Gateway, Role::User, Role::Metrics] {
            let (decision, refused) = admit(known, &of(role)).unwrap_err();
            assert_eq!(refused.code(), Code::PermissionDenied);
            assert_eq!(decision.rule.word(), "viewers of the whole cluster");
        }
        assert!(admit(known, &operator).is_ok());
    }

    #[test]
    fn some_labels_are_not_for_agents() {
        let labels = |key: &str| BTreeMap::from([(Arc::from(key), Arc::from("yes"))]);
        assert!(own_labels(&labels("persys.io/zone")).is_ok());
        let refused = own_labels(&labels("persys.io/restricted/pci")).unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied);
    }
}
