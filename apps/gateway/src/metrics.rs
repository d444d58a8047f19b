//! What is counted, as Prometheus reads it.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use persys_identity::Credentials;
use persys_metrics::{
    Answer, CALLS, Certificate, Counter, Counters, Described, Families, Gauge, Histogram,
    Histograms, Page, SIZES, Validity, Words,
};

use crate::clusters::Clusters;
use crate::clusters::scheduler::Health;

/// Routes and codes there are: all of them come from the program.
static WORDS: Words = Words::new(512);
const VERBS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
/// What becomes of webhooks, by where they go.
const WEBHOOKS: [[&str; 2]; 6] = [
    ["in", "done"],
    ["in", "accepted"],
    ["in", "failed"],
    ["in", "refused"],
    ["out", "done"],
    ["out", "failed"],
];

/// One request that was answered.
#[derive(Debug, Clone, Copy)]
pub struct Answered<'a> {
    /// Its verb.
    pub verb: &'a str,
    /// The pattern of its route, never what somebody typed.
    pub route: &'a str,
    /// How it was answered.
    pub status: u16,
    /// How long it took.
    pub took: Duration,
    /// Bytes that came with it, as it said.
    pub asked_bytes: u64,
    /// Bytes that went out, where that was known beforehand.
    pub told_bytes: Option<u64>,
}

/// What is counted.
#[derive(Debug)]
pub struct Metrics {
    page: Page,
    requests: Counters<3>,
    took: Histograms<2>,
    asked: Histogram,
    told: Histogram,
    refused: Counter,
    connections: Gauge,
    streams: Gauge,
    webhooks: Counters<2>,
    certificate: Arc<Certificate>,
    clusters: Arc<OnceLock<Arc<Clusters>>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut families = Families::new("persys_gateway");
        let all = &mut families;
        let requests = all.counters(
            "requests_total",
            "Requests that were answered, by the pattern of their route",
            ["method", "url", "code"],
        );
        let took = all.histograms(
            "request_duration_seconds",
            "How long requests took; of streams, until they began",
            ["method", "url"],
            CALLS,
        );
        let asked = all.histogram("request_size_bytes", "What came with requests", SIZES);
        let told = all.histogram(
            "response_size_bytes",
            "What answers had in them, streams left out",
            SIZES,
        );
        let refused =
            all.counter("connections_refused_total", "Connections that were closed at once");
        let connections = all.gauge("connections", "Connections that are open");
        let streams = all.gauge("streams", "Streams and terminals that are open");
        let webhooks = all.counters(
            "webhooks_total",
            "What became of webhooks that came in or went out",
            ["direction", "outcome"],
        );
        let clusters: Arc<OnceLock<Arc<Clusters>>> = Arc::default();
        let seen = Arc::clone(&clusters);
        all.seen(
            "scheduler_healthy",
            "1 for each scheduler that answers",
            ["cluster", "scheduler"],
            move || seen.get().map(|clusters| healthy(clusters)).unwrap_or_default(),
        );
        let certificate = Arc::new(Certificate::new(all));
        all.process(env!("CARGO_PKG_VERSION"));
        Self {
            requests,
            took,
            asked,
            told,
            refused,
            connections,
            streams,
            webhooks: webhooks.preset(WEBHOOKS),
            certificate,
            clusters,
            page: families.page(),
        }
    }
}

/// All families there are, for people.
#[must_use]
pub fn families() -> Vec<Described> {
    Metrics::default().page.described().to_vec()
}

impl Metrics {
    /// A request was answered.
    pub fn answered(&self, answered: &Answered<'_>) {
        let Answered { verb, route, status, took, asked_bytes, told_bytes } = *answered;
        // A verb somebody made up is not a label.
        let verb = VERBS.into_iter().find(|known| *known == verb).unwrap_or("other");
        let route = WORDS.of(route);
        let code = code_word(status);
        self.requests.inc([verb, route, code]);
        self.took.took([verb, route], took);
        self.asked.observe(amount(asked_bytes));
        if let Some(bytes) = told_bytes {
            self.told.observe(amount(bytes));
        }
    }

    /// A connection was closed at once.
    pub fn connection_refused(&self) {
        self.refused.inc();
    }

    /// Something became of a webhook.
    pub fn webhook(&self, direction: &'static str, outcome: &'static str) {
        self.webhooks.inc([direction, outcome]);
    }

    /// Shows these clusters, and the certificate, from now on.
    pub fn shows(&self, clusters: &Arc<Clusters>, credentials: Option<&Credentials>) {
        self.clusters.get_or_init(|| Arc::clone(clusters));
        let Some(credentials) = credentials.cloned() else { return };
        self.certificate.follow(move || Validity {
            not_after: credentials.current().certificate().not_after,
            troubled: credentials.trouble(SystemTime::now()).is_some(),
        });
    }

    /// Everything, in the language a scraper prefers.
    pub fn answer(&self, connections: usize, streams: usize, accept: Option<&str>) -> Answer {
        self.connections.set(i64::try_from(connections).unwrap_or(i64::MAX));
        self.streams.set(i64::try_from(streams).unwrap_or(i64::MAX));
        self.page.answer(accept)
    }
}

fn code_word(status: u16) -> &'static str {
    match status {
        200 => "200",
        202 => "202",
        404 => "404",
        other => WORDS.of(&other.to_string()),
    }
}

fn healthy(clusters: &Clusters) -> Vec<([String; 2], f64)> {
    let mut found = Vec::new();
    for cluster in clusters.all() {
        for scheduler in cluster.schedulers().iter() {
            let well = u8::from(scheduler.health() == Health::Well);
            let labels = [cluster.id.clone(), scheduler.plan.id.clone()];
            found.push((labels, f64::from(well)));
        }
    }
    found
}

#[expect(clippy::cast_precision_loss, clippy::as_conversions, reason = "amounts to be looked at")]
fn amount(of: u64) -> f64 {
    of as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(verb: &'static str, status: u16) -> Answered<'static> {
        Answered {
            verb,
            route: "/v1/nodes/{id}",
            status,
            took: Duration::from_millis(3),
            asked_bytes: 12,
            told_bytes: Some(2000),
        }
    }

    #[test]
    fn a_request_is_counted_by_words_of_the_program() {
        let metrics = Metrics::default();
        metrics.answered(&answered("GET", 200));
        metrics.answered(&answered("GET", 503));
        metrics.answered(&answered("FROBNICATE", 405));
        let text = metrics.answer(3, 1, None).text;
        for line in [
            "persys_gateway_requests_total{method=\"GET\",url=\"/v1/nodes/{id}\",code=\"503\"} 1",
            "persys_gateway_requests_total{method=\"other\",url=\"/v1/nodes/{id}\",code=\"405\"} 1",
            "persys_gateway_request_duration_seconds_count{method=\"GET\",url=\"/v1/nodes/{id}\"} 2",
            "persys_gateway_response_size_bytes_sum 6000.0",
            "persys_gateway_request_size_bytes_count 3",
            "persys_gateway_connections 3",
            "persys_gateway_streams 1",
            "persys_gateway_webhooks_total{direction=\"in\",outcome=\"refused\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
