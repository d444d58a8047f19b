//! From a spec to what Docker is asked to make.
//!
//! Docker never restarts anything by itself here: the agent decides that. Mounts are typed, never
//! `a:b` texts, so a colon in a path is a colon; a path of the node that does not exist is an error
//! rather than a new folder of root's.

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount, MountType, PortBinding, PortMap,
    RestartPolicy, RestartPolicyNameEnum,
};
use persys_model::resources::Compute;
use persys_model::spec::container::{Limits, Port, Swap};
use persys_model::spec::{ContainerSpec, Protocol};

use crate::error::Error;
use crate::runtime::{Owner, Start};

use super::settings::Settings;
use super::{health, identity};

/// The stretch of time a CPU quota is counted over, in microseconds.
const CPU_PERIOD_US: i64 = 100_000;
/// The least quota the kernel takes.
const LEAST_QUOTA_US: i64 = 1_000;
/// Shares of one whole core.
const SHARES_PER_CORE: u64 = 1024;

/// All that Docker needs to know to make the container of `start`.
pub(super) fn body(
    owner: &Owner,
    settings: &Settings,
    start: &Start,
    container: &ContainerSpec,
) -> Result<ContainerCreateBody, Error> {
    let users = container.labels.iter().map(|(key, value)| (&**key, &**value));
    let words = |parts: [&[std::sync::Arc<str>]; 2]| {
        let words: Vec<_> = parts.concat().iter().map(ToString::to_string).collect();
        (!words.is_empty()).then_some(words)
    };
    let env = container.env.iter().map(|(name, value)| format!("{name}={}", value.reveal()));
    Ok(ContainerCreateBody {
        image: Some(container.image.to_string()),
        entrypoint: words([&container.entrypoint, &[]]),
        cmd: words([&container.command, &container.args]),
        env: Some(env.collect()),
        labels: Some(identity::labels_for(owner, start, users)),
        exposed_ports: Some(container.ports.iter().copied().map(port_key).collect()),
        stop_timeout: start.spec.stop_grace_ms.map(seconds),
        healthcheck: health::config(&start.spec),
        host_config: Some(host_config(settings, start, container)?),
        ..ContainerCreateBody::default()
    })
}

/// Docker counts a grace in whole seconds; a part of one is given whole.
fn seconds(ms: u64) -> i64 {
    i64::try_from(ms.div_ceil(1000)).unwrap_or(i64::MAX)
}

fn host_config(
    settings: &Settings,
    start: &Start,
    container: &ContainerSpec,
) -> Result<HostConfig, Error> {
    let compute = start.spec.resources.compute;
    let log_options = HashMap::from([
        ("max-size".to_owned(), format!("{}m", settings.log_file_mib)),
        ("max-file".to_owned(), settings.log_files.to_string()),
    ]);
    let memory = memory_bytes(compute, container.limits);
    let quota = quota_us(compute, container.limits);
    Ok(HostConfig {
        cpu_period: quota.map(|_| CPU_PERIOD_US),
        cpu_quota: quota,
        cpu_shares: shares(compute, container.limits),
        memory,
        memory_reservation: soft_memory_bytes(compute, memory),
        memory_swap: memory.and_then(|_| swap_bytes(container.limits.swap)),
        pids_limit: Some(settings.pids_limit),
        mounts: Some(mounts(start, container)?),
        port_bindings: Some(port_bindings(&container.ports)),
        privileged: Some(container.privileged),
        cap_drop: (!container.privileged).then(|| vec!["NET_RAW".to_owned()]),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        log_config: Some(HostConfigLogConfig {
            typ: Some("json-file".to_owned()),
            config: Some(log_options),
        }),
        ..HostConfig::default()
    })
}

fn quota_us(compute: Compute, limits: Limits) -> Option<i64> {
    if limits.open.cpu {
        return None;
    }
    let millicores = i64::try_from(compute.cpu_millicores).unwrap_or(i64::MAX);
    (millicores > 0).then(|| (millicores.saturating_mul(CPU_PERIOD_US) / 1000).max(LEAST_QUOTA_US))
}

fn shares(compute: Compute, limits: Limits) -> Option<i64> {
    if let Some(shares) = limits.cpu_shares {
        return Some(i64::from(shares));
    }
    let shares = compute.cpu_millicores.saturating_mul(SHARES_PER_CORE) / 1000;
    (compute.cpu_millicores > 0).then(|| i64::try_from(shares.clamp(2, 262_144)).unwrap_or(2))
}

fn memory_bytes(compute: Compute, limits: Limits) -> Option<i64> {
    let reserved = if limits.open.memory { 0 } else { reserved_bytes(compute) };
    let bytes = limits.memory_bytes.unwrap_or(reserved);
    (bytes > 0).then(|| i64::try_from(bytes).unwrap_or(i64::MAX))
}

/// What the kernel takes from others first when memory is short: what is reserved, where the limit
/// is not the same.
fn soft_memory_bytes(compute: Compute, limit: Option<i64>) -> Option<i64> {
    let reserved = i64::try_from(reserved_bytes(compute)).unwrap_or(i64::MAX);
    (reserved > 0 && limit.is_none_or(|limit| limit > reserved)).then_some(reserved)
}

fn reserved_bytes(compute: Compute) -> u64 {
    compute.memory_mib.saturating_mul(1 << 20)
}

fn swap_bytes(swap: Swap) -> Option<i64> {
    match swap {
        Swap::RuntimeDefault => None,
        Swap::Unlimited => Some(-1),
        Swap::TotalBytes(bytes) => Some(i64::try_from(bytes).unwrap_or(i64::MAX)),
    }
}

fn mounts(start: &Start, container: &ContainerSpec) -> Result<Vec<Mount>, Error> {
    let bind = |source: String, target: &str, read_only: bool| Mount {
        typ: Some(MountType::BIND),
        source: Some(source),
        target: Some(target.to_owned()),
        read_only: Some(read_only),
        ..Mount::default()
    };
    let mut mounts: Vec<_> = container
        .binds
        .iter()
        .map(|b| bind(b.host_path.to_string(), &b.container_path, b.read_only))
        .collect();
    for volume in &container.managed_volumes {
        let Some(path) = start.volumes.get(&volume.name) else {
            let detail = format!("volume {} is not attached to this node", volume.name);
            return Err(Error::Storage { detail });
        };
        let Some(path) = path.to_str() else {
            let detail = format!("volume {} is at a path that is no text", volume.name);
            return Err(Error::Storage { detail });
        };
        mounts.push(bind(path.to_owned(), &volume.mount_path, volume.read_only));
    }
    Ok(mounts)
}

fn port_key(port: Port) -> String {
    let protocol = match port.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    };
    format!("{}/{protocol}", port.container)
}

/// One port of the container may be published several times.
fn port_bindings(ports: &[Port]) -> PortMap {
    let mut map = PortMap::new();
    for &port in ports {
        let host_port = port.host.map(|host| host.to_string()).unwrap_or_default();
        // No address is every address, of both families.
        let host_ip = port.address.map(|address| address.to_string());
        let binding = PortBinding { host_ip, host_port: Some(host_port) };
        map.entry(port_key(port)).or_default().get_or_insert_default().push(binding);
    }
    map
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use persys_model::id::{NodeId, RevisionId, WorkloadId};
    use persys_model::resources::Resources;
    use persys_model::spec::container::Open;
    use persys_model::spec::{Kind, Placement, Spec};
    use persys_model::token::Epoch;

    use super::*;

    /// The request that creates a container.
    fn asked_for(container: &ContainerSpec) -> ContainerCreateBody {
        let start = Start {
            workload: WorkloadId::fixed("web"),
            revision: RevisionId::fixed("r1"),
            epoch: Epoch(1),
            spec: Arc::new(Spec {
                kind: Kind::Container(container.clone()),
                resources: Resources::default(),
                placement: Placement::default(),
                metadata: BTreeMap::new(),
                secrets: Vec::new(),
                stop_grace_ms: None,
                health: persys_model::spec::health::HealthChecks::default(),
            }),
            volumes: BTreeMap::new(),
            secrets: Arc::default(),
            secrets_at: None,
            not_after: None,
            resume: false,
        };
        let owner = Owner { cluster: Arc::from("c1"), node: NodeId::fixed("n1") };
        body(&owner, &Settings::default(), &start, container).unwrap()
    }

    #[test]
    fn a_privileged_container_is_asked_for_as_such() {
        for privileged in [false, true] {
            let container = ContainerSpec { privileged, ..ContainerSpec::default() };
            let host = asked_for(&container).host_config.unwrap();
            assert_eq!(host.privileged, Some(privileged));
            assert_eq!(host.cap_drop.is_none(), privileged, "nothing is taken from it again");
        }
    }

    #[test]
    fn command_and_args_are_the_cmd_and_the_entrypoint_stays() {
        let words = |text: &str| text.split_whitespace().map(Arc::from).collect::<Vec<Arc<str>>>();
        let asked = |entrypoint: &str, command: &str, args: &str| {
            let container = ContainerSpec {
                entrypoint: words(entrypoint),
                command: words(command),
                args: words(args),
                ..ContainerSpec::default()
            };
            let body = asked_for(&container);
            let text = |words: Option<Vec<String>>| words.map(|words| words.join(" "));
            (text(body.entrypoint), text(body.cmd))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(asked("", "", ""), (None, None), "the image's own");
        assert_eq!(asked("", "serve", "-p 1"), (None, some("serve -p 1")));
        assert_eq!(asked("", "", "-p 1"), (None, some("-p 1")));
        assert_eq!(asked("tini --", "serve", "-p"), (some("tini --"), some("serve -p")));
    }

    fn open() -> Limits {
        Limits { open: Open { cpu: true, memory: true }, ..Limits::default() }
    }

    #[test]
    fn cpu_is_a_quota_and_a_weight() {
        let none = Limits::default();
        for (millicores, quota, weight) in [
            (0, None, None),
            (1, Some(1_000), Some(2)),
            (500, Some(50_000), Some(512)),
            (2_000, Some(200_000), Some(2048)),
            (u64::MAX, Some(i64::MAX / 1000), Some(262_144)),
        ] {
            let compute = Compute::new(millicores, 0);
            assert_eq!(quota_us(compute, none), quota, "{millicores}");
            assert_eq!(quota_us(compute, open()), None, "{millicores}");
            assert_eq!(shares(compute, none), weight, "{millicores}");
        }
        let chosen = Limits { cpu_shares: Some(77), ..none };
        assert_eq!(shares(Compute::new(500, 0), chosen), Some(77));
    }

    #[test]
    fn memory_is_the_limit_or_else_what_was_asked_for() {
        let none = Limits::default();
        assert_eq!(memory_bytes(Compute::new(0, 64), none), Some(64 << 20));
        let more = Limits { memory_bytes: Some(1 << 30), ..none };
        assert_eq!(memory_bytes(Compute::new(0, 64), more), Some(1 << 30));
        assert_eq!(memory_bytes(Compute::ZERO, none), None);
        assert_eq!(memory_bytes(Compute::new(0, 64), open()), None, "nobody asked for a limit");
        assert_eq!(soft_memory_bytes(Compute::new(0, 64), None), Some(64 << 20));
        assert_eq!(soft_memory_bytes(Compute::new(0, 64), Some(64 << 20)), None);
        assert_eq!(soft_memory_bytes(Compute::new(0, 64), Some(65 << 20)), Some(64 << 20));
        assert_eq!(soft_memory_bytes(Compute::ZERO, None), None);
        assert_eq!(swap_bytes(Swap::RuntimeDefault), None);
        assert_eq!(swap_bytes(Swap::Unlimited), Some(-1));
        assert_eq!(swap_bytes(Swap::TotalBytes(9)), Some(9));
    }

    #[test]
    fn a_port_may_be_published_twice_and_left_to_docker() {
        let port = |host, protocol| Port { address: None, host, container: 53, protocol };
        let map = port_bindings(&[
            port(Some(5353), Protocol::Udp),
            port(Some(5354), Protocol::Udp),
            port(None, Protocol::Tcp),
        ]);
        let hosts = |key: &str| -> Vec<_> {
            map[key].iter().flatten().map(|b| b.host_port.clone().unwrap()).collect()
        };
        assert_eq!(hosts("53/udp"), ["5353", "5354"]);
        assert_eq!(hosts("53/tcp"), [""]);
    }

    #[test]
    fn a_port_is_published_on_the_address_it_names() {
        let port = |address: Option<&str>| Port {
            address: address.map(|text| text.parse().unwrap()),
            host: Some(80),
            container: 80,
            protocol: Protocol::Tcp,
        };
        let map = port_bindings(&[port(Some("127.0.0.1")), port(Some("::1")), port(None)]);
        let found: Vec<_> = map["80/tcp"].iter().flatten().map(|b| b.host_ip.as_deref()).collect();
        assert_eq!(found, [Some("127.0.0.1"), Some("::1"), None]);
    }
}
