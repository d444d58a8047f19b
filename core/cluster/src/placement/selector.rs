//! Which classes a request admits, remembered.
//!
//! The part of a request that does not speak of amounts is its selector. A selector that admits few
//! nodes is *narrow*: it is remembered with its list of classes. A *broad* one gets one of 255
//! numbers, and every class carries a bit for it. Nodes that carry the same bits need not be told
//! apart, so they share a group whatever else their labels say: a fleet where every host has its own
//! label is one group until someone asks for such a label.
//!
//! Invariant: for every remembered selector, list or bits agree with judging each live class anew.

use std::cmp::Ordering;
use std::sync::Arc;

use persys_model::id::DriverName;
use persys_model::labels::{Constraint, TaintEffect, Toleration};
use persys_model::spec::WorkloadType;

use super::class::{Class, Classes};
use super::grid::FLAT;
use super::request::{Request, Traits};

/// Selectors remembered; beyond that the narrow ones start over.
const REMEMBERED: usize = 1024;
/// Nodes up to which a selector is narrow.
const NARROW: usize = 32;
/// Broad selectors; a signature has a bit for each.
const BROAD: u8 = u8::MAX;
/// Picks a broad selector must be unused for before another may have its number.
const IDLE: u64 = 4096;

/// How a class meets a selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Not at all.
    Refused,
    /// Only when nothing else fits: it has a taint that asks to be avoided.
    Reluctant,
    /// In full.
    Admitted,
}

/// A bit for each broad selector: admitted, and reluctantly admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Signature {
    admitted: [u64; 4],
    reluctant: [u64; 4],
}

impl Signature {
    fn bit(number: u8) -> (usize, u64) {
        (usize::from(number >> 6), 1 << (number & 63))
    }

    pub(super) fn set(&mut self, number: u8, verdict: Verdict) {
        let (word, bit) = Self::bit(number);
        for (words, wanted) in
            [(&mut self.admitted, Verdict::Admitted), (&mut self.reluctant, Verdict::Reluctant)]
        {
            if let Some(word) = words.get_mut(word) {
                *word = if verdict == wanted { *word | bit } else { *word & !bit };
            }
        }
    }

    /// What this says of a broad selector.
    pub(super) fn verdict(&self, number: u8) -> Verdict {
        let (word, bit) = Self::bit(number);
        let has = |words: &[u64; 4]| words.get(word).is_some_and(|word| word & bit != 0);
        if has(&self.admitted) {
            Verdict::Admitted
        } else if has(&self.reluctant) {
            Verdict::Reluctant
        } else {
            Verdict::Refused
        }
    }
}

/// What a request asks besides amounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selector {
    workload_type: WorkloadType,
    constraints: Vec<Constraint>,
    tolerations: Vec<Toleration>,
    drivers: Vec<DriverName>,
}

impl Selector {
    fn of(request: &Request<'_>) -> Self {
        Self {
            workload_type: request.workload_type,
            constraints: request.constraints.to_vec(),
            tolerations: request.tolerations.to_vec(),
            drivers: request.drivers.to_vec(),
        }
    }

    fn compare(&self, request: &Request<'_>) -> Ordering {
        (self.workload_type.cmp(&request.workload_type))
            .then_with(|| self.constraints.len().cmp(&request.constraints.len()))
            .then_with(|| self.constraints.as_slice().cmp(request.constraints))
            .then_with(|| self.tolerations.as_slice().cmp(request.tolerations))
            .then_with(|| self.drivers.as_slice().cmp(request.drivers))
    }

    fn judge(&self, traits: &Traits) -> Verdict {
        let admitted = traits.types.contains(&self.workload_type)
            && self.drivers.iter().all(|driver| traits.drivers.contains(driver))
            && self.constraints.iter().all(|constraint| constraint.admits(&traits.labels));
        if admitted { judge_taints(&self.tolerations, traits) } else { Verdict::Refused }
    }
}

/// What a request's selector says of `traits`.
pub(super) fn judge(request: &Request<'_>, traits: &Traits) -> Verdict {
    let admitted = traits.types.contains(&request.workload_type)
        && request.drivers.iter().all(|driver| traits.drivers.contains(driver))
        && request.constraints.iter().all(|constraint| constraint.admits(&traits.labels));
    if admitted { judge_taints(request.tolerations, traits) } else { Verdict::Refused }
}

fn judge_taints(tolerations: &[Toleration], traits: &Traits) -> Verdict {
    let mut verdict = Verdict::Admitted;
    for taint in &traits.taints {
        if tolerations.iter().any(|toleration| toleration.covers(taint)) {
            continue;
        }
        match taint.effect {
            TaintEffect::NoSchedule => return Verdict::Refused,
            TaintEffect::PreferNoSchedule => verdict = Verdict::Reluctant,
        }
    }
    verdict
}

/// What is remembered of a selector.
#[derive(Debug, Clone)]
pub(super) enum Resolved {
    /// The classes that admit it, and those that do so reluctantly.
    Narrow { admitted: Vec<u32>, reluctant: Vec<u32> },
    /// Its number.
    Broad(u8),
}

/// What became of looking a selector up.
#[derive(Debug)]
pub(super) enum Lookup<'a> {
    /// It is remembered, or is now.
    Known(&'a Resolved),
    /// A label leads to these few classes; not worth remembering.
    Few(Vec<u32>),
    /// It got a new number, and these classes changed their bits.
    Numbered(u8, Vec<u32>),
    /// It got a number used before, so any class may have changed its bits.
    Renumbered(u8),
    /// Too many broad selectors are in use to give it a number.
    Crowded,
}

/// All remembered selectors, sorted.
#[derive(Debug, Default)]
pub(super) struct Selectors {
    known: Vec<(Arc<Selector>, Resolved)>,
    broad: Vec<Broad>,
}

#[derive(Debug)]
struct Broad {
    selector: Arc<Selector>,
    used: u64,
}

impl Selectors {
    /// Finds or resolves the selector of `request`; `now` counts picks.
    pub(super) fn resolve(
        &mut self,
        request: &Request<'_>,
        classes: &mut Classes,
        now: u64,
    ) -> Lookup<'_> {
        let place = match self.known.binary_search_by(|(known, _)| known.compare(request)) {
            Ok(place) => place,
            Err(_) => match self.learn(request, classes, now) {
                Learned::Narrow(place) => place,
                Learned::Elsewhere(lookup) => return lookup,
            },
        };
        match self.known.get(place) {
            Some((_, resolved)) => {
                if let Resolved::Broad(number) = resolved
                    && let Some(broad) = self.broad.get_mut(usize::from(*number))
                {
                    broad.used = now;
                }
                Lookup::Known(resolved)
            }
            None => Lookup::Crowded,
        }
    }

    fn learn(&mut self, request: &Request<'_>, classes: &mut Classes, now: u64) -> Learned {
        let candidates = classes.candidates(request.constraints);
        let members = |class: &u32| classes.get(*class).map_or(0, |class| class.members.len());
        if candidates.iter().map(members).sum::<usize>() <= NARROW {
            return Learned::Elsewhere(Lookup::Few(candidates));
        }
        let selector = Arc::new(Selector::of(request));
        let (mut admitted, mut reluctant, mut nodes) = (Vec::new(), Vec::new(), 0);
        for number in candidates {
            let Some(class) = classes.get(number) else { continue };
            match selector.judge(&class.traits) {
                Verdict::Refused => continue,
                Verdict::Reluctant => reluctant.push(number),
                Verdict::Admitted => admitted.push(number),
            }
            nodes += class.members.len();
        }
        if nodes > NARROW
            && let Some((number, fresh)) = self.number(&selector, now)
        {
            self.remember(Arc::clone(&selector), request, Resolved::Broad(number));
            if fresh {
                classes.mark(&admitted, number, Verdict::Admitted);
                classes.mark(&reluctant, number, Verdict::Reluctant);
                let changed = [admitted, reluctant].concat();
                return Learned::Elsewhere(Lookup::Numbered(number, changed));
            }
            for class in classes.iter_mut() {
                class.signature.set(number, selector.judge(&class.traits));
            }
            return Learned::Elsewhere(Lookup::Renumbered(number));
        }
        if nodes > FLAT {
            return Learned::Elsewhere(Lookup::Crowded);
        }
        if self.known.len() >= REMEMBERED {
            self.known.retain(|(_, resolved)| matches!(resolved, Resolved::Broad(_)));
        }
        Learned::Narrow(self.remember(selector, request, Resolved::Narrow { admitted, reluctant }))
    }

    fn remember(
        &mut self,
        selector: Arc<Selector>,
        request: &Request<'_>,
        resolved: Resolved,
    ) -> usize {
        let place = self.known.partition_point(|(known, _)| known.compare(request).is_lt());
        self.known.insert(place, (selector, resolved));
        place
    }

    /// A number for a broad selector: a new one, or that of one unused for long; and whether it is
    /// new.
    fn number(&mut self, selector: &Arc<Selector>, now: u64) -> Option<(u8, bool)> {
        let broad = Broad { selector: Arc::clone(selector), used: now };
        if let Ok(number) = u8::try_from(self.broad.len())
            && number < BROAD
        {
            self.broad.push(broad);
            return Some((number, true));
        }
        let (number, oldest) = (0..).zip(&mut self.broad).min_by_key(|(_, broad)| broad.used)?;
        if oldest.used.saturating_add(IDLE) > now {
            return None;
        }
        *oldest = broad;
        self.known
            .retain(|(_, resolved)| !matches!(resolved, Resolved::Broad(old) if *old == number));
        Some((number, false))
    }

    /// How many broad selectors have numbers.
    pub(super) fn numbers(&self) -> u8 {
        u8::try_from(self.broad.len()).unwrap_or(BROAD)
    }

    /// Bits for a class that is about to be added.
    pub(super) fn signature(&self, traits: &Traits) -> Signature {
        let mut signature = Signature::default();
        for (number, broad) in (0..).zip(&self.broad) {
            signature.set(number, broad.selector.judge(traits));
        }
        signature
    }

    /// Lists a new class wherever a narrow selector admits it.
    pub(super) fn class_added(&mut self, number: u32, class: &Class) {
        for (selector, resolved) in &mut self.known {
            if let Resolved::Narrow { admitted, reluctant } = resolved {
                match selector.judge(&class.traits) {
                    Verdict::Refused => {}
                    Verdict::Reluctant => reluctant.push(number),
                    Verdict::Admitted => admitted.push(number),
                }
            }
        }
    }

    /// Strikes a class from every list.
    pub(super) fn class_removed(&mut self, number: u32) {
        for (_, resolved) in &mut self.known {
            if let Resolved::Narrow { admitted, reluctant } = resolved {
                admitted.retain(|class| *class != number);
                reluctant.retain(|class| *class != number);
            }
        }
    }

    /// Forgets the selector of `request`: it is no longer narrow.
    pub(super) fn forget(&mut self, request: &Request<'_>) {
        if let Ok(place) = self.known.binary_search_by(|(known, _)| known.compare(request)) {
            self.known.remove(place);
        }
    }
}

enum Learned {
    /// It is remembered here.
    Narrow(usize),
    /// The answer is not in what is remembered.
    Elsewhere(Lookup<'static>),
}
