//! etcd and the ways to it.

use std::time::Duration;

use super::network::set;
use super::{Harm, Kind, Mend};
use crate::cluster::Cluster;
use crate::proxy::Way;
use crate::rng::Rng;

/// Begins one of them.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are played elsewhere")]
pub(super) fn begin(kind: Kind, cluster: &mut Cluster, rng: &mut Rng) -> Option<Harm> {
    let count = cluster.etcd.as_ref()?.host.count();
    let scheduler = rng.pick(&cluster.schedulers)?.process.name.clone();
    let links = cluster.open_links(&format!("{scheduler}-etcd"), "");
    match kind {
        Kind::KillMember => kill(cluster, rng, 1, 4000),
        Kind::LoseQuorum => kill(cluster, rng, 2, 9000),
        Kind::KillEtcd => kill(cluster, rng, count, 6000),
        Kind::PauseMember => {
            let able = able(cluster);
            let nth = *rng.pick(&able)?;
            let etcd = cluster.etcd.as_mut()?;
            etcd.host.pause(nth);
            etcd.paused.push(nth);
            let mends = vec![Mend::ResumeMember(nth)];
            Some(Harm::new(format!("member {nth}"), rng.between(1000, 8000), mends))
        }
        Kind::CutEtcd => {
            let way = if rng.chance(50) { Way::Cut } else { Way::Held };
            set(cluster, links, way, &scheduler, rng.between(1000, 9000))
        }
        Kind::LoseEtcdReplies => {
            set(cluster, links, Way::LostReplies, &scheduler, rng.between(300, 5000))
        }
        Kind::SlowEtcd => {
            let slow = Way::Slow(Duration::from_millis(rng.between(50, 400)));
            let all = cluster.open_links("s", "").into_iter();
            let all = all.filter(|name| name.contains("-etcd")).collect();
            set(cluster, all, slow, "all", rng.between(3000, 9000))
        }
        _ => None,
    }
}

/// Members that run and are not paused.
fn able(cluster: &Cluster) -> Vec<usize> {
    let Some(etcd) = &cluster.etcd else { return Vec::new() };
    let able = |nth: &usize| etcd.host.pid(*nth).is_some() && !etcd.paused.contains(nth);
    (0..etcd.host.count()).filter(able).collect()
}

fn kill(cluster: &mut Cluster, rng: &mut Rng, count: usize, longest: u64) -> Option<Harm> {
    let mut members = able(cluster);
    if members.len() < count {
        return None;
    }
    rng.shuffle(&mut members);
    members.truncate(count);
    let etcd = cluster.etcd.as_mut()?;
    for nth in &members {
        etcd.host.kill(*nth);
    }
    let what = format!("members {members:?}");
    let mends = members.into_iter().map(Mend::StartMember).collect();
    Some(Harm::new(what, rng.between(200, longest), mends))
}
