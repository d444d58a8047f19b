//! Where spans go: a collector, by OTLP over gRPC.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::codegen::http::Uri;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

use super::queue::{Counts, Flush, queue};
use super::trail::{Recorder, Trail};

/// How long the collector may take to be reached.
const REACH: Duration = Duration::from_secs(5);

/// Largest file of roots that is read.
const LARGEST_ROOTS: u64 = 1024 * 1024;

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

    fn sampler(self) -> Sampler {
        let own = Sampler::TraceIdRatioBased(self.ratio);
        if self.follows { Sampler::ParentBased(Box::new(own)) } else { own }
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
    /// The library does not take it.
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

impl std::fmt::Debug for Exporting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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

    /// Sends what still waits, for so long at most. Says whether all of it was sent.
    pub async fn flush(&self, longest: Duration) -> bool {
        let (done, until) = oneshot::channel();
        let flushed = async { self.flush.send(done).await.is_ok() && until.await.is_ok() };
        timeout(longest, flushed).await.unwrap_or(false)
    }
}

/// Begins to export. The collector is not waited for.
pub fn export(settings: &Settings) -> Result<Exporting, BadSettings> {
    let bad = |error: &dyn std::fmt::Display| BadSettings::Exporter(error.to_string());
    let mut endpoint = Endpoint::from(settings.endpoint.clone()).connect_timeout(REACH);
    if settings.endpoint.scheme_str() == Some("https") {
        endpoint = endpoint.tls_config(tls(settings)?).map_err(|error| bad(&error))?;
    }
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_channel(endpoint.connect_lazy())
        .build()
        .map_err(|error| bad(&error))?;
    let mut resource = Resource::builder()
        .with_service_name(settings.service.clone())
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    if let Some(instance) = &settings.instance {
        resource = resource.with_attribute(KeyValue::new("service.instance.id", instance.clone()));
    }
    let resource = resource.build();
    let mut exporter = exporter;
    opentelemetry_sdk::trace::SpanExporter::set_resource(&mut exporter, &resource);
    let (queue, flush, counts, work) = queue(exporter);
    let provider = SdkTracerProvider::builder()
        .with_sampler(settings.sampling.sampler())
        .with_resource(resource)
        .with_span_processor(queue)
        .build();
    let recorder =
        Recorder { tracer: provider.tracer("persys"), follows: settings.sampling.follows };
    let work = tokio::spawn(work);
    Ok(Exporting { home: Trail::home(recorder), flush, counts, work })
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
}
