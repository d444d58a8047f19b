//! Who listens on a port of this host, when it is no container.
//!
//! The kernel lists every socket with the number of its inode (`/proc/net/tcp` and its siblings),
//! and every process with the sockets it has open (`/proc/<pid>/fd`). The two together name the
//! process. Without the rights to look into another user's processes only the port is known.

use std::fs;

use persys_model::spec::Protocol;

/// State of a TCP socket that listens.
const LISTENS: &str = "0A";

/// The process that has `port`, in words; `None` if it cannot be found out.
pub(super) fn of(port: u16, protocol: Protocol) -> Option<String> {
    let tables = match protocol {
        Protocol::Tcp => ["/proc/net/tcp", "/proc/net/tcp6"],
        Protocol::Udp => ["/proc/net/udp", "/proc/net/udp6"],
    };
    let texts = tables.into_iter().filter_map(|path| fs::read_to_string(path).ok());
    let inodes: Vec<_> = texts.flat_map(|text| inodes(&text, port, protocol)).collect();
    let wanted: Vec<_> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let process = processes
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .find(|process| has_open(*process, &wanted))?;
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    Some(format!("process {process} ({})", name.trim()))
}

fn has_open(process: u32, wanted: &[String]) -> bool {
    // A process that ended meanwhile, or is another user's, has nothing to show.
    let Ok(open) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    open.flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|link| wanted.iter().any(|socket| link.as_os_str() == socket.as_str()))
}

/// The sockets of a table of the kernel that have `port` on this host.
fn inodes(table: &str, port: u16, protocol: Protocol) -> Vec<String> {
    let inode = |line: &str| {
        let mut words = line.split_whitespace();
        let local = words.nth(1)?;
        let state = words.nth(1)?;
        let inode = words.nth(5)?;
        let (_, hex) = local.rsplit_once(':')?;
        let here = u16::from_str_radix(hex, 16).ok()? == port;
        let waits = match protocol {
            Protocol::Tcp => state == LISTENS,
            Protocol::Udp => true,
        };
        (here && waits).then(|| inode.to_owned())
    };
    table.lines().skip(1).filter_map(inode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 123456 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 777 1 0000000000000000 20 4 30 10 -1
   2: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 42 1 0000000000000000 100 0 0 10 0
nonsense
";

    #[test]
    fn only_who_listens_has_the_port() {
        assert_eq!(inodes(TABLE, 8080, Protocol::Tcp), ["123456"]);
        assert_eq!(inodes(TABLE, 80, Protocol::Tcp), ["42"]);
        assert_eq!(inodes(TABLE, 81, Protocol::Tcp), [""; 0]);
        assert_eq!(inodes(TABLE, 8080, Protocol::Udp), ["123456", "777"]);
        assert_eq!(inodes("", 8080, Protocol::Tcp), [""; 0]);
    }

    #[test]
    fn a_listening_process_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let found = of(port, Protocol::Tcp).unwrap();
        assert!(found.starts_with(&format!("process {} (", std::process::id())), "{found}");
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        assert!(of(port, Protocol::Udp).is_some());
    }
}
