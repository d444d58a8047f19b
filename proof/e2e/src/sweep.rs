//! A death at any effect changes nothing in the end.
//!
//! One scenario is played undisturbed, and its points are counted (see [`crate::tripwire`]). Then it
//! is played once for every point of the agent and of the scheduler: the process is killed there,
//! started again, and the scenario goes on. What is there along the way, what is left in the end, and
//! what happened to every container must be the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use futures::StreamExt as _;
use persys_proto::control::v1 as api;
use serde_json::Value;

use crate::engine::Engine;
use crate::part::{Pace, Trip};
use crate::processes::{PATIENCE, Stack, Wish, free_port, now_seconds};

/// How many clusters are played at a time. They mostly wait.
const AT_A_TIME: usize = 4;
/// Of the points that were counted, those that every run has: how often an agent reports and how much
/// a store transaction holds depends on the moment.
const SURE_PERCENT: u64 = 70;

/// Who dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// The scheduler.
    Scheduler,
    /// The agent.
    Agent,
}

impl Victim {
    fn process(self) -> &'static str {
        match self {
            Self::Scheduler => "scheduler",
            Self::Agent => "n1",
        }
    }
}

/// What a run came to. Names and ports are those of no particular run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ending {
    /// What was there along the way: each workload's state, and its containers.
    stages: Vec<Vec<String>>,
    /// What is left in the store.
    records: BTreeMap<String, Value>,
    /// What happened to each workload's containers.
    history: BTreeMap<String, Vec<String>>,
}

/// Plays the scenario once for every `stride`th point of `victim`, and panics at the first that ends
/// differently. Says how many deaths there were.
pub async fn sweep(program: &Path, victim: Victim, stride: u64) -> u64 {
    let (wanted, points, _) = play(program, victim, None).await;
    let all = (1..=points).filter(|point| point % stride == 0);
    let runs = all.map(|point| one(program, victim, point, points, wanted.clone()));
    let deaths: Vec<bool> = futures::stream::iter(runs).buffer_unordered(AT_A_TIME).collect().await;
    let deaths = deaths.into_iter().filter(|died| *died).count();
    u64::try_from(deaths).unwrap_or_default()
}

/// One point. Says whether the process died there.
async fn one(program: &Path, victim: Victim, point: u64, points: u64, wanted: Ending) -> bool {
    let (ending, passed, last) = play(program, victim, Some(point)).await;
    assert_eq!(ending, wanted, "{victim:?} died at point {point}, {last}");
    let died = passed >= point;
    assert!(died || point * 100 > points * SURE_PERCENT, "point {point} of {points} never came");
    died
}

/// Plays the scenario. Says how it ended, how many points the victim passed and which was the last.
async fn play(program: &Path, victim: Victim, die_at: Option<u64>) -> (Ending, u64, String) {
    let mut stack = Stack::new(program, Pace::Quick);
    let mut recorder = Engine::shared().record(&stack.cluster, now_seconds());
    let notes: PathBuf = stack.folder_of("notes");
    let trip = |who| (who == victim).then(|| Trip { notes: notes.clone(), die_at });
    stack.mending = true;
    stack.start_scheduler(trip(Victim::Scheduler)).await;
    stack.start_agent("n1", Some(&Engine::shared()), trip(Victim::Agent)).await;
    let stages = scenario(&mut stack).await;
    let read = std::fs::read_to_string(&notes).unwrap_or_default();
    let passed = u64::try_from(read.lines().count()).unwrap_or_default();
    let last = read.lines().next_back().unwrap_or_default().to_owned();
    let process = victim.process();
    if die_at.is_some_and(|point| passed >= point) {
        // It may have died when all was done and nobody looked any more.
        let deadline = Instant::now() + PATIENCE;
        while stack.mended.is_empty() {
            stack.wait_a_little(deadline, "it does not die").await;
        }
        stack.until_ready(1).await;
        assert_eq!(stack.mended, [process], "{last}");
    } else {
        assert_eq!(stack.mended, [""; 0], "nobody was to die");
    }
    stack.mending = false;
    // The scheduler first: it would write down that the node is silent.
    stack.stop("scheduler").await;
    stack.stop("n1").await;
    let plain = |text: &str| text.replace(&stack.cluster, "C");
    let history = recorder.history().await;
    let history = history.into_iter().map(|(id, actions)| (plain(&id), actions)).collect();
    let records = stack.records().into_iter().map(|(key, value)| (plain(&key), value));
    let records = records.map(|(key, value)| (key, without_counters(value, &stack.cluster)));
    let ending = Ending { stages, records: records.collect(), history };
    (ending, passed, last)
}

/// Two workloads through all they can go through, beside a third that nobody touches.
async fn scenario(stack: &mut Stack) -> Vec<Vec<String>> {
    let [a, b, beside] = ["a", "b", "beside"].map(|name| stack.id(name));
    let port = free_port();
    let mut published = Wish::runs(&a);
    published.container.ports = vec![api::Port {
        host_port: i32::from(port),
        container_port: 80,
        protocol: "tcp".to_owned(),
        host_ip: String::new(),
    }];
    let mut stages = Vec::new();
    stack.apply(&Wish::runs(&beside).request()).await;
    stack.apply(&published.request()).await;
    stack.apply(&Wish::runs(&b).request()).await;
    stages.push(stage(stack, port, &[&a, &b, &beside], ["Running"; 3]).await);
    stack.apply(&published.revised("r2").request()).await;
    stack.wish(&b, "Stopped").await;
    stages.push(stage(stack, port, &[&a, &b, &beside], ["Running", "Stopped", "Running"]).await);
    stack.wish(&b, "Running").await;
    stages.push(stage(stack, port, &[&a, &b, &beside], ["Running"; 3]).await);
    stack.delete(&a).await;
    stack.delete(&b).await;
    stages.push(stage(stack, port, &[&beside], ["Running"]).await);
    stages
}

/// Waits until each workload has its status, and tells all that can be seen of them.
async fn stage<const N: usize>(
    stack: &mut Stack,
    port: u16,
    workloads: &[&String; N],
    statuses: [&str; N],
) -> Vec<String> {
    let mut seen = Vec::new();
    for (id, status) in workloads.iter().zip(statuses) {
        let view = stack.until(id, |view| view.status == status && !view.uncertain).await;
        let name = id.replace(&stack.cluster, "C");
        seen.push(format!("{name} {status} {} {}", view.revision_id, view.failure_reason));
    }
    // A scheduler that just came back tells what it last knew; its agent is about to say the same.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let containers = Engine::shared().containers(&stack.cluster).await;
        let running = |id: &str| containers.iter().any(|one| one.workload == id && one.running);
        let as_said =
            workloads.iter().zip(statuses).all(|(id, said)| running(id) == (said == "Running"));
        if as_said && containers.len() == N {
            for one in containers {
                let ports = if one.ports == [port] { "published" } else { "" };
                let name = one.workload.replace(&stack.cluster, "C");
                seen.push(format!("{name} {} runs: {} {ports}", one.revision, one.running));
            }
            return seen;
        }
        stack.wait_a_little(deadline, &format!("{seen:?}, but {containers:?}")).await;
    }
}

/// A record without what counts, tells the time or is drawn by chance.
fn without_counters(value: Value, cluster: &str) -> Value {
    const COUNTERS: [&str; 7] = ["audit", "epoch", "event", "generation", "seq", "session", "term"];
    const CHANCE: [&str; 6] =
        ["candidate", "cluster", "endpoint", "incarnation", "agentEndpoint", "agentGrpcPort"];
    const TIMES: [&str; 2] = ["lastTransition", "lastUpdated"];
    let is_time =
        |name: &str| name.ends_with("_ms") || name.ends_with("At") || TIMES.contains(&name);
    let varies = |name: &str| COUNTERS.contains(&name) || CHANCE.contains(&name) || is_time(name);
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(name, _)| !varies(name))
            .map(|(name, value)| (name, without_counters(value, cluster)))
            .collect(),
        Value::Array(all) => {
            all.into_iter().map(|value| without_counters(value, cluster)).collect()
        }
        Value::String(text) => Value::String(text.replace(cluster, "C")),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}
