//! Drafts that are mostly accepted, and reach every corner of a spec.

use std::collections::BTreeMap;

use persys_model::spec::draft::{
    BindDraft, CheckDraft, CloudInitDraft, ComposeDraft, ConstraintDraft, ContainerDraft,
    DiskDraft, Draft, Fetched, HealthDraft, HttpDraft, LimitsDraft, NetworkDraft, PlacementDraft,
    PortDraft, ResourcesDraft, SecretDraft, TcpDraft, TolerationDraft, VmDraft, VolumeDraft,
};

use crate::random::Random;

/// Put where secrets belong; must never be printed.
pub(crate) const SECRET: &str = "s3cr3t";

const HASH: &str = "$6$salt$aaaaaaaaaaaaaaaaaaaaaaaaas3cr3t";

fn map(r: &mut Random, keys: &[&str], values: &[&str]) -> BTreeMap<String, String> {
    r.list(3, |r, _| (r.word(keys), r.word(values))).into_iter().collect()
}

pub(crate) fn draft(r: &mut Random) -> Draft {
    let kind = r.below(3);
    Draft {
        workload_type: r.word(&["", ["container", "compose", "vm"][kind]]),
        resources: ResourcesDraft {
            cpu_millicores: r.pick(&[0, 1, 250, 4_000, 4_096_000]),
            memory_mb: r.pick(&[0, 1, 128, 4_096]),
            disk_gb: r.pick(&[0, 0, 7]),
        },
        container: (kind == 0).then(|| container(r)),
        compose: (kind == 1).then(|| compose(r)),
        vm: (kind == 2).then(|| vm(r)),
        metadata: map(r, &["team", "a.b/c", "x"], &["", "y", "ä\tb"]),
        placement: placement(r),
        secrets: if kind == 1 { Vec::new() } else { secrets(r, kind) },
        stop_grace: r.word(&["", "0s", "30s", "1m30s", "2h"]),
        health: health(r, kind),
    }
}

fn health(r: &mut Random, kind: usize) -> HealthDraft {
    if kind == 1 || r.one_in(2) {
        return HealthDraft::default();
    }
    let mut check = CheckDraft {
        interval: r.word(&["", "1500ms", "1m"]),
        timeout: r.word(&["", "1s"]),
        start_period: r.word(&["", "0s", "2h"]),
        retries: r.pick(&[0, 1, 1000]),
        ..CheckDraft::default()
    };
    match r.below(4) {
        0 => check.http = Some(HttpDraft { port: 65_535, path: r.word(&["", "/up?x=1"]) }),
        1 => check.tcp = Some(TcpDraft { port: 1 }),
        2 if kind == 0 => check.exec = vec!["test".into(), "-f".into(), "/a b".into()],
        _ => check = CheckDraft { disable: true, ..CheckDraft::default() },
    }
    HealthDraft { ready: Some(check) }
}

fn secrets(r: &mut Random, kind: usize) -> Vec<SecretDraft> {
    r.list(2, |r, nth| SecretDraft {
        name: format!("s{nth}"),
        env: if kind == 0 && nth == 0 { "KEY".to_owned() } else { String::new() },
        path: if nth == 0 { String::new() } else { r.word(&["", "/etc/key"]) },
        mode: if nth == 0 { String::new() } else { r.word(&["", "0444", "600"]) },
        uid: if nth == 0 { 0 } else { r.pick(&[0, 1000]) },
        gid: 0,
        signal: if kind == 0 && nth != 0 { r.word(&["", "SIGHUP", "USR2"]) } else { String::new() },
    })
}

fn container(r: &mut Random) -> ContainerDraft {
    let memory = r.pick(&[0, 0, 6 << 20, 8 << 30, (8 << 30) + 1]);
    ContainerDraft {
        image: r.word(&["nginx", "ghcr.io/a/b:v1", "localhost:5000/x@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"]),
        entrypoint: r.list(2, |r, _| r.word(&["tini", "--"])),
        command: r.list(3, |r, _| r.word(&["sh", "-c", "exec \"$0\"\n"])),
        args: r.list(3, |r, _| r.word(&["", "x", "日本"])),
        env: map(r, &["A", "B_1", "_c"], &["", SECRET, "a=b\nc"]),
        volumes: r.list(3, |r, nth| BindDraft {
            host_path: r.word(&["/", "/srv/data/", "/a b"]),
            container_path: format!("/in/{nth}{}", r.word(&["", "/"])),
            read_only: r.one_in(2),
        }),
        ports: r.list(3, |r, nth| PortDraft {
            host_port: r.pick(&[0, 8_000 + i32::try_from(nth).unwrap()]),
            container_port: r.pick(&[1, 80, 65_535]),
            protocol: r.word(&["", "tcp", "UDP"]),
            host_ip: r.word(&["", "", "127.0.0.1", "0.0.0.0", "::1"]),
        }),
        restart_policy: r.word(&["", "no", "always", "On-Failure", "unless-stopped"]),
        max_retry_count: r.pick(&[0, 0, 3, 10_000]),
        privileged: r.one_in(3),
        labels: map(r, &["k", "x/y"], &["", "v", "Host(`a`)"]),
        resources: LimitsDraft {
            cpu_shares: r.pick(&[0, 2, 1_024, 262_144]),
            memory_bytes: memory,
            memory_swap_bytes: if memory == 0 { r.pick(&[0, -1]) } else { r.pick(&[0, -1, 9 << 30]) },
            cpu_unlimited: r.one_in(3),
            memory_unlimited: memory == 0 && r.one_in(3),
        },
        managed_volumes: r.list(3, |r, nth| volume(r, nth, false)),
    }
}

fn volume(r: &mut Random, nth: usize, vm: bool) -> VolumeDraft {
    let driver = r.word(&["", "local", "nfs", "ceph-rbd"]);
    let (modes, systems): (&[&str], &[&str]) = match (driver.as_str(), vm) {
        ("nfs", _) => (&["", "RWX", "ReadOnlyMany"], &["", "nfs4"]),
        ("ceph-rbd", _) => (&["RWO", "ROX"], &["", "XFS"]),
        (_, true) => (&["", "ReadWriteOnce"], &["", "ext4"]),
        (_, false) => (&["", "ReadWriteOnce"], &[""]),
    };
    VolumeDraft {
        name: format!("v{nth}"),
        size_gb: if driver == "nfs" { r.pick(&[0, 5]) } else { r.pick(&[1, 50]) },
        driver,
        access_mode: r.word(modes),
        fs_type: r.word(systems),
        mount_path: if vm && r.one_in(2) { String::new() } else { format!("/mnt/{nth}") },
        read_only: r.one_in(2),
        retain_policy: r.word(&["", "Delete", "retain"]),
    }
}

fn compose(r: &mut Random) -> ComposeDraft {
    let mut draft = ComposeDraft {
        project_name: r.word(&["", "app_1"]),
        env: map(r, &["A", "B_1"], &["", SECRET]),
        ..ComposeDraft::default()
    };
    match r.below(3) {
        0 => {
            draft.git_repo = r.word(&["https://h/x", "git@h:x/y", "ssh://git@h:22/x.git"]);
            draft.git_ref = r.word(&["", "main", "v1.0"]);
            draft.fetched = Some(Fetched {
                commit: "0123456789abcdef0123456789abcdef01234567".to_owned(),
                path: r.word(&["compose.yaml", "a/b.yml"]),
                file: format!("services:\n  a: {{image: {SECRET}}}\n"),
            });
        }
        1 => draft.inline_yaml = format!("services:\n  a: {{image: {SECRET}}}\n"),
        // Base64 of "services: {a: {image: b}}\n".
        _ => draft.compose_yaml = "c2VydmljZXM6IHthOiB7aW1hZ2U6IGJ9fQo=".to_owned(),
    }
    draft
}

fn vm(r: &mut Random) -> VmDraft {
    let image = r.word(&["", "ubuntu-24.04", "/img/base.qcow2"]);
    let login = r.one_in(3);
    VmDraft {
        name: r.word(&["", "Guest-1"]),
        vcpus: r.pick(&[1, 4, 512]),
        memory_mb: r.pick(&[64, 512, 8_192]),
        disks: r.list(4, disk),
        networks: r.list(3, network),
        cloud_init: if login || r.one_in(2) { String::new() } else { "#cloud-config\n".to_owned() },
        cloud_init_config: cloud_init(r, login),
        disk_gb: if image.is_empty() { 0 } else { r.pick(&[0, 30]) },
        os_image: image,
        runtime: r.word(&["", "libvirt"]),
        managed_volumes: r.list(2, |r, nth| volume(r, nth, true)),
        metadata: map(r, &["a", "b"], &["", "c"]),
    }
}

fn disk(r: &mut Random, nth: usize) -> DiskDraft {
    let letter = ["a", "b", "c", "d"][nth];
    let mut draft = DiskDraft { boot: r.one_in(4), ..DiskDraft::default() };
    match r.below(4) {
        0 => draft.device = format!("vd{letter}"),
        1 => draft.mount_point = format!("/dev/sd{letter}"),
        _ => {}
    }
    match r.below(8) {
        0 => draft.path = format!("/img/{nth}.qcow2"),
        1 => {
            draft.path = format!("/img/{nth}.raw");
            draft.size_gb = 3;
            draft.format = "raw".to_owned();
        }
        2 => {
            draft.path = r.word(&["rbd:pool/image-", "nfs://h/x", "nfs://[::1]:2049/y", "srv:/z"])
                + &nth.to_string();
        }
        3 => {
            draft.path = format!("/iso/{nth}.iso");
            draft.disk_type = "cdrom".to_owned();
        }
        4 => {
            draft.storage = r.word(&["nfs", "ceph-rbd"]);
            draft.size_gb = 11;
        }
        5 => {
            draft.size_gb = 12;
            draft.backing_file = "/img/base".to_owned();
        }
        _ => {
            draft.pool_name = r.word(&["", "fast"]);
            draft.size_gb = r.pick(&[0, 10]);
            draft.format = r.word(&["", "QCOW2", "raw"]);
        }
    }
    draft
}

fn network(r: &mut Random, nth: usize) -> NetworkDraft {
    let address = r.word(&["", &format!("10.0.0.{}", nth + 1), &format!("fd00::{nth:x}1/64")]);
    let mut draft = NetworkDraft {
        dhcp: address.is_empty() && r.one_in(2),
        mac_address: r.word(&["", &format!("52-54-00-00-00-{nth:02X}")]),
        model: r.word(&["", "virtio", "e1000e", "rtl8139"]),
        ..NetworkDraft::default()
    };
    if r.one_in(2) {
        draft.static_ip = address;
    } else {
        draft.ip_address = address;
    }
    match r.below(3) {
        0 => draft.bridge = "br0".to_owned(),
        1 => draft.network = "lab".to_owned(),
        _ => {}
    }
    draft
}

fn cloud_init(r: &mut Random, login: bool) -> CloudInitDraft {
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAA ops";
    CloudInitDraft {
        meta_data: r.word(&["", SECRET]),
        network_config: r.word(&["", "version: 2"]),
        vendor_data: r.word(&["", SECRET]),
        username: if login { r.word(&["", "ops"]) } else { String::new() },
        ssh_public_key: if login && r.one_in(2) { key.to_owned() } else { String::new() },
        password: if login { HASH.to_owned() } else { String::new() },
        ..CloudInitDraft::default()
    }
}

fn placement(r: &mut Random) -> PlacementDraft {
    PlacementDraft {
        constraints: r.list(3, |r, nth| {
            let operator = r.word(&["exists", "absent", "in", "not-in"]);
            let valued = operator.ends_with("in");
            ConstraintDraft {
                key: format!("k{nth}"),
                operator,
                values: if valued { vec![r.word(&["x", ""]), "y".to_owned()] } else { Vec::new() },
            }
        }),
        tolerations: r.list(2, |r, _| {
            let any_value = r.one_in(2);
            TolerationDraft {
                key: "gpu".to_owned(),
                value: if any_value { String::new() } else { r.word(&["", "a100"]) },
                any_value,
            }
        }),
        strategy: r.word(&["", "spread", "BinPack"]),
        class: r.word(&["", "default", "exclusive"]),
        on_node_loss: r.word(&["", "auto", "move", "stay"]),
    }
}
