//! Where spans go: a collector, by OTLP over gRPC.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use prost::Message as _;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::Request;
use tonic::codegen::http::Uri;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

use super::otlp;
use super::queue::{Batch, Collector, Counts, Flush, Rest, queue};
use super::trail::{Recorder, Trail};

/// How long the collector may take to be reached.
const REACH: Duration = Duration::from_secs(5);

/// Largest file of roots that is read.
const LARGEST_ROOTS: u64 = 1024 * 1024;
/// Largest answer that is read.
const LARGEST_ANSWER: usize = 64 * 1024;

/// What to write down of what nobody has decided about yet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// This share of the traces that begin here, from 0 to 1.
    pub ratio: f64,
    /// Whether the decision of whoever calls counts.
    pub follows: bool,
}

impl Sampling {
    /// What the two usual variables say: one of six names, and a share for those that take one.
    pub fn parse(name: &str, share: &str) -> Result<Self, String> {
        let (follows, kind) = match name.strip_prefix("parentbased_") {
            Some(kind) => (true, kind),
            None => (false, name),
        };
        let ratio = match kind {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => match share.parse::<f64>() {
                Ok(share) if (0.0..=1.0).contains(&share) => share,
                Ok(_) | Err(_) => return Err(format!("the share {share:?} is not from 0 to 1")),
            },
            _ => {
                return Err(
                    "always_on, always_off or traceidratio, with parentbased_ in front where \
                            the caller's decision counts"
                        .to_owned(),
                );
            }
        };
        Ok(Self { ratio, follows })
    }

    /// Whether this trace is of those that are written down. Whoever has the same share says the same.
    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of all numbers of 63 bits; the last digits do not matter"
    )]
    pub(super) fn takes(self, trace: u128) -> bool {
        let most = (self.ratio * (1_u64 << 63) as f64) as u64;
        (trace as u64) >> 1 < most
    }
}

/// Names and values that others gave: `name=value,name=value`, with `%20` and the like where needed.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Pairs(Vec<(String, String)>);

impl fmt::Debug for Pairs {
    /// Values may be passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl Pairs {
    /// Reads them; what is wrong is said without a value.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pairs = Vec::new();
        for (nth, pair) in text.split(',').map(str::trim).enumerate() {
            if pair.is_empty() {
                continue;
            }
            let bad = || format!("part {} is not name=value", nth + 1);
            let (name, value) = pair.split_once('=').ok_or_else(bad)?;
            let name = name.trim();
            let value = percent_decode_str(value.trim()).decode_utf8().ok().ok_or_else(bad)?;
            if name.is_empty() || value.chars().any(char::is_control) {
                return Err(bad());
            }
            pairs.push((name.to_owned(), value.into_owned()));
        }
        Ok(Self(pairs))
    }

    /// The same, to be sent with every message.
    pub fn parse_headers(text: &str) -> Result<Self, String> {
        let pairs = Self::parse(text)?;
        pairs.headers()?;
        Ok(pairs)
    }

    fn headers(&self) -> Result<MetadataMap, String> {
        let mut headers = MetadataMap::new();
        for (name, value) in &self.0 {
            let key = AsciiMetadataKey::from_bytes(name.to_ascii_lowercase().as_bytes());
            let value = AsciiMetadataValue::try_from(value.as_str());
            let (Ok(key), Ok(value)) = (key, value) else {
                return Err(format!("{name:?} and what belongs to it are no header"));
            };
            headers.insert(key, value);
        }
        Ok(headers)
    }
}

/// What is said about exporting.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The collector.
    pub endpoint: Uri,
    /// Roots to trust for it; the system's when not given.
    pub roots: Option<PathBuf>,
    /// What this process is called in traces.
    pub service: String,
    /// Which of several of the same name it is.
    pub instance: Option<String>,
    /// What else is said of it there.
    pub attributes: Pairs,
    /// What is sent with every message, such as a password.
    pub headers: Pairs,
    /// What is written down.
    pub sampling: Sampling,
}

impl Settings {
    /// An endpoint as it is usually written: `http://host:4317`, or `host:4317`, which is without TLS
    /// where `insecure` says so.
    pub fn endpoint(text: &str, insecure: bool) -> Result<Uri, String> {
        let whole = match text.split_once("://") {
            Some(_) => text.to_owned(),
            None if insecure => format!("http://{text}"),
            None => format!("https://{text}"),
        };
        let uri: Uri = whole.parse().map_err(|error| format!("host:port is one: {error}"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err("only http and https are known".to_owned());
        }
        if uri.port_u16() == Some(14268) || uri.path().starts_with("/api/traces") {
            return Err("this is Jaeger's own protocol; its port for OTLP is 4317".to_owned());
        }
        if uri.host().is_none_or(str::is_empty) || uri.path().len() > 1 {
            return Err("a collector that speaks gRPC is host:port, without a path".to_owned());
        }
        Ok(uri)
    }
}

/// Why nothing can be exported.
#[derive(Debug, thiserror::Error)]
pub enum BadSettings {
    /// The roots cannot be read.
    #[error("{} cannot be read", path.display())]
    Roots {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The way to the collector is not one.
    #[error("spans cannot be exported: {0}")]
    Exporter(String),
}

/// Spans on their way to a collector. Dropping it loses those that still wait.
pub struct Exporting {
    home: Trail,
    flush: Flush,
    counts: Arc<Counts>,
    work: JoinHandle<()>,
}

impl fmt::Debug for Exporting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporting").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Drop for Exporting {
    fn drop(&mut self) {
        self.work.abort();
    }
}

impl Exporting {
    /// Where spans of this process begin.
    #[must_use]
    pub fn home(&self) -> Trail {
        self.home.clone()
    }

    /// How many spans the collector has taken.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.counts.sent.load(Ordering::Relaxed)
    }

    /// How many it has not.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::Relaxed)
    }

    /// Sends what still waits, for so long at most. Says whether it came to the end of it; what the
    /// collector did not take is counted.
    pub async fn flush(&self, longest: Duration) -> bool {
        let (done, until) = oneshot::channel();
        let flushed = async { self.flush.send(done).await.is_ok() && until.await.is_ok() };
        timeout(longest, flushed).await.unwrap_or(false)
    }
}

/// Begins to export. The collector is not waited for.
pub fn export(settings: &Settings) -> Result<Exporting, BadSettings> {
    let bad = |error: &dyn fmt::Display| BadSettings::Exporter(error.to_string());
    let mut endpoint = Endpoint::from(settings.endpoint.clone()).connect_timeout(REACH);
    if settings.endpoint.scheme_str() == Some("https") {
        endpoint = endpoint.tls_config(tls(settings)?).map_err(|error| bad(&error))?;
    }
    let collector = Otlp {
        channel: endpoint.connect_lazy(),
        headers: settings.headers.headers().map_err(|error| bad(&error))?,
        sender: otlp::Sender::new(resource(settings)),
    };
    let (queue, flush, counts, work) = queue(collector);
    let recorder = Recorder::new(queue, settings.sampling);
    let work = tokio::spawn(work);
    Ok(Exporting { home: Trail::home(recorder), flush, counts, work })
}

/// Who sends spans. What is said of it elsewhere does not outdo what it is called.
fn resource(settings: &Settings) -> Vec<(&str, &str)> {
    let mut all = vec![
        ("service.name", settings.service.as_str()),
        ("service.version", env!("CARGO_PKG_VERSION")),
    ];
    all.extend(settings.instance.as_deref().map(|instance| ("service.instance.id", instance)));
    let own = all.len();
    for (name, value) in &settings.attributes.0 {
        if all.iter().take(own).all(|(own, _)| own != name) {
            all.push((name, value));
        }
    }
    all
}

/// A collector that speaks OTLP over gRPC.
struct Otlp {
    channel: Channel,
    headers: MetadataMap,
    sender: otlp::Sender,
}

impl Collector for Otlp {
    async fn take(&self, batch: &Batch) -> Result<Option<Rest>, String> {
        let mut request = Request::new(self.sender.request(&batch.spans));
        *request.metadata_mut() = self.headers.clone();
        let channel = self.channel.clone();
        let asked = persys_codec::raw::unary(channel, otlp::EXPORT, request, LARGEST_ANSWER);
        let answer = asked.await.map_err(|status| status.to_string())?;
        // An answer that is not understood is an answer all the same.
        let taken = otlp::Taken::decode(answer.into_inner()).unwrap_or_default();
        let rest = taken.partly.map(|partly| {
            let count = u64::try_from(partly.rejected).unwrap_or(0);
            Rest { count, why: partly.why }
        });
        Ok(rest.filter(|rest| rest.count > 0))
    }
}

fn tls(settings: &Settings) -> Result<ClientTlsConfig, BadSettings> {
    let Some(path) = &settings.roots else {
        return Ok(ClientTlsConfig::new().with_native_roots());
    };
    let failed = |source| BadSettings::Roots { path: path.clone(), source };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > LARGEST_ROOTS {
        let why = format!("{size} bytes are more than the {LARGEST_ROOTS} roots may have");
        return Err(failed(std::io::Error::other(why)));
    }
    let pem = std::fs::read(path).map_err(failed)?;
    Ok(ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_taken_as_they_are_usually_written() {
        for (text, insecure, wanted) in [
            ("collector:4317", true, "http://collector:4317/"),
            ("collector:4317", false, "https://collector:4317/"),
            ("http://collector:4317", false, "http://collector:4317/"),
            ("https://collector:4317/", true, "https://collector:4317/"),
            ("[::1]:4317", true, "http://[::1]:4317/"),
        ] {
            assert_eq!(Settings::endpoint(text, insecure).unwrap().to_string(), wanted, "{text}");
        }
        for (text, why) in [
            ("http://jaeger:14268/api/traces", "4317"),
            ("grpc://collector:4317", "http and https"),
            ("http://collector:4318/v1/traces", "without a path"),
            ("a b", "host:port"),
        ] {
            let fault = Settings::endpoint(text, true).unwrap_err();
            assert!(fault.contains(why), "{text}: {fault}");
        }
    }

    #[test]
    fn what_is_written_down_is_said_by_name_and_share() {
        let follows = |ratio| Ok(Sampling { ratio, follows: true });
        assert_eq!(Sampling::parse("parentbased_always_on", ""), follows(1.0));
        assert_eq!(Sampling::parse("parentbased_traceidratio", "0.25"), follows(0.25));
        assert_eq!(Sampling::parse("always_off", "x"), Ok(Sampling { ratio: 0.0, follows: false }));
        assert!(Sampling::parse("traceidratio", "2").unwrap_err().contains("\"2\""));
        assert!(Sampling::parse("sometimes", "").unwrap_err().contains("always_on"));
    }

    #[test]
    fn a_share_is_that_of_the_traces() {
        let takes = |ratio, trace| Sampling { ratio, follows: true }.takes(trace);
        for trace in [0, 1, 5 << 64, u128::MAX] {
            assert!(takes(1.0, trace) && !takes(0.0, trace), "{trace}");
        }
        // The lower half of a number decides, as in every other program.
        assert!(takes(0.5, u128::MAX << 64 | 1 << 62) && !takes(0.5, 1 << 63));
        let keys = std::hash::RandomState::new();
        let number = |nth: u32| u128::from(std::hash::BuildHasher::hash_one(&keys, nth));
        let count = (0..20_000).filter(|nth| takes(0.1, number(*nth))).count();
        assert!((1_700..2_300).contains(&count), "{count}");
    }

    #[test]
    fn pairs_are_taken_as_they_are_usually_written() {
        let pairs = Pairs::parse("a=b, Authorization=Bearer%20geheim=,,c = d").unwrap();
        let [a, b, c] = pairs.0.as_slice() else { panic!("{pairs:?}") };
        assert_eq!((a.0.as_str(), a.1.as_str()), ("a", "b"));
        assert_eq!((b.0.as_str(), b.1.as_str()), ("Authorization", "Bearer geheim="));
        assert_eq!((c.0.as_str(), c.1.as_str()), ("c", "d"));
        assert!(!format!("{pairs:?}").contains("geheim"));
        let headers = pairs.headers().unwrap();
        assert_eq!(headers.get("authorization").unwrap(), "Bearer geheim=");
        assert_eq!(Pairs::parse("").unwrap(), Pairs::default());
        for (bad, why) in [
            ("a=b,geheim", "part 2"),
            ("=b", "part 1"),
            ("a=%0d%0a", "part 1"),
            ("a=%ff", "part 1"),
        ] {
            let said = Pairs::parse(bad).unwrap_err();
            assert!(said.contains(why) && !said.contains("geheim"), "{bad}: {said}");
        }
        assert!(Pairs::parse_headers("a b=c").unwrap_err().contains("no header"));
    }

    #[test]
    fn a_process_is_called_as_it_was_told_whatever_else_is_said_of_it() {
        let settings = Settings {
            endpoint: Settings::endpoint("c:4317", true).unwrap(),
            roots: None,
            service: "own".to_owned(),
            instance: Some("n1".to_owned()),
            attributes: Pairs::parse("deployment.environment=lab,service.name=other").unwrap(),
            headers: Pairs::default(),
            sampling: Sampling { ratio: 1.0, follows: true },
        };
        let names: Vec<_> = resource(&settings).into_iter().map(|(name, _)| name).collect();
        let wanted =
            ["service.name", "service.version", "service.instance.id", "deployment.environment"];
        assert_eq!(names, wanted);
    }
}
