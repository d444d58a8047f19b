//! What calls are about, and what they answer with.

use std::net::IpAddr;

use bytes::Bytes;

use crate::xdr::{Malformed, Reader, Writer};

/// Most things in a list; libvirt's own limit.
pub(crate) const LIST_MOST: usize = 16384;
/// Most values in one record of statistics.
const PARAMS_MOST: usize = 4096;
/// Most addresses and interfaces of one domain.
const ADDRESSES_MOST: usize = 2048;

/// The name a thing keeps through everything but its own end.
pub type Uuid = [u8; 16];

/// A domain: a virtual machine, running or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// Its name.
    pub name: String,
    /// Its name for ever.
    pub uuid: Uuid,
    /// Its number while it runs, else -1.
    pub id: i32,
}

impl Domain {
    pub(crate) fn read(reader: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self { name: reader.text()?, uuid: reader.fixed()?, id: reader.i32()? })
    }

    pub(crate) fn write(&self, writer: Writer) -> Writer {
        writer.text(&self.name).fixed(&self.uuid).i32(self.id)
    }
}

/// A network or a storage pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Its name for ever.
    pub uuid: Uuid,
}

impl Named {
    pub(crate) fn read(reader: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self { name: reader.text()?, uuid: reader.fixed()? })
    }

    pub(crate) fn write(&self, writer: Writer) -> Writer {
        writer.text(&self.name).fixed(&self.uuid)
    }
}

/// A volume of a storage pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// The pool.
    pub pool: String,
    /// Its name there.
    pub name: String,
    /// Its name for ever; for files, the path.
    pub key: String,
}

impl Volume {
    pub(crate) fn read(reader: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self { pool: reader.text()?, name: reader.text()?, key: reader.text()? })
    }

    pub(crate) fn write(&self, writer: Writer) -> Writer {
        writer.text(&self.pool).text(&self.name).text(&self.key)
    }
}

/// How a domain is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// libvirt cannot tell.
    None,
    /// It runs.
    Running,
    /// It waits for something of the host.
    Blocked,
    /// It is held.
    Paused(Hold),
    /// It is about to end.
    ShuttingDown,
    /// It does not run.
    Off(Off),
    /// It crashed and is kept as it was.
    Crashed,
    /// It sleeps by the guest's own wish.
    Asleep,
    /// Something this version does not know.
    Other(i32),
}

/// Cause of a domain being paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Somebody suspended it, or nobody knows why.
    User,
    /// libvirt itself does something with it and lets it go on afterwards: it is moved, saved, dumped,
    /// snapshotted, started or ended.
    Passing,
    /// A disk failed or is full.
    Io,
    /// Its watchdog barked.
    Watchdog,
    /// Its guest crashed.
    Crashed,
    /// Its memory did not arrive when it was moved.
    Moved,
    /// libvirt could not go on with it.
    Failed,
}

impl Hold {
    fn new(reason: i32) -> Self {
        match reason {
            2..=4 | 7..=9 | 11 | 12 => Self::Passing,
            5 => Self::Io,
            6 => Self::Watchdog,
            10 => Self::Crashed,
            13 => Self::Moved,
            14 => Self::Failed,
            _ => Self::User,
        }
    }

    /// The fault behind it, as people read it; `None` where there is none.
    #[must_use]
    pub fn fault(self) -> Option<&'static str> {
        match self {
            Self::User | Self::Passing => None,
            Self::Io => Some("I/O error on one of its disks"),
            Self::Watchdog => Some("its watchdog fired"),
            Self::Crashed => Some("its guest crashed"),
            Self::Moved => Some("its memory was not received in full when it was moved"),
            Self::Failed => Some("libvirt could not go on with it"),
        }
    }
}

/// Why a domain does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Off {
    /// Nobody knows: after the host was started, or it never ran.
    Unknown,
    /// The guest went down by itself or when asked.
    Shutdown,
    /// It was ended from outside.
    Destroyed,
    /// It crashed.
    Crashed,
    /// It went elsewhere.
    Migrated,
    /// It was written to disk.
    Saved,
    /// The emulator failed, or would not start.
    Failed,
    /// It was loaded from a snapshot that does not run.
    Snapshot,
    /// libvirt ended it, because it could not tell how it was.
    Daemon,
    /// Something this version does not know.
    Other(i32),
}

impl State {
    pub(crate) fn new(state: i32, reason: i32) -> Self {
        match state {
            0 => Self::None,
            1 => Self::Running,
            2 => Self::Blocked,
            3 => Self::Paused(Hold::new(reason)),
            4 => Self::ShuttingDown,
            5 => Self::Off(Off::new(reason)),
            6 => Self::Crashed,
            7 => Self::Asleep,
            other => Self::Other(other),
        }
    }

    pub(crate) fn read(reader: &mut Reader) -> Result<Self, Malformed> {
        let (state, reason) = (reader.i32()?, reader.i32()?);
        Ok(Self::new(state, reason))
    }
}

impl Off {
    fn new(reason: i32) -> Self {
        match reason {
            0 => Self::Unknown,
            1 => Self::Shutdown,
            2 => Self::Destroyed,
            3 => Self::Crashed,
            4 => Self::Migrated,
            5 => Self::Saved,
            6 => Self::Failed,
            7 => Self::Snapshot,
            8 => Self::Daemon,
            other => Self::Other(other),
        }
    }
}

/// One value of a record of statistics.
#[derive(Debug, Clone, PartialEq)]
pub enum Param {
    /// A whole number.
    Whole(i64),
    /// A whole number that is not negative.
    Natural(u64),
    /// A fraction.
    Fraction(f64),
    /// A text.
    Text(String),
}

impl Param {
    fn read(reader: &mut Reader) -> Result<Self, Malformed> {
        match reader.u32()? {
            1 => reader.i32().map(i64::from).map(Self::Whole),
            2 => reader.u32().map(u64::from).map(Self::Natural),
            3 => reader.i64().map(Self::Whole),
            4 => reader.u64().map(Self::Natural),
            5 => reader.f64().map(Self::Fraction),
            6 => reader.i32().map(i64::from).map(Self::Whole),
            7 => reader.text().map(Self::Text),
            value => Err(Malformed::Senseless { what: "type of a value", value }),
        }
    }
}

/// The statistics of one domain.
#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    /// Of which.
    pub domain: Domain,
    /// By libvirt's own names, such as `cpu.time`.
    pub values: std::collections::BTreeMap<String, Param>,
}

impl Stats {
    pub(crate) fn read(reader: &mut Reader) -> Result<Self, Malformed> {
        let domain = Domain::read(reader)?;
        let values = reader.list(PARAMS_MOST, |reader| {
            let name = reader.text()?;
            Ok((name, Param::read(reader)?))
        })?;
        Ok(Self { domain, values: values.into_iter().collect() })
    }

    /// A number that is not negative.
    #[must_use]
    pub fn natural(&self, name: &str) -> Option<u64> {
        match self.values.get(name)? {
            Param::Natural(value) => Some(*value),
            Param::Whole(value) => u64::try_from(*value).ok(),
            Param::Fraction(_) | Param::Text(_) => None,
        }
    }

    /// How the domain is, if that was asked for.
    #[must_use]
    pub fn state(&self) -> Option<State> {
        let word = |name| i32::try_from(self.natural(name)?).ok();
        Some(State::new(word("state.state")?, word("state.reason").unwrap_or_default()))
    }

    /// The sum over all disks or cards: `sum("net", "rx.bytes")`.
    #[must_use]
    pub fn sum(&self, group: &str, name: &str) -> u64 {
        let count = self.natural(&format!("{group}.count")).unwrap_or_default();
        let values = (0..count.min(1024)).map(|i| self.natural(&format!("{group}.{i}.{name}")));
        values.flatten().fold(0, u64::saturating_add)
    }
}

/// A network card of a guest, with its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// Name on the host, or in the guest if its agent was asked.
    pub name: String,
    /// Hardware address.
    pub mac: Option<String>,
    /// Its addresses, as far as they are readable.
    pub addresses: Vec<IpAddr>,
}

impl Card {
    pub(crate) fn read_all(reader: &mut Reader) -> Result<Vec<Self>, Malformed> {
        reader.list(ADDRESSES_MOST, |reader| {
            let (name, mac) = (reader.text()?, reader.optional(Reader::text)?);
            let addresses = reader.list(ADDRESSES_MOST, |reader| {
                let (_kind, text, _prefix) = (reader.i32()?, reader.text()?, reader.u32()?);
                Ok(text.parse().ok())
            })?;
            Ok(Self { name, mac, addresses: addresses.into_iter().flatten().collect() })
        })
    }
}

/// An address that a network lent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// To which hardware address.
    pub mac: Option<String>,
    /// The address.
    pub address: String,
    /// The name the guest gave itself.
    pub hostname: Option<String>,
}

impl Lease {
    pub(crate) fn read(reader: &mut Reader) -> Result<Self, Malformed> {
        let (_interface, _expiry, _kind) = (reader.text()?, reader.i64()?, reader.i32()?);
        let mac = reader.optional(Reader::text)?;
        let _iaid = reader.optional(Reader::text)?;
        let (address, _prefix) = (reader.text()?, reader.u32()?);
        let hostname = reader.optional(Reader::text)?;
        let _client = reader.optional(Reader::text)?;
        Ok(Self { mac, address, hostname })
    }
}

/// How much a pool or a volume holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes in all.
    pub capacity: u64,
    /// Bytes that are taken.
    pub allocation: u64,
    /// Bytes that are left; of a volume, none.
    pub available: u64,
    /// Whether a pool is in use. A volume always is.
    pub active: bool,
}

/// Something happened to a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// To which.
    pub domain: Domain,
    /// What, by libvirt's own number: 0 defined, 1 undefined, 2 started, 3 suspended, 4 resumed,
    /// 5 stopped, 6 shut down, 8 crashed.
    pub event: i32,
    /// More about it.
    pub detail: i32,
}

impl Change {
    pub(crate) fn read(body: Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let _callback = reader.i32()?;
        let domain = Domain::read(&mut reader)?;
        let (event, detail) = (reader.i32()?, reader.i32()?);
        reader.end()?;
        Ok(Self { domain, event, detail })
    }
}
