//! `/join-tokens/<id>`

use std::sync::Arc;

use persys_model::entry::JoinToken;
use persys_model::id::EntryName;
use persys_model::join::Use;
use persys_model::time::WallMillis;
use serde::{Deserialize, Serialize};

use crate::record::{Record, VERSION, name};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct JoinTokenShape {
    v: u32,
    id: Arc<str>,
    sha256: Arc<str>,
    role: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<Arc<str>>,
    expires_at_ms: u64,
    uses_left: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    uses: Vec<UseShape>,
}

#[derive(Debug, Serialize, Deserialize)]
struct UseShape {
    key_sha256: Arc<str>,
    name: Arc<str>,
}

impl Record for JoinToken {
    type Shape = JoinTokenShape;

    fn shape(&self) -> JoinTokenShape {
        let Self { id, hash, role, name, expires, uses_left, uses } = self;
        let used =
            |one: &Use| UseShape { key_sha256: Arc::clone(&one.key), name: Arc::clone(&one.name) };
        JoinTokenShape {
            v: VERSION,
            id: Arc::from(id.as_str()),
            sha256: Arc::clone(hash),
            role: Arc::clone(role),
            name: name.clone(),
            expires_at_ms: expires.0,
            uses_left: *uses_left,
            uses: uses.iter().map(used).collect(),
        }
    }

    fn version(shape: &JoinTokenShape) -> u32 {
        shape.v
    }

    fn read(shape: JoinTokenShape) -> Result<Self, String> {
        let used = |one: UseShape| Use { key: one.key_sha256, name: one.name };
        Ok(Self {
            id: name("id", &shape.id, EntryName::new)?,
            hash: shape.sha256,
            role: shape.role,
            name: shape.name,
            expires: WallMillis(shape.expires_at_ms),
            uses_left: shape.uses_left,
            uses: shape.uses.into_iter().map(used).collect(),
        })
    }
}
