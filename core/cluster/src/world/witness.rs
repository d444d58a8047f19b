//! Agents as witnesses of how far the store had come.
//!
//! ```text
//!   durable commit ──► mark with a MAC ──► answer to a heartbeat ──► agent's ledger
//!                                                                        │ inventory
//!   genuine and above the store: recovery ◄── compared with the head ◄───┘
//!   above the store and not genuine: that node is isolated
//! ```
//!
//! A scheduler whose own memory was set back with the store finds nothing wrong by itself. Therefore a
//! process that has just started decides nothing before it has heard its ready nodes, or waited for them.
//! One agent must not be able to stop the cluster, so numbers without a genuine mark isolate its node
//! only: nothing is ordered there, and what runs there goes on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use persys_model::event::{Happening, NodePart};
use persys_model::id::NodeId;
use persys_model::inventory::Inventory;
use persys_model::mode::Mode;
use persys_model::node::Condition;
use persys_model::store_mark::{Marked, StoreMark};
use persys_model::time::Millis;
use persys_model::token::{CommitSeq, Epoch, Term};
use persys_model::zoo::Bug;

use super::World;
use crate::effects::Mark;
use crate::input::Input;
use crate::placement::NodeIndex;
use crate::record::Head;
use crate::settings::Settings;
use crate::store::HighWater;

/// Most nodes without a record whose isolation is remembered, so that it is told once.
const MOST_STRANGERS: usize = 1_000;

/// What agents prove about the store, and which of them hold numbers that they cannot prove.
#[derive(Debug, Default)]
pub(super) struct Witness {
    /// The head before this leadership moved it by reading: earlier ones made no later commit.
    opened: CommitSeq,
    /// The first commit that holds the key of marks: earlier, a mark could outlive its key.
    key_since: CommitSeq,
    isolated: BTreeMap<NodeId, Arc<str>>,
    listening: Option<Listening>,
}

/// A process that has just started and waits to hear its agents.
#[derive(Debug, Default)]
struct Listening {
    /// From here on one agent with a genuine mark is enough.
    until: Millis,
    /// Nobody waits longer, whoever was heard.
    at_last: Millis,
    /// True if an agent with a genuine mark was heard, and the store is not older.
    confirmed: bool,
    unheard: BTreeSet<NodeId>,
    /// Wishes that came meanwhile.
    asked: VecDeque<Input>,
}

/// What an agent's numbers say about the store.
#[derive(Debug, PartialEq, Eq)]
enum Finding {
    Consistent,
    /// The store is older than it was.
    Older(CommitSeq, Arc<str>),
    /// The agent holds higher numbers than the store and no proof.
    Unproven(Arc<str>),
}

impl Witness {
    /// For the head as it was read; draws the key of marks for a store that has none.
    pub(super) fn new(head: &mut Head, settings: &Settings) -> Self {
        let opened = CommitSeq(head.seq.0.saturating_sub(1));
        let key_since = if head.mark_key.is_empty() { head.seq.next() } else { CommitSeq(0) };
        if head.mark_key.is_empty() {
            head.mark_key = Arc::clone(&settings.mark_key);
        }
        Self { opened, key_since, ..Self::default() }
    }

    /// The cause why nothing is ordered to a node, if it is isolated.
    pub(super) fn isolated(&self, node: &NodeId) -> Option<&Arc<str>> {
        self.isolated.get(node)
    }

    /// True while a process that has just started waits to hear its agents.
    pub(super) fn listens(&self) -> bool {
        self.listening.is_some()
    }

    /// When to look again while agents are awaited: nothing else is due before.
    pub(super) fn wake_at(&self) -> Option<Millis> {
        let wakes = |listening: &Listening| {
            if listening.confirmed { listening.until } else { listening.at_last }
        };
        self.listening.as_ref().map(wakes)
    }

    /// The store was read again in the same leadership.
    pub(super) fn carry_on(&mut self, before: Self) {
        self.isolated = before.isolated;
        self.listening = before.listening;
    }
}

impl World {
    /// A mark of the last durable commit, for agents to keep.
    pub(super) fn store_mark(&self) -> Option<StoreMark> {
        let key = &self.head.mark_key;
        if key.is_empty()
            || self.durable < self.witness.key_since
            || self.durable < self.incarnation_since
        {
            return None;
        }
        // Decisions that are made and not yet durable are not in it; a lower epoch proves less.
        let epoch = if self.durable >= self.head.seq { self.head.epoch } else { self.opened_epoch };
        let marked = Marked {
            incarnation: self.head.incarnation,
            seq: self.durable,
            term: self.term,
            epoch,
        };
        Some(marked.seal(key, &self.head.cluster))
    }

    /// Begins to wait for the agents of ready nodes; nothing is decided before.
    pub(super) fn listen(&mut self) {
        let ready = self.nodes.iter().filter(|slot| slot.node.condition == Condition::Ready);
        let unheard: BTreeSet<_> = ready.map(|slot| slot.node.facts.id.clone()).collect();
        if unheard.is_empty() || self.settings.zoo.has(Bug::MemoryIsTruth) {
            return;
        }
        let until = self.now.mono.plus(self.settings.listen_ms);
        let at_last = until.max(self.now.mono.plus(self.lease_ms()));
        let (confirmed, asked) = (false, VecDeque::new());
        self.witness.listening = Some(Listening { until, at_last, confirmed, unheard, asked });
    }

    /// Keeps a wish back while agents are awaited; gives it back where they are not.
    pub(super) fn keep_back(&mut self, input: Input) -> Option<Input> {
        match (&mut self.witness.listening, input) {
            (Some(listening), input @ Input::Ask(..)) => {
                listening.asked.push_back(input);
                None
            }
            (_, input) => Some(input),
        }
    }

    /// Ends the wait when every ready node was heard, or its time is over.
    pub(super) fn end_listening(&mut self) {
        let over = self.witness.listening.as_ref().is_some_and(|listening| {
            let until = if listening.confirmed { listening.until } else { listening.at_last };
            listening.unheard.is_empty() || self.now.mono >= until
        });
        if !over && !self.frozen() {
            return;
        }
        let Some(listening) = self.witness.listening.take() else { return };
        if !self.frozen() {
            self.begin_work();
            let nodes: Vec<_> = self.node_by_id.values().copied().collect();
            for at in nodes {
                self.order_removals(at);
            }
        }
        for input in listening.asked {
            if self.frozen() {
                self.step_frozen(input);
            } else {
                self.step_normal(input);
                self.close_unit();
            }
        }
    }

    /// Compares an agent's numbers with the store. False if nothing may rest on its word: the store is
    /// older, or the node is isolated.
    pub(super) fn is_consistent(
        &mut self,
        node: &NodeId,
        term: Option<Term>,
        inventory: &Inventory,
    ) -> bool {
        match self.examine(term, inventory) {
            Finding::Older(seq, why) => {
                self.remember_more(seq);
                self.enter_recovery(Arc::from(format!("{why}, as node {node} proves")));
                false
            }
            Finding::Unproven(why) => {
                self.isolate(node, why);
                false
            }
            Finding::Consistent => {
                self.trust_again(node);
                let confirms = self.is_genuine(inventory.mark.as_ref());
                if let Some(listening) = &mut self.witness.listening {
                    listening.unheard.remove(node);
                    listening.confirmed |= confirms;
                }
                true
            }
        }
    }

    fn is_genuine(&self, mark: Option<&StoreMark>) -> bool {
        let (key, cluster) = (&self.head.mark_key, &self.head.cluster);
        self.witness.listens() && mark.is_some_and(|mark| mark.verify(key, cluster).is_some())
    }

    fn examine(&self, term: Option<Term>, inventory: &Inventory) -> Finding {
        if self.settings.zoo.has(Bug::MemoryIsTruth) {
            return Finding::Consistent;
        }
        let verify = |mark: &StoreMark| mark.verify(&self.head.mark_key, &self.head.cluster);
        let proven = inventory.mark.as_ref().and_then(verify);
        if let Some(marked) = proven
            && let Some(why) = self.outdone_by(&marked)
        {
            return Finding::Older(marked.seq, why);
        }
        let mine = inventory.held.iter().filter(|held| held.spec.is_some());
        let held = mine.map(|held| held.report.epoch);
        let removed = inventory.tombstones.iter().map(|tombstone| tombstone.epoch);
        let epoch = held.chain(removed).max().unwrap_or_default();
        let claimed = inventory.mark.as_ref().filter(|_| proven.is_none()).map(StoreMark::claims);
        let claimed = claimed.unwrap_or_default();
        let reached = (self.head.incarnation, self.head.seq);
        let unproven = if term.is_some_and(|term| term > self.term) {
            "has heard of a later leadership than this store knows"
        } else if epoch > self.head.epoch {
            "holds a later decision than this store knows"
        } else if (claimed.incarnation, claimed.seq) > reached {
            "shows a later mark of the store than the store has reached"
        } else {
            return Finding::Consistent;
        };
        Finding::Unproven(Arc::from(format!(
            "its agent {unproven}, without a valid proof; if the store was restored from an older copy, \
             `persys recover --from-agents` begins the recovery; if the machine belongs to another \
             cluster, empty the state folder of its agent"
        )))
    }

    /// The sentence about a store that knows less than a genuine mark, if it does.
    fn outdone_by(&self, marked: &Marked) -> Option<Arc<str>> {
        if marked.incarnation < self.head.incarnation {
            return None;
        }
        // Whoever leads after this process is known to its agents first: that is no older store.
        let leads = self.now.mono < self.leads_until;
        let later = marked.incarnation > self.head.incarnation || marked.term > self.term;
        let beyond = if marked.term == self.term { self.durable } else { self.witness.opened };
        let outdone = if later { leads } else { marked.seq > beyond };
        outdone.then(|| {
            Arc::from(format!(
                "the store holds an older state than it once had: commit {} was durable, and it was \
                 read at {}",
                marked.seq, self.witness.opened
            ))
        })
    }

    /// What an agent proved becomes this host's own memory: the next process begins in recovery too.
    fn remember_more(&mut self, seq: CommitSeq) {
        let cluster = Arc::clone(&self.head.cluster);
        let (incarnation, seq) = (self.head.incarnation, seq.max(self.head.seq.next()));
        self.known = Some(HighWater { cluster, incarnation, seq });
    }

    /// Nothing rests on a node's word, and nothing is ordered there.
    fn isolate(&mut self, node: &NodeId, why: Arc<str>) {
        self.mark(Mark::NodeIsolated);
        if let Some(listening) = &mut self.witness.listening {
            listening.unheard.remove(node);
        }
        let at = self.node_at(node);
        let full = at.is_none() && self.witness.isolated.len() >= MOST_STRANGERS;
        if self.witness.isolated.get(node) == Some(&why) || full {
            return;
        }
        self.witness.isolated.insert(node.clone(), Arc::clone(&why));
        self.tell_isolation(node, at, Some(why));
    }

    fn trust_again(&mut self, node: &NodeId) {
        if self.witness.isolated.remove(node).is_some() {
            let at = self.node_at(node);
            self.tell_isolation(node, at, None);
            if let Some(at) = at {
                self.order_removals(at);
                let slot = self.nodes.get(at.0);
                let assigned = slot.map(|slot| slot.assigned.clone()).unwrap_or_default();
                for workload in assigned {
                    self.mark_dirty(workload);
                }
            }
        }
    }

    fn tell_isolation(&mut self, node: &NodeId, at: Option<NodeIndex>, why: Option<Arc<str>>) {
        let (id, part) = (node.clone(), NodePart::Tokens);
        self.happen(Happening::NodeTrouble { id, part, why });
        self.close_unit();
        if let Some(at) = at {
            self.index.set_open(at, self.is_open(at));
            self.room_changed = true;
        }
    }

    /// True if an operator's word is enough to take the store for older: some node says so.
    pub(super) fn is_doubted(&self) -> bool {
        !self.witness.isolated.is_empty()
    }

    /// The store lost something: freezes before anything rests on it.
    pub(super) fn enter_recovery(&mut self, why: Arc<str>) {
        self.mark(Mark::RecoveryEntered);
        self.mode = Mode::Recovery;
        self.mode_since = self.now;
        self.mode_why = why;
        self.drop_held();
    }

    /// The highest epoch in a heartbeat without an inventory.
    pub(super) fn is_beyond(&self, epochs: impl Iterator<Item = Epoch>) -> bool {
        epochs.max().is_some_and(|epoch| epoch > self.head.epoch)
            && !self.settings.zoo.has(Bug::MemoryIsTruth)
    }
}
