//! Pictures of states, and a screen that is used.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use persys_proto::compute::v1::StandingResponse;
use persys_proto::control::v1::{NodeView, ReasonDetail, WorkloadUsageSnapshot, WorkloadView};
use prost_types::Timestamp;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use super::draw::{self, lines};
use super::heard::{Asked, Heard};
use super::live::{self, Cluster};
use super::state::{Do, Focus, Key, Over, Sort, State, Subject};
use super::view::view;
use crate::problem::Problem;

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn moment(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanos: 0 }
}

fn node(id: &str, status: &str, used: f64) -> NodeView {
    NodeView {
        node_id: id.to_owned(),
        status: status.to_owned(),
        total_cpu_cores: 4.0,
        available_cpu_cores: 2.0,
        used_cpu_cores: used,
        total_memory_mb: 16 * 1024,
        available_memory_mb: 4 * 1024,
        used_memory_mb: 4 * 1024,
        total_disk_gb: 100,
        available_disk_gb: 75,
        workloads: 2,
        last_heartbeat: Some(moment(998)),
        ..NodeView::default()
    }
}

fn workload(id: &str, status: &str, usage: Option<(f64, i64)>) -> WorkloadView {
    WorkloadView {
        workload_id: id.to_owned(),
        r#type: "container".to_owned(),
        status: status.to_owned(),
        assigned_node_id: "n1".to_owned(),
        created_at: Some(moment(940)),
        usage: usage.map(|(cpu_percent, mib)| WorkloadUsageSnapshot {
            cpu_percent,
            memory_bytes: mib * 1024 * 1024,
            ..WorkloadUsageSnapshot::default()
        }),
        ..WorkloadView::default()
    }
}

fn heard() -> Heard {
    let reason = ReasonDetail { message: "no node fits".to_owned(), ..ReasonDetail::default() };
    Heard {
        standing: Ok(StandingResponse {
            cluster: "test".to_owned(),
            mode: "normal".to_owned(),
            role: "leader".to_owned(),
            leader: "s1:8085".to_owned(),
            term: 7,
            version: "0.1.0".to_owned(),
            ..StandingResponse::default()
        }),
        nodes: Ok(vec![node("n2", "Ready", 3.0), node("n1", "Ready", 1.0)]),
        workloads: Ok(vec![
            workload("web", "Running", Some((12.5, 64))),
            WorkloadView {
                reason: Some(reason),
                assigned_node_id: String::new(),
                ..workload("big", "Pending", None)
            },
            workload("db", "Running", Some((3.0, 512))),
        ]),
    }
}

fn state() -> State {
    let mut state = State::new(false);
    state.hear(Asked::Heard(Box::new(heard())), at(1000));
    state
}

fn picture(state: &State, now: u64, (columns, rows): (u16, u16)) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw::draw(frame, &view(state, at(now)))).unwrap();
    lines(terminal.backend().buffer())
}

#[test]
fn a_picture_has_the_cluster_its_nodes_and_its_workloads() {
    let text = draw::text(&view(&state(), at(1000)), 120);
    assert_eq!(
        text,
        "\
cluster test  normal  leader s1:8085  term 7  version 0.1.0  1970-01-01T00:16:40Z
2 nodes (2 ready)  3 workloads: 2 running, 1 pending, 0 failed
! 1 workload without a node: big
 nodes by name ─────────────────────────────────────────────────────────────────────────────────────────────────────────
NODE                    STATE            RUNS CPU                    MEMORY                 DISK                   LEASE
n1                      Ready            2    ██▒▒····· 2/4          ██▒▒▒▒▒·· 12Gi/16Gi    ▒▒······· 25/100Gi     2s
n2                      Ready            2    ███████·· 2/4          ██▒▒▒▒▒·· 12Gi/16Gi    ▒▒······· 25/100Gi     2s

 workloads by name ─────────────────────────────────────────────────────────────────────────────────────────────────────
WORKLOAD               TYPE      STATE                 NODE        CPU     MEMORY  AGE  WHY
big                    container Pending               -           -       -       60s  no node fits
db                     container Running               n1          3.0%    512Mi   60s
web                    container Running               n1          12.5%   64Mi    60s
"
    );
}

#[test]
fn a_small_screen_has_the_numbers_and_drops_the_bars() {
    let shown = picture(&state(), 1000, (80, 16));
    assert!(
        shown.iter().any(|line| line.contains("n1") && line.contains("12Gi/16Gi")),
        "{shown:#?}"
    );
    assert!(shown.iter().all(|line| line.chars().count() <= 80), "{shown:#?}");
    assert!(shown.last().unwrap().starts_with("q end"), "{shown:#?}");
    // However small it is, it is drawn.
    for size in [(1, 1), (20, 3), (40, 8), (300, 100)] {
        picture(&state(), 1000, size);
    }
}

#[test]
fn a_scheduler_that_is_gone_leaves_the_picture_and_its_age() {
    let mut state = state();
    let gone = || Asked::Missed(Problem::new("x").why("nobody listens there"));
    state.hear(gone(), at(1002));
    let shown = picture(&state, 1003, (120, 30)).join("\n");
    assert!(!shown.contains("no answer"), "one question more is asked first: {shown}");
    state.hear(gone(), at(1006));
    let shown = picture(&state, 1007, (120, 30)).join("\n");
    assert!(shown.contains("! no answer for 7s: nobody listens there"), "{shown}");
    assert!(shown.contains("web"), "what was known stays: {shown}");
    state.hear(Asked::Heard(Box::new(heard())), at(1008));
    assert!(!picture(&state, 1020, (120, 30)).join("\n").contains("no answer"));

    let mut never = State::new(false);
    never.begun = Some(at(1000));
    never.hear(gone(), at(1001));
    let shown = picture(&never, 1001, (120, 30)).join("\n");
    assert!(shown.contains("nothing heard yet") && shown.contains("no answer for 1s"), "{shown}");
}

#[test]
fn trouble_is_told_in_the_order_of_its_weight() {
    let mut state = state();
    let mut bad = heard();
    bad.standing = bad.standing.map(|standing| StandingResponse {
        mode: "degraded".to_owned(),
        reason: "the store is away".to_owned(),
        brake: true,
        copy_age_ms: 9_000,
        ..standing
    });
    bad.nodes = Ok(vec![node("n1", "NotReady", 0.0)]);
    bad.workloads = Ok(vec![
        workload("a\u{1b}[2J", "Failed", None),
        WorkloadView { uncertain: true, ..workload("b", "Running", None) },
    ]);
    state.hear(Asked::Heard(Box::new(bad)), at(1000));
    let seen = view(&state, at(1000));
    assert_eq!(
        seen.alarms,
        [
            "the cluster is degraded: the store is away",
            "too many nodes are silent: nothing moves until they are back",
            "this is a copy that is 9s old",
            "1 node not ready: n1",
            "1 workload failed: a [2J",
        ]
    );
    let shown = picture(&state, 1000, (120, 30)).join("\n");
    assert!(!shown.contains('\u{1b}'), "nothing of others commands the terminal");
    assert!(shown.contains("Running (node silent)"), "{shown}");
}

#[test]
fn who_may_not_look_at_nodes_still_sees_workloads() {
    let mut state = State::new(false);
    let denied = || "the user ada may not call ListNodes".to_owned();
    let some = Heard { standing: Err(denied()), nodes: Err(denied()), ..heard() };
    state.hear(Asked::Heard(Box::new(some)), at(1000));
    let shown = picture(&state, 1000, (120, 30)).join("\n");
    assert!(shown.contains("the user ada may not call ListNodes"), "{shown}");
    assert!(shown.contains("web"), "{shown}");
}

#[test]
fn keys_choose_sort_filter_and_ask() {
    let mut state = state();
    let ids = |state: &State| {
        state.workloads().iter().map(|one| one.workload_id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&state), ["big", "db", "web"]);
    state.on(Key::Letter('s'));
    assert_eq!(
        (state.sort, ids(&state)),
        (Sort::Cpu, ["web", "db", "big"].map(String::from).into())
    );
    assert_eq!(state.nodes().first().unwrap().node_id, "n2", "it uses most");
    state.on(Key::Letter('s'));
    assert_eq!(ids(&state), ["db", "web", "big"]);
    state.on(Key::Down);
    assert_eq!(state.chosen_workload().unwrap().workload_id, "web");
    state.on(Key::Letter('s'));
    assert_eq!(state.chosen_workload().unwrap().workload_id, "web", "chosen by name");
    state.on(Key::Letter('g'));
    assert_eq!(state.chosen_workload().unwrap().workload_id, "big");
    state.on(Key::Last);
    assert_eq!(state.chosen_workload().unwrap().workload_id, "web");

    state.on(Key::Letter('/'));
    for letter in "DBq".chars() {
        state.on(Key::Letter(letter));
    }
    state.on(Key::Rubout);
    assert_eq!(ids(&state), ["db"], "q was a letter here, and the nodes are not touched");
    assert_eq!(state.nodes().len(), 2);
    state.on(Key::Enter);
    let asked = state.on(Key::Enter);
    assert_eq!(asked, Do::Explain(Subject::Workload("db".to_owned())));
    state.explained(&Subject::Workload("other".to_owned()), vec!["late".to_owned()]);
    assert!(picture(&state, 1000, (120, 30)).join("\n").contains("asking"));
    state.explained(&Subject::Workload("db".to_owned()), vec!["db runs".to_owned(); 40]);
    assert!(picture(&state, 1000, (120, 30)).join("\n").contains("why db is as it is"));
    state.on(Key::PageDown);
    assert!(matches!(state.over, Over::Why { from: 10, .. }));
    assert_eq!(state.on(Key::Letter('q')), Do::Nothing, "q closes a page first");
    state.on(Key::Escape);
    assert_eq!(ids(&state).len(), 3);

    state.on(Key::Tab);
    assert_eq!(state.focus, Focus::Nodes);
    assert_eq!(state.on(Key::Enter), Do::Explain(Subject::Node("n1".to_owned())));
    state.on(Key::Escape);
    state.on(Key::Letter('?'));
    assert!(picture(&state, 1000, (120, 30)).join("\n").contains("the other list"));
    assert_eq!(state.on(Key::Interrupt), Do::Quit, "always");
}

#[test]
fn colours_and_the_chosen_row_are_only_where_they_are_wanted() {
    for color in [true, false] {
        let mut state = State::new(color);
        state.hear(Asked::Heard(Box::new(heard())), at(1000));
        let mut terminal = Terminal::new(TestBackend::new(120, 20)).unwrap();
        terminal.draw(|frame| draw::draw(frame, &view(&state, at(1000)))).unwrap();
        let cells = terminal.backend().buffer().content();
        assert_eq!(cells.iter().any(|cell| cell.fg == Color::Green), color);
        assert!(cells.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)));
    }
}

/// A cluster that answers once, then no more; and tells when it was heard.
struct Scripted {
    script: Mutex<VecDeque<Asked>>,
    heard: Notify,
    explained: Arc<Notify>,
}

impl Cluster for Scripted {
    fn ask(&self) -> live::Way<Asked> {
        let next = self.script.lock().unwrap().pop_front();
        if next.is_none() {
            // The next question is made once the answer before was taken in.
            self.heard.notify_one();
        }
        Box::pin(async move { next.unwrap_or(Asked::Missed(Problem::new("gone"))) })
    }

    fn explain(&self, of: Subject) -> live::Way<(Subject, Vec<String>)> {
        let explained = Arc::clone(&self.explained);
        Box::pin(async move {
            explained.notify_one();
            (of, vec!["because".to_owned()])
        })
    }
}

#[tokio::test]
async fn a_screen_is_used_until_a_key_ends_it() {
    let script = Mutex::new(VecDeque::from([Asked::Heard(Box::new(heard()))]));
    let (heard, explained) = (Notify::new(), Arc::new(Notify::new()));
    let cluster = Scripted { script, heard, explained: Arc::clone(&explained) };
    let (to, keys) = mpsc::channel(8);
    let mut terminal = Terminal::new(TestBackend::new(120, 30)).unwrap();
    let pressing = async {
        cluster.heard.notified().await;
        to.send(Key::Enter).await.unwrap();
        explained.notified().await;
        to.send(Key::Interrupt).await.unwrap();
    };
    let shown = live::show(&mut terminal, ReceiverStream::new(keys), &cluster, State::new(false));
    let (shown, ()) = tokio::join!(shown, pressing);
    shown.unwrap();
    let seen = lines(terminal.backend().buffer()).join("\n");
    assert!(seen.contains("because") && seen.contains("why big"), "{seen}");
}
