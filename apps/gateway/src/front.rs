//! What stands before every route: cheap refusals first, then who is asking, then the route; and
//! what is the same on every answer.

use std::borrow::Cow;
use std::time::Instant;

use axum::Router;
use axum::body::HttpBody as _;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use persys_telemetry::trace::{self, TraceLayer};

use crate::gateway::Gateway;
use crate::metrics::Answered;
use crate::problem::Problem;
use crate::serve::Origin;
use crate::who;

/// Longest path and query.
const LONGEST_URI: usize = 4096;

/// What pages may load and do: what comes from here, and nothing else.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     font-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; \
     frame-ancestors 'none'";

/// The same for what is no page: nothing at all.
const NO_PAGE: &str = "default-src 'none'; frame-ancestors 'none'";

/// What every answer carries.
const ALWAYS: [(HeaderName, &str); 4] = [
    (HeaderName::from_static("x-service-name"), "persys-gateway"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
];

/// Puts it before all routes.
pub(crate) fn before(router: Router<Gateway>, gateway: &Gateway) -> Router {
    router
        .fallback(nothing_here)
        .method_not_allowed_fallback(not_so)
        .layer(from_fn_with_state(gateway.clone(), stand))
        .layer(TraceLayer::new(&trace::current(), span_of))
        .with_state(gateway.clone())
}

/// How the span of a request is called: as its route. What pages are made of has none.
fn span_of(request: &Request) -> Option<Cow<'_, str>> {
    let route = request.extensions().get::<MatchedPath>()?.as_str();
    let first = route.split('/').nth(1).unwrap_or_default();
    let quiet =
        ["", "livez", "readyz", "assets", "favicon.ico", "docs", "docs.css", "openapi.json"];
    let named = !quiet.contains(&first) && !first.starts_with('{');
    named.then(|| Cow::Owned(format!("{} {route}", request.method())))
}

async fn nothing_here() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "no_route",
        "there is nothing here",
        "/docs lists what there is",
    )
}

async fn not_so() -> Problem {
    let sentence = "this cannot be asked for in this way";
    let next = "/docs lists what can be done here";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", sentence, next)
}

async fn stand(State(gateway): State<Gateway>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let verb = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let size = request.headers().get(header::CONTENT_LENGTH);
    let size = size.and_then(|text| text.to_str().ok()?.parse().ok()).unwrap_or(0);
    let is_private = request.extensions().get::<Origin>().is_some_and(|origin| origin.is_private);
    let mut response = match admit(&gateway, request) {
        Ok(request) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in ALWAYS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_page = kind.is_none_or(|kind| kind.starts_with(b"text/html"));
    let policy = HeaderValue::from_static(if is_page { POLICY } else { NO_PAGE });
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(policy);
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if is_private {
        let value = HeaderValue::from_static("max-age=31536000");
        headers.insert(header::STRICT_TRANSPORT_SECURITY, value);
    }
    gateway.metrics.answered(&Answered {
        verb: verb.as_str(),
        route: route.as_ref().map_or("none", MatchedPath::as_str),
        status: response.status().as_u16(),
        took: began.elapsed(),
        asked_bytes: size,
        told_bytes: response.body().size_hint().exact(),
    });
    response
}

/// Refuses what need not be looked at, and finds out who is asking.
fn admit(gateway: &Gateway, mut request: Request) -> Result<Request, Problem> {
    let Some(origin) = request.extensions().get::<Origin>().cloned() else {
        return Err(Problem::who_are_you());
    };
    let uri = request.uri();
    let whole = uri.path_and_query().map_or(0, |text| text.as_str().len());
    if whole > LONGEST_URI {
        let sentence = "the address is too long";
        return Err(Problem::new(
            StatusCode::URI_TOO_LONG,
            "too_long",
            sentence,
            "send less in it",
        ));
    }
    plain_path(uri.path())?;
    if !gateway.sources.allow(&origin.remote.ip().to_canonical()) {
        return Err(Problem::too_many("too many requests come from this address"));
    }
    let who = who::find(gateway, &origin, request.method(), request.headers())?;
    if let Some(caller) = &who.0
        && !gateway.rates.allow(caller.key())
    {
        return Err(Problem::too_many("this caller asks too often"));
    }
    request.extensions_mut().insert(who);
    Ok(request)
}

/// Refuses paths that mean something else to whoever takes them apart next.
fn plain_path(path: &str) -> Result<(), Problem> {
    // Nearly all paths have none of what tricks are made of.
    if !path.contains(['%', '\\']) && !path.contains("//") && !path.contains("/.") {
        return Ok(());
    }
    let lower = path.to_ascii_lowercase();
    let tricks = ["//", "/../", "/./", "%2f", "%5c", "%2e%2e", "%00", "\\", "%25"];
    let ends = lower.ends_with("/..") || lower.ends_with("/.");
    if ends || tricks.iter().any(|trick| lower.contains(trick)) {
        return Err(Problem::bad("the path is not a plain one"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_tricks_are_refused() {
        for bad in ["/a/../b", "/a/%2e%2e/b", "/a%2Fb", "//a", "/a/.", "/a%00", "/a\\b", "/a%255c"]
        {
            assert!(plain_path(bad).is_err(), "{bad}");
        }
        for good in ["/", "/workloads/a.b_c-d", "/v1/nodes/n1/labels", "/v1/workloads/%C3%A9"] {
            assert!(plain_path(good).is_ok(), "{good}");
        }
    }
}
