//! A guest that tries to have more than it was given.

use std::sync::Arc;
use std::time::{Duration, Instant};

use persys_model::spec::VmSpec;
use persys_model::spec::secret::Secret;
use persys_model::spec::vm::{CloudInit, DiskFormat};

use crate::boot::{define, fact, tiny_image, until};
use crate::place::{Place, disk, external, pool, virsh, vm};

const MIB: u64 = 1 << 20;
/// Over which stretch processor time is counted.
const STRETCH: Duration = Duration::from_secs(4);

/// One number of what libvirt counts about the machine.
async fn counted(place: &Place, group: &str, name: &str) -> u64 {
    let stats = virsh(&["domstats", group, &place.machine()]).await.unwrap();
    let line = stats.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}=")));
    line.unwrap_or_else(|| panic!("{name} is not in {stats}")).parse().unwrap()
}

#[tokio::test]
async fn a_greedy_guest_gets_what_it_was_given_and_no_more() {
    let place = Place::new();
    tiny_image(&place);
    let small = place.at("open/small.img");
    std::fs::File::create(&small).unwrap().set_len(100 * MIB).unwrap();
    // It writes from 80 MiB on, wants 200 of 100, and keeps four processors busy where it has one.
    let words = "#cloud-config\n#tiny: fill vdb 200\n#tiny: spin 4\n";
    let mut spec = VmSpec {
        os_image: Some(Arc::from("tiny")),
        cloud_init: CloudInit { user_data: Secret::new(words), ..CloudInit::default() },
        ..vm(vec![
            disk("vda", pool(1), DiskFormat::Qcow2),
            disk("vdb", external(&small, None), DiskFormat::Raw),
        ])
    };
    spec.disks[0].boot = true;
    define(&place, &spec).await;
    virsh(&["start", &place.machine()]).await.unwrap();
    until("the guest is greedy", &place, || fact(&place, 0, "spinning").is_some()).await;

    assert_eq!(fact(&place, 0, "filled_vdb").as_deref(), Some("20"), "the disk ends where it ends");
    assert_eq!(small.metadata().unwrap().len(), 100 * MIB);
    let memory: u64 = fact(&place, 0, "memory_kib").unwrap().parse().unwrap();
    assert!(memory * 1024 <= spec.memory_mib * MIB, "{memory} KiB of {} MiB", spec.memory_mib);
    assert_eq!(counted(&place, "--balloon", "balloon.maximum").await, spec.memory_mib * 1024);

    let (begun, before) = (Instant::now(), counted(&place, "--cpu-total", "cpu.time").await);
    tokio::time::sleep(STRETCH).await;
    let used = counted(&place, "--cpu-total", "cpu.time").await - before;
    let share = Duration::from_nanos(used).as_secs_f64() / begun.elapsed().as_secs_f64();
    // One processor and what QEMU itself needs; and it does try.
    assert!((0.02..1.3).contains(&share), "{share} of one core");
}
