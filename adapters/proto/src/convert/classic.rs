//! A checked spec as agents in the field read it.
//!
//! They know the agent package as it was before us. What a spec says and they could not do is
//! refused by name, so that a workload on an old node runs as it says or not at all.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use persys_model::fault::Faults;
use persys_model::id::WorkloadId;
use persys_model::resources::Compute;
use persys_model::spec::check::limits::{CONTAINER_MEMORY_MIN_BYTES, CPU_SHARES};
use persys_model::spec::container::{Bind, Port, RestartPolicy};
use persys_model::spec::vm::{Address, Attach, CloudInit, DiskSource, VmDisk, VmNetwork};
use persys_model::spec::volume::ManagedVolume;
use persys_model::spec::{Class, ComposeSpec, ContainerSpec, Kind, Spec, VmSpec, WorkloadType};

use super::at::{At, reading};
use super::leaf::{or_empty, revealed, signed, small, texts, words};
use super::spec::{access, disk_type, format, mac, model, path, protocol, restart, retain, swap};
use crate::agent::v1 as wire;
use crate::agent::v1::workload_spec::Spec as Body;

const MIB: u64 = 1024 * 1024;

/// Where old agents look for disks they make.
const IMAGES: &str = "/var/lib/libvirt/images";

/// The spec for an old agent, or what it could not do.
pub fn to_wire(workload: &WorkloadId, spec: &Spec) -> Result<wire::WorkloadSpec, Faults> {
    reading(|at| {
        let at = at.field("spec");
        if spec.placement.class == Class::Exclusive {
            at.field("placement")
                .field("class")
                .fault("exclusive work needs an agent that can stop it when cut off");
        }
        if !spec.secrets.is_empty() {
            at.field("secrets").fault("need an agent that keeps them sealed");
        }
        let body = match &spec.kind {
            Kind::Container(body) => {
                Body::Container(container(&at.field("container"), body, spec.resources.compute))
            }
            Kind::Compose(body) => Body::Compose(compose(workload, body)),
            Kind::Vm(body) => Body::Vm(vm(&at.field("vm"), workload, body)),
        };
        Some(wire::WorkloadSpec { spec: Some(body) })
    })
}

/// The number of a type.
#[must_use]
pub fn workload_type(kind: WorkloadType) -> wire::WorkloadType {
    match kind {
        WorkloadType::Container => wire::WorkloadType::Container,
        WorkloadType::Compose => wire::WorkloadType::Compose,
        WorkloadType::Vm => wire::WorkloadType::Vm,
    }
}

/// Old agents have one place for what is reserved and what is allowed: the limits. The weight is
/// the millicores, as old schedulers send it.
fn container(at: &At<'_>, body: &ContainerSpec, reserved: Compute) -> wire::ContainerSpec {
    if body.privileged {
        at.field("privileged").fault("is not known to this agent, which would drop it");
    }
    if !body.entrypoint.is_empty() {
        at.field("entrypoint").fault("this agent keeps the entrypoint of the image");
    }
    if matches!(body.restart, RestartPolicy::AlwaysUpTo { .. }) {
        at.field("max_retry_count").fault("works on this agent with on-failure only");
    }
    let ports = at.field("ports");
    for (nth, _) in body.ports.iter().enumerate().filter(|(_, port)| port.address.is_some()) {
        ports.index(nth).field("host_ip").fault("this agent publishes ports on every address");
    }
    let (policy, max_retry_count) = restart(body.restart);
    wire::ContainerSpec {
        image: body.image.to_string(),
        command: words(&body.command),
        args: words(&body.args),
        env: revealed(&body.env),
        volumes: body.binds.iter().map(bind).collect(),
        ports: body.ports.iter().copied().map(port).collect(),
        resources: Some(wire::ResourceLimits {
            cpu_shares: body.limits.cpu_shares.map_or_else(|| weight(reserved), i64::from),
            memory_bytes: match body.limits.memory_bytes {
                Some(bytes) => signed(bytes),
                None if body.limits.open.memory => 0,
                None => memory(reserved),
            },
            memory_swap_bytes: swap(body.limits.swap),
        }),
        restart_policy: Some(wire::RestartPolicy { policy: policy.to_owned(), max_retry_count }),
        labels: texts(&body.labels),
        managed_volumes: body.managed_volumes.iter().map(volume).collect(),
        privileged: false,
        cpu_millicores: if body.limits.open.cpu { 0 } else { signed(reserved.cpu_millicores) },
        pids_limit: 0,
    }
}

/// The millicores, within what the kernel takes for a weight.
fn weight(reserved: Compute) -> i64 {
    let (least, most) = CPU_SHARES;
    signed(reserved.cpu_millicores).clamp(least, most)
}

/// What is reserved, and never so little that Docker refuses it.
fn memory(reserved: Compute) -> i64 {
    signed(reserved.memory_mib.saturating_mul(MIB)).max(CONTAINER_MEMORY_MIN_BYTES)
}

fn bind(bind: &Bind) -> wire::VolumeMount {
    wire::VolumeMount {
        host_path: bind.host_path.to_string(),
        container_path: bind.container_path.to_string(),
        read_only: bind.read_only,
    }
}

fn port(port: Port) -> wire::PortMapping {
    wire::PortMapping {
        host_port: port.host.map_or(0, i32::from),
        container_port: i32::from(port.container),
        protocol: protocol(port.protocol).to_owned(),
    }
}

fn volume(volume: &ManagedVolume) -> wire::ManagedVolumeSpec {
    wire::ManagedVolumeSpec {
        name: volume.name.to_string(),
        driver: volume.driver.word().to_owned(),
        size_gb: signed(volume.size_gib),
        access_mode: access(volume.access).to_owned(),
        fs_type: volume.fs_type.to_string(),
        mount_path: volume.mount_path.to_string(),
        read_only: volume.read_only,
        retain_policy: retain(volume.retain).to_owned(),
    }
}

/// Such an agent takes the file itself, wherever it came from.
fn compose(workload: &WorkloadId, body: &ComposeSpec) -> wire::ComposeSpec {
    wire::ComposeSpec {
        project_name: body.project.as_ref().map_or(workload.as_str(), |name| name).to_owned(),
        compose_yaml: STANDARD.encode(body.source.file().reveal()),
        env: revealed(&body.env),
    }
}

fn vm(at: &At<'_>, workload: &WorkloadId, body: &VmSpec) -> wire::VmSpec {
    // With an image the agent makes the first disk itself, as an overlay.
    let (root, others) = match (&body.os_image, body.disks.split_first()) {
        (Some(_), Some((root, others))) => (Some(root), others),
        (None, _) | (_, None) => (None, body.disks.as_slice()),
    };
    let disks = at.field("disks");
    for (nth, one) in body.disks.iter().enumerate() {
        if matches!(&one.source, DiskSource::Pool { pool: Some(_), .. }) {
            disks.index(nth).field("pool_name").fault("this agent has no pools to choose from");
        }
    }
    let root_gib = root.map_or(0, |root| match root.source {
        DiskSource::Pool { size_gib, .. } | DiskSource::Driver { size_gib, .. } => size_gib,
        DiskSource::External { create_gib, .. } => create_gib.unwrap_or(0),
        DiskSource::Rbd { .. } | DiskSource::Nfs { .. } => 0,
    });
    wire::VmSpec {
        name: body.name.as_ref().map_or(workload.as_str(), |name| name).to_owned(),
        vcpus: small(body.vcpus),
        memory_mb: signed(body.memory_mib),
        disks: others.iter().map(|one| disk(workload, one)).collect(),
        networks: body.networks.iter().map(network).collect(),
        cloud_init: String::new(),
        metadata: texts(&body.metadata),
        cloud_init_config: cloud_init(&body.cloud_init),
        managed_volumes: body.managed_volumes.iter().map(volume).collect(),
        os_image: or_empty(body.os_image.as_ref()),
        disk_gb: signed(root_gib),
        runtime: "libvirt".to_owned(),
    }
}

fn disk(workload: &WorkloadId, disk: &VmDisk) -> wire::DiskConfig {
    let format = format(disk.format);
    let (path, size_gib, storage) = match &disk.source {
        DiskSource::Pool { size_gib, .. } => {
            let ending = if format == "raw" { "img" } else { format };
            let path = format!("{IMAGES}/{workload}-{}.{ending}", disk.device);
            (path, *size_gib, "")
        }
        DiskSource::External { create_gib, .. } => {
            (path(&disk.source), create_gib.unwrap_or(0), "")
        }
        DiskSource::Driver { driver, size_gib } => (String::new(), *size_gib, driver.word()),
        DiskSource::Rbd { .. } | DiskSource::Nfs { .. } => (path(&disk.source), 0, ""),
    };
    wire::DiskConfig {
        path,
        device: disk.device.to_string(),
        format: format.to_owned(),
        size_gb: signed(size_gib),
        r#type: disk_type(disk).to_owned(),
        boot: disk.boot,
        backing_file: or_empty(disk.backing_file.as_ref()),
        storage: storage.to_owned(),
    }
}

fn network(network: &VmNetwork) -> wire::NetworkConfig {
    let mut config = wire::NetworkConfig {
        mac_address: network.mac.map(mac).unwrap_or_default(),
        model: model(network.model).to_owned(),
        ..wire::NetworkConfig::default()
    };
    match &network.attach {
        Attach::Network(name) => config.network = name.to_string(),
        Attach::Bridge(name) => config.bridge = name.to_string(),
    }
    match network.address {
        Address::Dhcp => {}
        Address::Static { ip, prefix: Some(bits) } => config.ip_address = format!("{ip}/{bits}"),
        Address::Static { ip, prefix: None } => config.ip_address = ip.to_string(),
    }
    config
}

fn cloud_init(config: &CloudInit) -> Option<wire::CloudInitConfig> {
    let login = config.login.as_ref();
    (*config != CloudInit::default()).then(|| wire::CloudInitConfig {
        user_data: config.user_data.reveal().to_owned(),
        meta_data: config.meta_data.reveal().to_owned(),
        network_config: config.network_config.reveal().to_owned(),
        vendor_data: config.vendor_data.reveal().to_owned(),
        username: or_empty(login.and_then(|login| login.username.as_ref())),
        ssh_public_key: or_empty(login.and_then(|login| login.ssh_public_key.as_ref())),
        password: login
            .and_then(|login| login.password_hash.as_ref())
            .map(|hash| hash.reveal().to_owned())
            .unwrap_or_default(),
    })
}
