//! The scheduler process and its messages.

use persys_cluster::effects::Outbound;
use persys_cluster::input::{Ask, Input, Probe, RequestId, Undelivered};
use persys_cluster::replica::{Replica, ReplicaEffects, ReplicaInput};
use persys_model::command::{Answer, Command, Refusal};
use persys_model::id::{NodeId, WorkloadId};
use persys_model::link::{BeatAnswer, Registration, RegistrationAnswer};
use persys_model::time::Millis;
use persys_model::token::{Epoch, Session};
use persys_node::effects::Upward;
use std::sync::Arc;

use crate::contract_agent::Heard;
use crate::net::Peer;
use crate::scheduler::{Caller, Process, candidate};
use crate::sim::{Event, Sim};
use crate::wire::{CallNumber, Life, Message, Told, UpAnswer};
use persys_model::event::Author;

impl Sim {
    /// A scheduler process begins; `lives` says after which life it was planned.
    pub(crate) fn start_scheduler(&mut self, scheduler: usize, lives: u64) {
        let Some(host) = self.schedulers.get_mut(scheduler) else { return };
        if host.process.is_some() || host.lives != lives {
            return;
        }
        host.lives += 1;
        let life = Life(host.lives);
        let name = candidate(scheduler, life);
        let fresh = Arc::from(format!("cluster-of-{name}"));
        let now = host.clock.now(self.now);
        self.trace.tell(self.now, || format!("{name} starts"));
        let settings = self.setup.settings.clone();
        let poll_ms = settings.status_poll_ms;
        let replica = Replica::start(name, fresh, host.high.clone(), settings, now);
        host.process = Some(Process::new(replica, life, poll_ms));
        self.check.scheduler_started(scheduler, life);
        self.scheduler_input(scheduler, ReplicaInput::Tick);
    }

    /// A scheduler process ends without a word.
    pub(crate) fn crash_scheduler(&mut self, scheduler: usize) {
        if let Some(host) = self.schedulers.get_mut(scheduler) {
            host.process = None;
            host.paused_until = 0;
            self.trace.tell(self.now, || format!("s{scheduler} dies"));
        }
    }

    /// It is time for a scheduler to look.
    pub(crate) fn scheduler_tick(&mut self, scheduler: usize, life: Life) {
        let now = self.now;
        let Some(host) = self.schedulers.get_mut(scheduler) else { return };
        let Some(process) = host.process_of(life) else { return };
        if process.wake.is_some_and(|wake| wake <= now) {
            process.wake = None;
            self.scheduler_input(scheduler, ReplicaInput::Tick);
        }
    }

    /// Something happens to a scheduler process.
    pub(crate) fn scheduler_input(&mut self, scheduler: usize, input: ReplicaInput) {
        let Some(host) = self.schedulers.get_mut(scheduler) else { return };
        let now = host.clock.now(self.now);
        let Some(process) = &mut host.process else { return };
        let effects = process.replica.step(input, now);
        if process.replica.world().is_none() {
            // Another process may speak with the contract agents now.
            process.contract.forget_all();
        }
        self.scheduler_effects(scheduler, effects);
    }

    fn scheduler_effects(&mut self, scheduler: usize, effects: ReplicaEffects) {
        self.cover.mark(effects.marks);
        let Some(host) = self.schedulers.get_mut(scheduler) else { return };
        let Some(process) = &mut host.process else { return };
        let life = process.life;
        if let Some(wake_at) = effects.wake_at {
            let at = host.clock.when(wake_at).max(self.now + 1);
            if process.wake != Some(at) {
                process.wake = Some(at);
                self.queue.push(at, Event::SchedulerTick { scheduler, life });
            }
        } else {
            process.wake = None;
        }
        if let Some(high) = effects.remember {
            let at = (self.now + self.timing.below(500)).max(host.high_written_at);
            host.high_written_at = at;
            self.queue.push(at, Event::Remember { scheduler, high });
        }
        for (id, call) in effects.calls {
            self.store_call(scheduler, life, id, call);
        }
        for request in effects.not_leader {
            match self.caller(scheduler, request) {
                Some(Caller::Agent { node, life, call }) => {
                    self.answer_agent(scheduler, (node, life, call), UpAnswer::NotLeader);
                }
                Some(Caller::User { op }) => self.answer_user(scheduler, op, None),
                Some(Caller::ContractAgent { node, life, call }) => {
                    self.answer_contract(scheduler, (node, life, call), Heard::Unavailable);
                }
                Some(Caller::ContractNews { node }) => self.contract_not_led(scheduler, &node),
                Some(Caller::Impostor) | None => {}
            }
        }
        for message in effects.out {
            self.scheduler_says(scheduler, life, message);
        }
    }

    fn scheduler_says(&mut self, scheduler: usize, life: Life, message: Outbound) {
        match message {
            Outbound::Command(node, command) => self.command(scheduler, life, &node, command),
            Outbound::Actions { workload, epoch, .. } => {
                let at = self.now + self.setup.rpc_ms.min(200);
                self.queue.push(at, Event::Actions { scheduler, life, workload, epoch });
            }
            Outbound::Probe(node, session, asked) => {
                self.probe((scheduler, life), node, session, asked);
            }
            Outbound::Registered(request, answer) => {
                self.registration_answered(scheduler, request, answer);
            }
            Outbound::Beat(request, answer) => {
                self.beat_answered((scheduler, life), request, answer);
            }
            Outbound::Reply(request, reply) => {
                if let Some(Caller::User { op }) = self.caller(scheduler, request) {
                    self.check.user_told(self.now, &self.users, op, &reply, &self.store.contents);
                    self.answer_user(scheduler, op, Some(reply));
                }
            }
            Outbound::Publish(_) | Outbound::Entries(_) => {}
        }
    }

    fn registration_answered(
        &mut self,
        scheduler: usize,
        request: RequestId,
        answer: RegistrationAnswer,
    ) {
        match self.caller(scheduler, request) {
            Some(Caller::Agent { node, life, call }) => {
                self.check.registered(self.now, node, &answer, &self.store.contents);
                let answer = UpAnswer::Registered(answer);
                self.answer_agent(scheduler, (node, life, call), answer);
            }
            Some(Caller::ContractAgent { node, life, call }) => {
                self.check.registered(self.now, node, &answer, &self.store.contents);
                self.contract_registered(scheduler, (node, life, call), &answer);
            }
            _ => {}
        }
    }

    fn beat_answered(
        &mut self,
        (scheduler, life): (usize, Life),
        request: RequestId,
        answer: BeatAnswer,
    ) {
        match self.caller(scheduler, request) {
            Some(Caller::Agent { node, life: agent, call }) => {
                let id = crate::setup::node_id(node);
                for command in crate::wire::removals(&answer) {
                    self.cover.hit("scheduler: removal by the answer to a beat");
                    let awake = self.schedulers.get(scheduler).map_or(0, |host| host.paused_at);
                    self.check.commanded(self.now, (scheduler, life, awake), &id, &command);
                }
                self.answer_agent(scheduler, (node, agent, call), UpAnswer::Heard(answer));
            }
            Some(Caller::ContractAgent { node, life: agent, call }) => {
                let id = crate::setup::node_id(node);
                let heard = self.contract_beat_answered(scheduler, &id, &answer);
                self.answer_contract(scheduler, (node, agent, call), heard);
            }
            Some(Caller::ContractNews { node }) => {
                self.contract_beat_answered(scheduler, &node, &answer);
            }
            _ => {}
        }
    }

    fn caller(&mut self, scheduler: usize, request: RequestId) -> Option<Caller> {
        let process = self.schedulers.get_mut(scheduler)?.process.as_mut()?;
        let caller = process.callers.remove(&request);
        if caller.is_none() {
            let text = format!("s{scheduler} answered request {} twice or unasked", request.0);
            self.check.violate(self.now, "one answer per request", || text);
        }
        caller
    }

    fn answer_agent(
        &mut self,
        scheduler: usize,
        (node, life, call): (usize, Life, CallNumber),
        answer: UpAnswer,
    ) {
        let way = (Peer::Scheduler(scheduler), Peer::Node(node));
        self.send(way, Message::UpAnswer { node, life, call, scheduler, answer });
    }

    fn answer_user(
        &mut self,
        scheduler: usize,
        op: u64,
        reply: Option<persys_cluster::effects::Reply>,
    ) {
        let way = (Peer::Scheduler(scheduler), Peer::Users);
        self.send(way, Message::AskAnswer { op, reply });
    }

    fn command(&mut self, scheduler: usize, life: Life, id: &NodeId, command: Command) {
        self.trace.note(command.epoch.0);
        self.trace.tell(self.now, || crate::tell::command(scheduler, id, &command));
        let awake_since = self.schedulers.get(scheduler).map_or(0, |host| host.paused_at);
        self.check.commanded(self.now, (scheduler, life, awake_since), id, &command);
        let Some(node) = self.hosts.iter().position(|host| host.id == *id) else { return };
        let refused = self.hosts.get(node).is_some_and(|host| host.undialled_until > self.now);
        if self.hosts.get(node).is_some_and(|host| host.contract.is_some()) {
            if self.contract_command((scheduler, life), node, command.clone()) {
                self.await_answer((scheduler, life), id, &command, refused);
                if !refused {
                    self.check.left(id, &command);
                }
            }
            return;
        }
        self.await_answer((scheduler, life), id, &command, refused);
        if refused {
            return;
        }
        self.check.left(id, &command);
        let message = Message::Down { scheduler, life, node, command: Box::new(command) };
        self.keep_past(node, &message);
        self.send((Peer::Scheduler(scheduler), Peer::Node(node)), message);
    }

    /// Keeps an order until it is answered. One that is refused never leaves.
    fn await_answer(
        &mut self,
        (scheduler, life): (usize, Life),
        id: &NodeId,
        command: &Command,
        refused: bool,
    ) {
        let patience = if refused { 5 } else { self.setup.rpc_ms };
        let Some(host) = self.schedulers.get_mut(scheduler) else { return };
        let Some(process) = host.process_of(life) else { return };
        process.next_order += 1;
        let number = process.next_order;
        let order = Undelivered {
            node: id.clone(),
            session: command.session,
            workload: command.workload.clone(),
            epoch: command.epoch,
            may_have_arrived: !refused,
            why: Arc::from(if refused { "connection refused" } else { "no answer in time" }),
        };
        process.orders.insert(number, order);
        self.queue.push(self.now + patience, Event::OrderTimeout { scheduler, life, number });
    }

    /// Nobody answered an order.
    pub(crate) fn order_unanswered(&mut self, scheduler: usize, life: Life, number: u64) {
        let Some(host) = self.schedulers.get_mut(scheduler) else { return };
        let Some(process) = host.process_of(life) else { return };
        let Some(order) = process.orders.remove(&number) else { return };
        let input = Input::Undelivered(order);
        self.scheduler_input(scheduler, ReplicaInput::Cluster(Box::new(input)));
    }

    /// An agent tells what it did last.
    pub(crate) fn actions_told(
        &mut self,
        scheduler: usize,
        life: Life,
        workload: WorkloadId,
        epoch: Epoch,
    ) {
        let Some(host) = self.schedulers.get_mut(scheduler) else { return };
        if host.process_of(life).is_some() {
            let input = Input::Actions { workload, epoch, text: Arc::from("apply running") };
            self.scheduler_input(scheduler, ReplicaInput::Cluster(Box::new(input)));
        }
    }

    fn probe(
        &mut self,
        (scheduler, life): (usize, Life),
        id: NodeId,
        session: Session,
        asked: Millis,
    ) {
        let Some(node) = self.hosts.iter().position(|host| host.id == id) else { return };
        let Some(host) = self.schedulers.get_mut(scheduler) else { return };
        let Some(process) = host.process_of(life) else { return };
        process.next_probe += 1;
        let call = CallNumber(process.next_probe);
        process.probes.insert(call, (id, session, asked));
        let patience = self.setup.rpc_ms.min(1_000);
        self.queue.push(self.now + patience, Event::ProbeTimeout { scheduler, life, call });
        let way = (Peer::Scheduler(scheduler), Peer::Node(node));
        self.send(way, Message::Probe { scheduler, life, node, call });
    }

    /// A probe came back, or the patience for it ended.
    pub(crate) fn probe_answered(
        &mut self,
        scheduler: usize,
        life: Life,
        call: CallNumber,
        found: Probe,
    ) {
        let Some(host) = self.schedulers.get_mut(scheduler) else { return };
        let Some(process) = host.process_of(life) else { return };
        let Some((node, session, asked)) = process.probes.remove(&call) else { return };
        let input = Input::Probed { node, session, asked, found };
        self.scheduler_input(scheduler, ReplicaInput::Cluster(Box::new(input)));
    }

    /// An agent's message reaches a scheduler's machine.
    pub(crate) fn up_arrives(
        &mut self,
        scheduler: usize,
        (node, life, call): (usize, Life, CallNumber),
        what: Upward,
    ) {
        let process = self.schedulers.get_mut(scheduler).and_then(|host| host.process.as_mut());
        let Some(process) = process else {
            let what = Box::new(what);
            let message = Message::Up { node, life, call, scheduler, what };
            self.nobody_serves(scheduler, &message);
            return;
        };
        let request = process.admit(Caller::Agent { node, life, call });
        let input = match what {
            Upward::Register(registration) => Input::Register(request, registration),
            Upward::Beat(beat) => Input::Beat(request, beat),
        };
        self.scheduler_input(scheduler, ReplicaInput::Cluster(Box::new(input)));
    }

    /// A second machine of one name calls.
    pub(crate) fn impostor_arrives(&mut self, scheduler: usize, registration: Registration) {
        let process = self.schedulers.get_mut(scheduler).and_then(|host| host.process.as_mut());
        let Some(process) = process else { return };
        let request = process.admit(Caller::Impostor);
        let input = Input::Register(request, registration);
        self.scheduler_input(scheduler, ReplicaInput::Cluster(Box::new(input)));
    }

    /// An agent's answer to a command arrives.
    pub(crate) fn command_answered(
        &mut self,
        scheduler: usize,
        life: Life,
        node: NodeId,
        told: Told,
        answer: Answer,
    ) {
        let Some(host) = self.schedulers.get_mut(scheduler) else { return };
        let Some(process) = host.process_of(life) else { return };
        let answered = process.orders.iter().find(|(_, order)| {
            (&order.node, &order.workload, order.epoch) == (&node, &told.workload, told.epoch)
        });
        if let Some(number) = answered.map(|(number, _)| *number) {
            process.orders.remove(&number);
        }
        if let Answer::Refused(refusal) = &answer {
            self.cover.hit(match refusal {
                Refusal::OldTerm { .. } => "agent: refused old term",
                Refusal::OtherSession { .. } => "agent: refused other session",
                Refusal::OldEpoch { .. } => "agent: refused old epoch",
                Refusal::Buried { .. } => "agent: refused buried",
                Refusal::Holding | Refusal::Draining => "agent: refused holding",
            });
        }
        let Told { session, workload, epoch } = told;
        let input = Input::Answered { node, session, workload, epoch, answer, task: None };
        self.scheduler_input(scheduler, ReplicaInput::Cluster(Box::new(input)));
    }

    /// A user's request reaches a scheduler's machine.
    pub(crate) fn ask_arrives(&mut self, scheduler: usize, op: u64, ask: Ask) {
        let process = self.schedulers.get_mut(scheduler).and_then(|host| host.process.as_mut());
        let Some(process) = process else {
            self.answer_user(scheduler, op, None);
            return;
        };
        let request = process.admit(Caller::User { op });
        if matches!(ask, Ask::Recover(_)) {
            let life = process.life;
            self.check.recovery_asked(scheduler, life);
        }
        let author = Arc::new(Author::new("operator sim"));
        let input = Input::Ask(request, author, ask);
        self.scheduler_input(scheduler, ReplicaInput::Cluster(Box::new(input)));
    }
}
