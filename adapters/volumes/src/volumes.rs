//! All drivers of a node, and who uses what of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use persys_model::id::{VolumeName, WorkloadId};
use persys_model::spec::volume::{ManagedVolume, VolumeDriver};
use persys_model::volume::VolumeKey;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

use crate::book::{Book, Key, Manifest};
use crate::driver::{Attached, Driver, Seen, Wanted};
use crate::error::Error;
use crate::local::Local;
use crate::nfs::Nfs;
use crate::rbd::Rbd;
use crate::settings::Settings;

const GIB: u64 = 1024 * 1024 * 1024;

/// The managed volumes of a node. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Volumes {
    drivers: Arc<BTreeMap<VolumeDriver, Arc<dyn Driver>>>,
    book: Book,
    /// One thing at a time for each volume; what hangs holds up no other.
    turns: Arc<Mutex<BTreeMap<Key, Arc<Turn<()>>>>>,
}

impl Volumes {
    /// By these settings.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let tools = || settings.tools.clone();
        let mut drivers: Vec<Arc<dyn Driver>> =
            vec![Arc::new(Local::new(settings.local.clone(), tools()))];
        if let Some(nfs) = &settings.nfs {
            drivers.push(Arc::new(Nfs::new(nfs.clone(), tools())));
        }
        if let Some(ceph) = &settings.ceph {
            drivers.push(Arc::new(Rbd::new(ceph.clone(), tools())));
        }
        Self::of(drivers, settings.state.clone())
    }

    /// With these drivers, and what is written down in `state`.
    #[must_use]
    pub fn of(drivers: Vec<Arc<dyn Driver>>, state: PathBuf) -> Self {
        let drivers = drivers.into_iter().map(|driver| (driver.kind(), driver)).collect();
        Self { drivers: Arc::new(drivers), book: Book::new(state), turns: Arc::default() }
    }

    /// For each driver: whether it is offered here and what to know of it, or what is missing.
    #[must_use]
    pub fn offers(&self) -> BTreeMap<VolumeDriver, Result<Option<String>, String>> {
        VolumeDriver::ALL
            .into_iter()
            .map(|kind| {
                let offer = match self.drivers.get(&kind) {
                    Some(driver) => driver.offered().map(|()| driver.warning()),
                    None => Err(unset(kind)),
                };
                (kind, offer)
            })
            .collect()
    }

    fn driver(&self, kind: VolumeDriver) -> Result<&dyn Driver, Error> {
        let refuse = |why| Error::NotOffered { driver: kind.word(), why };
        let driver = self.drivers.get(&kind).ok_or_else(|| refuse(unset(kind)))?;
        Ok(driver.as_ref())
    }

    async fn turn(&self, key: &Key) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(key.clone()).or_default())
        };
        turn.lock_owned().await
    }

    /// Has every volume of `wanted` here for `workload`; where each is.
    pub async fn attach(
        &self,
        workload: &WorkloadId,
        wanted: &[ManagedVolume],
        seen: Seen,
    ) -> Result<BTreeMap<VolumeName, Attached>, Error> {
        let mut attached = BTreeMap::new();
        for volume in wanted {
            let at = self.attach_one(workload, volume, seen).await?;
            attached.insert(volume.name.clone(), at);
        }
        Ok(attached)
    }

    async fn attach_one(
        &self,
        workload: &WorkloadId,
        volume: &ManagedVolume,
        seen: Seen,
    ) -> Result<Attached, Error> {
        let driver = self.driver(volume.driver)?;
        driver.offered().map_err(|why| Error::NotOffered { driver: volume.driver.word(), why })?;
        let key = Key { driver: volume.driver, name: volume.name.clone() };
        let _turn = self.turn(&key).await;
        let mut manifest = self.book.read(&key)?.unwrap_or_default();
        if manifest.deleting {
            // Somebody deleted it and was interrupted; what is wanted now is a new one.
            driver.delete(&key.name, workload).await?;
            manifest = Manifest::default();
        }
        manifest.retain = volume.retain;
        manifest.claims.insert(workload.to_string(), true);
        self.book.write(&key, &manifest)?;
        let wanted = Wanted {
            name: volume.name.clone(),
            bytes: volume.size_gib.saturating_mul(GIB),
            fs_type: volume.fs_type.to_string(),
            seen,
        };
        driver.attach(&wanted, workload).await
    }

    /// Has nothing here for `workload` but `kept`. What is left over keeps its data.
    pub async fn keep_only(
        &self,
        workload: &WorkloadId,
        kept: &[ManagedVolume],
    ) -> Result<(), Error> {
        for key in self.book.claimed_by(workload)? {
            let stays = kept.iter().any(|one| one.name == key.name && one.driver == key.driver);
            if !stays {
                self.detach(workload, &key).await?;
            }
        }
        Ok(())
    }

    /// `workload` is gone from here. With `purge` its data goes too, where its policy lets it.
    pub async fn release(&self, workload: &WorkloadId, purge: bool) -> Result<(), Error> {
        for key in self.book.claimed_by(workload)? {
            if purge {
                self.give_up(workload, &key).await?;
            } else {
                self.detach(workload, &key).await?;
            }
        }
        Ok(())
    }

    /// Leaves nothing of a volume that no workload uses any more, whatever its policy: `by` is the
    /// order that says so. One that is attached for anybody is left as it is.
    pub async fn destroy(&self, volume: &VolumeKey, by: &WorkloadId) -> Result<(), Error> {
        let key = Key { driver: volume.driver, name: volume.name.clone() };
        let driver = self.driver(key.driver)?;
        let _turn = self.turn(&key).await;
        let mut manifest = self.book.read(&key)?.unwrap_or_default();
        let refuse = |why| Err(Error::Refused { name: key.name.clone(), why });
        if let Some((user, _)) = manifest.claims.iter().find(|(_, attached)| **attached) {
            return refuse(format!("{user} has it attached"));
        }
        manifest.deleting = true;
        self.book.write(&key, &manifest)?;
        driver.destroy(&key.name, by).await?;
        self.book.forget(&key)
    }

    async fn detach(&self, workload: &WorkloadId, key: &Key) -> Result<(), Error> {
        let driver = self.driver(key.driver)?;
        let _turn = self.turn(key).await;
        let Some(mut manifest) = self.book.read(key)? else { return Ok(()) };
        if !manifest.in_use_beside(workload) {
            driver.detach(&key.name).await?;
        }
        manifest.claims.insert(workload.to_string(), false);
        self.book.write(key, &manifest)
    }

    /// The claim ends; with the last one the data, unless it is to be retained.
    async fn give_up(&self, workload: &WorkloadId, key: &Key) -> Result<(), Error> {
        let driver = self.driver(key.driver)?;
        let _turn = self.turn(key).await;
        let Some(mut manifest) = self.book.read(key)? else { return Ok(()) };
        // On a driver of several nodes an old claim of this one proves nothing; the driver asks.
        let shared = if key.driver.is_local() {
            manifest.claimed_beside(workload)
        } else {
            manifest.in_use_beside(workload)
        };
        if shared || manifest.retain {
            if !manifest.in_use_beside(workload) {
                driver.detach(&key.name).await?;
            }
            driver.disclaim(&key.name, workload).await?;
            manifest.claims.remove(workload.as_str());
            return if manifest.claims.is_empty() {
                self.book.forget(key)
            } else {
                self.book.write(key, &manifest)
            };
        }
        manifest.deleting = true;
        self.book.write(key, &manifest)?;
        driver.delete(&key.name, workload).await?;
        self.book.forget(key)
    }
}

fn unset(kind: VolumeDriver) -> String {
    match kind {
        VolumeDriver::Local => "there is no folder for them",
        VolumeDriver::Nfs => "no server is set; see PERSYS_STORAGE_NFS_SERVER and _EXPORT",
        VolumeDriver::CephRbd => "no pool is set; see PERSYS_STORAGE_CEPH_POOL",
        VolumeDriver::Compose => "it is of a stack, and no spec can ask for one",
    }
    .to_owned()
}
