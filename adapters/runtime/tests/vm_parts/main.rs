//! The parts of virtual machines against the real QEMU and libvirt: images that lie, descriptions
//! that libvirt must take, a guest that boots from all of it together.

mod boot;
mod images;
mod place;
