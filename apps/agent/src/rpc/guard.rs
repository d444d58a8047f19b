//! Stands before everything that an agent serves, and lets through whom the table allows.
//!
//! An agent's certificate is signed by the same authority as a scheduler's, and gives no right over
//! other agents. What has no row is refused.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use futures::future::Either;
use persys_access::{Role as Held, at_agent};
use persys_identity::{ConnectInfo, Role};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tower_service::Service;

/// A service behind the table.
#[derive(Debug, Clone)]
pub struct Guarded<S> {
    inner: S,
    alone: bool,
}

impl<S> Guarded<S> {
    /// Puts the table before a service; `alone` says that the agent has no schedulers.
    pub fn new(inner: S, alone: bool) -> Self {
        Self { inner, alone }
    }
}

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, Ready<Result<Response<Body>, Infallible>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match judge(&request, self.alone) {
            Ok(()) => Either::Left(self.inner.call(request)),
            Err(refusal) => Either::Right(ready(Ok(refusal.into_http()))),
        }
    }
}

fn judge<B>(request: &Request<B>, alone: bool) -> Result<(), Status> {
    let method = request.uri().path();
    let Some(rule) = at_agent(method) else {
        return Err(Status::unimplemented("there is no such method"));
    };
    let Some(ConnectInfo { peer, .. }) = request.extensions().get::<ConnectInfo>() else {
        return Err(Status::unauthenticated("who asks is not known"));
    };
    let held = match peer.role {
        // Without certificates there is only the operator `anonymous`, and schedulers are it too.
        Role::Operator if peer.certificate.is_none() => Some(Held::Scheduler),
        Role::Scheduler => Some(Held::Scheduler),
        Role::Operator => Some(Held::Admin),
        Role::Agent => Some(Held::Agent),
        Role::Gateway => Some(Held::Gateway),
        Role::User | Role::Metrics => None,
    };
    let may = held.map_or(rule == persys_access::AtAgent::Health, |held| rule.allows(held, alone));
    if may {
        return Ok(());
    }
    let who = format!("{} {}", peer.role, peer.name);
    tracing::info!(who, method, "refused");
    let why = format!("the {who} may not call {method}: it is for {}", rule.rule());
    Err(Status::permission_denied(why))
}

#[cfg(test)]
mod tests {
    use persys_identity::{ClusterName, Peer};

    use super::*;

    #[test]
    fn without_certificates_everybody_is_the_scheduler_and_without_a_row_nobody_is() {
        let ask = |method: &str, peer: Option<Peer>| {
            let mut request = Request::new(());
            *request.uri_mut() = format!("http://agent{method}").parse().unwrap();
            if let Some(peer) = peer {
                let remote = "127.0.0.1:1".parse().unwrap();
                request.extensions_mut().insert(ConnectInfo { peer, remote });
            }
            judge(&request, false).map_err(|refusal| refusal.code())
        };
        let anonymous = || Peer::anonymous(ClusterName::new("test").unwrap());
        let apply = "/persys.agent.v1.AgentService/ApplyWorkload";
        assert_eq!(ask(apply, Some(anonymous())), Ok(()));
        assert_eq!(ask(apply, None), Err(tonic::Code::Unauthenticated));
        assert_eq!(ask("/x/Y", Some(anonymous())), Err(tonic::Code::Unimplemented));
        let stranger = Peer::stranger(ClusterName::new("test").unwrap());
        assert_eq!(ask(apply, Some(stranger)), Err(tonic::Code::PermissionDenied));
    }
}
