//! The log and the traces of a process: started before anything else, finished after everything.

use std::collections::BTreeMap;
use std::time::Duration;

use persys_telemetry::log::{self, Directive, Format, Level, Writing};
use persys_telemetry::trace::{self, Exporting, Kind, Settings, Trail};

use crate::settings::{self, Values};
use crate::tell;

/// How long the last spans may take to be sent.
const FAREWELL: Duration = Duration::from_secs(3);
/// The same after a command: a person waits for it.
const SHORT_FAREWELL: Duration = Duration::from_secs(1);

/// What tells of this process.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    exporting: Option<Exporting>,
    /// Written to the end when it is dropped.
    _writing: Option<Writing>,
}

impl Telemetry {
    /// Starts what the settings of a component say; or all that is wrong with them.
    pub(crate) fn start(values: &Values, service: &str) -> Result<Self, Vec<String>> {
        let told = (settings::telemetry::log(values), settings::telemetry::traces(values, service));
        let ((directives, format), traces) = match told {
            (Ok(log), Ok(traces)) => (log, traces),
            (log, traces) => {
                return Err(log.err().into_iter().chain(traces.err()).flatten().collect());
            }
        };
        let writing = log::start(&directives, format);
        let exporting = traces.map(export).transpose().map_err(|why| vec![why])?;
        Ok(Self { exporting, _writing: writing })
    }

    /// Where its spans begin; nowhere when none are sent.
    pub(crate) fn home(&self) -> Trail {
        self.exporting.as_ref().map(Exporting::home).unwrap_or_default()
    }

    /// Sends what still waits, for a while.
    pub(crate) async fn finish(self) {
        if let Some(exporting) = &self.exporting
            && !exporting.flush(FAREWELL).await
        {
            tracing::warn!(dropped = exporting.dropped(), "the last spans were not sent in time");
        }
    }
}

/// A log for people alone, whatever anybody says.
pub(crate) fn plain_log(level: Level) -> Option<Writing> {
    log::start(&[Directive { module: None, level }], Format::Text)
}

fn export(mut settings: Settings) -> Result<Exporting, String> {
    settings.instance = Some(persys_agent::host::node_id(None).to_string());
    trace::export(&settings).map_err(|error| tell::chain(&error))
}

/// Where spans go as variables alone say, for what has no settings: nowhere when they are wrong.
pub(crate) fn of_variables(service: &str, all: bool) -> Option<Exporting> {
    let set: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let names = settings::telemetry::TRACES.iter().take(1).flat_map(|endpoint| endpoint.variables);
    if names.into_iter().all(|name| settings::said(&set, name).is_none()) {
        return None;
    }
    let command = settings::command("persys", "", settings::telemetry::TRACES);
    let typed = command.try_get_matches_from(Vec::<String>::new()).ok()?;
    let variable = |name: &str| settings::said(&set, name);
    let values = settings::resolve(settings::telemetry::TRACES, &typed, variable, None).ok()?;
    let told = settings::telemetry::traces(&values, service).and_then(|found| {
        let Some(mut settings) = found else { return Ok(None) };
        if all && !values.is_given("traces-sampler") && !values.is_given("traces-sampler-arg") {
            settings.sampling.ratio = 1.0;
        }
        export(settings).map(Some).map_err(|why| vec![why])
    });
    told.unwrap_or_else(|faults| {
        for fault in faults {
            eprintln!("note: no traces: {fault}");
        }
        None
    })
}

/// Carries out what a person typed, as the beginning of a trace if they have one.
pub(crate) async fn typed<W: Future>(words: &[std::ffi::OsString], work: W) -> W::Output {
    let exporting = of_variables("persys", true);
    let home = exporting.as_ref().map(Exporting::home).unwrap_or_default();
    let trail = match std::env::var("TRACEPARENT") {
        Ok(parent) => home.told_by(&parent),
        Err(_) => home,
    };
    let name = if trail.is_on() { format!("persys {}", verb(words)) } else { String::new() };
    let span = trail.begin(&name, Kind::Client);
    let done = trace::scope(span.trail().clone(), work).await;
    drop(span);
    if let Some(exporting) = exporting {
        exporting.flush(SHORT_FAREWELL).await;
    }
    done
}

/// The first word that is a command; never what was typed after it, which may be anything.
fn verb(words: &[std::ffi::OsString]) -> String {
    let known = persys_cli::command();
    let named = words.iter().filter_map(|word| word.to_str());
    let mut found = named.filter(|word| known.get_subcommands().any(|one| one.get_name() == *word));
    found.next().unwrap_or("command").to_owned()
}
