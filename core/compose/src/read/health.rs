//! How the health of a service is found out.

use super::service::Draft;
use super::value::{self, count, duration};
use crate::finding::Place;
use crate::limits::ENTRIES;
use crate::service::Health;
use crate::yaml::{Node, Value};

pub(super) fn healthcheck(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    draft.service.healthcheck = read(at, node);
}

fn read(at: &Place<'_>, node: &Node) -> Option<Health> {
    let (mut said, mut is_disabled) = (None, false);
    let (mut interval_ms, mut timeout_ms, mut retries, mut start_period_ms) =
        (None, None, None, None);
    for entry in value::map(at, node, ENTRIES)? {
        let (here, node) = (at.key(&entry.key, entry.line), &entry.value);
        match entry.key.as_str() {
            "test" => match test(&here, node)? {
                None => is_disabled = true,
                words => said = words,
            },
            "disable" => is_disabled |= value::truth(&here, node)?,
            "interval" => interval_ms = Some(duration(&here, node)?),
            "timeout" => timeout_ms = Some(duration(&here, node)?),
            "start_period" => start_period_ms = Some(duration(&here, node)?),
            "retries" => retries = u32::try_from(count(&here, node, 0, 1000)?).ok(),
            "start_interval" => here.ignored("the older compose program cannot read it"),
            key if key.starts_with("x-") => here.ignored("is the file's own"),
            key => {
                let known = ["test", "disable", "interval", "timeout", "retries", "start_period"];
                return here.refuse(super::unknown("a healthcheck", key, known));
            }
        }
    }
    if is_disabled {
        return Some(Health::Disabled);
    }
    Some(Health::Check { test: said, interval_ms, timeout_ms, retries, start_period_ms })
}

/// The command; the inner `None` is "not at all".
#[expect(clippy::option_option, reason = "outer: well formed; inner: there is a check")]
fn test(at: &Place<'_>, node: &Node) -> Option<Option<Vec<String>>> {
    if let Value::Scalar(scalar) = &node.value {
        return match scalar.text.as_str() {
            "" => at.refuse("is empty; write NONE to have no check"),
            "NONE" => Some(None),
            text => Some(Some(vec!["CMD-SHELL".to_owned(), text.to_owned()])),
        };
    }
    let items = value::list(at, node, ENTRIES)?;
    let words: Option<Vec<_>> = items.iter().map(|(at, item)| value::text(at, item)).collect();
    let words = words?;
    match (words.first().map(String::as_str), words.len()) {
        (Some("NONE"), 1) => Some(None),
        (Some("CMD"), 2..) | (Some("CMD-SHELL"), 2) => Some(Some(words)),
        _ => at.refuse("must start with CMD and words, CMD-SHELL and one text, or be NONE"),
    }
}
