//! Ends a development cluster and leaves nothing behind.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use persys_agent::app::{Limit, VolumeSettings, Volumes};
use persys_agent::ledger::{FileKeeper, Keeper as _};
use persys_model::id::{NodeId, WorkloadId};
use persys_runtime::compose::Compose;
use persys_runtime::compose::settings::Settings as ComposeSettings;
use persys_runtime::docker::Docker;
use persys_runtime::docker::settings::Settings as DockerSettings;
use persys_runtime::vm::Machines;
use persys_runtime::vm::settings::Settings as MachineSettings;
use persys_runtime::{Clock, Owner, Runtime};
use rustix::process::{Pid, Signal, kill_process};

use super::folder::Folder;
use super::options::Options;
use super::own_context;
use super::{Error, NODE, docker_host, home};

/// How long the process may take to end.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Ends the process, then removes what it ran, its context and its folder.
pub(super) async fn run(options: &Options) -> Result<(), Error> {
    let path = options.folder();
    let folder = Folder::open(&path)?;
    end_process(&folder).await?;
    folder.take()?;
    if folder.has_used_docker() {
        let removed = remove_what_runs(&folder).await?;
        println!("removed {removed} workloads");
        persys_agent::watchdog::end(&folder.path.join("agent"));
    }
    own_context::remove(&home(), &folder.path)?;
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
        // One that is gone already has let go of the folder, or will.
        kill_process(process, Signal::TERM).ok();
    }
    let begun = Instant::now();
    while folder.is_taken() {
        if begun.elapsed() > PATIENCE {
            return Err(Error::Stuck { path: folder.path.clone() });
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    println!("ended the process");
    Ok(())
}

/// Removes what says that it is of this cluster, and nothing else: containers, stacks, machines.
async fn remove_what_runs(folder: &Folder) -> Result<usize, Error> {
    let node = NodeId::new(NODE).unwrap_or_else(|_| NodeId::fixed("dev"));
    let owner = Owner { cluster: Arc::from(folder.cluster.as_str()), node };
    let mut settings = DockerSettings::default();
    if let Some(host) = docker_host() {
        settings.host = host;
    }
    let clock = Clock::since_boot();
    let docker = Docker::new(owner.clone(), settings, clock.clone());
    let stacks = ComposeSettings::in_folder(folder.path.join("agent").join("compose"));
    let compose = Compose::new(docker.clone(), stacks);
    let machines = Machines::new(owner, MachineSettings::default(), clock);
    let runtimes: [&dyn Runtime; 3] = [&docker, &compose, &machines];
    let held = held(folder).await;
    let (mut removed, mut known) = (0, held.clone().unwrap_or_default());
    for runtime in runtimes {
        let gone = remove_all_of(runtime, folder, held.as_ref()).await?;
        removed += gone.len();
        known.extend(gone);
    }
    if held.as_ref().is_none_or(|held| !held.is_empty()) {
        // Nobody could ever have them again: they belong to this cluster.
        compose
            .delete_all_volumes()
            .await
            .map_err(|source| Error::Containers { path: folder.path.clone(), source })?;
    }
    // A volume that is still mounted would keep the folder from going.
    let volumes = Volumes::new(&volumes(folder));
    for workload in &known {
        let released = volumes.release(workload, true).await;
        released.map_err(|error| {
            let source = persys_runtime::Error::Storage { detail: error.to_string() };
            Error::Containers { path: folder.path.clone(), source }
        })?;
    }
    Ok(removed)
}

/// Where the agent keeps managed volumes.
fn volumes(folder: &Folder) -> VolumeSettings {
    VolumeSettings::within(&folder.path.join("agent"), Limit::Auto)
}

async fn remove_all_of(
    runtime: &dyn Runtime,
    folder: &Folder,
    held: Option<&BTreeSet<WorkloadId>>,
) -> Result<Vec<WorkloadId>, Error> {
    let stays = |source| Error::Containers { path: folder.path.clone(), source };
    let found = match runtime.list().await {
        Ok(found) => found,
        // An agent that has nothing to run has no containers, whether Docker says so or not.
        Err(_) if held.is_some_and(BTreeSet::is_empty) => Vec::new(),
        Err(source) => return Err(stays(source)),
    };
    for seen in &found {
        runtime.remove(&seen.workload, true).await.map_err(stays)?;
    }
    Ok(found.into_iter().map(|seen| seen.workload).collect())
}

/// What the agent has to run; `None` if its ledger cannot be read.
async fn held(folder: &Folder) -> Option<BTreeSet<WorkloadId>> {
    let dir = folder.path.join("agent");
    let keeper = FileKeeper::open(&dir, persys_agent::host::date()).ok()?;
    let ledger = keeper.load().await;
    keeper.close().await;
    Some(ledger.intents.into_keys().collect())
}
