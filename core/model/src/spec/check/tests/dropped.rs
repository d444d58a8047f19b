//! Nothing is accepted and dropped: setting any field of a draft either changes the spec or is
//! refused.
//!
//! Each row sets one field to something that is not its default. The drafts are taken apart whole
//! in [`every_field_has_a_row`], so that a new field does not compile until it is thought of here.

use super::*;
use crate::spec::draft::{
    BindDraft, CloudInitDraft, ConstraintDraft, LimitsDraft, PlacementDraft, PortDraft,
    ResourcesDraft, SecretDraft, TolerationDraft, VolumeDraft,
};

fn full_container() -> Draft {
    let mut draft = container_draft();
    let body = container(&mut draft);
    body.restart_policy = "on-failure".into();
    body.volumes =
        vec![BindDraft { host_path: "/a".into(), container_path: "/b".into(), read_only: false }];
    body.ports = vec![PortDraft { container_port: 80, ..PortDraft::default() }];
    body.resources.memory_bytes = 1 << 30;
    draft.resources.cpu_millicores = 100;
    let body = container(&mut draft);
    body.managed_volumes = vec![VolumeDraft {
        name: "v".into(),
        driver: "nfs".into(),
        mount_path: "/v".into(),
        ..VolumeDraft::default()
    }];
    draft.placement.constraints =
        vec![ConstraintDraft { key: "k".into(), operator: "in".into(), values: vec!["x".into()] }];
    draft.placement.tolerations =
        vec![TolerationDraft { key: "k".into(), ..TolerationDraft::default() }];
    draft
}

fn two_disks() -> Draft {
    let mut draft = vm_draft();
    let disk = |path: &str| DiskDraft { path: path.into(), ..DiskDraft::default() };
    vm(&mut draft).disks = vec![disk("/a"), disk("/b"), DiskDraft::default()];
    draft
}

type Change = (&'static str, fn(&mut Draft));

fn secret() -> SecretDraft {
    SecretDraft { name: "s".into(), ..SecretDraft::default() }
}

const SHARED: &[Change] = &[
    ("type", |d| d.workload_type = "vm".into()),
    ("resources.cpu_millicores", |d| d.resources.cpu_millicores = 5000),
    ("resources.memory_mb", |d| d.resources.memory_mb = 512),
    ("resources.disk_gb", |d| d.resources.disk_gb = 1),
    ("compose beside", |d| d.compose = compose_draft().compose),
    ("vm beside", |d| d.vm = vm_draft().vm),
    ("metadata", |d| drop(d.metadata.insert("a".into(), "b".into()))),
    ("constraint key", |d| d.placement.constraints[0].key = "l".into()),
    ("constraint operator", |d| d.placement.constraints[0].operator = "not-in".into()),
    ("constraint values", |d| d.placement.constraints[0].values[0] = "y".into()),
    ("toleration key", |d| d.placement.tolerations[0].key = "l".into()),
    ("toleration value", |d| d.placement.tolerations[0].value = "x".into()),
    ("toleration any", |d| d.placement.tolerations[0].any_value = true),
    ("strategy", |d| d.placement.strategy = "binpack".into()),
    ("class", |d| d.placement.class = "exclusive".into()),
    ("loss", |d| d.placement.on_node_loss = "move".into()),
    ("image", |d| container(d).image = "nginx:1.28".into()),
    ("command", |d| container(d).command = vec!["a".into()]),
    ("entrypoint", |d| container(d).entrypoint = vec!["a".into()]),
    ("args", |d| container(d).args = vec!["a".into()]),
    ("env", |d| drop(container(d).env.insert("A".into(), "b".into()))),
    ("bind host", |d| container(d).volumes[0].host_path = "/c".into()),
    ("bind inside", |d| container(d).volumes[0].container_path = "/c".into()),
    ("bind read only", |d| container(d).volumes[0].read_only = true),
    ("port host", |d| container(d).ports[0].host_port = 1),
    ("port inside", |d| container(d).ports[0].container_port = 1),
    ("port transport", |d| container(d).ports[0].protocol = "udp".into()),
    ("port address", |d| container(d).ports[0].host_ip = "::1".into()),
    ("restart", |d| container(d).restart_policy = "always".into()),
    ("retries", |d| container(d).max_retry_count = 1),
    ("privileged", |d| container(d).privileged = true),
    ("labels", |d| drop(container(d).labels.insert("a".into(), "b".into()))),
    ("shares", |d| container(d).resources.cpu_shares = 5),
    ("memory limit", |d| container(d).resources.memory_bytes = 1 << 31),
    ("swap limit", |d| container(d).resources.memory_swap_bytes = -1),
    ("no cpu limit", |d| container(d).resources.cpu_unlimited = true),
    ("no memory limit", |d| container(d).resources.memory_unlimited = true),
    ("stop grace", |d| d.stop_grace = "30s".into()),
    ("volume name", |d| container(d).managed_volumes[0].name = "w".into()),
    ("volume driver", |d| container(d).managed_volumes[0].driver = "ceph-rbd".into()),
    ("volume size", |d| container(d).managed_volumes[0].size_gb = 1),
    ("volume access", |d| container(d).managed_volumes[0].access_mode = "RWX".into()),
    ("volume fs", |d| container(d).managed_volumes[0].fs_type = "nfs4".into()),
    ("volume path", |d| container(d).managed_volumes[0].mount_path = "/w".into()),
    ("volume read only", |d| container(d).managed_volumes[0].read_only = true),
    ("volume retain", |d| container(d).managed_volumes[0].retain_policy = "Retain".into()),
    ("secret", |d| d.secrets = vec![secret()]),
    ("secret variable", |d| d.secrets = vec![SecretDraft { env: "S".into(), ..secret() }]),
    ("secret path", |d| d.secrets = vec![SecretDraft { path: "/s".into(), ..secret() }]),
    ("secret mode", |d| d.secrets = vec![SecretDraft { mode: "0444".into(), ..secret() }]),
    ("secret owner", |d| d.secrets = vec![SecretDraft { uid: 5, ..secret() }]),
    ("secret group", |d| d.secrets = vec![SecretDraft { gid: 5, ..secret() }]),
    ("secret signal", |d| d.secrets = vec![SecretDraft { signal: "HUP".into(), ..secret() }]),
];

const COMPOSE: &[Change] = &[
    ("source", |d| compose(d).source_type = "git".into()),
    ("repository", |d| compose(d).git_repo = "https://h/x".into()),
    ("reference", |d| compose(d).git_ref = "main".into()),
    ("path", |d| compose(d).git_path = "a.yml".into()),
    ("inline", |d| compose(d).inline_yaml = "services: {a: {image: b}}".into()),
    ("packed", |d| compose(d).compose_yaml = "services: {a: {image: b}}".into()),
    ("project", |d| compose(d).project_name = "p".into()),
    ("env", |d| drop(compose(d).env.insert("A".into(), "b".into()))),
];

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

const VM: &[Change] = &[
    ("name", |d| vm(d).name = "n".into()),
    ("vcpus", |d| vm(d).vcpus = 3),
    ("memory", |d| vm(d).memory_mb = 4096),
    ("disk pool", |d| vm(d).disks[2].pool_name = "p".into()),
    ("disk size", |d| vm(d).disks[2].size_gb = 1),
    ("disk mount point", |d| vm(d).disks[2].mount_point = "vdz".into()),
    ("disk path", |d| vm(d).disks[2].path = "/c".into()),
    ("disk device", |d| vm(d).disks[2].device = "vdz".into()),
    ("disk format", |d| vm(d).disks[2].format = "raw".into()),
    ("disk type", |d| vm(d).disks[1].disk_type = "cdrom".into()),
    ("disk boot", |d| vm(d).disks[2].boot = true),
    ("disk backing", |d| vm(d).disks[2].backing_file = "/base".into()),
    ("disk storage", |d| (vm(d).disks[2].storage, vm(d).disks[2].size_gb) = ("nfs".into(), 20)),
    ("card bridge", |d| vm(d).networks[0].bridge = "br1".into()),
    ("card address", |d| vm(d).networks[0].static_ip = "10.0.0.1".into()),
    ("card network", |d| vm(d).networks[0].network = "n".into()),
    ("card mac", |d| vm(d).networks[0].mac_address = "52:54:00:00:00:01".into()),
    ("card other address", |d| vm(d).networks[0].ip_address = "10.0.0.1".into()),
    ("card model", |d| vm(d).networks[0].model = "e1000".into()),
    ("card device", |d| vm(d).networks[0].host_dev_name = "tap0".into()),
    ("user-data", |d| vm(d).cloud_init = "#x".into()),
    ("user-data part", |d| vm(d).cloud_init_config.user_data = "#x".into()),
    ("meta-data", |d| vm(d).cloud_init_config.meta_data = "x".into()),
    ("network-config", |d| vm(d).cloud_init_config.network_config = "x".into()),
    ("vendor-data", |d| vm(d).cloud_init_config.vendor_data = "x".into()),
    ("user", |d| vm(d).cloud_init_config.username = "ops".into()),
    ("key", |d| vm(d).cloud_init_config.ssh_public_key = KEY.into()),
    ("password", |d| vm(d).cloud_init_config.password = "x".into()),
    ("image", |d| vm(d).os_image = "ubuntu".into()),
    ("image size", |d| vm(d).disk_gb = 1),
    ("runtime", |d| vm(d).runtime = "firecracker".into()),
    ("volumes", |d| vm(d).managed_volumes = vec![VolumeDraft::default()]),
    ("metadata", |d| drop(vm(d).metadata.insert("a".into(), "b".into()))),
];

#[test]
fn every_field_counts() {
    let groups = [(full_container(), SHARED), (compose_draft(), COMPOSE), (two_disks(), VM)];
    for (base, changes) in groups {
        let before = accepted(&base);
        for (name, change) in changes {
            let mut draft = base.clone();
            change(&mut draft);
            if let Ok(after) = check(&draft) {
                assert_ne!(before, after, "{name} was accepted and dropped");
                let revision = crate::spec::canonical::content_revision;
                assert_ne!(revision(&before), revision(&after), "{name} is not in the revision");
            }
        }
    }
}

/// `dhcp` is the default, so it can only agree or contradict.
#[test]
fn dhcp_counts_where_it_can() {
    let mut draft = vm_draft();
    vm(&mut draft).networks[0].static_ip = "10.0.0.1".into();
    accepted(&draft);
    vm(&mut draft).networks[0].dhcp = true;
    assert_eq!(paths_at_fault(&draft), ["spec.vm.networks[0].dhcp"]);
}

/// Counts the fields of the drafts by taking them apart whole.
#[test]
fn every_field_has_a_row() {
    macro_rules! fields {
        ($($type:ident { $($field:ident),* })*) => {{
            $(let $type { $($field: _),* } = $type::default();)*
            0 $($(+ { let _: &str = stringify!($field); 1 })*)*
        }};
    }
    let shared = fields! {
        ResourcesDraft { cpu_millicores, memory_mb, disk_gb }
        PlacementDraft { constraints, tolerations, strategy, class, on_node_loss }
        ConstraintDraft { key, operator, values }
        TolerationDraft { key, value, any_value }
        ContainerDraft {
            image, entrypoint, command, args, env, volumes, ports, restart_policy, max_retry_count,
            privileged, labels, resources, managed_volumes
        }
        BindDraft { host_path, container_path, read_only }
        PortDraft { host_port, container_port, protocol, host_ip }
        LimitsDraft {
            cpu_shares, memory_bytes, memory_swap_bytes, cpu_unlimited, memory_unlimited
        }
        VolumeDraft {
            name, driver, size_gb, access_mode, fs_type, mount_path, read_only, retain_policy
        }
        SecretDraft { name, env, path, mode, uid, gid, signal }
        Draft {
            workload_type, resources, container, compose, vm, metadata, placement, secrets,
            stop_grace
        }
    };
    // Lists and parts have no row of their own, but the rows of what is in them.
    let parts = ["constraints", "tolerations", "volumes", "ports", "resources", "managed_volumes"];
    let whole = ["resources", "container", "placement", "secrets"];
    assert_eq!(SHARED.len(), shared - parts.len() - whole.len());
    let compose = fields! {
        ComposeDraft {
            source_type, git_repo, git_ref, git_path, fetched, inline_yaml, project_name,
            compose_yaml, env
        }
    };
    // What was fetched is not a client's to say, and has rows of its own.
    let whole = ["fetched"];
    assert_eq!(COMPOSE.len(), compose - whole.len());
    let vm = fields! {
        VmDraft {
            name, vcpus, memory_mb, disks, networks, cloud_init, cloud_init_config, os_image,
            disk_gb, runtime, managed_volumes, metadata
        }
        DiskDraft {
            pool_name, size_gb, mount_point, path, device, format, disk_type, boot, backing_file,
            storage
        }
        NetworkDraft {
            bridge, dhcp, static_ip, network, mac_address, ip_address, model, host_dev_name
        }
        CloudInitDraft {
            user_data, meta_data, network_config, vendor_data, username, ssh_public_key, password
        }
    };
    let parts = ["disks", "networks", "cloud_init_config"];
    let elsewhere = ["dhcp"];
    assert_eq!(VM.len(), vm - parts.len() - elsewhere.len());
}
