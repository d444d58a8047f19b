//! `/nodes/<id>/lease`

use std::sync::Arc;

use persys_model::id::NodeId;
use persys_model::lease::{Lease, LeaseState};
use persys_model::time::WallMillis;
use persys_model::token::Session;
use serde::{Deserialize, Serialize};

use super::{Beside, Record, VERSION, mirror, name};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LeaseShape {
    v: u32,
    node: Arc<str>,
    session: u64,
    state: LeaseStateShape,
    length_ms: u64,
    since_ms: u64,
}

mirror!(LeaseStateShape of LeaseState { Held, Expired, Ended });

impl Record for Lease {
    type Shape = LeaseShape;

    fn shape(&self) -> LeaseShape {
        let Self { node, session, state, length_ms, since } = self;
        LeaseShape {
            v: VERSION,
            node: Arc::from(node.as_str()),
            session: session.0,
            state: (*state).into(),
            length_ms: *length_ms,
            since_ms: since.0,
        }
    }

    fn version(shape: &LeaseShape) -> u32 {
        shape.v
    }

    fn read(shape: LeaseShape) -> Result<Self, String> {
        Ok(Self {
            node: name("node", &shape.node, NodeId::new)?,
            session: Session(shape.session),
            state: shape.state.into(),
            length_ms: shape.length_ms,
            since: WallMillis(shape.since_ms),
        })
    }

    const BESIDE: &'static [&'static str] = &["nodeId", "statusUpdatedAt"];

    fn beside(&self, fields: &mut Beside) {
        fields.put("nodeId", self.node.as_str());
        fields.time("statusUpdatedAt", self.since);
    }
}
