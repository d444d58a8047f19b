//! What every driver promises.

use std::path::Path;
use std::sync::Arc;

use persys_model::id::{VolumeName, WorkloadId};
use persys_volumes::{Driver, Seen, Wanted};

pub(crate) fn name(text: &str) -> VolumeName {
    VolumeName::new(text).unwrap()
}

pub(crate) fn workload(text: &str) -> WorkloadId {
    WorkloadId::new(text).unwrap()
}

pub(crate) fn wanted(text: &str, bytes: u64) -> Wanted {
    Wanted { name: name(text), bytes, fs_type: String::new(), seen: Seen::Folder }
}

const BYTES: u64 = 16 * 1024 * 1024;

/// All of it.
pub(crate) async fn all(driver: Arc<dyn Driver>) {
    driver.offered().unwrap();
    stays_until_deleted(driver.as_ref()).await;
    already_so(driver.as_ref()).await;
    follows_no_link(driver.as_ref()).await;
}

async fn stays_until_deleted(driver: &dyn Driver) {
    let (volume, us) = (wanted("db", BYTES), workload("w"));
    let at = driver.attach(&volume, &us).await.unwrap().path;
    std::fs::write(at.join("x"), "kept").unwrap();
    assert_eq!(driver.attach(&volume, &us).await.unwrap().path, at, "attached twice is one");
    for _ in 0..2 {
        driver.detach(&volume.name).await.unwrap();
        let at = driver.attach(&volume, &us).await.unwrap().path;
        assert_eq!(std::fs::read_to_string(at.join("x")).unwrap(), "kept");
    }
    driver.delete(&volume.name, &us).await.unwrap();
    let at = driver.attach(&volume, &us).await.unwrap().path;
    assert!(!at.join("x").exists(), "what was deleted does not come back");
    driver.delete(&volume.name, &us).await.unwrap();
}

async fn already_so(driver: &dyn Driver) {
    let (never, us) = (name("never"), workload("w"));
    driver.detach(&never).await.unwrap();
    driver.delete(&never, &us).await.unwrap();
    let (volume, us) = (wanted("twice", BYTES), workload("w"));
    driver.attach(&volume, &us).await.unwrap();
    driver.detach(&volume.name).await.unwrap();
    driver.detach(&volume.name).await.unwrap();
    driver.delete(&volume.name, &us).await.unwrap();
    driver.delete(&volume.name, &us).await.unwrap();
}

async fn follows_no_link(driver: &dyn Driver) {
    let outside = tempfile::tempdir().unwrap();
    let precious = outside.path().join("precious");
    std::fs::write(&precious, "x").unwrap();
    let (volume, us) = (wanted("links", BYTES), workload("w"));
    let at = driver.attach(&volume, &us).await.unwrap().path;
    std::os::unix::fs::symlink(outside.path(), at.join("out")).unwrap();
    std::os::unix::fs::symlink(&precious, at.join("file")).unwrap();
    driver.delete(&volume.name, &us).await.unwrap();
    assert!(precious.exists());
}

/// Nobody but us gets to the volumes by the way: others pass the top without seeing what is in it, as
/// QEMU must, and not the folders above what workloads see.
pub(crate) fn is_private(root: &Path) {
    use std::os::unix::fs::MetadataExt as _;
    let mode = |path: &Path| std::fs::metadata(path).map(|about| about.mode() & 0o777).ok();
    assert_eq!(mode(root), Some(0o711), "{}", root.display());
    for name in ["mounts", "folders"] {
        let path = root.join(name);
        assert!([None, Some(0o700)].contains(&mode(&path)), "{}", path.display());
    }
}
