//! `history`, `diff` and `rollback`.

use std::time::SystemTime;

use persys_proto::compute::v1 as compute;

use super::{find, submit};
use crate::args::{Diff, History, Rollback};
use crate::problem::Problem;
use crate::shell::Shell;
use crate::show;
use crate::wait;
use crate::wait::judge::Goal;

/// `history`.
pub(super) async fn list(shell: &Shell, wanted: &History) -> Result<u8, Problem> {
    let client = shell.client()?;
    let workload_id = find::workload(&client, &wanted.id).await?.workload_id;
    let what = format!("the revisions of {workload_id} cannot be listed");
    let request = compute::ListRevisionsRequest { workload_id: workload_id.clone() };
    let found = client.ask(&what, client.history().list_revisions(request)).await?;
    if shell.output().is_data() {
        shell.data(&show::compute("ListRevisionsResponse", &found))?;
        return Ok(0);
    }
    shell.print(&show::history::list(&found.revisions, (shell.wide(), SystemTime::now())))?;
    if found.unreadable > 0 {
        shell.world.note(&format!("warning: {} records cannot be read", found.unreadable));
    }
    Ok(0)
}

/// `diff`.
pub(super) async fn diff(shell: &Shell, wanted: &Diff) -> Result<u8, Problem> {
    let client = shell.client()?;
    let workload_id = find::workload(&client, &wanted.id).await?.workload_id;
    let what = format!("the revisions of {workload_id} cannot be compared");
    let request = compute::DiffRequest {
        workload_id: workload_id.clone(),
        from: wanted.from.unwrap_or_default(),
        to: wanted.to.unwrap_or_default(),
        secrets: wanted.secrets,
    };
    let found = client.ask(&what, client.history().diff(request)).await?;
    if shell.output().is_data() {
        shell.data(&show::compute("DiffResponse", &found))?;
        return Ok(0);
    }
    let compute::DiffResponse { from, to, differences } = found;
    let mut text = format!("{workload_id}: revision {from} and revision {to}");
    text.push_str(if differences.is_empty() { " have the same content\n" } else { "\n" });
    text.push_str(&show::history::differences(&differences, "  "));
    shell.print(&text)?;
    Ok(0)
}

/// `rollback`.
pub(super) async fn rollback(shell: &Shell, wanted: &Rollback) -> Result<u8, Problem> {
    let client = shell.client()?;
    let id = find::workload(&client, &wanted.id).await?.workload_id;
    let mark = wait::mark(&client).await;
    let what = format!("{id} was not rolled back");
    let request = compute::RollbackRequest {
        workload_id: id.clone(),
        number: wanted.number.unwrap_or_default(),
    };
    let done = client.ask(&what, client.history().rollback(request)).await?;
    if !shell.output().is_data() {
        let (to, number) = (done.rolled_back_to, done.number);
        shell.line(&format!("{id} goes back to revision {to}, which is revision {number} now"))?;
        if !done.note.is_empty() {
            shell.line(&done.note)?;
        }
    }
    let view = wait::view(&client, &id).await;
    let stopped = view.is_some_and(|view| view.desired_state == "Stopped");
    if wanted.detach || stopped {
        if shell.output().is_data() {
            shell.data(&show::compute("RollbackResponse", &done))?;
        }
        return Ok(0);
    }
    let ended = Box::pin(wait::wait(shell, &client, (&id, Goal::Running), mark)).await?;
    let mut shown = Vec::new();
    let told = (id.as_str(), Goal::Running);
    let code = submit::tell(shell, &client, told, (ended, Vec::new()), &mut shown).await?;
    if let Some(one) = shown.pop().filter(|_| shell.output().is_data()) {
        shell.data(&one)?;
    }
    Ok(code)
}
