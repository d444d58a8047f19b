//! Who breaks things: at random moments, of the kinds the seed has, each for a while.

use std::sync::Arc;

use persys_cluster::store::HighWater;
use persys_model::inventory::Inventory;
use persys_model::link::Registration;
use persys_model::token::Term;
use persys_node::input::Existing;

use crate::fault::Fault;
use crate::net::{Peer, Way, Weather};
use crate::rng::{Concern, Rng};
use crate::runtime::Change;
use crate::setup::Setup;
use crate::sim::{Event, Sim, Stage};
use crate::wire::Message;

/// What ends a fault that does not end by itself.
#[derive(Debug)]
pub(crate) enum Cure {
    /// These ways are good again.
    Mend(Vec<Way>),
    /// The weather is good again.
    GoodWeather,
    /// An operator looks whether anything must be recovered.
    Recover,
}

/// Chance and choice.
#[derive(Debug)]
pub(crate) struct Nemesis {
    rng: Rng,
    kinds: Vec<Fault>,
    struck: u64,
}

impl Nemesis {
    pub(crate) fn new(setup: &Setup) -> Self {
        let rng = Rng::new(setup.seed, Concern::Nemesis);
        Self { rng, kinds: setup.faults.list(), struck: 0 }
    }
}

impl Sim {
    /// Something breaks.
    pub(crate) fn strike(&mut self) {
        if self.stage != Stage::Faults {
            return;
        }
        let gap = self.nemesis.rng.gap(self.setup.fault_gap_ms);
        self.queue.push(self.now + gap, Event::Nemesis);
        // Each fault has its own chance, so that leaving one out changes no other.
        let mut rng = Rng::new(self.nemesis.rng.next(), Concern::Nemesis);
        let Some(fault) = self.nemesis.rng.pick(&self.nemesis.kinds).copied() else { return };
        self.nemesis.struck += 1;
        if self.setup.muted.has(fault) || self.nemesis.struck > self.setup.fault_limit {
            return;
        }
        let node = rng.index(self.hosts.len());
        let scheduler = rng.index(self.schedulers.len());
        if self.afflict(fault, node, scheduler, &mut rng) {
            self.cover.hit(fault.name());
        }
    }

    /// Carries out a fault; whether there was anything to break.
    fn afflict(&mut self, fault: Fault, node: usize, scheduler: usize, rng: &mut Rng) -> bool {
        let long = self.now + rng.between(3_000, 20_000);
        let short = self.now + rng.between(500, 5_000);
        self.trace.tell(self.now, || {
            format!("*** {} (n{node}, s{scheduler}, until {short} or {long})", fault.name())
        });
        match fault {
            Fault::BadWeather
            | Fault::CutNode
            | Fault::CutToNode
            | Fault::CutFromNode
            | Fault::CutPair
            | Fault::HoldToNode
            | Fault::Replay
            | Fault::CutMany
            | Fault::Impostor => self.afflict_network(fault, (node, scheduler), long, rng),
            Fault::AgentCrash
            | Fault::AgentDown
            | Fault::Isolated
            | Fault::AgentPause
            | Fault::WatchdogCrash
            | Fault::Reboot
            | Fault::PowerOff
            | Fault::LedgerLost
            | Fault::DiskFull
            | Fault::RuntimeDown
            | Fault::VerbsFail
            | Fault::VerbsHang
            | Fault::Exit
            | Fault::Undialled
            | Fault::PausedByHand
            | Fault::Stuck
            | Fault::Vanish => self.afflict_host(fault, node, (short, long), rng),
            Fault::WallJump
            | Fault::SchedulerCrash
            | Fault::SchedulerDown
            | Fault::SchedulerPause
            | Fault::StoreCut => self.afflict_scheduler(fault, scheduler, (short, long), rng),
            Fault::StoreDown
            | Fault::StoreSlow
            | Fault::StoreUnsure
            | Fault::StorePause
            | Fault::StoreWipe
            | Fault::StoreRestore => self.afflict_store(fault, (short, long), rng),
        }
    }

    fn ways_between(&self, node: usize, to: bool, from: bool) -> Vec<Way> {
        let mut ways = Vec::new();
        for scheduler in 0..self.schedulers.len() {
            let (node, scheduler) = (Peer::Node(node), Peer::Scheduler(scheduler));
            if to {
                ways.push((scheduler, node));
            }
            if from {
                ways.push((node, scheduler));
            }
        }
        ways
    }

    fn cut_until(&mut self, ways: Vec<Way>, until: u64) {
        for way in &ways {
            self.net.cut(*way);
        }
        self.queue.push(until, Event::Cure(Cure::Mend(ways)));
    }

    fn afflict_network(
        &mut self,
        fault: Fault,
        (node, scheduler): (usize, usize),
        until: u64,
        rng: &mut Rng,
    ) -> bool {
        match fault {
            Fault::CutNode => self.cut_until(self.ways_between(node, true, true), until),
            Fault::CutToNode => self.cut_until(self.ways_between(node, true, false), until),
            Fault::CutFromNode => self.cut_until(self.ways_between(node, false, true), until),
            Fault::CutPair => {
                let (node, scheduler) = (Peer::Node(node), Peer::Scheduler(scheduler));
                self.cut_until(vec![(node, scheduler), (scheduler, node)], until);
            }
            Fault::CutMany => {
                for other in 0..self.hosts.len() {
                    if other == node || rng.chance(700) {
                        self.cut_until(self.ways_between(other, true, true), until);
                    }
                }
            }
            Fault::HoldToNode => {
                let ways = self.ways_between(node, true, false);
                for way in &ways {
                    self.net.hold(*way);
                }
                self.queue.push(until, Event::Cure(Cure::Mend(ways)));
            }
            Fault::BadWeather => {
                let weather = Weather {
                    loss: rng.below(300),
                    doubled: rng.below(200),
                    late: rng.below(300),
                    tail_ms: rng.between(500, 9_000),
                };
                self.net.set_weather(weather, self.now);
                self.queue.push(until, Event::Cure(Cure::GoodWeather));
            }
            Fault::Replay => {
                let Some((_, message)) = rng.pick(&self.past).cloned() else { return false };
                self.queue.push(self.now + 1, Event::Deliver(Box::new(message)));
            }
            _ => {
                let Some(host) = self.hosts.get(node) else { return false };
                let mut facts = host.facts.clone();
                facts.host = Arc::from("another-machine");
                facts.incarnation = Arc::from(format!("impostor#{}", self.now));
                let (term, inventory) = (Term(0), Inventory::default());
                let registration = Box::new(Registration { facts, term, inventory });
                let message = Message::Impostor { scheduler, registration };
                self.queue.push(self.now + 1, Event::Deliver(Box::new(message)));
            }
        }
        true
    }

    fn afflict_host(
        &mut self,
        fault: Fault,
        node: usize,
        (short, long): (u64, u64),
        rng: &mut Rng,
    ) -> bool {
        let Some(host) = self.hosts.get_mut(node) else { return false };
        if !host.power {
            return false;
        }
        match fault {
            Fault::AgentCrash => return self.agent_away(node, short),
            Fault::AgentDown => return self.agent_away(node, long),
            Fault::Isolated => {
                let until = long + 15_000;
                self.cut_until(self.ways_between(node, true, true), until);
                return self.agent_away(node, until);
            }
            Fault::AgentPause => {
                // What waits for it waits until it goes on: a second pause ends no earlier one.
                let until = long.max(host.agent_paused_until());
                let theirs = host.contract.as_mut().and_then(|agent| agent.process.as_mut());
                match (&mut host.agent, theirs) {
                    (Some(process), _) => process.paused_until = until,
                    (None, Some(process)) => process.paused_until = until,
                    (None, None) => return false,
                }
                host.absent_until = host.absent_until.max(until);
            }
            Fault::WatchdogCrash => {
                host.watchdog = None;
                let boot = host.boots;
                let at = self.now + rng.between(100, 1_000);
                self.queue.push(at, Event::WatchdogStart { node, boot });
            }
            Fault::Reboot => {
                self.power_off(node);
                self.queue.push(short, Event::PowerOn { node });
            }
            Fault::PowerOff => {
                self.power_off(node);
                self.queue.push(long + 5_000, Event::PowerOn { node });
            }
            Fault::LedgerLost => {
                if !self.agent_away(node, short) {
                    return false;
                }
                self.check.ledger_lost(&crate::setup::node_id(node));
                self.lose_ledger(node);
            }
            Fault::DiskFull => host.disk.full_until = long,
            Fault::RuntimeDown => {
                host.runtime.out_since = self.now;
                host.runtime.out_until = long;
            }
            Fault::VerbsFail => host.verbs_fail_until = long,
            Fault::VerbsHang => host.verbs_hang_until = long,
            Fault::Undialled => host.undialled_until = long,
            Fault::PausedByHand | Fault::Stuck => return self.freeze(fault, node, rng),
            _ => {
                let running: Vec<_> = host.runtime.running().map(|(id, _)| id.clone()).collect();
                let Some(id) = rng.pick(&running) else { return false };
                let code = i32::from(rng.chance(500));
                let why = if fault == Fault::Exit {
                    host.runtime.stop(id, code);
                    "ended by itself"
                } else {
                    host.runtime.end(id);
                    self.check.removed_by_hand(id);
                    "removed by hand"
                };
                self.changed(node, id, Change::Ended, why);
            }
        }
        true
    }

    /// Something that runs stands still from now on.
    fn freeze(&mut self, fault: Fault, node: usize, rng: &mut Rng) -> bool {
        let Some(host) = self.hosts.get_mut(node) else { return false };
        if host.contract.is_some() {
            // The contract has no word for what stands still, so nobody could see or mend it.
            return false;
        }
        let things = host.runtime.things.iter();
        let running = things.filter(|(_, thing)| thing.state == Existing::Running);
        let running: Vec<_> = running.map(|(id, _)| id.clone()).collect();
        let Some(id) = rng.pick(&running) else { return false };
        if fault == Fault::Stuck {
            host.runtime.stick(id);
        } else {
            host.runtime.pause(id);
        }
        self.trace.tell(self.now, || format!("n{node} {id}: {}", fault.name()));
        self.hint(node, id);
        true
    }

    fn agent_away(&mut self, node: usize, until: u64) -> bool {
        if !self.crash_agent(node) {
            return false;
        }
        let zoo = self.setup.zoo;
        let Some(host) = self.hosts.get_mut(node) else { return false };
        let (lives, boot) = (host.lives, host.boots);
        if zoo.has(persys_model::zoo::Bug::FenceDiesWithAgent) {
            host.watchdog = None;
            self.queue.push(until + 1, Event::WatchdogStart { node, boot });
        }
        self.queue.push(until, Event::AgentStart { node, lives });
        true
    }

    fn afflict_scheduler(
        &mut self,
        fault: Fault,
        scheduler: usize,
        (short, long): (u64, u64),
        rng: &mut Rng,
    ) -> bool {
        let Some(host) = self.schedulers.get_mut(scheduler) else { return false };
        match fault {
            Fault::WallJump => {
                let wall = 1_000_000_000_000 + rng.below(1_000_000_000_000);
                host.clock.jump(wall);
                let node = rng.index(self.hosts.len());
                if let Some(host) = self.hosts.get_mut(node) {
                    host.clock.jump(wall / 2);
                }
            }
            Fault::SchedulerPause => {
                host.paused_until = host.paused_until.max(long);
                host.paused_at = host.paused_until;
            }
            Fault::StoreCut => host.store_cut_until = long,
            _ => {
                if host.process.is_none() {
                    return false;
                }
                let lives = host.lives;
                let at = if fault == Fault::SchedulerDown { long } else { short };
                self.crash_scheduler(scheduler);
                self.queue.push(at, Event::SchedulerStart { scheduler, lives });
            }
        }
        true
    }

    fn afflict_store(&mut self, fault: Fault, (short, long): (u64, u64), rng: &mut Rng) -> bool {
        match fault {
            Fault::StoreDown => self.store_faults.down_until = long,
            Fault::StoreSlow => self.store_faults.slow_until = long,
            Fault::StoreUnsure => self.store_faults.unsure_until = long,
            Fault::StorePause => self.store_faults.paused_until = short + 2_000,
            Fault::StoreWipe if self.all_remember() => self.store.wipe(),
            Fault::StoreRestore if self.all_remember_more() => {
                let provable = self.agents_can_prove();
                self.store.restore();
                if self.setup.forgets() && provable {
                    self.lose_memory(short);
                }
            }
            _ => return false,
        }
        if fault.loses_store() {
            self.check.store_lost(self.now);
            let at = self.now + rng.between(10_000, 40_000);
            self.queue.push(at, Event::Cure(Cure::Recover));
        }
        true
    }

    /// Whether every scheduler's machine has heard of this cluster. One that has not cannot tell a
    /// lost store from a new one; only an operator can.
    fn all_remember(&self) -> bool {
        let Some(head) = &self.store.contents.head else { return false };
        let knows = |high: &HighWater| high.incarnation == head.incarnation;
        !self.check.is_loss_open()
            && self.schedulers.iter().all(|host| host.high.as_ref().is_some_and(knows))
    }

    /// Whether every scheduler's machine has heard of more than is in the old copy.
    fn all_remember_more(&self) -> bool {
        let known: Vec<_> = self.schedulers.iter().map(|host| host.high.clone()).collect();
        self.all_remember() && self.store.has_older_backup(&known)
    }

    /// True if every agent of ours holds a mark above the old copy: whichever is heard first proves it.
    fn agents_can_prove(&self) -> bool {
        let old = self.store.copy().and_then(|copy| copy.head).map(|head| head.seq);
        let marks = self.hosts.iter().filter(|host| host.contract.is_none());
        let mut marks =
            marks.map(|host| host.disk.ledger.mark.as_ref().map(|mark| mark.claims().seq));
        let some = self.hosts.iter().any(|host| host.contract.is_none());
        some && old.is_some() && marks.all(|mark| mark > old)
    }

    /// Every scheduler's machine forgets with the store, and its process begins anew.
    fn lose_memory(&mut self, at: u64) {
        for scheduler in 0..self.schedulers.len() {
            self.crash_scheduler(scheduler);
            let Some(host) = self.schedulers.get_mut(scheduler) else { continue };
            host.high = None;
            let lives = host.lives;
            self.queue.push(at, Event::SchedulerStart { scheduler, lives });
        }
        self.trace.tell(self.now, || "schedulers forget with their store".to_owned());
    }

    /// A fault ends.
    pub(crate) fn cure(&mut self, cure: Cure) {
        match cure {
            Cure::Mend(ways) => {
                for way in &ways {
                    self.net.mend(*way, self.now);
                }
                self.let_go(&ways);
            }
            Cure::GoodWeather => self.net.set_weather(Weather::default(), self.now),
            Cure::Recover => self.recover(),
        }
    }
}
