//! What workloads may have of their nodes: one function, whatever kind they are and however they
//! come in.
//!
//! Two things are asked. Some of a node is withheld, from everybody: the sockets of those who start
//! workloads, and the folders in which they and we keep what is ours. Only a record that names the very
//! path gives it. The rest is given by the namespace: the default one gives it unless its record says
//! otherwise, every other gives nothing but what its record says.

mod shadow;

use std::fmt;

use persys_compose::policy::{self, Judgement, Power, WITHHELD, judge};
use persys_compose::{Attachment, Document, External, MountSource, Namespace as Whose, Service};
use persys_model::entry::{Allowance, Entries};
use persys_model::id::NamespaceName;
use persys_model::spec::vm::{Attach, DiskSource, VmSpec};
use persys_model::spec::{ContainerSpec, Kind, Spec};

pub use shadow::shadow_refusals;

/// Why a spec may not be run where it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What of the spec asks for it.
    pub field: String,
    /// The rule that refuses.
    pub rule: &'static str,
    /// Why, and what to do.
    pub why: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (rule {})", self.field, self.why, self.rule)
    }
}

/// Everything of `spec` that its namespace does not allow; empty when it may be run.
#[must_use]
pub fn refusals(spec: &Spec, entries: &Entries) -> Vec<Refusal> {
    let namespace = spec.namespace();
    let record = entries.namespace(&namespace).map(|record| &record.allowance);
    let nothing = Allowance::default();
    let allowance = match record {
        None if namespace == NamespaceName::default_one() => None,
        None => Some(&nothing),
        Some(allowance) => Some(allowance),
    };
    let mut bench = Bench { namespace, allowance, refusals: Vec::new() };
    match &spec.kind {
        Kind::Container(container) => bench.container(container),
        Kind::Vm(machine) => bench.vm(machine),
        Kind::Compose(stack) => match stack.read().document {
            Some(document) => bench.stack(&document),
            None => bench.refuse("compose", "compose", "the file can no longer be read".to_owned()),
        },
    }
    bench.refusals
}

struct Bench<'a> {
    namespace: NamespaceName,
    /// What the namespace gives; `None` where it gives whatever can be given.
    allowance: Option<&'a Allowance>,
    refusals: Vec<Refusal>,
}

impl Bench<'_> {
    fn container(&mut self, container: &ContainerSpec) {
        if container.privileged {
            self.ask("container.privileged", Power::Privileged);
        }
        for (at, bind) in container.binds.iter().enumerate() {
            let power = Power::HostPath { path: &bind.host_path, read_only: bind.read_only };
            self.ask(&format!("container.volumes[{at}].host_path"), power);
        }
    }

    fn stack(&mut self, document: &Document) {
        for external in document.externals() {
            match external {
                External::Network(name) => self.ask("networks", Power::ExternalNetwork(name)),
                External::Volume(name) => self.ask("volumes", Power::ExternalVolume(name)),
            }
        }
        for service in document.services() {
            self.service(&format!("services.{}", service.name), service);
        }
    }

    fn service(&mut self, at: &str, service: &Service) {
        for (field, power) in powers_of(at, service) {
            self.ask(&field, power);
        }
    }

    fn vm(&mut self, machine: &VmSpec) {
        for disk in &machine.disks {
            let device = &disk.device;
            if let DiskSource::External { path, .. } = &disk.source {
                self.disk_file(&format!("vm.disks[{device}].path"), path);
            }
            if let Some(path) = &disk.backing_file {
                self.disk_file(&format!("vm.disks[{device}].backing_file"), path);
            }
        }
        if let Some(image) = machine.os_image.as_deref().filter(|image| image.starts_with('/')) {
            self.disk_file("vm.os_image", image);
        }
        if machine.networks.iter().any(|card| matches!(card.attach, Attach::Bridge(_))) {
            self.ask("vm.networks", Power::HostNetwork);
        }
    }

    /// A file of the node as a disk: whatever it holds, the guest reads and perhaps writes it.
    fn disk_file(&mut self, field: &str, path: &str) {
        if path.starts_with("/dev/") {
            return self.ask(field, Power::Device(path));
        }
        let image = std::path::Path::new(path)
            .extension()
            .is_some_and(|ending| ["img", "iso", "qcow2", "raw"].iter().any(|one| ending == *one));
        if image && IMAGES.iter().any(|folder| is_below(path, folder)) {
            return self.give(field, Power::HostPath { path, read_only: false });
        }
        let power = Power::HostPath { path, read_only: false };
        if policy::is_system(path) {
            // A record of everything names no such file.
            let named = |folder: &str| policy::is_system(folder) && is_below(path, folder);
            return self.withhold(field, power, "is a part of the node itself, and no disk", named);
        }
        self.ask(field, power);
    }

    /// Asks whether a power is given at all, and then whether it is given here.
    fn ask(&mut self, field: &str, power: Power<'_>) {
        match judge(power) {
            Judgement::Withheld(why) => {
                let path = if let Power::HostPath { path, .. } = power { path } else { "" };
                self.withhold(field, power, why, |folder| policy::names(folder, path));
            }
            Judgement::Given(_) => self.give(field, power),
        }
    }

    /// Refuses what is withheld, unless a path of the namespace's record names it.
    fn withhold(&mut self, field: &str, power: Power<'_>, why: &str, named: impl Fn(&str) -> bool) {
        let Power::HostPath { path, .. } = power else {
            return self.refuse(field, WITHHELD, format!("{} {why}", told(power)));
        };
        let paths = self.allowance.into_iter().flat_map(|given| &given.host_paths);
        if !paths.into_iter().any(|folder| named(folder)) {
            let what = told(power);
            let why = format!(
                "{what} {why}; nobody is given it by itself: do without it, or have an admin run \
                 `persys namespace set NAME --allow-host-path {path}` and apply with `--namespace NAME`"
            );
            self.refuse(field, WITHHELD, why);
        }
    }

    fn give(&mut self, field: &str, power: Power<'_>) {
        let Some(allowance) = self.allowance else { return };
        let (given, rule, flag) = match power {
            Power::Privileged
            | Power::Capability(_)
            | Power::HostProcesses
            | Power::HostMemory
            | Power::HostUsers
            | Power::Runtime(_)
            | Power::Unconfined(_) => {
                (allowance.privileged, "privileged", "--allow-privileged".to_owned())
            }
            Power::Device(_) => (allowance.devices, "devices", "--allow-devices".to_owned()),
            Power::HostNetwork | Power::ExternalNetwork(_) | Power::OtherContainer(_) => {
                (allowance.host_network, "host-network", "--allow-host-network".to_owned())
            }
            Power::HostPath { path, .. } => {
                let given = allowance.host_paths.iter().any(|folder| is_below(path, folder));
                (given, "host-paths", format!("--allow-host-path {path}"))
            }
            // Where Docker keeps it.
            Power::ExternalVolume(name) => {
                let path = format!("{VOLUMES}/{name}");
                let given = allowance.host_paths.iter().any(|folder| policy::names(folder, &path));
                (given, "host-paths", format!("--allow-host-path {path}"))
            }
        };
        if !given {
            let (what, namespace) = (told(power), &self.namespace);
            let why = format!(
                "the namespace {namespace} does not allow {what}; do without it, or have an admin \
                 run `persys namespace set {namespace} {flag}`"
            );
            self.refuse(field, rule, why);
        }
    }

    fn refuse(&mut self, field: &str, rule: &'static str, why: String) {
        self.refusals.push(Refusal { field: field.to_owned(), rule, why });
    }
}

/// Every power over its node that a service asks for, and where it does.
fn powers_of<'a>(at: &str, service: &'a Service) -> Vec<(String, Power<'a>)> {
    let powers = &service.powers;
    let mut wanted = Vec::new();
    let mut want = |key: &str, power| wanted.push((format!("{at}.{key}"), power));
    if powers.privileged {
        want("privileged", Power::Privileged);
    }
    match &service.network {
        Attachment::Host => want("network_mode", Power::HostNetwork),
        Attachment::Container(name) => want("network_mode", Power::OtherContainer(name)),
        Attachment::Networks(_)
        | Attachment::None
        | Attachment::Bridge
        | Attachment::Service(_) => {}
    }
    if let Some(runtime) = &service.identity.runtime {
        want("runtime", Power::Runtime(runtime));
    }
    if powers.pid == Some(Whose::Host) {
        want("pid", Power::HostProcesses);
    }
    if powers.ipc == Some(Whose::Host) {
        want("ipc", Power::HostMemory);
    }
    if powers.host_users {
        want("userns_mode", Power::HostUsers);
    }
    for capability in &powers.cap_add {
        want("cap_add", Power::Capability(capability));
    }
    for option in powers.security_opt.iter().filter(|one| *one != "no-new-privileges=true") {
        want("security_opt", Power::Unconfined(option));
    }
    for device in &powers.devices {
        want("devices", Power::Device(device));
    }
    for mount in &service.mounts {
        if let MountSource::Bind { path, .. } = &mount.source {
            want("volumes", Power::HostPath { path, read_only: mount.read_only });
        }
    }
    wanted
}

/// Where Docker keeps volumes.
const VOLUMES: &str = "/var/lib/docker/volumes";
/// Where disk images are kept.
const IMAGES: &[&str] = &["/var/lib/libvirt/images", "/var/lib/persys"];

fn told(power: Power<'_>) -> String {
    match power {
        Power::Privileged => "all powers of the node".to_owned(),
        Power::Capability(name) => format!("the capability {name}"),
        Power::Device(device) => format!("the device {device}"),
        Power::HostPath { path, .. } => format!("the path {path} of the node"),
        Power::HostNetwork => "the network of the node".to_owned(),
        Power::HostProcesses => "the processes of the node".to_owned(),
        Power::HostMemory => "the shared memory of the node".to_owned(),
        Power::HostUsers => "the users of the node".to_owned(),
        Power::Unconfined(option) => format!("less confinement ({option})"),
        Power::Runtime(name) => format!("the runtime {name} of the node"),
        Power::ExternalNetwork(name) => format!("the network {name} of the node"),
        Power::ExternalVolume(name) => format!("the volume {name} of the node"),
        Power::OtherContainer(name) => format!("the network of the container {name}"),
    }
}

/// Whether `path` is `folder` or in it.
fn is_below(path: &str, folder: &str) -> bool {
    let folder = folder.strip_suffix('/').unwrap_or(folder);
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests;
