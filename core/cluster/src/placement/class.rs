//! Nodes with equal traits, interned.
//!
//! A class lives as long as it has members. Postings lead from a label's value to the classes that
//! have it, so that a rare label is found without looking at every class. Invariant: postings name
//! exactly the live classes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_model::labels::{Constraint, Rule};

use super::request::{Traits, narrow, wide};
use super::selector::{Signature, Verdict};

/// Nodes that every selector judges alike.
#[derive(Debug, Clone)]
pub(super) struct Class {
    pub(super) traits: Arc<Traits>,
    pub(super) members: Vec<u32>,
    /// Which of the broad selectors admit it.
    pub(super) signature: Signature,
}

/// All classes.
#[derive(Debug, Default)]
pub(super) struct Classes {
    table: Vec<Option<Class>>,
    spare: Vec<u32>,
    by_traits: BTreeMap<Arc<Traits>, u32>,
    postings: BTreeMap<Arc<str>, BTreeMap<Arc<str>, BTreeSet<u32>>>,
}

impl Classes {
    pub(super) fn get(&self, class: u32) -> Option<&Class> {
        self.table.get(wide(class)).and_then(Option::as_ref)
    }

    pub(super) fn get_mut(&mut self, class: u32) -> Option<&mut Class> {
        self.table.get_mut(wide(class)).and_then(Option::as_mut)
    }

    pub(super) fn find(&self, traits: &Traits) -> Option<u32> {
        self.by_traits.get(traits).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Class)> {
        (0..).zip(&self.table).filter_map(|(number, class)| Some((number, class.as_ref()?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Class> {
        self.table.iter_mut().flatten()
    }

    /// Notes what a broad selector says of some classes.
    pub(super) fn mark(&mut self, classes: &[u32], number: u8, verdict: Verdict) {
        for class in classes {
            if let Some(class) = self.get_mut(*class) {
                class.signature.set(number, verdict);
            }
        }
    }

    /// Adds a class without members.
    pub(super) fn add(&mut self, traits: Traits, signature: Signature) -> u32 {
        let traits = Arc::new(traits);
        let class = Class { traits: Arc::clone(&traits), members: Vec::new(), signature };
        let number = self.spare.pop().unwrap_or_else(|| {
            self.table.push(None);
            narrow(self.table.len() - 1)
        });
        for (key, value) in &traits.labels {
            let values = self.postings.entry(Arc::clone(key)).or_default();
            values.entry(Arc::clone(value)).or_default().insert(number);
        }
        self.by_traits.insert(traits, number);
        if let Some(slot) = self.table.get_mut(wide(number)) {
            *slot = Some(class);
        }
        number
    }

    /// Forgets a class.
    pub(super) fn remove(&mut self, number: u32) {
        let Some(class) = self.table.get_mut(wide(number)).and_then(Option::take) else { return };
        self.by_traits.remove(&class.traits);
        for (key, value) in &class.traits.labels {
            let Some(values) = self.postings.get_mut(key) else { continue };
            if let Some(classes) = values.get_mut(value) {
                classes.remove(&number);
                if classes.is_empty() {
                    values.remove(value);
                }
            }
            if values.is_empty() {
                self.postings.remove(key);
            }
        }
        self.spare.push(number);
    }

    /// Classes that may meet all of `constraints`: those of the rarest wanted label, or all.
    pub(super) fn candidates(&self, constraints: &[Constraint]) -> Vec<u32> {
        let rarest = constraints
            .iter()
            .filter_map(|constraint| self.having(constraint))
            .min_by_key(|sets| sets.iter().map(|set| set.len()).sum::<usize>());
        match rarest {
            Some(sets) => {
                let mut classes: Vec<u32> = sets.into_iter().flatten().copied().collect();
                classes.sort_unstable();
                // A label may be wanted under two names of one value.
                classes.dedup();
                classes
            }
            None => self.iter().map(|(number, _)| number).collect(),
        }
    }

    /// Classes with a wanted value; `None` if the constraint wants none in particular.
    fn having(&self, constraint: &Constraint) -> Option<Vec<&BTreeSet<u32>>> {
        match &constraint.rule {
            Rule::In(wanted) => {
                let values = self.postings.get(&constraint.key);
                let names = wanted.iter().flat_map(|value| constraint.names_of(value));
                Some(names.filter_map(|name| values?.get(name)).collect())
            }
            Rule::Exists | Rule::Absent | Rule::NotIn(_) => None,
        }
    }
}
