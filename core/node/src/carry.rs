//! From orders to verbs, and from verbs to facts.
//!
//! ```text
//!   command ──► intent ──► on disk ──► verb ──► outcome ──► (gone: tombstone ──► on disk) ──► answer
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use persys_model::command::{Answer, Apply, Command, Order, Refusal};
use persys_model::failure::{Failure, FailureReason};
use persys_model::id::{RevisionId, SecretName, WorkloadId};
use persys_model::secret::{Redacted, SecretValues};
use persys_model::spec::{STOP_GRACE_MS, WorkloadType};
use persys_model::time::Now;
use persys_model::token::Epoch;
use persys_model::volume::VolumeKey;
use persys_model::zoo::{Bug, Zoo};

use crate::admit::{self, Standing, Verdict};
use crate::agent::{Agent, Waiting, WaitsOn};
use crate::decide::{self, Leave, Next, Thing, Version};
use crate::effects::{Effects, Run, Verb};
use crate::input::{RequestId, VerbId};
use crate::ledger::{Goal, Intent, LedgerChange};
use crate::slot::{Again, Circumstances, Doing, End, Flight, is_exclusive, is_gone, is_machine};
use crate::standstill::{KILLED, end_of_stuck};
use crate::view::View;

impl Agent {
    /// Obeys a command or says why not.
    pub(crate) fn command(&mut self, request: RequestId, command: Command, effects: &mut Effects) {
        let (workload, epoch) = (command.workload.clone(), command.epoch);
        let removes = matches!(command.order, Order::Remove { .. });
        let on = match self.obey(command, effects) {
            Verdict::Refuse(refusal) => {
                effects.answers.push((request, Answer::Refused(refusal)));
                return;
            }
            Verdict::Gone(epoch) => WaitsOn::Disk(self.journal.made(), Answer::Removed { epoch }),
            Verdict::Confirm | Verdict::FillIn | Verdict::Take => {
                let gone = self.intents().get(&workload).is_some_and(is_gone);
                if removes && gone {
                    WaitsOn::Burial(epoch)
                } else {
                    WaitsOn::Disk(self.journal.made(), Answer::Accepted)
                }
            }
        };
        self.waiting.push(Waiting { request, workload, on });
    }

    /// Takes a command into the ledger, if it is obeyed.
    pub(crate) fn obey(&mut self, command: Command, effects: &mut Effects) -> Verdict {
        let ledger = self.journal.ledger();
        let standing = Standing {
            term: ledger.term,
            session: self.session(),
            held: ledger.intents.get(&command.workload),
            buried: ledger.tombstones.get(&command.workload).map(|buried| buried.epoch),
            wanted: self.wants_data_of(&command.workload),
            hold: self.holding(),
            drain: self.draining(),
            zoo: self.settings.zoo,
        };
        let verdict = admit::judge(&command, &standing);
        let Command { term, session: _, epoch, workload, order } = command;
        match verdict {
            Verdict::Refuse(Refusal::OldTerm { .. } | Refusal::OtherSession { .. }) => {}
            Verdict::Refuse(
                Refusal::OldEpoch { .. }
                | Refusal::Buried { .. }
                | Refusal::Holding
                | Refusal::Draining,
            )
            | Verdict::Gone(_)
            | Verdict::Confirm
            | Verdict::FillIn
            | Verdict::Take => self.hear_term(term, effects),
        }
        match verdict {
            Verdict::Refuse(_) | Verdict::Gone(_) => return verdict,
            Verdict::Confirm => {}
            Verdict::FillIn => self.fill_in(&workload, order, effects),
            Verdict::Take => self.take(&workload, epoch, order, effects),
        }
        if let Some(slot) = self.slots.get_mut(&workload) {
            slot.confirmed = true;
        }
        self.touched.insert(workload);
        verdict
    }

    /// A new decision.
    fn take(&mut self, workload: &WorkloadId, epoch: Epoch, order: Order, effects: &mut Effects) {
        let wanted = match &order {
            Order::Apply(apply) => Some(&*apply.spec),
            Order::Remove { .. } => None,
        };
        let no_room = wanted.and_then(|spec| self.no_room(workload, spec));
        let unlisted = || self.watch.unlisted(wanted);
        let slot = self.slots.entry(workload.clone()).or_insert_with(unlisted);
        let held = self.journal.ledger().intents.get(workload);
        if let (Some(held), Some(wanted)) = (held, wanted) {
            // What was of another type before is there until it is seen to be gone.
            let before = held.spec.as_ref().map(|spec| spec.workload_type());
            let types =
                WorkloadType::ALL.into_iter().filter(|kind| *kind != wanted.workload_type());
            slot.elsewhere.extend(types.filter(|kind| before.is_none_or(|before| before == *kind)));
        }
        let intent = match order {
            Order::Apply(apply) => Intent {
                untold: held.map(|held| untold(held, &apply)).unwrap_or_default(),
                epoch,
                revision: apply.revision,
                goal: goal_of(apply.run, apply.pause),
                spec: Some(apply.spec),
                secrets: apply.secrets,
                restarts: 0,
                // What runs already is in the measured use: it may stay and change.
                gave_up: (apply.run && !slot.view.is_alive())
                    .then(|| no_room.or_else(|| self.load.refusal()))
                    .flatten(),
                kept: false,
                completed: false,
                started: false,
            },
            Order::Remove { purge } => Intent {
                epoch,
                revision: held
                    .map_or_else(|| RevisionId::fixed("none"), |held| held.revision.clone()),
                goal: Goal::Gone { purge },
                spec: held.and_then(|held| held.spec.clone()),
                // What goes is not started again.
                secrets: Arc::default(),
                restarts: 0,
                gave_up: None,
                kept: false,
                completed: false,
                started: false,
                untold: BTreeSet::new(),
            },
        };
        slot.begin(&intent);
        let spec = intent.spec.clone().filter(|_| !is_gone(&intent));
        self.put(workload, intent, effects);
        self.supersede(workload, epoch, effects);
        for volume in spec.iter().flat_map(|spec| spec.managed_volumes()) {
            self.keep_data(&VolumeKey::of(volume).order_id(), epoch, effects);
        }
    }

    /// The newest decision that wants the data whose deletion goes by this name.
    fn wants_data_of(&self, order: &WorkloadId) -> Option<Epoch> {
        let key = VolumeKey::ordered_by(order)?;
        let wants = |intent: &&Intent| {
            let spec = intent.spec.as_deref().filter(|_| !is_gone(intent));
            let mut volumes = spec.iter().flat_map(|spec| spec.managed_volumes());
            volumes.any(|volume| VolumeKey::of(volume) == key)
        };
        self.intents().values().filter(wants).map(|intent| intent.epoch).max()
    }

    /// A decision wants data that an earlier one ordered to be deleted: that order is void.
    fn keep_data(&mut self, order: &WorkloadId, epoch: Epoch, effects: &mut Effects) {
        let deletion = self.intents().get(order).filter(|intent| is_gone(intent));
        if deletion.is_none_or(|deletion| deletion.epoch > epoch) {
            return;
        }
        let change = LedgerChange::Withdraw(order.clone());
        let written = self.journal.write(change, &mut effects.ledger);
        if let Some(slot) = self.slots.get_mut(order) {
            slot.written = written;
            slot.retry_at = None;
        }
        self.touched.insert(order.clone());
        self.supersede(order, epoch, effects);
    }

    /// What is to be known of a workload that was only found running.
    fn fill_in(&mut self, workload: &WorkloadId, order: Order, effects: &mut Effects) {
        let Some(held) = self.journal.ledger().intents.get(workload) else { return };
        let intent = match order {
            Order::Apply(apply) => Intent {
                revision: apply.revision,
                goal: goal_of(apply.run, apply.pause),
                spec: Some(apply.spec),
                secrets: apply.secrets,
                ..held.clone()
            },
            Order::Remove { purge } => Intent { goal: Goal::Gone { purge }, ..held.clone() },
        };
        self.put(workload, intent, effects);
    }

    /// Those who wait for a removal that a newer decision has overtaken are told so.
    fn supersede(&mut self, workload: &WorkloadId, held: Epoch, effects: &mut Effects) {
        self.waiting.retain(|waiting| match waiting.on {
            WaitsOn::Burial(epoch) if waiting.workload == *workload && epoch < held => {
                let answer = Answer::Refused(Refusal::OldEpoch { held });
                effects.answers.push((waiting.request, answer));
                false
            }
            WaitsOn::Burial(_) | WaitsOn::Disk(..) => true,
        });
    }

    /// Writes an intent; what rests on it waits until it is on disk.
    pub(crate) fn put(&mut self, workload: &WorkloadId, intent: Intent, effects: &mut Effects) {
        let change = LedgerChange::Put(workload.clone(), intent);
        let seq = self.journal.write(change, &mut effects.ledger);
        if let Some(slot) = self.slots.get_mut(workload) {
            slot.written = seq;
        }
        self.touched.insert(workload.clone());
    }

    /// Answers those whose answer has become true.
    pub(crate) fn answer(&mut self, effects: &mut Effects) {
        let journal = &self.journal;
        self.waiting.retain(|waiting| match &waiting.on {
            WaitsOn::Disk(seq, answer) if journal.covers(*seq) => {
                effects.answers.push((waiting.request, answer.clone()));
                false
            }
            WaitsOn::Disk(..) | WaitsOn::Burial(_) => true,
        });
    }

    /// Asks the table what a workload needs and does it, if it may be done now.
    pub(crate) fn settle(&mut self, workload: &WorkloadId, now: Now, effects: &mut Effects) {
        let hold = self.holding();
        let act_early = self.settings.zoo.has(Bug::ActBeforeVerdict);
        let Some(slot) = self.slots.get_mut(workload) else { return };
        let free = slot.flight.is_none()
            && self.journal.covers(slot.written)
            && slot.retry_at.is_none_or(|at| at <= now.mono);
        if !free {
            return;
        }
        slot.retry_at = None;
        let Some(intent) = self.journal.ledger().intents.get(workload) else {
            self.clear(workload, hold, effects);
            return;
        };
        if !slot.confirmed && VolumeKey::ordered_by(workload).is_some() {
            // Data cannot be made again: an order from before may have been given up since.
            return;
        }
        let exclusive = is_exclusive(intent);
        let leave = self.fence.leave(exclusive, now.mono);
        if leave == Leave::Over {
            // From here on an end is the fence's doing, ours or the watchdog's.
            slot.ran = false;
        }
        let confirmed = slot.confirmed || act_early;
        let settings = &self.settings;
        slot.standstill.plan(settings);
        if slot.standstill.is_due(now.mono) && !slot.standstill.is_confirmed() {
            self.watch.want();
        }
        let at = now.mono;
        let mut case = slot.case(intent, &Circumstances { confirmed, hold, leave, at, settings });
        if case.goal == Goal::Pause && self.settings.zoo.has(Bug::ResumesAllPaused) {
            case.goal = Goal::Run;
        }
        let next = slot.explained(case.rule, decide::next(&case));
        if !matches!(next, Next::Restart(_)) {
            slot.again = None;
        }
        let epoch = intent.epoch;
        let within_ms = grace_left(leave, self.settings.zoo);
        let (stop, gone) = (Verb::Stop { within_ms }, |purge| Verb::Remove { purge, within_ms });
        match next {
            // What failed is there after all, or is not wanted any more.
            Next::Nothing => slot.trouble = None,
            Next::Start if case.thing == Thing::Paused(Version::Same) => {
                self.resume(workload, exclusive, effects);
            }
            Next::Start => self.start_it(workload, exclusive, effects),
            Next::Refresh => self.refresh(workload, effects),
            Next::Pause => self.fly(workload, epoch, Doing::Pause, Verb::Pause, effects),
            Next::Unstick => self.unstick(workload, epoch, effects),
            Next::Restart(why) => self.start_again(workload, why, now, effects),
            Next::Stop => self.fly(workload, epoch, Doing::Stop, stop, effects),
            Next::Prepare => {
                let Some(spec) = intent.spec.clone() else { return };
                self.fly(workload, epoch, Doing::Prepare, Verb::Prepare { spec }, effects);
            }
            Next::Replace => self.fly(workload, epoch, Doing::Replace, gone(false), effects),
            Next::Remove { purge } => {
                self.fly(workload, epoch, Doing::Remove, gone(purge), effects);
            }
            Next::Complete => {
                let intent = Intent { completed: true, ..intent.clone() };
                self.put(workload, intent, effects);
            }
            Next::GiveUp(failure) => {
                effects.ends.push(failure.reason);
                let intent = Intent { gave_up: Some(failure), ..intent.clone() };
                self.put(workload, intent, effects);
            }
        }
    }

    /// Clears what an ordered removal left behind.
    fn clear(&mut self, workload: &WorkloadId, hold: bool, effects: &mut Effects) {
        let Some(slot) = self.slots.get(workload) else { return };
        let View::There { epoch, .. } = slot.view else { return };
        let buried = self.journal.ledger().tombstones.get(workload).map(|buried| buried.epoch);
        if !hold && buried.is_some_and(|buried| buried >= epoch) {
            self.fly(workload, epoch, Doing::Clear, Verb::remove(false), effects);
        }
    }

    /// Waits as the row of restarts demands, counts the restart on disk, then starts.
    fn start_again(
        &mut self,
        workload: &WorkloadId,
        why: Failure,
        now: Now,
        effects: &mut Effects,
    ) {
        let Some(slot) = self.slots.get_mut(workload) else { return };
        let Some(intent) = self.journal.ledger().intents.get(workload) else { return };
        let at = now.mono.plus(self.settings.restart_wait_ms(slot.streak));
        let again = slot.again.get_or_insert(Again { at, why, counted: false });
        if again.counted {
            let exclusive = is_exclusive(intent);
            slot.streak = slot.streak.saturating_add(1);
            let in_row = again.why.reason == FailureReason::VmBootFailed || !is_machine(intent);
            slot.in_row = if in_row { slot.in_row.saturating_add(1) } else { 0 };
            self.start_it(workload, exclusive, effects);
        } else if again.at <= now.mono {
            again.counted = true;
            effects.ends.push(again.why.reason);
            let restarts = intent.restarts.saturating_add(1);
            let intent = Intent { restarts, ..intent.clone() };
            self.put(workload, intent, effects);
            if self.settings.zoo.has(Bug::EffectBeforeIntent) {
                self.settle(workload, now, effects);
            }
        }
    }

    fn start_it(&mut self, workload: &WorkloadId, exclusive: bool, effects: &mut Effects) {
        self.start_or_resume(workload, exclusive, false, effects);
    }

    fn start_or_resume(
        &mut self,
        workload: &WorkloadId,
        exclusive: bool,
        resume: bool,
        effects: &mut Effects,
    ) {
        let Some(intent) = self.journal.ledger().intents.get(workload) else { return };
        let Some(spec) = &intent.spec else { return };
        let verb = Verb::Start {
            epoch: intent.epoch,
            revision: intent.revision.clone(),
            spec: Arc::clone(spec),
            secrets: Arc::clone(&intent.secrets),
            not_after: self.fence.not_after(exclusive),
            resume,
        };
        let made = if resume { Doing::Resume } else { Doing::Start };
        let doing = made(intent.revision.clone());
        let epoch = intent.epoch;
        self.fly(workload, epoch, doing, verb, effects);
    }

    fn refresh(&mut self, workload: &WorkloadId, effects: &mut Effects) {
        let Some(intent) = self.journal.ledger().intents.get(workload) else { return };
        let Some(spec) = &intent.spec else { return };
        let (spec, secrets) = (Arc::clone(spec), Arc::clone(&intent.secrets));
        let (epoch, changed) = (intent.epoch, intent.untold.clone());
        let verb = Verb::Refresh { spec, secrets, changed };
        self.fly(workload, epoch, Doing::Refresh, verb, effects);
    }

    /// Resumes what is paused. A failure of that is not one of the decision.
    fn resume(&mut self, workload: &WorkloadId, exclusive: bool, effects: &mut Effects) {
        if let Some(slot) = self.slots.get_mut(workload) {
            slot.standstill.repaired();
        }
        self.start_or_resume(workload, exclusive, true, effects);
    }

    /// Ends what is stuck. That is an end of its own, and a bad one.
    fn unstick(&mut self, workload: &WorkloadId, epoch: Epoch, effects: &mut Effects) {
        let Some(slot) = self.slots.get_mut(workload) else { return };
        let made_under = slot.view.made_under().unwrap_or(epoch);
        slot.end = Some(End { epoch: made_under, code: KILLED, text: end_of_stuck(&slot.view) });
        slot.standstill.repaired();
        self.fly(workload, epoch, Doing::Unstick, Verb::STOP, effects);
    }

    fn fly(
        &mut self,
        workload: &WorkloadId,
        epoch: Epoch,
        doing: Doing,
        verb: Verb,
        effects: &mut Effects,
    ) {
        let Some(slot) = self.slots.get_mut(workload) else { return };
        self.last_verb = VerbId(self.last_verb.0.saturating_add(1));
        slot.flight = Some(Flight { id: self.last_verb, epoch, doing });
        slot.fetched = None;
        effects.verbs.push(Run { id: self.last_verb, workload: workload.clone(), verb });
    }
}

/// The secrets of a new decision that what runs by the last one has to be told of: their values differ,
/// or it was not told of the last ones yet. What is made anew reads them by itself.
fn untold(held: &Intent, apply: &Apply) -> BTreeSet<SecretName> {
    let goes_on = held.revision == apply.revision || apply.spec.kind.updates_in_place();
    if !goes_on || !apply.run || is_gone(held) {
        return BTreeSet::new();
    }
    let changed = |name: &&SecretName| {
        let new = value_of(&apply.secrets, name);
        new.is_some() && (held.untold.contains(*name) || new != value_of(&held.secrets, name))
    };
    apply.spec.signals().into_keys().filter(changed).cloned().collect()
}

fn value_of<'a>(values: &'a SecretValues, name: &SecretName) -> Option<&'a Redacted> {
    Some(&values.get(name)?.as_ref().ok()?.value)
}

/// Most of its grace that what is ended has, in milliseconds. Past its lease another copy may soon
/// start elsewhere: no grace of its own counts then.
fn grace_left(leave: Leave, zoo: Zoo) -> Option<u64> {
    if zoo.has(Bug::KilledUnasked) {
        return Some(0);
    }
    (leave == Leave::Over).then_some(STOP_GRACE_MS)
}

fn goal_of(run: bool, pause: bool) -> Goal {
    match (run, pause) {
        (false, _) => Goal::Rest,
        (true, false) => Goal::Run,
        (true, true) => Goal::Pause,
    }
}
