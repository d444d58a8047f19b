//! What only shows once all services are read: names that must exist, ports that must differ, and
//! an order without a circle.

use std::collections::{BTreeMap, BTreeSet};

use super::powers;
use super::service::Draft;
use crate::document::Document;
use crate::finding::{Place, shown};
use crate::limits::CONTAINERS;
use crate::service::{Attachment, Condition, MountSource, Restart};

/// Everything that is wrong between the services.
pub(super) fn check(at: &Place<'_>, drafts: &[Draft<'_>], document: &Document) {
    let left_out: BTreeSet<&str> = drafts
        .iter()
        .filter(|draft| draft.has_profiles)
        .map(|draft| draft.service.name.as_str())
        .collect();
    let running: Vec<&Draft<'_>> = drafts.iter().filter(|draft| !draft.has_profiles).collect();
    let names: BTreeSet<&str> = running.iter().map(|d| d.service.name.as_str()).collect();
    if names.is_empty() {
        at.refused("has no service that would run");
    }
    for draft in &running {
        services_exist(draft, &names, &left_out);
        objects_exist(draft, document);
        copies_fit(draft);
    }
    awaited_services_end(&running);
    ports_differ(&running);
    no_circle(&running);
    let containers: u64 = running.iter().map(|draft| u64::from(draft.service.replicas)).sum();
    if containers > CONTAINERS {
        at.refused(format!("has {containers} containers; a stack has at most {CONTAINERS}"));
    }
}

fn services_exist(draft: &Draft<'_>, names: &BTreeSet<&str>, left_out: &BTreeSet<&str>) {
    let service = &draft.service;
    let mut needed: Vec<(&str, &str)> =
        service.depends_on.keys().map(|name| ("depends_on", name.as_str())).collect();
    needed.extend(service.links.iter().map(|link| {
        let name = link.split_once(':').map_or(link.as_str(), |(name, _)| name);
        ("links", name)
    }));
    if let Attachment::Service(name) = &service.network {
        needed.push(("network_mode", name));
    }
    let joined = powers::joined(draft);
    needed.extend(joined.iter().map(|(key, name)| (*key, name.as_str())));
    for (key, name) in needed {
        let at = draft.place_of(key, name);
        if name == service.name {
            at.refused("names the service itself");
        } else if left_out.contains(name) {
            let why = format!("needs \"{}\", which is left out by its profiles", shown(name));
            at.refused(why);
        } else if !names.contains(name) {
            let why = format!("names \"{}\", which is no service of the file", shown(name));
            at.refused(why);
        }
    }
}

fn objects_exist(draft: &Draft<'_>, document: &Document) {
    if let Attachment::Networks(networks) = &draft.service.network {
        let known = |name: &&String| !document.networks.contains_key(*name) && *name != "default";
        for name in networks.keys().filter(known) {
            let why = format!("names \"{}\", which is not under networks of the file", shown(name));
            draft.place_of("networks", name).refused(why);
        }
    } else if !draft.service.ports.is_empty() && draft.service.network != Attachment::Bridge {
        let why = "publishes ports, which its network_mode does not have; leave one out";
        draft.place("ports").refused(why);
    }
    for mount in &draft.service.mounts {
        if let MountSource::Volume { name, .. } = &mount.source
            && !document.volumes.contains_key(name)
        {
            let why = format!("names \"{}\", which is not under volumes of the file", shown(name));
            draft.place_of("volumes", name).refused(why);
        }
    }
}

fn copies_fit(draft: &Draft<'_>) {
    let service = &draft.service;
    if service.replicas > 1 && service.ports.iter().any(|port| port.host.is_some()) {
        let why =
            format!("fixes a port of the node for {} copies; only one gets it", service.replicas);
        draft.place("ports").refused(why);
    }
}

/// Who waits for the end of a service that is always started again waits for ever.
fn awaited_services_end(running: &[&Draft<'_>]) {
    let forever: BTreeSet<&str> = running
        .iter()
        .filter(|draft| {
            matches!(draft.service.restart, Restart::Always { .. } | Restart::UnlessStopped)
        })
        .map(|draft| draft.service.name.as_str())
        .collect();
    for draft in running {
        for (name, condition) in &draft.service.depends_on {
            if *condition == Condition::Completed && forever.contains(name.as_str()) {
                let why = format!("waits for the end of {name}, which is always started again");
                draft.place_of("depends_on", name).refused(why);
            }
        }
    }
}

fn ports_differ(running: &[&Draft<'_>]) {
    let mut taken: BTreeMap<_, Vec<Option<std::net::IpAddr>>> = BTreeMap::new();
    for draft in running {
        for port in &draft.service.ports {
            let Some(host) = port.host else { continue };
            let addresses = taken.entry((host, port.protocol)).or_default();
            let every = |address: &Option<std::net::IpAddr>| {
                address.is_none_or(|address| address.is_unspecified())
            };
            let clash = addresses
                .iter()
                .any(|other| *other == port.address || every(other) || every(&port.address));
            if clash {
                let why =
                    format!("port {host}/{} of the node is taken twice", port.protocol.word());
                draft.place("ports").refused(why);
            }
            addresses.push(port.address);
        }
    }
}

/// Takes away services that wait for nobody until none is left; those that stay wait in a circle.
fn no_circle(running: &[&Draft<'_>]) {
    let mut waiting: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for draft in running {
        let service = &draft.service;
        let mut on: BTreeSet<&str> = service.depends_on.keys().map(String::as_str).collect();
        on.extend(service.links.iter().map(|l| l.split_once(':').map_or(l.as_str(), |(n, _)| n)));
        if let Attachment::Service(name) = &service.network {
            on.insert(name);
        }
        waiting.insert(&service.name, on);
    }
    loop {
        let free: BTreeSet<&str> = waiting
            .iter()
            .filter(|(_, on)| !on.iter().any(|name| waiting.contains_key(name)))
            .map(|(name, _)| *name)
            .collect();
        if free.is_empty() {
            break;
        }
        waiting.retain(|name, _| !free.contains(name));
    }
    if let Some(draft) = running.iter().find(|d| waiting.contains_key(d.service.name.as_str())) {
        let circle: Vec<_> = waiting.keys().copied().collect();
        let why = format!("waits in a circle: {}", circle.join(", "));
        draft.place("depends_on").refused(why);
    }
}
