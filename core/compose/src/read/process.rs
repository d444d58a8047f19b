//! How a service is started and stopped, and as whom.

use super::powers::ask;
use super::service::{Draft, word};
use super::value::{self, count, duration, list, map, pairs, quoted, shaped, truth, whole};
use crate::finding::Place;
use crate::grammar::absolute_path;
use crate::limits::ENTRIES;
use crate::policy::Power;
use crate::service::Logging;
use crate::yaml::{Node, Value};

pub(super) fn init(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    draft.service.process.init = truth(at, node);
}

pub(super) fn tty(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    draft.service.process.tty = truth(at, node).unwrap_or_default();
}

pub(super) fn stdin_open(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    draft.service.process.stdin_open = truth(at, node).unwrap_or_default();
}

pub(super) fn read_only(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    draft.service.process.read_only = truth(at, node).unwrap_or_default();
}

pub(super) fn stop_signal(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    draft.service.process.stop_signal = shaped(at, node, "a signal such as SIGTERM", |text| {
        let known =
            |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || matches!(b, b'+' | b'-');
        let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        first && text.len() <= 16 && text.bytes().all(known)
    });
}

pub(super) fn stop_grace_period(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    let Some(asked) = duration(at, node) else { return };
    let whole = asked.div_ceil(1000).saturating_mul(1000);
    if whole != asked {
        at.changed("Docker counts it in whole seconds; rounded up");
    }
    draft.service.process.stop_grace_ms = Some(whole);
}

pub(super) fn oom_score_adj(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    let score = whole(at, node, -1000, 1000);
    match score.map(u16::try_from) {
        Some(Ok(score)) => draft.service.process.oom_score_adj = Some(score),
        Some(Err(_)) => {
            at.refused("would put the service before the node itself; use 0 or more");
        }
        None => {}
    }
}

pub(super) fn user(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    draft.service.identity.user = shaped(at, node, "a user, or user:group", is_user);
}

fn is_user(text: &str) -> bool {
    let part = |text: &str| {
        let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        !text.is_empty() && !text.starts_with('-') && text.len() <= 64 && text.bytes().all(known)
    };
    let (user, group) = text.split_once(':').unwrap_or((text, "0"));
    part(user) && part(group)
}

pub(super) fn group_add(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    for (here, item) in list(at, node, ENTRIES).unwrap_or_default() {
        let group = shaped(&here, item, "a group", |text| is_user(text) && !text.contains(':'));
        draft.service.identity.groups.extend(group);
    }
}

pub(super) fn working_dir(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    let Some(scalar) = value::scalar(at, node) else { return };
    match absolute_path(&scalar.text) {
        Ok(path) => draft.service.identity.working_dir = Some(path),
        Err(why) => {
            at.refused(format!("{} {why}", quoted(scalar)));
        }
    }
}

pub(super) fn platform(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    draft.service.identity.platform = shaped(at, node, "os/architecture", |text| {
        let part = |part: &str| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        text.len() <= 64 && (1..=3).contains(&text.split('/').count()) && text.split('/').all(part)
    });
}

pub(super) fn runtime(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    // Docker also takes a path of the node, which nobody may name.
    let is_sound = |text: &str| {
        let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        (1..=64).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(known)
    };
    let Some(name) = shaped(at, node, "the name of a runtime such as runc", is_sound) else {
        return;
    };
    ask(at, Power::Runtime(&name));
    draft.service.identity.runtime = Some(name);
}

pub(super) fn ulimits(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    for entry in map(at, node, ENTRIES).unwrap_or_default() {
        let here = at.key(&entry.key, entry.line);
        let is_name = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase());
        if !is_name(&entry.key) || entry.key.len() > 16 {
            here.refused("is not a limit such as nofile");
            continue;
        }
        let limit = ulimit(&here, &entry.value);
        draft.service.process.ulimits.extend(limit.map(|limit| (entry.key.clone(), limit)));
    }
}

fn ulimit(at: &Place<'_>, node: &Node) -> Option<(i64, i64)> {
    if !matches!(node.value, Value::Map(_)) {
        let both = whole(at, node, -1, i64::MAX)?;
        return Some((both, both));
    }
    let (mut soft, mut hard) = (None, None);
    for entry in map(at, node, ENTRIES)? {
        let here = at.key(&entry.key, entry.line);
        match entry.key.as_str() {
            "soft" => soft = Some(whole(&here, &entry.value, -1, i64::MAX)?),
            "hard" => hard = Some(whole(&here, &entry.value, -1, i64::MAX)?),
            key => return here.refuse(super::unknown("a limit", key, ["soft", "hard"])),
        }
    }
    match (soft, hard) {
        (Some(soft), Some(hard)) if hard == -1 || (soft != -1 && soft <= hard) => {
            Some((soft, hard))
        }
        (Some(_), Some(_)) => at.refuse("has a soft limit above its hard one"),
        _ => at.refuse("needs both soft and hard"),
    }
}

/// Settings that belong to the container's own namespaces. All others would change the node.
fn is_own_sysctl(name: &str) -> bool {
    let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    let exact = ["kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.sem"];
    let starts = ["net.", "kernel.shm", "fs.mqueue."];
    name.bytes().all(known)
        && (exact.contains(&name) || starts.iter().any(|start| name.starts_with(start)))
}

pub(super) fn sysctls(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    for pair in pairs(at, node).unwrap_or_default() {
        let value = pair.value.map(|value| value.text).unwrap_or_default();
        let known =
            |b: u8| b.is_ascii_alphanumeric() || matches!(b, b' ' | b'\t' | b'.' | b'-' | b'_');
        if !is_own_sysctl(&pair.key) {
            pair.at.refused(
                "would change the node; only net.*, kernel.shm*, kernel.msg*, kernel.sem and \
                 fs.mqueue.* belong to a service",
            );
        } else if value.is_empty() || !value.bytes().all(known) {
            pair.at.refused("has no value, or one that no setting takes");
        } else {
            draft.service.process.sysctls.insert(pair.key, value);
        }
    }
}

/// Logs are kept so that they can be shown from anywhere; the agent says how much of them.
pub(super) fn logging(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    at.changed("logs are kept by the agent, in files of limited size, and shown by 'persys logs'");
    let (mut file_mib, mut files) = (None, None);
    for entry in map(at, node, ENTRIES).unwrap_or_default() {
        let here = at.key(&entry.key, entry.line);
        match entry.key.as_str() {
            "driver" => drop(value::text(&here, &entry.value)),
            "options" => {
                for pair in pairs(&here, &entry.value).unwrap_or_default() {
                    let value = pair.value.map(|value| value.text).unwrap_or_default();
                    match pair.key.as_str() {
                        "max-size" => {
                            file_mib = value.strip_suffix('m').and_then(|n| n.parse().ok());
                        }
                        "max-file" => files = value.parse().ok(),
                        _ => {}
                    }
                }
            }
            key if key.starts_with("x-") => here.ignored("is the file's own"),
            key => {
                let known = ["driver", "options"];
                here.refused(super::unknown("logging", key, known));
            }
        }
    }
    let logging = file_mib.zip(files).map(|(file_mib, files)| Logging { file_mib, files });
    draft.service.logging = logging;
}

/// How many containers a service has.
pub(super) fn copies(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    let Some(copies) = count(at, node, 0, 64) else { return };
    if copies == 0 {
        at.refused("0 copies: leave the service out instead");
        return;
    }
    draft.service.replicas = u32::try_from(copies).unwrap_or(1);
}

/// The one word that may stand here.
pub(super) fn only(at: &Place<'_>, node: &Node, known: &[&str]) {
    drop(word(at, node, known));
}
