//! Virtual machines through libvirt.

pub mod xml;
