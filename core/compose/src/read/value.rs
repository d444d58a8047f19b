//! Leaves of reading: texts, numbers, amounts, times, lists and mappings.
//!
//! A text is quoted in a finding only if no variable was filled into it: what a variable holds may
//! be secret.

use std::collections::BTreeSet;

use crate::finding::{Place, shown};
use crate::limits::ENTRIES;
use crate::yaml::{Entry, Node, Scalar, Value};

/// `scalar` for a message.
pub(super) fn quoted(scalar: &Scalar) -> String {
    if scalar.filled_in {
        "what its variables give".to_owned()
    } else {
        format!("\"{}\"", shown(&scalar.text))
    }
}

fn kind(node: &Node) -> &'static str {
    match &node.value {
        Value::Null => "empty",
        Value::Scalar(_) => "a single value",
        Value::List(_) => "a list",
        Value::Map(_) => "a mapping",
    }
}

/// The one value here.
pub(super) fn scalar<'a>(at: &Place<'_>, node: &'a Node) -> Option<&'a Scalar> {
    match &node.value {
        Value::Scalar(scalar) => Some(scalar),
        Value::Null | Value::List(_) | Value::Map(_) => {
            at.refuse(format!("must be a single value, but is {}", kind(node)))
        }
    }
}

/// The text here.
pub(super) fn text(at: &Place<'_>, node: &Node) -> Option<String> {
    scalar(at, node).map(|scalar| scalar.text.clone())
}

/// A text that `is_well_formed`; `what` says what it should be.
pub(super) fn shaped(
    at: &Place<'_>,
    node: &Node,
    what: &str,
    is_well_formed: impl FnOnce(&str) -> bool,
) -> Option<String> {
    let scalar = scalar(at, node)?;
    if is_well_formed(&scalar.text) {
        return Some(scalar.text.clone());
    }
    at.refuse(format!("{} is not {what}", quoted(scalar)))
}

/// A text that `convert` makes something of; `what` says what it should be.
pub(super) fn parsed<T>(
    at: &Place<'_>,
    node: &Node,
    what: &str,
    convert: impl FnOnce(&str) -> Option<T>,
) -> Option<T> {
    let scalar = scalar(at, node)?;
    match convert(&scalar.text) {
        Some(value) => Some(value),
        None => at.refuse(format!("{} is not {what}", quoted(scalar))),
    }
}

/// True or false, in the words of YAML.
pub(super) fn truth(at: &Place<'_>, node: &Node) -> Option<bool> {
    parsed(at, node, "true or false", |text| match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" => Some(true),
        "false" | "no" | "off" | "n" => Some(false),
        _ => None,
    })
}

/// A whole number within `least` and `most`.
pub(super) fn whole(at: &Place<'_>, node: &Node, least: i64, most: i64) -> Option<i64> {
    let what = format!("a whole number from {least} to {most}");
    parsed(at, node, &what, |text| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|n| is_number && (least..=most).contains(n))
    })
}

/// A whole number that is not negative.
pub(super) fn count(at: &Place<'_>, node: &Node, least: u64, most: u64) -> Option<u64> {
    let bound = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    whole(at, node, bound(least), bound(most)).and_then(|n| u64::try_from(n).ok())
}

/// Bytes, as a number or with a unit such as `512m` or `1.5gb`; units are of 1024.
pub(super) fn bytes(at: &Place<'_>, node: &Node, least: u64, most: u64) -> Option<u64> {
    let what = format!("an amount of memory such as 512m or 2g, from {least} to {most} bytes");
    parsed(at, node, &what, |text| amount(text).filter(|n| (least..=most).contains(n)))
}

fn amount(text: &str) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let end = lower.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(lower.len());
    let (number, unit) = lower.split_at(end);
    let shift = match unit.trim() {
        "" | "b" => 0_u32,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    let (thousandths, factor) = (thousandths(number)?, 1_u64.checked_shl(shift)?);
    thousandths.checked_mul(factor).map(|n| n.div_ceil(1000))
}

/// A decimal number in thousandths, rounded up.
pub(super) fn thousandths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && part.is_empty()) || !digits(whole) || !digits(part) || part.len() > 9 {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let nanos: u64 = format!("{part:0<9}").parse().ok()?;
    whole.checked_mul(1000)?.checked_add(nanos.div_ceil(1_000_000))
}

/// A time such as `1m30s`, in milliseconds.
pub(super) fn duration(at: &Place<'_>, node: &Node) -> Option<u64> {
    parsed(at, node, "a time such as 500ms, 10s or 1m30s, at most a day", milliseconds)
}

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A time such as `1m30s`, at most a day, in milliseconds.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let mut rest = text;
    // In thousandths of a millisecond, so that what is shorter still counts.
    let mut total = 0_u64;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        // Thousandths of the unit, and what one of the unit is in milliseconds.
        let (scale, divide) = match unit {
            "h" => (3_600_000, 1),
            "m" => (60_000, 1),
            "s" => (1_000, 1),
            "ms" => (1, 1),
            "us" | "µs" => (1, 1_000),
            "ns" => (1, 1_000_000),
            _ => return None,
        };
        let part = thousandths(number)?.checked_mul(scale)?.div_ceil(divide);
        total = total.checked_add(part)?;
        rest = tail;
    }
    Some(total.div_ceil(1000)).filter(|ms| !text.is_empty() && *ms <= DAY_MS)
}

/// The entries of the list here.
pub(super) fn list<'n, 'p>(
    at: &Place<'p>,
    node: &'n Node,
    most: usize,
) -> Option<Vec<(Place<'p>, &'n Node)>> {
    let Value::List(items) = &node.value else {
        return at.refuse(format!("must be a list, but is {}", kind(node)));
    };
    if items.len() > most {
        return at.refuse(format!("has {} entries; at most {most} are read", items.len()));
    }
    Some(items.iter().enumerate().map(|(nth, item)| (at.item(nth, item.line), item)).collect())
}

/// The entries of the mapping here.
pub(super) fn map<'n>(at: &Place<'_>, node: &'n Node, most: usize) -> Option<&'n [Entry]> {
    let Value::Map(entries) = &node.value else {
        return at.refuse(format!("must be a mapping, but is {}", kind(node)));
    };
    if entries.len() > most {
        return at.refuse(format!("has {} entries; at most {most} are read", entries.len()));
    }
    Some(entries)
}

/// The texts of a list, or the one text that stands for a list of one.
pub(super) fn one_or_more<'n, 'p>(
    at: &Place<'p>,
    node: &'n Node,
) -> Option<Vec<(Place<'p>, &'n Node)>> {
    match &node.value {
        Value::Scalar(_) => Some(vec![(at.clone(), node)]),
        Value::Null | Value::List(_) | Value::Map(_) => list(at, node, ENTRIES),
    }
}

/// A key with or without a value.
pub(super) struct Pair<'p> {
    pub(super) at: Place<'p>,
    pub(super) key: String,
    pub(super) value: Option<Scalar>,
}

/// Pairs, written as a mapping or as a list of `key=value`. No key twice.
pub(super) fn pairs<'p>(at: &Place<'p>, node: &Node) -> Option<Vec<Pair<'p>>> {
    if matches!(node.value, Value::Map(_)) {
        let mut pairs = Vec::new();
        for entry in map(at, node, ENTRIES)? {
            let here = at.key(&entry.key, entry.line);
            let value = match &entry.value.value {
                Value::Null => None,
                Value::Scalar(_) | Value::List(_) | Value::Map(_) => {
                    Some(scalar(&here, &entry.value)?.clone())
                }
            };
            pairs.push(Pair { at: here, key: entry.key.clone(), value });
        }
        return Some(pairs);
    }
    let mut pairs = Vec::new();
    let mut seen = BTreeSet::new();
    for (here, item) in list(at, node, ENTRIES)? {
        let whole = scalar(&here, item)?;
        let (key, value) = match whole.text.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (whole.text.as_str(), None),
        };
        if !seen.insert(key.to_owned()) {
            return here.refuse("gives a key that an earlier entry gave");
        }
        let filled_in = whole.filled_in;
        let value = value.map(|value| Scalar { text: value.to_owned(), filled_in });
        pairs.push(Pair { at: here, key: key.to_owned(), value });
    }
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_and_times_are_those_of_the_specification() {
        for (given, expected) in [
            ("1024", Some(1024)),
            ("1b", Some(1)),
            ("2k", Some(2048)),
            ("1.5GB", Some(3 << 29)),
            ("512 m", Some(512 << 20)),
            ("0.5g", Some(1 << 29)),
            ("", None),
            ("g", None),
            ("-1m", None),
            ("1x", None),
            ("1e3", None),
            ("99999999999999999999", None),
            ("99999999999t", None),
        ] {
            assert_eq!(amount(given), expected, "{given}");
        }
        for (given, expected) in [
            ("500ms", Some(500)),
            ("1m30s", Some(90_000)),
            ("1.5s", Some(1500)),
            ("2h", Some(7_200_000)),
            ("100us", Some(1)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("10", None),
            ("", None),
            ("s", None),
            ("1d", None),
            ("25h", None),
            ("999999999999999999h", None),
        ] {
            assert_eq!(milliseconds(given), expected, "{given}");
        }
        assert_eq!(thousandths("0.5"), Some(500));
        assert_eq!(thousandths(".0001"), Some(1));
        assert_eq!(thousandths("."), None);
    }
}
