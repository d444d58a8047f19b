//! Bringing a stack of five services up through persys, against the Compose program itself, on one
//! daemon in turns; and applying it again when nothing changed.
//!
//! The daemon is one of our own, so that nobody else's work is measured.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use persys_e2e::daemon::{Daemon, Kind};
use persys_e2e::engine::{Engine, IMAGE};
use persys_e2e::part::Pace;
use persys_e2e::processes::{Stack, now_seconds};
use persys_proto::control::v1 as api;

use crate::docker::{Bar, judge, median, say};

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// How often each takes its turn.
    rounds: usize,
    /// How often the unchanged stack is applied.
    again: usize,
}

impl Scale {
    /// What the bars are about.
    pub const FULL: Self = Self { rounds: 9, again: 100 };
    /// Whether it works at all.
    pub const QUICK: Self = Self { rounds: 3, again: 20 };
}

/// What must hold.
const MOST_RATIO: f64 = 1.05;
const MOST_UNCHANGED_MS: f64 = 50.0;
const LOOK_AGAIN: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_mins(2);

/// Measures everything; says whether all bars hold.
pub fn run(json: &Path, scale: Scale) -> Result<bool, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(json, scale))
}

/// One turn of each.
struct Round {
    raw: Duration,
    ours: Duration,
}

impl Round {
    fn ratio(&self) -> f64 {
        self.ours.as_secs_f64() / self.raw.as_secs_f64()
    }
}

async fn measure(json: &Path, scale: Scale) -> Result<bool, Box<dyn Error>> {
    let daemon = Daemon::start(Kind::Usual);
    let engine = Engine::at(daemon.host());
    let mut stack = Stack::new(&std::env::current_exe()?, Pace::Product);
    stack.start_scheduler(None).await;
    stack.start_agent("n1", Some(&engine), None).await;
    until_offered(&mut stack).await;
    let folder = tempfile::tempdir()?;
    let peer = Peer { host: daemon.host(), folder: folder.path() };
    peer.write()?;
    // Both have been there before it counts.
    peer.up("warm")?;
    peer.down("warm")?;
    ours(&mut stack, "warm").await?;
    stack.delete(&stack.id("warm")).await;
    say("  round   compose s    persys s           x");
    let mut rounds = Vec::new();
    for number in 0..scale.rounds {
        let name = format!("turn{number}");
        // Who begins has no advantage in the long run.
        let (raw, took) = if number % 2 == 0 {
            let raw = peer.turn(&name)?;
            (raw, turn(&mut stack, &name).await?)
        } else {
            let took = turn(&mut stack, &name).await?;
            (peer.turn(&name)?, took)
        };
        let round = Round { raw, ours: took };
        let (raw, ours) = (raw.as_secs_f64(), took.as_secs_f64());
        say(&format!("{number:>7}{raw:>12.3}{ours:>12.3}{:>12.3}", round.ratio()));
        rounds.push(round);
    }
    let unchanged = unchanged(&mut stack, &engine, scale.again).await?;
    let bars = [
        Bar {
            name: "wall time, median x",
            measured: median(rounds.iter().map(Round::ratio)),
            most: MOST_RATIO,
        },
        Bar { name: "unchanged, slowest ms", measured: unchanged, most: MOST_UNCHANGED_MS },
    ];
    let passed = judge(&bars);
    if let Some(folder) = json.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let told: Vec<_> = rounds
        .iter()
        .map(|round| {
            let (raw, ours) = (round.raw.as_secs_f64(), round.ours.as_secs_f64());
            serde_json::json!({ "compose_s": raw, "persys_s": ours, "ratio": round.ratio() })
        })
        .collect();
    let bars: Vec<_> = bars.iter().map(Bar::told).collect();
    let told = serde_json::json!({ "services": 5, "rounds": told, "bars": bars });
    std::fs::write(json, serde_json::to_vec_pretty(&told)?)?;
    Ok(passed)
}

/// Five services, in three ranks.
fn file() -> String {
    let service = |name: &str, after: &str| {
        format!(
            "  {name}:\n    image: {IMAGE}\n    command: [/bin/sleep, '100000']\n    restart: \
             unless-stopped\n    stop_signal: KILL\n    depends_on: [{after}]\n"
        )
    };
    let services = [
        service("db", ""),
        service("cache", ""),
        service("api", "db, cache"),
        service("worker", "db, cache"),
        service("web", "api"),
    ];
    format!("services:\n{}", services.concat().replace("    depends_on: []\n", ""))
}

/// The Compose program itself.
struct Peer<'a> {
    host: String,
    folder: &'a Path,
}

impl Peer<'_> {
    fn write(&self) -> std::io::Result<()> {
        std::fs::write(self.folder.join("docker-compose.yml"), file())
    }

    fn turn(&self, name: &str) -> Result<Duration, Box<dyn Error>> {
        let took = self.up(name)?;
        self.down(name)?;
        Ok(took)
    }

    fn up(&self, name: &str) -> Result<Duration, Box<dyn Error>> {
        let begun = Instant::now();
        self.compose(name, &["up", "-d"])?;
        Ok(begun.elapsed())
    }

    fn down(&self, name: &str) -> Result<(), Box<dyn Error>> {
        self.compose(name, &["down", "-t", "0"])
    }

    fn compose(&self, name: &str, args: &[&str]) -> Result<(), Box<dyn Error>> {
        let output = Command::new("docker-compose")
            .current_dir(self.folder)
            .args(["-p", name])
            .args(args)
            .env("DOCKER_HOST", &self.host)
            .output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        Ok(())
    }
}

/// Waits until the node offers stacks.
async fn until_offered(stack: &mut Stack) {
    let deadline = Instant::now() + PATIENCE;
    let offers =
        |node: &api::NodeView| node.supported_workload_types.iter().any(|kind| kind == "compose");
    loop {
        let nodes = stack.client().list_nodes(api::ListNodesRequest::default()).await;
        if nodes.is_ok_and(|nodes| nodes.into_inner().nodes.iter().any(offers)) {
            return;
        }
        stack.wait_a_little(deadline, "no node offers stacks").await;
    }
}

fn request(id: &str) -> api::ApplyWorkloadRequest {
    let compose = api::ComposeSpec {
        source_type: "inline".to_owned(),
        inline_yaml: file(),
        ..api::ComposeSpec::default()
    };
    api::ApplyWorkloadRequest {
        workload_id: id.to_owned(),
        revision_id: "r1".to_owned(),
        desired_state: "Running".to_owned(),
        plan: String::new(),
        spec: Some(api::WorkloadSpec {
            r#type: "compose".to_owned(),
            resources: Some(api::ResourceRequirements {
                cpu_millicores: 1000,
                memory_mb: 128,
                disk_gb: 0,
            }),
            workload: Some(api::workload_spec::Workload::Compose(compose)),
            ..api::WorkloadSpec::default()
        }),
    }
}

async fn turn(stack: &mut Stack, name: &str) -> Result<Duration, Box<dyn Error>> {
    let took = ours(stack, name).await?;
    stack.delete(&stack.id(name)).await;
    Ok(took)
}

/// Applies a stack and waits until it runs.
async fn ours(stack: &mut Stack, name: &str) -> Result<Duration, Box<dyn Error>> {
    let id = stack.id(name);
    let begun = Instant::now();
    let answer = stack.client().apply_workload(request(&id)).await?.into_inner();
    if !answer.success {
        return Err(answer.error_message.into());
    }
    loop {
        match stack.look(&id).await? {
            Some(view) if view.status == "Running" => return Ok(begun.elapsed()),
            Some(view) if begun.elapsed() > PATIENCE => return Err(view.why.into()),
            Some(_) | None => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
}

/// The slowest of many applications of a stack that runs already, in milliseconds. An error if any of
/// them touched anything.
async fn unchanged(
    stack: &mut Stack,
    engine: &Engine,
    again: usize,
) -> Result<f64, Box<dyn Error>> {
    ours(stack, "same").await?;
    let id = stack.id("same");
    let before = moments(stack, engine).await;
    // Docker counts whole seconds; the start itself must be over.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut recorder = engine.record(&stack.cluster, now_seconds());
    let (mut slowest, mut sum) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..again {
        let begun = Instant::now();
        let answer = stack.client().apply_workload(request(&id)).await?.into_inner();
        if !answer.success {
            return Err(answer.error_message.into());
        }
        slowest = slowest.max(begun.elapsed());
        sum += begun.elapsed();
    }
    let history = recorder.history().await;
    let after = moments(stack, engine).await;
    if before != after || !history.is_empty() {
        return Err(format!("something was touched: {history:?}, {before:?}, {after:?}").into());
    }
    let ms = |took: Duration| took.as_secs_f64() * 1000.0;
    let mean = ms(sum) / f64::from(u32::try_from(again)?);
    say(&format!("\nunchanged, {again} times: mean {mean:.2} ms, slowest {:.2} ms", ms(slowest)));
    stack.delete(&id).await;
    Ok(ms(slowest))
}

/// The containers, with the moments they were started.
async fn moments(stack: &Stack, engine: &Engine) -> BTreeMap<String, (String, i64)> {
    let mut all = BTreeMap::new();
    for container in engine.containers(&stack.cluster).await {
        all.insert(container.id.clone(), engine.started(&container.id).await);
    }
    all
}
