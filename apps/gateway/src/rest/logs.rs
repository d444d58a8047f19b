//! What a workload printed, as a stream of bytes, or as server-sent events for pages.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{RawPathParams, Request, State};
use axum::http::header;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::StreamExt as _;
use persys_proto::compute::v1::compute_client::ComputeClient;
use persys_proto::compute::v1::{LogChunk, LogsRequest};
use tokio::time::timeout;
use tonic::Request as Question;

use super::message::Said;
use super::{Target, said};
use crate::clusters::LARGEST_ANSWER;
use crate::gateway::Gateway;
use crate::problem::Problem;
use crate::who::Who;

/// How long a stream may take to begin.
const BEGIN: Duration = Duration::from_secs(10);
/// How often a quiet stream shows that it is there.
const QUIET: Duration = Duration::from_secs(15);

/// `GET /v1/workloads/{id}/logs`.
pub(super) async fn follow(
    State(gateway): State<Gateway>,
    path: RawPathParams,
    request: Request,
) -> Response {
    serve(&gateway, &path, request).await.unwrap_or_else(Problem::into_response)
}

fn asked(said: &Said) -> Result<LogsRequest, Problem> {
    said.only(&["tail", "since", "follow", "service"], &[])?;
    let since =
        match said.parameter("since").filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => Some(text.parse().ok().ok_or_else(|| {
                Problem::bad("since: is not a moment such as 2026-01-31T12:00:00Z")
            })?),
        };
    Ok(LogsRequest {
        workload_id: said.part("id").unwrap_or_default().to_owned(),
        tail: said.number("tail")?.unwrap_or_default(),
        since,
        follow: said.flag("follow")?.unwrap_or_default(),
        service: said.parameter("service").unwrap_or_default().to_owned(),
    })
}

async fn serve(
    gateway: &Gateway,
    path: &RawPathParams,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    let said = said(path, parts.uri.query())?;
    let who = parts.extensions.get::<Who>().cloned().unwrap_or(Who(None));
    let target = Target::of(gateway, &parts, &said, who.known()?.clone())?;
    let mut question = Question::new(asked(&said)?);
    target.caller.attach(target.source, question.metadata_mut());
    let Ok(permit) = std::sync::Arc::clone(&gateway.streams).try_acquire_owned() else {
        return Err(Problem::too_many("too many streams are open already"));
    };
    let (_, channel) = target.cluster.channel(&target.keys)?;
    let mut client = ComputeClient::new(channel).max_decoding_message_size(LARGEST_ANSWER);
    let Ok(begun) = timeout(BEGIN, client.logs(question)).await else {
        return Err(Problem::unavailable("the scheduler did not answer in time"));
    };
    let mut chunks = begun?.into_inner();
    // What is refused is refused with its first message: the status is still ours to choose.
    let first = chunks.message().await?;
    let rest = chunks.map(|chunk| chunk.map_err(Problem::from));
    let watched = gateway.rights.watch(&target.cluster, &target.caller);
    let whole = futures::stream::iter(first.map(Ok)).chain(rest).boxed();
    let all = futures::stream::unfold(Some((whole, watched)), move |open| {
        let _held = &permit;
        async move {
            let (mut whole, watched) = open?;
            tokio::select! {
                chunk = whole.next() => Some((chunk?, Some((whole, watched)))),
                // What was taken away ends here, and says so.
                why = watched.gone() => Some((Err(Problem::from(why)), None)),
            }
        }
    });
    let wants_events = parts.headers.get(header::ACCEPT).and_then(|text| text.to_str().ok());
    if wants_events.is_some_and(|text| text.contains("text/event-stream")) {
        let events = all.map(|chunk| Ok::<_, std::convert::Infallible>(event(chunk)));
        let alive = KeepAlive::new().interval(QUIET).text("alive");
        return Ok(Sse::new(events).keep_alive(alive).into_response());
    }
    let bytes = all.map(|chunk| match chunk {
        Ok(chunk) => Ok(Bytes::from(chunk.data)),
        Err(problem) => Err(std::io::Error::other(problem.sentence().to_owned())),
    });
    let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    Ok((kind, Body::from_stream(bytes)).into_response())
}

/// A piece of output as pages read it: text that is not text is shown as far as it goes.
fn event(chunk: Result<LogChunk, Problem>) -> Event {
    match chunk {
        Ok(LogChunk { stream, data }) => {
            let text = String::from_utf8_lossy(&data);
            let body = serde_json::json!({"stream": stream, "text": text});
            Event::default().event("output").data(body.to_string())
        }
        Err(problem) => Event::default().event("problem").data(problem.to_json().to_string()),
    }
}
