//! Ends a development cluster and leaves nothing behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use persys_agent::ledger::{FileKeeper, Keeper as _};
use persys_cli::context;
use persys_model::id::NodeId;
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
    // Another cluster may have taken the context over since.
    let context = context::path(&home(), context::DEV)?;
    let text = std::fs::read_to_string(context).unwrap_or_default();
    if text.contains(&folder.path.display().to_string()) {
        context::remove(&home(), context::DEV)?;
    }
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
    let mut removed = 0;
    for runtime in runtimes {
        removed += remove_all_of(runtime, folder).await?;
    }
    Ok(removed)
}

async fn remove_all_of(runtime: &dyn Runtime, folder: &Folder) -> Result<usize, Error> {
    let stays = |source| Error::Containers { path: folder.path.clone(), source };
    let found = match runtime.list().await {
        Ok(found) => found,
        Err(_) if holds_nothing(folder).await => Vec::new(),
        Err(source) => return Err(stays(source)),
    };
    for seen in &found {
        runtime.remove(&seen.workload, true).await.map_err(stays)?;
    }
    Ok(found.len())
}

/// Whether the agent has nothing to run: then there are no containers, whether Docker says so or not.
async fn holds_nothing(folder: &Folder) -> bool {
    let dir = folder.path.join("agent");
    match FileKeeper::open(&dir, persys_agent::host::date()) {
        Ok(keeper) => {
            let ledger = keeper.load().await;
            keeper.close().await;
            ledger.intents.is_empty()
        }
        Err(_) => false,
    }
}
