//! Ends a development cluster and leaves nothing behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use persys_cli::context;
use persys_model::id::NodeId;
use persys_runtime::docker::Docker;
use persys_runtime::docker::settings::Settings as DockerSettings;
use persys_runtime::{Clock, Owner, Runtime as _};
use rustix::process::{Pid, Signal, kill_process};

use super::folder::Folder;
use super::options::Options;
use super::{Error, NODE, home, system};

/// How long the process may take to end.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Ends the process, then removes its containers, its context and its folder.
pub(super) async fn run(options: &Options) -> Result<(), Error> {
    let path = options.folder();
    let folder = Folder::open(&path)?;
    end_process(&folder).await?;
    folder.take()?;
    if folder.has_used_docker() {
        let removed = remove_containers(&folder).await?;
        println!("removed {removed} containers");
        persys_agent::watchdog::end(&folder.path.join("agent"));
    }
    context::remove(&home(), context::DEV)?;
    println!("removed {}", folder.path.display());
    folder.remove()
}

async fn end_process(folder: &Folder) -> Result<(), Error> {
    if !folder.is_taken() {
        return Ok(());
    }
    let pid = folder.note().map_or(0, |note| note.pid);
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(process) = process.filter(|_| pid > 1) {
        kill_process(process, Signal::TERM).map_err(|error| system("the process")(error.into()))?;
    }
    let begun = Instant::now();
    while folder.is_taken() {
        if begun.elapsed() > PATIENCE {
            return Err(Error::Stuck { pid });
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    println!("ended process {pid}");
    Ok(())
}

/// Removes what carries the labels of this cluster, and nothing else.
async fn remove_containers(folder: &Folder) -> Result<usize, Error> {
    let node = NodeId::new(NODE).unwrap_or_else(|_| NodeId::fixed("dev"));
    let owner = Owner { cluster: Arc::from(folder.cluster.as_str()), node };
    let docker = Docker::new(owner, DockerSettings::default(), Clock::since_boot());
    let found = docker.list().await.map_err(Error::Containers)?;
    for seen in &found {
        docker.remove(&seen.workload, true).await.map_err(Error::Containers)?;
    }
    Ok(found.len())
}
