//! What the kernel says about a process.

use std::fs;
use std::io::{self, Error};
use std::time::Duration;

/// Clock ticks of `/proc/<pid>/stat` in a second, on every Linux there is.
const TICKS: u64 = 100;

/// CPU time of all threads it ever had.
pub(super) fn cpu(process: u32) -> io::Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name may hold anything but ends at the last bracket; the times are 12 words after it.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let times =
        rest.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok());
    Ok(Duration::from_millis(times.sum::<u64>() * 1000 / TICKS))
}

/// Its share of memory, in millions of bytes.
pub(super) fn pss_mb(process: u32) -> io::Result<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
    let kib = number_after(&text, "Pss:")?;
    Ok(super::real(kib * 1024) / 1e6)
}

/// Bytes it had written to disk. Sockets and pipes do not count.
pub(super) fn written(process: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/io"))?;
    number_after(&text, "write_bytes:")
}

fn number_after(text: &str, name: &str) -> io::Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|line| line.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).ok_or_else(|| Error::other(format!("no {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_can_be_read() {
        let id = std::process::id();
        assert!(pss_mb(id).is_ok_and(|pss| pss > 0.1));
        assert!(written(id).is_ok() && cpu(id).is_ok());
        assert!(cpu(u32::MAX).is_err());
    }

    #[test]
    fn a_missing_number_is_an_error() {
        assert!(number_after("Rss: 1 kB\n", "Pss:").is_err());
        assert!(number_after("Rss: 1 kB\nPss: 17 kB\n", "Pss:").is_ok_and(|found| found == 17));
    }
}
