//! The statements of the requirement documents, each with its state and what shows it.
//!
//! `docs/requirements.txt` is written by hand; `docs/requirements.md` is made from it. A statement
//! cannot lose its test unnoticed: a reference to a test that is renamed or removed is a finding.
//!
//! ```text
//! # Title of a document
//! ## A part of it
//! statement | holds    | evidence, evidence
//! statement | differs  | evidence, evidence | reason | docs/page.md#heading
//! statement | not here | -                  | reason
//! ```

pub mod evidence;
pub mod page;

use crate::Finding;
use crate::tree::SourceFile;

/// The statements, written by hand.
pub const SOURCE: &str = "docs/requirements.txt";
/// The table for readers, made from [`SOURCE`].
pub const PAGE: &str = "docs/requirements.md";
/// Statements of the five documents; none is added or dropped by the way.
pub const STATEMENTS: usize = 362;

/// The state of a statement on the present tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// True as it is written.
    Holds,
    /// Done otherwise, for a reason that a manual gives.
    Differs,
    /// Cannot be tried on the hosts where the tests run.
    NotHere,
}

impl State {
    /// All of them, in the order of the page.
    pub const ALL: [Self; 3] = [Self::Holds, Self::Differs, Self::NotHere];

    /// The word for it in the source and on the page.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Differs => "differs",
            Self::NotHere => "not here",
        }
    }
}

/// One checkable statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement<'a> {
    /// Line of the source, from 1.
    pub line: usize,
    /// Title of the document.
    pub document: &'a str,
    /// The part of the document.
    pub part: &'a str,
    /// The statement itself.
    pub text: &'a str,
    /// Whether it is true.
    pub state: State,
    /// References to what shows it.
    pub evidence: Vec<&'a str>,
    /// The reason of a difference, or of not being tried.
    pub reason: &'a str,
    /// The manual that describes a difference: a file, and a heading in it after `#`.
    pub manual: &'a str,
}

/// Reads the source. Lines that are not statements are findings, and all of them are named.
pub fn parse(source: &str) -> (Vec<Statement<'_>>, Vec<Finding>) {
    let (mut statements, mut findings) = (Vec::new(), Vec::new());
    let (mut document, mut part) = ("", "");
    for (at, line) in source.lines().enumerate() {
        let at = at + 1;
        if let Some(title) = line.strip_prefix("## ") {
            part = title.trim();
        } else if let Some(title) = line.strip_prefix("# ") {
            (document, part) = (title.trim(), "");
        } else if !line.trim().is_empty() && !line.starts_with("//") {
            match statement(line) {
                Ok(said) if !document.is_empty() && !part.is_empty() => {
                    statements.push(Statement { line: at, document, part, ..said });
                }
                Ok(_) => findings.push(finding(at, "stands under no part of a document")),
                Err(problem) => findings.push(finding(at, problem)),
            }
        }
    }
    (statements, findings)
}

fn statement(line: &str) -> Result<Statement<'_>, &'static str> {
    let fields: Vec<_> = line.split(" | ").map(str::trim).collect();
    let field = |at: usize| fields.get(at).copied().unwrap_or_default();
    let (text, word) = (field(0), field(1));
    let state = State::ALL.into_iter().find(|state| state.word() == word);
    let state = state.ok_or("its state must be holds, differs or not here")?;
    let most = match state {
        State::Holds => 3,
        State::Differs => 5,
        State::NotHere => 4,
    };
    if fields.len() > most {
        return Err("has more fields than its state asks for");
    }
    if text.is_empty() || field(2).is_empty() {
        return Err("must have a text and evidence, or `-` where nothing can show it");
    }
    let evidence = field(2).split(',').map(str::trim).filter(|one| *one != "-").collect();
    let (reason, manual) = (field(3), field(4));
    let (document, part, line) = ("", "", 0);
    Ok(Statement { line, document, part, text, state, evidence, reason, manual })
}

fn finding(line: usize, problem: impl Into<String>) -> Finding {
    Finding { path: format!("{SOURCE}:{line}"), problem: problem.into() }
}

/// Everything wrong with the statements and the page made from them.
pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    let text = |path: &str| files.iter().find(|file| file.path == path).map(|file| &*file.text);
    let Some(source) = text(SOURCE) else {
        return vec![Finding { path: SOURCE.to_owned(), problem: "is missing".to_owned() }];
    };
    let mut findings = check_source(source, STATEMENTS, files);
    if text(PAGE) != Some(&page::write(&parse(source).0)) {
        let problem = "is not made from the statements; PERSYS_BLESS=1 makes it".to_owned();
        findings.push(Finding { path: PAGE.to_owned(), problem });
    }
    findings
}

/// Everything wrong with a source that must have `count` statements.
pub fn check_source(source: &str, count: usize, files: &[SourceFile]) -> Vec<Finding> {
    let (statements, mut findings) = parse(source);
    if statements.len() != count {
        let problem = format!("has {} statements instead of {count}", statements.len());
        findings.push(Finding { path: SOURCE.to_owned(), problem });
    }
    for (at, said) in statements.iter().enumerate() {
        let earlier = statements.iter().take(at);
        let same = |other: &&Statement<'_>| {
            (other.document, other.part, other.text) == (said.document, said.part, said.text)
        };
        if let Some(other) = earlier.rev().find(same) {
            findings.push(finding(said.line, format!("stands in line {} already", other.line)));
        }
        let problems = check_statement(said, files);
        findings.extend(problems.into_iter().map(|problem| finding(said.line, problem)));
    }
    findings
}

fn check_statement(said: &Statement<'_>, files: &[SourceFile]) -> Vec<String> {
    let mut problems: Vec<_> =
        said.evidence.iter().filter_map(|one| evidence::check(one, files).err()).collect();
    if said.evidence.is_empty() && said.state == State::Holds {
        problems.push("holds, and nothing shows it".to_owned());
    }
    if said.reason.is_empty() && said.state != State::Holds {
        problems.push(format!("is \"{}\" without a reason", said.state.word()));
    }
    if said.state == State::Differs
        && let Err(problem) = evidence::check_manual(said.manual, files)
    {
        problems.push(problem);
    }
    problems
}

#[cfg(test)]
mod tests;
