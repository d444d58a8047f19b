//! Moments, as people read them. No decision rests on one.

use persys_model::time::WallMillis;
use prost_types::Timestamp;

/// The moment on the wire.
#[must_use]
pub fn timestamp(at: WallMillis) -> Timestamp {
    let nanos = at.0 % 1000 * 1_000_000;
    Timestamp {
        seconds: i64::try_from(at.0 / 1000).unwrap_or(i64::MAX),
        nanos: i32::try_from(nanos).unwrap_or_default(),
    }
}

/// The moment on the wire, later by `ms`.
#[must_use]
pub fn timestamp_after(at: WallMillis, ms: u64) -> Timestamp {
    timestamp(WallMillis(at.0.saturating_add(ms)))
}

/// The moment as RFC 3339 writes it, in UTC.
#[must_use]
pub fn rfc3339(at: WallMillis) -> String {
    timestamp(at).to_string()
}

/// Unix seconds, as the agent package has them.
#[must_use]
pub fn unix_seconds(at: WallMillis) -> i64 {
    i64::try_from(at.0 / 1000).unwrap_or(i64::MAX)
}

/// The moment a peer wrote; before 1970 is 1970, for it is only shown.
#[must_use]
pub fn wall(at: &Timestamp) -> WallMillis {
    let seconds = u64::try_from(at.seconds).unwrap_or_default();
    let ms = u64::try_from(at.nanos / 1_000_000).unwrap_or_default();
    WallMillis(seconds.saturating_mul(1000).saturating_add(ms))
}
