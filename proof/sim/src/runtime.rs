//! A container runtime: what exists on one machine, and verbs that take time and go wrong.
//!
//! Verbs for one workload are carried out in the order they were given, as Docker does for one
//! container name, even when nobody waits for them any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_model::failure::{Failure, FailureReason};
use persys_model::id::{RevisionId, WorkloadId};
use persys_model::spec::{Class, Kind, Spec};
use persys_model::time::Millis;
use persys_model::token::Epoch;
use persys_model::volume::VolumeKey;
use persys_node::effects::Verb;
use persys_node::input::{Existing, Observation, Outcome, Seen, ServiceEnds};

/// One thing with our labels.
#[derive(Debug, Clone)]
pub(crate) struct Thing {
    pub(crate) epoch: Epoch,
    pub(crate) revision: RevisionId,
    pub(crate) spec: Arc<Spec>,
    pub(crate) state: Existing,
    /// How often this very thing was started; a late exit of an earlier run means nothing.
    pub(crate) starts: u64,
}

impl Thing {
    /// Whether its processes exist: what is paused counts, since anybody can resume it.
    pub(crate) fn runs(&self) -> bool {
        self.state.is_alive()
    }

    /// The same as the agent is told.
    fn seen(&self, workload: &WorkloadId) -> Seen {
        Seen {
            workload: workload.clone(),
            epoch: self.epoch,
            revision: self.revision.clone(),
            state: self.state.clone(),
            services: ServiceEnds::default(),
            health: None,
        }
    }

    /// Whether two of it must never run at once.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.spec.placement.class == Class::Exclusive
    }
}

/// What a verb really changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It runs now and did not before.
    Started,
    /// It does not run any more.
    Ended,
    /// It was ended and another version runs now.
    Replaced,
    /// Nothing that matters.
    Nothing,
}

/// The runtime of one machine.
#[derive(Debug, Default)]
pub(crate) struct Runtime {
    pub(crate) things: BTreeMap<WorkloadId, Thing>,
    /// It does not answer from this virtual moment until that one.
    pub(crate) out_since: u64,
    pub(crate) out_until: u64,
    /// Up to when earlier verbs keep each workload busy.
    busy: BTreeMap<WorkloadId, u64>,
    starts: u64,
    /// Data on this machine, with who has a claim to it and whether it is in use for them.
    data: BTreeMap<VolumeKey, Data>,
    /// What was deleted by the last verb.
    pub(crate) deleted: Vec<VolumeKey>,
}

/// What is known on a machine of data of one name.
#[derive(Debug, Default)]
struct Data {
    retain: bool,
    claims: BTreeMap<WorkloadId, bool>,
}

impl Runtime {
    /// Whether it answers at all.
    pub(crate) fn answers(&self, at: u64) -> bool {
        at >= self.out_until
    }

    /// When a verb given at `at` that takes `takes` is carried out: not before the earlier ones.
    pub(crate) fn queue(&mut self, workload: &WorkloadId, at: u64, takes: u64) -> u64 {
        let busy = self.busy.entry(workload.clone()).or_insert(0);
        *busy = at.max(*busy) + takes;
        *busy
    }

    /// Carries a verb out. `own` is the machine's clock, which a start may come too late on.
    pub(crate) fn carry_out(
        &mut self,
        workload: &WorkloadId,
        verb: &Verb,
        own: Millis,
    ) -> (Outcome, Change) {
        match verb {
            Verb::Start { epoch, revision, spec, secrets: _, not_after, resume } => {
                let paused = |thing: &Thing| thing.revision == *revision && thing.runs();
                if *resume && !self.things.get(workload).is_some_and(paused) {
                    let ended = "it is not paused any more";
                    return (failed(FailureReason::RuntimeError, ended), Change::Nothing);
                }
                if not_after.is_some_and(|limit| own > limit) {
                    let late = "its lease ran out before it could be started";
                    return (failed(FailureReason::RuntimeError, late), Change::Nothing);
                }
                if let Some(outcome) =
                    flaw(spec).or_else(|| self.in_its_way(workload, revision, spec))
                {
                    return (self.kept(workload, revision, outcome), Change::Nothing);
                }
                self.claim(workload, spec);
                (Outcome::Done, self.start(workload, *epoch, revision, spec))
            }
            Verb::Prepare { spec } => (missing(spec).unwrap_or(Outcome::Done), Change::Nothing),
            // Its programs have no secrets to read.
            Verb::Refresh { .. } => (Outcome::Done, Change::Nothing),
            Verb::Pause => (self.pause(workload), Change::Nothing),
            Verb::Stop { .. } => {
                let ended = self.stop(workload, 0);
                (Outcome::Done, if ended { Change::Ended } else { Change::Nothing })
            }
            Verb::Remove { purge, .. } => {
                if let Some(key) = VolumeKey::ordered_by(workload) {
                    return (self.destroy(&key), Change::Nothing);
                }
                self.release(workload, *purge);
                let ended = self.end(workload);
                (Outcome::Done, if ended { Change::Ended } else { Change::Nothing })
            }
        }
    }

    /// Another version is brought over only where that is done in place. Anything else of this name is left
    /// as it is, and has to be removed first; every runtime is held to that by its contract's tests.
    fn in_its_way(
        &self,
        workload: &WorkloadId,
        revision: &RevisionId,
        spec: &Spec,
    ) -> Option<Outcome> {
        let other = self.things.get(workload).is_some_and(|thing| thing.revision != *revision);
        let refused = other && !spec.kind.updates_in_place();
        refused.then(|| failed(FailureReason::RuntimeError, "it exists in another revision"))
    }

    /// A failure, with the other revision that runs on.
    fn kept(&self, workload: &WorkloadId, revision: &RevisionId, outcome: Outcome) -> Outcome {
        let other = |thing: &&Thing| thing.runs() && thing.revision != *revision;
        match (outcome, self.things.get(workload).filter(other)) {
            (Outcome::Failed(failure), Some(thing)) => {
                Outcome::Kept(failure, Box::new(thing.seen(workload)))
            }
            (outcome, _) => outcome,
        }
    }

    /// What is started has its volumes; what it had before and has no more stays for it.
    fn claim(&mut self, workload: &WorkloadId, spec: &Spec) {
        for data in self.data.values_mut() {
            if let Some(used) = data.claims.get_mut(workload) {
                *used = false;
            }
        }
        for volume in spec.managed_volumes().iter().filter(|volume| volume.driver.is_local()) {
            let data = self.data.entry(VolumeKey::of(volume)).or_default();
            data.retain = volume.retain;
            data.claims.insert(workload.clone(), true);
        }
    }

    /// Data goes with its last claim, on a removal with purge, unless it is to be kept.
    fn release(&mut self, workload: &WorkloadId, purge: bool) {
        let mut deleted = Vec::new();
        for (key, data) in &mut self.data {
            if !data.claims.contains_key(workload) {
                continue;
            }
            if !purge {
                data.claims.insert(workload.clone(), false);
                continue;
            }
            data.claims.remove(workload);
            if data.claims.is_empty() && !data.retain {
                deleted.push(key.clone());
            }
        }
        self.data.retain(|key, _| !deleted.contains(key));
        self.deleted.extend(deleted);
    }

    /// Somebody wants data gone that nobody uses.
    fn destroy(&mut self, key: &VolumeKey) -> Outcome {
        let used = self.data.get(key).is_some_and(|data| data.claims.values().any(|used| *used));
        if used {
            return failed(FailureReason::StorageError, "it is in use");
        }
        if self.data.remove(key).is_some() {
            self.deleted.push(key.clone());
        }
        Outcome::Done
    }

    fn start(
        &mut self,
        workload: &WorkloadId,
        epoch: Epoch,
        revision: &RevisionId,
        spec: &Arc<Spec>,
    ) -> Change {
        self.starts += 1;
        let starts = self.starts;
        if let Some(thing) = self.things.get_mut(workload)
            && thing.revision == *revision
        {
            if thing.runs() {
                if thing.state == Existing::PAUSED {
                    thing.state = Existing::Running;
                }
                return Change::Nothing;
            }
            thing.state = Existing::Running;
            thing.starts = starts;
            return Change::Started;
        }
        let thing = Thing {
            epoch,
            revision: revision.clone(),
            spec: Arc::clone(spec),
            state: Existing::Running,
            starts,
        };
        let before = self.things.insert(workload.clone(), thing);
        if before.is_some_and(|thing| thing.runs()) { Change::Replaced } else { Change::Started }
    }

    /// Pauses what runs.
    pub(crate) fn pause(&mut self, workload: &WorkloadId) -> Outcome {
        match self.things.get_mut(workload) {
            Some(thing) if thing.state == Existing::PAUSED => Outcome::Done,
            Some(thing) if thing.state == Existing::Running => {
                thing.state = Existing::PAUSED;
                Outcome::Done
            }
            Some(_) | None => failed(FailureReason::RuntimeError, "it does not run"),
        }
    }

    /// Its main process waits for something that does not come.
    pub(crate) fn stick(&mut self, workload: &WorkloadId) {
        if let Some(thing) = self.things.get_mut(workload)
            && thing.state == Existing::Running
        {
            thing.state = Existing::Stuck { why: Arc::from("its main process is in state D") };
        }
    }

    /// Ends it and keeps it; whether it ran.
    pub(crate) fn stop(&mut self, workload: &WorkloadId, code: i32) -> bool {
        let Some(thing) = self.things.get_mut(workload).filter(|thing| thing.runs()) else {
            return false;
        };
        thing.state = Existing::Exited { code };
        true
    }

    /// Has nothing of it left; whether it ran.
    pub(crate) fn end(&mut self, workload: &WorkloadId) -> bool {
        self.things.remove(workload).is_some_and(|thing| thing.runs())
    }

    /// The machine lost its power: nothing runs, everything that was made is still there.
    pub(crate) fn power_cut(&mut self) -> Vec<WorkloadId> {
        self.busy.clear();
        self.out_until = 0;
        let ran: Vec<WorkloadId> = self.running().map(|(id, _)| id.clone()).collect();
        for workload in &ran {
            self.stop(workload, 137);
        }
        ran
    }

    /// What runs.
    pub(crate) fn running(&self) -> impl Iterator<Item = (&WorkloadId, &Thing)> {
        self.things.iter().filter(|(_, thing)| thing.runs())
    }

    /// All that exists, as the agent is told.
    pub(crate) fn observe(&self) -> Observation {
        let seen = self.things.iter().map(|(workload, thing)| thing.seen(workload));
        Observation::Complete(seen.collect())
    }
}

/// A failed outcome with these words.
pub(crate) fn failed(reason: FailureReason, message: &str) -> Outcome {
    Outcome::Failed(Failure::new(reason, message))
}

/// Images with a meaning.
pub(crate) mod image {
    /// Runs as it should.
    pub(crate) const GOOD: &str = "app:good";
    /// Does not exist anywhere.
    pub(crate) const MISSING: &str = "app:missing";
    /// Exists and never comes up.
    pub(crate) const BROKEN: &str = "app:broken";
    /// Does its work and ends well.
    pub(crate) const JOB: &str = "app:job";
    /// Begins its work and ends badly, every time.
    pub(crate) const FAILS: &str = "app:fails";
}

/// The image of a container or a machine.
pub(crate) fn image_of(spec: &Spec) -> &str {
    match &spec.kind {
        Kind::Container(container) => &container.image,
        Kind::Vm(machine) => machine.os_image.as_deref().unwrap_or(image::GOOD),
        Kind::Compose(_) => image::GOOD,
    }
}

/// The failure to fetch an image that does not exist.
fn missing(spec: &Spec) -> Option<Outcome> {
    flaw(spec).filter(|_| image_of(spec) == image::MISSING)
}

/// What is wrong with the image itself: such a spec runs nowhere.
fn flaw(spec: &Spec) -> Option<Outcome> {
    match image_of(spec) {
        image::MISSING => Some(failed(FailureReason::ImageNotFound, "no such image")),
        image::BROKEN => Some(failed(FailureReason::RuntimeError, "it cannot be started")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::specs::{Recipe, Shape};

    fn start(revision: &str, image: &'static str, not_after: Option<Millis>) -> Verb {
        of_shape(Shape::Stateless, revision, image, not_after)
    }

    fn of_shape(
        shape: Shape,
        revision: &str,
        image: &'static str,
        not_after: Option<Millis>,
    ) -> Verb {
        let spec = Arc::new(Recipe::plain(shape, image).spec());
        let revision = RevisionId::new(revision).unwrap();
        let secrets = Arc::default();
        Verb::Start { epoch: Epoch(1), revision, spec, secrets, not_after, resume: false }
    }

    #[test]
    fn a_start_is_idempotent_and_leaves_another_revision_alone() {
        let mut runtime = Runtime::default();
        let id = WorkloadId::fixed("w");
        for change in [Change::Started, Change::Nothing] {
            let verb = start("a", image::GOOD, None);
            assert_eq!(runtime.carry_out(&id, &verb, Millis(0)), (Outcome::Done, change));
        }
        let other = start("b", image::GOOD, None);
        let (outcome, change) = runtime.carry_out(&id, &other, Millis(0));
        assert!(matches!(outcome, Outcome::Kept(..)) && change == Change::Nothing);
        assert!(runtime.things[&id].runs() && runtime.things[&id].revision.to_string() == "a");
        assert_eq!(runtime.carry_out(&id, &Verb::STOP, Millis(0)).1, Change::Ended);
        assert_eq!(runtime.carry_out(&id, &Verb::STOP, Millis(0)).1, Change::Nothing);
        assert_eq!(runtime.things.len(), 1);
        runtime.carry_out(&id, &Verb::remove(true), Millis(0));
        assert!(runtime.things.is_empty());
    }

    #[test]
    fn a_failed_update_in_place_leaves_the_last_good_revision() {
        let mut runtime = Runtime::default();
        let id = WorkloadId::fixed("w");
        let mut start = |revision, image| {
            let verb = of_shape(Shape::Machine, revision, image, None);
            let (outcome, change) = runtime.carry_out(&id, &verb, Millis(0));
            (outcome == Outcome::Done, change, runtime.things[&id].revision.to_string())
        };
        assert_eq!(start("a", image::GOOD), (true, Change::Started, "a".to_owned()));
        assert_eq!(start("b", image::BROKEN), (false, Change::Nothing, "a".to_owned()));
        assert_eq!(start("c", image::GOOD), (true, Change::Replaced, "c".to_owned()));
    }

    #[test]
    fn a_start_that_comes_too_late_is_refused() {
        let mut runtime = Runtime::default();
        let id = WorkloadId::fixed("w");
        let verb = start("a", image::GOOD, Some(Millis(10)));
        let (outcome, change) = runtime.carry_out(&id, &verb, Millis(11));
        assert!(matches!(outcome, Outcome::Failed(_)) && change == Change::Nothing);
        assert_eq!(runtime.carry_out(&id, &verb, Millis(10)), (Outcome::Done, Change::Started));
    }

    #[test]
    fn what_is_paused_runs_on_when_it_is_started_and_ends_when_it_is_stopped() {
        let mut runtime = Runtime::default();
        let id = WorkloadId::fixed("w");
        let verb = start("a", image::GOOD, None);
        runtime.carry_out(&id, &verb, Millis(0));
        for _ in 0..2 {
            let done = runtime.carry_out(&id, &Verb::Pause, Millis(0));
            assert_eq!(done, (Outcome::Done, Change::Nothing));
            assert_eq!(runtime.things[&id].state, Existing::PAUSED);
        }
        assert_eq!(runtime.carry_out(&id, &verb, Millis(0)), (Outcome::Done, Change::Nothing));
        assert_eq!(runtime.things[&id].state, Existing::Running);
        runtime.carry_out(&id, &Verb::Pause, Millis(0));
        assert_eq!(runtime.carry_out(&id, &Verb::STOP, Millis(0)).1, Change::Ended);
        assert_ne!(runtime.carry_out(&id, &Verb::Pause, Millis(0)).0, Outcome::Done);
    }

    #[test]
    fn verbs_for_one_workload_keep_their_order() {
        let mut runtime = Runtime::default();
        let (a, b) = (WorkloadId::fixed("a"), WorkloadId::fixed("b"));
        assert_eq!(runtime.queue(&a, 100, 5000), 5100);
        assert_eq!(runtime.queue(&a, 200, 10), 5110);
        assert_eq!(runtime.queue(&b, 200, 10), 210);
    }
}
