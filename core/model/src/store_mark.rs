//! Proof of how far the store had come.
//!
//! A scheduler hands agents a mark of the last durable commit, with a MAC under a key that only the
//! store holds. Agents keep the latest mark and show it to every leadership. A store that knows less
//! than a genuine mark is older than it was, whatever the scheduler itself remembers.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::token::{CommitSeq, Epoch, Term};

const BLOCK: usize = 64;
const MAC: usize = 32;
const NUMBERS: usize = 32;
/// Length of the first and only format, with its leading version byte.
const LENGTH: usize = 1 + NUMBERS + MAC;
const VERSION: u8 = 1;

/// A mark as agents keep it: numbers that anybody can read, and a MAC that only schedulers can check.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreMark(Arc<[u8]>);

/// The numbers in a mark, all of one moment at which they were durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Marked {
    /// Rebuildings of the cluster.
    pub incarnation: u64,
    /// Last commit.
    pub seq: CommitSeq,
    /// Leadership that made the mark, as agents see terms.
    pub term: Term,
    /// Highest epoch given out.
    pub epoch: Epoch,
}

impl Marked {
    /// Makes the mark under the key of a cluster.
    #[must_use]
    pub fn seal(&self, key: &str, cluster: &str) -> StoreMark {
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.push(VERSION);
        for number in [self.incarnation, self.seq.0, self.term.0, self.epoch.0] {
            bytes.extend(number.to_be_bytes());
        }
        let mac = mac(key, cluster, &bytes);
        bytes.extend(mac);
        StoreMark(Arc::from(bytes))
    }
}

impl StoreMark {
    /// Takes a mark from the wire or a ledger; `None` if it has no known format.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let known = bytes.len() == LENGTH && bytes.first() == Some(&VERSION);
        known.then(|| Self(Arc::from(bytes)))
    }

    /// The bytes for the wire or a ledger.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The numbers as they stand there, whether or not they are genuine.
    #[must_use]
    pub fn claims(&self) -> Marked {
        let number = |at: usize| {
            let from = 1 + at * 8;
            let bytes = self.0.get(from..from + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u64::from_be_bytes).unwrap_or_default()
        };
        Marked {
            incarnation: number(0),
            seq: CommitSeq(number(1)),
            term: Term(number(2)),
            epoch: Epoch(number(3)),
        }
    }

    /// The numbers, if a scheduler of this cluster made the mark.
    #[must_use]
    pub fn verify(&self, key: &str, cluster: &str) -> Option<Marked> {
        let (said, proof) = self.0.split_at_checked(1 + NUMBERS)?;
        let expected = mac(key, cluster, said);
        // Every byte is compared, so that the time taken tells nothing.
        let differ = expected.iter().zip(proof).fold(0, |all, (one, other)| all | (one ^ other));
        let genuine = !key.is_empty() && proof.len() == MAC && differ == 0;
        genuine.then(|| self.claims())
    }
}

impl fmt::Debug for StoreMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Marked { incarnation, seq, term, epoch } = self.claims();
        write!(f, "mark {incarnation}/{seq} of term {term}, epoch {epoch}")
    }
}

/// HMAC-SHA256 over the cluster's identity and `said`.
fn mac(key: &str, cluster: &str, said: &[u8]) -> [u8; MAC] {
    let key: [u8; MAC] = Sha256::digest(key.as_bytes()).into();
    let padded = |with: u8| {
        let mut block = [with; BLOCK];
        for (byte, key) in block.iter_mut().zip(key) {
            *byte ^= key;
        }
        block
    };
    let inner = Sha256::new()
        .chain_update(padded(0x36))
        .chain_update(b"persys store mark\0")
        .chain_update(cluster.as_bytes())
        .chain_update([0])
        .chain_update(said)
        .finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Marked {
        Marked { incarnation: 2, seq: CommitSeq(70), term: Term(9), epoch: Epoch(31) }
    }

    #[test]
    fn a_mark_is_genuine_under_its_own_key_and_cluster_only() {
        let mark = sample().seal("k", "c");
        assert_eq!(mark.verify("k", "c"), Some(sample()));
        assert_eq!(mark.verify("other", "c"), None);
        assert_eq!(mark.verify("k", "other"), None);
        assert_eq!(sample().seal("", "c").verify("", "c"), None, "no key proves nothing");
    }

    #[test]
    fn every_changed_byte_spoils_a_mark() {
        let mark = sample().seal("k", "c");
        for at in 0..mark.as_bytes().len() {
            let mut bytes = mark.as_bytes().to_vec();
            bytes[at] ^= 1;
            let changed = StoreMark::from_bytes(&bytes);
            assert_eq!(changed.and_then(|mark| mark.verify("k", "c")), None, "byte {at}");
        }
    }

    #[test]
    fn bytes_of_another_length_are_no_mark() {
        let bytes = sample().seal("k", "c").as_bytes().to_vec();
        assert!(StoreMark::from_bytes(&bytes).is_some());
        assert_eq!(StoreMark::from_bytes(&bytes[1..]), None);
        assert_eq!(StoreMark::from_bytes(&[]), None);
    }
}
