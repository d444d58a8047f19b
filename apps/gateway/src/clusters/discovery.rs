//! Schedulers found by DNS: those a service record names join the ones that are configured.
//!
//! A server that does not answer changes nothing: what was found stays until something else is
//! found. Answers are taken from the server that was asked, with the question's own number.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Message, Query};
use hickory_proto::rr::{Name, RData, RecordType};
use tokio::net::UdpSocket;
use tokio::time::{sleep, timeout};

use super::Cluster;
use super::file::SchedulerPlan;
use super::scheduler::Scheduler;

/// How long an answer may take.
const WITHIN: Duration = Duration::from_secs(2);
/// Most schedulers that are found.
const MOST: usize = 16;
/// What stands before the name of one that was found.
const FOUND: &str = "discovered-";

/// What discovery is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovery {
    /// Who answers for names.
    pub server: SocketAddr,
    /// The name of the service, such as `_persys-scheduler.persys.local`.
    pub service: String,
    /// How often it is asked.
    pub every: Duration,
}

/// Looks for schedulers for ever; ends when dropped.
pub async fn run(cluster: Arc<Cluster>, discovery: Discovery) {
    loop {
        match find(&discovery).await {
            Some(found) if !found.is_empty() => take(&cluster, &found),
            _ => tracing::debug!(service = discovery.service, "nobody was found"),
        }
        sleep(discovery.every).await;
    }
}

/// The cluster has those it was told of, and those that were found.
fn take(cluster: &Cluster, found: &[SocketAddr]) {
    let now = cluster.schedulers();
    let known =
        |address: &SocketAddr| now.iter().find(|one| one.plan.address == address.to_string());
    let told = now.iter().filter(|one| !one.plan.id.starts_with(FOUND));
    let mut next: Vec<Arc<Scheduler>> = told.cloned().collect();
    for address in found {
        if let Some(known) = known(address) {
            if known.plan.id.starts_with(FOUND) {
                next.push(Arc::clone(known));
            }
            continue;
        }
        let plan = SchedulerPlan {
            id: format!("{FOUND}{address}"),
            address: address.to_string(),
            is_leader: false,
        };
        match Scheduler::new(plan, &cluster.way) {
            Ok(scheduler) => {
                tracing::info!(cluster = cluster.id, %address, "a scheduler was found");
                next.push(Arc::new(scheduler));
            }
            Err(fault) => tracing::warn!(%fault, "a scheduler was found and cannot be called"),
        }
    }
    if next.len() != now.len() || next.iter().zip(now.iter()).any(|(a, b)| !Arc::ptr_eq(a, b)) {
        cluster.set_schedulers(next);
    }
}

/// Where the schedulers are that the service record names.
async fn find(discovery: &Discovery) -> Option<Vec<SocketAddr>> {
    let answer = ask(discovery.server, &discovery.service, RecordType::SRV).await?;
    let mut found = Vec::new();
    for record in answer.answers.iter().take(MOST) {
        let RData::SRV(service) = &record.data else { continue };
        let target = service.target.to_ascii();
        for kind in [RecordType::A, RecordType::AAAA] {
            let Some(answer) = ask(discovery.server, &target, kind).await else { continue };
            let addresses = answer.answers.iter().filter_map(|record| address(&record.data));
            found.extend(addresses.take(MOST).map(|ip| SocketAddr::new(ip, service.port)));
        }
    }
    found.sort_unstable();
    found.dedup();
    found.truncate(MOST);
    Some(found)
}

fn address(data: &RData) -> Option<IpAddr> {
    if let RData::A(ip) = data {
        return Some(IpAddr::V4(ip.0));
    }
    if let RData::AAAA(ip) = data { Some(IpAddr::V6(ip.0)) } else { None }
}

async fn ask(server: SocketAddr, name: &str, kind: RecordType) -> Option<Message> {
    let mut question = Message::query();
    let mut name = Name::from_ascii(name).ok()?;
    name.set_fqdn(true);
    question.add_query(Query::query(name, kind));
    let id = question.metadata.id;
    let own = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(own).await.ok()?;
    // Only what comes from the server is read.
    socket.connect(server).await.ok()?;
    socket.send(&question.to_vec().ok()?).await.ok()?;
    let mut buffer = vec![0; 4096];
    let length = timeout(WITHIN, socket.recv(&mut buffer)).await.ok()?.ok()?;
    let answer = Message::from_vec(buffer.get(..length)?).ok()?;
    (answer.metadata.id == id).then_some(answer)
}
