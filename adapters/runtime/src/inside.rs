//! Looking into what runs: logs, commands, usage, the end of it, and word that something changed.

use std::collections::BTreeMap;
use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use persys_model::id::WorkloadId;
use persys_model::time::WallMillis;
use tokio::io::AsyncWrite;

use crate::error::Error;

/// Output of a workload.
#[async_trait]
pub trait Logs: Send + Sync {
    /// What it printed, oldest first. With `follow` the stream goes on until the workload ends or
    /// the reader lets go.
    async fn logs(&self, workload: &WorkloadId, range: LogRange) -> Result<Output, Error>;
}

/// Which part of the output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogRange {
    /// Only so many lines of the end; `None` is all that is kept.
    pub tail: Option<u32>,
    /// Only what was printed since.
    pub since: Option<WallMillis>,
    /// Whether to go on with what is printed from now on.
    pub follow: bool,
    /// Only this service of a stack; `None` is all of them, each line with the name of its own. What
    /// is no stack has no services.
    pub service: Option<String>,
}

/// Output as it comes.
pub type Output = BoxStream<'static, Result<Chunk, Error>>;

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Where it was printed.
    pub source: Source,
    /// What was printed; not always a whole line, not always text.
    pub bytes: Bytes,
}

/// Where output was printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Standard output, or a terminal.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Running a command inside a workload.
#[async_trait]
pub trait Exec: Send + Sync {
    /// Starts a command.
    async fn exec(&self, workload: &WorkloadId, command: &ExecCommand) -> Result<Session, Error>;
}

/// A command to run inside.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecCommand {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Whether it gets a terminal.
    pub terminal: bool,
    /// Whether it gets our input.
    pub input: bool,
    /// In which service of a stack; `None` is enough where one runs.
    pub service: Option<String>,
}

/// A command that runs inside.
pub struct Session {
    /// What it prints.
    pub output: Output,
    /// What it reads, if it was asked for.
    pub input: Option<Pin<Box<dyn AsyncWrite + Send>>>,
    /// Everything else about it.
    pub control: Box<dyn SessionControl>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("input", &self.input.is_some()).finish_non_exhaustive()
    }
}

/// What else can be done with a command that runs inside.
#[async_trait]
pub trait SessionControl: Send + Sync {
    /// Tells its terminal a new size.
    async fn resize(&self, rows: u16, columns: u16) -> Result<(), Error>;
    /// Its exit code; `None` while it runs.
    async fn exit_code(&self) -> Result<Option<i32>, Error>;
}

/// The serial console of a workload.
#[async_trait]
pub trait Console: Send + Sync {
    /// Holds the console until the session is let go. One can hold it at a time: another is refused,
    /// or with `force` takes it over and the first one's session ends.
    async fn console(&self, workload: &WorkloadId, force: bool) -> Result<ConsoleSession, Error>;
}

/// A console that is held.
pub struct ConsoleSession {
    /// What is printed on it from now on; ends with the machine, or when another takes it over.
    pub output: Output,
    /// What is typed on it.
    pub input: Pin<Box<dyn AsyncWrite + Send>>,
}

impl std::fmt::Debug for ConsoleSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsoleSession").finish_non_exhaustive()
    }
}

/// What a workload uses.
#[async_trait]
pub trait Usage: Send + Sync {
    /// One reading; `None` if it does not run.
    async fn usage(&self, workload: &WorkloadId) -> Result<Option<Reading>, Error>;

    /// A reading of everything of ours that runs, for little more than that of one.
    async fn usage_of_all(&self) -> Result<BTreeMap<WorkloadId, Reading>, Error>;

    /// Bytes that its containers have written into layers of their own; `None` if nothing of it is
    /// there or it has no layers. Files are counted for it, so it is asked for seldom.
    async fn layer_bytes(&self, _workload: &WorkloadId) -> Result<Option<u64>, Error> {
        Ok(None)
    }
}

/// One reading. Counters only grow while the workload runs; rates are the difference of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// CPU time, counter.
    pub cpu_nanos: u64,
    /// Memory that cannot be taken back without it noticing.
    pub memory_bytes: u64,
    /// The most it may have.
    pub memory_limit_bytes: u64,
    /// Processes and threads.
    pub pids: u64,
    /// Received, counter.
    pub network_in_bytes: u64,
    /// Sent, counter.
    pub network_out_bytes: u64,
    /// Read from disks, counter.
    pub disk_read_bytes: u64,
    /// Written to disks, counter.
    pub disk_written_bytes: u64,
}

impl Reading {
    /// Both together: a workload may be several things.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            cpu_nanos: self.cpu_nanos.saturating_add(other.cpu_nanos),
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
            memory_limit_bytes: self.memory_limit_bytes.saturating_add(other.memory_limit_bytes),
            pids: self.pids.saturating_add(other.pids),
            network_in_bytes: self.network_in_bytes.saturating_add(other.network_in_bytes),
            network_out_bytes: self.network_out_bytes.saturating_add(other.network_out_bytes),
            disk_read_bytes: self.disk_read_bytes.saturating_add(other.disk_read_bytes),
            disk_written_bytes: self.disk_written_bytes.saturating_add(other.disk_written_bytes),
        }
    }
}

/// Why a workload ended.
#[async_trait]
pub trait Evidence: Send + Sync {
    /// What is left of its last end; `None` if nothing of it is there or it has not ended.
    async fn evidence(&self, workload: &WorkloadId) -> Result<Option<End>, Error>;
}

/// What is left of an end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct End {
    /// Which service of a stack ended.
    pub service: Option<String>,
    /// Exit code.
    pub code: i32,
    /// The signal the code stands for, if it does: 137 is 9.
    pub signal: Option<i32>,
    /// Whether it was killed for want of memory.
    pub out_of_memory: bool,
    /// The memory it could have at most, in bytes; `None` where it had no limit.
    pub memory_limit: Option<u64>,
    /// What the runtime itself had to say.
    pub runtime_error: Option<String>,
    /// The last lines it printed, cut to [`End::LINES`] lines of [`End::LINE_BYTES`] bytes.
    pub last_lines: Vec<String>,
}

impl End {
    /// Most lines kept.
    pub const LINES: u32 = 20;
    /// Longest line kept.
    pub const LINE_BYTES: usize = 256;

    /// The signal an exit code stands for. A program may also choose such a code by itself.
    #[must_use]
    pub fn signal_of(code: i32) -> Option<i32> {
        (129..=192).contains(&code).then(|| code - 128)
    }
}

/// Word that something changed. A hint to look again, never the truth itself.
pub trait Wakeups: Send + Sync {
    /// Hints from now on. It goes on for ever and finds the runtime again after an outage, as long
    /// as somebody waits for the next one.
    fn wakeups(&self) -> BoxStream<'static, Wakeup>;
}

/// A hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wakeup {
    /// Look at this workload.
    Workload(WorkloadId),
    /// Look at everything: we began to listen, and may have missed something before.
    Everything,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_codes_of_signals_are_signals() {
        assert_eq!(End::signal_of(137), Some(9));
        assert_eq!(End::signal_of(143), Some(15));
        for code in [0, 1, 126, 127, 128, 255, -1] {
            assert_eq!(End::signal_of(code), None, "{code}");
        }
    }
}
