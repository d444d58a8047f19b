//! Ports: short and long, single and in ranges; written out one by one.

use std::net::IpAddr;

use super::service::{Draft, word};
use super::value::{self, parsed, quoted};
use crate::finding::Place;
use crate::limits::{ENTRIES, PORTS};
use crate::service::{Port, Protocol};
use crate::yaml::{Node, Value};

const SHAPE: &str = "a port: [address:][on-node:]in-container[/tcp|/udp], numbers from 1 to 65535";

pub(super) fn ports(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    for (here, item) in value::list(at, node, PORTS).unwrap_or_default() {
        let read = match &item.value {
            Value::Map(_) => long(&here, item),
            Value::Null | Value::Scalar(_) | Value::List(_) => short(&here, item),
        };
        draft.service.ports.extend(read.unwrap_or_default());
        if draft.service.ports.len() > PORTS {
            at.refused(format!("has more than {PORTS} ports"));
            return;
        }
    }
    draft.service.ports.sort();
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            text.parse::<u16>().ok().filter(|port| digits && *port > 0)
        };
        let range = Self { first: number(first)?, last: number(last)? };
        (range.first <= range.last).then_some(range)
    }

    fn len(self) -> usize {
        usize::from(self.last.abs_diff(self.first)).saturating_add(1)
    }
}

fn short(at: &Place<'_>, node: &Node) -> Option<Vec<Port>> {
    let scalar = value::scalar(at, node)?;
    let (body, protocol) = match scalar.text.split_once('/') {
        Some((body, "tcp")) => (body, Protocol::Tcp),
        Some((body, "udp")) => (body, Protocol::Udp),
        Some(_) => return at.refuse(format!("{} is not {SHAPE}", quoted(scalar))),
        None => (scalar.text.as_str(), Protocol::Tcp),
    };
    let (outside, container) = match body.rsplit_once(':') {
        Some((outside, container)) => (Some(outside), container),
        None => (None, body),
    };
    let (address, host) = match outside.map(|outside| outside.rsplit_once(':')) {
        Some(Some((address, host))) => (Some(address), Some(host)),
        Some(None) => (None, outside),
        None => (None, None),
    };
    let address = match address {
        None => Some(None),
        Some(address) => address_of(address).map(Some),
    };
    let host = match host {
        None | Some("") => Some(None),
        Some(host) => Range::parse(host).map(Some),
    };
    match (address, host, Range::parse(container)) {
        (Some(address), Some(host), Some(container)) => all(at, address, host, container, protocol),
        _ => at.refuse(format!("{} is not {SHAPE}", quoted(scalar))),
    }
}

fn address_of(text: &str) -> Option<IpAddr> {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.unwrap_or(text).parse().ok()
}

fn all(
    at: &Place<'_>,
    address: Option<IpAddr>,
    host: Option<Range>,
    container: Range,
    protocol: Protocol,
) -> Option<Vec<Port>> {
    if container.len() > PORTS {
        return at.refuse(format!("is a range of more than {PORTS} ports"));
    }
    if address.is_some_and(|address| address.is_ipv6()) {
        return at.refuse(
            "names an IPv6 address, which the older compose program cannot read; leave the address \
             out, or name an IPv4 address",
        );
    }
    let inside = container.first..=container.last;
    let ports = match host {
        None => {
            inside.map(|port| Port { address, host: None, container: port, protocol }).collect()
        }
        Some(host) if host.len() == container.len() => (host.first..=host.last)
            .zip(inside)
            .map(|(host, port)| Port { address, host: Some(host), container: port, protocol })
            .collect(),
        Some(_) => {
            return at.refuse(
                "has ranges of different lengths; name as many ports of the node as of the service",
            );
        }
    };
    Some(ports)
}

fn long(at: &Place<'_>, node: &Node) -> Option<Vec<Port>> {
    let (mut target, mut published, mut address, mut protocol) = (None, None, None, Protocol::Tcp);
    for entry in value::map(at, node, ENTRIES)? {
        let here = at.key(&entry.key, entry.line);
        let what = "a port, or a range of ports, from 1 to 65535";
        match entry.key.as_str() {
            "target" => target = Some(parsed(&here, &entry.value, what, Range::parse)?),
            "published" => {
                published = match &entry.value.value {
                    Value::Null => None,
                    Value::Scalar(scalar) if matches!(scalar.text.as_str(), "" | "0") => None,
                    Value::Scalar(_) | Value::List(_) | Value::Map(_) => {
                        Some(parsed(&here, &entry.value, what, Range::parse)?)
                    }
                }
            }
            "host_ip" => {
                address = Some(parsed(&here, &entry.value, "an address", address_of)?);
            }
            "protocol" => {
                protocol = match word(&here, &entry.value, &["tcp", "udp"])?.as_str() {
                    "udp" => Protocol::Udp,
                    _ => Protocol::Tcp,
                }
            }
            "mode" => drop(word(&here, &entry.value, &["host", "ingress"])?),
            "name" | "app_protocol" => here.ignored("nothing here reads it"),
            key => {
                let known = ["target", "published", "host_ip", "protocol", "mode"];
                return here.refuse(super::unknown("a port", key, known));
            }
        }
    }
    match target {
        Some(target) => all(at, address, published, target, protocol),
        None => at.refuse("has no target, the port in the container"),
    }
}

pub(super) fn expose(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    let what = "a port or range of ports, with or without /tcp or /udp";
    for (here, item) in value::list(at, node, ENTRIES).unwrap_or_default() {
        let shaped = value::shaped(&here, item, what, |text| {
            let (range, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
            Range::parse(range).is_some() && matches!(protocol, "tcp" | "udp")
        });
        draft.service.expose.extend(shaped);
    }
    draft.service.expose.sort();
    draft.service.expose.dedup();
}
