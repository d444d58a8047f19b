//! What an authority that serves alone is told.

use std::net::SocketAddr;
use std::time::Duration;

use super::read::Reader;
use super::{Setting, Values, telemetry};

pub(crate) const ABOUT: &str = "Let machines join and renew, without a scheduler beside";

#[rustfmt::skip]
pub(crate) const TABLE: &[Setting] = &[
    setting!("listen", ["PERSYS_ENROL_LISTEN"], "0.0.0.0:8086", "Where machines join and renew"),
    setting!("http-addr", ["PERSYS_CA_HTTP_ADDR"], "0.0.0.0:8087", "Where /health and /metrics are; off: nowhere"),
    setting!("schedulers", [], "", "Where members find the schedulers, host:port, several with commas"),
    setting!("cert-ttl", [], "", "How long certificates last; a day when not given"),
    telemetry::ENDPOINT,
    telemetry::INSECURE,
    telemetry::ROOTS,
    telemetry::HEADERS,
    telemetry::SERVICE,
    telemetry::ATTRIBUTES,
    telemetry::SAMPLER,
    telemetry::SHARE,
    telemetry::LEVEL,
    telemetry::FORMAT,
];

/// The folder of the authority, which every command of `persys ca` takes.
#[cfg(test)]
pub(crate) const FOLDER: Setting = setting!(
    "folder",
    ["PERSYS_CA_DIR"],
    "/var/lib/persys/scheduler/ca",
    "Where the authority is kept; a flag or a variable, not a key of the file"
);

/// The configuration.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    /// Where pages are served, if anywhere.
    pub(crate) http: Option<SocketAddr>,
    pub(crate) schedulers: Vec<String>,
    pub(crate) lifetime: Option<Duration>,
}

/// The configuration, or all that is wrong with it.
pub(crate) fn config(values: &Values) -> Result<Config, Vec<String>> {
    let mut read = Reader::new(values);
    let listen = address(&mut read, "listen");
    let http = match values.text("http-addr") {
        "off" => Some(None),
        _ => address(&mut read, "http-addr").map(Some),
    };
    let schedulers = values.text("schedulers").split(',').map(str::trim);
    let schedulers = schedulers.filter(|one| !one.is_empty()).map(str::to_owned).collect();
    let lifetime = read.text("cert-ttl").and_then(|text| match humantime::parse_duration(&text) {
        Ok(lifetime) => Some(lifetime),
        Err(fault) => {
            read.fault("cert-ttl", fault);
            None
        }
    });
    let made = listen.zip(http).map(|(listen, http)| Config { listen, http, schedulers, lifetime });
    read.finish(made)
}

fn address(read: &mut Reader<'_>, key: &str) -> Option<SocketAddr> {
    let text = read.text(key).unwrap_or_default();
    let address = text.parse().ok();
    if address.is_none() {
        read.fault(key, "an address with a port, such as 0.0.0.0:8087");
    }
    address
}

#[cfg(test)]
mod tests {
    use super::super::{command, resolve};
    use super::*;

    fn told(line: &str, variables: &[(&str, &str)]) -> Result<Config, Vec<String>> {
        let words = line.split_whitespace().map(std::ffi::OsString::from);
        let typed = command("x", "x", TABLE).try_get_matches_from(words).unwrap();
        let variable = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        config(&resolve(TABLE, &typed, variable, None).unwrap())
    }

    #[test]
    fn each_setting_reaches_the_configuration() {
        let usual = told("", &[]).unwrap();
        assert_eq!(usual.http, Some(SocketAddr::from(([0, 0, 0, 0], 8087))));
        assert_eq!(told("--http-addr off", &[]).unwrap().http, None);
        let set = [("PERSYS_ENROL_LISTEN", "127.0.0.1:1"), ("PERSYS_CA_HTTP_ADDR", "127.0.0.1:2")];
        let config = told("--schedulers a:1,b:2 --cert-ttl 2h", &set).unwrap();
        assert_eq!(config.listen.port(), 1);
        assert_eq!(config.http.unwrap().port(), 2);
        assert_eq!(config.schedulers, ["a:1", "b:2"]);
        assert_eq!(config.lifetime, Some(Duration::from_hours(2)));
        let faults = told("--listen here --http-addr there --cert-ttl soon", &[]).unwrap_err();
        assert_eq!(faults.len(), 3, "{faults:?}");
    }
}
