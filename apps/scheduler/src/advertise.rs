//! Where other schedulers reach this one.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

/// What is said about it; what is not said is found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Advertise {
    /// The address; usually the one that is listened on, or the machine's own.
    pub ip: Option<IpAddr>,
    /// The port; usually the one that is listened on.
    pub port: Option<u16>,
}

impl Advertise {
    /// The address for others, given where this process listens.
    #[must_use]
    pub fn resolve(self, bound: SocketAddr) -> SocketAddr {
        let own = || if bound.ip().is_unspecified() { machine() } else { bound.ip() };
        SocketAddr::new(self.ip.unwrap_or_else(own), self.port.unwrap_or(bound.port()))
    }
}

/// The address the way out of this machine begins at, else the first that is not its own alone.
fn machine() -> IpAddr {
    let found = outward().or_else(|| {
        let table = std::fs::read_to_string("/proc/net/fib_trie").ok()?;
        first_local(&table)
    });
    IpAddr::V4(found.unwrap_or(Ipv4Addr::LOCALHOST))
}

fn outward() -> Option<Ipv4Addr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // Nothing is sent, and nobody has this address: the system only says which way it would go.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    match socket.local_addr().ok()?.ip() {
        IpAddr::V4(ip) if !ip.is_loopback() && !ip.is_unspecified() => Some(ip),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    }
}

/// The first address of this machine in the kernel's table that is not loopback. An address stands
/// on the line before the one that calls it local.
fn first_local(table: &str) -> Option<Ipv4Addr> {
    let mut last = None;
    for line in table.lines() {
        if let Some(text) = line.trim_start().strip_prefix("|-- ") {
            last = text.trim().parse::<Ipv4Addr>().ok();
        } else if line.contains("host LOCAL")
            && let Some(ip) = last
            && !ip.is_loopback()
        {
            return Some(ip);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_said_counts_and_the_rest_is_where_it_listens() {
        let said = Advertise { ip: Some([10, 0, 0, 7].into()), port: Some(9) };
        assert_eq!(said.resolve(at("0.0.0.0:8085")), at("10.0.0.7:9"));
        let port = Advertise { ip: None, port: Some(9) };
        assert_eq!(port.resolve(at("127.0.0.1:8085")), at("127.0.0.1:9"));
        assert_eq!(Advertise::default().resolve(at("[::1]:1")), at("[::1]:1"));
        let own = Advertise::default().resolve(at("0.0.0.0:8085"));
        assert!(!own.ip().is_unspecified() && own.port() == 8085, "{own}");
    }

    #[test]
    fn the_kernels_table_names_the_machines_own_addresses() {
        let table = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n\
                     \x20    |-- 127.0.0.1\n        /32 host LOCAL\n     |-- 10.1.0.0\n\
                     \x20       /24 link UNICAST\n     |-- 10.1.0.5\n        /32 host LOCAL\n";
        assert_eq!(first_local(table), Some(Ipv4Addr::new(10, 1, 0, 5)));
        assert_eq!(first_local("|-- 127.0.0.1\n /32 host LOCAL"), None);
    }
}
