//! All that a machine needs, put together from its spec and from what the node has.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use persys_libvirt::{Domain as Defined, Session};
use persys_model::id::WorkloadId;
use persys_model::spec::VmSpec;
use persys_model::spec::vm::{Address, Attach};

use crate::error::Error;
use crate::runtime::Start;

use super::assemble::{Assembled, Host, NetworkFacts, Order, assemble};
use super::disks::Power;
use super::domain::{Domain, Engine};
use super::kvm::{Kvm, Verdict};
use super::record::Record;
use super::seed;
use super::xml::Element;
use super::{Machines, call, identity};

/// What machines are run with here, and why.
#[derive(Debug, Clone)]
pub(super) struct Found {
    host: Host,
    verdict: Verdict,
}

/// All that a machine needs. Its disks are there already.
#[derive(Debug)]
pub(super) struct Plan {
    made: Assembled,
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

    /// What machines are run with here. KVM is proven once, with a throwaway guest.
    pub(super) async fn found(&self, session: &Session) -> Result<&Found, Error> {
        let find = || async {
            let text = session.capabilities().await.map_err(|said| call::told("health", said))?;
            let tree = Element::read(&text).map_err(|error| Error::Unreadable {
                verb: "health",
                detail: format!("capabilities: {error}"),
            })?;
            let host = Host::read(&tree, Engine::Kvm)?;
            if host.engine == Engine::Tcg {
                let why =
                    "guests run under emulation (TCG), many times slower: libvirt offers no KVM";
                let verdict = Verdict { engine: Engine::Tcg, why: why.to_owned() };
                return Ok(Found { host, verdict });
            }
            let scratch = self.disks.storage().home.clone();
            let verdict = Kvm::new(host.emulator.clone(), scratch).verdict().await.clone();
            Ok(Found { host: Host { engine: verdict.engine, ..host }, verdict })
        };
        self.host.get_or_try_init(find).await
    }

    /// What makes machines slow here, if that is known already. To find it out takes longer than a
    /// question for health may, so it is found out beside it.
    pub(super) fn slow(&self, session: &Session) -> Option<String> {
        if let Some(found) = self.host.get() {
            return (found.host.engine == Engine::Tcg).then(|| found.verdict.why.clone());
        }
        let (machines, session) = (self.clone(), session.clone());
        tokio::spawn(async move { machines.found(&session).await.map(|_found| ()) });
        None
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
        let found = self.found(session).await?;
        let networks = networks(session, vm).await?;
        let mut prepared = self.disks.prepare(&name, vm, &start.volumes, power).await?;
        let to_grow = std::mem::take(&mut prepared.to_grow);
        let order = Order {
            owner: &self.owner,
            prefix: &self.settings.name_prefix,
            start,
            vm,
            host: &found.host,
            storage: self.disks.storage(),
            networks: &networks,
        };
        let made = assemble(&order, prepared)?;
        let bare = Domain { facts: Element::new("none"), ..made.domain.clone() };
        let addresses = vm.networks.iter().filter_map(|network| fixed(network.address)).collect();
        Ok(Plan { shape: bare.xml()?, made, addresses, to_grow })
    }

    /// Whether a machine that runs with this record has to be started anew to become what is
    /// planned.
    pub(super) async fn must_restart(&self, plan: &Plan, record: &Record) -> bool {
        if !hardware(&record.shape).eq(hardware(&plan.shape)) {
            return true;
        }
        let Some(planned) = &plan.made.seed else { return false };
        !tokio::fs::read(self.seed_of(plan)).await.is_ok_and(|there| there == *planned)
    }

    fn seed_of(&self, plan: &Plan) -> PathBuf {
        self.disks.storage().seed(&plan.made.domain.name)
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
        let xml = plan.made.domain.xml()?;
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
        let (path, disc) = (self.seed_of(plan), plan.made.seed.clone());
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

fn fixed(address: Address) -> Option<IpAddr> {
    match address {
        Address::Dhcp => None,
        Address::Static { ip, .. } => Some(ip),
    }
}

/// What libvirt knows of the networks that the machine is plugged into. One that is not there, or is
/// down, is told before anything is made.
async fn networks(session: &Session, vm: &VmSpec) -> Result<BTreeMap<String, NetworkFacts>, Error> {
    let told = |said| call::told("start", said);
    let mut all = BTreeMap::new();
    for network in &vm.networks {
        let Attach::Network(name) = &network.attach else { continue };
        let Some(found) = session.network(name).await.map_err(told)? else {
            let detail = format!("no network {name} on this node; `virsh net-list --all` has them");
            return Err(Error::Network { detail });
        };
        if !session.network_is_active(&found).await.map_err(told)? {
            let detail = format!("the network {name} is down; `virsh net-start {name}` starts it");
            return Err(Error::Network { detail });
        }
        if let Some(ip) = fixed(network.address) {
            let text = session.network_xml(&found).await.map_err(told)?;
            all.insert(name.to_string(), facts(&text, ip));
        }
    }
    Ok(all)
}

/// The address that a network of libvirt has on the node is the way out of it.
fn facts(text: &str, for_address: IpAddr) -> NetworkFacts {
    let Ok(tree) = Element::read(text) else { return NetworkFacts::default() };
    for ip in tree.all("ip") {
        let own = ip.attribute("address").and_then(|text| text.parse::<IpAddr>().ok());
        if let Some(own) = own.filter(|own| own.is_ipv4() == for_address.is_ipv4()) {
            return NetworkFacts { gateway: Some(own), prefix: prefix(ip) };
        }
    }
    NetworkFacts::default()
}

fn prefix(ip: &Element) -> Option<u8> {
    if let Some(bits) = ip.attribute("prefix") {
        return bits.parse().ok();
    }
    let mask: std::net::Ipv4Addr = ip.attribute("netmask")?.parse().ok()?;
    u8::try_from(u32::from(mask).leading_ones()).ok()
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let gone = |error: tokio::task::JoinError| Error::Storage { detail: error.to_string() };
    tokio::task::spawn_blocking(work).await.map_err(gone)?
}

/// The lines of a description that a running machine would have to be restarted for. Where the firmware
/// writes to is not one of them: machines that an earlier version made go on until they are next started.
fn hardware(shape: &str) -> impl Iterator<Item = &str> {
    shape.lines().filter(|line| !line.trim_start().starts_with("<bios "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_tells_the_way_out_of_it() {
        let text = "<network><name>default</name><bridge name='virbr0'/>\
            <ip address='192.168.122.1' netmask='255.255.255.0'><dhcp/></ip>\
            <ip family='ipv6' address='2001:db8::1' prefix='64'/></network>";
        let found = |ip: &str| facts(text, ip.parse().unwrap());
        let four = found("192.168.122.9");
        assert_eq!((four.gateway, four.prefix), (Some("192.168.122.1".parse().unwrap()), Some(24)));
        let six = found("2001:db8::9");
        assert_eq!((six.gateway, six.prefix), (Some("2001:db8::1".parse().unwrap()), Some(64)));
        assert_eq!(facts("<network/>", "10.0.0.1".parse().unwrap()), NetworkFacts::default());
    }
}
