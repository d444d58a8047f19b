//! How browsers log in: with a token that a scheduler takes, with a certificate, or with a link that
//! can be used once.

pub mod sessions;

use std::time::Instant;

use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use serde_json::json;

use self::sessions::{LINK, NoSession};
use crate::body;
use crate::caller::{Caller, Secret};
use crate::clusters::Call;
use crate::clusters::order::Keys;
use crate::gateway::Gateway;
use crate::problem::Problem;
use crate::serve::Origin;
use crate::text::query;
use crate::who::{COOKIE, Who, cookie, is_from_our_pages};

/// Bytes of a form.
const FORM: usize = 8 * 1024;
/// The page that says that a link was used already, or is too old.
const GONE: &str = "/#/login/gone";
/// What anybody may ask who may ask anything.
const TRIAL: &str = "/persys.compute.v1.Compute/Standing";

/// The routes of logging in and out.
pub(crate) fn router() -> Router<Gateway> {
    Router::new()
        .route("/login", post(login))
        .route("/login/{secret}", get(redeem))
        .route("/logout", post(logout))
        .route("/v1/login-links", post(link))
        .route("/v1/session", get(session))
}

/// `POST /login` with a form's `token`: the scheduler says whether it is good.
async fn login(State(gateway): State<Gateway>, request: Request) -> Response {
    enter(&gateway, request).await.unwrap_or_else(Problem::into_response)
}

async fn enter(gateway: &Gateway, request: Request) -> Result<Response, Problem> {
    let (parts, content) = request.into_parts();
    if !is_from_our_pages(&parts.headers) {
        let sentence = "another site made the browser send this";
        let next = "log in on the gateway's own page";
        return Err(Problem::new(StatusCode::FORBIDDEN, "cross_site", sentence, next));
    }
    let within = gateway.limits.body_within;
    let form = body::read(&parts.headers, content, FORM, within).await?;
    let form = std::str::from_utf8(&form).ok().and_then(query).unwrap_or_default();
    let token = form.into_iter().find(|(name, _)| name == "token").map(|(_, value)| value);
    let token = token.map(|token| token.trim().to_owned()).unwrap_or_default();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Problem::bad("token: is not one"));
    }
    let caller = Caller::Token(Secret::new(&token));
    let cluster = gateway.clusters.find(None)?;
    let call = Call {
        path: TRIAL,
        message: Bytes::new(),
        caller: &caller,
        reason: None,
        keys: &Keys::default(),
        is_safe: true,
    };
    cluster.call(&call).await?;
    let is_private = parts.extensions.get::<Origin>().is_some_and(|origin| origin.is_private);
    opened(gateway, caller, is_private, Redirect::to("/").into_response())
}

/// `GET /login/{secret}`.
async fn redeem(
    State(gateway): State<Gateway>,
    Extension(origin): Extension<Origin>,
    Path(secret): Path<String>,
) -> Result<Response, Problem> {
    let Some(caller) = gateway.sessions.redeem(&secret, Instant::now()) else {
        return Ok(Redirect::to(GONE).into_response());
    };
    // A page of ours that goes on, not a redirect: the browser would not send the new cookie along
    // when another site led it here.
    let on =
        Html("<!doctype html><meta http-equiv=refresh content=\"0;url=/\"><a href=\"/\">on</a>");
    opened(&gateway, caller, origin.is_private, on.into_response())
}

fn opened(
    gateway: &Gateway,
    caller: Caller,
    is_private: bool,
    mut response: Response,
) -> Result<Response, Problem> {
    tracing::info!(caller = caller.shown(), "logged in");
    let secret = gateway.sessions.open(caller, Instant::now()).map_err(|why| no_session(&why))?;
    let secure = if is_private { "; Secure" } else { "" };
    let cookie = format!("{COOKIE}={secret}; Path=/; HttpOnly; SameSite=Strict{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

fn no_session(why: &NoSession) -> Problem {
    Problem::unavailable(format!("no session can be opened: {why}"))
}

/// `POST /logout`.
async fn logout(State(gateway): State<Gateway>, request: Request) -> Response {
    if let Some(session) = cookie(request.headers(), COOKIE) {
        gateway.sessions.close(session);
    }
    let mut response = Redirect::to("/login").into_response();
    let gone =
        HeaderValue::from_static("persys_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
    response.headers_mut().insert(header::SET_COOKIE, gone);
    response
}

/// `POST /v1/login-links`: a link with which whoever asks can log in once, in a browser.
async fn link(
    State(gateway): State<Gateway>,
    Extension(who): Extension<Who>,
) -> Result<Response, Problem> {
    let caller = who.known()?.clone();
    let secret = gateway.sessions.link(caller, Instant::now()).map_err(|why| no_session(&why))?;
    let body = json!({"path": format!("/login/{secret}"), "seconds": LINK.as_secs()});
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

/// `GET /v1/session`: who is asking, as the gateway sees it.
async fn session(Extension(who): Extension<Who>) -> Result<Response, Problem> {
    Ok(Json(json!({"caller": who.known()?.shown()})).into_response())
}
