//! Descriptions that libvirt takes, and a guest that boots from disk, seed and description together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use persys_model::id::{NodeId, RevisionId, WorkloadId};
use persys_model::resources::{Compute, Resources};
use persys_model::spec::secret::Secret;
use persys_model::spec::vm::{Address, Attach, CloudInit, DiskFormat, Login, NicModel, VmNetwork};
use persys_model::spec::{Kind, Placement, Spec, VmSpec};
use persys_model::token::Epoch;
use persys_runtime::vm::assemble::{Assembled, Host, Order, assemble};
use persys_runtime::vm::disks::Power;
use persys_runtime::vm::domain::Engine;
use persys_runtime::vm::kvm::Kvm;
use persys_runtime::vm::xml::Element;
use persys_runtime::vm::{identity, seed};
use persys_runtime::{Owner, Start};

use crate::place::{PREFIX, Place, disk, external, pool, tool, virsh, vm};

/// How long a guest may take to boot on a busy machine without KVM.
const BOOT: Duration = Duration::from_mins(2);

fn owner() -> Owner {
    Owner { cluster: Arc::from("live"), node: NodeId::fixed("n1") }
}

fn start(place: &Place, vm: &VmSpec) -> Start {
    let compute = Compute::new(u64::from(vm.vcpus) * 1000, vm.memory_mib);
    let spec = Spec {
        kind: Kind::Vm(vm.clone()),
        resources: Resources { compute, ..Resources::default() },
        placement: Placement::default(),
        metadata: BTreeMap::new(),
        secrets: Vec::new(),
        stop_grace_ms: None,
        health: persys_model::spec::health::HealthChecks::default(),
    };
    Start {
        workload: WorkloadId::new(&place.name).unwrap(),
        revision: RevisionId::fixed("r1"),
        epoch: Epoch(1),
        spec: Arc::new(spec),
        volumes: BTreeMap::new(),
        secrets: Arc::default(),
        secrets_at: None,
        not_after: None,
        resume: false,
    }
}

async fn host() -> Host {
    let capabilities = virsh(&["capabilities"]).await.unwrap();
    Host::read(&Element::read(&capabilities).unwrap(), Engine::Tcg).unwrap()
}

/// Has disks, seed and description of `vm` there and tells libvirt, which checks the description
/// against its schema.
pub(crate) async fn define(place: &Place, vm: &VmSpec) -> Assembled {
    let machine = place.machine();
    let prepared = place.disks.prepare(&machine, vm, &BTreeMap::new(), Power::Off).await.unwrap();
    let assembled = assemble(
        &Order {
            owner: &owner(),
            prefix: PREFIX,
            start: &start(place, vm),
            vm,
            host: &host().await,
            storage: place.disks.storage(),
            networks: &BTreeMap::new(),
        },
        prepared,
    )
    .unwrap();
    if let Some(disc) = &assembled.seed {
        seed::write(&place.disks.storage().seed(&machine), disc).unwrap();
    }
    let file = place.at("domain.xml");
    std::fs::write(&file, assembled.domain.xml().unwrap()).unwrap();
    virsh(&["define", "--validate", file.to_str().unwrap()]).await.unwrap();
    assembled
}

pub(crate) fn console(place: &Place) -> String {
    let log = std::fs::read(place.disks.storage().console_log(&place.machine()));
    String::from_utf8_lossy(&log.unwrap_or_default()).into_owned()
}

/// The last thing the guest said about `name` since `from` bytes of its console.
pub(crate) fn fact(place: &Place, from: usize, name: &str) -> Option<String> {
    let text = console(place);
    let start = format!("guest: {name}=");
    let lines = text.get(from..)?.lines().rev();
    lines.filter_map(|line| line.split_once(&start)).map(|(_, value)| value.to_owned()).next()
}

pub(crate) async fn until(what: &str, place: &Place, condition: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !condition() {
        assert!(begun.elapsed() < BOOT, "{what} did not happen:\n{}", console(place));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn state(place: &Place) -> String {
    virsh(&["domstate", "--reason", &place.machine()]).await.unwrap().trim().to_owned()
}

async fn until_state(place: &Place, wanted: &str) {
    let begun = std::time::Instant::now();
    loop {
        let found = state(place).await;
        if found == wanted {
            return;
        }
        assert!(begun.elapsed() < BOOT, "{found}, not {wanted}:\n{}", console(place));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// The guest of the live tests, in the catalogue of the place.
pub(crate) fn tiny_image(place: &Place) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../hack/test-guest");
    let made = std::process::Command::new(script).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let path = String::from_utf8(made.stdout).unwrap();
    std::fs::copy(path.trim(), place.at("images/tiny.qcow2")).unwrap();
}

pub(crate) fn card(attach: Attach, mac: Option<[u8; 6]>, model: NicModel) -> VmNetwork {
    VmNetwork { attach, mac, address: Address::Dhcp, model }
}

#[tokio::test]
async fn libvirt_takes_every_kind_of_description() {
    let place = Place::new();
    std::fs::write(place.at("open/a&b <c> 'd'.img"), vec![0; 4096]).unwrap();
    std::fs::write(place.at("open/disc.iso"), vec![0; 4096]).unwrap();
    let mut spec = vm(vec![
        disk("vda", pool(1), DiskFormat::Qcow2),
        disk("sda", pool(1), DiskFormat::Raw),
        disk("hda", pool(1), DiskFormat::Qcow2),
        disk("xvdc", pool(1), DiskFormat::Qcow2),
        disk("vdz", external(&place.at("open/a&b <c> 'd'.img"), None), DiskFormat::Raw),
        disk("sdb", external(&place.at("open/disc.iso"), None), DiskFormat::Iso),
    ]);
    spec.disks[0].boot = true;
    spec.disks[5].boot = true;
    let models = [NicModel::Virtio, NicModel::E1000, NicModel::E1000e, NicModel::Rtl8139];
    spec.networks =
        models.map(|model| card(Attach::Bridge(Arc::from("persys-none")), None, model)).into();
    spec.networks.push(card(Attach::Network(Arc::from("default")), Some([2; 6]), NicModel::Virtio));
    spec.metadata =
        BTreeMap::from([(Arc::from("</metadata>\"'"), Arc::from("]]><qemu:commandline/>\n&amp;"))]);
    spec.cloud_init.login = Some(Login {
        username: Some(Arc::from("ada")),
        ssh_public_key: None,
        password_hash: Some(Secret::new("$6$abc$0123456789012345678901")),
    });
    let assembled = define(&place, &spec).await;

    // What libvirt kept is what was said: our mark and the user's words, and no more disks.
    let dumped = virsh(&["dumpxml", "--inactive", &place.machine()]).await.unwrap();
    let kept = Element::read(&dumped).unwrap();
    let mark = identity::mark_of(&owner(), PREFIX, &kept).unwrap();
    assert_eq!((mark.workload.as_str(), mark.revision.as_str()), (place.name.as_str(), "r1"));
    let facts = kept.child("metadata").unwrap().children.first().unwrap();
    assert_eq!(*facts, assembled.domain.facts);
    assert_eq!(kept.child("devices").unwrap().all("disk").count(), 7);
    assert!(kept.child("devices").unwrap().child("graphics").is_none());
    assert_eq!(kept.child("uuid").unwrap().text, assembled.domain.uuid);
    let autostart = virsh(&["dominfo", &place.machine()]).await.unwrap();
    assert!(autostart.contains("Autostart:      disable"), "{autostart}");

    // Defining it again changes it in place; another machine of that name is refused.
    spec.memory_mib += 64;
    define(&place, &spec).await;
    let other = assembled.domain.xml().unwrap().replace(&assembled.domain.uuid[..8], "00000000");
    std::fs::write(place.at("other.xml"), other).unwrap();
    let refused = virsh(&["define", place.at("other.xml").to_str().unwrap()]).await.unwrap_err();
    assert!(refused.contains("already exists"), "{refused}");
}

#[tokio::test]
async fn a_guest_boots_reads_its_seed_and_keeps_its_disk() {
    let place = Place::new();
    tiny_image(&place);
    let theirs = place.at("open/theirs.img");
    std::fs::File::create(&theirs).unwrap().set_len(80 << 20).unwrap();
    let words = "#cloud-config\n#tiny: value forty-two\n#tiny: mark vda kept & safe\n\
                 #tiny: mark vdb theirs\n#tiny: agent\n";
    let mut spec = VmSpec {
        os_image: Some(Arc::from("tiny")),
        networks: vec![card(Attach::Network(Arc::from("default")), None, NicModel::Virtio)],
        cloud_init: CloudInit { user_data: Secret::new(words), ..CloudInit::default() },
        ..vm(vec![
            disk("vda", pool(1), DiskFormat::Qcow2),
            disk("vdb", external(&theirs, None), DiskFormat::Raw),
        ])
    };
    spec.disks[0].boot = true;
    let machine = place.machine();
    let first = define(&place, &spec).await;
    virsh(&["start", &machine]).await.unwrap();
    until("first boot", &place, || fact(&place, 0, "ready").is_some()).await;
    let said = |name: &str| fact(&place, 0, name).unwrap_or_default();
    assert_eq!(said("value"), "forty-two");
    assert_eq!((said("instance_id"), said("hostname")), (first.domain.uuid, place.name.clone()));
    assert_eq!((said("first_boot"), said("marker_vda")), ("yes".to_owned(), String::new()));
    assert_eq!(said("serial_vdb"), "vdb");
    assert_eq!(said("seed_files"), "meta-data network-config user-data ");
    assert!(said("ip_eth0").parse::<std::net::Ipv4Addr>().is_ok(), "{}", said("ip_eth0"));
    let leases = virsh(&["domifaddr", &machine]).await.unwrap();
    assert!(leases.contains(&said("ip_eth0")), "{leases}");
    let told = virsh(&["domifaddr", "--source", "agent", &machine]).await.unwrap();
    assert!(told.contains(&said("ip_eth0")), "the guest itself says so: {told}");
    assert_eq!(said("mac_eth0"), identity::mac_text(identity::mac_of("live", &machine, 0)));
    let screen = place.at("screen.ppm");
    virsh(&["screenshot", &machine, screen.to_str().unwrap()]).await.unwrap();
    assert!(std::fs::read(&screen).unwrap().len() > 1000, "a picture without any server");

    // The button ends it; more memory and a larger disk later the data is there.
    virsh(&["shutdown", "--mode", "acpi", &machine]).await.unwrap();
    until_state(&place, "shut off (shutdown)").await;
    spec.memory_mib = 256;
    spec.disks[0].source = pool(2);
    spec.cloud_init.user_data = Secret::new("#cloud-config\n#tiny: value second\n");
    let from = console(&place).len();
    define(&place, &spec).await;
    virsh(&["start", &machine]).await.unwrap();
    until("second boot", &place, || fact(&place, from, "ready").is_some()).await;
    let said = |name: &str| fact(&place, from, name).unwrap_or_default();
    assert_eq!(
        (said("marker_vda").as_str(), said("marker_vdb").as_str()),
        ("kept & safe", "theirs")
    );
    assert_eq!((said("first_boot").as_str(), said("value").as_str()), ("no", "second"));
    assert_eq!(said("disk_vda"), (2_u64 << 30).to_string());
    assert!(said("memory_kib").parse::<u64>().unwrap() > 200 * 1024, "{}", said("memory_kib"));

    // It goes, and what is not ours stays.
    virsh(&["destroy", &machine]).await.unwrap();
    virsh(&["undefine", &machine]).await.unwrap();
    place.disks.release(&machine, true).await.unwrap();
    let left: Vec<_> = place.at("pool").read_dir().unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(theirs.exists() && !place.disks.storage().seed(&machine).exists());
}

#[tokio::test]
async fn a_crash_of_the_guest_is_seen_and_kept() {
    let place = Place::new();
    tiny_image(&place);
    let ip = "192.168.122.77".parse().unwrap();
    let mut spec = VmSpec {
        os_image: Some(Arc::from("tiny")),
        networks: vec![VmNetwork {
            address: Address::Static { ip, prefix: None },
            ..card(Attach::Network(Arc::from("default")), None, NicModel::Virtio)
        }],
        cloud_init: CloudInit {
            user_data: Secret::new("#cloud-config\n#tiny: panic\n"),
            ..CloudInit::default()
        },
        ..vm(vec![disk("vda", pool(1), DiskFormat::Qcow2)])
    };
    spec.disks[0].boot = true;
    define(&place, &spec).await;
    virsh(&["start", &place.machine()]).await.unwrap();
    until_state(&place, "crashed (panicked)").await;
    assert_eq!(fact(&place, 0, "ip_eth0").as_deref(), Some("192.168.122.77"));
    assert!(console(&place).contains("Kernel panic - not syncing"), "{}", console(&place));
    let screen = place.at("screen.ppm");
    let taken = virsh(&["screenshot", &place.machine(), screen.to_str().unwrap()]).await;
    assert!(taken.is_ok() && screen.metadata().unwrap().len() > 1000, "{taken:?}");
}

#[tokio::test]
async fn the_disc_of_a_seed_is_read_by_others() {
    let place = Place::new();
    let spec = CloudInit {
        user_data: Secret::new("#cloud-config\nhostname: x\n"),
        vendor_data: Secret::new("#!/bin/sh\n"),
        ..CloudInit::default()
    };
    let disc =
        seed::Seed { uuid: "0000", hostname: "web", cloud_init: &spec, cards: &[], mounts: &[] };
    let path = place.at("seed.iso");
    seed::write(&path, &disc.disc().unwrap()).unwrap();
    let isoinfo = |args: &'static [&'static str]| {
        let path = path.to_str().unwrap().to_owned();
        async move {
            let args: Vec<_> = ["-i", path.as_str()].iter().chain(args).copied().collect();
            tool("/usr/bin/isoinfo", &args).await.unwrap()
        }
    };
    let facts = isoinfo(&["-d"]).await;
    assert!(facts.contains("Volume id: cidata"), "{facts}");
    assert!(facts.contains("Rock Ridge signatures version 1 found"), "{facts}");
    for way in [&["-R", "-f"][..], &["-J", "-f"]] {
        let files = isoinfo(way).await;
        for name in ["/meta-data", "/user-data", "/vendor-data"] {
            assert!(files.lines().any(|line| line == name), "{way:?}: {files}");
        }
    }
    assert_eq!(isoinfo(&["-R", "-x", "/user-data"]).await, spec.user_data.reveal());
    assert_eq!(isoinfo(&["-J", "-x", "/vendor-data"]).await, spec.vendor_data.reveal());
    let label = tool("/usr/sbin/blkid", &["-p", "-o", "export", path.to_str().unwrap()]).await;
    let label = label.unwrap();
    assert!(label.contains("LABEL=cidata") && label.contains("TYPE=iso9660"), "{label}");
}

#[tokio::test]
async fn kvm_counts_only_if_a_guest_ran_under_it() {
    let place = Place::new();
    let kvm = Kvm::new(PathBuf::from("/usr/bin/qemu-system-x86_64"), place.at("scratch"));
    // The same guest comes to its end where nothing can be wrong with it.
    kvm.try_guest("tcg").await.unwrap();
    let verdict = kvm.verdict().await;
    let runs = Path::new("/dev/kvm").exists() && kvm.try_guest("kvm").await.is_ok();
    assert!(verdict.engine == Engine::Tcg || runs, "{verdict:?}");
    if verdict.engine == Engine::Tcg {
        assert!(verdict.why.contains("under emulation (TCG)"), "{verdict:?}");
    }
    assert_eq!(kvm.verdict().await, verdict);
}
