//! From a request to the message it means, and from an answer to what is shown.

use std::collections::BTreeSet;
use std::str::FromStr;

use persys_proto::json::{self, Style};
use serde_json::{Map, Value};

use super::row::{Fill, Gives, Row, Source};
use crate::problem::Problem;

/// Most entries on a page, and how many there are when nobody says.
pub const MOST_ON_PAGE: usize = 1000;
/// How many entries a page has when nobody says.
pub const USUAL_ON_PAGE: usize = 200;

/// What a request says beside its body.
#[derive(Debug, Clone, Default)]
pub struct Said {
    /// The parts of its path, by name.
    pub path: Vec<(String, String)>,
    /// The parameters of its query.
    pub query: Vec<(String, String)>,
}

impl Said {
    /// The part of the path with this name.
    pub fn part(&self, name: &str) -> Option<&str> {
        self.path.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The parameter with this name; the first counts.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The parameter with this name, which is true or false.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, Problem> {
        match self.parameter(name) {
            None => Ok(None),
            Some("true" | "1") => Ok(Some(true)),
            Some("false" | "0") => Ok(Some(false)),
            Some(_) => Err(Problem::bad(format!("{name}: is neither true nor false"))),
        }
    }

    /// The parameter with this name, which is a number.
    pub fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Problem> {
        let read = |text: &str| {
            text.parse().ok().ok_or_else(|| Problem::bad(format!("{name}: is not a number")))
        };
        self.parameter(name).map(read).transpose()
    }

    /// Whether there are no parameters but these, each of them once; those in `lists` as often as wanted.
    /// One that is mistyped or said twice would otherwise count for nothing, and nobody would know.
    pub fn only(&self, known: &[&str], lists: &[&str]) -> Result<(), Problem> {
        let mut seen = BTreeSet::new();
        for (name, _) in &self.query {
            let name = name.as_str();
            if lists.contains(&name) {
                continue;
            }
            if name != "cluster_id" && !known.contains(&name) {
                return Err(unknown(name, &[known, lists].concat()));
            }
            if !seen.insert(name) {
                return Err(Problem::bad(format!("{name}: is given more than once")));
            }
        }
        Ok(())
    }
}

fn unknown(name: &str, known: &[&str]) -> Problem {
    let name: String = name.chars().take(64).collect();
    let told = match known {
        [] => "it takes none".to_owned(),
        known => format!("there are {}", known.join(", ")),
    };
    Problem::bad(format!("there is no parameter {name:?}; {told}"))
}

/// Puts a value at a place in a message; what is there already stays, if it is the same.
pub fn put(into: &mut Value, place: &str, value: Value) -> bool {
    let (mut at, mut rest) = (into, place);
    while let Some((name, inner)) = rest.split_once('.') {
        let Some(object) = at.as_object_mut() else { return false };
        at = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
        rest = inner;
    }
    let Some(object) = at.as_object_mut() else { return false };
    match object.get(rest) {
        // Nothing more than that something is there was to be said.
        Some(there) if value.as_object().is_some_and(Map::is_empty) => there.is_object(),
        Some(there) => *there == value,
        None => {
            object.insert(rest.to_owned(), value);
            true
        }
    }
}

/// The message a request means, in binary form.
pub fn read(row: &Row, said: &Said, body: Option<Value>) -> Result<Vec<u8>, Problem> {
    let method = json::method(row.rpc)
        .ok_or_else(|| Problem::unavailable(format!("{} is not part of the contract", row.rpc)))?;
    let mut message = body.unwrap_or_else(|| Value::Object(Map::new()));
    if !message.is_object() {
        return Err(Problem::bad("the body is not an object"));
    }
    if row.is_new() {
        said.only(&row.parameters(), &[])?;
        if said.parameter("limit").is_some_and(str::is_empty) {
            return Err(Problem::bad("limit: is not a number"));
        }
    }
    for Fill(source, place) in row.fill {
        let value = match source {
            Source::Path(name) => said.part(name).map(Value::from),
            Source::Query(name) => {
                said.parameter(name).filter(|text| !text.is_empty()).map(Value::from)
            }
            // Existing clients leave a flag empty and mean no.
            Source::Flag(name) if !row.is_new() && said.parameter(name) == Some("") => {
                Some(Value::Bool(false))
            }
            Source::Flag(name) => said.flag(name)?.map(Value::Bool),
            Source::Always(text) => Some(Value::from(*text)),
            Source::Empty => Some(Value::Object(Map::new())),
        };
        let Some(value) = value else { continue };
        if !put(&mut message, place, value) {
            return Err(Problem::bad(format!(
                "{place}: the body says something else than the path"
            )));
        }
    }
    json::read_bytes(method.input, "", &message).map_err(|faults| Problem::faults(&faults))
}

/// What an answer shows.
pub fn write(row: &Row, said: &Said, bytes: &[u8]) -> Result<Value, Problem> {
    let output = json::method(row.rpc).map(|method| method.output).unwrap_or_default();
    let shown = json::write_bytes(output, bytes, Style::Snake);
    match row.gives {
        Gives::Plain => Ok(shown),
        Gives::Pages { field, key, filters } => page(shown, field, key, filters, said),
        Gives::Verdict { flag, why } => verdict(shown, flag, why),
    }
}

fn verdict(shown: Value, flag: &str, why: &str) -> Result<Value, Problem> {
    use axum::http::StatusCode;
    if shown.get(flag).and_then(Value::as_bool) == Some(true) {
        return Ok(shown);
    }
    let text = |key: &str| shown.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let sentence = text(why).unwrap_or("the cluster did not accept it").to_owned();
    if shown.get("not_found").and_then(Value::as_bool) == Some(true) {
        let next = "list what there is";
        return Err(Problem::new(StatusCode::NOT_FOUND, "not_found", sentence, next));
    }
    Err(match text("failure_reason") {
        Some("INVALID_SPEC") => Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "invalid_spec",
            sentence,
            "correct what is named and send it again",
        ),
        Some("INSUFFICIENT_RESOURCES") => Problem::new(
            StatusCode::CONFLICT,
            "insufficient_resources",
            sentence,
            "make room, or ask for less",
        ),
        _ => Problem::new(
            StatusCode::CONFLICT,
            "not_accepted",
            sentence,
            "look at how it is now, then decide again",
        ),
    })
}

fn page(
    mut shown: Value,
    field: &str,
    key: &str,
    filters: &[&str],
    said: &Said,
) -> Result<Value, Problem> {
    let limit = match said.parameter("limit").filter(|text| !text.is_empty()) {
        None => USUAL_ON_PAGE,
        Some(text) => match text.parse() {
            Ok(limit) if (1..=MOST_ON_PAGE).contains(&limit) => limit,
            _ => {
                return Err(Problem::bad(format!(
                    "limit: is not a number from 1 to {MOST_ON_PAGE}"
                )));
            }
        },
    };
    let Some(object) = shown.as_object_mut() else { return Ok(shown) };
    let mut entries = match object.remove(field) {
        Some(Value::Array(entries)) => entries,
        _ => Vec::new(),
    };
    let text = |entry: &Value, key: &str| {
        entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let name = |entry: &Value| {
        let parts: Vec<_> = key.split(',').map(|part| text(entry, part)).collect();
        parts.join("/")
    };
    for filter in filters {
        if let Some(wanted) = said.parameter(filter).filter(|wanted| !wanted.is_empty()) {
            entries.retain(|entry| text(entry, filter).eq_ignore_ascii_case(wanted));
        }
    }
    entries.sort_by_cached_key(name);
    if let Some(after) = said.parameter("page_token").filter(|token| !token.is_empty()) {
        entries.retain(|entry| name(entry).as_str() > after);
    }
    let more = entries.len() > limit;
    entries.truncate(limit);
    if let (true, Some(last)) = (more, entries.last()) {
        object.insert("next_page_token".to_owned(), name(last).into());
    }
    object.insert(field.to_owned(), Value::Array(entries));
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rest::table;

    fn said(path: &[(&str, &str)], query: &[(&str, &str)]) -> Said {
        let own = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        Said { path: own(path), query: own(query) }
    }

    fn row(path: &str) -> &'static Row {
        table::all().find(|row| row.path == path).unwrap()
    }

    #[test]
    fn the_body_and_the_path_must_agree() {
        let row = table::all().find(|row| row.path == "/nodes/{id}/drain").unwrap();
        let said = said(&[("id", "n1")], &[]);
        assert!(read(row, &said, Some(json!({"reason": "disk"}))).is_ok());
        assert!(read(row, &said, Some(json!({"node_id": "n1"}))).is_ok());
        assert!(read(row, &said, Some(json!({"node_id": "n2"}))).is_err());
        assert!(read(row, &said, Some(json!([]))).is_err());
        assert!(read(row, &said, Some(json!({"raeson": "x"}))).is_err());
    }

    #[test]
    fn a_mistyped_parameter_is_refused_where_nobody_relies_on_it() {
        let wrong = said(&[], &[("stauts", "Ready")]);
        let problem = read(row("/v1/nodes"), &wrong, None).unwrap_err();
        assert!(problem.sentence().contains("status, limit, page_token"), "{problem:?}");
        assert!(read(row("/nodes"), &wrong, None).is_ok());
    }

    #[test]
    fn what_would_count_for_nothing_is_refused() {
        let refused = |query: &[(&str, &str)]| {
            read(row("/v1/nodes"), &said(&[], query), None).unwrap_err().sentence().to_owned()
        };
        assert_eq!(refused(&[("limit", "")]), "limit: is not a number");
        assert_eq!(refused(&[("limit", "1"), ("limit", "2")]), "limit: is given more than once");
        let flags = said(&[], &[("yes", "1"), ("no", "false"), ("bad", "Yes"), ("none", "")]);
        assert_eq!(
            (flags.flag("yes").unwrap(), flags.flag("no").unwrap()),
            (Some(true), Some(false))
        );
        assert_eq!(flags.flag("other").unwrap(), None);
        assert!(flags.flag("bad").is_err() && flags.flag("none").is_err());
        assert!(flags.number::<u32>("no").is_err());
        let words = said(&[], &[("argv", "a"), ("argv", "b"), ("cluster_id", "c")]);
        assert!(words.only(&[], &["argv"]).is_ok() && words.only(&["argv"], &[]).is_err());
    }

    #[test]
    fn pages_follow_each_other_and_miss_nothing() {
        let entries: Vec<_> = (0..7).map(|nth| json!({"id": format!("d{nth}"), "driver": if nth % 2 == 0 {"nfs"} else {"local"}})).collect();
        let whole = json!({"disks": entries});
        let (mut seen, mut token) = (Vec::new(), String::new());
        loop {
            let said = said(&[], &[("limit", "2"), ("page_token", &token), ("driver", "NFS")]);
            let page = page(whole.clone(), "disks", "id", &["driver"], &said).unwrap();
            for entry in page["disks"].as_array().unwrap() {
                seen.push(entry["id"].as_str().unwrap().to_owned());
            }
            match page.get("next_page_token").and_then(Value::as_str) {
                Some(next) => token = next.to_owned(),
                None => break,
            }
        }
        assert_eq!(seen, ["d0", "d2", "d4", "d6"]);
        for limit in ["0", "-1", "x", "1001"] {
            assert!(
                page(whole.clone(), "disks", "id", &[], &said(&[], &[("limit", limit)])).is_err()
            );
        }
    }

    #[test]
    fn a_refusal_inside_an_answer_is_a_problem() {
        let refused = json!({"failure_reason": "INVALID_SPEC", "error_message": "image: is empty"});
        let problem = verdict(refused, "success", "error_message").unwrap_err();
        assert_eq!((problem.status().as_u16(), problem.sentence()), (422, "image: is empty"));
        assert!(verdict(json!({"success": true}), "success", "error_message").is_ok());
        assert_eq!(verdict(json!({}), "accepted", "message").unwrap_err().status().as_u16(), 409);
        let gone = json!({"not_found": true, "error_message": "there is no web"});
        let problem = verdict(gone, "success", "error_message").unwrap_err();
        assert_eq!(problem.status().as_u16(), 404, "as a GET of it says");
    }
}
