//! The interface for programs, described: as `OpenAPI` for tools, and as a page for people.
//!
//! It is made from the same table as the routes, and its schemas from the contract itself, so that
//! it cannot say something else. A copy is checked in as `docs/openapi.json`.

mod page;
mod special;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use axum::Router;
use axum::http::header;
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;
use persys_proto::json::{self, Method};
use serde_json::{Map, Value, json};

use crate::gateway::Gateway;
use crate::rest::message::MOST_ON_PAGE;
use crate::rest::row::{Fill, Gives, Row, Source};
use crate::rest::table;

const STYLE: &str = include_str!("../../web/docs.css");

/// The routes of the description.
pub(crate) fn router() -> Router<Gateway> {
    Router::new()
        .route("/openapi.json", get(description))
        .route("/docs", get(docs))
        .route("/docs.css", get(style))
}

async fn description() -> Response {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| document().to_string()).as_str();
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

async fn docs() -> Html<&'static str> {
    static TEXT: OnceLock<String> = OnceLock::new();
    Html(TEXT.get_or_init(|| page::render(&document())).as_str())
}

async fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css")], STYLE).into_response()
}

/// The whole description.
#[must_use]
pub fn document() -> Value {
    let mut schemas = BTreeMap::new();
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for row in table::all() {
        let Some(method) = json::method(row.rpc) else { continue };
        json::schema(method.output, &mut schemas);
        if row.body {
            json::schema(method.input, &mut schemas);
        }
        let verb = row.verb.method().as_str().to_ascii_lowercase();
        for path in [row.path.to_owned(), row.in_cluster()] {
            let described = operation(row, &path, method, &schemas);
            paths.entry(path).or_default().insert(verb.clone(), described);
        }
    }
    special::add(&mut paths);
    schemas.insert("Problem".to_owned(), problem());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Persys gateway",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Workloads, nodes and events of one or many clusters. Every route is there \
                twice: by itself, for the cluster that is named by the header X-Persys-Cluster-ID, the \
                parameter cluster_id or the configuration, and with the cluster in its path.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "security": [{"token": []}, {"certificate": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "certificate": {"type": "mutualTLS"},
                "session": {"type": "apiKey", "in": "cookie", "name": crate::who::COOKIE},
            },
            "responses": {
                "Problem": {
                    "description": "Why not, and what to do next",
                    "content": {"application/problem+json": {"schema": reference("Problem")}},
                },
            },
        },
    })
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn problem() -> Value {
    let text = || json!({"type": "string"});
    let fault = json!({
        "type": "object",
        "required": ["path", "problem"],
        "properties": {"path": text(), "problem": text()},
    });
    json!({
        "type": "object",
        "required": ["type", "title", "status", "code", "detail", "next_step", "error"],
        "properties": {
            "type": text(),
            "title": text(),
            "status": {"type": "integer"},
            "code": text(),
            "detail": text(),
            "next_step": text(),
            "error": text(),
            "faults": {"type": "array", "items": fault},
        },
    })
}

fn operation(row: &Row, path: &str, method: Method, schemas: &BTreeMap<String, Value>) -> Value {
    let shown = match row.gives {
        Gives::Plain | Gives::Verdict { .. } => reference(method.output),
        Gives::Pages { .. } => paged(method.output, schemas),
    };
    let mut responses = json!({
        "200": {"description": "As asked", "content": {"application/json": {"schema": shown}}},
        "default": {"$ref": "#/components/responses/Problem"},
    });
    if let (Some(responses), true) = (responses.as_object_mut(), row.verb.is_safe()) {
        responses.insert("304".to_owned(), json!({"description": "As it was: see If-None-Match"}));
    }
    let verb = row.verb.method().as_str().to_ascii_lowercase();
    let mut described = json!({
        "operationId": operation_id(&verb, path),
        "summary": row.about,
        "tags": [tag(row.path)],
        "parameters": parameters(row, path),
        "responses": responses,
    });
    if let (Some(described), true) = (described.as_object_mut(), row.body) {
        let content = json!({"application/json": {"schema": reference(method.input)}});
        described.insert("requestBody".to_owned(), json!({"required": false, "content": content}));
    }
    described
}

/// The answer with a list, and how to go on.
fn paged(output: &str, schemas: &BTreeMap<String, Value>) -> Value {
    let mut whole = schemas.get(output).cloned().unwrap_or_default();
    if let Some(properties) = whole.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert("next_page_token".to_owned(), json!({"type": "string"}));
    }
    whole
}

fn parameters(row: &Row, path: &str) -> Vec<Value> {
    let mut all: Vec<_> = special::in_path(path);
    for name in row.parameters() {
        let is_flag = row
            .fill
            .iter()
            .any(|Fill(source, _)| matches!(source, Source::Flag(flag) if *flag == name));
        let is_page = matches!(row.gives, Gives::Pages { .. });
        let schema = match name {
            "limit" if is_page => json!({"type": "integer", "minimum": 1, "maximum": MOST_ON_PAGE}),
            "limit" => json!({"type": "integer", "minimum": 0}),
            _ if is_flag => json!({"type": "boolean"}),
            _ => json!({"type": "string"}),
        };
        all.push(json!({"name": name, "in": "query", "required": false, "schema": schema}));
    }
    if !path.contains("{cluster_id}") {
        all.push(special::cluster());
    }
    if !row.verb.is_safe() {
        let schema = json!({"type": "string", "minLength": 1, "maxLength": 255});
        let about = "The same key gets the same answer, and nothing is done again";
        all.push(json!({"name": "Idempotency-Key", "in": "header", "description": about, "schema": schema}));
    }
    all
}

/// Unique, and readable in the names of generated clients.
fn operation_id(verb: &str, path: &str) -> String {
    let letters = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let path: String = path.chars().filter(|c| !matches!(c, '{' | '}')).map(letters).collect();
    format!("{verb}{path}")
}

fn tag(path: &str) -> String {
    let path = path.strip_prefix("/v1").unwrap_or(path);
    let first = path.split('/').nth(1).unwrap_or_default();
    let first = if first == "list" { "workloads" } else { first };
    first.to_owned()
}

#[cfg(test)]
mod tests;
