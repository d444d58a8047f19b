//! What was asked, and what was answered: each request is written down before it is sent and after
//! its answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Fault;

/// What is asked for a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// This revision, running.
    Apply(String),
    /// That it stops.
    Stop,
    /// That it runs again.
    Start,
    /// That it ends and begins once.
    Restart,
    /// That it goes.
    Delete,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It was taken.
    Ok,
    /// It was refused.
    Fail,
    /// Nobody knows: it may be carried out, also later.
    Unknown,
}

/// What a workload is to be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Wanted {
    /// Not there.
    Absent,
    /// There.
    There {
        /// In this revision.
        revision: String,
        /// Running, or stopped.
        running: bool,
    },
}

impl Wanted {
    /// What it becomes when `ask` is carried out.
    #[must_use]
    pub fn after(&self, ask: &Ask) -> Self {
        match (self, ask) {
            (_, Ask::Apply(revision)) => Self::There { revision: revision.clone(), running: true },
            (_, Ask::Delete) | (Self::Absent, _) => Self::Absent,
            (Self::There { revision, .. }, Ask::Stop) => {
                Self::There { revision: revision.clone(), running: false }
            }
            (Self::There { revision, .. }, Ask::Start) => {
                Self::There { revision: revision.clone(), running: true }
            }
            (Self::There { .. }, Ask::Restart) => self.clone(),
        }
    }
}

/// One line of the log.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entry {
    /// Number of the request.
    pub number: u64,
    /// Seconds since boot.
    pub at: f64,
    /// The workload.
    pub workload: String,
    /// What was asked.
    pub ask: Ask,
    /// None in front of the request, the outcome after it.
    pub outcome: Option<Outcome>,
    /// What was said.
    pub said: String,
}

/// What may be true of one workload.
#[derive(Debug, Clone, Default)]
struct Fate {
    allowed: BTreeSet<Wanted>,
    /// Requests that may still be carried out.
    pending: Vec<Ask>,
}

impl Fate {
    /// Adds whatever pending requests could make of what is allowed.
    fn close(&mut self) {
        loop {
            let more: BTreeSet<_> = self
                .allowed
                .iter()
                .flat_map(|wanted| self.pending.iter().map(|ask| wanted.after(ask)))
                .filter(|wanted| !self.allowed.contains(wanted))
                .collect();
            if more.is_empty() {
                return;
            }
            self.allowed.extend(more);
        }
    }
}

/// What may be true of all workloads, folded from the log.
#[derive(Debug, Clone, Default)]
pub struct Model {
    fates: BTreeMap<String, Fate>,
}

impl Model {
    /// Takes in the end of a request.
    pub fn ended(&mut self, workload: &str, ask: &Ask, outcome: Outcome) {
        let fate = self.fates.entry(workload.to_owned()).or_insert_with(|| Fate {
            allowed: BTreeSet::from([Wanted::Absent]),
            pending: Vec::new(),
        });
        match outcome {
            Outcome::Fail => {}
            Outcome::Ok => fate.allowed = fate.allowed.iter().map(|was| was.after(ask)).collect(),
            Outcome::Unknown => fate.pending.push(ask.clone()),
        }
        fate.close();
    }

    /// What this workload may be.
    #[must_use]
    pub fn allowed(&self, workload: &str) -> BTreeSet<Wanted> {
        let fate = self.fates.get(workload);
        fate.map_or_else(|| BTreeSet::from([Wanted::Absent]), |fate| fate.allowed.clone())
    }

    /// Every workload that was ever asked for.
    pub fn workloads(&self) -> impl Iterator<Item = &String> {
        self.fates.keys()
    }

    /// All requests have ended or never will be carried out, and this is what there is.
    pub fn settle(&mut self, workload: &str, wanted: Wanted) {
        let fate = Fate { allowed: BTreeSet::from([wanted]), pending: Vec::new() };
        self.fates.insert(workload.to_owned(), fate);
    }
}

/// The log of all requests, and the model that goes with it.
#[derive(Debug)]
pub struct History {
    /// What may be true.
    pub model: Model,
    /// Requests by outcome.
    pub counts: BTreeMap<&'static str, u64>,
    /// When each workload was first asked to go, in seconds since boot.
    pub deleted: BTreeMap<String, f64>,
    file: File,
    next: u64,
}

impl History {
    /// An empty one, written to this file.
    pub fn create(path: &Path) -> Result<Self, Fault> {
        let (counts, deleted) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { model: Model::default(), counts, deleted, file: File::create(path)?, next: 1 })
    }

    /// A request is about to be sent. Gives its number.
    pub fn begins(&mut self, workload: &str, ask: &Ask) -> Result<u64, Fault> {
        let number = self.next;
        self.next += 1;
        if *ask == Ask::Delete {
            let now = crate::witness::seconds_since_boot()?;
            self.deleted.entry(workload.to_owned()).or_insert(now);
        }
        self.write(number, workload, ask, None, "")?;
        Ok(number)
    }

    /// It ended.
    pub fn ends(
        &mut self,
        number: u64,
        (workload, ask): (&str, &Ask),
        outcome: Outcome,
        said: &str,
    ) -> Result<(), Fault> {
        self.write(number, workload, ask, Some(outcome), said)?;
        let word = match outcome {
            Outcome::Ok => "ok",
            Outcome::Fail => "fail",
            Outcome::Unknown => "unknown",
        };
        *self.counts.entry(word).or_default() += 1;
        self.model.ended(workload, ask, outcome);
        Ok(())
    }

    fn write(
        &mut self,
        number: u64,
        workload: &str,
        ask: &Ask,
        outcome: Option<Outcome>,
        said: &str,
    ) -> Result<(), Fault> {
        let (workload, ask, said) = (workload.to_owned(), ask.clone(), said.to_owned());
        let at = crate::witness::seconds_since_boot()?;
        let entry = Entry { number, at, workload, ask, outcome, said };
        writeln!(self.file, "{}", serde_json::to_string(&entry)?)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(revision: &str, running: bool) -> Wanted {
        Wanted::There { revision: revision.to_owned(), running }
    }

    fn apply(revision: &str) -> Ask {
        Ask::Apply(revision.to_owned())
    }

    #[test]
    fn what_was_answered_is_so_and_what_was_refused_is_not() {
        let mut model = Model::default();
        model.ended("a", &apply("r1"), Outcome::Ok);
        model.ended("a", &apply("r2"), Outcome::Fail);
        model.ended("a", &Ask::Stop, Outcome::Ok);
        assert_eq!(model.allowed("a"), BTreeSet::from([there("r1", false)]));
        model.ended("a", &Ask::Delete, Outcome::Ok);
        assert_eq!(model.allowed("a"), BTreeSet::from([Wanted::Absent]));
    }

    #[test]
    fn what_nobody_answered_may_come_late() {
        let mut model = Model::default();
        model.ended("a", &apply("r1"), Outcome::Ok);
        model.ended("a", &Ask::Stop, Outcome::Unknown);
        assert_eq!(model.allowed("a"), BTreeSet::from([there("r1", true), there("r1", false)]));
        model.ended("a", &apply("r2"), Outcome::Ok);
        assert_eq!(model.allowed("a"), BTreeSet::from([there("r2", true), there("r2", false)]));
        model.settle("a", there("r2", true));
        assert_eq!(model.allowed("a"), BTreeSet::from([there("r2", true)]));
    }
}
