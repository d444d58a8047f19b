//! What users and operators ask for.
//!
//! One request per workload or node is open at a time; what became of each is kept, so that the
//! checker can tell what may be in the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_cluster::effects::{RefusalCode, Reply};
use persys_cluster::input::{Ask, OrphanVerdict, Recovery, Rollback};
use persys_model::id::{NodeId, RevisionId, WorkloadId};
use persys_model::labels::{Taint, TaintEffect};
use persys_model::volume::VolumeKey;
use persys_model::workload::Desired;

use crate::check::shadow;
use crate::net::Peer;
use crate::rng::{Concern, Rng};
use crate::setup::{Setup, node_id};
use crate::sim::{Event, Sim, Stage};
use crate::specs::Recipe;
use crate::store::Contents;
use crate::wire::Message;

/// All users.
#[derive(Debug)]
pub(crate) struct Users {
    rng: Rng,
    pub(crate) workloads: Vec<Owned>,
    /// Requests without an answer.
    pub(crate) open: BTreeMap<u64, Request>,
    next: u64,
    /// The scheduler that answered last.
    target: usize,
}

/// A workload and what its user believes of it.
#[derive(Debug)]
pub(crate) struct Owned {
    pub(crate) id: WorkloadId,
    pub(crate) recipe: Recipe,
    pub(crate) version: u64,
    pub(crate) present: bool,
}

/// A request on its way.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) ask: Ask,
    pub(crate) issued: u64,
    /// Schedulers that said they do not lead.
    refusals: usize,
    /// The one it must go to, if it matters.
    only: Option<usize>,
}

impl Users {
    pub(crate) fn new(setup: &Setup) -> Self {
        let mut rng = Rng::new(setup.seed, Concern::Users);
        let mut workloads = Vec::new();
        for number in 0..setup.workloads {
            let exclusive = rng.chance(180);
            let recipe = Recipe { volume: number, ..Recipe::draw(&mut rng, exclusive) };
            let id =
                WorkloadId::new(&format!("w{number}")).unwrap_or_else(|_| WorkloadId::fixed("w"));
            workloads.push(Owned { id, recipe, version: 0, present: false });
        }
        Self { rng, workloads, open: BTreeMap::new(), next: 0, target: 0 }
    }

    /// Whether a request about this is open.
    pub(crate) fn is_busy(&self, subject: &Subject) -> bool {
        self.open.values().any(|request| Subject::of(&request.ask) == *subject)
    }
}

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    Workload(WorkloadId),
    Node(NodeId),
    Volume(VolumeKey),
    Cluster,
}

impl Subject {
    pub(crate) fn of(ask: &Ask) -> Self {
        match ask {
            Ask::Apply { workload, .. }
            | Ask::Delete(workload)
            | Ask::DeleteWithVolumes(workload)
            | Ask::Retry(workload)
            | Ask::Restart(workload)
            | Ask::Resume(workload)
            | Ask::Orphan(_, workload, _) => Self::Workload(workload.clone()),
            Ask::Rollback(asked) => Self::Workload(asked.workload.clone()),
            Ask::Planned(_, ask) => Self::of(ask),
            Ask::Drain(node, _)
            | Ask::Undrain(node)
            | Ask::Taint(node, _)
            | Ask::Untaint(node, ..)
            | Ask::SetLabel(node, ..)
            | Ask::DeleteLabel(node, _)
            | Ask::ConfirmGone(node)
            | Ask::RemoveNode(node) => Self::Node(node.clone()),
            Ask::CreateVolume(volume, _) => Self::Volume(VolumeKey::of(volume)),
            Ask::DeleteVolume(key) => Self::Volume(key.clone()),
            Ask::ReleaseBrake
            | Ask::CheckDrift(_)
            | Ask::Keep(_)
            | Ask::Forget(_)
            | Ask::Redeem(_)
            | Ask::Refused { .. }
            | Ask::Recover(_) => Self::Cluster,
        }
    }
}

impl Sim {
    /// A user does something.
    pub(crate) fn user_act(&mut self) {
        if self.stage != Stage::Faults {
            return;
        }
        let young = self.users.workloads.iter().any(|owned| owned.version == 0);
        let gap = self.users.rng.gap(self.setup.user_gap_ms);
        self.queue.push(self.now + if young { gap / 4 + 1 } else { gap }, Event::UserAct);
        let mut rng = Rng::new(self.users.rng.next(), Concern::Users);
        let ask = if self.setup.has_shadow() && rng.chance(60) {
            self.choose_shadow(&mut rng)
        } else if young || rng.chance(850) {
            self.choose_for_workload(&mut rng)
        } else {
            self.choose_for_node(&mut rng)
        };
        if let Some(ask) = ask {
            self.request(ask, None);
        }
    }

    fn choose_for_workload(&mut self, rng: &mut Rng) -> Option<Ask> {
        let at = rng.index(self.users.workloads.len());
        let subject = Subject::Workload(self.users.workloads.get(at)?.id.clone());
        if self.users.is_busy(&subject) {
            return None;
        }
        let owned = self.users.workloads.get_mut(at)?;
        let workload = owned.id.clone();
        let volume = owned.recipe.volume();
        if let Some(volume) = volume.filter(|_| rng.chance(if owned.present { 50 } else { 300 })) {
            // Refused as long as anybody uses it.
            return Some(Ask::DeleteVolume(VolumeKey::of(&volume)));
        }
        if !owned.present {
            owned.version += 1;
            owned.recipe.renew(rng);
            return owned.apply(Desired::Running);
        }
        if rng.chance(60) {
            return way_back(&self.store.contents, &workload, rng);
        }
        let bare = |desired| Ask::Apply {
            workload: workload.clone(),
            spec: None,
            revision: None,
            desired,
        };
        Some(match rng.below(100) {
            0..=29 => {
                owned.version += 1;
                owned.recipe.renew(rng);
                return owned.apply(Desired::Running);
            }
            30..=39 => return owned.apply(Desired::Running),
            40..=54 => bare(Desired::Stopped),
            55..=62 => bare(Desired::Running),
            63..=69 => bare(Desired::Paused),
            70..=84 => Ask::Delete(workload),
            85..=88 => Ask::Retry(workload),
            89..=91 => Ask::Restart(workload),
            92..=94 => Ask::Resume(workload),
            _ => return owned.apply(Desired::Stopped),
        })
    }

    fn choose_shadow(&mut self, rng: &mut Rng) -> Option<Ask> {
        if self.users.is_busy(&Subject::Cluster) {
            return None;
        }
        let on = rng.chance(600);
        self.cover.hit(if on { "user: shadow entered" } else { "user: shadow left" });
        Some(Ask::Keep(Arc::new(shadow::namespace(on))))
    }

    fn choose_for_node(&mut self, rng: &mut Rng) -> Option<Ask> {
        let number = rng.index(self.hosts.len());
        let node = node_id(number);
        if self.users.is_busy(&Subject::Node(node.clone())) {
            return None;
        }
        let host = self.hosts.get_mut(number)?;
        let effect =
            if rng.chance(600) { TaintEffect::NoSchedule } else { TaintEffect::PreferNoSchedule };
        Some(match rng.below(20) {
            0..=3 => Ask::Drain(node, Arc::from("maintenance")),
            4..=8 => Ask::Undrain(node),
            9..=10 => {
                let (key, value) = (Arc::from("maintenance"), Arc::from(""));
                Ask::Taint(node, Taint { key, value, effect })
            }
            11..=13 => Ask::Untaint(node, Arc::from("maintenance"), None),
            14 => {
                let zone = if rng.chance(500) { "a" } else { "b" };
                Ask::SetLabel(node, Arc::from("zone"), Arc::from(zone))
            }
            15 => Ask::DeleteLabel(node, Arc::from("zone")),
            // Somebody who stands before the machine and sees that it is off.
            16..=17 if !host.power => {
                host.vouched_gone = true;
                host.given_up = true;
                Ask::ConfirmGone(node)
            }
            18 if !host.power => {
                host.given_up = true;
                Ask::RemoveNode(node)
            }
            19 => Ask::ReleaseBrake,
            _ => return None,
        })
    }

    /// Somebody asks; `only` when one scheduler in particular is meant.
    pub(crate) fn request(&mut self, ask: Ask, only: Option<usize>) {
        self.users.next += 1;
        let op = self.users.next;
        self.trace.tell(self.now, || crate::tell::ask(op, &ask));
        self.check.wishes.asked(&ask);
        if let Ask::Orphan(node, workload, OrphanVerdict::Delete) = &ask {
            self.check.condemned(node, workload);
        }
        if ask == Ask::ReleaseBrake {
            self.check.brake_released(self.now);
        }
        let request = Request { ask, issued: self.now, refusals: 0, only };
        self.users.open.insert(op, request);
        self.queue.push(self.now + self.setup.rpc_ms * 2, Event::OpTimeout { op });
        self.forward(op);
    }

    fn forward(&mut self, op: u64) {
        let Some(request) = self.users.open.get(&op) else { return };
        let scheduler = request.only.unwrap_or(self.users.target);
        let ask = Box::new(request.ask.clone());
        let way = (Peer::Users, Peer::Scheduler(scheduler));
        self.send(way, Message::Ask { op, scheduler, ask });
    }

    /// A user hears of a request; `None` when that scheduler does not lead.
    pub(crate) fn op_answered(&mut self, op: u64, reply: Option<Reply>) {
        let schedulers = self.schedulers.len();
        let Some(request) = self.users.open.get_mut(&op) else { return };
        let Some(reply) = reply else {
            request.refusals += 1;
            self.users.target = (self.users.target + 1) % schedulers.max(1);
            if request.refusals > schedulers || request.only.is_some() {
                self.users.open.remove(&op);
            } else {
                self.forward(op);
            }
            return;
        };
        let Some(request) = self.users.open.remove(&op) else { return };
        self.trace.tell(self.now, || crate::tell::reply(op, &reply));
        match &reply {
            Reply::Done { .. } => {
                self.cover.hit("user: done");
                match &request.ask {
                    Ask::Recover(Recovery::FromAgents) => {
                        self.cover.hit("run: recovered from agents");
                    }
                    Ask::Recover(Recovery::FromSnapshot(_)) => {
                        self.cover.hit("run: recovered from a snapshot");
                    }
                    Ask::Recover(Recovery::AcceptEmpty) => {
                        self.cover.hit("run: recovered by accepting an empty store");
                    }
                    _ => {}
                }
                self.check.wishes.done(&request.ask, request.issued);
                self.believe(&request.ask);
            }
            Reply::Unknown { .. } => {
                self.cover.hit("user: unavailable");
                self.check.wishes.doubt(&request.ask, self.now);
            }
            Reply::Refused { code, .. } => {
                self.cover.hit("user: refused");
                if let (RefusalCode::NotFound, Subject::Workload(id)) =
                    (code, Subject::of(&request.ask))
                    && let Some(owned) = self.users.workloads.iter_mut().find(|o| o.id == id)
                {
                    owned.present = false;
                }
            }
        }
    }

    fn believe(&mut self, ask: &Ask) {
        let (id, present) = match ask {
            Ask::Apply { workload, .. } => (workload, true),
            Ask::Delete(workload) => (workload, false),
            _ => return,
        };
        if let Some(owned) = self.users.workloads.iter_mut().find(|owned| owned.id == *id) {
            owned.present = present;
        }
    }

    /// A user gives up waiting: nobody knows what became of the request.
    pub(crate) fn op_timeout(&mut self, op: u64) {
        if let Some(request) = self.users.open.remove(&op) {
            self.cover.hit("user: no answer");
            self.trace.tell(self.now, || format!("#{op} is not answered"));
            self.check.wishes.doubt(&request.ask, self.now);
            self.users.target = (self.users.target + 1) % self.schedulers.len().max(1);
            if matches!(request.ask, Ask::Apply { .. }) {
                self.believe(&request.ask);
            }
        }
    }

    /// An operator takes care of schedulers that wait for a word after the store lost something.
    pub(crate) fn recover(&mut self) {
        if self.users.is_busy(&Subject::Cluster) {
            return;
        }
        let Some(scheduler) = self.check.recovering(&self.schedulers) else { return };
        let calm = self.stage != Stage::Faults;
        let how = if calm || self.users.rng.chance(850) {
            Recovery::FromAgents
        } else if let Some(copy) = self.store.copy().filter(|_| self.users.rng.chance(500)) {
            Recovery::FromSnapshot(Box::new(copy))
        } else {
            Recovery::AcceptEmpty
        };
        self.request(Ask::Recover(how), Some(scheduler));
    }

    /// An operator decides about something nobody knows.
    pub(crate) fn judge_orphan(&mut self, node: NodeId, workload: WorkloadId) {
        let verdict = match self.users.rng.below(3) {
            0 => OrphanVerdict::Adopt,
            1 => OrphanVerdict::Delete,
            _ => OrphanVerdict::Ignore,
        };
        self.request(Ask::Orphan(node, workload, verdict), None);
    }
}

impl Owned {
    /// The present version, as it is asked for.
    pub(crate) fn apply(&self, desired: Desired) -> Option<Ask> {
        let revision = RevisionId::new(&format!("{}-v{}", self.id, self.version)).ok()?;
        Some(Ask::Apply {
            workload: self.id.clone(),
            spec: Some(Arc::new(self.recipe.spec())),
            revision: Some(revision),
            desired,
        })
    }
}

/// A rollback to one of the revisions that are kept.
fn way_back(contents: &Contents, workload: &WorkloadId, rng: &mut Rng) -> Option<Ask> {
    let kept = contents.revisions.range((workload.clone(), 0)..=(workload.clone(), u32::MAX));
    let kept: Vec<_> = kept.map(|(_, one)| one).collect();
    let one = *rng.pick(&kept)?;
    let body = contents.bodies.get(&(workload.clone(), one.content.clone()))?;
    Some(Ask::Rollback(Rollback {
        workload: workload.clone(),
        number: one.number,
        revision: one.revision.clone(),
        spec: Arc::clone(&body.spec),
    }))
}
