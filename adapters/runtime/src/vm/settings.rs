//! What can be set about virtual machines, with values that suit most nodes.

use std::time::Duration;

use persys_model::spec::VM_STOP_GRACE_MS;

use super::storage::Storage;

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where libvirt is, and how long it may take.
    pub libvirt: persys_libvirt::Settings,
    /// What stands before the workload's id in a machine's name. Two agents that share a libvirt
    /// need two prefixes to hold a copy of the same workload each.
    pub name_prefix: String,
    /// Where the files of machines are.
    pub storage: Storage,
    /// Time a machine has to go down by itself, unless its spec names another.
    pub stop_grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            libvirt: persys_libvirt::Settings::default(),
            name_prefix: "persys-".to_owned(),
            storage: Storage::default(),
            stop_grace: Duration::from_millis(VM_STOP_GRACE_MS),
        }
    }
}
