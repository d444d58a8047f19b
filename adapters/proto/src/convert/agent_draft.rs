//! What a client of the agent package asks for, as a draft.
//!
//! Old schedulers and persysctl speak so to an agent. Its two closed sets are enums here; a number
//! nobody knows is a fault.

use persys_model::fault::Faults;
use persys_model::spec::draft::{
    ApplyDraft, BindDraft, CloudInitDraft, ComposeDraft, ContainerDraft, DiskDraft, Draft,
    LimitsDraft, NetworkDraft, PortDraft, ResourcesDraft, VmDraft, VolumeDraft,
};

use super::at::{At, reading};
use crate::agent::v1 as wire;
use crate::agent::v1::workload_spec::Spec as Body;

/// The request as a draft, or what of it no draft can say. Tokens are not looked at.
pub fn from_apply(request: wire::ApplyWorkloadRequest) -> Result<ApplyDraft, Faults> {
    reading(|at| apply_draft(at, request))
}

pub(super) fn apply_draft(at: &At<'_>, request: wire::ApplyWorkloadRequest) -> Option<ApplyDraft> {
    let workload_type = workload_type(&at.field("type"), request.r#type);
    let desired_state = desired_state(&at.field("desired_state"), request.desired_state);
    let spec = request.spec.map(|spec| draft(&at.field("spec"), spec));
    let workload_type = workload_type?;
    if spec.is_none() && !workload_type.is_empty() {
        return at.field("spec").refuse("is missing");
    }
    Some(ApplyDraft {
        workload_id: request.id,
        revision_id: request.revision_id,
        desired_state: desired_state?.to_owned(),
        spec: spec.map(|spec| Draft { workload_type: workload_type.to_owned(), ..spec }),
    })
}

/// The word for a type. A micro-VM has its own, so that the check refuses it by name.
fn workload_type(at: &At<'_>, number: i32) -> Option<&'static str> {
    match wire::WorkloadType::try_from(number) {
        Ok(wire::WorkloadType::Unspecified) => Some(""),
        Ok(wire::WorkloadType::Container) => Some("container"),
        Ok(wire::WorkloadType::Compose) => Some("compose"),
        Ok(wire::WorkloadType::Vm) => Some("vm"),
        Ok(wire::WorkloadType::Microvm) => Some("microvm"),
        Err(_) => at.refuse(format!("{number} is not a known type")),
    }
}

fn desired_state(at: &At<'_>, number: i32) -> Option<&'static str> {
    match wire::DesiredState::try_from(number) {
        Ok(wire::DesiredState::Unspecified) => Some(""),
        Ok(wire::DesiredState::Running) => Some("Running"),
        Ok(wire::DesiredState::Stopped) => Some("Stopped"),
        Err(_) => at.refuse(format!("{number} is not a known state")),
    }
}

fn draft(at: &At<'_>, spec: wire::WorkloadSpec) -> Draft {
    let mut draft = Draft::default();
    match spec.spec {
        Some(Body::Container(body)) => {
            if body.pids_limit != 0 {
                let here = at.field("container");
                here.field("pids_limit").fault("is not supported");
            }
            draft.resources =
                ResourcesDraft { cpu_millicores: body.cpu_millicores, ..Default::default() };
            draft.container = Some(container(body));
        }
        Some(Body::Compose(body)) => draft.compose = Some(compose(body)),
        Some(Body::Vm(body)) => draft.vm = Some(vm(body)),
        None => {}
    }
    draft
}

fn container(body: wire::ContainerSpec) -> ContainerDraft {
    let restart = body.restart_policy.unwrap_or_default();
    let limits = body.resources.unwrap_or_default();
    let bind = |mount: wire::VolumeMount| BindDraft {
        host_path: mount.host_path,
        container_path: mount.container_path,
        read_only: mount.read_only,
    };
    let port = |port: wire::PortMapping| PortDraft {
        host_port: port.host_port,
        container_port: port.container_port,
        protocol: port.protocol,
        host_ip: String::new(),
    };
    ContainerDraft {
        image: body.image,
        entrypoint: Vec::new(),
        command: body.command,
        args: body.args,
        env: body.env,
        volumes: body.volumes.into_iter().map(bind).collect(),
        ports: body.ports.into_iter().map(port).collect(),
        restart_policy: restart.policy,
        max_retry_count: restart.max_retry_count,
        privileged: body.privileged,
        labels: body.labels,
        resources: LimitsDraft {
            cpu_shares: limits.cpu_shares,
            memory_bytes: limits.memory_bytes,
            memory_swap_bytes: limits.memory_swap_bytes,
            cpu_unlimited: false,
            memory_unlimited: false,
        },
        managed_volumes: body.managed_volumes.into_iter().map(volume).collect(),
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

fn compose(body: wire::ComposeSpec) -> ComposeDraft {
    ComposeDraft {
        project_name: body.project_name,
        compose_yaml: body.compose_yaml,
        env: body.env,
        ..ComposeDraft::default()
    }
}

fn vm(body: wire::VmSpec) -> VmDraft {
    VmDraft {
        name: body.name,
        vcpus: body.vcpus,
        memory_mb: body.memory_mb,
        disks: body.disks.into_iter().map(disk).collect(),
        networks: body.networks.into_iter().map(network).collect(),
        cloud_init: body.cloud_init,
        cloud_init_config: body.cloud_init_config.map(cloud_init).unwrap_or_default(),
        os_image: body.os_image,
        disk_gb: body.disk_gb,
        runtime: body.runtime,
        managed_volumes: body.managed_volumes.into_iter().map(volume).collect(),
        metadata: body.metadata,
    }
}

fn disk(disk: wire::DiskConfig) -> DiskDraft {
    DiskDraft {
        path: disk.path,
        device: disk.device,
        format: disk.format,
        size_gb: disk.size_gb,
        disk_type: disk.r#type,
        boot: disk.boot,
        backing_file: disk.backing_file,
        storage: disk.storage,
        ..DiskDraft::default()
    }
}

fn network(network: wire::NetworkConfig) -> NetworkDraft {
    NetworkDraft {
        network: network.network,
        mac_address: network.mac_address,
        ip_address: network.ip_address,
        host_dev_name: network.host_dev_name,
        model: network.model,
        bridge: network.bridge,
        ..NetworkDraft::default()
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
