//! What a workload reserves: as it says, and never less than it plainly needs.
//!
//! Every amount was bounded before it is added here, so no sum comes near the end of its type.

use persys_compose::Need;

use super::at::At;
use super::limits::{
    CPU_MILLICORES, DEFAULT_CPU_MILLICORES, DEFAULT_MEMORY_MIB, DISK_GIB, MEMORY_MIB,
};
use super::text::number;
use crate::resources::{Compute, Disk, Resources};
use crate::spec::Kind;
use crate::spec::container::Limits;
use crate::spec::draft::ResourcesDraft;
use crate::spec::vm::{DiskSource, VmSpec};
use crate::spec::volume::ManagedVolume;

const MIB: u64 = 1024 * 1024;

/// The amounts a user asked for; zero where nothing was said.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    cpu_millicores: u64,
    memory_mib: u64,
    disk_gib: u64,
}

pub(super) fn asked(at: &At<'_>, draft: &ResourcesDraft) -> Option<Asked> {
    let cpu = number(&at.field("cpu_millicores"), draft.cpu_millicores, 0, CPU_MILLICORES);
    let memory = number(&at.field("memory_mb"), draft.memory_mb, 0, MEMORY_MIB);
    let disk = number(&at.field("disk_gb"), draft.disk_gb, 0, DISK_GIB);
    Some(Asked { cpu_millicores: cpu?, memory_mib: memory?, disk_gib: disk? })
}

/// What the services of a stack ask for in its file, each with the default where it says nothing.
pub(super) fn of_services(need: Need) -> Compute {
    let rest = |count: u64, default: u64| count.saturating_mul(default);
    let cpu = need.cpu_millicores.saturating_add(rest(need.without_cpu, DEFAULT_CPU_MILLICORES));
    let memory = need.memory_bytes.div_ceil(MIB);
    let memory = memory.saturating_add(rest(need.without_memory, DEFAULT_MEMORY_MIB));
    // More than any machine has stays that much: the spec must be one that can be asked for.
    let most = |amount: u64, most: i64| amount.min(u64::try_from(most).unwrap_or(u64::MAX));
    Compute::new(most(cpu, CPU_MILLICORES), most(memory, MEMORY_MIB))
}

/// What `kind` reserves when this was asked for; `services` is what a stack asks for in its file. A
/// container learns which of it nobody asked for: that is no limit.
pub(super) fn reserved(
    at: &At<'_>,
    asked: Asked,
    kind: &mut Kind,
    services: Compute,
) -> Option<Resources> {
    let mut disk = Disk::none();
    disk.add(None, asked.disk_gib);
    let compute = match kind {
        Kind::Container(container) => {
            add_volumes(&mut disk, &container.managed_volumes);
            let limits = &mut container.limits;
            limits.open.cpu |= asked.cpu_millicores == 0;
            limits.open.memory |= asked.memory_mib == 0 && limits.memory_bytes.is_none();
            container_compute(at, asked, limits)?
        }
        Kind::Compose(_) => Compute::new(
            or_default(asked.cpu_millicores, services.cpu_millicores),
            or_default(asked.memory_mib, services.memory_mib),
        ),
        Kind::Vm(vm) => {
            add_disks(&mut disk, vm);
            add_volumes(&mut disk, &vm.managed_volumes);
            let cpu = u64::from(vm.vcpus).saturating_mul(1000);
            Compute::new(asked.cpu_millicores.max(cpu), asked.memory_mib.max(vm.memory_mib))
        }
    };
    Some(Resources { compute, disk })
}

fn or_default(asked: u64, default: u64) -> u64 {
    if asked == 0 { default } else { asked }
}

/// Limits stand in for a reservation where there is none: clients of the agent package have no
/// other place to say what they need, and schedulers put the millicores into `cpu_shares`.
fn container_compute(at: &At<'_>, asked: Asked, limits: &Limits) -> Option<Compute> {
    let cpu = or_default(asked.cpu_millicores, limits.cpu_shares.map_or(0, u64::from));
    let limit_mib = limits.memory_bytes.map_or(0, |bytes| bytes.div_ceil(MIB));
    if limit_mib > 0 && asked.memory_mib > limit_mib {
        return at.field("memory_mb").refuse(format!(
            "{} reserves more than container.resources.memory_bytes allows",
            asked.memory_mib
        ));
    }
    Some(Compute::new(
        or_default(cpu, DEFAULT_CPU_MILLICORES),
        or_default(or_default(asked.memory_mib, limit_mib), DEFAULT_MEMORY_MIB),
    ))
}

fn add_volumes(disk: &mut Disk, volumes: &[ManagedVolume]) {
    for volume in volumes.iter().filter(|volume| volume.driver.is_local()) {
        disk.add(None, volume.size_gib);
    }
}

fn add_disks(disk: &mut Disk, vm: &VmSpec) {
    for one in &vm.disks {
        match &one.source {
            DiskSource::Pool { pool, size_gib } => disk.add(pool.clone(), *size_gib),
            // Where a file of the user's lies is not known here; the default pool stands for it.
            DiskSource::External { create_gib, .. } => disk.add(None, create_gib.unwrap_or(0)),
            DiskSource::Driver { .. } | DiskSource::Rbd { .. } | DiskSource::Nfs { .. } => {}
        }
    }
}
