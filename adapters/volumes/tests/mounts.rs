//! Volumes with file systems that are really mounted. Needs root and loop devices.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test is told apart by where it fails"
)]

#[path = "contract/clauses.rs"]
mod clauses;

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use clauses::{all, is_private, wanted, workload};
use persys_volumes::{Driver as _, Limit, Local, LocalSettings, Nfs, NfsSettings, Tools};

const MIB: u64 = 1024 * 1024;

fn local(root: &Path) -> Local {
    let settings = LocalSettings { root: root.to_owned(), limit: Limit::Image };
    Local::new(settings, Tools::default())
}

/// Writes until somebody says no; how much went in, and what was said.
fn fill(path: &Path) -> (u64, std::io::Error) {
    let mut file = std::fs::File::create(path).unwrap();
    let block = vec![7_u8; 256 * 1024];
    let mut written = 0;
    loop {
        match file.write_all(&block).and_then(|()| file.sync_data()) {
            Ok(()) => written += 256 * 1024,
            Err(error) => return (written, error),
        }
        assert!(written < 1024 * MIB, "nothing holds it");
    }
}

#[tokio::test]
async fn a_local_volume_holds_its_size_and_keeps_its_data() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("local");
    let driver = Arc::new(local(&root));
    all(Arc::<Local>::clone(&driver)).await;
    is_private(&root);
    let (volume, us) = (wanted("db", 32 * MIB), workload("w"));
    let attached = driver.attach(&volume, &us).await.unwrap();
    assert!(attached.limited);
    std::fs::write(attached.path.join("kept"), "yes").unwrap();
    let (written, error) = fill(&attached.path.join("filler"));
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
    assert!((16 * MIB..=32 * MIB).contains(&written), "{written}");

    // Larger, but not while it is mounted; never smaller.
    let error = driver.attach(&wanted("db", 96 * MIB), &us).await.unwrap_err().to_string();
    assert!(error.contains("cannot grow while it is in use"), "{error}");
    driver.detach(&volume.name).await.unwrap();
    let attached = driver.attach(&wanted("db", 96 * MIB), &us).await.unwrap();
    let (written, _) = fill(&attached.path.join("filler"));
    assert!((70 * MIB..=96 * MIB).contains(&written), "{written}");
    let error = driver.attach(&volume, &us).await.unwrap_err().to_string();
    assert!(error.contains("cannot shrink"), "{error}");

    // The host was started anew: nothing is mounted, and the data is there.
    let status = Command::new("/usr/bin/umount").arg(root.join("mounts/db")).status().unwrap();
    assert!(status.success());
    let attached = local(&root).attach(&wanted("db", 96 * MIB), &us).await.unwrap();
    assert_eq!(std::fs::read_to_string(attached.path.join("kept")).unwrap(), "yes");
    driver.delete(&volume.name, &us).await.unwrap();
    assert!(!root.join("images/db.img").exists() && !root.join("mounts/db").exists());
}

#[tokio::test]
async fn one_that_is_in_use_is_not_torn_away() {
    let folder = tempfile::tempdir().unwrap();
    let driver = local(&folder.path().join("local"));
    let (volume, us) = (wanted("busy", 16 * MIB), workload("w"));
    let at = driver.attach(&volume, &us).await.unwrap().path;
    let file = std::fs::File::create(at.join("open")).unwrap();
    let error = driver.delete(&volume.name, &us).await.unwrap_err().to_string();
    assert!(error.contains("unmounting it failed") && error.contains("busy"), "{error}");
    drop(file);
    driver.delete(&volume.name, &us).await.unwrap();
}

/// Where the kernel has no NFS, a mount of its own kind of a folder stands in for the server.
#[tokio::test]
async fn nfs_by_the_contract_with_a_folder_as_server() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().display();
    std::fs::create_dir(folder.path().join("server")).unwrap();
    let mount = folder.path().join("mount");
    let script = format!(
        "#!/bin/sh\nfor last; do :; done\neval \"source=\\${{$(($# - 1))}}\"\n\
         exec /usr/bin/mount --bind \"{here}/server${{source#nas.test:/srv}}\" \"$last\"\n"
    );
    std::fs::write(&mount, script).unwrap();
    std::fs::set_permissions(&mount, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(folder.path().join("fs"), "nodev nfs\n").unwrap();
    let stage = folder.path().join("stage");
    let settings = NfsSettings {
        server: "nas.test".to_owned(),
        export: "/srv".to_owned(),
        options: String::new(),
        stage: stage.clone(),
    };
    let tools = Tools { mount, filesystems: folder.path().join("fs"), ..Tools::default() };
    let nfs = Arc::new(Nfs::new(settings, tools));
    all(Arc::<Nfs>::clone(&nfs)).await;
    let at = nfs.attach(&wanted("v", 0), &workload("w")).await.unwrap().path;
    std::fs::write(at.join("x"), "y").unwrap();
    let there = folder.path().join("server/persys/v/data/x");
    assert_eq!(std::fs::read_to_string(there).unwrap(), "y", "it is on the server");
    nfs.delete(&wanted("v", 0).name, &workload("w")).await.unwrap();
    let status = Command::new("/usr/bin/umount").arg(stage.join("export")).status().unwrap();
    assert!(status.success());
}
