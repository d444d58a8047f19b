//! `logs` and `events`.

use std::time::{Duration, SystemTime};

use persys_model::id::{NodeId, WorkloadId};
use persys_proto::compute::v1 as compute;
use persys_proto::control::v1 as wire;
use tokio::time::Instant;
use tokio_stream::StreamExt as _;
use tonic::{Code, Status, Streaming};

use super::find;
use super::log_lines::Lines;
use crate::args::{Events, Logs, Output};
use crate::connect::Client;
use crate::problem::Problem;
use crate::shell::Shell;
use crate::show;

/// What follows standard output; everything else is a remark.
const STANDARD_ERROR: u32 = 2;

/// How long a watcher that was cut off tries to go on, and the wait between two tries.
const LONGEST_AWAY: Duration = Duration::from_mins(1);
const BETWEEN_TRIES: Duration = Duration::from_millis(500);

/// `logs`.
pub(super) async fn logs(shell: &Shell, logs: &Logs) -> Result<u8, Problem> {
    let since = match &logs.since {
        None => None,
        Some(text) => Some(
            show::moment::since(text, SystemTime::now())
                .map_err(|why| Problem::usage("--since is wrong").why(why))?,
        ),
    };
    let client = shell.client()?;
    let (typed, service) = find::with_service(&logs.id);
    let id = find::workload(&client, typed).await?.workload_id;
    let what = format!("the output of {id} cannot be shown");
    let request = compute::LogsRequest {
        workload_id: id.clone(),
        tail: logs.tail.unwrap_or(0),
        since,
        follow: logs.follow,
        service,
    };
    let mut stream = client.ask(&what, client.compute().logs(request)).await?;
    let mut lines = shell.output().is_data().then(|| Lines::new(&id));
    loop {
        let chunk = tokio::select! {
            () = shell.world.interrupted() => return Ok(0),
            chunk = stream.next() => chunk,
        };
        match chunk {
            None => {
                if let Some(lines) = lines {
                    shell.print(&lines.end(shell.output()))?;
                }
                return Ok(0);
            }
            Some(Ok(chunk)) if lines.is_some() => {
                let shown = lines.as_mut().map(|lines| lines.take(&chunk, shell.output()));
                shell.print(&shown.unwrap_or_default())?;
            }
            Some(Ok(chunk)) if chunk.stream == STANDARD_ERROR => shell.world.remark(&chunk.data),
            Some(Ok(chunk)) => shell.world.print(&chunk.data)?,
            Some(Err(status)) => return Err(client.refused(&what, &status)),
        }
    }
}

/// `events`.
pub(super) async fn events(shell: &Shell, events: &Events) -> Result<u8, Problem> {
    let workload = match events.workload.as_ref().or(events.about.as_ref()) {
        None => String::new(),
        // What is gone has events, too: the id need not exist.
        Some(typed) => WorkloadId::new(typed)
            .map_err(|why| find::bad_name("workload", typed, &why))?
            .to_string(),
    };
    let node = match &events.node {
        None => String::new(),
        Some(typed) => {
            NodeId::new(typed).map_err(|why| find::bad_name("node", typed, &why))?.to_string()
        }
    };
    let kind = events.kind.clone().unwrap_or_default();
    let after_id = events.after.clone().unwrap_or_default();
    let asked = events.asked;
    let client = shell.client()?;
    let what = "events cannot be shown";
    if events.follow {
        let request = wire::WatchEventsRequest {
            r#type: kind,
            workload_id: workload,
            node_id: node,
            after_id,
            asked,
        };
        return watch(shell, &client, request).await;
    }
    let request = wire::ListEventsRequest {
        limit: events.limit,
        r#type: kind,
        workload_id: workload,
        node_id: node,
        after_id,
        asked,
    };
    let found = client.ask(what, client.control().list_events(request)).await?.events;
    if shell.output().is_data() {
        let all = found.iter().map(|event| show::control("SchedulerEventView", event)).collect();
        shell.data(&serde_json::Value::Array(all))?;
    } else if found.is_empty() {
        shell.line("nothing happened")?;
    } else {
        let lines: String = found.iter().map(|event| show::event::line(event) + "\n").collect();
        shell.print(&lines)?;
    }
    Ok(0)
}

/// Shows events as they come. A watcher that is cut off goes on where it was.
async fn watch(
    shell: &Shell,
    client: &Client,
    mut request: wire::WatchEventsRequest,
) -> Result<u8, Problem> {
    let what = "events cannot be shown";
    let mut away: Option<Instant> = None;
    loop {
        let mut control = client.control();
        let opened = tokio::select! {
            () = shell.world.interrupted() => return Ok(0),
            opened = client.answer(control.watch_events(request.clone())) => opened,
        };
        let broken = match opened {
            Ok(stream) => {
                away = None;
                match show_all(shell, stream, &mut request.after_id).await? {
                    None => return Ok(0),
                    Some(status) => status,
                }
            }
            Err(status) => status,
        };
        let passing = matches!(broken.code(), Code::Unavailable | Code::Unknown | Code::Cancelled);
        let since = *away.get_or_insert_with(Instant::now);
        // Whoever never saw anything is told at once what is wrong.
        if !passing || request.after_id.is_empty() || since.elapsed() > LONGEST_AWAY {
            return Err(client.refused(what, &broken));
        }
        tokio::select! {
            () = shell.world.interrupted() => return Ok(0),
            () = tokio::time::sleep(BETWEEN_TRIES) => {}
        }
    }
}

/// Shows one stream to its end; gives what broke it, or nothing when the user ended it.
async fn show_all(
    shell: &Shell,
    mut stream: Streaming<wire::SchedulerEventView>,
    after: &mut String,
) -> Result<Option<Status>, Problem> {
    loop {
        let event = tokio::select! {
            () = shell.world.interrupted() => return Ok(None),
            event = stream.next() => event,
        };
        match event {
            None => return Ok(Some(Status::unavailable("the stream of events ended"))),
            Some(Err(status)) => return Ok(Some(status)),
            Some(Ok(event)) => {
                shell.print(&one(shell, &event))?;
                *after = event.id;
            }
        }
    }
}

/// One event of a stream: a line, a line of JSON, or a YAML document.
fn one(shell: &Shell, event: &wire::SchedulerEventView) -> String {
    let value = || show::control("SchedulerEventView", event);
    match shell.output() {
        Output::Table | Output::Wide => show::event::line(event) + "\n",
        Output::Json => format!("{}\n", value()),
        Output::Yaml => format!("---\n{}", show::data(&value(), Output::Yaml)),
    }
}
