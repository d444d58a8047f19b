//! The parts of virtual machines against the real QEMU and libvirt: images that lie, descriptions
//! that libvirt must take, a guest that boots from all of it together.
//!
//! Needs what `hack/libvirt-up` starts; without it these tests fail. They run only when they are
//! named, as `make live` does.

#[cfg(test)]
mod boot;
#[cfg(test)]
mod images;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod place;
