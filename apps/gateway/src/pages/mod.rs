//! The pages for people.

use axum::Router;
use axum::extract::Extension;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use axum::routing::get;

use crate::gateway::Gateway;
use crate::who::Who;

const START: &str = include_str!("../../web/start.html");

/// The routes of the pages.
pub(crate) fn router() -> Router<Gateway> {
    Router::new().route("/", get(start))
}

async fn start(Extension(who): Extension<Who>) -> Response {
    match who.0 {
        Some(_) => Html(START).into_response(),
        None => Redirect::to("/login").into_response(),
    }
}
