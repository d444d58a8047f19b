//! One side of the comparison: a scheduler with its fleet and its clients, in processes that do
//! nothing else, so that what they use is what the work of this side costs, whenever it is done.

use std::time::Duration;

use persys_telemetry::trace::{self, Exporting};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{ENDPOINT, export};
use crate::cpu;
use crate::fleet::agents::Fleet;
use crate::fleet::load::Clients;
use crate::fleet::names::Names;
use crate::fleet::scheduler::{Process, SHARE};
use crate::fleet::{Fault, Options};
use crate::own::{self, Own};

/// How long the last spans may take to be sent.
const FAREWELL: Duration = Duration::from_secs(5);

/// Runs as a side: says which process is its scheduler, then carries out so many workloads for each
/// line of standard input, and says so.
pub(in crate::fleet) async fn serve(options: &Options) -> Result<(), Fault> {
    let folder = tempfile::tempdir()?;
    let names = Names::create(folder.path())?;
    let to = std::env::var(ENDPOINT).ok();
    let spans = to.as_deref().map(|at| (at, options.share));
    let process = Process::start(folder.path(), None, spans).await?;
    let exporting = spans.map(|(at, share)| export(at, "persys-agent", share)).transpose()?;
    let home = exporting.as_ref().map(Exporting::home).unwrap_or_default();
    let starting = Fleet::start(options.agents, options.workloads, &names, process.grpc);
    let _fleet = trace::scope(home, starting).await?;
    let mut clients = Clients::connect(&names, process.grpc).await?;
    clients.nodes_ready(options.agents).await?;
    let mut watch = clients.watch(options.workloads).await?;
    own::tell(&process.pid())?;
    let mut turns = BufReader::new(tokio::io::stdin()).lines();
    let mut next = 0;
    while let Some(count) = turns.next_line().await? {
        let which = next..next + count.parse::<usize>()?;
        next = which.end;
        clients.burst(which, options.concurrency).await?;
        watch.wait(next).await?;
        own::tell(&next)?;
    }
    process.stop().await?;
    if let Some(exporting) = exporting {
        exporting.flush(FAREWELL).await;
    }
    Ok(())
}

/// CPU time of one side, by process.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Used {
    pub(super) scheduler: Duration,
    /// Agents and clients.
    pub(super) others: Duration,
}

impl Used {
    fn since(self, before: Self) -> Self {
        let scheduler = self.scheduler.saturating_sub(before.scheduler);
        Self { scheduler, others: self.others.saturating_sub(before.others) }
    }
}

/// What one side used in one round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    /// While it had its turn.
    pub(super) turn: Used,
    /// From the end of the round before to the end of this one: what is done later, such as sending
    /// spans, and what agents do that have nothing to do, is in it too.
    pub(super) whole: Used,
}

/// The process of one side, seen from outside. Dropping it ends it.
pub(super) struct Side {
    own: Own,
    scheduler: u32,
    /// What was used by the end of the last round, and during the last turn.
    before: Used,
    turn: Used,
    rounds: Vec<Round>,
    /// Workloads so far.
    wanted: usize,
}

impl Side {
    /// Traces go to `to`, if anywhere.
    pub(super) async fn start(options: &Options, to: Option<&str>) -> Result<Self, Fault> {
        let mut again = own::again()?;
        again
            .env_remove(ENDPOINT)
            .env_remove(SHARE)
            .envs(to.map(|at| (ENDPOINT, at)))
            .arg("side")
            .args(["--agents".to_owned(), options.agents.to_string()])
            .args(["--workloads".to_owned(), options.workloads.to_string()])
            .args(["--concurrency".to_owned(), options.concurrency.to_string()])
            .args(["--share".to_owned(), options.share.to_string()]);
        let mut own = Own::start("a side", &mut again)?;
        let scheduler = own.told().await?.parse()?;
        let (before, turn, rounds) = (Used::default(), Used::default(), Vec::new());
        Ok(Self { own, scheduler, before, turn, rounds, wanted: 0 })
    }

    /// Has so many more workloads submitted, and waits until they run.
    pub(super) async fn turn(&mut self, count: usize) -> Result<(), Fault> {
        let before = self.used()?;
        self.wanted += count;
        self.own.tell(&count).await?;
        let told = self.own.told().await?;
        if told != self.wanted.to_string() {
            return Err(format!("a side says {told:?} where {} run", self.wanted).into());
        }
        self.turn = self.used()?.since(before);
        Ok(())
    }

    /// A round is over.
    pub(super) fn look(&mut self) -> Result<(), Fault> {
        let now = self.used()?;
        self.rounds.push(Round { turn: self.turn, whole: now.since(self.before) });
        self.before = now;
        Ok(())
    }

    /// It ends in good order: its folder goes, and its spans arrive.
    pub(super) async fn finish(self) -> Result<Vec<Round>, Fault> {
        self.own.end().await?;
        Ok(self.rounds)
    }

    fn used(&self) -> Result<Used, Fault> {
        let scheduler = cpu::process_time(self.scheduler)?;
        Ok(Used { scheduler, others: cpu::process_time(self.own.pid())? })
    }
}
