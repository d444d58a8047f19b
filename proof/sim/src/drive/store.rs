//! Calls on their way to the store and back.
//!
//! A caller waits only so long; then it hears `Unknown`, and its call may still be carried out.

use std::sync::Arc;

use persys_cluster::replica::ReplicaInput;
use persys_cluster::store::{CallId, StoreCall, StoreReply};

use crate::scheduler::candidate;
use crate::sim::{Event, Sim};
use crate::wire::Life;

impl Sim {
    /// A scheduler calls the store.
    pub(super) fn store_call(&mut self, scheduler: usize, life: Life, id: CallId, call: StoreCall) {
        let Some(host) = self.schedulers.get_mut(scheduler) else { return };
        let cut = host.store_cut_until > self.now;
        let Some(process) = host.process_of(life) else { return };
        process.calls.insert(id);
        self.check.called(scheduler, life, id, &call, self.now);
        self.trace.tell(self.now, || {
            let text = format!("{call:?}");
            format!("s{scheduler} call {}: {}", id.0, text.chars().take(60).collect::<String>())
        });

        let given = self.now;
        let deadline = self.now + self.setup.store_ms;
        let unknown = Box::new(StoreReply::Unknown);
        self.queue.push(deadline, Event::StoreReply { scheduler, life, id, reply: unknown });
        if cut {
            return;
        }
        if self.store_faults.down_until > self.now {
            // Refused at once, or swallowed: then the deadline answers.
            if self.store_chance.chance(500) {
                let reply = Box::new(StoreReply::Unavailable);
                self.queue.push(self.now + 2, Event::StoreReply { scheduler, life, id, reply });
            }
            return;
        }
        let mut takes = self.store_chance.between(1, 6);
        if self.store_faults.slow_until > self.now {
            takes += self.store_chance.between(50, 2 * self.setup.store_ms);
        }
        if self.store_faults.unsure_until > self.now && self.store_chance.chance(250) {
            match self.store_chance.below(3) {
                0 => {
                    self.cover.hit("store: answer lost, call not carried out");
                    return;
                }
                1 => takes = self.setup.store_ms + self.store_chance.between(1, 5_000),
                _ => {
                    self.cover.hit("store: answer lost, call carried out");
                    let call = Arc::new(call);
                    // The id of a call nobody waits for: the answer goes nowhere.
                    let id = CallId(u64::MAX);
                    let at = self.now + takes;
                    self.queue.push(at, Event::StoreExecute { scheduler, life, id, call, given });
                    return;
                }
            }
        }
        if takes > self.setup.store_ms {
            self.cover.hit("store: call carried out after its caller gave up");
        }
        let call = Arc::new(call);
        self.queue.push(self.now + takes, Event::StoreExecute { scheduler, life, id, call, given });
    }

    /// A call reaches the store, whether or not its caller still lives.
    pub(crate) fn store_execute(
        &mut self,
        scheduler: usize,
        life: Life,
        (id, given): (CallId, u64),
        call: Arc<StoreCall>,
    ) {
        let faults = &self.store_faults;
        if faults.paused_until > self.now {
            let at = faults.paused_until + self.store_chance.below(20);
            self.queue.push(at, Event::StoreExecute { scheduler, life, id, call, given });
            return;
        }
        if faults.down_until > self.now {
            return;
        }
        let (now, check, trace) = (self.now, &mut self.check, &mut self.trace);
        let cover = &mut self.cover;
        let caller = candidate(scheduler, life);
        let reply = self.store.execute(&caller, &call, now, &mut |before, unit| {
            trace.note(unit.head.seq.0);
            trace.note(unit.head.epoch.0);
            check.unit(now, scheduler, before, unit);
            cover.unit(unit);
            trace.tell(now, || crate::tell::unit(unit));
        });
        self.check.applied(now, &self.store.contents);
        self.judge_losses(given);
        match (&*call, &reply) {
            (StoreCall::Commit { .. }, StoreReply::Deposed) => {
                self.cover.hit("store: commit of a deposed leader refused");
            }
            (StoreCall::Commit { .. }, StoreReply::HeadMoved) => {
                self.cover.hit("store: commit on a moved head refused");
            }
            (StoreCall::Renew { .. }, StoreReply::Deposed) => {
                self.cover.hit("store: leader key expired");
            }
            (StoreCall::Campaign { candidate, .. }, StoreReply::Won(term)) => {
                self.trace.tell(now, || format!("{candidate} leads with term {term}"));
            }
            (StoreCall::Campaign { .. }, StoreReply::HeldBy(..)) => {
                self.cover.hit("store: campaign lost to another");
            }
            _ => {}
        }
        let at = self.now + self.store_chance.between(1, 4);
        let reply = Box::new(reply);
        self.queue.push(at, Event::StoreReply { scheduler, life, id, reply });
    }

    /// The answer of the store, or the end of patience, whichever comes first.
    pub(crate) fn store_replied(
        &mut self,
        scheduler: usize,
        life: Life,
        id: CallId,
        reply: StoreReply,
    ) {
        let Some(host) = self.schedulers.get_mut(scheduler) else { return };
        let Some(process) = host.process_of(life) else { return };
        if !process.calls.remove(&id) {
            return;
        }
        self.trace.tell(self.now, || {
            let text = format!("{reply:?}");
            format!("s{scheduler} call {} -> {}", id.0, text.chars().take(12).collect::<String>())
        });
        self.check.replied(scheduler, life, id, &reply);
        self.scheduler_input(scheduler, ReplicaInput::Store(id, reply));
    }
}
