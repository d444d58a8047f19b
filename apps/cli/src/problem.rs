//! What went wrong, why, and what to type next.

use std::fmt::Write as _;

use persys_model::fault::Faults;

/// Something went wrong.
pub(crate) const ERROR: u8 = 1;
/// No node takes it.
pub(crate) const NOT_PLACED: u8 = 2;
/// It does not become healthy.
pub(crate) const UNHEALTHY: u8 = 3;
/// No node of the cluster could ever take it. 4 is kept for an update that was taken back.
pub(crate) const UNPLACEABLE: u8 = 5;
/// What was typed was not understood.
pub(crate) const USAGE: u8 = 64;

/// What went wrong, why, and what to type next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) code: u8,
    pub(crate) what: String,
    pub(crate) why: Vec<String>,
    pub(crate) next: Vec<String>,
}

impl Problem {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { code: ERROR, what: what.into(), why: Vec::new(), next: Vec::new() }
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self { code: USAGE, ..Self::new(what) }
    }

    /// Nobody reads what we print: not worth a word.
    pub(crate) fn unread() -> Self {
        Self { code: 0, ..Self::new("") }
    }

    /// Everything wrong with an input, each fault on its line.
    pub(crate) fn faults(what: impl Into<String>, faults: &Faults) -> Self {
        let mut problem = Self::new(what);
        for fault in faults.listed() {
            let colon = if fault.path.is_empty() { "" } else { ": " };
            problem.why.push(format!("{}{colon}{}", fault.path, fault.problem));
        }
        let left_out = faults.count().saturating_sub(faults.listed().len());
        if left_out > 0 {
            problem.why.push(format!("and {left_out} more"));
        }
        problem
    }

    #[must_use]
    pub(crate) fn code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    #[must_use]
    pub(crate) fn why(mut self, why: impl Into<String>) -> Self {
        self.why.push(why.into());
        self
    }

    #[must_use]
    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next.push(next.into());
        self
    }

    /// As a person reads it; commands are shown under the name the program was called by.
    pub(crate) fn text(&self, program: &str, color: bool) -> String {
        let (red, plain) = if color { ("\u{1b}[31m", "\u{1b}[0m") } else { ("", "") };
        let mut text = format!("{red}error:{plain} {}\n", self.what);
        for (label, lines) in [("why:  ", &self.why), ("next: ", &self.next)] {
            let mut label = label;
            for line in lines.iter().flat_map(|line| line.lines()) {
                // A text has room for everything.
                let _written = writeln!(text, "  {label}{}", as_called(program, line));
                label = "      ";
            }
        }
        text
    }
}

/// A command as it is typed under this name.
pub(crate) fn as_called(program: &str, line: &str) -> String {
    match line.strip_prefix("persys ") {
        Some(rest) => format!("{program} {rest}"),
        None => line.to_owned(),
    }
}

impl From<std::io::Error> for Problem {
    /// The one place where an error of the system reaches us bare is printing.
    fn from(why: std::io::Error) -> Self {
        if why.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::unread();
        }
        Self::new("the answer cannot be printed").why(why.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_why_and_next_stand_in_columns() {
        let problem = Problem::new("no workload is called \"webb\"")
            .why("the nearest is web")
            .why("there are 3")
            .next("persys list");
        assert_eq!(
            problem.text("persysctl", false),
            "error: no workload is called \"webb\"\n  why:  the nearest is web\n        there are 3\n  next: persysctl list\n"
        );
    }

    #[test]
    fn each_fault_has_its_line() {
        let mut faults = Faults::none();
        faults.push("spec.type", "says vm, but container is given");
        faults.push("", "is not an object");
        let text = Problem::faults("a.yaml cannot be applied", &faults).text("persys", false);
        assert_eq!(
            text,
            "error: a.yaml cannot be applied\n  why:  spec.type: says vm, but container is given\n        is not an object\n"
        );
    }
}
