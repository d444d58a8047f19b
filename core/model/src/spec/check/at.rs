//! Where in the input a check stands, and the list of faults it adds to.
//!
//! The path is a chain of borrowed steps, written out only when there is a fault to name, so that
//! checking a good spec builds no texts.

use std::cell::RefCell;
use std::fmt::Write as _;

use super::text::shown;
use crate::fault::Faults;

/// A place in the input.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    faults: &'a RefCell<Faults>,
    parent: Option<&'a At<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'static str),
    Index(usize),
    Key(&'a str),
}

impl<'a> At<'a> {
    /// A field of the request itself.
    pub(super) fn root(faults: &'a RefCell<Faults>, name: &'static str) -> Self {
        Self { faults, parent: None, step: Step::Field(name) }
    }

    /// A field of the thing here.
    pub(super) fn field(&'a self, name: &'static str) -> Self {
        Self { faults: self.faults, parent: Some(self), step: Step::Field(name) }
    }

    /// An entry of the list here.
    pub(super) fn index(&'a self, at: usize) -> Self {
        Self { faults: self.faults, parent: Some(self), step: Step::Index(at) }
    }

    /// An entry of the map here.
    pub(super) fn key(&'a self, key: &'a str) -> Self {
        Self { faults: self.faults, parent: Some(self), step: Step::Key(key) }
    }

    /// Notes what is wrong here.
    pub(super) fn fault(&self, problem: impl Into<String>) {
        // The borrow ends with this statement and nothing in it comes back here.
        self.faults.borrow_mut().push(self.path(), problem);
    }

    /// Notes what is wrong here, and that there is no value.
    pub(super) fn refuse<T>(&self, problem: impl Into<String>) -> Option<T> {
        self.fault(problem);
        None
    }

    fn path(&self) -> String {
        let mut path = self.parent.map(At::path).unwrap_or_default();
        // Writing to a String cannot fail.
        let written = match self.step {
            Step::Field(name) if path.is_empty() => write!(path, "{name}"),
            Step::Field(name) => write!(path, ".{name}"),
            Step::Index(at) => write!(path, "[{at}]"),
            Step::Key(key) => write!(path, "[{}]", shown(key)),
        };
        debug_assert!(written.is_ok(), "writing to a text failed");
        path
    }
}
