//! Fields that the earlier system of this contract had in its records, written beside ours for the
//! scripts and dashboards that read etcd.

use persys_model::time::WallMillis;
use serde::Serialize;

/// A JSON object that is being extended.
#[derive(Debug)]
pub(crate) struct Beside {
    bytes: Vec<u8>,
}

impl Beside {
    /// Goes on after the fields of `object`, the bytes of a JSON object.
    pub(super) fn after(object: Vec<u8>) -> Self {
        Self { bytes: object }
    }

    /// Adds a field. A value that has no JSON is left out.
    pub(super) fn put(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        if self.bytes.last() != Some(&b'}') {
            return;
        }
        let Ok(value) = serde_json::to_vec(value) else { return };
        self.bytes.pop();
        if self.bytes.last() != Some(&b'{') {
            self.bytes.push(b',');
        }
        self.bytes.push(b'"');
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(b"\":");
        self.bytes.extend(value);
        self.bytes.push(b'}');
    }

    /// Adds a moment.
    pub(super) fn time(&mut self, name: &str, at: WallMillis) {
        self.put(name, &at.rfc3339());
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
