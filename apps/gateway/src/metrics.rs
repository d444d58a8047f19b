//! What is counted, as Prometheus reads it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clusters::Clusters;
use crate::clusters::scheduler::Health;

/// Upper ends of the classes of durations, in seconds.
const CLASSES: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// What is counted.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<(String, String, u16), u64>>,
    durations: Mutex<Durations>,
    request_bytes: AtomicU64,
    connections_refused: AtomicU64,
    /// Streams that are open.
    pub streams: AtomicI64,
    webhooks: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
}

#[derive(Debug, Default)]
struct Durations {
    classes: [u64; CLASSES.len()],
    sum: f64,
    count: u64,
}

impl Metrics {
    /// A request was answered. The route is its pattern, never what somebody typed.
    pub fn answered(&self, verb: &str, route: &str, status: u16, took: Duration, size: u64) {
        let key = (verb.to_owned(), route.to_owned(), status);
        *locked(&self.requests).entry(key).or_default() += 1;
        self.request_bytes.fetch_add(size, Ordering::Relaxed);
        let seconds = took.as_secs_f64();
        let mut durations = locked(&self.durations);
        for (nth, class) in CLASSES.iter().enumerate() {
            if seconds <= *class
                && let Some(count) = durations.classes.get_mut(nth)
            {
                *count += 1;
            }
        }
        durations.sum += seconds;
        durations.count += 1;
    }

    /// A connection was closed at once.
    pub fn connection_refused(&self) {
        self.connections_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Something became of a webhook.
    pub fn webhook(&self, direction: &'static str, outcome: &'static str) {
        *locked(&self.webhooks).entry((direction, outcome)).or_default() += 1;
    }

    /// Everything, as text.
    pub fn text(&self, clusters: &Clusters, connections: usize) -> String {
        let mut text = String::new();
        head(&mut text, "requests_total", "counter");
        for ((verb, route, code), count) in &*locked(&self.requests) {
            let labels = format_args!("method=\"{verb}\",url=\"{route}\",code=\"{code}\"");
            line(&mut text, format_args!("persys_gateway_requests_total{{{labels}}} {count}"));
        }
        head(&mut text, "request_duration_seconds", "histogram");
        let durations = locked(&self.durations);
        for (class, count) in CLASSES.iter().zip(durations.classes) {
            let bucket = "persys_gateway_request_duration_seconds_bucket";
            line(&mut text, format_args!("{bucket}{{le=\"{class}\"}} {count}"));
        }
        let Durations { sum, count, .. } = &*durations;
        let name = "persys_gateway_request_duration_seconds";
        line(&mut text, format_args!("{name}_bucket{{le=\"+Inf\"}} {count}"));
        line(&mut text, format_args!("{name}_sum {sum}"));
        line(&mut text, format_args!("{name}_count {count}"));
        let number = |text: &mut String, name: &str, kind: &str, value: u64| {
            head(text, name, kind);
            line(text, format_args!("persys_gateway_{name} {value}"));
        };
        let bytes = self.request_bytes.load(Ordering::Relaxed);
        number(&mut text, "request_size_bytes", "counter", bytes);
        let refused = self.connections_refused.load(Ordering::Relaxed);
        number(&mut text, "connections_refused_total", "counter", refused);
        let connections = u64::try_from(connections).unwrap_or(u64::MAX);
        number(&mut text, "connections", "gauge", connections);
        let streams = u64::try_from(self.streams.load(Ordering::Relaxed)).unwrap_or(0);
        number(&mut text, "streams", "gauge", streams);
        self.rest(&mut text, clusters);
        text
    }

    fn rest(&self, text: &mut String, clusters: &Clusters) {
        head(text, "webhooks_total", "counter");
        for ((direction, outcome), count) in &*locked(&self.webhooks) {
            let labels = format_args!("direction=\"{direction}\",outcome=\"{outcome}\"");
            line(text, format_args!("persys_gateway_webhooks_total{{{labels}}} {count}"));
        }
        head(text, "scheduler_healthy", "gauge");
        for cluster in clusters.all() {
            for scheduler in cluster.schedulers().iter() {
                let well = u8::from(scheduler.health() == Health::Well);
                let (cluster, id) = (&cluster.id, &scheduler.plan.id);
                let labels = format_args!("cluster=\"{cluster}\",scheduler=\"{id}\"");
                line(text, format_args!("persys_gateway_scheduler_healthy{{{labels}}} {well}"));
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn head(text: &mut String, name: &str, kind: &str) {
    line(text, format_args!("# TYPE persys_gateway_{name} {kind}"));
}

fn line(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let written = writeln!(text, "{what}");
    debug_assert!(written.is_ok(), "writing to a text failed");
}
