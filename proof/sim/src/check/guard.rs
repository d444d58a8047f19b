//! Schedulers that must keep still, as far as their calls to the store tell: a scheduler that
//! does not know how its last write went, or whose store has lost something, writes nothing and
//! orders nothing before it has read again or an operator has spoken.

use std::collections::{BTreeMap, BTreeSet};

use persys_cluster::record::Head;
use persys_cluster::store::{CallId, HighWater, StoreCall, StoreReply};
use persys_model::command::{Command, Order};
use persys_model::id::NodeId;
use persys_model::link::RegistrationAnswer;
use persys_model::mode::Mode;
use persys_model::token::Term;

use super::Check;
use crate::scheduler::SchedulerHost;
use crate::setup::node_id;
use crate::store::Contents;
use crate::wire::Life;

/// What one scheduler process may do.
#[derive(Debug)]
pub(super) struct Guard {
    life: Life,
    state: State,
    /// The leadership it counts on, and when the call that last kept it was sent.
    term: Option<Term>,
    kept_at: u64,
    sent: BTreeMap<CallId, u64>,
    terms: BTreeMap<CallId, Term>,
    commits: BTreeSet<CallId>,
    loads: BTreeMap<CallId, Option<HighWater>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It does not lead, or has not read anything yet.
    Outside,
    /// It leads and knows what is stored.
    Free,
    /// It does not know what is stored.
    Blind,
    /// What is stored is less than what it remembers.
    Recovering,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            life: Life(0),
            state: State::Outside,
            term: None,
            kept_at: 0,
            sent: BTreeMap::new(),
            terms: BTreeMap::new(),
            commits: BTreeSet::new(),
            loads: BTreeMap::new(),
        }
    }
}

fn has_lost(head: Option<&Head>, known: Option<&HighWater>) -> bool {
    let contents = Contents { head: head.cloned(), ..Contents::default() };
    contents.has_lost(known)
}

impl Check {
    pub(crate) fn scheduler_started(&mut self, scheduler: usize, life: Life) {
        if let Some(guard) = self.guards.get_mut(scheduler) {
            *guard = Guard { life, ..Guard::default() };
        }
    }

    fn guard(&mut self, scheduler: usize, life: Life) -> Option<&mut Guard> {
        self.guards.get_mut(scheduler).filter(|guard| guard.life == life)
    }

    /// A scheduler calls the store.
    pub(crate) fn called(
        &mut self,
        scheduler: usize,
        life: Life,
        id: CallId,
        call: &StoreCall,
        now: u64,
    ) {
        let Some(guard) = self.guard(scheduler, life) else { return };
        guard.sent.insert(id, now);
        if let StoreCall::Renew { term }
        | StoreCall::Load { term, .. }
        | StoreCall::Commit { term, .. } = call
        {
            guard.terms.insert(id, *term);
        }
        match call {
            StoreCall::Commit { .. } => {
                guard.commits.insert(id);
                let state = guard.state;
                self.must_be_free(state, now, || format!("s{scheduler} writes"));
            }
            StoreCall::Load { known, .. } => {
                guard.loads.insert(id, known.clone());
            }
            StoreCall::Campaign { .. } | StoreCall::Renew { .. } | StoreCall::Resign { .. } => {}
        }
    }

    fn must_be_free(&mut self, state: State, now: u64, what: impl FnOnce() -> String) {
        match state {
            State::Free => {}
            State::Outside => {
                self.violate(now, "I12", || format!("{} although it does not lead", what()));
            }
            State::Blind => self.violate(now, "I12", || {
                format!("{} although it does not know what is stored", what())
            }),
            State::Recovering => self.violate(now, "I13", || {
                format!("{} although the store lost something and nobody said how to go on", what())
            }),
        }
    }

    /// A scheduler hears from the store.
    pub(crate) fn replied(&mut self, scheduler: usize, life: Life, id: CallId, reply: &StoreReply) {
        let Some(guard) = self.guard(scheduler, life) else { return };
        let commit = guard.commits.remove(&id);
        let known = guard.loads.remove(&id);
        let term = guard.terms.remove(&id);
        // Each of these succeeds only for the one who leads.
        let leads = matches!(
            reply,
            StoreReply::Won(_)
                | StoreReply::Done
                | StoreReply::Renewed(_)
                | StoreReply::Committed
                | StoreReply::Loaded(_)
        );
        if let Some(sent) = guard.sent.remove(&id)
            && leads
        {
            guard.kept_at = guard.kept_at.max(sent);
        }
        match reply {
            StoreReply::Won(term) => guard.term = Some(*term),
            StoreReply::Loaded(snapshot) => {
                // Whatever was on its way before can no longer arrive.
                guard.commits.clear();
                let half = snapshot.head.as_ref().is_some_and(|head| head.rebuilding);
                let lost = half || has_lost(snapshot.head.as_ref(), known.flatten().as_ref());
                guard.state = if lost { State::Recovering } else { State::Free };
            }
            StoreReply::Deposed if term == guard.term => guard.state = State::Outside,
            StoreReply::Unknown | StoreReply::Unavailable | StoreReply::HeadMoved
                if commit && guard.state == State::Free =>
            {
                guard.state = State::Blind;
            }
            _ => {}
        }
    }

    /// An operator's word reaches a scheduler.
    pub(crate) fn recovery_asked(&mut self, scheduler: usize, life: Life) {
        if let Some(guard) = self.guard(scheduler, life)
            && guard.state == State::Recovering
        {
            guard.state = State::Free;
        }
    }

    /// A scheduler that waits for an operator's word.
    pub(crate) fn recovering(&self, schedulers: &[SchedulerHost]) -> Option<usize> {
        self.guards.iter().zip(schedulers).position(|(guard, host)| {
            let process = host.process.as_ref().filter(|process| process.life == guard.life);
            // Agents may have proved what nobody else remembered.
            let proven = process.and_then(|process| process.replica.world());
            let proven = proven.is_some_and(|world| world.mode().0 == Mode::Recovery);
            process.is_some() && (guard.state == State::Recovering || proven)
        })
    }

    /// An order left its scheduler: it may arrive.
    pub(crate) fn left(&mut self, node: &NodeId, command: &Command) {
        if matches!(command.order, Order::Apply(_)) {
            let key = (node.clone(), command.workload.clone());
            self.sent.entry(key).or_default().insert(command.epoch);
        }
    }

    /// A scheduler orders something: then the decision is stored.
    pub(crate) fn commanded(
        &mut self,
        now: u64,
        (scheduler, life, awake_since): (usize, Life, u64),
        node: &NodeId,
        command: &Command,
    ) {
        self.counts.commands += 1;
        let ttl = self.settings.leader_ttl_ms;
        let Some(guard) = self.guard(scheduler, life) else { return };
        // A process that stood still may say a last word before it looks at its clock; agents
        // refuse it. One that ran on has had time to notice.
        let overdue = now.saturating_sub(guard.kept_at.max(awake_since)) > ttl * 3 / 2;
        let state = if overdue { State::Blind } else { guard.state };
        self.must_be_free(state, now, || format!("s{scheduler} commands {node}"));
        let decided = self.decided.get(&command.epoch);
        let durable = match &command.order {
            Order::Apply(_) => {
                decided.is_some_and(|(workload, at)| *workload == command.workload && at == node)
            }
            Order::Remove { .. } => self.decided.keys().next_back().is_some_and(|_| true),
        };
        if !durable {
            let text = format!(
                "s{scheduler} told {node} of decision {} about {}, which is not stored",
                command.epoch, command.workload
            );
            self.violate(now, "durable before sent", || text);
        }
    }

    /// A node is told its session: then it is stored.
    pub(crate) fn registered(
        &mut self,
        now: u64,
        node: usize,
        answer: &RegistrationAnswer,
        contents: &Contents,
    ) {
        let RegistrationAnswer::Accepted { session, .. } = answer else { return };
        let stored = contents.nodes.get(&node_id(node)).map(|node| node.session);
        if self.store_lost_at.is_none() && stored.is_none_or(|stored| stored < *session) {
            self.violate(now, "durable before sent", || {
                format!("n{node} was given session {session}, stored is {stored:?}")
            });
        }
    }
}
