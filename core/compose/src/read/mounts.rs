//! What a service sees of volumes, of the node's files, and of memory.

use std::collections::BTreeMap;

use super::powers::ask;
use super::service::{Draft, word};
use super::value::{self, one_or_more, quoted};
use crate::finding::Place;
use crate::grammar::{absolute_path, is_name};
use crate::limits::{ENTRIES, MEMORY_BYTES};
use crate::policy::Power;
use crate::service::{Mount, MountSource};
use crate::yaml::{Node, Scalar, Value};

pub(super) fn volumes<'a>(draft: &mut Draft<'a>, at: &Place<'a>, node: &Node) {
    for (here, item) in value::list(at, node, ENTRIES).unwrap_or_default() {
        let mount = match &item.value {
            Value::Map(_) => long(&here, item),
            Value::Null | Value::Scalar(_) | Value::List(_) => short(&here, item),
        };
        if let Some(mount) = mount {
            add(draft, &here, mount);
        }
    }
}

/// Each place shows one thing. Kept by place, whatever the order in the file.
pub(super) fn add<'a>(draft: &mut Draft<'a>, at: &Place<'a>, mount: Mount) {
    if let MountSource::Bind { path, .. } = &mount.source {
        ask(at, Power::HostPath { path, read_only: mount.read_only });
    }
    if let MountSource::Volume { name, .. } | MountSource::Content { key: name } = &mount.source {
        draft.names("volumes", name, at);
    }
    let mounts = &mut draft.service.mounts;
    match mounts.binary_search_by(|other| other.target.cmp(&mount.target)) {
        Ok(_) => {
            at.refused("is mounted where an earlier entry is");
        }
        Err(place) => mounts.insert(place, mount),
    }
}

/// A path inside the container: anything but its root.
fn target(at: &Place<'_>, scalar: &Scalar, text: &str) -> Option<String> {
    match absolute_path(text) {
        Ok(path) if path != "/" => Some(path),
        Ok(_) => at.refuse("must not be the root, which would hide the whole image"),
        Err(why) => at.refuse(format!("{} {why}", quoted(scalar))),
    }
}

fn short(at: &Place<'_>, node: &Node) -> Option<Mount> {
    let scalar = value::scalar(at, node)?;
    let mut parts = scalar.text.split(':');
    let (source, inside, options) = match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(inside), None, None, None) => (None, inside, ""),
        (Some(source), Some(inside), None, None) => (Some(source), inside, ""),
        (Some(source), Some(inside), Some(options), None) => (Some(source), inside, options),
        _ => return at.refuse(format!("{} is not source:target[:options]", quoted(scalar))),
    };
    let target = target(at, scalar, inside)?;
    let mut said = Options::default();
    said.read(at, options)?;
    let source = match source {
        None => {
            at.honoured("has no name, so its data goes with the container; name it to keep it");
            MountSource::Anonymous
        }
        Some(text) => source_of(at, scalar, text, &said)?,
    };
    Some(Mount { source, target, read_only: said.read_only })
}

#[derive(Default)]
struct Options {
    read_only: bool,
    nocopy: bool,
    relabel: Option<char>,
}

impl Options {
    fn read(&mut self, at: &Place<'_>, text: &str) -> Option<()> {
        for option in text.split(',').filter(|option| !option.is_empty()) {
            match option {
                "ro" => self.read_only = true,
                "rw" => {}
                "nocopy" => self.nocopy = true,
                "z" => self.relabel = Some('z'),
                "Z" => self.relabel = Some('Z'),
                "cached" | "delegated" | "consistent" => at.ignored("consistency is for macOS"),
                _ => return at.refuse("has an option other than ro, rw, nocopy, z, Z"),
            }
        }
        Some(())
    }
}

/// Whether a source is a path of the folder the file is in, or of the home of who wrote it.
pub(crate) fn is_beside(text: &str) -> bool {
    text.starts_with(['.', '~']) || (text.contains('/') && !text.starts_with('/'))
}

fn source_of(at: &Place<'_>, scalar: &Scalar, text: &str, said: &Options) -> Option<MountSource> {
    if is_beside(text) {
        return Some(MountSource::Content { key: text.to_owned() });
    }
    if text.starts_with('/') {
        return match absolute_path(text) {
            Ok(path) => Some(MountSource::Bind { path, create: true, relabel: said.relabel }),
            Err(why) => at.refuse(format!("{} {why}", quoted(scalar))),
        };
    }
    if !is_name(text) {
        return at.refuse(format!("{} names no volume", quoted(scalar)));
    }
    Some(MountSource::Volume { name: text.to_owned(), nocopy: said.nocopy })
}

fn long(at: &Place<'_>, node: &Node) -> Option<Mount> {
    let mut parts: BTreeMap<&str, &Node> = BTreeMap::new();
    for entry in value::map(at, node, ENTRIES)? {
        let here = at.key(&entry.key, entry.line);
        match entry.key.as_str() {
            "type" | "source" | "target" | "read_only" | "bind" | "volume" | "tmpfs" => {
                parts.insert(entry.key.as_str(), &entry.value);
            }
            "consistency" => here.ignored("consistency is for macOS"),
            key => {
                let known = ["type", "source", "target", "read_only", "bind", "volume", "tmpfs"];
                return here.refuse(super::unknown("a volume of a service", key, known));
            }
        }
    }
    let field = |name: &str| parts.get(name).map(|node| (at.key(name, node.line), *node));
    let Some((here, node)) = field("target") else {
        return at.refuse("has no target, the path in the container");
    };
    let target = target(&here, value::scalar(&here, node)?, &value::text(&here, node)?)?;
    let read_only = match field("read_only") {
        Some((here, node)) => value::truth(&here, node)?,
        None => false,
    };
    let Some((here, node)) = field("type") else {
        return at.refuse("has no type: volume, bind or tmpfs");
    };
    let kind = word(&here, node, &["volume", "bind", "tmpfs"])?;
    let mut said = Options::default();
    let mut create = false;
    let mut memory = BTreeMap::new();
    for name in ["bind", "volume", "tmpfs"] {
        let Some((here, node)) = field(name) else { continue };
        if name != kind {
            return here.refuse(format!("does not go with the type {kind}"));
        }
        long_options(&here, node, &mut said, &mut create, &mut memory)?;
    }
    let source = match (kind.as_str(), field("source")) {
        ("tmpfs", None) => MountSource::Tmpfs { options: memory },
        ("tmpfs", Some((here, _))) => return here.refuse("does not go with the type tmpfs"),
        ("volume", None) => MountSource::Anonymous,
        (_, None) => return at.refuse("has no source, the path on the node"),
        (kind, Some((here, node))) => {
            let scalar = value::scalar(&here, node)?;
            let text = scalar.text.as_str();
            if kind == "bind" && !text.starts_with('/') {
                let source = MountSource::Content { key: text.to_owned() };
                return Some(Mount { source, target, read_only });
            }
            match (kind, source_of(&here, scalar, text, &said)?) {
                ("volume", source @ MountSource::Volume { .. }) => source,
                ("bind", MountSource::Bind { path, relabel, .. }) => {
                    MountSource::Bind { path, create: create || relabel.is_some(), relabel }
                }
                _ => return here.refuse(format!("is not what the type {kind} needs")),
            }
        }
    };
    Some(Mount { source, target, read_only })
}

fn long_options(
    at: &Place<'_>,
    node: &Node,
    said: &mut Options,
    create: &mut bool,
    memory: &mut BTreeMap<String, String>,
) -> Option<()> {
    for entry in value::map(at, node, ENTRIES)? {
        let here = at.key(&entry.key, entry.line);
        match entry.key.as_str() {
            "create_host_path" => *create = value::truth(&here, &entry.value)?,
            "selinux" => {
                said.relabel = word(&here, &entry.value, &["z", "Z"])?.chars().next();
            }
            "propagation" => drop(word(&here, &entry.value, &["rprivate", "private"])?),
            "nocopy" => said.nocopy = value::truth(&here, &entry.value)?,
            "size" => {
                let bytes = value::bytes(&here, &entry.value, 1, MEMORY_BYTES)?;
                memory.insert("size".to_owned(), bytes.to_string());
            }
            "mode" => {
                let mode = value::shaped(&here, &entry.value, "an octal mode", is_mode)?;
                memory.insert("mode".to_owned(), mode.trim_start_matches("0o").to_owned());
            }
            key => {
                let known = ["create_host_path", "selinux", "nocopy", "size", "mode"];
                return here.refuse(super::unknown("a volume of a service", key, known));
            }
        }
    }
    Some(())
}

fn is_mode(text: &str) -> bool {
    let digits = text.trim_start_matches("0o");
    (1..=5).contains(&digits.len()) && digits.bytes().all(|b| matches!(b, b'0'..=b'7'))
}

pub(super) fn tmpfs<'a>(draft: &mut Draft<'a>, at: &Place<'a>, node: &Node) {
    for (here, item) in one_or_more(at, node).unwrap_or_default() {
        if let Some(mount) = memory(&here, item) {
            add(draft, &here, mount);
        }
    }
}

fn memory(at: &Place<'_>, node: &Node) -> Option<Mount> {
    let scalar = value::scalar(at, node)?;
    let (inside, text) = scalar.text.split_once(':').unwrap_or((scalar.text.as_str(), ""));
    let target = target(at, scalar, inside)?;
    let mut options = BTreeMap::new();
    let mut read_only = false;
    for option in text.split(',').filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let is_sound = match key {
            "ro" | "rw" | "exec" | "noexec" | "nosuid" | "nodev" => value.is_empty(),
            "size" => {
                let bare = value.strip_suffix(['k', 'm', 'g', 'K', 'M', 'G', '%']);
                number(bare.unwrap_or(value))
            }
            "mode" => is_mode(value),
            "uid" | "gid" | "nr_inodes" => number(value),
            _ => false,
        };
        match key {
            _ if !is_sound => {
                return at.refuse(
                    "has an option other than size, mode, uid, gid, nr_inodes, ro, rw, exec, \
                     noexec, nosuid, nodev",
                );
            }
            "ro" => read_only = true,
            "rw" => {}
            key => drop(options.insert(key.to_owned(), value.to_owned())),
        }
    }
    Some(Mount { source: MountSource::Tmpfs { options }, target, read_only })
}
