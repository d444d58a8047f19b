//! The machine of an agent that knows only the contract.

use persys_model::failure::{Failure, FailureReason};
use persys_model::id::WorkloadId;
use persys_model::token::Epoch;
use persys_node::effects::Verb;
use persys_node::input::Outcome as Done;

use persys_cluster::contract::Outcome;
use std::sync::Arc;

use crate::contract_agent::{Call, CallAnswer, Heard, Process, Task, Upcall};
use crate::net::Peer;
use crate::runtime::Change;
use crate::sim::{Event, Sim};
use crate::wire::{CallNumber, Life, Message};

/// The time between two heartbeats.
const BEAT_MS: u64 = 500;

impl Sim {
    pub(crate) fn start_contract_agent(&mut self, node: usize, lives: u64) {
        let Some(host) = self.hosts.get_mut(node) else { return };
        let Some(agent) = &mut host.contract else { return };
        if agent.process.is_some() || !host.power || host.lives != lives {
            return;
        }
        host.lives += 1;
        let life = Life(host.lives);
        agent.process = Some(Process::new(life));
        host.absent_until = self.now;
        self.trace.tell(self.now, || format!("n{node} contract agent starts, life {}", life.0));
        self.queue.push(self.now + 1, Event::ContractTick { node, life });
    }

    fn contract_process(&mut self, node: usize, life: Life) -> Option<&mut Process> {
        let process = self.hosts.get_mut(node)?.contract.as_mut()?.process.as_mut();
        process.filter(|process| process.life == life)
    }

    /// It repairs what is amiss, and beats.
    pub(crate) fn contract_tick(&mut self, node: usize, life: Life) {
        if self.contract_process(node, life).is_none() {
            return;
        }
        self.queue.push(self.now + BEAT_MS, Event::ContractTick { node, life });
        for (workload, task) in self.contract_look(node) {
            self.contract_task_given(node, life, workload, task);
        }
        self.contract_beats(node, life);
    }

    fn contract_look(&mut self, node: usize) -> Vec<(WorkloadId, Task)> {
        let now = self.now;
        let Some(host) = self.hosts.get_mut(node) else { return Vec::new() };
        let Some(agent) = &mut host.contract else { return Vec::new() };
        if host.runtime.answers(now) { agent.look(&host.runtime) } else { Vec::new() }
    }

    fn contract_beats(&mut self, node: usize, life: Life) {
        let now = self.now;
        let Some(host) = self.hosts.get_mut(node) else { return };
        let scheduler = host.target;
        let Some(agent) = &mut host.contract else { return };
        let statuses = agent.statuses();
        let Some(process) = &mut agent.process else { return };
        if process.call.is_some() {
            return;
        }
        process.registered &= process.lease_until >= now;
        process.next_call += 1;
        let call = CallNumber(process.next_call);
        process.call = Some(call);
        let what = if process.registered { Upcall::Heartbeat(statuses) } else { Upcall::Register };
        self.queue.push(now + self.setup.rpc_ms, Event::ContractUpTimeout { node, life, call });
        let message = Message::ContractUp { node, life, call, scheduler, what };
        self.send((Peer::Node(node), Peer::Scheduler(scheduler)), message);
    }

    /// Nobody answered it: the next call goes to another.
    pub(crate) fn contract_up_unanswered(&mut self, node: usize, life: Life, call: CallNumber) {
        self.contract_heard(node, life, call, Heard::Unavailable);
    }

    pub(crate) fn contract_heard(
        &mut self,
        node: usize,
        life: Life,
        call: CallNumber,
        heard: Heard,
    ) {
        let lease_until = self.now + self.setup.settings.lease_ms;
        let schedulers = self.schedulers.len().max(1);
        let Some(process) = self.contract_process(node, life) else { return };
        if process.call != Some(call) {
            return;
        }
        process.call = None;
        match heard {
            Heard::Registered | Heard::Acknowledged => {
                process.registered = true;
                process.lease_until = lease_until;
            }
            Heard::NotFound => {
                process.registered = false;
                self.cover.hit("contract agent: not known, registers again");
                self.contract_beats(node, life);
            }
            Heard::Refused => process.registered = false,
            Heard::Unavailable => {
                if let Some(host) = self.hosts.get_mut(node) {
                    host.target = (host.target + 1) % schedulers;
                }
            }
        }
    }

    /// A scheduler calls it.
    pub(crate) fn contract_called(
        &mut self,
        node: usize,
        (scheduler, life, call): (usize, Life, CallNumber),
        (sent, what): (u64, Call),
    ) {
        // A caller that gave up has closed the call: nobody takes it up any more.
        if self.now > sent + self.setup.rpc_ms {
            return;
        }
        self.contract_look(node);
        let full = self.chance.chance(20);
        let Some(agent) = self.hosts.get_mut(node).and_then(|host| host.contract.as_mut()) else {
            return;
        };
        let Some(own) = agent.process.as_ref().map(|process| process.life) else { return };
        let mut given = None;
        let answer = match what {
            Call::Status(workload) => CallAnswer::Status(agent.find(&workload)),
            Call::List => CallAnswer::List(agent.list()),
            Call::Apply(..) | Call::Delete(_) if full => {
                self.cover.hit("contract agent: task queue is full");
                CallAnswer::Order(Outcome::Refused(Arc::from("task queue is full")))
            }
            Call::Apply(workload, apply) => {
                given = agent.apply(&workload, &apply).map(|task| (workload, task));
                CallAnswer::Order(Outcome::Accepted)
            }
            Call::Delete(workload) => {
                let busy =
                    agent.process.as_ref().is_some_and(|process| process.is_at_work(&workload));
                if agent.has.contains_key(&workload) || busy {
                    given = Some((workload, Task::Delete));
                    CallAnswer::Order(Outcome::Accepted)
                } else {
                    CallAnswer::Order(Outcome::Refused(Arc::from("workload not found")))
                }
            }
        };
        if let Some((workload, task)) = given {
            self.contract_task_given(node, own, workload, task);
        }
        let answer = Box::new(answer);
        let message = Message::ContractAnswer { scheduler, life, call, answer };
        self.send((Peer::Node(node), Peer::Scheduler(scheduler)), message);
    }

    fn contract_task_given(&mut self, node: usize, life: Life, workload: WorkloadId, task: Task) {
        let mut takes = self.chance.between(5, 900);
        let Some(host) = self.hosts.get_mut(node) else { return };
        if host.verbs_hang_until > self.now && self.chance.chance(400) {
            takes += self.chance.between(500, 6_000);
        }
        let boot = host.boots;
        let at = host.runtime.queue(&workload, self.now, takes);
        let Some(process) = self.contract_process(node, life) else { return };
        let told = format!("n{node} task {workload}: {}", task.word());
        process.give(&workload, task);
        self.trace.tell(self.now, || told);
        self.queue.push(at, Event::ContractTask { node, life, boot, workload });
    }

    /// A task is carried out.
    pub(crate) fn contract_task(
        &mut self,
        node: usize,
        (life, boot): (Life, u64),
        workload: WorkloadId,
    ) {
        let now = self.now;
        let Some(host) = self.hosts.get_mut(node) else { return };
        if host.boots != boot || !host.power {
            return;
        }
        if !host.runtime.answers(now) {
            let at = host.runtime.out_until + 10;
            self.queue.push(at, Event::ContractTask { node, life, boot, workload });
            return;
        }
        let Some(process) = self.contract_process(node, life) else { return };
        let Some(task) = process.take(&workload) else { return };
        self.check.contract_acts();
        match task {
            Task::Become(apply) => {
                if let Some(agent) = self.hosts.get_mut(node).and_then(|h| h.contract.as_mut()) {
                    agent.becomes(&workload, &apply);
                }
                self.contract_brings(node, &workload);
            }
            Task::Repair => {
                let agent = self.hosts.get_mut(node).and_then(|host| host.contract.as_mut());
                let Some(has) = agent.and_then(|agent| agent.has.get_mut(&workload)) else {
                    return;
                };
                has.is_repaired();
                self.cover.hit("contract agent: repairs");
                self.contract_brings(node, &workload);
            }
            Task::Delete | Task::Collect => {
                let purge = matches!(task, Task::Delete);
                if purge
                    && let Some(agent) = self.hosts.get_mut(node).and_then(|h| h.contract.as_mut())
                {
                    agent.has.remove(&workload);
                }
                self.contract_verb(node, &workload, &Verb::remove(purge));
            }
        }
    }

    /// The runtime is brought to what the disk says of a workload.
    fn contract_brings(&mut self, node: usize, workload: &WorkloadId) {
        let Some(host) = self.hosts.get_mut(node) else { return };
        let Some(has) = host.contract.as_ref().and_then(|agent| agent.has.get(workload)) else {
            return;
        };
        let (revision, spec, run) = (has.revision.clone(), Arc::clone(&has.spec), has.run);
        let other = host.runtime.things.get(workload).is_some_and(|one| one.revision != revision);
        let broken = run && host.verbs_fail_until > self.now && self.chance.chance(500);
        if other {
            self.contract_verb(node, workload, &Verb::remove(false));
        }
        let done = if broken {
            let failure = Failure::new(FailureReason::RuntimeError, "this time it did not work");
            Done::Failed(failure)
        } else if run {
            let (epoch, secrets, not_after) = (Epoch(0), Arc::default(), None);
            let verb = Verb::Start { epoch, revision, spec, secrets, not_after, resume: false };
            self.contract_verb(node, workload, &verb)
        } else {
            self.contract_verb(node, workload, &Verb::STOP)
        };
        let failure = match done {
            Done::Failed(failure) => Some(failure),
            _ => None,
        };
        let agent = self.hosts.get_mut(node).and_then(|host| host.contract.as_mut());
        if let Some(has) = agent.and_then(|agent| agent.has.get_mut(workload)) {
            has.came_to(failure);
        }
    }

    fn contract_verb(&mut self, node: usize, workload: &WorkloadId, verb: &Verb) -> Done {
        let Some(host) = self.hosts.get_mut(node) else { return Done::Unknown };
        let own = host.clock.now(self.now).mono;
        let (done, change) = host.runtime.carry_out(workload, verb, own);
        let deleted = std::mem::take(&mut host.runtime.deleted);
        let id = host.id.clone();
        for key in deleted {
            self.check.data_deleted(self.now, &self.store.contents, (&id, workload), &key);
        }
        if change != Change::Nothing {
            self.changed(node, workload, change, "as the contract agent was told");
        }
        done
    }
}
