//! One cluster is read while another answers, and while it stands still.

use std::time::{Duration, Instant};

use reqwest::Client;
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::Options;
use super::process::Site;
use super::reads::{Kind, USER};
use super::report::{at, median};
use crate::fleet::Fault;

/// Questions a second to the cluster that is measured, and to the other one.
const ASKED: u32 = 400;
const OTHER_ASKED: u32 = 20;
/// Clients of the one that is measured.
const CLIENTS: usize = 16;
/// Longest wait until the other answers again.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest wait for any answer: well beyond how long the gateway waits for a scheduler. Who waits longer
/// would wait for ever.
const HANGS: Duration = Duration::from_secs(30);

/// p99 of each round, in milliseconds.
#[derive(Debug)]
pub(super) struct Frozen {
    pub(super) before: Vec<f64>,
    pub(super) meanwhile: Vec<f64>,
    /// Answers that were refusals or none at all, of the cluster that was well.
    pub(super) failed: usize,
}

impl Frozen {
    pub(super) async fn measure(
        site: &Site<'_>,
        other: u32,
        options: &Options,
    ) -> Result<Self, Fault> {
        let other = Pid::from_raw(i32::try_from(other)?).ok_or("no process")?;
        let clients: Vec<_> =
            std::iter::repeat_with(|| site.client(USER)).take(CLIENTS).collect::<Result<_, _>>()?;
        let beside = site.client(USER)?;
        let mut found = Self { before: Vec::new(), meanwhile: Vec::new(), failed: 0 };
        for _ in 0..options.rounds {
            until_well(site, &beside).await?;
            let (p99, failed) = paced(site, &clients, &beside, options.turn).await?;
            found.before.push(p99);
            found.failed += failed;
            kill_process(other, Signal::STOP)?;
            let paced = paced(site, &clients, &beside, options.turn).await;
            kill_process(other, Signal::CONT)?;
            let (p99, failed) = paced?;
            found.meanwhile.push(p99);
            found.failed += failed;
        }
        Ok(found)
    }

    pub(super) fn ratio(&self) -> f64 {
        median(&self.meanwhile) / median(&self.before)
    }

    pub(super) fn line(&self) -> String {
        format!(
            "one cluster stands still: p99 of the other {:.2} ms, before {:.2} ms, ratio {:.2}; {} failed",
            median(&self.meanwhile),
            median(&self.before),
            self.ratio(),
            self.failed
        )
    }
}

async fn until_well(site: &Site<'_>, client: &Client) -> Result<(), Fault> {
    let deadline = Instant::now() + PATIENCE;
    let url = site.url("/v1/clusters/west/standing");
    loop {
        let asked = client.get(&url).timeout(HANGS).send().await;
        if asked.is_ok_and(|answer| answer.status().is_success()) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err("the other cluster does not answer again".into());
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Asks at a steady rate, whether or not earlier questions are answered; both clusters.
async fn paced(
    site: &Site<'_>,
    clients: &[Client],
    beside: &Client,
    length: Duration,
) -> Result<(f64, usize), Fault> {
    let others = async {
        let mut tasks = JoinSet::new();
        let mut every = interval(Duration::from_secs(1) / OTHER_ASKED);
        loop {
            every.tick().await;
            // Whether there is an answer is not the question here.
            tasks.spawn(beside.get(site.url("/v1/clusters/west/standing")).send());
            while tasks.try_join_next().is_some() {}
        }
    };
    let measured = async {
        let mut tasks = JoinSet::new();
        let mut every = interval(Duration::from_secs(1) / ASKED);
        every.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let begun = Instant::now();
        for (nth, client) in clients.iter().cycle().enumerate() {
            if begun.elapsed() > length {
                break;
            }
            // What waited for its turn waited for the system.
            let due = every.tick().await.into_std();
            let path = Kind::Get.path(nth);
            let request = client.get(site.url(&path));
            tasks.spawn(async move {
                let answered = async {
                    let answer = request.send().await.ok()?;
                    let well = answer.status().is_success();
                    answer.bytes().await.ok().filter(|_| well)?;
                    Some(due.elapsed())
                };
                let hangs =
                    |_| Fault::from(format!("{path}: no answer within {HANGS:?}: it hangs"));
                timeout(HANGS, answered).await.map_err(hangs)
            });
        }
        let (mut took, mut failed) = (Vec::new(), 0);
        while let Some(one) = tasks.join_next().await {
            match one?? {
                Some(time) => took.push(time),
                None => failed += 1,
            }
        }
        took.sort_unstable();
        Ok::<_, Fault>((at(&took, 99), failed))
    };
    tokio::select! {
        measured = measured => measured,
        () = others => Err("the others ended".into()),
    }
}
