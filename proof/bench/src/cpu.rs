//! The clock that counts only while this thread runs.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time of this thread, to the nanosecond.
pub fn thread_time() -> Duration {
    // The kernel's answer is never negative, so it converts.
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}
