//! Writing a copy, line by line.

use std::io::{self, Write};

use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use persys_model::hex::hex;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Archive, LARGEST, VERSION};

/// One record.
#[derive(Serialize)]
struct Line<'a> {
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    json: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// Writes a copy. It is whole only if this says so.
pub fn write(archive: &Archive, out: &mut dyn Write) -> io::Result<()> {
    let Archive { header, pairs } = archive;
    let mut sealed = Sealed { out, context: Context::new(&SHA256), left: LARGEST };
    let first = json!({
        "persys": "snapshot",
        "v": VERSION,
        "cluster": header.cluster.as_deref(),
        "incarnation": header.incarnation,
        "seq": header.seq.0,
        "taken_ms": header.taken.0,
        "records": header.records,
    });
    sealed.line(first.to_string().into_bytes())?;
    for (key, bytes) in pairs {
        let json = as_it_is(bytes);
        let base64 = json.is_none().then(|| BASE64_STANDARD.encode(bytes));
        sealed.line(serde_json::to_vec(&Line { key, json, base64 })?)?;
    }
    let Sealed { out, context, .. } = sealed;
    let sum = hex(context.finish().as_ref());
    out.write_all(format!("{{\"sha256\":\"{sum}\"}}\n").as_bytes())?;
    out.flush()
}

/// JSON that stands on one line exactly as it was. `null` would be taken for nothing.
fn as_it_is(bytes: &[u8]) -> Option<&RawValue> {
    let raw: &RawValue = serde_json::from_slice(bytes).ok()?;
    let same = raw.get().as_bytes() == bytes && raw.get() != "null";
    (same && !bytes.contains(&b'\n')).then_some(raw)
}

/// Counts and sums what goes through.
struct Sealed<'a> {
    out: &'a mut dyn Write,
    context: Context,
    left: u64,
}

impl Sealed<'_> {
    fn line(&mut self, mut line: Vec<u8>) -> io::Result<()> {
        line.push(b'\n');
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        self.left = self.left.checked_sub(length).ok_or_else(|| {
            io::Error::other(format!("the store is too large for a snapshot of {LARGEST} bytes"))
        })?;
        self.context.update(&line);
        self.out.write_all(&line)
    }
}
