//! The agent process, its disk and its calls.

use std::sync::Arc;

use persys_model::command::{Answer, Command};
use persys_model::link::{BeatAnswer, RegistrationAnswer};
use persys_node::agent::Agent;
use persys_node::effects::{Effects, Look, Upward};
use persys_node::input::{Input, LedgerSeq, LookId, Observation, RequestId};
use persys_node::ledger::{Ledger, LedgerChange};

use crate::host::{AgentProcess, Asked, Standing};
use crate::net::Peer;
use crate::sim::{Event, Sim};
use crate::wire::{CallNumber, Life, Message, Told, UpAnswer};

impl Sim {
    /// An agent begins a life with what its disk says.
    pub(crate) fn start_agent(&mut self, node: usize, lives: u64) {
        let Some(host) = self.hosts.get_mut(node) else { return };
        if host.contract.is_some() {
            return self.start_contract_agent(node, lives);
        }
        if host.agent.is_some() || !host.power || host.lives != lives {
            return;
        }
        host.lives += 1;
        let life = Life(host.lives);
        let mut facts = host.facts.clone();
        facts.incarnation = Arc::from(format!("{}#{}", host.id, life.0));
        facts.fence = host.watchdog.is_some();
        let (agent, effects) = Agent::start(
            facts,
            host.disk.ledger.clone(),
            self.setup.agent.clone(),
            host.clock.now(self.now),
        );
        host.agent = Some(AgentProcess::new(agent, life));
        host.absent_until = self.now;
        self.trace.tell(self.now, || format!("n{node} agent starts, life {}", life.0));
        self.check.agent_started(node);
        self.agent_effects(node, effects);
    }

    /// An agent ends without a word; what it was writing may be written or not.
    pub(crate) fn crash_agent(&mut self, node: usize) -> bool {
        let Some(host) = self.hosts.get_mut(node) else { return false };
        let theirs = host.contract.as_mut().and_then(|agent| agent.process.take());
        let died = host.agent.take().is_some() || theirs.is_some();
        if died {
            self.trace.tell(self.now, || format!("n{node} agent dies"));
        }
        died
    }

    /// The disk loses the ledger; only between two lives of the agent.
    pub(crate) fn lose_ledger(&mut self, node: usize) {
        let Some(host) = self.hosts.get_mut(node) else { return };
        host.disk.ledger = Ledger::default();
        if let Some(agent) = &mut host.contract {
            agent.has.clear();
        }
        // What the dead agent was still writing is lost with the rest.
        host.disk.round += 1;
    }

    /// It is time for an agent to look.
    pub(crate) fn agent_tick(&mut self, node: usize, life: Life) {
        let now = self.now;
        let Some(host) = self.hosts.get_mut(node) else { return };
        let Some(process) = host.agent_of(life) else { return };
        if process.wake.is_some_and(|wake| wake <= now) {
            process.wake = None;
            self.agent_input(node, Input::Tick);
        }
    }

    /// Something happens to an agent.
    pub(crate) fn agent_input(&mut self, node: usize, input: Input) {
        let Some(host) = self.hosts.get_mut(node) else { return };
        let now = host.clock.now(self.now);
        let Some(process) = &mut host.agent else { return };
        let effects = process.agent.step(input, now);
        self.agent_effects(node, effects);
    }

    fn agent_effects(&mut self, node: usize, effects: Effects) {
        let Some(host) = self.hosts.get_mut(node) else { return };
        // The lease comes first: the watchdog stops exclusive work that has none.
        if let Some(fence_at) = effects.fence_at {
            host.fence_file = Some(fence_at);
        }
        let Some(process) = &mut host.agent else { return };
        let life = process.life;
        if let Some(wake_at) = effects.wake_at {
            let at = host.clock.when(wake_at).max(self.now + 1);
            if process.wake != Some(at) {
                process.wake = Some(at);
                self.queue.push(at, Event::AgentTick { node, life });
            }
        } else {
            process.wake = None;
        }
        if !effects.ledger.is_empty() {
            let takes = self.timing.between(1, 15);
            let at = host.disk.queue(self.now, takes);
            let (round, changes) = (host.disk.round, effects.ledger);
            self.queue.push(at, Event::LedgerWrite { node, life, round, changes });
        }
        for run in effects.verbs {
            self.verb_given(node, life, run);
        }
        for probing in effects.probes {
            self.probe_begun(node, life, probing);
        }
        for (request, answer) in effects.answers {
            self.agent_answers(node, request, answer);
        }
        if let Some(what) = effects.send {
            self.agent_sends(node, life, what);
        }
        if let Some(Look { id: look, .. }) = effects.observe {
            let at = self.now + self.timing.between(1, 40);
            self.queue.push(at, Event::ObserveRead { node, life, look });
        }
    }

    /// The disk has taken a piece of the ledger, or could not.
    pub(crate) fn ledger_write(
        &mut self,
        node: usize,
        life: Life,
        round: u64,
        changes: &[(LedgerSeq, LedgerChange)],
    ) {
        let Some(host) = self.hosts.get_mut(node) else { return };
        if host.disk.round != round {
            return;
        }
        let alive = host.agent_of(life).is_some();
        if !alive {
            // The process died while the disk was at it: a prefix of what it gave is written.
            if host.disk.torn == Some(life) || self.chance.chance(500) {
                host.disk.torn = Some(life);
                return;
            }
        }
        if host.disk.full_until > self.now {
            host.disk.round += 1;
            if alive {
                self.cover.hit("agent: ledger could not be written");
                self.agent_input(node, Input::LedgerFailed);
            }
            return;
        }
        host.disk.write(changes);
        if alive && let Some((last, _)) = changes.last() {
            self.agent_input(node, Input::Persisted(*last));
        }
    }

    fn agent_sends(&mut self, node: usize, life: Life, what: Upward) {
        let Some(host) = self.hosts.get_mut(node) else { return };
        self.check.agent_said(self.now, node, &host.runtime, &what);
        let scheduler = host.target;
        let Some(process) = host.agent_of(life) else { return };
        process.next_call += 1;
        let call = CallNumber(process.next_call);
        process.calls.insert(call);
        self.queue.push(self.now + self.setup.rpc_ms, Event::UpTimeout { node, life, call });
        let what = Box::new(what);
        let message = Message::Up { node, life, call, scheduler, what };
        self.send((Peer::Node(node), Peer::Scheduler(scheduler)), message);
    }

    /// A call to the scheduler was in vain: the next one goes to another.
    pub(crate) fn up_unanswered(&mut self, node: usize, life: Life, call: CallNumber) {
        let schedulers = self.schedulers.len().max(1);
        let Some(host) = self.hosts.get_mut(node) else { return };
        let Some(process) = host.agent_of(life) else { return };
        if process.calls.remove(&call) {
            host.target = (host.target + 1) % schedulers;
            self.agent_input(node, Input::Unreachable);
        }
    }

    /// The scheduler answered a call.
    pub(crate) fn up_answered(
        &mut self,
        node: usize,
        life: Life,
        call: CallNumber,
        scheduler: usize,
        answer: UpAnswer,
    ) {
        let Some(host) = self.hosts.get_mut(node) else { return };
        let Some(process) = host.agent_of(life) else { return };
        let input = match answer {
            UpAnswer::NotLeader => {
                self.up_unanswered(node, life, call);
                return;
            }
            UpAnswer::Registered(answer) => Input::Registered(answer),
            UpAnswer::Heard(answer) => Input::Heard(answer),
        };
        if !process.calls.remove(&call) {
            return;
        }
        host.target = scheduler;
        if let Input::Heard(answer) = &input {
            for command in crate::wire::removals(answer) {
                self.check.named(node, &command);
            }
        }
        match &input {
            Input::Registered(RegistrationAnswer::Refused { .. }) => {
                self.cover.hit("agent: registration refused");
            }
            Input::Heard(BeatAnswer::RegisterAgain { .. }) => {
                self.cover.hit("agent: told to register again");
            }
            Input::Heard(BeatAnswer::Heard { hold: true, .. }) => {
                self.cover.hit("agent: told to hold");
            }
            _ => {}
        }
        self.agent_input(node, input);
    }

    /// A command arrives at a machine.
    pub(crate) fn command_arrives(
        &mut self,
        node: usize,
        scheduler: usize,
        life: Life,
        command: Command,
    ) {
        let Some(process) = self.hosts.get_mut(node).and_then(|host| host.agent.as_mut()) else {
            return;
        };
        self.check.named(node, &command);
        let standing = Standing {
            term: process.agent.term(),
            session: process.agent.session(),
            epoch: self.check.newest_taken(node, &command.workload),
        };
        process.next_request += 1;
        let request = RequestId(process.next_request);
        let asked = Asked { scheduler, life, command: command.clone(), standing };
        process.commands.insert(request, asked);
        self.agent_input(node, Input::Command(request, command));
    }

    fn agent_answers(&mut self, node: usize, request: RequestId, answer: Answer) {
        let Some(host) = self.hosts.get_mut(node) else { return };
        let id = host.id.clone();
        let Some(process) = &mut host.agent else { return };
        let Some(asked) = process.commands.remove(&request) else {
            let text = format!("n{node} answered request {} twice or unasked", request.0);
            self.check.violate(self.now, "one answer per request", || text);
            return;
        };
        self.check.obeyed(self.now, node, &asked, &answer);
        self.trace.tell(self.now, || crate::tell::answer(node, &asked.command, &answer));
        let Asked { scheduler, life, command, .. } = asked;
        let told =
            Told { session: command.session, workload: command.workload, epoch: command.epoch };
        let message = Message::DownAnswer { scheduler, life, node: id, told, answer };
        self.send((Peer::Node(node), Peer::Scheduler(scheduler)), message);
    }

    /// The runtime is asked what exists.
    pub(crate) fn observe_read(&mut self, node: usize, life: Life, look: LookId) {
        let Some(host) = self.hosts.get_mut(node) else { return };
        if host.agent_of(life).is_none() {
            return;
        }
        // A daemon that hangs may answer so late that it was asked again meanwhile.
        let hangs = host.verbs_hang_until > self.now && self.chance.chance(300);
        let late = if hangs { self.chance.between(500, 9_000) } else { 0 };
        if hangs {
            self.cover.hit("runtime: observation late");
        }
        let answers = host.runtime.answers(self.now);
        let (observation, takes) = if answers {
            (self.observed(node), self.timing.between(1, 40))
        } else {
            self.cover.hit("runtime: observation unknown");
            (Observation::Unknown, 500)
        };
        let at = self.now + takes + late;
        self.queue.push(at, Event::ObserveDone { node, life, look, observation });
    }

    /// The agent is told what the runtime said.
    pub(crate) fn observe_done(
        &mut self,
        node: usize,
        life: Life,
        look: LookId,
        observation: Observation,
    ) {
        let Some(host) = self.hosts.get_mut(node) else { return };
        if host.agent_of(life).is_some() {
            self.agent_input(node, Input::Observed(look, observation));
        }
    }
}
