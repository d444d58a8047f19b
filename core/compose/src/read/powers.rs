//! What reaches beyond the container: read here, decided by [`crate::policy`].

use std::collections::BTreeSet;

use super::service::Draft;
use super::value::{self, list, quoted, shaped};
use crate::finding::Place;
use crate::grammar::absolute_path;
use crate::limits::ENTRIES;
use crate::policy::{Judgement, Power, judge, withheld};
use crate::service::Namespace;
use crate::yaml::{Node, Value};

/// Puts `power` before the policy, and says what came of it.
pub(super) fn ask(at: &Place<'_>, power: Power<'_>) {
    match judge(power) {
        Judgement::Given(why) => at.honoured(why),
        Judgement::Withheld(why) => {
            let path = if let Power::HostPath { path, .. } = power { path } else { "PATH" };
            at.withheld(withheld(path, why));
        }
    }
}

pub(super) fn privileged(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    if value::truth(at, node) == Some(true) {
        ask(at, Power::Privileged);
        draft.service.powers.privileged = true;
    }
}

pub(super) fn cap_add(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    for (here, item) in list(at, node, ENTRIES).unwrap_or_default() {
        if let Some(name) = capability(&here, item) {
            ask(&here, Power::Capability(&name));
            draft.service.powers.cap_add.insert(name);
        }
    }
}

pub(super) fn cap_drop(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    for (here, item) in list(at, node, ENTRIES).unwrap_or_default() {
        draft.service.powers.cap_drop.extend(capability(&here, item));
    }
}

fn capability(at: &Place<'_>, node: &Node) -> Option<String> {
    let is_sound = |text: &str| {
        (2..=32).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_')
    };
    let name = shaped(at, node, "a capability such as NET_ADMIN", is_sound)?.to_ascii_uppercase();
    Some(name.strip_prefix("CAP_").unwrap_or(&name).to_owned())
}

pub(super) fn security_opt(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    for (here, item) in list(at, node, ENTRIES).unwrap_or_default() {
        let Some(scalar) = value::scalar(&here, item) else { continue };
        let split = scalar.text.split_once('=').or_else(|| scalar.text.split_once(':'));
        let option = match split.unwrap_or((scalar.text.as_str(), "true")) {
            ("no-new-privileges", "true") => "no-new-privileges=true".to_owned(),
            ("no-new-privileges", "false") => "no-new-privileges=false".to_owned(),
            // A profile of seccomp is a file; those of AppArmor and SELinux are names.
            ("seccomp", "unconfined") => "seccomp=unconfined".to_owned(),
            (kind @ ("apparmor" | "label"), name) if is_profile(name) => format!("{kind}={name}"),
            _ => {
                here.refused(format!(
                    "{} is not one of no-new-privileges, seccomp=unconfined, apparmor=<name>, \
                     label=<label>",
                    quoted(scalar)
                ));
                continue;
            }
        };
        if option != "no-new-privileges=true" {
            ask(&here, Power::Unconfined(&option));
        }
        draft.service.powers.security_opt.insert(option);
    }
}

fn is_profile(text: &str) -> bool {
    let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':');
    !text.is_empty() && !text.starts_with('-') && text.bytes().all(known)
}

pub(super) fn devices(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    for (here, item) in list(at, node, ENTRIES).unwrap_or_default() {
        if let Some(device) = device(&here, item) {
            ask(&here, Power::Device(&device));
            draft.service.powers.devices.insert(device);
        }
    }
}

fn device(at: &Place<'_>, node: &Node) -> Option<String> {
    let what = "a device: /dev/name[:path in the container[:permissions out of rwm]]";
    if matches!(node.value, Value::Map(_)) {
        let mut parts = ["", "", "rwm"].map(str::to_owned);
        for entry in value::map(at, node, ENTRIES)? {
            let here = at.key(&entry.key, entry.line);
            let nth = ["source", "target", "permissions"].iter().position(|k| *k == entry.key);
            let Some(slot) = nth.and_then(|nth| parts.get_mut(nth)) else {
                return here.refuse(super::unknown("a device", &entry.key, ["source", "target"]));
            };
            *slot = value::text(&here, &entry.value)?;
        }
        let [source, target, permissions] = parts;
        let target = if target.is_empty() { source.clone() } else { target };
        return match full_device(&format!("{source}:{target}:{permissions}")) {
            Some(device) => Some(device),
            None => at.refuse(format!("is not {what}")),
        };
    }
    value::parsed(at, node, what, full_device)
}

fn full_device(text: &str) -> Option<String> {
    let mut parts = text.split(':');
    let host = parts.next()?;
    let inside = parts.next().unwrap_or(host);
    let permissions = parts.next().unwrap_or("rwm");
    let allowed =
        (1..=3).contains(&permissions.len()) && permissions.bytes().all(|b| b"rwm".contains(&b));
    let (host, inside) = (absolute_path(host).ok()?, absolute_path(inside).ok()?);
    (parts.next().is_none() && allowed && host.starts_with("/dev/"))
        .then(|| format!("{host}:{inside}:{permissions}"))
}

pub(super) fn pid(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    draft.service.powers.pid = namespace(at, node, Power::HostProcesses, &["host"]);
}

pub(super) fn ipc(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    let known = ["host", "shareable", "private"];
    draft.service.powers.ipc = namespace(at, node, Power::HostMemory, &known);
}

fn namespace(at: &Place<'_>, node: &Node, host: Power<'_>, known: &[&str]) -> Option<Namespace> {
    let scalar = value::scalar(at, node)?;
    let text = scalar.text.as_str();
    match (text, text.strip_prefix("service:")) {
        ("host", _) => {
            ask(at, host);
            Some(Namespace::Host)
        }
        ("shareable", _) if known.contains(&text) => Some(Namespace::Shareable),
        ("private", _) if known.contains(&text) => Some(Namespace::Private),
        (_, Some(name)) => Some(Namespace::Service(name.to_owned())),
        (_, None) => at.refuse(format!(
            "{} is not one of {}, service:<name>",
            quoted(scalar),
            known.join(", ")
        )),
    }
}

pub(super) fn userns_mode(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    if super::service::word(at, node, &["host"]).is_some() {
        ask(at, Power::HostUsers);
        draft.service.powers.host_users = true;
    }
}

/// Names of services whose kernel namespaces are shared with this one.
pub(super) fn joined(draft: &Draft<'_>) -> BTreeSet<(&'static str, String)> {
    let powers = &draft.service.powers;
    [("pid", &powers.pid), ("ipc", &powers.ipc)]
        .into_iter()
        .filter_map(|(key, namespace)| match namespace {
            Some(Namespace::Service(name)) => Some((key, name.clone())),
            Some(Namespace::Host | Namespace::Shareable | Namespace::Private) | None => None,
        })
        .collect()
}
