//! What happens, as it happens: server-sent events that go on where a client was.

mod follow;
mod hub;

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{RawPathParams, Request, State as Shared};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::Stream;
use tokio::time::timeout;

pub(crate) use self::follow::{Filter, Follower, Told};
pub use self::hub::Hubs;
use self::hub::State;
use crate::gateway::Gateway;
use crate::problem::Problem;
use crate::rest::{Target, said};
use crate::who::Who;

/// How often a quiet stream shows that it is there.
const QUIET: Duration = Duration::from_secs(15);
/// How long a client waits for the stream to begin before it is told that it does not.
const BEGIN: Duration = Duration::from_secs(6);

/// `GET /events/watch`, as existing clients know it: every message is an `event`.
pub(crate) async fn classic(
    Shared(gateway): Shared<Gateway>,
    path: RawPathParams,
    request: Request,
) -> Response {
    serve(&gateway, &path, request, Manner::Classic).await.unwrap_or_else(Problem::into_response)
}

/// `GET /v1/events/stream`: the same, and `state` tells when the scheduler is lost and found again.
pub(crate) async fn stream(
    Shared(gateway): Shared<Gateway>,
    path: RawPathParams,
    request: Request,
) -> Response {
    serve(&gateway, &path, request, Manner::New).await.unwrap_or_else(Problem::into_response)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Classic,
    New,
}

async fn serve(
    gateway: &Gateway,
    path: &RawPathParams,
    request: Request,
    manner: Manner,
) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    let said = said(path, parts.uri.query())?;
    let who = parts.extensions.get::<Who>().cloned().unwrap_or(Who(None));
    let target = Target::of(gateway, &parts, &said, who.known()?.clone())?;
    let Ok(permit) = std::sync::Arc::clone(&gateway.streams).try_acquire_owned() else {
        return Err(Problem::too_many("too many streams are open already"));
    };
    let text = |name: &str| said.parameter(name).unwrap_or_default().to_owned();
    let filter =
        Filter { kind: text("type"), workload: text("workload_id"), node: text("node_id") };
    let last = parts.headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let last = last.or_else(|| said.parameter("after_id")).unwrap_or_default().to_owned();
    if !last.is_empty() && !last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Problem::bad("Last-Event-ID: is not the id of an event, which is a number"));
    }
    let hub = gateway.hubs.follow(&target.cluster, &target.caller, &gateway.rights);
    let mut state = hub.state();
    let begun = timeout(BEGIN, state.wait_for(|now| !matches!(now, State::Connecting))).await;
    let begun = begun.ok().and_then(Result::ok).map(|now| now.clone());
    match (begun, manner) {
        (Some(State::Refused(status)), _) => return Err(Problem::from(*status)),
        (Some(State::Lost(why)), Manner::Classic) => return Err(Problem::unavailable(why)),
        (None, Manner::Classic) => {
            return Err(Problem::unavailable("the scheduler does not answer"));
        }
        _ => {}
    }
    let follower = Follower::new(hub, target, filter, last);
    let messages = messages(follower, manner, (gateway.clone(), permit));
    let alive = KeepAlive::new().interval(QUIET).text("alive");
    Ok(Sse::new(messages).keep_alive(alive).into_response())
}

/// What a client is sent; `held` is given back when it goes away.
fn messages<H: Send + 'static>(
    follower: Follower,
    manner: Manner,
    held: H,
) -> impl Stream<Item = Result<Event, Infallible>> + Send {
    futures::stream::unfold((follower, held), move |(mut follower, held)| async move {
        loop {
            let message = match follower.next().await {
                Told::Event(shown) => {
                    Event::default().event("event").id(&shown.id).data(&shown.json)
                }
                Told::State { .. } if manner == Manner::Classic => continue,
                Told::State { connected, why } => {
                    let body = serde_json::json!({"connected": connected, "why": why});
                    Event::default().event("state").data(body.to_string())
                }
                Told::End => return None,
            };
            return Some((Ok(message), (follower, held)));
        }
    })
}
