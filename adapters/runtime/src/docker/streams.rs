//! Looking into a container: logs, commands, usage, and what is left of its end.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use bollard::container::LogOutput;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use bollard::models::{
    ContainerBlkioStats, ContainerInspectResponse, ContainerMemoryStats, ContainerStatsResponse,
};
use bollard::query_parameters::{
    LogsOptions, LogsOptionsBuilder, ResizeExecOptionsBuilder, StatsOptionsBuilder,
};
use futures::{Stream, StreamExt, stream};
use persys_model::failure::clip;
use persys_model::id::WorkloadId;
use persys_node::input::Existing;
use tokio::time::{Instant, timeout};

use crate::error::Error;
use crate::inside::{
    Chunk, End, Evidence, Exec, ExecCommand, LogRange, Logs, Output, Reading, Session,
    SessionControl, Source, Usage,
};

use super::Docker;
use super::call::{self, Reply};
use super::cgroup::Kernel;
use super::observe::{Ours, exit_code};

/// How often the end of a command is looked for once its output has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

impl Docker {
    async fn present(&self, workload: &WorkloadId) -> Result<Ours, Error> {
        let ours = self.ours(workload).await?;
        ours.ok_or_else(|| Error::Absent { workload: workload.clone() })
    }

    pub(crate) async fn last_lines(&self, id: &str) -> Vec<String> {
        let Ok(client) = self.client() else { return Vec::new() };
        let range = LogRange { tail: Some(End::LINES), ..LogRange::default() };
        let mut output = chunks(client.logs(id, Some(log_options(&range))));
        let mut lines = Vec::new();
        let reading = async {
            while let Some(Ok(chunk)) = output.next().await {
                let text = String::from_utf8_lossy(&chunk.bytes);
                lines.push(clip(text.trim_end(), End::LINE_BYTES).to_owned());
            }
        };
        // Lines are a help for people; what came in time is what there is.
        let _late = timeout(self.settings.deadlines.ask, reading).await;
        let surplus = lines.len().saturating_sub(usize::try_from(End::LINES).unwrap_or(usize::MAX));
        lines.split_off(surplus)
    }
}

fn log_options(range: &LogRange) -> LogsOptions {
    let since = range.since.map_or(0, |since| i32::try_from(since.0 / 1000).unwrap_or(i32::MAX));
    let tail = range.tail.map_or_else(|| "all".to_owned(), |lines| lines.to_string());
    let options = LogsOptionsBuilder::default().stdout(true).stderr(true);
    options.follow(range.follow).since(since).tail(&tail).build()
}

fn chunks(
    output: impl Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send + 'static,
) -> Output {
    output
        .map(|piece| match piece {
            Ok(LogOutput::StdErr { message }) => {
                Ok(Chunk { source: Source::Stderr, bytes: message })
            }
            Ok(
                LogOutput::StdOut { message }
                | LogOutput::StdIn { message }
                | LogOutput::Console { message },
            ) => Ok(Chunk { source: Source::Stdout, bytes: message }),
            Err(error) => Err(match call::read("output", Duration::ZERO, error) {
                Ok(no) => Error::Refused { verb: "output", detail: no.message },
                Err(unknown) => unknown,
            }),
        })
        .boxed()
}

#[async_trait]
impl Logs for Docker {
    async fn logs(&self, workload: &WorkloadId, range: LogRange) -> Result<Output, Error> {
        let ours = self.present(workload).await?;
        no_service(range.service.as_deref())?;
        self.output_of(&ours.id, &range)
    }
}

/// A container is no stack.
fn no_service(service: Option<&str>) -> Result<(), Error> {
    match service {
        None => Ok(()),
        Some(service) => {
            let detail = format!("it is no stack and has no service {service:?}");
            Err(Error::Refused { verb: "look", detail })
        }
    }
}

/// Ends an output with an error when nothing comes for so long.
fn bounded(output: Output, idle: Duration) -> Output {
    let pieces = stream::unfold(Some(output), move |output| async move {
        let mut output = output?;
        match timeout(idle, output.next()).await {
            Ok(piece) => piece.map(|piece| (piece, Some(output))),
            Err(_) => Some((Err(call::no_answer("output", idle)), None)),
        }
    });
    pieces.boxed()
}

#[async_trait]
impl Exec for Docker {
    async fn exec(&self, workload: &WorkloadId, command: &ExecCommand) -> Result<Session, Error> {
        let ours = self.present(workload).await?;
        no_service(command.service.as_deref())?;
        self.run_in(&ours.id, command).await
    }
}

impl Docker {
    /// What a container printed.
    pub(crate) fn output_of(&self, id: &str, range: &LogRange) -> Result<Output, Error> {
        let output = chunks(self.client()?.logs(id, Some(log_options(range))));
        // What is printed from now on may take its time; what is kept may not.
        Ok(if range.follow { output } else { bounded(output, self.settings.deadlines.ask) })
    }

    /// Runs a command in a container.
    pub(crate) async fn run_in(&self, id: &str, command: &ExecCommand) -> Result<Session, Error> {
        let client = self.client()?;
        let limit = self.settings.deadlines.ask;
        let options = CreateExecOptions {
            attach_stdin: Some(command.input),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            tty: Some(command.terminal),
            cmd: Some(command.argv.clone()),
            ..CreateExecOptions::default()
        };
        let refused = |no: call::No| Error::Refused { verb: "exec", detail: no.message };
        let id = match call::ask("exec", limit, client.create_exec(id, options)).await? {
            Reply::Yes(made) => made.id,
            Reply::No(no) => return Err(refused(no)),
        };
        let options = StartExecOptions { tty: command.terminal, ..StartExecOptions::default() };
        match call::ask("exec", limit, client.start_exec(&id, Some(options))).await? {
            Reply::Yes(StartExecResults::Attached { output, input }) => Ok(Session {
                output: chunks(output),
                input: command.input.then_some(input),
                control: Box::new(Control { client, id, limit }),
            }),
            Reply::Yes(StartExecResults::Detached) => {
                let detail = "the command was started without its output".to_owned();
                Err(Error::Refused { verb: "exec", detail })
            }
            Reply::No(no) => Err(refused(no)),
        }
    }
}

/// A command that runs inside a container.
struct Control {
    client: bollard::Docker,
    id: String,
    limit: Duration,
}

#[async_trait]
impl SessionControl for Control {
    async fn resize(&self, rows: u16, columns: u16) -> Result<(), Error> {
        let options = ResizeExecOptionsBuilder::default().h(rows.into()).w(columns.into()).build();
        match call::ask("resize", self.limit, self.client.resize_exec(&self.id, options)).await? {
            Reply::Yes(()) => Ok(()),
            Reply::No(no) => Err(Error::Refused { verb: "resize", detail: no.message }),
        }
    }

    async fn exit_code(&self) -> Result<Option<i32>, Error> {
        // Docker closes the output a moment before it knows the code.
        let patience = Instant::now() + Duration::from_secs(1).min(self.limit);
        loop {
            let call = self.client.inspect_exec(&self.id);
            let state = match call::ask("exec", self.limit, call).await? {
                Reply::Yes(state) => state,
                Reply::No(no) => return Err(Error::Refused { verb: "exec", detail: no.message }),
            };
            if state.running == Some(false) {
                return Ok(state.exit_code.and_then(|code| i32::try_from(code).ok()));
            }
            if Instant::now() >= patience {
                return Ok(None);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

#[async_trait]
impl Usage for Docker {
    async fn usage(&self, workload: &WorkloadId) -> Result<Option<Reading>, Error> {
        let Some(ours) = self.ours(workload).await? else { return Ok(None) };
        if !ours.seen.state.is_alive() {
            return Ok(None);
        }
        self.reading_of(&ours.id).await
    }

    async fn layer_bytes(&self, workload: &WorkloadId) -> Result<Option<u64>, Error> {
        self.layer_of_workload(workload).await
    }

    async fn usage_of_all(&self) -> Result<BTreeMap<WorkloadId, Reading>, Error> {
        let running = self.running().await?;
        let readings = running.iter().map(|(_, id)| self.reading_of(id));
        let readings = futures::future::join_all(readings).await;
        let mut all = BTreeMap::new();
        for ((workload, _), reading) in running.into_iter().zip(readings) {
            // One that ended meanwhile uses nothing.
            all.extend(reading.ok().flatten().map(|reading| (workload, reading)));
        }
        Ok(all)
    }
}

impl Docker {
    /// What a container that runs uses: from the kernel where it is at hand, else from Docker.
    pub(crate) async fn reading_of(&self, id: &str) -> Result<Option<Reading>, Error> {
        // The kernel of this host knows nothing of a daemon elsewhere.
        if self.settings.host.starts_with("unix://") {
            let (kernel, id) = (Kernel::default(), id.to_owned());
            let read = tokio::task::spawn_blocking(move || kernel.reading(&id)).await;
            if let Ok(Some(reading)) = read {
                return Ok(Some(reading));
            }
        }
        self.asked_reading_of(id).await
    }

    async fn asked_reading_of(&self, id: &str) -> Result<Option<Reading>, Error> {
        let options = StatsOptionsBuilder::default().stream(false).one_shot(true).build();
        let client = self.client()?;
        let mut answers = client.stats(id, Some(options));
        let limit = self.settings.deadlines.ask;
        match timeout(limit, answers.next()).await {
            Err(_) => Err(call::no_answer("usage", limit)),
            Ok(None) => Ok(None),
            Ok(Some(Ok(stats))) => Ok(Some(reading(&stats))),
            Ok(Some(Err(error))) => {
                let no = call::read("usage", limit, error)?;
                Err(Error::Refused { verb: "usage", detail: no.message })
            }
        }
    }
}

fn reading(stats: &ContainerStatsResponse) -> Reading {
    let memory = stats.memory_stats.clone().unwrap_or_default();
    let cpu = stats.cpu_stats.as_ref().and_then(|cpu| cpu.cpu_usage.as_ref()?.total_usage);
    let mut reading = Reading {
        cpu_nanos: cpu.unwrap_or_default(),
        memory_bytes: working_set(&memory),
        memory_limit_bytes: memory.limit.unwrap_or_default(),
        pids: stats.pids_stats.as_ref().and_then(|pids| pids.current).unwrap_or_default(),
        ..Reading::default()
    };
    for network in stats.networks.iter().flat_map(|networks| networks.values()) {
        let (received, sent) = (network.rx_bytes, network.tx_bytes);
        reading.network_in_bytes =
            reading.network_in_bytes.saturating_add(received.unwrap_or_default());
        reading.network_out_bytes =
            reading.network_out_bytes.saturating_add(sent.unwrap_or_default());
    }
    let disks = stats.blkio_stats.clone().unwrap_or_default();
    reading.disk_read_bytes = moved(&disks, "read");
    reading.disk_written_bytes = moved(&disks, "write");
    reading
}

/// Memory less the file pages nobody would miss. Both generations of cgroups count them under names
/// of their own.
fn working_set(memory: &ContainerMemoryStats) -> u64 {
    let detail = |name: &str| memory.stats.as_ref().and_then(|stats| stats.get(name).copied());
    let idle = detail("total_inactive_file").or_else(|| detail("inactive_file"));
    memory.usage.unwrap_or_default().saturating_sub(idle.unwrap_or_default())
}

/// Bytes moved to or from disks; cgroup v1 writes `Read`, v2 writes `read`.
fn moved(disks: &ContainerBlkioStats, way: &str) -> u64 {
    let entries = disks.io_service_bytes_recursive.iter().flatten();
    entries
        .filter(|entry| entry.op.as_deref().is_some_and(|op| op.eq_ignore_ascii_case(way)))
        .fold(0, |sum, entry| sum.saturating_add(entry.value.unwrap_or_default()))
}

#[async_trait]
impl Evidence for Docker {
    async fn evidence(&self, workload: &WorkloadId) -> Result<Option<End>, Error> {
        let Some(ours) = self.ours(workload).await? else { return Ok(None) };
        match ours.seen.state {
            Existing::Exited { .. } => {}
            Existing::Created
            | Existing::Running
            | Existing::Paused { .. }
            | Existing::Stuck { .. } => return Ok(None),
        }
        Ok(Some(self.end_of(&ours.id, ours.raw).await))
    }
}

impl Docker {
    /// What is left of the end of a container.
    pub(crate) async fn end_of(&self, id: &str, raw: ContainerInspectResponse) -> End {
        let state = raw.state.unwrap_or_default();
        let limit = raw.host_config.and_then(|host| host.memory);
        let code = exit_code(&state);
        End {
            service: None,
            code,
            signal: End::signal_of(code),
            out_of_memory: state.oom_killed.unwrap_or_default(),
            memory_limit: limit.and_then(|bytes| u64::try_from(bytes).ok()).filter(|b| *b > 0),
            runtime_error: state.error.filter(|error| !error.is_empty()),
            last_lines: self.last_lines(id).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use bollard::models::ContainerBlkioStatEntry;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_output_that_stalls_ends_with_an_error() {
        let piece = Chunk { source: Source::Stdout, bytes: "a".into() };
        let stalls = stream::iter([Ok(piece.clone())]).chain(stream::pending()).boxed();
        let all: Vec<_> = bounded(stalls, Duration::from_secs(1)).collect().await;
        let silence = Error::NoAnswer { verb: "output", within_ms: 1000 };
        assert_eq!(all, [Ok(piece), Err(silence)]);
    }

    #[test]
    fn both_generations_of_cgroups_are_read() {
        for name in ["total_inactive_file", "inactive_file"] {
            let memory = ContainerMemoryStats {
                usage: Some(100),
                stats: Some(HashMap::from([(name.to_owned(), 30)])),
                ..ContainerMemoryStats::default()
            };
            assert_eq!(working_set(&memory), 70, "{name}");
        }
        for op in ["Read", "read"] {
            let entry = ContainerBlkioStatEntry {
                op: Some(op.to_owned()),
                value: Some(5),
                ..ContainerBlkioStatEntry::default()
            };
            let disks = ContainerBlkioStats {
                io_service_bytes_recursive: Some(vec![entry.clone(), entry]),
                ..ContainerBlkioStats::default()
            };
            assert_eq!((moved(&disks, "read"), moved(&disks, "write")), (10, 0), "{op}");
        }
        assert_eq!(reading(&ContainerStatsResponse::default()), Reading::default());
    }
}
