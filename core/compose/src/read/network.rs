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
use crate::yaml::{Entry, Node, Value};

pub(super) fn network_mode(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    let Some(scalar) = value::scalar(at, node) else { return };
    let mode = match scalar.text.as_str() {
        "none" => Attachment::None,
        "bridge" => Attachment::Bridge,
        "host" => {
            ask(at, Power::HostNetwork);
            Attachment::Host
        }
        text => match (text.strip_prefix("service:"), text.strip_prefix("container:")) {
            (Some(name), _) => Attachment::Service(name.to_owned()),
            (None, Some(name)) if is_name(name) => Attachment::Container(name.to_owned()),
            _ => {
                let known = "bridge, host, none, service:<name>, container:<name>";
                return at.refused(format!("{} is not one of {known}", quoted(scalar)));
            }
        },
    };
    if draft.places.contains_key("networks") {
        at.refused("does not go with networks; give one of the two");
    }
    draft.service.network = mode;
}

/// A container that a service of the file is run in is that service; any other is none of the stack's.
pub(super) fn settle(drafts: &mut [Draft<'_>]) {
    let named: BTreeMap<String, String> = drafts
        .iter()
        .filter_map(|draft| Some((draft.container_name.clone()?, draft.service.name.clone())))
        .collect();
    for draft in drafts {
        let Attachment::Container(name) = &draft.service.network else { continue };
        if let Some(service) = named.get(name) {
            draft.service.network = Attachment::Service(service.clone());
        } else {
            ask(&draft.place("network_mode"), Power::OtherContainer(name));
        }
    }
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
    let mut all = named(at, node, "is not a network's name", one_network);
    for (name, network) in &mut all {
        own_name(&mut network.external, name);
    }
    all
}

/// What is external goes by its name in the file, unless another is given.
fn own_name(external: &mut Option<String>, name: &str) {
    if let Some(given) = external.as_mut().filter(|given| given.is_empty()) {
        name.clone_into(given);
    }
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
    if let Some(external) = external(at, node) {
        ask(at, Power::ExternalNetwork(&external));
        return Some(Network { external: Some(external), ..Network::default() });
    }
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
            "external" => drop(value::truth(&here, node)),
            key if key.starts_with("x-") => here.ignored("is the file's own"),
            key => {
                let known = ["driver", "driver_opts", "internal", "enable_ipv6", "ipam", "labels"];
                return here.refuse(super::unknown("a network", key, known));
            }
        }
    }
    Some(network)
}

/// The node's name for what is external, empty where it is that of the file; `None` for what is of the
/// stack. Whatever else is said of it is for those who made it.
fn external(at: &Place<'_>, node: &Node) -> Option<String> {
    let Value::Map(entries) = &node.value else { return None };
    let field = |name: &str| entries.iter().find(|entry| entry.key == name);
    let said = field("external")?;
    let text = |entry: &Entry| match &entry.value.value {
        Value::Scalar(scalar) => Some(scalar.text.clone()),
        Value::Null | Value::List(_) | Value::Map(_) => None,
    };
    let older = match &said.value.value {
        Value::Map(inner) => inner.iter().find(|entry| entry.key == "name").and_then(text),
        Value::Scalar(scalar) if scalar.text != "true" => return None,
        Value::Scalar(_) => None,
        Value::Null | Value::List(_) => return None,
    };
    let name = older.or_else(|| field("name").and_then(text)).unwrap_or_default();
    if !name.is_empty() && !is_name(&name) {
        return at.refuse("has a name that Docker gives to nothing");
    }
    for entry in entries.iter().filter(|entry| !matches!(entry.key.as_str(), "external" | "name")) {
        at.key(&entry.key, entry.line).ignored("is for whoever makes it");
    }
    Some(name)
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
    let mut all = named(at, node, "is not a volume's name", one_volume);
    for (name, volume) in &mut all {
        own_name(&mut volume.external, name);
    }
    all
}

fn one_volume(at: &Place<'_>, node: &Node) -> Option<Volume> {
    if let Some(external) = external(at, node) {
        ask(at, Power::ExternalVolume(&external));
        return Some(Volume { external: Some(external), ..Volume::default() });
    }
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
            "external" => drop(value::truth(&here, node)),
            key if key.starts_with("x-") => here.ignored("is the file's own"),
            key => {
                return here.refuse(super::unknown("a volume", key, ["driver", "labels"]));
            }
        }
    }
    Some(volume)
}
