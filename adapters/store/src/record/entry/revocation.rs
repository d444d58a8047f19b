//! `/revocations/<name>`

use std::sync::Arc;

use persys_model::entry::Revocation;
use persys_model::id::EntryName;
use persys_model::time::WallMillis;
use serde::{Deserialize, Serialize};

use crate::record::{Record, VERSION, name};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RevocationShape {
    v: u32,
    name: Arc<str>,
    since_ms: u64,
    reason: Arc<str>,
}

impl Record for Revocation {
    type Shape = RevocationShape;

    fn shape(&self) -> RevocationShape {
        let Self { name, since, reason } = self;
        RevocationShape {
            v: VERSION,
            name: Arc::from(name.as_str()),
            since_ms: since.0,
            reason: Arc::clone(reason),
        }
    }

    fn version(shape: &RevocationShape) -> u32 {
        shape.v
    }

    fn read(shape: RevocationShape) -> Result<Self, String> {
        Ok(Self {
            name: name("name", &shape.name, EntryName::new)?,
            since: WallMillis(shape.since_ms),
            reason: shape.reason,
        })
    }
}
