//! What this node is: what runs workloads on it, and what the scheduler is told of it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use persys_identity::Connector;
use persys_model::id::{NodeId, PoolName};
use persys_model::labels::{ARCH, go_arch};
use persys_model::node::{BY_STREAM, NodeFacts};
use persys_runtime::compose::Compose;
use persys_runtime::compose::settings::Settings as ComposeSettings;
use persys_runtime::docker::Docker;
use persys_runtime::docker::settings::Settings as DockerSettings;
use persys_runtime::sim::Sim;
use persys_runtime::vm::Machines;
use persys_runtime::{Clock as BootClock, Owner};
use persys_volumes::Volumes;

use crate::app::{Config, Error, RuntimeChoice, system};
use crate::disks::Disks;
use crate::host;
use crate::runtimes::Runtimes;
use crate::storage;
use crate::upward::grpc::{BadAddress, Grpc};
use crate::version::Version;

/// What runs workloads here, as it was configured.
pub(crate) async fn runtimes(config: &Config, node: &NodeId) -> Runtimes {
    let clock = BootClock::since_boot();
    match &config.runtime {
        RuntimeChoice::Sim(Some(sim)) => Runtimes::sim(sim.clone()),
        RuntimeChoice::Sim(None) => {
            Runtimes::sim(Sim::new(persys_runtime::sim::Settings::default(), clock))
        }
        RuntimeChoice::Docker { host } | RuntimeChoice::DockerSwitchedOff { host } => {
            let logins = config.registry_auth.clone();
            let adopted = Some(config.state_dir.join("adopted"));
            let mut settings = DockerSettings { logins, adopted, ..DockerSettings::default() };
            if let Some(host) = host {
                settings.host.clone_from(host);
            }
            let owner = Owner { cluster: Arc::from(config.cluster.as_str()), node: node.clone() };
            let docker = Docker::new(owner.clone(), settings, clock.clone());
            let mut stacks = ComposeSettings::in_folder(config.state_dir.join("compose"));
            stacks.program.clone_from(&config.compose.program);
            let compose = Compose::new(docker.clone(), stacks);
            let runtimes = if matches!(config.runtime, RuntimeChoice::Docker { .. }) {
                let runtimes = Runtimes::docker(docker).await;
                runtimes.and_compose(compose, config.compose.enabled).await
            } else {
                Runtimes::without_containers(docker, compose)
            };
            match config.machines.clone() {
                Some(settings) => {
                    runtimes.and_machines(Machines::new(owner, settings, clock)).await
                }
                None => runtimes.without_machines(),
            }
        }
    }
}

/// The way to the schedulers, who are told what this agent is and what its workloads use.
pub(crate) fn schedulers(
    config: &Config,
    connector: &Connector,
    runtimes: &Runtimes,
    version: &Version,
) -> Result<Grpc, BadAddress> {
    let grpc = Grpc::new(&config.schedulers, connector, Arc::new(host::date))?;
    Ok(grpc.telling(runtimes.usages()).of_cluster(&config.cluster).of_version(version))
}

/// What the scheduler is told of this node.
pub(crate) fn facts(
    config: &Config,
    node: &NodeId,
    bound: Option<SocketAddr>,
    (runtimes, volumes): (&Runtimes, &Volumes),
    fence: bool,
) -> Result<NodeFacts, Error> {
    let mut labels: persys_model::labels::Labels =
        [("os", std::env::consts::OS), (ARCH, go_arch(std::env::consts::ARCH))]
            .map(|(key, value)| (Arc::from(key), Arc::from(value)))
            .into();
    let given = config.labels.iter();
    labels.extend(given.map(|(key, value)| (Arc::from(key.as_str()), Arc::from(value.as_str()))));
    let advertise = config.advertise.as_deref();
    let endpoint = bound.map_or_else(
        || Arc::from(BY_STREAM),
        |bound| host::endpoint(advertise, bound, &config.schedulers),
    );
    Ok(NodeFacts {
        id: node.clone(),
        host: host::machine_id(&config.state_dir).map_err(system("the identity of the machine"))?,
        incarnation: host::random_id().map_err(system("/dev/urandom"))?,
        endpoint,
        capacity: host::capacity(),
        pools: disks(config).pools(),
        types: runtimes.offered(),
        drivers: storage::offered(volumes),
        labels,
        fence,
        pauses: true,
        checks_health: true,
        signals: true,
        addresses: true,
        missing: runtimes.missing(),
    })
}

/// The pools of the node and their folders, as they are measured.
pub(crate) fn disks(config: &Config) -> Disks {
    let root = PoolName::fixed("root");
    let named = config.machines.iter().flat_map(|machines| &machines.storage.pools);
    let others = named.filter(|(name, _)| **name != root);
    let others = others.map(|(name, path)| (name.clone(), path.clone()));
    let pools: Vec<_> = [(root.clone(), PathBuf::from("/"))].into_iter().chain(others).collect();
    // Disks of machines begin with the name libvirt knows them by.
    let machines: BTreeSet<_> = pools.iter().skip(1).map(|(_, path)| path.clone()).collect();
    let volumes = &config.volumes.local.root;
    let kept = Disks::new(pools).with_data(volumes.join("images"), "");
    let kept = kept.with_data(volumes.join("folders"), "");
    machines.into_iter().fold(kept, |disks, path| disks.with_data(path, "persys-"))
}
