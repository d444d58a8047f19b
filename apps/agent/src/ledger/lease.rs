//! The lease file, as a watchdog reads it.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use persys_model::time::Millis;

use super::record;

pub(super) const LEASE: &str = "lease";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// A lease is far smaller; whatever is larger is none.
const MOST_BYTES: u64 = 4096;

/// What the lease file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lease {
    /// Exclusive work may run until this moment of this boot.
    Until(Millis),
    /// Nobody was granted anything since the machine started: there is no file, or it is from an
    /// earlier start.
    Void,
    /// The file cannot be read or is no lease. It grants nothing, and it takes back nothing that an
    /// earlier one granted.
    Unreadable,
}

/// The present start of the machine; empty if the system does not say.
pub(crate) fn boot_id() -> String {
    fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned()
}

/// Reads the lease in `dir`, for the start of the machine called `boot`.
#[must_use]
pub fn read(dir: &Path, boot: &str) -> Lease {
    let bytes = match read_bytes(&dir.join(LEASE)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Lease::Void,
        Err(_) => return Lease::Unreadable,
    };
    match record::read_lease(&bytes) {
        // A system that names no start cannot tell one from another.
        Ok((of, until)) if of == boot && !boot.is_empty() => Lease::Until(until),
        Ok(_) => Lease::Void,
        Err(_) => Lease::Unreadable,
    }
}

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lease_of_this_boot_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let with = |text: &str| {
            fs::write(dir.path().join(LEASE), text).unwrap();
            read(dir.path(), "b1")
        };
        assert_eq!(read(dir.path(), "b1"), Lease::Void, "no file");
        let good = r#"{"v":1,"boot":"b1","fence_at_ms":7}"#;
        assert_eq!(with(good), Lease::Until(Millis(7)));
        assert_eq!(read(dir.path(), ""), Lease::Void);
        assert_eq!(with(r#"{"v":1,"boot":"b0","fence_at_ms":7}"#), Lease::Void);
        for garbage in ["", "{", "\u{0}\u{0}", r#"{"v":2,"boot":"b1"}"#, &" ".repeat(1 << 20)] {
            assert_eq!(with(garbage), Lease::Unreadable);
        }
        assert_eq!(read(&dir.path().join("gone"), "b1"), Lease::Void);
    }
}
