//! `/audit/<first>-<last>-<hash>`: records of the audit log, a line each; those of one commit share
//! a key.

use std::sync::Arc;

use persys_model::audit::{AuditHash, AuditHead, AuditRecord};
use persys_model::time::WallMillis;
use serde::{Deserialize, Serialize};

use super::{Record, VERSION, is_false};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AuditShape {
    v: u32,
    seq: u64,
    at: u64,
    who: Arc<str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    source: Arc<str>,
    verb: Arc<str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    object: Arc<str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    namespace: Arc<str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    request: Arc<str>,
    #[serde(default, skip_serializing_if = "is_false")]
    denied: bool,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    rule: Arc<str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    before: Arc<str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    after: Arc<str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    why: Arc<str>,
    #[serde(default, skip_serializing_if = "is_none_left_out")]
    left_out: u64,
    previous: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_none_left_out(count: &u64) -> bool {
    *count == 0
}

impl Record for AuditRecord {
    type Shape = AuditShape;

    fn shape(&self) -> AuditShape {
        AuditShape {
            v: VERSION,
            seq: self.seq,
            at: self.at.0,
            who: Arc::clone(&self.who),
            source: Arc::clone(&self.source),
            verb: Arc::clone(&self.verb),
            object: Arc::clone(&self.object),
            namespace: Arc::clone(&self.namespace),
            request: Arc::clone(&self.request),
            denied: !self.allowed,
            rule: Arc::clone(&self.rule),
            before: Arc::clone(&self.before),
            after: Arc::clone(&self.after),
            why: Arc::clone(&self.why),
            left_out: self.left_out,
            previous: self.previous.to_string(),
        }
    }

    fn version(shape: &AuditShape) -> u32 {
        shape.v
    }

    fn read(shape: AuditShape) -> Result<Self, String> {
        Ok(Self {
            seq: shape.seq,
            at: WallMillis(shape.at),
            who: shape.who,
            source: shape.source,
            verb: shape.verb,
            object: shape.object,
            namespace: shape.namespace,
            request: shape.request,
            allowed: !shape.denied,
            rule: shape.rule,
            before: shape.before,
            after: shape.after,
            why: shape.why,
            left_out: shape.left_out,
            previous: AuditHash::read(&shape.previous).ok_or("previous is no hash")?,
        })
    }
}

/// A place in the chain, as the head and the anchor have it.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct AuditHeadShape {
    seq: u64,
    hash: String,
}

impl From<AuditHead> for AuditHeadShape {
    fn from(AuditHead { seq, hash }: AuditHead) -> Self {
        Self { seq, hash: hash.to_string() }
    }
}

impl AuditHeadShape {
    pub(crate) fn read(self) -> Result<AuditHead, String> {
        let hash = AuditHash::read(&self.hash).ok_or("the hash of the audit log is no hash")?;
        Ok(AuditHead { seq: self.seq, hash })
    }
}
