//! The scheduler in a process of its own, and what it costs.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use persys_cluster::settings::Settings;
use persys_scheduler::app::{self, Config, Security};
use persys_scheduler::discovery::Discovery;
use persys_scheduler::standing::Standing;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::Fault;
use super::load::Sample;
use super::names::{CLUSTER, scheduler_source};
use crate::cpu;

const STATE: &str = "state";
type Table = TableDefinition<'static, &'static str, &'static [u8]>;

/// Serves until standard input ends; says where on standard output.
pub(super) async fn serve(folder: &Path) -> Result<(), Fault> {
    let any: SocketAddr = "127.0.0.1:0".parse()?;
    let running = app::start(Config {
        grpc: any,
        http: any,
        advertise: app::Advertise::default(),
        state_dir: folder.join(STATE),
        store: persys_scheduler::place::Place::File,
        cluster: CLUSTER.to_owned(),
        security: Security::Mtls(scheduler_source(folder)),
        settings: Settings::default(),
        discovery: Discovery::default(),
    })
    .await?;
    running.handle.standing().wait_for(Standing::is_normal).await?;
    let mut out = std::io::stdout();
    writeln!(out, "{} {}", running.grpc, running.http)?;
    out.flush()?;
    let until_end = || std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    tokio::task::spawn_blocking(until_end).await??;
    running.stop().await;
    Ok(())
}

/// The scheduler's process, seen from outside. Dropping it ends it.
pub(super) struct Process {
    pub(super) grpc: SocketAddr,
    http: SocketAddr,
    store: PathBuf,
    pid: u32,
    child: Child,
}

/// What is in the store at the end.
#[derive(Debug, Default)]
pub(super) struct Stored {
    /// Records and their bytes, by the first word of their key.
    pub(super) records: BTreeMap<String, (u64, u64)>,
    /// Size of the file.
    pub(super) file_bytes: u64,
}

impl Process {
    pub(super) async fn start(folder: &Path) -> Result<Self, Fault> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["scheduler".as_ref(), folder.as_os_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id().ok_or("the scheduler ended at once")?;
        let out = child.stdout.take().ok_or("the scheduler has no output")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).await?;
        let (grpc, http) = line.trim().split_once(' ').ok_or("the scheduler does not start")?;
        let store = folder.join(STATE).join("store.redb");
        Ok(Self { grpc: grpc.parse()?, http: http.parse()?, store, pid, child })
    }

    /// What both processes have used and what was written by now.
    pub(super) async fn sample(&self) -> Result<Sample, Fault> {
        let metrics = self.metrics().await?;
        let count = |name: &str| {
            let line = metrics.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim().parse::<u64>().ok()).ok_or("a metric is missing")
        };
        Ok(Sample {
            at: std::time::Instant::now(),
            scheduler: cpu::process_time(self.pid)?,
            others: cpu::process_time(std::process::id())?,
            machine: cpu::machine_time()?,
            transactions: count("persys_scheduler_store_transactions_total ")?,
            records: count("persys_scheduler_store_records_written_total ")?,
            events: count("persys_scheduler_store_events_written_total ")?,
            touched: std::fs::metadata(&self.store)?.modified()?,
            memory_kib: cpu::memory_kib(self.pid)?,
        })
    }

    async fn metrics(&self) -> Result<String, Fault> {
        let mut stream = TcpStream::connect(self.http).await?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    }

    /// Ends it and looks at what it left.
    pub(super) async fn stop(mut self) -> Result<Stored, Fault> {
        drop(self.child.stdin.take());
        let status = self.child.wait().await?;
        if !status.success() {
            return Err(format!("the scheduler ended badly: {status}").into());
        }
        let mut stored =
            Stored { file_bytes: std::fs::metadata(&self.store)?.len(), ..Stored::default() };
        let database = Database::open(&self.store)?;
        let reading = database.begin_read()?;
        for name in ["records", "events"] {
            let table = reading.open_table(Table::new(name))?;
            for entry in table.iter()? {
                let (key, value) = entry?;
                let key = key.value();
                let word = key.trim_start_matches('/').split('/').next().unwrap_or_default();
                let (count, bytes) = stored.records.entry(word.to_owned()).or_default();
                *count += 1;
                *bytes += u64::try_from(key.len() + value.value().len())?;
            }
        }
        Ok(stored)
    }
}
