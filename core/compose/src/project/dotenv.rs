//! Files of variables, `.env` and those that `env_file` names, read as the compose program reads them.
//!
//! `NAME=value` a line, with or without `export`. Quotes may go over several lines; without them, what
//! follows a space and a `#` is a comment. `${NAME}` and `${NAME:-other}` are filled in; a `$` without a
//! brace is a `$`.

use std::collections::BTreeMap;

/// A name, and its value if it has one.
pub(super) type Pair = (String, Option<String>);

/// The variables in `text`, with others to fill in; or the line that cannot be read, and why.
pub(super) fn parse(
    text: &str,
    others: &BTreeMap<String, String>,
) -> Result<Vec<Pair>, (u32, &'static str)> {
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut pairs, mut known): (Vec<Pair>, BTreeMap<String, String>) =
        (Vec::new(), BTreeMap::new());
    let line_of = |rest: &str| {
        let read = text.len().saturating_sub(rest.len());
        let lines = text.get(..read).unwrap_or(text).matches('\n').count();
        u32::try_from(lines.saturating_add(1)).unwrap_or(u32::MAX)
    };
    while !rest.is_empty() {
        let start = rest;
        let (line, next) = rest.split_once('\n').unwrap_or((rest, ""));
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            rest = next;
            continue;
        }
        let body = rest.trim_start();
        let body = match body.strip_prefix("export") {
            Some(after) if after.starts_with([' ', '\t']) => after.trim_start_matches([' ', '\t']),
            Some(_) | None => body,
        };
        let end = body.find(['=', '\n']).unwrap_or(body.len());
        let (name, after) = body.split_at(end);
        let name = name.split(" #").next().unwrap_or_default();
        let name = name.trim().trim_matches('\'').to_owned();
        if name.is_empty() {
            return Err((line_of(start), "has no name before '='"));
        }
        let Some(after) = after.strip_prefix('=') else {
            pairs.push((name, None));
            rest = next;
            continue;
        };
        let (value, after) =
            value(after.trim_start_matches([' ', '\t'])).map_err(|why| (line_of(start), why))?;
        rest = after;
        let value = filled(&value, |name| known.get(name).or_else(|| others.get(name)));
        known.insert(name.clone(), value.clone());
        pairs.push((name, Some(value)));
    }
    Ok(pairs)
}

/// The value at the start of `text`, and what follows its line.
fn value(text: &str) -> Result<(String, &str), &'static str> {
    let Some(quote) = text.chars().next().filter(|first| matches!(first, '\'' | '"')) else {
        let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
        let comment = line
            .match_indices('#')
            .find(|(at, _)| line.get(..*at).is_some_and(|before| before.ends_with([' ', '\t'])));
        let kept = comment.map_or(line, |(at, _)| line.get(..at).unwrap_or(line));
        return Ok((kept.trim_end().to_owned(), rest));
    };
    let mut value = String::new();
    let mut letters = text.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        if letter == quote {
            let after = text.get(at.saturating_add(1)..).unwrap_or_default();
            let (line, rest) = after.split_once('\n').unwrap_or((after, ""));
            return match line.trim_start() {
                "" | "\r" => Ok((value, rest)),
                comment if comment.starts_with('#') => Ok((value, rest)),
                _ => Err("goes on after its quotes"),
            };
        }
        match (letter, quote) {
            ('\\', '"') => value.extend(letters.next().map(|(_, escaped)| match escaped {
                'n' => "\n".to_owned(),
                'r' => "\r".to_owned(),
                't' => "\t".to_owned(),
                c @ ('\\' | '"' | '\'') => c.to_string(),
                c => format!("\\{c}"),
            })),
            ('\\', _) => value.extend(letters.next().map(|(_, escaped)| match escaped {
                c @ ('\\' | '\'') => c.to_string(),
                c => format!("\\{c}"),
            })),
            (letter, _) => value.push(letter),
        }
    }
    Err("has a quote without its end")
}

/// `text` with `${NAME}` and `${NAME:-other}` filled in.
fn filled<'v>(text: &str, lookup: impl Fn(&str) -> Option<&'v String>) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inside, following)) = after.split_once('}') else { break };
        out.push_str(before);
        let (name, other) = inside.split_once(":-").unwrap_or((inside, ""));
        out.push_str(lookup(name).map_or(other, String::as_str));
        rest = following;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_mean_what_they_mean_to_the_compose_program() {
        let text = "A=base\nB='${A}-x'\nC=\"${A}-x\\n\"\nD=${A}$A-$x # c\nE=#x\nF= #y\nG=\"q\" # c\n\
                    export H=h\nI=it's fine\nJ=\"multi\nline\"\nK=${NOPE:-def}\nL\nM='a\\'b'\nN=a#b\n\
                    O=\"a$b\"\n  # note\n\nP=${OTHER}\r\n";
        let others = BTreeMap::from([("OTHER".to_owned(), "o".to_owned())]);
        let found = parse(text, &others).unwrap();
        let found: Vec<_> = found.iter().map(|(k, v)| (k.as_str(), v.as_deref())).collect();
        assert_eq!(
            found,
            [
                ("A", Some("base")),
                ("B", Some("base-x")),
                ("C", Some("base-x\n")),
                ("D", Some("base$A-$x")),
                ("E", Some("#x")),
                ("F", Some("#y")),
                ("G", Some("q")),
                ("H", Some("h")),
                ("I", Some("it's fine")),
                ("J", Some("multi\nline")),
                ("K", Some("def")),
                ("L", None),
                ("M", Some("a'b")),
                ("N", Some("a#b")),
                ("O", Some("a$b")),
                ("P", Some("o")),
            ]
        );
        assert_eq!(parse("A=1\n=x", &others), Err((2, "has no name before '='")));
        assert_eq!(parse("A='x\n", &others), Err((1, "has a quote without its end")));
        assert_eq!(parse("A='x' y\n", &others), Err((1, "goes on after its quotes")));
        assert_eq!(parse("", &others), Ok(Vec::new()));
    }
}
