//! The routes that are more than one question and one answer.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{operation_id, tag};

/// What one such route gives.
#[derive(Clone, Copy)]
enum Gives {
    /// An object of JSON, with this status.
    Json(&'static str),
    /// A stream of this type.
    Stream(&'static str),
    /// A WebSocket.
    Socket,
}

type Parameter = (&'static str, &'static str);
type Route = (&'static str, &'static str, &'static [Parameter], Gives, &'static str);

const FILTER: &[Parameter] =
    &[("type", "string"), ("workload_id", "string"), ("node_id", "string"), ("after_id", "string")];
const LOGS: &[Parameter] =
    &[("tail", "integer"), ("since", "string"), ("follow", "boolean"), ("service", "string")];
const EXEC: &[Parameter] = &[
    ("argv", "array"),
    ("terminal", "boolean"),
    ("input", "boolean"),
    ("rows", "integer"),
    ("columns", "integer"),
    ("service", "string"),
];
const CONSOLE: &[Parameter] = &[("force", "boolean")];
const EVENTS: Gives = Gives::Stream("text/event-stream");

/// Those that are also there with the cluster in their path.
#[rustfmt::skip]
const OF_A_CLUSTER: &[Route] = &[
    ("get", "/events/watch", FILTER, EVENTS, "Follows what happens, as existing clients do"),
    ("get", "/v1/events/stream", FILTER, EVENTS, "Follows what happens; goes on after Last-Event-ID"),
    ("get", "/v1/workloads/{id}/logs", LOGS, Gives::Stream("text/plain"), "Shows what a workload printed"),
    ("get", "/v1/workloads/{id}/exec", EXEC, Gives::Socket, "Runs a command inside a workload"),
    ("get", "/v1/workloads/{id}/console", CONSOLE, Gives::Socket, "Holds the console of a machine"),
];

/// The others.
#[rustfmt::skip]
const ALONE: &[Route] = &[
    ("get", "/clusters", &[], Gives::Json("200"), "Lists clusters and whether their schedulers answer"),
    ("get", "/clusters/{cluster_id}", &[], Gives::Json("200"), "Shows a cluster"),
    ("get", "/v1/clusters", &[], Gives::Json("200"), "Lists clusters and whether their schedulers answer"),
    ("get", "/v1/clusters/{cluster_id}", &[], Gives::Json("200"), "Shows a cluster"),
    ("get", "/v1/overview", &[], Gives::Json("200"), "Shows every cluster with how it stands; `partial` says that one did not answer"),
    ("post", "/v1/manifests", &[], Gives::Json("200"), "Reads a spec, a manifest or a Compose file as `persys apply` does, and answers with the requests it means; nothing is applied"),
    ("get", "/v1/gateway/log-levels", &[], Gives::Json("200"), "Shows how much the log of the gateway tells"),
    ("post", "/v1/gateway/log-levels", &[], Gives::Json("200"), "Has the log of the gateway tell more or less for a while"),
    ("get", "/v1/session", &[], Gives::Json("200"), "Says who is asking, and which roles they hold"),
    ("post", "/v1/session", &[], Gives::Json("201"), "Logs a browser in, with a token or with a link that is used once"),
    ("delete", "/v1/session", &[], Gives::Json("200"), "Logs a browser out"),
    ("post", "/v1/login-links", &[], Gives::Json("201"), "Makes a link with which whoever asks can log in once, in a browser"),
    ("get", "/health", &[], Gives::Json("200"), "Says whether the gateway can do its job"),
    ("get", "/metrics", &[], Gives::Stream("text/plain"), "Shows what is counted"),
    ("get", "/openapi.json", &[], Gives::Json("200"), "Shows this description"),
];

/// Adds them.
pub(super) fn add(paths: &mut BTreeMap<String, Map<String, Value>>) {
    let mut put = |verb: &str, path: String, route: &Route| {
        let described = described(verb, &path, route);
        paths.entry(path).or_default().insert(verb.to_owned(), described);
    };
    for route in OF_A_CLUSTER {
        let (verb, path, ..) = route;
        put(verb, (*path).to_owned(), route);
        let inside = match path.strip_prefix("/v1/") {
            Some(rest) => format!("/v1/clusters/{{cluster_id}}/{rest}"),
            None => format!("/clusters/{{cluster_id}}{path}"),
        };
        put(verb, inside, route);
    }
    for route in ALONE {
        put(route.0, route.1.to_owned(), route);
    }
}

fn described(verb: &str, path: &str, (_, classic, known, gives, about): &Route) -> Value {
    let mut parameters = in_path(path);
    for (name, kind) in *known {
        let schema = match *kind {
            "array" => json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
            "integer" => json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}),
            kind => json!({"type": kind}),
        };
        let required = *kind == "array";
        parameters
            .push(json!({"name": name, "in": "query", "required": required, "schema": schema}));
    }
    let of_a_cluster = OF_A_CLUSTER.iter().any(|(_, path, ..)| path == classic);
    if of_a_cluster && !path.contains("{cluster_id}") {
        parameters.push(cluster());
    }
    let any = || json!({"application/json": {"schema": {"type": "object"}}});
    let (status, response) = match gives {
        Gives::Json(status) => (*status, json!({"description": "As asked", "content": any()})),
        Gives::Stream(kind) => {
            let mut content = Map::new();
            content.insert((*kind).to_owned(), json!({"schema": {"type": "string"}}));
            ("200", json!({"description": "A stream", "content": content}))
        }
        Gives::Socket => ("101", json!({"description": "A WebSocket"})),
    };
    let mut responses = Map::new();
    responses.insert(status.to_owned(), response);
    let problem = if path == "/health" {
        json!({"description": "It cannot do its job", "content": any()})
    } else {
        json!({"$ref": "#/components/responses/Problem"})
    };
    responses.insert("default".to_owned(), problem);
    let mut described = json!({
        "operationId": operation_id(verb, path),
        "summary": about,
        "tags": [tag(path)],
        "parameters": parameters,
        "responses": responses,
    });
    if let Some(described) = described.as_object_mut() {
        if let Some(security) = security(verb, path) {
            described.insert("security".to_owned(), security);
        }
        if let Some(body) = body(verb, path) {
            let content = json!({"application/json": {"schema": body}});
            let body = json!({"required": true, "content": content});
            described.insert("requestBody".to_owned(), body);
        }
    }
    described
}

/// Who may ask, where that is not everybody who is somebody.
fn security(verb: &str, path: &str) -> Option<Value> {
    match (verb, path) {
        (_, "/health" | "/openapi.json") | ("post" | "delete", "/v1/session") => Some(json!([])),
        // On the machine of the gateway itself nobody is asked who they are.
        (_, "/metrics") => Some(json!([{}, {"token": []}, {"certificate": []}])),
        _ => None,
    }
}

/// What a body says, where there is one.
fn body(verb: &str, path: &str) -> Option<Value> {
    let text = || json!({"type": "string", "minLength": 1, "maxLength": 8192});
    let one = |name: &str| {
        json!({
            "type": "object",
            "required": [name],
            "properties": {name: text()},
            "additionalProperties": false,
        })
    };
    match (verb, path) {
        ("post", "/v1/session") => Some(json!({"oneOf": [one("token"), one("link")]})),
        ("post", "/v1/manifests") => Some(json!({
            "type": "object",
            "required": ["text"],
            "properties": {
                "text": {"type": "string"},
                "name": {"type": "string", "maxLength": 128},
                "files": {
                    "type": "object",
                    "additionalProperties": {"type": "string", "contentEncoding": "base64"},
                },
                "profiles": {"type": "array", "items": {"type": "string"}},
            },
            "additionalProperties": false,
        })),
        ("post", "/v1/gateway/log-levels") => Some(json!({
            "type": "object",
            "properties": {
                "directives": {"type": "string", "maxLength": 1024},
                "seconds": {"type": "integer", "minimum": 0, "maximum": 86_400},
                "reset": {"type": "boolean"},
            },
            "additionalProperties": false,
        })),
        _ => None,
    }
}

/// The parts of a path.
pub(super) fn in_path(path: &str) -> Vec<Value> {
    let parts = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let schema = || json!({"type": "string", "minLength": 1, "maxLength": 128});
    parts
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": schema()}))
        .collect()
}

/// Which cluster is meant.
pub(super) fn cluster() -> Value {
    let about = "Which cluster is meant; also X-Persys-Cluster-ID";
    json!({"name": "cluster_id", "in": "query", "description": about, "schema": {"type": "string"}})
}
