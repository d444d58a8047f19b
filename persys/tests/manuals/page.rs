//! A page taken apart: what is typed, in which order, and what must come of it.
//!
//! A page is Markdown as people read it. Its `sh` blocks are commands, one a line; its `console` blocks
//! show commands after `$ ` and below them what they print, where `...` stands for anything. What a test
//! has to know beyond that is said in comments in front of a block, which nobody sees on the page:
//!
//! ```text
//!   <!-- stage: dev n1 n2 -->      once: a cluster without Docker that runs before the first block
//!   <!-- first: COMMAND -->        typed before the block, and not shown
//!   <!-- file: NAME -->            the block is a file, and is written
//!   <!-- runs: never: REASON -->   not here; each such command must still be one that is understood
//!   <!-- runs: live: REASON -->    only where Docker is
//!   <!-- runs: beside: TEXT -->    goes on in the background, and prints TEXT once it is ready
//!   <!-- runs: briefly -->         goes on for ever: Ctrl-C after a moment
//!   <!-- as: COMMAND -->           this is typed instead, because a test has another name for things
//!   <!-- types: TEXT -->           somebody types this into the commands
//!   <!-- ends: 2 -->               how they end; `any` where that depends on the machine
//! ```
//!
//! What looks like a command in a block of neither language is an error: nothing escapes.

use std::path::{Path, PathBuf};

/// A page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) name: String,
    /// The nodes of the cluster it begins with, if it begins with one.
    pub(crate) nodes: Option<Vec<String>>,
    pub(crate) steps: Vec<Step>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// A file somebody writes.
    File { name: String, text: String },
    /// A command.
    Type(Typed),
}

/// A command, and what must come of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Typed {
    /// Its line on the page.
    pub(crate) line: usize,
    /// What the page shows.
    pub(crate) shown: String,
    /// What is typed.
    pub(crate) command: String,
    pub(crate) how: How,
    /// What somebody types into it.
    pub(crate) input: Option<String>,
    pub(crate) ends: Ends,
    /// What it prints; `None` where the page does not show it.
    pub(crate) prints: Option<Vec<String>>,
}

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// With this code.
    With(i32),
    /// That depends on the machine.
    Anyhow,
}

impl Default for Ends {
    fn default() -> Self {
        Self::With(0)
    }
}

/// How a command is run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum How {
    #[default]
    ToItsEnd,
    /// In the background, ready when it has printed this.
    Beside(String),
    /// Until Ctrl-C.
    Briefly,
    /// Only where Docker is.
    Live(String),
    /// Not by a test, for this reason.
    Never(String),
}

/// What comments in front of a block said.
#[derive(Debug, Default)]
struct Said {
    how: How,
    first: Vec<String>,
    file: Option<String>,
    instead: Option<String>,
    input: Option<String>,
    ends: Option<Ends>,
}

/// The top of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every page for people: the one at the top, and all manuals.
pub(crate) fn pages() -> Vec<String> {
    let mut names = vec!["README.md".to_owned()];
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if Path::new(&name).extension().is_some_and(|end| end == "md") {
            names.push(format!("docs/{name}"));
        }
    }
    names.sort();
    names
}

impl Page {
    pub(crate) fn read(name: &str) -> Self {
        let text = std::fs::read_to_string(root().join(name)).unwrap();
        Self::parse(name, &text).unwrap_or_else(|fault| panic!("{name}: {fault}"))
    }

    pub(crate) fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut page = Self { name: name.to_owned(), nodes: None, steps: Vec::new() };
        let mut said = Said::default();
        let mut lines = text.lines().enumerate();
        while let Some((nth, line)) = lines.next() {
            let at = |fault: String| format!("line {}: {fault}", nth + 1);
            if let Some(comment) = comment(line) {
                if let Some(nodes) = comment.strip_prefix("stage: dev") {
                    page.nodes = Some(nodes.split_whitespace().map(str::to_owned).collect());
                } else {
                    said.add(comment).map_err(at)?;
                }
                continue;
            }
            let Some(language) = line.strip_prefix("```") else {
                if !line.trim().is_empty() && !said.is_empty() {
                    return Err(at(
                        "a comment for a test must stand in front of a block".to_owned()
                    ));
                }
                continue;
            };
            let inside = lines.by_ref().take_while(|(_, line)| !line.starts_with("```"));
            let block: Vec<_> = inside.map(|(nth, line)| (nth + 1, line)).collect();
            page.steps.extend(std::mem::take(&mut said).steps(language, &block).map_err(at)?);
        }
        if !said.is_empty() {
            return Err("the last comment for a test stands in front of nothing".to_owned());
        }
        Ok(page)
    }
}

/// What a comment says, if it is one for us.
fn comment(line: &str) -> Option<&str> {
    let inner = line.trim().strip_prefix("<!--")?.strip_suffix("-->")?.trim();
    let ours = ["stage:", "first:", "file:", "runs:", "as:", "types:", "ends:"];
    ours.iter().any(|word| inner.starts_with(word)).then_some(inner)
}

impl Said {
    fn is_empty(&self) -> bool {
        self.how == How::ToItsEnd
            && self.first.is_empty()
            && self.file.is_none()
            && self.instead.is_none()
            && self.input.is_none()
            && self.ends.is_none()
    }

    fn add(&mut self, comment: &str) -> Result<(), String> {
        let (word, rest) = comment.split_once(':').unwrap_or((comment, ""));
        let rest = rest.trim();
        match word {
            "first" => self.first.push(rest.to_owned()),
            "file" => self.file = Some(rest.to_owned()),
            "as" => self.instead = Some(rest.to_owned()),
            "types" => self.input = Some(rest.replace("\\n", "\n")),
            "ends" if rest == "any" => self.ends = Some(Ends::Anyhow),
            "ends" => {
                let code = rest.parse().map_err(|why| format!("{rest:?} is no code: {why}"))?;
                self.ends = Some(Ends::With(code));
            }
            "runs" => self.how = how(rest)?,
            _ => return Err(format!("{comment:?} means nothing")),
        }
        Ok(())
    }

    fn steps(self, language: &str, block: &[(usize, &str)]) -> Result<Vec<Step>, String> {
        let typed = |command: &String| Typed {
            line: block.first().map_or(0, |(line, _)| *line),
            shown: command.clone(),
            command: command.clone(),
            ..Typed::default()
        };
        let mut steps: Vec<_> = self.first.iter().map(typed).map(Step::Type).collect();
        if let Some(name) = &self.file {
            let lines: Vec<_> = block.iter().map(|(_, line)| *line).collect();
            steps.push(Step::File { name: name.clone(), text: lines.join("\n") + "\n" });
            return Ok(steps);
        }
        let (commands, how) = match language.trim() {
            "sh" => (listed(block), self.how.clone()),
            "console" => (shown(block)?, self.how.clone()),
            _ => match unsaid(block) {
                Some((line, text)) => return Err(format!("line {line}: {text}: {UNSAID}")),
                None => (Vec::new(), How::default()),
            },
        };
        let one = self.instead.is_some() || matches!(self.how, How::Beside(_));
        if commands.is_empty() && !self.is_empty() {
            return Err("a comment for a test, and no command behind it".to_owned());
        }
        if one && commands.len() > 1 {
            return Err("what is said in front of it is meant for one command".to_owned());
        }
        steps.extend(commands.into_iter().map(|command| {
            Step::Type(Typed {
                command: self.instead.clone().unwrap_or_else(|| command.shown.clone()),
                how: how.clone(),
                input: self.input.clone(),
                ends: self.ends.unwrap_or_default(),
                ..command
            })
        }));
        Ok(steps)
    }
}

fn how(text: &str) -> Result<How, String> {
    let (word, rest) = text.split_once(':').unwrap_or((text, ""));
    let rest = rest.trim().to_owned();
    match (word.trim(), rest.is_empty()) {
        ("briefly", true) => Ok(How::Briefly),
        ("beside", false) => Ok(How::Beside(rest)),
        ("live", false) => Ok(How::Live(rest)),
        ("never", false) => Ok(How::Never(rest)),
        ("never" | "live" | "beside", true) => Err(format!("`runs: {word}` needs to say why")),
        _ => Err(format!("`runs: {text}` means nothing")),
    }
}

/// Nothing that somebody may type escapes.
const UNSAID: &str = "looks like a command, in a block that is neither sh nor console";

/// What looks like a command in a block that is none.
fn unsaid<'a>(block: &[(usize, &'a str)]) -> Option<(usize, &'a str)> {
    block.iter().copied().find(|(_, line)| is_command(line))
}

/// Whether a line outside of our languages looks as if somebody should type it.
fn is_command(line: &str) -> bool {
    ["persys ", "$ ", "curl ", "make ", "docker "].iter().any(|start| line.starts_with(start))
}

/// The commands of a list: one a line, with `\` at the end going on in the next.
fn listed(block: &[(usize, &str)]) -> Vec<Typed> {
    let mut commands: Vec<Typed> = Vec::new();
    let mut goes_on = false;
    for (line, text) in block {
        if goes_on {
            let last = commands.last_mut().unwrap();
            last.shown = format!("{}\n{text}", last.shown);
        } else if !text.trim().is_empty() && !text.starts_with('#') {
            commands.push(Typed { line: *line, shown: (*text).to_owned(), ..Typed::default() });
        }
        goes_on = text.ends_with('\\') && !commands.is_empty();
    }
    commands
}

/// Commands, each with what it prints below it.
fn shown(block: &[(usize, &str)]) -> Result<Vec<Typed>, String> {
    let mut commands: Vec<Typed> = Vec::new();
    let mut goes_on = false;
    for (line, text) in block {
        if let Some(command) = text.strip_prefix("$ ") {
            let shown = command.to_owned();
            commands.push(Typed {
                line: *line,
                shown,
                prints: Some(Vec::new()),
                ..Typed::default()
            });
        } else {
            let last = commands.last_mut().ok_or("a console begins with `$ `")?;
            if goes_on {
                last.shown = format!("{}\n{text}", last.shown);
            } else {
                last.prints.get_or_insert_default().push((*text).to_owned());
            }
        }
        goes_on = commands.last().is_some_and(|last| {
            last.shown.ends_with('\\') && last.prints.as_ref().is_none_or(Vec::is_empty)
        });
    }
    for command in &mut commands {
        // What prints nothing on the page may print anything: a page leaves out what is dull.
        command.prints = command.prints.take().filter(|lines| !lines.is_empty());
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str) -> Vec<Typed> {
        let steps = Page::parse("p", text).unwrap().steps;
        steps
            .into_iter()
            .filter_map(|step| match step {
                Step::Type(typed) => Some(typed),
                Step::File { .. } => None,
            })
            .collect()
    }

    #[test]
    fn lists_and_consoles_are_taken_apart() {
        let page = "```sh\n# a remark\na b  # c\n\nd \\\n  e\n```\ntext\n```console\n$ f\none\n...\n$ g\n```\n";
        let found = typed(page);
        let commands: Vec<_> = found.iter().map(|one| one.command.as_str()).collect();
        assert_eq!(commands, ["a b  # c", "d \\\n  e", "f", "g"]);
        assert_eq!(found[2].prints.as_deref(), Some(&["one".to_owned(), "...".to_owned()][..]));
        assert_eq!(
            (found[3].prints.clone(), found[0].ends, found[0].line),
            (None, Ends::With(0), 3)
        );
    }

    #[test]
    fn comments_say_how() {
        let page = "<!-- stage: dev n1 -->\n\n<!-- first: x -->\n<!-- as: y 2 -->\n<!-- ends: 2 -->\n<!-- types: a\\nb -->\n```sh\ny 1\n```\n";
        let found = typed(page);
        assert_eq!((found[0].command.as_str(), found[0].ends), ("x", Ends::With(0)));
        let one = &found[1];
        assert_eq!(
            (one.shown.as_str(), one.command.as_str(), one.ends),
            ("y 1", "y 2", Ends::With(2))
        );
        assert_eq!(one.input.as_deref(), Some("a\nb"));
        assert_eq!(Page::parse("p", page).unwrap().nodes, Some(vec!["n1".to_owned()]));
    }

    #[test]
    fn what_would_get_past_is_a_fault() {
        for page in [
            "<!-- runs: never -->\n```sh\na\n```",
            "<!-- runs: sometimes: x -->\n```sh\na\n```",
            "<!-- runs: never: x -->\ntext\n```sh\na\n```",
            "<!-- as: x -->\n```sh\na\nb\n```",
            "<!-- ends: well -->\n```sh\na\n```",
            "<!-- runs: never: x -->",
            "```console\nno command\n```",
            "```\npersys list\n```",
            "```text\n$ persys list\n```",
        ] {
            assert!(Page::parse("p", page).is_err(), "{page}");
        }
        assert!(Page::parse("p", "<!-- any other remark -->\ntext\n```yaml\na: 1\n```").is_ok());
    }
}
