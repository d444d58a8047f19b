//! Text that may hold a secret.
//!
//! Environment values, compose files and first-boot texts carry passwords and tokens. Inside this
//! type they are compared and hashed like any text, but printing one shows only its length, so
//! that a log line or an event with a whole spec in it gives nothing away.

use std::sync::Arc;

/// Text that is never printed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Keeps `text` from being printed.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Arc::from(text))
    }

    /// The text itself, for the one place that hands it to a runtime.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<hidden, {} bytes>", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_shows_only_the_length() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "<hidden, 7 bytes>");
    }
}
