//! Rules for virtual machines.

use super::*;
use crate::spec::draft::CloudInitDraft;
use crate::spec::vm::{Address, Attach, DiskFormat, DiskSource, NicModel};
use crate::spec::volume::VolumeDriver;

const KEY: &str = "ssh-ed25519 \
                   AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f me@home";
const HASH: &str = "$6$salt$abcdefghijklmnopqrstuvwxyz./ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

fn disk(draft: &mut Draft) -> &mut DiskDraft {
    &mut vm(draft).disks[0]
}

fn card(draft: &mut Draft) -> &mut NetworkDraft {
    &mut vm(draft).networks[0]
}

fn config(draft: &mut Draft) -> &mut CloudInitDraft {
    &mut vm(draft).cloud_init_config
}

#[test]
fn machines() {
    run(
        vm_draft,
        vm,
        &[
            ("name", |v| v.name = "Web-vm.1".into(), &[]),
            ("bad name", |v| v.name = "a/b".into(), &["spec.vm.name"]),
            ("option", |v| v.name = "-a".into(), &["spec.vm.name"]),
            ("no cpu", |v| v.vcpus = 0, &["spec.vm.vcpus"]),
            ("negative", |v| v.vcpus = i32::MIN, &["spec.vm.vcpus"]),
            ("too many", |v| v.vcpus = 513, &["spec.vm.vcpus"]),
            ("no memory", |v| v.memory_mb = 0, &["spec.vm.memory_mb"]),
            ("overflow", |v| v.memory_mb = i64::MAX, &["spec.vm.memory_mb"]),
            ("runtime", |v| v.runtime = "LibVirt".into(), &[]),
            ("firecracker", |v| v.runtime = "firecracker".into(), &["spec.vm.runtime"]),
            (
                "metadata",
                |v| drop(v.metadata.insert("a b".into(), String::new())),
                &["spec.vm.metadata[a b]"],
            ),
            ("no card", |v| v.networks.clear(), &[]),
            ("cards", |v| v.networks = vec![NetworkDraft::default(); 17], &["spec.vm.networks"]),
            ("disks", |v| v.disks = vec![DiskDraft::default(); 33], &["spec.vm.disks"]),
            (
                "everything",
                |v| *v = VmDraft { disk_gb: -1, ..VmDraft::default() },
                &["spec.vm.vcpus", "spec.vm.memory_mb", "spec.vm.disk_gb"],
            ),
        ],
    );
}

#[test]
fn the_system_disk() {
    run(
        vm_draft,
        vm,
        &[
            ("no disk", |v| v.disks.clear(), &["spec.vm.disks"]),
            ("size without image", |v| v.disk_gb = 5, &["spec.vm.disk_gb"]),
            ("catalogue", |v| v.os_image = "ubuntu-24.04".into(), &[]),
            ("file", |v| v.os_image = "/img/base.qcow2".into(), &[]),
            ("escape", |v| v.os_image = "../base".into(), &["spec.vm.os_image"]),
            ("option", |v| v.os_image = "-o".into(), &["spec.vm.os_image"]),
            (
                "raw root",
                |v| {
                    v.os_image = "u".into();
                    v.disks[0].format = "raw".into();
                },
                &["spec.vm.disks[0]"],
            ),
        ],
    );
    let mut draft = vm_draft();
    vm(&mut draft).os_image = "ubuntu".into();
    assert_eq!(vm_spec(&draft).disks.len(), 1, "the first disk is the overlay");
    vm(&mut draft).disk_gb = 7;
    let disks = vm_spec(&draft).disks;
    assert_eq!(disks[0].source, DiskSource::Pool { pool: None, size_gib: 7 });
    assert_eq!((&*disks[0].device, &*disks[1].device), ("vdb", "vda"));
    assert!(disks[0].boot && !disks[1].boot);
    vm(&mut draft).disks.clear();
    vm(&mut draft).disk_gb = 0;
    let disks = vm_spec(&draft).disks;
    assert_eq!(disks[0].source, DiskSource::Pool { pool: None, size_gib: 10 });
}

#[test]
fn disks() {
    run(
        vm_draft,
        disk,
        &[
            ("default size", |d| d.size_gb = 0, &[]),
            ("pool", |d| d.pool_name = "fast".into(), &[]),
            ("bad pool", |d| d.pool_name = "a/b".into(), &["spec.vm.disks[0].pool_name"]),
            ("negative", |d| d.size_gb = -1, &["spec.vm.disks[0].size_gb"]),
            ("overflow", |d| d.size_gb = i64::MAX, &["spec.vm.disks[0].size_gb"]),
            ("device", |d| d.device = "sdb".into(), &[]),
            ("long device", |d| d.mount_point = "/dev/vdaa".into(), &[]),
            ("system", |d| d.mount_point = "/".into(), &[]),
            ("folder", |d| d.mount_point = "/data".into(), &["spec.vm.disks[0].mount_point"]),
            ("digit", |d| d.device = "vda1".into(), &["spec.vm.disks[0].device"]),
            ("markup", |d| d.device = "vda'/>".into(), &["spec.vm.disks[0].device"]),
            (
                "two devices",
                |d| (d.device, d.mount_point) = ("vda".into(), "vdb".into()),
                &["spec.vm.disks[0].device"],
            ),
            ("format", |d| d.format = "RAW".into(), &[]),
            ("vmdk", |d| d.format = "vmdk".into(), &["spec.vm.disks[0].format"]),
            ("floppy", |d| d.disk_type = "floppy".into(), &["spec.vm.disks[0].type"]),
            ("cdrom in a pool", |d| d.disk_type = "cdrom".into(), &["spec.vm.disks[0].path"]),
            (
                "iso as a disk",
                |d| (d.disk_type, d.format) = ("disk".into(), "iso".into()),
                &["spec.vm.disks[0].format"],
            ),
            ("path", |d| d.path = "/img/a.qcow2".into(), &[]),
            ("escape", |d| d.path = "/img/../etc/shadow".into(), &["spec.vm.disks[0].path"]),
            ("relative", |d| d.path = "a.qcow2".into(), &["spec.vm.disks[0].path"]),
            ("protocol", |d| d.path = "json:{}".into(), &["spec.vm.disks[0].path"]),
            ("comma", |d| d.path = "/a,readonly=on".into(), &["spec.vm.disks[0].path"]),
            (
                "path and pool",
                |d| (d.path, d.pool_name) = ("/a".into(), "fast".into()),
                &["spec.vm.disks[0].pool_name"],
            ),
            ("storage", |d| d.storage = "ceph-rbd".into(), &[]),
            ("iscsi", |d| d.storage = "iscsi".into(), &["spec.vm.disks[0].storage"]),
            (
                "storage and pool",
                |d| (d.storage, d.pool_name) = ("nfs".into(), "fast".into()),
                &["spec.vm.disks[0].pool_name"],
            ),
            (
                "storage without size",
                |d| (d.storage, d.size_gb) = ("nfs".into(), 0),
                &["spec.vm.disks[0].size_gb"],
            ),
            (
                "ceph as qcow2",
                |d| (d.storage, d.format) = ("ceph-rbd".into(), "qcow2".into()),
                &["spec.vm.disks[0].format"],
            ),
            (
                "network disk with size",
                |d| d.path = "rbd:pool/image".into(),
                &["spec.vm.disks[0].size_gb"],
            ),
            (
                "storage of another kind",
                |d| (d.path, d.storage, d.size_gb) = ("/a".into(), "nfs".into(), 0),
                &["spec.vm.disks[0].storage"],
            ),
            ("backing", |d| d.backing_file = "/img/base".into(), &[]),
            ("bad backing", |d| d.backing_file = "base".into(), &["spec.vm.disks[0].backing_file"]),
            (
                "backing of raw",
                |d| (d.backing_file, d.format) = ("/b".into(), "raw".into()),
                &["spec.vm.disks[0].backing_file"],
            ),
            (
                "backing of what is there",
                |d| (d.backing_file, d.path, d.size_gb) = ("/b".into(), "/a".into(), 0),
                &["spec.vm.disks[0].backing_file"],
            ),
        ],
    );
}

#[test]
fn network_disks() {
    let source = |path: &str| {
        let mut draft = vm_draft();
        *disk(&mut draft) = DiskDraft { path: path.into(), ..DiskDraft::default() };
        check(&draft).ok().map(|_| vm_spec(&draft).disks[0].clone())
    };
    let rbd = source("rbd:pool/img").expect("rbd");
    assert_eq!(rbd.source, DiskSource::Rbd { pool: "pool".into(), image: "img".into() });
    assert_eq!((rbd.format, rbd.source.driver()), (DiskFormat::Raw, Some(VolumeDriver::CephRbd)));
    let nfs = |host: &str, port, path: &str| DiskSource::Nfs {
        host: host.into(),
        port,
        path: path.into(),
    };
    assert_eq!(source("nfs://h:2049/x/y").expect("nfs").source, nfs("h", Some(2049), "/x/y"));
    assert_eq!(source("h.example:/x/y").expect("nfs").source, nfs("h.example", None, "/x/y"));
    for bad in [
        "rbd:",
        "rbd:pool",
        "rbd:pool/",
        "rbd:a/b/c",
        "rbd:a/b:conf=x",
        "nfs://",
        "nfs://h",
        "nfs://-h/x",
        "nfs://h/../x",
        "-h:/x",
        "h:/x,y",
        "http://h/x",
        ":/x",
    ] {
        assert_eq!(source(bad), None, "{bad}");
    }
}

#[test]
fn devices_and_files_are_taken_once() {
    let mut draft = vm_draft();
    let at = |device: &str, path: &str| DiskDraft {
        device: device.into(),
        path: path.into(),
        ..DiskDraft::default()
    };
    vm(&mut draft).disks = vec![at("vda", "/a"), at("vda", "/b"), at("vdb", "/a")];
    assert_eq!(paths_at_fault(&draft), ["spec.vm.disks[1].device", "spec.vm.disks[2].path"]);

    vm(&mut draft).disks = vec![at("", "/a"), at("vda", "/b"), at("", "/c.iso"), at("", "/d")];
    vm(&mut draft).disks[2].disk_type = "cdrom".into();
    let spec = vm_spec(&draft);
    let devices: Vec<_> = spec.disks.iter().map(|disk| &*disk.device).collect();
    assert_eq!(devices, ["vdb", "vda", "sda", "vdc"]);
    assert!(spec.disks[0].boot && !spec.disks[1].boot);
    assert_eq!(spec.disks[2].format, DiskFormat::Iso);
}

#[test]
fn cards() {
    run(
        vm_draft,
        card,
        &[
            ("default", |c| *c = NetworkDraft::default(), &[]),
            ("dhcp", |c| c.dhcp = true, &[]),
            ("both plugs", |c| c.network = "default".into(), &["spec.vm.networks[0]"]),
            ("long bridge", |c| c.bridge = long(16), &["spec.vm.networks[0].bridge"]),
            ("markup", |c| c.bridge = "br0'/>".into(), &["spec.vm.networks[0].bridge"]),
            (
                "network",
                |c| (c.bridge, c.network) = (String::new(), "a b".into()),
                &["spec.vm.networks[0].network"],
            ),
            ("fixed", |c| c.static_ip = "10.0.0.5/24".into(), &[]),
            ("fixed, other name", |c| c.ip_address = "2001:db8::5".into(), &[]),
            (
                "same twice",
                |c| (c.static_ip, c.ip_address) = ("10.0.0.5".into(), "10.0.0.5".into()),
                &[],
            ),
            (
                "two",
                |c| (c.static_ip, c.ip_address) = ("10.0.0.5".into(), "10.0.0.6".into()),
                &["spec.vm.networks[0].static_ip"],
            ),
            (
                "fixed and dhcp",
                |c| (c.dhcp, c.static_ip) = (true, "10.0.0.5".into()),
                &["spec.vm.networks[0].dhcp"],
            ),
            (
                "not an address",
                |c| c.static_ip = "10.0.0".into(),
                &["spec.vm.networks[0].static_ip"],
            ),
            (
                "loopback",
                |c| c.ip_address = "127.0.0.1".into(),
                &["spec.vm.networks[0].ip_address"],
            ),
            ("group", |c| c.static_ip = "224.0.0.1".into(), &["spec.vm.networks[0].static_ip"]),
            ("all", |c| c.static_ip = "255.255.255.255".into(), &["spec.vm.networks[0].static_ip"]),
            ("none", |c| c.static_ip = "0.0.0.0".into(), &["spec.vm.networks[0].static_ip"]),
            (
                "prefix 33",
                |c| c.static_ip = "10.0.0.5/33".into(),
                &["spec.vm.networks[0].static_ip"],
            ),
            ("prefix 0", |c| c.static_ip = "10.0.0.5/0".into(), &["spec.vm.networks[0].static_ip"]),
            (
                "prefix +8",
                |c| c.static_ip = "10.0.0.5/+8".into(),
                &["spec.vm.networks[0].static_ip"],
            ),
            ("prefix of 6", |c| c.static_ip = "2001:db8::5/128".into(), &[]),
            ("mac", |c| c.mac_address = "52:54:00:12:34:56".into(), &[]),
            ("mac with lines", |c| c.mac_address = "52-54-00-12-34-aF".into(), &[]),
            (
                "short mac",
                |c| c.mac_address = "52:54:00".into(),
                &["spec.vm.networks[0].mac_address"],
            ),
            (
                "long mac",
                |c| c.mac_address = "52:54:00:12:34:56:78".into(),
                &["spec.vm.networks[0].mac_address"],
            ),
            (
                "signed mac",
                |c| c.mac_address = "+2:54:00:12:34:56".into(),
                &["spec.vm.networks[0].mac_address"],
            ),
            (
                "group mac",
                |c| c.mac_address = "01:00:5e:00:00:01".into(),
                &["spec.vm.networks[0].mac_address"],
            ),
            (
                "zero mac",
                |c| c.mac_address = "00:00:00:00:00:00".into(),
                &["spec.vm.networks[0].mac_address"],
            ),
            ("model", |c| c.model = "ne2k".into(), &["spec.vm.networks[0].model"]),
            ("tap", |c| c.host_dev_name = "tap0".into(), &["spec.vm.networks[0].host_dev_name"]),
        ],
    );
    let mut draft = vm_draft();
    *card(&mut draft) = NetworkDraft {
        mac_address: "52:54:00:12:34:56".into(),
        static_ip: "10.0.0.5/24".into(),
        model: "e1000".into(),
        ..NetworkDraft::default()
    };
    let one = vm_spec(&draft).networks.remove(0);
    assert_eq!(one.attach, Attach::Network("default".into()));
    assert_eq!(one.mac, Some([0x52, 0x54, 0, 0x12, 0x34, 0x56]));
    assert_eq!(one.model, NicModel::E1000);
    let ip = "10.0.0.5".parse().expect("an address");
    assert_eq!(one.address, Address::Static { ip, prefix: Some(24) });

    let twin = vm(&mut draft).networks[0].clone();
    vm(&mut draft).networks.push(twin);
    assert_eq!(
        paths_at_fault(&draft),
        ["spec.vm.networks[1].mac_address", "spec.vm.networks[1].static_ip"]
    );
}

#[test]
fn first_boot_texts() {
    run(
        vm_draft,
        vm,
        &[
            ("plain", |v| v.cloud_init = "#cloud-config\nusers: []\n".into(), &[]),
            ("packed", |v| v.cloud_init = "I2Nsb3VkLWNvbmZpZwo=".into(), &[]),
            ("neither", |v| v.cloud_init = "abc".into(), &["spec.vm.cloud_init"]),
            ("NUL", |v| v.cloud_init = "#\0".into(), &["spec.vm.cloud_init"]),
            ("too long", |v| v.cloud_init = format!("#{}", long(65536)), &["spec.vm.cloud_init"]),
            (
                "said twice",
                |v| {
                    v.cloud_init = "#a".into();
                    v.cloud_init_config.user_data = "#b".into();
                },
                &["spec.vm.cloud_init"],
            ),
            (
                "too much together",
                |v| {
                    v.cloud_init = format!("#{}", long(40_000));
                    v.cloud_init_config.vendor_data = long(40_000);
                },
                &["spec.vm.cloud_init_config"],
            ),
            (
                "all parts",
                |v| {
                    v.cloud_init_config = CloudInitDraft {
                        user_data: "\0".into(),
                        meta_data: "\u{1b}".into(),
                        network_config: "\u{7f}".into(),
                        vendor_data: long(70_000),
                        ..CloudInitDraft::default()
                    }
                },
                &[
                    "spec.vm.cloud_init_config.user_data",
                    "spec.vm.cloud_init_config.meta_data",
                    "spec.vm.cloud_init_config.network_config",
                    "spec.vm.cloud_init_config.vendor_data",
                ],
            ),
        ],
    );
    let mut draft = vm_draft();
    vm(&mut draft).cloud_init = "I2Nsb3VkLWNvbmZpZwo=".into();
    assert_eq!(vm_spec(&draft).cloud_init.user_data.reveal(), "#cloud-config\n");
}

#[test]
fn logins() {
    run(
        vm_draft,
        config,
        &[
            ("key", |c| c.ssh_public_key = KEY.into(), &[]),
            ("key with line end", |c| c.ssh_public_key = format!("{KEY}\n"), &[]),
            ("user and hash", |c| (c.username, c.password) = ("ops".into(), HASH.into()), &[]),
            ("user alone", |c| c.username = "ops".into(), &["spec.vm.cloud_init_config.username"]),
            (
                "bad user",
                |c| (c.username, c.ssh_public_key) = ("Root!".into(), KEY.into()),
                &["spec.vm.cloud_init_config.username"],
            ),
            ("plain", |c| c.password = "hunter2".into(), &["spec.vm.cloud_init_config.password"]),
            (
                "md5",
                |c| c.password = HASH.replace("$6$", "$1$"),
                &["spec.vm.cloud_init_config.password"],
            ),
            ("led", |c| c.password = format!("x{HASH}"), &["spec.vm.cloud_init_config.password"]),
            ("short", |c| c.password = "$6$a$b".into(), &["spec.vm.cloud_init_config.password"]),
            (
                "line",
                |c| c.password = format!("{HASH}\nroot: x"),
                &["spec.vm.cloud_init_config.password"],
            ),
            (
                "two keys",
                |c| c.ssh_public_key = format!("{KEY}\n{KEY}"),
                &["spec.vm.cloud_init_config.ssh_public_key"],
            ),
            (
                "options",
                |c| c.ssh_public_key = format!("command=\"x\" {KEY}"),
                &["spec.vm.cloud_init_config.ssh_public_key"],
            ),
            (
                "kind and body differ",
                |c| c.ssh_public_key = KEY.replace("ssh-ed25519 ", "ssh-rsa "),
                &["spec.vm.cloud_init_config.ssh_public_key"],
            ),
            (
                "private",
                |c| c.ssh_public_key = "-----BEGIN OPENSSH PRIVATE KEY-----".into(),
                &["spec.vm.cloud_init_config.ssh_public_key"],
            ),
            (
                "with user-data",
                |c| (c.user_data, c.ssh_public_key) = ("#x".into(), KEY.into()),
                &["spec.vm.cloud_init_config.user_data"],
            ),
        ],
    );
}

#[test]
fn secrets_are_not_repeated() {
    let mut draft = vm_draft();
    config(&mut draft).password = "hunter2".into();
    config(&mut draft).user_data = "hunter2\0".into();
    vm(&mut draft).cloud_init = "hunter2hunter2".into();
    assert!(!problems(&draft).contains("hunter2"), "{}", problems(&draft));
    assert!(!format!("{draft:?}").contains("hunter2"));

    let mut draft = vm_draft();
    config(&mut draft).password = HASH.into();
    assert!(!format!("{:?}", accepted(&draft)).contains(HASH));
}
