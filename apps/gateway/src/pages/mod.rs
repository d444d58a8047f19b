//! The pages for people: files of `web/`, inside the program as they are.
//!
//! They hold nothing secret, so anybody may have them; what they show they ask for as whoever is
//! logged in.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use rust_embed::{Embed, EmbeddedFile};

use crate::gateway::Gateway;
use crate::problem::Problem;
use persys_model::hex::hex;

/// The page all others are parts of.
const START: &str = "index.html";
const ICON: &str = "icon.svg";
/// A browser keeps files and asks each time whether they are still the same.
const KEEP: &str = "no-cache";

/// Every file of the pages.
#[derive(Debug, Embed)]
#[folder = "web/"]
struct Files;

/// The routes of the pages.
pub(crate) fn router() -> Router<Gateway> {
    Router::new()
        .route("/", get(start))
        .route("/login", get(start))
        .route("/assets/{*path}", get(asset))
        .route("/favicon.ico", get(icon))
}

async fn start(headers: HeaderMap) -> Response {
    file(START, &headers)
}

/// Browsers ask for it beside pages that name no icon, such as answers in JSON.
async fn icon(headers: HeaderMap) -> Response {
    file(ICON, &headers)
}

async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Response {
    file(&path, &headers)
}

fn file(path: &str, headers: &HeaderMap) -> Response {
    let (Some(file), Some(kind)) = (Files::get(path), kind_of(path)) else {
        return Problem::not_found(format!("there is no file {path}")).into_response();
    };
    let tag = tag_of(&file);
    let known = headers.get(header::IF_NONE_MATCH).and_then(|text| text.to_str().ok());
    let about = [(header::CACHE_CONTROL, KEEP), (header::ETAG, &tag)];
    if known.is_some_and(|known| known.split(',').any(|one| one.trim() == tag)) {
        return (StatusCode::NOT_MODIFIED, about).into_response();
    }
    (about, [(header::CONTENT_TYPE, kind)], file.data).into_response()
}

fn tag_of(file: &EmbeddedFile) -> String {
    format!("\"{}\"", hex(&file.metadata.sha256_hash()))
}

/// What a file is, by the end of its name.
fn kind_of(path: &str) -> Option<&'static str> {
    match path.rsplit_once('.')?.1 {
        "html" => Some("text/html; charset=utf-8"),
        "css" => Some("text/css; charset=utf-8"),
        "js" => Some("text/javascript; charset=utf-8"),
        "svg" => Some("image/svg+xml"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
