//! One scheduler process and its store, by hand: who leads, and when the store is away.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop")]

mod support;

use std::sync::Arc;

use persys_cluster::record::{Head, Snapshot};
use persys_cluster::replica::{Replica, ReplicaEffects, ReplicaInput};
use persys_cluster::settings::Settings;
use persys_cluster::store::{CallId, HighWater, StoreCall, StoreReply};
use persys_cluster::world::World;
use persys_model::mode::Mode;
use persys_model::phase::Phase;
use persys_model::time::{Millis, Now, WallMillis};
use persys_model::token::{CommitSeq, Epoch, EventSeq, Term};
use support::{Cluster, container, node_id, workload_id};

fn at(ms: u64) -> Now {
    Now { mono: Millis(ms), wall: WallMillis(ms) }
}

fn replica() -> Replica {
    let (candidate, fresh) = (Arc::from("10.0.0.1:8085#1"), Arc::from("c"));
    Replica::start(candidate, fresh, None, Settings::default(), at(0))
}

fn the_call(effects: &ReplicaEffects) -> (CallId, StoreCall) {
    let [(id, call)] = effects.calls.as_slice() else { panic!("{:?}", effects.calls) };
    (*id, call.clone())
}

/// A replica that leads a store with nothing in it, and the moment of its next renewal.
fn leading() -> (Replica, u64) {
    let mut replica = replica();
    let (id, _) = the_call(&replica.step(ReplicaInput::Tick, at(0)));
    let effects = replica.step(ReplicaInput::Store(id, StoreReply::Won(Term(1))), at(10));
    let (id, call) = the_call(&effects);
    assert!(matches!(call, StoreCall::Load { .. }));
    let head = Head {
        cluster: Arc::from("c"),
        incarnation: 0,
        seq: CommitSeq(3),
        epoch: Epoch(0),
        event: EventSeq(0),
        audit: persys_model::audit::AuditHead::default(),
        rebuilding: false,
        mark_key: Arc::from(""),
    };
    let snapshot = Snapshot { head: Some(head), ..Snapshot::default() };
    let loaded = StoreReply::Loaded(Box::new(snapshot));
    let effects = replica.step(ReplicaInput::Store(id, loaded), at(20));
    assert_eq!(replica.world().unwrap().mode().0, Mode::Normal);
    assert_eq!(replica.term(), Some(Term(1)));
    (replica, effects.wake_at.unwrap().0)
}

#[test]
fn who_leads_is_known_for_as_long_as_it_may_be_so() {
    let mut replica = replica();
    assert_eq!(replica.leader(at(0)), None);
    let (id, _) = the_call(&replica.step(ReplicaInput::Tick, at(0)));
    let held = StoreReply::HeldBy(Arc::from("10.0.0.2:8085#7"), None);
    let effects = replica.step(ReplicaInput::Store(id, held), at(100));
    assert_eq!(replica.leader(at(100)).map(|leader| &**leader), Some("10.0.0.2:8085#7"));
    // It asks again long before what it heard is too old.
    let again = effects.wake_at.unwrap();
    let ttl = Settings::default().leader_ttl_ms;
    assert!(again.0 < 100 + ttl / 2, "{again:?}");
    let (id, call) = the_call(&replica.step(ReplicaInput::Tick, at(again.0)));
    assert!(matches!(call, StoreCall::Campaign { .. }));
    // No answer is no news.
    replica.step(ReplicaInput::Store(id, StoreReply::Unavailable), at(again.0));
    assert!(replica.leader(at(100 + ttl - 1)).is_some());
    assert_eq!(replica.leader(at(100 + ttl)), None);
    assert_eq!(replica.term(), None);
}

#[test]
fn who_leads_says_so_and_who_was_deposed_does_not() {
    let (mut replica, due) = leading();
    assert_eq!(replica.leader(at(due)).map(|leader| &**leader), Some("10.0.0.1:8085#1"));
    let (id, _) = the_call(&replica.step(ReplicaInput::Tick, at(due)));
    replica.step(ReplicaInput::Store(id, StoreReply::Deposed), at(due + 5));
    assert_eq!(replica.leader(at(due + 5)), None);
    assert!(replica.world().is_none());
}

/// With the shell's deadline of 0.9 s for a renewal that is within three seconds.
#[test]
fn an_idle_leader_takes_two_unanswered_renewals_for_a_lost_store() {
    let (mut replica, due) = leading();
    let mut now = due;
    let (id, call) = the_call(&replica.step(ReplicaInput::Tick, at(now)));
    assert!(matches!(call, StoreCall::Renew { .. }));
    now += 900;
    let effects = replica.step(ReplicaInput::Store(id, StoreReply::Unknown), at(now));
    assert_eq!(replica.world().unwrap().mode().0, Mode::Normal, "once is chance");
    now = effects.wake_at.unwrap().0;
    let (id, _) = the_call(&replica.step(ReplicaInput::Tick, at(now)));
    now += 900;
    replica.step(ReplicaInput::Store(id, StoreReply::Unknown), at(now));
    assert_eq!(replica.world().unwrap().mode().0, Mode::Degraded);
    assert!(now - 20 < 3_000, "noticed after {now} ms");
    assert_eq!(replica.world().unwrap().unconfirmed_since(), Some(Millis(now)));
}

#[test]
fn an_answered_renewal_forgives_an_unanswered_one() {
    let (mut replica, due) = leading();
    let mut now = due;
    for _ in 0..4 {
        for reply in [StoreReply::Unknown, StoreReply::Renewed(None)] {
            let (id, _) = the_call(&replica.step(ReplicaInput::Tick, at(now)));
            now += 50;
            let effects = replica.step(ReplicaInput::Store(id, reply), at(now));
            now = effects.wake_at.unwrap().0;
        }
    }
    assert_eq!(replica.world().unwrap().mode().0, Mode::Normal);
}

#[test]
fn renewals_that_fail_do_not_disturb_a_reading() {
    let (mut replica, due) = leading();
    let mut now = due;
    for _ in 0..2 {
        let (id, _) = the_call(&replica.step(ReplicaInput::Tick, at(now)));
        let effects = replica.step(ReplicaInput::Store(id, StoreReply::Unavailable), at(now));
        now = effects.wake_at.unwrap().0;
    }
    assert_eq!(replica.world().unwrap().mode().0, Mode::Degraded);
    let effects = replica.step(ReplicaInput::Tick, at(now));
    let load = effects.calls.iter().find(|(_, call)| matches!(call, StoreCall::Load { .. }));
    let (load, _) = *load.unwrap();
    let mut renewal = effects.calls.iter().find(|(id, _)| *id != load).map(|(id, _)| *id);
    for _ in 0..20 {
        now += 200;
        if let Some(id) = renewal.take() {
            replica.step(ReplicaInput::Store(id, StoreReply::Unavailable), at(now));
        }
        let effects = replica.step(ReplicaInput::Tick, at(now));
        let read = effects.calls.iter().any(|(_, call)| matches!(call, StoreCall::Load { .. }));
        assert!(!read, "it is read already");
        renewal = effects.calls.first().map(|(id, _)| *id);
    }
    let head = replica.world().unwrap().head().clone();
    let snapshot = Snapshot { head: Some(head), ..Snapshot::default() };
    let loaded = StoreReply::Loaded(Box::new(snapshot));
    replica.step(ReplicaInput::Store(load, loaded), at(now));
    assert_eq!(replica.world().unwrap().mode().0, Mode::Normal);
}

#[test]
fn a_copy_shows_what_is_stored_and_decides_nothing() {
    let mut cluster = Cluster::with_nodes(2, 4_000, 4_096);
    cluster.apply("web", container(100, 64), "r1");
    cluster.apply("large", container(9_000, 64), "r1");
    cluster.obey();
    let mut snapshot = cluster.store.snapshot.clone();
    let copy = World::copy_of(cluster.settings.clone(), snapshot.clone(), at(7));
    assert_eq!(copy.read_at(), Millis(7));
    let (theirs, ours) = (&cluster.world, copy.world());
    assert_eq!(ours.head(), theirs.head());
    for name in ["web", "large"] {
        let id = workload_id(name);
        let (theirs, ours) = (theirs.workload(&id).unwrap(), ours.workload(&id).unwrap());
        assert_eq!((ours.workload, ours.assignment), (theirs.workload, theirs.assignment));
    }
    let free = |world: &World| world.nodes().map(|node| node.free).collect::<Vec<_>>();
    assert_eq!(free(ours), free(theirs));
    assert!(ours.explain(&workload_id("large")).is_some());

    // Room for what waits: whoever leads places it, a copy does not.
    let roomy = Cluster::with_nodes(3, 16_000, 4_096).store.snapshot.nodes;
    snapshot.nodes.extend(roomy.into_iter().filter(|node| node.facts.id == node_id(2)));
    let (term, fresh) = (Term(9), Arc::from("c"));
    let settings = || cluster.settings.clone();
    let (_, effects) = World::open(settings(), term, snapshot.clone(), None, fresh, at(9));
    assert!(!effects.units.is_empty());
    let copy = World::copy_of(settings(), snapshot, at(9));
    let large = copy.world().workload(&workload_id("large")).unwrap();
    assert_eq!(large.assignment.phase, Phase::Pending);
}

#[test]
fn a_silent_leader_is_asked_about_soon_but_not_all_the_time() {
    let mut replica = replica();
    let (mut id, _) = the_call(&replica.step(ReplicaInput::Tick, at(0)));
    let mut asked = 1;
    for now in 0..1_000 {
        let held = StoreReply::HeldBy(Arc::from("10.0.0.2:8085#7"), None);
        let mut calls = replica.step(ReplicaInput::Store(id, held), at(now)).calls;
        calls.extend(replica.step(ReplicaInput::LeaderSilent, at(now)).calls);
        if let [(next, StoreCall::Campaign { .. })] = calls.as_slice() {
            (id, asked) = (*next, asked + 1);
        }
    }
    assert_eq!(asked, 5, "every 200 ms at most");
}

#[test]
fn an_idle_leader_notices_with_a_renewal_that_its_store_was_set_back() {
    let (mut replica, due) = leading();
    let (id, _) = the_call(&replica.step(ReplicaInput::Tick, at(due)));
    let older = HighWater { cluster: Arc::from("c"), incarnation: 0, seq: CommitSeq(2) };
    let reply = StoreReply::Renewed(Some(older));
    let effects = replica.step(ReplicaInput::Store(id, reply), at(due + 10));
    assert_eq!(
        replica.world().unwrap().mode().0,
        Mode::Degraded,
        "nothing is ordered from here on"
    );
    let now = effects.wake_at.unwrap().0;
    let effects = replica.step(ReplicaInput::Tick, at(now));
    let loads = |(_, call): &(CallId, StoreCall)| matches!(call, StoreCall::Load { .. });
    assert!(effects.calls.iter().any(loads), "{effects:?}");
    assert!(now < 10_000, "noticed after {now} ms");
}
