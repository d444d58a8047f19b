//! Each driver by the clauses, and the words it gives to programs.

use std::sync::Arc;

use persys_volumes::{Driver as _, Error, Limit, Local, Nfs, Rbd, Seen, Wanted};

use crate::clauses::{all, is_private, name, wanted, workload};
use crate::pretend::Pretend;

const MIB: u64 = 1024 * 1024;

#[tokio::test]
async fn local_as_a_folder() {
    let pretend = Pretend::new();
    let settings = pretend.settings();
    let local = Arc::new(Local::new(settings.local.clone(), settings.tools.clone()));
    all(Arc::<Local>::clone(&local)).await;
    is_private(&settings.local.root);
    let attached = local.attach(&wanted("v", MIB), &workload("w")).await.unwrap();
    assert!(!attached.limited);
    assert!(local.warning().unwrap().contains("is not limited"));
    assert!(pretend.told().is_empty(), "a folder needs no program");
}

#[tokio::test]
async fn what_stands_in_the_way_is_left_alone() {
    let pretend = Pretend::new();
    let settings = pretend.settings();
    let local = Local::new(settings.local.clone(), settings.tools.clone());
    local.offered().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::create_dir(settings.local.root.join("folders")).unwrap();
    let link = settings.local.root.join("folders/v");
    std::os::unix::fs::symlink(outside.path(), &link).unwrap();
    let error = local.attach(&wanted("v", MIB), &workload("w")).await.unwrap_err();
    assert!(error.to_string().contains("is not a folder"), "{error}");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn local_that_must_hold_sizes_and_cannot_is_not_offered() {
    let pretend = Pretend::new();
    let mut settings = pretend.settings();
    settings.local.limit = Limit::Image;
    settings.tools.sbin = "/no/such/folder".into();
    let why = Local::new(settings.local, settings.tools).offered().unwrap_err();
    assert!(why.contains("mkfs.ext4 is missing"), "{why}");
}

#[tokio::test]
async fn nfs_mounts_a_folder_of_its_own_for_each_volume() {
    let pretend = Pretend::new();
    let settings = pretend.settings();
    let nfs = Nfs::new(settings.nfs.clone().unwrap(), settings.tools.clone());
    nfs.offered().unwrap();
    let (volume, us, other) = (wanted("db", 0), workload("w"), workload("w2"));
    let at = nfs.attach(&volume, &us).await.unwrap().path;
    assert_eq!(at, pretend.path().join("nfs/mounts/db"));
    nfs.attach(&volume, &other).await.unwrap();
    nfs.detach(&volume.name).await.unwrap();
    nfs.detach(&volume.name).await.unwrap();
    let options = "-o vers=4.2,hard,nodev,nosuid";
    assert_eq!(
        pretend.told(),
        [
            format!("mount -t nfs {options} -- nas.test:/srv/vols /nfs/export"),
            format!("mount -t nfs {options} -- nas.test:/srv/vols/persys/db/data /nfs/mounts/db"),
            "umount -- /nfs/mounts/db".to_owned(),
        ]
    );
    // Whoever else uses it keeps it.
    let home = pretend.path().join("nfs/export/persys/db");
    nfs.delete(&volume.name, &us).await.unwrap();
    assert!(home.join("data").is_dir());
    nfs.delete(&volume.name, &other).await.unwrap();
    assert!(!home.exists());
    nfs.delete(&volume.name, &other).await.unwrap();
    let disk = Wanted { seen: Seen::Disk, ..volume };
    assert!(matches!(nfs.attach(&disk, &us).await, Err(Error::Refused { .. })));
}

#[tokio::test]
async fn qemu_can_pass_to_the_disk_of_a_machine_and_nobody_can_read_it_by_the_way() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let pretend = Pretend::new();
    let settings = pretend.settings().local;
    let root = settings.root.clone();
    let closed = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(pretend.path(), closed).unwrap();
    // As an earlier version left them.
    for folder in [root.clone(), root.join("images")] {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    let local = Local::new(settings, pretend.settings().tools);
    let disk = Wanted { seen: Seen::Disk, ..wanted("db", 64 * MIB) };
    let at = local.attach(&disk, &workload("w")).await.unwrap().path;
    assert_eq!(at, root.join("images/db.img"));
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&root), mode(&root.join("images")), mode(&at)), (0o711, 0o711, 0o600));
    let said = local.warning().unwrap();
    assert!(said.contains("virtual machines cannot reach") && said.contains("chmod o+x"), "{said}");
    std::fs::set_permissions(pretend.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
    assert!(!local.warning().unwrap_or_default().contains("cannot reach"));
}

#[tokio::test]
async fn what_a_host_lacks_is_refused_by_name_with_the_next_step() {
    let pretend = Pretend::new();
    let settings = pretend.settings();
    let mut tools = settings.tools.clone();
    tools.mount_nfs = "/no/mount.nfs".into();
    let why = Nfs::new(settings.nfs.clone().unwrap(), tools).offered().unwrap_err();
    assert!(why.contains("/no/mount.nfs is missing; install it with `apt-get"), "{why}");
    let mut tools = settings.tools.clone();
    tools.rbd = "/no/rbd".into();
    let why = Rbd::new(settings.ceph.clone().unwrap(), tools).offered().unwrap_err();
    assert!(why.contains("/no/rbd is missing; install it with `apt-get"), "{why}");
    pretend.program("mount", "echo 'mount.nfs: Connection timed out' >&2; exit 32");
    let nfs = Nfs::new(settings.nfs.unwrap(), settings.tools);
    let error = nfs.attach(&wanted("db", 0), &workload("w")).await.unwrap_err().to_string();
    assert!(
        error.contains("volume db: mounting it failed: mount.nfs: Connection timed"),
        "{error}"
    );
}

#[tokio::test]
async fn ceph_maps_formats_once_and_mounts() {
    let pretend = Pretend::new();
    let settings = pretend.settings();
    let rbd = Rbd::new(settings.ceph.clone().unwrap(), settings.tools.clone());
    let (volume, us) = (wanted("db", 64 * MIB), workload("w"));
    let at = rbd.attach(&volume, &us).await.unwrap().path;
    assert_eq!(at, pretend.path().join("ceph/mounts/db/data"));
    let who = "rbd.sh --cluster ceph --id persys --keyring /etc/ceph/key --pool rbd";
    assert_eq!(
        pretend.told(),
        [
            format!("{who} info --format json -- persys.db"),
            format!("{who} create --size 64M --image-feature layering,exclusive-lock -- persys.db"),
            format!("{who} device list --format json"),
            format!("{who} device map --exclusive -- persys.db"),
            "blkid -p -o value -s TYPE -- /dev/rbd9".to_owned(),
            "mkfs.ext4 -q -F -m 0 -- /dev/rbd9".to_owned(),
            "mount -t ext4 -o nodev,nosuid -- /dev/rbd9 /ceph/mounts/db".to_owned(),
        ]
    );
    rbd.detach(&volume.name).await.unwrap();
    rbd.attach(&volume, &us).await.unwrap();
    let formatted = pretend.told().iter().filter(|line| line.starts_with("mkfs")).count();
    assert_eq!(formatted, 1, "what holds something is not formatted again");
    rbd.attach(&wanted("db", 128 * MIB), &us).await.unwrap();
    assert!(pretend.told().contains(&"resize2fs -- /dev/rbd9".to_owned()));
    let error = rbd.attach(&volume, &us).await.unwrap_err().to_string();
    assert!(error.contains("cannot shrink"), "{error}");
    rbd.delete(&volume.name, &us).await.unwrap();
    rbd.delete(&volume.name, &us).await.unwrap();
    // No answer about what is on it is not the answer that nothing is.
    pretend.program("blkid", "exit 8");
    std::fs::remove_file(pretend.path().join("formatted")).unwrap();
    rbd.attach(&volume, &us).await.unwrap_err();
    assert!(!pretend.path().join("formatted").exists());
    rbd.detach(&name("db")).await.unwrap();
}
