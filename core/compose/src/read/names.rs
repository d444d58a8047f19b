//! What a service is called, and how it finds others by name.

use std::net::IpAddr;

use super::service::Draft;
use super::value::{self, list, one_or_more, parsed, quoted, shaped};
use crate::finding::Place;
use crate::grammar::{is_host, is_name};
use crate::limits::ENTRIES;
use crate::yaml::{Node, Value};

pub(super) fn hostname(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    let is_sound = |text: &str| is_host(text) || is_name(text);
    draft.service.identity.hostname = shaped(at, node, "a host's name", is_sound);
}

pub(super) fn domainname(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    draft.service.identity.domainname = shaped(at, node, "a domain", is_host);
}

pub(super) fn dns(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    for (here, item) in one_or_more(at, node).unwrap_or_default() {
        let address = parsed(&here, item, "an address", |text| text.parse::<IpAddr>().ok());
        draft.service.names.dns.extend(address);
    }
}

pub(super) fn dns_search(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    for (here, item) in one_or_more(at, node).unwrap_or_default() {
        let domain = shaped(&here, item, "a domain", |text| text == "." || is_host(text));
        draft.service.names.search.extend(domain);
    }
}

pub(super) fn dns_opt(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    for (here, item) in list(at, node, ENTRIES).unwrap_or_default() {
        let option = shaped(&here, item, "an option such as ndots:2", |text| {
            let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b':');
            text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic()) && text.bytes().all(known)
        });
        draft.service.names.options.extend(option);
    }
}

pub(super) fn extra_hosts(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    let mut found: Vec<(Place<'_>, String, String)> = Vec::new();
    if matches!(node.value, Value::Map(_)) {
        for entry in value::map(at, node, ENTRIES).unwrap_or_default() {
            let here = at.key(&entry.key, entry.line);
            for (here, item) in one_or_more(&here, &entry.value).unwrap_or_default() {
                let address = value::text(&here, item);
                found.extend(address.map(|address| (here, entry.key.clone(), address)));
            }
        }
    } else {
        for (here, item) in list(at, node, ENTRIES).unwrap_or_default() {
            let Some(scalar) = value::scalar(&here, item) else { continue };
            if let Some((name, address)) = scalar.text.split_once(['=', ':']) {
                found.push((here, name.to_owned(), address.to_owned()));
            } else {
                here.refused(format!("{} is not name:address", quoted(scalar)));
            }
        }
    }
    for (here, name, address) in found {
        let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let address = match (address.as_str(), bare.unwrap_or(&address).parse::<IpAddr>()) {
            ("host-gateway", _) => address,
            (_, Ok(ip)) => ip.to_string(),
            (_, Err(_)) => {
                here.refused("gives neither an address nor host-gateway");
                continue;
            }
        };
        if !is_host(&name) && !is_name(&name) {
            here.refused("does not start with a host's name");
            continue;
        }
        draft.service.names.extra_hosts.entry(name).or_default().insert(address);
    }
}
