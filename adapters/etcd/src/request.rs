//! Transactions and reads, as a caller writes them.

use prost::bytes::Bytes;

use crate::generated::{self as wire, KeyValue, compare, range_request, request_op, response_op};

/// A condition of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compare {
    /// The key was last written at this revision; 0 when it must not exist.
    Modified(String, i64),
    /// The key holds exactly these bytes.
    Holds(String, Vec<u8>),
}

/// One operation of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Writes a key.
    Put {
        /// Which.
        key: String,
        /// What.
        value: Vec<u8>,
        /// The lease it lives by, or 0.
        lease: i64,
    },
    /// Deletes a key.
    Delete(String),
    /// Deletes all keys from the first up to the second, which stays.
    DeleteRange(String, String),
    /// Reads a key.
    Get(String),
}

impl Op {
    /// Writes a key that lives by no lease.
    #[must_use]
    pub fn put(key: String, value: Vec<u8>) -> Self {
        Self::Put { key, value, lease: 0 }
    }

    /// About how many bytes it takes on its way.
    #[must_use]
    pub fn size(&self) -> usize {
        // Lengths and tags of the nested messages.
        const FRAME: usize = 24;
        FRAME
            + match self {
                Self::Put { key, value, .. } => key.len() + value.len(),
                Self::Delete(key) | Self::Get(key) => key.len(),
                Self::DeleteRange(from, to) => from.len() + to.len(),
            }
    }
}

/// A transaction: if all conditions hold, the one list of operations, else the other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Txn {
    /// The conditions.
    pub when: Vec<Compare>,
    /// What is done if they hold.
    pub then: Vec<Op>,
    /// What is done if they do not.
    pub otherwise: Vec<Op>,
}

/// What became of a transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct TxnDone {
    /// Whether the conditions held.
    pub held: bool,
    /// The revision of the store after it.
    pub revision: i64,
    /// What each operation found, in order; only reads find anything.
    pub found: Vec<Found>,
}

/// What one operation found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found(pub(crate) Vec<KeyValue>);

impl Found {
    /// The one record, if it is there.
    #[must_use]
    pub fn one(&self) -> Option<&KeyValue> {
        self.0.first()
    }
}

/// Which keys to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The first key.
    pub from: Bytes,
    /// Where to stop, not included; empty for the one key.
    pub to: Bytes,
    /// Most records, or 0 for all.
    pub limit: i64,
    /// At which revision, or 0 for the present.
    pub revision: i64,
    /// Without values.
    pub keys_only: bool,
    /// From the end.
    pub backwards: bool,
}

impl Range {
    /// All keys from `from` up to `to`.
    #[must_use]
    pub fn between(from: impl Into<Bytes>, to: impl Into<Bytes>) -> Self {
        Self {
            from: from.into(),
            to: to.into(),
            limit: 0,
            revision: 0,
            keys_only: false,
            backwards: false,
        }
    }
}

impl From<Range> for wire::RangeRequest {
    fn from(range: Range) -> Self {
        let order = if range.backwards {
            range_request::SortOrder::Descend
        } else {
            range_request::SortOrder::None
        };
        Self {
            key: range.from,
            range_end: range.to,
            limit: range.limit,
            revision: range.revision,
            sort_order: order.into(),
            sort_target: range_request::SortTarget::Key.into(),
            serializable: false,
            keys_only: range.keys_only,
            count_only: false,
        }
    }
}

impl From<Compare> for wire::Compare {
    fn from(compare: Compare) -> Self {
        use compare::{CompareResult, CompareTarget, TargetUnion};
        let (key, target, union) = match compare {
            Compare::Modified(key, revision) => {
                (key, CompareTarget::Mod, TargetUnion::ModRevision(revision))
            }
            Compare::Holds(key, value) => {
                (key, CompareTarget::Value, TargetUnion::Value(value.into()))
            }
        };
        Self {
            result: CompareResult::Equal.into(),
            target: target.into(),
            key: key.into(),
            target_union: Some(union),
        }
    }
}

impl From<Op> for wire::RequestOp {
    fn from(op: Op) -> Self {
        use request_op::Request;
        let request = match op {
            Op::Put { key, value, lease } => Request::RequestPut(wire::PutRequest {
                key: key.into(),
                value: value.into(),
                lease,
            }),
            Op::Delete(key) => Request::RequestDeleteRange(wire::DeleteRangeRequest {
                key: key.into(),
                range_end: Bytes::new(),
            }),
            Op::DeleteRange(from, to) => Request::RequestDeleteRange(wire::DeleteRangeRequest {
                key: from.into(),
                range_end: to.into(),
            }),
            Op::Get(key) => Request::RequestRange(Range::between(key, Bytes::new()).into()),
        };
        Self { request: Some(request) }
    }
}

impl From<Txn> for wire::TxnRequest {
    fn from(txn: Txn) -> Self {
        Self {
            compare: txn.when.into_iter().map(Into::into).collect(),
            success: txn.then.into_iter().map(Into::into).collect(),
            failure: txn.otherwise.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<wire::TxnResponse> for TxnDone {
    fn from(answer: wire::TxnResponse) -> Self {
        use response_op::Response;
        let found = answer.responses.into_iter().map(|response| match response.response {
            Some(Response::ResponseRange(range)) => Found(range.kvs),
            Some(Response::ResponsePut(_) | Response::ResponseDeleteRange(_)) | None => {
                Found::default()
            }
        });
        Self {
            held: answer.succeeded,
            revision: answer.header.map_or(0, |header| header.revision),
            found: found.collect(),
        }
    }
}
