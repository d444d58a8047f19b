//! What a component is told about its log and its traces: the same rows for each.

use std::path::PathBuf;

use persys_telemetry::log::{self, Directive, Format};
use persys_telemetry::trace::{Pairs, Sampling, Settings};

use super::read::Reader;
use super::{Origin, Setting, Values};

pub(super) const ENDPOINT: Setting = setting!(
    "otlp-endpoint",
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "JAEGER_ENDPOINT", "OTEL_EXPORTER_JAEGER_ENDPOINT"],
    "",
    "Collector that spans are sent to, http://host:4317 or host:4317, OTLP over gRPC; no traces when not given"
);
pub(super) const INSECURE: Setting = setting!(
    "otlp-insecure",
    ["OTEL_EXPORTER_OTLP_INSECURE"],
    "true",
    "Whether a collector named without http:// or https:// is called without TLS"
);
pub(super) const ROOTS: Setting = setting!(
    "otlp-certificate",
    ["OTEL_EXPORTER_OTLP_CERTIFICATE"],
    "",
    "Roots to trust for a collector with TLS; the system's when not given"
);
pub(super) const HEADERS: Setting = setting!(
    "otlp-headers",
    ["OTEL_EXPORTER_OTLP_HEADERS"],
    "",
    "Sent with every message to the collector: name=value, several with commas, %20 and the like in values; not as a flag"
);
pub(super) const ATTRIBUTES: Setting = setting!(
    "resource-attributes",
    ["OTEL_RESOURCE_ATTRIBUTES"],
    "",
    "What else is said of this in traces: name=value, several with commas"
);
pub(super) const SERVICE: Setting = setting!(
    "service-name",
    ["OTEL_SERVICE_NAME"],
    "",
    "What this is called in traces; persys-scheduler, persys-agent, persys-gateway or persys-ca when not given"
);
pub(super) const SAMPLER: Setting = setting!(
    "traces-sampler",
    ["OTEL_TRACES_SAMPLER"],
    "parentbased_traceidratio",
    "Which traces are written down: always_on, always_off or traceidratio; with parentbased_ in front the caller's decision counts"
);
pub(super) const SHARE: Setting = setting!(
    "traces-sampler-arg",
    ["OTEL_TRACES_SAMPLER_ARG"],
    "0.1",
    "For traceidratio: the share of traces that begin here and are written down, 0 to 1"
);
pub(super) const LEVEL: Setting = setting!(
    "log-level",
    ["PERSYS_LOG_LEVEL", "LOG_LEVEL"],
    "info",
    "error, warn, info, debug, trace or off, and module=level for single modules, with commas"
);
pub(super) const FORMAT: Setting = setting!(
    "log-format",
    ["PERSYS_LOG_FORMAT", "LOG_FORMAT"],
    "auto",
    "text, json, or auto: text on a terminal and JSON elsewhere"
);

/// The rows about traces, for what has no table of its own.
pub(crate) const TRACES: &[Setting] =
    &[ENDPOINT, INSECURE, ROOTS, HEADERS, SERVICE, ATTRIBUTES, SAMPLER, SHARE];

/// Where spans go, if anywhere; `service` is what it is called when nobody says so.
pub(crate) fn traces(values: &Values, service: &str) -> Result<Option<Settings>, Vec<String>> {
    let mut read = Reader::new(values);
    let insecure = read.switch("otlp-insecure");
    let sampling =
        Sampling::parse(values.text("traces-sampler"), values.text("traces-sampler-arg"));
    let sampling = sampling.map_err(|why| {
        let key = if why.contains("share") { "traces-sampler-arg" } else { "traces-sampler" };
        read.fault(key, why);
    });
    let endpoint = read.text("otlp-endpoint").map(|text| Settings::endpoint(&text, insecure));
    let endpoint = endpoint.and_then(|endpoint| match endpoint {
        Ok(endpoint) => Some(endpoint),
        Err(why) => {
            read.fault("otlp-endpoint", why);
            None
        }
    });
    let roots = read.text("otlp-certificate").map(PathBuf::from);
    if values.origin("otlp-headers") == Some(&Origin::Flag) {
        let why = "a flag is seen by everybody on this machine: use OTEL_EXPORTER_OTLP_HEADERS";
        read.fault("otlp-headers", why);
    }
    let headers = Pairs::parse_headers(values.text("otlp-headers"));
    let headers = headers.map_err(|why| read.fault("otlp-headers", why));
    let attributes = Pairs::parse(values.text("resource-attributes"));
    let attributes = attributes.map_err(|why| read.fault("resource-attributes", why));
    let service = read.text("service-name").unwrap_or_else(|| service.to_owned());
    let made = endpoint.zip(sampling.ok()).map(|(endpoint, sampling)| Settings {
        endpoint,
        roots,
        service,
        instance: None,
        attributes: attributes.unwrap_or_default(),
        headers: headers.unwrap_or_default(),
        sampling,
    });
    read.finish(Some(made))
}

/// How the log is written.
pub(crate) fn log(values: &Values) -> Result<(Vec<Directive>, Format), Vec<String>> {
    let mut read = Reader::new(values);
    let level = log::parse(values.text("log-level")).map_err(|bad| read.fault("log-level", bad));
    let format = Format::parse(values.text("log-format"));
    let format = format.map_err(|why| read.fault("log-format", why));
    let made = level.ok().zip(format.ok());
    read.finish(made)
}

/// The cases of `variables.rs` that every component has.
#[cfg(test)]
#[rustfmt::skip]
pub(super) const CASES: &[super::variables::Case] = &[
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "c:4317", "", "endpoint: http://c:4317/"),
    ("JAEGER_ENDPOINT", "j:4317", "", "endpoint: http://j:4317/"),
    ("OTEL_EXPORTER_JAEGER_ENDPOINT", "http://k:4317", "", "endpoint: http://k:4317/"),
    ("OTEL_EXPORTER_OTLP_INSECURE", "false", COLLECTOR, "endpoint: https://c:4317/"),
    ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/c.pem", COLLECTOR, "roots: Some(\"/c.pem\"), service"),
    ("OTEL_EXPORTER_OTLP_HEADERS", "key=geheim", COLLECTOR, "headers: [\"key\"]"),
    ("OTEL_RESOURCE_ATTRIBUTES", "rack=7", COLLECTOR, "attributes: [\"rack\"]"),
    ("OTEL_SERVICE_NAME", "own", COLLECTOR, "service: \"own\""),
    ("OTEL_TRACES_SAMPLER", "always_on", COLLECTOR, "ratio: 1.0, follows: false"),
    ("OTEL_TRACES_SAMPLER_ARG", "0.5", COLLECTOR, "ratio: 0.5, follows: true"),
    ("PERSYS_LOG_LEVEL", "warn,store=debug", "", "module: Some(\"persys_store\"), level: Debug"),
    ("LOG_LEVEL", "trace", "", "level: Trace"),
    ("PERSYS_LOG_FORMAT", "text", "", "], Text)"),
    ("LOG_FORMAT", "text", "", "], Text)"),
];

/// What the other settings of traces need to count.
#[cfg(test)]
const COLLECTOR: &str = "--otlp-endpoint c:4317";

#[cfg(test)]
mod tests {
    use super::super::{command, resolve};
    use super::*;

    fn told(line: &str) -> Result<Option<Settings>, Vec<String>> {
        let words = line.split_whitespace().map(std::ffi::OsString::from);
        let typed = command("x", "x", TRACES).try_get_matches_from(words).unwrap();
        traces(&resolve(TRACES, &typed, |_| None, None).unwrap(), "persys-x")
    }

    #[test]
    fn without_a_collector_there_are_no_traces() {
        assert_eq!(told(""), Ok(None));
        assert_eq!(told(COLLECTOR).unwrap().unwrap().service, "persys-x");
    }

    /// A crate that is left out would have no level of its own.
    #[test]
    fn every_crate_of_this_program_is_a_module_with_levels() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let folders = ["core", "adapters", "apps"].map(|layer| std::fs::read_dir(root.join(layer)));
        let crates = folders.into_iter().flatten().flatten().flatten();
        let mut found: Vec<_> = crates
            .filter(|one| one.path().join("Cargo.toml").exists())
            .map(|one| one.file_name().into_string().unwrap())
            .collect();
        found.sort();
        assert_eq!(found, log::MODULES);
    }

    #[test]
    fn every_fault_is_named() {
        let line = "--otlp-endpoint http://j:14268/api/traces --traces-sampler sometimes";
        let faults = told(line).unwrap_err();
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(
            faults.iter().any(|fault| fault.contains("otlp-endpoint") && fault.contains("4317"))
        );
        let faults = told("--traces-sampler-arg 7").unwrap_err();
        assert!(faults[0].starts_with("traces-sampler-arg = \"7\""), "{faults:?}");
    }
}
