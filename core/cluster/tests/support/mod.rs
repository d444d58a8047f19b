//! A scheduler with agents that do as they are told, driven by hand: no faults, no delays, every
//! unit durable at once. The simulator has the faults; here a story is told in a few lines.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    clippy::struct_excessive_bools,
    reason = "shared by several test binaries"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_cluster::effects::{Effects, Outbound, Reply};
use persys_cluster::input::{Ask, Input, Probe, RequestId, Undelivered};
use persys_cluster::record::{Snapshot, Unit, Write};
use persys_cluster::settings::Settings;
use persys_cluster::world::World;
use persys_model::assignment::Assignment;
use persys_model::audit::AuditRecord;
use persys_model::command::{Answer, Command, Order};
use persys_model::event::{Author, Event};
use persys_model::failure::Failure;
use persys_model::history::{Body, Revision};
use persys_model::id::{NodeId, RevisionId, VolumeName, WorkloadId};
use persys_model::inventory::{Held, Inventory, Report, State, Tombstone};
use persys_model::link::{Beat, BeatAnswer, Registration, RegistrationAnswer, Removal, Usage};
use persys_model::mode::Mode;
use persys_model::node::{NodeFacts, Pool};
use persys_model::phase::Phase;
use persys_model::reconciliation::Reconciliation;
use persys_model::resources::{Compute, Disk, Resources};
use persys_model::spec::container::RestartPolicy;
use persys_model::spec::volume::{AccessMode, ManagedVolume, VolumeDriver};
use persys_model::spec::{ContainerSpec, Kind, Placement, Spec, WorkloadType};
use persys_model::time::{Millis, Now};
use persys_model::token::{Epoch, Session, Term};
use persys_model::workload::Desired;

pub fn node_id(n: usize) -> NodeId {
    NodeId::new(&format!("n{n}")).unwrap()
}

pub fn workload_id(name: &str) -> WorkloadId {
    WorkloadId::new(name).unwrap()
}

pub fn facts(id: &NodeId, cpu: u64, memory: u64) -> NodeFacts {
    NodeFacts {
        id: id.clone(),
        host: Arc::from(format!("machine-{id}")),
        incarnation: Arc::from("life-1"),
        endpoint: Arc::from("127.0.0.1:50051"),
        capacity: Compute::new(cpu, memory),
        pools: vec![Pool::alone(persys_model::id::PoolName::new("root").unwrap(), 100)],
        types: WorkloadType::ALL.into_iter().collect(),
        drivers: [VolumeDriver::Local, VolumeDriver::CephRbd].map(VolumeDriver::name).into(),
        labels: BTreeMap::new(),
        fence: true,
        pauses: true,
        checks_health: true,
        signals: true,
        addresses: true,
        missing: BTreeMap::new(),
    }
}

/// A container that reserves this much.
pub fn container(cpu: u64, memory: u64) -> Spec {
    Spec {
        kind: Kind::Container(ContainerSpec {
            image: Arc::from("busybox"),
            restart: RestartPolicy::Always,
            ..ContainerSpec::default()
        }),
        resources: Resources { compute: Compute::new(cpu, memory), disk: Disk::none() },
        placement: Placement::default(),
        metadata: BTreeMap::new(),
        secrets: Vec::new(),
        stop_grace_ms: None,
        health: persys_model::spec::health::HealthChecks::default(),
    }
}

/// A volume of two GiB.
pub fn volume(driver: VolumeDriver, name: &str, retain: bool) -> ManagedVolume {
    ManagedVolume {
        name: VolumeName::new(name).unwrap(),
        driver,
        size_gib: 2,
        access: AccessMode::ReadWriteOnce,
        fs_type: Arc::from(""),
        mount_path: Arc::from("/data"),
        read_only: false,
        retain,
    }
}

/// A container with this volume.
pub fn with_volume(volume: ManagedVolume) -> Spec {
    let mut spec = container(500, 512);
    spec.resources.disk.add(None, volume.size_gib);
    if let Kind::Container(container) = &mut spec.kind {
        container.managed_volumes = vec![volume];
    }
    spec
}

/// What an obedient agent holds.
#[derive(Debug, Default, Clone)]
pub struct Agent {
    pub session: Session,
    pub seq: u64,
    pub held: BTreeMap<WorkloadId, Held>,
    /// Decision, and whether data went too.
    pub tombstones: BTreeMap<WorkloadId, (Epoch, bool)>,
    pub incarnation: u64,
    /// Removals by the answer to a heartbeat that the next one tells.
    pub unheard: Vec<Tombstone>,
    /// The latest mark of the store that it was given.
    pub mark: Option<persys_model::store_mark::StoreMark>,
}

/// A world, its store and its agents.
pub struct Cluster {
    pub world: World,
    pub settings: Settings,
    pub now: Now,
    pub agents: BTreeMap<NodeId, Agent>,
    pub facts: BTreeMap<NodeId, NodeFacts>,
    pub store: Store,
    pub replies: BTreeMap<RequestId, Reply>,
    pub registrations: BTreeMap<RequestId, RegistrationAnswer>,
    pub beats: BTreeMap<RequestId, BeatAnswer>,
    pub commands: Vec<(NodeId, Command)>,
    pub probes: Vec<(NodeId, Session, Millis)>,
    /// Workloads whose last actions were asked for.
    pub actions: Vec<(WorkloadId, Epoch)>,
    /// Nodes that hear nothing.
    pub deaf: Vec<NodeId>,
    /// What a probe of such a node finds.
    pub found: Probe,
    /// Nodes that cannot be called; their heartbeats arrive.
    pub undialled: Vec<NodeId>,
    /// Orders to them may have arrived all the same.
    pub unsure: bool,
    /// Nobody is told that orders to them were refused.
    pub silent_refusals: bool,
    /// Orders to them.
    pub refused: Vec<(NodeId, Command)>,
    /// Runtimes that do not answer.
    pub down: BTreeMap<NodeId, BTreeMap<WorkloadType, Arc<str>>>,
    /// The state agents report of what they are told to run.
    pub starts_as: State,
    /// Agents obey removals in the answers to heartbeats.
    pub proves: bool,
    /// They say so, and do not.
    pub ignores_removals: bool,
    /// Agents neither carry out removals nor answer them.
    pub never_removes: bool,
    /// Revisions that fail, and whether what ran before them is left alone.
    pub failing: BTreeMap<RevisionId, (Failure, bool)>,
    next_request: u64,
}

/// What the units wrote, as a store would hold it.
#[derive(Debug, Default, Clone)]
pub struct Store {
    pub snapshot: Snapshot,
    pub events: Vec<Arc<Event>>,
    pub audit: Vec<Arc<AuditRecord>>,
    pub outcomes: BTreeMap<WorkloadId, Arc<Reconciliation>>,
    /// Earlier revisions, and their bodies.
    pub revisions: BTreeMap<(WorkloadId, u32), Arc<Revision>>,
    pub bodies: BTreeMap<(WorkloadId, RevisionId), Arc<Body>>,
    pub writes: usize,
}

impl Store {
    pub fn apply(&mut self, unit: &Unit) {
        self.snapshot.head = Some(unit.head.clone());
        for write in &unit.writes {
            self.writes += 1;
            let s = &mut self.snapshot;
            match write {
                Write::PutNode(node) => {
                    s.nodes.retain(|n| n.facts.id != node.facts.id);
                    s.nodes.push(Arc::clone(node));
                }
                Write::DeleteNode(id) => s.nodes.retain(|n| n.facts.id != *id),
                Write::PutLease(lease) => {
                    s.leases.retain(|l| l.node != lease.node);
                    s.leases.push(Arc::clone(lease));
                }
                Write::DeleteLease(id) => s.leases.retain(|l| l.node != *id),
                Write::PutReconciliation(one) => {
                    self.outcomes.insert(one.workload.clone(), Arc::clone(one));
                }
                Write::DeleteReconciliation(id) => {
                    self.outcomes.remove(id);
                }
                Write::PutWorkload(workload) => {
                    s.workloads.retain(|w| w.id != workload.id);
                    s.workloads.push(Arc::clone(workload));
                }
                Write::DeleteWorkload(id) => s.workloads.retain(|w| w.id != *id),
                Write::PutAssignment(assignment) => {
                    s.assignments.retain(|a| a.workload != assignment.workload);
                    s.assignments.push(Arc::clone(assignment));
                }
                Write::DeleteAssignment(id) => s.assignments.retain(|a| a.workload != *id),
                Write::PutRetry(retry) => {
                    s.retries.retain(|r| r.workload != retry.workload);
                    s.retries.push(Arc::clone(retry));
                }
                Write::DeleteRetry(id) => s.retries.retain(|r| r.workload != *id),
                Write::PutGrave(grave) => {
                    s.graves.retain(|g| (&g.node, &g.workload) != (&grave.node, &grave.workload));
                    s.graves.push(Arc::clone(grave));
                }
                Write::DeleteGrave(node, id) => {
                    s.graves.retain(|g| (&g.node, &g.workload) != (node, id));
                }
                Write::PutDrift(drift) => {
                    s.drifts.retain(|d| {
                        (&d.node, &d.workload, d.kind) != (&drift.node, &drift.workload, drift.kind)
                    });
                    s.drifts.push(Arc::clone(drift));
                }
                Write::DeleteDrift(node, id, kind) => {
                    s.drifts.retain(|d| (&d.node, &d.workload, d.kind) != (node, id, *kind));
                }
                Write::PutEntry(entry) => {
                    s.entries.retain(|e| e.key() != entry.key());
                    s.entries.push(Arc::clone(entry));
                }
                Write::DeleteEntry(key) => s.entries.retain(|e| e.key() != *key),
                Write::PutVolume(volume) => {
                    s.volumes.retain(|v| v.key != volume.key);
                    s.volumes.push(Arc::clone(volume));
                }
                Write::DeleteVolume(key) => s.volumes.retain(|v| v.key != *key),
                Write::PutAttachment(one) => {
                    let key = (&one.node, &one.workload, &one.volume);
                    s.attachments.retain(|a| (&a.node, &a.workload, &a.volume) != key);
                    s.attachments.push(Arc::clone(one));
                }
                Write::DeleteAttachment(node, id, key) => {
                    s.attachments.retain(|a| (&a.node, &a.workload, &a.volume) != (node, id, key));
                }
                Write::PutRevision(one) => {
                    self.revisions.insert((one.workload.clone(), one.number), Arc::clone(one));
                }
                Write::DeleteRevision(id, number) => {
                    self.revisions.remove(&(id.clone(), *number)).expect("it is there");
                }
                Write::PutBody(one) => {
                    let key = (one.workload.clone(), one.content.clone());
                    self.bodies.insert(key, Arc::clone(one));
                }
                Write::DeleteBody(id, content) => {
                    self.bodies.remove(&(id.clone(), content.clone())).expect("it is there");
                }
                Write::PutEvent(event) => self.events.push(Arc::clone(event)),
                Write::PutAudit(record) => self.audit.push(Arc::clone(record)),
            }
        }
    }
}

impl Cluster {
    pub fn new(settings: Settings) -> Self {
        let now = Now::at(1_000_000);
        let (mut world, effects) = World::open(
            settings.clone(),
            Term(1),
            Snapshot::default(),
            None,
            Arc::from("test"),
            now,
        );
        world.set_leads_until(Millis(u64::MAX));
        let mut cluster = Self {
            world,
            settings,
            now,
            agents: BTreeMap::new(),
            facts: BTreeMap::new(),
            store: Store::default(),
            replies: BTreeMap::new(),
            registrations: BTreeMap::new(),
            beats: BTreeMap::new(),
            commands: Vec::new(),
            probes: Vec::new(),
            actions: Vec::new(),
            deaf: Vec::new(),
            found: Probe::Silent,
            undialled: Vec::new(),
            unsure: false,
            silent_refusals: false,
            refused: Vec::new(),
            down: BTreeMap::new(),
            starts_as: State::Running,
            proves: false,
            ignores_removals: false,
            never_removes: false,
            failing: BTreeMap::new(),
            next_request: 0,
        };
        cluster.absorb(effects);
        cluster
    }

    /// Nodes `n0`.. of this size, registered.
    pub fn with_nodes(count: usize, cpu: u64, memory: u64) -> Self {
        let mut cluster = Self::new(Settings::default());
        for n in 0..count {
            cluster.join(facts(&node_id(n), cpu, memory));
        }
        cluster
    }

    pub fn join(&mut self, facts: NodeFacts) -> RegistrationAnswer {
        let id = facts.id.clone();
        self.facts.insert(id.clone(), facts);
        self.agents.entry(id.clone()).or_default();
        self.register(&id)
    }

    pub fn inventory(&self, id: &NodeId) -> Inventory {
        let agent = &self.agents[id];
        Inventory {
            held: agent.held.values().cloned().collect(),
            tombstones: agent
                .tombstones
                .iter()
                .map(|(workload, (epoch, purged))| Tombstone {
                    workload: workload.clone(),
                    epoch: *epoch,
                    purged: *purged,
                })
                .collect(),
            mark: agent.mark.clone(),
        }
    }

    /// A new life of an agent.
    pub fn register(&mut self, id: &NodeId) -> RegistrationAnswer {
        let agent = self.agents.get_mut(id).unwrap();
        agent.incarnation += 1;
        let mut facts = self.facts[id].clone();
        facts.incarnation = Arc::from(format!("life-{}", agent.incarnation));
        let inventory = self.inventory(id);
        let request = self.request();
        let registration = Registration { facts, inventory, term: Term(0) };
        self.step(Input::Register(request, registration));
        let answer = self.registrations[&request].clone();
        if let RegistrationAnswer::Accepted { session, .. } = &answer {
            let agent = self.agents.get_mut(id).unwrap();
            agent.session = *session;
            agent.seq = 0;
        }
        self.obey();
        answer
    }

    pub fn request(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request)
    }

    pub fn step(&mut self, input: Input) {
        let effects = self.world.step(input, self.now);
        self.absorb(effects);
    }

    /// Makes units durable at once, and collects what goes out.
    pub fn absorb(&mut self, effects: Effects) {
        let last = effects.units.last().map(|unit| unit.head.seq);
        for unit in &effects.units {
            self.store.apply(unit);
        }
        for message in effects.out {
            match message {
                Outbound::Command(node, command) => self.commands.push((node, command)),
                Outbound::Actions { workload, epoch, .. } => {
                    self.actions.push((workload, epoch));
                }
                Outbound::Probe(node, session, asked) => {
                    self.probes.push((node, session, asked));
                }
                Outbound::Registered(request, answer) => {
                    self.registrations.insert(request, answer);
                }
                Outbound::Beat(request, answer) => {
                    self.beats.insert(request, answer);
                }
                Outbound::Reply(request, reply) => {
                    self.replies.insert(request, reply);
                }
                Outbound::Publish(_) | Outbound::Entries(_) => {}
            }
        }
        if let Some(last) = last {
            let effects = self.world.step(Input::Committed(last), self.now);
            self.absorb(effects);
        }
        assert_eq!(self.world.check(), Vec::<String>::new());
    }

    /// Agents carry out what they were sent, and report.
    pub fn obey(&mut self) {
        while !self.commands.is_empty() {
            for (node, command) in std::mem::take(&mut self.commands) {
                if self.undialled.contains(&node) {
                    self.refuse_call(node, command);
                } else if !self.deaf.contains(&node) {
                    self.carry_out(&node, command);
                }
            }
        }
    }

    fn refuse_call(&mut self, node: NodeId, command: Command) {
        self.refused.push((node.clone(), command.clone()));
        if self.silent_refusals {
            return;
        }
        self.step(Input::Undelivered(Undelivered {
            node,
            session: command.session,
            workload: command.workload,
            epoch: command.epoch,
            may_have_arrived: self.unsure,
            why: Arc::from("connection refused"),
        }));
    }

    /// A command arrives late.
    pub fn deliver(&mut self, node: &NodeId, command: Command) {
        self.carry_out(node, command);
    }

    fn carry_out(&mut self, node: &NodeId, command: Command) {
        let agent = self.agents.get_mut(node).unwrap();
        assert!(command.session >= agent.session, "a command for an earlier life");
        if command.session != agent.session {
            // It refuses, and is told everything in its next life.
            return;
        }
        let (workload, epoch, session) = (command.workload, command.epoch, command.session);
        let answer = match command.order {
            Order::Apply(apply) => {
                let state = match (apply.run, apply.pause) {
                    (false, _) => State::Stopped,
                    (true, true) => State::Paused,
                    (true, false) => match self.failing.get(&apply.revision) {
                        Some((failure, _)) => State::Failed(failure.clone()),
                        None => self.starts_as.clone(),
                    },
                };
                let before = agent.held.get(&workload);
                let kept = self.failing.get(&apply.revision).is_some_and(|(_, kept)| *kept);
                // What ran on after an earlier failure still does.
                let runs = before.and_then(|held| {
                    let running = matches!(held.report.state, State::Running);
                    if running { Some(held.revision.clone()) } else { held.report.runs.clone() }
                });
                let runs = runs.filter(|_| kept);
                let report = Report {
                    workload: workload.clone(),
                    epoch,
                    state,
                    restarts: 0,
                    confirmed: true,
                    progress: 0,
                    fetched: None,
                    trouble: None,
                    runs,
                    health: None,
                };
                agent.held.insert(
                    workload.clone(),
                    Held {
                        report,
                        revision: apply.revision,
                        run: apply.run,
                        pause: apply.pause,
                        spec: Some(apply.spec),
                    },
                );
                Answer::Accepted
            }
            Order::Remove { .. } if self.never_removes => return,
            Order::Remove { purge } => {
                agent.held.remove(&workload);
                agent.tombstones.insert(workload.clone(), (epoch, purge));
                Answer::Removed { epoch }
            }
        };
        self.step(Input::Answered {
            node: node.clone(),
            session,
            workload,
            epoch,
            answer,
            task: None,
        });
        self.beat(node);
    }

    /// A beat that tells the state of everything the agent holds.
    pub fn beat(&mut self, id: &NodeId) -> BeatAnswer {
        self.beat_of(id, None)
    }

    /// The same of a machine that is busy, or not.
    pub fn beat_of(&mut self, id: &NodeId, busy: Option<&str>) -> BeatAnswer {
        let agent = self.agents.get_mut(id).unwrap();
        agent.seq += 1;
        let beat = Beat {
            node: id.clone(),
            session: agent.session,
            seq: agent.seq,
            reports: agent.held.values().map(|held| held.report.clone()).collect(),
            removed: std::mem::take(&mut agent.unheard),
            inventory: None,
            tasks: Vec::new(),
            usage: Usage::default(),
            limits: BTreeMap::new(),
            busy: busy.map(Arc::from),
            down: self.down.get(id).cloned().unwrap_or_default(),
            takes_removals: self.proves,
        };
        let request = self.request();
        self.step(Input::Beat(request, beat));
        let answer = self.beats[&request].clone();
        match &answer {
            BeatAnswer::Heard { removals, mark, .. } => {
                let agent = self.agents.get_mut(id).unwrap();
                agent.mark = mark.clone().or(agent.mark.take());
                self.obey_removals(id, removals);
            }
            BeatAnswer::RegisterAgain { .. } => drop(self.register(id)),
        }
        answer
    }

    /// Removals that came with the answer to a heartbeat.
    fn obey_removals(&mut self, id: &NodeId, removals: &[Removal]) {
        assert!(removals.is_empty() || self.proves, "an older agent is sent none");
        if self.ignores_removals {
            return;
        }
        let agent = self.agents.get_mut(id).unwrap();
        for Removal { workload, epoch } in removals {
            agent.held.remove(workload);
            agent.tombstones.insert(workload.clone(), (*epoch, false));
            let (workload, epoch) = (workload.clone(), *epoch);
            agent.unheard.push(Tombstone { workload, epoch, purged: false });
        }
    }

    /// A beat with all the agent holds.
    pub fn tell_all(&mut self, id: &NodeId) {
        let inventory = self.inventory(id);
        let agent = self.agents.get_mut(id).unwrap();
        agent.seq += 1;
        let beat = Beat {
            node: id.clone(),
            session: agent.session,
            seq: agent.seq,
            reports: Vec::new(),
            removed: Vec::new(),
            inventory: Some(inventory),
            tasks: Vec::new(),
            usage: Usage::default(),
            limits: BTreeMap::new(),
            busy: None,
            down: BTreeMap::new(),
            takes_removals: self.proves,
        };
        let request = self.request();
        self.step(Input::Beat(request, beat));
        self.obey();
    }

    pub fn ask(&mut self, ask: Ask) -> Reply {
        let request = self.request();
        self.step(Input::Ask(request, Arc::new(Author::new("operator ann")), ask));
        let reply = self.replies[&request].clone();
        self.obey();
        reply
    }

    pub fn apply(&mut self, name: &str, spec: Spec, revision: &str) -> Reply {
        self.ask(Ask::Apply {
            workload: workload_id(name),
            spec: Some(Arc::new(spec)),
            revision: Some(RevisionId::new(revision).unwrap()),
            desired: Desired::Running,
        })
    }

    pub fn set_desired(&mut self, name: &str, desired: Desired) -> Reply {
        let workload = workload_id(name);
        self.ask(Ask::Apply { workload, spec: None, revision: None, desired })
    }

    /// Lets time pass; nodes that are not deaf beat.
    pub fn pass(&mut self, ms: u64) {
        let mut left = ms;
        while left > 0 {
            let leap = left.min(500);
            left -= leap;
            self.now.mono = self.now.mono.plus(leap);
            self.now.wall.0 += leap;
            let alive: Vec<_> =
                self.agents.keys().filter(|id| !self.deaf.contains(id)).cloned().collect();
            for id in alive {
                if self.beat(&id) == (BeatAnswer::RegisterAgain { term: self.world.term() }) {
                    self.register(&id);
                }
            }
            self.step(Input::Tick);
            self.answer_probes();
            for (workload, epoch) in std::mem::take(&mut self.actions) {
                let text = Arc::from("apply_workload running since then (task-1)");
                self.step(Input::Actions { workload, epoch, text });
            }
            self.obey();
        }
    }

    fn answer_probes(&mut self) {
        for (node, session, asked) in std::mem::take(&mut self.probes) {
            let found = if self.deaf.contains(&node) {
                self.found
            } else if self.undialled.contains(&node) {
                Probe::Refused
            } else {
                Probe::Answered
            };
            self.step(Input::Probed { node, session, asked, found });
        }
    }

    /// The agent says that a workload is so.
    pub fn say(&mut self, node: &NodeId, name: &str, state: State) {
        let agent = self.agents.get_mut(node).unwrap();
        agent.held.get_mut(&workload_id(name)).unwrap().report.state = state;
        self.beat(node);
    }

    pub fn assignment(&self, name: &str) -> Assignment {
        self.world.workload(&workload_id(name)).unwrap().assignment.clone()
    }

    pub fn phase(&self, name: &str) -> Option<Phase> {
        self.world.workload(&workload_id(name)).map(|view| view.assignment.phase)
    }

    pub fn node_of(&self, name: &str) -> Option<NodeId> {
        self.assignment(name).place.map(|place| place.node)
    }

    /// The same cluster as a new leader would read it.
    pub fn reopen(&mut self) {
        let (mut world, effects) = World::open(
            self.settings.clone(),
            Term(self.world.term().0 + 1),
            self.store.snapshot.clone(),
            Some(self.world.high_water()),
            Arc::from("test"),
            self.now,
        );
        world.set_leads_until(Millis(u64::MAX));
        self.world = world;
        self.absorb(effects);
    }
}

/// The store holds `snapshot` again and the host remembers more; all nodes are heard.
pub fn put_back(c: &mut Cluster, mut snapshot: Snapshot) {
    let known = c.world.high_water();
    if let Some(head) = &mut snapshot.head {
        head.rebuilding = true;
    }
    c.store.snapshot = snapshot.clone();
    let (mut world, effects) =
        World::open(Settings::default(), Term(1), snapshot, Some(known), Arc::from("x"), c.now);
    world.set_leads_until(Millis(u64::MAX));
    c.world = world;
    c.absorb(effects);
    assert_eq!(c.world.mode().0, Mode::Recovery);
    c.pass(3_000);
}
