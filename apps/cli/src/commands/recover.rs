//! `recover`: what a way out of recovery would do, and doing it.

use persys_proto::compute::v1 as compute;
use persys_proto::compute::v1::recover_input::Input;

use super::snapshot;
use crate::args::Recover;
use crate::problem::Problem;
use crate::shell::Shell;
use crate::show;

/// A piece of a snapshot on its way.
const PIECE: usize = 256 * 1024;

/// `recover`.
pub(super) async fn recover(shell: &Shell, wanted: &Recover) -> Result<u8, Problem> {
    let (way, words, file) = match &wanted.from_snapshot {
        Some(path) => {
            // Refused here already if anything is wrong with it, before it is sent anywhere.
            snapshot::read(path)?;
            let bytes = std::fs::read(path).map_err(|fault| {
                Problem::new(format!("{} cannot be read", path.display())).why(fault.to_string())
            })?;
            ("from_snapshot", format!("--from-snapshot {}", path.display()), bytes)
        }
        None if wanted.from_agents => ("from_agents", "--from-agents".to_owned(), Vec::new()),
        None => ("accept_empty", "--accept-empty".to_owned(), Vec::new()),
    };
    if !wanted.yes {
        let shown = ask(shell, way, true, &file).await?;
        if shell.output().is_data() {
            shell.data(&show::compute("RecoverResponse", &shown))?;
            return Ok(0);
        }
        shell.print(&show::plan::text(way, &shown.plan.unwrap_or_default()))?;
        if wanted.dry_run || !confirmed(shell).await {
            shell.line("\nnothing was changed; this does it:")?;
            shell.line(&format!("  {}", shell.typed(&format!("persys recover {words} --yes"))))?;
            return Ok(0);
        }
    }
    let answer = ask(shell, way, false, &file).await?;
    if shell.output().is_data() {
        shell.data(&show::compute("RecoverResponse", &answer))?;
        return Ok(0);
    }
    let plan = answer.plan.unwrap_or_default();
    if wanted.yes {
        shell.print(&show::plan::text(way, &plan))?;
        shell.line("")?;
    }
    shell.line(&answer.note)?;
    shell.line("next:")?;
    for command in ["persys status", "persys list", "persys drift list"] {
        shell.line(&format!("  {}", shell.typed(command)))?;
    }
    Ok(0)
}

async fn ask(
    shell: &Shell,
    way: &str,
    dry_run: bool,
    file: &[u8],
) -> Result<compute::RecoverResponse, Problem> {
    let client = shell.client()?;
    let message = |input| compute::RecoverInput { input: Some(input) };
    let start = compute::RecoverStart { way: way.to_owned(), dry_run };
    let mut messages = vec![message(Input::Start(start))];
    messages.extend(file.chunks(PIECE).map(|piece| message(Input::Data(piece.to_vec()))));
    let what = if dry_run { "no plan can be made" } else { "recovery cannot be left" };
    let answer = client.ask(what, client.compute().recover(tokio_stream::iter(messages))).await;
    answer.map_err(|problem| problem.next("persys status"))
}

/// Whether somebody at a terminal says yes.
async fn confirmed(shell: &Shell) -> bool {
    if !shell.world.in_terminal || !shell.world.out_terminal {
        return false;
    }
    shell.world.remark(b"\nType yes to do this: ");
    let mut keys = shell.world.keys();
    let mut typed = Vec::new();
    while !typed.contains(&b'\n')
        && let Some(piece) = keys.recv().await
    {
        typed.extend_from_slice(&piece);
    }
    typed.trim_ascii() == b"yes"
}
