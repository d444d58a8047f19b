//! The calls, each with its number, what it sends and what it reads.
//!
//! The numbers are those of `remote_protocol.x` and `qemu_protocol.x` of libvirt, which never
//! change: a newer libvirt only adds to them.

use crate::client::Session;
use crate::connection::Procedure;
use crate::error::{Code, Error, Refusal};
use crate::frame;
use crate::stream::Stream;
use crate::values::{Card, Domain, LIST_MOST, Lease, Named, Room, State, Stats, Volume};
use crate::xdr::{Malformed, Reader, Writer};

const GET_VERSION: Procedure = Procedure::new(4, "the version of the hypervisor");
const GET_CAPABILITIES: Procedure = Procedure::new(7, "the capabilities");
const GET_XML: Procedure = Procedure::new(14, "the description of a domain");
const GET_AUTOSTART: Procedure = Procedure::new(15, "whether a domain starts by itself");
const LOOKUP_BY_NAME: Procedure = Procedure::new(23, "a domain by its name");
const LOOKUP_BY_UUID: Procedure = Procedure::new(24, "a domain by its uuid");
const RESUME: Procedure = Procedure::new(28, "resume");
const SET_AUTOSTART: Procedure = Procedure::new(29, "set autostart");
const SUSPEND: Procedure = Procedure::new(34, "suspend");
const NETWORK_XML: Procedure = Procedure::new(43, "the description of a network");
const NETWORK_BY_NAME: Procedure = Procedure::new(46, "a network by its name");
const GET_HOSTNAME: Procedure = Procedure::new(59, "the name of the host");
const POOL_BY_NAME: Procedure = Procedure::new(84, "a storage pool by its name");
const POOL_INFO: Procedure = Procedure::new(87, "the room of a storage pool");
const POOL_XML: Procedure = Procedure::new(88, "the description of a storage pool");
const VOLUME_CREATE: Procedure = Procedure::new(93, "create a volume");
const VOLUME_DELETE: Procedure = Procedure::new(94, "delete a volume");
const VOLUME_BY_NAME: Procedure = Procedure::new(95, "a volume by its name");
const VOLUME_INFO: Procedure = Procedure::new(98, "the room of a volume");
const NETWORK_IS_ACTIVE: Procedure = Procedure::new(152, "whether a network is active");
const GET_LIB_VERSION: Procedure = Procedure::new(157, "the version of libvirt");
const CREATE: Procedure = Procedure::new(196, "start");
const OPEN_CONSOLE: Procedure = Procedure::new(201, "open the console");
const SCREENSHOT: Procedure = Procedure::new(211, "a screenshot");
const GET_STATE: Procedure = Procedure::new(212, "the state of a domain");
const UNDEFINE: Procedure = Procedure::new(231, "undefine");
const DESTROY: Procedure = Procedure::new(234, "destroy");
const BLOCK_RESIZE: Procedure = Procedure::new(251, "resize a disk");
const SHUTDOWN: Procedure = Procedure::new(258, "shut down");
const VOLUME_RESIZE: Procedure = Procedure::new(260, "resize a volume");
const LIST_DOMAINS: Procedure = Procedure::new(273, "the list of domains");
const LIST_POOLS: Procedure = Procedure::new(281, "the list of storage pools");
const LEASES: Procedure = Procedure::new(341, "the leases of a network");
const ALL_STATS: Procedure = Procedure::new(344, "the statistics of all domains");
const DEFINE: Procedure = Procedure::new(350, "define a domain");
const ADDRESSES: Procedure = Procedure::new(353, "the addresses of a domain");
const AGENT_COMMAND: Procedure =
    Procedure { program: frame::QEMU, number: 3, name: "a command to the guest's agent" };

/// `VIR_DOMAIN_DEFINE_VALIDATE`: what the schema does not know is refused, not dropped.
const VALIDATE: u32 = 1;
/// `VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | SNAPSHOTS_METADATA | NVRAM | CHECKPOINTS_METADATA`: what
/// libvirt keeps about a domain goes with it. Its disks are no part of that.
const UNDEFINE_ALL: u32 = 1 | 2 | 4 | 16;
/// The same for drivers that know neither NVRAM nor checkpoints.
const UNDEFINE_PLAIN: u32 = 1 | 2;
/// `VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN`.
const POWER_BUTTON: u32 = 1;
/// `VIR_DOMAIN_BLOCK_RESIZE_BYTES`.
const IN_BYTES: u32 = 1;
/// `VIR_DOMAIN_CONSOLE_FORCE`: whoever has it open loses it.
const FORCE: u32 = 1;

/// Where addresses are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressSource {
    /// What the networks of libvirt lent.
    Lease,
    /// The agent in the guest.
    Agent,
}

/// Which groups of statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Groups(u32);

impl Groups {
    /// How the domains are.
    pub const STATE: Self = Self(1);
    /// What they use: state, processor, memory, cards, disks.
    pub const USAGE: Self = Self(1 | 2 | 4 | 16 | 32);
}

/// An answer without a body.
fn nothing(reader: &mut Reader) -> Result<(), Malformed> {
    reader.end()
}

impl Session {
    /// The version of libvirt, such as `9.0.0`.
    pub async fn lib_version(&self) -> Result<String, Error> {
        self.ask(GET_LIB_VERSION, Writer::new(), Reader::u64).await.map(version)
    }

    /// The version of the hypervisor, such as `7.2.22`.
    pub async fn version(&self) -> Result<String, Error> {
        self.ask(GET_VERSION, Writer::new(), Reader::u64).await.map(version)
    }

    /// The name of the host.
    pub async fn hostname(&self) -> Result<String, Error> {
        self.ask(GET_HOSTNAME, Writer::new(), Reader::text).await
    }

    /// What the host can run, as XML. libvirt may have to examine its emulators for it, which takes
    /// longer than a question should.
    pub async fn capabilities(&self) -> Result<String, Error> {
        self.act(GET_CAPABILITIES, Writer::new(), Reader::text).await
    }

    /// All domains, running or not, whoever made them.
    pub async fn domains(&self) -> Result<Vec<Domain>, Error> {
        let args = Writer::new().i32(1).u32(0);
        self.ask(LIST_DOMAINS, args, |reader| {
            let all = reader.list(LIST_MOST, Domain::read)?;
            reader.u32().map(|_count| all)
        })
        .await
    }

    /// A domain by its name; `None` if there is none.
    pub async fn domain(&self, name: &str) -> Result<Option<Domain>, Error> {
        found(self.ask(LOOKUP_BY_NAME, Writer::new().text(name), Domain::read).await)
    }

    /// A domain by its uuid; `None` if there is none.
    pub async fn domain_by_uuid(&self, uuid: &[u8; 16]) -> Result<Option<Domain>, Error> {
        found(self.ask(LOOKUP_BY_UUID, Writer::new().fixed(uuid), Domain::read).await)
    }

    /// Makes a domain of an XML description, or changes the one with the same name and uuid. What
    /// already runs goes on as it is until it is started the next time.
    pub async fn define(&self, xml: &str) -> Result<Domain, Error> {
        self.act(DEFINE, Writer::new().text(xml).u32(VALIDATE), Domain::read).await
    }

    /// Starts a domain.
    pub async fn start(&self, domain: &Domain) -> Result<Domain, Error> {
        self.act(CREATE, domain.write(Writer::new()).u32(0), Domain::read).await
    }

    /// Presses the power button of the guest.
    pub async fn shutdown(&self, domain: &Domain) -> Result<(), Error> {
        self.act(SHUTDOWN, domain.write(Writer::new()).u32(POWER_BUTTON), nothing).await
    }

    /// Ends a domain at once. It stays defined.
    pub async fn destroy(&self, domain: &Domain) -> Result<(), Error> {
        self.act(DESTROY, domain.write(Writer::new()).u32(0), nothing).await
    }

    /// Forgets a domain. Its disks stay.
    pub async fn undefine(&self, domain: &Domain) -> Result<(), Error> {
        let undefine = |flags| self.act(UNDEFINE, domain.write(Writer::new()).u32(flags), nothing);
        match undefine(UNDEFINE_ALL).await {
            Err(Error::Refused(Refusal { code: Code::INVALID_ARG, .. })) => {
                undefine(UNDEFINE_PLAIN).await
            }
            done => done,
        }
    }

    /// Holds a domain.
    pub async fn suspend(&self, domain: &Domain) -> Result<(), Error> {
        self.act(SUSPEND, domain.write(Writer::new()), nothing).await
    }

    /// Lets a domain go on.
    pub async fn resume(&self, domain: &Domain) -> Result<(), Error> {
        self.act(RESUME, domain.write(Writer::new()), nothing).await
    }

    /// The description of a domain: what it runs as, or with `stored` what it will start as.
    pub async fn xml(&self, domain: &Domain, stored: bool) -> Result<String, Error> {
        // VIR_DOMAIN_XML_INACTIVE
        let flags = if stored { 2 } else { 0 };
        self.ask(GET_XML, domain.write(Writer::new()).u32(flags), Reader::text).await
    }

    /// How a domain is.
    pub async fn state(&self, domain: &Domain) -> Result<State, Error> {
        self.ask(GET_STATE, domain.write(Writer::new()).u32(0), State::read).await
    }

    /// Whether a domain starts with the host.
    pub async fn autostart(&self, domain: &Domain) -> Result<bool, Error> {
        let args = domain.write(Writer::new());
        self.ask(GET_AUTOSTART, args, |reader| reader.i32().map(|word| word != 0)).await
    }

    /// Sets whether a domain starts with the host.
    pub async fn set_autostart(&self, domain: &Domain, on: bool) -> Result<(), Error> {
        let args = domain.write(Writer::new()).i32(i32::from(on));
        self.act(SET_AUTOSTART, args, nothing).await
    }

    /// The network cards of a running domain, with their addresses.
    pub async fn cards(&self, domain: &Domain, source: AddressSource) -> Result<Vec<Card>, Error> {
        let source = match source {
            AddressSource::Lease => 0,
            AddressSource::Agent => 1,
        };
        let args = domain.write(Writer::new()).u32(source).u32(0);
        self.ask(ADDRESSES, args, Card::read_all).await
    }

    /// Statistics of all domains in one call.
    pub async fn stats(&self, groups: Groups) -> Result<Vec<Stats>, Error> {
        // VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT: a domain that is busy tells less, and holds
        // nobody up.
        let args = Writer::new().u32(0).u32(groups.0).u32(1 << 29);
        self.ask(ALL_STATS, args, |reader| reader.list(LIST_MOST, Stats::read)).await
    }

    /// Opens the console of a running domain, both ways. One can have it open at a time: without
    /// `force` another is refused.
    pub async fn console(&self, domain: &Domain, force: bool) -> Result<Stream, Error> {
        let flags = if force { FORCE } else { 0 };
        let args = domain.write(Writer::new()).optional_text(None).u32(flags);
        self.open_stream(OPEN_CONSOLE, args, nothing).await.map(|((), stream)| stream)
    }

    /// A picture of the first screen of a running domain, and of which type it is.
    pub async fn screenshot(&self, domain: &Domain) -> Result<(Option<String>, Stream), Error> {
        let args = domain.write(Writer::new()).u32(0).u32(0);
        self.open_stream(SCREENSHOT, args, |reader| reader.optional(Reader::text)).await
    }

    /// Changes the size of a disk of a running domain.
    pub async fn resize_disk(
        &self,
        domain: &Domain,
        device: &str,
        bytes: u64,
    ) -> Result<(), Error> {
        let args = domain.write(Writer::new()).text(device).u64(bytes).u32(IN_BYTES);
        self.act(BLOCK_RESIZE, args, nothing).await
    }

    /// Asks the agent in a guest something, as JSON; libvirt waits `seconds` for it.
    pub async fn agent(
        &self,
        domain: &Domain,
        command: &str,
        seconds: i32,
    ) -> Result<Option<String>, Error> {
        let args = domain.write(Writer::new()).text(command).i32(seconds).u32(0);
        self.act(AGENT_COMMAND, args, |reader| reader.optional(Reader::text)).await
    }

    /// A network by its name; `None` if there is none.
    pub async fn network(&self, name: &str) -> Result<Option<Named>, Error> {
        found(self.ask(NETWORK_BY_NAME, Writer::new().text(name), Named::read).await)
    }

    /// The description of a network.
    pub async fn network_xml(&self, network: &Named) -> Result<String, Error> {
        self.ask(NETWORK_XML, network.write(Writer::new()).u32(0), Reader::text).await
    }

    /// Whether a network is up.
    pub async fn network_is_active(&self, network: &Named) -> Result<bool, Error> {
        let args = network.write(Writer::new());
        self.ask(NETWORK_IS_ACTIVE, args, |reader| reader.i32().map(|word| word == 1)).await
    }

    /// The addresses a network lent, to one hardware address or to all.
    pub async fn leases(&self, network: &Named, mac: Option<&str>) -> Result<Vec<Lease>, Error> {
        let args = network.write(Writer::new()).optional_text(mac).i32(1).u32(0);
        self.ask(LEASES, args, |reader| {
            let all = reader.list(LIST_MOST, Lease::read)?;
            reader.u32().map(|_count| all)
        })
        .await
    }

    /// A storage pool by its name; `None` if there is none.
    pub async fn pool(&self, name: &str) -> Result<Option<Named>, Error> {
        found(self.ask(POOL_BY_NAME, Writer::new().text(name), Named::read).await)
    }

    /// All storage pools.
    pub async fn pools(&self) -> Result<Vec<Named>, Error> {
        let args = Writer::new().i32(1).u32(0);
        self.ask(LIST_POOLS, args, |reader| {
            let all = reader.list(LIST_MOST, Named::read)?;
            reader.u32().map(|_count| all)
        })
        .await
    }

    /// The description of a storage pool.
    pub async fn pool_xml(&self, pool: &Named) -> Result<String, Error> {
        self.ask(POOL_XML, pool.write(Writer::new()).u32(0), Reader::text).await
    }

    /// How much a storage pool holds.
    pub async fn pool_room(&self, pool: &Named) -> Result<Room, Error> {
        self.ask(POOL_INFO, pool.write(Writer::new()), |reader| {
            let active = reader.u32()? == 2;
            let (capacity, allocation) = (reader.u64()?, reader.u64()?);
            Ok(Room { capacity, allocation, available: reader.u64()?, active })
        })
        .await
    }

    /// A volume of a pool by its name; `None` if there is none.
    pub async fn volume(&self, pool: &Named, name: &str) -> Result<Option<Volume>, Error> {
        let args = pool.write(Writer::new()).text(name);
        found(self.ask(VOLUME_BY_NAME, args, Volume::read).await)
    }

    /// Makes a volume in a pool.
    pub async fn create_volume(&self, pool: &Named, xml: &str) -> Result<Volume, Error> {
        self.act(VOLUME_CREATE, pool.write(Writer::new()).text(xml).u32(0), Volume::read).await
    }

    /// Removes a volume with its content.
    pub async fn delete_volume(&self, volume: &Volume) -> Result<(), Error> {
        self.act(VOLUME_DELETE, volume.write(Writer::new()).u32(0), nothing).await
    }

    /// Grows a volume. A smaller size is refused by libvirt.
    pub async fn resize_volume(&self, volume: &Volume, bytes: u64) -> Result<(), Error> {
        self.act(VOLUME_RESIZE, volume.write(Writer::new()).u64(bytes).u32(0), nothing).await
    }

    /// How large a volume is.
    pub async fn volume_room(&self, volume: &Volume) -> Result<Room, Error> {
        self.ask(VOLUME_INFO, volume.write(Writer::new()), |reader| {
            let _kind = reader.i32()?;
            let (capacity, allocation) = (reader.u64()?, reader.u64()?);
            Ok(Room { capacity, allocation, available: 0, active: true })
        })
        .await
    }
}

/// "There is none" is an answer to the question for one.
fn found<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn version(number: u64) -> String {
    format!("{}.{}.{}", number / 1_000_000, number / 1000 % 1000, number % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_three_numbers() {
        assert_eq!(version(9_000_000), "9.0.0");
        assert_eq!(version(7_002_022), "7.2.22");
    }
}
