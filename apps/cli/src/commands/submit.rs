//! `run` and `apply`: ask, wait, and tell how it ended.

use persys_model::id::NamespaceName;
use persys_model::spec::NAMESPACE_KEY;
use persys_proto::compute::v1 as compute;
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::workload_spec::Workload;
use serde_json::{Value, json};
use tokio_stream::StreamExt as _;
use tonic::Code;

use super::{explain, once, prepare};
use crate::args::{Apply, Run};
use crate::connect::Client;
use crate::manifest::{self, Beside, Wanted};
use crate::problem::{ERROR, NOT_PLACED, Problem, UNHEALTHY, UNPLACEABLE};
use crate::shell::Shell;
use crate::show;
use crate::show::link::link;
use crate::wait::judge::{Goal, Verdict};
use crate::wait::{self, Ended};

/// Lines of output shown with a failure.
const LAST_LINES: u32 = 10;

/// `run`.
pub(super) async fn run(shell: &Shell, run: &Run) -> Result<u8, Problem> {
    if let Some(apply) = compose_file(run)? {
        return Box::pin(self::apply(shell, &apply)).await;
    }
    once::no_terminal(run)?;
    let mut request = manifest::options::request(&shell.world, run)?;
    put_in(&mut request, run.namespace.as_deref())?;
    let client = shell.client()?;
    let wanted = Wanted { request, from: "the command line".to_owned(), project: None };
    if run.rm {
        return Box::pin(once::run(shell, &client, &wanted)).await;
    }
    Box::pin(submit(shell, &client, &[wanted], run.detach)).await
}

/// `run compose.yaml` means the stack in that file, if there is such a file.
fn compose_file(run: &Run) -> Result<Option<Apply>, Problem> {
    let file = std::path::PathBuf::from(&run.image);
    let is_yaml = file.extension().is_some_and(|ending| ending == "yml" || ending == "yaml");
    if !is_yaml || !file.is_file() {
        return Ok(None);
    }
    let of_containers = [
        !run.ports.is_empty(),
        !run.volumes.is_empty(),
        !run.labels.is_empty(),
        !run.constraints.is_empty(),
        !run.command.is_empty() || run.entrypoint.is_some(),
        run.cpu.is_some() || run.memory.is_some() || run.disk.is_some(),
        run.privileged,
        run.rm || run.interactive || run.tty,
    ];
    if of_containers.contains(&true) {
        return Err(Problem::usage(format!("{} is a file, not an image", run.image))
            .why("a stack takes --name, --env, --env-file and --detach; the rest is in its file")
            .next(format!("persys apply {}", run.image)));
    }
    Ok(Some(Apply {
        named: vec![file],
        files: Vec::new(),
        project: crate::args::ProjectOptions::default(),
        namespace: run.namespace.clone(),
        env: run.env.clone(),
        env_file: run.env_file.clone(),
        id: run.name.clone(),
        kind: None,
        revision: None,
        plan: None,
        check: false,
        detach: run.detach,
    }))
}

/// `apply`.
pub(super) async fn apply(shell: &Shell, apply: &Apply) -> Result<u8, Problem> {
    let mut wanted = match &apply.plan {
        Some(plan) => super::plan::read(plan)?,
        None => load(shell, apply)?,
    };
    if apply.check {
        for one in &wanted {
            shell.line(&format!("{}: {} is sound", one.from, one.request.workload_id))?;
        }
        return Ok(0);
    }
    let client = shell.client()?;
    for one in &mut wanted {
        Box::pin(prepare::project(shell, &client, one, apply)).await?;
    }
    Box::pin(submit(shell, &client, &wanted, apply.detach)).await
}

/// All that the files of a command want.
pub(super) fn load(shell: &Shell, apply: &Apply) -> Result<Vec<Wanted>, Problem> {
    let beside = Beside {
        id: apply.id.clone(),
        kind: apply.kind.clone(),
        revision: apply.revision.clone(),
        desired: None,
        env: manifest::compose::variables(&shell.world, &apply.env, &apply.env_file)?,
        profiles: apply.project.profiles.clone(),
        ..Beside::default()
    };
    let mut wanted = manifest::load(&shell.world, &apply.named, &apply.files, &beside)?;
    for one in &mut wanted {
        put_in(&mut one.request, apply.namespace.as_deref())?;
    }
    Ok(wanted)
}

/// Puts a workload into a namespace, unless it names one itself.
fn put_in(
    request: &mut wire::ApplyWorkloadRequest,
    namespace: Option<&str>,
) -> Result<(), Problem> {
    let Some(name) = namespace else { return Ok(()) };
    NamespaceName::new(name)
        .map_err(|why| Problem::usage(format!("the namespace {name:?} {why}")))?;
    if let Some(spec) = &mut request.spec {
        spec.metadata.entry(NAMESPACE_KEY.to_owned()).or_insert_with(|| name.to_owned());
    }
    Ok(())
}

/// Sends all, then waits for each; the exit code is that of the worst.
async fn submit(
    shell: &Shell,
    client: &Client,
    wanted: &[Wanted],
    detach: bool,
) -> Result<u8, Problem> {
    let (mut marks, mut unplaceable) = (Vec::new(), Vec::new());
    for one in wanted {
        let before = Box::pin(wait::view(client, &one.request.workload_id));
        marks.push(tokio::join!(Box::pin(wait::mark(client)), before));
        let said = send(client, &one.request).await?;
        if !said.note.is_empty() && !shell.output().is_data() {
            shell.line(&said.note)?;
        }
        if let Some(warning) = &said.never {
            shell.world.note(&format!("warning: {}: {warning}", one.request.workload_id));
        }
        unplaceable.push(said.never.is_some());
    }
    let mut shown = Vec::new();
    let mut code = 0;
    for ((one, (mark, before)), never) in wanted.iter().zip(marks).zip(unplaceable) {
        let id = &one.request.workload_id;
        if never {
            code = code.max(UNPLACEABLE);
        }
        if detach {
            detached(shell, id, &mut shown)?;
            continue;
        }
        let goal = goal_of(&one.request);
        let ended = match Box::pin(wait::unmoved(client, before.as_deref())).await {
            Some(view) if goal == Goal::Running => Ended::Verdict(Verdict::Done, Some(view)),
            // No node will have room by itself: there is nothing to wait for.
            Some(_) | None if never => {
                Ended::Verdict(Verdict::NotPlaced, Box::pin(wait::view(client, id)).await)
            }
            Some(_) | None => Box::pin(wait::wait(shell, client, (id, goal), mark)).await?,
        };
        let ports = ports_of(&one.request);
        let interrupted = matches!(ended, Ended::Interrupted);
        code = code.max(tell(shell, client, (id, goal), (ended, ports), &mut shown).await?);
        if interrupted {
            break;
        }
    }
    if shell.output().is_data() {
        let one = if wanted.len() == 1 { shown.pop() } else { None };
        shell.data(&one.unwrap_or(Value::Array(shown)))?;
    }
    Ok(code)
}

fn detached(shell: &Shell, id: &str, shown: &mut Vec<Value>) -> Result<(), Problem> {
    if shell.output().is_data() {
        shown.push(json!({"workload": {"workload_id": id}, "accepted": true}));
        return Ok(());
    }
    shell.line(&format!("{id} is accepted"))?;
    shell.line(&format!("next:\n  {}", shell.typed(&format!("persys get {id} --watch"))))
}

/// What the request wants, as what to wait for.
fn goal_of(request: &wire::ApplyWorkloadRequest) -> Goal {
    match request.desired_state.to_ascii_lowercase().as_str() {
        "stopped" | "stop" => Goal::Stopped,
        "deleted" | "delete" => Goal::Gone,
        _ => Goal::Running,
    }
}

/// Published ports, for a scheduler that does not tell addresses.
fn ports_of(request: &wire::ApplyWorkloadRequest) -> Vec<wire::Port> {
    match request.spec.as_ref().and_then(|spec| spec.workload.as_ref()) {
        Some(Workload::Container(body)) => body.ports.clone(),
        Some(Workload::Compose(_) | Workload::Vm(_)) | None => Vec::new(),
    }
}

/// What the scheduler has to say of a request beyond that it was taken.
pub(super) struct Said {
    note: String,
    /// Why no node could ever hold it, if so.
    never: Option<String>,
}

impl Said {
    /// All of it, a sentence each.
    pub(super) fn words(self) -> impl Iterator<Item = String> {
        Some(self.note).filter(|note| !note.is_empty()).into_iter().chain(self.never)
    }
}

/// Sends a request; a refusal in the answer is an error.
pub(super) async fn send(
    client: &Client,
    request: &wire::ApplyWorkloadRequest,
) -> Result<Said, Problem> {
    let id = &request.workload_id;
    let what = format!("{id} was not accepted");
    let mut control = client.control();
    // On the heap: whoever sends waits for it in a future of its own.
    let sending = Box::pin(async move { control.apply_workload(request.clone()).await });
    let answer = client.ask(&what, sending).await?;
    if answer.success {
        let never = answer.unplaceable.then_some(answer.warning);
        return Ok(Said { note: answer.message, never });
    }
    let reason = wire::FailureReason::try_from(answer.failure_reason);
    let mut problem = Problem::new(what);
    for line in answer.error_message.split("; ") {
        problem = problem.why(line);
    }
    match reason {
        Ok(wire::FailureReason::InsufficientResources) => Err(problem.next("persys nodes")),
        Ok(_) | Err(_) => Err(problem),
    }
}

/// Tells how waiting ended, and the exit code of that.
pub(super) async fn tell(
    shell: &Shell,
    client: &Client,
    (id, goal): (&str, Goal),
    (ended, ports): (Ended, Vec<wire::Port>),
    shown: &mut Vec<Value>,
) -> Result<u8, Problem> {
    let (verdict, view) = match ended {
        Ended::Verdict(verdict, view) => (verdict, view.map(|view| *view).unwrap_or_default()),
        Ended::Interrupted => {
            shell.world.note(&format!("not waiting any longer; {id} goes on in the background"));
            shell
                .world
                .note(&format!("next: {}", shell.typed(&format!("persys get {id} --watch"))));
            return Ok(130);
        }
        Ended::TooLong(view) => {
            let view = view.map(|view| *view).unwrap_or_default();
            let problem = too_long(id, goal, &view);
            shown.push(json!({"workload": show::control("WorkloadView", &view)}));
            remark(shell, &problem);
            return Ok(problem.code);
        }
    };
    match verdict {
        Verdict::Done => {
            done(shell, client, (goal, &view), ports, shown).await?;
            Ok(0)
        }
        Verdict::NotPlaced => {
            let why = explain::of_workload(client, &view).await?;
            shown.push(json!({
                "workload": show::control("WorkloadView", &view),
                "why": show::compute("WhyResponse", &why),
            }));
            not_placed(shell, id, &why);
            Ok(NOT_PLACED)
        }
        Verdict::Unhealthy => {
            let why = explain::of_workload(client, &view).await?;
            let problem = unhealthy(client, &view, &why).await;
            shown.push(json!({
                "workload": show::control("WorkloadView", &view),
                "why": show::compute("WhyResponse", &why),
            }));
            remark(shell, &problem);
            Ok(UNHEALTHY)
        }
        Verdict::Vanished => {
            let problem = Problem::new(format!("{id} is gone"))
                .why("it was deleted while we waited")
                .next(format!("persys events {id}"));
            remark(shell, &problem);
            Ok(problem.code)
        }
        Verdict::Overruled => {
            let problem = Problem::new(format!("{id} is wanted otherwise by now"))
                .why(format!("somebody asked for {} while we waited", view.desired_state))
                .next(format!("persys events {id}"));
            remark(shell, &problem);
            Ok(problem.code)
        }
        Verdict::Wait => Ok(0),
    }
}

fn remark(shell: &Shell, problem: &Problem) {
    let color = crate::shell::color(&shell.world, &shell.global);
    shell.world.remark(problem.text(&shell.program, color).as_bytes());
}

async fn done(
    shell: &Shell,
    client: &Client,
    (goal, view): (Goal, &wire::WorkloadView),
    ports: Vec<wire::Port>,
    shown: &mut Vec<Value>,
) -> Result<(), Problem> {
    let id = &view.workload_id;
    let addresses = if goal == Goal::Running && view.status == "Running" {
        addresses(client, view, &ports).await
    } else {
        Vec::new()
    };
    if shell.output().is_data() {
        shown.push(json!({
            "workload": show::control("WorkloadView", view),
            "addresses": addresses,
        }));
        return Ok(());
    }
    let mut text = match (goal, view.status.as_str()) {
        (Goal::Gone, _) => return shell.line("it is gone"),
        (Goal::Paused, _) => format!("{id} is paused\n"),
        (Goal::Stopped, _) => format!("{id} is stopped\n"),
        (Goal::Running, "Completed") => {
            format!("{id} ran to its end on node {}\n", view.assigned_node_id)
        }
        (Goal::Running, _) => format!("{id} runs on node {}\n", view.assigned_node_id),
    };
    for address in &addresses {
        text.extend([format!("  {}\n", link(address))]);
    }
    let next = match (goal, view.status.as_str()) {
        (Goal::Paused, _) => vec![format!("persys resume {id}"), format!("persys stop {id}")],
        (Goal::Stopped, _) => vec![format!("persys start {id}"), format!("persys get {id}")],
        (_, "Completed") => vec![format!("persys logs {id}"), format!("persys get {id}")],
        (_, _) => vec![format!("persys logs -f {id}"), format!("persys get {id}")],
    };
    text.push_str("next:\n");
    for command in next {
        text.extend([format!("  {}\n", shell.typed(&command))]);
    }
    shell.print(&text)
}

/// Where it can be reached, as `host:port/protocol`.
async fn addresses(
    client: &Client,
    view: &wire::WorkloadView,
    ports: &[wire::Port],
) -> Vec<String> {
    let request =
        compute::DescribeRequest { workload_id: view.workload_id.clone(), secrets: false };
    match client.answer(client.compute().describe(request)).await {
        Ok(found) => return found.addresses,
        Err(status) if status.code() == Code::Unimplemented => {}
        Err(_) => return Vec::new(),
    }
    let request = wire::GetNodeRequest { node_id: view.assigned_node_id.clone() };
    let Ok(found) = client.answer(client.control().get_node(request)).await else {
        return Vec::new();
    };
    let endpoint = found.node.unwrap_or_default().grpc_endpoint;
    let host = endpoint.rsplit_once(':').map_or(endpoint.as_str(), |(host, _)| host);
    let published = ports.iter().filter(|port| port.host_port > 0);
    published.map(|port| format!("{host}:{}/{}", port.host_port, port.protocol)).collect()
}

fn not_placed(shell: &Shell, id: &str, why: &compute::WhyResponse) {
    let mut problem = Problem::new(format!("{id} could not be placed"))
        .why("it stays pending, and is placed as soon as there is room");
    problem.next.clone_from(&why.next);
    if problem.next.is_empty() {
        problem.next = vec![format!("persys why {id}")];
    }
    let explained = compute::WhyResponse { next: Vec::new(), events: Vec::new(), ..why.clone() };
    let next = std::mem::take(&mut problem.next);
    remark(shell, &problem);
    let text = show::why::text(&explained, &shell.program, shell.wide());
    shell.world.remark(text.as_bytes());
    shell.world.note("next:");
    for command in next {
        shell.world.note(&format!("  {}", shell.typed(&command)));
    }
}

async fn unhealthy(
    client: &Client,
    view: &wire::WorkloadView,
    why: &compute::WhyResponse,
) -> Problem {
    let id = &view.workload_id;
    let reason = show::workload::reason(view);
    let went_back = view.update_state == "UpdateFailed";
    let what = match (went_back, view.health.as_str()) {
        (true, _) => "was not updated",
        (false, "Unhealthy") => "runs and is unhealthy",
        (false, _) => "does not become healthy",
    };
    let mut problem = Problem::new(format!("{id} {what}")).code(UNHEALTHY);
    let reason = if went_back { view.update_message.clone() } else { reason };
    let reason = if reason.is_empty() { why.summary.clone() } else { reason };
    let evidence =
        if why.evidence.is_empty() { last_lines(client, id).await } else { why.evidence.clone() };
    // A reason of several lines ends with the evidence.
    let first = reason.lines().next().unwrap_or_default().to_owned();
    let more = evidence.iter().map(|line| show::table::clean(line));
    let more: Vec<_> = more.filter(|line| !first.contains(line.as_str())).collect();
    problem.why.push(if more.is_empty() { reason } else { first });
    problem.why.extend(more);
    if let Some(at) = &view.retry_next_at {
        let (tried, most) = (view.retry_attempts, view.retry_max_attempts);
        let when = show::moment::clock(Some(at));
        problem
            .why
            .push(format!("it is tried again at {when} ({tried} of {most} attempts failed)"));
    }
    problem
        .next(format!("persys logs {id}"))
        .next(format!("persys why {id}"))
        .next(format!("persys {} {id}", if went_back { "rollback" } else { "retry" }))
}

/// The last lines it printed, if they can be had.
async fn last_lines(client: &Client, id: &str) -> Vec<String> {
    let request = compute::LogsRequest {
        workload_id: id.to_owned(),
        tail: LAST_LINES,
        ..compute::LogsRequest::default()
    };
    let Ok(mut stream) = client.answer(client.compute().logs(request)).await else {
        return Vec::new();
    };
    let mut bytes = Vec::new();
    let soon = tokio::time::Duration::from_secs(2);
    while let Ok(Some(Ok(chunk))) = tokio::time::timeout(soon, stream.next()).await {
        bytes.extend_from_slice(&chunk.data);
        if bytes.len() > 64 * 1024 {
            break;
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let most = usize::try_from(LAST_LINES).unwrap_or(usize::MAX);
    let from = lines.len().saturating_sub(most);
    lines.iter().skip(from).map(|line| (*line).to_owned()).collect()
}

fn too_long(id: &str, goal: Goal, view: &wire::WorkloadView) -> Problem {
    let code = match (goal, view.status.as_str()) {
        (Goal::Running, "Pending") => NOT_PLACED,
        (Goal::Running, status) if !status.is_empty() => UNHEALTHY,
        _ => ERROR,
    };
    let reason = show::workload::reason(view);
    let status = if view.status.is_empty() { "not known".to_owned() } else { view.status.clone() };
    let mut problem = Problem::new(format!("{id} is not there yet: it is {status}")).code(code);
    if !reason.is_empty() {
        problem = problem.why(reason);
    }
    problem
        .why("it goes on in the background; --timeout waits longer")
        .next(format!("persys why {id}"))
        .next(format!("persys get {id} --watch"))
}
