//! A volume we make and keep.

use std::sync::Arc;

use persys_model::id::VolumeName;
use persys_model::spec::volume::{AccessMode, ManagedVolume, VolumeDriver};
use serde::{Deserialize, Serialize};

use super::super::{is_false, mirror, name};

#[derive(Serialize, Deserialize)]
pub(super) struct VolumeShape {
    name: Arc<str>,
    driver: DriverShape,
    size_gib: u64,
    access: AccessShape,
    fs_type: Arc<str>,
    mount_path: Arc<str>,
    #[serde(default, skip_serializing_if = "is_false")]
    read_only: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    retain: bool,
}

mirror!(DriverShape of VolumeDriver { Local, Nfs, CephRbd, Compose });
mirror!(
    #[expect(clippy::enum_variant_names, reason = "the words every storage system uses")]
    AccessShape of AccessMode { ReadWriteOnce, ReadOnlyMany, ReadWriteMany }
);

impl From<&ManagedVolume> for VolumeShape {
    fn from(volume: &ManagedVolume) -> Self {
        let ManagedVolume {
            name,
            driver,
            size_gib,
            access,
            fs_type,
            mount_path,
            read_only,
            retain,
        } = volume;
        Self {
            name: Arc::from(name.as_str()),
            driver: (*driver).into(),
            size_gib: *size_gib,
            access: (*access).into(),
            fs_type: Arc::clone(fs_type),
            mount_path: Arc::clone(mount_path),
            read_only: *read_only,
            retain: *retain,
        }
    }
}

impl VolumeShape {
    pub(super) fn read(self) -> Result<ManagedVolume, String> {
        Ok(ManagedVolume {
            name: name("managed_volumes.name", &self.name, VolumeName::new)?,
            driver: self.driver.into(),
            size_gib: self.size_gib,
            access: self.access.into(),
            fs_type: self.fs_type,
            mount_path: self.mount_path,
            read_only: self.read_only,
            retain: self.retain,
        })
    }
}
