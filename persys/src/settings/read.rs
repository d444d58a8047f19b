//! Values as what they stand for; whatever is wrong is collected, so that all of it can be said.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::Values;

/// From where a component is to be reached when nobody says more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    ThisMachine,
    Anywhere,
}

impl Reach {
    /// Without certificates only from here, unless somebody insists.
    pub(crate) fn of(insecure: bool, anywhere: bool) -> Self {
        if insecure && !anywhere { Self::ThisMachine } else { Self::Anywhere }
    }
}

/// Reads settings and remembers what is wrong with them.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    values: &'a Values,
    faults: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(values: &'a Values) -> Self {
        Self { values, faults: Vec::new() }
    }

    /// What was made of it, if nothing was wrong.
    pub(crate) fn finish<T>(self, made: Option<T>) -> Result<T, Vec<String>> {
        match made {
            Some(made) if self.faults.is_empty() => Ok(made),
            Some(_) | None => Err(self.faults),
        }
    }

    pub(crate) fn fault(&mut self, key: &str, why: impl std::fmt::Display) {
        let value = self.values.shown(key);
        self.faults.push(format!("{key} = {value:?}: {why}"));
    }

    pub(crate) fn text(&self, key: &str) -> Option<String> {
        let text = self.values.text(key).trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    pub(crate) fn path(&self, key: &str) -> PathBuf {
        PathBuf::from(self.values.text(key))
    }

    pub(crate) fn switch(&mut self, key: &str) -> bool {
        match self.values.text(key).to_lowercase().as_str() {
            "true" | "yes" | "1" => true,
            "false" | "no" | "0" | "" => false,
            _ => {
                self.fault(key, "true or false");
                false
            }
        }
    }

    /// An address and a port from two settings. Without certificates that is this machine alone,
    /// unless somebody named an address or insists.
    pub(crate) fn address(&mut self, ip: &str, port: &str, reach: Reach) -> Option<SocketAddr> {
        let host = self.parsed::<IpAddr>(ip, "an address such as 0.0.0.0");
        let port = self.parsed::<u16>(port, "a port from 0 to 65535");
        let local = reach == Reach::ThisMachine && !self.values.is_given(ip);
        let host = if local { host.map(|_| Ipv4Addr::LOCALHOST.into()) } else { host };
        Some(SocketAddr::new(host?, port?))
    }

    /// A Go duration, or bare seconds.
    pub(crate) fn duration_ms(&mut self, key: &str) -> u64 {
        let text = self.values.text(key);
        let parsed = match text.parse::<u64>() {
            Ok(seconds) => Some(Duration::from_secs(seconds)),
            Err(_) => humantime::parse_duration(text).ok().or_else(|| go_duration(text)),
        };
        let millis = parsed.and_then(|duration| u64::try_from(duration.as_millis()).ok());
        millis.unwrap_or_else(|| {
            self.fault(key, "a duration such as 30s, or seconds");
            0
        })
    }

    /// The same, for what is done again and again: not more often than this.
    pub(crate) fn interval_ms(&mut self, key: &str, least: u64) -> u64 {
        let interval = self.duration_ms(key);
        if interval < least && self.faults.iter().all(|fault| !fault.starts_with(key)) {
            let least = humantime::format_duration(Duration::from_millis(least));
            self.fault(key, format!("at least {least}"));
        }
        interval
    }

    pub(crate) fn percent(&mut self, key: &str) -> u64 {
        match self.parsed::<u64>(key, "a percentage from 0 to 100") {
            Some(value) if value <= 100 => value,
            Some(_) => {
                self.fault(key, "a percentage from 0 to 100");
                0
            }
            None => 0,
        }
    }

    /// `k=v,k=v`.
    pub(crate) fn pairs(&mut self, key: &str) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for part in self.values.text(key).split(',').map(str::trim).filter(|part| !part.is_empty())
        {
            match part.split_once('=') {
                Some((name, value)) if !name.trim().is_empty() => {
                    pairs.push((name.trim().to_owned(), value.trim().to_owned()));
                }
                Some(_) | None => self.fault(key, format!("{part:?} is not name=value")),
            }
        }
        pairs
    }

    /// `a,b,c`.
    pub(crate) fn list(&self, key: &str) -> Vec<String> {
        let parts = self.values.text(key).split(',').map(str::trim);
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    /// A value that need not be given.
    pub(crate) fn perhaps<T: std::str::FromStr>(&mut self, key: &str, wanted: &str) -> Option<T> {
        self.text(key)?;
        self.parsed(key, wanted)
    }

    fn parsed<T: std::str::FromStr>(&mut self, key: &str, wanted: &str) -> Option<T> {
        let parsed = self.values.text(key).trim().parse().ok();
        if parsed.is_none() {
            self.fault(key, wanted);
        }
        parsed
    }
}

/// A duration with fractions, as Go writes it: `1.5h`, `2m0.5s`.
fn go_duration(text: &str) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at_checked(number)?;
        let end = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at_checked(end)?;
        let seconds = match unit {
            "h" => 3_600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        sum = sum.checked_add(part)?;
        rest = behind;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_go_have_fractions() {
        for (text, ms) in
            [("1.5h", 5_400_000), ("2m0.5s", 120_500), ("0.25s", 250), ("1h1ms", 3_600_001)]
        {
            assert_eq!(go_duration(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", "1", "s", "1.5", "1.5.5s", "-1s", "1 s", "1x", "."] {
            assert_eq!(go_duration(bad), None, "{bad}");
        }
    }
}
