//! What an agent is told about virtual machines.

use std::path::PathBuf;

use persys_model::id::PoolName;
use persys_runtime::vm::settings::Settings as MachineSettings;

use super::read::Reader;

/// How machines are run; `None` if they are not wanted.
pub(super) fn machines(read: &mut Reader<'_>) -> Option<MachineSettings> {
    let mut settings = MachineSettings::default();
    if let Some(uri) = read.text("libvirt-uri") {
        // Where it is, is said by the socket; a host in here would not be heard.
        if !uri.starts_with("qemu:///") && !uri.starts_with("test:///") {
            read.fault("libvirt-uri", "a driver on this node, such as qemu:///system");
        }
        settings.libvirt.uri = uri;
    }
    if let Some(socket) = read.text("libvirt-socket") {
        settings.libvirt.sockets = vec![PathBuf::from(socket)];
    }
    settings.storage.home = read.path("vm-path");
    settings.storage.images = read.path("vm-images");
    settings.storage.roots = read.list("vm-roots").into_iter().map(PathBuf::from).collect();
    settings.storage.pools.clear();
    let mut first = None;
    for (name, folder) in read.pairs("vm-pools") {
        match PoolName::new(&name) {
            Ok(name) => {
                first.get_or_insert_with(|| name.clone());
                settings.storage.pools.insert(name, PathBuf::from(folder));
            }
            Err(fault) => read.fault("vm-pools", format!("{name:?} {fault}")),
        }
    }
    match first {
        Some(first) => settings.storage.default_pool = first,
        None => read.fault("vm-pools", "at least one, such as default=/var/lib/libvirt/images"),
    }
    let storage = &settings.storage;
    let folders = [("vm-path", &storage.home), ("vm-images", &storage.images)];
    let pools = storage.pools.values().map(|folder| ("vm-pools", folder));
    let roots = storage.roots.iter().map(|folder| ("vm-roots", folder));
    let named: Vec<_> = folders.into_iter().chain(pools).chain(roots).collect();
    let wrong = named.into_iter().filter(|(_, folder)| !folder.is_absolute());
    for key in wrong.map(|(key, _)| key).collect::<Vec<_>>() {
        read.fault(key, "libvirt and QEMU need whole paths, from /");
    }
    read.switch("vm-enabled").then_some(settings)
}
