//! Links that are cut, held, slow, or lose what they carry.

use std::time::Duration;

use futures::future::join_all;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Harm, Kind, Mend};
use crate::cluster::Cluster;
use crate::look;
use crate::proxy::Way;
use crate::rng::Rng;

/// Connections of a crowd.
const CROWD: usize = 400;
/// Longest time until one of them is there.
const CONNECT: Duration = Duration::from_secs(2);

/// Begins one of them.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are played elsewhere")]
pub(super) async fn begin(kind: Kind, cluster: &mut Cluster, rng: &mut Rng) -> Option<Harm> {
    let agent = one_agent(cluster, rng)?;
    let (up, orders) = (format!("{agent}-"), format!("orders-{agent}"));
    let scheduler = one_scheduler(cluster, rng)?;
    match kind {
        Kind::CutAgent => {
            let links = agents_links(cluster, &agent);
            set(cluster, links, Way::Cut, &agent, rng.between(3000, 14_000))
        }
        Kind::MuteAgent => mixed(cluster, &agent, (Way::NoUp, Way::NoDown), rng),
        Kind::DeafAgent => mixed(cluster, &agent, (Way::NoDown, Way::NoUp), rng),
        Kind::HoldOrders => {
            let links = cluster.open_links(&orders, "");
            set(cluster, links, Way::Held, &agent, rng.between(1000, 6000))
        }
        Kind::LoseOrderReplies => {
            let links = cluster.open_links(&orders, "");
            set(cluster, links, Way::LostReplies, &agent, rng.between(1000, 6000))
        }
        Kind::LoseBeatReplies => {
            let links = cluster.open_links(&up, "");
            set(cluster, links, Way::LostReplies, &agent, rng.between(2000, 12_000))
        }
        Kind::SlowScheduler => {
            let mut links = cluster.open_links("", &format!("-{scheduler}"));
            links.extend(cluster.open_links(&format!("{scheduler}-"), ""));
            let slow = Way::Slow(Duration::from_millis(rng.between(50, 500)));
            set(cluster, links, slow, &scheduler, rng.between(3000, 9000))
        }
        Kind::Swizzle => Some(swizzle(cluster, rng)),
        Kind::LoseUserReplies => {
            let links = cluster.open_links("user-", &scheduler);
            set(cluster, links, Way::LostReplies, &scheduler, rng.between(1000, 5000))
        }
        Kind::CutPeers => {
            let nth = look::leader(cluster).await?;
            let leader = cluster.schedulers.get(nth)?.process.name.clone();
            let links = cluster.open_links("peer-", &leader);
            let ways = [Way::Cut, Way::Held, Way::LostReplies];
            let way = *rng.pick(&ways).unwrap_or(&Way::Cut);
            set(cluster, links, way, &leader, rng.between(2000, 8000))
        }
        Kind::Crowd => crowd(cluster, rng).await,
        _ => None,
    }
}

fn one_agent(cluster: &Cluster, rng: &mut Rng) -> Option<String> {
    // Every second time one on which something really runs.
    let real = rng.chance(50);
    let fits = cluster.agents.iter().filter(|agent| agent.docker.is_some() == real);
    let names: Vec<_> = fits.map(|agent| agent.process.name.clone()).collect();
    let all = cluster.agents.iter().map(|agent| agent.process.name.clone());
    let names = if names.is_empty() { all.collect() } else { names };
    rng.pick(&names).cloned()
}

fn one_scheduler(cluster: &Cluster, rng: &mut Rng) -> Option<String> {
    let one = rng.pick(&cluster.schedulers)?;
    Some(one.process.name.clone())
}

/// All links of an agent.
pub(super) fn agents_links(cluster: &Cluster, agent: &str) -> Vec<String> {
    let mut links = cluster.open_links(&format!("{agent}-"), "");
    links.extend(cluster.open_links(&format!("orders-{agent}"), ""));
    links
}

/// Makes these links behave so; none if there are none.
pub(super) fn set(
    cluster: &mut Cluster,
    links: Vec<String>,
    way: Way,
    who: &str,
    hold: u64,
) -> Option<Harm> {
    if links.is_empty() {
        return None;
    }
    cluster.set_links(&links, way);
    Some(Harm::new(format!("{who} {way:?}"), hold, vec![Mend::Open(links)]))
}

/// One direction only: what an agent sends is `up` where it connects and `down` where it listens.
fn mixed(
    cluster: &mut Cluster,
    agent: &str,
    (up, down): (Way, Way),
    rng: &mut Rng,
) -> Option<Harm> {
    let beats = cluster.open_links(&format!("{agent}-"), "");
    let orders = cluster.open_links(&format!("orders-{agent}"), "");
    let hold = rng.between(3000, 14_000);
    let mut harm = set(cluster, beats, up, agent, hold)?;
    cluster.set_links(&orders, down);
    harm.mends.push(Mend::Open(orders));
    Some(harm)
}

/// Up to three agents at once; they come back in another order.
fn swizzle(cluster: &mut Cluster, rng: &mut Rng) -> Harm {
    let mut agents: Vec<_> =
        cluster.agents.iter().map(|agent| agent.process.name.clone()).collect();
    rng.shuffle(&mut agents);
    agents.truncate(3);
    let mut mends = Vec::new();
    for agent in &agents {
        let links = agents_links(cluster, agent);
        cluster.set_links(&links, Way::Cut);
        mends.push(Mend::Open(links));
    }
    rng.shuffle(&mut mends);
    Harm::new(agents.join(" "), rng.between(2000, 8000), mends)
}

async fn crowd(cluster: &Cluster, rng: &mut Rng) -> Option<Harm> {
    let able: Vec<_> =
        cluster.schedulers.iter().filter(|scheduler| !scheduler.process.is_paused()).collect();
    let at = rng.pick(&able)?.grpc;
    let all = (0..CROWD).map(|_| timeout(CONNECT, TcpStream::connect(at)));
    let connections: Vec<_> = join_all(all).await.into_iter().flatten().flatten().collect();
    let what = format!("{} connections to {at}", connections.len());
    Some(Harm::new(what, rng.between(1000, 5000), vec![Mend::Leave(connections)]))
}
