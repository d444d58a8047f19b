//! `persys doctor`: this host, as an agent on it will find it.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use persys_agent::app::{Config, RuntimeChoice, Security};
use persys_doctor::{Finding, Host, Verdict, finding};
use persys_model::id::NodeId;
use persys_runtime::compose::Compose;
use persys_runtime::compose::settings::Settings as ComposeSettings;
use persys_runtime::docker::Docker;
use persys_runtime::docker::settings::Settings as DockerSettings;
use persys_runtime::vm::Machines;
use persys_runtime::{Clock, Owner};

pub(crate) const ABOUT: &str =
    "Look at this host as its agent will, and say how to mend what is found";

/// Looks, tells, and ends with 1 if an agent could not do here what it is for.
pub(crate) async fn run(config: &Config, json: bool) -> ExitCode {
    let found = persys_doctor::examine(&host(config)).await;
    if json {
        match serde_json::to_string_pretty(&found) {
            Ok(text) => println!("{text}"),
            Err(error) => eprintln!("persys doctor: {error}"),
        }
    } else {
        let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        print!("{}", report(&found, color));
    }
    if finding::worst(&found) == Verdict::Bad { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The places the agent was told of.
fn host(config: &Config) -> Host {
    let mut settings = DockerSettings::default();
    if let RuntimeChoice::Docker { host: Some(host) } = &config.runtime {
        settings.host.clone_from(host);
    }
    // Nothing is made here, so the name its things would carry is of no account.
    let owner =
        Owner { cluster: Arc::from(config.cluster.as_str()), node: NodeId::fixed("doctor") };
    let clock = Clock::since_boot();
    let docker = Docker::new(owner.clone(), settings, clock.clone());
    let containers = !matches!(config.runtime, RuntimeChoice::DockerSwitchedOff { .. });
    let compose = (config.compose.enabled && containers).then(|| {
        let mut stacks = ComposeSettings::in_folder(config.state_dir.join("compose"));
        stacks.program.clone_from(&config.compose.program);
        Compose::new(docker.clone(), stacks)
    });
    let mut folders =
        vec![("state", config.state_dir.clone()), ("images", "/var/lib/docker".into())];
    if let Some(machines) = &config.machines {
        folders
            .extend(machines.storage.pools.values().take(1).map(|pool| ("machines", pool.clone())));
    }
    Host {
        docker: containers.then_some(docker),
        compose,
        machines: config.machines.clone().map(|settings| Machines::new(owner, settings, clock)),
        ports: [("the agent", Some(config.grpc)), ("its /health and /metrics", config.http)]
            .into_iter()
            .filter_map(|(who, at)| Some((who, at?)))
            .collect(),
        certificates: match &config.security {
            Security::Mtls(from) => Some(from.clone()),
            Security::Insecure(_) => None,
        },
        folders,
        now: SystemTime::now(),
    }
}

/// As people read it: what is well in a line each, what is not with the way to mend it.
fn report(found: &[Finding], color: bool) -> String {
    let width = found.iter().map(|finding| finding.subject.len()).max().unwrap_or_default();
    let mut lines = Vec::new();
    for Finding { subject, verdict, says, mend } in found {
        let (mark, code) = match verdict {
            Verdict::Good => ("ok  ", "32"),
            Verdict::Weak => ("weak", "33"),
            Verdict::Bad => ("BAD ", "31"),
        };
        let mark = if color { format!("\u{1b}[{code}m{mark}\u{1b}[0m") } else { mark.to_owned() };
        lines.push(format!("{mark}  {subject:width$}  {says}"));
        lines.extend(mend.iter().map(|step| format!("      {:width$}    {step}", "")));
    }
    let count = |wanted| found.iter().filter(|finding| finding.verdict == wanted).count();
    let (weak, bad) = (count(Verdict::Weak), count(Verdict::Bad));
    lines.push(String::new());
    lines.push(match (bad, weak) {
        (0, 0) => "This host is fit to be a node.".to_owned(),
        (0, _) => format!("This host can be a node; {weak} could be better."),
        (_, _) => format!("This host cannot be a node yet: {bad} to mend, {weak} could be better."),
    });
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_well_comes_with_the_way_to_mend_it() {
        let found = [
            Finding::good("clock", "kept right by chrony"),
            Finding::bad("containers", "Docker does not answer").mend("systemctl start docker"),
        ];
        let text = report(&found, false);
        assert_eq!(
            text,
            "ok    clock       kept right by chrony\n\
             BAD   containers  Docker does not answer\n                    systemctl start docker\n\
             \nThis host cannot be a node yet: 1 to mend, 0 could be better.\n"
        );
        assert!(report(&found, true).contains("\u{1b}[31mBAD "));
        assert!(report(&found[..1], false).ends_with("fit to be a node.\n"));
    }
}
