//! Schedulers and the agents that know only the contract: calls, questions and heartbeats.

use persys_cluster::contract::{Ask, Deed, Found, Outcome, Question};
use persys_cluster::input::Input;
use persys_cluster::replica::ReplicaInput;
use persys_model::command::{Answer, Command};
use persys_model::id::NodeId;
use persys_model::inventory::Inventory;
use persys_model::link::{Beat, BeatAnswer, Registration, RegistrationAnswer, Usage};
use persys_model::token::Term;

use crate::contract_agent::{Call, CallAnswer, Heard, Upcall};
use crate::net::Peer;
use crate::scheduler::{Caller, ContractCall};
use crate::setup::node_id;
use crate::sim::{Event, Sim};
use crate::wire::{CallNumber, Life, Message, Told};

impl Sim {
    /// Calls a contract agent.
    fn contract_calls(
        &mut self,
        (scheduler, life): (usize, Life),
        node: usize,
        (what, awaited): (Option<Call>, ContractCall),
    ) {
        let refused = self.hosts.get(node).is_some_and(|host| host.undialled_until > self.now);
        let Some(host) = self.schedulers.get_mut(scheduler) else { return };
        let Some(process) = host.process_of(life) else { return };
        process.next_contract_call += 1;
        let call = CallNumber(process.next_contract_call);
        process.contract_calls.insert(call, awaited);
        let Some(what) = what else {
            // No call has to be made.
            let answer = Box::new(CallAnswer::Order(Outcome::Accepted));
            let message = Message::ContractAnswer { scheduler, life, call, answer };
            self.queue.push(self.now + 1, Event::Deliver(Box::new(message)));
            return;
        };
        let patience = if refused { 5 } else { self.setup.rpc_ms };
        self.queue.push(self.now + patience, Event::ContractTimeout { scheduler, life, call });
        if refused {
            return;
        }
        let (sent, what) = (self.now, Box::new(what));
        let message = Message::Contract { scheduler, life, node, call, sent, what };
        self.send((Peer::Scheduler(scheduler), Peer::Node(node)), message);
    }

    /// An order for a contract agent. Whether it leaves at all.
    pub(super) fn contract_command(
        &mut self,
        (scheduler, life): (usize, Life),
        node: usize,
        command: Command,
    ) -> bool {
        let Some(host) = self.schedulers.get_mut(scheduler) else { return false };
        let now = host.clock.now(self.now).mono;
        let Some(process) = host.process_of(life) else { return false };
        let id = node_id(node);
        let world = process.replica.world();
        let context = world.map(|world| world.context_of(&id, &command)).unwrap_or_default();
        let deed = process.contract.order(&id, &command, &context, now);
        let workload = command.workload.clone();
        let call = match &deed {
            Deed::Apply(apply) | Deed::StopInstead(apply) => {
                Some(Call::Apply(workload, Box::new(apply.clone())))
            }
            Deed::Delete => Some(Call::Delete(workload)),
            Deed::Nothing(_) => None,
        };
        self.cover.hit(match &deed {
            Deed::Apply(_) => "contract agent: told to apply",
            Deed::StopInstead(_) => "contract agent: told to stop instead of a removal",
            Deed::Delete => "contract agent: told to delete",
            Deed::Nothing(_) => "contract agent: told nothing",
        });
        let leaves = call.is_some();
        let awaited = ContractCall::Order { node: id, command: Box::new(command), deed };
        self.contract_calls((scheduler, life), node, (call, awaited));
        leaves
    }

    /// The patience for an answer ended. The World hears of orders by themselves.
    pub(crate) fn contract_unanswered(&mut self, scheduler: usize, life: Life, call: CallNumber) {
        let Some(host) = self.schedulers.get_mut(scheduler) else { return };
        let Some(process) = host.process_of(life) else { return };
        match process.contract_calls.remove(&call) {
            Some(ContractCall::Question(question)) => {
                let nothing = match &question.what {
                    Ask::Status(_) => CallAnswer::Status(Found::NoAnswer),
                    Ask::List => CallAnswer::Order(Outcome::Accepted),
                };
                self.question_answered((scheduler, life), question, nothing);
            }
            Some(ContractCall::Order { .. }) | None => {}
        }
    }

    /// A contract agent answered.
    pub(crate) fn contract_answered(
        &mut self,
        scheduler: usize,
        life: Life,
        call: CallNumber,
        answer: CallAnswer,
    ) {
        let Some(host) = self.schedulers.get_mut(scheduler) else { return };
        let now = host.clock.now(self.now).mono;
        let Some(process) = host.process_of(life) else { return };
        match (process.contract_calls.remove(&call), answer) {
            (Some(ContractCall::Order { node, command, deed }), CallAnswer::Order(outcome)) => {
                let answer = process.contract.ordered(&node, &command, (&deed, &outcome), now);
                self.trace.tell(self.now, || {
                    format!("{node} answers {}@{}: {answer:?}", command.workload, command.epoch)
                });
                if let Answer::Removed { epoch } = answer {
                    self.check.contract_removed(&node, &command.workload, epoch);
                }
                let Command { session, workload, epoch, .. } = *command;
                let told = Told { session, workload, epoch };
                self.command_answered(scheduler, life, node, told, answer);
                self.contract_soon(scheduler, life);
            }
            (Some(ContractCall::Question(question)), answer) => {
                self.question_answered((scheduler, life), question, answer);
            }
            (Some(ContractCall::Order { .. }) | None, _) => {}
        }
    }

    fn question_answered(
        &mut self,
        (scheduler, life): (usize, Life),
        question: Question,
        answer: CallAnswer,
    ) {
        let Some(host) = self.schedulers.get_mut(scheduler) else { return };
        let now = host.clock.now(self.now).mono;
        let Some(process) = host.process_of(life) else { return };
        let Question { node, asked, what } = question;
        self.trace.tell(self.now, || {
            let words: String = format!("{answer:?}").chars().take(160).collect();
            format!("{node} says of {what:?}: {words}")
        });
        let Some(world) = process.replica.world() else {
            process.contract.forget(&node);
            return;
        };
        let beat = match what {
            Ask::Status(workload) => {
                let found = match answer {
                    CallAnswer::Status(found) => found,
                    CallAnswer::Order(_) | CallAnswer::List(_) => Found::NoAnswer,
                };
                process.contract.status_came(world, (&node, &workload, asked), found, now)
            }
            Ask::List => {
                let list = match answer {
                    CallAnswer::List(list) => Some(list),
                    CallAnswer::Order(_) | CallAnswer::Status(_) => None,
                };
                process.contract.list_came(world, (&node, asked), list.as_deref(), now)
            }
        };
        if let Some(beat) = beat {
            self.contract_beat((scheduler, life), beat, Caller::ContractNews { node });
        }
        self.contract_soon(scheduler, life);
    }

    /// The World hears what a contract agent said.
    fn contract_beat(&mut self, (scheduler, life): (usize, Life), beat: Beat, caller: Caller) {
        self.check.contract_said(&beat);
        let Some(host) = self.schedulers.get_mut(scheduler) else { return };
        let Some(process) = host.process_of(life) else { return };
        let request = process.admit(caller);
        let input = Input::Beat(request, beat);
        self.scheduler_input(scheduler, ReplicaInput::Cluster(Box::new(input)));
    }

    /// The component for contract agents is looked at a moment later.
    pub(crate) fn contract_soon(&mut self, scheduler: usize, life: Life) {
        let at = self.now + 1;
        let Some(host) = self.schedulers.get_mut(scheduler) else { return };
        let Some(process) = host.process_of(life) else { return };
        if process.contract_wake.is_none_or(|wake| wake > at) {
            process.contract_wake = Some(at);
            self.queue.push(at, Event::ContractWake { scheduler, life });
        }
    }

    /// Everything that is due with contract agents.
    pub(crate) fn contract_work(&mut self, scheduler: usize, life: Life) {
        let Some(host) = self.schedulers.get_mut(scheduler) else { return };
        let now = host.clock.now(self.now).mono;
        let clock = host.clock.clone();
        let Some(process) = host.process_of(life) else { return };
        if process.contract_wake.is_none_or(|wake| wake > self.now) {
            return;
        }
        process.contract_wake = None;
        let Some(world) = process.replica.world() else {
            process.contract.forget_all();
            return;
        };
        let due = process.contract.due(now);
        let mut beats = Vec::new();
        for node in due.news {
            let beat = process.contract.news(world, &node, now);
            beats.extend(beat.map(|beat| (node, beat)));
        }
        if let Some(wake_at) = due.wake_at {
            let at = clock.when(wake_at).max(self.now + 1);
            process.contract_wake = Some(at);
            self.queue.push(at, Event::ContractWake { scheduler, life });
        }
        for question in due.questions {
            let Some(node) = self.hosts.iter().position(|host| host.id == question.node) else {
                continue;
            };
            let call = match &question.what {
                Ask::Status(workload) => Call::Status(workload.clone()),
                Ask::List => Call::List,
            };
            let awaited = ContractCall::Question(question);
            self.contract_calls((scheduler, life), node, (Some(call), awaited));
        }
        for (node, beat) in beats {
            self.contract_beat((scheduler, life), beat, Caller::ContractNews { node });
            self.contract_soon(scheduler, life);
        }
    }

    /// A contract agent registers or beats.
    pub(crate) fn contract_up(
        &mut self,
        scheduler: usize,
        (node, agent, call): (usize, Life, CallNumber),
        what: Upcall,
    ) {
        let facts = self.hosts.get(node).map(|host| host.facts.clone());
        let Some(host) = self.schedulers.get_mut(scheduler) else { return };
        let now = host.clock.now(self.now).mono;
        let caller = Caller::ContractAgent { node, life: agent, call };
        let Some(process) = &mut host.process else {
            return self.answer_contract(scheduler, (node, agent, call), Heard::Unavailable);
        };
        let life = process.life;
        match what {
            Upcall::Register => {
                let Some(facts) = facts else { return };
                let (inventory, term) = (Inventory::default(), Term(0));
                let registration = Registration { facts, inventory, term };
                let request = process.admit(caller);
                let input = Input::Register(request, registration);
                self.scheduler_input(scheduler, ReplicaInput::Cluster(Box::new(input)));
            }
            Upcall::Heartbeat(statuses) => {
                let Some(world) = process.replica.world() else {
                    return self.answer_contract(
                        scheduler,
                        (node, agent, call),
                        Heard::Unavailable,
                    );
                };
                let told = (statuses.as_slice(), Usage::default());
                let frozen = world.is_frozen();
                let beat = process.contract.heartbeat(world, &node_id(node), told, now);
                if let Some(beat) = beat {
                    self.contract_beat((scheduler, life), beat, caller);
                } else {
                    let heard = if frozen { Heard::Acknowledged } else { Heard::NotFound };
                    self.answer_contract(scheduler, (node, agent, call), heard);
                }
            }
        }
        self.contract_soon(scheduler, life);
    }

    pub(super) fn answer_contract(
        &mut self,
        scheduler: usize,
        (node, life, call): (usize, Life, CallNumber),
        heard: Heard,
    ) {
        let way = (Peer::Scheduler(scheduler), Peer::Node(node));
        self.send(way, Message::ContractUpAnswer { node, life, call, heard });
    }

    /// The World answered the registration of a contract agent.
    pub(super) fn contract_registered(
        &mut self,
        scheduler: usize,
        caller: (usize, Life, CallNumber),
        answer: &RegistrationAnswer,
    ) {
        let Some(host) = self.schedulers.get_mut(scheduler) else { return };
        let now = host.clock.now(self.now).mono;
        let Some(process) = &mut host.process else { return };
        let life = process.life;
        let heard = if let RegistrationAnswer::Accepted { .. } = answer {
            process.contract.registered(&node_id(caller.0), true, now);
            self.cover.hit("contract agent: registered");
            Heard::Registered
        } else {
            Heard::Refused
        };
        self.answer_contract(scheduler, caller, heard);
        self.contract_soon(scheduler, life);
    }

    /// The World answered a beat made of what a contract agent said.
    pub(super) fn contract_beat_answered(
        &mut self,
        scheduler: usize,
        node: &NodeId,
        answer: &BeatAnswer,
    ) -> Heard {
        let Some(process) =
            self.schedulers.get_mut(scheduler).and_then(|host| host.process.as_mut())
        else {
            return Heard::Unavailable;
        };
        let life = process.life;
        let frozen = process.replica.world().is_some_and(persys_cluster::world::World::is_frozen);
        process.contract.beat_answered(node, answer);
        self.contract_soon(scheduler, life);
        match answer {
            BeatAnswer::Heard { .. } => Heard::Acknowledged,
            BeatAnswer::RegisterAgain { .. } if frozen => Heard::Acknowledged,
            BeatAnswer::RegisterAgain { .. } => Heard::Unavailable,
        }
    }

    /// What is under way with a contract agent is unsure: this process does not lead.
    pub(super) fn contract_not_led(&mut self, scheduler: usize, node: &NodeId) {
        let process = self.schedulers.get_mut(scheduler).and_then(|host| host.process.as_mut());
        if let Some(process) = process {
            process.contract.forget(node);
        }
    }
}
