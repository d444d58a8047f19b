//! Checks of the repository itself: layers, sizes, names, documents.
//!
//! Each check is a function from the files of the tree to a list of findings, so that each can be
//! shown to find what it is for. `cargo test -p persys-tidy` runs them over this repository.

pub mod layers;
pub mod requirements;
pub mod sources;
pub mod tree;

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub path: String,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}
