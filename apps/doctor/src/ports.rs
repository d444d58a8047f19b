//! Whether a component can listen where it is to.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

use crate::finding::Finding;

/// Whether the port is free.
pub fn free(who: &str, at: SocketAddr) -> Finding {
    judge(who, at, TcpListener::bind(at).map(drop).map_err(|error| error.kind()))
}

fn judge(who: &str, at: SocketAddr, bound: Result<(), ErrorKind>) -> Finding {
    let subject = format!("port {}", at.port());
    match bound {
        Ok(()) => Finding::good(subject, format!("free for {who}")),
        // Whoever holds it may well be the component itself: that is no fault.
        Err(ErrorKind::AddrInUse) => {
            Finding::weak(subject, format!("in use; fine if {who} runs already"))
                .mend(format!("ss -ltnp 'sport = :{}'", at.port()))
        }
        Err(ErrorKind::PermissionDenied) => {
            Finding::bad(subject, format!("{who} may not listen at {at}"))
                .mend("run it as root, or choose a port above 1023")
        }
        Err(ErrorKind::AddrNotAvailable) => {
            Finding::bad(subject, format!("{} is no address of this host", at.ip()))
                .mend("ip address")
        }
        Err(kind) => Finding::bad(subject, format!("{who} cannot listen at {at}: {kind}"))
            .mend(format!("ss -ltnp 'sport = :{}'", at.port())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;

    #[test]
    fn a_port_in_use_is_told_from_one_that_cannot_be_had() {
        let held = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = held.local_addr().unwrap();
        let finding = free("the agent", at);
        assert_eq!(finding.verdict, Verdict::Weak);
        assert!(finding.mend.concat().contains(&at.port().to_string()));
        drop(held);
        assert_eq!(free("the agent", at).verdict, Verdict::Good);
        // An address kept for examples: no host has it.
        assert_eq!(free("the agent", "192.0.2.1:50051".parse().unwrap()).verdict, Verdict::Bad);
        let low = judge("the agent", at, Err(ErrorKind::PermissionDenied));
        assert_eq!(low.verdict, Verdict::Bad);
    }
}
