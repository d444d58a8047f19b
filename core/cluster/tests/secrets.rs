//! New values of secrets for what runs: a signal under the same revision, or a restart.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test may stop"
)]

mod support;

use std::sync::Arc;

use persys_cluster::effects::Reply;
use persys_cluster::input::Ask;
use persys_cluster::world::NewValue;
use persys_model::entry::vault::{KvVersion, OnChange, VaultPath, VaultSource};
use persys_model::entry::{Entry, EntryKey, EntryKind, SecretEntry};
use persys_model::event::Happening;
use persys_model::id::{NamespaceName, SecretName};
use persys_model::node::NodeFacts;
use persys_model::phase::Phase;
use persys_model::secret::{Envelope, SecretSeen, SecretUse, Signal};
use persys_model::spec::Spec;
use persys_model::time::WallMillis;
use persys_model::token::Epoch;
use persys_model::workload::Desired;

use support::{Cluster, container, facts, node_id, workload_id};

fn used(secret: &'static str, signal: Option<Signal>) -> SecretUse {
    let path = format!("/run/secrets/{secret}").into();
    let seen = SecretSeen::File { path, mode: 0o400, uid: 0, gid: 0, signal };
    SecretUse { secret: SecretName::fixed(secret), seen }
}

/// `db` is signalled, `key` is not.
fn spec() -> Spec {
    let secrets = vec![used("db", Some(Signal::Hup)), used("key", None)];
    Spec { secrets, ..container(100, 64) }
}

fn secret(name: &'static str, version: u64) -> SecretEntry {
    let digest = format!("{name}{version}").into();
    let (wrapped, body) = (Arc::from([1]), Arc::from([2]));
    let sealed = Envelope { key: "k".into(), wrapped, body, digest };
    let (namespace, name) = (NamespaceName::default_one(), SecretName::fixed(name));
    let set_by = "operator ann".into();
    SecretEntry { namespace, name, version, set_at: WallMillis(1), set_by, sealed, vault: None }
}

fn keep(c: &mut Cluster, secret: SecretEntry) {
    let reply = c.ask(Ask::Keep(Arc::new(Entry::Secret(secret))));
    assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
}

fn running() -> Cluster {
    let mut c = Cluster::with_nodes(1, 4000, 4096);
    keep(&mut c, secret("db", 1));
    keep(&mut c, secret("key", 1));
    c.apply("web", spec(), "r1");
    c.apply("plain", container(100, 64), "r1");
    assert_eq!(c.phase("web"), Some(Phase::Running));
    c
}

fn epoch(c: &Cluster, name: &str) -> Epoch {
    c.assignment(name).place.unwrap().epoch
}

fn told(c: &Cluster) -> Vec<String> {
    let changed = c.store.events.iter().filter_map(|event| match &event.what {
        Happening::SecretChanged { id, message, .. } => Some(format!("{id}: {message}")),
        _ => None,
    });
    changed.collect()
}

fn phases(c: &Cluster) -> usize {
    let phase = |what: &Happening| matches!(what, Happening::Workload { .. });
    c.store.events.iter().filter(|event| phase(&event.what)).count()
}

#[test]
fn a_new_value_is_a_new_decision_under_the_same_revision() {
    let mut c = running();
    let (before, plain, seen) = (c.assignment("web"), epoch(&c, "plain"), phases(&c));
    keep(&mut c, secret("db", 2));
    let after = c.assignment("web");
    let (old, new) = (before.place.unwrap(), after.place.unwrap());
    assert!(new.epoch > old.epoch && new.generation == old.generation);
    assert_eq!((new.reserved, new.version), (old.reserved, old.version));
    assert_eq!((after.phase, after.reason), (Phase::Running, before.reason), "it runs on");
    assert_eq!(phases(&c), seen, "nothing was stopped or started");
    assert_eq!(epoch(&c, "plain"), plain);
    assert_eq!(told(&c), ["web: its files get the new value, and it is sent SIGHUP for db"]);
    let held = &c.agents[&node_id(0)].held[&workload_id("web")];
    assert_eq!(held.report.epoch, new.epoch, "its node was told");
    c.pass(600_000);
    assert_eq!(epoch(&c, "web"), new.epoch, "once");
}

#[test]
fn what_is_not_signalled_or_did_not_change_makes_no_decision() {
    let mut c = running();
    let before = epoch(&c, "web");
    keep(&mut c, secret("key", 2));
    // Sealed with another key of the file: the value is the same.
    let mut resealed = secret("db", 1);
    resealed.sealed.key = "k2".into();
    keep(&mut c, resealed);
    let key = EntryKey {
        kind: EntryKind::Secret,
        name: SecretEntry::entry_name(&NamespaceName::default_one(), &SecretName::fixed("db")),
    };
    c.ask(Ask::Forget(key));
    let at = VaultPath::new("secret", "db", "password", KvVersion::Two).unwrap();
    let vault = Some(VaultSource { at, on_change: OnChange::Leave, fetched_at: None });
    keep(&mut c, SecretEntry { vault, ..secret("db", 7) });
    assert_eq!((epoch(&c, "web"), told(&c)), (before, Vec::new()), "it has no value to give");
    keep(&mut c, secret("db", 8));
    assert_ne!(epoch(&c, "web"), before, "what was set anew has another value");
}

#[test]
fn a_value_that_changed_while_its_node_was_away_or_nobody_led_is_told_afterwards() {
    let mut c = running();
    let before = epoch(&c, "web");
    c.deaf.push(node_id(0));
    c.pass(12_000);
    keep(&mut c, secret("db", 2));
    c.deaf.clear();
    c.reopen();
    c.pass(60_000);
    assert_eq!(c.phase("web"), Some(Phase::Running));
    assert!(epoch(&c, "web") > before);
    let after = epoch(&c, "web");
    c.reopen();
    c.pass(60_000);
    assert_eq!(epoch(&c, "web"), after, "what was told is known after every restart");
}

#[test]
fn what_rests_gets_the_value_with_its_next_start() {
    let mut c = running();
    c.set_desired("web", Desired::Stopped);
    let rests = epoch(&c, "web");
    keep(&mut c, secret("db", 2));
    assert_eq!((epoch(&c, "web"), told(&c)), (rests, Vec::new()));
    c.set_desired("web", Desired::Running);
    assert!(told(&c).is_empty(), "one decision is enough");
}

#[test]
fn an_agent_that_cannot_signal_is_not_told_and_the_workload_is_to_be_restarted() {
    let mut c = Cluster::with_nodes(0, 0, 0);
    let old = NodeFacts { signals: false, ..facts(&node_id(0), 1000, 1024) };
    c.join(old);
    keep(&mut c, secret("db", 1));
    keep(&mut c, secret("key", 1));
    c.apply("web", spec(), "r1");
    let before = epoch(&c, "web");
    keep(&mut c, secret("db", 2));
    assert_eq!(epoch(&c, "web"), before);
    assert_eq!(
        told(&c),
        ["web: it is restarted for the new value of db: node n0 runs an agent that cannot signal"]
    );
    let users = |c: &Cluster, name| {
        c.world.secret_users(&NamespaceName::default_one(), &SecretName::fixed(name))
    };
    assert_eq!(users(&c, "db"), [(workload_id("web"), NewValue::Restart)]);
    assert_eq!(users(&c, "key"), [(workload_id("web"), NewValue::NextStart)]);
    // Its agent is upgraded before anybody restarted the workload.
    c.join(facts(&node_id(0), 1000, 1024));
    c.pass(60_000);
    assert!(epoch(&c, "web") > before, "then it is signalled");
    assert_eq!(users(&c, "db"), [(workload_id("web"), NewValue::Signal)]);
}
