//! `docs/specs.md` keeps to the program: its tables are made from the contract and from the limits of
//! the check, a field without a word about it is a fault, and every example on it can be applied.
//!
//! A table stands between `<!-- fields: MESSAGE -->` and `<!-- end -->`;
//! `PERSYS_BLESS=1 cargo test -p persys-cli manifest::page` writes them anew.

mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use persys_proto::json;
use serde_json::Value;

use super::{Beside, read};
use words::{Field, words};

const PACKAGE: &str = "persys.control.v1.";
const ROOT: &str = "persys.control.v1.ApplyWorkloadRequest";
const END: &str = "<!-- end -->";

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/specs.md")
}

/// Everything a spec can be made of, by short name.
fn messages() -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    json::schema(ROOT, &mut found);
    found
        .into_iter()
        .map(|(name, schema)| (name.trim_start_matches(PACKAGE).to_owned(), schema))
        .collect()
}

/// What a field holds, in a word.
fn holds(schema: &Value) -> String {
    if let Some(other) = schema["$ref"].as_str() {
        let name = other.rsplit('.').next().unwrap_or(other);
        return format!("[{name}](#{})", name.to_lowercase());
    }
    match schema["type"].as_str() {
        Some("array") => format!("list of {}", plural(&schema["items"])),
        Some("object") => "texts by name".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some("string") => "text".to_owned(),
        // Of 64 bits it may be written as a text, too.
        Some(_) | None => "number".to_owned(),
    }
}

fn plural(schema: &Value) -> String {
    match holds(schema).as_str() {
        "text" => "texts".to_owned(),
        other => other.to_owned(),
    }
}

/// The table of one message: its fields in the order of the contract.
fn table(name: &str, schema: &Value) -> String {
    let words = words(name);
    let said: BTreeMap<_, _> = words.iter().map(|field| (field.name, field)).collect();
    let fields = json::keys(&format!("{PACKAGE}{name}"));
    let known: BTreeSet<_> = fields.iter().copied().collect();
    for field in said.keys() {
        assert!(known.contains(field), "{name} has no field {field}; mend page/words");
    }
    let mut text = "| field | holds | if not given | |\n|---|---|---|---|\n".to_owned();
    for field in fields {
        let Some(Field { default, help, .. }) = said.get(field) else {
            panic!("{name}.{field} is not described; add a line in page/words");
        };
        let holds = holds(&schema["properties"][field]);
        writeln!(text, "| `{field}` | {holds} | {default} | {help} |").unwrap();
    }
    text
}

#[test]
fn every_field_of_a_spec_is_on_the_page() {
    let old = std::fs::read_to_string(page()).unwrap();
    let messages = messages();
    let mut new = String::new();
    let mut shown = BTreeSet::new();
    let mut rest = old.as_str();
    while let Some((before, after)) = rest.split_once("<!-- fields: ") {
        let (name, after) = after.split_once(" -->\n").unwrap();
        let (_, after) = after.split_once(END).unwrap_or_else(|| panic!("{name}: no {END}"));
        let schema = messages.get(name).unwrap_or_else(|| panic!("there is no message {name}"));
        let table = table(name, schema);
        write!(new, "{before}<!-- fields: {name} -->\n{table}{END}").unwrap();
        assert!(shown.insert(name.to_owned()), "{name} is shown twice");
        rest = after;
    }
    new.push_str(rest);
    let all: BTreeSet<_> = messages.keys().cloned().collect();
    assert_eq!(shown, all, "each message has a table on the page");
    if std::env::var_os("PERSYS_BLESS").is_some() {
        std::fs::write(page(), &new).unwrap();
    }
    let written = std::fs::read_to_string(page()).unwrap();
    assert!(written == new, "docs/specs.md is not that of the contract; PERSYS_BLESS=1 makes it");
}

/// Whatever is shown in YAML is a file that somebody will copy: it must be one that can be applied.
#[test]
fn every_example_can_be_applied() {
    let text = std::fs::read_to_string(page()).unwrap();
    let mut seen = 0;
    for block in text.split("```yaml\n").skip(1) {
        let example = block.split("```").next().unwrap();
        let beside = Beside { id: None, ..Beside::default() };
        let found = read("docs/specs.md", example, &beside).or_else(|_| {
            let id = Some("example".to_owned());
            read("docs/specs.md", example, &Beside { id, ..Beside::default() })
        });
        if let Err(problem) = found {
            panic!("{}\n{:?}\n{example}", problem.what, problem.why);
        }
        seen += 1;
    }
    assert!(seen > 8, "{seen}");
}
