//! What a client of the control package asks for, as a draft.
//!
//! Field by field, nothing judged: that is [`check`](persys_model::spec::check)'s. Only what a
//! draft cannot say is refused here.

use persys_model::fault::Faults;
use persys_model::spec::check::{CheckedApply, check_apply, check_unfetched};
use persys_model::spec::draft::{
    ApplyDraft, BindDraft, CloudInitDraft, ComposeDraft, ConstraintDraft, ContainerDraft,
    DiskDraft, Draft, LimitsDraft, NetworkDraft, PlacementDraft, PortDraft, ResourcesDraft,
    SecretDraft, TolerationDraft, VmDraft, VolumeDraft,
};

use super::at::{At, reading};
use super::{health, packed};
use crate::control::v1 as wire;
use crate::control::v1::workload_spec::Workload;

/// The change a request means, or everything that is wrong with it.
pub fn apply(request: wire::ApplyWorkloadRequest) -> Result<CheckedApply, Faults> {
    reading(|at| {
        let draft = apply_draft(at, request);
        check_apply(&draft).map_err(|faults| at.adopt(&faults)).ok()
    })
}

/// Everything that is wrong with a request as far as its sender can know: a file in a repository
/// is fetched by who receives it.
pub fn unfetched(request: wire::ApplyWorkloadRequest) -> Result<(), Faults> {
    reading(|at| {
        let draft = apply_draft(at, request);
        check_unfetched(&draft).map_err(|faults| at.adopt(&faults)).ok()
    })
}

/// The request as a draft, or what of it no draft can say.
pub fn from_apply(request: wire::ApplyWorkloadRequest) -> Result<ApplyDraft, Faults> {
    reading(|at| Some(apply_draft(at, request)))
}

fn apply_draft(at: &At<'_>, request: wire::ApplyWorkloadRequest) -> ApplyDraft {
    ApplyDraft {
        workload_id: request.workload_id,
        revision_id: request.revision_id,
        desired_state: request.desired_state,
        spec: request.spec.map(|spec| from_client(&at.field("spec"), spec)),
    }
}

/// A spec as a client may write it: it may be packed. What the scheduler finds out is not taken
/// from it, but may be there, so that what was shown can be applied again.
fn from_client(at: &At<'_>, spec: wire::WorkloadSpec) -> Draft {
    let mut draft = draft(spec);
    packed::unpack(at, &mut draft);
    draft
}

/// A spec as it stands.
pub(super) fn draft(spec: wire::WorkloadSpec) -> Draft {
    let resources = spec.resources.unwrap_or_default();
    let mut draft = Draft {
        workload_type: spec.r#type,
        resources: ResourcesDraft {
            cpu_millicores: resources.cpu_millicores,
            memory_mb: resources.memory_mb,
            disk_gb: resources.disk_gb,
        },
        metadata: spec.metadata,
        placement: spec.placement.map(placement).unwrap_or_default(),
        secrets: spec.secrets.into_iter().map(secret).collect(),
        stop_grace: spec.stop_grace,
        health: health::draft(spec.health),
        ..Draft::default()
    };
    match spec.workload {
        Some(Workload::Container(body)) => draft.container = Some(container(body)),
        Some(Workload::Compose(body)) => draft.compose = Some(compose(body)),
        Some(Workload::Vm(body)) => draft.vm = Some(vm(body)),
        None => {}
    }
    draft
}

fn secret(one: wire::SecretUse) -> SecretDraft {
    let wire::SecretUse { name, env, path, mode, uid, gid, signal } = one;
    SecretDraft { name, env, path, mode, uid: uid.into(), gid: gid.into(), signal }
}

fn container(body: wire::ContainerSpec) -> ContainerDraft {
    let limits = body.limits.unwrap_or_default();
    ContainerDraft {
        image: body.image,
        entrypoint: body.entrypoint,
        command: body.command,
        args: body.args,
        env: body.env,
        volumes: body.volumes.into_iter().map(bind).collect(),
        ports: body.ports.into_iter().map(port).collect(),
        restart_policy: body.restart_policy,
        max_retry_count: body.max_retry_count,
        privileged: body.privileged,
        labels: body.labels,
        resources: LimitsDraft {
            cpu_shares: limits.cpu_shares,
            memory_bytes: limits.memory_bytes,
            memory_swap_bytes: limits.memory_swap_bytes,
            cpu_unlimited: limits.cpu_unlimited,
            memory_unlimited: limits.memory_unlimited,
        },
        managed_volumes: body.managed_volumes.into_iter().map(volume).collect(),
    }
}

fn bind(mount: wire::VolumeMount) -> BindDraft {
    BindDraft {
        host_path: mount.host_path,
        container_path: mount.container_path,
        read_only: mount.read_only,
    }
}

fn port(port: wire::Port) -> PortDraft {
    PortDraft {
        host_port: port.host_port,
        container_port: port.container_port,
        protocol: port.protocol,
        host_ip: port.host_ip,
    }
}

fn volume(volume: wire::ManagedVolumeSpec) -> VolumeDraft {
    VolumeDraft {
        name: volume.name,
        driver: volume.driver,
        size_gb: volume.size_gb,
        access_mode: volume.access_mode,
        fs_type: volume.fs_type,
        mount_path: volume.mount_path,
        read_only: volume.read_only,
        retain_policy: volume.retain_policy,
    }
}

/// The branch that persysctl sends with every stack, also beside a file of its own.
const DEFAULT_BRANCH: &str = "main";

fn compose(mut body: wire::ComposeSpec) -> ComposeDraft {
    if body.git_repo.is_empty() && !body.inline_yaml.is_empty() && body.git_ref == DEFAULT_BRANCH {
        body.git_ref.clear();
    }
    ComposeDraft {
        source_type: body.source_type,
        git_repo: body.git_repo,
        git_ref: body.git_ref,
        git_path: body.git_path,
        fetched: None,
        inline_yaml: body.inline_yaml,
        project_name: body.project_name,
        compose_yaml: String::new(),
        env: body.env,
    }
}

fn vm(body: wire::VmSpec) -> VmDraft {
    VmDraft {
        name: body.name,
        vcpus: body.vcpus,
        memory_mb: body.memory_mb,
        disks: body.disks.into_iter().map(disk).collect(),
        networks: body.networks.into_iter().map(network).collect(),
        cloud_init: String::new(),
        cloud_init_config: body.cloud_init.map(cloud_init).unwrap_or_default(),
        os_image: body.os_image,
        disk_gb: body.disk_gb,
        runtime: body.runtime,
        managed_volumes: body.managed_volumes.into_iter().map(volume).collect(),
        metadata: body.metadata,
    }
}

fn disk(disk: wire::DiskConfig) -> DiskDraft {
    DiskDraft {
        pool_name: disk.pool_name,
        size_gb: disk.size_gb,
        mount_point: disk.mount_point,
        path: disk.path,
        device: disk.device,
        format: disk.format,
        disk_type: disk.r#type,
        boot: disk.boot,
        backing_file: disk.backing_file,
        storage: disk.storage,
    }
}

fn network(network: wire::NetworkConfig) -> NetworkDraft {
    NetworkDraft {
        bridge: network.bridge,
        dhcp: network.dhcp,
        static_ip: network.static_ip,
        network: network.network,
        mac_address: network.mac_address,
        ip_address: String::new(),
        model: network.model,
        host_dev_name: String::new(),
    }
}

fn cloud_init(config: wire::CloudInitConfig) -> CloudInitDraft {
    CloudInitDraft {
        user_data: config.user_data,
        meta_data: config.meta_data,
        network_config: config.network_config,
        vendor_data: config.vendor_data,
        username: config.username,
        ssh_public_key: config.ssh_public_key,
        password: config.password,
    }
}

fn placement(rules: wire::PlacementRules) -> PlacementDraft {
    let constraint = |one: wire::Constraint| ConstraintDraft {
        key: one.key,
        operator: one.operator,
        values: one.values,
    };
    let toleration = |one: wire::Toleration| TolerationDraft {
        key: one.key,
        value: one.value,
        any_value: one.any_value,
    };
    PlacementDraft {
        constraints: rules.constraints.into_iter().map(constraint).collect(),
        tolerations: rules.tolerations.into_iter().map(toleration).collect(),
        strategy: rules.strategy,
        class: rules.class,
        on_node_loss: rules.on_node_loss,
    }
}
