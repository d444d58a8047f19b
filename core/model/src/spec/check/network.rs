//! Network cards of VMs.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::at::At;
use super::limits::{INTERFACE_BYTES, NAME_BYTES, NETWORKS};
use super::text::{count, plain_name, shown, word};
use crate::spec::draft::NetworkDraft;
use crate::spec::vm::{Address, Attach, NicModel, VmNetwork};

const MODELS: &[(&str, NicModel)] = &[
    ("", NicModel::Virtio),
    ("virtio", NicModel::Virtio),
    ("e1000", NicModel::E1000),
    ("e1000e", NicModel::E1000e),
    ("rtl8139", NicModel::Rtl8139),
];

/// The network every libvirt has.
const DEFAULT_NETWORK: &str = "default";

pub(super) fn networks(at: &At<'_>, drafts: &[NetworkDraft]) -> Option<Vec<VmNetwork>> {
    count(at, drafts.len(), NETWORKS)?;
    let mut macs = BTreeSet::new();
    let mut addresses = BTreeSet::new();
    let mut networks = Vec::with_capacity(drafts.len());
    for (nth, draft) in drafts.iter().enumerate() {
        let here = at.index(nth);
        let network = network(&here, draft);
        if let Some(network) = &network {
            if network.mac.is_some_and(|mac| !macs.insert(mac)) {
                here.field("mac_address").fault("is used by an earlier card");
            }
            if let Address::Static { ip, .. } = network.address
                && !addresses.insert(ip)
            {
                here.field(ip_field(draft)).fault(format!("{ip} is used by an earlier card"));
            }
        }
        networks.push(network);
    }
    networks.into_iter().collect()
}

fn network(at: &At<'_>, draft: &NetworkDraft) -> Option<VmNetwork> {
    let attach = attach(at, draft);
    let mac = match draft.mac_address.as_str() {
        "" => Some(None),
        text => mac(&at.field("mac_address"), text).map(Some),
    };
    let address = address(at, draft);
    let model = word(&at.field("model"), &draft.model, MODELS);
    if !draft.host_dev_name.is_empty() {
        at.field("host_dev_name").fault("is of firecracker, which is not supported");
    }
    Some(VmNetwork { attach: attach?, mac: mac?, address: address?, model: model? })
}

fn attach(at: &At<'_>, draft: &NetworkDraft) -> Option<Attach> {
    match (draft.bridge.as_str(), draft.network.as_str()) {
        ("", "") => Some(Attach::Network(DEFAULT_NETWORK.into())),
        ("", name) => plain_name(&at.field("network"), name, NAME_BYTES).map(Attach::Network),
        (name, "") => plain_name(&at.field("bridge"), name, INTERFACE_BYTES).map(Attach::Bridge),
        _ => at.refuse("gives both a bridge and a network; a card has one plug"),
    }
}

fn ip_field(draft: &NetworkDraft) -> &'static str {
    if draft.static_ip.is_empty() { "ip_address" } else { "static_ip" }
}

fn address(at: &At<'_>, draft: &NetworkDraft) -> Option<Address> {
    let here = at.field(ip_field(draft));
    let text = match (draft.static_ip.as_str(), draft.ip_address.as_str()) {
        ("", "") => return Some(Address::Dhcp),
        ("", text) | (text, "") => text,
        (one, other) if one == other => one,
        _ => return here.refuse("differs from ip_address; give one"),
    };
    if draft.dhcp {
        return at.field("dhcp").refuse("contradicts a fixed address");
    }
    fixed(&here, text)
}

fn fixed(at: &At<'_>, text: &str) -> Option<Address> {
    let (host, bits) = match text.split_once('/') {
        Some((host, bits)) => (host, Some(bits)),
        None => (text, None),
    };
    let Ok(ip) = host.parse::<IpAddr>() else {
        return at.refuse(format!("\"{}\" is not an address or address/prefix", shown(text)));
    };
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    if ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || broadcast {
        return at.refuse(format!("{ip} is not an address of one machine"));
    }
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let prefix = match bits {
        None => None,
        Some(bits) => {
            let digits = bits.bytes().all(|b| b.is_ascii_digit());
            match bits.parse::<u8>() {
                Ok(bits) if digits && (1..=most).contains(&bits) => Some(bits),
                _ => return at.refuse(format!("its prefix must be 1 to {most}")),
            }
        }
    };
    Some(Address::Static { ip, prefix })
}

fn mac(at: &At<'_>, text: &str) -> Option<[u8; 6]> {
    let malformed = || at.refuse(format!("\"{}\" is not six pairs of hex digits", shown(text)));
    let mut mac = [0_u8; 6];
    let mut pairs = text.split(if text.contains('-') { '-' } else { ':' });
    for byte in &mut mac {
        let pair = pairs.next().unwrap_or_default();
        let hex = pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit());
        match u8::from_str_radix(pair, 16) {
            Ok(value) if hex => *byte = value,
            _ => return malformed(),
        }
    }
    if pairs.next().is_some() {
        return malformed();
    }
    // The lowest bit of the first byte marks a group of machines, not one.
    if mac.first().is_some_and(|first| first & 1 == 1) || mac == [0; 6] {
        return at.refuse(format!("{} is not an address of one machine", shown(text)));
    }
    Some(mac)
}
