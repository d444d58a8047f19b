//! Each thing that can stand in the way, alone.

use std::time::{Duration, SystemTime};

use persys_identity::authority::Stage;
use persys_proto::compute::v1::{Drift, SecretView, StandingResponse};
use persys_proto::control::v1::{NodeView, WorkloadView};
use semver::Version;

use super::facts::{Copy, Facts};
use super::judge::{Finding, Verdict, judge};
use super::report;

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000)
}

fn standing(version: &str) -> StandingResponse {
    StandingResponse {
        cluster: "test".to_owned(),
        mode: "normal".to_owned(),
        role: "leader".to_owned(),
        leader: "s1:8085".to_owned(),
        version: version.to_owned(),
        ..StandingResponse::default()
    }
}

fn node(id: &str, version: &str) -> NodeView {
    NodeView {
        node_id: id.to_owned(),
        status: "Ready".to_owned(),
        agent_version: version.to_owned(),
        ..NodeView::default()
    }
}

fn secret(key: &str) -> SecretView {
    SecretView { key: key.to_owned(), readable: true, ..SecretView::default() }
}

/// A cluster that is ready to go from 1.4 to 1.5.
fn well() -> Facts {
    let workload = WorkloadView { status: "Running".to_owned(), ..WorkloadView::default() };
    Facts {
        own: Version::new(1, 5, 0),
        schedulers: vec![("s1:8085".to_owned(), Ok(standing("1.4.2")))],
        nodes: Ok(vec![node("n1", "1.4.2"), node("n2", "1.5.0")]),
        workloads: Ok(vec![workload]),
        drifts: Ok(Vec::new()),
        secrets: Ok(vec![secret("a")]),
        copy: Some(Ok(Copy {
            file: "f".to_owned(),
            cluster: Some("test-1a2b".to_owned()),
            taken: now() - Duration::from_mins(5),
            records: 12,
            unreadable: Vec::new(),
        })),
        fresh: Duration::from_hours(1),
        stage: Some(Ok(Stage::Settled)),
        alarms: Some(Ok(Vec::new())),
    }
}

fn found(facts: &Facts, subject: &str) -> Finding {
    let all = judge(facts, now());
    all.into_iter().find(|finding| finding.subject == subject).unwrap()
}

fn verdicts(facts: &Facts) -> (usize, usize) {
    let all = judge(facts, now());
    let number = |wanted| all.iter().filter(|finding| finding.verdict == wanted).count();
    (number(Verdict::Blocking), number(Verdict::Warn))
}

#[test]
fn nothing_stands_in_the_way_of_one_step() {
    let all = judge(&well(), now());
    assert_eq!(verdicts(&well()), (0, 0), "{all:#?}");
    let text = report(&all, "1.5.0", "persys", false);
    assert!(text.starts_with("ok    schedulers  s1:8085 on 1.4.2\n"), "{text}");
    assert!(
        text.contains("ok    agents      1 of 2 will be one step behind, which works\n"),
        "{text}"
    );
    assert!(text.contains("ok    snapshot    f, 5m old, 12 records\n"), "{text}");
    assert!(text.ends_with("\nNothing stands in the way of 1.5.0.\n"), "{text}");
}

#[test]
fn an_installation_with_a_name_is_judged_by_its_program() {
    let mut facts = well();
    facts.nodes = Ok(vec![node("n1", "dev(1.4.2)"), node("n2", "9.9.9(1.5.0)")]);
    assert_eq!(found(&facts, "agents").verdict, Verdict::Ok);
    facts.nodes = Ok(vec![node("n1", "dev")]);
    assert_eq!(found(&facts, "agents").verdict, Verdict::Warn);
    facts.nodes = Ok(vec![node("n1", "1.5.0(1.2.0)")]);
    assert_eq!(found(&facts, "agents").verdict, Verdict::Blocking);
}

/// What is looked at, how bad it is, a part of the sentence, and what brings it about.
type Fault = (&'static str, Verdict, &'static str, fn(&mut Facts));

const FAULTS: &[Fault] = &[
    ("schedulers", Verdict::Blocking, "none answers", |facts| {
        facts.schedulers = vec![("s1:1".to_owned(), Err("nobody listens there".to_owned()))];
    }),
    ("schedulers", Verdict::Blocking, "too far", |facts| {
        facts.schedulers = vec![("s1:1".to_owned(), Ok(standing("1.3.9")))];
    }),
    ("schedulers", Verdict::Blocking, "too far", |facts| {
        facts.schedulers = vec![("s1:1".to_owned(), Ok(standing("0.9.0")))];
    }),
    ("schedulers", Verdict::Blocking, "no way back", |facts| {
        facts.schedulers = vec![("s1:1".to_owned(), Ok(standing("1.5.1")))];
    }),
    ("schedulers", Verdict::Warn, "under way", |facts| {
        facts.schedulers.push(("s2:1".to_owned(), Ok(standing("1.5.0"))));
    }),
    ("schedulers", Verdict::Warn, "no answer from s2:1", |facts| {
        facts.schedulers.push(("s2:1".to_owned(), Err("silent".to_owned())));
    }),
    ("schedulers", Verdict::Warn, "not all say", |facts| {
        facts.schedulers = vec![("s1:1".to_owned(), Ok(standing("")))];
    }),
    ("leader", Verdict::Blocking, "nobody leads", |facts| {
        let lost = StandingResponse {
            role: "follower".to_owned(),
            leader: String::new(),
            ..standing("1.4.2")
        };
        facts.schedulers = vec![("s1:1".to_owned(), Ok(lost))];
    }),
    ("mode", Verdict::Blocking, "degraded: etcd is away", |facts| {
        let bad = StandingResponse {
            mode: "degraded".to_owned(),
            reason: "etcd is away".to_owned(),
            ..standing("1.4.2")
        };
        facts.schedulers = vec![("s1:1".to_owned(), Ok(bad))];
    }),
    ("mode", Verdict::Blocking, "nothing moves", |facts| {
        let braked = StandingResponse { brake: true, ..standing("1.4.2") };
        facts.schedulers = vec![("s1:1".to_owned(), Ok(braked))];
    }),
    ("agents", Verdict::Blocking, "too old for a scheduler of 1.5.0: n3 on 1.3.0", |facts| {
        facts.nodes = Ok(vec![node("n1", "1.4.0"), node("n3", "1.3.0")]);
    }),
    ("agents", Verdict::Blocking, "newer than 1.5.0: n3", |facts| {
        facts.nodes = Ok(vec![node("n3", "1.6.0")]);
    }),
    ("agents", Verdict::Warn, "nobody knows the version of n3", |facts| {
        facts.nodes = Ok(vec![node("n3", "")]);
    }),
    ("nodes", Verdict::Warn, "1 not ready: n1", |facts| {
        facts.nodes = Ok(vec![NodeView { status: "NotReady".to_owned(), ..node("n1", "1.4.0") }]);
    }),
    ("nodes", Verdict::Warn, "being emptied: n1", |facts| {
        facts.nodes = Ok(vec![NodeView { status: "Draining".to_owned(), ..node("n1", "1.4.0") }]);
    }),
    ("workloads", Verdict::Warn, "1 not at rest: web starting", |facts| {
        facts.workloads = Ok(vec![WorkloadView {
            workload_id: "web".to_owned(),
            status: "Starting".to_owned(),
            ..WorkloadView::default()
        }]);
    }),
    ("drift", Verdict::Warn, "1 difference not settled", |facts| {
        facts.drifts = Ok(vec![Drift::default(), Drift { ignored: true, ..Drift::default() }]);
    }),
    ("secrets", Verdict::Warn, "sealed with 2 keys", |facts| {
        facts.secrets = Ok(vec![secret("a"), secret("b")]);
    }),
    ("secrets", Verdict::Blocking, "cannot be opened", |facts| {
        facts.secrets = Ok(vec![SecretView { readable: false, ..secret("a") }]);
    }),
    ("authority", Verdict::Blocking, "being replaced", |facts| {
        facts.stage = Some(Ok(Stage::Switched));
    }),
    ("etcd", Verdict::Blocking, "member 1: it is full", |facts| {
        facts.alarms = Some(Ok(vec!["member 1: it is full".to_owned()]));
    }),
    ("snapshot", Verdict::Warn, "no way back", |facts| facts.copy = None),
    ("snapshot", Verdict::Blocking, "not whole", |facts| {
        facts.copy = Some(Err("it is not whole".to_owned()));
    }),
    ("snapshot", Verdict::Warn, "2h old", |facts| {
        let copy = facts.copy.as_mut().unwrap().as_mut().unwrap();
        copy.taken = now() - Duration::from_hours(2);
    }),
    ("snapshot", Verdict::Blocking, "of another cluster: testing-1", |facts| {
        let copy = facts.copy.as_mut().unwrap().as_mut().unwrap();
        copy.cluster = Some("testing-1".to_owned());
    }),
    ("store", Verdict::Blocking, "1 records are not understood: /nodes/n1", |facts| {
        let copy = facts.copy.as_mut().unwrap().as_mut().unwrap();
        copy.unreadable = vec!["/nodes/n1: has version 2".to_owned()];
    }),
];

#[test]
fn each_fault_is_found_alone_with_what_to_type() {
    for (subject, verdict, part, change) in FAULTS {
        let mut facts = well();
        change(&mut facts);
        let finding = found(&facts, subject);
        assert_eq!(finding.verdict, *verdict, "{part}: {finding:?}");
        assert!(finding.says.contains(part), "{part}: {finding:?}");
        let (blocking, warn) = verdicts(&facts);
        let wanted = if *verdict == Verdict::Blocking { (1, 0) } else { (0, 1) };
        assert_eq!((blocking, warn), wanted, "{part}: nothing else is wrong");
    }
}

#[test]
fn what_was_not_named_is_not_held_against_it() {
    let facts = Facts { stage: None, alarms: None, ..well() };
    assert_eq!(verdicts(&facts), (0, 0));
    assert!(found(&facts, "authority").says.contains("--ca-dir"));
    let text =
        report(&[found(&Facts { copy: None, ..well() }, "snapshot")], "1.5.0", "persysctl", true);
    assert!(text.contains("\u{1b}[33mwarn\u{1b}[0m"), "{text}");
    assert!(text.contains("persysctl snapshot save before-upgrade.snapshot\n"), "{text}");
    assert!(text.ends_with("1.5.0 can be installed; look at 1 first.\n"), "{text}");
}
