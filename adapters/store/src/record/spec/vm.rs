//! A virtual machine.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use persys_model::id::PoolName;
use persys_model::spec::secret::Secret;
use persys_model::spec::vm::{
    Address, Attach, CloudInit, DiskFormat, DiskSource, Login, NicModel, VmDisk, VmNetwork, VmSpec,
};
use serde::{Deserialize, Serialize};

use super::super::{is_false, mirror, name};
use super::Texts;
use super::volume::{DriverShape, VolumeShape};

#[derive(Serialize, Deserialize)]
pub(super) struct VmShape {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<Arc<str>>,
    vcpus: u32,
    memory_mib: u64,
    disks: Vec<DiskShape>,
    networks: Vec<NetworkShape>,
    #[serde(default)]
    cloud_init: CloudInitShape,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    os_image: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    managed_volumes: Vec<VolumeShape>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    metadata: Texts,
}

#[derive(Serialize, Deserialize)]
struct DiskShape {
    device: Arc<str>,
    source: SourceShape,
    format: FormatShape,
    #[serde(default, skip_serializing_if = "is_false")]
    cdrom: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    boot: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backing_file: Option<Arc<str>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SourceShape {
    Pool {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pool: Option<Arc<str>>,
        size_gib: u64,
    },
    External {
        path: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        create_gib: Option<u64>,
    },
    Driver {
        driver: DriverShape,
        size_gib: u64,
    },
    Rbd {
        pool: Arc<str>,
        image: Arc<str>,
    },
    Nfs {
        host: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
        path: Arc<str>,
    },
}

#[derive(Serialize, Deserialize)]
struct NetworkShape {
    attach: AttachShape,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mac: Option<String>,
    address: AddressShape,
    model: NicShape,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AttachShape {
    Network(Arc<str>),
    Bridge(Arc<str>),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AddressShape {
    Dhcp,
    Static {
        ip: IpAddr,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prefix: Option<u8>,
    },
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct CloudInitShape {
    #[serde(skip_serializing_if = "str::is_empty")]
    user_data: Arc<str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    meta_data: Arc<str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    network_config: Arc<str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    vendor_data: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    login: Option<LoginShape>,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct LoginShape {
    #[serde(skip_serializing_if = "Option::is_none")]
    username: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ssh_public_key: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password_hash: Option<Arc<str>>,
}

mirror!(FormatShape of DiskFormat { Qcow2, Raw, Iso });
mirror!(NicShape of NicModel { Virtio, E1000, E1000e, Rtl8139 });

impl From<&VmSpec> for VmShape {
    fn from(vm: &VmSpec) -> Self {
        let VmSpec {
            name,
            vcpus,
            memory_mib,
            disks,
            networks,
            cloud_init,
            os_image,
            managed_volumes,
            metadata,
        } = vm;
        Self {
            name: name.clone(),
            vcpus: *vcpus,
            memory_mib: *memory_mib,
            disks: disks.iter().map(DiskShape::from).collect(),
            networks: networks.iter().map(NetworkShape::from).collect(),
            cloud_init: cloud_init.into(),
            os_image: os_image.clone(),
            managed_volumes: managed_volumes.iter().map(VolumeShape::from).collect(),
            metadata: metadata.clone(),
        }
    }
}

impl VmShape {
    pub(super) fn read(self) -> Result<VmSpec, String> {
        let disks: Result<Vec<_>, _> = self.disks.into_iter().map(DiskShape::read).collect();
        let networks: Result<Vec<_>, _> =
            self.networks.into_iter().map(NetworkShape::read).collect();
        let volumes: Result<Vec<_>, _> =
            self.managed_volumes.into_iter().map(VolumeShape::read).collect();
        Ok(VmSpec {
            name: self.name,
            vcpus: self.vcpus,
            memory_mib: self.memory_mib,
            disks: disks?,
            networks: networks?,
            cloud_init: self.cloud_init.into(),
            os_image: self.os_image,
            managed_volumes: volumes?,
            metadata: self.metadata,
        })
    }
}

impl From<&VmDisk> for DiskShape {
    fn from(disk: &VmDisk) -> Self {
        let VmDisk { device, source, format, cdrom, boot, backing_file } = disk;
        Self {
            device: Arc::clone(device),
            source: source.into(),
            format: (*format).into(),
            cdrom: *cdrom,
            boot: *boot,
            backing_file: backing_file.clone(),
        }
    }
}

impl DiskShape {
    fn read(self) -> Result<VmDisk, String> {
        Ok(VmDisk {
            device: self.device,
            source: self.source.read()?,
            format: self.format.into(),
            cdrom: self.cdrom,
            boot: self.boot,
            backing_file: self.backing_file,
        })
    }
}

impl From<&DiskSource> for SourceShape {
    fn from(source: &DiskSource) -> Self {
        match source {
            DiskSource::Pool { pool, size_gib } => Self::Pool {
                pool: pool.as_ref().map(|pool| Arc::from(pool.as_str())),
                size_gib: *size_gib,
            },
            DiskSource::External { path, create_gib } => {
                Self::External { path: Arc::clone(path), create_gib: *create_gib }
            }
            DiskSource::Driver { driver, size_gib } => {
                Self::Driver { driver: (*driver).into(), size_gib: *size_gib }
            }
            DiskSource::Rbd { pool, image } => {
                Self::Rbd { pool: Arc::clone(pool), image: Arc::clone(image) }
            }
            DiskSource::Nfs { host, port, path } => {
                Self::Nfs { host: Arc::clone(host), port: *port, path: Arc::clone(path) }
            }
        }
    }
}

impl SourceShape {
    fn read(self) -> Result<DiskSource, String> {
        Ok(match self {
            Self::Pool { pool, size_gib } => DiskSource::Pool {
                pool: pool.map(|pool| name("disks.pool", &pool, PoolName::new)).transpose()?,
                size_gib,
            },
            Self::External { path, create_gib } => DiskSource::External { path, create_gib },
            Self::Driver { driver, size_gib } => {
                DiskSource::Driver { driver: driver.into(), size_gib }
            }
            Self::Rbd { pool, image } => DiskSource::Rbd { pool, image },
            Self::Nfs { host, port, path } => DiskSource::Nfs { host, port, path },
        })
    }
}

impl From<&VmNetwork> for NetworkShape {
    fn from(network: &VmNetwork) -> Self {
        let VmNetwork { attach, mac, address, model } = network;
        let attach = match attach {
            Attach::Network(name) => AttachShape::Network(Arc::clone(name)),
            Attach::Bridge(name) => AttachShape::Bridge(Arc::clone(name)),
        };
        let address = match address {
            Address::Dhcp => AddressShape::Dhcp,
            Address::Static { ip, prefix } => AddressShape::Static { ip: *ip, prefix: *prefix },
        };
        Self { attach, mac: mac.map(mac_text), address, model: (*model).into() }
    }
}

impl NetworkShape {
    fn read(self) -> Result<VmNetwork, String> {
        let attach = match self.attach {
            AttachShape::Network(name) => Attach::Network(name),
            AttachShape::Bridge(name) => Attach::Bridge(name),
        };
        let address = match self.address {
            AddressShape::Dhcp => Address::Dhcp,
            AddressShape::Static { ip, prefix } => Address::Static { ip, prefix },
        };
        let mac = self.mac.map(|text| {
            read_mac(&text).ok_or_else(|| "networks.mac is not a hardware address".to_owned())
        });
        Ok(VmNetwork { attach, mac: mac.transpose()?, address, model: self.model.into() })
    }
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn read_mac(text: &str) -> Option<[u8; 6]> {
    let bytes: Option<Vec<u8>> = text
        .split(':')
        .map(|part| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2))
        .collect();
    bytes?.try_into().ok()
}

impl From<&CloudInit> for CloudInitShape {
    fn from(cloud_init: &CloudInit) -> Self {
        let CloudInit { user_data, meta_data, network_config, vendor_data, login } = cloud_init;
        let login = login.as_ref().map(|login| {
            let Login { username, ssh_public_key, password_hash } = login;
            LoginShape {
                username: username.clone(),
                ssh_public_key: ssh_public_key.clone(),
                password_hash: password_hash.as_ref().map(|hash| Arc::from(hash.reveal())),
            }
        });
        Self {
            user_data: Arc::from(user_data.reveal()),
            meta_data: Arc::from(meta_data.reveal()),
            network_config: Arc::from(network_config.reveal()),
            vendor_data: Arc::from(vendor_data.reveal()),
            login,
        }
    }
}

impl From<CloudInitShape> for CloudInit {
    fn from(shape: CloudInitShape) -> Self {
        let login = shape.login.map(|login| Login {
            username: login.username,
            ssh_public_key: login.ssh_public_key,
            password_hash: login.password_hash.map(|hash| Secret::new(&hash)),
        });
        Self {
            user_data: Secret::new(&shape.user_data),
            meta_data: Secret::new(&shape.meta_data),
            network_config: Secret::new(&shape.network_config),
            vendor_data: Secret::new(&shape.vendor_data),
            login,
        }
    }
}
