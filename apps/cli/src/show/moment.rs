//! Moments and how long ago they were.

use std::time::{Duration, SystemTime};

use prost_types::Timestamp;

/// The moment as the system counts; `None` for one that is none.
pub(crate) fn system_time(moment: &Timestamp) -> Option<SystemTime> {
    SystemTime::try_from(*moment).ok()
}

/// How long ago, in the largest unit that fits: `5s`, `3m`, `2h`, `9d`.
pub(crate) fn age(moment: Option<&Timestamp>, now: SystemTime) -> String {
    let Some(then) = moment.and_then(system_time) else { return "-".to_owned() };
    length(now.duration_since(then).unwrap_or_default())
}

/// A length in its largest unit.
pub(crate) fn length(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The moment, to the second.
pub(crate) fn clock(moment: Option<&Timestamp>) -> String {
    match moment.and_then(system_time) {
        Some(then) => now_text(then),
        None => "-".to_owned(),
    }
}

/// Now, to the second.
pub(crate) fn now_text(now: SystemTime) -> String {
    humantime::format_rfc3339_seconds(now).to_string()
}

/// `10m` (ago), or a moment.
pub(crate) fn since(text: &str, now: SystemTime) -> Result<Timestamp, String> {
    if let Ok(length) = crate::sizes::duration(text) {
        return Ok(Timestamp::from(now.checked_sub(length).unwrap_or(SystemTime::UNIX_EPOCH)));
    }
    let moment = humantime::parse_rfc3339_weak(text).map_err(|why| {
        format!("{text:?} is no time; write 10m, 2h or 2026-01-31T12:00:00Z ({why})")
    })?;
    Ok(Timestamp::from(moment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_use_the_largest_unit() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        assert_eq!(age(at(999_990).as_ref(), now), "10s");
        assert_eq!(age(at(999_000).as_ref(), now), "16m");
        assert_eq!(age(at(900_000).as_ref(), now), "27h");
        assert_eq!(age(at(0).as_ref(), now), "11d");
        assert_eq!(age(at(2_000_000).as_ref(), now), "0s", "a clock ahead of ours");
        assert_eq!(age(None, now), "-");
    }

    #[test]
    fn since_takes_a_length_or_a_moment() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        assert_eq!(since("10m", now).unwrap().seconds, 400);
        assert_eq!(since("1970-01-01T00:00:07Z", now).unwrap().seconds, 7);
        assert!(since("yesterday", now).is_err());
    }
}
