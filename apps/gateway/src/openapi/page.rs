//! The description as a page for people: plain HTML, made once.

use std::fmt::Write as _;

use serde_json::Value;

use crate::text::escape;

/// The page of a document.
pub(super) fn render(document: &Value) -> String {
    let mut page = String::from(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>The interface for programs · Persys</title>\
         <link rel=\"stylesheet\" href=\"/docs.css\"></head><body><main>\
         <h1>The interface for programs</h1>",
    );
    let about = at(document, "/info/description").as_str().unwrap_or_default();
    add(&mut page, format_args!("<p>{}</p>", escape(about)));
    page.push_str("<p>As a file for tools: <a href=\"/openapi.json\">openapi.json</a></p>");
    page.push_str("<h2>Routes</h2>");
    for (path, operations) in at(document, "/paths").as_object().into_iter().flatten() {
        // Those with the cluster in their path are the same ones again.
        if path.contains("{cluster_id}/") {
            continue;
        }
        for (verb, operation) in operations.as_object().into_iter().flatten() {
            route(&mut page, path, verb, operation);
        }
    }
    page.push_str("<h2>Messages</h2>");
    for (name, schema) in at(document, "/components/schemas").as_object().into_iter().flatten() {
        message(&mut page, name, schema);
    }
    page.push_str("</main></body></html>");
    page
}

fn route(page: &mut String, path: &str, verb: &str, operation: &Value) {
    let summary = at(operation, "/summary").as_str().unwrap_or_default();
    add(
        page,
        format_args!(
            "<details><summary><code class=\"verb\">{}</code> <code>{}</code> {}</summary>",
            verb.to_uppercase(),
            escape(path),
            escape(summary)
        ),
    );
    let parameters = at(operation, "/parameters").as_array();
    if let Some(parameters) = parameters.filter(|all| !all.is_empty()) {
        page.push_str(
            "<table><thead><tr><th>parameter</th><th>in</th><th>type</th></tr></thead><tbody>",
        );
        for one in parameters {
            let text = |key: &str| escape(at(one, &format!("/{key}")).as_str().unwrap_or_default());
            let kind = kind(at(one, "/schema"));
            add(
                page,
                format_args!(
                    "<tr><td>{}</td><td>{}</td><td>{kind}</td></tr>",
                    text("name"),
                    text("in")
                ),
            );
        }
        page.push_str("</tbody></table>");
    }
    let body = at(operation, "/requestBody/content/application~1json/schema");
    if !body.is_null() {
        add(page, format_args!("<p>takes {}</p>", kind(body)));
    }
    let given = at(operation, "/responses/200/content").as_object();
    for (media, content) in given.into_iter().flatten() {
        add(page, format_args!("<p>gives {} {}</p>", escape(media), kind(at(content, "/schema"))));
    }
    page.push_str("</details>");
}

fn message(page: &mut String, name: &str, schema: &Value) {
    let name = escape(name);
    add(
        page,
        format_args!("<details id=\"{name}\"><summary><code>{name}</code></summary><table><tbody>"),
    );
    for (field, schema) in at(schema, "/properties").as_object().into_iter().flatten() {
        add(page, format_args!("<tr><td>{}</td><td>{}</td></tr>", escape(field), kind(schema)));
    }
    page.push_str("</tbody></table></details>");
}

/// What a value is, with links.
fn kind(schema: &Value) -> String {
    if let Some(name) = at(schema, "/$ref").as_str().and_then(|text| text.rsplit('/').next()) {
        let name = escape(name);
        return format!("<a href=\"#{name}\">{name}</a>");
    }
    match at(schema, "/type") {
        Value::String(word) if word == "array" => format!("list of {}", kind(at(schema, "/items"))),
        Value::String(word)
            if word == "object" && at(schema, "/additionalProperties").is_object() =>
        {
            format!("map of {}", kind(at(schema, "/additionalProperties")))
        }
        Value::String(word) => match at(schema, "/format").as_str() {
            Some(format) => format!("{} ({})", escape(word), escape(format)),
            None => escape(word),
        },
        Value::Array(_) => escape(at(schema, "/format").as_str().unwrap_or("number")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

fn add(page: &mut String, what: std::fmt::Arguments<'_>) {
    let written = page.write_fmt(what);
    debug_assert!(written.is_ok(), "writing to a text failed");
}

/// What is at a place of a document; nothing where there is none.
fn at<'a>(value: &'a Value, place: &str) -> &'a Value {
    value.pointer(place).unwrap_or(&Value::Null)
}
