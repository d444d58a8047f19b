//! References to what shows a statement, each of which must exist.
//!
//! | reference | what must be there |
//! |---|---|
//! | `path/file.rs::name` | a function of that name in that file, under a test attribute |
//! | `path/file.rs::name[case]` | the same, and the case as a quoted text or a word of the file |
//! | `path/file.rs!name` | a case of a macro that makes tests in that file |
//! | `make target` | a target of the Makefile |
//! | `hack/name`, `.ci/name` | a script |

use crate::tree::SourceFile;

/// Lines between a test attribute and its function: further attributes and comments.
const MOST_BETWEEN: usize = 6;

/// Checks that what is referred to exists.
pub fn check(reference: &str, files: &[SourceFile]) -> Result<(), String> {
    if let Some(target) = reference.strip_prefix("make ") {
        let makefile = text("Makefile", files).unwrap_or_default();
        let is_target = |line: &str| {
            let (names, _) = line.split_once(':').unwrap_or_default();
            !line.starts_with(['\t', '.', '#']) && names.split_whitespace().any(|n| n == target)
        };
        let found = makefile.lines().any(is_target);
        return found.then_some(()).ok_or_else(|| format!("the Makefile has no target {target}"));
    }
    if reference.starts_with("hack/") || reference.starts_with(".ci/") {
        let found = text(reference, files).map(|_| ());
        return found.ok_or_else(|| format!("there is no script {reference}"));
    }
    if let Some((path, case)) = reference.split_once(".rs!") {
        return check_macro(&format!("{path}.rs"), case, files);
    }
    let Some((path, name)) = reference.split_once("::") else {
        return Err(format!("{reference} is no reference to a test"));
    };
    let source = text(path, files).ok_or_else(|| format!("there is no file {path}"))?;
    let (name, case) = match name.split_once('[') {
        Some((name, case)) => (name, case.strip_suffix(']')),
        None => (name, None),
    };
    if !has_test(source, name) {
        return Err(format!("{path} has no test {name}"));
    }
    match case {
        Some(case) if !has_word(source, case) => Err(format!("{path} has no case {case}")),
        _ => Ok(()),
    }
}

/// Checks that a manual exists, with the heading after `#`.
pub fn check_manual(manual: &str, files: &[SourceFile]) -> Result<(), String> {
    let (path, heading) = manual.split_once('#').unwrap_or((manual, ""));
    if manual.is_empty() {
        return Err("differs, and no manual says so".to_owned());
    }
    let page = text(path, files).ok_or_else(|| format!("there is no manual {path}"))?;
    let mut headings = page.lines().filter(|line| line.starts_with('#'));
    if heading.is_empty()
        || headings.any(|line| slug(line.trim_start_matches('#').trim()) == heading)
    {
        Ok(())
    } else {
        Err(format!("{path} has no heading {heading}"))
    }
}

fn check_macro(path: &str, case: &str, files: &[SourceFile]) -> Result<(), String> {
    let source = text(path, files).ok_or_else(|| format!("there is no file {path}"))?;
    let makes_tests = source.contains("macro_rules!") && source.lines().any(is_test_attribute);
    let listed = source.lines().any(|line| line.trim().trim_end_matches(',') == case);
    if makes_tests && listed {
        Ok(())
    } else {
        Err(format!("{path} has no macro that makes a test {case}"))
    }
}

fn text<'a>(path: &str, files: &'a [SourceFile]) -> Option<&'a str> {
    files.iter().find(|file| file.path == path).map(|file| &*file.text)
}

fn is_test_attribute(line: &str) -> bool {
    let line = line.trim();
    ["#[test]", "#[tokio::test]", "#[tokio::test("].iter().any(|start| line.starts_with(start))
        || line.starts_with("#[$test]")
}

fn has_test(source: &str, name: &str) -> bool {
    let lines: Vec<_> = source.lines().collect();
    let attributes = lines.iter().enumerate().filter(|(_, line)| is_test_attribute(line));
    let mut functions = attributes.filter_map(|(at, _)| {
        lines.iter().skip(at + 1).take(MOST_BETWEEN).find_map(|line| function(line))
    });
    functions.any(|found| found == name)
}

/// The name of the function a line begins.
fn function(line: &str) -> Option<&str> {
    let line = line.trim();
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    line.strip_prefix("fn ")?.split(['(', '<']).next()
}

/// A word of the source, not a part of a longer one.
fn has_word(source: &str, word: &str) -> bool {
    let part_of_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    !word.is_empty()
        && source.match_indices(word).any(|(at, _)| {
            let before = source.get(..at).and_then(|text| text.chars().next_back());
            let after = source.get(at + word.len()..).and_then(|text| text.chars().next());
            !part_of_word(before) && !part_of_word(after)
        })
}

/// A heading as links name it.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}
