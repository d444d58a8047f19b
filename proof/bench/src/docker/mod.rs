//! Starting containers through persys, against Docker itself and Swarm, on one daemon in turns.
//!
//! The daemon is one of our own, in a network of its own, so that nobody else's work is measured and
//! nobody's swarm is touched.

mod peers;
mod process;

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use persys_e2e::daemon::{Daemon, Kind};
use persys_e2e::engine::Engine;
use persys_e2e::part::Pace;
use persys_e2e::processes::{Stack, Wish};
use persys_proto::control::v1 as api;

use peers::Peers;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Containers in one go.
    count: usize,
    /// How often each takes its turn.
    rounds: usize,
    /// How often each parallelism is tried on Docker itself.
    tries: usize,
    /// How long the idle processes are watched.
    idle: Duration,
}

impl Scale {
    /// What the bars are about.
    pub const FULL: Self = Self { count: 50, rounds: 5, tries: 2, idle: Duration::from_mins(1) };
    /// Whether it works at all.
    pub const QUICK: Self = Self { count: 6, rounds: 2, tries: 1, idle: Duration::from_secs(5) };
}

/// Parallel requests that are tried on Docker itself.
const PARALLEL: [usize; 5] = [1, 2, 4, 8, 16];
/// Callers that submit at a time.
const CALLERS: usize = 16;
/// How long they may take to come to rest before.
const REST: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_mins(5);

/// What must hold.
const MOST_RATIO: f64 = 1.10;
const MOST_CPU_MS: f64 = 10.0;
const MOST_AGENT_MB: f64 = 25.0;
const MOST_SCHEDULER_MB: f64 = 40.0;

/// Prints a line.
#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
pub fn say(line: &str) {
    println!("{line}");
}

/// One bar: what was measured and what it may be at most.
pub(crate) struct Bar {
    pub(crate) name: &'static str,
    pub(crate) measured: f64,
    pub(crate) most: f64,
}

/// Measures everything; says whether all bars hold.
pub fn run(json: &Path, scale: Scale) -> Result<bool, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(json, scale))
}

async fn measure(json: &Path, scale: Scale) -> Result<bool, Box<dyn Error>> {
    let daemon = Daemon::start(Kind::Usual);
    let peers = Peers::new(&daemon.host())?;
    let mut stack = Stack::new(&std::env::current_exe()?, Pace::Product);
    stack.start_scheduler(None).await;
    stack.start_agent("n1", Some(&Engine::at(daemon.host())), None).await;
    stack.until_ready(1).await;
    let swarm = peers.begin_swarm().await.is_ok();
    let parallel = best_parallel(&peers, scale).await?;
    let Scale { count, rounds: turns, .. } = scale;
    say(&format!("\n{count} containers, {turns} rounds; Docker itself at {parallel} at a time"));
    say(&Round::heading());
    let mut rounds = Vec::new();
    for number in 0..turns {
        let raw = peers.raw(count, parallel).await?;
        let before = cpu(&stack)?;
        let ours = submit(&mut stack, number, count).await?;
        let cpu = cpu(&stack)?.saturating_sub(before);
        // What the last round started stays for the idle processes to look after.
        if number + 1 < turns {
            clear(&mut stack, number, count).await;
        }
        let theirs = if swarm { Some(peers.swarm(count, CALLERS).await?) } else { None };
        let round = Round { count, raw, ours, theirs, cpu };
        say(&round.row(number));
        rounds.push(round);
    }
    let mut bars = vec![
        Bar {
            name: "wall time, median x",
            measured: median(rounds.iter().map(Round::ratio)),
            most: MOST_RATIO,
        },
        Bar {
            name: "CPU per container, ms",
            measured: median(rounds.iter().map(Round::cpu_ms)),
            most: MOST_CPU_MS,
        },
    ];
    bars.extend(idle(&stack, scale).await?);
    clear(&mut stack, turns - 1, count).await;
    let passed = judge(&bars);
    if let Some(folder) = json.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(json, serde_json::to_vec_pretty(&told(scale, parallel, &rounds, &bars))?)?;
    Ok(passed)
}

/// What the processes cost when nothing changes.
async fn idle(stack: &Stack, scale: Scale) -> std::io::Result<[Bar; 3]> {
    say(&format!("\nidle for {} s with {} containers", scale.idle.as_secs(), scale.count));
    let (agent, scheduler) = (stack.process_id("n1"), stack.process_id("scheduler"));
    // What the last round set in motion comes to rest first.
    tokio::time::sleep(REST).await;
    // The agent renews the lease of exclusive work with every beat; the store must be still.
    let before = process::written(scheduler)?;
    tokio::time::sleep(scale.idle).await;
    let written = process::written(scheduler)?.saturating_sub(before);
    Ok([
        Bar { name: "agent idle PSS, MB", measured: process::pss_mb(agent)?, most: MOST_AGENT_MB },
        Bar {
            name: "scheduler idle PSS, MB",
            measured: process::pss_mb(scheduler)?,
            most: MOST_SCHEDULER_MB,
        },
        Bar { name: "store bytes while idle", measured: real(written), most: 0.0 },
    ])
}

/// One turn of each.
struct Round {
    count: usize,
    raw: Duration,
    ours: Duration,
    theirs: Option<Duration>,
    cpu: Duration,
}

impl Round {
    fn ratio(&self) -> f64 {
        self.ours.as_secs_f64() / self.raw.as_secs_f64()
    }

    fn cpu_ms(&self) -> f64 {
        self.cpu.as_secs_f64() * 1000.0 / real(u64::try_from(self.count).unwrap_or_default())
    }

    fn heading() -> String {
        let names = ["round", "docker s", "persys s", "x", "swarm s", "cpu ms each"];
        names.map(|name| format!("{name:>13}")).concat()
    }

    fn row(&self, number: usize) -> String {
        let swarm = self.theirs.map(|theirs| format!("{:.2}", theirs.as_secs_f64()));
        format!(
            "{number:>13}{:>13.2}{:>13.2}{:>13.3}{:>13}{:>13.2}",
            self.raw.as_secs_f64(),
            self.ours.as_secs_f64(),
            self.ratio(),
            swarm.unwrap_or_else(|| "-".to_owned()),
            self.cpu_ms(),
        )
    }
}

fn told(scale: Scale, parallel: usize, rounds: &[Round], bars: &[Bar]) -> serde_json::Value {
    let rounds: Vec<_> = rounds
        .iter()
        .map(|round| {
            serde_json::json!({
                "docker_s": round.raw.as_secs_f64(),
                "persys_s": round.ours.as_secs_f64(),
                "swarm_s": round.theirs.map(|theirs| theirs.as_secs_f64()),
                "ratio": round.ratio(),
                "cpu_ms": round.cpu_ms(),
            })
        })
        .collect();
    let bars: Vec<_> = bars.iter().map(Bar::told).collect();
    serde_json::json!({
        "containers": scale.count, "docker_parallel": parallel, "rounds": rounds, "bars": bars,
    })
}

impl Bar {
    pub(crate) fn told(&self) -> serde_json::Value {
        let Self { name, measured, most } = self;
        serde_json::json!({
            "name": name, "measured": measured, "most": most, "passed": self.holds(),
        })
    }

    fn holds(&self) -> bool {
        self.measured <= self.most
    }
}

pub(crate) fn judge(bars: &[Bar]) -> bool {
    for bar in bars {
        let word = if bar.holds() { "PASS" } else { "FAIL" };
        say(&format!("{word}  {:<28}{:>10.3}  at most {}", bar.name, bar.measured, bar.most));
    }
    bars.iter().all(Bar::holds)
}

/// How many requests at a time suit Docker best, by its best try, in turns.
async fn best_parallel(peers: &Peers, scale: Scale) -> Result<usize, Box<dyn Error>> {
    let mut best = [Duration::MAX; PARALLEL.len()];
    for _ in 0..scale.tries {
        for (parallel, best) in PARALLEL.into_iter().zip(&mut best) {
            *best = peers.raw(scale.count, parallel).await?.min(*best);
        }
    }
    say("Docker itself, its best try:");
    for (parallel, best) in PARALLEL.into_iter().zip(best) {
        say(&format!("{parallel:>6} at a time{:>8.2} s", best.as_secs_f64()));
    }
    let all = PARALLEL.into_iter().zip(best);
    Ok(all.min_by_key(|(_, took)| *took).map_or(1, |(parallel, _)| parallel))
}

fn name(stack: &Stack, round: usize, number: usize) -> String {
    stack.id(&format!("{round}-{number}"))
}

/// Submits a round and waits until all of it runs.
async fn submit(stack: &mut Stack, round: usize, count: usize) -> Result<Duration, Box<dyn Error>> {
    let wishes: Vec<_> = (0..count)
        .map(|number| {
            let mut wish = Wish::shell(&name(stack, round, number), "");
            wish.container.command = peers::COMMAND.map(ToOwned::to_owned).to_vec();
            wish.cpu_millicores = peers::MILLICORES;
            wish.request()
        })
        .collect();
    let begun = Instant::now();
    let client = stack.client();
    let asks = wishes.into_iter().map(|wish| {
        let mut client = client.clone();
        async move { client.apply_workload(wish).await }
    });
    let mut answers = futures::stream::iter(asks).buffer_unordered(CALLERS);
    while let Some(answer) = answers.next().await {
        let answer = answer?.into_inner();
        if !answer.success {
            return Err(answer.error_message.into());
        }
    }
    let wanted = i32::try_from(count)?;
    let mut client = stack.client();
    while client
        .get_cluster_summary(api::GetClusterSummaryRequest {})
        .await?
        .into_inner()
        .running_workloads
        < wanted
    {
        if begun.elapsed() > PATIENCE {
            return Err("they do not come to run".into());
        }
        tokio::time::sleep(peers::LOOK_AGAIN).await;
    }
    Ok(begun.elapsed())
}

async fn clear(stack: &mut Stack, round: usize, count: usize) {
    for number in 0..count {
        let request =
            api::DeleteWorkloadRequest { workload_id: name(stack, round, number), volumes: false };
        // What is not taken in now is asked for again below.
        stack.client().delete_workload(request).await.ok();
    }
    for number in 0..count {
        let id = name(stack, round, number);
        stack.delete(&id).await;
    }
}

/// CPU time of all our processes so far.
fn cpu(stack: &Stack) -> std::io::Result<Duration> {
    Ok(process::cpu(stack.process_id("scheduler"))? + process::cpu(stack.process_id("n1"))?)
}

pub(crate) fn median(all: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<_> = all.collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "small numbers for people")]
fn real(number: u64) -> f64 {
    number as f64
}
