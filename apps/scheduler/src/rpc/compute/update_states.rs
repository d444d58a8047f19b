//! Tables: the state of an update, and the health of a workload, on every surface there is. A new state is a new row, and the test
//! fails until each surface has a word for it.

use std::sync::Arc;

use persys_cluster::input::{Ask, Rollback};
use persys_model::assignment::{ReasonCode, UpdateState};
use persys_model::event::Happening;
use persys_model::failure::{Failure, FailureReason};
use persys_model::health::{Health, HealthState};
use persys_model::id::RevisionId;
use persys_model::inventory::State;
use persys_model::spec::{Kind, Spec};
use persys_model::workload::Desired;
use persys_proto::convert::view::{event, workload as shown};

use super::tests::{Rig, container, facts, web};

/// One state on every surface.
struct Row {
    state: UpdateState,
    /// `update_state` and `status` of the API.
    wire: (&'static str, &'static str),
    /// The text in lists, on the command line and the dashboard.
    text: &'static str,
    /// Part of the summary or of a fact of `why`.
    why: &'static str,
    /// Code of the event that tells of it.
    event: ReasonCode,
    /// Brings a cluster there.
    reach: fn() -> Rig,
}

const TABLE: &[Row] = &[
    Row {
        state: UpdateState::Updating,
        wire: ("Updating", "Scheduled"),
        text: "updating",
        why: "update: updating: revision 2 takes the place of revision 1",
        event: ReasonCode::Updated,
        reach: updating,
    },
    Row {
        state: UpdateState::UpdateFailed,
        wire: ("UpdateFailed", "Running"),
        text: "update failed",
        why: "update failed: revision 2 failed: no image app:2; revision 1 runs on",
        event: ReasonCode::UpdateFailed,
        reach: failed,
    },
    Row {
        state: UpdateState::RolledBack,
        wire: ("RolledBack", "Running"),
        text: "rolled back",
        why: "update: rolled back: revision 3 is revision 1 again",
        event: ReasonCode::RolledBack,
        reach: rolled_back,
    },
];

fn image(name: &str) -> Spec {
    let mut spec = container(64);
    if let Kind::Container(container) = &mut spec.kind {
        container.image = Arc::from(name);
    }
    spec
}

fn apply(rig: &mut Rig, name: &str, revision: &str) {
    rig.ask(Ask::Apply {
        workload: web(),
        spec: Some(Arc::new(image(name))),
        revision: Some(RevisionId::new(revision).unwrap()),
        desired: Desired::Running,
    });
}

fn updating() -> Rig {
    let mut rig = Rig::new(vec![facts("n1")]);
    apply(&mut rig, "app:1", "r1");
    rig.say(State::Running);
    apply(&mut rig, "app:2", "r2");
    rig
}

fn failed() -> Rig {
    let mut rig = updating();
    let failure = Failure::new(FailureReason::ImageNotFound, "no image app:2");
    rig.say_kept(State::Failed(failure), "r1");
    rig.say(State::Running);
    rig
}

fn rolled_back() -> Rig {
    let mut rig = failed();
    let (revision, spec) = (RevisionId::new("r1").unwrap(), Arc::new(image("app:1")));
    rig.ask(Ask::Rollback(Rollback { workload: web(), number: 1, revision, spec }));
    rig.say(State::Running);
    rig
}

#[test]
fn every_state_of_an_update_has_one_word_on_every_surface() {
    let listed: Vec<_> = TABLE.iter().map(|row| row.state).collect();
    assert_eq!(listed, UpdateState::ALL, "a state without a row, or the other way round");
    let manual = include_str!("../../../../../docs/updates.md");
    let dashboard = include_str!("../../../../gateway/web/js/words.js");
    for row in TABLE {
        let (rig, state) = ((row.reach)(), row.state);
        let view = rig.world.workload(&web()).unwrap();
        assert_eq!(view.update_state(), Some(state));
        let told = shown::to_wire(&view, 5, None);
        assert_eq!((told.update_state.as_str(), told.status.as_str()), row.wire, "{state:?}");
        assert_eq!(state.text(), row.text, "lists and details");
        let why = rig.why();
        let said = |line: &String| line.contains(row.why);
        assert!(said(&why.summary) || why.facts.iter().any(said), "{state:?}: {why:#?}");
        assert_eq!(rig.world.tally().updates.get(&state), Some(&1), "metrics");
        let tells = |what: &Happening| matches!(what, Happening::Workload { code, .. } if *code == row.event);
        let told = rig.events.iter().find(|one| tells(&one.what));
        let told = told.unwrap_or_else(|| panic!("{state:?}: no event {:?}", row.event));
        let told = event::to_wire(told);
        assert_eq!(told.details.get("code").map(String::as_str), Some(row.event.word()));
        let documented = format!("| `{}` | {} |", state.word(), row.text);
        assert!(manual.contains(&documented), "{documented} is not in the manual");
        assert!(manual.contains(&format!("`{}` |\n", row.event.word())), "{:?}", row.event);
        let drawn = format!("{}: ['{}'", state.word(), row.text);
        assert!(dashboard.contains(&drawn), "{drawn} is not in the dashboard");
    }
}

/// One verdict of health checks on every surface.
struct HealthRow {
    health: Health,
    /// The text in lists, on the command line and the dashboard.
    text: &'static str,
    /// Part of the summary or of a fact of `why`.
    why: &'static str,
    /// Type of the event that tells of it; there is none for what has only begun.
    event: Option<&'static str>,
}

#[test]
fn every_health_has_one_word_on_every_surface() {
    let table = [
        HealthRow {
            health: Health::starting(),
            text: "starting",
            why: "its health check has not passed yet",
            event: None,
        },
        HealthRow {
            health: Health::healthy(),
            text: "healthy",
            why: "health: healthy since",
            event: Some("WorkloadHealthy"),
        },
        HealthRow {
            health: Health::unhealthy("GET / on port 80: status 503\nmore of it"),
            text: "unhealthy",
            why: "web runs on n1 and is unhealthy, since 0s: GET / on port 80: status 503",
            event: Some("WorkloadUnhealthy"),
        },
    ];
    let listed: Vec<_> = table.iter().map(|row| row.health.state).collect();
    assert_eq!(listed, HealthState::ALL, "a verdict without a row, or the other way round");
    let manual = include_str!("../../../../../docs/health.md");
    let dashboard = include_str!("../../../../gateway/web/js/words.js");
    for HealthRow { health, text, why: said, event: wanted } in table {
        let mut rig = Rig::new(vec![facts("n1")]);
        apply(&mut rig, "app:1", "r1");
        rig.say_health(health.clone());
        let (state, word) = (health.state, health.state.word());
        let told = shown::to_wire(&rig.world.workload(&web()).unwrap(), 5, None);
        assert_eq!((told.health.as_str(), told.status.as_str()), (word, "Running"));
        assert_eq!(told.health_message, *health.detail);
        assert!(told.health_since.is_some());
        assert_eq!(state.text(), text, "lists and details");
        let why = rig.why();
        let found = |line: &String| line.contains(said);
        assert!(found(&why.summary) || why.facts.iter().any(found), "{state:?}: {why:#?}");
        let rest = why.evidence.iter().any(|line| line == "more of it");
        assert_eq!(rest, state == HealthState::Unhealthy, "{why:#?}");
        assert_eq!(rig.world.tally().health.get(&state), Some(&1), "metrics");
        let tells = |what: &Happening| matches!(what, Happening::Health { .. });
        let events: Vec<_> = rig.events.iter().filter(|one| tells(&one.what)).collect();
        let events: Vec<_> = events.into_iter().map(|one| event::to_wire(one).r#type).collect();
        assert_eq!(events, Vec::from_iter(wanted.map(str::to_owned)), "{state:?}");
        let documented = format!("| `{word}` | {text} |");
        assert!(manual.contains(&documented), "{documented} is not in the manual");
        assert!(wanted.is_none_or(|kind| manual.contains(&format!("`{kind}` |\n"))));
        let drawn = format!("{word}: ['{text}'");
        assert!(dashboard.contains(&drawn), "{drawn} is not in the dashboard");
    }
}

#[test]
fn an_update_that_failed_has_its_commands_and_is_no_failure_of_the_workload() {
    let rig = failed();
    let why = rig.why();
    assert!(why.summary.starts_with("web runs on n1; update failed: "), "{}", why.summary);
    assert_eq!(why.next, ["persys diff web", "persys rollback web", "persys retry web"]);
    let told = shown::to_wire(&rig.world.workload(&web()).unwrap(), 5, None);
    assert_eq!((told.revision_number, told.running_revision_number), (2, 1));
    assert_eq!((told.revision_id.as_str(), told.running_revision_id.as_str()), ("r2", "r1"));
}

#[test]
fn a_sentence_stands_once_on_a_page() {
    let mut rig = Rig::new(vec![facts("n1")]);
    rig.apply("web", container(900_000));
    let mut why = rig.why();
    let sentence = why.summary.strip_prefix("web waits: ").unwrap().to_owned();
    why.summary.clear();
    assert!(!format!("{why:?}").contains(&sentence), "{sentence}: {why:#?}");
    let mut rig = updating();
    let failure = Failure::new(FailureReason::ImageNotFound, "no image app:2");
    rig.say(State::Failed(failure));
    let why = rig.why();
    let times = format!("{why:?}").matches("no image app:2").count();
    assert!(times <= 2, "once in the summary, once as the state of the update: {why:#?}");
}
