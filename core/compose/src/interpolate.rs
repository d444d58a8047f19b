//! Variables in texts: `$NAME`, `${NAME}`, and what to take where there is none.
//!
//! Filled in here and nowhere else, from what the workload itself was given: the environment of the
//! agent or of the compose program never shows in a stack. What is filled in is not looked at again,
//! so a value with a dollar sign in it is just a value.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::{SCALAR_BYTES, VARIABLE_DEPTH};

/// What came of a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Filled {
    pub(crate) text: String,
    /// Whether any variable was in it.
    pub(crate) used: bool,
    /// Variables that were not given and were taken as empty.
    pub(crate) missing: BTreeSet<String>,
    /// All variables it names.
    pub(crate) asked: BTreeSet<String>,
}

/// `text` with its variables filled in, or why that cannot be done.
pub(crate) fn fill(text: &str, variables: &BTreeMap<String, String>) -> Result<Filled, String> {
    let mut filled = Filled {
        text: String::new(),
        used: false,
        missing: BTreeSet::new(),
        asked: BTreeSet::new(),
    };
    if !text.contains('$') {
        text.clone_into(&mut filled.text);
        return Ok(filled);
    }
    let mut out = String::new();
    let mut reader = Reader { rest: text, variables, filled: &mut filled };
    reader.run(&mut out, 0)?;
    filled.text = out;
    Ok(filled)
}

fn malformed(what: &str) -> String {
    format!("{what}; write $$ for a dollar sign that is meant as one")
}

struct Reader<'a> {
    rest: &'a str,
    variables: &'a BTreeMap<String, String>,
    filled: &'a mut Filled,
}

/// What follows a name in braces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Default,
    Error,
    Replace,
}

impl Reader<'_> {
    /// Reads up to the end, or inside braces up to the `}` that closes them, which is left.
    fn run(&mut self, out: &mut String, depth: usize) -> Result<(), String> {
        if depth > VARIABLE_DEPTH {
            return Err(format!("nests variables more than {VARIABLE_DEPTH} levels deep"));
        }
        while let Some(at) = self.rest.find(if depth > 0 { &['$', '}'][..] } else { &['$'][..] }) {
            let (before, rest) = self.rest.split_at(at);
            out.push_str(before);
            self.rest = rest;
            if rest.starts_with('}') {
                return Ok(());
            }
            self.dollar(out, depth)?;
            if out.len() > SCALAR_BYTES {
                return Err(format!("grows beyond {SCALAR_BYTES} bytes by its variables"));
            }
        }
        if depth > 0 {
            return Err(malformed("has a '${' without its '}'"));
        }
        out.push_str(std::mem::take(&mut self.rest));
        Ok(())
    }

    fn dollar(&mut self, out: &mut String, depth: usize) -> Result<(), String> {
        let after = self.rest.strip_prefix('$').unwrap_or(self.rest);
        if let Some(rest) = after.strip_prefix('$') {
            self.rest = rest;
            out.push('$');
            return Ok(());
        }
        self.filled.used = true;
        if let Some(rest) = after.strip_prefix('{') {
            self.rest = rest;
            return self.braces(out, depth);
        }
        self.rest = after;
        let name = self.name()?;
        self.plain(&name, out);
        Ok(())
    }

    fn name(&mut self) -> Result<String, String> {
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let (name, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return Err(malformed("has a '$' without a variable's name"));
        }
        self.rest = rest;
        self.filled.asked.insert(name.to_owned());
        Ok(name.to_owned())
    }

    fn plain(&mut self, name: &str, out: &mut String) {
        match self.variables.get(name) {
            Some(value) => out.push_str(value),
            None => drop(self.filled.missing.insert(name.to_owned())),
        }
    }

    fn braces(&mut self, out: &mut String, depth: usize) -> Result<(), String> {
        let name = self.name()?;
        let (empty_counts, rest) = match self.rest.strip_prefix(':') {
            Some(rest) => (false, rest),
            None => (true, self.rest),
        };
        let sign = match rest.chars().next() {
            Some('}') if empty_counts => {
                self.rest = rest.strip_prefix('}').unwrap_or(rest);
                self.plain(&name, out);
                return Ok(());
            }
            Some('-') => Sign::Default,
            Some('?') => Sign::Error,
            Some('+') => Sign::Replace,
            _ => return Err(malformed("has a '${' that is not followed by a name and '}'")),
        };
        self.rest = rest.get(1..).unwrap_or_default();
        self.choice(&name, sign, empty_counts, out, depth)
    }

    fn choice(
        &mut self,
        name: &str,
        sign: Sign,
        empty_counts: bool,
        out: &mut String,
        depth: usize,
    ) -> Result<(), String> {
        let value = self.variables.get(name).filter(|value| empty_counts || !value.is_empty());
        let mut word = String::new();
        let from = self.rest;
        // What is not taken may still be malformed, but its variables are not missed.
        let missed = self.filled.missing.clone();
        self.run(&mut word, depth.saturating_add(1))?;
        // As the file has it: what was filled into it may be secret.
        let written = from.get(..from.len().saturating_sub(self.rest.len())).unwrap_or_default();
        self.rest = self.rest.strip_prefix('}').unwrap_or(self.rest);
        let takes_word = match sign {
            Sign::Default => value.is_none(),
            Sign::Replace => value.is_some(),
            Sign::Error => false,
        };
        if !takes_word {
            self.filled.missing = missed;
        }
        match (sign, value) {
            (Sign::Error, None) => {
                let said = crate::finding::shown(written);
                let said = if said.is_empty() { String::new() } else { format!(" ({said})") };
                return Err(format!("needs the variable {name}{said}: give it to the workload"));
            }
            (Sign::Default | Sign::Error, Some(value)) => out.push_str(value),
            (Sign::Default, None) | (Sign::Replace, Some(_)) => out.push_str(&word),
            (Sign::Replace, None) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Result<String, String> {
        let variables = [("SET", "s"), ("EMPTY", ""), ("TRICK", "${SET}$$}")];
        let variables = variables.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        fill(text, &variables).map(|mut filled| {
            for name in &filled.missing {
                filled.text.push('!');
                filled.text.push_str(name);
            }
            filled.text
        })
    }

    #[test]
    fn every_form_means_what_the_specification_says() {
        for (given, expected) in [
            ("plain", "plain"),
            ("$$SET", "$SET"),
            ("$SET-$SET", "s-s"),
            ("${SET}", "s"),
            ("${NONE}", "!NONE"),
            ("$NONE/x", "/x!NONE"),
            ("${SET:-d}", "s"),
            ("${EMPTY:-d}", "d"),
            ("${EMPTY-d}", ""),
            ("${NONE-d}", "d"),
            ("${NONE:-}", ""),
            ("${SET:?e}", "s"),
            ("${EMPTY?e}", ""),
            ("${SET:+x}", "x"),
            ("${EMPTY:+x}", ""),
            ("${EMPTY+x}", "x"),
            ("${NONE+x}", ""),
            ("${NONE:-${SET}}", "s"),
            ("${NONE:-${OTHER:-deep}}", "deep"),
            ("${NONE:-a$$b}", "a$b"),
            ("${SET:-${NEVER}}", "s"),
            ("$TRICK", "${SET}$$}"),
            ("a}b$$", "a}b$"),
        ] {
            assert_eq!(filled(given).as_deref(), Ok(expected), "{given}");
        }
    }

    #[test]
    fn what_is_malformed_or_needed_is_refused() {
        for (given, expected) in [
            ("$", "without a variable's name"),
            ("$1", "without a variable's name"),
            ("${", "without a variable's name"),
            ("${}", "without a variable's name"),
            ("${SET", "not followed by"),
            ("${SET:-x", "without its '}'"),
            ("${SET!x}", "not followed by"),
            ("${SET:}", "not followed by"),
            ("${NONE:?say so}", "needs the variable NONE (say so)"),
            ("${EMPTY:?}", "needs the variable EMPTY:"),
            ("${NONE?}", "needs the variable NONE:"),
        ] {
            let problem = filled(given).expect_err(given);
            assert!(problem.contains(expected), "{given}: {problem}");
        }
        let deep = format!("{}x{}", "${A:-".repeat(20), "}".repeat(20));
        assert!(filled(&deep).expect_err("deep").contains("levels deep"));
    }
}
