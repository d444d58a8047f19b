//! What somebody does is in the audit log, in the unit of the change; the log is one chain.

mod support;

use std::sync::Arc;

use persys_cluster::input::{Ask, Input};
use persys_cluster::record::Write;
use persys_model::audit::{AuditHead, verify};
use persys_model::entry::{Entry, SecretEntry};
use persys_model::event::{Author, Origin};
use persys_model::failure::{Failure, FailureReason};
use persys_model::id::{NamespaceName, RevisionId, SecretName};
use persys_model::inventory::State;
use persys_model::phase::Phase;
use persys_model::secret::{Envelope, SecretSeen, SecretUse};
use persys_model::spec::Spec;
use persys_model::time::WallMillis;
use persys_model::workload::Desired;
use support::{Cluster, container, node_id, workload_id};

fn ann() -> Arc<Author> {
    let origin =
        Origin { source: "10.0.0.9:4711".into(), request: "7".into(), ..Origin::default() };
    Arc::new(Author { origin, why: "new disk".into(), ..Author::new("operator ann") })
}

fn ask(c: &mut Cluster, ask: Ask) {
    let request = c.request();
    c.step(Input::Ask(request, ann(), ask));
    c.obey();
}

fn apply(id: &str, revision: &'static str, spec: Spec) -> Ask {
    Ask::Apply {
        workload: workload_id(id),
        spec: Some(Arc::new(spec)),
        revision: Some(RevisionId::fixed(revision)),
        desired: Desired::Running,
    }
}

fn told(c: &Cluster) -> Vec<String> {
    let one = |record: &Arc<persys_model::audit::AuditRecord>| {
        format!(
            "{} {} {} {}>{}",
            record.who, record.verb, record.object, record.before, record.after
        )
    };
    c.store.audit.iter().map(one).collect()
}

#[test]
fn every_change_somebody_asked_for_is_one_record_of_one_chain() {
    let mut c = Cluster::with_nodes(2, 4000, 4096);
    ask(&mut c, apply("web", "r1", container(100, 64)));
    ask(&mut c, apply("web", "r1", container(100, 64)));
    ask(&mut c, apply("web", "r2", container(200, 64)));
    ask(&mut c, Ask::Drain(node_id(0), "disk".into()));
    ask(&mut c, Ask::Delete(workload_id("nobody")));
    ask(&mut c, Ask::Delete(workload_id("web")));
    assert_eq!(
        told(&c),
        [
            "operator ann apply workload/web >r1",
            "operator ann apply workload/web r1>r2",
            "operator ann drain node/n0 >",
            "operator ann delete workload/web r2>r2",
        ],
        "what changed nothing is no change"
    );
    let first = &c.store.audit[0];
    assert_eq!((&*first.source, &*first.request, &*first.why), ("10.0.0.9:4711", "7", "new disk"));
    let head = c.store.snapshot.head.as_ref().unwrap().audit;
    let records = c.store.audit.iter().map(|record| &**record);
    assert_eq!(verify(AuditHead::default(), records, head), Ok(4));
}

#[test]
fn the_record_is_in_the_first_unit_of_its_change() {
    let mut c = Cluster::with_nodes(1, 4000, 4096);
    let request = c.request();
    let effects =
        c.world.step(Input::Ask(request, ann(), apply("web", "r1", container(1, 1))), c.now);
    let units: Vec<bool> = effects
        .units
        .iter()
        .map(|unit| unit.writes.iter().any(|write| matches!(write, Write::PutAudit(_))))
        .collect();
    assert!(units.first() == Some(&true) && units.iter().filter(|has| **has).count() == 1);
    let wrote = |write: &Write| matches!(write, Write::PutWorkload(_));
    assert!(effects.units[0].writes.iter().any(wrote), "with what changed");
    c.absorb(effects);
}

#[test]
fn a_refusal_is_a_record_and_nothing_else() {
    let mut c = Cluster::with_nodes(1, 4000, 4096);
    let events = c.store.events.len();
    let (verb, rule) = ("/persys.x/Y".into(), "admins".into());
    ask(&mut c, Ask::Refused { verb, rule, left_out: 5 });
    let record = &c.store.audit[0];
    assert_eq!((record.allowed, record.left_out, &*record.rule), (false, 5, "admins"));
    assert_eq!(c.store.events.len(), events);
}

#[test]
fn what_failed_for_want_of_a_secret_begins_anew_when_it_is_set() {
    let mut c = Cluster::with_nodes(1, 4000, 4096);
    let seen = SecretSeen::Env("KEY".into());
    let secrets = vec![SecretUse { secret: SecretName::fixed("db"), seen }];
    ask(&mut c, apply("web", "r1", Spec { secrets, ..container(100, 64) }));
    ask(&mut c, apply("plain", "r1", container(100, 64)));
    let epoch = |c: &Cluster, id: &str| {
        c.world.workload(&workload_id(id)).unwrap().assignment.place.as_ref().map(|p| p.epoch)
    };
    for name in ["web", "plain"] {
        let failure = Failure::new(FailureReason::InvalidSpec, "the secret db is not set");
        c.say(&node_id(0), name, State::Failed(failure));
        assert_eq!(c.phase(name), Some(Phase::Failed));
    }
    let before = (epoch(&c, "web"), epoch(&c, "plain"));
    let sealed = Envelope {
        key: "k".into(),
        wrapped: Arc::from([1]),
        body: Arc::from([2]),
        digest: "d".into(),
    };
    let secret = SecretEntry {
        namespace: NamespaceName::default_one(),
        name: SecretName::fixed("db"),
        version: 1,
        set_at: WallMillis(1),
        set_by: "operator ann".into(),
        sealed,
        vault: None,
    };
    ask(&mut c, Ask::Keep(Arc::new(Entry::Secret(secret.clone()))));
    assert_ne!(epoch(&c, "web"), before.0, "it is ordered again");
    assert_eq!(epoch(&c, "plain"), before.1, "others are left alone");
    assert!(told(&c).last().unwrap().contains("secret/default.db"), "{:?}", told(&c));

    // Of two who set it at once the second is refused; sealing it anew is no new value.
    let kept = |c: &Cluster| {
        let entries = c.world.entries();
        let secret = entries.secret(&secret.namespace, &secret.name).unwrap();
        (secret.version, secret.sealed.clone())
    };
    let other = |version, digest: &str, key: &str| {
        let sealed = Envelope { digest: digest.into(), key: key.into(), ..secret.sealed.clone() };
        Ask::Keep(Arc::new(Entry::Secret(SecretEntry { version, sealed, ..secret.clone() })))
    };
    ask(&mut c, other(2, "d2", "k"));
    for outdated in [other(2, "d3", "k"), other(1, "d", "k2")] {
        ask(&mut c, outdated);
        assert_eq!((kept(&c).0, &*kept(&c).1.digest), (2, "d2"));
    }
    ask(&mut c, other(2, "d2", "k2"));
    assert_eq!(&*kept(&c).1.key, "k2");
}
