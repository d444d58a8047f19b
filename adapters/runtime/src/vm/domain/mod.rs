//! A virtual machine as libvirt is told of it.
//!
//! Everything in a [`Domain`] is typed, and nothing of a user's reaches a command line of QEMU: there
//! is no place for free XML. What the description settles for every machine:
//! - The agent decides restarts. A guest that powers itself off ends; one that reboots goes on; one
//!   that crashes is *kept as it is*, so that its screen and its memory can be looked at, until the
//!   agent ends it. A panic device makes a crash of the guest's kernel visible at all.
//! - Nobody can reach the machine over the network of the node: no VNC, no Spice. The serial console
//!   is written to a file, and can be held by one person at a time. A video card is there for
//!   screenshots, which need no server.
//! - The layers of a disk are spelled out to the last, with their formats. QEMU never guesses what a
//!   guest may have written.
//! - Security labels stay as the node has them.

use std::path::{Path, PathBuf};

use persys_model::spec::vm::NicModel;
use serde::{Deserialize, Serialize};

use crate::error::Error;

use super::identity;
use super::xml::{Element, XmlError};

/// Ports of one SATA controller.
const SATA_PORTS: usize = 6;
/// The stretch of time a CPU quota is counted over, in microseconds.
const CPU_PERIOD_US: u64 = 100_000;
/// How often the guest tells what memory it uses, in seconds.
const BALLOON_SECONDS: u32 = 10;

/// A machine to be defined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// libvirt's name of it.
    pub name: String,
    /// Its uuid.
    pub uuid: String,
    /// Our facts, see [`identity::facts`].
    pub facts: Element,
    /// Who carries out its instructions.
    pub engine: Engine,
    /// The program that runs it; `None` is libvirt's choice.
    pub emulator: Option<PathBuf>,
    /// The board, such as `q35` or `pc-q35-7.2`.
    pub machine: String,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Virtual processors.
    pub vcpus: u32,
    /// The most processor time it may have, where that is less than its processors could use.
    pub cpu_millicores: Option<u64>,
    /// Its disks, in order.
    pub disks: Vec<Disk>,
    /// Its network cards, in order.
    pub cards: Vec<Card>,
    /// Where its serial console is written.
    pub console_log: PathBuf,
}

/// Who carries out a machine's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The processor.
    Kvm,
    /// QEMU itself, many times slower.
    Tcg,
}

/// A disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Its name on its bus, such as `vda`.
    pub device: String,
    /// What it is plugged into.
    pub bus: Bus,
    /// Whether it is a disc drive.
    pub cdrom: bool,
    /// Whether the guest may only read it.
    pub read_only: bool,
    /// Its place in the order of booting, from 1.
    pub boot: Option<u32>,
    /// What the guest can know it by, at most [`Disk::SERIAL_BYTES`] bytes.
    pub serial: Option<String>,
    /// Its layers from the top down; never empty.
    pub layers: Vec<Layer>,
}

impl Disk {
    /// What a virtio disk can carry.
    pub const SERIAL_BYTES: usize = 20;
}

/// One file of a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// Absolute; a file, or for the top layer also a block device under `/dev`.
    pub path: PathBuf,
    /// How it is laid out.
    pub format: LayerFormat,
}

/// How a file is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerFormat {
    /// QEMU's own.
    Qcow2,
    /// Plain bytes; discs too.
    Raw,
}

impl LayerFormat {
    /// The word of QEMU and libvirt.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Qcow2 => "qcow2",
            Self::Raw => "raw",
        }
    }
}

/// What a disk is plugged into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bus {
    /// Made for guests.
    Virtio,
    /// As in real machines.
    Sata,
}

/// A network card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// What it is plugged into.
    pub plug: Plug,
    /// Hardware address.
    pub mac: [u8; 6],
    /// What the guest sees.
    pub model: NicModel,
}

/// What a network card is plugged into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plug {
    /// A libvirt network.
    Network(String),
    /// A bridge of the node.
    Bridge(String),
}

impl Domain {
    /// The description as libvirt takes it.
    pub fn xml(&self) -> Result<String, Error> {
        self.tree().and_then(|tree| tree.write()).map_err(|error| match error {
            XmlError::Character { .. } => Error::Invalid { detail: error.to_string() },
            XmlError::Unreadable { detail } => Error::Refused { verb: "define", detail },
        })
    }

    /// The description as a tree.
    pub fn tree(&self) -> Result<Element, XmlError> {
        let domain = Element::new("domain")
            .with(
                "type",
                match self.engine {
                    Engine::Kvm => "kvm",
                    Engine::Tcg => "qemu",
                },
            )
            .holding(Element::new("name").saying(&self.name))
            .holding(Element::new("uuid").saying(&self.uuid))
            .holding(Element::new("metadata").holding(self.facts.clone()))
            .holding(Element::new("memory").with("unit", "MiB").saying(self.memory_mib))
            .holding(Element::new("currentMemory").with("unit", "MiB").saying(self.memory_mib))
            .holding(Element::new("vcpu").with("placement", "static").saying(self.vcpus))
            .holding_all(self.cpu_limit())
            .holding(self.board())
            .holding(features())
            .holding(self.cpu())
            .holding(Element::new("clock").with("offset", "utc"))
            .holding(Element::new("on_poweroff").saying("destroy"))
            .holding(Element::new("on_reboot").saying("restart"))
            .holding(Element::new("on_crash").saying("preserve"))
            .holding(no_sleep())
            .holding(self.devices()?);
        Ok(domain)
    }

    fn board(&self) -> Element {
        let board = Element::new("type")
            .with("arch", "x86_64")
            .with("machine", &self.machine)
            .saying("hvm");
        // What the firmware says is on the serial console too, so that a machine that finds nothing
        // to boot can be told from one that boots slowly.
        let bios = Element::new("bios").with("useserial", "yes");
        Element::new("os").holding(board).holding(bios)
    }

    fn cpu(&self) -> Element {
        let cpu = Element::new("cpu");
        match self.engine {
            Engine::Kvm => cpu.with("mode", "host-passthrough").with("check", "none"),
            // All that QEMU can imitate: systems of today do not start on its oldest model.
            Engine::Tcg => cpu.with("mode", "maximum").with("check", "none"),
        }
    }

    fn cpu_limit(&self) -> Option<Element> {
        let all = u64::from(self.vcpus).saturating_mul(1000);
        let limit = self.cpu_millicores.filter(|limit| *limit < all)?;
        let quota = limit.saturating_mul(CPU_PERIOD_US) / 1000;
        let tune = Element::new("cputune")
            .holding(Element::new("global_period").saying(CPU_PERIOD_US))
            .holding(Element::new("global_quota").saying(quota.max(1000)));
        Some(tune)
    }

    fn devices(&self) -> Result<Element, XmlError> {
        let emulator = match &self.emulator {
            Some(path) => Some(Element::new("emulator").saying(text(path)?)),
            None => None,
        };
        let mut sata = 0;
        let disks = self.disks.iter().map(|disk| disk.tree(&mut sata));
        let disks = disks.collect::<Result<Vec<_>, _>>()?;
        let usb = Element::new("controller").with("type", "usb").with("model", "none");
        Ok(Element::new("devices")
            .holding_all(emulator)
            .holding_all(disks)
            .holding(usb)
            .holding_all(self.cards.iter().map(Card::tree))
            .holding_all(consoles(text(&self.console_log)?))
            .holding(guest_agent())
            .holding(video())
            .holding(balloon())
            .holding(dice())
            .holding(Element::new("panic").with("model", "isa")))
    }
}

impl Disk {
    fn tree(&self, sata: &mut usize) -> Result<Element, XmlError> {
        let (layer, below) = self.layers.split_first().ok_or_else(|| XmlError::Unreadable {
            detail: format!("disk {} has no file", self.device),
        })?;
        let mut driver =
            Element::new("driver").with("name", "qemu").with("type", layer.format.word());
        if !self.read_only {
            // Flushes of the guest are honoured, and it works on every file system.
            driver = driver.with("cache", "writeback").with("discard", "unmap");
        }
        let target = Element::new("target").with("dev", &self.device).with(
            "bus",
            match self.bus {
                Bus::Virtio => "virtio",
                Bus::Sata => "sata",
            },
        );
        let (kind, at) =
            if layer.path.starts_with("/dev") { ("block", "dev") } else { ("file", "file") };
        let mut disk = Element::new("disk")
            .with("type", kind)
            .with("device", if self.cdrom { "cdrom" } else { "disk" })
            .holding(driver)
            .holding(Element::new("source").with(at, text(&layer.path)?))
            .holding(backing(below)?)
            .holding(target);
        if self.read_only {
            disk = disk.holding(Element::new("readonly"));
        }
        if let Some(order) = self.boot {
            disk = disk.holding(Element::new("boot").with("order", order));
        }
        if let Some(serial) = &self.serial {
            disk = disk.holding(Element::new("serial").saying(serial));
        }
        if self.bus == Bus::Sata {
            disk = disk.holding(sata_port(*sata));
            *sata += 1;
        }
        Ok(disk)
    }
}

/// Said in full: the names `hda` and `sda` would otherwise mean the same port.
fn sata_port(nth: usize) -> Element {
    Element::new("address")
        .with("type", "drive")
        .with("controller", nth / SATA_PORTS)
        .with("bus", 0)
        .with("target", 0)
        .with("unit", nth % SATA_PORTS)
}

/// The layers below the top one. An empty element ends them: nothing is looked for beneath.
fn backing(layers: &[Layer]) -> Result<Element, XmlError> {
    let Some((layer, below)) = layers.split_first() else {
        return Ok(Element::new("backingStore"));
    };
    Ok(Element::new("backingStore")
        .with("type", "file")
        .holding(Element::new("format").with("type", layer.format.word()))
        .holding(Element::new("source").with("file", text(&layer.path)?))
        .holding(backing(below)?))
}

impl Card {
    fn tree(&self) -> Element {
        let (kind, source) = match &self.plug {
            Plug::Network(name) => ("network", Element::new("source").with("network", name)),
            Plug::Bridge(name) => ("bridge", Element::new("source").with("bridge", name)),
        };
        let model = match self.model {
            NicModel::Virtio => "virtio",
            NicModel::E1000 => "e1000",
            NicModel::E1000e => "e1000e",
            NicModel::Rtl8139 => "rtl8139",
        };
        Element::new("interface")
            .with("type", kind)
            .holding(Element::new("mac").with("address", identity::mac_text(self.mac)))
            .holding(source)
            .holding(Element::new("model").with("type", model))
            // It boots from its disks. Looking for a server to boot from only takes time.
            .holding(Element::new("rom").with("enabled", "no"))
    }
}

fn features() -> Element {
    Element::new("features").holding(Element::new("acpi")).holding(Element::new("apic"))
}

/// A guest asleep looks to everybody like one that hangs.
fn no_sleep() -> Element {
    Element::new("pm")
        .holding(Element::new("suspend-to-mem").with("enabled", "no"))
        .holding(Element::new("suspend-to-disk").with("enabled", "no"))
}

fn consoles(log: &str) -> [Element; 2] {
    // Kept from start to start; the log daemon sees to its size.
    let log = Element::new("log").with("file", log).with("append", "on");
    let serial = Element::new("serial")
        .with("type", "pty")
        .holding(log.clone())
        .holding(Element::new("target").with("type", "isa-serial").with("port", 0));
    let console = Element::new("console")
        .with("type", "pty")
        .holding(log)
        .holding(Element::new("target").with("type", "serial").with("port", 0));
    [serial, console]
}

fn guest_agent() -> Element {
    let target =
        Element::new("target").with("type", "virtio").with("name", "org.qemu.guest_agent.0");
    Element::new("channel").with("type", "unix").holding(target)
}

fn video() -> Element {
    Element::new("video").holding(Element::new("model").with("type", "vga"))
}

fn balloon() -> Element {
    Element::new("memballoon")
        .with("model", "virtio")
        .holding(Element::new("stats").with("period", BALLOON_SECONDS))
}

fn dice() -> Element {
    let backend = Element::new("backend").with("model", "random").saying("/dev/urandom");
    Element::new("rng").with("model", "virtio").holding(backend)
}

fn text(path: &Path) -> Result<&str, XmlError> {
    path.to_str()
        .ok_or_else(|| XmlError::Unreadable { detail: format!("{} is no text", path.display()) })
}

#[cfg(test)]
mod tests;
