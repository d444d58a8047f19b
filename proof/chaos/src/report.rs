//! What a run found, for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::usage::Usage;

/// What a run found.
#[derive(Debug, Default)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Where logs are.
    pub folder: String,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// How long each round took to converge.
    pub converged: Vec<Duration>,
    /// Requests by outcome.
    pub requests: BTreeMap<&'static str, u64>,
    /// Starts that witnesses saw, and overlaps of work that may run twice for a moment.
    pub starts: usize,
    /// The same.
    pub overlaps: usize,
    /// Looks at whether nodes have room.
    pub looks: u64,
    /// What all processes used.
    pub usage: Usage,
    /// Broken promises.
    pub violations: Vec<String>,
}

impl Report {
    /// Adds a broken promise, once.
    pub fn violates(&mut self, found: impl IntoIterator<Item = String>) {
        for line in found {
            if !self.violations.contains(&line) {
                self.violations.push(line);
            }
        }
    }

    /// True if no promise was broken.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// The report as a page.
    #[must_use]
    pub fn page(&self) -> String {
        let mut page = String::new();
        self.write(&mut page).unwrap_or(());
        page
    }

    fn write(&self, page: &mut String) -> std::fmt::Result {
        let sum: u64 = self.faults.values().sum();
        writeln!(page, "faults: {sum} of {} kinds", self.faults.len())?;
        for (kind, count) in &self.faults {
            writeln!(page, "  {count:5}  {kind}")?;
        }
        let requests: Vec<_> =
            self.requests.iter().map(|(word, count)| format!("{count} {word}")).collect();
        writeln!(page, "requests: {}", requests.join(", "))?;
        writeln!(
            page,
            "witnesses: {} starts, {} overlaps of work that may",
            self.starts, self.overlaps
        )?;
        writeln!(page, "room: {} looks", self.looks)?;
        let mut times = self.converged.clone();
        times.sort_unstable();
        let at = |nth: usize| times.get(nth).copied().unwrap_or_default().as_secs_f64();
        let last = times.len().saturating_sub(1);
        writeln!(
            page,
            "converged: {} rounds, {:.1} s at best, {:.1} s in the middle, {:.1} s at worst",
            times.len(),
            at(0),
            at(last / 2),
            at(last)
        )?;
        writeln!(page, "used               MiB first  most  last   files first  most  last")?;
        for (name, used) in &self.usage.0 {
            let ([m1, m2, m3], [f1, f2, f3]) = (used.memory, used.files);
            writeln!(page, "  {name:16} {m1:9} {m2:5} {m3:5} {f1:13} {f2:5} {f3:5}")?;
        }
        writeln!(page, "violations: {}", self.violations.len())?;
        for line in &self.violations {
            writeln!(page, "  {line}")?;
        }
        writeln!(page, "seed {}, logs in {}", self.seed, self.folder)
    }
}
