//! Stories about records that are neither workloads nor nodes.

mod support;

use std::sync::Arc;

use persys_cluster::effects::{Outbound, RefusalCode, Reply};
use persys_cluster::input::{Ask, Input, Recovery};
use persys_cluster::record::Snapshot;
use persys_cluster::settings::Settings;
use persys_cluster::world::World;
use persys_model::entry::{Allowance, Entry, EntryKey, EntryKind, JoinToken, Namespace};
use persys_model::event::{Author, Happening};
use persys_model::id::{EntryName, NamespaceName};
use persys_model::join::Claim;
use persys_model::mode::Mode;
use persys_model::time::{Millis, WallMillis};
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
    let wider = Arc::new(Entry::Namespace(Namespace { name, allowance, shadow: false }));
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

fn invitation(uses_left: u32, expires: WallMillis) -> Arc<Entry> {
    Arc::new(Entry::JoinToken(JoinToken {
        id: EntryName::fixed("a1"),
        hash: "h".into(),
        role: "agent".into(),
        name: None,
        expires,
        uses_left,
        uses: Vec::new(),
    }))
}

fn claim(hash: &str, key: &str, name: &str) -> Ask {
    Ask::Redeem(Claim {
        id: "a1".into(),
        hash: hash.into(),
        key: key.into(),
        name: name.into(),
        taken_as: Vec::new(),
        revoked_as: Vec::new(),
    })
}

/// The token as it is stored: how many more may join, and who did.
fn stored(c: &Cluster) -> (u32, Vec<String>) {
    let token = |entry: &Arc<Entry>| {
        if let Entry::JoinToken(token) = &**entry { Some(token.clone()) } else { None }
    };
    let mut tokens = c.store.snapshot.entries.iter().filter_map(token);
    let found = tokens.next().map(|token| {
        let names = token.uses.iter().map(|one| one.name.to_string());
        (token.uses_left, names.collect())
    });
    assert!(found.is_some() && tokens.next().is_none());
    found.unwrap_or_default()
}

#[test]
fn a_token_is_counted_down_where_it_is_stored_and_by_nobody_twice() {
    let mut c = Cluster::with_nodes(1, 1000, 1024);
    let late = WallMillis(c.now.wall.0 + 60_000);
    c.ask(Ask::Keep(invitation(1, late)));
    // What is wrong costs nothing.
    assert_eq!(code(&c.ask(claim("x", "k1", "n1"))), Some(RefusalCode::Conflict));
    assert_eq!(stored(&c), (1, vec![]));

    // Told only once it is stored: a leader that dies before has told nobody.
    let request = c.request();
    let author = Arc::new(Author::new("stranger"));
    let effects = c.world.step(Input::Ask(request, author, claim("h", "k1", "n1")), c.now);
    let tells = |out: &Outbound| matches!(out, Outbound::Reply(..));
    assert!(!effects.units.is_empty() && !effects.out.iter().any(tells), "{effects:?}");
    c.absorb(effects);
    assert_eq!(stored(&c), (0, vec!["n1".to_owned()]));

    // The same key may ask again, and nothing is written; another may not, nor after a restart.
    let before = c.store.snapshot.head.clone();
    assert!(matches!(c.ask(claim("h", "k1", "n1")), Reply::Done { .. }));
    assert_eq!(code(&c.ask(claim("h", "k2", "n2"))), Some(RefusalCode::Conflict));
    assert_eq!(c.store.snapshot.head, before);
    c.reopen();
    assert_eq!(code(&c.ask(claim("h", "k2", "n2"))), Some(RefusalCode::Conflict));
    assert!(matches!(c.ask(claim("h", "k1", "n1")), Reply::Done { .. }));
    assert_eq!(stored(&c), (0, vec!["n1".to_owned()]));
}

#[test]
fn a_token_for_several_is_for_so_many_until_it_expires() {
    let mut c = Cluster::with_nodes(1, 1000, 1024);
    let end = WallMillis(c.now.wall.0 + 60_000);
    c.ask(Ask::Keep(invitation(3, end)));
    for nth in 1..=2 {
        let joined = c.ask(claim("h", &format!("k{nth}"), &format!("m{nth}")));
        assert!(matches!(joined, Reply::Done { .. }), "{joined:?}");
    }
    assert_eq!(stored(&c), (1, vec!["m1".to_owned(), "m2".to_owned()]));
    c.pass(60_000);
    let late = c.ask(claim("h", "k3", "m3"));
    assert!(matches!(&late, Reply::Refused { why, .. } if why.contains("expired")), "{late:?}");
    // Not even for who was let in before: certificates are renewed, not asked for again.
    assert_eq!(code(&c.ask(claim("h", "k1", "m1"))), Some(RefusalCode::Conflict));
    assert_eq!(stored(&c).0, 1);
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
