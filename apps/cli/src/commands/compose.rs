//! `compose check`: what becomes of every key of a Compose file.

use std::collections::BTreeMap;

use persys_compose::project::Project;
use persys_compose::{Document, Finding, Reading, Verdict};
use serde_json::{Value, json};

use crate::args::{ComposeCheck, Output};
use crate::manifest::{Beside, compose, project};
use crate::problem::{ERROR, Problem};
use crate::show;
use crate::show::table::{or_dash, table};
use crate::world::World;

/// Reads the file as the scheduler would, and needs none for it. Ends with 0 if it can run.
pub(super) fn check(world: &World, output: Output, wanted: &ComposeCheck) -> Result<u8, Problem> {
    let beside = Beside {
        env: compose::variables(world, &wanted.env, &wanted.env_file)?,
        profiles: wanted.profiles.clone(),
        ..Beside::default()
    };
    let project = match &wanted.file {
        Some(file) => {
            let inside = if file.is_dir() { project::in_folder(file) } else { None };
            let file = inside.as_ref().unwrap_or(file);
            project::read(world, std::slice::from_ref(file), true, &beside)?
        }
        None => project::read(world, &wanted.files, false, &beside)?,
    };
    let reading = &project.reading;
    let shown = if output.is_data() {
        show::data(&data(reading, &project), output)
    } else {
        people(reading, output == Output::Wide)
    };
    world.print(shown.as_bytes())?;
    Ok(if can_run(reading) { 0 } else { ERROR })
}

/// Whether it runs wherever nobody took anything away, and nobody gave more than usual.
fn can_run(reading: &Reading) -> bool {
    reading.document.is_some() && reading.withheld().next().is_none()
}

fn count(reading: &Reading, verdict: Verdict) -> usize {
    reading.findings.iter().filter(|finding| finding.verdict == verdict).count()
}

fn people(reading: &Reading, wide: bool) -> String {
    let rows = reading.findings.iter().map(|finding| row(reading, finding)).collect();
    let mut text = table(&["LINE", "KEY", "VERDICT", "WHY"], rows);
    let counts: Vec<String> =
        [Verdict::Honoured, Verdict::Changed, Verdict::Ignored, Verdict::Refused]
            .into_iter()
            .chain((count(reading, Verdict::Withheld) > 0).then_some(Verdict::Withheld))
            .map(|verdict| format!("{} {}", count(reading, verdict), verdict.word()))
            .collect();
    text.extend([format!("\n{}\n", counts.join(", "))]);
    match &reading.document {
        Some(document) => {
            text.push_str(if can_run(reading) {
                "it can run\n"
            } else {
                "it can run where an operator gives it what is withheld\n"
            });
            if wide {
                let ports: Vec<_> = document
                    .host_ports()
                    .iter()
                    .map(|port| format!("{}/{}", port.port, port.protocol.word()))
                    .collect();
                let volumes: Vec<_> = document.named_volumes().collect();
                text.extend([
                    format!("ports of the node: {}\n", or_dash(&ports.join(", "))),
                    format!("volumes that are kept: {}\n", or_dash(&volumes.join(", "))),
                ]);
            }
        }
        None => text.push_str("it cannot run: mend what is refused\n"),
    }
    text
}

fn row(reading: &Reading, finding: &Finding) -> Vec<String> {
    let place = reading.place(finding);
    let line = place.strip_prefix("line ").unwrap_or(&place).to_owned();
    let key = if finding.path.is_empty() { "the file" } else { &finding.path };
    vec![line, key.to_owned(), finding.verdict.word().to_owned(), finding.why.clone()]
}

/// What is sent along, by who sees it.
fn contents(document: &Document) -> Vec<Value> {
    let seen = document.seen_contents().map(|(service, target, content)| {
        let (files, bytes) = (content.files().count(), content.bytes());
        json!({"service": service, "target": target, "files": files, "bytes": bytes})
    });
    seen.collect()
}

fn data(reading: &Reading, project: &Project) -> Value {
    let findings: Vec<Value> = reading
        .findings
        .iter()
        .map(|finding| {
            json!({
                "file": reading.files.get(usize::from(finding.file)),
                "line": finding.line,
                "key": finding.path,
                "verdict": finding.verdict.word(),
                "why": finding.why,
            })
        })
        .collect();
    let mut data = BTreeMap::from([
        ("can_run", Value::Bool(can_run(reading))),
        ("findings", Value::Array(findings)),
        ("built", project.builds.iter().map(|build| build.service.as_str()).collect()),
        ("secrets_set", project.secrets.iter().map(|secret| secret.name.as_str()).collect()),
    ]);
    if let Some(document) = &reading.document {
        let ports = document.host_ports().into_iter();
        let ports: Vec<_> = ports
            .map(|port| json!({"port": port.port, "protocol": port.protocol.word()}))
            .collect();
        data.insert("host_ports", Value::Array(ports));
        data.insert("named_volumes", document.named_volumes().collect());
        data.insert("images", document.images().into_iter().collect());
        data.insert("services", document.services().map(|one| one.name.as_str()).collect());
        data.insert("contents", Value::Array(contents(document)));
    }
    json!(data)
}
