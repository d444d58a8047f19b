//! Calls of any method by its name, and callers of any kind.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{BufMut as _, BytesMut};
use http_body_util::Full;
use persys_cluster::input::Ask;
use persys_e2e::stack::Stack;
use persys_identity::Role;
use persys_model::entry::{
    Binding, Entry, EntryKey, EntryKind, Namespace, Revocation, Scope, Subject, UserRole, UserToken,
};
use persys_model::id::{EntryName, NamespaceName, SubjectName};
use persys_model::time::WallMillis;
use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::access_client::AccessClient;
use tonic::body::Body;
use tonic::codegen::http::{Request, header};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tower_service::Service as _;

/// The namespace of those who have a role in one.
pub(crate) const WEB: &str = "web";

/// How soon nobody listens any more to whoever was revoked.
pub(crate) const PROMISED: Duration = Duration::from_secs(5);

/// Somebody who calls.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) channel: Channel,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Caller {
    pub(crate) async fn with(stack: &Stack, role: Role, name: &str) -> Self {
        Self { channel: stack.channel(role, name).await, headers: Vec::new() }
    }

    pub(crate) fn bearer(mut self, token: &str) -> Self {
        self.headers.push(("authorization", format!("Bearer {token}")));
        self
    }

    pub(crate) fn behalf(mut self, whom: &str) -> Self {
        self.headers.push(("persys-on-behalf-of", whom.to_owned()));
        self
    }

    /// Asks until it is refused, as it is once a revocation is known.
    pub(crate) async fn until_refused(&self, method: &str) {
        let begun = Instant::now();
        while self.call(method, &[]).await.is_ok() {
            assert!(begun.elapsed() < PROMISED, "still served");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// What became of a call: nothing wrong as far as it began.
    pub(crate) async fn call(&self, method: &str, message: &[u8]) -> Result<(), Status> {
        let mut frame = BytesMut::new();
        frame.put_u8(0);
        frame.put_u32(u32::try_from(message.len()).unwrap());
        frame.put_slice(message);
        let mut request = Request::post(format!("http://scheduler/{method}"))
            .header(header::CONTENT_TYPE, "application/grpc")
            .header(header::TE, "trailers");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let body = Body::new(Full::new(frame.freeze()));
        let request = request.body(body).unwrap();
        let mut channel = self.channel.clone();
        poll_fn(|context| channel.poll_ready(context)).await.map_err(|why| unreached(&why))?;
        let answer = tokio::time::timeout(Duration::from_secs(20), channel.call(request)).await;
        let response = answer.unwrap().map_err(|why| unreached(&why))?;
        match Status::from_header_map(response.headers()) {
            Some(status) if status.code() != Code::Ok => Err(status),
            Some(_) | None => Ok(()),
        }
    }
}

fn unreached(why: &tonic::transport::Error) -> Status {
    Status::unavailable(why.to_string())
}

/// Whether a call got past the guard: whatever a method makes of an empty message is its business.
pub(crate) fn admitted(answer: &Result<(), Status>) -> bool {
    let refused = [Code::PermissionDenied, Code::Unauthenticated, Code::Unimplemented];
    match answer {
        Ok(()) => true,
        // What the guard does not know it says so; what a service does not have is past the guard.
        Err(status) if status.code() == Code::Unimplemented => {
            status.message() != "there is no such method"
        }
        // Who tried too many bad tokens is not listened to.
        Err(status) if status.message().starts_with("too many bad tokens") => false,
        Err(status) => !refused.contains(&status.code()) && status.code() != Code::Unavailable,
    }
}

pub(crate) async fn keep(stack: &Stack, entry: Entry) {
    stack.scheduler.handle.ask(Ask::Keep(Arc::new(entry))).await.unwrap();
}

/// Has somebody, or one certificate, be believed no longer.
pub(crate) async fn deny(stack: &Stack, subject: &str) {
    let name = Revocation::name_of(subject).unwrap();
    let revocation = Revocation { name, since: WallMillis(1), reason: "a test".into() };
    keep(stack, Entry::Revocation(revocation)).await;
}

pub(crate) async fn namespace(stack: &Stack, name: &'static str) {
    keep(stack, Entry::Namespace(Namespace::new(NamespaceName::fixed(name)))).await;
}

pub(crate) fn scope(namespaces: &[&'static str]) -> Scope {
    if namespaces.is_empty() {
        return Scope::Cluster;
    }
    Scope::Namespaces(namespaces.iter().map(|name| NamespaceName::fixed(name)).collect())
}

pub(crate) async fn bind(stack: &Stack, user: &str, role: UserRole, namespaces: &[&'static str]) {
    let subject = Subject::User(SubjectName::new(user).unwrap());
    let name = EntryName::new(&format!("{user}-{}", role.word())).unwrap();
    keep(stack, Entry::Binding(Binding { name, subject, role, scope: scope(namespaces) })).await;
}

/// A token, made as an admin makes one.
pub(crate) async fn token(
    stack: &Stack,
    role: UserRole,
    namespaces: &[&'static str],
) -> (EntryName, String) {
    let mut admin = AccessClient::new(stack.channel(Role::Operator, "alice").await);
    let namespaces: Vec<_> = namespaces.iter().map(|name| (*name).to_owned()).collect();
    let request = api::CreateUserTokenRequest {
        user: "tool".to_owned(),
        role: role.word().to_owned(),
        scope: Some(api::RoleScope { cluster: namespaces.is_empty(), namespaces }),
        ttl_seconds: 3600,
    };
    let made = admin.create_user_token(request).await.unwrap().into_inner();
    (EntryName::new(&made.id).unwrap(), made.token)
}

/// Has a token expire now.
pub(crate) async fn expire(stack: &Stack, id: &EntryName) {
    let entries = stack.scheduler.handle.entries();
    let token = entries.user_token(id).unwrap().clone();
    keep(stack, Entry::UserToken(UserToken { expires_at: WallMillis(1), ..token })).await;
}

pub(crate) async fn revoke(stack: &Stack, id: &EntryName) {
    let key = EntryKey { kind: EntryKind::UserToken, name: id.clone() };
    stack.scheduler.handle.ask(Ask::Forget(key)).await.unwrap();
}
