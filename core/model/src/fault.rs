//! Everything wrong with an input, at once.

/// One thing wrong with an input, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Where in the input, such as `spec.container.ports[2].host_port`.
    pub path: String,
    /// What is wrong and what would be right.
    pub problem: String,
}

/// All faults of one input, in the order they stand in it. Never empty when returned as an error.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Faults {
    found: Vec<Fault>,
    left_out: usize,
}

impl Faults {
    /// The most faults that are listed; beyond it they are only counted.
    pub const LIMIT: usize = 64;

    /// None so far.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Notes one more.
    pub fn push(&mut self, path: impl Into<String>, problem: impl Into<String>) {
        if self.found.len() < Self::LIMIT {
            self.found.push(Fault { path: path.into(), problem: problem.into() });
        } else {
            self.left_out = self.left_out.saturating_add(1);
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// How many there are, listed or only counted.
    #[must_use]
    pub fn count(&self) -> usize {
        self.found.len().saturating_add(self.left_out)
    }

    /// Those that are listed.
    #[must_use]
    pub fn listed(&self) -> &[Fault] {
        &self.found
    }
}

impl std::fmt::Display for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, fault) in self.found.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{}: {}", fault.path, fault.problem)?;
        }
        if self.left_out > 0 {
            write!(f, "; and {} more", self.left_out)?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}
