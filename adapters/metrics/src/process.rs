//! The process itself, under the names every dashboard knows, and which release it is.

use std::fmt;

use procfs::process::{LimitValue, Process};
use procfs::{ProcResult, boot_time_secs, page_size, ticks_per_second};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::families::{Families, Kind, encode_one};

/// What is shown, in this order.
const SHOWN: [(&str, &str, Kind); 6] = [
    ("process_cpu_seconds_total", "CPU time this process has used, in seconds", Kind::Counter),
    ("process_resident_memory_bytes", "Memory this process has in use", Kind::Gauge),
    ("process_open_fds", "Files and connections this process has open", Kind::Gauge),
    ("process_max_fds", "Files and connections this process may have open", Kind::Gauge),
    ("process_threads", "Threads of this process", Kind::Gauge),
    ("process_start_time_seconds", "When this process began, in seconds since 1970", Kind::Gauge),
];

/// Shows the process, and the version of the program.
pub(crate) fn show(families: &mut Families, version: &'static str) {
    let build =
        families.gauges("build_info", "1; its label says which release this is", ["version"]);
    build.set([version], 1);
    for (name, help, kind) in SHOWN {
        families.describe_as(name.to_owned(), help, kind, &[]);
    }
    families.collector(OfProcess);
}

#[derive(Debug)]
struct OfProcess;

#[expect(clippy::cast_precision_loss, clippy::as_conversions, reason = "amounts to be looked at")]
fn read() -> ProcResult<[f64; SHOWN.len()]> {
    let process = Process::myself()?;
    let stat = process.stat()?;
    let ticks = ticks_per_second() as f64;
    let most = match process.limits()?.max_open_files.soft_limit {
        LimitValue::Unlimited => f64::INFINITY,
        LimitValue::Value(most) => most as f64,
    };
    Ok([
        stat.utime.saturating_add(stat.stime) as f64 / ticks,
        stat.rss.saturating_mul(page_size()) as f64,
        process.fd_count()? as f64,
        most,
        stat.num_threads as f64,
        boot_time_secs()? as f64 + stat.starttime as f64 / ticks,
    ])
}

impl Collector for OfProcess {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // A system that does not say shows nothing of it.
        let Ok(amounts) = read() else { return Ok(()) };
        for ((name, help, kind), amount) in SHOWN.into_iter().zip(amounts) {
            let bare = name.strip_suffix("_total").unwrap_or(name);
            encode_one(&mut encoder, (bare, help, kind), amount)?;
        }
        Ok(())
    }
}

impl Families {
    /// Shows the process, and the version of the program.
    pub fn process(&mut self, version: &'static str) {
        show(self, version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_shown() {
        let mut families = Families::new("persys_thing");
        families.process("1.2.3");
        let text = families.page().answer(None).text;
        assert!(text.contains("persys_thing_build_info{version=\"1.2.3\"} 1\n"), "{text}");
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("{name}: {text}")).trim().parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes ") > 100_000.0);
        assert!(value("process_open_fds ") >= 3.0);
        assert!(value("process_start_time_seconds ") > 1_600_000_000.0);
        assert!(text.contains("# TYPE process_cpu_seconds_total counter\n"));
    }
}
