//! Table and JSON.

use std::fmt::Write;

use super::bars::{Bar, percent, real};
use super::churn::Fill;
use super::measure::Spread;
use super::regime::{GROWTH, Growth, Point};

/// Prints a line.
#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
pub fn say(line: &str) {
    println!("{line}");
}

pub(super) fn heading() -> String {
    format!(
        "\n{:<16}{:>8}{:>8}{:>8}{:>11}{:>9}{:>23}{:>8}{:>13}{:>15}{:>9}{:>10}",
        "regime",
        "nodes",
        "ns/op",
        "cpu",
        "scan ns/op",
        "cpu",
        "x (min-max)",
        "cpu x",
        "p50",
        "p99",
        "refused",
        "fallbacks"
    )
}

pub(super) fn row(point: &Point) -> String {
    let Spread { least, median, most } = point.ratio;
    let bracket = |spread: &Spread| format!("{:.0} ({:.0})", spread.least, spread.median);
    format!(
        "{:<16}{:>8}{:>8.0}{:>8.0}{:>11.0}{:>9.0}{:>23}{:>8.1}{:>13}{:>15}{:>8.1}%{:>10}",
        point.regime.word(),
        point.nodes,
        point.grid.median,
        point.grid_cpu,
        point.scan.median,
        point.scan_cpu,
        format!("{median:.1} ({least:.1}-{most:.1})"),
        point.scan_cpu / point.grid_cpu,
        bracket(&point.p50),
        bracket(&point.p99),
        point.refused,
        point.fallbacks,
    )
}

pub(super) fn growth(growth: &Growth) -> String {
    let row = |s: &Spread| format!("{:.3} ({:.3} to {:.3})", s.median, s.least, s.most);
    let [few, many] = GROWTH;
    format!(
        "\nfull churn, {few} and {many} nodes in turns, growth exponent of ns/op, median (range): \
         wall {}, cpu {}",
        row(&growth.wall),
        row(&growth.cpu)
    )
}

pub(super) fn bars(fills: &[Fill], bars: &[Bar]) -> String {
    let mut text =
        String::from("\nfill from nothing, same requests, until 200 failures in a row:\n");
    let mut line = |row: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        text.write_fmt(row).ok();
        text.push('\n');
    };
    for fill in fills {
        let share = |part: u64, of: u64| 100.0 * real(part) / real(of);
        line(format_args!(
            "  {:>6} nodes: index {:.2} % (cpu {:.1}, memory {:.1}), scan {:.2} % (cpu {:.1}, memory {:.1})",
            fill.nodes,
            percent(fill.grid, fill),
            share(fill.grid.cpu, fill.all.cpu),
            share(fill.grid.mem, fill.all.mem),
            percent(fill.scan, fill),
            share(fill.scan.cpu, fill.all.cpu),
            share(fill.scan.mem, fill.all.mem),
        ));
    }
    line(format_args!(
        "\nchecked: every pick fits, index and scan agree, accounts equal placements, no node overfull"
    ));
    for Bar { name, value, limit, met } in bars {
        let verdict = if *met { "PASS" } else { "FAIL" };
        line(format_args!("{verdict}  {name}: {value:.3} (bar {limit})"));
    }
    text
}

pub(super) fn json(points: &[Point], fills: &[Fill], bars: &[Bar]) -> String {
    let spread = |s: &Spread| {
        format!("{{\"min\":{:.2},\"median\":{:.2},\"max\":{:.2}}}", s.least, s.median, s.most)
    };
    let points: Vec<String> = points
        .iter()
        .map(|p| {
            format!(
                "{{\"regime\":\"{}\",\"nodes\":{},\"index_ns\":{},\"scan_ns\":{},\"ratio\":{},\
                 \"index_cpu_ns\":{:.2},\"scan_cpu_ns\":{:.2},\"p50_ns\":{},\"p99_ns\":{},\
                 \"refused_percent\":{:.2},\"fallbacks\":{}}}",
                p.regime.word(),
                p.nodes,
                spread(&p.grid),
                spread(&p.scan),
                spread(&p.ratio),
                p.grid_cpu,
                p.scan_cpu,
                spread(&p.p50),
                spread(&p.p99),
                p.refused,
                p.fallbacks
            )
        })
        .collect();
    let fills: Vec<String> = fills
        .iter()
        .map(|f| {
            format!(
                "{{\"nodes\":{},\"index_percent\":{:.3},\"scan_percent\":{:.3}}}",
                f.nodes,
                percent(f.grid, f),
                percent(f.scan, f)
            )
        })
        .collect();
    let bars: Vec<String> = bars
        .iter()
        .map(|b| {
            format!(
                "{{\"name\":\"{}\",\"value\":{:.4},\"limit\":{},\"met\":{}}}",
                b.name, b.value, b.limit, b.met
            )
        })
        .collect();
    format!(
        "{{\"points\":[\n{}\n],\"fills\":[\n{}\n],\"bars\":[\n{}\n]}}\n",
        points.join(",\n"),
        fills.join(",\n"),
        bars.join(",\n")
    )
}
