//! `workload schedule` and `scheduler apply…`.

use persys_model::fault::Faults;
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::workload_spec::Workload;
use persys_proto::convert::draft;
use serde_json::{Map, json};

use super::print;
use crate::args::{ApplySpec, WorkloadSchedule};
use crate::manifest::options::{pair, port, volume};
use crate::manifest::{self, Beside, Wanted};
use crate::problem::{ERROR, Problem, USAGE};
use crate::shell::Shell;

/// `scheduler apply…`.
pub(super) async fn apply(
    shell: &Shell,
    spec: &ApplySpec,
    kind: Option<&str>,
) -> Result<u8, Problem> {
    let request = from_file(shell, spec, kind)?;
    let client = shell.client()?;
    let what = format!("{} was not accepted", request.workload_id);
    let answer = Box::pin(client.ask(&what, client.control().apply_workload(request))).await?;
    print(shell, "persys.control.v1.ApplyWorkloadResponse", &answer)?;
    Ok(if answer.success { 0 } else { ERROR })
}

/// The request a spec file means.
pub(super) fn from_file(
    shell: &Shell,
    spec: &ApplySpec,
    kind: Option<&str>,
) -> Result<wire::ApplyWorkloadRequest, Problem> {
    let Some(file) = &spec.spec_file else {
        return Err(Problem::usage("there is no spec").why("--spec-file is missing"));
    };
    let beside = Beside {
        id: spec.id.clone().or_else(|| spec.name.clone()),
        kind: kind.map(str::to_owned).or_else(|| spec.kind.clone()),
        revision: Some(spec.revision.clone()),
        desired: Some(spec.desired_state.clone()),
        ..Beside::default()
    };
    let mut wanted = manifest::load(&shell.world, std::slice::from_ref(file), &[], &beside)?;
    match (wanted.pop(), wanted.is_empty()) {
        // This command sends, and does nothing before that.
        (Some(Wanted { project: Some(project), .. }), true)
            if !(project.secrets.is_empty() && project.builds.is_empty()) =>
        {
            Err(Problem::usage("the project has secrets to be set or images to be built first")
                .next(format!("persys apply {}", file.display())))
        }
        (Some(one), true) => Ok(one.request),
        _ => Err(Problem::usage("this command takes one document").next("persys apply -f FILE")),
    }
}

/// `workload schedule`.
pub(super) async fn schedule(shell: &Shell, schedule: &WorkloadSchedule) -> Result<u8, Problem> {
    let request = request(shell, schedule)?;
    let client = shell.client()?;
    let id = request.workload_id.clone();
    let revision = request.revision_id.clone();
    let what = format!("{id} was not accepted");
    let answer = Box::pin(client.ask(&what, client.control().apply_workload(request))).await?;
    let mut shown = Map::new();
    let mut add = |key: &str, value| drop(shown.insert(key.to_owned(), value));
    add("target", json!("scheduler"));
    add("transport", json!("grpc"));
    add("workload_id", json!(id));
    add("accepted", json!(answer.success));
    if answer.success {
        let request = wire::GetWorkloadRequest { workload_id: id };
        let found = client.answer(client.control().get_workload(request)).await;
        let view = found.ok().and_then(|found| found.workload).unwrap_or_default();
        let given = if answer.message.is_empty() { revision } else { view.revision_id };
        add("revision_id", json!(given));
        if !answer.message.is_empty() {
            add("message", json!(answer.message));
        }
        add("status", json!(view.status));
        add("assigned_node_id", json!(view.assigned_node_id));
    } else {
        add("revision_id", json!(revision));
        let reason = wire::FailureReason::try_from(answer.failure_reason).unwrap_or_default();
        add("status", json!("Rejected"));
        add("assigned_node_id", json!(""));
        add("failure_reason", json!(reason.as_str_name()));
        add("error_message", json!(answer.error_message));
    }
    shell.data(&shown.into())?;
    Ok(if answer.success { 0 } else { ERROR })
}

fn request(
    shell: &Shell,
    schedule: &WorkloadSchedule,
) -> Result<wire::ApplyWorkloadRequest, Problem> {
    let spec = &schedule.spec;
    if let Some(file) = schedule.file.as_ref().or(spec.spec_file.as_ref()) {
        let spec = ApplySpec {
            id: spec.id.clone(),
            name: spec.name.clone(),
            kind: spec.kind.clone(),
            spec_file: Some(file.clone()),
            revision: spec.revision.clone(),
            desired_state: spec.desired_state.clone(),
        };
        return from_file(shell, &spec, None);
    }
    let mut faults = Faults::none();
    for (option, given) in [
        ("--git-token", &schedule.git_token),
        ("--local-path", &schedule.local_path),
        ("--network", &schedule.network),
    ] {
        if given.is_some() {
            faults.push(option, "is not supported; leave it out");
        }
    }
    let workload = body(schedule, &mut faults);
    let request = wire::ApplyWorkloadRequest {
        workload_id: spec.id.clone().or_else(|| spec.name.clone()).unwrap_or_default(),
        spec: Some(wire::WorkloadSpec {
            r#type: spec.kind.clone().unwrap_or_default(),
            workload: Some(workload),
            ..wire::WorkloadSpec::default()
        }),
        revision_id: spec.revision.clone(),
        desired_state: spec.desired_state.clone(),
        plan: String::new(),
    };
    if let Err(found) = draft::unfetched(request.clone()) {
        for fault in found.listed() {
            faults.push(fault.path.clone(), fault.problem.clone());
        }
    }
    if faults.is_empty() {
        return Ok(request);
    }
    Err(Problem::faults("nothing was sent: the options have faults", &faults)
        .code(USAGE)
        .next("persys workload schedule --help"))
}

fn body(schedule: &WorkloadSchedule, faults: &mut Faults) -> Workload {
    let mut env = std::collections::BTreeMap::new();
    for text in schedule.env.iter().filter(|text| !text.is_empty()) {
        match pair(text, "a variable") {
            Ok((key, value)) => drop(env.insert(key, value)),
            Err(why) => faults.push("--env", why),
        }
    }
    if schedule.compose.is_some() || schedule.git_repo.is_some() {
        return Workload::Compose(wire::ComposeSpec {
            source_type: if schedule.git_repo.is_some() { "git" } else { "inline" }.to_owned(),
            inline_yaml: schedule.compose.clone().unwrap_or_default(),
            git_repo: schedule.git_repo.clone().unwrap_or_default(),
            git_ref: match &schedule.git_repo {
                Some(_) => schedule.git_branch.clone(),
                None => String::new(),
            },
            env,
            ..wire::ComposeSpec::default()
        });
    }
    let mut ports = Vec::new();
    for text in &schedule.ports {
        match port(text) {
            Ok(found) => ports.push(found),
            Err(why) => faults.push("--ports", why),
        }
    }
    let mut volumes = Vec::new();
    for text in &schedule.volumes {
        match volume(text) {
            Ok(found) => volumes.push(found),
            Err(why) => faults.push("--volumes", why),
        }
    }
    Workload::Container(wire::ContainerSpec {
        image: schedule.image.clone().unwrap_or_default(),
        command: words(schedule.command.as_deref().unwrap_or_default()),
        env,
        ports,
        volumes,
        restart_policy: schedule.restart_policy.clone(),
        ..wire::ContainerSpec::default()
    })
}

/// The old option is one text; words are set apart by spaces.
fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
