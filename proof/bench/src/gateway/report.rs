//! Numbers, bars, table and JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::frozen::Frozen;
use super::reads::{Reads, Turn};
use super::streams::Streams;

/// Reads through the gateway against the scheduler's own, at least.
const RATE: f64 = 0.8;
/// p99 of the same, at most.
const P99: f64 = 2.0;
/// MiB for the idle streams, at most.
const MEMORY: f64 = 50.0;
/// p99 of one cluster while another stands still, against before, at most.
const FROZEN: f64 = 1.2;
/// Share of the machine, in percent, beyond which somebody else disturbed a rate.
const QUIET: f64 = 10.0;

/// Everything.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) reads: Vec<Reads>,
    pub(super) streams: Streams,
    pub(super) frozen: Frozen,
}

struct Bar {
    name: String,
    value: f64,
    limit: f64,
    met: bool,
}

fn at_most(name: String, value: f64, limit: f64) -> Bar {
    Bar { name, value, limit, met: value <= limit }
}

impl Reads {
    fn each(&self, of: impl Fn(&Turn, &Turn) -> f64) -> f64 {
        let all: Vec<_> = self.turns.iter().map(|(grpc, rest)| of(grpc, rest)).collect();
        median(&all)
    }

    fn rate(&self) -> f64 {
        self.each(|grpc, rest| rest.per_second / grpc.per_second)
    }

    fn p99(&self) -> f64 {
        self.each(|grpc, rest| rest.p99_ms / grpc.p99_ms)
    }

    fn foreign(&self) -> f64 {
        self.each(|grpc, rest| grpc.foreign_percent.max(rest.foreign_percent))
    }

    pub(super) fn line(&self) -> String {
        let cpu = |of: fn(&Turn, &Turn) -> [f64; 3]| {
            let [scheduler, gateway, clients] =
                [0, 1, 2].map(|nth| self.each(|a, b| of(a, b).get(nth).copied().unwrap_or(0.0)));
            format!("scheduler {scheduler:.0}, gateway {gateway:.0}, clients {clients:.0}")
        };
        format!(
            "{:<14} gRPC {:>6.0}/s p99 {:>6.2} ms   gateway {:>6.0}/s p99 {:>6.2} ms   rate {:.2}x  p99 {:.2}x   \
             others {:.0} %\n               cpu us/answer: gRPC {}; gateway {}",
            self.kind.word(),
            self.each(|grpc, _| grpc.per_second),
            self.each(|grpc, _| grpc.p99_ms),
            self.each(|_, rest| rest.per_second),
            self.each(|_, rest| rest.p99_ms),
            self.rate(),
            self.p99(),
            self.foreign(),
            cpu(|grpc, _| grpc.cpu_us),
            cpu(|_, rest| rest.cpu_us),
        )
    }

    fn json(&self) -> Value {
        let turn = |turn: &Turn| {
            let [scheduler, gateway, clients] = turn.cpu_us;
            json!({
                "per_second": turn.per_second,
                "p50_ms": turn.p50_ms,
                "p99_ms": turn.p99_ms,
                "cpu_us_per_answer": {"scheduler": scheduler, "gateway": gateway, "clients_and_agents": clients},
                "foreign_cpu_percent": turn.foreign_percent,
            })
        };
        let turns = self.turns.iter();
        let turns: Vec<_> =
            turns.map(|(grpc, rest)| json!({"grpc": turn(grpc), "gateway": turn(rest)})).collect();
        json!({
            "read": self.kind.word(),
            "rate_ratio": self.rate(),
            "p99_ratio": self.p99(),
            "rounds": turns,
        })
    }
}

impl Results {
    fn bars(&self) -> Vec<Bar> {
        let mut bars = Vec::new();
        for reads in &self.reads {
            let (name, rate) = (reads.kind.word(), reads.rate());
            bars.push(Bar {
                name: format!("{name}: rate against the scheduler's own, at least"),
                value: rate,
                limit: RATE,
                met: rate >= RATE,
            });
            let name = format!("{name}: p99 against the scheduler's own, at most");
            bars.push(at_most(name, reads.p99(), P99));
        }
        let name = format!("MiB for {} idle event streams, at most", self.streams.count);
        bars.push(at_most(name, self.streams.cost_mib(), MEMORY));
        let name = "p99 of one cluster while another stands still, against before, at most";
        bars.push(at_most(name.to_owned(), self.frozen.ratio(), FROZEN));
        let failed = real(self.frozen.failed);
        bars.push(at_most(
            "answers of the one that failed meanwhile, at most".to_owned(),
            failed,
            0.0,
        ));
        bars
    }

    pub(super) fn met(&self) -> bool {
        self.bars().iter().all(|bar| bar.met)
    }

    /// For people.
    pub(super) fn table(&self) -> String {
        let foreign = self.reads.iter().map(Reads::foreign).fold(0.0, f64::max);
        let mut lines = vec![format!("\n{} cores for everything; medians of rounds", cores())];
        for Bar { name, value, limit, met } in self.bars() {
            let verdict = match met {
                true => "PASS",
                // What others held down says nothing about us.
                false if foreign > QUIET => "INVALID",
                false => "FAIL",
            };
            lines.push(format!("{verdict}  {name}: {value:.2} (bar {limit})"));
        }
        lines.join("\n")
    }

    /// For machines.
    pub(super) fn json(&self) -> String {
        let bars = self.bars().into_iter().map(|bar| {
            json!({ "name": bar.name, "value": bar.value, "limit": bar.limit, "met": bar.met })
        });
        let bars: Vec<Value> = bars.collect();
        let all = json!({
            "cores": cores(),
            "reads": self.reads.iter().map(Reads::json).collect::<Vec<_>>(),
            "streams": {
                "count": self.streams.count,
                "before_mib": self.streams.before_mib,
                "after_mib": self.streams.after_mib,
                "cpu_percent": self.streams.cpu_percent,
            },
            "frozen": {
                "p99_ms_while_all_answer": self.frozen.before,
                "p99_ms_while_one_stands_still": self.frozen.meanwhile,
                "failed": self.frozen.failed,
            },
            "bars": bars,
        });
        format!("{all:#}\n")
    }
}

/// So much of sorted times is shorter, in milliseconds.
pub(super) fn at(sorted: &[Duration], percent: usize) -> f64 {
    let nth = sorted.len().saturating_sub(1) * percent / 100;
    sorted.get(nth).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

pub(super) fn median(of: &[f64]) -> f64 {
    let mut all = of.to_vec();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}

pub(super) fn real(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

pub(super) fn cores() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |cores| real(cores.get()))
}
