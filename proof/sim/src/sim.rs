//! The whole cluster as one value, and the loop that lets things happen to it.
//!
//! ```text
//!   queue ──► event ──► process steps ──► effects ──► network · store · disks · runtimes ──► queue
//!                                            └──────► checker (what it may not do)
//! ```

use std::sync::Arc;

use persys_cluster::input::Ask;
use persys_cluster::store::{CallId, HighWater, StoreCall, StoreReply};
use persys_model::id::WorkloadId;
use persys_model::token::Epoch;
use persys_node::effects::{Probing, Run};
use persys_node::input::{Input, LedgerSeq, LookId, Observation, Outcome, VerbId};
use persys_node::ledger::LedgerChange;

use crate::check::{Check, Counts};
use crate::clock::Clock;
use crate::cover::Cover;
use crate::host::Host;
use crate::nemesis::{Cure, Nemesis};
use crate::net::{Net, Way};
use crate::queue::Queue;
use crate::rng::{Concern, Rng};
use crate::scheduler::SchedulerHost;
use crate::setup::Setup;
use crate::store::Store;
use crate::trace::Trace;
use crate::users::Users;
use crate::wire::{CallNumber, Life, Message};

/// One thing that is going to happen.
#[derive(Debug)]
pub(crate) enum Event {
    SchedulerStart {
        scheduler: usize,
        lives: u64,
    },
    SchedulerTick {
        scheduler: usize,
        life: Life,
    },
    /// `given` is when it was called.
    StoreExecute {
        scheduler: usize,
        life: Life,
        id: CallId,
        call: Arc<StoreCall>,
        given: u64,
    },
    StoreReply {
        scheduler: usize,
        life: Life,
        id: CallId,
        reply: Box<StoreReply>,
    },
    Remember {
        scheduler: usize,
        high: HighWater,
    },
    Deliver(Box<Message>),
    UpTimeout {
        node: usize,
        life: Life,
        call: CallNumber,
    },
    ProbeTimeout {
        scheduler: usize,
        life: Life,
        call: CallNumber,
    },
    /// An order was refused, or the patience for its answer ended.
    OrderTimeout {
        scheduler: usize,
        life: Life,
        number: u64,
    },
    /// An agent tells its last actions.
    Actions {
        scheduler: usize,
        life: Life,
        workload: WorkloadId,
        epoch: Epoch,
    },
    AgentStart {
        node: usize,
        lives: u64,
    },
    AgentTick {
        node: usize,
        life: Life,
    },
    LedgerWrite {
        node: usize,
        life: Life,
        round: u64,
        changes: Vec<(LedgerSeq, LedgerChange)>,
    },
    ObserveRead {
        node: usize,
        life: Life,
        look: LookId,
    },
    ObserveDone {
        node: usize,
        life: Life,
        look: LookId,
        observation: Observation,
    },
    /// A health check of an agent has its answer.
    Probed {
        node: usize,
        life: Life,
        probing: Probing,
    },
    Stirred {
        node: usize,
        workload: WorkloadId,
    },
    VerbCarried {
        node: usize,
        boot: u64,
        life: Life,
        run: Box<Run>,
        broken: bool,
    },
    VerbDone {
        node: usize,
        life: Life,
        verb: VerbId,
        workload: WorkloadId,
        outcome: Outcome,
    },
    WatchdogStart {
        node: usize,
        boot: u64,
    },
    WatchdogTick {
        node: usize,
        life: Life,
    },
    WatchdogStop {
        node: usize,
        boot: u64,
        workload: WorkloadId,
    },
    Exit {
        node: usize,
        boot: u64,
        workload: WorkloadId,
        starts: u64,
    },
    PowerOn {
        node: usize,
    },
    /// A contract agent looks around and beats.
    ContractTick {
        node: usize,
        life: Life,
    },
    ContractTask {
        node: usize,
        life: Life,
        boot: u64,
        workload: WorkloadId,
    },
    ContractUpTimeout {
        node: usize,
        life: Life,
        call: CallNumber,
    },
    /// A scheduler looks what is due with contract agents.
    ContractWake {
        scheduler: usize,
        life: Life,
    },
    ContractTimeout {
        scheduler: usize,
        life: Life,
        call: CallNumber,
    },
    UserAct,
    OpTimeout {
        op: u64,
    },
    Nemesis,
    Cure(Cure),
    BackUp,
    Heal,
    Operate,
    Scripted(Scripted),
}

/// What a story says is going to happen.
#[derive(Debug)]
pub(crate) enum Scripted {
    Ask(Box<Ask>),
    PowerOff(usize),
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Faults and users.
    Faults,
    /// Everything is mended; it must settle before the moment given.
    Healing { until: u64 },
    /// It has settled; it must be so still at the moment given.
    Settled { until: u64 },
    /// Nothing may happen any more until the moment given.
    Silence { until: u64 },
    /// The run is over.
    Over,
}

/// The most events a run may have: more is a hot loop.
const EVENT_LIMIT: u64 = 3_000_000;

/// The cluster.
#[derive(Debug)]
pub(crate) struct Sim {
    pub(crate) setup: Setup,
    pub(crate) now: u64,
    pub(crate) queue: Queue<Event>,
    pub(crate) net: Net,
    pub(crate) held: Vec<(Way, Box<Message>)>,
    pub(crate) store: Store,
    pub(crate) store_faults: StoreFaults,
    pub(crate) hosts: Vec<Host>,
    pub(crate) schedulers: Vec<SchedulerHost>,
    pub(crate) users: Users,
    pub(crate) nemesis: Nemesis,
    pub(crate) check: Check,
    pub(crate) cover: Cover,
    pub(crate) trace: Trace,
    pub(crate) stage: Stage,
    /// What had been done when the silence began.
    pub(crate) quiet: Counts,
    /// Commands of the past, to be replayed.
    pub(crate) past: Vec<(usize, Message)>,
    pub(crate) timing: Rng,
    pub(crate) chance: Rng,
    pub(crate) store_chance: Rng,
}

/// What is wrong with the store at present.
#[expect(clippy::struct_field_names, reason = "each says until when")]
#[derive(Debug, Default)]
pub(crate) struct StoreFaults {
    pub(crate) down_until: u64,
    pub(crate) slow_until: u64,
    pub(crate) unsure_until: u64,
    pub(crate) paused_until: u64,
}

impl Sim {
    /// A cluster in which nothing has happened yet.
    pub(crate) fn new(setup: Setup, readable: bool) -> Self {
        let seed = setup.seed;
        let mut timing = Rng::new(seed, Concern::Timing);
        let mut clock = || {
            let (slow, fast) = Clock::RATES;
            let start = timing.between(0, 1_000_000);
            Clock::new(start, timing.between(slow, fast), 1_700_000_000_000 + start)
        };
        let store = Store::new(clock());
        let schedulers: Vec<_> =
            (0..setup.schedulers).map(|_| SchedulerHost::new(clock())).collect();
        let hosts = (0..setup.nodes)
            .map(|node| Host::new(setup.facts(node), clock(), node % setup.schedulers.max(1)))
            .collect();
        let mut sim = Self {
            now: 0,
            queue: Queue::new(),
            net: Net::new(Rng::new(seed, Concern::Network)),
            held: Vec::new(),
            store,
            store_faults: StoreFaults::default(),
            hosts,
            schedulers,
            users: Users::new(&setup),
            nemesis: Nemesis::new(&setup),
            check: Check::new(&setup),
            cover: Cover::default(),
            trace: Trace::new(readable),
            stage: Stage::Faults,
            quiet: Counts::default(),
            past: Vec::new(),
            timing,
            chance: Rng::new(seed, Concern::Runtime),
            store_chance: Rng::new(seed, Concern::Store),
            setup,
        };
        sim.plan_start();
        sim
    }

    fn plan_start(&mut self) {
        for scheduler in 0..self.schedulers.len() {
            let at = self.timing.below(300);
            self.queue.push(at, Event::SchedulerStart { scheduler, lives: 0 });
        }
        for node in 0..self.hosts.len() {
            let at = self.timing.below(1000);
            self.queue.push(at, Event::WatchdogStart { node, boot: 1 });
            self.queue.push(at + 1, Event::AgentStart { node, lives: 0 });
        }
        self.queue.push(500, Event::UserAct);
        self.queue.push(3_000, Event::Nemesis);
        self.queue.push(20_000, Event::BackUp);
        self.queue.push(self.setup.faults_ms, Event::Heal);
    }

    /// Lets everything happen until the run is over or something forbidden has happened.
    pub(crate) fn run(&mut self) {
        while let Some((at, event)) = self.queue.pop() {
            self.now = at;
            self.trace.count();
            self.trace.note(at);
            self.happen(event);
            if self.check.violated() || self.stage == Stage::Over {
                return;
            }
            if self.trace.events() > EVENT_LIMIT {
                let seconds = at / 1000;
                self.check.violate(at, "I16", || {
                    format!("more than {EVENT_LIMIT} events in {seconds} virtual seconds")
                });
                return;
            }
        }
    }

    fn happen(&mut self, event: Event) {
        if let Some(later) = self.stands_still(&event) {
            self.queue.push(later, event);
            return;
        }
        match event {
            Event::SchedulerStart { scheduler, lives } => self.start_scheduler(scheduler, lives),
            Event::SchedulerTick { scheduler, life } => self.scheduler_tick(scheduler, life),
            Event::StoreExecute { scheduler, life, id, call, given } => {
                self.store_execute(scheduler, life, (id, given), call);
            }
            Event::StoreReply { scheduler, life, id, reply } => {
                self.store_replied(scheduler, life, id, *reply);
            }
            Event::Remember { scheduler, high } => {
                if let Some(host) = self.schedulers.get_mut(scheduler) {
                    host.high = Some(high);
                }
            }
            Event::Deliver(message) => self.deliver(*message),
            Event::UpTimeout { node, life, call } => self.up_unanswered(node, life, call),
            Event::ProbeTimeout { scheduler, life, call } => {
                let found = persys_cluster::input::Probe::Silent;
                self.probe_answered(scheduler, life, call, found);
            }
            Event::OrderTimeout { scheduler, life, number } => {
                self.order_unanswered(scheduler, life, number);
            }
            Event::Actions { scheduler, life, workload, epoch } => {
                self.actions_told(scheduler, life, workload, epoch);
            }
            event => self.happen_on_host(event),
        }
    }

    fn happen_on_host(&mut self, event: Event) {
        match event {
            Event::AgentStart { node, lives } => self.start_agent(node, lives),
            Event::AgentTick { node, life } => self.agent_tick(node, life),
            Event::LedgerWrite { node, life, round, changes } => {
                self.ledger_write(node, life, round, &changes);
            }
            Event::ObserveRead { node, life, look } => self.observe_read(node, life, look),
            Event::ObserveDone { node, life, look, observation } => {
                self.observe_done(node, life, look, observation);
            }
            Event::Probed { node, life, probing } => self.probe_done(node, life, probing),
            Event::Stirred { node, workload } => {
                self.agent_input(node, Input::Stirred(Some(workload)));
            }
            Event::VerbCarried { node, boot, life, run, broken } => {
                self.verb_carried(node, boot, life, run, broken);
            }
            Event::VerbDone { node, life, verb, workload, outcome } => {
                self.verb_done(node, life, verb, workload, outcome);
            }
            Event::WatchdogStart { node, boot } => self.start_watchdog(node, boot),
            Event::WatchdogTick { node, life } => self.watchdog_tick(node, life),
            Event::WatchdogStop { node, boot, workload } => {
                self.watchdog_stop(node, boot, &workload);
            }
            Event::Exit { node, boot, workload, starts } => {
                self.job_ended(node, boot, &workload, starts);
            }
            Event::PowerOn { node } => self.power_on(node),
            event => self.happen_by_contract(event),
        }
    }

    fn happen_by_contract(&mut self, event: Event) {
        match event {
            Event::ContractTick { node, life } => self.contract_tick(node, life),
            Event::ContractTask { node, life, boot, workload } => {
                self.contract_task(node, (life, boot), workload);
            }
            Event::ContractUpTimeout { node, life, call } => {
                self.contract_up_unanswered(node, life, call);
            }
            Event::ContractWake { scheduler, life } => self.contract_work(scheduler, life),
            Event::ContractTimeout { scheduler, life, call } => {
                self.contract_unanswered(scheduler, life, call);
            }
            event => self.happen_around(event),
        }
    }

    fn happen_around(&mut self, event: Event) {
        match event {
            Event::UserAct => self.user_act(),
            Event::OpTimeout { op } => self.op_timeout(op),
            Event::Nemesis => self.strike(),
            Event::Cure(cure) => self.cure(cure),
            Event::BackUp => {
                self.look_inside();
                self.store.back_up();
                if self.stage == Stage::Faults {
                    self.queue.push(self.now + 25_000, Event::BackUp);
                }
            }
            Event::Heal => self.heal(),
            Event::Operate => self.operate(),
            Event::Scripted(Scripted::Ask(ask)) => self.request(*ask, None),
            Event::Scripted(Scripted::PowerOff(node)) => self.power_off(node),
            _ => {}
        }
    }

    /// When the process this event is for goes on, if it stands still.
    fn stands_still(&self, event: &Event) -> Option<u64> {
        let until = match event {
            Event::SchedulerTick { scheduler, .. }
            | Event::StoreReply { scheduler, .. }
            | Event::ProbeTimeout { scheduler, .. }
            | Event::OrderTimeout { scheduler, .. }
            | Event::ContractWake { scheduler, .. }
            | Event::ContractTimeout { scheduler, .. }
            | Event::Actions { scheduler, .. } => self.schedulers.get(*scheduler)?.paused_until,
            Event::AgentTick { node, .. }
            | Event::UpTimeout { node, .. }
            | Event::LedgerWrite { node, .. }
            | Event::ObserveDone { node, .. }
            | Event::Probed { node, .. }
            | Event::Stirred { node, .. }
            | Event::VerbDone { node, .. } => self.hosts.get(*node)?.agent.as_ref()?.paused_until,
            Event::ContractTick { node, .. }
            | Event::ContractTask { node, .. }
            | Event::ContractUpTimeout { node, .. } => self.hosts.get(*node)?.agent_paused_until(),
            Event::Deliver(message) => match &**message {
                Message::Up { scheduler, .. }
                | Message::DownAnswer { scheduler, .. }
                | Message::ProbeAnswer { scheduler, .. }
                | Message::Ask { scheduler, .. }
                | Message::ContractUp { scheduler, .. }
                | Message::ContractAnswer { scheduler, .. }
                | Message::Impostor { scheduler, .. } => {
                    self.schedulers.get(*scheduler)?.paused_until
                }
                Message::UpAnswer { node, .. }
                | Message::Down { node, .. }
                | Message::Probe { node, .. } => {
                    self.hosts.get(*node)?.agent.as_ref()?.paused_until
                }
                Message::Contract { node, .. } | Message::ContractUpAnswer { node, .. } => {
                    self.hosts.get(*node)?.agent_paused_until()
                }
                Message::AskAnswer { .. } => 0,
            },
            _ => 0,
        };
        (until > self.now).then_some(until)
    }
}
