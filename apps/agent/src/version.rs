//! Version that an agent shows: that of the program, or the name an operator gave this installation.

use std::sync::Arc;

/// Version of the program.
const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// Version of an agent, for people and for schedulers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    shown: Arc<str>,
}

impl Default for Version {
    fn default() -> Self {
        Self { shown: Arc::from(PROGRAM) }
    }
}

impl Version {
    /// A version under another name than the program's.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { shown: Arc::from(name) }
    }

    /// The name as it was given, or the version of the program.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Version of the program, whatever name it has.
    #[must_use]
    pub fn program() -> &'static str {
        PROGRAM
    }

    /// Text for schedulers. A name is followed by the version of the program, because an upgrade is
    /// judged by that.
    #[must_use]
    pub fn told(&self) -> String {
        if *self.shown == *PROGRAM {
            return PROGRAM.to_owned();
        }
        format!("{}({PROGRAM})", self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_and_the_program_is_told_with_it() {
        let version = Version::named("dev");
        assert_eq!((version.shown(), version.told()), ("dev", format!("dev({PROGRAM})")));
        let version = Version::default();
        assert_eq!((version.shown(), version.told()), (PROGRAM, PROGRAM.to_owned()));
        assert_eq!(Version::named(PROGRAM), version);
    }
}
