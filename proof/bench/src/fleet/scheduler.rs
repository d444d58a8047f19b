//! The scheduler in a process of its own, and what it costs.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use persys_cluster::settings::Settings;
use persys_etcd_host::Host;
use persys_scheduler::app::{self, Config, Security};
use persys_scheduler::discovery::Discovery;
use persys_scheduler::place::Place;
use persys_scheduler::standing::Standing;
use persys_store::EtcdSettings;
use persys_telemetry::trace::{self, Exporting};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Fault;
use super::load::Sample;
use super::names::{CLUSTER, scheduler_source};
use super::stored::{Records, Stored};
use super::traces;
use crate::cpu;
use crate::own::{self, Own};

const STATE: &str = "state";
/// The variable with the share of traces that are written down.
pub(super) const SHARE: &str = "OTEL_TRACES_SAMPLER_ARG";

/// Serves until standard input ends; says where on standard output.
pub(crate) async fn serve(folder: &Path, etcd: Option<&str>) -> Result<(), Fault> {
    let store = match etcd {
        None => Place::File,
        Some(endpoint) => Place::Etcd(Box::new(EtcdSettings {
            way: persys_etcd::Settings::new(vec![endpoint.parse()?]),
            store: persys_store::Settings::default(),
            quota_bytes: None,
        })),
    };
    let any: SocketAddr = "127.0.0.1:0".parse()?;
    let exporting = match std::env::var(traces::ENDPOINT) {
        Ok(at) => {
            let share = std::env::var(SHARE)?.parse()?;
            Some(traces::export(&at, "persys-scheduler", share)?)
        }
        Err(_) => None,
    };
    let home = exporting.as_ref().map(Exporting::home).unwrap_or_default();
    let starting = app::start(Config {
        grpc: any,
        http: any,
        advertise: app::Advertise::default(),
        state_dir: folder.join(STATE),
        store,
        cluster: CLUSTER.to_owned(),
        security: Security::Mtls(scheduler_source(folder)),
        settings: Settings::default(),
        discovery: Discovery::default(),
        logins: None,
        git: app::GitSettings::default(),
        secrets_key: None,
        vault: None,
    });
    let running = trace::scope(home, starting).await?;
    running.handle.standing().wait_for(Standing::is_normal).await?;
    own::tell(&format_args!("{} {}", running.grpc, running.http))?;
    own::until_closed().await?;
    running.stop().await;
    if let Some(exporting) = exporting {
        exporting.flush(Duration::from_secs(5)).await;
    }
    Ok(())
}

/// The scheduler's process, seen from outside. Dropping it ends it.
pub(crate) struct Process {
    pub(crate) grpc: SocketAddr,
    http: SocketAddr,
    records: Records,
    etcd_pid: Option<u32>,
    own: Own,
}

impl Process {
    /// `spans` says where spans go, and which share of traces is written down.
    pub(crate) async fn start(
        folder: &Path,
        etcd: Option<&Host>,
        spans: Option<(&str, f64)>,
    ) -> Result<Self, Fault> {
        let spans = spans
            .map(|(at, share)| [(traces::ENDPOINT, at.to_owned()), (SHARE, share.to_string())]);
        let mut again = own::again()?;
        again
            .env_remove(traces::ENDPOINT)
            .envs(spans.into_iter().flatten())
            .args(["scheduler".as_ref(), folder.as_os_str()])
            .args(etcd.into_iter().flat_map(Host::endpoints));
        let mut own = Own::start("the scheduler", &mut again)?;
        let line = own.told().await?;
        let (grpc, http) = line.split_once(' ').ok_or("the scheduler does not start")?;
        let records = match etcd {
            Some(etcd) => Records::Etcd(etcd.client()),
            None => Records::File(folder.join(STATE).join("store.redb")),
        };
        let etcd_pid = etcd.and_then(|etcd| etcd.pid(0));
        Ok(Self { grpc: grpc.parse()?, http: http.parse()?, records, etcd_pid, own })
    }

    /// The process.
    pub(crate) fn pid(&self) -> u32 {
        self.own.pid()
    }

    /// What both processes have used and what was written by now.
    pub(crate) async fn sample(&self) -> Result<Sample, Fault> {
        let metrics = self.metrics().await?;
        let count = |name: &str| {
            let line = metrics.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim().parse::<u64>().ok()).ok_or("a metric is missing")
        };
        Ok(Sample {
            at: std::time::Instant::now(),
            scheduler: cpu::process_time(self.pid())?,
            others: cpu::process_time(std::process::id())?,
            etcd: self.etcd_pid.map(cpu::process_time).transpose()?.unwrap_or_default(),
            machine: cpu::machine_time()?,
            transactions: count("persys_scheduler_store_transactions_total ")?,
            records: count("persys_scheduler_store_records_written_total ")?,
            events: count("persys_scheduler_store_events_written_total ")?,
            touched: self.records.mark().await?,
            memory_kib: cpu::memory_kib(self.pid())?,
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
    pub(crate) async fn stop(self) -> Result<Stored, Fault> {
        self.own.end().await?;
        self.records.count().await
    }
}
