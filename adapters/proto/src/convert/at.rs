//! Where in a message a reader stands, and the list of faults it adds to.
//!
//! The path is a chain of borrowed steps, written out only when there is a fault to name, so that
//! reading a good message of ten thousand entries builds no texts.

use std::cell::RefCell;
use std::fmt::Write as _;

use persys_model::failure::clip;
use persys_model::fault::Faults;

/// A place in a message.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    faults: &'a RefCell<Faults>,
    parent: Option<&'a At<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'static str),
    Index(usize),
    Key(&'a str),
}

impl<'a> At<'a> {
    /// The message itself.
    pub(super) fn root(faults: &'a RefCell<Faults>) -> Self {
        Self { faults, parent: None, step: Step::Root }
    }

    /// A field of the message here.
    pub(super) fn field(&'a self, name: &'static str) -> Self {
        Self { parent: Some(self), step: Step::Field(name), ..*self }
    }

    /// An entry of the list here.
    pub(super) fn index(&'a self, at: usize) -> Self {
        Self { parent: Some(self), step: Step::Index(at), ..*self }
    }

    /// An entry of the map here.
    pub(super) fn key(&'a self, key: &'a str) -> Self {
        Self { parent: Some(self), step: Step::Key(key), ..*self }
    }

    /// The same place, with its faults noted in another list.
    pub(super) fn noting_in(&self, faults: &'a RefCell<Faults>) -> Self {
        Self { faults, ..*self }
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

    /// Notes faults that were found by somebody else who began to count paths here.
    pub(super) fn adopt(&self, found: &Faults) {
        for fault in found.listed() {
            let path = self.path();
            let dot = if path.is_empty() { "" } else { "." };
            let path = format!("{path}{dot}{}", fault.path);
            self.faults.borrow_mut().push(path, fault.problem.clone());
        }
        let more = found.count().saturating_sub(found.listed().len());
        if more > 0 {
            self.fault(format!("has {more} more faults"));
        }
    }

    fn path(&self) -> String {
        let mut path = self.parent.map(At::path).unwrap_or_default();
        // Writing to a String cannot fail.
        let written = match self.step {
            Step::Root => Ok(()),
            Step::Field(name) if path.is_empty() => write!(path, "{name}"),
            Step::Field(name) => write!(path, ".{name}"),
            Step::Index(at) => write!(path, "[{at}]"),
            Step::Key(key) => write!(path, "[{}]", shown(key)),
        };
        debug_assert!(written.is_ok(), "writing to a text failed");
        path
    }
}

/// Reads a message from its root: its value, or everything that is wrong with it.
pub(super) fn reading<T>(read: impl FnOnce(&At<'_>) -> Option<T>) -> Result<T, Faults> {
    let faults = RefCell::new(Faults::none());
    let value = read(&At::root(&faults));
    let mut faults = faults.into_inner();
    match value {
        Some(value) if faults.is_empty() => Ok(value),
        Some(_) => Err(faults),
        None => {
            debug_assert!(!faults.is_empty(), "refused without a fault");
            if faults.is_empty() {
                faults.push("message", "was refused for a reason that was not recorded");
            }
            Err(faults)
        }
    }
}

/// `text` fit for a message: short, and nothing in it that could steer a terminal.
pub(super) fn shown(text: &str) -> String {
    clip(text, 64).chars().take(40).flat_map(char::escape_debug).collect()
}
