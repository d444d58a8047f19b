//! Virtual machines on a real libvirt and a real QEMU keep the contract of all runtimes, and what only
//! machines can be asked.
//!
//! Every test has a libvirtd of its own, in namespaces of its own, so they run side by side, restart
//! it as they like and leave nothing behind. `hack/libvirt-up` installs what they need. They run only
//! when they are named, as `make live` does.

#[cfg(test)]
mod contract;

#[cfg(test)]
mod vms;
