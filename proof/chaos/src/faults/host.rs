//! Docker's daemons, containers, and the folder of an agent.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::process::Signal;

use super::network::{agents_links, set};
use super::processes::running;
use super::{Harm, Kind, Mend};
use crate::Fault;
use crate::cluster::Cluster;
use crate::proxy::Way;
use crate::rng::Rng;
use crate::{look, process};

/// The ledger of an agent in its folder.
const LEDGER: &str = "agent.redb";

/// Begins one of them.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are played elsewhere")]
pub(super) fn begin(
    kind: Kind,
    cluster: &mut Cluster,
    rng: &mut Rng,
) -> Result<Option<Harm>, Fault> {
    match kind {
        Kind::KillDocker | Kind::PauseDocker => Ok(daemon(kind, cluster, rng)),
        Kind::KillContainer => Ok(container(cluster, rng, "kill")),
        Kind::RemoveContainer => Ok(container(cluster, rng, "rm")),
        Kind::DamageLedger => ledger(cluster, rng),
        Kind::KillAgentAndWatchdog => unguarded(cluster, rng),
        Kind::HangNode => Ok(hung(cluster, rng)),
        _ => Ok(None),
    }
}

/// Daemons that run and are not paused.
fn able(cluster: &Cluster) -> Vec<usize> {
    let all = cluster.dockers.iter().enumerate();
    all.filter(|(_, docker)| docker.runs && !docker.paused).map(|(nth, _)| nth).collect()
}

fn daemon(kind: Kind, cluster: &mut Cluster, rng: &mut Rng) -> Option<Harm> {
    let nth = *rng.pick(&able(cluster))?;
    let docker = cluster.dockers.get_mut(nth)?;
    let what = format!("dockerd-{}", nth + 1);
    if kind == Kind::PauseDocker {
        docker.daemon.signal(Signal::STOP);
        docker.paused = true;
        return Some(Harm::new(what, rng.between(2000, 12_000), vec![Mend::ResumeDocker(nth)]));
    }
    docker.daemon.kill();
    docker.runs = false;
    Some(Harm::new(what, rng.below(3000), vec![Mend::StartDocker(nth)]))
}

/// One container of the cluster, by hand.
fn container(cluster: &Cluster, rng: &mut Rng, word: &str) -> Option<Harm> {
    let nth = *rng.pick(&able(cluster))?;
    let docker = cluster.dockers.get(nth)?;
    let filter = format!("label=persys.cluster={}", cluster.name);
    let list = look::docker(&docker.host, &["ps", "-q", "--filter", &filter]).ok()?;
    let all: Vec<_> = list.lines().collect();
    let id = rng.pick(&all)?;
    let words: &[&str] = if word == "rm" { &["rm", "-f", id] } else { &["kill", id] };
    // It may have gone meanwhile.
    look::docker(&docker.host, words).ok();
    Some(Harm::new(format!("{id} on dockerd-{}", nth + 1), 0, Vec::new()))
}

/// Nobody is left on the node who could end its exclusive work.
fn unguarded(cluster: &mut Cluster, rng: &mut Rng) -> Result<Option<Harm>, Fault> {
    let agents = running(cluster, |name| name.starts_with('d'));
    let Some(name) = rng.pick(&agents).cloned() else { return Ok(None) };
    let watchdogs = cluster.watchdogs(Some(&name));
    if let Some(process) = cluster.process(&name) {
        process.kill()?;
    }
    watchdogs.into_iter().for_each(process::kill_id);
    Ok(Some(Harm::new(name.clone(), rng.between(25_000, 45_000), vec![Mend::Start(name)])))
}

/// The watchdog has to end exclusive work without Docker.
fn hung(cluster: &mut Cluster, rng: &mut Rng) -> Option<Harm> {
    let nth = *rng.pick(&able(cluster))?;
    let agent = cluster.agents.iter().find(|agent| agent.docker == Some(nth))?;
    let links = agents_links(cluster, &agent.process.name);
    let name = agent.process.name.clone();
    if links.is_empty() {
        return None;
    }
    let docker = cluster.dockers.get_mut(nth)?;
    docker.daemon.signal(Signal::STOP);
    docker.paused = true;
    let mut harm = set(cluster, links, Way::Cut, &name, rng.between(25_000, 45_000))?;
    harm.mends.insert(0, Mend::ResumeDocker(nth));
    Some(harm)
}

fn ledger(cluster: &mut Cluster, rng: &mut Rng) -> Result<Option<Harm>, Fault> {
    let agents = running(cluster, |name| !name.starts_with('s'));
    let Some(name) = rng.pick(&agents).cloned() else { return Ok(None) };
    let Some(agent) = cluster.agents.iter_mut().find(|agent| agent.process.name == name) else {
        return Ok(None);
    };
    agent.process.kill()?;
    let how = damage(&agent.state.join(LEDGER), rng)?;
    Ok(Some(Harm::new(format!("{name}: {how}"), rng.below(1500), vec![Mend::Start(name)])))
}

fn damage(file: &Path, rng: &mut Rng) -> Result<&'static str, Fault> {
    let length = fs::metadata(file)?.len();
    match rng.below(3) {
        0 => {
            fs::remove_file(file)?;
            Ok("lost")
        }
        1 => {
            OpenOptions::new().write(true).open(file)?.set_len(length / 2)?;
            Ok("cut in half")
        }
        _ => {
            let file = OpenOptions::new().write(true).open(file)?;
            file.write_at(&rng.draw().to_le_bytes(), rng.below(length))?;
            Ok("eight bytes overwritten")
        }
    }
}
