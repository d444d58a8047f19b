//! Answers, lists and heartbeats of contract agents as the beats the World understands.

use std::collections::BTreeMap;

use persys_model::failure::Failure;
use persys_model::id::{NodeId, WorkloadId};
use persys_model::inventory::{Held, Inventory, Report, State, Tombstone};
use persys_model::link::{Beat, Usage};
use persys_model::node::Condition;
use persys_model::phase::Phase;
use persys_model::spec::Spec;
use persys_model::time::Millis;
use persys_model::token::Epoch;

use super::agent::{Agent, Awaits, Taken, Watch};
use super::heard::{heard, prove_by_absence};
use super::here::Here;
use super::listed::listed;
use super::told::{Meaning, Told, Word};
use super::{ContractAgents, Found, PATIENCE_MS};
use crate::world::{Wanted, World};

/// Time in which something that is amiss may pass by itself: an agent repairs, or is between two steps.
pub(super) const AMISS_GRACE_MS: u64 = 5_000;
/// Time after an accepted order in which the agent may not yet know the workload.
const UNLISTED_GRACE_MS: u64 = 10_000;
/// Time after an accepted order in which the agent may still have the version before.
pub(super) const UPDATE_GRACE_MS: u64 = 60_000;

/// Everything one beat tells.
#[derive(Default)]
pub(super) struct News {
    pub(super) reports: Vec<Report>,
    pub(super) removed: Vec<Tombstone>,
    inventory: Option<Inventory>,
}

impl News {
    fn is_empty(&self) -> bool {
        self.reports.is_empty() && self.removed.is_empty() && self.inventory.is_none()
    }
}

impl ContractAgents {
    /// The beat of a node, if it has news and speaks at all: a node whose heartbeats stay away is not
    /// kept alive by answers.
    fn beat(&mut self, world: &World, node: &NodeId, news: News, now: Millis) -> Option<Beat> {
        let agent = self.agents.get(node)?;
        let view = world.node(node)?;
        let silent = now.since(agent.heard_at) > world.lease_length_ms();
        if news.is_empty() || silent || view.node.condition != Condition::Ready {
            return None;
        }
        let usage = agent.usage;
        Some(self.numbered(node, view.node.session, usage, news))
    }

    fn numbered(
        &mut self,
        node: &NodeId,
        session: persys_model::token::Session,
        usage: Usage,
        news: News,
    ) -> Beat {
        self.seq = self.seq.saturating_add(1);
        Beat {
            node: node.clone(),
            session,
            seq: self.seq,
            reports: news.reports,
            removed: news.removed,
            inventory: news.inventory,
            tasks: Vec::new(),
            usage,
            limits: BTreeMap::new(),
            busy: None,
            down: BTreeMap::new(),
            takes_removals: false,
        }
    }

    /// True if answers of a node count now. A node that is no longer known is forgotten.
    fn counts(&mut self, world: &World, node: &NodeId, now: Millis) -> bool {
        let Some(view) = world.node(node).filter(|view| view.node.facts.is_contract()) else {
            self.agents.remove(node);
            return false;
        };
        let heard_at = self.agents.get(node).map(|agent| agent.heard_at);
        let silent = heard_at.is_none_or(|at| now.since(at) > world.lease_length_ms());
        !world.is_frozen() && !silent && view.node.condition == Condition::Ready
    }

    /// Refusals the World has not heard of.
    pub fn news(&mut self, world: &World, node: &NodeId, now: Millis) -> Option<Beat> {
        let (poll_ms, counts) = (self.poll_ms, self.counts(world, node, now));
        let agent = self.agents.get_mut(node)?;
        if !counts {
            agent.delay_news(poll_ms, now);
            return None;
        }
        let mut news = News::default();
        let copies = &agent.copies;
        agent.watches.retain(|workload, watch| {
            let Awaits::Refused(failure) = &watch.awaits else { return true };
            if let Wanted::Here { phase: Phase::Running, epoch, .. } =
                world.wanted_on(node, workload)
                && epoch == watch.epoch
            {
                // The order was given once more. What runs does not end because the agent refuses it.
                watch.awaits = Awaits::Applied;
                (watch.trouble, watch.refused) = (None, false);
                watch.next_at = now.plus(poll_ms);
                return true;
            }
            let runs = copies.get(workload).and_then(|copy| copy.kept.clone());
            let failed = report(workload, watch.epoch, State::Failed(failure.clone()));
            news.reports.push(Report { runs, ..failed });
            false
        });
        self.beat(world, node, news, now)
    }

    /// An agent answered a question for the status of a workload.
    pub fn status_came(
        &mut self,
        world: &World,
        (node, workload, asked): (&NodeId, &WorkloadId, Millis),
        found: Found,
        now: Millis,
    ) -> Option<Beat> {
        let poll_ms = self.poll_ms;
        let counts = self.counts(world, node, now);
        let agent = self.agents.get_mut(node)?;
        let mut watch = agent.watches.get(workload).cloned()?;
        if watch.asked != Some(asked) {
            return None;
        }
        watch.asked = None;
        watch.again(poll_ms, now);
        let told = match found {
            Found::NoAnswer => {
                agent.watches.insert(workload.clone(), watch);
                agent.no_answer(workload, poll_ms, now);
                return None;
            }
            Found::Missing => None,
            Found::Status(told) => Some(told).filter(|told| !told.is_gone()),
        };
        agent.answered();
        watch.failures = 0;
        let mut news = News::default();
        let stale = asked < watch.since;
        let keep = if !counts || stale {
            true
        } else {
            match world.wanted_on(node, workload) {
                Wanted::Gone { epoch, placed } if epoch == watch.epoch => {
                    let about = (workload, placed);
                    leaving(agent, about, &mut watch, told.as_ref(), (&mut news, now))
                }
                Wanted::Here { epoch, revision, spec, run, phase } if epoch == watch.epoch => {
                    let here = Here { epoch, revision, spec, run, phase };
                    standing(agent, workload, &here, &mut watch, (told.as_ref(), &mut news, now))
                }
                // Decided otherwise since: the order for that brings a watch of its own.
                Wanted::Gone { .. }
                | Wanted::Here { .. }
                | Wanted::Elsewhere(_)
                | Wanted::Unknown => false,
            }
        };
        if keep {
            agent.watches.insert(workload.clone(), watch);
        } else {
            agent.watches.remove(workload);
        }
        self.beat(world, node, news, now)
    }

    /// A heartbeat came. `None` if the World does not know the node as one of the contract.
    pub fn heartbeat(
        &mut self,
        world: &World,
        node: &NodeId,
        (statuses, usage): (&[Told], Usage),
        now: Millis,
    ) -> Option<Beat> {
        let view = world.node(node)?;
        let facts = &view.node.facts;
        if !facts.is_contract() {
            return None;
        }
        let session = view.node.session;
        let callable = facts.is_asked_for_inventory();
        let agent = self
            .agents
            .entry(node.clone())
            .or_insert_with(|| Agent { callable, ..Agent::default() });
        // An order may have come before the first heartbeat, and did not know.
        agent.callable = callable;
        agent.heard_at = now;
        agent.usage = usage;
        let mut news = News::default();
        if !world.is_frozen() {
            for told in statuses {
                heard(world, node, agent, told, (&mut news, now));
            }
            prove_by_absence(world, node, agent, statuses, &mut news);
        }
        Some(self.numbered(node, session, usage, news))
    }

    /// An agent answered with all it holds; `None` if it did not.
    pub fn list_came(
        &mut self,
        world: &World,
        (node, asked): (&NodeId, Millis),
        list: Option<&[Told]>,
        now: Millis,
    ) -> Option<Beat> {
        let poll_ms = self.poll_ms;
        let counts = self.counts(world, node, now);
        let agent = self.agents.get_mut(node)?;
        if agent.list.asked != Some(asked) {
            return None;
        }
        agent.list.asked = None;
        let Some(list) = list.filter(|_| counts) else {
            agent.no_list(poll_ms, now);
            return None;
        };
        agent.strays.clear();
        let mut held = BTreeMap::new();
        for told in list {
            if let Some(one) = listed(world, node, agent, told, (asked, now)) {
                held.insert(told.workload.clone(), one);
            }
        }
        // Ordered while the list was on its way, or so lately that the agent may not list it yet.
        for (workload, copy) in &agent.copies {
            let Wanted::Here { epoch, run, .. } = world.wanted_on(node, workload) else { continue };
            let unlisted =
                copy.taken != Taken::Reached && copy.touched.plus(UNLISTED_GRACE_MS) > asked;
            let lately = unlisted || copy.touched >= asked;
            if (lately || !run) && copy.epoch == epoch && !held.contains_key(workload) {
                // What is to rest rests where nothing is.
                let otherwise = if lately { State::Pending } else { State::Stopped };
                let state = copy.last.clone().filter(|_| lately).unwrap_or(otherwise);
                let report = report(workload, epoch, state);
                let (revision, spec) = (copy.revision.clone(), None);
                held.insert(workload.clone(), Held { report, revision, run, pause: false, spec });
            }
        }
        agent.failed.retain(|workload| held.contains_key(workload));
        agent.listed(asked, now);
        let held = held.into_values().collect();
        let inventory = Some(Inventory { held, ..Inventory::default() });
        self.beat(world, node, News { inventory, ..News::default() }, now)
    }
}

pub(super) fn report(workload: &WorkloadId, epoch: Epoch, state: State) -> Report {
    let workload = workload.clone();
    let (restarts, confirmed, progress, trouble, runs) = (0, true, 0, None, None);
    let (fetched, health) = (None, None);
    Report { workload, epoch, state, restarts, confirmed, progress, fetched, trouble, runs, health }
}

pub(super) fn raw(told: &Told, spec: &Spec, run: bool) -> State {
    match told.meaning(spec, run) {
        Meaning::State(state) | Meaning::Amiss { now: state, .. } => state,
        Meaning::Missing => State::Unknown,
    }
}

/// The state of a workload that is to go and has not.
pub(super) fn while_leaving(told: &Told) -> State {
    match told.word {
        Word::Running => State::Running,
        Word::Stopped | Word::Failed => State::Stopped,
        Word::Pending | Word::Unknown => State::Pending,
    }
}

/// A status of a workload that is to go. True if it is watched on.
fn leaving(
    agent: &mut Agent,
    (workload, placed): (&WorkloadId, bool),
    watch: &mut Watch,
    told: Option<&Told>,
    (news, now): (&mut News, Millis),
) -> bool {
    let done = match (told, &watch.awaits) {
        (None, _) => true,
        (Some(told), Awaits::Stopped) => {
            agent.reached(workload, told);
            told.has_ended() && !agent.may_yet_start(workload, now)
        }
        (Some(_), Awaits::Applied | Awaits::Refused(_) | Awaits::Removed) => false,
    };
    let epoch = watch.epoch;
    if done {
        agent.copies.remove(workload);
        agent.removed.insert(workload.clone(), now);
        let workload = workload.clone();
        news.removed.push(Tombstone { workload, epoch, purged: false });
        return false;
    }
    if let Some(told) = told.filter(|told| told.word == Word::Failed) {
        let reason = told.reason.unwrap_or(persys_model::failure::FailureReason::RuntimeError);
        watch.trouble = Some(Failure::new(reason, &told.message));
    }
    if placed {
        // After a while it is ordered again: the agent may have given up, or forgotten.
        let confirmed = !watch.refused && now.since(watch.since) < PATIENCE_MS;
        let state = told.map_or(State::Unknown, while_leaving);
        let trouble = watch.trouble.clone();
        news.reports.push(Report { confirmed, trouble, ..report(workload, epoch, state) });
    }
    true
}

/// True if an order to run or to rest has come to its end.
fn is_done(state: &State, run: bool) -> bool {
    match state {
        State::Running => run,
        State::Stopped | State::Completed | State::Failed(_) => true,
        State::Pending
        | State::Restarting(_)
        | State::Paused
        | State::Unresponsive
        | State::Unknown => false,
    }
}

/// The agent still has the version before; an update that is not under way is a drift, which a list
/// tells. True if it is watched on.
fn awaits_version(agent: &mut Agent, workload: &WorkloadId, watch: &Watch, now: Millis) -> bool {
    if agent.is_coming(workload, UPDATE_GRACE_MS, now) {
        return true;
    }
    // After a refusal the next regular list is soon enough.
    agent.list.wanted |= agent.callable && !watch.refused;
    false
}

/// A status of a workload that is to be here. True if it is watched on.
fn standing(
    agent: &mut Agent,
    workload: &WorkloadId,
    here: &Here,
    watch: &mut Watch,
    (told, news, now): (Option<&Told>, &mut News, Millis),
) -> bool {
    let mut tell = |agent: &mut Agent, state: State, confirmed: bool| {
        if let Some(copy) = agent.copies.get_mut(workload) {
            copy.last = Some(state.clone());
        }
        news.reports.push(Report { confirmed, ..report(workload, here.epoch, state) });
    };
    let Some(told) = told else {
        if !here.run {
            // Nothing is there, so nothing runs.
            tell(agent, State::Stopped, true);
            return false;
        }
        if here.is_open() && now.since(watch.since) < UNLISTED_GRACE_MS {
            return true;
        }
        // A list tells whether it is missing, and what else is.
        agent.list.wanted |= agent.callable;
        return false;
    };
    if here.is_other(told) {
        if here.is_open() {
            // A stop that was refused, or accepted long ago and forgotten, is ordered again.
            let coming = !watch.refused && now.since(watch.since) < PATIENCE_MS;
            tell(agent, State::Pending, here.run || coming);
            return here.is_under_way();
        }
        return awaits_version(agent, workload, watch, now);
    }
    agent.reached(workload, told);
    if !here.run && agent.may_yet_start(workload, now) {
        tell(agent, State::Pending, true);
        return true;
    }
    let overdue = now.since(watch.since) >= PATIENCE_MS;
    match told.meaning(&here.spec, here.run) {
        Meaning::Missing => false,
        Meaning::Amiss { now: state, then } => {
            let since = *watch.amiss_since.get_or_insert(now);
            if now.since(since) < AMISS_GRACE_MS {
                // Between two steps of a start it may be stopped for a moment.
                let state = if here.is_open() && here.run { State::Pending } else { state };
                tell(agent, state, true);
                return true;
            }
            tell(agent, State::Failed(then), true);
            false
        }
        Meaning::State(state)
            if here.is_under_way()
                && agent.may_be_of_before(workload, &state)
                && now.since(watch.since) < AMISS_GRACE_MS =>
        {
            // The attempt before; the one that was ordered may not have begun.
            tell(agent, State::Pending, true);
            true
        }
        Meaning::State(state) => {
            watch.amiss_since = None;
            let done = is_done(&state, here.run);
            // A stop that was refused, or accepted long ago and not carried out, is ordered again.
            let coming = !overdue && !watch.refused;
            tell(agent, state, here.run || done || coming);
            !done && here.is_under_way()
        }
    }
}
