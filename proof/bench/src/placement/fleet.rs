//! The fleet and the stream of requests, from a seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_cluster::placement::Traits;
use persys_model::labels::{Constraint, Rule};
use persys_model::resources::Compute;
use persys_model::spec::WorkloadType;

/// Values of the zone label.
pub(super) const ZONES: u32 = 64;

/// `SplitMix64`: small, fast, the same everywhere.
#[derive(Debug, Clone)]
pub(super) struct Chance(pub(super) u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not zero.
    pub(super) fn below(&mut self, limit: u32) -> u32 {
        let wide = u128::from(self.next()) * u128::from(limit);
        u32::try_from(wide >> 64).unwrap_or(0)
    }

    fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(high - low)
    }
}

/// What nodes are told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Labelling {
    /// No labels.
    None,
    /// One of 64 zones.
    Zones,
    /// A zone, and a label of its own.
    Hosts,
}

/// One request as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Want {
    pub(super) cpu: u32,
    pub(super) mem: u32,
    pub(super) place: Place,
}

/// Where a request may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Anywhere,
    Zone(u32),
    Host(u32),
}

impl Want {
    pub(super) fn compute(&self) -> Compute {
        Compute::new(u64::from(self.cpu), u64::from(self.mem))
    }
}

/// Three sizes of machine: 16, 32 and 64 cores with 4 GiB each.
pub(super) fn capacity(node: u32) -> (u32, u32) {
    let cores = 16 << (node % 3);
    (cores * 1000, cores * 4096)
}

/// The zone of a node.
pub(super) fn zone(node: u32) -> u32 {
    (node / 3) % ZONES
}

/// A cpu-heavy or a memory-heavy request, sizes to the last millicore and MiB.
pub(super) fn want(chance: &mut Chance, labelling: Labelling, nodes: u32) -> Want {
    let (cpu, mem) = if chance.below(2) == 0 {
        (chance.between(2000, 8000), chance.between(512, 2048))
    } else {
        (chance.between(100, 500), chance.between(8192, 32_768))
    };
    let place = match (labelling, chance.below(4)) {
        (Labelling::None, _) | (Labelling::Hosts, 0 | 1) => Place::Anywhere,
        (Labelling::Zones, _) | (Labelling::Hosts, 2) => {
            Place::Zone(chance.below(ZONES.min(nodes.div_ceil(3))))
        }
        (Labelling::Hosts, _) => Place::Host(chance.below(nodes)),
    };
    Want { cpu, mem, place }
}

/// Traits of a node.
pub(super) fn traits(labelling: Labelling, node: u32) -> Traits {
    let mut labels = BTreeMap::new();
    if labelling != Labelling::None {
        labels.insert(Arc::from("zone"), Arc::from(format!("z{}", zone(node))));
    }
    if labelling == Labelling::Hosts {
        labels.insert(Arc::from("host"), Arc::from(format!("h{node}")));
    }
    Traits { labels, types: BTreeSet::from([WorkloadType::Container]), ..Traits::default() }
}

/// The constraint `key=<letter><number>`.
pub(super) fn constraint(key: &str, value: String) -> Constraint {
    Constraint { key: Arc::from(key), rule: Rule::In(BTreeSet::from([Arc::from(value)])) }
}
