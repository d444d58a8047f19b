//! The name of a spec's content, for clients that give its version none.
//!
//! Equal specs have equal names, on every machine and in every release: each field is written out
//! here by hand, in a fixed order, numbers as eight little-endian bytes, texts and lists after
//! their length, variants after a fixed tag. Nothing depends on `std::hash`, whose encoding may
//! change, nor on memory layout. Every struct is taken apart whole, so a new field does not compile
//! until it is written here; give it a place at the end, and only when it is not at its default, to
//! keep the names of specs that do not use it.
//!
//! The bytes are folded with FNV-1a in 128 bits. It guards against accidents, not against
//! somebody who looks for two specs with one name; who may change a workload gains nothing by that.

mod health;
mod secret;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::compose::{ComposeSource, ComposeSpec};
use super::container::{Bind, ContainerSpec, Limits, Open, Port, RestartPolicy, Swap};
use super::health::HealthChecks;
use super::secret::Secret;
use super::vm::{
    Address, Attach, CloudInit, DiskFormat, DiskSource, Login, NicModel, VmDisk, VmNetwork, VmSpec,
};
use super::volume::{AccessMode, ManagedVolume, VolumeDriver};
use super::{Class, Kind, OnNodeLoss, Placement, Protocol, Spec, Strategy};
use crate::id::RevisionId;
use crate::labels::{Constraint, Rule, Toleration};
use crate::resources::{Compute, Resources};

/// The name of this content.
#[must_use]
pub fn content_revision(spec: &Spec) -> RevisionId {
    let mut out = Fold::new();
    out.spec(spec);
    RevisionId::of_content(out.state)
}

struct Fold {
    state: u128,
}

impl Fold {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

    fn new() -> Self {
        Self { state: Self::OFFSET }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.state = (self.state ^ u128::from(*byte)).wrapping_mul(Self::PRIME);
        }
    }

    fn tag(&mut self, tag: u8) {
        self.bytes(&[tag]);
    }

    fn flag(&mut self, flag: bool) {
        self.tag(u8::from(flag));
    }

    fn number(&mut self, number: impl Into<u64>) {
        self.bytes(&number.into().to_le_bytes());
    }

    fn length(&mut self, length: usize) {
        // Nothing in memory is longer than 64 bits can count.
        self.number(u64::try_from(length).unwrap_or(u64::MAX));
    }

    fn text(&mut self, text: &str) {
        self.length(text.len());
        self.bytes(text.as_bytes());
    }

    fn list<T>(&mut self, items: &[T], mut one: impl FnMut(&mut Self, &T)) {
        self.length(items.len());
        for item in items {
            one(self, item);
        }
    }

    fn maybe<T>(&mut self, item: Option<&T>, one: impl FnOnce(&mut Self, &T)) {
        match item {
            None => self.tag(0),
            Some(item) => {
                self.tag(1);
                one(self, item);
            }
        }
    }

    fn words(&mut self, words: &[Arc<str>]) {
        self.list(words, |out, word| out.text(word));
    }

    fn labels(&mut self, labels: &BTreeMap<Arc<str>, Arc<str>>) {
        self.length(labels.len());
        for (key, value) in labels {
            self.text(key);
            self.text(value);
        }
    }

    fn env(&mut self, env: &BTreeMap<Arc<str>, Secret>) {
        self.length(env.len());
        for (name, value) in env {
            self.text(name);
            self.text(value.reveal());
        }
    }

    fn spec(&mut self, spec: &Spec) {
        let Spec { kind, resources, placement, metadata, secrets, stop_grace_ms, health } = spec;
        match kind {
            Kind::Container(container) => {
                self.tag(1);
                self.container(container);
            }
            Kind::Compose(compose) => {
                self.tag(2);
                self.compose(compose);
            }
            Kind::Vm(vm) => {
                self.tag(3);
                self.vm(vm);
            }
        }
        self.resources(resources);
        self.placement(placement);
        self.labels(metadata);
        // Those of a stack are in its file.
        if !secrets.is_empty() && !matches!(kind, Kind::Compose(_)) {
            self.list(secrets, Self::secret);
        }
        // Lengths no list has: what came later stays apart from the secrets.
        if let Some(grace) = stop_grace_ms {
            self.length(usize::MAX);
            self.number(*grace);
        }
        let HealthChecks { ready } = health;
        if let Some(ready) = ready {
            self.length(usize::MAX - 3);
            self.ready(ready);
        }
        let Kind::Container(container) = kind else { return };
        let Open { cpu, memory } = container.limits.open;
        if cpu || memory {
            self.length(usize::MAX - 1);
            self.flag(cpu);
            self.flag(memory);
        }
        if container.ports.iter().any(|port| port.address.is_some()) {
            self.length(usize::MAX - 2);
            self.list(&container.ports, |out, port| {
                out.maybe(port.address.as_ref(), |out, address| out.text(&address.to_string()));
            });
        }
    }

    fn resources(&mut self, resources: &Resources) {
        let Resources { compute: Compute { cpu_millicores, memory_mib }, disk } = resources;
        self.number(*cpu_millicores);
        self.number(*memory_mib);
        self.length(disk.iter().count());
        for (pool, gib) in disk.iter() {
            self.maybe(pool, |out, pool| out.text(pool.as_str()));
            self.number(gib);
        }
    }

    fn placement(&mut self, placement: &Placement) {
        let Placement { constraints, tolerations, strategy, class, on_node_loss } = placement;
        self.list(constraints, |out, Constraint { key, rule }| {
            out.text(key);
            out.rule(rule);
        });
        self.list(tolerations, |out, Toleration { key, value }| {
            out.text(key);
            out.maybe(value.as_ref(), |out, value| out.text(value));
        });
        self.tag(match strategy {
            Strategy::Spread => 1,
            Strategy::BinPack => 2,
        });
        self.tag(match class {
            Class::Default => 1,
            Class::Exclusive => 2,
        });
        self.tag(match on_node_loss {
            OnNodeLoss::Auto => 1,
            OnNodeLoss::Move => 2,
            OnNodeLoss::Stay => 3,
        });
    }

    fn rule(&mut self, rule: &Rule) {
        let (tag, values) = match rule {
            Rule::Exists => return self.tag(1),
            Rule::Absent => return self.tag(2),
            Rule::In(values) => (3, values),
            Rule::NotIn(values) => (4, values),
        };
        self.tag(tag);
        self.length(values.len());
        for value in values {
            self.text(value);
        }
    }

    fn container(&mut self, container: &ContainerSpec) {
        let ContainerSpec {
            image,
            entrypoint,
            command,
            args,
            env,
            binds,
            ports,
            restart,
            privileged,
            labels,
            limits,
            managed_volumes,
        } = container;
        self.text(image);
        if !entrypoint.is_empty() {
            // A length no list has: specs without an entrypoint keep the content they always had.
            self.length(usize::MAX);
            self.words(entrypoint);
        }
        self.words(command);
        self.words(args);
        self.env(env);
        self.list(binds, |out, Bind { host_path, container_path, read_only }| {
            out.text(host_path);
            out.text(container_path);
            out.flag(*read_only);
        });
        // The addresses are written at the end of the spec.
        self.list(ports, |out, Port { address: _, host, container, protocol }| {
            out.maybe(host.as_ref(), |out, host| out.number(*host));
            out.number(*container);
            out.tag(match protocol {
                Protocol::Tcp => 1,
                Protocol::Udp => 2,
            });
        });
        self.restart(*restart);
        self.flag(*privileged);
        self.labels(labels);
        self.limits(*limits);
        self.list(managed_volumes, Self::volume);
    }

    fn restart(&mut self, restart: RestartPolicy) {
        match restart {
            RestartPolicy::No => self.tag(1),
            RestartPolicy::Always => self.tag(2),
            RestartPolicy::OnFailure { max_retries } => {
                self.tag(3);
                self.number(max_retries);
            }
            RestartPolicy::UnlessStopped => self.tag(4),
            RestartPolicy::AlwaysUpTo { max_retries } => {
                self.tag(5);
                self.number(max_retries);
            }
        }
    }

    fn limits(&mut self, limits: Limits) {
        // The last is written at the end of the spec.
        let Limits { cpu_shares, memory_bytes, swap, open: _ } = limits;
        self.maybe(cpu_shares.as_ref(), |out, shares| out.number(*shares));
        self.maybe(memory_bytes.as_ref(), |out, bytes| out.number(*bytes));
        match swap {
            Swap::RuntimeDefault => self.tag(1),
            Swap::Unlimited => self.tag(2),
            Swap::TotalBytes(bytes) => {
                self.tag(3);
                self.number(bytes);
            }
        }
    }

    fn volume(&mut self, volume: &ManagedVolume) {
        let ManagedVolume {
            name,
            driver,
            size_gib,
            access,
            fs_type,
            mount_path,
            read_only,
            retain,
        } = volume;
        self.text(name.as_str());
        self.driver(*driver);
        self.number(*size_gib);
        self.tag(match access {
            AccessMode::ReadWriteOnce => 1,
            AccessMode::ReadOnlyMany => 2,
            AccessMode::ReadWriteMany => 3,
        });
        self.text(fs_type);
        self.text(mount_path);
        self.flag(*read_only);
        self.flag(*retain);
    }

    fn driver(&mut self, driver: VolumeDriver) {
        self.tag(match driver {
            VolumeDriver::Local => 1,
            VolumeDriver::Nfs => 2,
            VolumeDriver::CephRbd => 3,
            VolumeDriver::Compose => 4,
        });
    }

    fn compose(&mut self, compose: &ComposeSpec) {
        // The last two follow from the file.
        let ComposeSpec { source, project, env, host_ports: _, has_named_volumes: _ } = compose;
        match source {
            ComposeSource::Inline(text) => {
                self.tag(1);
                self.text(text.reveal());
            }
            // The file follows from the commit.
            ComposeSource::Git { repository, reference, path, commit, file: _ } => {
                self.tag(2);
                self.text(repository);
                self.text(reference);
                self.text(path);
                self.text(commit);
            }
        }
        self.maybe(project.as_ref(), |out, project| out.text(project));
        self.env(env);
    }

    fn vm(&mut self, vm: &VmSpec) {
        let VmSpec {
            name,
            vcpus,
            memory_mib,
            disks,
            networks,
            cloud_init,
            os_image,
            managed_volumes,
            metadata,
        } = vm;
        self.maybe(name.as_ref(), |out, name| out.text(name));
        self.number(*vcpus);
        self.number(*memory_mib);
        self.list(disks, Self::disk);
        self.list(networks, Self::network);
        self.cloud_init(cloud_init);
        self.maybe(os_image.as_ref(), |out, image| out.text(image));
        self.list(managed_volumes, Self::volume);
        self.labels(metadata);
    }

    fn disk(&mut self, disk: &VmDisk) {
        let VmDisk { device, source, format, cdrom, boot, backing_file } = disk;
        self.text(device);
        self.source(source);
        self.tag(match format {
            DiskFormat::Qcow2 => 1,
            DiskFormat::Raw => 2,
            DiskFormat::Iso => 3,
        });
        self.flag(*cdrom);
        self.flag(*boot);
        self.maybe(backing_file.as_ref(), |out, path| out.text(path));
    }

    fn source(&mut self, source: &DiskSource) {
        match source {
            DiskSource::Pool { pool, size_gib } => {
                self.tag(1);
                self.maybe(pool.as_ref(), |out, pool| out.text(pool.as_str()));
                self.number(*size_gib);
            }
            DiskSource::External { path, create_gib } => {
                self.tag(2);
                self.text(path);
                self.maybe(create_gib.as_ref(), |out, gib| out.number(*gib));
            }
            DiskSource::Driver { driver, size_gib } => {
                self.tag(3);
                self.driver(*driver);
                self.number(*size_gib);
            }
            DiskSource::Rbd { pool, image } => {
                self.tag(4);
                self.text(pool);
                self.text(image);
            }
            DiskSource::Nfs { host, port, path } => {
                self.tag(5);
                self.text(host);
                self.maybe(port.as_ref(), |out, port| out.number(*port));
                self.text(path);
            }
        }
    }

    fn network(&mut self, network: &VmNetwork) {
        let VmNetwork { attach, mac, address, model } = network;
        match attach {
            Attach::Network(name) => {
                self.tag(1);
                self.text(name);
            }
            Attach::Bridge(name) => {
                self.tag(2);
                self.text(name);
            }
        }
        self.maybe(mac.as_ref(), |out, mac| out.bytes(mac));
        self.address(*address);
        self.tag(match model {
            NicModel::Virtio => 1,
            NicModel::E1000 => 2,
            NicModel::E1000e => 3,
            NicModel::Rtl8139 => 4,
        });
    }

    fn address(&mut self, address: Address) {
        let (ip, prefix) = match address {
            Address::Dhcp => return self.tag(1),
            Address::Static { ip, prefix } => (ip, prefix),
        };
        match ip {
            IpAddr::V4(ip) => {
                self.tag(2);
                self.bytes(&ip.octets());
            }
            IpAddr::V6(ip) => {
                self.tag(3);
                self.bytes(&ip.octets());
            }
        }
        self.maybe(prefix.as_ref(), |out, bits| out.number(*bits));
    }

    fn cloud_init(&mut self, cloud_init: &CloudInit) {
        let CloudInit { user_data, meta_data, network_config, vendor_data, login } = cloud_init;
        for text in [user_data, meta_data, network_config, vendor_data] {
            self.text(text.reveal());
        }
        self.maybe(login.as_ref(), |out, login| {
            let Login { username, ssh_public_key, password_hash } = login;
            out.maybe(username.as_ref(), |out, name| out.text(name));
            out.maybe(ssh_public_key.as_ref(), |out, key| out.text(key));
            out.maybe(password_hash.as_ref(), |out, hash| out.text(hash.reveal()));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published values of FNV-1a in 128 bits.
    #[test]
    fn folds_as_published() {
        for (text, expected) in [
            ("", 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d),
            ("a", 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964),
            ("foobar", 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18),
        ] {
            let mut out = Fold::new();
            out.bytes(text.as_bytes());
            assert_eq!(out.state, expected, "{text}");
        }
    }
}
