//! Stories about a store that was set back together with what its scheduler remembers.

#![allow(clippy::wildcard_enum_match_arm, reason = "a story looks at the events it is about")]

mod support;

use std::sync::Arc;

use persys_cluster::effects::Reply;
use persys_cluster::input::{Ask, Recovery};
use persys_cluster::record::Snapshot;
use persys_cluster::settings::Settings;
use persys_cluster::world::{Memory, World};
use persys_model::link::RegistrationAnswer;
use persys_model::mode::Mode;
use persys_model::phase::Phase;
use persys_model::store_mark::Marked;
use persys_model::time::Millis;
use persys_model::token::{CommitSeq, Epoch, Term};
use support::{Cluster, container, facts, node_id, workload_id};

fn settings() -> Settings {
    Settings { mark_key: Arc::from("key of the cluster"), ..Settings::default() }
}

fn cluster(nodes: usize) -> Cluster {
    let mut c = Cluster::new(settings());
    for n in 0..nodes {
        c.join(facts(&node_id(n), 4_000, 8_000));
    }
    c
}

/// A process that has just started reads `snapshot`; its memory was set back with it.
fn set_back(c: &mut Cluster, snapshot: &Snapshot, term: u64) {
    let mut snapshot = snapshot.clone();
    if let Some(head) = &mut snapshot.head {
        // Whoever begins to lead moves the head by one.
        head.seq = head.seq.next();
    }
    c.store.snapshot = snapshot.clone();
    c.commands.clear();
    let settings = Settings { mark_key: Arc::from("another key"), ..settings() };
    let memory = Memory { known: None, fresh: true };
    let fresh = Arc::from("fresh");
    let (mut world, effects) = World::open_as(settings, Term(term), snapshot, memory, fresh, c.now);
    world.set_leads_until(Millis(u64::MAX));
    c.world = world;
    c.absorb(effects);
}

fn beat_all(c: &mut Cluster, nodes: usize) {
    for n in 0..nodes {
        c.beat(&node_id(n));
    }
}

#[test]
fn a_store_set_back_with_its_memory_is_noticed_before_anything_is_ordered() {
    for term in [1, 2, 3] {
        let mut c = cluster(2);
        c.apply("old", container(500, 512), "r1");
        c.apply("gone", container(500, 512), "r1");
        let older = c.store.snapshot.clone();
        c.apply("old", container(600, 512), "r2");
        c.ask(Ask::Delete(workload_id("gone")));
        c.apply("new", container(500, 512), "r1");
        c.pass(3_000);
        set_back(&mut c, &older, term);
        assert!(c.commands.is_empty(), "nothing is ordered before agents are heard");
        assert_eq!(c.world.mode().0, Mode::Normal);
        c.tell_all(&node_id(0));
        assert_eq!(c.world.mode().0, Mode::Recovery, "{:?}", c.world.mode());
        assert!(c.commands.is_empty());
        beat_all(&mut c, 2);
        let plan = c.world.recovery_plan(&Recovery::FromAgents);
        assert!(plan.restored.contains_key(&workload_id("old")), "{plan:?}");
        assert!(plan.restored.contains_key(&workload_id("new")), "{plan:?}");
        assert!(plan.deleted.contains_key(&workload_id("gone")), "{plan:?}");
        let reply = c.ask(Ask::Recover(Recovery::FromAgents));
        assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
        c.pass(10_000);
        assert_eq!((c.phase("old"), c.phase("gone")), (Some(Phase::Running), None));
        let old = c.world.workload(&workload_id("old")).unwrap();
        assert_eq!(old.workload.revision.as_str(), "r2", "an acknowledged update is not undone");
    }
}

#[test]
fn what_an_agent_proved_is_remembered_by_the_host() {
    let mut c = cluster(1);
    let older = c.store.snapshot.clone();
    c.apply("w", container(500, 512), "r1");
    c.pass(3_000);
    set_back(&mut c, &older, 1);
    c.tell_all(&node_id(0));
    let known = c.world.high_water();
    assert!(known.seq > older.head.unwrap().seq);
    c.reopen();
    assert_eq!(c.world.mode().0, Mode::Recovery, "the next process begins in recovery too");
}

#[test]
fn a_restart_without_a_loss_waits_for_its_agents_and_goes_on() {
    let mut c = cluster(2);
    c.apply("w", container(500, 512), "r1");
    c.pass(3_000);
    let now = c.store.snapshot.clone();
    set_back(&mut c, &now, 2);
    let request = c.request();
    let ask = Ask::Apply {
        workload: workload_id("x"),
        spec: Some(Arc::new(container(500, 512))),
        revision: Some(persys_model::id::RevisionId::fixed("r1")),
        desired: persys_model::workload::Desired::Running,
    };
    let author = Arc::new(persys_model::event::Author::new("operator ann"));
    c.step(persys_cluster::input::Input::Ask(request, author, ask));
    assert!(!c.replies.contains_key(&request), "a wish waits until agents were heard");
    c.tell_all(&node_id(0));
    assert!(!c.replies.contains_key(&request));
    c.tell_all(&node_id(1));
    assert!(matches!(c.replies.get(&request), Some(Reply::Done { .. })), "{:?}", c.replies);
    assert_eq!(c.world.mode().0, Mode::Normal);
    c.pass(3_000);
    assert_eq!(c.phase("x"), Some(Phase::Running));
}

#[test]
fn a_silent_node_does_not_hold_up_a_restart_for_longer_than_its_time() {
    let mut c = cluster(2);
    c.apply("w", container(500, 512), "r1");
    c.pass(3_000);
    let now = c.store.snapshot.clone();
    set_back(&mut c, &now, 2);
    c.tell_all(&node_id(0));
    let until = c.now.mono.0 + settings().listen_ms;
    c.now.mono = Millis(until);
    let request = c.request();
    let author = Arc::new(persys_model::event::Author::new("operator ann"));
    c.step(persys_cluster::input::Input::Ask(request, author, Ask::Delete(workload_id("w"))));
    assert!(matches!(c.replies.get(&request), Some(Reply::Done { .. })), "{:?}", c.replies);
}

#[test]
fn a_forged_mark_isolates_its_node_and_nothing_else() {
    let mut c = cluster(2);
    c.apply("w", container(500, 512), "r1");
    c.pass(3_000);
    let home = c.node_of("w").unwrap();
    let liar = if home == node_id(0) { node_id(1) } else { node_id(0) };
    let marked =
        Marked { incarnation: 9, seq: CommitSeq(999_999), term: Term(99), epoch: Epoch(999_999) };
    c.agents.get_mut(&liar).unwrap().mark = Some(marked.seal("a guessed key", "test"));
    let answer = c.register(&liar);
    let RegistrationAnswer::Refused { why, .. } = answer else { panic!("{answer:?}") };
    assert!(why.contains("without a valid proof"), "{why}");
    assert_eq!(c.world.mode().0, Mode::Normal);
    let view = c.world.node(&liar).unwrap();
    assert!(view.unreachable.unwrap().contains("without a valid proof"));
    for n in 0..3 {
        c.apply(&format!("x{n}"), container(500, 512), "r1");
    }
    c.pass(3_000);
    for n in 0..3 {
        assert_eq!(
            c.node_of(&format!("x{n}")).unwrap(),
            home,
            "nothing is placed on the isolated node"
        );
    }
    c.agents.get_mut(&liar).unwrap().mark = None;
    assert!(matches!(c.register(&liar), RegistrationAnswer::Accepted { .. }));
    assert_eq!(c.world.node(&liar).unwrap().unreachable, None, "it is trusted again");
}

#[test]
fn an_older_agent_with_later_decisions_is_isolated_and_an_operator_may_believe_it() {
    let mut c = cluster(1);
    let older = c.store.snapshot.clone();
    c.apply("w", container(500, 512), "r1");
    c.pass(3_000);
    c.agents.get_mut(&node_id(0)).unwrap().mark = None;
    set_back(&mut c, &older, 2);
    c.tell_all(&node_id(0));
    assert_eq!(c.world.mode().0, Mode::Normal);
    assert!(c.world.node(&node_id(0)).unwrap().unreachable.is_some());
    let reply = c.ask(Ask::Recover(Recovery::FromAgents));
    assert!(matches!(reply, Reply::Refused { .. }), "{reply:?}");
    assert_eq!(c.world.mode().0, Mode::Recovery);
    c.pass(3_000);
    let reply = c.ask(Ask::Recover(Recovery::FromAgents));
    assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
    c.pass(3_000);
    assert_eq!(c.phase("w"), Some(Phase::Running));
}

#[test]
fn marks_are_given_only_once_their_key_is_durable() {
    let mut c = cluster(1);
    let mut old_release = c.store.snapshot.clone();
    if let Some(head) = &mut old_release.head {
        head.mark_key = Arc::from("");
    }
    c.store.snapshot = old_release.clone();
    let (mut world, _held_back) =
        World::open(settings(), Term(5), old_release, None, Arc::from("x"), c.now);
    world.set_leads_until(Millis(u64::MAX));
    c.world = world;
    c.agents.get_mut(&node_id(0)).unwrap().mark = None;
    c.beat(&node_id(0));
    let key = c.store.snapshot.head.as_ref().unwrap().mark_key.clone();
    let given = c.agents[&node_id(0)].mark.clone();
    assert_eq!(given.is_some(), !key.is_empty(), "a mark never outlives its key");
    c.apply("w", container(500, 512), "r1");
    c.pass(3_000);
    let mark = c.agents[&node_id(0)].mark.clone().unwrap();
    assert_eq!(&*c.store.snapshot.head.as_ref().unwrap().mark_key, "key of the cluster");
    assert!(mark.verify("key of the cluster", "test").is_some());
}
