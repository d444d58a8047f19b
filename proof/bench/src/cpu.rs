//! Time spent computing, by this thread, by a process, by the machine.

use std::fs;
use std::io;
use std::time::Duration;

use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;
use rustix::time::{ClockId, clock_gettime};

/// The kernel counts the time of the machine in these steps.
const TICK: Duration = Duration::from_millis(10);

/// CPU time of this thread, to the nanosecond.
pub fn thread_time() -> Duration {
    // The kernel's answer is never negative, so it converts.
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

/// CPU time of a process, all its threads together, to the nanosecond.
pub fn process_time(pid: u32) -> io::Result<Duration> {
    let pid = Pid::from_raw(i32::try_from(pid).map_err(io::Error::other)?);
    Ok(clock_getcpuclockid(pid)?.now()?.into())
}

/// CPU time that anybody on the machine has used.
pub fn machine_time() -> io::Result<Duration> {
    let text = fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().unwrap_or_default();
    let fields: Vec<u32> = line.split_ascii_whitespace().skip(1).map(number).collect();
    // user, nice, system, idle, iowait, irq, softirq: all but the two in the middle.
    let busy = fields.iter().enumerate().filter(|(at, _)| *at < 7 && !matches!(at, 3 | 4));
    Ok(TICK * busy.map(|(_, ticks)| *ticks).sum::<u32>())
}

/// Resident memory of a process.
pub fn memory_kib(pid: u32) -> io::Result<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    Ok(line.and_then(|rest| rest.split_ascii_whitespace().next()).map_or(0, number))
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or_default()
}
