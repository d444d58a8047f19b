//! What became of each key of a file, and where it stands.
//!
//! A reader stands at a [`Place`] and says there what it did. Every key gets a word, so that nobody
//! has to guess what was taken over and what was not.

use std::cell::RefCell;

/// What became of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Done as it says.
    Honoured,
    /// Done in another way, which is said.
    Changed,
    /// Without effect here, which is said.
    Ignored,
    /// Not given unless an operator allows it, which is said.
    Withheld,
    /// The file is not run because of it.
    Refused,
}

impl Verdict {
    /// The word people read.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Honoured => "honoured",
            Self::Changed => "changed",
            Self::Ignored => "ignored",
            Self::Withheld => "withheld",
            Self::Refused => "refused",
        }
    }
}

/// A line of one of the files of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Spot {
    /// Which file, by its number.
    pub(crate) file: u16,
    /// From 1; 0 where no line is to blame.
    pub(crate) line: u32,
}

/// What became of one key, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Which file of the project, by its place in [`crate::Reading::files`].
    pub file: u16,
    /// Line of the file, from 1; 0 where no line is to blame.
    pub line: u32,
    /// Which key, such as `services.web.ports[2]`; empty for the file as a whole.
    pub path: String,
    /// What became of it.
    pub verdict: Verdict,
    /// Why, and what to do about it; empty where there is nothing to say.
    pub why: String,
}

/// All findings so far.
#[derive(Debug, Default)]
pub(crate) struct Log {
    found: RefCell<Vec<Finding>>,
}

impl Log {
    pub(crate) fn push(&self, finding: Finding) {
        self.found.borrow_mut().push(finding);
    }

    pub(crate) fn len(&self) -> usize {
        self.found.borrow().len()
    }

    /// Whether anything since `mark` says that `path` itself or something in it is refused, or gives
    /// `path` itself a verdict.
    fn settled_since(&self, mark: usize, path: &str) -> bool {
        let found = self.found.borrow();
        found.iter().skip(mark).any(|one| one.verdict == Verdict::Refused || one.path == path)
    }

    pub(crate) fn into_findings(self) -> Vec<Finding> {
        self.found.into_inner()
    }
}

/// A place in the file.
#[derive(Debug, Clone)]
pub(crate) struct Place<'a> {
    log: &'a Log,
    path: String,
    line: Spot,
}

impl<'a> Place<'a> {
    pub(crate) fn root(log: &'a Log) -> Self {
        Self { log, path: String::new(), line: Spot::default() }
    }

    /// The same place, as far as a line is known.
    pub(crate) fn on_line(&self, line: Spot) -> Self {
        Self { log: self.log, path: self.path.clone(), line }
    }

    /// A key of the mapping here.
    pub(crate) fn key(&self, key: &str, line: Spot) -> Self {
        let key = shown(key);
        let path = if self.path.is_empty() { key } else { format!("{}.{key}", self.path) };
        Self { log: self.log, path, line }
    }

    /// An entry of the list here.
    pub(crate) fn item(&self, at: usize, line: Spot) -> Self {
        Self { log: self.log, path: format!("{}[{at}]", self.path), line }
    }

    fn say(&self, verdict: Verdict, why: impl Into<String>) {
        let (path, Spot { file, line }) = (self.path.clone(), self.line);
        self.log.push(Finding { file, line, path, verdict, why: why.into() });
    }

    pub(crate) fn honoured(&self, why: impl Into<String>) {
        self.say(Verdict::Honoured, why);
    }

    pub(crate) fn changed(&self, why: impl Into<String>) {
        self.say(Verdict::Changed, why);
    }

    pub(crate) fn ignored(&self, why: impl Into<String>) {
        self.say(Verdict::Ignored, why);
    }

    pub(crate) fn withheld(&self, why: impl Into<String>) {
        self.say(Verdict::Withheld, why);
    }

    pub(crate) fn refused(&self, why: impl Into<String>) {
        self.say(Verdict::Refused, why);
    }

    /// Says why not, and that there is no value.
    pub(crate) fn refuse<T>(&self, why: impl Into<String>) -> Option<T> {
        self.say(Verdict::Refused, why);
        None
    }

    /// Does `read` here; a key about which nothing was said is honoured.
    pub(crate) fn honouring<T>(&self, read: impl FnOnce(&Self) -> T) -> T {
        let mark = self.log.len();
        let value = read(self);
        if !self.log.settled_since(mark, &self.path) {
            self.honoured("");
        }
        value
    }
}

/// `text` fit for a message: at most 40 characters, nothing that could steer a terminal.
pub(crate) fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    if text.chars().nth(40).is_some() {
        short.push('…');
    }
    short
}
