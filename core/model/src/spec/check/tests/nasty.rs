//! A million drafts: none makes checking panic, what is accepted keeps its promises, what is
//! refused is refused readably.
//!
//! The promises are stated here a second time, in other words than the checks use.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use super::generator::{Generator, SECRET};
use super::*;
use crate::fault::Faults;
use crate::spec::canonical::content_revision;
use crate::spec::compose::ComposeSource;
use crate::spec::vm::DiskSource;
use crate::spec::volume::ManagedVolume;

/// More cases: `PERSYS_CASES=100000000 cargo test --profile proof -p persys-model a_million`.
const CASES: u64 = 1_000_000;

#[expect(clippy::disallowed_methods, reason = "the number of cases is the tester's to choose")]
fn cases() -> u64 {
    std::env::var("PERSYS_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(CASES)
}

#[test]
fn a_million_drafts() {
    let cases = cases();
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let workers = u64::try_from(workers).expect("fits").min(8);
    // Each worker takes every n-th seed, so the cases are the same however many there are.
    let accepted: u64 = std::thread::scope(|scope| {
        let work = |first| scope.spawn(move || accepted_of(first, cases, workers));
        let running: Vec<_> = (0..workers).map(work).collect();
        running.into_iter().map(|worker| worker.join().expect("a case failed")).sum()
    });
    // A generator that only makes one or the other tests half of what it should.
    assert!(accepted > cases / 20, "only {accepted} of {cases} accepted");
    assert!(accepted < cases - cases / 20, "{accepted} of {cases} accepted");
}

fn accepted_of(first: u64, cases: u64, workers: u64) -> u64 {
    let mut accepted = 0;
    let mut seed = first;
    while seed < cases {
        let draft = Generator::new(seed).draft();
        match check(&draft) {
            Ok(spec) => {
                accepted += 1;
                keeps_promises(seed, &spec);
                if seed.is_multiple_of(32) {
                    assert_eq!(check(&draft).as_ref(), Ok(&spec), "seed {seed}");
                    assert_eq!(content_revision(&spec), content_revision(&spec.clone()));
                    assert!(!format!("{spec:?}").contains(SECRET), "seed {seed} leaks");
                }
            }
            Err(faults) => is_readable(seed, &faults),
        }
        seed += workers;
    }
    accepted
}

fn is_readable(seed: u64, faults: &Faults) {
    assert!(!faults.is_empty(), "seed {seed} refused without a fault");
    for fault in faults.listed() {
        assert!(fault.path.starts_with("spec"), "seed {seed}: {fault:?}");
        assert!(!fault.problem.is_empty(), "seed {seed}: {fault:?}");
        assert!(fault.path.len() + fault.problem.len() < 1500, "seed {seed}: {fault:?}");
        let controls = |text: &str| text.bytes().any(|b| b.is_ascii_control());
        assert!(!controls(&fault.path) && !controls(&fault.problem), "seed {seed}: {fault:?}");
        assert!(!fault.problem.contains(SECRET), "seed {seed}: {fault:?}");
    }
}

fn keeps_promises(seed: u64, spec: &Spec) {
    let compute = spec.resources.compute;
    assert!((1..=10_000_000).contains(&compute.cpu_millicores), "seed {seed}: {compute:?}");
    assert!((1..=1 << 30).contains(&compute.memory_mib), "seed {seed}: {compute:?}");
    for (pool, gib) in spec.resources.disk.iter() {
        assert!((1..=1 << 24).contains(&gib), "seed {seed}");
        pool.inspect(|pool| is_component(seed, pool.as_str()));
    }
    assert!(spec.metadata.len() <= 64, "seed {seed}");
    let ports = spec.host_ports();
    assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), ports.len(), "seed {seed}");
    match &spec.kind {
        Kind::Container(container) => container_keeps(seed, container),
        Kind::Compose(compose) => compose_keeps(seed, compose),
        Kind::Vm(vm) => vm_keeps(seed, spec, vm),
    }
}

fn container_keeps(seed: u64, container: &ContainerSpec) {
    is_argument(seed, &container.image);
    assert!(container.image.len() <= 512 && container.image.is_ascii(), "seed {seed}");
    for word in container.command.iter().chain(&container.args) {
        assert!(!word.contains('\0') && word.len() <= 32 * 1024, "seed {seed}");
    }
    let mut total = 0;
    for (name, value) in &container.env {
        assert!(!name.is_empty() && !name.contains(['=', '\0', '\n', ' ']), "seed {seed}");
        assert!(!value.reveal().contains('\0'), "seed {seed}");
        total += name.len() + value.reveal().len();
    }
    assert!(container.env.len() <= 256 && total <= 256 * 1024, "seed {seed}");
    assert!(container.labels.keys().all(|key| !key.starts_with("persys.")), "seed {seed}");
    assert!(container.ports.iter().all(|port| port.container > 0), "seed {seed}");
    let mut inside = BTreeSet::new();
    for bind in &container.binds {
        is_path(seed, &bind.host_path);
        is_path(seed, &bind.container_path);
        assert!(inside.insert(&*bind.container_path), "seed {seed}: mounted twice");
    }
    for volume in &container.managed_volumes {
        is_path(seed, &volume.mount_path);
        assert!(inside.insert(&*volume.mount_path), "seed {seed}: mounted twice");
    }
    volumes_keep(seed, &container.managed_volumes);
}

fn volumes_keep(seed: u64, volumes: &[ManagedVolume]) {
    let mut names = BTreeSet::new();
    for volume in volumes {
        is_component(seed, volume.name.as_str());
        assert!(names.insert(&volume.name), "seed {seed}: {} twice", volume.name);
        assert!(volume.size_gib > 0 || !volume.driver.is_local(), "seed {seed}");
    }
}

fn compose_keeps(seed: u64, compose: &ComposeSpec) {
    match &compose.source {
        ComposeSource::Inline(text) => {
            let text = text.reveal();
            assert!(!text.is_empty() && text.len() <= 256 * 1024, "seed {seed}");
            assert!(!text.contains('\0'), "seed {seed}");
        }
        ComposeSource::Git { repository, reference, path, commit, file } => {
            assert!(!path.is_empty() && !path.starts_with(['/', '-']), "seed {seed}");
            assert!(!path.split('/').any(|part| part == ".."), "seed {seed}");
            assert!(commit.len() >= 40 && !file.is_empty(), "seed {seed}");
            is_argument(seed, repository);
            assert!(!repository.contains("::ext") && !repository.starts_with("ext"), "seed {seed}");
            assert!(!reference.starts_with('-') && !reference.contains(".."), "seed {seed}");
        }
    }
    if let Some(project) = &compose.project {
        is_component(seed, project);
    }
    for (name, value) in &compose.env {
        assert!(!name.starts_with("COMPOSE_") && &**name != "PATH", "seed {seed}");
        assert!(!value.reveal().contains(['\n', '\0', '\r']), "seed {seed}");
    }
}

fn vm_keeps(seed: u64, spec: &Spec, vm: &VmSpec) {
    assert!((1..=512).contains(&vm.vcpus) && vm.memory_mib >= 64, "seed {seed}");
    assert!(spec.resources.compute.cpu_millicores >= u64::from(vm.vcpus) * 1000, "seed {seed}");
    assert!(spec.resources.compute.memory_mib >= vm.memory_mib, "seed {seed}");
    assert!(!vm.disks.is_empty() && vm.disks.len() <= 32 && vm.networks.len() <= 16, "seed {seed}");
    assert!(vm.disks.iter().any(|disk| disk.boot), "seed {seed}: nothing to boot from");
    let mut devices = BTreeSet::new();
    let mut in_pools = 0_u64;
    for disk in &vm.disks {
        is_component(seed, &disk.device);
        assert!(devices.insert(&disk.device), "seed {seed}: {} twice", disk.device);
        match &disk.source {
            DiskSource::Pool { size_gib, .. } => in_pools += size_gib,
            DiskSource::External { path, .. } | DiskSource::Nfs { path, .. } => is_path(seed, path),
            DiskSource::Driver { driver, .. } => assert!(!driver.is_local(), "seed {seed}"),
            DiskSource::Rbd { pool, image } => {
                is_component(seed, pool);
                is_component(seed, image);
            }
        }
        if let Some(path) = &disk.backing_file {
            is_path(seed, path);
        }
    }
    let reserved: u64 = spec.resources.disk.iter().map(|(_, gib)| gib).sum();
    assert!(reserved >= in_pools, "seed {seed}: disk unaccounted");
    if vm.os_image.is_some() {
        assert!(matches!(vm.disks[0].source, DiskSource::Pool { .. }), "seed {seed}");
    }
    if let Some(name) = &vm.name {
        is_component(seed, name);
    }
    let macs: Vec<_> = vm.networks.iter().filter_map(|card| card.mac).collect();
    assert!(macs.iter().all(|mac| mac[0] & 1 == 0), "seed {seed}");
    assert_eq!(macs.iter().collect::<BTreeSet<_>>().len(), macs.len(), "seed {seed}");
    let first_boot = &vm.cloud_init;
    let texts = [&first_boot.user_data, &first_boot.meta_data, &first_boot.vendor_data];
    assert!(texts.iter().map(|text| text.reveal().len()).sum::<usize>() <= 64 * 1024);
    assert!(first_boot.login.is_none() || first_boot.user_data.is_empty(), "seed {seed}");
    volumes_keep(seed, &vm.managed_volumes);
}

/// One plain component: joined to a root it names a direct child of the root.
fn is_component(seed: u64, name: &str) {
    let root = Path::new("/root");
    assert_eq!(root.join(name).parent(), Some(root), "seed {seed}: {name:?}");
    is_argument(seed, name);
}

fn is_argument(seed: u64, text: &str) {
    assert!(!text.is_empty() && !text.starts_with('-'), "seed {seed}: {text:?}");
    assert!(!text.contains(['\0', '\n', ' ', '"', '<', '&']), "seed {seed}: {text:?}");
}

fn is_path(seed: u64, text: &str) {
    if text.is_empty() {
        return; // a volume of a VM that is not mounted by us
    }
    let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    let path = Path::new(text);
    assert!(path.is_absolute() && path.components().all(plain), "seed {seed}: {text:?}");
    assert!(!text.chars().any(char::is_control) && text.len() <= 1024, "seed {seed}: {text:?}");
}
