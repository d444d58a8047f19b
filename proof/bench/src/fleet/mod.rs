//! A whole fleet on one machine: from submission to running, and how quiet it is when nothing
//! happens.
//!
//! ```text
//!   this process                                     fleet scheduler FOLDER (its own process)
//!   ┌ clients ── ApplyWorkload, WatchEvents ───────►┐
//!   │                                     mTLS      │ persys_scheduler::app, its store in a file or in etcd
//!   └ N agents ◄── orders, registration, beats ────►┘
//! ```
//!
//! Each agent is the real core, driver and gRPC service with a certificate, a listener and a
//! connection of its own; only its ledger and its runtime are in memory. All of it shares the cores
//! of one machine, so the rate printed is that of scheduler, agents and clients together.

pub(crate) mod agents;
pub(crate) mod load;
pub(crate) mod names;
mod raw;
mod report;
pub(crate) mod scheduler;
mod stored;
mod traces;

use std::error::Error;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use persys_etcd_host::{Host, Options as Etcd};
use tokio::runtime::Builder;

use self::agents::Fleet;
use self::load::{Clients, Sample};
use self::names::Names;
use self::raw::Raw;
use self::report::{Idle, Phase, Results, Turn};
use self::scheduler::Process;
use crate::placement::say;

/// What went wrong, in words.
pub type Fault = Box<dyn Error + Send + Sync>;

/// Share of the bar at which latency is looked at, and for how long: a queue that never empties
/// tells nothing about how long one workload takes.
const PACED: (u32, u32) = (400, 5);

/// Turns in which the burst goes on, with raw writes of the same etcd before and after each: the machine
/// is faster at one moment than at the next.
const TURNS: usize = 3;

/// Room for all that is written between two compactions.
const QUOTA: &[&str] = &["--quota-backend-bytes", "8589934592"];

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether the records are in etcd, which is then started for it.
    pub etcd: bool,
    /// How many agents.
    pub agents: usize,
    /// How many workloads are submitted at once.
    pub workloads: usize,
    /// How many submissions wait for their answer at a time.
    pub concurrency: usize,
    /// How long nothing happens at the end.
    pub idle: Duration,
    /// Where the numbers go.
    pub json: PathBuf,
    /// Whether to measure what traces cost, and nothing else.
    pub traces: bool,
    /// The share of traces that are written down then; that of the settings when not given.
    pub share: f64,
}

impl Options {
    /// Reads the command line.
    #[must_use]
    pub fn parse(args: &[String]) -> Option<Self> {
        let mut options = Self {
            etcd: false,
            agents: 1_000,
            workloads: 20_000,
            concurrency: 256,
            idle: Duration::from_mins(1),
            json: PathBuf::from("target/bench/fleet.json"),
            traces: false,
            share: 0.1,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let value = args.next()?;
            match arg.as_str() {
                "--store" => {
                    options.etcd = match value.as_str() {
                        "etcd" => true,
                        "embedded" => false,
                        _ => return None,
                    }
                }
                "--agents" => options.agents = positive(value)?,
                "--workloads" => options.workloads = positive(value)?,
                "--concurrency" => options.concurrency = positive(value)?,
                "--idle" => options.idle = Duration::from_secs(value.parse().ok()?),
                "--json" => options.json = PathBuf::from(value),
                "--traces" => options.traces = value == "1",
                "--share" => options.share = value.parse().ok()?,
                _ => return None,
            }
        }
        Some(options)
    }
}

fn positive(text: &str) -> Option<usize> {
    text.parse().ok().filter(|number| *number > 0)
}

/// Runs as the scheduler's process until its input ends.
pub fn scheduler(folder: &Path, etcd: Option<&str>) -> Result<(), Fault> {
    runtime()?.block_on(scheduler::serve(folder, etcd))
}

/// Runs as a collector of spans until its input ends.
pub fn collector() -> Result<(), Fault> {
    runtime()?.block_on(traces::collect())
}

/// Runs as one side of the comparison of what traces cost, until its input ends.
pub fn side(options: &Options) -> Result<(), Fault> {
    runtime()?.block_on(traces::serve(options))
}

/// Measures, prints and keeps. Says whether every bar was met.
pub fn run(options: &Options) -> Result<bool, Fault> {
    if options.traces {
        return runtime()?.block_on(traces::compare(options));
    }
    let results = runtime()?.block_on(measure(options))?;
    say(&results.table());
    if let Some(folder) = options.json.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&options.json, results.json())?;
    Ok(results.met())
}

fn runtime() -> Result<tokio::runtime::Runtime, Fault> {
    Ok(Builder::new_multi_thread().enable_all().build()?)
}

async fn measure(options: &Options) -> Result<Results, Fault> {
    let folder = tempfile::tempdir()?;
    let names = Names::create(folder.path())?;
    let etcd = if options.etcd { Some(Host::start(Etcd::new(1).with(QUOTA)).await) } else { None };
    let process = Process::start(folder.path(), etcd.as_ref(), None).await?;
    let (rate, seconds) = PACED;
    let paced = usize::try_from(rate * seconds)?;
    let all = options.workloads + paced;

    let begun = Instant::now();
    let fleet = Fleet::start(options.agents, all, &names, process.grpc).await?;
    let mut clients = Clients::connect(&names, process.grpc).await?;
    clients.nodes_ready(options.agents).await?;
    let joined = begun.elapsed();
    say(&format!("{} agents joined in {:.1} s", options.agents, joined.as_secs_f64()));

    let mut watch = clients.watch(all).await?;
    // The slow stretch comes first: every agent gets its first orders, and with them its
    // connection, so that the burst finds a fleet at work.
    let before = process.sample().await?;
    let submitted = clients.paced(0..paced, rate).await?;
    watch.wait(paced).await?;
    let slow = Turn { submitted, before, after: process.sample().await? };
    let slow = Phase::new(&[slow], &watch.running());
    say(&slow.line("paced"));

    let (mut raw, mut turns) = (Raw::default(), Vec::new());
    if let Some(etcd) = &etcd {
        raw.measure(etcd).await?;
    }
    for turn in turns_of(paced..all, if options.etcd { TURNS } else { 1 }) {
        let (before, end) = (process.sample().await?, turn.end);
        let submitted = clients.burst(turn, options.concurrency).await?;
        watch.wait(end).await?;
        turns.push(Turn { submitted, before, after: process.sample().await? });
        if let Some(etcd) = &etcd {
            raw.measure(etcd).await?;
        }
    }
    let burst = Phase::new(&turns, &watch.running());
    say(&burst.line("burst"));
    drop(watch);
    clients.check(all).await?;
    fleet.check(all).await?;

    let idle = idle(options.idle, &process).await?;
    let stored = process.stop().await?;
    let again = Instant::now();
    let process = Process::start(folder.path(), etcd.as_ref(), None).await?;
    let restarted = again.elapsed();
    drop(process);
    Ok(Results {
        raw,
        restarted,
        etcd: options.etcd,
        agents: options.agents,
        concurrency: options.concurrency,
        joined,
        burst,
        slow,
        idle,
        stored,
    })
}

/// All of it in so many parts.
fn turns_of(all: Range<usize>, count: usize) -> impl Iterator<Item = Range<usize>> {
    let (start, length) = (all.start, all.len());
    (0..count).map(move |nth| start + length * nth / count..start + length * (nth + 1) / count)
}

/// Lets nothing happen and looks at what it costs.
async fn idle(length: Duration, process: &Process) -> Result<Idle, Fault> {
    // What was under way comes to rest first: the last mark outside the store, the last beats.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before: Sample = process.sample().await?;
    tokio::time::sleep(length).await;
    let after = process.sample().await?;
    Ok(Idle::new(before, after))
}
