//! Runtime, watchdog, power.

use persys_model::failure::FailureReason;
use persys_model::id::WorkloadId;
use persys_model::zoo::Bug;
use persys_node::effects::{Run, Verb};
use persys_node::fence::{Watchdog, WatchdogInput};
use persys_node::input::{Existing, Input, Outcome, VerbId};

use crate::host::WatchdogProcess;
use crate::runtime::{Change, failed, image, image_of};
use crate::sim::{Event, Sim};
use crate::wire::Life;

/// How long an agent's shell waits for its runtime.
const VERB_PATIENCE_MS: u64 = 2_000;
/// How often a watchdog looks while something exclusive runs.
const WATCH_MS: u64 = 200;

impl Sim {
    /// An agent gives its runtime a verb.
    pub(super) fn verb_given(&mut self, node: usize, life: Life, run: Run) {
        self.trace.tell(self.now, || crate::tell::verb(node, &run));
        let Some(host) = self.hosts.get_mut(node) else { return };
        self.check.verb(self.now, node, host, &run);
        let boot = host.boots;
        let Some(process) = host.agent_of(life) else { return };
        process.verbs.insert(run.id);
        let unknown = Event::VerbDone {
            node,
            life,
            verb: run.id,
            workload: run.workload.clone(),
            outcome: Outcome::Unknown,
        };
        self.queue.push(self.now + VERB_PATIENCE_MS, unknown);

        let starts = matches!(run.verb, Verb::Start { .. });
        let mut takes = self.chance.between(5, if starts { 400 } else { 150 });
        if !host.runtime.answers(self.now) {
            // A dead daemon never hears of it; one that hangs carries it out in the end.
            if self.chance.chance(500) {
                return;
            }
            takes += host.runtime.out_until - self.now;
        } else if host.verbs_hang_until > self.now && self.chance.chance(400) {
            if self.chance.chance(300) {
                return;
            }
            takes += self.chance.between(500, 6_000);
        }
        let broken = starts && host.verbs_fail_until > self.now && self.chance.chance(500);
        let at = host.runtime.queue(&run.workload, self.now, takes);
        let run = Box::new(run);
        self.queue.push(at, Event::VerbCarried { node, boot, life, run, broken });
    }

    /// The runtime does what it was told, whether or not anybody still waits for it.
    pub(crate) fn verb_carried(
        &mut self,
        node: usize,
        boot: u64,
        life: Life,
        run: Box<Run>,
        broken: bool,
    ) {
        let Some(host) = self.hosts.get_mut(node) else { return };
        if host.boots != boot || !host.power {
            return;
        }
        if !host.runtime.answers(self.now) {
            if self.chance.chance(500) {
                let at = host.runtime.out_until + 10;
                self.queue.push(at, Event::VerbCarried { node, boot, life, run, broken });
            }
            return;
        }
        let (outcome, change) = if broken {
            let reasons = [
                FailureReason::ImagePullFailed,
                FailureReason::RuntimeError,
                FailureReason::NetworkError,
                FailureReason::InsufficientResources,
            ];
            let reason = *self.chance.pick(&reasons).unwrap_or(&FailureReason::RuntimeError);
            self.cover.hit("runtime: verb failed");
            (failed(reason, "this time it did not work"), Change::Nothing)
        } else {
            host.runtime.carry_out(&run.workload, &run.verb, host.clock.now(self.now).mono)
        };
        if change == Change::Nothing
            && matches!(run.verb, Verb::Start { not_after: Some(limit), .. }
                if host.clock.now(self.now).mono > limit)
        {
            self.cover.hit("agent: start came too late");
        }
        let deleted = std::mem::take(&mut host.runtime.deleted);
        let id = host.id.clone();
        for key in deleted {
            self.cover.hit("runtime: data of a volume deleted");
            self.check.data_deleted(self.now, &self.store.contents, (&id, &run.workload), &key);
        }
        if matches!(change, Change::Started | Change::Replaced) {
            self.check.program_started(self.now, host, &run);
        }
        self.changed(node, &run.workload, change, "as told");
        let Run { id, workload, .. } = *run;
        self.queue.push(self.now + 1, Event::VerbDone { node, life, verb: id, workload, outcome });
    }

    /// The agent hears how a verb went, once.
    pub(crate) fn verb_done(
        &mut self,
        node: usize,
        life: Life,
        verb: VerbId,
        workload: WorkloadId,
        outcome: Outcome,
    ) {
        let Some(host) = self.hosts.get_mut(node) else { return };
        let Some(process) = host.agent_of(life) else { return };
        if process.verbs.remove(&verb) {
            if outcome == Outcome::Unknown {
                self.cover.hit("runtime: verb of unknown outcome");
            }
            self.agent_input(node, Input::Done { verb, workload, outcome });
        }
    }

    /// Something began or ended to run: the witness takes note.
    pub(crate) fn changed(&mut self, node: usize, id: &WorkloadId, change: Change, why: &str) {
        if change == Change::Nothing {
            return;
        }
        self.trace.tell(self.now, || format!("n{node} {id}: {change:?} ({why})"));
        self.check.one_node_has(self.now, node, id, &self.hosts);
        self.hint(node, id);
        let two = self.check.ran(self.now, node, id, change, self.hosts.get(node));
        if two {
            self.cover.hit("run: two copies of default work at once");
        }
        let Some(host) = self.hosts.get(node) else { return };
        let Some(thing) = host.runtime.things.get(id).filter(|thing| thing.runs()) else { return };
        let (boot, starts) = (host.boots, thing.starts);
        if matches!(image_of(&thing.spec), image::JOB | image::FAILS) {
            let at = self.now + self.chance.between(1_000, 6_000);
            self.queue.push(at, Event::Exit { node, boot, workload: id.clone(), starts });
        }
        if thing.is_exclusive() {
            self.arm_watchdog(node);
        }
    }

    /// The runtime says that something changed, before or after the verb that did it is known to have
    /// ended, or forgets to. Only in some histories: agents must do without hints too.
    pub(crate) fn hint(&mut self, node: usize, id: &WorkloadId) {
        let told = self.setup.hints() && !self.now.is_multiple_of(7);
        if told && self.hosts.get(node).is_some_and(|host| host.runtime.answers(self.now)) {
            let soon = if self.now.is_multiple_of(2) { 1 } else { 25 };
            self.queue.push(self.now + soon, Event::Stirred { node, workload: id.clone() });
        }
    }

    /// A job has done its work, or failed at it.
    pub(crate) fn job_ended(&mut self, node: usize, boot: u64, id: &WorkloadId, starts: u64) {
        let Some(host) = self.hosts.get_mut(node) else { return };
        let Some(thing) = host.runtime.things.get(id) else { return };
        let code = i32::from(image_of(&thing.spec) == image::FAILS);
        let same = thing.starts == starts;
        if same && thing.runs() && thing.state != Existing::Running {
            // It does nothing for as long as it stands still.
            let exit = Event::Exit { node, boot, workload: id.clone(), starts };
            self.queue.push(self.now + 3_000, exit);
            return;
        }
        if host.boots == boot && same && host.runtime.stop(id, code) {
            let why = if code == 0 { "its work is done" } else { "it failed" };
            self.changed(node, id, Change::Ended, why);
        }
    }

    /// A watchdog begins to look.
    pub(crate) fn start_watchdog(&mut self, node: usize, boot: u64) {
        let zoo = self.setup.zoo;
        let Some(host) = self.hosts.get_mut(node) else { return };
        if host.watchdog.is_some() || !host.power || host.boots != boot {
            return;
        }
        if zoo.has(Bug::FenceDiesWithAgent) && host.agent.is_none() && host.lives > 0 {
            // It waits for the agent it lives in.
            self.queue.push(self.now + 100, Event::WatchdogStart { node, boot });
            return;
        }
        host.watchdog_lives += 1;
        let life = Life(host.watchdog_lives);
        host.watchdog = Some(WatchdogProcess { watchdog: Watchdog::new(zoo), life, wake: None });
        self.arm_watchdog(node);
    }

    fn arm_watchdog(&mut self, node: usize) {
        let Some(host) = self.hosts.get_mut(node) else { return };
        let Some(process) = &mut host.watchdog else { return };
        if process.wake.is_none() {
            let life = process.life;
            let at = self.now + WATCH_MS;
            process.wake = Some(at);
            self.queue.push(at, Event::WatchdogTick { node, life });
        }
    }

    /// A watchdog looks at the lease file and at what runs.
    pub(crate) fn watchdog_tick(&mut self, node: usize, life: Life) {
        let Some(host) = self.hosts.get_mut(node) else { return };
        let now = host.clock.now(self.now);
        let fence_at = host.fence_file;
        let exclusive: Vec<WorkloadId> = host
            .runtime
            .running()
            .filter(|(_, thing)| thing.is_exclusive())
            .map(|(id, _)| id.clone())
            .collect();
        let busy = !exclusive.is_empty();
        let boot = host.boots;
        let Some(process) = host.watchdog.as_mut().filter(|process| process.life == life) else {
            return;
        };
        process.wake = None;
        process.watchdog.step(WatchdogInput::Lease { fence_at }, now);
        let stops = process.watchdog.step(WatchdogInput::Seen(exclusive), now);
        for workload in stops {
            let at = self.now + self.chance.between(5, 150);
            self.queue.push(at, Event::WatchdogStop { node, boot, workload });
        }
        if busy {
            self.arm_watchdog(node);
        }
    }

    /// The watchdog's own way to end something: it does not need the runtime's daemon.
    pub(crate) fn watchdog_stop(&mut self, node: usize, boot: u64, id: &WorkloadId) {
        let Some(host) = self.hosts.get_mut(node) else { return };
        if host.boots == boot && host.runtime.stop(id, 137) {
            self.cover.hit("watchdog: stopped exclusive work");
            self.changed(node, id, Change::Ended, "fenced by the watchdog");
        }
    }

    /// A machine loses its power.
    pub(crate) fn power_off(&mut self, node: usize) {
        self.crash_agent(node);
        let Some(host) = self.hosts.get_mut(node) else { return };
        host.power = false;
        host.watchdog = None;
        host.fence_file = None;
        self.trace.tell(self.now, || format!("n{node} loses its power"));
        for workload in host.runtime.power_cut() {
            self.changed(node, &workload, Change::Ended, "power cut");
        }
    }

    /// A machine comes up again: nothing runs on it, all that was made is still there.
    pub(crate) fn power_on(&mut self, node: usize) {
        let start = self.timing.below(5_000);
        let Some(host) = self.hosts.get_mut(node) else { return };
        if host.power {
            return;
        }
        host.power = true;
        host.vouched_gone = false;
        host.boots += 1;
        host.clock.reboot(self.now, start);
        let (boot, lives) = (host.boots, host.lives);
        self.trace.tell(self.now, || format!("n{node} has power again"));
        let agent_after = self.timing.between(50, 400);
        self.queue.push(self.now + agent_after, Event::AgentStart { node, lives });
        let watchdog_after = self.timing.between(20, 100);
        self.queue.push(self.now + watchdog_after, Event::WatchdogStart { node, boot });
    }
}
