//! A checked spec on the wire between our two ends, whole, both ways.
//!
//! Invariant: reading what was written gives the same spec. Where a spec has what was only implied
//! in the request (device names, a root disk, a reservation), it is written out, so that the other
//! end decides nothing anew.

use persys_model::fault::Faults;
use persys_model::labels::{Constraint, Rule, Toleration};
use persys_model::resources::Disk;
use persys_model::secret::{SecretSeen, SecretUse, Signal};
use persys_model::spec::check::check;
use persys_model::spec::compose::ComposeSource;
use persys_model::spec::container::{Limits, Port, RestartPolicy, Swap};
use persys_model::spec::draft::Fetched;
use persys_model::spec::vm::{
    Address, Attach, CloudInit, DiskFormat, DiskSource, NicModel, VmDisk, VmNetwork,
};
use persys_model::spec::volume::{AccessMode, ManagedVolume};
use persys_model::spec::{
    Class, ComposeSpec, ContainerSpec, HostPort, Kind, OnNodeLoss, Placement, Protocol, Spec,
    Strategy, VmSpec,
};

use super::at::{At, reading};
use super::draft::draft;
use super::health;
use super::leaf::{or_empty, revealed, signed, small, texts, words};
use crate::control::v1 as wire;
use crate::control::v1::workload_spec::Workload;

/// The spec on the wire.
#[must_use]
pub fn to_wire(spec: &Spec) -> wire::WorkloadSpec {
    let workload = match &spec.kind {
        Kind::Container(body) => Workload::Container(container(body)),
        Kind::Compose(body) => Workload::Compose(compose(body)),
        Kind::Vm(body) => Workload::Vm(vm(body)),
    };
    wire::WorkloadSpec {
        r#type: spec.workload_type().word().to_owned(),
        resources: Some(wire::ResourceRequirements {
            cpu_millicores: signed(spec.resources.compute.cpu_millicores),
            memory_mb: signed(spec.resources.compute.memory_mib),
            disk_gb: signed(asked_disk_gib(spec)),
        }),
        workload: Some(workload),
        metadata: texts(&spec.metadata),
        placement: placement(&spec.placement),
        // Those of a stack are read from its file again.
        secrets: match &spec.kind {
            Kind::Compose(_) => Vec::new(),
            Kind::Container(_) | Kind::Vm(_) => spec.secrets.iter().map(secret).collect(),
        },
        stop_grace: spec.stop_grace_ms.map(grace).unwrap_or_default(),
        health: health::to_wire(&spec.health),
    }
}

/// A time to end by itself, as it is written.
fn grace(ms: u64) -> String {
    format!("{}s", ms / 1000)
}

/// The spec in an order to an agent of ours. An agent of the version before takes `command` for the
/// entrypoint and knows no other, so an entrypoint goes there; later agents read the same.
#[must_use]
pub(super) fn to_order(spec: &Spec) -> wire::WorkloadSpec {
    let mut spec = to_wire(spec);
    if let Some(Workload::Container(body)) = &mut spec.workload
        && !body.entrypoint.is_empty()
    {
        body.command_is_cmd = false;
        let command = std::mem::replace(&mut body.command, std::mem::take(&mut body.entrypoint));
        // None from a spec that was checked.
        body.args.splice(0..0, command);
    }
    spec
}

/// The spec a scheduler or agent of ours wrote, or everything that is wrong with it.
pub fn from_wire(spec: wire::WorkloadSpec) -> Result<Spec, Faults> {
    reading(|at| read(at, spec))
}

/// The same, within a larger message. Faults of the check begin with `spec`, as the field is named
/// wherever one stands.
///
/// What was found in a Compose file is not taken over: the file is read again, and says the same.
pub(super) fn read(at: &At<'_>, mut spec: wire::WorkloadSpec) -> Option<Spec> {
    let fetched = match &mut spec.workload {
        Some(Workload::Compose(body)) if !body.git_commit.is_empty() => Some(Fetched {
            commit: std::mem::take(&mut body.git_commit),
            path: body.git_path.clone(),
            file: std::mem::take(&mut body.git_file),
        }),
        Some(Workload::Compose(_) | Workload::Container(_) | Workload::Vm(_)) | None => None,
    };
    let earlier = match &spec.workload {
        Some(Workload::Container(body)) => !body.command_is_cmd,
        Some(Workload::Compose(_) | Workload::Vm(_)) | None => false,
    };
    let mut draft = draft(spec);
    if let Some(body) = &mut draft.compose {
        body.fetched = fetched;
    }
    if let Some(body) =
        draft.container.as_mut().filter(|body| earlier && body.entrypoint.is_empty())
    {
        body.entrypoint = std::mem::take(&mut body.command);
    }
    match check(&draft) {
        Ok(spec) => Some(spec),
        Err(faults) => {
            at.adopt(&faults);
            None
        }
    }
}

fn secret(SecretUse { secret, seen }: &SecretUse) -> wire::SecretUse {
    let name = secret.to_string();
    match seen {
        SecretSeen::Env(env) => {
            wire::SecretUse { name, env: env.to_string(), ..wire::SecretUse::default() }
        }
        SecretSeen::File { path, mode, uid, gid, signal } => wire::SecretUse {
            name,
            env: String::new(),
            path: path.to_string(),
            mode: format!("{mode:04o}"),
            uid: *uid,
            gid: *gid,
            signal: signal.map(Signal::word).unwrap_or_default().to_owned(),
        },
    }
}

/// What was asked for beside the disks and volumes, which are counted anew when it is read.
fn asked_disk_gib(spec: &Spec) -> u64 {
    let mut own = Disk::none();
    let volumes = match &spec.kind {
        Kind::Container(body) => body.managed_volumes.as_slice(),
        Kind::Compose(_) => &[],
        Kind::Vm(body) => {
            for disk in &body.disks {
                match &disk.source {
                    DiskSource::Pool { pool, size_gib } => own.add(pool.clone(), *size_gib),
                    DiskSource::External { create_gib, .. } => {
                        own.add(None, create_gib.unwrap_or(0));
                    }
                    DiskSource::Driver { .. } | DiskSource::Rbd { .. } | DiskSource::Nfs { .. } => {
                    }
                }
            }
            body.managed_volumes.as_slice()
        }
    };
    for volume in volumes.iter().filter(|volume| volume.driver.is_local()) {
        own.add(None, volume.size_gib);
    }
    in_default_pool(&spec.resources.disk).saturating_sub(in_default_pool(&own))
}

fn in_default_pool(disk: &Disk) -> u64 {
    disk.iter().find(|(pool, _)| pool.is_none()).map_or(0, |(_, gib)| gib)
}

fn container(body: &ContainerSpec) -> wire::ContainerSpec {
    let (policy, max_retry_count) = restart(body.restart);
    let bind = |bind: &persys_model::spec::container::Bind| wire::VolumeMount {
        host_path: bind.host_path.to_string(),
        container_path: bind.container_path.to_string(),
        read_only: bind.read_only,
    };
    wire::ContainerSpec {
        image: body.image.to_string(),
        entrypoint: words(&body.entrypoint),
        command_is_cmd: true,
        command: words(&body.command),
        env: revealed(&body.env),
        volumes: body.binds.iter().map(bind).collect(),
        ports: body.ports.iter().copied().map(port).collect(),
        restart_policy: policy.to_owned(),
        privileged: body.privileged,
        managed_volumes: body.managed_volumes.iter().map(volume).collect(),
        args: words(&body.args),
        labels: texts(&body.labels),
        limits: limits(&body.limits),
        max_retry_count,
    }
}

fn port(port: Port) -> wire::Port {
    wire::Port {
        host_port: port.host.map_or(0, i32::from),
        container_port: i32::from(port.container),
        protocol: protocol(port.protocol).to_owned(),
        host_ip: port.address.map(|address| address.to_string()).unwrap_or_default(),
    }
}

/// The word for a transport.
pub(super) fn protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    }
}

/// The word for a restart policy, and its count.
pub(super) fn restart(policy: RestartPolicy) -> (&'static str, i32) {
    match policy {
        RestartPolicy::No => ("no", 0),
        RestartPolicy::Always => ("always", 0),
        RestartPolicy::AlwaysUpTo { max_retries } => ("always", small(max_retries)),
        RestartPolicy::OnFailure { max_retries } => ("on-failure", small(max_retries)),
        RestartPolicy::UnlessStopped => ("unless-stopped", 0),
    }
}

fn limits(limits: &Limits) -> Option<wire::ResourceLimits> {
    (*limits != Limits::default()).then(|| wire::ResourceLimits {
        cpu_shares: limits.cpu_shares.map_or(0, i64::from),
        memory_bytes: limits.memory_bytes.map_or(0, signed),
        memory_swap_bytes: swap(limits.swap),
        cpu_unlimited: limits.open.cpu,
        memory_unlimited: limits.open.memory,
    })
}

/// Memory and swap together, as the wire counts them.
pub(super) fn swap(swap: Swap) -> i64 {
    match swap {
        Swap::RuntimeDefault => 0,
        Swap::Unlimited => -1,
        Swap::TotalBytes(bytes) => signed(bytes),
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

/// The word for an access mode.
pub(super) fn access(mode: AccessMode) -> &'static str {
    match mode {
        AccessMode::ReadWriteOnce => "ReadWriteOnce",
        AccessMode::ReadOnlyMany => "ReadOnlyMany",
        AccessMode::ReadWriteMany => "ReadWriteMany",
    }
}

/// The word for what becomes of a volume's data.
pub(super) fn retain(retain: bool) -> &'static str {
    if retain { "Retain" } else { "Delete" }
}

fn compose(body: &ComposeSpec) -> wire::ComposeSpec {
    let mut compose = wire::ComposeSpec {
        env: revealed(&body.env),
        project_name: or_empty(body.project.as_ref()),
        found_ports: body.host_ports.iter().copied().map(found).collect(),
        found_volumes: body.has_named_volumes,
        ..wire::ComposeSpec::default()
    };
    match &body.source {
        ComposeSource::Inline(text) => {
            "inline".clone_into(&mut compose.source_type);
            text.reveal().clone_into(&mut compose.inline_yaml);
        }
        ComposeSource::Git { repository, reference, path, commit, file } => {
            "git".clone_into(&mut compose.source_type);
            compose.git_repo = repository.to_string();
            compose.git_ref = reference.to_string();
            compose.git_path = path.to_string();
            compose.git_commit = commit.to_string();
            file.reveal().clone_into(&mut compose.git_file);
        }
    }
    compose
}

fn found(port: HostPort) -> wire::Port {
    wire::Port {
        host_port: i32::from(port.port),
        container_port: 0,
        protocol: protocol(port.protocol).to_owned(),
        host_ip: String::new(),
    }
}

fn vm(body: &VmSpec) -> wire::VmSpec {
    wire::VmSpec {
        vcpus: small(body.vcpus),
        memory_mb: signed(body.memory_mib),
        disks: body.disks.iter().map(disk).collect(),
        networks: body.networks.iter().map(network).collect(),
        cloud_init: cloud_init(&body.cloud_init),
        os_image: or_empty(body.os_image.as_ref()),
        managed_volumes: body.managed_volumes.iter().map(volume).collect(),
        name: or_empty(body.name.as_ref()),
        // The root disk is the first of the disks by now.
        disk_gb: 0,
        metadata: texts(&body.metadata),
        runtime: String::new(),
    }
}

fn disk(disk: &VmDisk) -> wire::DiskConfig {
    let mut config = wire::DiskConfig {
        device: disk.device.to_string(),
        format: format(disk.format).to_owned(),
        r#type: disk_type(disk).to_owned(),
        boot: disk.boot,
        backing_file: or_empty(disk.backing_file.as_ref()),
        path: path(&disk.source),
        ..wire::DiskConfig::default()
    };
    match &disk.source {
        DiskSource::Pool { pool, size_gib } => {
            config.pool_name = pool.as_ref().map(ToString::to_string).unwrap_or_default();
            config.size_gb = signed(*size_gib);
        }
        DiskSource::External { create_gib, .. } => config.size_gb = signed(create_gib.unwrap_or(0)),
        DiskSource::Driver { driver, size_gib } => {
            driver.word().clone_into(&mut config.storage);
            config.size_gb = signed(*size_gib);
        }
        DiskSource::Rbd { .. } | DiskSource::Nfs { .. } => {}
    }
    config
}

/// Where a disk of the user's is; empty for one we make.
pub(super) fn path(source: &DiskSource) -> String {
    match source {
        DiskSource::Pool { .. } | DiskSource::Driver { .. } => String::new(),
        DiskSource::External { path, .. } => path.to_string(),
        DiskSource::Rbd { pool, image } => format!("rbd:{pool}/{image}"),
        DiskSource::Nfs { host, port: Some(port), path } => format!("nfs://{host}:{port}{path}"),
        DiskSource::Nfs { host, port: None, path } => format!("nfs://{host}{path}"),
    }
}

/// The word for a layout.
pub(super) fn format(format: DiskFormat) -> &'static str {
    match format {
        DiskFormat::Qcow2 => "qcow2",
        DiskFormat::Raw => "raw",
        DiskFormat::Iso => "iso",
    }
}

/// The word for a kind of disk.
pub(super) fn disk_type(disk: &VmDisk) -> &'static str {
    if disk.cdrom { "cdrom" } else { "disk" }
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
        Address::Dhcp => config.dhcp = true,
        Address::Static { ip, prefix: Some(bits) } => config.static_ip = format!("{ip}/{bits}"),
        Address::Static { ip, prefix: None } => config.static_ip = ip.to_string(),
    }
    config
}

/// Six pairs of hex digits.
pub(super) fn mac(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// The word for a kind of card.
pub(super) fn model(model: NicModel) -> &'static str {
    match model {
        NicModel::Virtio => "virtio",
        NicModel::E1000 => "e1000",
        NicModel::E1000e => "e1000e",
        NicModel::Rtl8139 => "rtl8139",
    }
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

fn placement(placement: &Placement) -> Option<wire::PlacementRules> {
    (*placement != Placement::default()).then(|| wire::PlacementRules {
        constraints: placement.constraints.iter().map(constraint).collect(),
        tolerations: placement.tolerations.iter().map(toleration).collect(),
        strategy: match placement.strategy {
            Strategy::Spread => "spread".to_owned(),
            Strategy::BinPack => "binpack".to_owned(),
        },
        class: match placement.class {
            Class::Default => "default".to_owned(),
            Class::Exclusive => "exclusive".to_owned(),
        },
        on_node_loss: match placement.on_node_loss {
            OnNodeLoss::Auto => "auto".to_owned(),
            OnNodeLoss::Move => "move".to_owned(),
            OnNodeLoss::Stay => "stay".to_owned(),
        },
    })
}

fn constraint(constraint: &Constraint) -> wire::Constraint {
    let (operator, values) = match &constraint.rule {
        Rule::Exists => ("exists", None),
        Rule::Absent => ("absent", None),
        Rule::In(values) => ("in", Some(values)),
        Rule::NotIn(values) => ("not-in", Some(values)),
    };
    wire::Constraint {
        key: constraint.key.to_string(),
        operator: operator.to_owned(),
        values: values.into_iter().flatten().map(ToString::to_string).collect(),
    }
}

fn toleration(toleration: &Toleration) -> wire::Toleration {
    wire::Toleration {
        key: toleration.key.to_string(),
        value: or_empty(toleration.value.as_ref()),
        any_value: toleration.value.is_none(),
    }
}
