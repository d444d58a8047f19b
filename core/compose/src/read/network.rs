//! Where a service is plugged in, and which networks and volumes the stack has.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::powers::ask;
use super::run::read_labels;
use super::service::{Draft, word};
use super::value::{self, pairs, parsed, quoted, shaped};
use crate::document::{Network, Subnet, Volume};
use crate::finding::Place;
use crate::grammar::{is_host, is_name};
use crate::limits::{ENTRIES, OBJECTS};
use crate::policy::Power;
use crate::service::{Attachment, Endpoint};
use crate::yaml::{Node, Value};

pub(super) fn network_mode(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    let Some(scalar) = value::scalar(at, node) else { return };
    let mode = match scalar.text.as_str() {
        "none" => Attachment::None,
        "bridge" => Attachment::Bridge,
        "host" => {
            ask(at, Power::HostNetwork);
            Attachment::Host
        }
        text => {
            let Some(name) = text.strip_prefix("service:") else {
                let known = "bridge, host, none, service:<name>";
                return at.refused(format!("{} is not one of {known}", quoted(scalar)));
            };
            Attachment::Service(name.to_owned())
        }
    };
    if draft.places.contains_key("networks") {
        at.refused("does not go with networks; give one of the two");
    }
    draft.service.network = mode;
}

pub(super) fn networks<'a>(draft: &mut Draft<'a>, at: &Place<'a>, node: &Node) {
    if draft.places.contains_key("network_mode") {
        at.refused("does not go with network_mode; give one of the two");
        return;
    }
    let mut all = BTreeMap::new();
    if matches!(node.value, Value::Map(_)) {
        for entry in value::map(at, node, OBJECTS).unwrap_or_default() {
            let here = at.key(&entry.key, entry.line);
            let endpoint = match &entry.value.value {
                Value::Null => Some(Endpoint::default()),
                Value::Scalar(_) | Value::List(_) | Value::Map(_) => endpoint(&here, &entry.value),
            };
            draft.names("networks", &entry.key, &here);
            all.extend(endpoint.map(|endpoint| (entry.key.clone(), endpoint)));
        }
    } else {
        for (here, item) in value::list(at, node, OBJECTS).unwrap_or_default() {
            let Some(name) = value::text(&here, item) else { continue };
            draft.names("networks", &name, &here);
            all.insert(name, Endpoint::default());
        }
    }
    if all.is_empty() {
        at.changed("names no network; the service is in the default one");
    }
    draft.service.network = Attachment::Networks(all);
}

fn endpoint(at: &Place<'_>, node: &Node) -> Option<Endpoint> {
    let mut endpoint = Endpoint::default();
    for entry in value::map(at, node, ENTRIES)? {
        let (here, node) = (at.key(&entry.key, entry.line), &entry.value);
        match entry.key.as_str() {
            "aliases" => {
                for (here, item) in value::list(&here, node, ENTRIES)? {
                    let name = shaped(&here, item, "a host's name", is_alias)?;
                    endpoint.aliases.insert(name);
                }
            }
            "ipv4_address" => {
                endpoint.ipv4 = Some(parsed(&here, node, "an IPv4 address", |t| t.parse().ok())?);
            }
            "ipv6_address" => {
                endpoint.ipv6 = Some(parsed(&here, node, "an IPv6 address", |t| t.parse().ok())?);
            }
            "priority" | "gw_priority" => here.ignored("the order of networks is Docker's"),
            key if key.starts_with("x-") => here.ignored("is the file's own"),
            key => {
                let known = ["aliases", "ipv4_address", "ipv6_address"];
                return here.refuse(super::unknown("a network of a service", key, known));
            }
        }
    }
    Some(endpoint)
}

/// Names of services are in use as aliases, underscores included.
fn is_alias(text: &str) -> bool {
    is_name(text) || is_host(text)
}

pub(super) fn links(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    for (here, item) in value::list(at, node, ENTRIES).unwrap_or_default() {
        let link = shaped(&here, item, "service or service:name", |text| {
            let (service, name) = text.split_once(':').unwrap_or((text, "name"));
            is_name(service) && is_alias(name)
        });
        draft.service.links.extend(link);
    }
    draft.service.links.sort();
    draft.service.links.dedup();
}

/// The networks of the stack.
pub(super) fn all_networks(at: &Place<'_>, node: &Node) -> BTreeMap<String, Network> {
    named(at, node, "is not a network's name", one_network)
}

/// Objects of the stack by their names. One that says nothing is as it usually is.
pub(super) fn named<T: Default>(
    at: &Place<'_>,
    node: &Node,
    no_name: &str,
    read: impl Fn(&Place<'_>, &Node) -> Option<T>,
) -> BTreeMap<String, T> {
    let mut all = BTreeMap::new();
    for entry in value::map(at, node, OBJECTS).unwrap_or_default() {
        let here = at.key(&entry.key, entry.line);
        if !is_name(&entry.key) {
            here.refused(no_name);
            continue;
        }
        let object = here.honouring(|here| match &entry.value.value {
            Value::Null => Some(T::default()),
            Value::Scalar(_) | Value::List(_) | Value::Map(_) => read(here, &entry.value),
        });
        all.insert(entry.key.clone(), object.unwrap_or_default());
    }
    all
}

/// Options of a bridge that change nothing but itself.
const BRIDGE_OPTIONS: &[&str] = &[
    "com.docker.network.driver.mtu",
    "com.docker.network.bridge.enable_icc",
    "com.docker.network.bridge.enable_ip_masquerade",
];

fn one_network(at: &Place<'_>, node: &Node) -> Option<Network> {
    let mut network = Network::default();
    for entry in value::map(at, node, ENTRIES)? {
        let (here, node) = (at.key(&entry.key, entry.line), &entry.value);
        if node.value == Value::Null {
            here.ignored("has no value");
            continue;
        }
        match entry.key.as_str() {
            "driver" => drop(word(&here, node, &["bridge", "default"])),
            "driver_opts" => {
                for pair in pairs(&here, node)? {
                    if !BRIDGE_OPTIONS.contains(&pair.key.as_str()) {
                        return pair.at.refuse("is not an option that is taken; leave it out");
                    }
                    let value = pair.value.map(|value| value.text).unwrap_or_default();
                    network.options.insert(pair.key, value);
                }
            }
            "internal" => network.internal = value::truth(&here, node)?,
            "enable_ipv6" => network.ipv6 = value::truth(&here, node)?,
            "enable_ipv4" => drop(word(&here, node, &["true"])),
            "attachable" => here.ignored("only the stack itself is in its networks"),
            "labels" => network.labels = read_labels(&here, node),
            "ipam" => network.subnets = ipam(&here, node)?,
            "name" => here.changed("networks are named after the workload"),
            "external" => external(&here, node, "a network"),
            key if key.starts_with("x-") => here.ignored("is the file's own"),
            key => {
                let known = ["driver", "driver_opts", "internal", "enable_ipv6", "ipam", "labels"];
                return here.refuse(super::unknown("a network", key, known));
            }
        }
    }
    Some(network)
}

fn external(at: &Place<'_>, node: &Node, what: &str) {
    let is_false = matches!(&node.value, Value::Scalar(scalar) if scalar.text == "false");
    if !is_false {
        at.refused(format!(
            "{what} from outside is not the stack's to use and may not be on its node; \
             put everything that shares it into one stack"
        ));
    }
}

fn ipam(at: &Place<'_>, node: &Node) -> Option<Vec<Subnet>> {
    let mut subnets = Vec::new();
    for entry in value::map(at, node, ENTRIES)? {
        let (here, node) = (at.key(&entry.key, entry.line), &entry.value);
        match entry.key.as_str() {
            "driver" => drop(word(&here, node, &["default"])),
            "config" => {
                for (here, item) in value::list(&here, node, 8)? {
                    subnets.push(subnet(&here, item)?);
                }
            }
            key => return here.refuse(super::unknown("ipam", key, ["driver", "config"])),
        }
    }
    Some(subnets)
}

fn subnet(at: &Place<'_>, node: &Node) -> Option<Subnet> {
    let mut subnet = Subnet::default();
    for entry in value::map(at, node, ENTRIES)? {
        let (here, node) = (at.key(&entry.key, entry.line), &entry.value);
        let what = "a range of addresses such as 172.28.0.0/16";
        match entry.key.as_str() {
            "subnet" => subnet.range = Some(shaped(&here, node, what, is_range)?),
            "ip_range" => subnet.given_out = Some(shaped(&here, node, what, is_range)?),
            "gateway" => {
                subnet.gateway = Some(parsed(&here, node, "an address", |t| t.parse().ok())?);
            }
            key => {
                let known = ["subnet", "ip_range", "gateway"];
                return here.refuse(super::unknown("ipam.config", key, known));
            }
        }
    }
    Some(subnet)
}

fn is_range(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        return false;
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    bits.bytes().all(|b| b.is_ascii_digit()) && bits.parse::<u8>().is_ok_and(|b| b <= most)
}

/// The named volumes of the stack.
pub(super) fn all_volumes(at: &Place<'_>, node: &Node) -> BTreeMap<String, Volume> {
    named(at, node, "is not a volume's name", one_volume)
}

fn one_volume(at: &Place<'_>, node: &Node) -> Option<Volume> {
    let mut volume = Volume::default();
    for entry in value::map(at, node, ENTRIES)? {
        let (here, node) = (at.key(&entry.key, entry.line), &entry.value);
        if node.value == Value::Null {
            here.ignored("has no value");
            continue;
        }
        match entry.key.as_str() {
            "driver" => drop(word(&here, node, &["local", "default"])),
            "driver_opts" => {
                let is_empty = matches!(&node.value, Value::Map(entries) if entries.is_empty());
                if !is_empty {
                    return here.refuse(
                        "can mount anything of the node or the network; leave it out, or mount \
                         the folder itself",
                    );
                }
            }
            "labels" => volume.labels = read_labels(&here, node),
            "name" => here.changed("volumes are named after the workload"),
            "external" => external(&here, node, "a volume"),
            key if key.starts_with("x-") => here.ignored("is the file's own"),
            key => {
                return here.refuse(super::unknown("a volume", key, ["driver", "labels"]));
            }
        }
    }
    Some(volume)
}
