//! Moments and lengths of time as people read them.

use persys_model::time::WallMillis;

/// The moment in UTC, as RFC 3339 has it.
pub(crate) fn rfc3339(at: WallMillis) -> String {
    at.rfc3339()
}

/// How long ago `then` was, in two units at most.
pub(crate) fn ago(then: WallMillis, now: WallMillis) -> String {
    length(now.0.saturating_sub(then.0) / 1000)
}

/// So many seconds, in two units at most.
pub(crate) fn length(seconds: u64) -> String {
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {seconds}s"),
        (0, _, _) => format!("{hours}h {minutes}m"),
        (_, _, _) => format!("{days}d {hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_people_read_them() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_001, "2024-02-29T23:59:59.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(WallMillis(ms)), text);
        }
    }

    #[test]
    fn lengths_have_two_units_at_most() {
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (61, "1m 1s"), (3_600, "1h 0m"), (90_061, "1d 1h")]
        {
            assert_eq!(length(seconds), text);
        }
        assert_eq!(ago(WallMillis(5_000), WallMillis(1_000)), "0s");
    }
}
