//! The index: nodes, what they have, what is taken.
//!
//! Invariant: every present node is a member of the class of its traits; if it is open, it is in the
//! group of that class and its size, in the cell of its free amounts.

use persys_model::id::PoolName;
use persys_model::node::Pool;
use persys_model::resources::{Compute, Resources};
use persys_model::spec::HostPort;

use super::class::Classes;
use super::explain::{self, Explanation};
use super::group::Groups;
use super::node::{Cold, Hot, Nodes};
use super::request::{NodeIndex, Pair, Request, Traits, narrow, wide};
use super::scan;
use super::selector::{Selectors, Verdict, judge};
use super::verdict::{self, NodeVerdict, Own};

/// Groups beyond which empty ones are looked for and dropped.
const GROUPS: usize = 64;

/// Which nodes there are and what is free on them.
#[derive(Debug, Default)]
pub struct Index {
    pub(super) nodes: Nodes,
    pub(super) classes: Classes,
    pub(super) selectors: Selectors,
    pub(super) groups: Groups,
    /// Groups at which the next clearing is due.
    clear_at: usize,
    /// Picks so far: the age of remembered selectors.
    pub(super) picks: u64,
    /// Which group comes first when many are admitted.
    pub(super) turn: usize,
    pub(super) fallbacks: u64,
}

impl Index {
    /// An index without nodes.
    #[must_use]
    pub fn new() -> Self {
        Self { clear_at: GROUPS, ..Self::default() }
    }

    /// Adds a node, open, or changes one. What is taken on it stays taken.
    pub fn set_node(&mut self, at: NodeIndex, capacity: Compute, pools: &[Pool], traits: Traits) {
        self.nodes.ensure(at);
        self.leave_group(at);
        if let Some(cold) = self.nodes.cold_mut(at) {
            cold.set_pools(pools);
        }
        self.nodes.set_capacity(at, capacity);
        let known = self.classes.find(&traits);
        let class = self.nodes.cold(at).map(|cold| cold.class);
        let Some(hot) = self.nodes.hot_mut(at) else { return };
        let new = !hot.present;
        hot.present = true;
        hot.open |= new;
        if new || known != class {
            if !new {
                self.leave_class(at);
            }
            self.join_class(at, traits);
        }
        self.join_group(at);
    }

    /// Opens or closes a node. A closed one keeps its accounting and is never picked.
    pub fn set_open(&mut self, at: NodeIndex, open: bool) {
        let Some(hot) = self.nodes.hot_mut(at) else { return };
        if !hot.present || hot.open == open {
            return;
        }
        hot.open = open;
        if open {
            self.join_group(at);
        } else {
            self.leave_group(at);
        }
    }

    /// Forgets a node and all that is taken on it.
    pub fn remove_node(&mut self, at: NodeIndex) {
        self.leave_group(at);
        if self.nodes.hot(at).is_some_and(|hot| hot.present) {
            self.leave_class(at);
        }
        if let Some(hot) = self.nodes.hot_mut(at) {
            *hot = Hot::default();
        }
        if let Some(cold) = self.nodes.cold_mut(at) {
            *cold = Cold::default();
        }
    }

    /// Records that `what` and `ports` are taken on a node, even beyond what it has. Sums are assumed
    /// to stay below 2^63: a checked spec is far smaller than that.
    pub fn take(&mut self, at: NodeIndex, what: &Resources, ports: &[HostPort]) {
        self.nodes.ensure(at);
        if what.compute != Compute::ZERO {
            self.account(at, |hot| hot.take(what.compute));
        }
        if (!what.disk.is_empty() || !ports.is_empty())
            && let Some(cold) = self.nodes.cold_mut(at)
        {
            cold.take(&what.disk, ports);
        }
    }

    /// Undoes a [`take`](Self::take) of the same.
    pub fn give(&mut self, at: NodeIndex, what: &Resources, ports: &[HostPort]) {
        if what.compute != Compute::ZERO {
            self.account(at, |hot| hot.give(what.compute));
            debug_assert!(self.capacity(at).covers(self.free(at)), "more given than was taken");
        }
        if what.disk.is_empty() && ports.is_empty() {
            return;
        }
        let group = self.nodes.hot(at).and_then(Hot::group);
        if let Some(cold) = self.nodes.cold_mut(at) {
            cold.give(&what.disk, ports);
            if let Some(group) = group.and_then(|group| self.groups.get_mut(group)) {
                group.raise(cold);
            }
        }
    }

    /// CPU and memory free on a node; zero where more is taken than there is.
    pub fn free(&self, at: NodeIndex) -> Compute {
        self.nodes.hot(at).map_or(Compute::ZERO, Hot::free)
    }

    /// CPU and memory taken on a node, possibly more than it has.
    pub fn taken(&self, at: NodeIndex) -> Compute {
        self.nodes.taken(at)
    }

    /// CPU and memory a node has in all.
    pub fn capacity(&self, at: NodeIndex) -> Compute {
        self.nodes.capacity(at)
    }

    /// Free disk in a pool of a node, `None` being its default pool; nothing in a pool it does not
    /// have. `None` if the node does not count disk.
    pub fn free_disk(&self, at: NodeIndex, pool: Option<&PoolName>) -> Option<u64> {
        self.nodes.cold(at).map_or(Some(0), |cold| cold.free_disk(pool))
    }

    /// Whether one node passes every filter, being open among them.
    pub fn fits(&self, at: NodeIndex, request: &Request<'_>) -> bool {
        self.verdict(at, request) != Verdict::Refused && scan::has_room(&self.nodes, at, request)
    }

    /// The node an exact pass picks: nothing changes by asking.
    pub fn foresee(&self, request: &Request<'_>) -> Option<NodeIndex> {
        self.scan(request)
    }

    /// Why nothing fits, or how much does: an exact pass over all nodes.
    pub fn explain(&self, request: &Request<'_>) -> Explanation {
        explain::explain(&self.nodes, &self.classes, request)
    }

    /// How each node judges a request, in no order: an exact pass over all nodes. What `own` holds
    /// counts as free.
    pub fn verdicts(&self, request: &Request<'_>, own: Option<Own<'_>>) -> Vec<NodeVerdict> {
        verdict::verdicts(&self.nodes, &self.classes, request, own)
    }

    /// Picks that could not be answered from the grids alone and went through the nodes.
    pub fn fallbacks(&self) -> u64 {
        self.fallbacks
    }

    pub(super) fn verdict(&self, at: NodeIndex, request: &Request<'_>) -> Verdict {
        match (self.nodes.hot(at), self.nodes.cold(at)) {
            (Some(hot), Some(cold)) if hot.present => self
                .classes
                .get(cold.class)
                .map_or(Verdict::Refused, |class| judge(request, &class.traits)),
            _ => Verdict::Refused,
        }
    }

    /// Puts every open node into its group anew.
    pub(super) fn regroup(&mut self) {
        self.groups = Groups::with_numbers(self.selectors.numbers());
        for number in 0..narrow(self.nodes.len()) {
            let at = NodeIndex(number);
            if let Some(hot) = self.nodes.hot_mut(at) {
                hot.set_group(None);
            }
            self.enter_group(at);
        }
        let live = self.groups.table().iter().filter(|group| group.grid.len() > 0).count();
        self.clear_at = GROUPS + 2 * live;
    }

    /// Moves the nodes of classes that changed their bits for a selector just numbered.
    pub(super) fn regroup_classes(&mut self, classes: &[u32]) {
        self.groups.add_number();
        for class in classes {
            let Some(class) = self.classes.get(*class) else { continue };
            for node in class.members.clone() {
                self.leave_group(NodeIndex(node));
                self.enter_group(NodeIndex(node));
            }
        }
        if self.groups.len() > self.clear_at {
            self.regroup();
        }
    }

    fn join_group(&mut self, at: NodeIndex) {
        self.enter_group(at);
        if self.groups.len() > self.clear_at {
            self.regroup();
        }
    }

    fn enter_group(&mut self, at: NodeIndex) {
        let (Some(hot), Some(cold)) = (self.nodes.hot(at), self.nodes.cold(at)) else { return };
        let Some(class) = self.classes.get(cold.class) else { return };
        if !hot.present || !hot.open || hot.group().is_some() {
            return;
        }
        let number = self.groups.group_for(class.signature, Pair::offer(cold.capacity()));
        let entry = hot.entry(at.0);
        if let Some(group) = self.groups.get_mut(number) {
            group.raise(cold);
            group.grid.insert(&mut self.nodes, entry);
        }
        if let Some(hot) = self.nodes.hot_mut(at) {
            hot.set_group(Some(number));
        }
    }

    fn leave_group(&mut self, at: NodeIndex) {
        let Some(hot) = self.nodes.hot_mut(at) else { return };
        let (group, slot, free) = (hot.group(), hot.slot(), Pair::offer(hot.free()));
        hot.set_group(None);
        if let Some(group) = group.and_then(|group| self.groups.get_mut(group)) {
            group.grid.remove(&mut self.nodes, slot, free);
        }
    }

    /// Changes what is taken on a node and moves it to the cell of its new free amounts.
    fn account(&mut self, at: NodeIndex, change: impl FnOnce(&mut Hot)) {
        let Some(hot) = self.nodes.hot_mut(at) else { return };
        let before = Pair::offer(hot.free());
        change(hot);
        let (slot, entry) = (hot.slot(), hot.entry(at.0));
        if let Some(group) = hot.group().and_then(|group| self.groups.get_mut(group)) {
            group.grid.change(&mut self.nodes, slot, before, entry);
        }
    }

    fn join_class(&mut self, at: NodeIndex, traits: Traits) {
        let number = self.classes.find(&traits).unwrap_or_else(|| {
            let signature = self.selectors.signature(&traits);
            let number = self.classes.add(traits, signature);
            if let Some(class) = self.classes.get(number) {
                self.selectors.class_added(number, class);
            }
            number
        });
        if let (Some(class), Some(cold)) = (self.classes.get_mut(number), self.nodes.cold_mut(at)) {
            cold.class = number;
            cold.member = narrow(class.members.len());
            class.members.push(at.0);
        }
    }

    fn leave_class(&mut self, at: NodeIndex) {
        let Some(cold) = self.nodes.cold(at) else { return };
        let (number, member) = (cold.class, cold.member);
        let Some(class) = self.classes.get_mut(number) else { return };
        if wide(member) < class.members.len() {
            class.members.swap_remove(wide(member));
        }
        let moved = class.members.get(wide(member)).copied();
        if class.members.is_empty() {
            self.classes.remove(number);
            self.selectors.class_removed(number);
        }
        if let Some(moved) = moved.and_then(|moved| self.nodes.cold_mut(NodeIndex(moved))) {
            moved.member = member;
        }
    }
}
