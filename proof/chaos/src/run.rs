//! One run: rounds of faults under load, each followed by a rest in which everything is judged.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::Fault;
use crate::check::{Seen, room, settled, witnesses};
use crate::cluster::{Cluster, Size};
use crate::decoys::Decoys;
use crate::faults::{self, Kind, Mend};
use crate::history::{History, Wanted};
use crate::leftovers;
use crate::load::{Load, Slots};
use crate::look;
use crate::options::{Options, Store};
use crate::plant;
use crate::report::Report;
use crate::rng::Rng;
use crate::witness;

/// Longest time until a cluster at rest is as it should be: exclusive work waits for its fence, failed
/// starts for their next attempt.
const CONVERGE: Duration = Duration::from_mins(3);
/// It has to stay so for this long.
const STAYS: Duration = Duration::from_secs(1);
/// Longest time until nothing is left of what was deleted.
const LEFT: Duration = Duration::from_secs(20);
/// How often the log says what a converging cluster still lacks.
const TOLD_EVERY: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(300);
/// Faults of one round.
const FAULTS: u64 = 9;
/// Most faults at a time.
const AT_A_TIME: usize = 2;

/// Tells people how it goes.
pub type Tell<'a> = &'a (dyn Fn(&str) + Sync);

struct Run<'a> {
    options: &'a Options,
    tell: Tell<'a>,
    cluster: Cluster,
    load: Load,
    decoys: Decoys,
    rng: Rng,
    report: Report,
    log: File,
    folder: PathBuf,
    deadline: Instant,
    kills: u64,
}

/// Starts a cluster, harms it, judges it.
pub async fn run(options: &Options, tell: Tell<'_>) -> Result<Report, Fault> {
    let store = match options.store {
        Store::Etcd => "etcd",
        Store::Embedded => "embedded",
    };
    let folder = options.folder.join(format!("{store}-{}", options.seed));
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let on_etcd = if options.store == Store::Etcd { 3 } else { 0 };
    let size = Size { on_etcd, simulated: if options.brief { 2 } else { 4 }, docker: 2 };
    let begun = Instant::now();
    let cluster = Cluster::start(&options.program, size, &folder).await?;
    let mut rng = Rng::new(options.seed);
    let history = History::create(&folder.join("requests.jsonl"))?;
    let slots = if options.brief {
        Slots { simulated: 6, docker: 2 }
    } else {
        Slots { simulated: 16, docker: 4 }
    };
    let path = cluster.witness.path().display().to_string();
    let ways = (&cluster.names, &*cluster.doors(), &*path);
    let load = Load::start(ways, slots, history, rng.fork())?;
    let mut run = Run {
        decoys: Decoys::make(&cluster.dockers)?,
        options,
        tell,
        cluster,
        load,
        rng,
        report: Report {
            seed: options.seed,
            folder: folder.display().to_string(),
            ..Report::default()
        },
        log: File::create(folder.join("faults.log"))?,
        folder,
        deadline: Instant::now() + options.length,
        kills: 0,
    };
    run.until_ready().await?;
    run.load.fill().await?;
    let good = run.converge("at the beginning").await?;
    (run.tell)(&format!(
        "{store}, seed {}: ready after {:.1} s",
        options.seed,
        begun.elapsed().as_secs_f64()
    ));
    run.deadline = Instant::now() + options.length;
    if good {
        run.rounds().await?;
    }
    run.end().await?;
    Ok(run.report)
}

impl Run<'_> {
    fn note(&mut self, line: &str) -> Result<(), Fault> {
        let at = witness::seconds_since_boot()?;
        writeln!(self.log, "{at:.2} {line}")?;
        Ok(())
    }

    /// Somebody leads and all nodes are there.
    async fn until_ready(&mut self) -> Result<(), Fault> {
        let deadline = Instant::now() + CONVERGE;
        loop {
            if let Some(nth) = look::leader(&self.cluster).await
                && let Some(scheduler) = self.cluster.schedulers.get(nth)
                && let Ok(seen) = look::records(&scheduler.direct).await
                && seen.nodes.iter().filter(|node| node.condition == "Ready").count()
                    == self.cluster.agents.len()
            {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("no cluster; logs in {}", self.folder.display()).into());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn rounds(&mut self) -> Result<(), Fault> {
        let mut round = 0;
        while !self.is_over() {
            round += 1;
            self.load.go();
            self.harm().await?;
            self.load.rest().await;
            if !self.converge(&format!("after round {round}")).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        if self.options.kills > 0 {
            return self.kills >= self.options.kills;
        }
        Instant::now() >= self.deadline
    }

    /// Kinds this run chooses from.
    fn kinds(&self) -> Vec<Kind> {
        let named = |kind: &Kind| {
            self.options.only.is_empty() || self.options.only.iter().any(|name| name == kind.name())
        };
        let all: Vec<_> = if self.options.kills > 0 {
            Kind::KILLS.to_vec()
        } else if self.options.brief {
            Kind::BRIEF.to_vec()
        } else {
            Kind::ALL.iter().map(|(kind, ..)| *kind).collect()
        };
        all.into_iter().filter(|kind| kind.befalls(self.options.store)).filter(named).collect()
    }

    /// Some faults, of which a few hold at once; all are mended in the end.
    async fn harm(&mut self) -> Result<(), Fault> {
        let kinds = self.kinds();
        let count = if self.options.kills > 0 { 5 * FAULTS } else { FAULTS };
        let mut active: Vec<(Instant, Kind, Vec<Mend>)> = Vec::new();
        let (mut begun, mut next) = (0, Instant::now());
        while (begun < count && !self.is_over()) || !active.is_empty() {
            let now = Instant::now();
            let (due, rest): (Vec<_>, Vec<_>) =
                active.into_iter().partition(|(until, ..)| *until <= now);
            active = rest;
            for (_, kind, mends) in due {
                self.mend(kind, mends)?;
            }
            let more = begun < count && !self.is_over();
            if more && now >= next && active.len() < AT_A_TIME {
                let kind = *self.rng.pick(&kinds).ok_or("no such fault")?;
                if let Some(harm) = faults::begin(kind, &mut self.cluster, &mut self.rng).await? {
                    begun += 1;
                    self.kills += u64::from(Kind::KILLS.contains(&kind));
                    *self.report.faults.entry(kind.name()).or_default() += 1;
                    self.note(&format!("begins {} {}", kind.name(), harm.what))?;
                    active.push((Instant::now() + harm.hold, kind, harm.mends));
                    let gap = self.rng.between(100, 3000);
                    next = Instant::now() + Duration::from_millis(gap);
                }
            }
            self.look_at_room().await;
            self.mourn()?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    fn mend(&mut self, kind: Kind, mends: Vec<Mend>) -> Result<(), Fault> {
        for mend in mends {
            mend.play(&mut self.cluster)?;
        }
        self.note(&format!("ends {}", kind.name()))
    }

    /// Whoever ended by itself broke a promise; it is started again, as a supervisor would.
    fn mourn(&mut self) -> Result<(), Fault> {
        let mut ended = Vec::new();
        for process in self.cluster.processes() {
            if process.has_ended() {
                ended.push(process.name.clone());
                process.kill()?;
                process.start()?;
            }
        }
        for name in ended {
            self.note(&format!("{name} ended by itself"))?;
            self.report.violates([format!("process: {name} ended by itself")]);
        }
        Ok(())
    }

    async fn look_at_room(&mut self) {
        let Some(scheduler) = self.rng.pick(&self.cluster.schedulers) else { return };
        if scheduler.process.is_paused() {
            return;
        }
        let asked = look::records(&scheduler.direct);
        if let Ok(Ok(seen)) = tokio::time::timeout(Duration::from_millis(500), asked).await {
            self.report.looks += 1;
            self.report.violates(room::judge(&seen));
        }
    }

    /// Waits until the cluster at rest is as it should be; says whether it came to that.
    async fn converge(&mut self, when: &str) -> Result<bool, Fault> {
        let begun = Instant::now();
        let mut since: Option<Instant> = None;
        let mut told = Instant::now();
        loop {
            let (differences, seen) = self.differences().await;
            if told.elapsed() > TOLD_EVERY {
                told = Instant::now();
                self.note(&format!("not yet {when}: {differences:?}"))?;
            }
            if differences.is_empty() {
                let since = *since.get_or_insert_with(Instant::now);
                if since.elapsed() >= STAYS {
                    self.settle(begun.elapsed().saturating_sub(STAYS), &seen, when)?;
                    return Ok(true);
                }
            } else {
                since = None;
            }
            if begun.elapsed() > CONVERGE {
                self.note(&format!("does not converge {when}: {differences:#?}"))?;
                let told = differences.into_iter().map(|line| format!("{when}: {line}"));
                self.report.violates(told);
                return Ok(false);
            }
            self.mourn()?;
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn differences(&self) -> (Vec<String>, Seen) {
        match look::everything(&self.cluster).await {
            Ok(seen) => {
                let mut found = settled::differences(&seen, &self.load.history().model);
                found.extend(room::at_rest(&seen));
                (found, seen)
            }
            Err(fault) => (vec![format!("nothing can be seen: {fault}")], Seen::default()),
        }
    }

    /// The cluster has converged: what there is now is what was asked for.
    fn settle(&mut self, took: Duration, seen: &Seen, when: &str) -> Result<(), Fault> {
        self.report.converged.push(took);
        self.note(&format!("converged {when} in {:.1} s", took.as_secs_f64()))?;
        (self.tell)(&format!("converged {when} in {:.1} s", took.as_secs_f64()));
        let ids = self.cluster.ids();
        self.report.usage.take(&ids);
        let mut history = self.load.history();
        let all: Vec<_> = history.model.workloads().cloned().collect();
        for id in all {
            let row = seen.workloads.iter().find(|row| row.id == id);
            history.model.settle(&id, row.map_or(Wanted::Absent, settled::wanted));
        }
        drop(history);
        self.report.violates(self.decoys.touched());
        self.judge_witnesses()
    }

    /// Removals may need a moment more than the records tell.
    async fn nothing_is_left(&mut self) -> Result<(), Fault> {
        let deadline = Instant::now() + LEFT;
        loop {
            let left = leftovers::find(&self.cluster)?;
            if left.is_empty() || Instant::now() > deadline {
                self.report.violates(left);
                return Ok(());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    fn judge_witnesses(&mut self) -> Result<(), Fault> {
        let lines = self.cluster.witness.lines()?;
        let verdict = witnesses::judge(&lines, &self.load.history().deleted);
        (self.report.starts, self.report.overlaps) = (verdict.starts, verdict.overlaps);
        self.report.violates(verdict.violations);
        Ok(())
    }

    /// Everything is deleted, and nothing may be left.
    async fn end(&mut self) -> Result<(), Fault> {
        self.load.rest().await;
        if let (Some(plant), Ok(seen)) = (self.options.plant, look::everything(&self.cluster).await)
        {
            let told = plant::play(plant, &self.cluster, &seen).await?;
            self.note(&told)?;
            let (differences, _) = self.differences().await;
            self.report.violates(differences.into_iter().filter(|line| line.contains("history")));
        }
        if self.report.is_clean() {
            let all: BTreeSet<_> = self.load.history().model.workloads().cloned().collect();
            self.load.delete_all(&all).await?;
            self.converge("after everything was deleted").await?;
            self.nothing_is_left().await?;
        }
        self.judge_witnesses()?;
        self.report.requests = self.load.history().counts.clone();
        std::fs::copy(self.cluster.witness.path().join("log"), self.folder.join("witnesses.log"))?;
        std::fs::write(self.folder.join("report.txt"), self.report.page())?;
        Ok(())
    }
}
