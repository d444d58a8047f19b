//! Reading a copy: whole and unchanged, or refused with what is wrong.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read as _};
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use persys_model::hex::hex;
use persys_model::time::WallMillis;
use persys_model::token::CommitSeq;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Archive, Header, LARGEST, LONGEST_KEY, LONGEST_LINE, VERSION};
use crate::key::Keys;
use crate::store::Pairs;

/// Why a file is not taken for a copy of a store.
#[derive(Debug, thiserror::Error)]
pub enum BadArchive {
    /// The system does not let us.
    #[error("it cannot be read: {0}")]
    Disk(#[from] io::Error),
    /// It is something else.
    #[error("it is not a snapshot of this system: its first line is none of ours")]
    Foreign,
    /// A later release wrote it.
    #[error("it has format {found}; this release reads format {VERSION}: use a newer one")]
    Newer {
        /// Its version.
        found: u32,
    },
    /// More than anything we write.
    #[error("it is too large: {what}")]
    TooLarge {
        /// What is.
        what: String,
    },
    /// The end is missing.
    #[error("it ends too early, after {found} of {expected} records: it was not copied whole")]
    Cut {
        /// Records that are there.
        found: u64,
        /// Records there should be.
        expected: u64,
    },
    /// A line makes no sense. Its content is not told: it may hold secrets.
    #[error("line {line} is damaged: {why}")]
    Damaged {
        /// Which.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
    /// Something was changed.
    #[error("its checksum does not match: something in it was changed or damaged")]
    Checksum,
    /// More comes after the end.
    #[error("something follows its end")]
    Longer,
}

#[derive(Deserialize)]
struct First {
    persys: String,
    v: u32,
}

#[derive(Deserialize)]
struct HeaderLine {
    cluster: Option<Arc<str>>,
    incarnation: u64,
    seq: u64,
    taken_ms: u64,
    records: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: String,
    json: Option<Box<RawValue>>,
    base64: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Last {
    sha256: String,
}

/// Reads a copy, to its end.
pub fn read(from: &mut dyn BufRead) -> Result<Archive, BadArchive> {
    let mut lines = Lines { from, number: 0, total: 0 };
    let mut context = Context::new(&SHA256);
    let first = lines.next()?.ok_or(BadArchive::Foreign)?;
    let header = header(&first)?;
    context.update(&first);
    let expected = header.records.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
    let mut pairs = Pairs::new();
    loop {
        let found = u64::try_from(pairs.len()).unwrap_or(u64::MAX);
        let cut = BadArchive::Cut { found, expected };
        let Some(line) = lines.next()? else { return Err(cut) };
        if !line.ends_with(b"\n") {
            return Err(cut);
        }
        if line.starts_with(b"{\"sha256\":") {
            let last: Last = serde_json::from_slice(&line).map_err(|why| lines.damaged(why))?;
            if last.sha256 != hex(context.finish().as_ref()) {
                return Err(BadArchive::Checksum);
            }
            break;
        }
        context.update(&line);
        let pair = record(&line).map_err(|why| lines.damaged(why))?;
        if pairs.last().is_some_and(|(before, _)| *before >= pair.0) {
            return Err(lines.damaged("its key is not in order"));
        }
        pairs.push(pair);
    }
    if lines.next()?.is_some() {
        return Err(BadArchive::Longer);
    }
    let archive = Archive::new(pairs, header.taken);
    // A sum that fits says that nothing changed since; this, that it was right from the start.
    if archive.header == header {
        Ok(archive)
    } else {
        Err(BadArchive::Damaged {
            line: 1,
            why: "it tells of other records than follow".to_owned(),
        })
    }
}

fn header(line: &[u8]) -> Result<Header, BadArchive> {
    let first: First = serde_json::from_slice(line).map_err(|why| foreign(&why))?;
    if first.persys != "snapshot" {
        return Err(BadArchive::Foreign);
    }
    if first.v > VERSION {
        return Err(BadArchive::Newer { found: first.v });
    }
    let line: HeaderLine = serde_json::from_slice(line)
        .map_err(|why| BadArchive::Damaged { line: 1, why: position(&why) })?;
    Ok(Header {
        cluster: line.cluster,
        incarnation: line.incarnation,
        seq: CommitSeq(line.seq),
        taken: WallMillis(line.taken_ms),
        records: line.records,
    })
}

/// Whatever its first line is, it does not say that it is ours.
fn foreign(_why: &serde_json::Error) -> BadArchive {
    BadArchive::Foreign
}

fn position(why: &serde_json::Error) -> String {
    format!("see column {}", why.column())
}

fn record(line: &[u8]) -> Result<(String, Vec<u8>), String> {
    let Line { key, json, base64 } = serde_json::from_slice(line).map_err(|why| position(&why))?;
    let control = key.chars().any(char::is_control);
    if key.len() > LONGEST_KEY || control || Keys::bare().lasting(&key).is_none() {
        return Err("its key is none that a snapshot holds".to_owned());
    }
    let bytes = match (json, base64) {
        (Some(json), None) => Box::<str>::from(json).into_boxed_bytes().into_vec(),
        (None, Some(coded)) => {
            BASE64_STANDARD.decode(coded).map_err(|why| format!("its base64 is wrong: {why}"))?
        }
        (Some(_), Some(_)) | (None, None) => {
            return Err("it has not exactly one value".to_owned());
        }
    };
    Ok((key, bytes))
}

/// Lines with their ends, counted.
struct Lines<'a> {
    from: &'a mut dyn BufRead,
    number: u64,
    total: u64,
}

impl Lines<'_> {
    fn next(&mut self) -> Result<Option<Vec<u8>>, BadArchive> {
        let mut line = Vec::new();
        let read = (&mut *self.from).take(LONGEST_LINE + 1).read_until(b'\n', &mut line)?;
        let read = u64::try_from(read).unwrap_or(u64::MAX);
        self.number += 1;
        self.total = self.total.saturating_add(read);
        if read > LONGEST_LINE {
            let what = format!("line {} has more than {LONGEST_LINE} bytes", self.number);
            return Err(BadArchive::TooLarge { what });
        }
        if self.total > LARGEST {
            return Err(BadArchive::TooLarge { what: format!("more than {LARGEST} bytes") });
        }
        Ok((read > 0).then_some(line))
    }

    fn damaged(&self, why: impl std::fmt::Display) -> BadArchive {
        BadArchive::Damaged { line: self.number, why: why.to_string() }
    }
}
