//! How browsers log in: with a token that a scheduler takes, with a certificate, or with a link that
//! can be used once.

pub mod sessions;

use std::time::Instant;

use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use persys_proto::json::{self as methods, Style};
use serde::Deserialize;
use serde_json::{Value, json};
use tonic::Code;

use self::sessions::{LINK, NoSession};
use crate::body;
use crate::caller::{Caller, Secret};
use crate::clusters::Call;
use crate::gateway::Gateway;
use crate::problem::Problem;
use crate::proven::prove;
use crate::serve::Origin;
use crate::text::query;
use crate::who::{COOKIE, Who, cookie, is_from_our_pages};

/// Bytes of a form.
const FORM: usize = 8 * 1024;
/// The page that says that a link was used already, or is too old.
const GONE: &str = "/#/login/gone";
/// What anybody may ask who may ask anything.
const WHO: &str = "/persys.compute.v1.Access/WhoAmI";

/// The routes of logging in and out.
pub(crate) fn router() -> Router<Gateway> {
    Router::new()
        .route("/login", post(login))
        .route("/login/{secret}", get(redeem))
        .route("/logout", post(logout))
        .route("/v1/login-links", post(link))
        .route("/v1/session", get(session).post(open_session).delete(close_session))
}

/// `POST /login` with a form's `token`: the scheduler says whether it is good.
async fn login(State(gateway): State<Gateway>, request: Request) -> Response {
    enter(&gateway, request).await.unwrap_or_else(Problem::into_response)
}

async fn enter(gateway: &Gateway, request: Request) -> Result<Response, Problem> {
    let (parts, content) = request.into_parts();
    same_site(&parts.headers)?;
    let within = gateway.limits.body_within;
    let form = body::read(&parts.headers, content, FORM, within).await?;
    let form = std::str::from_utf8(&form).ok().and_then(query).unwrap_or_default();
    let token = form.into_iter().find(|(name, _)| name == "token").map(|(_, value)| value);
    let caller = token_of(&token.unwrap_or_default())?;
    let origin = parts.extensions.get::<Origin>();
    who_is(gateway, &caller, origin).await?;
    opened(gateway, caller, origin, Redirect::to("/").into_response())
}

fn same_site(headers: &HeaderMap) -> Result<(), Problem> {
    if is_from_our_pages(headers) {
        return Ok(());
    }
    let sentence = "another site made the browser send this";
    let next = "log in on the gateway's own page";
    Err(Problem::new(StatusCode::FORBIDDEN, "cross_site", sentence, next))
}

fn token_of(text: &str) -> Result<Caller, Problem> {
    let token = text.trim();
    if token.is_empty() || token.len() > FORM || !token.bytes().all(|byte| byte.is_ascii_graphic())
    {
        return Err(Problem::bad("token: is not one"));
    }
    Ok(Caller::token(Secret::new(token)))
}

/// Who a caller is and what they hold, as the usual cluster says.
async fn who_is(
    gateway: &Gateway,
    caller: &Caller,
    origin: Option<&Origin>,
) -> Result<Value, Problem> {
    let cluster = gateway.clusters.find(None)?;
    let call = Call::bare(WHO, caller, origin.map(|origin| origin.remote.ip()));
    let answer = match cluster.call(&call).await {
        Ok(answer) => answer,
        // Who holds nothing there is still somebody.
        Err(status) if status.code() == Code::PermissionDenied => {
            return Ok(json!({"who": caller.shown(), "roles": []}));
        }
        Err(status) => return Err(status.into()),
    };
    let name = methods::method(WHO).map(|method| method.output).unwrap_or_default();
    Ok(methods::write_bytes(name, answer.get_ref(), Style::Snake))
}

/// What a page sends to log in: one of the two.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entrance {
    #[serde(default)]
    token: String,
    #[serde(default)]
    link: String,
}

/// `POST /v1/session` with a token or the secret of a link.
async fn open_session(State(gateway): State<Gateway>, request: Request) -> Response {
    entered(&gateway, request).await.unwrap_or_else(Problem::into_response)
}

async fn entered(gateway: &Gateway, request: Request) -> Result<Response, Problem> {
    let (parts, content) = request.into_parts();
    same_site(&parts.headers)?;
    let within = gateway.limits.body_within;
    let bytes = body::read(&parts.headers, content, FORM, within).await?;
    let value = body::json(&parts.headers, &bytes)?.unwrap_or_default();
    let Ok(Entrance { token, link }) = serde_json::from_value(value) else {
        return Err(Problem::bad("the body is not {\"token\": …} or {\"link\": …}"));
    };
    let caller = if link.is_empty() {
        token_of(&token)?
    } else {
        gateway.sessions.redeem(&link, Instant::now()).ok_or_else(gone)?
    };
    let origin = parts.extensions.get::<Origin>();
    let who = who_is(gateway, &caller, origin).await?;
    opened(gateway, caller, origin, (StatusCode::CREATED, Json(who)).into_response())
}

/// `DELETE /v1/session`.
async fn close_session(State(gateway): State<Gateway>, request: Request) -> Response {
    left(&gateway, request.headers(), Json(json!({})).into_response())
}

fn gone() -> Problem {
    let sentence = "this link was used already, or is too old";
    Problem::new(StatusCode::GONE, "link_gone", sentence, "ask for a new link")
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
    opened(&gateway, caller, Some(&origin), on.into_response())
}

fn opened(
    gateway: &Gateway,
    caller: Caller,
    origin: Option<&Origin>,
    mut response: Response,
) -> Result<Response, Problem> {
    tracing::info!(caller = caller.shown(), "logged in");
    let secret = gateway.sessions.open(caller, Instant::now()).map_err(|why| no_session(&why))?;
    let secure = if origin.is_some_and(|origin| origin.is_private) { "; Secure" } else { "" };
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
    left(&gateway, request.headers(), Redirect::to("/login").into_response())
}

fn left(gateway: &Gateway, headers: &HeaderMap, mut response: Response) -> Response {
    if let Some(session) = cookie(headers, COOKIE) {
        gateway.sessions.close(session);
    }
    let gone =
        HeaderValue::from_static("persys_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
    response.headers_mut().insert(header::SET_COOKIE, gone);
    response
}

/// `POST /v1/login-links`: a link with which whoever asks can log in once, in a browser.
async fn link(
    State(gateway): State<Gateway>,
    Extension(origin): Extension<Origin>,
    Extension(who): Extension<Who>,
) -> Result<Response, Problem> {
    let caller = who.known()?.clone();
    prove(&gateway, &caller, &origin).await?;
    let secret = gateway.sessions.link(caller, Instant::now()).map_err(|why| no_session(&why))?;
    let body = json!({"path": format!("/login/{secret}"), "seconds": LINK.as_secs()});
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

/// `GET /v1/session`: who is asking, and which roles they hold.
async fn session(
    State(gateway): State<Gateway>,
    Extension(origin): Extension<Origin>,
    Extension(who): Extension<Who>,
) -> Result<Response, Problem> {
    let who = who_is(&gateway, who.known()?, Some(&origin)).await?;
    Ok(Json(who).into_response())
}
