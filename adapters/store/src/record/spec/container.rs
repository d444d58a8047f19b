//! A container.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use persys_model::spec::container::{Bind, ContainerSpec, Limits, Open, Port, RestartPolicy, Swap};
use serde::{Deserialize, Serialize};

use super::super::is_false;
use super::super::resources::{ProtocolShape, port};
use super::volume::VolumeShape;
use super::{Texts, hide, reveal};

#[derive(Serialize, Deserialize)]
pub(super) struct ContainerShape {
    image: Arc<str>,
    /// Written with every command. A record without it was written when `command` still took the
    /// place of the image's entrypoint, and is read so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entrypoint: Option<Vec<Arc<str>>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    command: Vec<Arc<str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    args: Vec<Arc<str>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    env: Texts,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    binds: Vec<BindShape>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ports: Vec<PortShape>,
    restart: RestartShape,
    #[serde(default, skip_serializing_if = "is_false")]
    privileged: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: Texts,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpu_shares: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    swap: SwapShape,
    /// A record without these two is of a time when what is reserved was always a limit.
    #[serde(default, skip_serializing_if = "is_false")]
    cpu_unlimited: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    memory_unlimited: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    managed_volumes: Vec<VolumeShape>,
}

#[derive(Serialize, Deserialize)]
struct BindShape {
    host_path: Arc<str>,
    container_path: Arc<str>,
    #[serde(default, skip_serializing_if = "is_false")]
    read_only: bool,
}

#[derive(Serialize, Deserialize)]
struct PortShape {
    /// A record without it is of a port that is published on every address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<u16>,
    container: u16,
    protocol: ProtocolShape,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RestartShape {
    No,
    Always,
    AlwaysUpTo { max_retries: u32 },
    OnFailure { max_retries: u32 },
    UnlessStopped,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SwapShape {
    RuntimeDefault,
    Unlimited,
    TotalBytes(u64),
}

impl From<&ContainerSpec> for ContainerShape {
    fn from(container: &ContainerSpec) -> Self {
        let ContainerSpec {
            image,
            entrypoint,
            command,
            args,
            env,
            binds,
            ports,
            restart,
            privileged,
            labels,
            limits: Limits { cpu_shares, memory_bytes, swap, open },
            managed_volumes,
        } = container;
        Self {
            image: Arc::clone(image),
            entrypoint: (!entrypoint.is_empty() || !command.is_empty()).then(|| entrypoint.clone()),
            command: command.clone(),
            args: args.clone(),
            env: reveal(env),
            binds: binds.iter().map(BindShape::from).collect(),
            ports: ports.iter().map(PortShape::from).collect(),
            restart: (*restart).into(),
            privileged: *privileged,
            labels: labels.clone(),
            cpu_shares: *cpu_shares,
            memory_bytes: *memory_bytes,
            swap: (*swap).into(),
            cpu_unlimited: open.cpu,
            memory_unlimited: open.memory,
            managed_volumes: managed_volumes.iter().map(VolumeShape::from).collect(),
        }
    }
}

impl ContainerShape {
    pub(super) fn read(self) -> Result<ContainerSpec, String> {
        let ports: Result<Vec<_>, _> = self.ports.into_iter().map(PortShape::read).collect();
        let volumes: Result<Vec<_>, _> =
            self.managed_volumes.into_iter().map(VolumeShape::read).collect();
        let (entrypoint, command) = match self.entrypoint {
            Some(entrypoint) => (entrypoint, self.command),
            None => (self.command, Vec::new()),
        };
        Ok(ContainerSpec {
            image: self.image,
            entrypoint,
            command,
            args: self.args,
            env: hide(self.env),
            binds: self.binds.into_iter().map(Bind::from).collect(),
            ports: ports?,
            restart: self.restart.into(),
            privileged: self.privileged,
            labels: self.labels,
            limits: Limits {
                cpu_shares: self.cpu_shares,
                memory_bytes: self.memory_bytes,
                swap: self.swap.into(),
                open: Open { cpu: self.cpu_unlimited, memory: self.memory_unlimited },
            },
            managed_volumes: volumes?,
        })
    }
}

impl From<&Bind> for BindShape {
    fn from(Bind { host_path, container_path, read_only }: &Bind) -> Self {
        Self {
            host_path: Arc::clone(host_path),
            container_path: Arc::clone(container_path),
            read_only: *read_only,
        }
    }
}

impl From<BindShape> for Bind {
    fn from(BindShape { host_path, container_path, read_only }: BindShape) -> Self {
        Self { host_path, container_path, read_only }
    }
}

impl From<&Port> for PortShape {
    fn from(Port { address, host, container, protocol }: &Port) -> Self {
        Self { address: *address, host: *host, container: *container, protocol: (*protocol).into() }
    }
}

impl PortShape {
    fn read(self) -> Result<Port, String> {
        Ok(Port {
            address: self.address,
            host: self.host.map(|host| port("ports.host", host)).transpose()?,
            container: port("ports.container", self.container)?,
            protocol: self.protocol.into(),
        })
    }
}

impl From<RestartPolicy> for RestartShape {
    fn from(restart: RestartPolicy) -> Self {
        match restart {
            RestartPolicy::No => Self::No,
            RestartPolicy::Always => Self::Always,
            RestartPolicy::AlwaysUpTo { max_retries } => Self::AlwaysUpTo { max_retries },
            RestartPolicy::OnFailure { max_retries } => Self::OnFailure { max_retries },
            RestartPolicy::UnlessStopped => Self::UnlessStopped,
        }
    }
}

impl From<RestartShape> for RestartPolicy {
    fn from(restart: RestartShape) -> Self {
        match restart {
            RestartShape::No => Self::No,
            RestartShape::Always => Self::Always,
            RestartShape::AlwaysUpTo { max_retries } => Self::AlwaysUpTo { max_retries },
            RestartShape::OnFailure { max_retries } => Self::OnFailure { max_retries },
            RestartShape::UnlessStopped => Self::UnlessStopped,
        }
    }
}

impl From<Swap> for SwapShape {
    fn from(swap: Swap) -> Self {
        match swap {
            Swap::RuntimeDefault => Self::RuntimeDefault,
            Swap::Unlimited => Self::Unlimited,
            Swap::TotalBytes(bytes) => Self::TotalBytes(bytes),
        }
    }
}

impl From<SwapShape> for Swap {
    fn from(swap: SwapShape) -> Self {
        match swap {
            SwapShape::RuntimeDefault => Self::RuntimeDefault,
            SwapShape::Unlimited => Self::Unlimited,
            SwapShape::TotalBytes(bytes) => Self::TotalBytes(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_an_earlier_record_is_an_entrypoint() {
        let read = |fields: &str| {
            let text =
                format!(r#"{{"image": "x", {fields} "restart": "no", "swap": "runtime_default"}}"#);
            let shape: ContainerShape = serde_json::from_str(&text).unwrap();
            let ContainerSpec { entrypoint, command, args, .. } = shape.read().unwrap();
            [entrypoint, command, args].map(|words| words.join(" "))
        };
        assert_eq!(read(r#""command": ["a", "b"], "args": ["c"],"#), ["a b", "", "c"]);
        assert_eq!(read(r#""entrypoint": [], "command": ["a"],"#), ["", "a", ""]);
        assert_eq!(read(r#""entrypoint": ["e"], "args": ["c"],"#), ["e", "", "c"]);
        assert_eq!(read(r#""args": ["c"],"#), ["", "", "c"]);
        let now = ContainerSpec { command: vec![Arc::from("a")], ..ContainerSpec::default() };
        let text = serde_json::to_string(&ContainerShape::from(&now)).unwrap();
        assert!(text.contains(r#""entrypoint":[],"command":["a"]"#), "{text}");
    }
}
