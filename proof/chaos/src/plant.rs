//! Faults of the product that are played here, to show that the checker finds them.

use std::process::Command;
use std::str::FromStr;

use persys_proto::control::v1 as api;
use persys_proto::control::v1::agent_control_client::AgentControlClient;

use crate::Fault;
use crate::check::Seen;
use crate::cluster::Cluster;
use crate::look;
use crate::wish::Kind;
use crate::witness;

/// What is done behind the product's back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// A second copy of exclusive work is started.
    Twice,
    /// A workload whose creation was answered is deleted.
    Lost,
}

impl FromStr for Plant {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "twice" => Ok(Self::Twice),
            "lost" => Ok(Self::Lost),
            other => Err(format!("{other} is neither twice nor lost")),
        }
    }
}

/// Does it, once.
pub async fn play(plant: Plant, cluster: &Cluster, seen: &Seen) -> Result<String, Fault> {
    let running = seen.workloads.iter().filter(|row| row.status == "Running");
    let exclusive = |id: &str| Kind::of(id).is_some_and(Kind::is_exclusive);
    match plant {
        Plant::Twice => {
            let row = running.clone().find(|row| exclusive(&row.id)).ok_or("nothing exclusive")?;
            let mut others = cluster.agents.iter().filter(|agent| agent.process.name != row.node);
            let nth = others.find_map(|agent| agent.docker).ok_or("no other Docker")?;
            let docker = cluster.dockers.get(nth).ok_or("no other Docker")?;
            let mount = format!("{}:{}", cluster.witness.path().display(), witness::INSIDE);
            let (id, revision) = (format!("WL={}", row.id), format!("REV={}", row.revision));
            let words = ["run", "-d", "--rm", "--network", "none", "-v", &mount, "-e", &id, "-e"];
            let mut all = words.to_vec();
            all.extend([&*revision, witness::IMAGE, "/bin/sh", "-c", witness::SCRIPT]);
            let container = look::docker(&docker.host, &all)?;
            until_told(cluster, &row.id).await?;
            Command::new("docker")
                .args(["-H", &docker.host, "rm", "-f", container.trim()])
                .output()?;
            Ok(format!("a second copy of {} ran", row.id))
        }
        Plant::Lost => {
            let row = running.clone().next().ok_or("nothing runs")?;
            let nth = look::leader(cluster).await.ok_or("nobody leads")?;
            let scheduler = cluster.schedulers.get(nth).ok_or("nobody leads")?;
            let mut client = AgentControlClient::new(scheduler.direct.clone());
            let request = api::DeleteWorkloadRequest { workload_id: row.id.clone(), volumes: true };
            client.delete_workload(request).await?;
            Ok(format!("{} was deleted, and the log does not say so", row.id))
        }
    }
}

/// Waits until a witness of this workload has said something more.
async fn until_told(cluster: &Cluster, id: &str) -> Result<(), Fault> {
    for _ in 0..100 {
        let lines = cluster.witness.lines()?;
        let told =
            |line: &witness::Line| line.workload == id && line.what == witness::What::Duplicate;
        if lines.iter().any(told) {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    Err("the second copy says nothing".into())
}
