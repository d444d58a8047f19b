//! Messages on their way.

use persys_cluster::input::Probe;

use crate::net::{Fate, Peer, Way};
use crate::sim::{Event, Sim};
use crate::wire::{Message, UpAnswer};

/// How many commands of the past are kept for replay.
const PAST_LIMIT: usize = 64;

impl Sim {
    /// Sends a message; the network decides what becomes of it.
    pub(crate) fn send(&mut self, way: Way, message: Message) {
        if let (Peer::Node(node), _) | (_, Peer::Node(node)) = way
            && !self.hosts.get(node).is_some_and(|host| host.power)
        {
            return;
        }
        match self.net.send(way) {
            Fate::Lost => self.cover.hit("net: message lost"),
            Fate::Held => {
                self.cover.hit("net: message held");
                self.held.push((way, Box::new(message)));
            }
            Fate::Arrives(delay, doubled) => {
                if let Some(second) = doubled
                    && !is_once(&message)
                {
                    self.cover.hit("net: message doubled");
                    let copy = Event::Deliver(Box::new(message.clone()));
                    self.queue.push(self.now + second, copy);
                }
                self.queue.push(self.now + delay, Event::Deliver(Box::new(message)));
            }
        }
    }

    /// Everything that was held on these ways arrives now, in any order.
    pub(crate) fn let_go(&mut self, ways: &[Way]) {
        for (way, message) in std::mem::take(&mut self.held) {
            if ways.contains(&way) {
                let delay = self.net.delay();
                self.queue.push(self.now + delay, Event::Deliver(message));
            } else {
                self.held.push((way, message));
            }
        }
    }

    /// Keeps a command, so that it can come again when nobody expects it.
    pub(crate) fn keep_past(&mut self, node: usize, message: &Message) {
        if self.past.len() >= PAST_LIMIT {
            let gone = self.chance.index(self.past.len());
            self.past.swap_remove(gone);
        }
        self.past.push((node, message.clone()));
    }

    /// A message arrives.
    pub(crate) fn deliver(&mut self, message: Message) {
        match message {
            Message::Up { node, life, call, scheduler, what } => {
                self.up_arrives(scheduler, (node, life, call), *what);
            }
            Message::UpAnswer { node, life, call, scheduler, answer } => {
                self.up_answered(node, life, call, scheduler, answer);
            }
            Message::Down { scheduler, life, node, command } => {
                self.command_arrives(node, scheduler, life, *command);
            }
            Message::DownAnswer { scheduler, life, node, told, answer } => {
                self.command_answered(scheduler, life, node, told, answer);
            }
            Message::Probe { scheduler, life, node, call } => {
                let Some(host) = self.hosts.get(node).filter(|host| host.power) else { return };
                let found = if host.has_agent() { Probe::Answered } else { Probe::Refused };
                let way = (Peer::Node(node), Peer::Scheduler(scheduler));
                self.send(way, Message::ProbeAnswer { scheduler, life, call, found });
            }
            Message::ProbeAnswer { scheduler, life, call, found } => {
                self.probe_answered(scheduler, life, call, found);
            }
            Message::Ask { op, scheduler, ask } => self.ask_arrives(scheduler, op, *ask),
            Message::AskAnswer { op, reply } => self.op_answered(op, reply),
            Message::Contract { scheduler, life, node, call, sent, what } => {
                self.contract_called(node, (scheduler, life, call), (sent, *what));
            }
            Message::ContractAnswer { scheduler, life, call, answer } => {
                self.contract_answered(scheduler, life, call, *answer);
            }
            Message::ContractUp { node, life, call, scheduler, what } => {
                self.contract_up(scheduler, (node, life, call), what);
            }
            Message::ContractUpAnswer { node, life, call, heard } => {
                self.contract_heard(node, life, call, heard);
            }
            Message::Impostor { scheduler, registration } => {
                self.impostor_arrives(scheduler, *registration);
            }
        }
    }

    /// Tells an agent that nobody serves it there.
    pub(crate) fn nobody_serves(&mut self, scheduler: usize, message: &Message) {
        let Message::Up { node, life, call, .. } = message else { return };
        let answer = UpAnswer::NotLeader;
        let way = (Peer::Scheduler(scheduler), Peer::Node(*node));
        let (node, life, call) = (*node, *life, *call);
        self.send(way, Message::UpAnswer { node, life, call, scheduler, answer });
    }
}

/// True for calls over a connection that delivers each once: their receivers have no token by which to
/// know a second delivery.
fn is_once(message: &Message) -> bool {
    matches!(
        message,
        Message::Ask { .. }
            | Message::AskAnswer { .. }
            | Message::Contract { .. }
            | Message::ContractAnswer { .. }
            | Message::ContractUp { .. }
            | Message::ContractUpAnswer { .. }
    )
}
