//! Words that become labels: each is made once, and there can only be so many.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

/// What is said of a word that came too late.
const OTHER: &str = "other";

/// Words of a set that is closed once the program runs, such as the routes of a server, but that
/// comes as text. Each stays in memory for good, so there are never more than a few hundred.
#[derive(Debug)]
pub struct Words {
    known: RwLock<BTreeSet<&'static str>>,
    most: usize,
}

impl Words {
    /// No word yet, and at most so many.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { known: RwLock::new(BTreeSet::new()), most }
    }

    /// The word as a label.
    pub fn of(&self, text: &str) -> &'static str {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(word) = known.get(text) {
            return word;
        }
        drop(known);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(word) = known.get(text) {
            return word;
        }
        if known.len() >= self.most {
            return OTHER;
        }
        let word: &'static str = Box::leak(text.to_owned().into_boxed_str());
        known.insert(word);
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_made_once_and_there_are_only_so_many() {
        let words = Words::new(2);
        let first = words.of("/v1/nodes");
        assert!(std::ptr::eq(first, words.of(&String::from("/v1/nodes"))));
        assert_eq!(words.of("/b"), "/b");
        assert_eq!(words.of("/c"), OTHER);
        assert_eq!(words.of("/b"), "/b");
    }
}
