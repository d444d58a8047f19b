//! Virtual machines through libvirt.

pub mod assemble;
pub mod disks;
pub mod domain;
pub mod identity;
pub mod image;
pub mod iso;
pub mod kvm;
pub mod manifest;
pub mod qemu_img;
pub mod seed;
pub mod storage;
pub mod xml;
