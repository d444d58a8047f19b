//! What was found, how bad it is, and what to do about it.

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// It works, and could work better; or something that may be wanted is not offered.
    Weak,
    /// An agent on this host would not do what it is for.
    Bad,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at, in a word or two.
    pub subject: String,
    /// How it is.
    pub verdict: Verdict,
    /// What was seen, in a sentence.
    pub says: String,
    /// What to type or to do, one step an entry; empty when all is well.
    pub mend: Vec<String>,
}

impl Finding {
    /// All is well.
    pub fn good(subject: impl Into<String>, says: impl Into<String>) -> Self {
        let (subject, says) = (subject.into(), says.into());
        Self { subject, verdict: Verdict::Good, says, mend: Vec::new() }
    }

    /// It could be better.
    pub fn weak(subject: impl Into<String>, says: impl Into<String>) -> Self {
        Self { verdict: Verdict::Weak, ..Self::good(subject, says) }
    }

    /// It is in the way.
    pub fn bad(subject: impl Into<String>, says: impl Into<String>) -> Self {
        Self { verdict: Verdict::Bad, ..Self::good(subject, says) }
    }

    /// A step that mends it.
    #[must_use]
    pub fn mend(mut self, step: impl Into<String>) -> Self {
        self.mend.push(step.into());
        self
    }
}

/// The worst of all that was found.
pub fn worst(found: &[Finding]) -> Verdict {
    found.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Good)
}
