//! Stories about records that are neither workloads nor nodes.

mod support;

use std::sync::Arc;

use persys_cluster::effects::{RefusalCode, Reply};
use persys_cluster::input::{Ask, Recovery};
use persys_cluster::record::Snapshot;
use persys_cluster::settings::Settings;
use persys_cluster::world::World;
use persys_model::entry::{Allowance, Entry, EntryKey, EntryKind, Namespace};
use persys_model::event::Happening;
use persys_model::id::NamespaceName;
use persys_model::mode::Mode;
use persys_model::time::Millis;
use persys_model::token::Term;

use support::{Cluster, container};

fn namespace(name: &'static str) -> Arc<Entry> {
    Arc::new(Entry::Namespace(Namespace::new(NamespaceName::fixed(name))))
}

fn code(reply: &Reply) -> Option<RefusalCode> {
    if let Reply::Refused { code, .. } = reply { Some(*code) } else { None }
}

fn told(c: &Cluster) -> Vec<String> {
    let asked = |what: &Happening| {
        if let Happening::Asked { what, .. } = what { Some(what.to_string()) } else { None }
    };
    c.store.events.iter().filter_map(|event| asked(&event.what)).collect()
}

#[test]
fn a_record_is_kept_changed_and_forgotten_each_with_one_event() {
    let mut c = Cluster::with_nodes(1, 1000, 1024);
    let web = namespace("web");
    for _ in 0..2 {
        assert!(matches!(c.ask(Ask::Keep(Arc::clone(&web))), Reply::Done { .. }));
    }
    assert_eq!(c.store.snapshot.entries, [Arc::clone(&web)]);
    let name = NamespaceName::fixed("web");
    let allowance = Allowance { privileged: true, ..Allowance::default() };
    let wider = Arc::new(Entry::Namespace(Namespace { name, allowance }));
    c.ask(Ask::Keep(Arc::clone(&wider)));
    assert_eq!(c.store.snapshot.entries, [Arc::clone(&wider)]);
    assert_eq!(c.world.entries().get(&web.key()), Some(&wider));
    c.ask(Ask::Forget(web.key()));
    assert!(c.store.snapshot.entries.is_empty() && c.world.entries().iter().next().is_none());
    assert_eq!(code(&c.ask(Ask::Forget(web.key()))), Some(RefusalCode::NotFound));
    let word = |what: &str| format!("{what} the namespace web");
    assert_eq!(told(&c), [word("make"), word("change"), word("delete")]);
    assert!(c.store.events.iter().rev().take(3).all(|event| event.by.is_some()), "with authors");
}

#[test]
fn records_are_read_back_by_the_next_leader() {
    let mut c = Cluster::with_nodes(1, 1000, 1024);
    c.ask(Ask::Keep(namespace("web")));
    c.reopen();
    let key = EntryKey { kind: EntryKind::Namespace, name: NamespaceName::fixed("web").entry() };
    assert!(c.world.entries().get(&key).is_some());
    let copy = World::copy_of(Settings::default(), c.store.snapshot.clone(), c.now);
    assert!(copy.world().entries().get(&key).is_some(), "those who follow have it too");
}

/// Whatever way out is taken, memory and store hold the same records afterwards.
#[test]
fn records_survive_a_recovery() {
    let ways = [
        (Recovery::FromAgents, "late"),
        (Recovery::AcceptEmpty, "late"),
        (
            Recovery::FromSnapshot(Box::new(Snapshot {
                entries: vec![namespace("early")],
                ..Snapshot::default()
            })),
            "early",
        ),
    ];
    for (way, left) in ways {
        let mut c = Cluster::with_nodes(1, 1000, 1024);
        c.apply("web", container(100, 128), "r1");
        c.ask(Ask::Keep(namespace("late")));
        let known = c.world.high_water();
        if let Some(head) = &mut c.store.snapshot.head {
            head.rebuilding = true;
        }
        let snapshot = c.store.snapshot.clone();
        let fresh = Arc::from("fresh");
        let (mut world, effects) =
            World::open(Settings::default(), Term(1), snapshot, Some(known), fresh, c.now);
        world.set_leads_until(Millis(u64::MAX));
        c.world = world;
        c.absorb(effects);
        assert_eq!(c.world.mode().0, Mode::Recovery);
        c.ask(Ask::Recover(way));
        assert_eq!(c.world.mode().0, Mode::Normal);
        assert_eq!(c.store.snapshot.entries, [namespace(left)]);
        assert!(c.world.entries().iter().eq(&c.store.snapshot.entries));
    }
}
