//! Moments as text.

use std::time::SystemTime;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A moment as protocols write it.
pub(crate) fn rfc3339(at: SystemTime) -> String {
    OffsetDateTime::from(at).format(&Rfc3339).unwrap_or_default()
}
