//! Virtual machines through libvirt.

pub mod domain;
pub mod identity;
pub mod xml;
