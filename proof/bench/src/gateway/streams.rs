//! What event streams cost on which nothing happens.

use std::time::{Duration, Instant};

use reqwest::Response;
use tokio::time::{sleep, timeout};

use super::process::Site;
use crate::cpu;
use crate::fleet::Fault;

/// How many streams, and of how many different callers.
const STREAMS: usize = 500;
pub(super) const CALLERS: usize = 25;
/// How long memory comes to rest before it is read.
const REST: Duration = Duration::from_secs(3);
/// How long the streams are watched.
const WATCHED: Duration = Duration::from_secs(5);
/// Longest wait for a stream.
const PATIENCE: Duration = Duration::from_secs(20);

/// The name of one who follows.
pub(super) fn caller(nth: usize) -> String {
    format!("caller-{nth}")
}

/// What they cost.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) count: usize,
    pub(super) before_mib: f64,
    pub(super) after_mib: f64,
    pub(super) cpu_percent: f64,
}

impl Streams {
    pub(super) async fn measure(site: &Site<'_>) -> Result<Self, Fault> {
        let pid = site.gateway.pid();
        let memory = || Ok::<_, Fault>(f64::from(cpu::memory_kib(pid)?) / 1024.0);
        sleep(REST).await;
        let before_mib = memory()?;
        let mut open: Vec<Response> = Vec::new();
        for nth in 0..STREAMS {
            // Connections are not shared while they stream: each stream has one.
            let client = site.client(&caller(nth % CALLERS))?;
            let mut stream =
                client.get(site.url("/v1/events/stream")).send().await?.error_for_status()?;
            let first =
                timeout(PATIENCE, stream.chunk()).await.ok().ok_or("no stream in time")??;
            if !first.is_some_and(|text| text.starts_with(b"event:")) {
                return Err("a stream did not begin".into());
            }
            open.push(stream);
        }
        sleep(REST).await;
        let (spent, begun) = (cpu::process_time(pid)?, Instant::now());
        sleep(WATCHED).await;
        let spent = cpu::process_time(pid)?.saturating_sub(spent);
        let after_mib = memory()?;
        let cpu_percent = 100.0 * spent.as_secs_f64() / begun.elapsed().as_secs_f64();
        Ok(Self { count: open.len(), before_mib, after_mib, cpu_percent })
    }

    pub(super) fn cost_mib(&self) -> f64 {
        self.after_mib - self.before_mib
    }

    pub(super) fn line(&self) -> String {
        format!(
            "{} idle event streams of {CALLERS} callers: {:.1} MiB ({:.1} before, {:.1} after), {:.1} % of a core",
            self.count,
            self.cost_mib(),
            self.before_mib,
            self.after_mib,
            self.cpu_percent
        )
    }
}
