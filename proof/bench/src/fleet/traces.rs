//! What traces cost: two schedulers with a fleet each, one that writes spans down and one that does
//! not, and the same work for both in turn. Only one of them works at a time, so that the cost of each
//! turn is that of its side. The collector is a process of its own, and what it costs is not ours.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use persys_collector::Collector;
use persys_telemetry::trace::{self, Exporting, Pairs, Sampling, Settings};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use super::agents::Fleet;
use super::load::{Clients, Watch};
use super::names::Names;
use super::scheduler::Process;
use super::{Fault, Options};
use crate::placement::say;

/// How often each side has its turn, beside a first one that warms it up.
const TURNS: usize = 48;
/// Most that traces may cost, in percent of the CPU of a workload.
const BAR: f64 = 5.0;

/// The variable that tells the scheduler's process where spans go.
pub(super) const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Sends spans there, as many as a component does that is told nothing else, or so many.
pub(super) fn export(at: &str, service: &str, share: f64) -> Result<Exporting, Fault> {
    let endpoint = Settings::endpoint(at, true)?;
    let sampling = Sampling { ratio: share, follows: true };
    let service = service.to_owned();
    let (attributes, headers) = (Pairs::default(), Pairs::default());
    Ok(trace::export(&Settings {
        endpoint,
        roots: None,
        service,
        instance: None,
        attributes,
        headers,
        sampling,
    })?)
}

/// Takes spans until standard input ends; says where, and then how many.
pub(super) async fn collect() -> Result<(), Fault> {
    let collector = Collector::counting().await?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", collector.at)?;
    out.flush()?;
    let until_end = || std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    tokio::task::spawn_blocking(until_end).await??;
    writeln!(out, "{}", collector.count())?;
    out.flush()?;
    Ok(())
}

struct Collecting {
    child: Child,
    out: BufReader<ChildStdout>,
    at: SocketAddr,
}

impl Collecting {
    async fn start() -> Result<Self, Fault> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("collector")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut out = BufReader::new(child.stdout.take().ok_or("the collector has no output")?);
        let mut line = String::new();
        out.read_line(&mut line).await?;
        Ok(Self { child, out, at: line.trim().parse()? })
    }

    /// How many spans came.
    async fn finish(mut self) -> Result<u64, Fault> {
        drop(self.child.stdin.take());
        let mut line = String::new();
        self.out.read_line(&mut line).await?;
        Ok(line.trim().parse()?)
    }
}

/// A scheduler and its fleet.
struct Side {
    clients: Clients,
    watch: Watch,
    process: Process,
    next: usize,
    /// Microseconds of CPU for each workload, a turn: the scheduler's, and all of it.
    costs: Vec<(f64, f64)>,
    _fleet: Fleet,
    _exporting: Option<Exporting>,
    _folder: TempDir,
}

impl Side {
    async fn start(options: &Options, all: usize, to: Option<SocketAddr>) -> Result<Self, Fault> {
        let folder = tempfile::tempdir()?;
        let names = Names::create(folder.path())?;
        let to = to.map(|at| at.to_string());
        let spans = to.as_deref().map(|at| (at, options.share));
        let process = Process::start(folder.path(), None, spans).await?;
        let exporting = spans.map(|(at, share)| export(at, "persys-agent", share)).transpose()?;
        let home = exporting.as_ref().map(Exporting::home).unwrap_or_default();
        let starting = Fleet::start(options.agents, all, &names, process.grpc);
        let fleet = trace::scope(home, starting).await?;
        let mut clients = Clients::connect(&names, process.grpc).await?;
        clients.nodes_ready(options.agents).await?;
        let watch = clients.watch(all).await?;
        let (next, costs) = (0, Vec::new());
        Ok(Self {
            clients,
            watch,
            process,
            next,
            costs,
            _fleet: fleet,
            _exporting: exporting,
            _folder: folder,
        })
    }

    async fn turn(&mut self, count: usize, concurrency: usize) -> Result<(), Fault> {
        let before = self.process.sample().await?;
        let which = self.next..self.next + count;
        self.next = which.end;
        self.clients.burst(which, concurrency).await?;
        self.watch.wait(self.next).await?;
        // What is sent half a second later belongs to it too.
        tokio::time::sleep(Duration::from_millis(700)).await;
        let after = self.process.sample().await?;
        let per = |time: Duration| {
            time.as_secs_f64() * 1e6 / f64::from(u32::try_from(count).unwrap_or(1))
        };
        let scheduler = per(after.scheduler.saturating_sub(before.scheduler));
        let others = per(after.others.saturating_sub(before.others));
        self.costs.push((scheduler, scheduler + others));
        Ok(())
    }

    /// The turns after the first.
    fn turns(&self) -> impl Iterator<Item = (f64, f64)> {
        self.costs.iter().skip(1).copied()
    }
}

fn median(all: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = all.collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}

/// What one of the costs is without and with traces, and how many percent that is more: turns that
/// followed each other are compared, so that what drifts drifts for both.
fn compared(without: &Side, with: &Side, which: fn((f64, f64)) -> f64) -> (f64, f64, f64) {
    let (off, on) = (|| without.turns().map(which), || with.turns().map(which));
    let more = median(off().zip(on()).map(|(off, on)| 100.0 * (on - off) / off.max(0.001)));
    (median(off()), median(on()), more)
}

/// Measures, prints and keeps. Says whether the bar was met.
pub(super) async fn compare(options: &Options) -> Result<bool, Fault> {
    let collecting = Collecting::start().await?;
    let each = (options.workloads / (TURNS + 1)).max(1);
    let all = each * (TURNS + 1);
    let mut without = Side::start(options, all, None).await?;
    let mut with = Side::start(options, all, Some(collecting.at)).await?;
    say(&format!(
        "{} agents on each side; {} turns of {each} workloads",
        options.agents,
        TURNS + 1
    ));
    for turn in 0..=TURNS {
        // Who goes first changes, so that what drifts drifts for both.
        let sides =
            if turn % 2 == 0 { [&mut without, &mut with] } else { [&mut with, &mut without] };
        for side in sides {
            side.turn(each, options.concurrency).await?;
        }
    }
    let (scheduler_off, scheduler_on, scheduler_more) = compared(&without, &with, |cost| cost.0);
    let (all_off, all_on, more) = compared(&without, &with, |cost| cost.1);
    let turns = json!({
        "without": without.costs, "with": with.costs, "agents": options.agents, "workloads": each,
    });
    drop(with);
    let spans = collecting.finish().await?;
    let met = more < BAR;
    say(&format!(
        "traces, share {}: {spans} spans\n\
         cpu/workload  scheduler {scheduler_off:.0} us without, {scheduler_on:.0} us with: {scheduler_more:+.1} %\n\
         cpu/workload  with agents and clients {all_off:.0} us without, {all_on:.0} us with: {more:+.1} %   \
         {} (bar {BAR} %)",
        options.share,
        if met { "met" } else { "MISSED" },
    ));
    let numbers = json!({
        "share": options.share,
        "spans": spans,
        "scheduler_us": {"without": scheduler_off, "with": scheduler_on, "percent": scheduler_more},
        "all_us": {"without": all_off, "with": all_on, "percent": more},
        "turns": turns,
        "met": met,
    });
    if let Some(folder) = options.json.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&options.json, format!("{numbers:#}\n"))?;
    Ok(met)
}
