//! What the machine is and what it uses.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use persys_model::id::{NodeId, PoolName};
use persys_model::resources::Compute;
use persys_model::time::{Now, WallMillis};
use persys_runtime::Clock as BootClock;
use rustix::fs::statvfs;

use crate::disks::Disks;
use crate::driver::Clock;

/// How often the use of the machine is measured.
pub const SAMPLE_EVERY: Duration = Duration::from_secs(5);
/// Disks are looked at in every so manieth of these: files have to be counted for it.
pub const DISKS_EVERY: u64 = 6;

/// The host's clocks; deadlines count from the start of the machine, suspend included.
#[must_use]
pub fn clock() -> Clock {
    let boot = BootClock::since_boot();
    Arc::new(move || Now { mono: boot.now(), wall: date() })
}

/// The date.
#[must_use]
pub fn date() -> WallMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallMillis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The name of the node: as configured, else the host's, as far as a name may have its letters.
#[must_use]
pub fn node_id(configured: Option<&str>) -> NodeId {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let given = configured.filter(|name| !name.trim().is_empty());
    name_of(given.unwrap_or(&host)).unwrap_or_else(|| NodeId::fixed("node"))
}

fn name_of(text: &str) -> Option<NodeId> {
    let allowed = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-' | '_' | '.');
    let lower = text.trim().to_lowercase();
    let mut name: String =
        lower.chars().map(|c| if allowed(c) { c } else { '-' }).take(NodeId::LIMIT).collect();
    while name.contains("..") {
        name = name.replace("..", ".");
    }
    NodeId::new(name.trim_matches(|c: char| !c.is_ascii_alphanumeric())).ok()
}

/// All the CPU and memory of the machine.
#[must_use]
pub fn capacity() -> Compute {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cpus = u64::try_from(cpus).unwrap_or(1);
    let (total_mib, _) = memory().unwrap_or((1, 0));
    Compute::new(cpus.saturating_mul(1000), total_mib.max(1))
}

/// The machine, by an identity that outlives its name: the system's, else one made once and kept
/// with the agent's state.
pub fn machine_id(state_dir: &Path) -> std::io::Result<Arc<str>> {
    let kept = state_dir.join("machine-id");
    for path in [Path::new("/etc/machine-id"), &kept] {
        let text = fs::read_to_string(path).unwrap_or_default();
        let text = text.trim();
        if !text.is_empty() && text.len() <= 64 && text.bytes().all(|b| b.is_ascii_graphic()) {
            return Ok(Arc::from(text));
        }
    }
    let made = random_id()?;
    fs::write(&kept, &*made)?;
    Ok(made)
}

/// Something nobody else has.
pub fn random_id() -> std::io::Result<Arc<str>> {
    let mut bytes = [0_u8; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(Arc::from(format!("{:032x}", u128::from_be_bytes(bytes))))
}

/// Where others reach us: as configured, else where we listen, else the address the way to a
/// scheduler begins at.
#[must_use]
pub fn endpoint(advertise: Option<&str>, bound: SocketAddr, schedulers: &[String]) -> Arc<str> {
    if let Some(advertise) = advertise.filter(|text| !text.is_empty()) {
        return Arc::from(advertise);
    }
    let ip = if bound.ip().is_unspecified() { outward(schedulers) } else { bound.ip() };
    Arc::from(SocketAddr::new(ip, bound.port()).to_string())
}

fn outward(schedulers: &[String]) -> IpAddr {
    let way = |address: &String| {
        let to = address.to_socket_addrs().ok()?.next()?;
        let from: IpAddr =
            if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { [0_u16; 8].into() };
        let socket = UdpSocket::bind((from, 0)).ok()?;
        // Nothing is sent: the system only says which address it would send from.
        socket.connect(to).ok()?;
        socket.local_addr().ok().map(|local| local.ip())
    };
    schedulers.iter().find_map(way).unwrap_or(Ipv4Addr::LOCALHOST.into())
}

/// Total and used memory, MiB.
fn memory() -> Option<(u64, u64)> {
    parse_memory(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse_memory(text: &str) -> Option<(u64, u64)> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let (total, free) = (field("MemTotal:")?, field("MemAvailable:")?);
    Some((total / 1024, total.saturating_sub(free) / 1024))
}

/// CPU time since the start: busy and all.
fn cpu() -> Option<(u64, u64)> {
    parse_cpu(&fs::read_to_string("/proc/stat").ok()?)
}

fn parse_cpu(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let times: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are counted in user.
    let all: u64 = times.iter().take(8).sum();
    let idle: u64 = times.iter().skip(3).take(2).sum();
    (times.len() >= 4).then_some((all.saturating_sub(idle), all))
}

/// How much of the machine is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// CPU and memory.
    pub used: Compute,
    /// Use of the file systems behind the pools, each counted once.
    pub disk_gib: u64,
    /// Thousandths of all CPU.
    pub cpu_permille: u32,
    /// Thousandths of all memory.
    pub memory_permille: u32,
    /// Thousandths of the disk at `/`.
    pub disk_permille: u32,
}

/// Measures the machine.
#[derive(Debug)]
pub struct Meter {
    capacity: Compute,
    disks: Disks,
    state: Mutex<((u64, u64), Load)>,
}

impl Meter {
    /// Begins to measure.
    #[must_use]
    pub fn new(capacity: Compute, disks: Disks) -> Self {
        let state = Mutex::new((cpu().unwrap_or_default(), Load::default()));
        Self { capacity, disks, state }
    }

    /// The last measurement.
    #[must_use]
    pub fn last(&self) -> Load {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// Present capacity of pools that have less than their size for workloads.
    #[must_use]
    pub fn limits(&self) -> BTreeMap<PoolName, u64> {
        self.disks.limits()
    }

    /// Measures from the last time until now.
    pub fn sample(&self) -> Load {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (busy, all) = cpu().unwrap_or(state.0);
        let (busy_before, all_before) = state.0;
        let cpu_permille =
            permille(busy.saturating_sub(busy_before), all.saturating_sub(all_before));
        let (total_mib, used_mib) = memory().unwrap_or_default();
        let disk = statvfs("/").ok();
        let disk_permille =
            disk.map_or(0, |disk| disk_permille(disk.f_blocks, disk.f_bfree, disk.f_bavail));
        let cpu_used = self.capacity.cpu_millicores.saturating_mul(cpu_permille.into()) / 1000;
        let load = Load {
            used: Compute::new(cpu_used, used_mib),
            disk_gib: self.disks.used_gib(),
            cpu_permille,
            memory_permille: permille(used_mib, total_mib),
            disk_permille,
        };
        *state = ((busy, all), load);
        load
    }
}

/// How full a disk is, as `df` tells it: what is kept back for root is neither used nor there to be used.
fn disk_permille(blocks: u64, free: u64, available: u64) -> u32 {
    let used = blocks.saturating_sub(free);
    permille(used, used.saturating_add(available))
}

fn permille(part: u64, all: u64) -> u32 {
    let share = part.saturating_mul(1000).checked_div(all).unwrap_or(0);
    u32::try_from(share.min(1000)).unwrap_or(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_becomes_a_name() {
        let rows = [
            ("Web-01.Example.COM", Some("web-01.example.com")),
            ("my host", Some("my-host")),
            ("-a..b-", Some("a.b")),
            ("ä", None),
            ("", None),
        ];
        for (given, name) in rows {
            assert_eq!(name_of(given).map(|name| name.to_string()).as_deref(), name, "{given}");
        }
        assert_eq!(node_id(Some("N1")).as_str(), "n1");
        assert!(!node_id(Some("  ")).as_str().is_empty());
    }

    #[test]
    fn the_files_of_the_kernel_are_read() {
        let stat = "cpu  10 0 20 60 10 0 0 0 5 0\ncpu0 1 2 3 4\n";
        assert_eq!(parse_cpu(stat), Some((30, 100)));
        assert_eq!(parse_cpu("cpu x"), None);
        let info = "MemTotal:  2048000 kB\nMemFree: 1 kB\nMemAvailable: 1024000 kB\n";
        assert_eq!(parse_memory(info), Some((2000, 1000)));
        let here = capacity();
        assert!(here.cpu_millicores >= 1000 && here.memory_mib > 1);
        assert!(Meter::new(here, Disks::default()).sample().memory_permille > 0);
    }

    #[test]
    fn a_disk_is_as_full_as_df_says() {
        assert_eq!(disk_permille(1000, 500, 500), 500);
        assert_eq!(disk_permille(1000, 550, 450), 500, "a tenth is kept back for root");
        assert_eq!(disk_permille(1000, 50, 0), 1000, "and nobody else can write");
        assert_eq!(disk_permille(0, 0, 0), 0);
    }

    #[test]
    fn a_machine_keeps_its_identity() {
        let dir = tempfile::tempdir().unwrap();
        let first = machine_id(dir.path()).unwrap();
        assert_eq!(machine_id(dir.path()).unwrap(), first);
        assert_ne!(random_id().unwrap(), random_id().unwrap());
    }

    #[test]
    fn others_are_told_an_address_they_can_call() {
        let any = SocketAddr::from(([0, 0, 0, 0], 50_051));
        let one = SocketAddr::from(([192, 0, 2, 1], 50_051));
        assert_eq!(&*endpoint(Some("a:1"), any, &[]), "a:1");
        assert_eq!(&*endpoint(None, one, &[]), "192.0.2.1:50051");
        assert_eq!(&*endpoint(None, any, &["127.0.0.1:8085".to_owned()]), "127.0.0.1:50051");
    }
}
