//! When a life of the agent ends and another begins: a node says what it can do when it joins, so it
//! joins anew when that changes.

use std::time::Duration;

use persys_model::id::NodeId;
use persys_model::node::NodeFacts;
use persys_node::settings::AgentSettings;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::app::{Config, Error, RuntimeChoice};
use crate::handle::Handle;
use crate::runtimes::Runtimes;
use crate::watchdog::{Options, supervise};

/// How long a new agent waits for its watchdog, so that it need not join twice.
const PROVE: Duration = Duration::from_secs(1);
/// How often a runtime is looked for that was not there at the start.
const LATE_RUNTIME: Duration = Duration::from_secs(1);

/// Starts the watchdog, if one is configured, and tells whether it guards.
pub(crate) async fn guard(
    config: &Config,
    node: &NodeId,
    beside: &mut JoinSet<()>,
) -> watch::Receiver<bool> {
    let (fence, mut guards) = watch::channel(false);
    let Some(command) = config.watchdog.clone() else { return guards };
    let docker = match &config.runtime {
        RuntimeChoice::Docker { host } | RuntimeChoice::DockerSwitchedOff { host } => host.clone(),
        RuntimeChoice::Sim(_) => {
            tracing::warn!("what is simulated is in this process alone: no watchdog can stop it");
            return guards;
        }
    };
    let options = Options {
        state_dir: config.state_dir.clone(),
        cluster: config.cluster.clone(),
        node: node.clone(),
        docker,
        machines: config.machines.as_ref().and_then(|machines| {
            let socket = machines.libvirt.sockets.iter().find(|path| path.exists());
            let socket = socket.or(machines.libvirt.sockets.first())?;
            Some((socket.clone(), machines.storage.home.clone()))
        }),
        agent: None,
    };
    beside.spawn(supervise::supervise(command, options, fence));
    // One that is late begins a new life when it comes.
    drop(timeout(PROVE, guards.wait_for(|guards| *guards)).await);
    guards
}

/// Begins a new life whenever a runtime comes that was not there, and when the fence comes or goes.
pub(crate) async fn renew(
    facts: impl Fn(bool) -> Result<NodeFacts, Error>,
    settings: AgentSettings,
    runtimes: Runtimes,
    mut guards: watch::Receiver<bool>,
    handle: Handle,
) {
    let (mut complete, mut unguarded) = (false, false);
    while !(complete && unguarded) {
        tokio::select! {
            (more, all) = runtimes.arrived(LATE_RUNTIME), if !complete => {
                complete = all;
                if !more {
                    continue;
                }
            }
            changed = guards.changed(), if !unguarded => if changed.is_err() {
                unguarded = true;
                continue;
            },
        }
        let fence = *guards.borrow_and_update();
        match facts(fence) {
            Ok(facts) => {
                tracing::info!(types = ?facts.types, fence, "the node joins anew");
                handle.begin_anew(facts, settings.clone()).await;
            }
            Err(error) => tracing::error!(%error, "the node cannot join anew"),
        }
    }
}
