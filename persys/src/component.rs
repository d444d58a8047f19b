//! One component in one process, until it is told to stop.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use persys_identity::Role;
use persys_telemetry::log::Level;
use persys_telemetry::trace;
use tokio::signal::unix::{SignalKind, signal};

use crate::settings::renewal::Renewal;
use crate::settings::{self, Setting, Unused, Values};
use crate::telemetry::{self, Telemetry};
use crate::tell;
use crate::{enrol, open_files};

/// What is needed to start a component.
struct Component {
    name: &'static str,
    about: &'static str,
    table: &'static [Setting],
    unused: &'static [Unused],
    /// Read when it exists and no other file is named.
    file: &'static str,
}

const SCHEDULER: Component = Component {
    name: "persys scheduler",
    about: settings::scheduler::ABOUT,
    table: settings::scheduler::TABLE,
    unused: settings::scheduler::UNUSED,
    file: "/etc/persys/scheduler.yaml",
};

const AGENT: Component = Component {
    name: "persys agent",
    about: settings::agent::ABOUT,
    table: settings::agent::TABLE,
    unused: settings::agent::UNUSED,
    file: "/etc/persys/agent.yaml",
};

const GATEWAY: Component = Component {
    name: "persys gateway",
    about: settings::gateway::ABOUT,
    table: settings::gateway::TABLE,
    unused: settings::gateway::UNUSED,
    file: "/etc/persys/gateway.yaml",
};

/// Runs a scheduler.
pub(crate) async fn scheduler(words: Vec<OsString>) -> ExitCode {
    traced(&SCHEDULER, words, run_scheduler).await
}

/// Reads the settings, and runs a component with its log and its traces.
async fn traced<W>(
    component: &Component,
    words: Vec<OsString>,
    run: impl FnOnce(Values) -> W,
) -> ExitCode
where
    W: Future<Output = ExitCode>,
{
    let (values, telemetry) = match prepare(component, words) {
        Ok(prepared) => prepared,
        Err(code) => return code,
    };
    let code = trace::scope(telemetry.home(), run(values)).await;
    telemetry.finish().await;
    code
}

async fn run_scheduler(values: Values) -> ExitCode {
    open_files::raise();
    let told = (settings::scheduler::config(&values), settings::renewal::scheduler(&values));
    let (mut config, renewal) = match told {
        (Ok(config), Ok(renewal)) => (config, renewal),
        (config, renewal) => return wrong(&SCHEDULER, config.err(), renewal.err()),
    };
    let renewing = match certify_scheduler(&mut config, &renewal).await {
        Ok(renewing) => renewing,
        Err(error) => return failed(&SCHEDULER, &error),
    };
    if let persys_scheduler::app::Security::Insecure(exposure) = &config.security {
        warn_insecure(*exposure);
    }
    match persys_scheduler::app::start(config).await {
        Ok(running) => {
            let dns = running.dns.map_or_else(|| "nowhere".to_owned(), |at| at.to_string());
            tracing::info!(grpc = %running.grpc, http = %running.http, dns, "the scheduler serves");
            let enrolment = match enrol_beside(&running, &renewal).await {
                Ok(enrolment) => enrolment,
                Err(error) => return failed(&SCHEDULER, &error),
            };
            let following = enrol::follow(&running, &renewal);
            until_told().await;
            drop(following);
            let no_longer_joining = async {
                if let Some(enrolment) = enrolment {
                    enrolment.stop().await;
                }
            };
            tokio::join!(no_longer_joining, running.stop());
            drop(renewing);
            ExitCode::SUCCESS
        }
        Err(error) => failed(&SCHEDULER, &error),
    }
}

/// Runs an agent.
pub(crate) async fn agent(words: Vec<OsString>) -> ExitCode {
    traced(&AGENT, words, run_agent).await
}

async fn run_agent(values: Values) -> ExitCode {
    let told = (settings::agent::config(&values), settings::renewal::member(&values));
    let (config, renewal) = match told {
        (Ok(config), Ok(renewal)) => (config, renewal),
        (config, renewal) => return wrong(&AGENT, config.err(), renewal.err()),
    };
    let renewing = match certify_agent(&config, &renewal).await {
        Ok(renewing) => renewing,
        Err(error) => return failed(&AGENT, &error),
    };
    if let persys_agent::app::Security::Insecure(exposure) = &config.security {
        warn_insecure(*exposure);
    }
    let version = settings::agent::version(&values);
    match persys_agent::app::start_as(config, version).await {
        Ok(mut running) => {
            let ended = tokio::select! {
                () = until_told() => false,
                () = running.ended() => true,
            };
            running.stop().await;
            drop(renewing);
            if ended { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(error) => failed(&AGENT, &error),
    }
}

/// Looks at this host as an agent that is told the same will.
pub(crate) async fn doctor(words: Vec<OsString>) -> ExitCode {
    let told = match read(&AGENT, doctor_command(), words) {
        Ok(told) => told,
        Err(code) => return code,
    };
    match settings::agent::config(&told.values) {
        Ok(config) => crate::doctor::run(&config, told.typed.get_flag("json")).await,
        Err(faults) => tell::faults("persys doctor", &faults),
    }
}

pub(crate) fn doctor_command() -> clap::Command {
    let json = clap::Arg::new("json")
        .long("json")
        .action(clap::ArgAction::SetTrue)
        .help("As JSON, for programs");
    settings::command("persys doctor", crate::doctor::ABOUT, AGENT.table).arg(json)
}

/// Sees to the certificate of a scheduler. Where an authority is beside it and nobody said where the
/// files are, they are with its state.
async fn certify_scheduler(
    config: &mut persys_scheduler::app::Config,
    renewal: &Renewal,
) -> Result<Option<enrol::Aside>, enrol::Error> {
    let persys_scheduler::app::Security::Mtls(source) = &mut config.security else {
        return Ok(None);
    };
    let name = persys_agent::host::node_id(None);
    let issuer = enrol::issuer(renewal, Role::Scheduler, name.as_str(), &config.cluster)?;
    let Some((issuer, pace)) = issuer else { return Ok(None) };
    *source = settings::renewal::own_source(renewal, source, &config.state_dir);
    if std::fs::create_dir_all(&config.state_dir).is_err() {
        tracing::warn!(folder = %config.state_dir.display(), "cannot be made");
    }
    enrol::keep(source, issuer, pace).await.map(Some)
}

/// Lets machines join, where a scheduler has an authority beside it.
async fn enrol_beside(
    running: &persys_scheduler::app::Running,
    renewal: &Renewal,
) -> Result<Option<persys_ca::Running>, enrol::Error> {
    let Some(listen) = renewal.enrol else { return Ok(None) };
    let opened = enrol::open(running, &renewal.authority, listen, renewal.lifetime).await?;
    if let Some(enrolment) = &opened {
        tracing::info!(at = %enrolment.address, "machines can join");
    }
    Ok(opened)
}

/// Sees to the certificate of an agent.
async fn certify_agent(
    config: &persys_agent::app::Config,
    renewal: &Renewal,
) -> Result<Option<enrol::Aside>, enrol::Error> {
    let persys_agent::app::Security::Mtls(source) = &config.security else { return Ok(None) };
    let name = persys_agent::host::node_id(config.node.as_deref());
    let issuer = enrol::issuer(renewal, Role::Agent, name.as_str(), &config.cluster)?;
    let Some((issuer, pace)) = issuer else { return Ok(None) };
    enrol::keep(source, issuer, pace).await.map(Some)
}

/// Sees to the certificate of a gateway, by which the usual cluster knows it. Those by which further
/// clusters do are files that somebody else looks after.
async fn certify_gateway(
    config: &persys_gateway::app::Config,
    renewal: &Renewal,
) -> Result<Option<enrol::Aside>, enrol::Error> {
    let persys_gateway::app::Security::Mtls(source) = &config.security else { return Ok(None) };
    let name = persys_agent::host::node_id(None);
    let issuer = enrol::issuer(renewal, Role::Gateway, name.as_str(), &config.plan.default)?;
    let Some((issuer, pace)) = issuer else { return Ok(None) };
    enrol::keep(source, issuer, pace).await.map(Some)
}

fn wrong(component: &Component, one: Option<Vec<String>>, two: Option<Vec<String>>) -> ExitCode {
    let mut faults: Vec<_> = one.into_iter().chain(two).flatten().collect();
    faults.sort();
    faults.dedup();
    tell::faults(component.name, &faults)
}

/// Runs a gateway.
pub(crate) async fn gateway(words: Vec<OsString>) -> ExitCode {
    traced(&GATEWAY, words, run_gateway).await
}

async fn run_gateway(values: Values) -> ExitCode {
    open_files::raise();
    let told = (settings::gateway::config(&values), settings::renewal::member(&values));
    let (config, renewal) = match told {
        (Ok(config), Ok(renewal)) => (config, renewal),
        (config, renewal) => return wrong(&GATEWAY, config.err(), renewal.err()),
    };
    let renewing = match certify_gateway(&config, &renewal).await {
        Ok(renewing) => renewing,
        Err(error) => return failed(&GATEWAY, &error),
    };
    if matches!(config.security, persys_gateway::app::Security::Insecure) {
        warn_insecure(persys_identity::Exposure::Loopback);
    }
    match persys_gateway::app::start(config).await {
        Ok(running) => {
            let inner = running.inner.map_or_else(|| "nowhere".to_owned(), |at| at.to_string());
            tracing::info!(inner, public = %running.public, "the gateway serves");
            until_told().await;
            running.stop().await;
            drop(renewing);
            ExitCode::SUCCESS
        }
        Err(error) => failed(&GATEWAY, &error),
    }
}

/// Runs the watchdog of an agent.
pub(crate) async fn watchdog(words: Vec<OsString>) -> ExitCode {
    let words = words.into_iter().map(|word| word.to_string_lossy().into_owned());
    match persys_agent::watchdog::Options::parse(words) {
        Ok(options) => {
            // Its log is a file the agent opened for it; without one it still does its work.
            let _writing = telemetry::plain_log(Level::Info);
            persys_agent::watchdog::run(options).await;
            ExitCode::SUCCESS
        }
        Err(fault) => tell::faults("persys agent-watchdog", &[fault.to_string()]),
    }
}

/// The command with which an agent starts its watchdog: this program again.
pub(crate) fn watchdog_command() -> Option<Vec<String>> {
    let own = std::env::current_exe().ok()?;
    Some(vec![own.to_str()?.to_owned(), "agent-watchdog".to_owned()])
}

/// The commands of this executable beside those of people, for help and completion.
pub(crate) fn commands() -> Vec<clap::Command> {
    let of = |name, component: &Component| {
        settings::command(name, component.about, component.table).no_binary_name(false)
    };
    let doctor = doctor_command().name("doctor").no_binary_name(false);
    vec![
        crate::dev::command(),
        doctor,
        crate::ca::command(),
        crate::join::command(),
        crate::probe::command(),
        of("scheduler", &SCHEDULER),
        of("agent", &AGENT),
        of("gateway", &GATEWAY),
    ]
}

/// Reads the settings and starts the log; or what the process ends with.
fn prepare(component: &Component, words: Vec<OsString>) -> Result<(Values, Telemetry), ExitCode> {
    let command = settings::command(component.name, component.about, component.table);
    let Told { typed, values, remarks } = read(component, command, words)?;
    if typed.get_one::<String>("action").is_some() {
        print!("{}", values.table());
        for remark in remarks {
            eprintln!("{}: {remark}", component.name);
        }
        return Err(ExitCode::SUCCESS);
    }
    let telemetry = Telemetry::start(&values, &component.name.replace(' ', "-"))
        .map_err(|faults| tell::faults(component.name, &faults))?;
    for remark in remarks {
        tracing::warn!("{remark}");
    }
    Ok((values, telemetry))
}

/// What a component was told, from all sides.
struct Told {
    typed: clap::ArgMatches,
    values: Values,
    /// About what was said in vain.
    remarks: Vec<String>,
}

/// Reads the settings; or what the process ends with.
fn read(
    component: &Component,
    command: clap::Command,
    words: Vec<OsString>,
) -> Result<Told, ExitCode> {
    let words = words.into_iter().map(settings::with_two_dashes);
    let typed = command.try_get_matches_from(words);
    let typed = typed.map_err(|error| tell::not_understood(&error))?;
    // What is set to nothing is not set.
    let set: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let variable = |name: &str| settings::said(&set, name);
    let remarks = settings::unused(component.unused, &set);
    let file = Path::new(component.file);
    let values = settings::resolve(component.table, &typed, variable, Some(file))
        .map_err(|faults| tell::faults(component.name, &faults))?;
    Ok(Told { typed, values, remarks })
}

fn warn_insecure(exposure: persys_identity::Exposure) {
    let who = match exposure {
        persys_identity::Exposure::Loopback => "everybody on this machine",
        persys_identity::Exposure::Anywhere => "EVERYBODY WHO CAN REACH THIS PORT",
    };
    tracing::warn!("INSECURE: no TLS, no certificates; {who} can run anything here as root");
}

fn failed(component: &Component, error: &dyn std::error::Error) -> ExitCode {
    eprintln!("{}: {}", component.name, tell::chain(error));
    eprintln!("what it was told, and by whom: `{} config`", component.name);
    ExitCode::FAILURE
}

/// Waits for Ctrl-C or a request to end.
pub(crate) async fn until_told() {
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            // Without a handler the system ends the process itself.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}

#[cfg(test)]
mod tests {
    /// Help, completion and manual pages are made from all of it, and clap looks for clashes then.
    #[test]
    fn everything_that_can_be_typed_fits_together() {
        persys_cli::command_with("persys", super::commands()).debug_assert();
    }
}
