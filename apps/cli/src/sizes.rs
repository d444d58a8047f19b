//! Amounts as people write them.

use std::time::Duration;

pub(crate) use persys_proto::manifest::sizes::{cpu, disk, memory};

/// `20`, `20s`, `1m30s`; a bare number is in seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().map(Duration::from_secs);
    let parsed = seconds.or_else(|| humantime::parse_duration(text).ok());
    parsed
        .filter(|length| !length.is_zero() && *length <= LONGEST)
        .ok_or_else(|| format!("{text:?} is no length of time; write 20, 20s or 1m30s"))
}

/// Nobody waits longer.
const LONGEST: Duration = Duration::from_hours(24 * 30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_or_are_seconds() {
        assert_eq!(duration("20"), Ok(Duration::from_secs(20)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        for text in ["", "0", "soon", "-1", "10y"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
