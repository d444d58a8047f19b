//! Who uses what, and when data goes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use persys_model::id::{VolumeName, WorkloadId};
use persys_model::spec::volume::{AccessMode, ManagedVolume, VolumeDriver};
use persys_model::volume::VolumeKey;
use persys_volumes::{Attached, Driver, Error, Local, Seen, Volumes, Wanted};

use crate::clauses::{name, workload};
use crate::pretend::Pretend;

fn volume(text: &str, retain: bool) -> ManagedVolume {
    ManagedVolume {
        name: name(text),
        driver: VolumeDriver::Local,
        size_gib: 1,
        access: AccessMode::ReadWriteOnce,
        fs_type: Arc::from(""),
        mount_path: Arc::from("/data"),
        read_only: false,
        retain,
    }
}

async fn written(volumes: &Volumes, by: &WorkloadId, volume: &ManagedVolume) -> PathBuf {
    let all = volumes.attach(by, std::slice::from_ref(volume), Seen::Folder).await.unwrap();
    let path = all[&volume.name].path.join("x");
    std::fs::write(&path, "y").unwrap();
    path
}

#[tokio::test]
async fn data_goes_with_a_purge_and_by_its_policy() {
    let pretend = Pretend::new();
    let us = workload("w");
    let volumes = Volumes::new(&pretend.settings());
    let deleted = written(&volumes, &us, &volume("deleted", false)).await;
    let retained = written(&volumes, &us, &volume("retained", true)).await;
    volumes.release(&us, false).await.unwrap();
    assert!(deleted.exists() && retained.exists(), "a copy that moved away leaves its data");
    // Another life of the agent knows what this one wrote down.
    let volumes = Volumes::new(&pretend.settings());
    volumes.release(&us, true).await.unwrap();
    assert!(!deleted.exists() && retained.exists());
    volumes.release(&us, true).await.unwrap();
    // Retained data is there for the next one, which may decide otherwise.
    let again = written(&volumes, &us, &volume("retained", false)).await;
    volumes.release(&us, true).await.unwrap();
    assert!(!again.exists());
    assert_eq!(std::fs::read_dir(pretend.path().join("state")).unwrap().count(), 0);
}

#[tokio::test]
async fn what_two_share_goes_with_the_last() {
    let pretend = Pretend::new();
    let volumes = Volumes::new(&pretend.settings());
    let (one, other) = (workload("one"), workload("other"));
    let shared = volume("shared", false);
    let path = written(&volumes, &one, &shared).await;
    written(&volumes, &other, &shared).await;
    volumes.release(&one, true).await.unwrap();
    assert!(path.exists());
    volumes.release(&other, true).await.unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn what_an_update_drops_is_detached_and_goes_in_the_end() {
    let pretend = Pretend::new();
    let volumes = Volumes::new(&pretend.settings());
    let us = workload("w");
    let (old, new) = (volume("old", false), volume("new", false));
    let path = written(&volumes, &us, &old).await;
    written(&volumes, &us, &new).await;
    volumes.keep_only(&us, std::slice::from_ref(&new)).await.unwrap();
    assert!(path.exists());
    volumes.release(&us, true).await.unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn a_volume_nobody_uses_is_destroyed_whatever_its_policy() {
    let pretend = Pretend::new();
    let volumes = Volumes::new(&pretend.settings());
    let (us, kept) = (workload("w"), volume("v", true));
    let key = VolumeKey::of(&kept);
    let path = written(&volumes, &us, &kept).await;
    let error = volumes.destroy(&key, &key.order_id()).await.unwrap_err();
    assert!(error.to_string().contains("w has it attached"), "{error}");
    volumes.release(&us, true).await.unwrap();
    assert!(path.exists(), "its policy keeps it");
    for _ in 0..2 {
        volumes.destroy(&key, &key.order_id()).await.unwrap();
        assert!(!path.exists(), "already so is success");
    }
}

#[tokio::test]
async fn a_driver_that_is_not_here_is_refused_by_name() {
    let pretend = Pretend::new();
    let mut settings = pretend.settings();
    settings.nfs = None;
    settings.tools.rbd = "/no/rbd".into();
    let volumes = Volumes::new(&settings);
    let offers = volumes.offers();
    assert!(offers[&VolumeDriver::Local].is_ok());
    for (driver, words) in [
        (VolumeDriver::Nfs, "PERSYS_STORAGE_NFS_SERVER"),
        (VolumeDriver::CephRbd, "apt-get install ceph-common"),
    ] {
        assert!(offers[&driver].as_ref().unwrap_err().contains(words));
        let wanted = ManagedVolume { driver, ..volume("v", false) };
        let error = volumes.attach(&workload("w"), &[wanted], Seen::Folder).await.unwrap_err();
        assert!(matches!(error, Error::NotOffered { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(!pretend.path().join("state").exists(), "nothing was written down");
}

/// Does what it is told, and breaks right after or before it.
#[derive(Debug)]
struct Breaking {
    inner: Local,
    after: bool,
    broken: AtomicBool,
}

impl Breaking {
    fn breaks(&self) -> Result<(), Error> {
        if self.broken.swap(false, Ordering::SeqCst) {
            return Err(Error::Refused { name: name("v"), why: "broken".to_owned() });
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl Driver for Breaking {
    fn kind(&self) -> VolumeDriver {
        VolumeDriver::Local
    }

    fn offered(&self) -> Result<(), String> {
        self.inner.offered()
    }

    async fn attach(&self, wanted: &Wanted, by: &WorkloadId) -> Result<Attached, Error> {
        if !self.after {
            self.breaks()?;
        }
        let attached = self.inner.attach(wanted, by).await?;
        self.breaks().map(|()| attached)
    }

    async fn detach(&self, name: &VolumeName) -> Result<(), Error> {
        self.inner.detach(name).await?;
        self.breaks()
    }

    async fn delete(&self, name: &VolumeName, by: &WorkloadId) -> Result<(), Error> {
        if !self.after {
            self.breaks()?;
        }
        self.inner.delete(name, by).await?;
        self.breaks()
    }
}

#[tokio::test]
async fn whoever_was_interrupted_goes_on() {
    for after in [false, true] {
        let pretend = Pretend::new();
        let settings = pretend.settings();
        let life = || {
            let inner = Local::new(settings.local.clone(), settings.tools.clone());
            let broken = AtomicBool::new(true);
            let driver = Arc::new(Breaking { inner, after, broken });
            Volumes::of(vec![driver], settings.state.clone())
        };
        let (us, v) = (workload("w"), volume("v", false));
        let interrupted = life();
        let wanted = std::slice::from_ref(&v);
        interrupted.attach(&us, wanted, Seen::Folder).await.unwrap_err();
        let path = written(&interrupted, &us, &v).await;
        let interrupted = life();
        interrupted.release(&us, true).await.unwrap_err();
        // Before it is deleted for good, somebody wants a new one of that name: it is empty.
        let next = Volumes::new(&settings);
        let all = next.attach(&us, wanted, Seen::Folder).await.unwrap();
        assert_eq!(std::fs::read_dir(&all[&v.name].path).unwrap().count(), 0, "after: {after}");
        next.release(&us, true).await.unwrap();
        assert!(!path.exists());
    }
}
