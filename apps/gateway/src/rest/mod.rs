//! The interface for programs.
//!
//! | question | file |
//! |---|---|
//! | which routes there are | `table.rs`, `row.rs` |
//! | what a request means, what an answer shows | `message.rs` |
//! | requests that may come twice | `keys.rs` |
//! | questions of many at a time | `question.rs`, `shared/` |
//! | the same answer again | `shown.rs` |
//! | which cluster is meant | `target.rs` |
//! | clusters, all of them at once | `clusters.rs` |
//! | files that people write | `manifest.rs` |
//! | how much the log of the gateway tells | `levels.rs` |
//! | output, commands and consoles of workloads | `logs.rs`, `terminal.rs` |

mod clusters;
pub mod keys;
mod levels;
mod logs;
mod manifest;
pub mod message;
pub mod question;
pub mod row;
pub mod shared;
pub mod shown;
pub mod table;
mod target;
mod terminal;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, get, on, post};
use bytes::Bytes;

use self::keys::{Given, Met, fingerprint};
use self::message::Said;
use self::question::Question;
use self::row::Row;
use self::shared::Answer;
use self::shown::Body as Shown;
pub use self::target::Target;
use crate::gateway::Gateway;
use crate::problem::Problem;
use crate::who::Who;
use crate::{body, text};

/// The header of a request that may come twice.
const KEY: &str = "idempotency-key";
/// The header in which a caller says why.
const REASON: &str = "x-persys-reason";

/// All routes for programs.
pub(crate) fn router() -> Router<Gateway> {
    let mut router = Router::new();
    for row in table::all() {
        let filter = MethodFilter::try_from(row.verb.method()).unwrap_or(MethodFilter::GET);
        for path in [row.path.to_owned(), row.in_cluster()] {
            let handler = move |gateway: State<Gateway>, path: RawPathParams, request: Request| {
                answer(row, gateway, path, request)
            };
            router = router.route(&path, on(filter, handler));
        }
    }
    for prefix in ["", "/clusters/{cluster_id}"] {
        let at = |path: &str| format!("{prefix}{path}");
        router = router.route(&at("/events/watch"), get(crate::events::classic));
    }
    for prefix in ["/v1", "/v1/clusters/{cluster_id}"] {
        let at = |path: &str| format!("{prefix}{path}");
        router = router
            .route(&at("/events/stream"), get(crate::events::stream))
            .route(&at("/workloads/{id}/logs"), get(logs::follow))
            .route(&at("/workloads/{id}/exec"), get(terminal::exec))
            .route(&at("/workloads/{id}/console"), get(terminal::console));
    }
    router
        .route("/clusters", get(clusters::list))
        .route("/clusters/{cluster_id}", get(clusters::one))
        .route("/v1/clusters", get(clusters::list))
        .route("/v1/clusters/{cluster_id}", get(clusters::one))
        .route("/v1/manifests", post(manifest::read))
        .route("/v1/overview", get(clusters::overview))
        .route("/v1/gateway/log-levels", get(levels::show).post(levels::change))
}

/// What a request says beside its body.
pub(crate) fn said(path: &RawPathParams, query: Option<&str>) -> Result<Said, Problem> {
    let query = text::query(query.unwrap_or_default())
        .ok_or_else(|| Problem::bad("the query is not one of plain parameters"))?;
    let path = path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Ok(Said { path, query })
}

async fn answer(
    row: &'static Row,
    State(gateway): State<Gateway>,
    path: RawPathParams,
    request: Request,
) -> Response {
    match answered(row, &gateway, &path, request).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

async fn answered(
    row: &'static Row,
    gateway: &Gateway,
    path: &RawPathParams,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, content) = request.into_parts();
    let said = said(path, parts.uri.query())?;
    let who = parts.extensions.get::<Who>().cloned().unwrap_or(Who(None));
    let target = Arc::new(Target::of(gateway, &parts, &said, who.known()?.clone())?);
    let (headers, limits) = (&parts.headers, &gateway.limits);
    let bytes = if row.body || !row.verb.is_safe() {
        body::read(headers, content, limits.body, limits.body_within).await?
    } else {
        Bytes::new()
    };
    if !row.body && !bytes.is_empty() {
        return Err(Problem::bad("there is nothing to say in a body here"));
    }
    let value = body::json(headers, &bytes)?;
    let message = message::read(row, &said, value)?;
    let at = parts.uri.path_and_query().map_or("/", |at| at.as_str());
    let asked = Asked { row, gateway, said, at, target, message: message.into(), headers };
    let key = headers.get(KEY).filter(|_| !row.verb.is_safe());
    let Some(key) = key else { return asked.answer().await };
    let key = key.to_str().unwrap_or_default();
    let cluster = asked.target.cluster.id.as_bytes();
    let request = fingerprint(&[row.path.as_bytes(), cluster, &asked.message]);
    match gateway.answers.meet(asked.target.caller.key(), key, &request, Instant::now())? {
        Met::Again(given) => Ok(repeated(given)),
        Met::New(under_way) => {
            let (status, body) = match asked.shown().await {
                Ok(body) => (StatusCode::OK, body),
                Err(problem) => (problem.status(), problem.to_json().to_string()),
            };
            let given = Given { status: status.as_u16(), body };
            under_way.answered(given.clone());
            Ok(given_response(given))
        }
    }
}

fn repeated(given: Given) -> Response {
    let mut response = given_response(given);
    let yes = HeaderValue::from_static("true");
    response.headers_mut().insert("idempotency-replayed", yes);
    response
}

fn given_response(given: Given) -> Response {
    let status = StatusCode::from_u16(given.status).unwrap_or(StatusCode::OK);
    let kind = if status.is_success() { "application/json" } else { "application/problem+json" };
    (status, [(header::CONTENT_TYPE, kind)], given.body).into_response()
}

/// A request that is understood.
struct Asked<'a> {
    row: &'static Row,
    gateway: &'a Gateway,
    said: Said,
    /// The address, as it was typed.
    at: &'a str,
    target: Arc<Target>,
    message: Bytes,
    headers: &'a HeaderMap,
}

impl Asked<'_> {
    async fn ask(&self) -> Result<Answer, Problem> {
        let (rpc, message) = (self.row.rpc, self.message.clone());
        let reason = self.headers.get(REASON).and_then(|text| text.to_str().ok());
        if !self.row.verb.is_safe() {
            return Ok(question::ask(&self.target, rpc, message, reason, false).await?);
        }
        let question = Question::new(&self.target, rpc, reason);
        let key = question.key(&message);
        Ok(self.gateway.shared.ask(key, message, question).await?)
    }

    async fn shown(&self) -> Result<String, Problem> {
        let answer = self.ask().await?;
        Ok(message::write(self.row, &self.said, &answer.message)?.to_string())
    }

    async fn answer(&self) -> Result<Response, Problem> {
        let Answer { message, age } = self.ask().await?;
        let make = || {
            let text = message::write(self.row, &self.said, &message)?.to_string();
            let tag = tag(&text);
            Ok::<_, Problem>(Shown { text: text.into(), tag })
        };
        // What is told once is kept by nobody.
        let body = if self.row.verb.is_safe() {
            self.gateway.shown.of(self.at, &message, make)?
        } else {
            make()?
        };
        let unchanged = self.row.verb.is_safe() && matches(self.headers, &body.tag);
        let mut response = if unchanged {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            ([(header::CONTENT_TYPE, "application/json")], Body::from(body.text)).into_response()
        };
        let headers = response.headers_mut();
        if self.row.verb.is_safe() {
            headers.insert(header::ETAG, body.tag);
            // Kept by the client, and asked about every time.
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        }
        if let Some(age) = age {
            headers.insert("x-persys-copy-age-ms", HeaderValue::from(age));
        }
        Ok(response)
    }
}

/// What changes when the body does.
fn tag(body: &str) -> HeaderValue {
    let print = fingerprint(&[body.as_bytes()]);
    let tag = format!("\"{}\"", print.get(..32).unwrap_or_default());
    // Digits and quotes are what a header can hold.
    HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("\"\""))
}

fn matches(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let said = headers.get(header::IF_NONE_MATCH).and_then(|text| text.to_str().ok());
    said.is_some_and(|said| {
        said.split(',')
            .map(|one| one.trim().trim_start_matches("W/"))
            .any(|one| one.as_bytes() == tag.as_bytes() || one == "*")
    })
}
