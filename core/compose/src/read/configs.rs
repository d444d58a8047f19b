//! Configs: files that services see, by what the project has in them.

use std::collections::BTreeMap;

use super::content::{CONFIGS, id};
use super::mounts::add;
use super::secrets::mode;
use super::service::Draft;
use super::value;
use crate::content::{Content, ContentFile};
use crate::finding::{Place, shown};
use crate::grammar::{absolute_path, is_name};
use crate::limits::{ENTRIES, OBJECTS};
use crate::service::{Mount, MountSource};
use crate::yaml::{Node, Value};

const NO_CONFIG: &str = "must be given by file, content or environment: the cluster has no configs of \
                         its own";

/// Puts what the configs of the file hold among what was sent along.
pub(super) fn all(
    at: &Place<'_>,
    node: &Node,
    variables: &BTreeMap<String, String>,
    contents: &mut BTreeMap<String, Content>,
) {
    for entry in value::map(at, node, OBJECTS).unwrap_or_default() {
        let here = at.key(&entry.key, entry.line);
        if !is_name(&entry.key) {
            here.refused("is not a config's name");
            continue;
        }
        let bytes = here.honouring(|here| one(here, &entry.value, variables, contents));
        if let Some(bytes) = bytes {
            let file = ContentFile { mode: 0o444, bytes, ..ContentFile::default() };
            contents.insert(format!("{CONFIGS}{}", entry.key), Content::File(file));
        }
    }
}

fn one(
    at: &Place<'_>,
    node: &Node,
    variables: &BTreeMap<String, String>,
    contents: &BTreeMap<String, Content>,
) -> Option<Vec<u8>> {
    let mut found = None;
    for entry in value::map(at, node, ENTRIES)? {
        let (here, node) = (at.key(&entry.key, entry.line), &entry.value);
        match entry.key.as_str() {
            "content" => found = Some(value::text(&here, node)?.into_bytes()),
            "file" => {
                let key = value::text(&here, node)?;
                let Some(Content::File(file)) = contents.get(&key) else {
                    return here.refuse(
                        "is beside the file, and was not sent along; apply the file with `persys \
                         apply`, or write content here",
                    );
                };
                found = Some(file.bytes.clone());
            }
            "environment" => {
                let name = value::text(&here, node)?;
                let Some(value) = variables.get(&name) else {
                    return here.refuse("names a variable that is not given");
                };
                found = Some(value.clone().into_bytes());
            }
            "name" | "labels" => here.ignored("nothing here reads it"),
            "external" if !value::truth(&here, node)? => {}
            "external" | "template_driver" => return here.refuse(NO_CONFIG),
            key if key.starts_with("x-") => here.ignored("is the file's own"),
            key => {
                let known = ["file", "content", "environment"];
                return here.refuse(super::unknown("a config", key, known));
            }
        }
    }
    if found.is_none() { at.refuse(NO_CONFIG) } else { found }
}

/// A config as a service sees it.
#[derive(Default)]
struct Seen {
    name: String,
    target: Option<String>,
    mode: Option<u32>,
    uid: u32,
    gid: u32,
}

/// The configs a service sees.
pub(super) fn of_service<'a>(draft: &mut Draft<'a>, at: &Place<'a>, node: &Node) {
    for (here, item) in value::list(at, node, ENTRIES).unwrap_or_default() {
        let seen = match &item.value {
            Value::Map(_) => long(&here, item),
            Value::Null | Value::Scalar(_) | Value::List(_) => {
                value::text(&here, item).map(|name| Seen { name, ..Seen::default() })
            }
        };
        let Some(seen) = seen else { continue };
        let target = seen.target.clone().unwrap_or_else(|| format!("/{}", seen.name));
        match absolute_path(&target) {
            Ok(target) if target != "/" => {
                let key = seen.key();
                draft.names("configs", &key, &here);
                let source = MountSource::Content { key };
                add(draft, &here, Mount { source, target, read_only: true });
            }
            Ok(_) => here.refused("must not be the root"),
            Err(why) => here.refused(format!("target {why}")),
        }
    }
}

impl Seen {
    /// What it is called among what was sent along, with how it is to be seen.
    fn key(&self) -> String {
        let Self { name, mode, uid, gid, .. } = self;
        match (mode, uid, gid) {
            (None, 0, 0) => format!("{CONFIGS}{name}"),
            (mode, uid, gid) => {
                format!("{CONFIGS}{name}/{:04o}.{uid}.{gid}", mode.unwrap_or(0o444))
            }
        }
    }
}

fn long(at: &Place<'_>, node: &Node) -> Option<Seen> {
    let mut seen = Seen::default();
    for entry in value::map(at, node, ENTRIES)? {
        let (here, node) = (at.key(&entry.key, entry.line), &entry.value);
        match entry.key.as_str() {
            "source" => seen.name = value::text(&here, node)?,
            "target" => {
                let text = value::text(&here, node)?;
                let whole = if text.starts_with('/') { text } else { format!("/{text}") };
                seen.target = Some(whole);
            }
            "mode" => seen.mode = Some(mode(&here, node)?),
            "uid" => seen.uid = id(&here, node)?,
            "gid" => seen.gid = id(&here, node)?,
            key if key.starts_with("x-") => here.ignored("is the file's own"),
            key => {
                let known = ["source", "target", "uid", "gid", "mode"];
                return here.refuse(super::unknown("a service's config", key, known));
            }
        }
    }
    if seen.name.is_empty() { at.refuse("has no source") } else { Some(seen) }
}

/// What services name must be among the file's configs; each way of seeing one is a file of its own.
pub(super) fn settle(drafts: &[Draft<'_>], contents: &mut BTreeMap<String, Content>) {
    for draft in drafts {
        for mount in &draft.service.mounts {
            let MountSource::Content { key } = &mount.source else { continue };
            let Some(rest) = key.strip_prefix(CONFIGS).filter(|_| !contents.contains_key(key))
            else {
                continue;
            };
            let (name, seen) = rest.split_once('/').unwrap_or((rest, ""));
            let Some(Content::File(file)) = contents.get(&format!("{CONFIGS}{name}")) else {
                let why =
                    format!("names \"{}\", which is not under configs of the file", shown(name));
                draft.place_of("configs", key).refused(why);
                continue;
            };
            let mut file = file.clone();
            let mut parts = seen.split('.');
            let mut number = |radix| u32::from_str_radix(parts.next().unwrap_or("0"), radix).ok();
            file.mode = number(8).unwrap_or(file.mode);
            (file.uid, file.gid) = (number(10).unwrap_or(0), number(10).unwrap_or(0));
            contents.insert(key.clone(), Content::File(file));
        }
    }
}
