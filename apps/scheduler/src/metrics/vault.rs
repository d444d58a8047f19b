//! Secrets that are read from Vault.

use std::time::Duration;

use persys_identity::vault::ReadFault;
use persys_metrics::{Counters, Families, Gauge};

/// Reads from Vault, by how they went, and the age of what was read.
#[derive(Debug)]
pub(crate) struct VaultReads {
    reads: Counters<1>,
    oldest: Gauge,
}

impl Default for VaultReads {
    fn default() -> Self {
        Self::new(&mut Families::new("persys_scheduler"))
    }
}

impl VaultReads {
    pub(super) fn new(all: &mut Families) -> Self {
        let reads = all.counters(
            "vault_secret_reads_total",
            "Reads of secrets from Vault, by how they went",
            ["result"],
        );
        let oldest = all.gauge(
            "vault_secret_oldest_age_seconds",
            "Time since Vault confirmed the secret that it confirmed longest ago; 0 without such secrets",
        );
        let words = ["ok", "missing", "forbidden", "sealed", "field", "away"];
        Self { reads: reads.preset(words.map(|word| [word])), oldest }
    }

    /// One more read.
    pub(crate) fn count(&self, read: Result<(), ReadFault>) {
        let word = match read {
            Ok(()) => "ok",
            Err(ReadFault::Missing) => "missing",
            Err(ReadFault::Forbidden) => "forbidden",
            Err(ReadFault::Sealed) => "sealed",
            Err(ReadFault::Field) => "field",
            Err(ReadFault::Away) => "away",
        };
        self.reads.inc([word]);
    }

    /// The age of the value that was confirmed longest ago.
    pub(crate) fn oldest(&self, age: Duration) {
        self.oldest.set(i64::try_from(age.as_secs()).unwrap_or(i64::MAX));
    }
}
