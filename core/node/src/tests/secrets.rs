//! New values of secrets, for what runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use persys_model::command::{Apply, Command, Order};
use persys_model::failure::{Failure, FailureReason};
use persys_model::id::{RevisionId, SecretName};
use persys_model::inventory::State;
use persys_model::secret::{Redacted, SecretSeen, SecretUse, SecretValue, SecretValues, Signal};
use persys_model::spec::Spec;

use super::rig::{Rig, command, id, plain, seen};
use crate::effects::Verb;
use crate::input::{Existing, Outcome};
use crate::ledger::Ledger;

const LONG_MS: u64 = 60_000;

fn used(secret: &'static str, signal: Option<Signal>) -> SecretUse {
    let path = format!("/run/secrets/{secret}").into();
    let seen = SecretSeen::File { path, mode: 0o400, uid: 0, gid: 0, signal };
    SecretUse { secret: SecretName::fixed(secret), seen }
}

/// `db` is signalled, `key` is not.
fn spec() -> Arc<Spec> {
    let secrets = vec![used("db", Some(Signal::Hup)), used("key", None)];
    Arc::new(Spec { secrets, ..(*plain()).clone() })
}

fn order(epoch: u64, revision: &'static str, db: &str, key: &str) -> Command {
    let value =
        |text: &str| Ok(SecretValue { version: epoch, value: Redacted::new(text.as_bytes()) });
    let secrets: SecretValues =
        [(SecretName::fixed("db"), value(db)), (SecretName::fixed("key"), value(key))].into();
    let (revision, secrets) = (RevisionId::fixed(revision), Arc::new(secrets));
    command(epoch, Order::Apply(Apply { revision, run: true, pause: false, spec: spec(), secrets }))
}

fn shows(rig: &mut Rig, state: Existing) {
    // The first answer may be to a question from before the last verb.
    rig.observe(vec![seen(5, "r", state.clone())]);
    rig.observe(vec![seen(5, "r", state)]);
}

/// Running under decision 5 with the values `a` and `a`.
fn running() -> Rig {
    let mut rig = Rig::alive(Ledger::default(), Vec::new());
    rig.order(order(5, "r", "a", "a"));
    assert!(matches!(rig.finish(Outcome::Done), Verb::Start { .. }));
    rig
}

fn refreshes(verb: Verb, db: &str) {
    let Verb::Refresh { secrets, changed, .. } = verb else { panic!("{verb:?}") };
    assert_eq!(changed, [SecretName::fixed("db")].into());
    let value = secrets[&SecretName::fixed("db")].as_ref().unwrap();
    assert_eq!(value.value.reveal(), db.as_bytes());
}

fn untold(rig: &Rig) -> BTreeSet<SecretName> {
    rig.disk.intents[&id("web")].untold.clone()
}

#[test]
fn what_runs_is_told_once_of_a_new_value_and_runs_on() {
    let mut rig = running();
    rig.order(order(6, "r", "b", "a"));
    assert_eq!(untold(&rig).len(), 1, "it is on disk before it is done");
    refreshes(rig.finish(Outcome::Done), "b");
    assert_eq!((untold(&rig).len(), rig.state()), (0, Some(State::Running)));
    rig.wait(LONG_MS);
    rig.order(order(7, "r", "b", "a"));
    rig.wait(LONG_MS);
    assert!(rig.verbs.is_empty(), "the same values are no news");
    rig.order(order(8, "r", "b", "b"));
    rig.wait(LONG_MS);
    assert!(rig.verbs.is_empty(), "nobody asked to be told of that one");
}

#[test]
fn a_crash_before_the_end_repeats_it() {
    let mut rig = running();
    rig.order(order(6, "r", "b", "a"));
    let mut rig = rig.reborn(vec![seen(5, "r", Existing::Running)]);
    assert!(rig.verbs.is_empty(), "nothing before the scheduler names it");
    rig.order(order(6, "r", "b", "a"));
    refreshes(rig.finish(Outcome::Done), "b");
    let mut rig = rig.reborn(vec![seen(5, "r", Existing::Running)]);
    rig.order(order(6, "r", "b", "a"));
    rig.wait(LONG_MS);
    assert!(rig.verbs.is_empty(), "it was told");
}

#[test]
fn a_failure_is_told_and_tried_again() {
    let mut rig = running();
    rig.order(order(6, "r", "b", "a"));
    let failure = Failure::new(FailureReason::RuntimeError, "no");
    refreshes(rig.finish(Outcome::Failed(failure)), "b");
    shows(&mut rig, Existing::Running);
    assert_eq!((rig.state(), rig.trouble().is_some()), (Some(State::Running), true));
    rig.wait(LONG_MS);
    refreshes(rig.finish(Outcome::Done), "b");
    assert!(rig.trouble().is_none());
}

#[test]
fn a_value_that_changes_again_meanwhile_is_told_too() {
    let mut rig = running();
    rig.order(order(6, "r", "b", "a"));
    rig.order(order(7, "r", "c", "a"));
    refreshes(rig.finish(Outcome::Done), "b");
    refreshes(rig.finish(Outcome::Done), "c");
    assert!(rig.verbs.is_empty() && untold(&rig).is_empty());
}

#[test]
fn what_is_started_or_made_anew_reads_the_value_by_itself() {
    // It ended before it could be told.
    let mut rig = running();
    rig.order(order(6, "r", "b", "a"));
    rig.finish(Outcome::Unknown);
    shows(&mut rig, Existing::Exited { code: 1 });
    assert_eq!(untold(&rig).len(), 1);
    assert!(matches!(rig.finish(Outcome::Done), Verb::Start { .. }));
    assert!(rig.verbs.is_empty() && untold(&rig).is_empty());
    // Another revision of a container is another container.
    let mut rig = running();
    rig.order(order(6, "s", "b", "a"));
    assert!(matches!(rig.finish(Outcome::Done), Verb::Prepare { .. }));
    assert!(matches!(rig.finish(Outcome::Done), Verb::Remove { .. }));
    assert!(matches!(rig.finish(Outcome::Done), Verb::Start { .. }));
    assert!(rig.verbs.is_empty() && untold(&rig).is_empty());
}

#[test]
fn a_start_with_the_older_value_is_followed_by_a_signal() {
    let mut rig = Rig::alive(Ledger::default(), Vec::new());
    rig.order(order(5, "r", "a", "a"));
    rig.order(order(6, "r", "b", "a"));
    assert!(matches!(rig.finish(Outcome::Done), Verb::Start { .. }));
    refreshes(rig.finish(Outcome::Done), "b");
}

#[test]
fn what_is_paused_is_told_when_it_runs_again() {
    let mut rig = running();
    let mut paused = order(6, "r", "a", "a");
    let Order::Apply(apply) = &mut paused.order else { panic!() };
    apply.pause = true;
    rig.order(paused);
    assert_eq!(rig.finish(Outcome::Done), Verb::Pause);
    let mut changed = order(7, "r", "b", "a");
    let Order::Apply(apply) = &mut changed.order else { panic!() };
    apply.pause = true;
    rig.order(changed);
    rig.wait(LONG_MS);
    assert!(rig.verbs.is_empty());
    rig.order(order(8, "r", "b", "a"));
    assert!(matches!(rig.finish(Outcome::Done), Verb::Start { .. }), "which resumes it");
    refreshes(rig.finish(Outcome::Done), "b");
}
