//! A commit that does not fit into one transaction of etcd, stored all the same as a whole.
//!
//! ```text
//!   parts written ──► one transaction: head and /meta/journal/open ──► steps carried out ──► journal gone
//!   (nothing yet)     from here on it is done                          again after a crash
//! ```
//!
//! Whoever looks at the store while a journal is open finishes it first, or, if it may not write,
//! reads as if it were finished. Until then nothing else is written: every step demands the leader
//! key, the head and the journal as they were when it was opened.

use std::collections::BTreeMap;

use persys_etcd::{Compare, KeyValue, Op};
use persys_model::token::CommitSeq;
use serde::{Deserialize, Serialize};

use super::Inner;
use super::lead::Lead;
use super::plan::Plan;
use super::write::MOST_SIZE;
use crate::error::Error;
use crate::record::VERSION;

/// Most steps that are carried out in one transaction.
const MOST_STEPS: usize = 120;
/// About how many bytes a part has.
const PART_BYTES: usize = 512 * 1024;

/// `/meta/journal/open`
#[derive(Debug, Serialize, Deserialize)]
struct Open {
    v: u32,
    seq: u64,
    parts: usize,
}

/// One change, as a part of the journal has it: one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Step {
    Put { key: String, value: String },
    Delete { key: String },
    DeleteRange { from: String, to: String },
}

impl Step {
    fn of(op: Op) -> Result<Self, Error> {
        match op {
            Op::Put { key, value, .. } => match String::from_utf8(value) {
                Ok(value) => Ok(Self::Put { key, value }),
                Err(_) => Err(Error::unavailable(format!("the record {key} is no text"))),
            },
            Op::Delete(key) | Op::Get(key) => Ok(Self::Delete { key }),
            Op::DeleteRange(from, to) => Ok(Self::DeleteRange { from, to }),
        }
    }

    fn op(self) -> Op {
        match self {
            Self::Put { key, value } => Op::put(key, value.into_bytes()),
            Self::Delete { key } => Op::Delete(key),
            Self::DeleteRange { from, to } => Op::DeleteRange(from, to),
        }
    }

    /// Does to `contents` what it would do to the store.
    pub(super) fn apply(self, contents: &mut BTreeMap<String, Vec<u8>>) {
        match self {
            Self::Put { key, value } => {
                contents.insert(key, value.into_bytes());
            }
            Self::Delete { key } => {
                contents.remove(&key);
            }
            Self::DeleteRange { from, to } => contents.retain(|key, _| *key < from || *key >= to),
        }
    }
}

impl Inner {
    /// Stores `plan` as a whole, and says when the head was written.
    pub(super) async fn commit_by_journal(
        &self,
        lead: &Lead,
        when: Vec<Compare>,
        plan: Plan,
    ) -> Result<i64, Error> {
        let Plan { seq, ops, head, .. } = plan;
        let parts = parts(ops)?;
        let open = Open { v: VERSION, seq: seq.0, parts: parts.len() };
        for (number, part) in parts.into_iter().enumerate() {
            let put = Op::put(self.keys.journal_part(seq, number), part.into_bytes());
            self.guarded(lead, when.clone(), vec![put]).await?;
        }
        let open = serde_json::to_vec(&open).map_err(Error::unavailable)?;
        let then = vec![head, Op::put(self.keys.journal(), open.clone())];
        let (revision, _) = self.guarded(lead, when, then).await?;
        let opened = KeyValue { mod_revision: revision, value: open.into(), ..KeyValue::default() };
        let finished = self.finish_journal(lead, revision, &opened).await;
        // It is stored; only the next look at the store will see to the rest.
        finished.map_err(|error| Error::unknown(format!("a journal was not finished: {error}")))?;
        Ok(revision)
    }

    /// Carries out the journal that `open` tells of.
    pub(super) async fn finish_journal(
        &self,
        lead: &Lead,
        head_revision: i64,
        open: &KeyValue,
    ) -> Result<i64, Error> {
        let mut when = self.guard(lead);
        when.push(Compare::Modified(self.keys.head(), head_revision));
        when.push(Compare::Modified(self.keys.journal(), open.mod_revision));
        let mut batch = Vec::new();
        let mut size = 0;
        for step in self.read_journal(open).await? {
            let op = step.op();
            if batch.len() == MOST_STEPS || size + op.size() > MOST_SIZE {
                self.guarded(lead, when.clone(), std::mem::take(&mut batch)).await?;
                size = 0;
            }
            size += op.size();
            batch.push(op);
        }
        let (from, to) = self.keys.folder("meta/journal");
        batch.push(Op::DeleteRange(from, to));
        Ok(self.guarded(lead, when, batch).await?.0)
    }

    /// What an open journal holds.
    pub(super) async fn read_journal(&self, open: &KeyValue) -> Result<Vec<Step>, Error> {
        let unreadable = |why: String| Error::Unreadable { key: self.keys.journal(), why };
        let told: Open = serde_json::from_slice(&open.value)
            .map_err(|error| unreadable(format!("is not a journal of ours: {error}")))?;
        if told.v != VERSION {
            return Err(unreadable(format!("has version {}", told.v)));
        }
        let mut steps = Vec::new();
        for number in 0..told.parts {
            let key = self.keys.journal_part(CommitSeq(told.seq), number);
            let part = self.client.get(&key).await.map_err(Error::unavailable)?;
            let part = part.ok_or_else(|| unreadable(format!("misses its part {key}")))?;
            for line in part.value.split(|byte| *byte == b'\n') {
                let step = serde_json::from_slice(line);
                steps.push(
                    step.map_err(|why| unreadable(format!("has a broken part {key}: {why}")))?,
                );
            }
        }
        Ok(steps)
    }
}

/// Steps as lines, in parts that each fit into one request.
fn parts(ops: Vec<Op>) -> Result<Vec<String>, Error> {
    let mut parts: Vec<String> = Vec::new();
    for op in ops {
        let line = serde_json::to_string(&Step::of(op)?).map_err(Error::unavailable)?;
        if line.len() > MOST_SIZE {
            let why = format!("a record of {} bytes is more than etcd takes", line.len());
            return Err(Error::unavailable(why));
        }
        match parts.last_mut() {
            Some(part) if part.len() + line.len() < PART_BYTES => {
                part.push('\n');
                part.push_str(&line);
            }
            Some(_) | None => parts.push(line),
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_does_what_the_operations_would_have_done() {
        let mut contents: BTreeMap<_, _> =
            ["/a", "/b", "/c", "/d"].map(|key| (key.to_owned(), b"old".to_vec())).into();
        let ops = vec![
            Op::put("/a".into(), b"new\nline".to_vec()),
            Op::Delete("/b".into()),
            Op::DeleteRange("/c".into(), "/d".into()),
        ];
        let lines = parts(ops).unwrap().join("\n");
        for line in lines.lines() {
            serde_json::from_str::<Step>(line).unwrap().apply(&mut contents);
        }
        let expected =
            [("/a", &b"new\nline"[..]), ("/d", b"old")].map(|(k, v)| (k.to_owned(), v.to_vec()));
        assert_eq!(contents, expected.into());
    }

    #[test]
    fn parts_fit_and_what_cannot_fit_is_refused() {
        let op = |bytes: usize| Op::put("/a".into(), vec![b'x'; bytes]);
        let made = parts(vec![op(300_000), op(300_000), op(100), op(1_200_000)]).unwrap();
        assert_eq!(made.len(), 3);
        assert!(made.iter().all(|part| part.len() < MOST_SIZE));
        assert!(matches!(parts(vec![op(1_600_000)]), Err(Error::Unavailable { .. })));
        assert!(parts(vec![Op::put("/a".into(), vec![0xff])]).is_err());
    }
}
