//! The pages for people keep to the program: `docs/settings.md` is made from the tables, and every
//! command in the others is one that is understood.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use persys_model::assignment::ReasonCode;
use persys_model::failure::FailureReason;

use super::{
    FILE_VARIABLE, Setting, Unused, agent, ca, command, gateway, scheduler, with_two_dashes,
};
use crate::component;
use crate::program::{Program, choose};

const HEADER: &str = "\
# Settings

Each setting is a flag (`--grpc-port`), a key of the configuration file (`grpc_port`) and, mostly, a
variable. The first of flag, variable, file and default that says something counts; a variable that is
set to nothing is not set, and where `NAME` is not set the file that `NAME_FILE` names says it.
`persys scheduler config`, `persys agent config`, `persys gateway config` and `persys ca serve config` tell
what counts and who said it. The file is named by `--config` or `PERSYS_CONFIG_FILE`.

Durations are written `30s`, `1m30s` or in bare seconds. This page is made from the program's own
tables: `PERSYS_BLESS=1 cargo test -p persys settings::page`.
";

fn root(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn section(text: &mut String, name: &str, table: &[Setting], unused: &[Unused]) {
    let code =
        |all: &[&str]| all.iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(", ");
    writeln!(text, "\n## {name}\n\n| setting | variable | default | |\n|---|---|---|---|").unwrap();
    for Setting { key, variables, default, help } in table {
        let default = if default.is_empty() { String::new() } else { code(&[default]) };
        writeln!(text, "| `{key}` | {} | {default} | {help} |", code(variables)).unwrap();
    }
    if unused.is_empty() {
        return;
    }
    writeln!(text, "\nVariables without effect, told when they are set:\n").unwrap();
    writeln!(text, "| variable | why |\n|---|---|").unwrap();
    for (name, why) in unused {
        writeln!(text, "| `{name}` | {why} |").unwrap();
    }
}

#[test]
fn the_page_of_settings_is_that_of_the_tables() {
    let mut text = HEADER.to_owned();
    assert!(text.contains(FILE_VARIABLE));
    section(&mut text, "Scheduler", scheduler::TABLE, scheduler::UNUSED);
    section(&mut text, "Agent", agent::TABLE, agent::UNUSED);
    section(&mut text, "Gateway", gateway::TABLE, gateway::UNUSED);
    let authority: Vec<_> = [ca::FOLDER].into_iter().chain(ca::TABLE.iter().copied()).collect();
    section(&mut text, "Authority that serves alone (`persys ca serve`)", &authority, &[]);
    let page = root("docs/settings.md");
    if std::env::var_os("PERSYS_BLESS").is_some() {
        std::fs::write(&page, &text).unwrap();
    }
    let written = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(written == text, "docs/settings.md is not that of the tables; PERSYS_BLESS=1 makes it");
}

/// The words of a line, as a shell would take them apart; what follows a `#` is a remark.
fn words(line: &str) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    for (nth, part) in line.split(" #").next().unwrap_or_default().split('"').enumerate() {
        if nth % 2 == 1 {
            words.push(part.into());
        } else {
            words.extend(part.split_whitespace().map(OsString::from));
        }
    }
    words
}

pub(crate) fn understood(line: &str) -> Result<(), String> {
    let mut all = words(line);
    let called = all.remove(0);
    let told = |error: clap::Error| error.to_string();
    let component = |name, about, table, words: Vec<OsString>| {
        let words = words.into_iter().map(with_two_dashes);
        command(name, about, table).try_get_matches_from(words).map(drop).map_err(told)
    };
    match choose(&called, all.clone()) {
        (Program::Scheduler, words) => {
            component("scheduler", scheduler::ABOUT, scheduler::TABLE, words)
        }
        (Program::Gateway, words) => component("gateway", gateway::ABOUT, gateway::TABLE, words),
        (Program::Agent, words) => component("agent", agent::ABOUT, agent::TABLE, words),
        (Program::Dev, _) => Ok(()),
        (Program::Ca, words) => {
            let words = std::iter::once(OsString::from("ca")).chain(words);
            crate::ca::command().try_get_matches_from(words).map(drop).map_err(told)
        }
        (Program::Join, words) => {
            let words = std::iter::once(OsString::from("join")).chain(words);
            crate::join::command().try_get_matches_from(words).map(drop).map_err(told)
        }
        (Program::Probe, words) => {
            let words = std::iter::once(OsString::from("probe")).chain(words);
            crate::probe::command().try_get_matches_from(words).map(drop).map_err(told)
        }
        (Program::Doctor, words) => {
            let command = component::doctor_command();
            command.try_get_matches_from(words).map(drop).map_err(told)
        }
        (Program::Watchdog, _) => Err("nobody types that".to_owned()),
        (Program::Commands(name), words) => {
            let everything = persys_cli::command_with(name, component::commands());
            let words = std::iter::once(OsString::from(name)).chain(words);
            everything.try_get_matches_from(words).map(drop).map_err(told)
        }
    }
}

/// Every page for people: the one at the top, and all manuals.
fn pages() -> Vec<String> {
    let manuals = std::fs::read_dir(root("docs")).unwrap().map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        format!("docs/{name}")
    });
    let is_page = |name: &String| Path::new(name).extension().is_some_and(|end| end == "md");
    std::iter::once("README.md".to_owned()).chain(manuals.filter(is_page)).collect()
}

/// Commands of ours in a line as it is typed, whatever stands around them.
fn commands(line: &str) -> impl Iterator<Item = &str> {
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let line = line.split(" # ").next().unwrap_or_default();
    let parts = line.split(" && ").flat_map(|part| part.split(" | "));
    let inner = parts.map(|part| match part.split_once("$(") {
        Some((_, inner)) => inner.split(')').next().unwrap_or_default(),
        None => part,
    });
    inner.filter(|part| part.starts_with("persys "))
}

/// Most of them are run as well, by `tests/manuals`; those that are excused there are at least known.
#[test]
fn every_command_in_the_pages_is_understood() {
    let mut seen = 0;
    for page in pages() {
        let text = std::fs::read_to_string(root(&page)).unwrap();
        let mut inside = false;
        for line in text.lines() {
            inside ^= line.starts_with("```");
            for line in commands(line).filter(|_| inside) {
                seen += 1;
                let told = understood(line);
                assert!(told.is_ok(), "{page}: {line}: {told:?}");
            }
        }
    }
    assert!(seen > 100, "{seen}");
    assert!(understood("persys drift lost").is_err());
    assert!(understood("persys scheduler --no-such-thing").is_err());
    assert_eq!(words("a \"b c\"  # d").last().map(OsString::as_os_str), Some(OsStr::new("b c")));
    let line = "$ X=$(persys a b) && persys c | persys d # persys e";
    assert_eq!(commands(line).collect::<Vec<_>>(), ["persys a b", "persys c", "persys d"]);
}

/// Whoever meets a word in `why`, `list` or `events` finds it explained.
#[test]
fn every_reason_is_explained() {
    let page = std::fs::read_to_string(root("docs/troubleshooting.md")).unwrap();
    for reason in FailureReason::ALL {
        let heading = format!("\n### {}\n", reason.code());
        assert!(page.contains(&heading), "{}", reason.code());
    }
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    for code in ReasonCode::ALL {
        let word = format!("`{}`", code.word());
        let explained =
            rows.iter().any(|row| row.split('|').nth(1).unwrap_or_default().contains(&word));
        assert!(explained, "{word}");
    }
}

/// A unit that starts something the program does not know would be found out on a host of somebody's.
#[test]
fn every_unit_starts_what_there_is() {
    let mut seen = 0;
    let folders = ["deploy/systemd", "deploy/systemd/usr-local"];
    let units = folders.iter().flat_map(|folder| std::fs::read_dir(root(folder)).unwrap());
    let paths = units.map(|unit| unit.unwrap().path()).filter(|path| path.is_file());
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let start = text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/"));
        let start =
            start.map(|start| start.trim_start_matches("local/").trim_start_matches("bin/"));
        let told = understood(start.unwrap_or("nothing"));
        assert!(told.is_ok() && start.is_some(), "{}: {told:?}", path.display());
        // Volumes that an agent mounts in a mount namespace of its own are not seen by Docker.
        let hides =
            text.lines().any(|line| line.starts_with("Protect") || line.starts_with("Private"));
        assert!(!(hides && path.ends_with("persys-agent.service")), "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 2, "{seen}");
}

/// What the files of variables that a package installs name, set or not.
#[test]
fn the_files_of_variables_name_only_what_is_read() {
    let known = |table: &[Setting], name: &str| {
        table.iter().flat_map(|setting| setting.variables).any(|variable| *variable == name)
    };
    let tables: [(&str, &[Setting]); 3] =
        [("scheduler", scheduler::TABLE), ("agent", agent::TABLE), ("gateway", gateway::TABLE)];
    for (component, table) in tables {
        let file = root("deploy/debian").join(format!("{component}.env"));
        let text = std::fs::read_to_string(&file).unwrap();
        let named: Vec<&str> = text
            .lines()
            .filter_map(|line| line.trim_start_matches('#').split_once('='))
            .map(|(name, _)| name)
            .filter(|name| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
            .collect();
        assert!(named.len() > 3, "{component}: {text}");
        for name in named {
            let read = name == FILE_VARIABLE || known(table, name);
            assert!(read, "{component}.env names {name}, which nobody reads");
        }
    }
}

/// The forms of starting an agent that the documents show: all they set is read, and the unit has the documented
/// variables.
#[test]
fn units_and_manifests_set_only_what_is_read() {
    let known = |name: &str| agent::TABLE.iter().any(|row| row.variables.contains(&name));
    let unit =
        std::fs::read_to_string(root("deploy/systemd/usr-local/persys-agent.service")).unwrap();
    let set: Vec<_> = unit
        .lines()
        .filter_map(|line| line.strip_prefix("Environment=\"")?.strip_suffix('"')?.split_once('='))
        .collect();
    assert!(set.iter().all(|(name, _)| known(name)), "{set:?}");
    for wanted in [
        ("PERSYS_NODE_ID", "%H"),
        ("PERSYS_STATE_PATH", "/var/lib/persys/state.db"),
        ("PERSYS_TLS_CERT", "/etc/persys/certs/agent.crt"),
        ("PERSYS_TLS_KEY", "/etc/persys/certs/agent.key"),
        ("PERSYS_TLS_CA", "/etc/persys/certs/ca.crt"),
    ] {
        assert!(set.contains(&wanted), "{wanted:?}: {set:?}");
    }
    let wanted = ["ExecStart=/usr/local/bin/persys-agent", "Restart=always", "RestartSec=10"];
    assert!(wanted.iter().all(|line| unit.lines().any(|one| one == *line)), "{unit}");

    let text = std::fs::read_to_string(root("deploy/kubernetes/persys-agent.yaml")).unwrap();
    let (_, text) = text.split_once("\n---\n").unwrap();
    let manifest: serde_json::Value = serde_saphyr::from_str(text).unwrap();
    let pod = &manifest["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "persys/compute-agent:latest");
    let mut before = Vec::new();
    for variable in container["env"].as_array().unwrap() {
        let name = variable["name"].as_str().unwrap();
        assert!(known(name), "{name}");
        // Kubernetes puts in only what is named above.
        for part in variable["value"].as_str().unwrap_or_default().split("$(").skip(1) {
            let inner = part.split(')').next().unwrap();
            assert!(before.contains(&inner), "{name} comes before {inner}");
        }
        before.push(name);
    }
    let names = |list: &serde_json::Value| -> Vec<String> {
        let all = list.as_array().unwrap().iter();
        all.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&container["volumeMounts"]), names(&pod["volumes"]));
}
