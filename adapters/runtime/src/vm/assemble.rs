//! From an order to start a machine to its description and its seed.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use persys_model::spec::VmSpec;
use persys_model::spec::vm::{Address, Attach};

use crate::error::Error;
use crate::runtime::{Owner, Start};

use super::disks::{Prepared, free_device};
use super::domain::{Bus, Card, Disk, Domain, Engine, Layer, LayerFormat, Plug};
use super::identity;
use super::seed::{self, Seed, SeedCard};
use super::storage::Storage;
use super::xml::Element;

/// What the node runs machines with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Who carries out their instructions.
    pub engine: Engine,
    /// The program.
    pub emulator: PathBuf,
    /// The board.
    pub machine: String,
}

/// The boards we take, best first.
const BOARDS: [&str; 2] = ["q35", "pc"];

impl Host {
    /// Reads libvirt's capabilities. `proven` is the engine that was proven to work; KVM counts only
    /// if libvirt offers it too.
    pub fn read(capabilities: &Element, proven: Engine) -> Result<Self, Error> {
        let missing = |what: &str| Error::Resources {
            detail: format!("this node offers no {what} for x86_64; install qemu-system-x86"),
        };
        let guest = capabilities.all("guest").find(|guest| {
            let kind = guest.child("os_type").is_some_and(|kind| kind.text == "hvm");
            kind && guest.child("arch").and_then(|arch| arch.attribute("name")) == Some("x86_64")
        });
        let arch =
            guest.and_then(|guest| guest.child("arch")).ok_or_else(|| missing("machines"))?;
        let kvm = arch.all("domain").find(|domain| domain.attribute("type") == Some("kvm"));
        let engine = if kvm.is_some() { proven } else { Engine::Tcg };
        let emulator = arch.child("emulator").ok_or_else(|| missing("emulator"))?;
        let offered: Vec<_> = arch.all("machine").map(|machine| machine.text.as_str()).collect();
        let board = BOARDS.iter().find(|board| offered.contains(board));
        let board = board.ok_or_else(|| missing("board of the kinds q35 or pc"))?;
        Ok(Self { engine, emulator: PathBuf::from(&emulator.text), machine: (*board).to_owned() })
    }
}

/// What is known about a network that machines with fixed addresses are plugged into.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkFacts {
    /// The way out; it also answers names.
    pub gateway: Option<IpAddr>,
    /// Bits of the network.
    pub prefix: Option<u8>,
}

/// A machine ready to be defined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembled {
    /// What libvirt is told.
    pub domain: Domain,
    /// The bytes of its seed, to be written to [`Storage::seed`] before it starts.
    pub seed: Option<Vec<u8>>,
}

/// Everything that is needed to describe a machine.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// Whose it will be.
    pub owner: &'a Owner,
    /// What stands before a workload's id in libvirt's name.
    pub prefix: &'a str,
    /// The order.
    pub start: &'a Start,
    /// The machine in it.
    pub vm: &'a VmSpec,
    /// What the node runs machines with.
    pub host: &'a Host,
    /// Where files are.
    pub storage: &'a Storage,
    /// What is known of networks, by name of the network or the bridge.
    pub networks: &'a BTreeMap<String, NetworkFacts>,
}

/// Puts a description and a seed together.
pub fn assemble(order: &Order<'_>, prepared: Prepared) -> Result<Assembled, Error> {
    let (owner, vm, start) = (order.owner, order.vm, order.start);
    let name = identity::name_of(order.prefix, &start.workload);
    let uuid = identity::uuid_of(&owner.cluster, &name);
    let (cards, seed_cards) = cards(order, &name);
    let seed = if seed::is_needed(vm) {
        let hostname = vm.name.as_deref().unwrap_or(start.workload.as_str());
        let seed = Seed {
            uuid: &uuid,
            hostname,
            cloud_init: &vm.cloud_init,
            cards: &seed_cards,
            mounts: &prepared.mounts,
        };
        Some(seed.disc()?)
    } else {
        None
    };
    let mut disks = prepared.disks;
    if seed.is_some() {
        disks.push(seed_disk(&disks, order.storage, &name));
    }
    let domain = Domain {
        uuid,
        facts: identity::facts(owner, start, &vm.metadata),
        engine: order.host.engine,
        emulator: Some(order.host.emulator.clone()),
        machine: order.host.machine.clone(),
        memory_mib: vm.memory_mib,
        vcpus: vm.vcpus,
        cpu_millicores: Some(start.spec.resources.compute.cpu_millicores)
            .filter(|limit| *limit > 0),
        disks,
        cards,
        console_log: order.storage.console_log(&name),
        name,
    };
    Ok(Assembled { domain, seed })
}

/// The seed as a plain disk of virtio: kernels made for clouds often have no driver for SATA discs,
/// and cloud-init goes by the label alone.
fn seed_disk(others: &[Disk], storage: &Storage, name: &str) -> Disk {
    Disk {
        device: free_device(others),
        bus: Bus::Virtio,
        cdrom: false,
        read_only: true,
        boot: None,
        serial: Some("cidata".to_owned()),
        layers: vec![Layer { path: storage.seed(name), format: LayerFormat::Raw }],
    }
}

fn cards(order: &Order<'_>, name: &str) -> (Vec<Card>, Vec<SeedCard>) {
    let card = |(nth, network): (usize, &persys_model::spec::vm::VmNetwork)| {
        let mac = network.mac.unwrap_or_else(|| identity::mac_of(&order.owner.cluster, name, nth));
        let (plug, plugged) = match &network.attach {
            Attach::Network(name) => (Plug::Network(name.to_string()), name),
            Attach::Bridge(name) => (Plug::Bridge(name.to_string()), name),
        };
        let facts = order.networks.get(&**plugged).cloned().unwrap_or_default();
        let address = match network.address {
            Address::Static { ip, prefix } => {
                Address::Static { ip, prefix: prefix.or(facts.prefix) }
            }
            Address::Dhcp => Address::Dhcp,
        };
        let seed = SeedCard {
            mac,
            address,
            gateway: facts.gateway,
            nameservers: facts.gateway.into_iter().collect(),
        };
        (Card { plug, mac, model: network.model }, seed)
    };
    order.vm.networks.iter().enumerate().map(card).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPABILITIES: &str = "<capabilities><host/><guest><os_type>hvm</os_type>\
        <arch name='i686'><emulator>/usr/bin/qemu-system-i386</emulator><machine>pc</machine></arch>\
        </guest><guest><os_type>hvm</os_type><arch name='x86_64'><wordsize>64</wordsize>\
        <emulator>/usr/bin/qemu-system-x86_64</emulator>\
        <machine maxCpus='255'>pc-i440fx-7.2</machine><machine canonical='pc-i440fx-7.2'>pc</machine>\
        <machine canonical='pc-q35-7.2'>q35</machine><domain type='qemu'/><domain type='kvm'/></arch>\
        </guest></capabilities>";

    fn read(text: &str, proven: Engine) -> Result<Host, Error> {
        Host::read(&Element::read(text).unwrap(), proven)
    }

    #[test]
    fn the_best_board_and_only_a_proven_engine_are_taken() {
        let host = read(CAPABILITIES, Engine::Tcg).unwrap();
        assert_eq!((host.machine.as_str(), host.engine), ("q35", Engine::Tcg));
        assert_eq!(host.emulator, PathBuf::from("/usr/bin/qemu-system-x86_64"));
        assert_eq!(read(CAPABILITIES, Engine::Kvm).unwrap().engine, Engine::Kvm);
        let without = CAPABILITIES.replace("<domain type='kvm'/>", "");
        assert_eq!(read(&without, Engine::Kvm).unwrap().engine, Engine::Tcg);
        let old = CAPABILITIES.replace(">q35<", ">isapc<");
        assert_eq!(read(&old, Engine::Tcg).unwrap().machine, "pc");
    }

    #[test]
    fn a_node_that_cannot_is_told_what_to_install() {
        for text in ["<capabilities/>", &CAPABILITIES.replace("x86_64", "arm")] {
            let error = read(text, Engine::Kvm).unwrap_err();
            assert!(error.to_string().contains("install qemu-system-x86"), "{error}");
        }
    }
}
