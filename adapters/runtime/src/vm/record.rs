//! What libvirt does not keep about a machine: when it was started, how it ended, and what else must
//! be known when the spec is not at hand.
//!
//! libvirt forgets why a machine is off as soon as it is restarted itself, and never knows when a
//! machine was started. Both are told from here. The record is a file beside the machine's console,
//! written whole; one that cannot be read is as good as none, and nothing is concluded from that but
//! that we do not know.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::Error;

const FILE: &str = "machine.json";
/// Largest record that is read.
const BYTES: u64 = 1 << 20;

/// What is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Record {
    /// When it was last started, in milliseconds of the wall clock.
    pub(super) started_ms: Option<u64>,
    /// How that run ended, once somebody saw it.
    pub(super) ended: Option<Ended>,
    /// Length of the console when that run began.
    pub(super) console_from: u64,
    /// Words for a boot that failed for good while libvirt says that the machine runs.
    pub(super) stuck: Option<String>,
    /// Addresses that were given to it for good.
    pub(super) addresses: Vec<IpAddr>,
    /// Its description without our facts: what a running machine would have to be restarted for.
    pub(super) shape: String,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ended {
    /// When that was seen.
    pub(super) at_ms: u64,
    /// As an exit code.
    pub(super) code: i32,
}

impl Record {
    /// The record of the machine whose folder this is.
    pub(super) async fn read(folder: &Path) -> Self {
        let path = folder.join(FILE);
        match tokio::fs::metadata(&path).await {
            Ok(about) if about.len() <= BYTES => {}
            Ok(_) | Err(_) => return Self::default(),
        }
        let bytes = tokio::fs::read(&path).await.unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// Writes it whole, or not at all.
    pub(super) async fn write(&self, folder: &Path) -> Result<(), Error> {
        let failed = |error: &dyn std::fmt::Display| Error::Storage {
            detail: format!("{} cannot be written: {error}", folder.join(FILE).display()),
        };
        let bytes = serde_json::to_vec(self).map_err(|error| failed(&error))?;
        let fresh = folder.join(format!("{FILE}.new"));
        tokio::fs::create_dir_all(folder).await.map_err(|error| failed(&error))?;
        tokio::fs::write(&fresh, bytes).await.map_err(|error| failed(&error))?;
        tokio::fs::rename(&fresh, folder.join(FILE)).await.map_err(|error| failed(&error))
    }
}

impl Record {
    /// Takes it away. None there is what was wanted.
    pub(super) async fn forget(folder: &Path) -> Result<(), Error> {
        match tokio::fs::remove_file(folder.join(FILE)).await {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::Storage { detail: format!("{}: {error}", folder.join(FILE).display()) })
            }
            _ => Ok(()),
        }
    }
}

/// The moment, in milliseconds.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A moment as people and Docker write it.
pub(super) fn moment(ms: u64) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(ms)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_written_is_read_and_a_broken_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("web");
        assert_eq!(Record::read(&folder).await, Record::default());
        let record = Record {
            started_ms: Some(7),
            ended: Some(Ended { at_ms: 9, code: 3 }),
            console_from: 17,
            stuck: Some("nothing to boot".to_owned()),
            addresses: vec!["10.0.0.7".parse().unwrap()],
            shape: "<domain/>".to_owned(),
        };
        record.write(&folder).await.unwrap();
        assert_eq!(Record::read(&folder).await, record);
        tokio::fs::write(folder.join(FILE), b"{\"started_ms\":").await.unwrap();
        assert_eq!(Record::read(&folder).await, Record::default());
    }

    #[test]
    fn moments_are_written_as_docker_writes_them() {
        assert_eq!(moment(1_767_225_600_123), "2026-01-01T00:00:00.123Z");
    }
}
