//! A restart is one wish: one record, one generation, whoever leads in between.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a story stops at the first surprise"
)]

mod support;

use persys_cluster::effects::{RefusalCode, Reply};
use persys_cluster::input::Ask;
use persys_model::assignment::UpdateState;
use persys_model::command::Order;
use persys_model::event::Happening;
use persys_model::failure::{Failure, FailureReason};
use persys_model::id::{NodeId, RevisionId};
use persys_model::inventory::State;
use persys_model::phase::Phase;
use persys_model::workload::Desired;
use support::{Cluster, container, workload_id};

fn running() -> Cluster {
    let mut c = Cluster::with_nodes(2, 4_000, 4_000);
    c.apply("web", container(1_000, 1_000), "r1");
    assert_eq!(c.phase("web"), Some(Phase::Running));
    c
}

fn home(c: &Cluster) -> NodeId {
    c.node_of("web").unwrap()
}

fn restart(c: &mut Cluster) -> Reply {
    c.ask(Ask::Restart(workload_id("web")))
}

/// Asks for a restart that its node hears nothing of.
fn asked_only(c: &mut Cluster) -> NodeId {
    let node = home(c);
    c.deaf.push(node.clone());
    assert!(matches!(restart(c), Reply::Done { .. }));
    assert_eq!(c.phase("web"), Some(Phase::Stopping));
    c.deaf.clear();
    node
}

/// The phases it went through, from its last change to Running on.
fn phases(c: &Cluster) -> Vec<Phase> {
    let to = c.store.events.iter().filter_map(|event| match &event.what {
        Happening::Workload { to, .. } => *to,
        _ => None,
    });
    to.collect()
}

fn generation(c: &Cluster) -> u64 {
    c.world.workload(&workload_id("web")).unwrap().workload.generation.0
}

#[test]
fn a_restart_stops_and_starts_under_one_generation() {
    let mut c = running();
    let (before, epoch) = (generation(&c), c.assignment("web").place.unwrap().epoch);
    assert!(matches!(restart(&mut c), Reply::Done { .. }));
    assert_eq!(c.phase("web"), Some(Phase::Running));
    assert_eq!(generation(&c), before + 1);
    let last: Vec<_> = phases(&c).into_iter().rev().take(3).collect();
    assert_eq!(last, [Phase::Running, Phase::Starting, Phase::Stopping]);
    let place = c.assignment("web").place.unwrap();
    assert!(place.epoch > epoch && place.restart.is_none());
    assert_eq!(place.generation.0, generation(&c));
    let view = c.world.workload(&workload_id("web")).unwrap();
    assert_eq!(view.workload.desired, Desired::Running);
    assert!(c.world.check().is_empty());
}

/// The leader dies after the wish was stored, and again after the copy came to rest.
#[test]
fn a_restart_goes_on_under_the_next_leader() {
    let mut c = running();
    let node = asked_only(&mut c);
    c.commands.clear();
    c.reopen();
    let view = c.world.workload(&workload_id("web")).unwrap();
    assert_eq!(view.workload.desired, Desired::Running, "nobody wants it stopped");
    c.register(&node);
    c.pass(5_000);
    assert_eq!(c.phase("web"), Some(Phase::Running));
    assert!(phases(&c).ends_with(&[Phase::Stopping, Phase::Starting, Phase::Running]));

    let node = asked_only(&mut c);
    c.obey();
    // Its node has ended it, and only the next leader hears of that.
    let held = c.agents.get_mut(&node).unwrap().held.get_mut(&workload_id("web")).unwrap();
    let place = c.world.workload(&workload_id("web")).unwrap().assignment.place.clone().unwrap();
    held.report.epoch = place.epoch;
    held.report.state = State::Stopped;
    held.run = false;
    c.commands.clear();
    c.reopen();
    c.register(&node);
    c.pass(5_000);
    assert_eq!(c.phase("web"), Some(Phase::Running));
    assert!(c.agents[&node].held[&workload_id("web")].run);
    assert!(c.world.check().is_empty());
}

#[test]
fn a_second_restart_in_the_meantime_is_the_same() {
    let mut c = running();
    asked_only(&mut c);
    let before = generation(&c);
    let node = home(&c);
    c.deaf.push(node);
    let Reply::Done { note, .. } = restart(&mut c) else { panic!("refused") };
    assert!(note.contains("already"), "{note}");
    assert_eq!(generation(&c), before);
}

#[test]
fn a_newer_wish_takes_the_place_of_a_restart() {
    for desired in [Desired::Stopped, Desired::Deleted] {
        let mut c = running();
        asked_only(&mut c);
        if desired == Desired::Deleted {
            c.ask(Ask::Delete(workload_id("web")));
        } else {
            c.set_desired("web", desired);
        }
        c.pass(5_000);
        let left = if desired == Desired::Deleted { None } else { Some(Phase::Stopped) };
        assert_eq!(c.phase("web"), left);
        assert!(c.world.check().is_empty());
    }
    let mut c = running();
    let node = asked_only(&mut c);
    c.apply("web", container(500, 500), "r2");
    c.pass(5_000);
    assert_eq!(c.phase("web"), Some(Phase::Running));
    let held = &c.agents[&node].held[&workload_id("web")];
    assert_eq!((held.revision.as_str(), held.run), ("r2", true));
    assert!(c.assignment("web").place.unwrap().restart.is_none());
}

#[test]
fn a_restart_whose_node_is_lost_is_a_start_elsewhere() {
    let mut c = running();
    let node = home(&c);
    c.deaf.push(node.clone());
    restart(&mut c);
    c.pass(120_000);
    assert_eq!(c.phase("web"), Some(Phase::Running));
    assert_ne!(home(&c), node);
}

#[test]
fn only_what_should_run_and_has_a_place_is_restarted() {
    let mut c = running();
    let refused = |reply: Reply| match reply {
        Reply::Refused { code, why } => (code, why.to_string()),
        other => panic!("{other:?}"),
    };
    let (code, _) = refused(c.ask(Ask::Restart(workload_id("nobody"))));
    assert_eq!(code, RefusalCode::NotFound);
    c.set_desired("web", Desired::Paused);
    assert!(refused(restart(&mut c)).1.contains("persys resume"));
    c.set_desired("web", Desired::Stopped);
    assert!(refused(restart(&mut c)).1.contains("persys start"));
    c.apply("big", container(90_000, 1_000), "r1");
    let (code, why) = refused(c.ask(Ask::Restart(workload_id("big"))));
    assert_eq!(code, RefusalCode::Conflict);
    assert!(why.contains("persys why"), "{why}");
}

#[test]
fn what_gave_up_is_started_again() {
    let mut c = Cluster::with_nodes(1, 4_000, 4_000);
    let failure = Failure::new(FailureReason::ImageNotFound, "there is no image");
    c.failing.insert(RevisionId::fixed("r1"), (failure, false));
    c.apply("web", container(1_000, 1_000), "r1");
    assert_eq!(c.phase("web"), Some(Phase::Failed));
    c.failing.clear();
    assert!(matches!(restart(&mut c), Reply::Done { .. }));
    assert_eq!(c.phase("web"), Some(Phase::Running));
}

/// What an update left running is what is restarted, and the update is not tried again for that.
#[test]
fn a_failed_update_stays_as_it_is() {
    let mut c = running();
    let failure = Failure::new(FailureReason::ImageNotFound, "there is no image");
    c.failing.insert(RevisionId::fixed("r2"), (failure, true));
    c.apply("web", container(900, 900), "r2");
    let state = |c: &Cluster| c.world.workload(&workload_id("web")).unwrap().update_state();
    assert_eq!(state(&c), Some(UpdateState::UpdateFailed));
    assert!(matches!(restart(&mut c), Reply::Done { .. }));
    assert_eq!(
        (c.phase("web"), state(&c)),
        (Some(Phase::Running), Some(UpdateState::UpdateFailed))
    );
    let held = &c.agents[&home(&c)].held[&workload_id("web")];
    assert_eq!((held.revision.as_str(), held.run), ("r1", true));
}

/// The order in between is one to rest, so agents of every age carry it out.
#[test]
fn its_node_is_told_to_rest_and_then_to_run() {
    let mut c = running();
    let node = home(&c);
    c.undialled.push(node.clone());
    restart(&mut c);
    c.undialled.clear();
    let orders: Vec<_> = std::mem::take(&mut c.refused)
        .into_iter()
        .map(|(_, command)| match command.order {
            Order::Apply(apply) => apply.run,
            Order::Remove { .. } => panic!("nothing is removed"),
        })
        .collect();
    assert_eq!(orders, [false]);
    c.pass(30_000);
    assert_eq!(c.phase("web"), Some(Phase::Running));
    assert!(c.agents[&node].held[&workload_id("web")].run);
}

/// Simulator seeds 12 and 639: the only node was lost and came back, its copy had run on, and was taken for
/// the new start.
#[test]
fn a_copy_that_ran_on_while_its_node_was_lost_is_ended_first() {
    let mut c = Cluster::with_nodes(1, 4_000, 4_000);
    c.settings.brake_percent = 100;
    c.reopen();
    c.pass(5_000);
    c.apply("web", container(1_000, 1_000), "r1");
    let node = home(&c);
    c.deaf.push(node.clone());
    restart(&mut c);
    c.pass(60_000);
    assert_eq!(c.phase("web"), Some(Phase::Pending));
    c.deaf.clear();
    let before = phases(&c).len();
    c.pass(30_000);
    assert_eq!(c.phase("web"), Some(Phase::Running));
    let since = phases(&c).split_off(before);
    assert!(since.contains(&Phase::Stopping), "{since:?}");
    assert!(c.world.check().is_empty());
}
