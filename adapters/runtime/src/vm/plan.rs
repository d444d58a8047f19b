//! From a spec to all that a machine needs: disks, seed, description.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use persys_libvirt::{Domain as Defined, Session};
use persys_model::id::WorkloadId;
use persys_model::spec::VmSpec;
use persys_model::spec::vm::{Address, Attach};

use crate::error::Error;
use crate::runtime::Start;

use super::disks::Power;
use super::domain::{Bus, Card, Disk, Domain, Layer, LayerFormat, Plug};
use super::record::Record;
use super::seed::{self, Seed, SeedCard};
use super::xml::Element;
use super::{Machines, call, identity};

/// The board every machine gets, in its newest version.
const BOARD: &str = "q35";

/// All that a machine needs. Its disks are there already.
#[derive(Debug)]
pub(super) struct Plan {
    domain: Domain,
    seed: Option<Vec<u8>>,
    addresses: Vec<IpAddr>,
    /// Its description without our facts.
    shape: String,
    /// Disks that are to grow while it runs, and to how many bytes.
    to_grow: Vec<(String, u64)>,
}

impl Machines {
    /// Whether what a start needs is there.
    pub(super) async fn check(&self, vm: &VmSpec) -> Result<(), Error> {
        let Some(image) = vm.os_image.clone() else { return Ok(()) };
        let disks = self.disks.clone();
        blocking(move || disks.storage().os_image(&image).map(|_layer| ())).await
    }

    /// Makes the disks that are not there and works out the rest. Nothing that runs is touched:
    /// with the power on, disks do not grow yet.
    pub(super) async fn plan(
        &self,
        session: &Session,
        start: &Start,
        vm: &VmSpec,
        power: Power,
    ) -> Result<Plan, Error> {
        let name = identity::name_of(&self.settings.name_prefix, &start.workload);
        let cluster = &self.owner.cluster;
        let uuid = identity::uuid_of(cluster, &name);
        let prepared = self.disks.prepare(&name, vm, &start.volumes, power).await?;
        let mac = |nth: usize, given: Option<[u8; 6]>| {
            given.unwrap_or_else(|| identity::mac_of(cluster, &name, nth))
        };
        let mut cards = Vec::new();
        let mut seed_cards = Vec::new();
        for (nth, network) in vm.networks.iter().enumerate() {
            let mac = mac(nth, network.mac);
            let router = router_of(session, &network.attach, network.address).await?;
            cards.push(Card { plug: plug(&network.attach), mac, model: network.model });
            seed_cards.push(SeedCard {
                mac,
                address: network.address,
                gateway: router,
                nameservers: router.into_iter().collect(),
            });
        }
        let hostname = vm.name.as_deref().unwrap_or(start.workload.as_str());
        let seed = Seed {
            uuid: &uuid,
            hostname,
            cloud_init: &vm.cloud_init,
            cards: &seed_cards,
            mounts: &prepared.mounts,
        };
        let seed = if seed::is_needed(vm) { Some(seed.disc()?) } else { None };
        let storage = self.disks.storage();
        let mut disks = prepared.disks;
        if seed.is_some() {
            disks.push(disc(&disks, &storage.seed(&name)));
        }
        let domain = Domain {
            facts: identity::facts(&self.owner, start, &vm.metadata),
            engine: self.engine().await,
            emulator: None,
            machine: BOARD.to_owned(),
            memory_mib: vm.memory_mib,
            vcpus: vm.vcpus,
            cpu_millicores: cpu_limit(start),
            disks,
            cards,
            console_log: storage.console_log(&name),
            uuid,
            name,
        };
        let bare = Domain { facts: Element::new("none"), ..domain.clone() };
        let addresses = vm.networks.iter().filter_map(|network| fixed(network.address)).collect();
        Ok(Plan { shape: bare.xml()?, domain, seed, addresses, to_grow: prepared.to_grow })
    }

    /// Whether a machine that runs with this record has to be started anew to become what is
    /// planned.
    pub(super) async fn must_restart(&self, plan: &Plan, record: &Record) -> bool {
        if record.shape != plan.shape {
            return true;
        }
        let Some(planned) = &plan.seed else { return false };
        let path = self.disks.storage().seed(&plan.domain.name);
        tokio::fs::read(path).await.is_ok_and(|there| there != *planned)
    }

    /// Tells libvirt of the machine as it is planned, and keeps what has to be known about it.
    pub(super) async fn realise(
        &self,
        session: &Session,
        workload: &WorkloadId,
        plan: &Plan,
        power: Power,
    ) -> Result<Defined, Error> {
        let folder = self.folder(workload);
        let xml = plan.domain.xml()?;
        let record = Record {
            shape: plan.shape.clone(),
            addresses: plan.addresses.clone(),
            ..Record::read(&folder).await
        };
        record.write(&folder).await?;
        self.put_seed(plan).await?;
        let defined = session.define(&xml).await.map_err(call::of_start)?;
        let told = |said| call::told("start", said);
        // The agent decides what starts, and when.
        if session.autostart(&defined).await.map_err(told)? {
            session.set_autostart(&defined, false).await.map_err(told)?;
        }
        if power == Power::On {
            for (device, bytes) in &plan.to_grow {
                session.resize_disk(&defined, device, *bytes).await.map_err(told)?;
            }
        }
        Ok(defined)
    }

    async fn put_seed(&self, plan: &Plan) -> Result<(), Error> {
        let path = self.disks.storage().seed(&plan.domain.name);
        let disc = plan.seed.clone();
        blocking(move || {
            let done = match disc {
                Some(disc) => seed::write(&path, &disc),
                None => seed::remove(&path),
            };
            done.map_err(|error| Error::Storage { detail: format!("{}: {error}", path.display()) })
        })
        .await
    }

    /// Takes away what is left of a machine that libvirt no longer knows.
    pub(super) async fn clear(&self, workload: &WorkloadId, purge: bool) -> Result<(), Error> {
        let name = identity::name_of(&self.settings.name_prefix, workload);
        self.forget_picture(workload).await;
        Record::forget(&self.folder(workload)).await?;
        self.disks.release(&name, purge).await
    }
}

fn cpu_limit(start: &Start) -> Option<u64> {
    let millicores = start.spec.resources.compute.cpu_millicores;
    (millicores > 0).then_some(millicores)
}

fn plug(attach: &Attach) -> Plug {
    match attach {
        Attach::Network(name) => Plug::Network(name.to_string()),
        Attach::Bridge(name) => Plug::Bridge(name.to_string()),
    }
}

fn fixed(address: Address) -> Option<IpAddr> {
    match address {
        Address::Dhcp => None,
        Address::Static { ip, .. } => Some(ip),
    }
}

/// The disc drive with the seed, under a name nothing else has.
fn disc(others: &[Disk], seed: &Path) -> Disk {
    let taken: BTreeSet<_> = others.iter().map(|disk| disk.device.as_str()).collect();
    let free = ('a'..='z').map(|letter| format!("sd{letter}"));
    let device = free.into_iter().find(|name| !taken.contains(name.as_str()));
    Disk {
        device: device.unwrap_or_else(|| "sdaa".to_owned()),
        bus: Bus::Sata,
        cdrom: true,
        read_only: true,
        boot: None,
        serial: None,
        layers: vec![Layer { path: seed.to_owned(), format: LayerFormat::Raw }],
    }
}

/// The way out for a fixed address: the address that libvirt's own network has on the node.
async fn router_of(
    session: &Session,
    attach: &Attach,
    address: Address,
) -> Result<Option<IpAddr>, Error> {
    let (Attach::Network(name), Some(ip)) = (attach, fixed(address)) else { return Ok(None) };
    let told = |said| call::told("start", said);
    let Some(network) = session.network(name).await.map_err(told)? else {
        let detail = format!("there is no network {name} on this node; `virsh net-list --all`");
        return Err(Error::Network { detail });
    };
    let text = session.network_xml(&network).await.map_err(told)?;
    let Ok(tree) = Element::read(&text) else { return Ok(None) };
    let own = tree.all("ip").filter_map(|ip| ip.attribute("address")?.parse::<IpAddr>().ok());
    let mut alike = own.filter(|own| own.is_ipv4() == ip.is_ipv4());
    Ok(alike.next())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let gone = |error: tokio::task::JoinError| Error::Storage { detail: error.to_string() };
    tokio::task::spawn_blocking(work).await.map_err(gone)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_gets_a_name_of_its_own() {
        let path = Path::new("/home/seed.iso");
        let first = disc(&[], path);
        assert_eq!((first.device.as_str(), first.cdrom, first.read_only), ("sda", true, true));
        assert_eq!(disc(&[first], path).device, "sdb");
    }
}
