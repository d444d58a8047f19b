//! One scheduler process: it campaigns, loads, leads, and steps down.
//!
//! ```text
//!   Follower ── won ──► Leading, loading ── loaded ──► Leading ─┐ store lost: frozen, answers on
//!      ▲                                                │  ▲    │ store back: load again
//!      └──────────────────── deposed ───────────────────┘  └────┘
//! ```
//!
//! A process that pauses or is deposed can harm nothing: every transaction is guarded by its term
//! and by the head it builds on, and agents refuse the commands of an ended term.

mod lease;

use std::sync::Arc;

use persys_model::mode::Mode;
use persys_model::time::{Millis, Now};
use persys_model::token::{CommitSeq, Term};
use persys_model::zoo::Bug;

use crate::effects::{Effects, Mark, Marks, Outbound};
use crate::input::{Input, RequestId};
use crate::record::{Unit, Write};
use crate::settings::Settings;
use crate::store::{CallId, HighWater, StoreCall, StoreReply};
use crate::world::{Memory, World};

/// Most records in one store transaction. Etcd allows 128 operations; up to ten of them are the head, the
/// events and the audit log, and the dropping of what is old of both.
const MOST_RECORDS: usize = 116;
/// Most events in one store transaction; a store in etcd puts them under a few keys.
const MOST_EVENTS: usize = 240;
/// How soon a call is tried again that the store did not take.
const RETRY_MS: u64 = 200;

/// One thing that happens to a scheduler process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicaInput {
    /// The store answered a call, or its deadline passed.
    Store(CallId, StoreReply),
    /// Something for the scheduler proper: requests, beats, answers, probes.
    /// (`Committed`, `StoreLost`, `Loaded` are made by the replica itself.)
    Cluster(Box<Input>),
    /// The one that leads does not answer: if another took its place, that is worth knowing now.
    LeaderSilent,
    /// Time passed.
    Tick,
}

/// What a scheduler process does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplicaEffects {
    /// Calls to the store. The shell answers each with exactly one reply, at the latest when its
    /// own deadline passes (then `Unknown`, or `Unavailable` when it was surely not sent).
    pub calls: Vec<(CallId, StoreCall)>,
    /// Messages that may go now.
    pub out: Vec<Outbound>,
    /// Callers to be told that this process does not lead.
    pub not_leader: Vec<RequestId>,
    /// How far the store has come: keep it on this host, outside the store. Lazily is enough.
    pub remember: Option<HighWater>,
    /// When to step again if nothing happens before.
    pub wake_at: Option<Millis>,
    /// Rare turns that were taken.
    pub marks: Marks,
}

/// One scheduler process.
#[derive(Debug)]
pub struct Replica {
    candidate: Arc<str>,
    fresh_cluster: Arc<str>,
    known: Option<HighWater>,
    /// True until this process has seen the store by itself: what it remembers comes from its disk.
    fresh: bool,
    /// When this process first heard of another leader.
    follows_since: Option<Millis>,
    settings: Settings,
    role: Role,
    last_call: CallId,
    /// The campaign or renewal under way, and when it was sent.
    lease_call: Option<(CallId, Millis)>,
    lease_due: Millis,
    lease_answered_at: Millis,
    /// Who led when the store last said so, and when that was.
    heard_of: Option<(Arc<str>, Millis)>,
    effects: ReplicaEffects,
}

#[derive(Debug)]
enum Role {
    Follower,
    Leading(Box<Leading>),
}

#[derive(Debug)]
struct Leading {
    term: Term,
    /// Until when this process may count on leading, on its own clock.
    valid_until: Millis,
    /// Renewals in a row that were not answered.
    unheard: u32,
    /// The durable head when the last renewal was sent.
    asked_at: Option<HighWater>,
    /// The cluster; `None` until it is first loaded.
    world: Option<World>,
    /// The load or commit under way.
    work: Option<(CallId, Work)>,
    /// The store must be read before anything is written.
    must_load: bool,
    /// Not before this moment is the store called again.
    work_due: Millis,
    /// The head in the store.
    store_head: CommitSeq,
    /// Units that are not yet on their way.
    pending: Vec<Unit>,
}

impl Leading {
    /// True if the store tells of a head below the one that was durable when it was asked. A store that
    /// is being read is judged by what was read.
    fn went_back(&self, head: Option<&HighWater>) -> bool {
        let (Some(before), Some(head), false) = (&self.asked_at, head, self.reads()) else {
            return false;
        };
        (head.incarnation, head.seq) < (before.incarnation, before.seq)
    }

    /// The head that is surely durable; nothing in recovery, where the store is known to be older.
    fn durable_head(&self) -> Option<HighWater> {
        let world = self.world.as_ref().filter(|world| world.mode().0 != Mode::Recovery)?;
        Some(world.high_water()).filter(|known| known.seq > CommitSeq(0))
    }

    /// Whether the store is being read, or is about to be.
    fn reads(&self) -> bool {
        self.must_load || matches!(self.work, Some((_, Work::Load)))
    }
}

#[derive(Debug, Clone, Copy)]
enum Work {
    Load,
    Commit { through: CommitSeq },
}

impl Replica {
    /// A process that has just started. `candidate` names this life of it and where others reach
    /// it, `<host>:<port>#<life>`;
    /// `fresh_cluster` is the identity to use if the store turns out to be new; `known` is what
    /// this host remembers.
    pub fn start(
        candidate: Arc<str>,
        fresh_cluster: Arc<str>,
        known: Option<HighWater>,
        settings: Settings,
        now: Now,
    ) -> Self {
        Self {
            candidate,
            fresh_cluster,
            known,
            fresh: true,
            follows_since: None,
            settings,
            role: Role::Follower,
            last_call: CallId(0),
            lease_call: None,
            lease_due: now.mono,
            lease_answered_at: now.mono,
            heard_of: None,
            effects: ReplicaEffects::default(),
        }
    }

    /// The name of this life of this process.
    pub fn candidate(&self) -> &str {
        &self.candidate
    }

    /// The numbers it decides by.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The leadership of this process, to be given back when it ends in good order.
    pub fn term(&self) -> Option<Term> {
        match &self.role {
            Role::Leading(leading) => Some(leading.term),
            Role::Follower => None,
        }
    }

    /// The cluster, while this process leads and has loaded it.
    pub fn world(&self) -> Option<&World> {
        match &self.role {
            Role::Follower => None,
            Role::Leading(leading) => leading.world.as_ref(),
        }
    }

    /// Takes in what happened and says what to do.
    pub fn step(&mut self, input: ReplicaInput, now: Now) -> ReplicaEffects {
        match input {
            ReplicaInput::Store(call, reply) => self.store_replied(call, reply, now),
            ReplicaInput::Cluster(input) => self.cluster_input(*input, now),
            ReplicaInput::LeaderSilent => self.ask_sooner(now),
            ReplicaInput::Tick => self.step_world(Input::Tick, now),
        }
        self.see_to_lease(now);
        self.see_to_store(now);
        self.effects.wake_at = self.next_wake(now);
        std::mem::take(&mut self.effects)
    }

    fn next_wake(&mut self, now: Now) -> Option<Millis> {
        let mut wake = self.lease_call.is_none().then_some(self.lease_due);
        let mut earlier = |at: Option<Millis>| {
            wake = match (wake, at) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        };
        earlier(self.effects.wake_at);
        if let Role::Leading(leading) = &self.role {
            let idle = leading.work.is_none() && (leading.must_load || !leading.pending.is_empty());
            earlier(idle.then_some(leading.work_due.max(now.mono)));
        }
        wake
    }

    fn cluster_input(&mut self, input: Input, now: Now) {
        if self.world().is_some() {
            return self.step_world(input, now);
        }
        match input {
            Input::Register(request, _) | Input::Beat(request, _) | Input::Ask(request, ..) => {
                self.effects.not_leader.push(request);
            }
            Input::Answered { .. }
            | Input::Undelivered(_)
            | Input::Actions { .. }
            | Input::Probed { .. }
            | Input::Committed(_)
            | Input::StoreLost { .. }
            | Input::Loaded(_)
            | Input::Tick => {}
        }
    }

    fn step_world(&mut self, input: Input, now: Now) {
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(world) = &mut leading.world else { return };
        world.set_leads_until(leading.valid_until);
        let effects = world.step(input, now);
        if effects.marks.has(Mark::RecoveryEntered) {
            // What was decided on a store that is older than it was is not written.
            leading.pending.clear();
            self.absorb(effects);
            return self.remember();
        }
        self.absorb(effects);
    }

    fn absorb(&mut self, effects: Effects) {
        let Role::Leading(leading) = &mut self.role else { return };
        leading.pending.extend(effects.units);
        leading.must_load |= effects.reload;
        self.effects.out.extend(effects.out);
        self.effects.marks.merge(effects.marks);
        self.effects.wake_at = effects.wake_at;
    }

    /// Loads or commits when there is something to do and nothing under way.
    fn see_to_store(&mut self, now: Now) {
        let known = self.known.clone();
        let Role::Leading(leading) = &mut self.role else { return };
        if leading.work.is_some() || now.mono < leading.work_due {
            return;
        }
        let (call, work) = if leading.must_load {
            // What was decided on a store that turned out otherwise is void.
            leading.pending.clear();
            leading.must_load = false;
            (StoreCall::Load { term: leading.term, known }, Work::Load)
        } else if leading.pending.is_empty() {
            return;
        } else {
            let units = next_batch(&mut leading.pending);
            let through = units.last().map(|unit| unit.head.seq).unwrap_or_default();
            let (term, after) = (leading.term, leading.store_head);
            (StoreCall::Commit { term, after, units }, Work::Commit { through })
        };
        let id = self.call(call);
        if let Role::Leading(leading) = &mut self.role {
            leading.work = Some((id, work));
        }
    }

    fn call(&mut self, call: StoreCall) -> CallId {
        self.last_call = CallId(self.last_call.0 + 1);
        self.effects.calls.push((self.last_call, call));
        self.last_call
    }

    fn store_replied(&mut self, call: CallId, reply: StoreReply, now: Now) {
        if let Some((id, sent_at)) = self.lease_call
            && id == call
        {
            self.lease_call = None;
            return self.lease_replied(reply, sent_at, now);
        }
        let Role::Leading(leading) = &mut self.role else { return };
        if let Some((id, work)) = leading.work
            && id == call
        {
            leading.work = None;
            match work {
                Work::Load => self.load_replied(reply, now),
                Work::Commit { through } => self.commit_replied(&reply, through, now),
            }
        }
    }

    fn lead(&mut self, term: Term, valid_until: Millis, now: Now) {
        self.role = Role::Leading(Box::new(Leading {
            term,
            valid_until,
            unheard: 0,
            asked_at: None,
            world: None,
            work: None,
            must_load: true,
            work_due: now.mono,
            store_head: CommitSeq(0),
            pending: Vec::new(),
        }));
    }

    fn load_replied(&mut self, reply: StoreReply, now: Now) {
        match reply {
            StoreReply::Loaded(snapshot) => {
                let Role::Leading(leading) = &mut self.role else { return };
                if leading.must_load {
                    // The store was lost again since this was asked for: it is read anew.
                    return;
                }
                leading.pending.clear();
                leading.store_head = snapshot.head.as_ref().map_or(CommitSeq(0), |head| head.seq);
                if leading.world.is_some() {
                    self.step_world(Input::Loaded(*snapshot), now);
                } else {
                    let memory = Memory { known: self.known.clone(), fresh: self.fresh };
                    self.fresh = false;
                    let (world, effects) = World::open_as(
                        self.settings.clone(),
                        leading.term,
                        *snapshot,
                        memory,
                        Arc::clone(&self.fresh_cluster),
                        now,
                    );
                    leading.world = Some(world);
                    self.absorb(effects);
                }
                self.remember();
            }
            StoreReply::Deposed => self.step_down(now),
            StoreReply::Won(_)
            | StoreReply::HeldBy(..)
            | StoreReply::Done
            | StoreReply::Renewed(_)
            | StoreReply::Committed
            | StoreReply::HeadMoved
            | StoreReply::Unavailable
            | StoreReply::Unknown => self.lose_store("the store cannot be read", now),
        }
    }

    fn commit_replied(&mut self, reply: &StoreReply, through: CommitSeq, now: Now) {
        let trusting = self.settings.zoo.has(Bug::UnknownMeansDone);
        let reply =
            if trusting && *reply == StoreReply::Unknown { &StoreReply::Committed } else { reply };
        match reply {
            StoreReply::Committed => {
                if let Role::Leading(leading) = &mut self.role {
                    leading.store_head = through;
                    leading.unheard = 0;
                }
                self.step_world(Input::Committed(through), now);
                self.remember();
            }
            StoreReply::Deposed => self.step_down(now),
            StoreReply::HeadMoved => self.lose_store("the store moved on without us", now),
            StoreReply::Won(_)
            | StoreReply::HeldBy(..)
            | StoreReply::Done
            | StoreReply::Renewed(_)
            | StoreReply::Loaded(_)
            | StoreReply::Unavailable
            | StoreReply::Unknown => self.lose_store("a write was not confirmed", now),
        }
    }

    /// Freezes, and reads the store again as soon as it lets us.
    fn lose_store(&mut self, why: &str, now: Now) {
        self.step_world(Input::StoreLost { why: Arc::from(why) }, now);
        if let Role::Leading(leading) = &mut self.role {
            leading.must_load = true;
            leading.work_due = now.mono.plus(RETRY_MS);
        }
    }

    /// Somebody else leads, or nobody does: what waited here is answered, the rest is forgotten.
    fn step_down(&mut self, now: Now) {
        self.step_world(Input::StoreLost { why: Arc::from("this process no longer leads") }, now);
        self.role = Role::Follower;
        self.effects.wake_at = None;
        self.lease_due = now.mono.plus(RETRY_MS);
        self.lease_call = None;
    }

    fn remember(&mut self) {
        let Some(mark) = self.world().map(World::high_water) else { return };
        if mark.seq > CommitSeq(0) && self.known.as_ref() != Some(&mark) {
            self.known = Some(mark.clone());
            self.effects.remember = Some(mark);
        }
    }
}

/// Whole units from the front, as many as one transaction holds, at least one.
fn next_batch(pending: &mut Vec<Unit>) -> Vec<Unit> {
    let (mut records, mut events, mut count) = (0, 0, 0);
    for unit in pending.iter() {
        let is_told = |write: &&Write| matches!(write, Write::PutEvent(_) | Write::PutAudit(_));
        let told = unit.writes.iter().filter(is_told).count();
        events += told;
        records += unit.writes.len() - told;
        if count > 0 && (records > MOST_RECORDS || events > MOST_EVENTS) {
            break;
        }
        count += 1;
    }
    pending.drain(..count).collect()
}
