//! What a stack has besides services: networks, volumes, and files that were sent along.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::{labels, put, put_some, text};
use crate::content::{Content, ContentFile};
use crate::document::{Network, Volume};
use crate::limits::CONTENT_PART_BYTES;

pub(super) fn network(network: &Network) -> Value {
    if let Some(name) = &network.external {
        return json!({ "external": true, "name": name });
    }
    let mut out = Map::new();
    if network.internal {
        put(&mut out, "internal", true.into());
    }
    if network.ipv6 {
        put(&mut out, "enable_ipv6", true.into());
    }
    if !network.options.is_empty() {
        put(&mut out, "driver", "bridge".into());
        put(&mut out, "driver_opts", labels(&network.options));
    }
    if !network.subnets.is_empty() {
        let all = network.subnets.iter().map(|subnet| {
            let mut one = Map::new();
            put_some(&mut one, "subnet", subnet.range.as_ref(), |range| text(range));
            put_some(&mut one, "ip_range", subnet.given_out.as_ref(), |range| text(range));
            put_some(&mut one, "gateway", subnet.gateway, |ip| ip.to_string().into());
            Value::Object(one)
        });
        put(&mut out, "ipam", json!({ "config": all.collect::<Vec<_>>() }));
    }
    if !network.labels.is_empty() {
        put(&mut out, "labels", labels(&network.labels));
    }
    Value::Object(out)
}

pub(super) fn volume(volume: &Volume) -> Value {
    if let Some(name) = &volume.external {
        return json!({ "external": true, "name": name });
    }
    let mut out = Map::new();
    if !volume.labels.is_empty() {
        put(&mut out, "labels", labels(&volume.labels));
    }
    Value::Object(out)
}

/// What was sent along, as it is read.
pub(crate) fn content(content: &Content) -> Value {
    match content {
        Content::File(file) => file_value(file),
        Content::Folder(files) => {
            let files: Map<_, _> =
                files.iter().map(|(path, file)| (path.clone(), file_value(file))).collect();
            json!({ "files": files })
        }
    }
}

fn file_value(file: &ContentFile) -> Value {
    let mut out = Map::new();
    put(&mut out, "mode", format!("{:04o}", file.mode).into());
    for (key, id) in [("uid", file.uid), ("gid", file.gid)].into_iter().filter(|(_, id)| *id != 0) {
        put(&mut out, key, id.into());
    }
    let plain = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    match std::str::from_utf8(&file.bytes) {
        Ok(text) if text.chars().all(plain) => put(&mut out, "text", parts(text)),
        Ok(_) | Err(_) => {
            let all =
                file.bytes.chunks(CONTENT_PART_BYTES).map(|part| STANDARD.encode(part).into());
            put(&mut out, "base64", Value::Array(all.collect()));
        }
    }
    Value::Object(out)
}

/// A long text in parts that are read.
fn parts(text: &str) -> Value {
    let (mut parts, mut part) = (Vec::new(), String::new());
    for letter in text.chars() {
        if part.len().saturating_add(letter.len_utf8()) > CONTENT_PART_BYTES {
            parts.push(Value::String(std::mem::take(&mut part)));
        }
        part.push(letter);
    }
    parts.push(Value::String(part));
    Value::Array(parts)
}
