//! Kills and pauses of the product's processes.

use super::{Harm, Kind, Mend};
use crate::Fault;
use crate::cluster::Cluster;
use crate::rng::Rng;
use crate::{look, process};

/// Begins one of them.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are played elsewhere")]
pub(super) async fn begin(
    kind: Kind,
    cluster: &mut Cluster,
    rng: &mut Rng,
) -> Result<Option<Harm>, Fault> {
    match kind {
        Kind::KillLeader => kill(cluster, leader(cluster).await, rng.below(2500)),
        Kind::KillFollower => {
            let follower = follower(cluster, rng).await;
            kill(cluster, follower, rng.below(4000))
        }
        Kind::KillSchedulers => {
            let all = running(cluster, |name| name.starts_with('s'));
            kill_all(cluster, all, rng.below(4000))
        }
        Kind::PauseLeader => pause(cluster, leader(cluster).await, rng.between(2000, 9000)),
        Kind::PauseFollower => {
            let follower = follower(cluster, rng).await;
            pause(cluster, follower, rng.between(2000, 9000))
        }
        Kind::KillSimulated => kill_one(cluster, rng, 'a', 1500),
        Kind::KillAgent => kill_one(cluster, rng, 'd', 1500),
        Kind::AgentAway => {
            let who = *rng.pick(&['a', 'd']).unwrap_or(&'a');
            let harm = kill_one(cluster, rng, who, 0)?;
            Ok(harm.map(|harm| Harm { hold: millis(rng.between(11_000, 16_000)), ..harm }))
        }
        Kind::PauseAgent => {
            let agents = running(cluster, |name| !name.starts_with('s'));
            pause(cluster, rng.pick(&agents).cloned(), rng.between(3000, 14_000))
        }
        Kind::KillWatchdog => Ok(watchdog(cluster, rng)),
        Kind::PowerCut => power_cut(cluster, rng),
        _ => Ok(None),
    }
}

fn millis(count: u64) -> std::time::Duration {
    std::time::Duration::from_millis(count)
}

/// Processes that run and are not paused, with such names.
pub(super) fn running(cluster: &mut Cluster, fits: impl Fn(&str) -> bool) -> Vec<String> {
    let able = cluster.processes().filter_map(|process| {
        let able = fits(&process.name) && process.runs() && !process.is_paused();
        able.then(|| process.name.clone())
    });
    able.collect()
}

async fn leader(cluster: &Cluster) -> Option<String> {
    let nth = look::leader(cluster).await?;
    cluster.schedulers.get(nth).map(|scheduler| scheduler.process.name.clone())
}

async fn follower(cluster: &mut Cluster, rng: &mut Rng) -> Option<String> {
    let leader = leader(cluster).await;
    let others = running(cluster, |name| name.starts_with('s') && Some(name) != leader.as_deref());
    rng.pick(&others).cloned()
}

fn kill(cluster: &mut Cluster, who: Option<String>, hold: u64) -> Result<Option<Harm>, Fault> {
    kill_all(cluster, who.into_iter().collect(), hold)
}

fn kill_all(cluster: &mut Cluster, who: Vec<String>, hold: u64) -> Result<Option<Harm>, Fault> {
    if who.is_empty() {
        return Ok(None);
    }
    for name in &who {
        if let Some(process) = cluster.process(name) {
            process.kill()?;
        }
    }
    let what = who.join(" ");
    Ok(Some(Harm::new(what, hold, who.into_iter().map(Mend::Start).collect())))
}

fn kill_one(
    cluster: &mut Cluster,
    rng: &mut Rng,
    letter: char,
    longest: u64,
) -> Result<Option<Harm>, Fault> {
    let all = running(cluster, |name| name.starts_with(letter));
    kill(cluster, rng.pick(&all).cloned(), rng.below(longest))
}

fn pause(cluster: &mut Cluster, who: Option<String>, hold: u64) -> Result<Option<Harm>, Fault> {
    let Some(name) = who else { return Ok(None) };
    let Some(process) = cluster.process(&name) else { return Ok(None) };
    process.pause()?;
    Ok(Some(Harm::new(name.clone(), hold, vec![Mend::Resume(name)])))
}

fn watchdog(cluster: &Cluster, rng: &mut Rng) -> Option<Harm> {
    let all = cluster.watchdogs(None);
    let id = *rng.pick(&all)?;
    process::kill_id(id);
    Some(Harm::new(format!("process {id}"), 0, Vec::new()))
}

fn power_cut(cluster: &mut Cluster, rng: &mut Rng) -> Result<Option<Harm>, Fault> {
    let all = running(cluster, |_| true);
    let Some(mut harm) = kill_all(cluster, all, rng.between(500, 5000))? else { return Ok(None) };
    if let Some(etcd) = &mut cluster.etcd {
        for nth in (0..etcd.host.count()).filter(|nth| !etcd.paused.contains(nth)).rev() {
            etcd.host.kill(nth);
            harm.mends.insert(0, Mend::StartMember(nth));
        }
    }
    Ok(Some(harm))
}
