//! Actions of agents in events, and the mark that a node has accepted a decision.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_cluster::input::{Ask, Input};
use persys_model::command::Answer;
use persys_model::event::Happening;
use persys_model::id::{NodeId, RevisionId};
use persys_model::inventory::{Report, State};
use persys_model::link::{Beat, Usage};
use persys_model::phase::Phase;
use persys_model::task::{Task, TaskAction, TaskStatus, WorkloadTask};
use persys_model::time::WallMillis;
use persys_model::token::{Epoch, Session};

use support::{Cluster, container, workload_id};

fn task(node: &NodeId, action: TaskAction, status: TaskStatus) -> Arc<Task> {
    Arc::new(Task {
        node: node.clone(),
        id: Arc::from(format!("task-{}", action.word())),
        action,
        status,
        error: None,
        created: Some(WallMillis(5)),
        started: Some(WallMillis(6)),
        ended: (status == TaskStatus::Completed).then_some(WallMillis(7)),
    })
}

/// A cluster in which `web` was placed on a node that has not answered yet.
fn placed() -> (Cluster, NodeId, Session, Epoch) {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    let node = support::node_id(0);
    c.deaf.push(node.clone());
    c.apply("web", container(500, 512), "r1");
    let session = c.agents[&node].session;
    let view = c.world.workload(&workload_id("web")).unwrap();
    let epoch = view.assignment.place.as_ref().unwrap().epoch;
    assert_eq!((view.assignment.phase, view.admitted), (Phase::Starting, None));
    (c, node, session, epoch)
}

fn answer(c: &mut Cluster, of: (&NodeId, Session, Epoch), answer: Answer, task: Arc<Task>) {
    let (node, session, epoch) = (of.0.clone(), of.1, of.2);
    let workload = workload_id("web");
    c.step(Input::Answered { node, session, workload, epoch, answer, task: Some(task) });
}

fn beat(c: &mut Cluster, of: (&NodeId, Session, Epoch), state: State, task: Arc<Task>) {
    let (node, session, epoch) = (of.0.clone(), of.1, of.2);
    let agent = c.agents.get_mut(&node).unwrap();
    agent.seq += 1;
    let (seq, workload) = (agent.seq, workload_id("web"));
    let tasks = vec![WorkloadTask { workload: workload.clone(), epoch, task }];
    let report = Report {
        workload,
        epoch,
        state,
        restarts: 0,
        confirmed: true,
        progress: 0,
        fetched: None,
        trouble: None,
        runs: None,
        health: None,
    };
    let (removed, inventory, busy) = (Vec::new(), None, None);
    let (usage, limits, down) = (Usage::default(), BTreeMap::new(), BTreeMap::new());
    let reports = vec![report];
    let beat = Beat {
        node,
        session,
        seq,
        reports,
        removed,
        inventory,
        tasks,
        usage,
        limits,
        busy,
        down,
        takes_removals: false,
    };
    let request = c.request();
    c.step(Input::Beat(request, beat));
}

/// Revision and task of the last change of phase of `web`.
fn last_event(c: &Cluster) -> (Option<Phase>, Option<RevisionId>, Option<Arc<Task>>) {
    let event = c.store.events.last().unwrap();
    match &event.what {
        Happening::Workload { to, revision, task, .. } => (*to, revision.clone(), task.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_workload_is_admitted_once_its_agent_has_accepted_the_decision() {
    let (mut c, node, session, epoch) = placed();
    let of = (&node, session, epoch);
    let running = task(&node, TaskAction::Apply, TaskStatus::Running);
    answer(&mut c, of, Answer::Accepted, Arc::clone(&running));
    let wall = c.now.wall;
    let view = c.world.workload(&workload_id("web")).unwrap();
    assert_eq!((view.assignment.phase, view.admitted), (Phase::Starting, Some(wall)));
    assert_eq!(view.task, Some(&*running));

    c.apply("web", container(600, 512), "r2");
    let view = c.world.workload(&workload_id("web")).unwrap();
    assert_eq!((view.admitted, view.task), (None, None), "another decision was not accepted yet");
}

#[test]
fn the_event_of_a_phase_has_the_action_that_led_to_it() {
    let (mut c, node, session, epoch) = placed();
    let of = (&node, session, epoch);
    let r1 = Some(RevisionId::fixed("r1"));
    assert_eq!(last_event(&c), (Some(Phase::Starting), r1.clone(), None));
    answer(&mut c, of, Answer::Accepted, task(&node, TaskAction::Apply, TaskStatus::Running));
    let done = task(&node, TaskAction::Apply, TaskStatus::Completed);
    beat(&mut c, of, State::Running, Arc::clone(&done));
    assert_eq!(last_event(&c), (Some(Phase::Running), r1.clone(), Some(done)));

    c.ask(Ask::Delete(workload_id("web")));
    assert_eq!(last_event(&c), (Some(Phase::Deleting), r1.clone(), None));
    let view = c.world.workload(&workload_id("web")).unwrap();
    let epoch = view.assignment.place.as_ref().unwrap().epoch;
    let removed = task(&node, TaskAction::Delete, TaskStatus::Completed);
    let of = (&node, session, epoch);
    answer(&mut c, of, Answer::Removed { epoch }, Arc::clone(&removed));
    assert_eq!(last_event(&c), (None, r1, Some(removed)));
}

#[test]
fn an_action_of_another_session_or_decision_is_not_believed() {
    let (mut c, node, session, epoch) = placed();
    let running = task(&node, TaskAction::Apply, TaskStatus::Running);
    let earlier = (&node, Session(session.0 - 1), epoch);
    answer(&mut c, earlier, Answer::Accepted, Arc::clone(&running));
    let other = (&node, session, Epoch(epoch.0 + 1));
    answer(&mut c, other, Answer::Accepted, running);
    let view = c.world.workload(&workload_id("web")).unwrap();
    assert_eq!((view.admitted, view.task), (None, None));
}
