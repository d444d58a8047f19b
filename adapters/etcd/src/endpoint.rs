//! Where one member of etcd listens.

use std::fmt;
use std::str::FromStr;

use tonic::transport::Uri;

/// An address that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no endpoint of etcd: write host:port, with http:// or https:// if you like")]
pub struct BadEndpoint {
    text: String,
}

/// `host:port`. What is written before it says whether TLS is wanted; if nothing is, the settings
/// say so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
    /// `https://`, `http://`, or neither.
    pub(crate) tls: Option<bool>,
}

impl Endpoint {
    /// The host without brackets.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for Endpoint {
    type Err = BadEndpoint;

    fn from_str(text: &str) -> Result<Self, BadEndpoint> {
        let bad = || BadEndpoint { text: text.to_owned() };
        let trimmed = text.trim();
        let (tls, rest) = match trimmed.split_once("://") {
            Some(("http", rest)) => (Some(false), rest),
            Some(("https", rest)) => (Some(true), rest),
            Some(_) => return Err(bad()),
            None => (None, trimmed),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let uri: Uri = format!("http://{rest}").parse().ok().ok_or_else(bad)?;
        // Whoever writes a name and password here would find them in logs.
        let plain = uri.path() == "/" && uri.query().is_none() && !rest.contains('@');
        match (uri.host(), uri.port_u16()) {
            (Some(host), Some(port)) if plain && !host.is_empty() => {
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                Ok(Self { host, port, tls })
            }
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_may_be_written_in_several_ways() {
        for (text, shown, tls) in [
            ("localhost:2379", "localhost:2379", None),
            (" http://10.0.0.1:2379/ ", "10.0.0.1:2379", Some(false)),
            ("https://etcd.example:443", "etcd.example:443", Some(true)),
            ("[::1]:2379", "[::1]:2379", None),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!((endpoint.to_string().as_str(), endpoint.tls), (shown, tls), "{text}");
        }
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        for text in [
            "",
            "localhost",
            ":2379",
            "ftp://a:1",
            "a:99999",
            "a:1/path",
            "u:p@a:1",
            "a b:1",
            "a:1?x",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}
