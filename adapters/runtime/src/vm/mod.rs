//! Virtual machines through libvirt.

pub mod domain;
pub mod identity;
pub mod iso;
pub mod seed;
pub mod xml;
