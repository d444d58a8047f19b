//! The table for readers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{State, Statement};

const HEAD: &str = "# Requirements

Five documents say what this system must do: two guides for those who connect an agent and a scheduler, and the
descriptions of the agent, of the scheduler and of the whole. They were taken apart into statements that can be
checked. Each is here once, in the order of its document, with its state and what shows it.

| state | meaning |
|---|---|
| holds | true as it is written; the test named beside it fails if that changes |
| differs | done otherwise, for the reason given, which a manual describes |
| not here | cannot be tried on the hosts where the tests run, for the reason given |

This page is made from [requirements.txt](requirements.txt) by `PERSYS_BLESS=1 cargo test -p persys-tidy`. The same
test without the variable checks that each test that is named exists, and that the page is up to date.
";

/// The page for these statements.
pub fn write(statements: &[Statement<'_>]) -> String {
    let mut page = HEAD.to_owned();
    page.push_str(&summary(statements));
    let (mut document, mut part) = ("", "");
    for said in statements {
        if said.document != document {
            line(&mut page, format_args!("\n## {}", said.document));
            part = "";
        }
        if said.document != document || said.part != part {
            line(&mut page, format_args!("\n### {}\n", said.part));
            line(&mut page, format_args!("| statement | state | shown by |\n|---|---|---|"));
        }
        (document, part) = (said.document, said.part);
        let (text, state, shown) = (cell(said.text), said.state.word(), shown(said));
        line(&mut page, format_args!("| {text} | {state} | {shown} |"));
    }
    page
}

fn line(page: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing into a string cannot fail.
    let written = writeln!(page, "{text}");
    debug_assert!(written.is_ok(), "a string takes everything");
}

/// Counts by document and state.
fn summary(statements: &[Statement<'_>]) -> String {
    let mut counts: BTreeMap<(usize, &str), [usize; 3]> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for said in statements {
        if order.last() != Some(&said.document) {
            order.push(said.document);
        }
        let states = counts.entry((order.len(), said.document)).or_default();
        for (count, state) in states.iter_mut().zip(State::ALL) {
            *count += usize::from(state == said.state);
        }
    }
    let mut text =
        "\n| document | holds | differs | not here | all |\n|---|---|---|---|---|\n".to_owned();
    let mut sum = [0; 3];
    for ((_, document), states) in counts {
        row(&mut text, document, states);
        for (sum, count) in sum.iter_mut().zip(states) {
            *sum += count;
        }
    }
    row(&mut text, "all", sum);
    text
}

fn row(text: &mut String, name: &str, [holds, differs, not_here]: [usize; 3]) {
    let all = holds + differs + not_here;
    line(text, format_args!("| {name} | {holds} | {differs} | {not_here} | {all} |"));
}

fn shown(said: &Statement<'_>) -> String {
    let mut parts: Vec<String> = Vec::new();
    if !said.reason.is_empty() {
        let reason = cell(said.reason);
        parts.push(if said.manual.is_empty() {
            reason
        } else {
            let manual = said.manual;
            let (file, _) = manual.split_once('#').unwrap_or((manual, ""));
            let name = file.rsplit('/').next().unwrap_or(file);
            format!("{reason} ([{name}]({}))", from_docs(manual))
        });
    }
    parts.extend(said.evidence.iter().map(|one| reference(one)));
    parts.join("<br>")
}

/// A reference as a link to the file it is in.
fn reference(evidence: &str) -> String {
    if let Some(target) = evidence.strip_prefix("make ") {
        return format!("[`make {target}`](../Makefile)");
    }
    let (path, name) = evidence
        .split_once("::")
        .or_else(|| evidence.split_once('!'))
        .unwrap_or((evidence, evidence));
    format!("[`{name}`]({})", from_docs(path))
}

fn from_docs(path: &str) -> String {
    path.strip_prefix("docs/").map_or_else(|| format!("../{path}"), str::to_owned)
}

/// Text that does not end the cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
