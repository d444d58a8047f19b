//! `get`, `list`, `summary`, `status`.

use std::future::Future;
use std::time::{Duration, SystemTime};

use clap::Parser as _;
use persys_proto::compute::v1 as compute;
use persys_proto::control::v1 as wire;
use serde_json::Value;
use tokio::time::sleep;
use tokio_stream::StreamExt as _;
use tonic::Code;

use super::find;
use crate::args::{Cli, Get, List};
use crate::connect::Client;
use crate::habits;
use crate::problem::Problem;
use crate::shell::Shell;
use crate::show;
use crate::show::table::pairs;

/// How often a watched screen is drawn anew although nothing happened: ages grow.
const REDRAW: Duration = Duration::from_secs(2);

/// `get`.
pub(super) async fn get(shell: &Shell, get: &Get) -> Result<u8, Problem> {
    let client = shell.client()?;
    let id = match find::workload(&client, &get.id).await {
        Ok(found) => found.workload_id,
        Err(problem) => return listing(shell, &get.id, problem).await,
    };
    let once = || async {
        let found = describe(&client, &id, get.secrets).await?;
        Ok(if shell.output().is_data() {
            show::data(&show::compute("DescribeResponse", &found), shell.output())
        } else {
            show::describe::text(&found, SystemTime::now())
        })
    };
    screen(shell, &client, get.watch, once).await
}

/// `get nodes` and the like, where no workload has that name: what there is of that kind.
async fn listing(shell: &Shell, kind: &str, problem: Problem) -> Result<u8, Problem> {
    let Some(ours) = habits::listing(kind) else { return Err(problem) };
    let words = std::iter::once("persys").chain(ours.iter().copied());
    match Cli::try_parse_from(words) {
        Ok(cli) => super::run(shell, cli.command).await,
        Err(_) => Err(problem),
    }
}

/// Everything known of a workload; of an older scheduler what it says.
pub(super) async fn describe(
    client: &Client,
    id: &str,
    secrets: bool,
) -> Result<compute::DescribeResponse, Problem> {
    let what = format!("{id} cannot be shown");
    let request = compute::DescribeRequest { workload_id: id.to_owned(), secrets };
    match client.answer(client.compute().describe(request)).await {
        Ok(found) => return Ok(found),
        Err(status) if status.code() == Code::Unimplemented => {}
        Err(status) => return Err(client.refused(&what, &status)),
    }
    let request = wire::GetWorkloadRequest { workload_id: id.to_owned() };
    let found = client.ask(&what, client.control().get_workload(request)).await?;
    Ok(compute::DescribeResponse { workload: found.workload, ..Default::default() })
}

/// `list`.
pub(super) async fn list(shell: &Shell, list: &List) -> Result<u8, Problem> {
    let client = shell.client()?;
    let node = match &list.node {
        Some(typed) => find::node(&client, typed).await?.node_id,
        None => String::new(),
    };
    let request = wire::ListWorkloadsRequest {
        node_id: node,
        status: list.status.clone().unwrap_or_default(),
    };
    let once = || async {
        let mut control = client.control();
        let question = control.list_workloads(request.clone());
        let found = client.ask("workloads cannot be listed", question).await?;
        let views = found.workloads;
        Ok(if shell.output().is_data() {
            let all = views.iter().map(|view| show::control("WorkloadView", view)).collect();
            show::data(&Value::Array(all), shell.output())
        } else if list.quiet {
            let mut ids: Vec<&str> = views.iter().map(|view| view.workload_id.as_str()).collect();
            // A line end behind the last.
            ids.push("");
            ids.join("\n")
        } else {
            show::workload::list(&views, &found.note, (shell.wide(), SystemTime::now()))
        })
    };
    screen(shell, &client, list.watch, once).await
}

/// Shows a text once, or again and again as it changes.
pub(super) async fn screen<F>(
    shell: &Shell,
    client: &Client,
    watch: bool,
    once: impl Fn() -> F,
) -> Result<u8, Problem>
where
    F: Future<Output = Result<String, Problem>>,
{
    let mut shown = once().await?;
    if !watch {
        shell.print(&shown)?;
        return Ok(0);
    }
    draw(shell, &shown)?;
    let request = wire::WatchEventsRequest::default();
    let mut events = client.answer(client.control().watch_events(request)).await.ok();
    loop {
        let event = async {
            match &mut events {
                Some(stream) => stream.next().await.and_then(Result::ok).is_some(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shell.world.interrupted() => return Ok(0),
            alive = event => if !alive { events = None; },
            () = sleep(REDRAW) => {}
        }
        let now = once().await?;
        if now != shown {
            shown = now;
            draw(shell, &shown)?;
        }
    }
}

fn draw(shell: &Shell, text: &str) -> Result<(), Problem> {
    if shell.world.out_terminal && !shell.output().is_data() {
        // From the top of an empty screen.
        return shell.print(&format!("\u{1b}[2J\u{1b}[H{text}"));
    }
    shell.print(text)
}

/// `summary`.
pub(super) async fn summary(shell: &Shell) -> Result<u8, Problem> {
    let client = shell.client()?;
    let found = count(&client).await?;
    if shell.output().is_data() {
        shell.data(&show::control("GetClusterSummaryResponse", &found))?;
        return Ok(0);
    }
    let mut rows = vec![
        ("nodes", format!("{} ({} ready)", found.total_nodes, found.ready_nodes)),
        ("workloads", found.total_workloads.to_string()),
        ("running", found.running_workloads.to_string()),
        ("pending", found.pending_workloads.to_string()),
        ("failed", found.failed_workloads.to_string()),
        ("leaving", found.deleted_workloads.to_string()),
    ];
    if found.shadow_workloads > 0 {
        rows.push(("shadow", found.shadow_workloads.to_string()));
    }
    shell.print(&pairs(&rows))?;
    Ok(0)
}

/// The numbers of the cluster.
pub(super) async fn count(client: &Client) -> Result<wire::GetClusterSummaryResponse, Problem> {
    let request = wire::GetClusterSummaryRequest {};
    client.ask("the cluster cannot be counted", client.control().get_cluster_summary(request)).await
}

/// `status`.
pub(super) async fn status(shell: &Shell) -> Result<u8, Problem> {
    let client = shell.client()?;
    let what = "the scheduler's standing cannot be told";
    let request = compute::StandingRequest {};
    let found = client.ask(what, client.compute().standing(request)).await?;
    if shell.output().is_data() {
        shell.data(&show::compute("StandingResponse", &found))?;
        return Ok(0);
    }
    let brake = if found.brake {
        "on: too many nodes are silent, so nothing moves; `release-brake` lets it"
    } else {
        "off"
    };
    shell.print(&pairs(&[
        ("cluster", found.cluster),
        ("mode", found.mode),
        ("why", found.reason),
        ("role", found.role),
        ("leader", found.leader),
        ("since", show::moment::clock(found.since.as_ref())),
        ("brake", brake.to_owned()),
        ("heard", found.heard.join(", ")),
        ("term", found.term.to_string()),
        ("version", found.version),
        ("asked", client.whom),
    ]))?;
    Ok(0)
}
