//! Disks made, grown, refused and removed, with the real `qemu-img`.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use persys_model::id::VolumeName;
use persys_model::spec::VmSpec;
use persys_model::spec::vm::{DiskFormat, DiskSource};
use persys_model::spec::volume::{AccessMode, ManagedVolume, VolumeDriver};
use persys_runtime::Error;
use persys_runtime::vm::disks::{Power, Prepared};
use persys_runtime::vm::domain::LayerFormat;

use crate::place::{Place, disk, external, pool, qemu_img, vm};

async fn prepare(place: &Place, vm: &VmSpec) -> Result<Prepared, Error> {
    place.disks.prepare(&place.machine(), vm, &BTreeMap::new(), Power::Off).await
}

async fn refused(place: &Place, vm: &VmSpec) -> String {
    let error = prepare(place, vm).await.unwrap_err();
    assert!(!error.is_unknown(), "a refusal is certain: {error}");
    error.to_string()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

async fn virtual_size(path: &Path) -> u64 {
    let report = qemu_img(&["info", "--output=json", text(path)]).await;
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    report["virtual-size"].as_u64().unwrap()
}

/// Each is a way in which an image could show a guest files of the node, or take the node's disk.
#[tokio::test]
async fn images_that_lie_are_refused_with_their_reason() {
    let place = Place::new();
    let open = |name: &str| place.at("open").join(name);
    let qcow = |name: &str, more: Vec<String>| {
        let path = open(name);
        async move {
            let mut args: Vec<String> = ["create", "-q", "-f", "qcow2"].map(str::to_owned).into();
            args.extend(more);
            args.extend([text(&path).to_owned(), "1M".to_owned()]);
            let args: Vec<_> = args.iter().map(String::as_str).collect();
            qemu_img(&args).await;
            path
        }
    };
    let option = |text: &str| vec!["-o".to_owned(), text.to_owned()];
    let plain = qcow("plain.qcow2", vec![]).await;
    let backed = qcow("backed.qcow2", option("backing_file=/etc/passwd,backing_fmt=raw")).await;
    let data = format!("data_file={}", text(&open("data.raw")));
    let elsewhere = qcow("data.qcow2", option(&data)).await;
    let bomb = open("bomb.qcow2");
    qemu_img(&["create", "-q", "-f", "qcow2", text(&bomb), "1P"]).await;
    let vmdk = open("x.vmdk");
    qemu_img(&["create", "-q", "-f", "vmdk", text(&vmdk), "1M"]).await;
    let cut = open("cut.qcow2");
    std::fs::write(&cut, &std::fs::read(&plain).unwrap()[..60]).unwrap();
    let noise = open("noise.qcow2");
    std::fs::write(&noise, b"QFI\xfb\0\0\0\x03".repeat(900)).unwrap();
    // What a guest could have written on its own plain disk.
    let disguised = open("disguised.img");
    std::fs::copy(&backed, &disguised).unwrap();
    let huge = open("huge.img");
    std::fs::File::create(&huge).unwrap().set_len(200 << 30).unwrap();
    let encrypted = open("encrypted.qcow2");
    std::fs::copy(&plain, &encrypted).unwrap();
    std::fs::File::options().write(true).open(&encrypted).unwrap().write_at(&[1], 35).unwrap();
    let link = open("link.img");
    symlink("/etc/passwd", &link).unwrap();

    let (qcow2, raw) = (DiskFormat::Qcow2, DiskFormat::Raw);
    for (path, format, reason) in [
        (&backed, qcow2, "names a backing file"),
        (&elsewhere, qcow2, "keeps its data in another file"),
        (&bomb, qcow2, "is larger than 100 GiB"),
        (&huge, raw, "is larger than 100 GiB"),
        (&vmdk, qcow2, "was said to be qcow2, but is vmdk"),
        (&vmdk, raw, "begins as vmdk"),
        (&disguised, raw, "begins as qcow2"),
        (&disguised, DiskFormat::Iso, "begins as qcow2"),
        (&plain, raw, "begins as qcow2"),
        (&cut, qcow2, "has a header that no tool writes"),
        (&noise, qcow2, "has a header that no tool writes"),
        (&encrypted, qcow2, "is encrypted"),
        (&link, raw, "is not under a folder open to specs"),
        (&PathBuf::from("/etc/passwd"), raw, "is not under a folder open to specs"),
        (&PathBuf::from("/dev/null"), raw, "is not under a folder open to specs"),
        (&open("missing.img"), raw, "does not exist; give size_gb"),
        (&place.at("open"), raw, "is not under a folder"),
    ] {
        let said = refused(&place, &vm(vec![disk("vdb", external(path, None), format)])).await;
        // The folder itself lies under itself; it is refused for what it is.
        let folder = path == &place.at("open") && said.contains("is not an ordinary file");
        assert!(said.contains(reason) || folder, "{}: {said}", path.display());
    }
    let taken = prepare(&place, &vm(vec![disk("vdb", external(&plain, None), qcow2)])).await;
    assert_eq!(taken.unwrap().disks[0].layers[0].format, LayerFormat::Qcow2);
}

#[tokio::test]
async fn images_of_the_catalogue_are_checked_the_same_way() {
    let place = Place::new();
    let image = |name: &str| place.at("images").join(name);
    qemu_img(&["create", "-q", "-f", "qcow2", text(&image("good.qcow2")), "2G"]).await;
    let backing = "backing_file=/etc/shadow,backing_fmt=raw";
    let evil = image("evil.qcow2");
    qemu_img(&["create", "-q", "-f", "qcow2", "-o", backing, text(&evil), "1G"]).await;
    let on = |image: &str, gib| VmSpec {
        os_image: Some(Arc::from(image)),
        ..vm(vec![disk("vda", pool(gib), DiskFormat::Qcow2)])
    };
    assert!(refused(&place, &on("evil", 3)).await.contains("names a backing file"));
    assert!(refused(&place, &on("none", 3)).await.contains("put none.qcow2 into"));
    assert!(refused(&place, &on("good", 1)).await.contains("its image needs 2 GiB or more"));
    assert_eq!(place.at("pool").read_dir().unwrap().count(), 0, "nothing was made");

    let prepared = prepare(&place, &on("good", 3)).await.unwrap();
    let layers = &prepared.disks[0].layers;
    assert_eq!((layers.len(), layers[1].path.clone()), (2, image("good.qcow2")));
    assert_eq!(virtual_size(&layers[0].path).await, 3 << 30);
    // The same again changes nothing; another image under the data is refused.
    assert_eq!(prepare(&place, &on("good", 3)).await.unwrap(), prepared);
    qemu_img(&["create", "-q", "-f", "qcow2", text(&image("new.qcow2")), "1G"]).await;
    assert!(refused(&place, &on("new", 3)).await.contains("an update cannot put it on the image"));
    let bare = vm(vec![disk("vda", pool(3), DiskFormat::Qcow2)]);
    assert!(refused(&place, &bare).await.contains("on no image"));
    assert_eq!(virtual_size(&layers[0].path).await, 3 << 30);
}

#[tokio::test]
async fn disks_grow_and_never_shrink() {
    let place = Place::new();
    for (device, format) in [("vda", DiskFormat::Qcow2), ("vdb", DiskFormat::Raw)] {
        let of = |gib| vm(vec![disk(device, pool(gib), format)]);
        let path = prepare(&place, &of(1)).await.unwrap().disks[0].layers[0].path.clone();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let on = place
            .disks
            .prepare(&place.machine(), &of(2), &BTreeMap::new(), Power::On)
            .await
            .unwrap();
        assert_eq!(on.to_grow, [(device.to_owned(), 2 << 30)]);
        assert_eq!(virtual_size(&path).await, 1 << 30, "whoever runs it grows it");
        assert_eq!(prepare(&place, &of(2)).await.unwrap().to_grow, []);
        assert_eq!(virtual_size(&path).await, 2 << 30);
        assert!(refused(&place, &of(1)).await.contains("disks only grow"));
        let other = vm(vec![disk(device, external(&place.at("open/x.img"), Some(1)), format)]);
        assert!(refused(&place, &other).await.contains("an update cannot move it"));
        assert!(refused(&place, &of(101)).await.contains("is larger than 100 GiB"));
    }
}

#[tokio::test]
async fn purging_removes_exactly_what_was_made() {
    let place = Place::new();
    let (theirs, made) = (place.at("open/theirs.img"), place.at("open/made.img"));
    std::fs::write(&theirs, vec![7; 4096]).unwrap();
    std::fs::write(place.at("pool/foreign-vda.qcow2"), "x").unwrap();
    let spec = vm(vec![
        disk("vda", pool(1), DiskFormat::Qcow2),
        disk("vdb", external(&theirs, None), DiskFormat::Raw),
        disk("vdc", external(&made, Some(1)), DiskFormat::Raw),
    ]);
    let prepared = prepare(&place, &spec).await.unwrap();
    let ours = prepared.disks[0].layers[0].path.clone();
    // An update takes a disk away: its data stays.
    prepare(&place, &vm(spec.disks[1..].to_vec())).await.unwrap();
    assert!(ours.exists());

    let machine = place.machine();
    std::fs::write(place.disks.storage().console_log(&machine), "a").unwrap();
    std::fs::write(place.disks.storage().folder(&machine).join("console.log.0"), "b").unwrap();
    std::fs::write(place.disks.storage().seed(&machine), "c").unwrap();
    place.disks.release(&machine, false).await.unwrap();
    assert!(ours.exists() && made.exists() && theirs.exists());
    let folder = place.disks.storage().folder(&machine);
    assert_eq!(folder.read_dir().unwrap().count(), 1, "only the record is left");
    assert_eq!(prepare(&place, &spec).await.unwrap(), prepared, "and it comes back as it was");

    for _ in 0..2 {
        place.disks.release(&machine, true).await.unwrap();
        assert!(!ours.exists() && !made.exists() && !folder.exists());
        assert_eq!(std::fs::read(&theirs).unwrap(), vec![7; 4096]);
        assert!(place.at("pool/foreign-vda.qcow2").exists());
    }
}

#[tokio::test]
async fn a_disk_is_one_machines_and_a_lost_one_is_not_made_again() {
    let place = Place::new();
    let shared = place.at("open/shared.img");
    std::fs::write(&shared, vec![0; 4096]).unwrap();
    let spec = vm(vec![disk("vdb", external(&shared, None), DiskFormat::Raw)]);
    prepare(&place, &spec).await.unwrap();
    let other = place.disks.prepare("persys-live-other", &spec, &BTreeMap::new(), Power::Off).await;
    let said = other.unwrap_err().to_string();
    assert!(said.contains(&format!("is a disk of the machine {}", place.machine())), "{said}");

    let spec = vm(vec![disk("vda", pool(1), DiskFormat::Qcow2)]);
    let path = prepare(&place, &spec).await.unwrap().disks[0].layers[0].path.clone();
    std::fs::remove_file(&path).unwrap();
    assert!(refused(&place, &spec).await.contains("is gone, and the data in it"));
    assert!(!path.exists());

    let taken = place.at("pool/persys-live-third-vda.qcow2");
    std::fs::write(&taken, "somebody's").unwrap();
    let third = place.disks.prepare("persys-live-third", &spec, &BTreeMap::new(), Power::Off).await;
    assert!(third.unwrap_err().to_string().contains("was not made for this machine"));
    assert_eq!(std::fs::read(&taken).unwrap(), b"somebody's");
}

#[tokio::test]
async fn a_volume_is_a_bare_disk_that_goes_with_the_volume() {
    let place = Place::new();
    let folder = place.at("open/volume");
    std::fs::create_dir(&folder).unwrap();
    let volume = |gib| ManagedVolume {
        name: VolumeName::fixed("data"),
        driver: VolumeDriver::Local,
        size_gib: gib,
        access: AccessMode::ReadWriteOnce,
        fs_type: Arc::from(""),
        mount_path: Arc::from("/srv"),
        read_only: false,
        retain: true,
    };
    let of = |gib| VmSpec {
        managed_volumes: vec![volume(gib)],
        ..vm(vec![disk("vda", pool(1), DiskFormat::Qcow2)])
    };
    let machine = place.machine();
    let error = prepare(&place, &of(1)).await.unwrap_err();
    assert!(error.to_string().contains("volume data is not attached"), "{error}");
    let volumes = BTreeMap::from([(VolumeName::fixed("data"), folder.clone())]);
    let ready = |gib| {
        let (place, volumes, machine, of) = (&place, &volumes, &machine, &of);
        async move { place.disks.prepare(machine, &of(gib), volumes, Power::Off).await.unwrap() }
    };
    let prepared = ready(1).await;
    let (disk, mount) = (&prepared.disks[1], &prepared.mounts[0]);
    assert_eq!((disk.device.as_str(), disk.serial.as_deref()), ("vdb", Some("data")));
    assert_eq!((mount.serial.as_str(), mount.path.as_str()), ("data", "/srv"));
    let file = folder.join("disk.img");
    assert_eq!(file.metadata().unwrap().len(), 1 << 30);
    ready(2).await;
    assert_eq!(file.metadata().unwrap().len(), 2 << 30);
    place.disks.release(&machine, true).await.unwrap();
    assert!(file.exists(), "it is the volume's");
}

#[tokio::test]
async fn a_storage_nobody_offers_is_refused_by_name() {
    let place = Place::new();
    for (source, name) in [
        (DiskSource::Rbd { pool: Arc::from("p"), image: Arc::from("i") }, "ceph-rbd"),
        (DiskSource::Driver { driver: VolumeDriver::Nfs, size_gib: 1 }, "nfs"),
    ] {
        let said = refused(&place, &vm(vec![disk("vda", source, DiskFormat::Raw)])).await;
        assert!(said.contains(&format!("is of {name}, which this node does not offer")), "{said}");
    }
}
