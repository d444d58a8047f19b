//! Amounts, as parts of several records.

use std::sync::Arc;

use persys_model::id::PoolName;
use persys_model::resources::{Compute, Disk, Resources};
use persys_model::spec::{HostPort, Protocol};
use serde::{Deserialize, Serialize};

use super::{mirror, name};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ResourcesShape {
    cpu_millicores: u64,
    memory_mib: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    disk: Vec<DiskShape>,
}

#[derive(Debug, Serialize, Deserialize)]
struct DiskShape {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pool: Option<Arc<str>>,
    gib: u64,
}

impl From<&Resources> for ResourcesShape {
    fn from(resources: &Resources) -> Self {
        let Resources { compute: Compute { cpu_millicores, memory_mib }, disk } = resources;
        let disk = disk
            .iter()
            .map(|(pool, gib)| DiskShape { pool: pool.map(|pool| Arc::from(pool.as_str())), gib });
        Self { cpu_millicores: *cpu_millicores, memory_mib: *memory_mib, disk: disk.collect() }
    }
}

impl ResourcesShape {
    pub(crate) fn read(self) -> Result<Resources, String> {
        let mut disk = Disk::none();
        for DiskShape { pool, gib } in self.disk {
            let pool = pool.map(|pool| name("disk.pool", &pool, PoolName::new)).transpose()?;
            disk.add(pool, gib);
        }
        Ok(Resources { compute: Compute::new(self.cpu_millicores, self.memory_mib), disk })
    }
}

mirror!(ProtocolShape of Protocol { Tcp, Udp });

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HostPortShape {
    port: u16,
    protocol: ProtocolShape,
}

impl From<HostPort> for HostPortShape {
    fn from(HostPort { port, protocol }: HostPort) -> Self {
        Self { port, protocol: protocol.into() }
    }
}

impl HostPortShape {
    pub(crate) fn read(self) -> Result<HostPort, String> {
        Ok(HostPort { port: port("host port", self.port)?, protocol: self.protocol.into() })
    }
}

/// A port number, which is never 0.
pub(crate) fn port(field: &str, number: u16) -> Result<u16, String> {
    if number == 0 { Err(format!("{field} is 0")) } else { Ok(number) }
}
