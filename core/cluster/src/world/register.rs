//! An agent begins a life.

use std::collections::BTreeSet;
use std::sync::Arc;

use persys_model::event::{Happening, NodePart};
use persys_model::link::{Registration, RegistrationAnswer};
use persys_model::mode::Mode;
use persys_model::node::{Condition, Node, NodeFacts};
use persys_model::token::{Session, Term};

use super::World;
use super::timers::Timer;
use crate::effects::{Mark, Outbound};
use crate::input::RequestId;
use crate::placement::NodeIndex;

impl World {
    pub(super) fn register(&mut self, request: RequestId, registration: Registration) {
        if let Err((why, retry_after_ms)) = self.may_register(&registration) {
            let why = Arc::from(why);
            let refusal = RegistrationAnswer::Refused { why, retry_after_ms };
            return self.at_once(Outbound::Registered(request, refusal));
        }
        let id = registration.facts.id.clone();
        if let Some(at) = self.node_at(&id)
            && let Some(session) = self.same_life(at, &registration)
        {
            // The answer was lost: it is given again, and nothing else changes.
            self.mark(Mark::Idempotent);
            return self.welcome(request, session);
        }
        let at = match self.node_at(&id) {
            Some(at) => {
                self.begin_next_life(at, &registration);
                at
            }
            None => self.begin_first_life(&registration),
        };
        self.happen(Happening::NodeRegistered { id });
        self.touch_node(at);
        self.close_unit();
        self.look_at_brake();
        let session = self.nodes.get(at.0).map(|slot| slot.node.session).unwrap_or_default();
        self.welcome(request, session);
        if registration.facts.is_asked_for_inventory() {
            // It cannot say what it holds until it is asked: absence proves nothing yet.
            self.await_inventory(at);
        } else {
            self.take_inventory(at, registration.inventory, true);
        }
        self.order_removals(at);
        self.timers.set(self.now.mono.plus(self.lease_ms()), Timer::Liveness(at));
    }

    fn welcome(&mut self, request: RequestId, session: Session) {
        let answer = RegistrationAnswer::Accepted {
            term: self.term,
            session,
            beat_ms: self.beat_ms(),
            lease_ms: self.lease_ms(),
        };
        self.later(Outbound::Registered(request, answer));
    }

    fn may_register(&mut self, registration: &Registration) -> Result<(), (String, u64)> {
        let facts = &registration.facts;
        let patience = self.lease_ms();
        if facts.capacity.cpu_millicores == 0 || facts.capacity.memory_mib == 0 {
            return Err(("a node must offer CPU and memory".to_owned(), patience));
        }
        if registration.term > self.term && self.node_by_id.is_empty() {
            let seen = registration.term;
            self.enter_recovery(Arc::from(format!(
                "the store is empty, but an agent has heard of leadership {seen} of an earlier life"
            )));
        } else if self.is_consistent(&facts.id, Some(registration.term), &registration.inventory) {
            return self.may_have_name(facts, patience);
        }
        let cause = self.witness.isolated(&facts.id);
        let cause = cause.map_or("the store is older than what it knows", |why| &**why);
        Err((format!("node {} is not admitted: {cause}", facts.id), patience))
    }

    fn may_have_name(&mut self, facts: &NodeFacts, patience: u64) -> Result<(), (String, u64)> {
        if let Some(at) = self.node_at(&facts.id)
            && let Some(slot) = self.nodes.get(at.0)
            && slot.node.condition == Condition::Ready
            && slot.node.facts.host != facts.host
        {
            self.mark(Mark::DuplicateNode);
            let why = format!("another machine holds the name {} and is alive", facts.id);
            return Err((why, patience));
        }
        Ok(())
    }

    /// Whether this registration repeats the one that began the present life, unheard since.
    fn same_life(&self, at: NodeIndex, registration: &Registration) -> Option<Session> {
        let slot = self.nodes.get(at.0)?;
        let same = slot.node.facts == registration.facts
            && slot.node.condition == Condition::Ready
            && slot.known
            && slot.seq == 0;
        same.then_some(slot.node.session)
    }

    fn begin_first_life(&mut self, registration: &Registration) -> NodeIndex {
        let node = Node {
            facts: registration.facts.clone(),
            session: self.first_session(),
            labels: persys_model::labels::Labels::new(),
            hidden_labels: BTreeSet::new(),
            taints: BTreeSet::new(),
            drain: None,
            condition: Condition::Ready,
            since: self.now.wall,
        };
        let (now, lease_ms) = (self.now.mono, self.lease_ms());
        let at = self.fill_node(Arc::new(node), lease_ms);
        if let Some(slot) = self.nodes.get_mut(at.0) {
            slot.begin_session(now, lease_ms);
        }
        at
    }

    /// Sessions count on from the incarnation of the cluster, so that a life of a rebuilt cluster
    /// is never mistaken for one before.
    pub(super) fn first_session(&self) -> Session {
        Session(Term(1).in_incarnation(self.head.incarnation).0)
    }

    fn begin_next_life(&mut self, at: NodeIndex, registration: &Registration) {
        let (now, lease_ms, wall) = (self.now.mono, self.lease_ms(), self.now.wall);
        let floor = self.first_session();
        let Some(slot) = self.nodes.get_mut(at.0) else { return };
        let returned = slot.node.condition == Condition::Lost;
        let from = slot.node.condition;
        let node = Arc::make_mut(&mut slot.node);
        node.facts = registration.facts.clone();
        node.session = node.session.next().max(floor);
        if from != Condition::Ready {
            node.condition = Condition::Ready;
            node.since = wall;
        }
        let id = node.facts.id.clone();
        let unreachable = slot.reach.trouble().is_some();
        slot.begin_session(now, lease_ms);
        if unreachable {
            // Its new life may be called at another address.
            let (id, part) = (id.clone(), NodePart::Orders);
            self.happen(Happening::NodeTrouble { id, part, why: None });
        }
        self.restart_patience(at);
        if returned {
            self.mark(Mark::NodeReturned);
        }
        if from != Condition::Ready {
            let why = Arc::from("registered");
            self.happen(Happening::NodeCondition { id, from, to: Condition::Ready, why });
        }
        self.silent.remove(&at);
        self.index_node(at);
    }

    /// In degraded and recovery mode nobody joins; in recovery what agents hold is remembered.
    pub(super) fn register_frozen(&mut self, request: RequestId, registration: Registration) {
        let why = format!("the control plane is in {} mode", self.mode.word());
        if self.mode == Mode::Recovery {
            self.heard.insert(registration.facts.id.clone(), registration);
        }
        let refusal = RegistrationAnswer::Refused {
            why: Arc::from(why),
            retry_after_ms: self.settings.beat_ms,
        };
        self.at_once(Outbound::Registered(request, refusal));
    }
}
