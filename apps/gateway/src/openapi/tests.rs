use std::path::Path;
use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use tower_service::Service as _;

use super::*;
use crate::clusters::Clusters;
use crate::limits::Limits;
use crate::serve::Origin;
use crate::{front, login, probes, rest};

#[test]
fn the_description_that_is_checked_in_is_that_of_the_routes() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let text = serde_json::to_string_pretty(&document()).unwrap() + "\n";
    if std::env::var_os("PERSYS_BLESS").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(written == text, "docs/openapi.json is stale; PERSYS_BLESS=1 makes it anew");
}

#[test]
fn every_reference_leads_somewhere() {
    fn look(value: &Value, document: &Value) {
        match value {
            Value::Object(object) => {
                if let Some(Value::String(to)) = object.get("$ref") {
                    let found = document.pointer(to.trim_start_matches('#'));
                    assert!(found.is_some_and(|found| !found.is_null()), "{to}");
                }
                object.values().for_each(|value| look(value, document));
            }
            Value::Array(list) => list.iter().for_each(|value| look(value, document)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let document = document();
    look(&document, &document);
    assert!(document["paths"].as_object().unwrap().len() > 80);
}

#[tokio::test]
async fn every_route_that_is_described_is_served() {
    let clusters = Clusters::new(String::new(), Vec::new(), BTreeMap::new());
    let gateway = Gateway::new(Arc::new(clusters), Limits::default(), None, true);
    let routes = rest::router().merge(probes::router()).merge(login::router()).merge(router());
    let mut served = front::before(routes, &gateway);
    let document = document();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for verb in operations.as_object().unwrap().keys() {
            let path = path.replace(['{', '}'], "x");
            let mut request = Request::builder()
                .method(verb.to_uppercase().as_str())
                .uri(&path)
                .body(Body::empty())
                .unwrap();
            let remote = "127.0.0.1:1".parse().unwrap();
            request.extensions_mut().insert(Origin::of(remote, None, false));
            let response = served.call(request).await.unwrap();
            let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
            let said: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            let code = said["code"].as_str().unwrap_or_default();
            assert!(!matches!(code, "no_route" | "method_not_allowed"), "{verb} {path}: {said}");
        }
    }
}

#[test]
fn the_page_names_every_route() {
    let document = document();
    let page = page::render(&document);
    for path in document["paths"].as_object().unwrap().keys() {
        assert!(
            path.contains("{cluster_id}/") || page.contains(&format!("<code>{path}</code>")),
            "{path}"
        );
    }
    assert!(!page.contains("<script"));
}
