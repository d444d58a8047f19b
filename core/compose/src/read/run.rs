//! What a service runs: image, words, environment, order, restarts.

use std::collections::BTreeMap;

use super::service::{Draft, word};
use super::value::{self, one_or_more, pairs, quoted};
use crate::finding::Place;
use crate::grammar;
use crate::limits::{ENTRIES, LABEL_VALUE_BYTES};
use crate::service::{Condition, Restart};
use crate::yaml::{Node, Value};

pub(super) fn image(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    let Some(scalar) = value::scalar(at, node) else { return };
    match grammar::image_problem(&scalar.text) {
        Some(what) => {
            at.refused(format!("{} is not an image: {what}", quoted(scalar)));
        }
        None => draft.service.image.clone_from(&scalar.text),
    }
}

pub(super) fn command(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    draft.service.command = words(at, node);
}

pub(super) fn entrypoint(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    draft.service.entrypoint = words(at, node);
}

/// Words, as a list or as a text that is split as a shell would.
fn words(at: &Place<'_>, node: &Node) -> Option<Vec<String>> {
    let words = match &node.value {
        Value::Scalar(scalar) => match split(&scalar.text) {
            Some(words) => words,
            None => return at.refuse("has a quote or a backslash without its end"),
        },
        Value::Null | Value::List(_) | Value::Map(_) => {
            let items = value::list(at, node, ENTRIES)?;
            let words = items.iter().map(|(at, item)| value::text(at, item));
            words.collect::<Option<Vec<_>>>()?
        }
    };
    if words.iter().all(String::is_empty) {
        return at.refuse("is empty, which versions of Compose read differently; leave it out");
    }
    Some(words)
}

/// Splits as a shell does, without expanding anything: white space, quotes, backslashes.
fn split(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\\' => word.get_or_insert_default().push(chars.next()?),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => double_quoted(&mut chars, word.get_or_insert_default())?,
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

fn double_quoted(chars: &mut std::str::Chars<'_>, word: &mut String) -> Option<()> {
    loop {
        match chars.next()? {
            '"' => return Some(()),
            '\\' => match chars.next()? {
                c @ ('"' | '\\') => word.push(c),
                c => word.extend(['\\', c]),
            },
            c => word.push(c),
        }
    }
}

pub(super) fn environment(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    for pair in pairs(at, node).unwrap_or_default() {
        if !grammar::is_variable(&pair.key) {
            pair.at.refused(
                "is not a variable's name: letters, digits, '_', '.', '-', a letter or '_' first",
            );
            continue;
        }
        let value = match (pair.value, draft.variables.get(&pair.key)) {
            (Some(value), _) => value.text,
            (None, Some(value)) => value.clone(),
            (None, None) => {
                pair.at.changed("takes the variable of its name, which is not given; left out");
                continue;
            }
        };
        draft.service.environment.insert(pair.key, value);
    }
}

pub(super) fn labels(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    draft.service.labels = read_labels(at, node);
}

/// Labels of anything; those that are refused are left out.
pub(super) fn read_labels(at: &Place<'_>, node: &Node) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    for pair in pairs(at, node).unwrap_or_default() {
        let value = pair.value.map(|value| value.text).unwrap_or_default();
        if let Some(why) = grammar::label_key_problem(&pair.key) {
            pair.at.refused(why);
        } else if value.len() > LABEL_VALUE_BYTES {
            pair.at.refused(format!("has a value of more than {LABEL_VALUE_BYTES} bytes"));
        } else {
            labels.insert(pair.key, value);
        }
    }
    labels
}

pub(super) fn depends_on<'a>(draft: &mut Draft<'a>, at: &Place<'a>, node: &Node) {
    if !matches!(node.value, Value::Map(_)) {
        for (here, item) in value::list(at, node, ENTRIES).unwrap_or_default() {
            if let Some(name) = value::text(&here, item) {
                draft.names("depends_on", &name, &here);
                draft.service.depends_on.insert(name, Condition::Started);
            }
        }
        return;
    }
    for entry in value::map(at, node, ENTRIES).unwrap_or_default() {
        let here = at.key(&entry.key, entry.line);
        let condition = match &entry.value.value {
            Value::Null => Some(Condition::Started),
            Value::Scalar(_) | Value::List(_) | Value::Map(_) => condition(&here, &entry.value),
        };
        draft.names("depends_on", &entry.key, &here);
        if let Some(condition) = condition {
            draft.service.depends_on.insert(entry.key.clone(), condition);
        }
    }
}

fn condition(at: &Place<'_>, node: &Node) -> Option<Condition> {
    let mut condition = Condition::Started;
    for entry in value::map(at, node, ENTRIES)? {
        let here = at.key(&entry.key, entry.line);
        match entry.key.as_str() {
            "condition" => {
                let words = [Condition::Started, Condition::Healthy, Condition::Completed];
                let said = word(&here, &entry.value, &words.map(Condition::word))?;
                condition = words.into_iter().find(|one| one.word() == said)?;
            }
            "restart" => here.ignored("services are restarted by their own rules"),
            "required" => {
                if !value::truth(&here, &entry.value)? {
                    here.changed("a stack goes up as one unit; what it needs is required");
                }
            }
            key => return here.refuse(super::unknown("a dependency", key, ["condition"])),
        }
    }
    Some(condition)
}

pub(super) fn restart(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    let Some(scalar) = value::scalar(at, node) else { return };
    let (policy, count) = match scalar.text.split_once(':') {
        Some((policy, count)) => (policy, count.parse::<u32>().ok().filter(|n| *n <= 10_000)),
        None => (scalar.text.as_str(), Some(0)),
    };
    let restart = match (policy, count) {
        // YAML itself reads a bare `no` as false, and some tools write it back as such.
        ("no" | "false" | "", Some(0)) => Restart::No,
        ("always", Some(max_retries)) => Restart::Always { max_retries },
        ("on-failure", Some(max_retries)) => Restart::OnFailure { max_retries },
        ("unless-stopped", Some(0)) => Restart::UnlessStopped,
        _ => {
            at.refused(format!(
                "{} is not one of no, always, on-failure, on-failure:<count>, unless-stopped",
                quoted(scalar)
            ));
            return;
        }
    };
    draft.service.restart = restart;
    if restart != Restart::No {
        at.changed(KEPT_BY_AGENT);
    }
}

/// Said of every policy that restarts.
pub(super) const KEPT_BY_AGENT: &str = "kept by the agent, with growing pauses, instead of Docker";

/// A service with profiles is started by those who name one of them, and nobody does here.
pub(super) fn profiles(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    let profiles = one_or_more(at, node).unwrap_or_default();
    let all = profiles.iter().filter_map(|(at, item)| value::text(at, item));
    if all.count() > 0 {
        draft.has_profiles = true;
        at.changed("no profile is chosen here; the service is left out");
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn words_are_split_as_by_a_shell() {
        for (given, expected) in [
            ("a b", Some(vec!["a", "b"])),
            ("  a\n b\t", Some(vec!["a", "b"])),
            (r#"sh -c "echo 'x y' \"z\" \n""#, Some(vec!["sh", "-c", r#"echo 'x y' "z" \n"#])),
            (r"a\ b '' c", Some(vec!["a b", "", "c"])),
            ("# not a comment", Some(vec!["#", "not", "a", "comment"])),
            ("a;b|c&&$(d)", Some(vec!["a;b|c&&$(d)"])),
            ("'open", None),
            ("\"open", None),
            ("end\\", None),
        ] {
            let words = split(given);
            let words = words.as_ref().map(|w| w.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(words, expected, "{given}");
        }
    }
}
