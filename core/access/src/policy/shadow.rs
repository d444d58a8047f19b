//! Rules of shadow mode: nothing is touched that another system may use.
//!
//! A workload in shadow may read paths of its node. It may not write what was not made for it, have any
//! other power over its node, take over what another system runs, or choose an address.

use persys_compose::policy::Power;
use persys_compose::{Document, External, MountSource};
use persys_model::spec::vm::{Address, DiskSource, VmDisk, VmSpec};
use persys_model::spec::{ADOPT_ON_KEY, ContainerSpec, Kind, Spec};

use super::{Refusal, powers_of, told};

/// Everything of `spec` that may not be run in shadow.
#[must_use]
pub fn shadow_refusals(spec: &Spec) -> Vec<Refusal> {
    let mut bench = Bench::default();
    if let Some(node) = spec.adopt_on() {
        let why =
            format!("what another system runs on {node} would be taken over; leave shadow first");
        bench.refuse(&format!("metadata.{ADOPT_ON_KEY}"), &why);
    }
    match &spec.kind {
        Kind::Container(container) => bench.container(container),
        Kind::Vm(machine) => bench.vm(machine),
        Kind::Compose(stack) => match stack.read().document {
            Some(document) => bench.stack(&document),
            None => bench.refuse("compose", "the file can no longer be read"),
        },
    }
    bench.refusals
}

#[derive(Default)]
struct Bench {
    refusals: Vec<Refusal>,
}

impl Bench {
    fn container(&mut self, container: &ContainerSpec) {
        if container.privileged {
            self.power("container.privileged", Power::Privileged);
        }
        for (at, bind) in container.binds.iter().enumerate() {
            let power = Power::HostPath { path: &bind.host_path, read_only: bind.read_only };
            self.power(&format!("container.volumes[{at}].host_path"), power);
        }
    }

    fn stack(&mut self, document: &Document) {
        for external in document.externals() {
            match external {
                External::Network(name) => self.power("networks", Power::ExternalNetwork(name)),
                External::Volume(name) => self.power("volumes", Power::ExternalVolume(name)),
            }
        }
        for service in document.services() {
            let at = format!("services.{}", service.name);
            for (field, power) in powers_of(&at, service) {
                self.power(&field, power);
            }
            for mount in &service.mounts {
                // A path that is not there would be made on the node.
                if let MountSource::Bind { path, create: true, .. } = &mount.source
                    && mount.read_only
                {
                    let why = format!(
                        "{path} would be made on the node if it is not there; say \
                         `bind: {{create_host_path: false}}`, or leave shadow"
                    );
                    self.refuse(&format!("{at}.volumes"), &why);
                }
            }
        }
    }

    fn vm(&mut self, machine: &VmSpec) {
        for disk in &machine.disks {
            if let Some(path) = foreign(disk).filter(|_| !disk.cdrom) {
                let why = format!(
                    "{path} would be written, and another system may use it; use a disk of a pool, or \
                     leave shadow"
                );
                self.refuse(&format!("vm.disks[{}]", disk.device), &why);
            }
        }
        for (at, card) in machine.networks.iter().enumerate() {
            if let Address::Static { ip, .. } = card.address {
                let why =
                    format!("another machine may have the address {ip}; use dhcp, or leave shadow");
                self.refuse(&format!("vm.networks[{at}].ip_address"), &why);
            }
            if card.mac.is_some() {
                let why = "another machine may have this address; leave it out, or leave shadow";
                self.refuse(&format!("vm.networks[{at}].mac_address"), why);
            }
        }
    }

    fn power(&mut self, field: &str, power: Power<'_>) {
        match power {
            Power::HostPath { read_only: true, .. } | Power::Runtime(_) => {}
            Power::HostPath { path, read_only: false } => {
                let why = format!(
                    "{path} would be written, and another system may use it; make it read_only or leave \
                     shadow"
                );
                self.refuse(field, &why);
            }
            Power::HostNetwork => {
                let why = "ports of the node would be taken, and another system may use them; use a \
                           network of the stack, or leave shadow";
                self.refuse(field, why);
            }
            Power::Privileged
            | Power::Capability(_)
            | Power::Device(_)
            | Power::HostProcesses
            | Power::HostMemory
            | Power::HostUsers
            | Power::ExternalNetwork(_)
            | Power::ExternalVolume(_)
            | Power::OtherContainer(_)
            | Power::Unconfined(_) => {
                let what = told(power);
                let why = format!(
                    "{what} would reach what another system may use; do without it, or leave shadow"
                );
                self.refuse(field, &why);
            }
        }
    }

    fn refuse(&mut self, field: &str, why: &str) {
        let why = format!("shadow: {why}");
        self.refusals.push(Refusal { field: field.to_owned(), rule: "shadow", why });
    }
}

/// The name of a disk that was not made by us, if it is one.
fn foreign(disk: &VmDisk) -> Option<String> {
    match &disk.source {
        DiskSource::Pool { .. } | DiskSource::Driver { .. } => None,
        DiskSource::External { path, .. } => Some(path.to_string()),
        DiskSource::Rbd { pool, image } => Some(format!("the Ceph image {pool}/{image}")),
        DiskSource::Nfs { host, path, .. } => Some(format!("{host}:{path}")),
    }
}
