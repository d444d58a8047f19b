//! `top`: the cluster on one screen, as it changes.
//!
//! ```text
//!   every 2 s                                     keys
//!   heard ──► Heard ──┐                            │
//!                     ▼                            ▼
//!                   State ── view(state, now) ──► View ──► draw ──► terminal, or text
//! ```
//!
//! What is seen is decided in `view`, from values alone; `draw` only puts it somewhere. A scheduler
//! that is gone leaves the last picture standing, and how old it is.

mod draw;
mod heard;
mod live;
mod state;
#[cfg(test)]
mod tests;
mod view;

use std::time::SystemTime;

use serde_json::json;

use self::heard::{Asked, Heard};
use self::state::State;
use crate::args::Top;
use crate::problem::Problem;
use crate::shell::{self, Shell};
use crate::show;

/// Columns of a picture that no terminal shows.
const COLUMNS: u16 = 120;

/// `top`.
pub(crate) async fn run(shell: &Shell, wanted: &Top) -> Result<u8, Problem> {
    // Remarks about old answers would be written across the picture, which says the same.
    let client = shell.client()?.silent();
    let color = shell::color(&shell.world, &shell.global);
    let terminal = shell.world.out_terminal && shell.world.in_terminal;
    if terminal && !wanted.once && !shell.output().is_data() {
        return live::run(shell, &client, State::new(color)).await;
    }
    let heard = match heard::ask(&client).await {
        Asked::Heard(heard) => *heard,
        Asked::Missed(problem) => return Err(problem),
    };
    if shell.output().is_data() {
        shell.data(&told(&heard))?;
        return Ok(0);
    }
    let now = SystemTime::now();
    let mut state = State::new(false);
    state.hear(Asked::Heard(Box::new(heard)), now);
    let columns = shell.world.var("COLUMNS").and_then(|text| text.parse().ok()).unwrap_or(COLUMNS);
    shell.print(&draw::text(&view::view(&state, now), columns))?;
    Ok(0)
}

/// All that was heard, as a program reads it.
fn told(heard: &Heard) -> serde_json::Value {
    let nodes = heard.nodes.as_deref().unwrap_or_default();
    let workloads = heard.workloads.as_deref().unwrap_or_default();
    let missing: Vec<_> =
        [heard.standing.as_ref().err(), heard.nodes.as_ref().err(), heard.workloads.as_ref().err()]
            .into_iter()
            .flatten()
            .collect();
    json!({
        "standing": heard.standing.as_ref().ok().map(|one| show::compute("StandingResponse", one)),
        "nodes": nodes.iter().map(|one| show::control("NodeView", one)).collect::<Vec<_>>(),
        "workloads":
            workloads.iter().map(|one| show::control("WorkloadView", one)).collect::<Vec<_>>(),
        "missing": missing,
    })
}
