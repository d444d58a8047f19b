//! What agents obey, and what they do to their runtimes.

use std::collections::{BTreeMap, BTreeSet};

use persys_model::command::{Answer, Command, Order};
use persys_model::id::{NodeId, RevisionId, WorkloadId};
use persys_model::inventory::{Report, State};
use persys_model::link::Beat;
use persys_model::token::Epoch;
use persys_node::effects::{Run, Upward, Verb};
use persys_node::input::Existing;
use persys_node::ledger::{Goal, Intent};

use super::Check;
use crate::host::{Asked, Host};
use crate::runtime::Change;
use crate::runtime::{Runtime, Thing};
use crate::setup::node_id;

/// How late what an agent saw before an outage may still be told.
const LATE_LOOK_MS: u64 = 2_000;

/// What is known of one agent from outside.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// The newest decision it took, and the newest it started.
    taken: BTreeMap<WorkloadId, Epoch>,
    started: BTreeMap<WorkloadId, Epoch>,
    /// What it was told in this life.
    named: BTreeSet<(WorkloadId, Epoch)>,
    /// What it was ever told: to run this revision, or (`None`) to end it.
    told: BTreeMap<(WorkloadId, Epoch), Option<RevisionId>>,
    /// The newest decision it proved to have removed.
    said_removed: BTreeMap<WorkloadId, Epoch>,
    /// What it ever said: this runs, this is complete.
    said_running: BTreeSet<(WorkloadId, Epoch)>,
    said_complete: BTreeSet<(WorkloadId, Epoch)>,
    /// Decisions that it said to have failed while another revision runs on.
    said_kept: BTreeSet<(WorkloadId, Epoch)>,
    /// What it said last to be running.
    says_running: BTreeMap<WorkloadId, Epoch>,
}

impl Check {
    pub(crate) fn agent_started(&mut self, node: usize) {
        if let Some(watched) = self.watched.get_mut(node) {
            watched.named.clear();
        }
    }

    /// A command arrives at an agent.
    pub(crate) fn named(&mut self, node: usize, command: &Command) {
        let Some(watched) = self.watched.get_mut(node) else { return };
        let key = (command.workload.clone(), command.epoch);
        let revision = match &command.order {
            Order::Apply(apply) => {
                watched.named.insert(key.clone());
                apply.run.then(|| apply.revision.clone())
            }
            Order::Remove { .. } => None,
        };
        watched.told.insert(key, revision);
    }

    /// The newest decision an agent took about a workload.
    pub(crate) fn newest_taken(&self, node: usize, workload: &WorkloadId) -> Option<Epoch> {
        self.watched.get(node)?.taken.get(workload).copied()
    }

    /// An agent answers a command.
    pub(crate) fn obeyed(&mut self, now: u64, node: usize, asked: &Asked, answer: &Answer) {
        let Asked { command, standing, .. } = asked;
        let taken = match answer {
            Answer::Accepted => true,
            Answer::Removed { .. } => false,
            Answer::Refused(_) => return,
        };
        if let Answer::Removed { epoch } = answer {
            self.proved(node, &command.workload, *epoch);
        }
        let (workload, epoch) = (&command.workload, command.epoch);
        if command.term < standing.term {
            self.violate(now, "I19", || {
                format!("n{node} obeyed term {} after {}", command.term, standing.term)
            });
        }
        if standing.session != Some(command.session) {
            self.violate(now, "I19", || {
                format!("n{node} obeyed session {} in {:?}", command.session, standing.session)
            });
        }
        if taken && standing.epoch.is_some_and(|newest| newest > epoch) {
            self.violate(now, "I19", || {
                format!("n{node} obeyed {epoch} about {workload} after {:?}", standing.epoch)
            });
        }
        if let Some(watched) = self.watched.get_mut(node) {
            let newest = watched.taken.entry(workload.clone()).or_insert(epoch);
            *newest = epoch.max(*newest);
        }
    }

    /// An agent says something to its scheduler.
    pub(crate) fn agent_said(&mut self, now: u64, node: usize, runtime: &Runtime, what: &Upward) {
        let Some(watched) = self.watched.get_mut(node) else { return };
        // An agent that cannot look has nothing new to tell. What it saw just before may be late.
        let blind = !runtime.answers(now) && now.saturating_sub(runtime.out_since) > LATE_LOOK_MS;
        let mut wrong = None;
        let mut keep = |report: &Report| {
            let key = (report.workload.clone(), report.epoch);
            let before = watched.says_running.get(&report.workload) == Some(&report.epoch);
            let gone = matches!(report.state, State::Restarting(_) | State::Pending);
            let truth = runtime.things.get(&report.workload).is_some_and(Thing::runs);
            if blind && before && gone && truth {
                wrong = Some(report.workload.clone());
            }
            if report.state == State::Running {
                watched.says_running.insert(report.workload.clone(), report.epoch);
            } else {
                watched.says_running.remove(&report.workload);
            }
            match report.state {
                State::Running => watched.said_running.insert(key),
                State::Completed => watched.said_complete.insert(key),
                State::Failed(_) if report.runs.is_some() => watched.said_kept.insert(key),
                _ => false,
            };
        };
        let (removed, inventory) = match what {
            Upward::Register(registration) => (&[][..], Some(&registration.inventory)),
            Upward::Beat(beat) => {
                beat.reports.iter().for_each(&mut keep);
                (&beat.removed[..], beat.inventory.as_ref())
            }
        };
        for held in inventory.into_iter().flat_map(|inventory| &inventory.held) {
            keep(&held.report);
        }
        if let Some(workload) = wrong {
            self.violate(now, "outage", || {
                format!("n{node} says that {workload} ended, but its runtime said nothing")
            });
        }
        let listed = inventory.into_iter().flat_map(|inventory| &inventory.tombstones);
        for tombstone in removed.iter().chain(listed) {
            self.proved(node, &tombstone.workload, tombstone.epoch);
        }
    }

    /// A beat was made of what a contract agent said. It is not compared with the runtime: such an agent
    /// says what it last saw, whenever that was.
    pub(crate) fn contract_said(&mut self, beat: &Beat) {
        let number = (0..self.watched.len()).find(|number| node_id(*number) == beat.node);
        let Some(number) = number else { return };
        let inventory = beat.inventory.iter().flat_map(|inventory| &inventory.held);
        let reports = beat.reports.iter().chain(inventory.map(|held| &held.report));
        if let Some(watched) = self.watched.get_mut(number) {
            for report in reports {
                let key = (report.workload.clone(), report.epoch);
                match report.state {
                    State::Running => watched.said_running.insert(key),
                    State::Completed => watched.said_complete.insert(key),
                    State::Failed(_) if report.runs.is_some() => watched.said_kept.insert(key),
                    _ => false,
                };
            }
        }
        for tombstone in &beat.removed {
            self.proved(number, &tombstone.workload, tombstone.epoch);
        }
    }

    /// The answer to an order says that a contract agent has the workload no more.
    pub(crate) fn contract_removed(&mut self, node: &NodeId, id: &WorkloadId, epoch: Epoch) {
        let number = (0..self.watched.len()).find(|number| node_id(*number) == *node);
        if let Some(number) = number {
            self.proved(number, id, epoch);
        }
    }

    /// A contract agent does something to its runtime.
    pub(crate) fn contract_acts(&mut self) {
        self.counts.verbs += 1;
    }

    fn proved(&mut self, node: usize, workload: &WorkloadId, epoch: Epoch) {
        if let Some(watched) = self.watched.get_mut(node) {
            let newest = watched.said_removed.entry(workload.clone()).or_insert(epoch);
            *newest = epoch.max(*newest);
        }
    }

    /// Whether this node ever proved that it removed all copies up to this decision.
    pub(super) fn said_removed(&self, node: &NodeId, id: &WorkloadId, epoch: Epoch) -> bool {
        self.watched
            .iter()
            .enumerate()
            .filter(|(number, _)| node_id(*number) == *node)
            .any(|(_, watched)| watched.said_removed.get(id).is_some_and(|up_to| *up_to >= epoch))
    }

    /// True if an agent of this node took this decision or a later one.
    pub(super) fn ever_took(&self, node: &NodeId, id: &WorkloadId, epoch: Epoch) -> bool {
        self.watched
            .iter()
            .enumerate()
            .filter(|(number, _)| node_id(*number) == *node)
            .any(|(_, watched)| watched.taken.get(id).is_some_and(|taken| *taken >= epoch))
    }

    /// Whether this node ever said that it runs this decision.
    pub(super) fn said_running(&self, node: usize, id: &WorkloadId, epoch: Epoch) -> bool {
        let key = (id.clone(), epoch);
        self.watched.get(node).is_some_and(|watched| watched.said_running.contains(&key))
    }

    /// True if this node said of an earlier decision that it failed and left what ran before alone.
    pub(super) fn said_kept(&self, node: usize, id: &WorkloadId, before: Epoch) -> bool {
        let earlier = (id.clone(), Epoch(0))..(id.clone(), before);
        self.watched.get(node).is_some_and(|one| one.said_kept.range(earlier).next().is_some())
    }

    /// Whether this node ever said that this decision is complete.
    pub(super) fn said_complete(&self, node: usize, id: &WorkloadId, epoch: Epoch) -> bool {
        let key = (id.clone(), epoch);
        self.watched.get(node).is_some_and(|watched| watched.said_complete.contains(&key))
    }

    /// An agent gives its runtime a verb: the reason for it is on disk.
    pub(crate) fn verb(&mut self, now: u64, node: usize, host: &Host, run: &Run) {
        self.counts.verbs += 1;
        self.start_given(now, run);
        let id = &run.workload;
        let intent = host.disk.ledger.intents.get(id);
        match &run.verb {
            Verb::Start { epoch, .. } => {
                let written = intent.is_some_and(|intent| {
                    intent.epoch == *epoch && matches!(intent.goal, Goal::Run | Goal::Pause)
                });
                if !written {
                    self.violate(now, "intent before effect", || {
                        format!("n{node} starts {id} at {epoch}, on disk is {intent:?}")
                    });
                }
                self.started(now, node, id, *epoch);
            }
            Verb::Prepare { .. } => {}
            Verb::Refresh { changed, .. } => {
                if intent.is_none_or(|intent| intent.untold != *changed) {
                    self.violate(now, "intent before effect", || {
                        format!("n{node} signals {id}, on disk is {intent:?}")
                    });
                }
            }
            Verb::Pause => {
                if intent.is_none_or(|intent| intent.goal != Goal::Pause) {
                    self.violate(now, "intent before effect", || {
                        format!("n{node} pauses {id}, on disk is {intent:?}")
                    });
                }
            }
            Verb::Stop { .. } | Verb::Remove { .. } => {
                let Some(thing) = host.runtime.things.get(id).filter(|thing| thing.runs()) else {
                    return;
                };
                let (Verb::Stop { within_ms } | Verb::Remove { within_ms, .. }) = &run.verb else {
                    return;
                };
                let exclusive = thing.is_exclusive() || intent.is_some_and(wants_exclusive);
                self.is_asked(now, (node, host, id), exclusive, *within_ms);
                let stuck = matches!(thing.state, Existing::Stuck { .. });
                if (thing.is_exclusive() || stuck) && matches!(run.verb, Verb::Stop { .. }) {
                    return;
                }
                let buried = host.disk.ledger.tombstones.get(id);
                let ordered = match intent {
                    Some(intent) => {
                        !matches!(intent.goal, Goal::Run | Goal::Pause)
                            || intent.revision != thing.revision
                    }
                    None => buried.is_some_and(|buried| buried.epoch >= thing.epoch),
                };
                let told = intent.is_none_or(|intent| {
                    let key = (id.clone(), intent.epoch);
                    let order = self.watched.get(node).and_then(|watched| watched.told.get(&key));
                    order.is_some_and(|run| run.as_ref() != Some(&thing.revision))
                });
                if !ordered || !told {
                    self.violate(now, "I14", || {
                        format!("n{node} ends {id}, which nobody ordered; on disk is {intent:?}")
                    });
                }
            }
        }
    }

    /// What runs has all its grace, unless its node is fenced.
    fn is_asked(
        &mut self,
        now: u64,
        (node, host, id): (usize, &Host, &WorkloadId),
        exclusive: bool,
        within_ms: Option<u64>,
    ) {
        let own = host.clock.now(now).mono;
        let fenced = exclusive && host.fence_file.is_none_or(|at| own >= at);
        if within_ms.is_some() && !fenced {
            self.violate(now, "asked before it is ended", || {
                format!("n{node} gives {id} {within_ms:?} ms of its grace, and is not fenced")
            });
        }
    }

    fn started(&mut self, now: u64, node: usize, id: &WorkloadId, epoch: Epoch) {
        let Some(watched) = self.watched.get_mut(node) else { return };
        let named = watched.named.contains(&(id.clone(), epoch));
        let newest = watched.started.entry(id.clone()).or_insert(epoch);
        let before = *newest;
        *newest = epoch.max(before);
        if before > epoch {
            self.violate(now, "I4", || format!("n{node} starts {id} at {epoch} after {before}"));
        }
        if !named {
            self.violate(now, "verdict before act", || {
                format!("n{node} starts {id} at {epoch}, which nobody named in this life")
            });
        }
    }

    /// Something began or ended to run. Says whether two copies of default work run now.
    pub(crate) fn ran(
        &mut self,
        now: u64,
        node: usize,
        id: &WorkloadId,
        change: Change,
        host: Option<&Host>,
    ) -> bool {
        let nodes = self.running.entry(id.clone()).or_default();
        match change {
            Change::Nothing => {}
            Change::Started | Change::Replaced => {
                self.wishes.started(id, now);
                nodes.insert(node);
            }
            Change::Ended => {
                nodes.remove(&node);
            }
        }
        if nodes.len() < 2 || change == Change::Ended {
            return false;
        }
        let nodes = nodes.clone();
        let exclusive =
            host.and_then(|host| host.runtime.things.get(id)).is_some_and(Thing::is_exclusive);
        if exclusive {
            self.violate(now, "I3", || format!("exclusive {id} runs on {nodes:?} at once"));
        }
        !exclusive
    }
}

/// Whether the decision is about work of which there must never be two copies.
fn wants_exclusive(intent: &Intent) -> bool {
    let class = intent.spec.as_ref().map(|spec| spec.placement.class);
    class == Some(persys_model::spec::Class::Exclusive)
}
