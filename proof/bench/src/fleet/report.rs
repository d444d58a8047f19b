//! Numbers, bars, table and JSON.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::load::{Sample, Submitted};
use super::raw::Raw;
use super::stored::Stored;

/// Workloads per second, at least.
const RATE: f64 = 2_000.0;
/// Share of the machine, in percent, beyond which somebody else disturbed a rate.
const QUIET: f64 = 10.0;
/// Writes of records per workload, at most.
const WRITES: f64 = 4.0;

/// What one stretch of submissions cost.
#[derive(Debug)]
pub(super) struct Phase {
    workloads: f64,
    per_second: f64,
    submits_per_second: f64,
    /// From when it was due until it was seen running: p50, p99, most.
    running_ms: [f64; 3],
    /// The call alone.
    submit_ms: [f64; 3],
    scheduler_us: f64,
    others_us: f64,
    etcd_us: f64,
    /// Share of the machine that neither process used, yet somebody did.
    foreign_percent: f64,
    cores: f64,
    transactions: f64,
    records: f64,
    events: f64,
    memory_mib: f64,
}

/// What it costs to do nothing.
#[derive(Debug)]
pub(super) struct Idle {
    seconds: f64,
    transactions_per_minute: f64,
    untouched: bool,
    scheduler_percent: f64,
    others_percent: f64,
}

/// Workloads from submission to running against raw writes of the same etcd in transactions of 128.
const RAW_SHARE: f64 = 0.08;
/// From so many agents on, the scheduler's share of a core while nothing happens has a bar.
const MANY_AGENTS: usize = 5_000;
const IDLE_PERCENT: f64 = 10.0;
/// From so many workloads on, the time to read them all has a bar.
const MANY_WORKLOADS: f64 = 100_000.0;
const LOAD_SECONDS: f64 = 5.0;

/// Everything.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) etcd: bool,
    pub(super) raw: Raw,
    /// How long a new scheduler takes until it leads and has read everything.
    pub(super) restarted: Duration,
    pub(super) agents: usize,
    pub(super) concurrency: usize,
    pub(super) joined: Duration,
    pub(super) burst: Phase,
    pub(super) slow: Phase,
    pub(super) idle: Idle,
    pub(super) stored: Stored,
}

/// Submissions of one go, and what was counted before and after.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) submitted: Vec<Submitted>,
    pub(super) before: Sample,
    pub(super) after: Sample,
}

impl Turn {
    /// From the first submission to the last answer, and to the last that was seen running.
    fn took(&self, running: &[Option<Instant>]) -> (Duration, Duration) {
        let Self { submitted, before, after } = self;
        let first = submitted.iter().map(|one| one.due).min().unwrap_or(before.at);
        let answered = submitted.iter().map(|one| one.answered).max().unwrap_or(after.at);
        let last = submitted.iter().filter_map(|one| seen(one, running)).max().unwrap_or(after.at);
        (answered - first, last - first)
    }

    /// What somebody used meanwhile who is none of ours.
    fn foreign(&self) -> Duration {
        let Self { before, after, .. } = self;
        let ours = after.scheduler.saturating_sub(before.scheduler)
            + after.others.saturating_sub(before.others)
            + after.etcd.saturating_sub(before.etcd);
        after.machine.saturating_sub(before.machine).saturating_sub(ours)
    }
}

fn seen(one: &Submitted, running: &[Option<Instant>]) -> Option<Instant> {
    running.get(one.nth).copied().flatten()
}

impl Phase {
    pub(super) fn new(turns: &[Turn], running: &[Option<Instant>]) -> Self {
        let submitted = || turns.iter().flat_map(|turn| &turn.submitted);
        let workloads = real(submitted().count());
        let (answered, ran) = turns
            .iter()
            .map(|turn| turn.took(running))
            .fold((Duration::ZERO, Duration::ZERO), |sum, took| (sum.0 + took.0, sum.1 + took.1));
        let until = |one: &Submitted| Some(seen(one, running)?.saturating_duration_since(one.due));
        let micros = |of: fn(&Sample) -> Duration| {
            let used = turns.iter().map(|turn| of(&turn.after).saturating_sub(of(&turn.before)));
            used.sum::<Duration>().as_secs_f64() * 1e6 / workloads
        };
        let each = |of: fn(&Sample) -> u64| {
            let more = turns.iter().map(|turn| of(&turn.after).saturating_sub(of(&turn.before)));
            real64(more.sum()) / workloads
        };
        let wall: Duration = turns.iter().map(|turn| turn.after.at - turn.before.at).sum();
        let foreign: Duration = turns.iter().map(Turn::foreign).sum();
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| real(cores.get()));
        let memory = turns.last().map_or(0, |turn| turn.after.memory_kib);
        Self {
            workloads,
            per_second: workloads / ran.as_secs_f64(),
            submits_per_second: workloads / answered.as_secs_f64(),
            running_ms: percentiles(submitted().filter_map(until)),
            submit_ms: percentiles(submitted().map(|one| one.answered - one.called)),
            scheduler_us: micros(|sample| sample.scheduler),
            others_us: micros(|sample| sample.others),
            etcd_us: micros(|sample| sample.etcd),
            foreign_percent: 100.0 * foreign.as_secs_f64() / wall.as_secs_f64() / cores,
            cores,
            transactions: each(|sample| sample.transactions),
            records: each(|sample| sample.records),
            events: each(|sample| sample.events),
            memory_mib: f64::from(memory) / 1024.0,
        }
    }

    pub(super) fn line(&self, name: &str) -> String {
        let [run50, run99, _] = self.running_ms;
        let [_, sub99, _] = self.submit_ms;
        format!(
            "{name:<7}{:>7.0} workloads{:>8.0}/s   running p50 {run50:>7.1} ms  p99 {run99:>7.1} ms   submit p99 \
             {sub99:>6.1} ms   cpu/workload: scheduler {:>4.0} us, agents and clients {:>4.0} us, etcd {:>4.0} us",
            self.workloads, self.per_second, self.scheduler_us, self.others_us, self.etcd_us
        )
    }

    /// What the processors would do if nobody else used them, by what a workload costs.
    fn alone_per_second(&self) -> f64 {
        self.cores * 1e6 / (self.scheduler_us + self.others_us + self.etcd_us)
    }

    fn json(&self) -> Value {
        json!({
            "per_second_by_cpu_alone": self.alone_per_second(),
            "workloads": self.workloads,
            "per_second": self.per_second,
            "submits_per_second": self.submits_per_second,
            "submit_to_running_ms": { "p50": self.running_ms[0], "p99": self.running_ms[1], "max": self.running_ms[2] },
            "submit_ms": { "p50": self.submit_ms[0], "p99": self.submit_ms[1], "max": self.submit_ms[2] },
            "cpu_us_per_workload": { "scheduler": self.scheduler_us, "agents_and_clients": self.others_us, "etcd": self.etcd_us },
            "foreign_cpu_percent": self.foreign_percent,
            "cores": self.cores,
            "store_per_workload": {
                "transactions": self.transactions,
                "record_writes": self.records,
                "events": self.events,
            },
            "scheduler_rss_mib": self.memory_mib,
        })
    }
}

impl Idle {
    pub(super) fn new(before: Sample, after: Sample) -> Self {
        let seconds = (after.at - before.at).as_secs_f64();
        let share =
            |from: Duration, to: Duration| 100.0 * to.saturating_sub(from).as_secs_f64() / seconds;
        let transactions = real64(after.transactions.saturating_sub(before.transactions));
        Self {
            seconds,
            transactions_per_minute: transactions * 60.0 / seconds,
            untouched: before.touched == after.touched,
            scheduler_percent: share(before.scheduler, after.scheduler),
            others_percent: share(before.others, after.others),
        }
    }
}

struct Bar {
    name: &'static str,
    value: f64,
    limit: f64,
    met: bool,
}

impl Results {
    fn bars(&self) -> Vec<Bar> {
        let (rate, writes) = (self.burst.per_second, self.burst.records);
        let idle = self.idle.transactions_per_minute;
        let mut bars = vec![
            Bar {
                name: "workloads per second, at least",
                value: rate,
                limit: RATE,
                met: rate >= RATE,
            },
            Bar {
                name: "writes of records per workload besides events, at most",
                value: writes,
                limit: WRITES,
                // A retry or a drift of one among thousands is no third key.
                met: writes <= WRITES * 1.001,
            },
            Bar {
                name: "store transactions per idle minute, at most",
                value: idle,
                limit: 0.0,
                met: idle <= 0.0 && self.idle.untouched,
            },
        ];
        if self.etcd {
            let share = rate / self.raw.writes_per_second();
            bars.push(Bar {
                name: "workloads per raw write of the same etcd, at least",
                value: share,
                limit: RAW_SHARE,
                met: share >= RAW_SHARE,
            });
        }
        if self.agents >= MANY_AGENTS {
            let percent = self.idle.scheduler_percent;
            bars.push(Bar {
                name: "scheduler's share of a core when idle, in percent, at most",
                value: percent,
                limit: IDLE_PERCENT,
                met: percent <= IDLE_PERCENT,
            });
        }
        if self.burst.workloads + self.slow.workloads >= MANY_WORKLOADS {
            let seconds = self.restarted.as_secs_f64();
            bars.push(Bar {
                name: "seconds until a new scheduler has read everything, at most",
                value: seconds,
                limit: LOAD_SECONDS,
                met: seconds <= LOAD_SECONDS,
            });
        }
        bars
    }

    pub(super) fn met(&self) -> bool {
        self.bars().iter().all(|bar| bar.met)
    }

    /// For people.
    pub(super) fn table(&self) -> String {
        let mut lines = vec![format!(
            "\n{} agents, {} submissions at a time, {} cores for everything; running = seen in WatchEvents; \
             joined in {:.1} s",
            self.agents,
            self.concurrency,
            self.burst.cores,
            self.joined.as_secs_f64()
        )];
        for (name, phase) in [("burst", &self.burst), ("paced", &self.slow)] {
            lines.push(phase.line(name));
            lines.push(format!(
                "       per workload: {:.2} writes of records, {:.2} events, {:.3} transactions;  others used \
                 {:.0} % of the machine, without them {:.0}/s by CPU;  scheduler {:.0} MiB",
                phase.records,
                phase.events,
                phase.transactions,
                phase.foreign_percent,
                phase.alone_per_second(),
                phase.memory_mib
            ));
        }
        let idle = &self.idle;
        lines.push(format!(
            "idle   {:.0} s: {:.2} transactions a minute, file {}; scheduler {:.1} % of a core, agents {:.1} %",
            idle.seconds,
            idle.transactions_per_minute,
            if idle.untouched { "untouched" } else { "WRITTEN TO" },
            idle.scheduler_percent,
            idle.others_percent
        ));
        let all = self.burst.workloads + self.slow.workloads;
        for (word, (count, bytes)) in &self.stored.records {
            let (count, bytes) = (real64(*count), real64(*bytes));
            lines.push(format!(
                "store  /{word}: {count} keys, {:.3} per workload, {:.0} bytes each",
                count / all,
                bytes / count
            ));
        }
        if self.etcd {
            lines.push(format!(
                "etcd   takes {:.0} raw transactions of 128 writes a second, {:.0} writes; so {:.3} workloads a write, \
                 {:.1} a transaction",
                self.raw.transactions_per_second(),
                self.raw.writes_per_second(),
                self.burst.per_second / self.raw.writes_per_second(),
                self.burst.per_second / self.raw.transactions_per_second(),
            ));
        }
        lines.push(format!(
            "start  a new scheduler leads and has read {all} workloads after {:.2} s",
            self.restarted.as_secs_f64()
        ));
        let file = real64(self.stored.file_bytes);
        lines.push(format!("store  file: {:.0} bytes per workload", file / all));
        for Bar { name, value, limit, met } in self.bars() {
            let verdict = match met {
                true => "PASS",
                // A rate that others held down says nothing about us.
                false if limit >= RATE && self.burst.foreign_percent > QUIET => "INVALID",
                false => "FAIL",
            };
            lines.push(format!("{verdict}  {name}: {value:.3} (bar {limit})"));
        }
        lines.join("\n")
    }

    /// For machines.
    pub(super) fn json(&self) -> String {
        let stored: serde_json::Map<String, Value> = self
            .stored
            .records
            .iter()
            .map(|(word, (keys, bytes))| (word.clone(), json!({ "keys": keys, "bytes": bytes })))
            .collect();
        let bars = self.bars().into_iter().map(|bar| {
            json!({ "name": bar.name, "value": bar.value, "limit": bar.limit, "met": bar.met })
        });
        let bars: Vec<Value> = bars.collect();
        let all = json!({
            "agents": self.agents,
            "concurrency": self.concurrency,
            "store_is_etcd": self.etcd,
            "raw_transactions_per_second": self.raw.transactions_per_second(),
            "restart_seconds": self.restarted.as_secs_f64(),
            "joined_seconds": self.joined.as_secs_f64(),
            "burst": self.burst.json(),
            "paced": self.slow.json(),
            "idle": {
                "seconds": self.idle.seconds,
                "store_transactions_per_minute": self.idle.transactions_per_minute,
                "store_file_untouched": self.idle.untouched,
                "scheduler_cpu_percent": self.idle.scheduler_percent,
                "agents_cpu_percent": self.idle.others_percent,
            },
            "store": { "keys": stored, "file_bytes": self.stored.file_bytes },
            "bars": bars,
        });
        format!("{all:#}\n")
    }
}

/// p50, p99 and the most, in milliseconds.
fn percentiles(of: impl Iterator<Item = Duration>) -> [f64; 3] {
    let mut all: Vec<Duration> = of.collect();
    all.sort_unstable();
    let at = |percent: usize| {
        let nth = all.len().saturating_sub(1) * percent / 100;
        all.get(nth).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    [at(50), at(99), at(100)]
}

fn real(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Counts here have fewer bits than the mantissa.
#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "a count for a ratio")]
fn real64(count: u64) -> f64 {
    count as f64
}
