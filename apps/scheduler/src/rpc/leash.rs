//! Answers that go on, and end when whoever gets them may no longer have them.
//!
//! A request is judged when it comes, and what it asks for may go on for months: events, output, a
//! terminal. So it is judged again every few seconds, as it came; a token that was revoked or has
//! expired, a binding that was taken away, a user whose certificate was revoked: the answer ends with
//! the refusal that the same request would meet now.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body as Answer, Frame};
use persys_identity::ConnectInfo;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::codegen::http::{HeaderMap, Request};

/// How often a request that is still being answered is judged.
pub(super) const AGAIN: Duration = Duration::from_secs(2);

/// The methods whose answers go on. Streams of agents are not among them: an agent is known by its
/// certificate alone, and a connection ends when its certificate is revoked.
pub(super) const STREAMS: [&str; 5] = [
    "/persys.control.v1.AgentControl/WatchEvents",
    "/persys.compute.v1.Compute/Logs",
    "/persys.compute.v1.Compute/Exec",
    "/persys.compute.v1.Compute/Console",
    "/persys.compute.v1.Compute/Snapshot",
];

/// The stream of an agent, which goes on as well.
const OF_AGENTS: &str = "/persys.control.v1.AgentControl/ControlStream";

/// Answers of services that know nothing of the end of this process.
const OF_OTHERS: [&str; 3] = [
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// Whether an answer that is given here goes on when the process stops, unless somebody ends it.
pub(super) fn never_ends(method: &str) -> bool {
    OF_OTHERS.contains(&method)
}

/// Whether an answer that another scheduler gives goes on when this process stops.
pub(super) fn goes_on(method: &str) -> bool {
    STREAMS.contains(&method) || method == OF_AGENTS
}

/// What a request is judged by, where its answer goes on.
pub(super) fn kept(request: &Request<Body>) -> Option<Request<()>> {
    if !STREAMS.contains(&request.uri().path()) {
        return None;
    }
    let mut kept = Request::new(());
    *kept.uri_mut() = request.uri().clone();
    kept.headers_mut().clone_from(request.headers());
    if let Some(info) = request.extensions().get::<ConnectInfo>() {
        kept.extensions_mut().insert(info.clone());
    }
    Some(kept)
}

/// An answer, and what ends it.
pub(super) struct Leashed {
    inner: Body,
    lost: Pin<Box<dyn Future<Output = Status> + Send>>,
    is_over: bool,
}

impl Leashed {
    /// Ends `inner` with whatever `lost` comes to.
    pub(super) fn new(inner: Body, lost: impl Future<Output = Status> + Send + 'static) -> Self {
        Self { inner, lost: Box::pin(lost), is_over: false }
    }
}

impl Answer for Leashed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let leashed = self.get_mut();
        if leashed.is_over {
            return Poll::Ready(None);
        }
        if let Poll::Ready(refusal) = leashed.lost.as_mut().poll(context) {
            leashed.is_over = true;
            // Whatever was at work for it ends too.
            leashed.inner = Body::empty();
            let mut trailers = HeaderMap::new();
            let told = refusal.add_header(&mut trailers);
            return Poll::Ready(Some(told.map(|()| Frame::trailers(trailers))));
        }
        Pin::new(&mut leashed.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.inner.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prost::Message as _;

    use super::*;

    #[test]
    fn every_answer_that_goes_on_is_judged_again() {
        let all = prost_types::FileDescriptorSet::decode(persys_proto::DESCRIPTOR).unwrap();
        let mut going_on = BTreeSet::new();
        for file in &all.file {
            for service in &file.service {
                let streams = service.method.iter().filter(|method| method.server_streaming());
                let package = file.package();
                let name = |method: &str| format!("/{package}.{}/{method}", service.name());
                going_on.extend(streams.map(|method| name(method.name())));
            }
        }
        going_on.retain(|method| persys_access::row(method).is_some());
        assert!(going_on.iter().all(|method| goes_on(method)), "{going_on:?}");
        // That of an agent ends with its connection.
        assert!(going_on.remove(OF_AGENTS));
        assert_eq!(going_on, STREAMS.iter().map(|method| (*method).to_owned()).collect());
    }
}
