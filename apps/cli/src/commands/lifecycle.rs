//! `stop`, `start`, `pause`, `resume`, `restart`, `retry`, and the end of `delete`.

use persys_proto::compute::v1 as compute;
use persys_proto::control::v1 as wire;
use serde_json::{Value, json};
use tonic::Code;

use super::{find, submit};
use crate::args::Ids;
use crate::connect::Client;
use crate::problem::Problem;
use crate::shell::Shell;
use crate::wait::judge::Goal;
use crate::wait::{self, Ended};

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Stop,
    Start,
    Pause,
    Resume,
    Restart,
    Retry,
    Delete,
    DeleteWithVolumes,
}

impl Verb {
    fn goal(self) -> Goal {
        match self {
            Self::Stop => Goal::Stopped,
            Self::Pause => Goal::Paused,
            Self::Start | Self::Resume | Self::Restart | Self::Retry => Goal::Running,
            Self::Delete | Self::DeleteWithVolumes => Goal::Gone,
        }
    }

    fn past(self) -> &'static str {
        match self {
            Self::Stop => "stopped",
            Self::Start => "started",
            Self::Pause => "paused",
            Self::Resume => "resumed",
            Self::Restart => "restarted",
            Self::Retry => "tried again",
            Self::Delete | Self::DeleteWithVolumes => "deleted",
        }
    }
}

/// Does it to each, waits for each; the exit code is that of the worst.
pub(super) async fn each(shell: &Shell, ids: &Ids, verb: Verb) -> Result<u8, Problem> {
    let client = shell.client()?;
    // All are found before anything is done to any.
    let mut found: Vec<String> = Vec::new();
    for typed in &ids.ids {
        let id = find::workload(&client, typed).await?.workload_id;
        if !found.contains(&id) {
            found.push(id);
        }
    }
    all(shell, &client, (found, ids.detach), verb).await
}

/// Does it to all of these, whose ids are whole.
pub(super) async fn all(
    shell: &Shell,
    client: &Client,
    (found, detach): (Vec<String>, bool),
    verb: Verb,
) -> Result<u8, Problem> {
    let mut marks = Vec::new();
    for id in &found {
        let mark = wait::mark(client).await;
        marks.push((mark, Box::pin(order(shell, client, id, verb)).await?));
    }
    let mut shown = Vec::new();
    let mut code = 0;
    for (id, (mark, note)) in found.iter().zip(marks) {
        let more = if note.is_empty() { String::new() } else { format!("; {note}") };
        if detach {
            say(shell, &mut shown, id, &format!("{id} is to be {}{more}", verb.past()))?;
            continue;
        }
        let ended = Box::pin(wait::wait(shell, client, (id, verb.goal()), mark)).await?;
        if verb.goal() == Goal::Gone
            && let Ended::Verdict(..) = ended
        {
            say(shell, &mut shown, id, &format!("{id} is deleted{more}"))?;
            continue;
        }
        let told = (id.as_str(), verb.goal());
        let interrupted = matches!(ended, Ended::Interrupted);
        code = code.max(submit::tell(shell, client, told, (ended, Vec::new()), &mut shown).await?);
        if interrupted {
            break;
        }
    }
    if shell.output().is_data() {
        let one = if found.len() == 1 { shown.pop() } else { None };
        shell.data(&one.unwrap_or(Value::Array(shown)))?;
    }
    Ok(code)
}

fn say(shell: &Shell, shown: &mut Vec<Value>, id: &str, text: &str) -> Result<(), Problem> {
    if shell.output().is_data() {
        shown.push(json!({"workload": {"workload_id": id}, "note": text}));
        return Ok(());
    }
    shell.line(text)
}

/// Gives the order; tells what the scheduler has to say beyond that it was taken.
async fn order(shell: &Shell, client: &Client, id: &str, verb: Verb) -> Result<String, Problem> {
    match verb {
        Verb::Stop => Box::pin(desired(client, id, "Stopped")).await?,
        Verb::Start => Box::pin(desired(client, id, "Running")).await?,
        Verb::Pause => return pause(client, id).await,
        Verb::Resume => return resume(client, id).await,
        Verb::Restart => Box::pin(restart(shell, client, id)).await?,
        Verb::Retry => retry(client, id).await?,
        Verb::Delete => return delete(client, id, false).await,
        Verb::DeleteWithVolumes => return delete(client, id, true).await,
    }
    Ok(String::new())
}

/// Changes what is wanted of it and nothing else.
pub(super) async fn desired(client: &Client, id: &str, state: &str) -> Result<(), Problem> {
    let request = wire::ApplyWorkloadRequest {
        workload_id: id.to_owned(),
        desired_state: state.to_owned(),
        ..wire::ApplyWorkloadRequest::default()
    };
    submit::send(client, &request).await.map(drop)
}

pub(super) async fn retry(client: &Client, id: &str) -> Result<(), Problem> {
    let what = format!("{id} cannot be tried again");
    let request = wire::RetryWorkloadRequest { workload_id: id.to_owned() };
    let answer = client.ask(&what, client.control().retry_workload(request)).await?;
    if answer.accepted {
        return Ok(());
    }
    Err(Problem::new(what).why("only what failed can be").next(format!("persys get {id}")))
}

pub(super) async fn delete(client: &Client, id: &str, volumes: bool) -> Result<String, Problem> {
    let what = format!("{id} cannot be deleted");
    let request = wire::DeleteWorkloadRequest { workload_id: id.to_owned(), volumes };
    let answer = client.ask(&what, client.control().delete_workload(request)).await?;
    if answer.success {
        Ok(answer.message)
    } else {
        Err(Problem::new(what).why(answer.error_message))
    }
}

async fn pause(client: &Client, id: &str) -> Result<String, Problem> {
    let request = compute::PauseRequest { workload_id: id.to_owned() };
    let what = format!("{id} cannot be paused");
    Ok(client.ask(&what, client.compute().pause(request)).await?.note)
}

async fn resume(client: &Client, id: &str) -> Result<String, Problem> {
    let request = compute::ResumeRequest { workload_id: id.to_owned() };
    let what = format!("{id} cannot be resumed");
    Ok(client.ask(&what, client.compute().resume(request)).await?.note)
}

/// Restarts it where it is; with an older scheduler stops it, waits, and starts it.
pub(super) async fn restart(shell: &Shell, client: &Client, id: &str) -> Result<(), Problem> {
    let request = compute::RestartRequest { workload_id: id.to_owned() };
    match client.answer(client.compute().restart(request)).await {
        Ok(_) => return Ok(()),
        Err(status) if status.code() == Code::Unimplemented => {}
        Err(status) => return Err(client.refused(&format!("{id} cannot be restarted"), &status)),
    }
    let mark = wait::mark(client).await;
    Box::pin(desired(client, id, "Stopped")).await?;
    match wait::wait(shell, client, (id, Goal::Stopped), mark).await? {
        Ended::Verdict(..) => Box::pin(desired(client, id, "Running")).await,
        Ended::TooLong(_) | Ended::Interrupted => {
            Err(Problem::new(format!("{id} was told to stop and has not yet"))
                .why("it is started again only once it has stopped")
                .next(format!("persys start {id}")))
        }
    }
}
