//! The calm after the faults: an operator tidies up, everything settles, and then nothing happens.

use persys_cluster::contract::has_data;
use persys_cluster::input::Ask;
use persys_cluster::world::World;
use persys_model::assignment::{Assignment, ReasonCode, UpdateState};
use persys_model::drift::DriftKind;
use persys_model::id::WorkloadId;
use persys_model::mode::Mode;
use persys_model::node::Condition;
use persys_model::phase::Phase;
use persys_model::resources::Compute;
use persys_model::workload::{Desired, Workload};
use persys_node::input::Existing;

use super::{Counts, room, shadow};
use crate::net::Peer;
use crate::runtime::{image, image_of};
use crate::setup::node_id;
use crate::sim::{Event, Sim, Stage};
use crate::users::Subject;
use crate::wire::Message;

/// How long everything may take to settle after the last fault.
const SETTLE_MS: u64 = 150_000;
/// How long what has settled is watched before the silence: counters of failures run out.
const STAY_MS: u64 = 16_000;
/// Longest time for which all attempts of something that cannot be started are waited for.
const LATE_TRIES_MS: u64 = 60_000;
/// How long nothing at all may happen.
const SILENCE_MS: u64 = 60_000;

impl Sim {
    /// Everything is mended.
    pub(crate) fn heal(&mut self) {
        let now = self.now;
        self.trace.tell(now, || "=== everything is mended".to_owned());
        self.stage = Stage::Healing { until: now + SETTLE_MS };
        self.net.mend_all(now);
        let ways: Vec<_> = self.held.iter().map(|(way, _)| *way).collect();
        self.let_go(&ways);
        self.store_faults = crate::sim::StoreFaults::default();
        for scheduler in 0..self.schedulers.len() {
            let Some(host) = self.schedulers.get_mut(scheduler) else { continue };
            host.store_cut_until = 0;
            let lives = host.lives;
            self.queue.push(now + 1, Event::SchedulerStart { scheduler, lives });
        }
        for node in 0..self.hosts.len() {
            self.power_on(node);
            let Some(host) = self.hosts.get_mut(node) else { continue };
            host.disk.full_until = 0;
            host.runtime.out_until = host.runtime.out_until.min(now);
            host.verbs_fail_until = 0;
            host.verbs_hang_until = host.verbs_hang_until.min(now);
            host.undialled_until = 0;
            let (lives, boot) = (host.lives, host.boots);
            self.queue.push(now + 500, Event::AgentStart { node, lives });
            self.queue.push(now + 400, Event::WatchdogStart { node, boot });
        }
        self.queue.push(now + 1_000, Event::Operate);
    }

    /// An operator looks once a second, and so does the judge.
    pub(crate) fn operate(&mut self) {
        let now = self.now;
        self.look_inside();
        match self.stage {
            Stage::Faults | Stage::Over => return,
            Stage::Healing { until } => {
                self.tidy_up();
                match self.unsettled() {
                    None => {
                        self.trace.tell(now, || "=== everything has settled".to_owned());
                        self.cover.hit("run: converged");
                        self.stage = Stage::Settled { until: now + STAY_MS };
                    }
                    Some(why) if now > until => self.check.violate(now, "I15", || why),
                    Some(_) => {}
                }
            }
            // When a job ends, what waited for its room is tried, and may fail for a while.
            Stage::Settled { .. } if self.job_at_work() => {
                self.stage = Stage::Settled { until: now + STAY_MS };
            }
            Stage::Settled { until } if now < until + LATE_TRIES_MS && self.is_tried_late() => {}
            Stage::Settled { until } if now >= until => {
                if let Some(why) = self.unsettled() {
                    self.check.violate(now, "I15", || format!("it did not stay settled: {why}"));
                }
                self.quiet = self.check.counts();
                self.stage = Stage::Silence { until: now + SILENCE_MS };
            }
            Stage::Settled { .. } => {}
            Stage::Silence { until } => {
                self.is_quiet();
                if now >= until {
                    self.stage = Stage::Over;
                }
            }
        }
        self.queue.push(now + 1_000, Event::Operate);
    }

    fn is_quiet(&mut self) {
        let Counts { units, commands, verbs } = self.check.counts();
        let before = self.quiet;
        if self.quiet != self.check.counts() {
            self.check.violate(self.now, "I16", || {
                format!(
                    "in the silence there were {} units, {} commands and {} verbs",
                    units - before.units,
                    commands - before.commands,
                    verbs - before.verbs
                )
            });
        }
        if let Some(why) = self.unsettled() {
            self.check.violate(self.now, "I15", || format!("it did not stay settled: {why}"));
        }
        if let Some(why) = self.seen_in_shadow() {
            self.check.violate(self.now, "I22", || why);
        }
    }

    /// What the leader holds in memory agrees with itself.
    pub(crate) fn look_inside(&mut self) {
        let worlds = self
            .schedulers
            .iter()
            .filter_map(|host| host.process.as_ref())
            .filter_map(|process| process.replica.world())
            .filter(|world| world.mode().0 == Mode::Normal);
        let wrong: Vec<String> = worlds.flat_map(World::check).collect();
        if !wrong.is_empty() {
            self.check.violate(self.now, "I6", || wrong.join("; "));
        }
    }

    fn tidy_up(&mut self) {
        let mut asks: Vec<Ask> = Vec::new();
        for (id, node) in &self.store.contents.nodes {
            if node.drain.is_some() {
                asks.push(Ask::Undrain(id.clone()));
            } else if let Some(taint) = node.taints.iter().next() {
                asks.push(Ask::Untaint(id.clone(), taint.key.clone(), None));
            }
        }
        for (id, assignment) in &self.store.contents.assignments {
            let Some(workload) = self.store.contents.workloads.get(id) else { continue };
            let failed = assignment.phase == Phase::Failed || is_update_failed(assignment);
            if failed && workload.desired.is_up() && is_sound(workload) {
                asks.push(Ask::Retry(id.clone()));
            }
        }
        let orphans: Vec<_> = self
            .store
            .contents
            .drifts
            .iter()
            .filter(|((_, _, kind), drift)| *kind == DriftKind::OrphanOnAgent && !drift.ignored)
            .map(|((node, workload, _), _)| (node.clone(), workload.clone()))
            .collect();
        for ask in asks {
            if !self.users.is_busy(&Subject::of(&ask)) {
                self.request(ask, None);
            }
        }
        for (node, workload) in orphans {
            if !self.users.is_busy(&Subject::Workload(workload.clone())) {
                self.judge_orphan(node, workload);
            }
        }
        if let Stage::Healing { until } = self.stage
            && self.now + SETTLE_MS > until + 8_000
        {
            self.recover();
        }
    }

    /// Whether a job is known to run. It ends by itself, and what waits for its room is started then:
    /// the silence begins when the last of them has had its time.
    fn job_at_work(&self) -> bool {
        let contents = &self.store.contents;
        contents.assignments.iter().any(|(id, assignment)| {
            let workload = contents.workloads.get(id);
            let job = workload.is_some_and(|workload| {
                matches!(image_of(&workload.spec), image::JOB | image::FAILS)
            });
            job && matches!(assignment.phase, Phase::Starting | Phase::Running | Phase::Restarting)
        })
    }

    /// True while something is tried that cannot be started, after the room it waited for became free: an
    /// agent of the contract takes seconds to tell of each attempt.
    fn is_tried_late(&self) -> bool {
        let contents = &self.store.contents;
        contents.assignments.iter().any(|(id, assignment)| {
            let workload = contents.workloads.get(id);
            workload.is_some_and(|workload| !is_sound(workload))
                && matches!(assignment.phase, Phase::Starting | Phase::Backoff)
        })
    }

    /// What is not yet as it should be.
    pub(crate) fn unsettled(&self) -> Option<String> {
        if !self.users.open.is_empty() {
            return Some("somebody waits for an answer".to_owned());
        }
        // Whoever gave up waiting may be heard all the same, and then what they asked for is done.
        if self.queue.planned().any(is_request) {
            return Some("a request is still on its way".to_owned());
        }
        if self.schedulers.iter().map(|host| host.paused_until).any(|until| until > self.now)
            || self.hosts.iter().any(|host| host.agent_paused_until() > self.now)
        {
            return Some("somebody stands still".to_owned());
        }
        let worlds =
            self.schedulers.iter().filter_map(|host| host.process.as_ref()?.replica.world());
        if !worlds.map(World::mode).any(|(mode, ..)| mode == Mode::Normal) {
            // Whoever leads next may find that the store lost something.
            return Some("nobody leads who knows the store".to_owned());
        }
        if self.check.recovering(&self.schedulers).is_some() {
            return Some("a scheduler waits for a word after the store lost something".to_owned());
        }
        let contents = &self.store.contents;
        for number in 0..self.hosts.len() {
            match contents.nodes.get(&node_id(number)) {
                Some(node) if node.condition == Condition::Ready && node.drain.is_none() => {}
                Some(node) => return Some(format!("n{number} is {}", node.status_word())),
                None => return Some(format!("n{number} is not known")),
            }
        }
        if let Some((node, workload)) = contents.graves.keys().next() {
            return Some(format!("{workload} has a grave on {node}"));
        }
        if let Some(why) = self.check.wishes.broken(contents) {
            return Some(why);
        }
        for id in contents.retries.keys() {
            // Failures of an update that waits for room are its own, and count when it is tried again.
            let waits = ReasonCode::UpdateWaits;
            let runs = |a: &std::sync::Arc<Assignment>| {
                a.phase == Phase::Running && a.reason.code != waits
            };
            if contents.assignments.get(id).is_some_and(runs) {
                return Some(format!("the failures of {id} are not yet forgotten"));
            }
        }
        for (id, workload) in &contents.workloads {
            let Some(assignment) = contents.assignments.get(id) else {
                return Some(format!("{id} has no assignment"));
            };
            if let Some(why) = self.unsettled_workload(workload, assignment) {
                return Some(format!("{id} {why}"));
            }
        }
        self.ghost()
    }

    fn unsettled_workload(&self, workload: &Workload, assignment: &Assignment) -> Option<String> {
        let id = &workload.id;
        if let Some(node) = assignment.former.keys().next() {
            return Some(format!("has an earlier copy on {node}"));
        }
        let runs_on = self.running_on(id);
        let phase = assignment.phase;
        match (workload.desired, phase) {
            (Desired::Running, Phase::Running) | (Desired::Paused, Phase::Paused) => {
                let place = assignment.place.as_ref();
                let home = place.map(|place| place.node.clone());
                if runs_on.len() != 1 || runs_on.first().map(|n| node_id(*n)) != home {
                    return Some(format!("is {phase:?} on {home:?}, in truth on {runs_on:?}"));
                }
                if !self.holds_decision(assignment) {
                    return Some("runs by another decision than the recorded one".to_owned());
                }
                let hidden = shadow::in_shadow(&self.store.contents, &workload.spec);
                if place.is_some_and(|place| {
                    place.generation != workload.generation || (place.shadow && !hidden)
                }) {
                    return self.room_for(workload, assignment);
                }
                if place.is_some_and(|place| place.shadow != hidden) {
                    return Some("is in shadow, and its decision is not".to_owned());
                }
                let thing =
                    runs_on.first().and_then(|node| self.hosts.get(*node)?.runtime.things.get(id));
                if thing
                    .is_some_and(|thing| thing.revision != shadow::ordered(workload, assignment))
                {
                    return Some("runs another revision".to_owned());
                }
                let wanted = match phase {
                    Phase::Paused => Existing::PAUSED,
                    _ => Existing::Running,
                };
                if let Some(thing) = thing.filter(|thing| thing.state != wanted) {
                    return Some(format!("is {phase:?}, in truth {:?}", thing.state));
                }
                if phase == Phase::Running
                    && let Some(why) = self.wrong_health(assignment)
                {
                    return Some(why);
                }
                // The revision before runs on only where the wanted one cannot.
                (is_update_failed(assignment) && is_sound(workload))
                    .then(|| "gave up an update that can be done".to_owned())
            }
            // A job, or a container that ended well by itself under a policy that lets it.
            (Desired::Running | Desired::Paused, Phase::Completed) => {
                self.unaccounted(workload, assignment)
            }
            (Desired::Running | Desired::Paused, Phase::Failed) if !is_sound(workload) => {
                self.unaccounted(workload, assignment)
            }
            (Desired::Running | Desired::Paused, Phase::Pending) => self
                .unaccounted(workload, assignment)
                .or_else(|| self.room_for(workload, assignment)),
            (Desired::Stopped, Phase::Stopped) if runs_on.is_empty() => None,
            (desired, phase) => Some(format!(
                "should be {desired:?}, is {phase:?} ({:?}), runs on {runs_on:?}",
                assignment.reason.code
            )),
        }
    }

    /// What is over, or waits, does not run. Only what is updated in place runs on in its last good version,
    /// and only when its node was told the decision that failed and says itself that it gave that up:
    /// otherwise nobody who looks at the record would know that something runs.
    fn unaccounted(&self, workload: &Workload, assignment: &Assignment) -> Option<String> {
        let runs_on = self.running_on(&workload.id);
        let home = assignment.place.as_ref()?;
        let here = self.hosts.iter().position(|host| host.id == home.node)?;
        if !runs_on.contains(&here) {
            return None;
        }
        let intent = self.hosts.get(here)?.disk.ledger.intents.get(&workload.id);
        let tried = intent.is_some_and(|intent| {
            let wanted = shadow::ordered(workload, assignment);
            let same = intent.epoch == home.epoch || intent.revision == wanted;
            same && intent.gave_up.is_some()
        });
        let room = home.reserved.compute != Compute::ZERO;
        if workload.spec.kind.updates_in_place() && tried && room {
            return None;
        }
        let (phase, code) = (assignment.phase, assignment.reason.code);
        let held = intent.map(|intent| (intent.epoch, intent.goal, intent.gave_up.is_some()));
        Some(format!("is {phase:?} ({code:?}) by {}, but n{here} runs it by {held:?}", home.epoch))
    }

    /// Whether the node of a workload has the recorded decision.
    fn holds_decision(&self, assignment: &Assignment) -> bool {
        let home = assignment.place.as_ref();
        home.is_some_and(|home| {
            let host = self.hosts.iter().find(|host| host.id == home.node);
            if host.is_some_and(|host| host.contract.is_some()) {
                // Such an agent knows no decisions. That it has the right version is looked at.
                return true;
            }
            let intent = host.and_then(|host| host.disk.ledger.intents.get(&assignment.workload));
            intent.is_some_and(|intent| intent.epoch == home.epoch)
        })
    }

    /// Waiting is right only as long as there is no room.
    fn room_for(&self, workload: &Workload, assignment: &Assignment) -> Option<String> {
        if assignment.reason.code == ReasonCode::Submitted {
            return Some("was submitted and never looked at".to_owned());
        }
        let home = room::home_for(&self.store.contents, &workload.id, &workload.spec)?;
        if self.orphan_has_volume_of(workload) {
            // It can only be where the orphan is, and how much room there is beside that is not told.
            return None;
        }
        let why = &assignment.reason.message;
        Some(format!("waits ({:?}: {why}), but {home} has room", assignment.reason.code))
    }

    /// Whether what nobody knows has a volume of this workload that one node at a time may have.
    fn orphan_has_volume_of(&self, workload: &Workload) -> bool {
        let singles = super::volumes::singles(&workload.spec);
        self.hosts.iter().any(|host| {
            let intents = host.disk.ledger.intents.iter();
            let mut orphans = intents.filter(|(id, _)| {
                let key = (host.id.clone(), (*id).clone(), DriftKind::OrphanOnAgent);
                **id != workload.id && self.store.contents.drifts.contains_key(&key)
            });
            orphans.any(|(_, intent)| {
                let spec = intent.spec.as_deref();
                spec.is_some_and(|spec| !super::volumes::singles(spec).is_disjoint(&singles))
            })
        })
    }

    fn running_on(&self, id: &WorkloadId) -> Vec<usize> {
        let runs = |host: &crate::host::Host| {
            host.runtime.things.get(id).is_some_and(crate::runtime::Thing::runs)
        };
        self.hosts.iter().enumerate().filter(|(_, host)| runs(host)).map(|(at, _)| at).collect()
    }

    /// Something that exists and that nobody knows.
    fn ghost(&self) -> Option<String> {
        let contents = &self.store.contents;
        for (number, host) in self.hosts.iter().enumerate() {
            for (id, thing) in &host.runtime.things {
                let placed = contents
                    .assignments
                    .get(id)
                    .and_then(|assignment| assignment.place.as_ref())
                    .is_some_and(|place| place.node == host.id);
                let orphan = (host.id.clone(), id.clone(), DriftKind::OrphanOnAgent);
                // On a contract agent that is how data outlives a move: the copy rests where it was.
                let kept = host.contract.is_some()
                    && !thing.runs()
                    && has_data(&thing.spec)
                    && contents.assignments.contains_key(id);
                if !placed && !kept && !contents.drifts.contains_key(&orphan) {
                    return Some(format!("{id} exists on n{number} and nobody knows (I2)"));
                }
            }
        }
        None
    }

    /// A node was declared lost: then at least one way to it was bad, or its agent was away, when that was
    /// decided. It may have been on its way to the store since `given`.
    pub(crate) fn judge_losses(&mut self, given: u64) {
        for (scheduler, id) in self.check.take_lost() {
            let Some(number) = self.hosts.iter().position(|host| host.id == id) else { continue };
            let Some(host) = self.hosts.get(number) else { continue };
            let window = self.setup.settings.failover_grace_ms;
            let since = given.saturating_sub(window);
            let (node, leader) = (Peer::Node(number), Peer::Scheduler(scheduler));
            let probed = self.net.was_good_since((leader, node), since)
                && self.net.was_good_since((node, leader), since)
                && host.was_present_since(since, self.now);
            let stood = self.schedulers.get(scheduler).is_none_or(|host| host.paused_at >= since);
            if probed && !stood {
                self.check.violate(self.now, "false failover", || {
                    format!("{id} was declared lost, but a probe would have reached it")
                });
            }
        }
    }
}

/// Whether somebody's request is about to arrive.
fn is_request(event: &Event) -> bool {
    matches!(event, Event::Deliver(message) if matches!(**message, Message::Ask { .. }))
}

/// Whether it can run at all where there is room.
fn is_update_failed(assignment: &Assignment) -> bool {
    let update = assignment.update.as_ref();
    update.is_some_and(|update| update.state() == UpdateState::UpdateFailed)
}

fn is_sound(workload: &Workload) -> bool {
    !matches!(image_of(&workload.spec), image::MISSING | image::BROKEN | image::FAILS)
}
